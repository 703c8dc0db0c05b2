//! Whether a new filter may replace the old one: half a list must not. Only [`verdict`] decides it, for
//! every command that writes or previews a filter.
//!
//! A download that failed leaves an empty file, an error page, or the first part of a list. The old
//! filter knows how many entries each list had, so each list is compared with itself:
//!
//! | a list | is |
//! |---|---|
//! | of truncated JSON, a web page, half an archive | refused when it is read |
//! | of which more lines are rejected than [`MaxRejects`](crate::list::MaxRejects) allows | refused |
//! | that had [`SMALL`] entries or more, and has none now | an error, unless `--allow-empty` |
//! | that shrinks by more than `--max-shrink`, or grows by more than `--max-growth` | refused |
//! | that had fewer entries | regarded as kept by hand; it may grow freely and, as a folder, become empty |
//!
//! `--max-shrink` also applies to the filter as a whole. Only this counts for lists that are no
//! longer read: the user gives a list up by deleting its file.

use super::limits::{Limits, Refused, RefusedFile, SMALL, Task};
use super::report::{InputReport, Report, preview_hint};
use blocklist_filter::base::numbers::{counted, grouped};

impl Report {
    /// Takes the [`verdict`]; returns whether nothing may be written.
    pub(crate) fn refuse(&mut self, entries: Option<u64>, limits: &Limits) -> bool {
        self.refused = verdict(self, entries, limits).err();
        if let Some(Refused::Files(files)) = &self.refused {
            self.refused_files.clone_from(files);
        }
        self.refused.is_some()
    }
}

/// Decides whether a filter may be written; `Err` says why not. It has so many entries, if they are counted
/// already: what the lists alone decide is known before.
pub(crate) fn verdict(
    outcome: &Report,
    entries: Option<u64>,
    limits: &Limits,
) -> Result<(), Refused> {
    let task = outcome.task;
    if task != Task::Merge {
        read_well(outcome, limits)?;
    }
    if task == Task::Build && !limits.allow_empty {
        nothing_lost(outcome, limits)?;
    }
    if task == Task::Update {
        // What it removes was named.
        return Ok(());
    }
    // Expired entries were in the list, too.
    for input in &outcome.inputs {
        if let Some(had) = input.before {
            limits.check_change(&input.file, had, input.entries + input.expired)?;
        }
    }
    match (outcome.entries_before, entries) {
        (Some(had), Some(entries)) if entries + outcome.expired < had => {
            let output = outcome.output.display().to_string();
            limits.check_change(&output, had, entries + outcome.expired)
        }
        _ => Ok(()),
    }
}

fn read_well(outcome: &Report, limits: &Limits) -> Result<(), Refused> {
    if outcome.has_typed_rejects {
        return Err(Refused::Typed);
    }
    let mut files = outcome.refused_files.clone();
    for input in &outcome.inputs {
        // An update may read one file twice, and what was typed is one input for each option.
        if files.iter().all(|it| it.file != input.file) {
            files.extend(too_many_rejects(limits, input));
        }
    }
    if !files.is_empty() {
        return Err(Refused::Files(files));
    }
    let mut empty = outcome.inputs.iter().filter(|input| input.entries == 0);
    match empty.next() {
        Some(input) if limits.strict && !limits.allow_empty => {
            Err(Refused::Strict(input.file.clone()))
        }
        _ => Ok(()),
    }
}

fn nothing_lost(outcome: &Report, limits: &Limits) -> Result<(), Refused> {
    // A page that says "not found" in place of the list must not empty a filter.
    let has_limit = limits.max_shrink.is_some();
    let notable = outcome.has_notable_skips() || !outcome.broad.is_empty();
    // A folder kept by hand, with nothing but comments or no file at all, names nobody on purpose.
    // A limit refuses what was large, and its message names the one option that allows it.
    let was_small = outcome.entries_before.unwrap_or(0) < SMALL;
    let on_purpose =
        outcome.is_by_hand && outcome.rejected == 0 && !notable && (was_small || has_limit);
    if outcome.rows == 0 && !on_purpose {
        return Err(Refused::NoEntry(outcome.why_nothing()));
    }
    if has_limit {
        return Ok(());
    }
    let lost = outcome.inputs.iter().find_map(|input| {
        let had = input.before.filter(|had| *had >= SMALL)?;
        (input.entries + input.expired == 0)
            .then(|| format!("{}, which had {} before", input.file, grouped(had)))
    });
    lost.map_or(Ok(()), |lost| Err(Refused::NoEntry(lost)))
}

/// Returns the input as a refused file, if too many of its lines are rejected.
fn too_many_rejects(limits: &Limits, input: &InputReport) -> Option<RefusedFile> {
    // Expired entries and those that were left out were entries, too.
    let entries = input.entries + input.expired + input.broad;
    let most = limits.max_rejects;
    most.is_over(input.rejected, entries).then(|| RefusedFile {
        file: input.file.clone(),
        reason: format!(
            "{} rejected, more than --max-rejects {most} allows beside {}; first {}{}",
            counted(input.rejected, "line", "lines"),
            counted(entries, "entry", "entries"),
            input.first_reject,
            preview_hint(&input.file),
        ),
        ..RefusedFile::default()
    })
}
