//! What can stop a compilation. A line that cannot be a key does not: the
//! [report](super::Report) counts it.

use std::io;
use std::path::{Path, PathBuf};

use super::limits::Refused;
use crate::settings;
use blocklist_filter::base::replacement;
use blocklist_filter::base::whole_file::FileError;
use blocklist_filter::filter;
use blocklist_filter::lookup;

/// Why nothing was written. In all cases, the old file stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read, written, locked, replaced or removed.
    #[error(transparent)]
    File(#[from] replacement::Error),
    /// A small file beside a list could not be read.
    #[error(transparent)]
    Small(#[from] FileError),
    /// The filter file could not be read or written, or fails its checks.
    #[error("{0}")]
    Filter(#[from] filter::Error),
    /// A filter does not answer, or was made with other address rules.
    #[error(transparent)]
    Lookup(#[from] lookup::Error),
    /// The output is an input, or exists and is of another kind, so it is not replaced.
    #[error("{}: {why}", path.display())]
    NotReplaced {
        /// The output.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The `list.toml` of a folder cannot be read, or has faults.
    #[error(transparent)]
    ListToml(#[from] settings::Error),
    /// An option, or a setting, contradicts another or cannot be met.
    #[error("{}: {why}", setting_shown(option, given))]
    Setting {
        /// Its name.
        option: &'static str,
        /// Its value, if that is to be shown.
        given: String,
        /// Why, and what to do.
        why: String,
    },
    /// What was given as an entry is none, or may not be listed.
    #[error("{written}: {why}")]
    Entry {
        /// As it was given.
        written: String,
        /// Why, and what to do.
        why: String,
    },
    /// A file is not of the kind that is needed, or does not belong to the others.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// Nothing was given to read.
    #[error("no {0}")]
    NoInput(String),
    /// Two folders cannot become one filter.
    #[error(
        "{one} and {other}: [build] in their list.toml is different, so they cannot become one filter"
    )]
    DifferentBuild {
        /// A folder.
        one: String,
        /// Another one.
        other: String,
    },
    /// A text was changed, but not the filter.
    #[error("changed {}, but not the filter: {cause}", list.display())]
    OnlyText {
        /// The text.
        list: PathBuf,
        /// Why not the filter.
        #[source]
        cause: Box<Self>,
    },
    /// There is not enough memory.
    #[error("cannot allocate {} MiB of memory ({cause}); lower --memory", bytes >> 20)]
    Memory {
        /// How much is needed.
        bytes: usize,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// The system gives no random numbers.
    #[error("cannot get a random seed: {0}")]
    Random(#[from] getrandom::Error),
    /// Nothing would be listed, or nothing of a list that had entries: [`Refused::NoEntry`].
    #[error(transparent)]
    Refused(Refused),
    /// SIGINT or SIGTERM was received; all unfinished files were removed.
    #[error("interrupted; nothing was written")]
    Interrupted,
}

/// Shows a setting as it is written: `--fpr 2`, `SOURCE_DATE_EPOCH=today`.
fn setting_shown(option: &str, given: &str) -> String {
    match (given, option.starts_with("--")) {
        ("", _) => option.to_owned(),
        (_, true) => format!("{option} {given}"),
        (_, false) => format!("{option}={given}"),
    }
}

impl Error {
    pub(crate) fn setting(option: &'static str, why: impl Into<String>) -> Self {
        let (given, why) = (String::new(), why.into());
        Self::Setting { option, given, why }
    }

    pub(crate) fn unfit(path: &Path, why: impl Into<String>) -> Self {
        let (path, why) = (path.to_owned(), why.into());
        Self::Unfit { path, why }
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let failed = replacement::Error::io(path, doing);
        move |error| failed(error).into()
    }
}
