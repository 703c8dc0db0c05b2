//! What a build would count, without a filter being written.

use std::collections::BTreeMap;
use std::env::temp_dir;
use std::io::Read as _;
use std::path::Path;

use super::error::Error;
use super::job::Job;
use super::partition::{InOrder, Wide};
use super::plan::Plan;
use super::progress::Progress;
use super::read::{Found, Input, ReadOptions, begin, total_bytes};
use super::report::{Changed, Report};
use super::write::{STEPS, Sorted, Walk};
use crate::list::{Reader, Row};
use blocklist_filter::address::{Entry, escaped};
use blocklist_filter::filter::{Filter, Key, Load};
use blocklist_filter::lookup::Lookup;

const SHOWN: usize = 10;

/// Examples of what a build would change in a filter.
#[derive(Debug, Default)]
pub(crate) struct Against {
    /// Some entries that the filter does not have, each with its file and line.
    pub(crate) added: Vec<String>,
    /// Number of entries that would no longer be listed, by the list that they came from.
    pub(crate) removed: BTreeMap<String, u64>,
}

/// Reads lists as a build does, and counts their entries. With `against`, `changed` in the report says
/// how many of them this filter does not have, and how many of its entries would no longer be listed;
/// addresses are then read as they were for it.
pub(crate) fn look(
    plan: &Plan,
    found: &Found,
    against: Option<&Path>,
    progress: &Progress,
) -> Result<(Report, Against), Error> {
    let inputs = &found.lists;
    let job = Job::begin(plan, progress)?;
    let lookup = against.map(|path| Lookup::open(path, Load::Disk));
    let lookup = lookup.transpose()?;
    let (mut rules, mut seed) = (plan.rules, 0);
    if let Some(lookup) = &lookup {
        let spec = lookup.filter().spec();
        if !spec.records {
            let why = "a filter without records; use one that was built without --no-records";
            return Err(Error::setting("--against", why));
        }
        (rules, seed) = (lookup.rules(), spec.seed);
    }
    let options = ReadOptions {
        rules,
        ..plan.read_options(seed, (0..).take(inputs.len()).collect())?
    };
    let mut arena = job.arena(total_bytes(inputs), 1)?;
    // A list that is larger than the memory goes through a file there.
    let spill = temp_dir().join("preview");
    let read = job.read::<Wide>(inputs, (&spill, &mut arena), &options)?;
    let mut report = Report::of_lists(plan, found, read.lists);
    report.refuse(None, &plan.limits);
    report.count(&job.sort(&read.keys)?);
    let mut changes = Against::default();
    if let Some(lookup) = lookup.filter(|_| report.refused.is_none()) {
        let keys = InOrder::new(&read.keys);
        let (changed, new) = compare(lookup.filter(), keys, &mut changes, progress)?;
        report.changed = Some(changed);
        changes.added = places(inputs, new, &options, progress)?;
    }
    Ok((report, changes))
}

fn compare(
    filter: &Filter,
    keys: impl Sorted,
    found: &mut Against,
    progress: &Progress,
) -> Result<(Changed, Vec<Key>), Error> {
    let (mut changed, mut new) = (Changed::default(), Vec::new());
    let mut walk = Walk::new([Box::new(filter.records()?) as _, Box::new(keys) as _]);
    walk.steps(0..STEPS, progress, |key, held| {
        match held {
            [(0, class)] => {
                changed.removed += 1;
                let source = filter.source(class.source);
                let file = source.map_or("", |source| &source.file);
                *found.removed.entry(file.to_owned()).or_default() += 1;
            }
            [_] => {
                changed.added += 1;
                if new.len() < SHOWN {
                    new.push(key);
                }
            }
            _ => changed.already_there += 1,
        }
        Ok(())
    })?;
    Ok((changed, new))
}

fn places(
    inputs: &[Input],
    mut keys: Vec<Key>,
    options: &ReadOptions,
    progress: &Progress,
) -> Result<Vec<String>, Error> {
    let mut places = Vec::new();
    let mut entry = Entry::new();
    for input in inputs {
        if keys.is_empty() {
            break;
        }
        let begun = begin(input, progress).map_err(Error::io(&input.path, "read"))?;
        let Ok(reading) = begun.reading else {
            continue;
        };
        let content = begun.head.chain(begun.rest);
        let read = Reader::new(&reading).read_all(content, &mut |line, row| {
            if let Row::Entry(raw) = row
                && entry.read(raw.text, options.rules).is_ok()
                && let key = Key::of(entry.as_bytes(), options.seed)
                && let Some(at) = keys.iter().position(|new| *new == key)
            {
                keys.swap_remove(at);
                let text = escaped(entry.as_bytes());
                places.push(format!("{}:{line}: {text}", input.shown()));
            }
        });
        read.map_err(Error::io(&input.path, "read"))?;
    }
    Ok(places)
}
