//! Numbers of few bits, side by side: number i has the bits `i * width` to
//! `(i + 1) * width - 1`, where bit b is bit `b % 8` of byte `b / 8`.

/// Returns a mask of the lowest `bits` bits; at most 63.
pub(super) fn mask(bits: u8) -> u64 {
    (1_u64 << bits) - 1
}

/// Returns the number of records, classes or words of a page's block, as its head stores it.
pub(super) fn length(count: usize) -> u32 {
    u32::try_from(count).expect("a page holds far fewer than 2^32 records")
}

/// Appends values of `width` bits (at most 63) side by side, low bits first.
pub(super) fn pack(out: &mut Vec<u8>, width: u8, values: impl Iterator<Item = u64>) {
    let width = u32::from(width);
    let (mut word, mut used) = (0_u64, 0_u32);
    for value in values {
        word |= value << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            used -= 64;
            word = value >> (width - used);
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..used.div_ceil(8) as usize]);
}

/// Returns value number `i` of those that [`pack`] wrote; 0 beyond them.
#[inline]
pub(super) fn unpack(bytes: &[u8], width: u8, i: usize) -> u64 {
    let bit = i * usize::from(width);
    let rest = bytes.get(bit / 8..).unwrap_or_default();
    let mut window = [0; 16];
    match rest.first_chunk::<16>() {
        Some(whole) => window = *whole,
        None => window[..rest.len()].copy_from_slice(rest),
    }
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the low 64 bits are what is wanted"
    )]
    let value = (u128::from_le_bytes(window) >> (bit % 8)) as u64;
    value & mask(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_values_come_back(width in 1_u8..=63, values: Vec<u64>) {
            let values: Vec<u64> = values.iter().map(|value| value & mask(width)).collect();
            let mut bytes = Vec::new();
            pack(&mut bytes, width, values.iter().copied());
            prop_assert_eq!(bytes.len(), (values.len() * usize::from(width)).div_ceil(8));
            for (i, &value) in values.iter().enumerate() {
                prop_assert_eq!(unpack(&bytes, width, i), value);
            }
        }
    }
}
