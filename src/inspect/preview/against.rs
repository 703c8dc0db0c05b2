//! The keys of what would be listed, to count doubles and to compare with a filter.

use std::collections::BTreeMap;
use std::path::Path;

use crate::address::{Kind, Rules};
use crate::compile::{Error, Plan};
use crate::filter::{Filter, Key, Load};

/// Number of entries up to which they are compared: 16 bytes each.
const MAX_KEYS: usize = 1 << 25;
/// Number of new entries that are shown.
const SHOWN: usize = 5;
/// Bits of a number that a key is kept with: its kind in the lowest two, then where it was first.
const KIND_BITS: u32 = 2;

/// What would come into a filter, and go.
#[derive(Debug, Default)]
pub struct Against {
    /// Number of entries that are new.
    pub more: u64,
    /// The first of them, as file:line.
    pub first: Vec<String>,
    /// Number of entries that would no longer be listed, by the source that they came from.
    pub less: BTreeMap<String, u64>,
}

/// Keys of entries.
#[derive(Debug, Default)]
pub(super) struct Keys {
    seed: u64,
    filter: Option<Filter>,
    /// Each with its kind, and the number of its row.
    keys: Vec<(u64, u64)>,
    /// How many there are of the files before the current one.
    before: usize,
    is_full: bool,
    /// The names of the files.
    files: Vec<String>,
    /// The file and line of each row.
    rows: Vec<(u32, u64)>,
}

impl Keys {
    /// Returns keys as a filter has them. Addresses are then read as they were for the filter.
    ///
    /// # Errors
    /// When the filter cannot be read, or has no records.
    pub(super) fn of_filter(path: &Path, plan: &mut Plan) -> Result<Self, Error> {
        let filter = Filter::open(path, Load::Disk)?;
        let spec = filter.spec();
        let rules = Rules::from_bits(spec.rules).filter(|_| spec.records);
        plan.rules = rules.ok_or_else(|| {
            Error::Plan(format!(
                "{}: has no records, so its entries cannot be compared; use a filter that was built without --no-records",
                path.display()
            ))
        })?;
        Ok(Self {
            seed: spec.seed,
            filter: Some(filter),
            ..Self::default()
        })
    }

    /// Begins a file.
    pub(super) fn begin(&mut self) {
        self.before = self.keys.len();
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &[u8], kind: Kind, file: &str, line: u64) {
        if self.keys.len() >= MAX_KEYS {
            self.is_full = true;
            return;
        }
        let Key(key) = Key::of(entry, self.seed);
        let mut place = 0;
        if self.filter.is_some() {
            if self.files.last().is_none_or(|last| last != file) {
                self.files.push(file.to_owned());
            }
            place = self.rows.len() as u64;
            let number = u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX);
            self.rows.push((number, line));
        }
        self.keys.push((key, place << KIND_BITS | kind as u64));
    }

    /// Ends a file with `listed` entries: returns the number of distinct ones by kind, and how many
    /// are there twice.
    pub(super) fn end(&mut self, listed: u64) -> ([u64; 4], Option<u64>) {
        let mut own = self.keys.split_off(self.before);
        own.sort_unstable();
        own.dedup_by_key(|(key, _)| *key);
        let mut kinds = [0; 4];
        for (_, place) in &own {
            let kind = usize::try_from(place & ((1 << KIND_BITS) - 1)).unwrap_or(0);
            if let Some(count) = kinds.get_mut(kind) {
                *count += 1;
            }
        }
        let doubles = (!self.is_full).then(|| listed.saturating_sub(own.len() as u64));
        // They are only needed again to compare with a filter.
        if self.filter.is_some() {
            self.keys.append(&mut own);
        } else {
            self.is_full = false;
        }
        (kinds, doubles)
    }

    /// Compares with the filter.
    ///
    /// # Errors
    /// When it cannot be read, or there are too many entries.
    pub(super) fn compare(mut self) -> Result<Against, Error> {
        let Some(filter) = self.filter.take() else {
            return Ok(Against::default());
        };
        if self.is_full {
            return Err(Error::Plan(format!(
                "--against: more than {MAX_KEYS} entries; build a filter, and use compare"
            )));
        }
        self.keys.sort_unstable();
        self.keys.dedup_by_key(|(key, _)| *key);
        let mut found = Against::default();
        let mut gone: BTreeMap<u32, u64> = BTreeMap::new();
        let mut new: Vec<(u32, u64)> = Vec::new();
        let mut keys = self.keys.iter().peekable();
        let mut add = |place: u64| {
            found.more += 1;
            let row = usize::try_from(place >> KIND_BITS).ok();
            new.extend(row.and_then(|row| self.rows.get(row)).copied());
        };
        for record in filter.records()? {
            let record = record?;
            while let Some((_, place)) = keys.next_if(|(key, _)| *key < record.key.0) {
                add(*place);
            }
            if keys.next_if(|(key, _)| *key == record.key.0).is_none() {
                *gone.entry(record.source).or_default() += 1;
            }
        }
        for (_, place) in keys {
            add(*place);
        }
        new.sort_unstable();
        let shown = new.iter().take(SHOWN).map(|(file, line)| {
            let file = self.files.get(*file as usize);
            format!("{}:{line}", file.map_or("", String::as_str))
        });
        found.first = shown.collect();
        for (source, count) in gone {
            let name = filter.source(source).map_or("", |source| &source.file);
            *found.less.entry(name.to_owned()).or_default() += count;
        }
        Ok(found)
    }
}
