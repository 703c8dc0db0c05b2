//! The counts of all shares of a merge together, which are those of one count of all keys.
//!
//! Each file contains the number of its share. The same rules apply to counts and pages:
//!
//! | two files with | mean |
//! |---|---|
//! | the same share and content | two attempts at the same share: one is used |
//! | the same share, other content | they belong to different merges, and one of them is out of date: refused |
//! | another number of shares | they belong to different merges: refused |

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use super::pieces::refused;
use super::read::Reading;
use crate::compile::write::EntryCounts;
use crate::compile::{Error, Progress};
use crate::filter::{Basis, Counts, Share, ShareKind, SourceCounts};
use crate::list::Day;

/// How many shares a message shows; the others are only counted.
const SHOWN: usize = 8;

/// The shares of a merge that were found.
#[derive(Debug)]
pub(super) struct Present<'a> {
    kind: ShareKind,
    first: Option<(&'a Path, Share)>,
    by_number: BTreeMap<u32, &'a Path>,
}

impl<'a> Present<'a> {
    pub(super) fn new(kind: ShareKind) -> Self {
        Self {
            kind,
            first: None,
            by_number: BTreeMap::new(),
        }
    }

    /// Adds a share. If the same share was already added, returns its file, which must be equal.
    ///
    /// # Errors
    /// It belongs to a merge with another number of shares.
    pub(super) fn add(&mut self, path: &'a Path, share: Share) -> Result<Option<&'a Path>, Error> {
        let (first, like) = *self.first.get_or_insert((path, share));
        if share.of() != like.of() {
            let first = first.display();
            return Err(refused(path, &format!("{share}, but {first} is {like}")));
        }
        match self.by_number.entry(share.number()) {
            Entry::Vacant(place) => {
                place.insert(path);
                Ok(None)
            }
            Entry::Occupied(place) => Ok(Some(place.get())),
        }
    }

    /// All shares, in their order.
    ///
    /// # Errors
    /// A share is missing.
    pub(super) fn all(&self) -> Result<Vec<&'a Path>, Error> {
        let of = self.first.map_or(0, |(_, share)| share.of());
        let mut missing = (1..=of).filter(|number| !self.by_number.contains_key(number));
        let shown: Vec<_> = missing
            .by_ref()
            .take(SHOWN)
            .map(|number| number.to_string())
            .collect();
        let others = match missing.count() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        if shown.is_empty() {
            return Ok(self.by_number.values().copied().collect());
        }
        Err(Error::Unlike(format!(
            "of {of} shares the {} of these are missing: {}{others}",
            self.kind,
            shown.join(", ")
        )))
    }
}

/// The error for two different files of the same share.
pub(super) fn differs(path: &Path, other: &Path, share: Share) -> Error {
    let why = format!(
        "differs from {}, but both are {share}; remove the one that is out of date",
        other.display()
    );
    refused(path, &why)
}

/// The error for a file that was made for another day.
pub(super) fn other_day(path: &Path, found: u16, wanted: u16) -> Error {
    let (found, wanted) = (Day(found), Day(wanted));
    let why = format!(
        "made for the day {found}, but this merge is of {wanted}; give all steps the same --date"
    );
    refused(path, &why)
}

/// All entries, each counted once.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) counts: EntryCounts,
    pub(super) expired: Vec<u64>,
    /// Whether staged keys must store dates.
    pub(super) dated: bool,
}

impl Totals {
    /// Reads the counts of all shares of the parts.
    ///
    /// # Errors
    /// Counts are missing, or belong to other parts, another day or another number of shares.
    pub(super) fn of(
        paths: &[PathBuf],
        basis: Basis,
        reading: &Reading<'_>,
        progress: &Progress,
    ) -> Result<Self, Error> {
        if paths.is_empty() {
            return Err(Error::Plan(
                "--pages: give the counts of all shares, made with merge --count, and all parts"
                    .to_owned(),
            ));
        }
        let mut present = Present::new(ShareKind::Counts);
        let mut sources = vec![SourceCounts::default(); reading.sources];
        let mut records = vec![0_u64; reading.parts()];
        let mut dated = false;
        for path in paths {
            progress.go_on()?;
            let counts = Counts::open(path)?;
            check_basis(path, &counts, basis, reading)?;
            if let Some(other) = present.add(path, counts.share)? {
                if Counts::open(other)? != counts {
                    return Err(differs(path, other, counts.share));
                }
                continue;
            }
            dated |= counts.dated;
            for (sum, count) in records.iter_mut().zip(&counts.records) {
                *sum = sum.saturating_add(*count);
            }
            for (sum, source) in sources.iter_mut().zip(&counts.sources) {
                for (sum, count) in sum.kinds.iter_mut().zip(source.kinds) {
                    *sum = sum.saturating_add(count);
                }
                sum.expired = sum.expired.saturating_add(source.expired);
            }
        }
        present.all()?;
        // No share has more entries than records, so this also limits the sum of the entries.
        reading.check_counts(&records)?;
        Ok(Self::sums(&sources, dated))
    }

    /// The sums of all shares.
    pub(super) fn sums(sources: &[SourceCounts], dated: bool) -> Self {
        let mut counts = EntryCounts::default();
        for (number, source) in (0..).zip(sources) {
            if source.kinds != [0; 4] {
                counts.count_source(number, source.kinds);
            }
        }
        Self {
            counts,
            expired: sources.iter().map(|source| source.expired).collect(),
            dated,
        }
    }

    /// The same by source.
    pub(super) fn sources(&self) -> Vec<SourceCounts> {
        by_source(&self.counts, &self.expired)
    }
}

/// The counts of each source.
pub(super) fn by_source(counts: &EntryCounts, expired: &[u64]) -> Vec<SourceCounts> {
    let source = |(number, expired): (u32, &u64)| SourceCounts {
        kinds: counts.kinds_of_source(number),
        expired: *expired,
    };
    (0..).zip(expired).map(source).collect()
}

fn check_basis(
    path: &Path,
    counts: &Counts,
    basis: Basis,
    reading: &Reading<'_>,
) -> Result<(), Error> {
    let Basis { parts, day } = counts.basis;
    if parts != basis.parts
        || counts.sources.len() != reading.sources
        || counts.records.len() != reading.parts()
    {
        return Err(refused(
            path,
            "counts of other parts than those given here; give exactly the parts that were counted, \
             or count these",
        ));
    }
    match day == basis.day {
        true => Ok(()),
        false => Err(other_day(path, day, basis.day)),
    }
}
