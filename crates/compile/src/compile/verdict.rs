//! Whether a new filter may replace the old one: half a list must not. Only [`verdict`] decides it, for
//! every command that writes or previews a filter.
//!
//! A download that failed leaves an empty file, an error page, or the first part of a list. The old
//! filter knows how many entries each list had, so each list is compared with itself:
//!
//! | a list | is |
//! |---|---|
//! | of truncated JSON, a web page, half an archive | refused when it is read |
//! | of which more lines are rejected than [`MaxRejects`] allows | refused |
//! | that had [`SMALL`] entries or more, and has none now | an error, unless `--allow-empty` |
//! | that shrinks by more than `--max-shrink`, or grows by more than `--max-growth` | refused |
//! | that had fewer entries | regarded as kept by hand; it may grow freely and, as a folder, become empty |
//!
//! `--max-shrink` also applies to the filter as a whole. Only this counts for lists that are no
//! longer read: the user gives a list up by deleting its file.

use serde::{Serialize, Serializer};

use super::report::{InputReport, RefusedFile, Report, preview_hint};
use crate::list::MaxRejects;
use blocklist_filter::base::numbers::{counted, grouped};

/// A list of fewer entries may change as it likes.
pub(crate) const SMALL: u64 = 100;

/// What a new filter is made of, which decides what is asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Task {
    /// Lists.
    #[default]
    Build,
    /// A piece of a list: it may be empty, and the entries that the list had are not in it.
    Part,
    /// A filter, and the lists of its changes.
    Update,
    /// Filters or parts, whose lists were judged when they were read.
    Merge,
}

/// How much a list may change, and how much of it may be wrong.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// How many lines of each list may be rejected.
    pub max_rejects: MaxRejects,
    /// Write nothing when an input has no entry, unless `allow_empty`.
    pub strict: bool,
    /// Write a filter without entries, even if the old one has some or every line was rejected.
    pub allow_empty: bool,
    /// Maximum percentage by which a list, and the filter, may shrink.
    pub max_shrink: Option<u32>,
    /// Whether an administrator said so for this build, so that it counts for the daemon, too.
    pub approves_shrink: bool,
    /// Maximum percentage by which a list may grow.
    pub max_growth: Option<u32>,
    /// The command that runs this build, with a blank at its end, for messages that name an option.
    pub command: String,
}

/// Why nothing is written, although there was no error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A person who types an entry wants exactly that one.
    #[error("an entry on the command line cannot be taken")]
    Typed,
    /// Files of which nothing is read.
    #[error("{}", files_shown(.0))]
    Files(Vec<RefusedFile>),
    /// `--strict` wants an entry in each input.
    #[error("no entry in {0}: --strict allows this only with --allow-empty")]
    Strict(String),
    /// Nothing would be listed, or nothing of a list that had entries: where, and why.
    #[error("no entry in {0}; use --allow-empty to build it anyway")]
    NoEntry(String),
    /// A list or a filter would lose or gain too many entries.
    #[error(
        "{what}: {}, {} before; this is more than {option} {most}% allows; \
         if it is intended, allow it once with {command}{option} {enough}%",
        counted(*.now, "entry", "entries"), grouped(*.had)
    )]
    Changed {
        /// The list or filter.
        what: String,
        /// Entries before.
        had: u64,
        /// Entries now.
        now: u64,
        /// The option that limits this.
        option: &'static str,
        /// Its percentage.
        most: u32,
        /// The percentage that would allow it.
        enough: u128,
        /// [`Limits::command`].
        command: String,
    },
}

impl Serialize for Refused {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn files_shown(files: &[RefusedFile]) -> String {
    match files {
        [] => String::new(),
        [refused] => refused.to_string(),
        [refused, others @ ..] => {
            let others = counted(others.len() as u64, "file", "files");
            format!("{refused}; and {others} more")
        }
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
    let mut files = outcome.refused_files.clone();
    let refused =
        |input: &&InputReport| outcome.refused_files.iter().all(|it| it.file != input.file);
    let rejected = outcome.inputs.iter().filter(refused);
    files.extend(rejected.filter_map(|input| limits.too_many_rejects(input)));
    if !files.is_empty() {
        return Err(Refused::Files(files));
    }
    if outcome.has_typed_rejects {
        return Err(Refused::Typed);
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

impl Limits {
    /// Returns the input as a refused file, if too many of its lines are rejected.
    fn too_many_rejects(&self, input: &InputReport) -> Option<RefusedFile> {
        // Expired entries and those that were left out were entries, too.
        let entries = input.entries + input.expired + input.broad;
        let most = self.max_rejects;
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

    /// Checks that something of `had` entries may become one of `now`.
    pub(super) fn check_change(&self, what: &str, had: u64, now: u64) -> Result<(), Refused> {
        let changed = u128::from(had.abs_diff(now)) * 100;
        let (option, most, enough) = match now < had {
            true => ("--max-shrink", self.max_shrink, 100),
            false => {
                let enough = changed.div_ceil(had.max(1).into());
                ("--max-growth", self.max_growth, enough)
            }
        };
        match most {
            Some(most) if had >= SMALL && changed > u128::from(had) * u128::from(most) => {
                Err(Refused::Changed {
                    what: what.to_owned(),
                    had,
                    now,
                    option,
                    most,
                    enough,
                    command: self.command.clone(),
                })
            }
            _ => Ok(()),
        }
    }
}
