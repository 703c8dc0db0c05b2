//! The fast path for whole lists: the plain lines of a block, found and lower-cased together.
//!
//! Nearly every line of a large list is a plain address, and a line is about thirty bytes,
//! so that a search that begins anew for each of them spends most of its time on
//! beginning and ending. Here 64 bytes are looked at together, whatever lines they
//! belong to:
//!
//! ```text
//!   text      S p a m @ b a d . e x a m p l e \n x . @ b . e x a m p l e \n
//!   lowered   s p a m @ b a d . e x a m p l e \n x . @ b . e x a m p l e \n
//!   stops     . . . . 1 . . . . . . . . . . .  1 . . 1 . . . . . . . . . .  1    an @, an end
//!   bad       . . . . . . . . . . . . . . . .  . . . 1 . . . . . . . . . .  .    stray, or two
//!                                                                              separators together
//! ```
//!
//! A line between whose ends one `@` and nothing bad stands, at whose domain no provider has a
//! rule, is its own canonical form in the lowered copy: nothing more is done for it.
//! Every other line is for [`Entry::read`](super::Entry::read), and a property test
//! holds the two equal. What is plain is said by [`plain`](super::plain).
//!
//! The loop over bytes has no branch, so that the compiler makes vector instructions of it.

use super::plain::{MAX_BYTES, is_separator, is_word, lower};
use super::{Rules, providers};

/// Memory for the lowered copy of a block; kept for the next.
#[derive(Clone, Debug, Default)]
pub struct Block {
    lowered: Vec<u8>,
}

/// A line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// As it stands there, without its end (a newline, perhaps after a carriage return).
    pub written: &'a [u8],
    /// The canonical text of the mailbox, if the line is a plain address: what
    /// [`Entry::read`](super::Entry::read) makes of it. Without it, nothing is said.
    pub mailbox: Option<&'a [u8]>,
}

/// Bytes looked at together: as many as a word has bits.
const WIDTH: usize = 64;
/// Bytes of a vector.
const LANES: usize = 16;

/// One bit for each of 64 bytes, the first byte lowest.
struct Marks {
    /// An `@`, a newline.
    stops: u64,
    /// A byte that no plain line has, or a separator behind a separator.
    bad: u64,
}

impl Block {
    /// Without memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Visits the lines of `text`, in their order; a last one needs no newline.
    ///
    /// ```
    /// use blocklist_milter::address::{Block, Rules};
    /// let mut seen = Vec::new();
    /// Block::new().lines(b"Spam@Bad.Example\n\n# no", Rules::default(), |line| {
    ///     seen.push((line.written.to_vec(), line.mailbox.map(<[u8]>::to_vec)));
    /// });
    /// assert_eq!(seen, [
    ///     (b"Spam@Bad.Example".to_vec(), Some(b"spam@bad.example".to_vec())),
    ///     (b"".to_vec(), None),
    ///     (b"# no".to_vec(), None),
    /// ]);
    /// ```
    #[inline]
    pub fn lines(&mut self, text: &[u8], rules: Rules, mut visit: impl FnMut(Line<'_>)) {
        // Whole chunks, and always a newline behind the text.
        let padded = (text.len() / WIDTH + 1) * WIDTH;
        if self.lowered.len() < padded {
            self.lowered.resize(padded, 0);
        }
        // Of the line under way: where it starts, where its `@` is, whether it has bad bytes.
        let (mut start, mut at, mut is_bad) = (0, None, false);
        for base in (0..padded).step_by(WIDTH) {
            let Marks { mut stops, mut bad } = self.look(text, base);
            while stops != 0 {
                let bit = stops.trailing_zeros();
                stops &= stops - 1;
                let place = base + bit as usize;
                if self.lowered[place] == b'@' {
                    is_bad |= at.is_some();
                    at = Some(place);
                    continue;
                }
                if start >= text.len() {
                    return;
                }
                let line_bits = u64::MAX >> (u64::BITS - 1 - bit);
                is_bad |= bad & line_bits != 0;
                bad &= !line_bits;
                let written = &text[start..place];
                let mailbox = at
                    .filter(|_| !is_bad && written.len() <= MAX_BYTES)
                    .filter(|&at| {
                        let (local, domain) =
                            (&self.lowered[start..at], &self.lowered[at + 1..place]);
                        providers::leave_alone(local, domain, rules)
                    })
                    .map(|_| &self.lowered[start..place]);
                let written = written.strip_suffix(b"\r").unwrap_or(written);
                visit(Line { written, mailbox });
                (start, at, is_bad) = (place + 1, None, false);
            }
            is_bad |= bad != 0;
        }
    }

    /// Looks at the 64 bytes of `text` from `base` on; behind its end are newlines.
    #[inline]
    fn look(&mut self, text: &[u8], base: usize) -> Marks {
        let edge;
        let inside = base.checked_sub(1).and_then(|first| text.get(first..));
        let window = match inside.and_then(<[u8]>::first_chunk) {
            Some(window) => window,
            None => {
                edge = window_at_edge(text, base);
                &edge
            }
        };
        let [before @ .., _] = window;
        let [_, here @ ..] = window;
        let lowered = self.lowered[base..].as_chunks_mut().0;
        let (mut stops, mut bad) = ([0; LANES], [0; LANES]);
        let vectors = here.as_chunks().0.iter().zip(before.as_chunks().0);
        for (((here, before), lowered), row) in vectors.zip(lowered).zip(&ROWS) {
            classify(here, before, lowered, row, &mut stops, &mut bad);
        }
        let bad = u128::from_le_bytes(bad);
        Marks {
            stops: in_order(u128::from_le_bytes(stops)),
            bad: if bad == 0 { 0 } else { in_order(bad) },
        }
    }
}

/// The byte before `base` and the 64 bytes from there on, newlines where there are none.
#[cold]
fn window_at_edge(text: &[u8], base: usize) -> [u8; WIDTH + 1] {
    let mut window = [b'\n'; WIDTH + 1];
    let behind = base.checked_sub(1).map_or(text, |first| &text[first..]);
    let place = usize::from(base == 0);
    for (to, from) in window[place..].iter_mut().zip(behind) {
        *to = *from;
    }
    window
}

/// The bit that each byte of each vector sets: eight bytes the lowest, the next eight the next ...
const ROWS: [[u8; LANES]; WIDTH / LANES] = [
    [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2],
    [4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8],
    [
        16, 16, 16, 16, 16, 16, 16, 16, 32, 32, 32, 32, 32, 32, 32, 32,
    ],
    [
        64, 64, 64, 64, 64, 64, 64, 64, 128, 128, 128, 128, 128, 128, 128, 128,
    ],
];

/// Lower-cases a vector and adds the bits of `row` to the marks, where they are due. `before` is
/// the text one byte earlier.
#[inline]
fn classify(
    here: &[u8; LANES],
    before: &[u8; LANES],
    lowered: &mut [u8; LANES],
    row: &[u8; LANES],
    stops: &mut [u8; LANES],
    bad: &mut [u8; LANES],
) {
    for lane in 0..LANES {
        let byte = lower(here[lane]);
        lowered[lane] = byte;
        let stop = (byte == b'@') | (byte == b'\n');
        let edge = is_separator(byte) | (byte == b'\n');
        let is_behind_edge = is_separator(before[lane]) | (before[lane] == b'\n');
        let good = is_word(byte) | (edge & !is_behind_edge);
        stops[lane] |= u8::from(stop).wrapping_neg() & row[lane];
        bad[lane] |= u8::from(!good).wrapping_neg() & row[lane];
    }
}

/// Marks as [`ROWS`] sets them -> in the order of the bytes. Once both halves are in one word,
/// bit r of byte c is for byte 8r + c: a matrix of 8 by 8 bits to be transposed (Warren,
/// Hacker's Delight, section 7-3).
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
fn in_order(marks: u128) -> u64 {
    let mut x = marks as u64 | (marks >> 64) as u64;
    for (shift, mask) in [
        (7, 0x00aa_00aa_00aa_00aa),
        (14, 0x0000_cccc_0000_cccc),
        (28, 0x0000_0000_f0f0_f0f0),
    ] {
        let moved = (x ^ (x >> shift)) & mask;
        x ^= moved ^ (moved << shift);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::plain::lower_line;
    use crate::address::{Entry, Kind};
    use proptest::prelude::*;

    /// The lines of `text` are all there, and those said to be plain are so by the full path.
    fn check(text: &[u8], bits: u8) -> Result<(), TestCaseError> {
        let rules = Rules::from_bits(bits).unwrap();
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
        let mut seen = Vec::new();
        let mut block = Block::new();
        // What an earlier, longer block has left does no harm.
        block.lines(&[b'@'; 500], rules, |_| {});
        block.lines(text, rules, |line| {
            seen.push((line.written.to_vec(), line.mailbox.map(<[u8]>::to_vec)));
        });
        prop_assert_eq!(seen.len(), lines.len());
        for ((written, mailbox), line) in seen.iter().zip(lines) {
            prop_assert_eq!(written, line.strip_suffix(b"\r").unwrap_or(line));
            if let Some(mailbox) = mailbox {
                let entry = Entry::parse(written, rules);
                let entry = entry.map(|entry| (entry.kind(), entry.as_bytes().to_vec()));
                prop_assert_eq!(entry, Ok((Kind::Mailbox, mailbox.clone())));
            }
        }
        Ok(())
    }

    fn line() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            6 => "[a-zA-Z0-9.+_-]{1,30}@[a-zA-Z.-]{1,30}".prop_map(String::into_bytes),
            2 => "[a-z.+]{1,9}@([a-z]{0,2}\\.)?(gmail|googlemail|GMX|me|fastmail|pm|yahoo|hotmail)\\.(com|me|co\\.uk)"
                .prop_map(String::into_bytes),
            2 => "[ -~]{0,20}(@[ -~]{0,20})?".prop_map(String::into_bytes),
            1 => "#? ?[a-z]{0,3}@[a-z]{0,3}\r?".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 0..30),
            1 => (300_usize..340).prop_map(|n| [b"x@".to_vec(), vec![b'y'; n]].concat()),
            1 => Just(Vec::new()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// A plain line is what it is by the full path.
        #[test]
        fn block_is_line_by_line(
            lines in proptest::collection::vec(line(), 0..12), last: bool, bits in 0_u8..16,
        ) {
            let mut text = lines.join(&b'\n');
            if last {
                text.push(b'\n');
            }
            check(&text, bits)?;
        }

        #[test]
        fn any_bytes_at_all(
            text in proptest::collection::vec(
                prop_oneof![4 => Just(b'a'), 1 => Just(b'@'), 1 => Just(b'.'), 1 => Just(b'\n'), 1 => any::<u8>()],
                0..300),
            bits in 0_u8..16,
        ) {
            check(&text, bits)?;
        }
    }

    /// Each byte at each place of a line, the line at each place of a chunk: the line is
    /// plain just when `plain::lower_line` says so.
    #[test]
    fn one_byte_out_of_place_is_noticed_at_every_place() {
        let no_rules = Rules::from_bits(0).unwrap();
        let mut block = Block::new();
        for before in 55..75 {
            for place in 0..=16 {
                for byte in 0..=u8::MAX {
                    let mut line = b"ab.cd@kl-mn.test\n".to_vec();
                    line[place] = byte;
                    let text = [&vec![b'x'; before][..], b"\n", &line, b"q@r.test\n"].concat();
                    let (mut plain, mut expected) = (Vec::new(), Vec::new());
                    block.lines(&text, no_rules, |line| {
                        plain.extend(line.mailbox.map(<[u8]>::to_vec));
                    });
                    for line in text.split(|&byte| byte == b'\n') {
                        let mut lowered = Vec::new();
                        if lower_line(line, &mut lowered).is_some() {
                            expected.push(lowered);
                        }
                    }
                    assert_eq!(plain, expected, "{before} {place} {byte}");
                }
            }
        }
    }
}
