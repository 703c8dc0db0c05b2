//! What a build would count, without a filter being written.

use std::env::temp_dir;
use std::path::Path;

use super::changes::{Changed, Updated};
use super::error::Error;
use super::job::Job;
use super::partition::{InOrder, Store, Wide};
use super::plan::Plan;
use super::progress::Progress;
use super::read::{Feed, Input, ReadOptions, total_bytes};
use super::report::Report;
use super::write::{FileRecords, count_entries};
use crate::address::Rules;
use crate::filter::{Filter, Key, Load};

/// Reads lists as a build does, and counts their entries. With `against`, `changed` in the report says
/// how many of them this filter does not have, and how many of its entries would no longer be listed;
/// addresses are then read as they were for it.
///
/// # Errors
/// When a list or the filter cannot be read, or the filter has no records.
pub(crate) fn look(
    plan: &Plan,
    inputs: &[Input],
    against: Option<&Path>,
    progress: &Progress,
) -> Result<Report, Error> {
    let job = Job::begin(plan, progress)?;
    let filter = against.map(|path| Filter::open(path, Load::Disk));
    let filter = filter.transpose()?;
    let (rules, seed) = match &filter {
        None => (plan.rules, 0),
        Some(filter) => {
            let spec = filter.spec();
            let rules = Rules::from_bits(spec.rules).filter(|_| spec.records);
            let why =
                "--against: a filter without records; use one that was built without --no-records";
            (rules.ok_or_else(|| Error::Plan(why.to_owned()))?, spec.seed)
        }
    };
    let options = ReadOptions {
        rules,
        seed,
        today: plan.today(),
        expires: plan.expires,
        guard: plan.guard()?,
        sources: (0..).take(inputs.len()).collect(),
        keeps_dates: true,
        refuses_ends: !plan.records,
    };
    let mut arena = job.arena(total_bytes(inputs), 1)?;
    // A list that is larger than the memory goes through a file there.
    let spill = temp_dir().join("preview");
    let store: Store<'_, Wide> = Store::new(&spill, &mut arena);
    let read = job.read(Feed::new(inputs, progress), store, &options)?;
    let read = read.expect("wide keys keep dates");
    let mut report = Report::of_lists(plan, inputs, read.opened, read.counts);
    report.refuse(plan);
    report.count(&job.sort(&read.keys)?);
    if let Some(filter) = filter.filter(|_| report.refused.is_none()) {
        // Each entry of the filter is removed; those that are added again were already there.
        let all = || FileRecords::new(&filter, Key::default(), Vec::new());
        let keys = InOrder::new(&read.keys, options.dates());
        let mut stream = Updated::new(all()?, keys, all()?, 0);
        count_entries(&mut stream, progress)?;
        let changed = stream.changed();
        report.changed = Some(Changed {
            removed: changed.removed - changed.already_there,
            ..changed
        });
    }
    Ok(report)
}
