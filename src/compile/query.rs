//! Asking a filter file: who is listed, by which entry, from which list, since when.
//!
//! What is asked may be a sender as a message writes it, and is then looked up as the
//! daemon does it; or an entry as a list writes it (`@b`, `.b`, `a@`), and is then
//! looked up as such.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::Error;
use crate::address::{Canonical, Entry, Kind, Kinds, RULES_VERSION, Rules, escaped, key};
use crate::filter::{Answer, Filter, Load};
use crate::list::Day;

/// A filter with all that is needed to ask it. A clone asks the same filter.
#[derive(Clone, Debug)]
pub struct Query {
    filter: Arc<Filter>,
    rules: Rules,
    kinds: Kinds,
    today: Day,
    canonical: Canonical,
    entry: Entry,
}

/// What the filter says of one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// As it was asked, escaped.
    pub address: String,
    /// Its canonical form, escaped; none when it is no address.
    pub canonical: Option<String>,
    /// Whether a message from it is rejected.
    pub listed: bool,
    /// By which entries.
    pub matches: Vec<Match>,
}

/// An entry that lists an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The entry, escaped.
    pub entry: String,
    /// "mailbox", "local-part", "domain" or "subtree".
    pub kind: &'static str,
    /// Name of the list it came from; none without records.
    pub source: Option<String>,
    /// The day it was added, as 2026-01-31; none without records.
    pub added: Option<String>,
    /// The first day it is no longer listed.
    pub expires: Option<String>,
    /// Whether a record proves it, rather than the pages alone.
    pub proved: bool,
}

/// Opens a filter that this program makes keys for.
///
/// # Errors
/// When it cannot be read or vouched for, and when its keys were made by other rules:
/// asked with ours, it would miss what it lists.
pub fn open(path: &Path, load: Load) -> Result<Filter, Error> {
    let filter = Filter::open(path, load)?;
    rules_of(&filter, path)?;
    Ok(filter)
}

/// The rules that a filter's keys were made by.
pub(crate) fn rules_of(filter: &Filter, path: &Path) -> Result<Rules, Error> {
    let spec = filter.spec();
    let rules = Rules::from_bits(spec.rules).filter(|_| spec.rules_version == RULES_VERSION);
    rules.ok_or_else(|| {
        Error::Unlike(format!(
            "{}: compiled with address rules {} (options {:#04x}), but this program has {RULES_VERSION}: build the filter again",
            path.display(),
            spec.rules_version,
            spec.rules
        ))
    })
}

impl Query {
    /// # Errors
    /// As [`open`].
    pub fn open(path: &Path, load: Load, today: Day) -> Result<Self, Error> {
        let filter = open(path, load)?;
        let rules = rules_of(&filter, path)?;
        let kinds = Kinds::from_bits(filter.spec().kinds).unwrap_or(Kinds::ALL);
        Ok(Self {
            filter: Arc::new(filter),
            rules,
            kinds,
            today,
            canonical: Canonical::new(),
            entry: Entry::new(),
        })
    }

    /// The filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// How addresses are read.
    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether one of the entries that a sender is found by hits the pages.
    pub(crate) fn hits_pages(&mut self, written: &[u8]) -> Result<bool, Error> {
        if self.canonical.read(written, self.rules).is_err() {
            return Ok(false);
        }
        let seed = self.filter.spec().seed;
        let hit = self.canonical.lookups(self.kinds, |_, entry| {
            match self.filter.may_hold(key(entry, seed)) {
                Ok(false) => ControlFlow::Continue(()),
                hit => ControlFlow::Break(hit),
            }
        });
        match hit {
            ControlFlow::Break(hit) => Ok(hit?),
            ControlFlow::Continue(()) => Ok(false),
        }
    }

    /// Looks one address or entry up. What is neither is not listed.
    ///
    /// # Errors
    /// When the file fails while it is read.
    pub fn ask(&mut self, written: &[u8]) -> Result<Finding, Error> {
        let mut matches = Vec::new();
        let mut canonical = None;
        if self.canonical.read(written, self.rules).is_ok() {
            canonical = Some(escaped(self.canonical.as_bytes()).to_string());
            let failed =
                self.canonical
                    .lookups(self.kinds, |kind, entry| match self.look_up(kind, entry) {
                        Ok(found) => {
                            matches.extend(found);
                            ControlFlow::Continue(())
                        }
                        Err(error) => ControlFlow::Break(error),
                    });
            if let ControlFlow::Break(error) = failed {
                return Err(error);
            }
        } else if self.entry.read(written, self.rules).is_ok() {
            canonical = Some(escaped(self.entry.as_bytes()).to_string());
            matches.extend(self.look_up(self.entry.kind(), self.entry.as_bytes())?);
        }
        Ok(Finding {
            address: escaped(written).to_string(),
            canonical,
            listed: !matches.is_empty(),
            matches,
        })
    }

    /// One entry; an expired one is not listed.
    fn look_up(&self, kind: Kind, entry: &[u8]) -> Result<Option<Match>, Error> {
        let text = || escaped(entry).to_string();
        Ok(
            match self.filter.look_up(key(entry, self.filter.spec().seed))? {
                Answer::Miss | Answer::FalsePositive => None,
                Answer::Unproved => Some(Match {
                    entry: text(),
                    kind: kind.name(),
                    source: None,
                    added: None,
                    expires: None,
                    proved: false,
                }),
                Answer::Listed(record) if record.expires.is_some_and(|day| day <= self.today.0) => {
                    None
                }
                Answer::Listed(record) => Some(Match {
                    entry: text(),
                    kind: kind.name(),
                    source: self
                        .filter
                        .source(record.source)
                        .map(|source| source.name.clone()),
                    added: Some(Day(record.added).to_string()),
                    expires: record.expires.map(|day| Day(day).to_string()),
                    proved: true,
                }),
            },
        )
    }
}

impl Finding {
    /// The answer to a line that is too long to be asked: no sender is.
    #[must_use]
    pub fn too_long(written: &[u8]) -> Self {
        let shown = written.get(..SHOWN_BYTES).unwrap_or(written);
        Self {
            address: format!("{}...", escaped(shown)),
            canonical: None,
            listed: false,
            matches: Vec::new(),
        }
    }
}

/// Of a line that is too long, so much is shown.
const SHOWN_BYTES: usize = 80;

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(canonical) = &self.canonical else {
            return write!(
                f,
                "{}: neither an address nor an entry, so never listed",
                self.address
            );
        };
        write!(
            f,
            "{}: {}",
            self.address,
            if self.listed { "listed" } else { "not listed" }
        )?;
        if *canonical != self.address {
            write!(f, " (as {canonical})")?;
        }
        for found in &self.matches {
            write!(f, "\n  {} {}", found.kind, found.entry)?;
            if let Some(source) = &found.source {
                write!(f, ", from {source}")?;
            }
            if let Some(added) = &found.added {
                write!(f, ", added {added}")?;
            }
            if let Some(first) = &found.expires {
                write!(f, ", expires {first}")?;
            }
            if !found.proved {
                f.write_str(", by the pages only: this filter has no records to confirm it")?;
            }
        }
        Ok(())
    }
}
