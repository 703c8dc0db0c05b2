//! The fast path: is this address its own canonical form but for the case of its letters?
//!
//! Nearly every address is: ASCII letters, digits and `+ - . _` around one `@`, nothing
//! that a rule of the full path touches. Such a one is lower-cased, sixteen bytes at a time, and
//! that is all. No rule is known here: whatever might be touched by one says no, and
//! the full path reads it. A property test holds the two paths equal.
//!
//! Whole lists are read a block at a time by [`block`](super::block), which shares what is
//! said here of bytes. The loop over a chunk has no branch, so that the compiler makes vector
//! instructions of it; each byte's class then stands in a lane of one 128-bit number.

/// No plain address is longer (RFC 5321 section 4.5.3.1: 64 and 255 bytes, and the `@`).
pub(super) const MAX_BYTES: usize = 320;

/// Bytes looked at together.
const WIDTH: usize = 16;

/// A byte that is in no plain address.
const STRAY: u8 = 1;
/// A separator, behind and before which a word must stand: `@`, `.`.
const SEPARATOR: u8 = 2;
/// The `@`.
const AT: u8 = 4;

/// Puts a plain address into `out`, in lower case, and says where its `@` is; `None` if it is
/// not plain, `out` then holding nothing of use.
#[inline]
pub(super) fn lower_line(address: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.clear();
    out.reserve(address.len() + WIDTH);
    let mut seen = Seen {
        stray: 0,
        // A separator at the start would stand beside the edge.
        beside: u128::from(SEPARATOR),
        at: None,
    };
    let (chunks, rest) = address.as_chunks::<WIDTH>();
    for chunk in chunks {
        let mut chunk = *chunk;
        seen.add(out.len(), classify(&mut chunk));
        out.extend_from_slice(&chunk);
    }
    if !rest.is_empty() {
        let start = out.len();
        // The last chunk reaches back over what was seen already; these lanes go. The
        // bytes themselves never leave the vector register.
        let overlap = WIDTH - rest.len();
        let (mut chunk, seen_lanes) = match address.last_chunk::<WIDTH>() {
            Some(chunk) => (*chunk, overlap),
            None => (padded(rest), 0),
        };
        seen.add(start, classify(&mut chunk) >> (8 * seen_lanes));
        out.truncate(start - seen_lanes);
        out.extend_from_slice(&chunk);
        out.truncate(address.len());
    }
    let ends_in_word = !matches!(address.last(), None | Some(b'.' | b'@'));
    seen.at.filter(|_| seen.stray == 0 && ends_in_word)
}

/// An address shorter than a chunk, and letters that are none of it.
fn padded(address: &[u8]) -> [u8; WIDTH] {
    let mut chunk = [b'a'; WIDTH];
    for (to, from) in chunk.iter_mut().zip(address) {
        *to = *from;
    }
    chunk
}

/// What the chunks so far have shown.
struct Seen {
    /// Not 0 if something is in the way of a plain address.
    stray: u128,
    /// The last byte's lane, where it was a separator, as the lane before the first.
    beside: u128,
    /// Where the `@` is.
    at: Option<usize>,
}

impl Seen {
    /// Takes in the classes of the next chunk, which starts there.
    #[inline]
    fn add(&mut self, start: usize, classes: u128) {
        let separators = classes & lanes(SEPARATOR);
        self.stray |= classes & lanes(STRAY) | separators & (separators << 8 | self.beside);
        self.beside = separators >> (8 * (WIDTH - 1));
        let here = classes & lanes(AT);
        if here != 0 {
            let another = self.at.is_some() || here & (here - 1) != 0;
            self.stray |= u128::from(another);
            self.at = Some(start + here.trailing_zeros() as usize / 8);
        }
    }
}

/// An ASCII letter in lower case; any other byte as it is.
#[inline]
pub(super) const fn lower(byte: u8) -> u8 {
    byte | ((byte.wrapping_sub(b'A') < 26) as u8 * 0x20)
}

/// Is this, in lower case, a byte of the words of a plain address?
#[inline]
pub(super) const fn is_word(byte: u8) -> bool {
    (byte.wrapping_sub(b'a') < 26)
        | (byte.wrapping_sub(b'0') < 10)
        | (byte == b'-')
        | (byte == b'_')
        | (byte == b'+')
}

/// Does this stand between two words of a plain address?
#[inline]
pub(super) const fn is_separator(byte: u8) -> bool {
    (byte == b'@') | (byte == b'.')
}

/// Lower-cases a chunk; the classes of its bytes, the first in the lowest lane.
#[inline]
fn classify(chunk: &mut [u8; WIDTH]) -> u128 {
    let mut classes = [0; WIDTH];
    for (class, byte) in classes.iter_mut().zip(chunk) {
        *byte = lower(*byte);
        let (word, separator) = (is_word(*byte), is_separator(*byte));
        let at = *byte == b'@';
        *class = (u8::from(!(word | separator)) * STRAY)
            | (u8::from(separator) * SEPARATOR)
            | (u8::from(at) * AT);
    }
    u128::from_le_bytes(classes)
}

/// `class` in every lane.
const fn lanes(class: u8) -> u128 {
    u128::from_le_bytes([class; WIDTH])
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
