//! The values of one column of a table, or of one path of JSON.

use std::collections::{HashMap, HashSet};
use std::str::FromStr as _;

use super::rows::shown;
use crate::filter::Key;
use crate::list::{DateFormat, Dates, Pieces, Wildcards, decoded, read_entry};

/// A column with more values than this has no meaning that a condition could name.
const SMALL: usize = 12;
/// Number of values that are told apart.
const DISTINCT: usize = 1 << 16;
/// Number of values that are shown.
const SAMPLES: usize = 3;
/// Number of cells of which the form of dates is taken.
const DATED: u64 = 10_000;
/// Most texts in a column of dates that are no dates.
const NEVER: usize = 4;

/// How dates are often written. The first is ISO 8601, which needs no declaration.
const DATE_FORMATS: [&str; 10] = [
    "",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
];

/// The values of a column.
#[derive(Debug, Default)]
pub struct Column {
    /// The column, as a declaration names it: heading, number or path.
    pub name: String,
    /// The key in the object that holds it; for a table, its name.
    pub key: String,
    /// The number of the object that holds it; for a table, 0.
    pub(super) object: usize,
    /// Number of cells that are not empty.
    pub filled: u64,
    /// Number of cells that are entries.
    pub entries: u64,
    /// Number of cells that hold several entries.
    pub several: u64,
    /// Number of cells that are no texts: numbers, `true`, `false`.
    pub others: u64,
    /// Some different values.
    pub samples: Vec<String>,
    /// Hashes of the values, while there are not too many.
    hashes: HashSet<u64>,
    /// The values, while they are few.
    few: Option<HashMap<String, Value>>,
    is_large: bool,
    dates: DatesOf,
}

/// A value of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Its text.
    pub text: String,
    /// Number of rows that have it.
    pub count: u64,
    /// The first of them.
    pub line: u64,
}

/// The form of the dates of a column.
#[derive(Debug, Default)]
struct DatesOf {
    cells: u64,
    /// How many cells each format reads.
    read: [u64; DATE_FORMATS.len()],
    /// Cells that are no dates.
    others: HashMap<String, u64>,
    is_none: bool,
}

/// The formats of dates.
pub(super) struct Formats(Vec<Dates>);

impl Formats {
    pub(super) fn new() -> Self {
        let formats = DATE_FORMATS.iter().map(|format| Dates {
            format: DateFormat::from_str(format).ok(),
            never: Vec::new(),
        });
        Self(formats.collect())
    }
}

impl Column {
    pub(super) fn new(name: String, key: String, object: usize) -> Self {
        Self {
            name,
            key,
            object,
            ..Self::default()
        }
    }

    /// Takes a cell of a row. Empty cells count as a value, but not as filled.
    pub(super) fn add(&mut self, cell: &[u8], is_text: bool, line: u64, formats: &Formats) {
        if !cell.is_empty() {
            self.filled += 1;
            self.others += u64::from(!is_text);
            match entries(cell) {
                Entries::None => {}
                _ if !is_text => {}
                Entries::One => self.entries += 1,
                Entries::Several => {
                    self.entries += 1;
                    self.several += 1;
                }
            }
            if self.hashes.len() < DISTINCT
                && self.hashes.insert(Key::of(cell, 0).0)
                && self.samples.len() < SAMPLES
            {
                self.samples.push(shown(decoded(cell).as_bytes()));
            }
            self.dates.add(cell, formats);
        }
        self.add_value(cell, line);
    }

    fn add_value(&mut self, cell: &[u8], line: u64) {
        if self.is_large {
            return;
        }
        let values = self.few.get_or_insert_default();
        // Values are compared without case.
        let text = decoded(cell).trim().to_owned();
        let key = text.to_lowercase();
        let is_new = !values.contains_key(&key);
        if is_new && values.len() == SMALL || cell.len() > 60 {
            (self.few, self.is_large) = (None, true);
            return;
        }
        let value = values.entry(key).or_insert(Value {
            text,
            count: 0,
            line,
        });
        value.count += 1;
    }

    /// Returns the number of different values; `None` if there are too many to count.
    #[must_use]
    pub fn distinct(&self) -> Option<usize> {
        let count = self.hashes.len();
        (count < DISTINCT).then_some(count)
    }

    /// Returns the values with their counts, the most frequent first, if they are few and repeat.
    #[must_use]
    pub fn values(&self) -> Option<Vec<Value>> {
        let mut values: Vec<Value> = self.few.as_ref()?.values().cloned().collect();
        let rows: u64 = values.iter().map(|value| value.count).sum();
        if values.len() as u64 * 2 > rows && values.len() > 2 {
            return None;
        }
        values.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.line.cmp(&b.line)));
        Some(values)
    }

    /// Returns whether nearly every filled cell is an entry, and some cell has an `@` or a dot.
    pub(super) fn is_of_entries(&self) -> bool {
        self.entries > 0 && self.entries.saturating_mul(100) >= self.filled.saturating_mul(95)
    }

    /// Returns the formats that read the dates of the column, and the texts in it that are no dates,
    /// with their counts; `None` if it has no dates.
    pub(super) fn dates(&self) -> Option<(Vec<&'static str>, Vec<(String, u64)>)> {
        let dates = &self.dates;
        let most = dates.read.iter().max().copied().unwrap_or(0);
        if dates.is_none || most == 0 {
            return None;
        }
        let best = DATE_FORMATS.iter().zip(dates.read);
        let formats = best
            .filter(|(_, read)| *read == most)
            .map(|(format, _)| *format);
        let others: u64 = dates.others.values().sum();
        let mut never: Vec<_> = dates
            .others
            .iter()
            .map(|(text, count)| (text.clone(), *count))
            .collect();
        never.sort();
        (most + others == dates.cells).then(|| (formats.collect(), never))
    }
}

/// What a cell holds.
enum Entries {
    None,
    One,
    Several,
}

fn entries(cell: &[u8]) -> Entries {
    let is_entry = |text: &[u8]| read_entry(text, Wildcards::Star).is_ok();
    if is_entry(cell) {
        return Entries::One;
    }
    if !cell.iter().any(|byte| matches!(byte, b',' | b';' | b'\n')) {
        return Entries::None;
    }
    let mut pieces = Pieces(cell).peekable();
    match pieces.peek().is_some() && pieces.all(is_entry) {
        true => Entries::Several,
        false => Entries::None,
    }
}

impl DatesOf {
    fn add(&mut self, cell: &[u8], formats: &Formats) {
        if self.is_none || self.cells == DATED {
            return;
        }
        self.cells += 1;
        let mut is_date = false;
        let is_digit = cell.first().is_some_and(u8::is_ascii_digit);
        if is_digit && (8..=40).contains(&cell.len()) {
            for (read, format) in self.read.iter_mut().zip(&formats.0) {
                if format.end(cell).is_ok() {
                    *read += 1;
                    is_date = true;
                }
            }
        }
        if !is_date {
            *self.others.entry(decoded(cell).into_owned()).or_default() += 1;
            self.is_none = self.others.len() > NEVER;
        }
    }
}
