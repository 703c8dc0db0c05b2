//! What came of the lines: counts for each input, and the first rejected lines of
//! each reason, with their numbers.
//!
//! Several workers read blocks of one input; each counts lines from the start of its
//! block, and remembers which block. Only when all are done can a line's number in
//! its file be told: the lines of all blocks before are added then.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::mem;

use crate::address::escaped;
use crate::list::Skip;

/// Rejected lines kept as examples, for each input and reason.
const EXAMPLES: usize = 3;
/// Reasons told apart; those beyond are counted as one.
const REASONS: usize = 64;
/// Bytes of a rejected line that are shown.
const SHOWN_BYTES: usize = 80;
/// Kinds of skipped line.
const SKIPS: usize = Skip::ALL.len();

/// Counts of one worker, then of all.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    inputs: BTreeMap<u32, Counts>,
    /// Those of the input under way; they are not among the others.
    counts: Counts,
    input: u32,
    block: u32,
    /// Entries already taken by [`take_new`](Self::take_new).
    told: u64,
    reason: String,
}

/// Counts of one input.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Entries, doubles included.
    pub(crate) entries: u64,
    /// Entries whose last day is past.
    pub(crate) expired: u64,
    /// Rows that list nobody, by [`Skip`].
    pub(crate) skipped: [u64; SKIPS],
    /// Rows that cannot be keys.
    pub(crate) rejected: u64,
    rejects: BTreeMap<String, Rejects>,
    /// Lines of each block.
    blocks: BTreeMap<u32, u64>,
}

/// Rows rejected for one reason.
#[derive(Debug, Default)]
struct Rejects {
    count: u64,
    /// The first of them, by block and line.
    examples: Vec<((u32, u64), String)>,
}

/// A rejected line, its number counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) line: u64,
    pub(crate) text: String,
}

impl Tally {
    /// What follows is of this block.
    pub(crate) fn begin(&mut self, input: u32, block: u32) {
        if input != self.input {
            self.put_away();
            self.input = input;
        }
        self.block = block;
    }

    /// The block had so many lines.
    pub(crate) fn end(&mut self, lines: u64) {
        self.counts.blocks.insert(self.block, lines);
    }

    /// Counts an entry.
    #[inline]
    pub(crate) fn listed(&mut self) {
        self.counts.entries += 1;
    }

    /// Counts an entry that is past.
    pub(crate) fn expired(&mut self) {
        self.counts.expired += 1;
    }

    /// Counts a row that lists nobody.
    pub(crate) fn skip(&mut self, skip: Skip) {
        if let Some(at) = Skip::ALL.iter().position(|one| *one == skip) {
            self.counts.skipped[at] += 1;
        }
    }

    /// Counts a rejected row. `line` counts within the block.
    #[cold]
    pub(crate) fn reject(&mut self, line: u64, text: &[u8], reason: &dyn Display) {
        self.counts.rejected += 1;
        self.reason.clear();
        let _ = write!(self.reason, "{reason}");
        if !self.counts.rejects.contains_key(&self.reason) {
            if self.counts.rejects.len() >= REASONS {
                self.reason.replace_range(.., "other reasons");
            }
            self.counts.rejects.entry(self.reason.clone()).or_default();
        }
        if let Some(rejects) = self.counts.rejects.get_mut(&self.reason) {
            rejects.count += 1;
            // A worker gets the blocks of an input in their order.
            if rejects.examples.len() < EXAMPLES {
                let text = text.get(..SHOWN_BYTES).unwrap_or(text);
                rejects
                    .examples
                    .push(((self.block, line), escaped(text).to_string()));
            }
        }
    }

    /// Entries counted since this was last asked.
    pub(crate) fn take_new(&mut self) -> u64 {
        let put_away: u64 = self.inputs.values().map(|counts| counts.entries).sum();
        let all = put_away + self.counts.entries;
        all - mem::replace(&mut self.told, all)
    }

    /// Adds what another worker counted.
    pub(crate) fn add(&mut self, mut other: Self) {
        other.put_away();
        for (input, counts) in other.inputs {
            self.inputs.entry(input).or_default().add(counts);
        }
    }

    /// The counts of an input, all blocks together.
    pub(crate) fn counts(&mut self, input: u32) -> Counts {
        self.put_away();
        self.inputs.remove(&input).unwrap_or_default()
    }

    fn put_away(&mut self) {
        let counts = mem::take(&mut self.counts);
        self.inputs.entry(self.input).or_default().add(counts);
    }
}

impl Counts {
    /// Lines of the input.
    pub(crate) fn lines(&self) -> u64 {
        self.blocks.values().sum()
    }

    /// Each reason with its count and its first lines.
    pub(crate) fn rejects(&self) -> impl Iterator<Item = (&str, u64, Vec<Example>)> {
        self.rejects.iter().map(|(reason, rejects)| {
            let examples = rejects.examples.iter().map(|((block, line), text)| {
                let before: u64 = self.blocks.range(..block).map(|(_, lines)| lines).sum();
                Example {
                    line: before + line,
                    text: text.clone(),
                }
            });
            (reason.as_str(), rejects.count, examples.collect())
        })
    }

    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.expired += other.expired;
        self.rejected += other.rejected;
        for (sum, count) in self.skipped.iter_mut().zip(other.skipped) {
            *sum += count;
        }
        self.blocks.extend(other.blocks);
        for (reason, rejects) in other.rejects {
            let sum = self.rejects.entry(reason).or_default();
            sum.count += rejects.count;
            sum.examples.extend(rejects.examples);
            sum.examples.sort();
            sum.examples.truncate(EXAMPLES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_add_up_over_blocks_and_workers() {
        let (mut first, mut second) = (Tally::default(), Tally::default());
        first.begin(4, 0);
        first.listed();
        first.end(10);
        second.begin(4, 1);
        second.reject(3, b"b\x07", &"bad");
        second.end(20);
        first.begin(4, 2);
        first.reject(5, b"c", &"bad");
        first.end(7);
        assert_eq!((first.take_new(), first.take_new()), (1, 0));
        let mut all = Tally::default();
        all.add(first);
        all.add(second);
        let counts = all.counts(4);
        assert_eq!(
            (counts.lines(), counts.entries, counts.rejected),
            (37, 1, 2)
        );
        let (reason, count, examples) = counts.rejects().next().unwrap();
        assert_eq!((reason, count), ("bad", 2));
        assert_eq!(
            examples
                .iter()
                .map(|example| example.line)
                .collect::<Vec<_>>(),
            [13, 35]
        );
        assert!(examples[0].text.starts_with('b') && !examples[0].text.contains('\x07'));
    }

    #[test]
    fn reasons_are_bounded() {
        let mut tally = Tally::default();
        tally.begin(0, 0);
        for n in 0..1000 {
            tally.reject(n, b"x", &n);
        }
        tally.end(1000);
        let counts = tally.counts(0);
        assert_eq!(counts.rejects().count(), REASONS + 1);
        assert_eq!(
            counts.rejects().map(|(_, count, _)| count).sum::<u64>(),
            1000
        );
    }
}
