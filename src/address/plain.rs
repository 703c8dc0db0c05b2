//! The fast path: is this address its own canonical form but for the case of its letters?
//!
//! Nearly every address is: ASCII letters, digits and `+ - . _` around one `@`, nothing
//! that a rule of the full path touches. Such a one is lower-cased, sixteen bytes at a time, and
//! that is all. No rule is known here: whatever might be touched by one says no, and
//! the full path reads it. A property test holds the two paths equal.
//!
//! The loop over a chunk has no branch, so that the compiler makes vector
//! instructions of it; each byte's class then stands in a lane of one 128-bit number.

/// Bytes looked at together.
const WIDTH: usize = 16;

/// A byte that is in no plain address.
const STRAY: u8 = 1;
/// A separator, behind and before which a word must stand: `@`, `.`.
const SEPARATOR: u8 = 2;
/// The `@`.
const AT: u8 = 4;

/// Appends a plain address to `out`, which is empty, in lower case, and says where its `@`
/// is; `None` if it is not plain, `out` then holding nothing of use.
#[inline]
pub(super) fn lower(address: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.extend_from_slice(address);
    // Letters that fill the last chunk, and are none of the address.
    out.extend_from_slice(&[b'a'; WIDTH]);
    let (mut stray, mut ats, mut at) = (0, 0, 0);
    // A separator at the start would stand beside the edge.
    let mut beside = u128::from(SEPARATOR);
    let chunks = out.as_chunks_mut::<WIDTH>().0.iter_mut();
    for (start, chunk) in (0..)
        .step_by(WIDTH)
        .zip(chunks.take(address.len().div_ceil(WIDTH)))
    {
        let classes = classify(chunk);
        let separators = classes & lanes(SEPARATOR);
        stray |= classes & lanes(STRAY) | separators & (separators << 8 | beside);
        beside = separators >> (8 * (WIDTH - 1));
        let here = classes & lanes(AT);
        if here != 0 {
            ats += here.count_ones();
            at = start + here.trailing_zeros() as usize / 8;
        }
    }
    out.truncate(address.len());
    let ends_in_word = !matches!(address.last(), None | Some(b'.' | b'@'));
    (stray == 0 && ats == 1 && ends_in_word).then_some(at)
}

/// Lower-cases a chunk; the classes of its bytes, the first in the lowest lane.
#[inline]
fn classify(chunk: &mut [u8; WIDTH]) -> u128 {
    let mut classes = [0; WIDTH];
    for (class, byte) in classes.iter_mut().zip(chunk) {
        let upper = byte.wrapping_sub(b'A') < 26;
        *byte |= u8::from(upper) << 5;
        let b = *byte;
        let word = (b.wrapping_sub(b'a') < 26)
            | (b.wrapping_sub(b'0') < 10)
            | (b == b'-')
            | (b == b'_')
            | (b == b'+');
        let at = b == b'@';
        let separator = at | (b == b'.');
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
        let at = lower(text, &mut out)?;
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
