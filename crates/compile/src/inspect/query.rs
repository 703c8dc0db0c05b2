//! Looks up addresses in a filter file: who is listed, by which entry, from which list, since when.
//!
//! The text may be a sender as in a message, and is then looked up in the same way as by the
//! daemon; or an entry as in a list (`@b`, `.b`, `a@`), and is then looked up as an entry.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;

use blocklist_filter::address::{Canonical, Entry, Kind, escaped, shortened};
use blocklist_filter::base::day::Day;
use blocklist_filter::filter::Load;
use blocklist_filter::lookup::{Error, Lookup, Outcome, Reads};

/// A filter with everything needed to look addresses up. A clone uses the same filter.
#[derive(Clone, Debug)]
pub struct Query {
    lookup: Lookup,
    today: Day,
    canonical: Canonical,
    entry: Entry,
}

/// The result for one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The address as given, escaped and shortened.
    pub address: String,
    /// Its canonical form, escaped; `None` if it is not an address.
    pub canonical: Option<String>,
    /// Whether a message from it is rejected.
    pub listed: bool,
    /// The entries that list it.
    pub matches: Vec<Match>,
    /// Whether the key of one of its entries hits the pages, confirmed or not.
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
    /// Name of the list that it came from; `None` without records.
    pub source: Option<String>,
    /// The day on which it was added, as 2026-01-31; `None` without records.
    pub added: Option<String>,
    /// The first day on which it is no longer listed.
    pub expires: Option<String>,
    /// Whether a record confirms it, rather than the pages alone.
    pub proved: bool,
}

impl Query {
    /// Opens a filter.
    pub fn open(path: &Path, load: Load, today: Day) -> Result<Self, Error> {
        Ok(Self {
            lookup: Lookup::open(path, load)?,
            today,
            canonical: Canonical::new(),
            entry: Entry::new(),
        })
    }

    /// Returns the filter.
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// Looks up one address or entry. A text that is neither is not listed.
    pub fn ask(&mut self, written: &[u8]) -> Result<Finding, Error> {
        let rules = self.lookup.rules();
        let mut finding = Finding {
            address: shortened(written, SHOWN_BYTES),
            ..Finding::default()
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
    fn take(
        &mut self,
        kind: Kind,
        entry: &[u8],
        outcome: &Outcome<'_>,
        lookup: &Lookup,
    ) -> Result<(), Error> {
        self.hits_pages |= !matches!(outcome, Outcome::Miss);
        let listing = lookup.listing(kind, entry, outcome)?;
        self.matches.extend(listing.map(|listing| Match {
            entry: escaped(entry).to_string(),
            kind: kind.name(),
            source: listing.source.map(|source| source.name.clone()),
            added: listing.added.map(|day| day.to_string()),
            expires: listing.expires.map(|day| day.to_string()),
            proved: listing.is_proved,
        }));
        Ok(())
    }
}

/// Most bytes that are shown of what was asked for; of more, the middle is left out.
const SHOWN_BYTES: usize = 1024;

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(canonical) = &self.canonical else {
            let why = "neither an address nor an entry, so never listed";
            return write!(f, "{}: {why}", self.address);
        };
        let listed = if self.listed { "listed" } else { "not listed" };
        write!(f, "{}: {listed}", self.address)?;
        if *canonical != self.address {
            write!(f, " (as {canonical})")?;
        }
        for found in &self.matches {
            write!(f, "\n  {} {}", found.kind, found.entry)?;
            for (word, what) in [
                ("from", &found.source),
                ("added", &found.added),
                ("expires", &found.expires),
            ] {
                if let Some(what) = what {
                    write!(f, ", {word} {what}")?;
                }
            }
            if !found.proved {
                f.write_str(", by the pages only: this filter has no records to confirm it")?;
            }
        }
        Ok(())
    }
}
