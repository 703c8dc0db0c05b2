//! The result of reading lines: counts for each input, and the first rejected, skipped and
//! repaired lines of each reason, with their numbers.
//!
//! Several workers read blocks of one input. Each counts lines from the start of its
//! block, and remembers the block. The number of a line in its file is only known when all
//! workers are done: then the lines of all earlier blocks are added.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::mem;

use crate::address::escaped;
use crate::list::{Mend, Skip};

/// Number of lines kept as examples, for each input and reason.
const EXAMPLES: usize = 3;
/// Number of reasons counted separately; further ones are counted together.
const REASONS: usize = 64;
/// Number of bytes of a line that are shown.
const SHOWN_BYTES: usize = 80;

/// Counts of one worker, then of all.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    inputs: BTreeMap<u32, InputCounts>,
    /// The counts of the current input, which are not yet among the others.
    counts: InputCounts,
    input: u32,
    block: u32,
    /// Entries since the last call of [`take_new`](Self::take_new).
    new: u64,
    reason: String,
}

/// Counts of one input.
#[derive(Debug, Default)]
pub(crate) struct InputCounts {
    /// Entries, duplicates included.
    pub(crate) entries: u64,
    /// Entries that have expired.
    pub(crate) expired: u64,
    /// Rows that were rejected.
    pub(crate) rejected: u64,
    rejects: BTreeMap<String, Noted>,
    skips: BTreeMap<Skip, Noted>,
    mends: BTreeMap<Mend, Noted>,
    /// Number of lines of each block.
    blocks: BTreeMap<u32, u64>,
}

/// Rows rejected, skipped or repaired for one reason.
#[derive(Debug, Default)]
struct Noted {
    count: u64,
    /// The first of them, ordered by block and line.
    examples: Vec<((u32, u64), String)>,
}

/// A line with its number, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) line: u64,
    pub(crate) text: String,
}

impl Counts {
    /// Begins a block.
    pub(crate) fn begin(&mut self, input: u32, block: u32) {
        if input != self.input {
            self.put_away();
            self.input = input;
        }
        self.block = block;
    }

    /// Ends the block, which had this many lines.
    pub(crate) fn end(&mut self, lines: u64) {
        self.counts.blocks.insert(self.block, lines);
    }

    /// Counts an entry.
    #[inline]
    pub(crate) fn listed(&mut self) {
        self.counts.entries += 1;
        self.new += 1;
    }

    /// Counts an entry that has expired.
    pub(crate) fn expired(&mut self) {
        self.counts.expired += 1;
    }

    /// Counts a row that lists nobody. `line` is counted within the block.
    pub(crate) fn skip(&mut self, line: u64, text: &[u8], skip: Skip) {
        let noted = self.counts.skips.entry(skip).or_default();
        if skip.is_notable() {
            noted.add(self.block, line, text);
        } else {
            noted.count += 1;
        }
    }

    /// Counts a row that was repaired. `line` is counted within the block.
    pub(crate) fn mend(&mut self, line: u64, text: &[u8], mend: Mend) {
        let noted = self.counts.mends.entry(mend).or_default();
        noted.add(self.block, line, text);
    }

    /// Counts a rejected row. `line` is counted within the block.
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
            rejects.add(self.block, line, text);
        }
    }

    /// Returns the number of entries counted since the last call.
    pub(crate) fn take_new(&mut self) -> u64 {
        mem::take(&mut self.new)
    }

    /// Adds the counts of another worker.
    pub(crate) fn add(&mut self, mut other: Self) {
        other.put_away();
        for (input, counts) in other.inputs {
            self.inputs.entry(input).or_default().add(counts);
        }
    }

    /// Returns the counts of an input, all blocks together.
    pub(crate) fn counts(&mut self, input: u32) -> InputCounts {
        self.put_away();
        self.inputs.remove(&input).unwrap_or_default()
    }

    fn put_away(&mut self) {
        let counts = mem::take(&mut self.counts);
        self.inputs.entry(self.input).or_default().add(counts);
    }
}

impl InputCounts {
    /// Returns the number of lines of the input.
    pub(crate) fn lines(&self) -> u64 {
        self.blocks.values().sum()
    }

    /// Returns each reason for rejecting, with its count and its first lines.
    pub(crate) fn rejects(&self) -> impl Iterator<Item = (&str, u64, Vec<Example>)> {
        let rejects = self.rejects.iter();
        rejects.map(|(reason, noted)| (reason.as_str(), noted.count, self.examples(noted)))
    }

    /// Returns the same for skipped rows.
    pub(crate) fn skips(&self) -> impl Iterator<Item = (Skip, u64, Vec<Example>)> {
        let skips = self.skips.iter();
        skips.map(|(skip, noted)| (*skip, noted.count, self.examples(noted)))
    }

    /// Returns the same for repaired rows.
    pub(crate) fn mends(&self) -> impl Iterator<Item = (Mend, u64, Vec<Example>)> {
        let mends = self.mends.iter();
        mends.map(|(mend, noted)| (*mend, noted.count, self.examples(noted)))
    }

    /// Returns the examples with their line numbers in the input.
    fn examples(&self, noted: &Noted) -> Vec<Example> {
        let examples = noted.examples.iter().map(|((block, line), text)| {
            let before: u64 = self.blocks.range(..block).map(|(_, lines)| lines).sum();
            Example {
                line: before + line,
                text: text.clone(),
            }
        });
        examples.collect()
    }

    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.blocks.extend(other.blocks);
        join(&mut self.rejects, other.rejects);
        join(&mut self.skips, other.skips);
        join(&mut self.mends, other.mends);
    }
}

impl Noted {
    fn add(&mut self, block: u32, line: u64, text: &[u8]) {
        self.count += 1;
        // A worker gets the blocks of an input in order.
        if self.examples.len() < EXAMPLES {
            let text = text.get(..SHOWN_BYTES).unwrap_or(text);
            self.examples
                .push(((block, line), escaped(text).to_string()));
        }
    }
}

/// Adds the rows of another worker, by reason.
fn join<K: Ord>(sums: &mut BTreeMap<K, Noted>, others: BTreeMap<K, Noted>) {
    for (key, other) in others {
        let sum = sums.entry(key).or_default();
        sum.count += other.count;
        sum.examples.extend(other.examples);
        sum.examples.sort();
        sum.examples.truncate(EXAMPLES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_add_up_over_blocks_and_workers() {
        let (mut first, mut second) = (Counts::default(), Counts::default());
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
        let mut all = Counts::default();
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
        let mut counts = Counts::default();
        counts.begin(0, 0);
        for n in 0..1000 {
            counts.reject(n, b"x", &n);
        }
        counts.end(1000);
        let counts = counts.counts(0);
        assert_eq!(counts.rejects().count(), REASONS + 1);
        assert_eq!(
            counts.rejects().map(|(_, count, _)| count).sum::<u64>(),
            1000
        );
    }
}
