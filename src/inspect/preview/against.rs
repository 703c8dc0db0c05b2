//! The keys of what would be listed, to count doubles and to compare with a filter.

use std::collections::BTreeMap;
use std::path::Path;

use crate::address::{Kind, Rules};
use crate::compile::{Error, Plan};
use crate::filter::{Filter, Key, Load};

/// Number of entries up to which they are compared: 16 bytes each.
const MAX_KEYS: usize = 1 << 24;
/// Number of new entries that are shown.
const SHOWN: usize = 5;
/// Bits of a place: the number of the file, the line, and the kind of the entry.
const LINE_SHIFT: u32 = 2;
const FILE_SHIFT: u32 = 48;

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
    /// Each with its place.
    keys: Vec<(u64, u64)>,
    /// How many there are of the files before the current one.
    before: usize,
    is_full: bool,
    files: Vec<String>,
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
    pub(super) fn begin(&mut self, file: String) {
        self.before = self.keys.len();
        self.files.push(file);
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &[u8], kind: Kind, line: u64) {
        if self.keys.len() >= MAX_KEYS {
            self.is_full = true;
            return;
        }
        let Key(key) = Key::of(entry, self.seed);
        let file = (self.files.len() as u64).saturating_sub(1) << FILE_SHIFT;
        self.keys
            .push((key, file | line << LINE_SHIFT | kind as u64));
    }

    /// Ends a file: returns the number of its distinct entries by kind; `None` if there are too many.
    pub(super) fn end(&mut self) -> Option<[u64; 4]> {
        let mut own = self.keys.split_off(self.before);
        own.sort_unstable();
        own.dedup_by_key(|(key, _)| *key);
        let mut kinds = [0; 4];
        for (_, place) in &own {
            if let Some(count) = kinds.get_mut((place & 0b11) as usize) {
                *count += 1;
            }
        }
        let is_whole = !self.is_full;
        // They are only needed again to compare with a filter.
        if self.filter.is_some() {
            self.keys.append(&mut own);
        } else {
            self.is_full = false;
        }
        is_whole.then_some(kinds)
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
        let mut new: Vec<u64> = Vec::new();
        let mut keys = self.keys.iter().peekable();
        for record in filter.records()? {
            let record = record?;
            while let Some((_, place)) = keys.next_if(|(key, _)| *key < record.key.0) {
                new.push(*place);
            }
            if keys.next_if(|(key, _)| *key == record.key.0).is_none() {
                *gone.entry(record.source).or_default() += 1;
            }
        }
        new.extend(keys.map(|(_, place)| *place));
        new.sort_unstable();
        found.more = new.len() as u64;
        let shown = new.iter().take(SHOWN).map(|place| {
            let file = usize::try_from(place >> FILE_SHIFT).ok();
            let file = file.and_then(|file| self.files.get(file));
            let line = (place & ((1 << FILE_SHIFT) - 1)) >> LINE_SHIFT;
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
