//! Records in the order of their keys, from files and from staged keys, as one stream.
//!
//! ```text
//!   records of A --+
//!   records of B --+--> joined, expired ones dropped, removed ones dropped --> assemble
//!   staged keys ---+                                       ^
//!   keys to remove ----------------------------------------+
//! ```
//!
//! A caller that needs the number of records reads the stream once before, with
//! [`count_entries`](super::entry_counts::count_entries): to read records in sequence is far
//! cheaper than to read text.

use std::fmt;

use serde::Serialize;

use crate::base::numbers::grouped;
use crate::compile::Error;
use crate::filter::{Filter, Key, Record, Records};

/// Records in the order of their keys, each key once.
pub(crate) trait Sorted: Send {
    /// Appends all records before `end` that were not taken yet; without `end`, all that are left.
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error>;
}

impl<S: Sorted + ?Sized> Sorted for Box<S> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        (**self).take_before(end, into)
    }
}

/// The records of a filter file, with their sources renumbered.
pub(crate) struct FileRecords<'a> {
    records: Records<'a>,
    /// Old number of a source -> new one.
    numbers: Vec<u32>,
}

impl<'a> FileRecords<'a> {
    /// Returns the records of a filter. `numbers` are the new numbers of its sources.
    ///
    /// # Errors
    /// When the filter has no records.
    pub(crate) fn new(filter: &'a Filter, numbers: Vec<u32>) -> Result<Self, Error> {
        let records = filter.records()?;
        Ok(Self { records, numbers })
    }
}

impl Sorted for FileRecords<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        let taken = into.len();
        self.records.take_before(end, into)?;
        for record in &mut into[taken..] {
            let source = self.numbers.get(record.source as usize);
            record.source = source.copied().unwrap_or(record.source);
        }
        Ok(())
    }
}

/// How an update changes the records of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Entries that the filter did not have.
    pub added: u64,
    /// Entries to add that the filter already had.
    pub already_there: u64,
    /// Entries whose source or dates were changed by the update; they also count as
    /// `already_there`.
    pub redated: u64,
    /// Entries that were removed.
    pub removed: u64,
    /// Entries to remove that the filter did not have.
    pub not_found: u64,
    /// Entries dropped because they have expired.
    pub expired: u64,
}

impl Changed {
    /// Returns whether the filter stays as it is.
    pub(crate) fn is_nothing(self) -> bool {
        self.added + self.redated + self.removed + self.expired == 0
    }
}

/// Shows "1 added, 2 already there, 3 removed, 4 not found"; counts of zero are left out.
impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.added, "added"),
            (self.already_there, "already there"),
            (self.removed, "removed"),
            (self.not_found, "not found"),
            (self.expired, "expired"),
        ];
        let mut shown = counts.into_iter().filter(|(count, _)| *count > 0);
        let Some((count, what)) = shown.next() else {
            return f.write_str("no changes");
        };
        write!(f, "{} {what}", grouped(count))?;
        shown.try_for_each(|(count, what)| write!(f, ", {} {what}", grouped(count)))
    }
}

/// Several streams joined into one.
pub(crate) struct Joined<'a> {
    streams: Vec<Box<dyn Sorted + 'a>>,
    /// Keys to leave out.
    removed: Option<Box<dyn Sorted + 'a>>,
    /// Entries are left out if they expire on this day (counted from 1970) or before.
    today: u16,
    to_remove: Vec<Record>,
    /// How the result differs from the first stream.
    changed: Changed,
}

impl<'a> Joined<'a> {
    pub(crate) fn new(
        streams: Vec<Box<dyn Sorted + 'a>>,
        removed: Option<Box<dyn Sorted + 'a>>,
        today: u16,
    ) -> Self {
        Self {
            streams,
            removed,
            today,
            to_remove: Vec::new(),
            changed: Changed::default(),
        }
    }

    /// Returns how the records taken so far differ from the first stream. Each stream holds each
    /// key once.
    pub(crate) fn changed(&self) -> Changed {
        self.changed
    }
}

impl Sorted for Joined<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        let mut taken = Vec::new();
        let mut old = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.take_before(end, &mut taken)?;
            if number == 0 {
                old.clone_from(&taken);
            }
        }
        let offered = taken.len() - old.len();
        // The stable sort of the standard library finds the sorted runs and merges them.
        taken.sort_by_key(|record| record.key);
        taken.dedup_by(|next, kept| {
            let same = next.key == kept.key;
            if same {
                *kept = join_records(*kept, *next);
            }
            same
        });
        self.to_remove.clear();
        if let Some(removed) = &mut self.removed {
            removed.take_before(end, &mut self.to_remove)?;
        }
        let mut before = old.iter().peekable();
        let mut to_remove = self.to_remove.iter().map(|record| record.key).peekable();
        let changed = &mut self.changed;
        let (mut new, mut found) = (0, 0);
        into.extend(taken.into_iter().filter(|record| {
            while before.next_if(|old| old.key < record.key).is_some() {}
            let old = before.next_if(|old| old.key == record.key);
            new += u64::from(old.is_none());
            while to_remove.next_if(|key| *key < record.key).is_some() {}
            if to_remove.peek() == Some(&record.key) {
                found += 1;
                // A new entry that is removed again changes nothing.
                changed.removed += u64::from(old.is_some());
                return false;
            }
            if record.expires.is_some_and(|day| day <= self.today) {
                changed.expired += 1;
                return false;
            }
            match old {
                Some(old) => changed.redated += u64::from(old != record),
                None => changed.added += 1,
            }
            true
        }));
        changed.already_there += (offered as u64).saturating_sub(new);
        changed.not_found += self.to_remove.len() as u64 - found;
        Ok(())
    }
}

/// Joins two records of the same key by rules that do not depend on their order, as [staged
/// keys](crate::compile::partition::StagedKey) are joined.
fn join_records(a: Record, b: Record) -> Record {
    Record {
        key: a.key,
        kind: a.kind.min(b.kind),
        source: a.source.min(b.source),
        added: a.added.min(b.added),
        expires: a.expires.zip(b.expires).map(|(a, b)| a.max(b)),
    }
}
