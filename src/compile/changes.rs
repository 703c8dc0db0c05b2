//! The records of a filter with the changes of an update.
//!
//! ```text
//!   records of the filter --+
//!   entries to add ---------+--> merged; expired ones and those to remove dropped --> assemble
//!   entries to remove ------+
//! ```

use serde::Serialize;

use super::error::Error;
use super::write::{Sorted, Walk};
use crate::filter::{Class, Key, Record};

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

/// A stream of the records that a filter has after an update.
pub(crate) struct Updated<'a> {
    /// The filter, entries to add, entries to remove.
    walk: Walk<'a>,
    /// The new number of each source of the filter.
    numbers: &'a [u32],
    /// Entries are left out if they expire on this day (counted from 1970) or before.
    today: u16,
    changed: Changed,
}

impl<'a> Updated<'a> {
    /// Returns the records that a filter has after an update, given its own, those to add, and those
    /// to remove.
    pub(crate) fn new(streams: [Box<dyn Sorted + 'a>; 3], numbers: &'a [u32], today: u16) -> Self {
        Self {
            walk: Walk::new(streams),
            numbers,
            today,
            changed: Changed::default(),
        }
    }

    /// Returns how the records taken so far differ from those of the filter.
    pub(crate) fn changed(&self) -> Changed {
        self.changed
    }
}

impl Sorted for Updated<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        let Self {
            walk,
            numbers,
            today,
            changed,
        } = self;
        walk.before(end, |held| {
            let of = |stream| held.iter().find(|(number, _)| *number == stream);
            let [mut old, added, removed] =
                [0, 1, 2].map(|stream| of(stream).map(|(_, record)| *record));
            if let Some(old) = &mut old {
                old.source = numbers[old.source as usize];
            }
            let class = match (old, added) {
                (Some(old), Some(added)) => Class::of(&old).merge(Class::of(&added)),
                (Some(one), None) | (None, Some(one)) => Class::of(&one),
                (None, None) => {
                    changed.not_found += 1;
                    return Ok(());
                }
            };
            changed.already_there += u64::from(old.is_some() && added.is_some());
            if removed.is_some() {
                // A new entry that is removed again changes nothing.
                changed.removed += u64::from(old.is_some());
            } else if class.dates.have_expired(*today) {
                changed.expired += 1;
            } else {
                let record = class.record(held[0].1.key);
                match old {
                    Some(old) => changed.redated += u64::from(old != record),
                    None => changed.added += 1,
                }
                into.push(record);
            }
            Ok(())
        })?;
        Ok(())
    }
}
