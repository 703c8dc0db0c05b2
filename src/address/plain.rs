//! The fast path: is this address its own canonical form but for the case of its letters?
//!
//! Nearly every address is: ASCII letters, digits and `+ - . / ^ _ { | } ~` around
//! one `@`, nothing that a rule of the full path touches. Such a one is lower-cased, eight bytes
//! at a time, and that is all. No rule is known here: whatever might be touched by one
//! says no, and the full path reads it. A property test holds the two paths equal.
//!
//! Each byte of a word is a lane. A lane's high bit is its answer to a question, as the
//! bytes are seven bits wide; a carry never leaves its lane.

/// One in each lane.
const ONES: u64 = u64::from_ne_bytes([1; 8]);
/// The high bit of each lane.
const HIGH: u64 = ONES << 7;
/// Bytes of a word.
const LANES: usize = 8;

/// Lower-cases a plain address in place and says where its `@` is; `None` if it is not
/// plain, its letters then being of either case.
#[inline]
pub(super) fn lower(address: &mut [u8]) -> Option<usize> {
    // The end is read as a word that overlaps the one before it.
    let last = address.len().checked_sub(LANES)?;
    let mut at = None;
    let mut stray = 0;
    // A separator at the start would stand beside the edge.
    let mut beside = 0x80;
    let mut start = 0;
    loop {
        let lanes: &mut [u8; LANES] = address.get_mut(start..start + LANES)?.try_into().ok()?;
        let word = u64::from_le_bytes(*lanes);
        stray |= word & HIGH;
        let word = word & !HIGH;
        let upper = at_least(word, b'A') & !at_least(word, b'Z' + 1);
        let word = word | upper >> 2;
        *lanes = word.to_le_bytes();

        let ats = equal(word, b'@');
        let separators = ats | equal(word, b'.');
        let plain = ats
            | equal(word, b'+')
            | at_least(word, b'-') & !at_least(word, b'9' + 1)
            | at_least(word, b'^') & !at_least(word, 0x7F);
        stray |= !plain & HIGH;
        // Neither two separators in a row nor one at an end: no empty word anywhere.
        stray |= separators & (separators << 8 | beside);
        beside = separators >> 56;
        if ats != 0 {
            let here = start + ats.trailing_zeros() as usize / 8;
            if ats.count_ones() > 1 || at.is_some_and(|at| at != here) {
                return None;
            }
            at = Some(here);
        }
        if start == last {
            stray |= beside;
            break;
        }
        if start + LANES > last {
            // What the overlap has seen already it sees again with its neighbour.
            beside = 0;
        }
        start = (start + LANES).min(last);
    }
    if stray == 0 { at } else { None }
}

/// Which lanes are `least` or more.
const fn at_least(word: u64, least: u8) -> u64 {
    ((word | HIGH) - ONES * least as u64) & HIGH
}

/// Which lanes are `byte`.
const fn equal(word: u64, byte: u8) -> u64 {
    !((word ^ (ONES * byte as u64)) + (HIGH - ONES)) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Option<(String, usize)> {
        let mut bytes = text.as_bytes().to_vec();
        let at = lower(&mut bytes)?;
        Some((String::from_utf8(bytes).unwrap(), at))
    }

    #[test]
    fn finds_the_at_at_every_place() {
        for before in 1..40 {
            for after in 1..40 {
                let text = format!("{}@{}", "A".repeat(before), "B".repeat(after));
                let expected = (text.len() >= LANES).then(|| (text.to_ascii_lowercase(), before));
                assert_eq!(answer(&text), expected);
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
                let plain = byte.is_ascii_alphanumeric() || b"+-/^_`{|}~".contains(&byte);
                let same = byte == text[place];
                let dot = byte == b'.'
                    && place > 0
                    && place + 1 < text.len()
                    && !b".@".contains(&text[place - 1])
                    && !b".@".contains(&text[place + 1]);
                let expected = same || text[place] != b'@' && (plain || dot);
                assert_eq!(lower(&mut changed).is_some(), expected, "{place} {byte}");
            }
        }
    }
}
