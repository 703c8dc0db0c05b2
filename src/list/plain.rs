//! Plain lists: what people write and most feeds send.
//!
//! ```text
//!   spam@bad.example                     an entry a line: a@b  a@  @b  b  .b  *.b  *@b
//!   Bad Sender <spam@bad.example>        as mail programs write it; mailto:spam@bad.example
//!   a@bad.example, b@bad.example; c@d    several, between commas or semicolons
//!   spam@bad.example # why               comments: # and ; at the start or after white space
//!   spam@bad.example REJECT              an action, a score or a date after the entry
//!   spam@bad.example # expires 2026-12-24   the first day on which it is no longer listed;
//!                                        in a comment before the first entry: of all of them
//! ```
//!
//! Lists of qmail (`badmailfrom`), OpenSMTPD and Haraka are plain lists.
//!
//! The order of the questions is the order of safety: a line that allows a sender
//! lists nobody, whatever else stands on it.

use super::action::Action;
use super::day::Day;
use super::entry::{Wildcards, characters, is_part_of, looks_like_entry};
use super::label::{Before, Meaning, before};
use super::out::Out;
use super::reject_reason::RejectReason;
use super::row::{RawEntry, Row, Skip};
use super::section_heading::{Heading, heading, is_allowance_of_record, open_comment};
use super::status::{is_past, is_phrase_of_allowance};
use super::words::{Nesting, Words};

/// The byte order mark that editors put before UTF-8.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads one line. Generic, and with a way of its own for lines that are nothing but
/// an entry, since lists of a hundred million lines pass here.
#[inline]
pub(super) fn read<F>(line: &[u8], number: u64, sink: &mut F)
where
    F: FnMut(u64, Row<'_>),
{
    let characters = characters(line);
    if characters.at && !characters.special && !line.starts_with(BOM) {
        sink(number, Row::Entry(RawEntry::new(line)));
    } else if !characters.at && !characters.special && !line.is_empty() && !line.starts_with(BOM) {
        // One word, and no separator, comment or quote: a domain, or `OK`.
        let mut out = Out::new(number, line, sink);
        match Action::of(line) {
            Some(Action::Allow) => entries(line, &mut out),
            _ => out.entry(line),
        }
    } else {
        let line = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
        entries(line, &mut Out::new(number, line, sink));
    }
}

/// Whether a text, put into a list, is read as it is: no character of it means anything else there.
pub(crate) fn is_read_as_written(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_alphanumeric() || "@.!$%&'*+-/=?^_`{|}~".contains(c))
}

/// What a line is on which there is nothing to read: blank, or a comment.
pub(super) fn nothing(line: &[u8]) -> Skip {
    if line.is_empty() {
        Skip::Blank
    } else {
        Skip::Comment
    }
}

/// Tells the lines of a table from those that go on with the line before: these are indented. Where
/// the first line is, indentation means nothing.
#[derive(Debug, Default)]
pub(super) struct Indentation {
    /// Whether the first line is indented; unknown before it.
    of_list: Option<bool>,
}

impl Indentation {
    /// The text of a line, and whether it is indented as none that begins; blank lines and comments
    /// are skipped.
    pub(super) fn read<'a>(
        &mut self,
        line: &'a [u8],
        out: &mut Out<'_>,
    ) -> Option<(&'a [u8], bool)> {
        let line = line.strip_prefix(BOM).unwrap_or(line);
        let text = line.trim_ascii();
        if text.is_empty() || text.first() == Some(&b'#') {
            out.skip(nothing(text));
            return None;
        }
        let is_indented = line.first().is_some_and(u8::is_ascii_whitespace);
        let is_list_indented = *self.of_list.get_or_insert(is_indented);
        Some((text, is_indented && !is_list_indented))
    }
}

/// Reads a text that continues the line before. An entry alone on it may be meant as a line.
pub(super) fn continuation(text: &[u8], out: &mut Out<'_>) {
    let mut words = Words(text);
    if words.next().is_some_and(looks_like_entry) && words.next().is_none() {
        out.reject(RejectReason::Indented, text);
    } else {
        out.skip(Skip::Continuation);
    }
}

/// Reads the entries of a trimmed line.
pub(super) fn entries(line: &[u8], out: &mut Out<'_>) {
    if let Some(Heading {
        meaning: Meaning::Skipped(_),
        ..
    }) = heading(line)
    {
        return out.reject(RejectReason::LateHeading, line);
    }
    if open_comment(line).is_some() {
        return out.reject(RejectReason::LateHeading, line);
    }
    if is_allowance_of_record(line) {
        return out.reject(RejectReason::LateLine, line);
    }
    match line {
        [b'#' | b';', comment @ ..] => {
            return match expiry_in(comment) {
                // Many lists say `# Expires: 1 day`: when to fetch them again.
                Some(Err(reason)) if looks_like_date(comment) => out.reject(reason, line),
                Some(Ok(Some(day))) => out.reject(RejectReason::ListExpires(day), line),
                None | Some(Ok(None) | Err(_)) => out.skip(Skip::Comment),
            };
        }
        [] => return out.skip(Skip::Blank),
        // `! comment` (adblock), `!friend@good.example` (exim, rbldnsd).
        [b'!'] | [b'!', b' ' | b'\t', ..] => return out.skip(Skip::Comment),
        [b'!', ..] => return out.skip(Skip::Allow),
        _ => {}
    }
    // Its semicolon would cut a character reference of HTML into two entries.
    if memchr::memmem::find(line, b"&#").is_some() {
        return out.reject(RejectReason::DomainSigns, line);
    }
    let line = match before(line) {
        Before::Entries(line) => line,
        Before::Skip(skip) => return out.skip(skip),
        Before::Unknown => return out.reject(RejectReason::Words, line),
    };
    let mut pieces = Pieces::new(line);
    if pieces.any(allows) {
        return out.skip(Skip::Allow);
    }
    if pieces.comment.is_some_and(is_cleared) {
        return out.reject(RejectReason::UnclearWord, line);
    }
    let expires = match pieces.comment.and_then(expiry_in) {
        Some(Ok(expires)) => expires,
        Some(Err(reason)) => return out.reject(reason, line),
        None => None,
    };
    let mut pieces = Pieces::new(line);
    let count = pieces.clone().take(3).count();
    let is_alone = count < 2;
    let mut is_blank = true;
    for piece in pieces.by_ref() {
        is_blank = false;
        // `bad.example, spam@bad.example` may be a row of a table, which repeats the domain.
        if count == 2 && Pieces::new(line).any(|other| is_part_of(piece, other)) {
            out.skip(Skip::Mention);
            continue;
        }
        read_piece(piece, is_alone, expires, out);
    }
    if is_blank {
        // Nothing but separators.
        out.skip(Skip::Blank);
    }
    if let Some(text) = pieces.doubtful {
        out.reject(RejectReason::Semicolon, text);
    }
}

/// The day of expiry that a comment gives: `expires 2026-12-24`, `Expires: 24.12.2026`. None
/// for any other comment, such as `expires soon`.
fn expiry_in(comment: &[u8]) -> Option<Result<Option<Day>, RejectReason>> {
    let comment = comment.trim_ascii_start();
    let (word, rest) = comment.split_at_checked(b"expires".len())?;
    if !word.eq_ignore_ascii_case(b"expires") {
        return None;
    }
    let date = rest.trim_ascii_start();
    let date = date.strip_prefix(b":").unwrap_or(date).trim_ascii();
    if !date.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    Some(Day::read_expiry(date).ok_or(RejectReason::Date))
}

/// Whether what a comment says of expiry is meant to be a date: `2026-02-30`, not `1 day`.
fn looks_like_date(comment: &[u8]) -> bool {
    let word = comment.split(|b| b.is_ascii_whitespace() || *b == b':');
    let mut word = word.filter(|word| word.first().is_some_and(u8::is_ascii_digit));
    word.next().is_some_and(|word| {
        word.len() >= 8
            && word
                .iter()
                .all(|b| b.is_ascii_digit() || b"-./".contains(b))
    })
}

/// The day of expiry of a whole plain list, from the comments before its first entry. `head`
/// is the beginning of the list.
#[must_use]
pub fn expiry(head: &[u8]) -> Option<Day> {
    let head = head.strip_prefix(BOM).unwrap_or(head);
    super::lines(head)
        .map(<[u8]>::trim_ascii)
        .take_while(|line| matches!(line, [] | [b'#' | b';', ..]))
        .filter_map(<[u8]>::split_first)
        .find_map(|(_, comment)| expiry_in(comment)?.ok()?)
}

/// Whether a piece of a line lets somebody pass: `OK` between commas, or
/// `friend@good.example OK`.
fn allows(piece: &[u8]) -> bool {
    let allow = |word| Action::of(word) == Some(Action::Allow);
    if piece.contains(&b'<') {
        // Words before an angle bracket are somebody's name.
        return false;
    }
    if is_phrase_of_allowance(piece) {
        return true;
    }
    let mut words = Words(piece);
    match (words.next(), words.next()) {
        (Some(first), None) => allow(first),
        (Some(first), Some(second)) => {
            allow(first) || allow(second) || Action::of_score(second) == Some(Action::Allow)
        }
        (None, _) => false,
    }
}

/// Whether a comment has nothing in it but an allowance: `(allowed)`.
fn allows_in_comment(comment: &[u8]) -> bool {
    let comment = comment.trim_ascii();
    Action::of(comment) == Some(Action::Allow) || is_phrase_of_allowance(comment)
}

/// Whether a comment, with or without its sign, begins with words that take the entry off the
/// list: `# whitelisted 2026-02-02`, `# REMOVED`, `# not spam, a mistake`.
pub(super) fn is_cleared(comment: &[u8]) -> bool {
    let is_sign = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'#' | b';');
    let start = comment.iter().position(|b| !is_sign(b));
    let comment = start
        .and_then(|start| comment.get(start..))
        .unwrap_or_default();
    if comment.is_empty() {
        return false;
    }
    if allows_in_comment(comment) {
        return true;
    }
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
    let end = comment.iter().position(|b| !is_part(b));
    let (word, rest) = comment.split_at(end.unwrap_or(comment.len()));
    let is = |words: &[&str]| {
        words
            .iter()
            .any(|w| w.as_bytes().eq_ignore_ascii_case(word))
    };
    if is(BEGINNINGS) {
        // Two to four words may be a phrase of their own.
        let ends = comment.iter().enumerate().skip(1);
        let mut ends = ends.filter(|(_, b)| !is_part(b)).skip(1).take(3);
        return ends.any(|(end, _)| is_phrase_of_allowance(comment.get(..end).unwrap_or_default()));
    }
    // `relay` is also a noun; `old spammer` says nothing of the entry.
    Action::of(word) == Some(Action::Allow) && !is(&["relay"])
        || is_past(word)
            && (!is(&["archived", "closed", "expired", "old", "past", "released"])
                || !rest
                    .trim_ascii()
                    .first()
                    .is_some_and(u8::is_ascii_alphabetic))
}

/// Words with which phrases of allowance begin.
const BEGINNINGS: &[&str] = &[
    "do", "false", "known", "never", "no", "non", "not", "lista", "liste",
];

/// What stands in brackets at the end of a piece: `friend@good.example (allowed)`.
fn bracketed(piece: &[u8]) -> Option<&[u8]> {
    let inner = piece.strip_suffix(b")")?;
    inner.get(memchr::memrchr(b'(', inner)? + 1..)
}

/// Reads what stands between two commas, or alone on its line.
fn read_piece(piece: &[u8], is_alone: bool, expires: Option<Day>, out: &mut Out<'_>) {
    let piece = match before(piece) {
        Before::Entries(piece) => piece,
        Before::Skip(skip) => return out.skip(skip),
        Before::Unknown => return out.reject(RejectReason::Words, piece),
    };
    let item_of = |text| RawEntry {
        expires,
        ..RawEntry::new(without_query(text))
    };
    if bracketed(piece).is_some_and(allows_in_comment) {
        return out.reject(RejectReason::UnclearWord, piece);
    }
    if piece.contains(&b'<') || piece.contains(&b'(') {
        return out.raw_entry(item_of(piece), Wildcards::Star);
    }
    let mut words = Words(piece);
    let Some(first) = words.next() else { return };
    let mut item = item_of(first);
    if first.contains(&b'@') && words.clone().all(|word| word.contains(&b'@')) {
        out.raw_entry(item, Wildcards::Star);
        return words.for_each(|word| out.raw_entry(item_of(word), Wildcards::Star));
    }
    if !is_alone && !first.contains(&b'@') && !first.contains(&b'.') && first.is_ascii() {
        return out.reject(RejectReason::NotADomain, piece);
    }
    for (place, word) in words.enumerate() {
        let action = Action::of(word).or_else(|| Action::of_score(word));
        match (action, Day::read(word)) {
            (_, Some(day)) => item.added = Some(day),
            (Some(action), _) if place == 0 => {
                if let Some(skip) = action.skip() {
                    return out.skip(skip);
                }
                if Action::of(word).is_some() {
                    // The rest is the text of the reply.
                    break;
                }
            }
            // A second number beside a score or a count.
            (Some(_), _) if Action::of(word).is_none() => {}
            _ => return out.reject(RejectReason::Trailing, piece),
        }
    }
    out.raw_entry(item, Wildcards::Star);
}

/// `mailto:a@b?subject=x` is a link to `a@b`.
fn without_query(text: &[u8]) -> &[u8] {
    let is_link = text
        .get(..7)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"mailto:"));
    match memchr::memchr(b'?', text) {
        Some(query) if is_link => text.get(..query).unwrap_or(text),
        _ => text,
    }
}

/// The pieces of a line between commas and semicolons, up to its comment.
#[derive(Clone)]
pub(super) struct Pieces<'a> {
    rest: &'a [u8],
    /// What followed a semicolon that may begin a comment or separate addresses.
    doubtful: Option<&'a [u8]>,
    /// What follows the sign of a comment.
    comment: Option<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self {
            rest: line,
            doubtful: None,
            comment: None,
        }
    }

    /// The next piece, perhaps empty.
    fn cut(&mut self) -> &'a [u8] {
        let mut nesting = Nesting::new();
        let mut before = 0;
        for (at, &byte) in self.rest.iter().enumerate() {
            let apart = before == b' ' || before == b'\t';
            before = byte;
            if !nesting.step(byte) {
                continue;
            }
            let (piece, after) = self.rest.split_at(at);
            match byte {
                b'#' if apart => {
                    self.rest = &[];
                    self.comment = after.get(1..);
                    return piece;
                }
                b';' if apart => {
                    self.rest = &[];
                    self.doubtful = after.contains(&b'@').then_some(after);
                    self.comment = after.get(1..);
                    return piece;
                }
                b',' | b';' => {
                    self.rest = after.get(1..).unwrap_or_default();
                    return piece;
                }
                _ => {}
            }
        }
        // An unclosed quote or bracket runs to the end of the line.
        std::mem::take(&mut self.rest)
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let piece = self.cut().trim_ascii();
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        None
    }
}
