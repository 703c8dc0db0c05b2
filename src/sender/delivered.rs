//! What mail servers make of a sender field when they deliver it, after the milter has read it.
//!
//! * **Lines are broken.** Postfix's smtp(8) and lmtp(8) break a line of more than 998 bytes behind 998
//!   (`smtp_text_out` in `smtp_proto.c`), Sendmail's SMTP mailers one of more than 990 behind 989, its
//!   mailer relay one of more than 2,040 behind 2,039, with a `!` before the break (`putxline` in `util.c`,
//!   L=). In all the next line begins with a blank, which counts. The name of the field counts, too, and so does the blank behind its colon, of which
//!   a milter is not told. The last backslash of a line then escapes that blank or `!`, so that a quoted
//!   name ends elsewhere.
//! * **Lists are laid out.** Sendmail ends a mailbox at a comma, and also behind a token of more than
//!   256 bytes, a quoted string with its quotes, and begins the next on a line of its own with eight blanks
//!   (`commaize` in `headers.c`). A longer mailbox is cut at 256 bytes (`remotename` in `parseaddr.c`); where
//!   its name alone is that long, the name goes, and the address is cut. All measured with 8.17.1.9.
//! * **Stray marks go.** For Sendmail, a backslash escapes a quote or parenthesis outside quotes, too: it makes
//!   `x \" <a@b>` a quoted name and a mailbox. It drops a `>` or `)` that closes nothing: `a@>b` is a@b.
//! * **Addresses are rewritten** by Sendmail, and by Postfix's cleanup(8) when a content filter brings
//!   the message back, which joins words. One without `@` is at the host before its first `!`, or
//!   behind its last `%`: `c.example!b!a` is b!a@c.example. Where words stand side by side, a dot joins
//!   them: `mal lory@bad.example` is mal.lory@bad.example (its option BlankSub).
//!
//! A field counts as it came, and in each of these forms. Any server may pass mail on to another, so
//! breaks, escapes, `!` and `%` always count, the last two only with a host that has a dot. New commas, cuts, and
//! dots between words count where Sendmail asks. An ordinary field costs one comparison of lengths.

use super::flat::{Flat, is_in_word, joined};
use blocklist_filter::rfc5322::{Nesting, Role};

/// No line of a shorter value is broken.
pub(super) const SHORTEST_BROKEN: usize = 960;
/// Stands for a blank outside quotes.
const APART: u8 = b'\0';
/// Between two words: nothing, as Postfix's cleanup(8) joins them, a mark, or the dot of Sendmail.
pub(super) const JOINED: Option<u8> = None;
pub(super) const WORDS: Option<u8> = Some(APART);
pub(super) const BLANK_SUB: Option<u8> = Some(b'.');
/// Sendmail ends a mailbox behind a longer token, and cuts a longer mailbox.
pub(super) const LONGEST_TOKEN: usize = 256;
/// Sendmail cannot parse a mailbox with more bytes and tokens together (`PSBUFSIZE`, 1,256, less an end).
const LONGEST_PARSED: usize = 1250;

/// How a server breaks a line: one with more bytes than `longest`, behind the first `kept`.
#[derive(Clone, Copy)]
pub(super) struct Breaks {
    longest: usize,
    kept: usize,
    mark: &'static [u8],
    /// Whether the server lays lists out before.
    pub(super) is_laid_out: bool,
}

/// Every mailer that breaks lines.
pub(super) const BREAKS: [Breaks; 3] = [
    Breaks {
        longest: 998,
        kept: 998,
        mark: b"\n ",
        is_laid_out: false,
    },
    Breaks {
        longest: 990,
        kept: 989,
        mark: b"!\n ",
        is_laid_out: true,
    },
    Breaks {
        longest: 2040,
        kept: 2039,
        mark: b"!\n ",
        is_laid_out: true,
    },
];

impl Breaks {
    /// Returns the value with its long lines broken; `None` if it has none. Other bytes stand before
    /// it in its first line.
    pub(super) fn apply(self, value: &[u8], before: usize) -> Option<Vec<u8>> {
        let mut broken = Vec::new();
        let mut column = before;
        for line in value.split_inclusive(|&byte| byte == b'\n') {
            let mut rest = line;
            while column + rest.trim_ascii_end().len() > self.longest {
                let (head, tail) = rest.split_at(self.kept - column);
                broken.extend_from_slice(head);
                broken.extend_from_slice(self.mark);
                (rest, column) = (tail, 1);
            }
            broken.extend_from_slice(rest);
            column = 0;
        }
        (broken.len() > value.len()).then_some(broken)
    }
}

/// Returns the value without the quotes and parentheses that are escaped outside quotes, and without the
/// brackets and parentheses that close nothing; `None` if it has none.
pub(super) fn without_stray(value: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr3(b'\\', b'>', b')', value)?;
    let mut nesting = Nesting::with_escapes_outside();
    let mut text = Vec::with_capacity(value.len());
    let mut angles = 0_usize;
    for &byte in value {
        match (nesting.step(byte), byte) {
            (Role::Escaped, b'"' | b'(') if nesting.is_outside() => {
                text.push(b'x');
                continue;
            }
            (Role::Outside, b'<') => angles += 1,
            (Role::Outside, b'>') if angles > 0 => angles -= 1,
            (Role::Outside, b'>' | b')') => continue,
            _ => {}
        }
        text.push(byte);
    }
    (text != value).then_some(text)
}

/// A list as Sendmail lays it out.
pub(super) struct LaidOut {
    pub(super) text: Vec<u8>,
    /// Where its mailboxes begin, and how many tokens each has.
    starts: Vec<(usize, usize)>,
    /// Whether it has new commas.
    pub(super) is_split: bool,
}

impl LaidOut {
    pub(super) fn of(value: &[u8]) -> Self {
        const NEXT: &[u8] = b",\n        ";
        let mut text = Vec::with_capacity(value.len() * 2);
        let (mut starts, mut is_split, mut tokens) = (Vec::new(), false, 0);
        let mut start = 0;
        let mut nesting = Nesting::with_escapes_outside();
        let (mut angles, mut token, mut was_quoted, mut begins) = (0_usize, 0, false, false);
        for (index, &byte) in value.iter().enumerate() {
            let outside = nesting.is_outside();
            let role = nesting.step(byte);
            let is_quoted = nesting.is_in_quotes() || (byte == b'"' && !outside);
            let is_special = role == Role::Outside && !is_in_word(byte);
            let in_token = is_quoted || (nesting.is_outside() && !is_special && byte != b')');
            let is_comma = byte == b',' && is_special && angles == 0;
            let is_long = token > LONGEST_TOKEN;
            if is_long && is_special && matches!(byte, b'>' | b')') {
                // It closes nothing, or nothing any more.
                text.push(byte);
                angles = angles.saturating_sub(usize::from(byte == b'>'));
                continue;
            }
            if !in_token || is_quoted != was_quoted {
                let is_long =
                    is_long && !is_comma && !value[index..].trim_ascii_start().starts_with(b"@");
                if is_long || is_comma {
                    text.extend_from_slice(NEXT);
                    starts.push((start, tokens));
                    (start, tokens, angles) = (text.len(), 0, 0);
                }
                is_split |= is_long;
                begins |= is_long || is_comma;
                token = 0;
            }
            tokens += usize::from(token == 0 && !byte.is_ascii_whitespace());
            token += usize::from(in_token);
            was_quoted = is_quoted;
            begins &= is_comma || byte.is_ascii_whitespace();
            if begins {
                continue;
            }
            match byte {
                b'<' if is_special => angles += 1,
                b'>' if is_special => angles = angles.saturating_sub(1),
                _ => {}
            }
            text.push(byte);
        }
        starts.push((start, tokens));
        Self {
            text,
            starts,
            is_split,
        }
    }

    /// Iterates over what Sendmail leaves of mailboxes that are too long for it. What its parser makes of the
    /// rest has some bytes less.
    pub(super) fn cut(&self) -> impl Iterator<Item = &[u8]> {
        const ENDS: std::ops::RangeInclusive<usize> = LONGEST_TOKEN - 2..=LONGEST_TOKEN;
        // With so many bytes before the address, the name goes.
        const LONGEST_NAME: usize = LONGEST_TOKEN - 4;
        let ends = self.starts.iter().skip(1).map(|(start, _)| *start);
        let mailboxes = self.starts.iter().zip(ends.chain([self.text.len()]));
        mailboxes.flat_map(|(&(start, tokens), end)| {
            let mailbox = &self.text[start..end];
            let is_parsed = mailbox.len() + tokens <= LONGEST_PARSED;
            let angle = memchr::memrchr(b'<', mailbox).unwrap_or(0);
            let left = match is_parsed && angle >= LONGEST_NAME {
                true => &mailbox[angle..],
                false => mailbox,
            };
            // In a name or a comment, the cut changes no address.
            let mut nesting = Nesting::with_escapes_outside();
            for &byte in left.iter().take(*ENDS.start()) {
                nesting.step(byte);
            }
            ENDS.filter(move |end| *end < left.len() && (nesting.is_outside() || !is_parsed))
                .map(|end| &left[..end])
        })
    }
}

/// Returns the address that Sendmail makes of a mailbox, the inside of its brackets or a text without
/// any; `blank` joins its words. One with an `@` changes only by [`BLANK_SUB`].
pub(super) fn rewritten(mailbox: &[u8], blank: Option<u8>) -> Option<Vec<u8>> {
    let flat = Flat::of(&[b"<", mailbox].concat(), blank)?;
    let text = flat.text.as_slice();
    if let Some(at) = flat.at {
        let local = &text[..at];
        let local = local.strip_suffix(b".").unwrap_or(local);
        return (blank == BLANK_SUB).then(|| joined(local, &text[at + 1..]));
    }
    // Without the dots, other words stand beside the address.
    let word = |at: usize| {
        let from = memchr::memrchr(APART, &text[..at]).map_or(0, |blank| blank + 1);
        let to = memchr::memchr(APART, &text[at..]).map_or(text.len(), |blank| at + blank);
        (&text[from..at], &text[at + 1..to])
    };
    let has_dot = |host: &[u8]| host.contains(&b'.');
    let by_bang = flat.bang.map(word).filter(|(host, _)| has_dot(host));
    let by_percent = flat.percent.map(word).filter(|(_, host)| has_dot(host));
    let (local, host) = by_bang.map(|(host, local)| (local, host)).or(by_percent)?;
    Some(joined(local, host))
}
