//! Numbers as bits: Rice codes, which are suitable for gaps between hashed keys.
//!
//! A Rice code with parameter k writes n as `n >> k` clear bits, one set bit, and the low k bits of
//! n. Gaps of random numbers are distributed geometrically, and for these the code takes about a
//! tenth of a bit more than the entropy, if k matches their mean ([`parameter`]).
//!
//! Bits fill bytes from the lowest. Nothing that is read is trusted: a code that does not end, or
//! whose number exceeds 64 bits, is an error ([`malformed`]), and reading allocates nothing.

use std::io::{self, Read};

use super::super::packed::mask;

/// The largest parameter: with it, a gap of 64 bits has a quotient of at most 1.
pub(super) const MAX_PARAMETER: u8 = 63;

/// Returns the parameter for `count` numbers with this sum (Kiely 2004, "Selecting the Golomb
/// parameter in Rice coding"): 1 + log2 of 0.4812 times their mean, rounded down.
pub(super) fn parameter(sum: u128, count: usize) -> u8 {
    let scaled = sum.saturating_mul(4812) / (count.max(1) as u128 * 10_000);
    let parameter = scaled.checked_ilog2().map_or(0, |bits| bits + 1);
    u8::try_from(parameter).map_or(MAX_PARAMETER, |bits| bits.min(MAX_PARAMETER))
}

#[derive(Debug, Default)]
pub(super) struct BitWriter {
    word: u128,
    used: u32,
    pub(super) bytes: Vec<u8>,
}

impl BitWriter {
    /// Appends the low `bits` bits (at most 64) of a value whose other bits are clear.
    pub(super) fn put(&mut self, value: u64, bits: u8) {
        self.word |= u128::from(value) << self.used;
        self.used += u32::from(bits);
        while self.used >= 8 {
            self.bytes.push(self.word.to_le_bytes()[0]);
            self.word >>= 8;
            self.used -= 8;
        }
    }

    pub(super) fn rice(&mut self, value: u64, parameter: u8) {
        let mut zeros = value >> parameter;
        while zeros >= 32 {
            self.put(0, 32);
            zeros -= 32;
        }
        let zeros = u8::try_from(zeros).unwrap_or(0);
        self.put(1 << zeros, zeros + 1);
        self.put(value & mask(parameter), parameter);
    }

    pub(super) fn align(&mut self) {
        let missing = self.used.wrapping_neg() % 8;
        self.put(0, u8::try_from(missing).unwrap_or(0));
    }
}

pub(super) fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[derive(Debug)]
pub(super) struct BitReader<R> {
    from: R,
    /// `have` bits that were read, but not taken.
    word: u128,
    have: u32,
}

impl<R: Read> BitReader<R> {
    /// Reads from a source that is cheap to read byte by byte.
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            word: 0,
            have: 0,
        }
    }

    pub(super) fn take(&mut self, bits: u8) -> io::Result<u64> {
        while self.have < u32::from(bits) {
            self.more()?;
        }
        let value = u64::try_from(self.word & ((1 << bits) - 1)).unwrap_or(u64::MAX);
        self.word >>= bits;
        self.have -= u32::from(bits);
        Ok(value)
    }

    pub(super) fn rice(&mut self, parameter: u8) -> io::Result<u64> {
        let mut quotient = 0;
        while self.word == 0 {
            quotient += u64::from(self.have);
            self.have = 0;
            self.more()?;
        }
        let zeros = self.word.trailing_zeros();
        quotient += u64::from(zeros);
        self.word >>= zeros + 1;
        self.have -= zeros + 1;
        let high = quotient.checked_mul(1 << parameter);
        Ok(high.ok_or_else(malformed)? | self.take(parameter)?)
    }

    pub(super) fn align(&mut self) -> io::Result<()> {
        let skipped = u8::try_from(self.have % 8).unwrap_or(0);
        match self.take(skipped)? {
            0 => Ok(()),
            _ => Err(malformed()),
        }
    }

    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        match self.more() {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(self.have == 0),
            Err(error) => Err(error),
        }
    }

    fn more(&mut self) -> io::Result<()> {
        let mut byte = [0];
        self.from.read_exact(&mut byte)?;
        self.word |= u128::from(byte[0]) << self.have;
        self.have += 8;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_more_than_64_bits_is_a_fault() {
        for (zeros, k, expected) in [
            (1, 63, Some(1 << 63)),
            (2, 63, None),
            (8, 60, Some(1 << 63)),
        ] {
            let mut bits = BitWriter::default();
            bits.put(1 << zeros, zeros + 1);
            bits.put(0, k);
            bits.align();
            let read = BitReader::new(bits.bytes.as_slice()).rice(k);
            assert_eq!(read.ok(), expected, "{zeros} {k}");
        }
    }
}
