//! Text lists -> one filter file, from the first line to the last page.

use std::path::Path;

use super::error::Error;
use super::job::{Job, check_build};
use super::lineage::{Lineage, check_not_input};
use super::partition::{Arena, NARROW_SOURCES, Narrow, StagedKey, Wide};
use super::plan::Plan;
use super::progress::{Phase, Progress};
use super::read::{
    Feed, Found, Input, Opened, Read, ReadOptions, Wanted, cut, digest_of_all, text, total_bytes,
};
use super::report::Report;
use crate::address::RULES_VERSION;
use crate::base::replacement::Replacement;
use crate::filter::Spec;
use crate::filter::format::MAX_NAME;

/// Builds a filter from text lists.
///
/// If `refused` is set in the report, nothing was written: more lines were rejected than the plan
/// allows, an input was empty under `--strict`, or a list or the filter changed by more than its
/// limits.
///
/// # Errors
/// Whatever prevents writing the filter; the old one then stays.
pub fn build(plan: &Plan, progress: &Progress) -> Result<Report, Error> {
    check_build(plan)?;
    let job = Job::begin(plan, progress)?;
    let replacement = Replacement::claim(&plan.output)?;
    let Found {
        lists: inputs,
        passed_over,
        ..
    } = find(plan)?;
    let files = inputs.iter().filter(|input| !input.is_typed());
    check_not_input(&plan.output, files.map(|input| &input.path))?;
    let is_part = plan.part.is_some();
    let lineage = Lineage::of(&plan.output, &plan.seed, plan.overwrite, is_part)?;
    let sources: Vec<u32> = match plan.source {
        Some(_) => vec![0; inputs.len()],
        None => (0..).take(inputs.len()).collect(),
    };
    let last_source = sources.iter().max().copied().unwrap_or(0);
    let options = plan.read_options(lineage.seed, sources)?;
    let build = Build {
        job: &job,
        inputs: &inputs,
        passed_over,
        lineage,
        options: &options,
    };

    let mut arena = job.arena(total_bytes(&inputs), 1)?;
    // Keys of half the size are enough if no row has dates of its own. Only reading shows this, so
    // an input that cannot be read twice is treated as if it had dates.
    let read_twice = inputs.iter().all(|input| input.size_bytes().is_some());
    let narrow = last_source < NARROW_SOURCES && (read_twice || !plan.records);
    if narrow && let Some(keys) = build.read::<Narrow>(replacement.target(), &mut arena)? {
        return build.write(replacement, keys);
    }
    let keys = build
        .read::<Wide>(replacement.target(), &mut arena)?
        .expect("wide keys keep dates");
    build.write(replacement, keys)
}

/// Finds the lists to read.
fn find(plan: &Plan) -> Result<Found, Error> {
    // Pieces are often numbered, as old copies of a list are. They are read whatever their names.
    let (named, meant) = match plan.part {
        Some(_) => (Vec::new(), [&plan.inputs[..], &plan.meant].concat()),
        None => (plan.inputs.clone(), plan.meant.clone()),
    };
    let wanted = Wanted {
        paths: &named,
        meant: &meant,
        declared: &plan.declared,
        fetched: plan.fetched.as_deref(),
    };
    let found = wanted.find()?;
    match (found.lists.as_slice(), &found.perhaps_meant) {
        ([], Some(first)) => Err(Error::Plan(format!("no list to read: {first}"))),
        _ => Ok(found),
    }
}

/// A build in progress.
struct Build<'a> {
    job: &'a Job<'a>,
    inputs: &'a [Input],
    passed_over: Vec<String>,
    lineage: Lineage,
    options: &'a ReadOptions,
}

impl Build<'_> {
    /// Reads text to staged keys; `None` if the staged keys cannot hold the dates of the rows.
    fn read<'m, I: StagedKey>(
        &self,
        output: &Path,
        arena: &'m mut Arena,
    ) -> Result<Option<Read<'m, I>>, Error> {
        let Job { plan, progress, .. } = *self.job;
        progress.begin(Phase::Reading, total_bytes(self.inputs));
        let mut feed = Feed::new(self.inputs, progress);
        feed.takes_digests = plan.part.is_some();
        self.job.read(feed, (output, arena), self.options)
    }

    /// Writes staged keys to the finished file.
    fn write<I: StagedKey>(
        &self,
        replacement: Replacement,
        read: Read<'_, I>,
    ) -> Result<Report, Error> {
        let plan = self.job.plan;
        let spilled_bytes = read.keys.spilled_bytes();
        let digest = plan.part.as_ref().and_then(|_| digest_of(&read.opened));
        let mut report = Report::of_lists(plan, self.inputs, read.opened, read.counts);
        report.spilled_bytes = spilled_bytes;
        if let Some(file) = &plan.source {
            report.count_as(file);
        }
        report.passed_over.clone_from(&self.passed_over);
        report.compare_with(self.lineage.before.as_ref());
        if report.refuse(plan) {
            return Ok(report);
        }
        if plan.part.is_some() && digest.is_none() {
            return Err(Error::Plan("an input was not read to its end".to_owned()));
        }
        // A piece may be empty, and the entries that a list had before are not in its parts.
        if plan.part.is_none() {
            report.check_nothing_lost(plan)?;
        }
        report.refuse_changed_lists(plan);
        if report.refused.is_some() {
            return Ok(report);
        }

        let spec = Spec {
            name: match plan.part {
                Some(_) => piece_name(plan, self.inputs),
                None => plan.name.clone(),
            },
            generation: self.lineage.generation,
            built: plan.built,
            seed: self.lineage.seed,
            rules_version: RULES_VERSION,
            rules: plan.rules.bits(),
            kinds: 0,
            fpr: plan.rate(),
            records: plan.records,
            sources: report.sources(),
        };
        let dates = self.options.dates();
        self.job
            .finish(replacement, (&read.keys, dates), spec, digest, report)
    }
}

/// Returns the name that distinguishes a piece from the others of its list. Standard input has no
/// name: pieces from there are distinguished by their content.
fn piece_name(plan: &Plan, inputs: &[Input]) -> String {
    let given = plan.part.as_deref().unwrap_or_default();
    match inputs {
        [input] if given.is_empty() && !input.is_stdin() => cut(input.shown(), MAX_NAME),
        _ => cut(text(Path::new(given)), MAX_NAME),
    }
}

/// Returns the digest of all inputs together, in the order of their numbers.
fn digest_of(opened: &[Opened]) -> Option<u128> {
    let digests = opened.iter();
    let digests = digests.map(|opened| opened.digest.as_ref()?.get().copied());
    Some(digest_of_all(&digests.collect::<Option<Vec<_>>>()?))
}
