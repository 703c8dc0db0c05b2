//! Text lists -> one filter file, from the first line to the last page.

use std::path::Path;
use std::time::Instant;

use super::Error;
use super::lineage::Lineage;
use super::partition::{Arena, InOrder, NARROW_SOURCES, Narrow, StagedKey, Store, Wide, sort_all};
use super::plan::Plan;
use super::progress::{Phase, Progress};
use super::read::{Feed, Found, Input, Read, ReadOptions, find_all, read, total_bytes};
use super::report::{FilterReport, ReadReport, Report};
use super::wording::kind_counts;
use super::write::assemble;
use crate::address::RULES_VERSION;
use crate::filter::{Replacement, Spec, Writer, sizing};

/// Builds a filter from text lists.
///
/// A report whose `refused` is set means that nothing was written, because more lines
/// were rejected than the plan allows.
///
/// # Errors
/// Whatever keeps the filter from being written; the old one stays then.
pub fn build(plan: &Plan, progress: &Progress) -> Result<Report, Error> {
    let started = Instant::now();
    plan.check()?;
    let replacement = Replacement::claim(&plan.output)?;
    let Found {
        lists: inputs,
        passed_over,
        perhaps_meant,
    } = find_all(&plan.inputs, &plan.meant)?;
    if let ([], Some(first)) = (inputs.as_slice(), perhaps_meant) {
        return Err(Error::Plan(format!("no list to read: {first}")));
    }
    let lineage = Lineage::of(&plan.output, &plan.seed, plan.overwrite)?;
    let options = ReadOptions {
        rules: plan.rules,
        seed: lineage.seed,
        today: plan.today(),
        expires: plan.expires,
        guard: plan.guard()?,
        sources: (0..).take(inputs.len()).collect(),
        keeps_dates: plan.records,
        refuses_ends: !plan.records,
        rejects: plan.rejects_file()?,
    };
    let build = Build {
        plan,
        progress,
        inputs: &inputs,
        passed_over,
        lineage,
        options: &options,
        started,
    };

    let mut arena = Arena::new(plan.stage_bytes(total_bytes(&inputs)), plan.workers())?;
    // Keys of half the size serve when no row has dates of its own. That shows only
    // when it is read; what cannot be read twice is taken as if it had.
    let read_twice = inputs.iter().all(Input::is_regular);
    let narrow = inputs.len() <= NARROW_SOURCES as usize && (read_twice || !plan.records);
    if narrow && let Some(keys) = build.read::<Narrow>(replacement.target(), &mut arena)? {
        return build.write(replacement, keys);
    }
    if narrow && let Some(rejects) = &options.rejects {
        rejects.restart()?;
    }
    let keys = build
        .read::<Wide>(replacement.target(), &mut arena)?
        .expect("wide keys keep dates");
    build.write(replacement, keys)
}

/// A build under way.
struct Build<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    inputs: &'a [Input],
    passed_over: Vec<String>,
    lineage: Lineage,
    options: &'a ReadOptions,
    started: Instant,
}

impl Build<'_> {
    /// Text to staged keys; none when the staged keys cannot keep what the rows say.
    fn read<'m, I: StagedKey>(
        &self,
        output: &Path,
        arena: &'m mut Arena,
    ) -> Result<Option<Read<'m, I>>, Error> {
        self.progress
            .begin(Phase::Reading, total_bytes(self.inputs));
        let feed = Feed::new(self.inputs, self.plan.format, self.progress)
            .counting_lines(self.options.rejects.is_some());
        let store = Store::new(output, arena);
        read(
            feed,
            store,
            self.options,
            self.plan.workers(),
            self.progress,
        )
    }

    /// Staged keys to the finished file.
    fn write<I: StagedKey>(
        &self,
        replacement: Replacement,
        read: Read<'_, I>,
    ) -> Result<Report, Error> {
        let Self { plan, progress, .. } = *self;
        let spilled_bytes = read.keys.spilled_bytes();
        let mut lists = ReadReport::new(self.inputs, read.opened, read.counts);
        let sources = std::mem::take(&mut lists.sources);
        let mut report = Report::begun(plan, lists, spilled_bytes);
        report.passed_over.clone_from(&self.passed_over);
        let before = &self.lineage.before;
        report.compare_with(before);
        if report.refuse(plan) {
            return Ok(report);
        }
        report.check_nothing_lost(plan, before)?;
        report.refuse_changed_lists(plan);
        if report.refused.is_some() {
            return Ok(report);
        }

        progress.begin(Phase::Sorting, report.rows);
        let counts = sort_all(
            &read.keys,
            plan.sorters(read.keys.used_bytes(), read.keys.largest_bytes()),
            progress,
        )?;
        let entries = counts.entries();
        report.refuse_shrunk_filter(plan, before, entries);
        if report.refused.is_some() {
            return Ok(report);
        }
        report.doubles = report.rows - entries;
        report.kinds = kind_counts(&counts);
        for (number, input) in self.options.sources.iter().zip(&mut report.inputs) {
            input.own = counts.of_source(*number);
        }

        let spec = Spec {
            name: plan.name.clone(),
            generation: self.lineage.generation,
            built: plan.built,
            seed: self.lineage.seed,
            rules_version: RULES_VERSION,
            rules: plan.rules.bits(),
            kinds: counts.kind_bits(),
            fpr: plan.fpr,
            records: plan.records,
            sources,
        };
        progress.begin(Phase::Writing, entries);
        let writer = Writer::begin(replacement, spec, entries, sizing::shape(entries, plan.fpr))?;
        let header = assemble(
            writer,
            InOrder::new(&read.keys, self.options.dates()),
            plan.workers(),
            progress,
        )?;
        report.filter = Some(FilterReport::new(&header, &plan.output));
        report.seconds = self.started.elapsed().as_secs_f64();
        Ok(report)
    }
}
