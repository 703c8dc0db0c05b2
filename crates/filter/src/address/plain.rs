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
    let mut seen = Seen {
        is_stray: false,
        // A separator at the start has no word before it.
        last_is_separator: 1,
        at: None,
    };
    let (chunks, rest) = address.as_chunks();
    for chunk in chunks {
        let classes = Classes::of(u8x16::load_array(simd, *chunk));
        seen.add(out.len(), &classes, 0);
        out.extend_from_slice(&classes.lowered.to_array());
    }
    if !rest.is_empty() {
        let start = out.len();
        // The last chunk begins before `start`, and its lanes before that are ignored. The bytes
        // stay in the vector register.
        let (chunk, seen_lanes) = match address.last_chunk() {
            Some(chunk) => (*chunk, LANES - rest.len()),
            None => (padded(rest), 0),
        };
        let classes = Classes::of(u8x16::load_array(simd, chunk));
        seen.add(start, &classes, seen_lanes);
        out.truncate(start - seen_lanes);
        out.extend_from_slice(&classes.lowered.to_array());
        out.truncate(address.len());
    }
    let ends_in_word = !address.last().is_none_or(|&byte| is_separator(byte));
    seen.at.filter(|_| !seen.is_stray && ends_in_word)
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
}

impl Seen {
    /// Its first `seen_lanes` lanes were processed before; the next byte is at `start`.
    #[inline(always)]
    fn add<S: Simd>(&mut self, start: usize, classes: &Classes<S, u8x16<S>>, seen_lanes: usize) {
        let bits = |mask: mask8x16<S>| mask.to_bitmask() >> seen_lanes;
        let (at, words) = (bits(classes.at), bits(classes.word | classes.plus));
        let separators = at | bits(classes.dot);
        let all = u64::from(u16::MAX) >> seen_lanes;
        self.is_stray |= words | separators != all
            || separators & (separators << 1 | self.last_is_separator) != 0;
        self.last_is_separator = separators >> (LANES - 1);
        if at != 0 {
            self.is_stray |= self.at.is_some() || at & (at - 1) != 0;
            self.at = Some(start + at.trailing_zeros() as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
