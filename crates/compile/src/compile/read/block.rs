//! The fast path for whole lists: finds and lower-cases the plain lines of a block together.
//!
//! Nearly every line of a large list is a plain address of about thirty bytes. A search that begins
//! again for each line spends most of its time on beginning and ending. This code examines 64 bytes
//! together, regardless of line ends:
//!
//! ```text
//!   text      S p a m @ b a d . e x a m p l e \n x . @ b . e x a m p l e \n
//!   lowered   s p a m @ b a d . e x a m p l e \n x . @ b . e x a m p l e \n
//!   stops     . . . . 1 . . . . . . . . . . .  1 . . 1 . . . . . . . . . .  1    an @, an end
//!   bad       . . . . . . . . . . . . . . . .  . . . 1 . . . . . . . . . .  .    not plain, or
//!                                                                                two separators
//!                                                                                together
//! ```
//!
//! On a line of a hosts file, the address and the blank before the name are left out.
//!
//! A line with one `@` and nothing bad is its own canonical form in the lowered copy, and so is one
//! with dots alone, behind an `@`. Nothing more is done for them, unless a provider has a rule for
//! the domain of a mailbox. Every other line goes to
//! [`Entry::read`](blocklist_filter::address::Entry::read); a property test compares the two. A `+`
//! may be within a local part, but in no domain.
//! [`plain`](blocklist_filter::address::plain) defines what is plain.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch};

use crate::list::hosts;
use blocklist_filter::address::plain::{Classes, MAX_BYTES, is_separator};
use blocklist_filter::address::{Canonical, Kind, MAX_DOMAIN_BYTES, Rules, providers};

/// Memory for the lowered copy of a piece and its marks; reused for the next piece.
#[derive(Clone, Debug, Default)]
pub struct Block {
    lowered: Vec<u8>,
    stops: Places,
    bad: Places,
    /// A mailbox that a provider's rule may change.
    delivered: Canonical,
}

/// A line of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line unchanged, without its end (a newline, perhaps after a carriage return).
    pub written: &'a [u8],
    /// Number of its bytes before the entry: the address and the blank of a line of a hosts file.
    pub before: usize,
    /// The kind and the canonical text of the entry, if the line is a plain address or domain: those
    /// that [`Entry::read`](blocklist_filter::address::Entry::read) returns. `None` says nothing about the line.
    pub entry: Option<(Kind, &'a [u8])>,
}

impl<'a> Line<'a> {
    /// Returns the entry, if the line lists it in a plain list, or with `HOSTS` in a hosts file, and
    /// lists nothing else; the reader must read every other line.
    #[inline]
    pub(super) fn listed<const HOSTS: bool>(&self) -> Option<(Kind, &'a [u8])> {
        // A sign before an address may be one of the list.
        let is_signed = self.written.get(self.before) == Some(&b'-');
        self.entry.filter(|(kind, entry)| {
            !is_signed
                && (!HOSTS
                    || self.before > 0 && *kind == Kind::Domain && *entry != hosts::OWN_DOMAIN)
        })
    }
}

const WIDTH: usize = 64;
/// Size of a piece: its text, its lowered copy and its marks stay in the first-level cache. They
/// are written and read in two passes: a load across two vectors that were just stored must wait
/// for both stores.
const PIECE_BYTES: usize = 8 << 10;

/// One bit for each of 64 bytes, the first byte lowest.
struct Marks {
    stops: u64,
    /// The byte occurs in no plain line, or is a separator after a separator.
    bad: u64,
}

impl Block {
    /// Returns a block without any memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Visits the lines of `text` in order. The last line needs no newline.
    ///
    /// ```
    /// use blocklist_filter::address::{Kind, Rules};
    /// use blocklist_compile::compile::Block;
    /// let mut seen = Vec::new();
    /// Block::new().lines(b"Spam@Bad.Example\nBad.Example\n\n# no", Rules::default(), |line| {
    ///     seen.push(line.entry.map(|(kind, text)| (kind, text.to_vec())));
    /// });
    /// assert_eq!(seen, [
    ///     Some((Kind::Mailbox, b"spam@bad.example".to_vec())),
    ///     Some((Kind::Domain, b"@bad.example".to_vec())),
    ///     None,
    ///     None,
    /// ]);
    /// ```
    #[inline]
    pub fn lines(&mut self, text: &[u8], rules: Rules, visit: impl FnMut(Line<'_>)) {
        self.lines_of::<false>(text, rules, visit);
    }

    #[inline]
    pub(super) fn lines_of<const HOSTS: bool>(
        &mut self,
        text: &[u8],
        rules: Rules,
        mut visit: impl FnMut(Line<'_>),
    ) {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece_length(rest));
            self.piece::<HOSTS>(piece, rules, &mut visit);
            rest = after;
        }
    }

    #[inline]
    fn piece<const HOSTS: bool>(
        &mut self,
        text: &[u8],
        rules: Rules,
        visit: &mut impl FnMut(Line<'_>),
    ) {
        self.mark(text);
        let mut places = self.bad.all().iter().map(|&place| place as usize);
        let mut bad = places.next().unwrap_or(usize::MAX);
        // About the current line: where it starts, where its `@` is, whether it has a bad byte. All
        // places are those in the lowered copy.
        let (mut begin, mut at, mut is_bad) = (WIDTH, None, false);
        for &stop in self.stops.all() {
            let end = stop as usize;
            if self.lowered[end] == b'@' {
                is_bad |= at.is_some();
                at = Some(end);
                continue;
            }
            if begin >= text.len() + WIDTH {
                return;
            }
            let (mut start, mut content_end) = (begin, end);
            while bad <= end {
                // A carriage return before the newline belongs to it.
                if bad + 1 == end && text[bad - WIDTH] == b'\r' {
                    content_end = bad;
                    is_bad |= self.lowered[start..bad]
                        .last()
                        .is_none_or(|&byte| is_separator(byte));
                } else if self.lowered[bad] == b'+' && bad > begin && at.is_some_and(|at| bad < at)
                {
                    // In a local part, where it may be part of a word.
                } else if HOSTS && start == begin && hosts::is_usual(&self.lowered[begin..=bad]) {
                    start = bad + 1;
                    is_bad |= is_separator(self.lowered[start]);
                } else {
                    is_bad = true;
                }
                bad = places.next().unwrap_or(usize::MAX);
            }
            let lowered = &self.lowered[start..content_end];
            let entry = match at {
                _ if is_bad || lowered.len() > MAX_BYTES => None,
                Some(at) => {
                    let (local, domain) = lowered.split_at(at - start);
                    if providers::leave_alone(local, &domain[1..], rules) {
                        Some((Kind::Mailbox, lowered))
                    } else {
                        let is_plain = self.delivered.read_plain(lowered, rules);
                        is_plain.then_some((Kind::Mailbox, self.delivered.as_bytes()))
                    }
                }
                None if is_domain(lowered) => {
                    // In place of the end of the line before.
                    self.lowered[start - 1] = b'@';
                    Some((Kind::Domain, &self.lowered[start - 1..content_end]))
                }
                None => None,
            };
            visit(Line {
                written: &text[begin - WIDTH..content_end - WIDTH],
                before: start - begin,
                entry,
            });
            (begin, at, is_bad) = (end + 1, None, false);
        }
    }

    /// Lower-cases a piece, and finds the stops and bad bytes of its lines. Pads it with newlines.
    fn mark(&mut self, text: &[u8]) {
        let (chunks, rest) = text.as_chunks();
        let mut last = [b'\n'; WIDTH];
        last[..rest.len()].copy_from_slice(rest);
        let padded = (chunks.len() + 1) * WIDTH;
        // The first chunk has the `@` of a domain on the first line.
        if self.lowered.len() < WIDTH + padded {
            self.lowered.resize(WIDTH + padded, 0);
        }
        self.stops.begin(padded);
        self.bad.begin(padded);
        let lowered = self.lowered[WIDTH..].as_chunks_mut().0;
        let (stops, bad) = (&mut self.stops, &mut self.bad);
        let chunks = chunks.iter().chain([&last]).zip(lowered);
        dispatch!(Level::new(), simd => mark(simd, chunks, stops, bad));
    }
}

/// Lower-cases chunks, the first of which is at [`WIDTH`], and finds their stops and bad bytes.
// Code for the instructions of one processor must be inlined where they are chosen.
#[inline(always)]
fn mark<'a, S: Simd>(
    simd: S,
    chunks: impl Iterator<Item = (&'a [u8; WIDTH], &'a mut [u8; WIDTH])>,
    stops: &mut Places,
    bad: &mut Places,
) {
    // A separator at the start of the piece comes after a newline.
    let mut is_behind_edge = true;
    for ((chunk, lowered), base) in chunks.zip((WIDTH..).step_by(WIDTH)) {
        let marks = look(simd, chunk, lowered, &mut is_behind_edge);
        stops.add(base, marks.stops);
        if marks.bad != 0 {
            bad.add(base, marks.bad);
        }
    }
}

/// Returns whether a line of words and dots alone is a domain, not a word, a hash or an IP address.
#[inline]
fn is_domain(line: &[u8]) -> bool {
    let (Some(first), Some(last)) = (line.first(), line.last()) else {
        return false;
    };
    *first != b'-'
        && !last.is_ascii_digit()
        && line.len() < MAX_DOMAIN_BYTES
        // From the end, which is near.
        && line.iter().rev().any(|&byte| byte == b'.')
}

/// Examines and lower-cases 64 bytes. `is_behind_edge` tells whether the byte before them is a
/// separator or a newline; it is then set for their last byte.
#[inline(always)]
fn look<S: Simd>(
    simd: S,
    text: &[u8; WIDTH],
    lowered: &mut [u8; WIDTH],
    is_behind_edge: &mut bool,
) -> Marks {
    let (mut stops, mut edges, mut words) = (0, 0, 0);
    let vectors = text.chunks_exact(S::u8s::LEN);
    for (i, (text, lowered)) in vectors
        .zip(lowered.chunks_exact_mut(S::u8s::LEN))
        .enumerate()
    {
        let bytes = S::u8s::from_slice(simd, text);
        let classes = Classes::of(bytes);
        classes.lowered.store_slice(lowered);
        let stop = classes.at | bytes.simd_eq(b'\n');
        let shift = i * S::u8s::LEN;
        stops |= stop.to_bitmask() << shift;
        edges |= (stop | classes.dot).to_bitmask() << shift;
        words |= classes.word.to_bitmask() << shift;
    }
    let behind_edges = edges << 1 | u64::from(*is_behind_edge);
    *is_behind_edge = edges >> (WIDTH - 1) != 0;
    Marks {
        stops,
        bad: !(words | edges) | edges & behind_edges,
    }
}

fn piece_length(text: &[u8]) -> usize {
    let Some((piece, after)) = text.split_at_checked(PIECE_BYTES) else {
        return text.len();
    };
    match memchr::memrchr(b'\n', piece) {
        Some(newline) => newline + 1,
        None => {
            memchr::memchr(b'\n', after).map_or(text.len(), |newline| PIECE_BYTES + newline + 1)
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Places {
    places: Vec<u32>,
    count: usize,
}

/// Number of places written together. A chunk of common lines has four or five stops. Writing a
/// fixed number avoids a branch that the processor cannot predict.
const AT_ONCE: usize = 5;

impl Places {
    fn begin(&mut self, most: usize) {
        self.count = 0;
        if self.places.len() < most + AT_ONCE {
            self.places.resize(most + AT_ONCE, 0);
        }
    }

    fn all(&self) -> &[u32] {
        &self.places[..self.count]
    }

    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a piece is far below 4 GiB"
    )]
    fn add(&mut self, base: usize, mut marks: u64) {
        let base = base as u32;
        let mut left = marks.count_ones() as usize;
        loop {
            let free = &mut self.places[self.count..];
            if let Some(free) = free.first_chunk_mut::<AT_ONCE>() {
                for place in free {
                    *place = base + marks.trailing_zeros();
                    marks &= marks.wrapping_sub(1);
                }
            }
            if left <= AT_ONCE {
                self.count += left;
                return;
            }
            self.count += AT_ONCE;
            left -= AT_ONCE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{Format, Reader, Reading, Row};
    use blocklist_filter::address::Entry;
    use blocklist_filter::address::plain::lower_line;
    use proptest::prelude::*;

    /// Checks that all lines of `text` are visited, and that the full path agrees about the plain
    /// ones.
    fn check(text: &[u8], bits: u8) -> Result<(), TestCaseError> {
        let rules = Rules::from_bits(bits).unwrap();
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
        let mut seen = Vec::new();
        let mut block = Block::new();
        // Memory from an earlier, longer block must not matter.
        block.lines(&[b'@'; 500], rules, |_| {});
        block.lines(text, rules, |line| {
            let entry = line.entry.map(|(kind, text)| (kind, text.to_vec()));
            seen.push((line.written.to_vec(), line.before, entry));
        });
        prop_assert_eq!(seen.len(), lines.len());
        for ((written, before, entry), line) in seen.iter().zip(lines) {
            prop_assert_eq!(written, line.strip_suffix(b"\r").unwrap_or(line));
            if let Some(entry) = entry {
                let full = Entry::parse(&written[*before..], rules);
                let full = full.map(|full| (full.kind(), full.as_bytes().to_vec()));
                prop_assert_eq!(full, Ok(entry.clone()));
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
            3 => "[A-Za-z0-9._-]{1,12}(\\.[A-Za-z0-9_-]{1,4}){0,2}".prop_map(String::into_bytes),
            2 => "#? ?[a-z.]{0,3}@[a-z.\r]{0,3}\r{0,2}".prop_map(String::into_bytes),
            1 => proptest::collection::vec(any::<u8>(), 0..30),
            3 => proptest::collection::vec(
                prop_oneof![4 => Just(b'a'), 1 => Just(b'@'), 1 => Just(b'.'), 1 => Just(b'\n'), 1 => any::<u8>()],
                0..100),
            1 => (300_usize..340).prop_map(|n| [b"x@".to_vec(), vec![b'y'; n]].concat()),
            1 => Just(Vec::new()),
        ]
    }

    fn hosts_line() -> impl Strategy<Value = String> {
        let address =
            "(0\\.0\\.0\\.0|127\\.0\\.0\\.1|127\\.0\\.1\\.1|0|::1|10\\.0\\.0\\.1|)( |\t|  | \t|)";
        let name = prop_oneof![
            6 => "[.-]?[A-Za-z0-9._-]{1,9}\\.(com|Example|[0-9a-f]{1,2})\\.?",
            1 => "(localhost|LocalHost\\.LocalDomain|Local|0\\.0\\.0\\.0|@?a@b\\.example|@b\\.example|)",
            1 => "[ -~]{0,9}",
        ];
        let end = "(|||\r| |# why| # why| other\\.example)";
        (address, name, end).prop_map(|(address, name, end)| format!("{address}{name}{end}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// A plain line gives the same result as by the full path.
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

        /// Each line of a hosts file that is listed here is the only entry that the reader finds on it.
        #[test]
        fn hosts_lines_are_line_by_line(
            lines in proptest::collection::vec(hosts_line(), 0..12), end in "\n?", bits in 0_u8..16,
        ) {
            let rules = Rules::from_bits(bits).unwrap();
            let text = lines.join("\n") + &end;
            check(text.as_bytes(), bits)?;
            let mut listed = Vec::new();
            Block::new().lines_of::<true>(text.as_bytes(), rules, |line| {
                let entry = line.listed::<true>().map(|(kind, entry)| (kind, entry.to_vec()));
                listed.push((line.written.to_vec(), entry));
            });
            for (written, entry) in listed {
                let Some(entry) = entry else { continue };
                let mut rows = Vec::new();
                Reader::new(&Reading::given(Format::Hosts)).read(&written, true, &mut |_, row| {
                    rows.push(match row {
                        Row::Entry(raw) => Entry::parse(raw.text, rules).map(|it| (it.kind(), it.as_bytes().to_vec())).ok(),
                        _ => None,
                    });
                });
                prop_assert_eq!(rows, [Some(entry)], "{}", String::from_utf8_lossy(&written));
            }
        }
    }

    /// Puts each byte at each place of a line, and the line at each place of a chunk: the line is
    /// plain exactly if `plain::lower_line` says so.
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
                        let mailbox = line.entry.filter(|(kind, _)| *kind == Kind::Mailbox);
                        plain.extend(mailbox.map(|(_, text)| text.to_vec()));
                    });
                    for line in text.split(|&byte| byte == b'\n') {
                        let mut lowered = Vec::new();
                        let line = line.strip_suffix(b"\r").unwrap_or(line);
                        let at = lower_line(line, &mut lowered);
                        // A `+` may be within a local part.
                        let plus = line.iter().rposition(|&byte| byte == b'+');
                        if at.is_some_and(|at| plus.is_none_or(|plus| (1..at).contains(&plus))) {
                            expected.push(lowered);
                        }
                    }
                    assert_eq!(plain, expected, "{before} {place} {byte}");
                }
            }
        }
    }
}
