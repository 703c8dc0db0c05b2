//! The result of reading lines: counts for each input, and for each reason the first lines that are
//! not listed, with their numbers.
//!
//! Several workers read blocks of one input. Each counts lines from the start of its block. The number
//! of a line in its file is only known at the end: then the lines of all earlier blocks are added.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::mem;

use crate::list::{Refusal, Skip};
use blocklist_filter::address::escaped;

/// Number of lines kept as examples, for each input and reason.
const EXAMPLES: usize = 20;
/// Number of reasons of each kind counted separately; further ones are counted together.
const REASONS: usize = 64;
const SHOWN_BYTES: usize = 80;

/// Why a row lists nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NotListed {
    Rejected,
    Broad,
    /// It is not meant to list anybody.
    Skipped(Skip),
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    inputs: BTreeMap<u32, InputCounts>,
    /// The counts of the current input, which are not yet among the others.
    counts: InputCounts,
    input: u32,
    block: u32,
    /// Entries of the input before the block.
    before: u64,
}

#[derive(Debug, Default)]
pub(crate) struct InputCounts {
    /// Entries, duplicates included.
    pub(crate) entries: u64,
    pub(crate) expired: u64,
    /// The other rows, by reason; of skipped rows, by the word that they are counted by.
    not_listed: BTreeMap<(NotListed, String), Rows>,
    /// The first row for which the input is refused: why, and its text.
    refused: Option<(Place, Refusal, String)>,
    blocks: BTreeMap<u32, u64>,
    pub(crate) ends_within_line: bool,
}

type Place = (u32, u64);

#[derive(Debug, Default)]
struct Rows {
    count: u64,
    /// The first of them, ordered by their places.
    examples: Vec<(Place, String)>,
}

impl Counts {
    pub(crate) fn begin(&mut self, input: u32, block: u32) {
        if input != self.input {
            self.put_away();
            self.input = input;
        }
        self.block = block;
        self.before = self.counts.entries;
    }

    /// Ends the block, which had this many lines. Returns the number of its entries.
    pub(crate) fn end(&mut self, lines: u64, ends_within_line: bool) -> u64 {
        self.counts.blocks.insert(self.block, lines);
        self.counts.ends_within_line |= ends_within_line;
        self.counts.entries - self.before
    }

    #[inline]
    pub(crate) fn listed(&mut self) {
        self.counts.entries += 1;
    }

    pub(crate) fn expired(&mut self) {
        self.counts.expired += 1;
    }

    /// Counts a skipped row. `line` is counted within the block.
    pub(crate) fn skip(&mut self, line: u64, text: &[u8], skip: Skip) {
        let word = match skip.is_by_word() {
            true => escaped(text).to_string(),
            false => String::new(),
        };
        let rows = self.counts.rows(NotListed::Skipped(skip), word);
        match skip.is_notable() {
            true => rows.add((self.block, line), text),
            false => rows.count += 1,
        }
    }

    /// Counts a rejected row, or one that is left out. `line` is counted within the block.
    #[cold]
    pub(crate) fn leave_out(
        &mut self,
        line: u64,
        text: &[u8],
        why: NotListed,
        reason: &dyn Display,
    ) {
        let rows = self.counts.rows(why, reason.to_string());
        rows.add((self.block, line), text);
    }

    /// Notes a row for which the input is refused. `line` is counted within the block.
    #[cold]
    pub(crate) fn refuse(&mut self, line: u64, text: &[u8], refusal: Refusal) {
        let place = (self.block, line);
        self.counts.refuse_at((place, refusal, shown(text)));
    }

    pub(crate) fn add(&mut self, mut other: Self) {
        other.put_away();
        for (input, counts) in other.inputs {
            self.inputs.entry(input).or_default().add(counts);
        }
    }

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
    pub(crate) fn lines(&self) -> u64 {
        self.blocks.values().sum()
    }

    pub(crate) fn count_of(&self, why: NotListed) -> u64 {
        let rows = self.not_listed.iter();
        rows.filter(|((of, _), _)| *of == why)
            .map(|(_, rows)| rows.count)
            .sum()
    }

    /// Returns the rows that are not listed: why, in words, their number, and the first of them.
    pub(crate) fn not_listed(
        &self,
    ) -> impl Iterator<Item = (NotListed, &str, u64, Vec<(u64, &str)>)> {
        self.not_listed.iter().map(|((why, reason), rows)| {
            let examples = rows.examples.iter();
            let examples = examples.map(|(place, text)| (self.line(*place), text.as_str()));
            (*why, reason.as_str(), rows.count, examples.collect())
        })
    }

    pub(crate) fn first_reject(&self) -> String {
        let firsts = self
            .not_listed()
            .filter(|(why, ..)| *why == NotListed::Rejected);
        let firsts = firsts.filter_map(|(_, reason, _, examples)| {
            let (line, text) = *examples.first()?;
            Some((line, format!("line {line}: {text}: {reason}")))
        });
        firsts.min().map_or_else(String::new, |(_, shown)| shown)
    }

    pub(crate) fn refused(&self) -> Option<(&Refusal, u64, &str)> {
        let (place, refusal, text) = self.refused.as_ref()?;
        Some((refusal, self.line(*place), text))
    }

    fn refuse_at(&mut self, refused: (Place, Refusal, String)) {
        let first = self.refused.as_ref();
        if first.is_none_or(|first| refused.0 < first.0) {
            self.refused = Some(refused);
        }
    }

    fn line(&self, (block, line): Place) -> u64 {
        let before = self.blocks.range(..block).map(|(_, lines)| lines);
        before.sum::<u64>() + line
    }

    /// Returns the rows of a reason; those of further reasons are counted together.
    fn rows(&mut self, why: NotListed, reason: String) -> &mut Rows {
        let mut key = (why, reason);
        let of_kind = self.not_listed.keys().filter(|(of, _)| *of == why);
        if !self.not_listed.contains_key(&key) && of_kind.count() >= REASONS {
            key.1 = "other reasons".to_owned();
        }
        self.not_listed.entry(key).or_default()
    }

    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.expired += other.expired;
        self.blocks.extend(other.blocks);
        self.ends_within_line |= other.ends_within_line;
        for ((why, reason), rows) in other.not_listed {
            let sum = self.rows(why, reason);
            sum.count += rows.count;
            sum.examples.extend(rows.examples);
            sum.examples.sort();
            sum.examples.truncate(EXAMPLES);
        }
        if let Some(refused) = other.refused {
            self.refuse_at(refused);
        }
    }
}

impl Rows {
    fn add(&mut self, place: Place, text: &[u8]) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push((place, shown(text)));
        }
    }
}

fn shown(text: &[u8]) -> String {
    escaped(text.get(..SHOWN_BYTES).unwrap_or(text)).to_string()
}

#[cfg(test)]
mod tests {
    use super::NotListed::Rejected;
    use super::*;

    #[test]
    fn reasons_are_bounded() {
        let mut counts = Counts::default();
        counts.begin(0, 0);
        for n in 0..1000 {
            counts.leave_out(n, b"x", Rejected, &n);
        }
        counts.end(1000, false);
        let counts = counts.counts(0);
        assert_eq!(counts.not_listed().count(), REASONS + 1);
        assert_eq!(counts.count_of(Rejected), 1000);
    }
}
