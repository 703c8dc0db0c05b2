//! Why a snapshot cannot be put into effect.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Objection;
use crate::base::access::{Obstacle, explanation};
use crate::config;
use crate::filter;
use crate::policy;

/// Why there is no new snapshot.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A filter cannot be read or fails its checks.
    #[error("list {list}: {source}")]
    Filter {
        /// Name of the list.
        list: String,
        /// Why.
        source: filter::Error,
    },
    /// A filter does not fit this program.
    #[error("list {list}: {source}")]
    List {
        /// Name of the list.
        list: String,
        /// Why.
        source: policy::Error,
    },
    /// A filter must not replace the one in effect without a restart.
    #[error("list {list}: {}: {source}", path.display())]
    Objection {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// Why.
        source: Objection,
    },
    /// The pages of a filter that was just read completely cannot be loaded into memory.
    #[error(transparent)]
    Pages {
        /// Why.
        source: filter::Error,
    },
    /// A filter matches far more keys than it declares.
    #[error("list {list}: {}: matches {found:.1e} of random addresses, more than twice the declared {declared:.1e}: the file is damaged; build it again", path.display())]
    Rate {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// Share of random keys that it matches.
        found: f64,
        /// Share that it declares.
        declared: f64,
    },
    /// An address that must never be listed is.
    #[error("list {list}: {}: lists or matches {address}, which must_miss protects; remove the entry (\"blocklist-compile query {} {address}\" shows it)", path.display(), path.display())]
    MustMiss {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// The address, as configured.
        address: String,
    },
    /// An address that must be listed is not.
    #[error("list {list}: {}: does not list {address}, which must_hit requires: the list is wrong or incomplete, or was made by another program; build it again, or correct must_hit", path.display())]
    MustHit {
        /// Name of the list.
        list: String,
        /// The filter.
        path: PathBuf,
        /// The address, as configured.
        address: String,
    },
    /// A whitelist cannot be read.
    #[error("{}: cannot read the whitelist: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A change of files removes all lists or the whole whitelist, and nobody asked for a reload.
    #[error(
        "the change {0}: a file that is being written looks the same; if it is intended, run blocklist-milter reload"
    )]
    Loss(String),
    /// The user of the service cannot read a file that this process can read.
    #[error("the service reads it as another user: {0}")]
    Denied(Box<Obstacle>),
    /// Lines of a whitelist are invalid. Without them, the senders that they should protect would be refused.
    #[error("{}", lines.join("\n"))]
    Whitelist {
        /// The first such lines, as `file:line: reason`.
        lines: Vec<String>,
    },
    /// One of these errors, about a list, with the position of the list's filter in the configuration.
    #[error("{}:{line}:{column}: {error}", config.display())]
    Placed {
        /// The configuration.
        config: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        error: Box<Self>,
    },
    /// One of these errors, about a list that has a good copy.
    #[error("{error}; a start uses the last good copy, {copy}")]
    Covered {
        /// What is wrong.
        error: Box<Self>,
        /// The copy.
        copy: String,
    },
    /// Several of these.
    #[error("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several {
        /// All of them.
        errors: Vec<Self>,
    },
}

impl Error {
    /// The same error, with the positions of the lists that it is about.
    pub(super) fn placed(self, config: &Path, places: &[(String, (usize, usize))]) -> Self {
        // One level is enough: `Several` never contains `Several`.
        if let Self::Several { errors } = self {
            let errors = errors
                .into_iter()
                .map(|error| error.placed(config, places))
                .collect();
            return Self::Several { errors };
        }
        let Some(about) = self.list() else {
            return self;
        };
        let Some(&(_, (line, column))) = places.iter().find(|(list, _)| list == about) else {
            return self;
        };
        Self::Placed {
            config: config.to_owned(),
            line,
            column,
            error: Box::new(self),
        }
    }

    /// Each error by itself; never one of several.
    pub fn each(&self) -> &[Self] {
        match self {
            Self::Several { errors } => errors,
            other => std::slice::from_ref(other),
        }
    }

    /// The missing permission of this process or of the service, if that is the error.
    pub fn obstacle(&self) -> Option<&Obstacle> {
        match self {
            Self::Denied(obstacle) => Some(obstacle),
            Self::Placed { error, .. } | Self::Covered { error, .. } => error.obstacle(),
            Self::Config(config::Error::Unreadable { source, .. })
            | Self::Unreadable { source, .. }
            | Self::Filter {
                source: filter::Error::Io { source, .. },
                ..
            } => explanation(source),
            _ => None,
        }
    }

    /// The list whose filter file does not exist, if that is the error.
    pub fn list_without_filter(&self) -> Option<&str> {
        match self {
            Self::Placed { error, .. } | Self::Covered { error, .. } => error.list_without_filter(),
            Self::Filter {
                list,
                source: filter::Error::Io { source, .. },
            } if source.kind() == io::ErrorKind::NotFound => Some(list),
            _ => None,
        }
    }

    /// The list that it is about.
    pub(super) fn list(&self) -> Option<&str> {
        match self {
            Self::Filter { list, .. }
            | Self::List { list, .. }
            | Self::Objection { list, .. }
            | Self::Rate { list, .. }
            | Self::MustMiss { list, .. }
            | Self::MustHit { list, .. } => Some(list),
            Self::Placed { error, .. } | Self::Covered { error, .. } => error.list(),
            Self::Config(_)
            | Self::Pages { .. }
            | Self::Unreadable { .. }
            | Self::Denied(_)
            | Self::Loss(_)
            | Self::Whitelist { .. }
            | Self::Several { .. } => None,
        }
    }

    /// Whether the whitelist could not be read completely.
    pub(super) fn is_of_whitelist(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Whitelist { .. })
    }
}
