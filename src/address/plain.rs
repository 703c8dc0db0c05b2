//! The fast path: is this address its own canonical form but for the case of its letters?
//!
//! Nearly every address is: ASCII letters, digits and `+ - . _` around one `@`, nothing
//! that a rule of the full path touches. Such a one is lower-cased, sixteen bytes at a time, and
//! that is all. No rule is known here: whatever might be touched by one says no, and
//! the full path reads it. A property test holds the two paths equal.
//!
//! Whole lists are read a block at a time by `compile/read/block.rs`, which shares what is
//! said here of bytes.

use wide::u8x16;

/// No plain address is longer (RFC 5321 section 4.5.3.1: 64 and 255 bytes, and the `@`).
pub(crate) const MAX_BYTES: usize = 320;

/// Bytes looked at together.
pub(crate) const LANES: usize = 16;

/// What sixteen bytes are to a plain address: vectors that are all ones in the lanes of the
/// bytes of a class, which is in none of the others.
pub(crate) struct Classes {
    /// The bytes, ASCII letters in lower case.
    pub(crate) lowered: u8x16,
    /// A byte of a word: a letter, a digit, `+`, `-`, `_`.
    pub(crate) word: u8x16,
    /// A `.`, with a word on each side.
    pub(crate) dot: u8x16,
    /// The `@`, with a word on each side.
    pub(crate) at: u8x16,
}

impl Classes {
    #[inline]
    pub(crate) fn of(bytes: u8x16) -> Self {
        let is = |byte| bytes.simd_eq(u8x16::splat(byte));
        let case = u8x16::splat(0x20);
        let letter = within(bytes | case, b'a', b'z');
        // What lies from `-` to `9` beside digits is `.` and `/`.
        let digit = within(bytes, b'-', b'9') & !(is(b'.') | is(b'/'));
        Self {
            lowered: bytes | (letter & case),
            word: letter | digit | is(b'+') | is(b'_'),
            dot: is(b'.'),
            at: is(b'@'),
        }
    }
}

/// The lanes of the bytes from `first` to `last`.
#[inline]
fn within(bytes: u8x16, first: u8, last: u8) -> u8x16 {
    let offset = bytes - u8x16::splat(first);
    offset.simd_eq(offset.min(u8x16::splat(last - first)))
}

/// Does this stand between two words of a plain address?
pub(crate) const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'@' | b'.')
}

/// Puts a plain address into `out`, in lower case, and says where its `@` is; `None` if it is
/// not plain, `out` then holding nothing of use.
#[inline]
pub(crate) fn lower_line(address: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.clear();
    out.reserve(address.len() + LANES);
    let mut seen = Seen {
        is_stray: false,
        // A separator at the start would stand beside the edge.
        beside: 1,
        at: None,
    };
    let (chunks, rest) = address.as_chunks();
    for chunk in chunks {
        let classes = Classes::of(u8x16::new(*chunk));
        seen.add(out.len(), &classes, 0);
        out.extend_from_slice(&classes.lowered.to_array());
    }
    if !rest.is_empty() {
        let start = out.len();
        // The last chunk reaches back over what was seen already; these lanes go. The
        // bytes themselves never leave the vector register.
        let (chunk, seen_lanes) = match address.last_chunk() {
            Some(chunk) => (*chunk, LANES - rest.len()),
            None => (padded(rest), 0),
        };
        let classes = Classes::of(u8x16::new(chunk));
        seen.add(start, &classes, seen_lanes);
        out.truncate(start - seen_lanes);
        out.extend_from_slice(&classes.lowered.to_array());
        out.truncate(address.len());
    }
    let ends_in_word = !address.last().is_none_or(|&byte| is_separator(byte));
    seen.at.filter(|_| !seen.is_stray && ends_in_word)
}

/// An address shorter than a chunk, and letters that are none of it.
fn padded(address: &[u8]) -> [u8; LANES] {
    let mut chunk = [b'a'; LANES];
    chunk[..address.len()].copy_from_slice(address);
    chunk
}

/// What the chunks so far have shown.
struct Seen {
    /// Something is in the way of a plain address.
    is_stray: bool,
    /// 1 if the last byte was a separator.
    beside: u32,
    /// Where the `@` is.
    at: Option<usize>,
}

impl Seen {
    /// Takes in the next chunk, whose first lanes were seen before; what is new starts there.
    #[inline]
    fn add(&mut self, start: usize, classes: &Classes, seen_lanes: usize) {
        let bits = |mask: u8x16| mask.to_bitmask() >> seen_lanes;
        let (at, words) = (bits(classes.at), bits(classes.word));
        let separators = at | bits(classes.dot);
        let all = u32::from(u16::MAX) >> seen_lanes;
        self.is_stray |=
            words | separators != all || separators & (separators << 1 | self.beside) != 0;
        self.beside = separators >> (LANES - 1);
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
