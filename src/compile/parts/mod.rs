//! The parts of a list -> the filter that one build of the whole list would give.
//!
//! ```text
//!   headers of all parts --> one seed, one set of rules, every piece there, and once
//!   records of the parts --> staged keys --as in a build--> the filter
//! ```
//!
//! Each worker has one part open at a time, so that there may be any number of parts. Their
//! records go where a build puts the keys that it reads, and the rest is the same code: with the
//! same seed, date and sources the bytes are the same too.
//!
//! | file | about |
//! |---|---|
//! | `pieces` | which parts there are, and whether they are those that must be there |
//! | `read` | their records to staged keys |

mod pieces;
mod read;

use std::path::Path;
use std::time::Instant;

use self::pieces::Pieces;
use self::read::{Reading, StagedRecords};
use super::finish::Finish;
use super::lineage::Lineage;
use super::partition::{Arena, NARROW_SOURCES, Narrow, StagedKey, Store, Wide};
use super::report::{InputReport, ReadReport, Report};
use super::{Error, Phase, Plan, Progress, Seed};
use crate::filter::{Part, Spec};
use crate::replacement::Replacement;

pub use self::pieces::Expected;

/// A line of text that has an entry has about so many bytes: memory is shared out alike.
const LINE_BYTES: u64 = 16;

/// Whether this is a part of a list.
///
/// # Errors
/// When it is neither that nor a filter.
pub fn is_part(path: &Path) -> Result<bool, Error> {
    Ok(Part::is_at(path)?)
}

/// Joins the parts that are the inputs of `plan` into the filter that is its output. The rate is
/// `fpr`, or the lowest of theirs.
///
/// # Errors
/// When a part is missing, foreign, or there twice with different records, and whatever keeps
/// the filter from being written.
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
        reading: Reading::of(&pieces, plan, progress)?,
        spec,
    };
    let mut arena = Arena::new(
        plan.stage_bytes(pieces.entries().saturating_mul(LINE_BYTES)),
        plan.workers(),
    )?;
    let narrow = join.spec.sources.len() <= NARROW_SOURCES as usize;
    if narrow && let Some(read) = join.read::<Narrow>(&replacement, &mut arena)? {
        return join.write(replacement, &read);
    }
    let read = join
        .read::<Wide>(&replacement, &mut arena)?
        .expect("wide keys keep dates");
    join.write(replacement, &read)
}

/// Parts being joined.
struct Join<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    started: Instant,
    lineage: Lineage,
    reading: Reading<'a>,
    spec: Spec,
}

impl Join<'_> {
    /// Records to staged keys; none when the staged keys cannot keep their dates.
    fn read<'m, I: StagedKey>(
        &self,
        replacement: &Replacement,
        arena: &'m mut Arena,
    ) -> Result<Option<StagedRecords<'m, I>>, Error> {
        self.progress.begin(Phase::Reading, self.reading.bytes());
        let store = Store::new(replacement.target(), arena);
        self.reading.read(store)
    }

    /// Staged keys to the finished file.
    fn write<I: StagedKey>(
        &self,
        replacement: Replacement,
        read: &StagedRecords<'_, I>,
    ) -> Result<Report, Error> {
        let mut spec = self.spec.clone();
        for (source, expired) in spec.sources.iter_mut().zip(&read.expired) {
            source.entries = source.entries.saturating_sub(*expired);
        }
        let inputs = spec.sources.iter().zip(&read.expired);
        let lists = ReadReport {
            inputs: inputs
                .map(|(source, expired)| InputReport::of_source(source, *expired))
                .collect(),
            files: spec
                .sources
                .iter()
                .map(|source| source.file.clone())
                .collect(),
            rows: total(spec.sources.iter().map(|source| source.entries)),
            rejected: total(spec.sources.iter().map(|source| source.rejected)),
            expired: total(read.expired.iter().copied()),
            ..ReadReport::default()
        };
        let mut report = Report::begun(self.plan, lists, read.keys.spilled_bytes());
        report.compare_with(&self.lineage.before);
        report.refuse_changed_lists(self.plan);
        if report.refused.is_some() {
            return Ok(report);
        }
        let finish = Finish {
            plan: self.plan,
            progress: self.progress,
            started: self.started,
            dates: self.reading.dates(),
            before: &self.lineage.before,
            digest: None,
        };
        finish.run(replacement, &read.keys, spec, report)
    }
}

/// What the headers of parts say, each of which may say anything.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}
