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
/// Number of reasons of each kind counted separately: the first in their order, so that it does not
/// matter which worker finds a reason first. Further ones are counted together.
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
    /// The counts of the first block of inputs that it refuses.
    refused_at_start: BTreeMap<u32, InputCounts>,
    input: u32,
    block: u32,
    /// Entries of the input before the block.
    before: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct InputCounts {
    /// Entries, duplicates included.
    pub(crate) entries: u64,
    pub(crate) expired: u64,
    /// The other rows, by reason; of skipped rows, by the word that they are counted by.
    not_listed: BTreeMap<(NotListed, String), Rows>,
    /// Rows of further reasons, counted together.
    others: BTreeMap<NotListed, Rows>,
    /// The first row for which the input is refused: why, and its text.
    refused: Option<(Place, Refusal, String)>,
    blocks: BTreeMap<u32, u64>,
    pub(crate) ends_within_line: bool,
}

type Place = (u32, u64);

#[derive(Clone, Debug, Default)]
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
        if self.block == 0 && self.counts.refused.is_some() {
            self.refused_at_start
                .insert(self.input, self.counts.clone());
        }
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
        self.refused_at_start.extend(other.refused_at_start);
        for (input, counts) in other.inputs {
            self.inputs.entry(input).or_default().add(counts);
        }
    }

    /// Returns what became of an input. Of one that is refused in its first block this block counts, else
    /// only the lines up to the end of that block: how much is read beyond it depends on the workers.
    pub(crate) fn counts(&mut self, input: u32) -> InputCounts {
        self.put_away();
        let counts = self.inputs.remove(&input).unwrap_or_default();
        match counts.refused {
            None => counts,
            Some(((0, _), ..)) => self.refused_at_start.remove(&input).unwrap_or_default(),
            Some(((block, _), ..)) => InputCounts {
                blocks: counts
                    .blocks
                    .into_iter()
                    .take_while(|(it, _)| *it <= block)
                    .collect(),
                refused: counts.refused,
                ..InputCounts::default()
            },
        }
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
        let rows = self.not_listed();
        rows.filter(|(of, ..)| *of == why)
            .map(|(_, _, count, _)| count)
            .sum()
    }

    /// Returns the rows that are not listed: why, in words, their number, and the first of them.
    pub(crate) fn not_listed(
        &self,
    ) -> impl Iterator<Item = (NotListed, &str, u64, Vec<(u64, &str)>)> {
        let named = self.not_listed.iter();
        let named = named.map(|((why, reason), rows)| (why, reason.as_str(), rows));
        let others = self.others.iter();
        let others = others.map(|(why, rows)| (why, "other reasons", rows));
        named.chain(others).map(|(why, reason, rows)| {
            let examples = rows.examples.iter();
            let examples = examples.map(|(place, text)| (self.line(*place), text.as_str()));
            (*why, reason, rows.count, examples.collect())
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
        let key = (why, reason);
        if !self.not_listed.contains_key(&key) {
            let mut of_kind = self.not_listed.keys().filter(|(of, _)| *of == why);
            if of_kind.clone().count() >= REASONS {
                let last = of_kind.next_back().cloned().expect("there are some");
                if last < key {
                    return self.others.entry(why).or_default();
                }
                let rows = self.not_listed.remove(&last).unwrap_or_default();
                self.others.entry(why).or_default().merge(rows);
            }
        }
        self.not_listed.entry(key).or_default()
    }

    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.expired += other.expired;
        self.blocks.extend(other.blocks);
        self.ends_within_line |= other.ends_within_line;
        for ((why, reason), rows) in other.not_listed {
            self.rows(why, reason).merge(rows);
        }
        for (why, rows) in other.others {
            self.others.entry(why).or_default().merge(rows);
        }
        if let Some(refused) = other.refused {
            self.refuse_at(refused);
        }
    }
}

impl Rows {
    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.examples.extend(other.examples);
        self.examples.sort();
        self.examples.truncate(EXAMPLES);
    }

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

    /// Blocks of an input give the same counts whichever workers read them.
    #[test]
    fn counts_do_not_depend_on_the_workers() {
        let shown = |workers: u32, refused_from: Option<u32>| {
            let mut all = Counts::default();
            for worker in (0..workers).rev() {
                let mut counts = Counts::default();
                for block in (worker..30).step_by(workers as usize) {
                    counts.begin(0, block);
                    for n in 0..5 {
                        let reason = (block * 37 + n) % 90;
                        counts.leave_out(n.into(), b"x", Rejected, &reason);
                        counts.listed();
                    }
                    if refused_from.is_some_and(|from| block >= from) {
                        counts.refuse(3, b"[x]", Refusal::Heading);
                    }
                    counts.end(5, false);
                }
                all.add(counts);
            }
            let counts = all.counts(0);
            let rows = counts.not_listed().map(|row| format!("{row:?}"));
            let rows = rows.collect::<Vec<_>>();
            (
                rows,
                counts.lines(),
                counts.entries,
                format!("{:?}", counts.refused()),
            )
        };
        for (refused_from, reasons) in [(None, REASONS + 1), (Some(7), 0), (Some(0), 5)] {
            let one = shown(1, refused_from);
            assert_eq!(one.0.len(), reasons);
            for workers in [2, 3, 7] {
                assert_eq!(shown(workers, refused_from), one);
            }
        }
    }
}
