//! Cutting a block of bytes into lines.
//!
//! A list of a hundred million addresses has lines of about thirty bytes. A
//! search that starts again for each line spends more time on starting than on
//! searching. This one examines 64 bytes at a time, and keeps one bit for each
//! newline among them; the lines come from these bits. `benches/list.rs`
//! compares it with one `memchr` per line.

/// The longest line that is read, in bytes. The longest address has 320 bytes,
/// so a hundred of them fit in one line, with names and comments.
pub const MAX_LINE: usize = 64 << 10;

/// The byte order mark that editors put before UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the lines of `block` without their ends. A carriage return before the
/// newline belongs to the end. A last line without a newline is a line too; an
/// empty block has none.
///
/// ```
/// let lines: Vec<_> = blocklist_milter::list::lines(b"a\r\n\nb").collect();
/// assert_eq!(lines, [&b"a"[..], b"", b"b"]);
/// ```
#[must_use]
pub fn lines(block: &[u8]) -> Lines<'_> {
    Lines {
        block,
        start: 0,
        searched: 0,
        newlines: 0,
    }
}

/// The iterator that [`lines`] returns.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    block: &'a [u8],
    /// Where the next line starts.
    start: usize,
    /// The block has been searched up to here. The bits of `newlines` are the
    /// newlines in the last 64 bytes before it that were not yet returned.
    searched: usize,
    newlines: u64,
}

impl Lines<'_> {
    /// Returns where in the block the next line starts.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start
    }
}

/// Number of bytes searched together: as many as a word has bits.
const WIDTH: usize = 64;

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        while self.newlines == 0 {
            let rest = self.block.get(self.searched..).unwrap_or_default();
            if let Some((chunk, _)) = rest.split_first_chunk::<WIDTH>() {
                self.newlines = newlines(chunk);
            } else if rest.is_empty() {
                let line = self.block.get(self.start..).unwrap_or_default();
                self.start = self.block.len();
                return (!line.is_empty()).then(|| without_return(line));
            } else {
                let mut chunk = [0; WIDTH];
                for (to, from) in chunk.iter_mut().zip(rest) {
                    *to = *from;
                }
                self.newlines = newlines(&chunk);
            }
            self.searched += WIDTH;
        }
        let end = self.searched - WIDTH + self.newlines.trailing_zeros() as usize;
        self.newlines &= self.newlines - 1;
        let line = self.block.get(self.start..end).unwrap_or_default();
        self.start = end + 1;
        Some(without_return(line))
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns one bit for each newline among 64 bytes, the first byte lowest.
#[inline]
fn newlines(chunk: &[u8; WIDTH]) -> u64 {
    const NEWLINES: u64 = u64::from_ne_bytes([b'\n'; 8]);
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let (words, _) = chunk.as_chunks::<8>();
    words.iter().rev().fold(0, |mask, word| {
        // Sets the top bit of each byte that is a newline: there `x` is zero, so
        // that neither the sum nor `x` itself sets it. Exact; nothing carries
        // from one byte to the next.
        let x = u64::from_le_bytes(*word) ^ NEWLINES;
        let hits = !((x & LOW).wrapping_add(LOW) | x | LOW);
        // The product collects those eight bits in the top byte.
        mask << 8 | (hits >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

#[cfg(test)]
mod tests {
    use super::lines;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_to_a_plain_split(block in proptest::collection::vec(
            prop_oneof![3 => Just(b'\n'), 1 => Just(b'\r'), 20 => any::<u8>()], 0..400)) {
            let mut plain: Vec<&[u8]> = block.split(|&b| b == b'\n').collect();
            if plain.last().is_some_and(|line| line.is_empty()) {
                plain.pop();
            }
            let plain: Vec<&[u8]> = plain
                .into_iter()
                .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
                .collect();
            prop_assert_eq!(lines(&block).collect::<Vec<_>>(), plain);
        }
    }
}
