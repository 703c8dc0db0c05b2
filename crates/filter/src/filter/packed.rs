//! Numbers of few bits, side by side: number i has the bits `i * width` to
//! `(i + 1) * width - 1`, where bit b is bit `b % 8` of byte `b / 8`.

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
    let (mut words, mut full) = ([[0; 8]; WORDS], 0);
    let (mut word, mut used) = (0_u64, 0_u32);
    for value in values {
        word |= value << used;
        used += width;
        if used >= 64 {
            words[full % WORDS] = word.to_le_bytes();
            full += 1;
            if full.is_multiple_of(WORDS) {
                out.extend_from_slice(words.as_flattened());
            }
            used -= 64;
            word = value >> (width - used);
        }
    }
    out.extend_from_slice(words[..full % WORDS].as_flattened());
    out.extend_from_slice(&word.to_le_bytes()[..used.div_ceil(8) as usize]);
}

pub(super) fn put_words(out: &mut Vec<u8>, mut words: impl Iterator<Item = u64>) {
    let mut some = [[0; 8]; WORDS];
    loop {
        let mut count = 0;
        for (bytes, word) in some.iter_mut().zip(words.by_ref()) {
            *bytes = word.to_le_bytes();
            count += 1;
        }
        out.extend_from_slice(some[..count].as_flattened());
        if count < WORDS {
            return;
        }
    }
}

/// Number of words that are appended at once, which is cheaper than one by one.
const WORDS: usize = 64;

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

/// Returns the first `count` values that [`pack`] wrote; zeros beyond them.
pub(super) fn unpacked(bytes: &[u8], width: u8, count: usize) -> impl Iterator<Item = u64> {
    /// Values of so many bits are in eight bytes, wherever they begin.
    const IN_EIGHT_BYTES: u8 = 57;
    let (mask, step) = (mask(width), usize::from(width));
    let mut bit = 0;
    (0..count).map(move |i| {
        let (at, shift) = (bit / 8, bit % 8);
        bit += step;
        match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(word) if width <= IN_EIGHT_BYTES => u64::from_le_bytes(*word) >> shift & mask,
            _ => unpack(bytes, width, i),
        }
    })
}
