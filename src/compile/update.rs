//! Changes a filter without its text: its records are enough.
//!
//! Entries are added and removed by key, so that a removal finds an address however it is written,
//! and removes exactly this one. An entry that is both added and removed is removed: a person who
//! removes a sender means it. The old records are read twice in sequence (once to count, once to
//! write), which takes seconds for 100 million entries.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::changes::Updated;
use super::error::Error;
use super::finish::Finish;
use super::lineage::Before;
use super::partition::{Arena, InOrder, Narrow, Sealed, StagedKey, Store, Wide, sort_all};
use super::plan::Plan;
use super::progress::{Phase, Progress};
use super::read::{Feed, Input, Read, ReadOptions, find_or_typed, read, total_bytes};
use super::report::{FilterReport, Report, kind_counts};
use super::write::{FileRecords, Sources, count_entries};
use crate::address::Rules;
use crate::base::day::Day;
use crate::base::replacement::Replacement;
use crate::filter::{Filter, Key, Load, Spec};
use crate::lookup::Lookup;

/// The changes to make. The plan says how to read the lists; its output is the filter to change,
/// its inputs are the lists to add.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The settings, the filter to change, and the lists to add.
    pub plan: Plan,
    /// Lists of entries to remove.
    pub remove: Vec<PathBuf>,
    /// Single entries to add.
    pub add_entries: Vec<String>,
    /// Single entries to remove.
    pub remove_entries: Vec<String>,
    /// A new rate; `None` to keep that of the filter.
    pub fpr: Option<f64>,
}

impl Changes {
    /// Returns changes that add what the plan's inputs list, and remove nothing.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            remove: Vec::new(),
            add_entries: Vec::new(),
            remove_entries: Vec::new(),
            fpr: None,
        }
    }
}

/// Returns the address rules of a filter whose entries can be changed.
///
/// # Errors
/// When it cannot be opened, was made with other rules, or has no records.
pub fn changeable(path: &Path) -> Result<Rules, Error> {
    Ok(open(path)?.rules())
}

fn open(path: &Path) -> Result<Lookup, Error> {
    let old = Lookup::open(path, Load::Disk)?;
    if old.filter().spec().records {
        return Ok(old);
    }
    Err(Error::Unlike(format!(
        "{}: has no records, so entries cannot be added or removed; build it again from its lists",
        path.display()
    )))
}

/// Adds and removes entries, drops those that have expired, and gives the filter a new size.
///
/// # Errors
/// When the filter has no records, and whatever prevents writing the new one; the old one then
/// stays.
pub fn update(changes: &Changes, progress: &Progress) -> Result<Report, Error> {
    let started = Instant::now();
    let plan = &changes.plan;
    plan.check_settings()?;
    let replacement = Replacement::claim(&plan.output)?;
    let lookup = open(&plan.output)?;
    let old = lookup.filter();
    let to_add = find_or_typed(&plan.inputs, &changes.add_entries, &plan.declared)?;
    let to_remove = find_or_typed(&changes.remove, &changes.remove_entries, &plan.declared)?;
    let (adding, removing) = (to_add.lists, to_remove.lists);
    if adding.iter().any(Input::is_stdin) && removing.iter().any(Input::is_stdin) {
        return Err(Error::Plan(
            "standard input can be used only once: for --add or for --remove".to_owned(),
        ));
    }
    let text_bytes = total_bytes(&adding) + total_bytes(&removing);
    progress.begin(Phase::Reading, text_bytes);

    let mut sources = Sources::default();
    sources.add(&old.spec().sources);
    let named: Vec<_> = adding.iter().map(|input| input.source(&[])).collect();
    sources.add(&named);
    let numbers = sources.numbers(&old.spec().sources);
    let options = ReadOptions {
        rules: lookup.rules(),
        seed: old.spec().seed,
        today: plan.today(),
        expires: plan.expires,
        guard: plan.guard()?,
        sources: sources.numbers(&named),
        keeps_dates: true,
        refuses_ends: false,
        rejects: plan.rejects_file()?,
    };
    let arena = || Arena::new(plan.stage_bytes(text_bytes) / 2, plan.workers());
    let (mut adding_arena, mut removing_arena) = (arena()?, arena()?);
    let store = Store::new(replacement.target(), &mut adding_arena);
    let feed = Feed::new(&adding, progress);
    let added: Read<'_, Wide> = keys(plan, feed, &options, store, progress)?;
    // The dates of a removal do not matter, it never expires, and it is never refused. The list
    // that it came from does not matter either, so narrow staged keys are enough for any number of
    // lists.
    let options = ReadOptions {
        sources: vec![0; removing.len()],
        keeps_dates: false,
        today: Day(0),
        guard: None,
        ..options
    };
    let store = Store::new(replacement.target(), &mut removing_arena);
    let feed = Feed::new(&removing, progress).of_removals();
    let removed: Read<'_, Narrow> = keys(plan, feed, &options, store, progress)?;

    let mut report = Report::of_lists(plan, &adding, added.opened, added.counts);
    sources.add(&report.sources);
    report.add_removals(Report::of_lists(
        plan,
        &removing,
        removed.opened,
        removed.counts,
    ));
    report.spilled_bytes = added.keys.spilled_bytes() + removed.keys.spilled_bytes();
    report.passed_over = [to_add.passed_over, to_remove.passed_over].concat();
    // A person who types an entry wants exactly that one.
    let typed = [&adding, &removing].into_iter().flatten();
    let mut typed = typed.filter(|input| input.is_typed());
    if typed.any(|input| report.leaves_out(&input.shown())) {
        report.refused = Some("an entry on the command line cannot be taken".to_owned());
    }
    if report.refuse(plan) {
        return Ok(report);
    }

    progress.begin(Phase::Sorting, report.rows);
    let finish = Finish {
        plan,
        progress,
        started,
        dates: options.dates(),
        before: &Before::default(),
        digest: None,
    };
    sort_all(&added.keys, sorters(plan, &added.keys), progress)?;
    sort_all(&removed.keys, sorters(plan, &removed.keys), progress)?;
    let stream = || -> Result<_, Error> {
        Ok(Updated::new(
            FileRecords::new(old, Key::default(), numbers.clone())?,
            InOrder::new(&added.keys, finish.dates),
            InOrder::new(&removed.keys, finish.dates),
            plan.today().0,
        ))
    };
    let fpr = changes.fpr.unwrap_or_else(|| old.spec().fpr);
    let spec = Spec {
        generation: old.spec().generation.saturating_add(1),
        built: plan.built,
        fpr,
        sources: sources.into_list(),
        ..old.spec().clone()
    };
    write(replacement, old, spec, stream, &finish, report)
}

/// Writes the records that `stream` gives, which are read twice: to count, and to write.
fn write<'a>(
    replacement: Replacement,
    old: &Filter,
    spec: Spec,
    stream: impl Fn() -> Result<Updated<'a>, Error>,
    finish: &Finish<'_>,
    mut report: Report,
) -> Result<Report, Error> {
    finish.progress.begin(Phase::Counting, old.entries());
    let mut counted = stream()?;
    let counts = count_entries(&mut counted, finish.progress)?;
    let changed = counted.changed();
    report.changed = Some(changed);
    report.entries_before = Some(old.entries());
    report.kinds = kind_counts(&counts);
    if changed.is_nothing() && spec.fpr.to_bits() == old.spec().fpr.to_bits() {
        // An unchanged filter is not written, so that nobody has to load it again.
        report.filter = Some(FilterReport::new(old.header(), &finish.plan.output));
        report.seconds = finish.started.elapsed().as_secs_f64();
        return Ok(report);
    }
    let spec = Spec {
        kinds: counts.kind_bits(),
        ..spec
    };
    finish.write(replacement, spec, counts.entries(), stream()?, report)
}

fn sorters<I: StagedKey>(plan: &Plan, keys: &Sealed<'_, I>) -> usize {
    plan.sorters(keys.used_bytes(), keys.largest_bytes())
}

/// Reads lists to staged keys that keep all their dates that matter.
fn keys<'m, I: StagedKey>(
    plan: &Plan,
    feed: Feed<'_>,
    options: &ReadOptions,
    store: Store<'m, I>,
    progress: &Progress,
) -> Result<Read<'m, I>, Error> {
    let read = read(feed, store, options, plan.workers(), progress)?;
    Ok(read.expect("no date is lost: these keys keep dates, or none matter"))
}
