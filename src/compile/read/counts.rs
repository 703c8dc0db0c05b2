//! The result of reading lines: counts for each input, and the first rejected, skipped and left-out
//! lines of each reason, with their numbers.
//!
//! Several workers read blocks of one input. Each counts lines from the start of its
//! block, and remembers the block. The number of a line in its file is only known when all
//! workers are done: then the lines of all earlier blocks are added.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::mem;

use crate::address::escaped;
use crate::list::{Refusal, Skip};

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
    /// Entries that were left out because they are too broad, or protected.
    pub(crate) broad: u64,
    broads: BTreeMap<String, Noted>,
    /// By the word that such rows are counted by, if there is one.
    skips: BTreeMap<(Skip, String), Noted>,
    /// The first row for which the input is refused.
    refused: Option<((u32, u64), Refused)>,
    /// Number of lines of each block.
    blocks: BTreeMap<u32, u64>,
}

/// Why an input is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    /// The line; 0 if it is not about a line.
    pub(crate) line: u64,
    pub(crate) text: String,
}

/// Rows rejected, skipped or left out for one reason.
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
        self.reason.clear();
        if skip.is_by_word() {
            let _ = write!(self.reason, "{}", escaped(text));
        }
        let noted = noted(&mut self.counts.skips, &mut self.reason, |word| {
            (skip, word)
        });
        if skip.is_notable() {
            noted.add(self.block, line, text);
        } else {
            noted.count += 1;
        }
    }

    /// Counts a rejected row. `line` is counted within the block.
    #[cold]
    pub(crate) fn reject(&mut self, line: u64, text: &[u8], reason: &dyn Display) {
        self.counts.rejected += 1;
        self.reason.clear();
        let _ = write!(self.reason, "{reason}");
        noted(&mut self.counts.rejects, &mut self.reason, |reason| reason)
            .add(self.block, line, text);
    }

    /// Counts an entry that is too broad, or protected. `line` is counted within the block.
    #[cold]
    pub(crate) fn broad(&mut self, line: u64, text: &[u8], reason: &dyn Display) {
        self.counts.broad += 1;
        self.reason.clear();
        let _ = write!(self.reason, "{reason}");
        noted(&mut self.counts.broads, &mut self.reason, |reason| reason)
            .add(self.block, line, text);
    }

    /// Notes a row for which the input is refused. `line` is counted within the block.
    #[cold]
    pub(crate) fn refuse(&mut self, line: u64, text: &[u8], refusal: Refusal) {
        let text = escaped(text.get(..SHOWN_BYTES).unwrap_or(text)).to_string();
        let refused = Refused {
            refusal,
            line,
            text,
        };
        self.counts.refuse_at((self.block, line), refused);
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

    /// Returns the first rejected line, with its number and the reason.
    pub(crate) fn first_reject(&self) -> String {
        let firsts = self.rejects().filter_map(|(reason, _, examples)| {
            let first = examples.into_iter().next()?;
            Some((
                first.line,
                format!("line {}: {}: {reason}", first.line, first.text),
            ))
        });
        firsts.min().map_or_else(String::new, |(_, shown)| shown)
    }

    /// Returns the same for entries that were left out.
    pub(crate) fn broads(&self) -> impl Iterator<Item = (&str, u64, Vec<Example>)> {
        let broads = self.broads.iter();
        broads.map(|(reason, noted)| (reason.as_str(), noted.count, self.examples(noted)))
    }

    /// Returns the same for skipped rows, with the word that they are counted by.
    pub(crate) fn skips(&self) -> impl Iterator<Item = (Skip, &str, u64, Vec<Example>)> {
        let skips = self.skips.iter();
        skips.map(|((skip, word), noted)| (*skip, word.as_str(), noted.count, self.examples(noted)))
    }

    /// Returns why the input is refused.
    pub(crate) fn refused(&self) -> Option<Refused> {
        let ((block, line), refused) = self.refused.as_ref()?;
        let line = self.lines_before(*block) + line;
        Some(Refused {
            line,
            ..refused.clone()
        })
    }

    fn refuse_at(&mut self, place: (u32, u64), refused: Refused) {
        if self
            .refused
            .as_ref()
            .is_none_or(|(other, _)| place < *other)
        {
            self.refused = Some((place, refused));
        }
    }

    /// Returns the number of lines before a block.
    fn lines_before(&self, block: u32) -> u64 {
        self.blocks.range(..block).map(|(_, lines)| lines).sum()
    }

    /// Returns the examples with their line numbers in the input.
    fn examples(&self, noted: &Noted) -> Vec<Example> {
        let examples = noted.examples.iter().map(|((block, line), text)| Example {
            line: self.lines_before(*block) + line,
            text: text.clone(),
        });
        examples.collect()
    }

    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.blocks.extend(other.blocks);
        self.broad += other.broad;
        join(&mut self.rejects, other.rejects);
        join(&mut self.broads, other.broads);
        join(&mut self.skips, other.skips);
        if let Some((place, refused)) = other.refused {
            self.refuse_at(place, refused);
        }
    }
}

/// Returns the rows of a reason; those of further reasons are counted together.
fn noted<'m, K: Ord>(
    all: &'m mut BTreeMap<K, Noted>,
    reason: &mut String,
    key: impl Fn(String) -> K,
) -> &'m mut Noted {
    let mut wanted = key(reason.clone());
    if all.len() >= REASONS && !all.contains_key(&wanted) {
        reason.replace_range(.., "other reasons");
        wanted = key(reason.clone());
    }
    all.entry(wanted).or_default()
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
