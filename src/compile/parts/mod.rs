//! Merges the parts of a list into the filter that one build of the whole list would give.
//!
//! ```text
//!   headers of all parts --> check: one seed, one set of rules, every piece exactly once
//!   parts --one batch of keys at a time--> sorted, joined, counted --> size of the filter
//!         (from memory, or read again) --pages in file order--> the filter
//! ```
//!
//! Each part is sorted, so the records of a range of keys are contiguous in it. A worker reads the records of a batch of
//! keys from all parts, with only one part open at a time, so the number of parts is not limited. It sorts them and joins
//! duplicates by the same rules as a build. With the same seed, date and sources, the result has the same bytes.
//!
//! | file | about |
//! |---|---|
//! | `pieces` | the parts, and whether they are the expected ones |
//! | `ranges` | how the keys are divided, and how much memory this needs |
//! | `read` | the records of all parts in a range of keys, sorted |
//! | `count` | the number of entries; those that stay in memory |
//! | `pages` | pages in file order |

mod count;
mod pages;
mod pieces;
mod ranges;
mod read;

use std::path::Path;
use std::time::Instant;

use self::count::{Counted, count};
use self::pages::Paging;
use self::pieces::Pieces;
use self::ranges::Ranges;
use self::read::Reading;
use super::lineage::{Before, Lineage, check_not_input};
use super::partition::{Arena, NARROW_SOURCES, Narrow, StagedKey, Wide};
use super::report::{FilterReport, InputReport, ReadReport, Report};
use super::write::EntryCounts;
use super::{Error, Phase, Plan, Progress, Seed};
use crate::base::replacement::Replacement;
use crate::filter::{Key, Part, Spec, Writer, sizing};

pub use self::pieces::Expected;

/// Assumed bytes of a line of text with an entry. Used to divide memory in the same way as for a build.
const LINE_BYTES: u64 = 16;

/// Whether this file is a part of a list.
///
/// # Errors
/// The file is neither a part nor a filter.
pub fn is_part(path: &Path) -> Result<bool, Error> {
    Ok(Part::is_at(path)?)
}

/// Merges the parts that are the inputs of `plan` into the filter that is its output. The false-positive rate is `fpr`,
/// or the lowest rate of the parts.
///
/// # Errors
/// A part is missing, belongs to another list, or exists twice with different records; or the filter cannot be written.
pub fn join(
    plan: &Plan,
    fpr: Option<f64>,
    expected: &Expected,
    progress: &Progress,
) -> Result<Report, Error> {
    let started = Instant::now();
    plan.check_settings()?;
    let replacement = Replacement::claim(&plan.output)?;
    let pieces = Pieces::of(&plan.inputs, expected, progress)?;
    check_not_input(&plan.output, &plan.inputs)?;
    let of_all = pieces.spec();
    let lineage = Lineage::of(&plan.output, &Seed::Fixed(of_all.seed), plan.overwrite)?;
    let spec = Spec {
        name: plan.name.clone(),
        generation: lineage.generation,
        built: plan.built,
        fpr: fpr.unwrap_or(of_all.fpr),
        ..of_all
    };
    let join = Join {
        plan,
        progress,
        started,
        lineage,
        reading: Reading::of(&pieces, plan.today().0, progress)?,
        entries: pieces.entries(),
        spec,
    };
    join.run(replacement, join.ranges::<Narrow>(), join.ranges::<Wide>())
}

/// A merge of parts in progress.
struct Join<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    started: Instant,
    lineage: Lineage,
    reading: Reading<'a>,
    /// Entries of all parts, including duplicates.
    entries: u64,
    spec: Spec,
}

/// The result.
enum Done {
    Joined(Box<Report>),
    /// A record has dates that the staged keys cannot store.
    Dated(Replacement),
}

impl Join<'_> {
    /// How the keys are divided if they are staged as `I`.
    fn ranges<I: StagedKey>(&self) -> Ranges {
        ranges_of::<I>(self.plan, &self.reading, self.entries, self.entries)
    }

    /// Makes the finished file from the parts, with narrow keys if these can store all records.
    fn run(
        &self,
        mut replacement: Replacement,
        narrow: Ranges,
        wide: Ranges,
    ) -> Result<Report, Error> {
        if self.spec.sources.len() <= NARROW_SOURCES as usize {
            replacement = match self.run_as::<Narrow>(replacement, narrow)? {
                Done::Joined(report) => return Ok(*report),
                Done::Dated(replacement) => replacement,
            };
        }
        match self.run_as::<Wide>(replacement, wide)? {
            Done::Joined(report) => Ok(*report),
            Done::Dated(_) => unreachable!("wide keys keep dates"),
        }
    }

    /// Makes the finished file from the parts.
    fn run_as<I: StagedKey>(
        &self,
        replacement: Replacement,
        ranges: Ranges,
    ) -> Result<Done, Error> {
        let all = self.entries.saturating_mul(I::BYTES as u64);
        let kept = usize::try_from(all).map_or(ranges.kept_bytes, |all| all.min(ranges.kept_bytes));
        let mut arena = Arena::in_one_piece(kept)?;
        self.progress.begin(Phase::Counting, self.entries);
        match count::<I>(&self.reading, ranges, ALL_KEYS, arena.bytes())? {
            None => Ok(Done::Dated(replacement)),
            Some(counted) => {
                self.reading.check_counts(&counted.records)?;
                let report = self.write::<I>(replacement, ranges, &counted)?;
                Ok(Done::Joined(Box::new(report)))
            }
        }
    }

    /// Makes the finished file from the counted entries.
    fn write<I: StagedKey>(
        &self,
        replacement: Replacement,
        ranges: Ranges,
        counted: &Counted<'_>,
    ) -> Result<Report, Error> {
        let Counted {
            counts,
            expired,
            kept,
            ..
        } = counted;
        let spec = left_of(self.spec.clone(), counts, expired);
        let mut report = judge(self.plan, &self.lineage.before, &spec, counts, expired);
        if report.refused.is_some() {
            return Ok(report);
        }
        let entries = counts.entries();
        self.progress.begin(Phase::Writing, entries);
        let shape = sizing::shape(entries, spec.fpr);
        let writer = Writer::begin(replacement, spec, entries, shape)?;
        let paging = Paging {
            reading: &self.reading,
            ranges,
            kept,
        };
        let writer = paging.fill::<I>(writer, entries)?;
        self.progress.begin(Phase::Checking, 0);
        let header = writer.finish()?;
        report.filter = Some(FilterReport::new(&header, &self.plan.output));
        report.seconds = self.started.elapsed().as_secs_f64();
        Ok(report)
    }
}

/// From the first key to the last.
const ALL_KEYS: (Key, Option<Key>) = (Key(0), None);

/// How the keys are divided if they are staged as `I`: `entries` of all parts, of which this process makes the pages for
/// `own`.
fn ranges_of<I: StagedKey>(plan: &Plan, reading: &Reading<'_>, entries: u64, own: u64) -> Ranges {
    let room = plan.stage_bytes(own.saturating_mul(LINE_BYTES)) as u64;
    Ranges::of::<I>(plan, entries, reading.parts() as u64, room)
}

/// The same without expired entries.
fn left_of(spec: Spec, counts: &EntryCounts, expired: &[u64]) -> Spec {
    let mut spec = Spec {
        kinds: counts.kind_bits(),
        ..spec
    };
    for (source, expired) in spec.sources.iter_mut().zip(expired) {
        source.entries = source.entries.saturating_sub(*expired);
    }
    spec
}

/// What the parts say of their lists, and whether these may replace what was there before.
fn judge(
    plan: &Plan,
    before: &Before,
    spec: &Spec,
    counts: &EntryCounts,
    expired: &[u64],
) -> Report {
    let inputs = spec.sources.iter().zip(expired);
    let files = spec.sources.iter().map(|source| source.file.clone());
    let lists = ReadReport {
        inputs: inputs
            .map(|(source, expired)| InputReport::of_source(source, *expired))
            .collect(),
        files: files.collect(),
        rows: total(spec.sources.iter().map(|source| source.entries)),
        rejected: total(spec.sources.iter().map(|source| source.rejected)),
        expired: total(expired.iter().copied()),
        ..ReadReport::default()
    };
    let mut report = Report::after_reading(plan, lists, 0);
    report.compare_with(before);
    report.refuse_changed_lists(plan);
    if report.refused.is_none() {
        report.refuse_shrunk_filter(plan, before, counts.entries());
    }
    if report.refused.is_none() {
        report.count(counts);
    }
    report
}

/// The sum of counts from headers, which may have any value.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::build;
    use std::fs;
    use std::path::PathBuf;

    /// Parts of a list; some rows are in several parts, and have dates if `dated`.
    fn parts(folder: &Path, dated: bool) -> Vec<PathBuf> {
        let part = |piece: usize| {
            let rows = (0..2500).filter(|n| n % 7 == piece || n % 100 < piece);
            let row = |n: usize| match dated {
                true => format!(
                    "user{n}@x.example # expires 20{}-03-01\n",
                    30 + (n * piece) % 9
                ),
                false => format!("user{n}@x.example\n"),
            };
            let list = folder.join(format!("{piece}.txt"));
            fs::write(&list, rows.map(row).collect::<String>()).unwrap();
            let mut plan = Plan::new(list.with_extension("part"), vec![list.clone()]);
            plan.part = Some(String::new());
            plan.source = Some("list".to_owned());
            plan.seed = Seed::Fixed(5);
            plan.built = 1_790_000_000;
            build(&plan, &Progress::new()).unwrap();
            plan.output
        };
        (0..7).map(part).collect()
    }

    /// The division of the keys, and how many of them are kept in memory, do not matter.
    #[test]
    fn any_division_gives_the_same_bytes() {
        for dated in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut plan = Plan::new(folder.path().join("list.blf"), parts(folder.path(), dated));
            (plan.built, plan.fpr) = (1_790_000_000, 1e-12);
            join(&plan, None, &Expected::default(), &Progress::new()).unwrap();
            let expected = fs::read(&plan.output).unwrap();
            fs::remove_file(&plan.output).unwrap();
            let progress = Progress::new();
            let pieces = Pieces::of(&plan.inputs, &Expected::default(), &progress).unwrap();
            let divisions = [(12, 0, 1), (12, 5, 3), (13, 2, 2)];
            for ((range_bits, batch_bits, workers), (kept_bytes, deals)) in
                divisions.into_iter().flat_map(|division| {
                    let kept = [
                        (0, false),
                        (20_000, true),
                        (1 << 20, false),
                        (1 << 20, true),
                    ];
                    kept.map(|kept| (division, kept))
                })
            {
                let ranges = Ranges::exactly(range_bits, batch_bits, workers, kept_bytes);
                let ranges = ranges.dealing(deals);
                let replacement = Replacement::claim(&plan.output).unwrap();
                let join = under_way(&plan, &pieces, &progress);
                join.run(replacement, ranges, ranges).unwrap();
                assert!(fs::read(&plan.output).unwrap() == expected, "{ranges:?}");
                fs::remove_file(&plan.output).unwrap();
            }
        }
    }

    fn under_way<'a>(plan: &'a Plan, pieces: &'a Pieces, progress: &'a Progress) -> Join<'a> {
        Join {
            plan,
            progress,
            started: Instant::now(),
            lineage: Lineage::of(&plan.output, &Seed::Fixed(5), false).unwrap(),
            reading: Reading::of(pieces, plan.today().0, progress).unwrap(),
            entries: pieces.entries(),
            spec: Spec {
                name: plan.name.clone(),
                generation: 1,
                built: plan.built,
                ..pieces.spec()
            },
        }
    }

    /// Another attempt at a piece may replace the first one at any time.
    #[test]
    fn a_part_that_is_replaced_meanwhile_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let parts = parts(folder.path(), false);
        let plan = Plan::new(folder.path().join("list.blf"), parts);
        let progress = Progress::new();
        let pieces = Pieces::of(&plan.inputs, &Expected::default(), &progress).unwrap();
        let join = under_way(&plan, &pieces, &progress);
        fs::rename(&plan.inputs[4], &plan.inputs[3]).unwrap();
        let replacement = Replacement::claim(&plan.output).unwrap();
        let ranges = Ranges::exactly(12, 5, 2, 1 << 20);
        let error = join.run(replacement, ranges, ranges).unwrap_err();
        let message = error.to_string();
        assert!(
            message.ends_with("3.part: changed while the parts were read"),
            "{message}"
        );
        assert!(!plan.output.exists());
    }
}
