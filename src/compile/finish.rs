//! Staged keys -> the finished file. Lists and parts of lists are finished alike.

use super::error::Error;
use super::job::Job;
use super::lineage::Before;
use super::partition::{InOrder, Sealed, StagedKey};
use super::progress::Phase;
use super::report::{FilterReport, PartReport, Report};
use super::write::{Sorted, assemble};
use crate::base::replacement::Replacement;
use crate::filter::{BuildReport, Dates, Header, Spec, Writer, sizing};

/// What must be known besides the keys.
pub(crate) struct Finish<'a> {
    pub(crate) job: &'a Job<'a>,
    /// The dates of entries whose staged keys hold none.
    pub(crate) dates: Dates,
    /// The filter that will be replaced.
    pub(crate) before: &'a Before,
    /// For a part of a list: the digest of its text.
    pub(crate) digest: Option<u128>,
}

impl Finish<'_> {
    /// Sorts, counts and writes. Finds the `kinds` of `spec`. The inputs of `report` are the
    /// sources, in the order of their numbers.
    pub(crate) fn run<I: StagedKey>(
        &self,
        replacement: Replacement,
        keys: &Sealed<'_, I>,
        spec: Spec,
        mut report: Report,
    ) -> Result<Report, Error> {
        let Job { plan, progress, .. } = *self.job;
        progress.begin(Phase::Sorting, report.rows);
        let counts = self.job.sort(keys)?;
        let entries = counts.entries();
        report.refuse_shrunk_filter(plan, self.before, entries);
        if report.refused.is_some() {
            return Ok(report);
        }
        report.count(&counts);
        if plan.approves_shrink && entries < self.before.entries {
            report.approved_shrink = Some(spec.generation);
            // The daemon asks as soon as it sees the filter. Whether the report can be written, is said
            // at the end.
            let approval = BuildReport {
                entries,
                ..report.summary()
            };
            let _ = approval.write(&plan.output);
        }

        let spec = Spec {
            kinds: counts.kind_bits(),
            ..spec
        };
        let records = InOrder::new(keys, self.dates);
        self.job
            .write(replacement, spec, self.digest, entries, records, report)
    }
}

impl Job<'_> {
    /// Writes sorted records, which are `entries`: to a filter, or with the digest of a text to a part
    /// of a list.
    pub(crate) fn write(
        &self,
        replacement: Replacement,
        spec: Spec,
        digest: Option<u128>,
        entries: u64,
        records: impl Sorted,
        report: Report,
    ) -> Result<Report, Error> {
        self.progress.begin(Phase::Writing, entries);
        let shape = sizing::shape(entries, spec.fpr);
        let writer = Writer::begin(replacement, spec, entries, shape, digest)?;
        let header = assemble(writer, records, self.workers(), self.progress)?;
        Ok(self.finished(report, &header))
    }

    /// Returns the report of a finished job, whose output has this header.
    pub(crate) fn finished(&self, report: Report, header: &Header) -> Report {
        let output = &self.plan.output;
        let is_part = header.part.is_some();
        Report {
            part: is_part.then(|| PartReport::new(header, output)),
            filter: (!is_part).then(|| FilterReport::new(header, output)),
            seconds: self.started.elapsed().as_secs_f64(),
            ..report
        }
    }
}
