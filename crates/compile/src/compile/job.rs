//! A plan whose settings were checked, while it is carried out: threads, memory, and the end of the
//! work, which is the same for lists and parts of lists.

use std::path::Path;
use std::time::Instant;

use super::error::Error;
use super::partition::{Arena, InOrder, STAGES, Sealed, StagedKey, Store, Wide, sort_all};
use super::plan::{MAX_THREADS, MIN_MEMORY_BYTES, Plan, Seed};
use super::progress::{Phase, Progress};
use super::read::{AnyRead, Feed, Input, Read, ReadOptions, read, read_any};
use super::report::{FilterReport, PartReport, Report};
use super::write::{EntryCounts, Sorted, assemble};
use blocklist_filter::base::numbers::size;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::format::check_name;
use blocklist_filter::filter::sizing::RATES;
use blocklist_filter::filter::{Header, Spec, Writer, sizing};

/// Memory that a compilation uses in addition to staged keys: for the program and the buffers of
/// the writer, and per worker for a block of text, and pages and records in progress.
const OTHER_BYTES: u64 = 16 << 20;
const WORKER_BYTES: u64 = 4 << 20;
/// Length in bytes of the shortest usual line, by which the number of lines of a list is estimated.
pub(super) const MIN_LINE_BYTES: u64 = 16;
/// Each page, of about a thousand entries at the default rate, needs a checksum (8 bytes) and a place
/// in the directory (16) until the end, in memory that doubles as it grows.
const ENTRIES_PER_INDEX_BYTE: u64 = 20;

pub(crate) struct Job<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) progress: &'a Progress,
    pub(crate) started: Instant,
}

impl<'a> Job<'a> {
    pub(crate) fn begin(plan: &'a Plan, progress: &'a Progress) -> Result<Self, Error> {
        check(plan)?;
        Ok(Self {
            plan,
            progress,
            started: Instant::now(),
        })
    }

    /// Returns the memory for the staged keys of lists of `text_bytes`, one of `shares` alike.
    pub(crate) fn arena(&self, text_bytes: u64, shares: usize) -> Result<Arena, Error> {
        Arena::new(self.stage_bytes(text_bytes) / shares, self.workers())
    }

    /// Reads lists to staged keys, in `arena` and then beside `output`.
    pub(crate) fn read<'m, I: StagedKey>(
        &self,
        inputs: &[Input],
        (output, arena): (&Path, &'m mut Arena),
        options: &ReadOptions,
    ) -> Result<Read<'m, I>, Error> {
        let feed = Feed::new(inputs, options, self.progress);
        read(feed, Store::new(output, arena), self.workers())
    }

    /// The same, to keys of the size that the dates of the rows need.
    pub(crate) fn read_any<'m>(
        &self,
        inputs: &[Input],
        (output, arena): (&Path, &'m mut Arena),
        options: &ReadOptions,
    ) -> Result<AnyRead<'m>, Error> {
        let feed = Feed::new(inputs, options, self.progress);
        read_any(feed, Store::new(output, arena), self.workers())
    }

    pub(crate) fn sort<I: StagedKey>(&self, keys: &Sealed<'_, I>) -> Result<EntryCounts, Error> {
        let sorters = self.sorters(keys.used_bytes, keys.largest_bytes());
        sort_all(keys, sorters, self.progress)
    }

    /// Sorts, counts and writes staged keys; with the digest of a text, to a part of a list. The inputs
    /// of `report` are the sources, in the order of their numbers.
    pub(crate) fn finish<I: StagedKey>(
        &self,
        replacement: Replacement,
        keys: &Sealed<'_, I>,
        spec: Spec,
        digest: Option<u128>,
        mut report: Report,
    ) -> Result<Report, Error> {
        let Job { plan, progress, .. } = *self;
        progress.begin(Phase::Sorting, report.rows);
        let counts = self.sort(keys)?;
        let entries = counts.entries();
        if report.refuse(Some(entries), &plan.limits) {
            return Ok(report);
        }
        report.count(&counts);
        if plan.limits.approves_shrink
            && report.entries_before.is_some_and(|before| entries < before)
        {
            report.approved_shrink = Some(spec.generation);
            // The daemon asks as soon as it sees the filter. A failure is reported at the end.
            let mut approval = report.summary();
            approval.entries = entries;
            let _ = approval.write(&plan.output);
        }
        let records = Box::new(InOrder::new(keys));
        self.write(replacement, spec, digest, (&counts, records), report)
    }

    /// Writes sorted records, which were counted. Finds the `kinds` of `spec`.
    pub(crate) fn write(
        &self,
        replacement: Replacement,
        mut spec: Spec,
        digest: Option<u128>,
        (counts, records): (&EntryCounts, Box<dyn Sorted + '_>),
        report: Report,
    ) -> Result<Report, Error> {
        spec.kinds = counts.kind_bits();
        let entries = counts.entries();
        self.progress.begin(Phase::Writing, entries);
        let shape = sizing::shape(entries, spec.fpr);
        let writer = Writer::begin(replacement, spec, entries, shape, digest)?;
        let writer = assemble(writer, records, self.workers(), self.progress)?;
        self.progress.begin(Phase::Checking, 0);
        let header = writer.finish()?;
        Ok(self.finished(report, &header))
    }

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

    pub(crate) fn workers(&self) -> usize {
        self.workers_beside(OTHER_BYTES, WORKER_BYTES)
    }

    /// Returns the number of threads that sort, beside `kept_bytes` of staged keys. Each holds a stage
    /// of `stage_bytes` three times: packed, unpacked, and sorted.
    fn sorters(&self, kept_bytes: u64, stage_bytes: u64) -> usize {
        self.workers_beside(OTHER_BYTES + kept_bytes, stage_bytes.saturating_mul(3))
            .min(self.workers())
    }

    fn workers_beside(&self, others_bytes: u64, worker_bytes: u64) -> usize {
        let most = self
            .plan
            .resources
            .memory_bytes
            .saturating_sub(others_bytes)
            / worker_bytes.max(1);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.plan.resources.threads.min(most).max(1)
    }

    /// Returns the memory for the staged keys of lists of `text_bytes` (0 if unknown): what is left
    /// beside text, sorting, pages in progress, and their index, but at least a quarter.
    fn stage_bytes(&self, text_bytes: u64) -> usize {
        let workers = self.workers() as u64;
        let entries = text_bytes / MIN_LINE_BYTES;
        let sorted = workers * 3 * (entries * Wide::BYTES as u64 / STAGES as u64);
        let others =
            OTHER_BYTES + (workers * WORKER_BYTES).max(sorted) + entries / ENTRIES_PER_INDEX_BYTE;
        let memory = self.plan.resources.memory_bytes;
        let bytes = memory.saturating_sub(others).max(memory / 4);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

fn check(plan: &Plan) -> Result<(), Error> {
    let (rate, threads) = (plan.rate(), plan.resources.threads);
    let wrong = |option, given: &dyn ToString, why: String| {
        let given = given.to_string();
        Err(Error::Setting { option, given, why })
    };
    if plan.name.is_empty() {
        return Err(Error::setting("--name", "must not be empty"));
    }
    check_name(&plan.name).map_err(|why| Error::setting("--name", why))?;
    if !RATES.contains(&rate) {
        let (least, most) = (RATES.start(), RATES.end());
        return wrong(
            "--fpr",
            &rate,
            format!("must be between {least:e} and {most}"),
        );
    }
    if !(1..=MAX_THREADS).contains(&threads) {
        return wrong(
            "--threads",
            &threads,
            format!("must be between 1 and {MAX_THREADS}"),
        );
    }
    if plan.resources.memory_bytes < MIN_MEMORY_BYTES {
        let why = format!(
            "{} is too little; give at least 32M",
            size(plan.resources.memory_bytes)
        );
        return Err(Error::setting("--memory", why));
    }
    if plan.expires.is_some_and(|day| day <= plan.today()) {
        let why = "this date is in the past, nothing would be listed";
        return Err(Error::setting("expires", why));
    }
    Ok(())
}

pub(super) fn check_build(plan: &Plan) -> Result<(), Error> {
    let is_part = plan.part.is_some();
    let (option, why) = if plan.reads.inputs.is_empty() && plan.reads.meant.is_empty() {
        let why = "input: give a list, a folder, or - for standard input";
        return Err(Error::NoInput(why.to_owned()));
    } else if is_part && plan.seed == Seed::Keep {
        let why = "give the seed that all parts of the list share, by --seed-from or --seed";
        ("--part", why)
    } else if is_part && !plan.records {
        let why = "a part consists of records; build it without --no-records";
        ("--part", why)
    } else if plan.expires.is_some() && !plan.records {
        let why = "a filter without records cannot store dates; build it without --no-records";
        ("--expires", why)
    } else {
        return Ok(());
    };
    Err(Error::setting(option, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_work_at_once_than_memory_allows() {
        let mut plan = Plan::new("x.blf", Vec::new());
        let progress = Progress::new();
        for (threads, memory_mib, workers) in [
            (1, 32, 1),
            (2, 32, 2),
            (256, 32, 4),
            (256, 64, 12),
            (8, 64, 8),
            (256, 4096, 256),
        ] {
            (plan.resources.threads, plan.resources.memory_bytes) = (threads, memory_mib << 20);
            let job = Job::begin(&plan, &progress).unwrap();
            assert_eq!(job.workers(), workers, "{threads} in {memory_mib} MiB");
            assert!(job.stage_bytes(0) as u64 >= plan.resources.memory_bytes / 4);
        }
        // Stages leave room for what sorts and indexes them.
        (plan.resources.threads, plan.resources.memory_bytes) = (8, 4 << 30);
        let job = Job::begin(&plan, &progress).unwrap();
        // Ten billion lines of 30 bytes.
        let (entries, text_bytes) = (10_000_000_000_u64, 300_000_000_000);
        let stages = job.stage_bytes(text_bytes) as u64;
        let stage = entries * 16 / STAGES as u64;
        let workers = job.sorters(stages, stage) as u64;
        assert!(stages >= plan.resources.memory_bytes / 4);
        assert!(stages + workers * 3 * stage <= plan.resources.memory_bytes);
        assert_eq!(workers, 8);
        // A small list leaves nearly all of it to the stages.
        assert!(job.stage_bytes(1 << 20) as u64 > plan.resources.memory_bytes / 10 * 9);
        assert_eq!(job.sorters(1 << 20, 1 << 10), 8);
    }
}
