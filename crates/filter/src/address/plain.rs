//! The fast path, for addresses that differ from their canonical form at most in letter case.
//!
//! Nearly every address does: ASCII letters, digits and `+ - . _` around one `@`, and nothing that
//! a rule of the full path changes. It is converted to lower case, sixteen bytes at a time. This
//! module does not know the rules: it declines every address that a rule might change, and the full
//! path reads it. A property test compares the two paths.
//!
//! `compile/read/block.rs` reads whole lists, a block at a time, with the same byte classes.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, mask8x16, u8x16};

use super::domain::MAX_DOMAIN_BYTES;
use super::kind::Kind;
use super::providers::leave_alone;
use super::rules::Rules;
use crate::rfc5322::{is_atext, quote};

/// The longest plain address in bytes (RFC 5321 section 4.5.3.1: 64 and 255, and the `@`).
pub const MAX_BYTES: usize = 320;

/// Number of bytes of one address processed together: half of what it has, on average.
const LANES: usize = 16;

/// The instructions that every processor of this kind has. To choose others costs more than sixteen
/// bytes of an address take.
const LEVEL: Level = Level::baseline();

/// The classes of several bytes in a plain address. Each byte is in at most one class.
pub struct Classes<S: Simd, V: SimdInt<S, Element = u8>> {
    /// The bytes, with ASCII letters in lower case.
    pub lowered: V,
    /// A byte of a word: a letter, a digit, `-`, `_`.
    pub word: V::Mask,
    /// A `+`, which is part of a word, but of no domain.
    pub(crate) plus: V::Mask,
    /// A `.`, which needs a word on each side.
    pub dot: V::Mask,
    /// The `@`, which needs a word on each side.
    pub at: V::Mask,
}

// Code for the instructions of one processor must be inlined where they are chosen.
impl<S: Simd, V: SimdInt<S, Element = u8>> Classes<S, V> {
    #[inline(always)]
    pub fn of(bytes: V) -> Self {
        let is = |byte| bytes.simd_eq(byte);
        let in_lower_case = bytes | 0x20;
        let letter = within(in_lower_case, b'a', b'z');
        // The range from `-` to `9` has the digits, `.`, `/` and `-`.
        let dot = is(b'.');
        let digit = within(bytes, b'-', b'9') & !(dot | is(b'/'));
        Self {
            lowered: letter.select(in_lower_case, bytes),
            word: letter | digit | is(b'_'),
            plus: is(b'+'),
            dot,
            at: is(b'@'),
        }
    }
}

#[inline(always)]
fn within<S: Simd, V: SimdInt<S, Element = u8>>(bytes: V, first: u8, last: u8) -> V::Mask {
    (bytes - first).simd_le(last - first)
}

/// Returns whether this byte separates two words of a plain address.
pub const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'@' | b'.')
}

/// Writes a plain address to `out`, in lower case, and returns the position of its `@`. Without one
/// the content of `out` must not be used.
#[inline]
pub fn lower_line(address: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    dispatch!(LEVEL, simd => lower_line_by(simd, address, out))
}

#[inline(always)]
fn lower_line_by<S: Simd>(simd: S, address: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.clear();
    out.reserve(address.len() + LANES);
    let seen = look(simd, address, |start, lowered| {
        out.truncate(start);
        out.extend_from_slice(&lowered);
    });
    out.truncate(address.len());
    seen.filter(|seen| seen.at.is_some())?.at
}

/// Looks at a text of words and separators, and visits its chunks in lower case, each with its place:
/// the last may repeat bytes of the one before, and bytes may follow the end of the text.
#[inline(always)]
fn look<S: Simd>(simd: S, text: &[u8], mut visit: impl FnMut(usize, [u8; LANES])) -> Option<Seen> {
    let mut seen = Seen {
        is_stray: false,
        // A separator at the start has no word before it.
        last_is_separator: 1,
        at: None,
        after_plus: 0,
        has_dot: false,
    };
    let (chunks, rest) = text.as_chunks();
    let mut start = 0;
    for chunk in chunks {
        let classes = Classes::of(u8x16::load_array(simd, *chunk));
        seen.add(start, &classes, 0);
        visit(start, classes.lowered.to_array());
        start += LANES;
    }
    if !rest.is_empty() {
        // The last chunk begins before `start`, and its lanes before that are ignored. The bytes
        // stay in the vector register.
        let (chunk, seen_lanes) = match text.last_chunk() {
            Some(chunk) => (*chunk, LANES - rest.len()),
            None => (padded(rest), 0),
        };
        let classes = Classes::of(u8x16::load_array(simd, chunk));
        seen.add(start, &classes, seen_lanes);
        visit(start - seen_lanes, classes.lowered.to_array());
    }
    let ends_in_word = !text.last().is_none_or(|&byte| is_separator(byte));
    (!seen.is_stray && ends_in_word).then_some(seen)
}

/// An entry of a list that is its canonical text but for letter case and for what shows its kind:
///
/// ```text
///   a@b   "a b"@b          a mailbox, but where a rule of its provider may change it
///   b     @b     *@b       a domain
///   .b    *.b              a subtree
/// ```
///
/// Whatever a reader of lists may refuse or a rule may change is declined, and so are addresses with
/// quotes or letters beyond ASCII, but for a few usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainEntry<'t> {
    kind: Kind,
    /// The content of a local part that needs quotes or has needless ones; else empty.
    inner: &'t [u8],
    needs_quotes: bool,
    /// What comes before the rest: the `@` or dot of a domain that is written without.
    sign: Option<u8>,
    /// `a@b`, `@b`, `.b`, or a domain behind a sign; the place of its `@` in a mailbox.
    rest: &'t [u8],
    at: usize,
}

impl<'t> PlainEntry<'t> {
    /// Returns the entry that a text (trimmed) is, unless it must be read in full.
    #[inline]
    pub fn of(written: &'t [u8]) -> Option<Self> {
        let rest = match written {
            [b'*', rest @ ..] if matches!(rest, [b'@' | b'.', ..]) => rest,
            written => written,
        };
        let (kind, name) = match rest {
            [b'@', name @ ..] => (Kind::Domain, name),
            [b'.', name @ ..] => (Kind::Subtree, name),
            name => (Kind::Mailbox, name),
        };
        if name.len() > MAX_BYTES {
            return None;
        }
        let Some(seen) = dispatch!(LEVEL, simd => look(simd, name, |_, _| {})) else {
            return Self::unusual(written);
        };
        let entry = Self {
            kind,
            inner: b"",
            needs_quotes: false,
            sign: None,
            rest,
            at: seen.at.unwrap_or(0),
        };
        // A sign before it may be one of the list; a number at its end is no top-level domain.
        let is_signed = matches!(name, [b'-' | b'+', ..]);
        let ends_in_digit = name.last().is_some_and(u8::is_ascii_digit);
        match (kind, seen.at) {
            (Kind::Mailbox, Some(at)) if !is_signed && seen.after_plus <= at => Some(entry),
            (_, None) if seen.after_plus > 0 || name.len() >= MAX_DOMAIN_BYTES => None,
            (Kind::Mailbox, None) if seen.has_dot && !is_signed && !ends_in_digit => Some(Self {
                kind: Kind::Domain,
                sign: Some(b'@'),
                ..entry
            }),
            (Kind::Domain | Kind::Subtree, None) if !ends_in_digit => Some(entry),
            _ => None,
        }
    }

    /// Reads a mailbox whose local part is not plain.
    fn unusual(written: &'t [u8]) -> Option<Self> {
        written.last().filter(|byte| byte.is_ascii_alphanumeric())?;
        let at = memchr::memrchr(b'@', written)?;
        let seen = dispatch!(LEVEL, simd => look(simd, &written[at + 1..], |_, _| {}))?;
        // A colon may be one of a web address, an equals sign one of BATV, a bracket one of a name.
        let is_text = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\"\\:=<>".contains(byte);
        let (inner, needs_quotes, at, rest) = match &written[..at] {
            [b'"', inner @ .., b'"'] if !inner.is_empty() && inner.iter().all(is_text) => {
                let is_atom = is_dot_atom(inner, |text| is_atext(text[0]).then_some(1));
                let needs_quotes = inner[0] == b'*' || !is_atom;
                (inner, needs_quotes, 0, &written[at..])
            }
            local if is_settled(local) => (&b""[..], false, at, written),
            _ => return None,
        };
        (seen.at.is_none() && seen.after_plus == 0).then_some(Self {
            kind: Kind::Mailbox,
            inner,
            needs_quotes,
            sign: None,
            rest,
            at,
        })
    }

    /// Returns the subtree below a domain.
    #[must_use]
    pub fn below(self) -> Option<Self> {
        (self.kind == Kind::Domain).then(|| Self {
            kind: Kind::Subtree,
            sign: Some(b'.'),
            rest: self.rest.strip_prefix(b"@").unwrap_or(self.rest),
            ..self
        })
    }

    /// Returns what it names.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// Writes its canonical text to `out`; returns false if a rule may change it, and then the content
    /// of `out` must not be used.
    #[inline]
    pub fn write(self, rules: Rules, out: &mut Vec<u8>) -> bool {
        out.clear();
        match self.needs_quotes {
            true => quote(self.inner, out),
            false if !self.inner.is_empty() => out.extend_from_slice(self.inner),
            false => out.extend(self.sign),
        }
        out.extend_from_slice(self.rest);
        out.make_ascii_lowercase();
        if self.kind != Kind::Mailbox {
            return true;
        }
        let start = out.len() - self.rest.len();
        let (local, domain) = out[start..].split_at(self.at);
        let local = match self.inner {
            b"" => local,
            inner => inner,
        };
        leave_alone(local, &domain[1..], rules)
    }
}

/// Returns whether a local part is a dot-atom that every list may name, of which only letters of ASCII
/// can be in upper case, and which NFC and NFKC leave as it is. BATV begins with one of three letters.
fn is_settled(local: &[u8]) -> bool {
    let may_be_tagged = matches!(local, [b'b' | b'B' | b'm' | b'M' | b'p' | b'P', ..]);
    let is_signed = matches!(local, [b'+' | b'-' | b'\'', ..]);
    !is_signed
        && is_dot_atom(local, |text| match text {
            [b'=', ..] => (!may_be_tagged).then_some(1),
            [byte, ..] if byte.is_ascii() => {
                let is_usual = byte.is_ascii_alphanumeric() || b"_-+&'".contains(byte);
                is_usual.then_some(1)
            }
            // Small letters of Latin 1 (but for the sign of division) and of Cyrillic.
            [0xC3, 0x9F..=0xB6 | 0xB8..=0xBF, ..]
            | [0xD0, 0xB0..=0xBF, ..]
            | [0xD1, 0x80..=0x9F, ..] => Some(2),
            // Han, U+4E00 to U+9FFF.
            [0xE4, 0xB8..=0xBF, 0x80..=0xBF, ..] | [0xE5..=0xE9, 0x80..=0xBF, 0x80..=0xBF, ..] => {
                Some(3)
            }
            _ => None,
        })
}

/// Returns whether a text has characters with dots between them. `length` returns that of the
/// character at the start of a text, in bytes, unless it is another one.
#[inline(always)]
fn is_dot_atom(text: &[u8], length: impl Fn(&[u8]) -> Option<usize>) -> bool {
    let (mut rest, mut is_after_dot) = (text, true);
    while !rest.is_empty() {
        let is_dot = rest[0] == b'.';
        let length = match is_dot {
            true => (!is_after_dot).then_some(1),
            false => length(rest),
        };
        let Some(length) = length else {
            return false;
        };
        is_after_dot = is_dot;
        rest = &rest[length..];
    }
    !is_after_dot
}

/// Appends a domain of several labels, in lower case: ASCII letters, digits, `-` and `_`, with dots
/// between them. Returns false if it may need another change; then what was appended must not be used.
#[inline]
pub(crate) fn lower_domain(domain: &[u8], out: &mut Vec<u8>) -> bool {
    dispatch!(LEVEL, simd => lower_domain_by(simd, domain, out))
}

#[inline(always)]
fn lower_domain_by<S: Simd>(simd: S, domain: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut is_plain, mut has_dot) = (true, false);
    let mut add = |chunk: [u8; LANES], length: usize| {
        let classes = Classes::of(u8x16::load_array(simd, chunk));
        let dots = classes.dot.to_bitmask();
        is_plain &= (classes.word.to_bitmask() | dots) == u64::from(u16::MAX);
        has_dot |= dots != 0;
        let lowered = classes.lowered.to_array();
        out.extend_from_slice(lowered.get(..length).unwrap_or_default());
    };
    let (chunks, rest) = domain.as_chunks();
    for chunk in chunks {
        add(*chunk, LANES);
    }
    if !rest.is_empty() {
        add(padded(rest), rest.len());
    }
    let has_edge = |edge: Option<&u8>| edge.is_none_or(|&byte| byte == b'.');
    is_plain && has_dot && !has_edge(domain.first()) && !has_edge(domain.last())
}

fn padded(address: &[u8]) -> [u8; LANES] {
    let mut chunk = [b'a'; LANES];
    chunk[..address.len()].copy_from_slice(address);
    chunk
}

struct Seen {
    /// Whether something shows that the address is not plain.
    is_stray: bool,
    /// 1 if the last byte was a separator.
    last_is_separator: u64,
    /// The position of the `@`.
    at: Option<usize>,
    /// The position behind the last `+`; 0 if there is none.
    after_plus: usize,
    has_dot: bool,
}

impl Seen {
    /// Its first `seen_lanes` lanes were processed before; the next byte is at `start`.
    #[inline(always)]
    fn add<S: Simd>(&mut self, start: usize, classes: &Classes<S, u8x16<S>>, seen_lanes: usize) {
        let bits = |mask: mask8x16<S>| mask.to_bitmask() >> seen_lanes;
        let (at, plus, dots) = (bits(classes.at), bits(classes.plus), bits(classes.dot));
        let words = bits(classes.word) | plus;
        let separators = at | dots;
        let all = u64::from(u16::MAX) >> seen_lanes;
        self.is_stray |= words | separators != all
            || separators & (separators << 1 | self.last_is_separator) != 0;
        self.last_is_separator = separators >> (LANES - 1);
        self.has_dot |= dots != 0;
        if plus != 0 {
            self.after_plus = start + plus.ilog2() as usize + 1;
        }
        if at != 0 {
            self.is_stray |= self.at.is_some() || at & (at - 1) != 0;
            self.at = Some(start + at.trailing_zeros() as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Entry;
    use proptest::prelude::*;

    fn answer(text: &[u8]) -> Option<(Vec<u8>, usize)> {
        let mut out = Vec::new();
        let at = lower_line(text, &mut out)?;
        Some((out, at))
    }

    #[test]
    fn finds_the_at_at_every_place() {
        for before in 1..40 {
            for after in 1..40 {
                let text = format!("{}@{}", "A".repeat(before), "B".repeat(after));
                let expected = text.to_ascii_lowercase().into_bytes();
                assert_eq!(answer(text.as_bytes()), Some((expected, before)));
            }
        }
        for text in ["", "a", "a@", "@b", "a@b@c", "a.@b", "a@.b", ".a@b", "a@b."] {
            assert_eq!(answer(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8000))]

        /// What it writes is what the full path reads.
        #[test]
        fn a_plain_entry_is_read_as_by_the_full_path(
            local in prop_oneof![
                4 => "(|\\*?[.@]|\\*@\\.)", 4 => "[A-Za-z0-9._+-]{1,20}@", 2 => "[a-zB'&=%!?*|/^$#`{~.+]{1,5}@",
                2 => "\"[ -~]{0,5}\"@", 1 => "[A-Z\u{df}-\u{ff}\u{430}-\u{460}\u{4e00}-\u{4e10}\u{300}.]{1,5}@",
                1 => "\"?([bB]tv1=|[pP]rvs|msprvs1)=[0-9a-f]{1,10}[=/]{1,2}[a-z]{1,3}(=1234567890)?\"?@",
                1 => "[\u{9ff0}-\u{a010}\u{390}-\u{3d0}\u{3a0}]{1,3}@", 1 => ".{0,4}@",
            ],
            domain in prop_oneof![
                6 => "[A-Za-z0-9._-]{1,9}(\\.(com|Example|co\\.uk|[0-9a-f]{1,2}))?", 1 => "[0-9.]{1,8}",
                2 => "(Gmail|googlemail|yandex|me|user.fastmail|xn--BCHER-kva)\\.com|pm\\.me|Ya\\.ru",
                1 => "[!-~]{0,5}|a..b|\u{fc}.com|[a-z.]{250,256}",
            ],
            bits in 0_u8..16,
        ) {
            let written = local + &domain;
            let rules = Rules::from_bits(bits).unwrap();
            let mut text = vec![b'x'];
            if let Some(plain) = PlainEntry::of(written.as_bytes())
                && plain.write(rules, &mut text)
            {
                let full = Entry::parse(written.as_bytes(), rules).unwrap();
                prop_assert_eq!((plain.kind(), &*text), (full.kind(), full.as_bytes()), "{}", written);
            }
        }
    }

    #[test]
    fn one_byte_out_of_place_is_noticed_at_every_place() {
        let text = b"ab.cd+ef-gh_ij@kl-mn.op.qrst.uv";
        for place in 0..text.len() {
            for byte in 0..=u8::MAX {
                let mut changed = text.to_vec();
                changed[place] = byte;
                let plain = byte.is_ascii_alphanumeric() || b"+-_".contains(&byte);
                let same = byte == text[place];
                let dot = byte == b'.'
                    && place > 0
                    && place + 1 < text.len()
                    && !b".@".contains(&text[place - 1])
                    && !b".@".contains(&text[place + 1]);
                let expected = same || text[place] != b'@' && (plain || dot);
                assert_eq!(answer(&changed).is_some(), expected, "{place} {byte}");
            }
        }
    }
}
