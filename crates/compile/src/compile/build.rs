//! Text lists -> one filter file, from the first line to the last page.

use std::path::Path;

use super::error::Error;
use super::job::{Job, check_build};
use super::limits::Refused;
use super::lineage::{Lineage, check_not_input};
use super::partition::{NARROW_SOURCES, StagedKey, Wide};
use super::plan::Plan;
use super::progress::{Phase, Progress};
use super::read::{
    self, AnyRead, Found, Input, InputCounts, Opened, Read, cut, digest_of_all, text, total_bytes,
};
use super::report::Report;
use blocklist_filter::address::RULES_VERSION;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::Spec;
use blocklist_filter::filter::format::MAX_NAME;

/// Builds a filter from text lists; if `refused` is set in the report, nothing was written.
///
/// # Errors
/// Whatever prevents writing the filter; the old one then stays.
pub fn build(plan: &Plan, progress: &Progress) -> Result<Report, Error> {
    check_build(plan)?;
    let job = Job::begin(plan, progress)?;
    let replacement = Replacement::claim(&plan.output)?;
    let found = find(plan)?;
    check_not_input(&plan.output, found.lists.iter().map(|input| &input.path))?;
    let lineage = Lineage::of(plan, &plan.seed)?;
    let sources: Vec<u32> = match plan.source {
        Some(_) => vec![0; found.lists.len()],
        None => (0..).take(found.lists.len()).collect(),
    };
    let last_source = sources.iter().max().copied().unwrap_or(0);
    let options = plan.read_options(lineage.seed, sources)?;
    let output = replacement.target();
    let text_bytes = total_bytes(&found.lists);
    let mut arena = job.arena(text_bytes, 1)?;
    progress.begin(Phase::Reading, text_bytes);
    let place = (output, &mut arena);
    if last_source >= NARROW_SOURCES {
        let read = job.read::<Wide>(&found.lists, place, &options)?;
        return write(&job, replacement, &lineage, &found, read);
    }
    // Keys of half the size are enough as long as no row has dates of its own.
    match job.read_any(&found.lists, place, &options)? {
        AnyRead::Narrow(read) => write(&job, replacement, &lineage, &found, read),
        AnyRead::Wide(read) => write(&job, replacement, &lineage, &found, read),
    }
}

fn find(plan: &Plan) -> Result<Found, Error> {
    // Pieces are often numbered, as old copies of a list are. They are read whatever their names.
    let is_part = plan.part.is_some();
    let inputs = plan
        .reads
        .inputs
        .iter()
        .map(|path| (path.as_path(), is_part));
    let meant = plan.reads.meant.iter().map(|path| (path.as_path(), true));
    let mut paths: Vec<_> = inputs.chain(meant).collect();
    paths.sort_by_key(|(_, is_meant)| !is_meant);
    let found = read::find(paths, &plan.reads.declared, plan.reads.fetched.as_deref())?;
    match (found.lists.as_slice(), &found.perhaps_meant) {
        ([], Some(first)) => Err(Error::NoInput(format!("list to read: {first}"))),
        _ => Ok(found),
    }
}

fn write<I: StagedKey>(
    job: &Job<'_>,
    replacement: Replacement,
    lineage: &Lineage,
    found: &Found,
    read: Read<'_, I>,
) -> Result<Report, Error> {
    let plan = job.plan;
    let spilled_bytes = read.keys.spilled_bytes();
    let digest = plan.part.as_ref().and_then(|_| digest_of(&read.lists));
    let mut report = Report::of_lists(plan, found, read.lists);
    report.spilled_bytes = spilled_bytes;
    if let Some(file) = &plan.source {
        report.count_as(file);
    }
    report.compare_with(lineage.before.as_ref());
    if report.refuse(None, &plan.limits) {
        return match report.refused {
            Some(nothing @ Refused::NoEntry(_)) => Err(Error::Refused(nothing)),
            _ => Ok(report),
        };
    }
    if plan.part.is_some() && digest.is_none() {
        return Err(Error::setting("--part", "an input was not read to its end"));
    }

    let spec = Spec {
        name: match plan.part {
            Some(_) => piece_name(plan, &found.lists),
            None => plan.name.clone(),
        },
        generation: lineage.generation,
        built: plan.built,
        seed: lineage.seed,
        rules_version: RULES_VERSION,
        rules: plan.rules.bits(),
        kinds: 0,
        fpr: plan.rate(),
        records: plan.records,
        sources: report.sources(),
    };
    job.finish(replacement, &read.keys, spec, digest, report)
}

/// Returns the name of a piece; pieces from standard input are distinguished by their content.
fn piece_name(plan: &Plan, inputs: &[Input]) -> String {
    let given = plan.part.as_deref().unwrap_or_default();
    match inputs {
        [input] if given.is_empty() && !input.is_stdin() => cut(input.shown(), MAX_NAME),
        _ => cut(text(Path::new(given)), MAX_NAME),
    }
}

fn digest_of(lists: &[(Opened, InputCounts)]) -> Option<u128> {
    let digests = lists.iter().map(|(opened, _)| opened.digest.get().copied());
    Some(digest_of_all(&digests.collect::<Option<Vec<_>>>()?))
}
