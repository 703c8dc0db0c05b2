//! Changes a filter without its text: its records are enough.
//!
//! ```text
//!   records of the filter --+
//!   entries to add ---------+--> merged; expired ones and those to remove dropped --> assemble
//!   entries to remove ------+
//! ```
//!
//! Entries are added and removed by key, so that a removal finds an address however it is written,
//! and removes exactly this one. An entry that is both added and removed is removed: a person who
//! removes a sender means it. The old records are read twice in sequence (once to count, once to
//! write), which takes seconds for 100 million entries.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::guard::Guard;
use super::job::Job;
use super::limits::Task;
use super::partition::{InOrder, Narrow, Wide};
use super::plan::Plan;
use super::progress::{Phase, Progress};
use super::read::{Found, Input, ReadOptions, find_or_typed, total_bytes};
use super::report::{Changed, Report, kind_counts};
use super::write::{Sorted, Sources, Walk, count_entries};
use blocklist_filter::address::Rules;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::{Batch, Filter, Key, Load, Source, Spec};
use blocklist_filter::lookup::Lookup;

/// The changes to make beside adding what the inputs of the plan list.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Lists of entries to remove.
    pub remove: Vec<PathBuf>,
    /// Single entries to add.
    pub add_entries: Vec<String>,
    /// Single entries to remove.
    pub remove_entries: Vec<String>,
}

/// Returns the address rules of a filter whose entries can be changed.
///
/// # Errors
/// When it cannot be opened, was made with other rules, or has no records.
pub(crate) fn changeable(path: &Path) -> Result<Rules, Error> {
    Ok(open(path)?.rules())
}

fn open(path: &Path) -> Result<Lookup, Error> {
    let old = Lookup::open(path, Load::Disk)?;
    if old.filter().spec().records {
        return Ok(old);
    }
    let why =
        "has no records, so entries cannot be added or removed; build it again from its lists";
    Err(Error::unfit(path, why))
}

/// Adds and removes entries of the filter that is the output of `plan`, drops those that have expired,
/// and gives it a new size.
///
/// # Errors
/// Whatever prevents writing the new filter; the old one then stays.
pub fn update(plan: &Plan, changes: &Changes, progress: &Progress) -> Result<Report, Error> {
    let job = Job::begin(plan, progress)?;
    let replacement = Replacement::claim(&plan.output)?;
    let lookup = open(&plan.output)?;
    let old = lookup.filter();
    let found = find(plan, changes)?;
    let [add, remove] = &found;
    let text_bytes = total_bytes(&add.lists) + total_bytes(&remove.lists);
    progress.begin(Phase::Reading, text_bytes);

    let mut sources = Sources::default();
    sources.add(&old.spec().sources);
    let named = add.lists.iter().map(|input| input.source(&[]));
    let named: Vec<_> = named.collect();
    sources.add(&named);
    let numbers = sources.numbers(&old.spec().sources);
    let options = ReadOptions {
        rules: lookup.rules(),
        records: true,
        ..plan.read_options(old.spec().seed, sources.numbers(&named))?
    };
    let (mut adding, mut removing) = (job.arena(text_bytes, 2)?, job.arena(text_bytes, 2)?);
    let target = replacement.target();
    let added = job.read::<Wide>(&add.lists, (target, &mut adding), &options)?;
    // A removal is never refused as too broad, and the list that it came from does not matter.
    let options = ReadOptions {
        removes: true,
        sources: vec![0; remove.lists.len()],
        guard: Guard {
            allows_world: true,
            ..Guard::default()
        },
        ..options
    };
    let removed = job.read::<Narrow>(&remove.lists, (target, &mut removing), &options)?;

    let mut report = Report::of_lists(plan, add, added.lists);
    sources.add(&report.sources());
    report.add_removals(Report::of_lists(plan, remove, removed.lists));
    report.spilled_bytes = added.keys.spilled_bytes() + removed.keys.spilled_bytes();
    let mut typed = (add.lists.iter().chain(&remove.lists)).filter(|input| input.is_typed());
    report.has_typed_rejects = typed.any(|input| report.leaves_out(&input.shown()));
    report.task = Task::Update;
    if report.refuse(None, &plan.limits) {
        return Ok(report);
    }

    progress.begin(Phase::Sorting, report.rows);
    job.sort(&added.keys)?;
    job.sort(&removed.keys)?;
    let stream = || -> Result<_, Error> {
        let streams = [
            Box::new(old.records()?) as _,
            Box::new(InOrder::new(&added.keys)) as _,
            Box::new(InOrder::new(&removed.keys)) as _,
        ];
        Ok(Updated {
            walk: Walk::new(streams),
            numbers: &numbers,
            today: plan.today().0,
            changed: Changed::default(),
        })
    };
    write(&job, replacement, old, sources.to_list(), stream, report)
}

fn find(plan: &Plan, changes: &Changes) -> Result<[Found; 2], Error> {
    let add = find_or_typed(
        &plan.reads.inputs,
        &changes.add_entries,
        &plan.reads.declared,
    )?;
    let remove = find_or_typed(
        &changes.remove,
        &changes.remove_entries,
        &plan.reads.declared,
    )?;
    if add.lists.iter().any(Input::is_stdin) && remove.lists.iter().any(Input::is_stdin) {
        let why = "can be used only once: for --add or for --remove";
        return Err(Error::setting("standard input", why));
    }
    Ok([add, remove])
}

/// Writes the records that `stream` gives, which are read twice: to count, and to write.
fn write<'a>(
    job: &Job<'_>,
    replacement: Replacement,
    old: &Filter,
    sources: Vec<Source>,
    stream: impl Fn() -> Result<Updated<'a>, Error>,
    mut report: Report,
) -> Result<Report, Error> {
    job.progress.begin(Phase::Counting, old.entries());
    let mut counted = stream()?;
    let counts = count_entries(&mut counted, job.progress)?;
    let changed = counted.changed;
    report.changed = Some(changed);
    report.entries_before = Some(old.entries());
    report.kinds = kind_counts(&counts);
    let before = old.spec();
    let fpr = job.plan.fpr.unwrap_or(before.fpr);
    if changed.is_nothing() && fpr.to_bits() == before.fpr.to_bits() {
        // An unchanged filter is not written, so that nobody has to load it again.
        report.is_unchanged = true;
        return Ok(job.finished(report, old.header()));
    }
    let spec = Spec {
        generation: before.generation.saturating_add(1),
        built: job.plan.built,
        fpr,
        sources,
        ..before.clone()
    };
    let records = Box::new(stream()?);
    job.write(replacement, spec, None, (&counts, records), report)
}

struct Updated<'a> {
    /// The filter, entries to add, entries to remove.
    walk: Walk<'a>,
    numbers: &'a [u32],
    /// Entries are left out if they expire on this day (counted from 1970) or before.
    today: u16,
    changed: Changed,
}

impl Sorted for Updated<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error> {
        let changed = &mut self.changed;
        self.walk.before(end, |key, held| {
            let of = |stream| held.iter().find(|(number, _)| *number == stream);
            let [mut old, added, removed] =
                [0, 1, 2].map(|stream| of(stream).map(|(_, class)| *class));
            if let Some(old) = &mut old {
                old.source = self.numbers[old.source as usize];
            }
            let class = match (old, added) {
                (Some(old), Some(added)) => old.merge(added),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => {
                    changed.not_found += 1;
                    return Ok(());
                }
            };
            changed.already_there += u64::from(old.is_some() && added.is_some());
            if removed.is_some() {
                // A new entry that is removed again changes nothing.
                changed.removed += u64::from(old.is_some());
            } else if class.dates.have_expired(self.today) {
                changed.expired += 1;
            } else {
                match old {
                    Some(old) => changed.redated += u64::from(old != class),
                    None => changed.added += 1,
                }
                into.push(key, class);
            }
            Ok(())
        })?;
        Ok(())
    }
}
