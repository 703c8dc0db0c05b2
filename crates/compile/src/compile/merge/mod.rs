//! Merges filters, or the parts of a list, into one filter.
//!
//! ```text
//!   headers --> checked: one seed, one set of rules; of parts, every piece exactly once
//!   records --> staged keys --> sorted, merged, counted --> size --> the filter, as in a build
//! ```
//!
//! The parts of a list give the filter that one build of the whole list would give, byte for byte.
//! Filters may differ in size and rate: the result gets a new size. Filters without records, and with keys that
//! were made in another way, are refused, with an error that says what to do.

mod alike;
mod parts;
mod staged;

use std::sync::Arc;

pub(crate) use self::alike::open_alike;
pub use self::parts::Expected;
use self::staged::{MergedFile, Staging};
use super::error::Error;
use super::job::{Job, MIN_LINE_BYTES};
use super::limits::Task;
use super::lineage::{Lineage, check_not_input};
use super::partition::{NARROW_SOURCES, Narrow, Sealed, StagedKey, Wide};
use super::plan::{Plan, Seed};
use super::progress::Progress;
use super::report::{InputReport, Report};
use super::write::Sources;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::{Filter, FilterFile, Spec};

/// Merges the inputs of `plan`, which are filters, or parts of a list, into its output.
///
/// # Errors
/// When they cannot be merged; when a part is missing, belongs to another list, or exists twice
/// with different records; and whatever prevents writing the result.
pub fn merge(plan: &Plan, expected: &Expected, progress: &Progress) -> Result<Report, Error> {
    let job = Job::begin(plan, progress)?;
    let replacement = Replacement::claim(&plan.output)?;
    let (files, is_parts) = open(plan, expected, progress)?;
    let mut sources = Sources::default();
    for file in &files {
        sources.add_counts(&file.header.spec.sources);
    }
    let first = &files[0].header.spec;
    let seed = Seed::Fixed(first.seed);
    let lineage = Lineage::of(plan, &seed)?;
    let specs = files.iter().map(|file| &file.header.spec);
    let spec = Spec {
        name: plan.name.clone(),
        generation: lineage.generation,
        built: plan.built,
        kinds: specs.clone().fold(0, |kinds, spec| kinds | spec.kinds),
        fpr: (plan.fpr).unwrap_or_else(|| specs.clone().map(|spec| spec.fpr).fold(1.0, f64::min)),
        sources: sources.to_list(),
        ..first.clone()
    };
    let merge = Merge {
        job: &job,
        lineage,
        files: &files,
        is_parts,
    };
    merge.records(replacement, spec, &sources)
}

/// Opens the inputs, and returns whether they are parts.
fn open(
    plan: &Plan,
    expected: &Expected,
    progress: &Progress,
) -> Result<(Vec<MergedFile>, bool), Error> {
    let Some(first) = plan.reads.inputs.first() else {
        return Err(Error::NoInput("filter or part to merge".to_owned()));
    };
    // Filters and parts cannot be mixed: the error names the first file of another kind.
    if expected.is_some() || FilterFile::is_part(first)? {
        let parts = parts::open(&plan.reads.inputs, expected, progress)?;
        check_not_input(&plan.output, &plan.reads.inputs)?;
        return Ok((parts, true));
    }
    let file = |filter: Arc<Filter>| MergedFile {
        path: filter.path().to_owned(),
        header: filter.header().clone(),
    };
    let filters = open_alike(&plan.reads.inputs)?.into_iter();
    Ok((filters.map(file).collect(), false))
}

struct Merge<'a> {
    job: &'a Job<'a>,
    lineage: Lineage,
    files: &'a [MergedFile],
    is_parts: bool,
}

impl Merge<'_> {
    /// Makes the filter from the records of all files, with narrow keys if these can keep all dates.
    fn records(
        &self,
        replacement: Replacement,
        spec: Spec,
        sources: &Sources,
    ) -> Result<Report, Error> {
        let Job { plan, progress, .. } = *self.job;
        let staging = Staging::new(self.files, sources, plan.today().0, progress);
        let entries = total(self.files.iter().map(|file| file.header.entries));
        // As much memory as a build would use for a text with as many entries.
        let text_bytes = entries.saturating_mul(MIN_LINE_BYTES);
        let mut arena = self.job.arena(text_bytes, 1)?;
        let (output, workers) = (replacement.target(), self.job.workers());
        if spec.sources.len() <= NARROW_SOURCES as usize
            && let Some(keys) = staging.run::<Narrow>(output, &mut arena, workers)?
        {
            return self.write(replacement, &keys, spec, &staging);
        }
        let keys = staging.run::<Wide>(output, &mut arena, workers)?;
        let keys = keys.expect("wide keys keep dates");
        self.write(replacement, &keys, spec, &staging)
    }

    fn write<I: StagedKey>(
        &self,
        replacement: Replacement,
        keys: &Sealed<'_, I>,
        mut spec: Spec,
        staging: &Staging<'_>,
    ) -> Result<Report, Error> {
        let expired = staging.expired();
        for (source, expired) in spec.sources.iter_mut().zip(&expired) {
            source.entries = source.entries.saturating_sub(*expired);
        }
        let mut report = self.report(&spec, &expired);
        report.spilled_bytes = keys.spilled_bytes();
        if report.refuse(None, &self.job.plan.limits) {
            return Ok(report);
        }
        self.job.finish(replacement, keys, spec, None, report)
    }

    fn report(&self, spec: &Spec, expired: &[u64]) -> Report {
        let format = if self.is_parts { "parts" } else { "filters" };
        let all_expired = total(expired.iter().copied());
        let expired = expired.iter().copied().chain(std::iter::repeat(0));
        let sources = spec.sources.iter();
        // The pieces of a list are of a text; filters may have been updated since.
        let rows = match self.is_parts {
            true => total(sources.clone().map(|source| source.entries)),
            false => {
                total(self.files.iter().map(|file| file.header.entries)).saturating_sub(all_expired)
            }
        };
        let mut report = Report {
            inputs: (sources.clone().zip(expired))
                .map(|(source, expired)| InputReport {
                    file: source.file.clone(),
                    format: format.to_owned(),
                    lines: source.lines,
                    entries: source.entries,
                    expired,
                    rejected: source.rejected,
                    source: source.clone(),
                    ..InputReport::default()
                })
                .collect(),
            rows,
            rejected: total(sources.map(|source| source.rejected)),
            expired: all_expired,
            task: Task::Merge,
            ..Report::new(self.job.plan)
        };
        report.compare_with(self.lineage.before.as_ref());
        report
    }
}

/// Returns the sum of counts from headers, which may have any value.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::build;
    use crate::compile::partition::Arena;
    use std::fs;

    /// Another attempt at a piece may replace the first one at any time.
    #[test]
    fn a_part_that_is_replaced_meanwhile_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let parts = [0, 1].map(|piece| {
            let list = folder.path().join(format!("{piece}.txt"));
            fs::write(&list, format!("user{piece}@x.example\n")).unwrap();
            let mut plan = Plan::new(list.with_extension("part"), vec![list]);
            (plan.part, plan.source) = (Some(String::new()), Some("list".to_owned()));
            plan.seed = Seed::Fixed(5);
            build(&plan, &Progress::new()).unwrap();
            plan.output
        });
        let progress = Progress::new();
        let files = parts::open(&parts, &Expected::default(), &progress).unwrap();
        let mut sources = Sources::default();
        sources.add_counts(&files[0].header.spec.sources);
        let staging = Staging::new(&files, &sources, 0, &progress);
        fs::rename(&parts[1], &parts[0]).unwrap();
        let mut arena = Arena::new(1 << 20, 2).unwrap();
        let error = staging.run::<Wide>(&parts[1], &mut arena, 1).map(drop);
        let said = error.unwrap_err().to_string();
        assert!(
            said.ends_with("0.part: changed while it was merged"),
            "{said}"
        );
    }
}
