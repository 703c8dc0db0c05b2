//! Asking a filter file: who is listed, by which entry, from which list, since when.
//!
//! What is asked may be a sender as a message writes it, and is then looked up as the
//! daemon does it; or an entry as a list writes it (`@b`, `.b`, `a@`), and is then
//! looked up as such.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;

use crate::address::{Canonical, Entry, Kind, escaped};
use crate::filter::Load;
use crate::list::Day;
use crate::lookup::{Error, Lookup, Outcome, Reads};

/// A filter with all that is needed to ask it. A clone asks the same filter.
#[derive(Clone, Debug)]
pub struct Query {
    lookup: Lookup,
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
    /// Whether one of the entries that it is found by hits the pages, proved or not.
    #[serde(skip)]
    pub(crate) hits_pages: bool,
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

impl Query {
    /// # Errors
    /// As [`Lookup::open`].
    pub fn open(path: &Path, load: Load, today: Day) -> Result<Self, Error> {
        Ok(Self {
            lookup: Lookup::open(path, load)?,
            today,
            canonical: Canonical::new(),
            entry: Entry::new(),
        })
    }

    /// The filter.
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// Looks one address or entry up. What is neither is not listed.
    ///
    /// # Errors
    /// When the file fails while it is read.
    pub fn ask(&mut self, written: &[u8]) -> Result<Finding, Error> {
        let rules = self.lookup.rules();
        let mut finding = Finding {
            address: escaped(written).to_string(),
            canonical: None,
            listed: false,
            matches: Vec::new(),
            hits_pages: false,
        };
        if self.canonical.read(written, rules).is_ok() {
            finding.canonical = Some(escaped(self.canonical.as_bytes()).to_string());
            let failed = self.lookup.visit(
                &self.canonical,
                self.today.0,
                &mut Reads::Now,
                |kind, entry, outcome| match finding.take(kind, entry, &outcome, &self.lookup) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => ControlFlow::Break(error),
                },
            );
            if let ControlFlow::Break(error) = failed {
                return Err(error);
            }
        } else if self.entry.read(written, rules).is_ok() {
            let (kind, entry) = (self.entry.kind(), self.entry.as_bytes());
            finding.canonical = Some(escaped(entry).to_string());
            self.lookup
                .ask(entry, self.today.0, &mut Reads::Now, |outcome| {
                    finding.take(kind, entry, &outcome, &self.lookup)
                })?;
        }
        finding.listed = !finding.matches.is_empty();
        Ok(finding)
    }
}

impl Finding {
    /// Notes what the filter says of one entry.
    fn take(
        &mut self,
        kind: Kind,
        entry: &[u8],
        outcome: &Outcome<'_>,
        lookup: &Lookup,
    ) -> Result<(), Error> {
        self.hits_pages |= !matches!(outcome, Outcome::Miss);
        let record = match outcome {
            Outcome::Miss | Outcome::FalsePositive | Outcome::Expired(_) => return Ok(()),
            Outcome::Unread => return Err(Error::NotInTime),
            Outcome::Failed(error) => return Err((*error).clone()),
            Outcome::Unproved => None,
            Outcome::Listed(record) => Some(*record),
        };
        let source = record.and_then(|record| lookup.filter().source(record.source));
        let day = |day| Day(day).to_string();
        self.matches.push(Match {
            entry: escaped(entry).to_string(),
            kind: kind.name(),
            source: source.map(|source| source.name.clone()),
            added: record.map(|record| day(record.added)),
            expires: record.and_then(|record| record.expires).map(day),
            proved: record.is_some(),
        });
        Ok(())
    }

    /// The answer to a line that is too long to be asked: no sender is.
    #[must_use]
    pub fn too_long(written: &[u8]) -> Self {
        let shown = written.get(..SHOWN_BYTES).unwrap_or(written);
        Self {
            address: format!("{}...", escaped(shown)),
            canonical: None,
            listed: false,
            matches: Vec::new(),
            hits_pages: false,
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
