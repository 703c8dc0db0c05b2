//! How much a list may change, and why nothing is written: what [`verdict`](super::verdict) compares, and what
//! it says.

use std::fmt;

use serde::{Serialize, Serializer};

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

/// A file of which nothing is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefusedFile {
    /// The file.
    pub file: String,
    /// The line that refuses it, counted from 1; 0 if it is none.
    pub line: u64,
    /// Its text, or its beginning.
    pub text: String,
    /// Why, and what to do.
    pub reason: String,
}

impl fmt::Display for RefusedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, reason, .. } = self;
        match self.line {
            0 => write!(f, "{file}: {reason}"),
            line => write!(f, "{file}:{line}: \"{}\": {reason}", self.text),
        }
    }
}

impl Limits {
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
