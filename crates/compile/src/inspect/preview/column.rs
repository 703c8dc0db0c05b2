//! The values of one column of a table, or of one path of JSON.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::str::FromStr as _;
use std::sync::LazyLock;

use super::rows::shown;
use crate::list::{DateFormat, Dates, decoded, pieces, read_entry};
use blocklist_filter::address::escaped;
use blocklist_filter::filter::Key;

/// A column with more values than this, or longer ones, has no meaning that a condition could name.
const SMALL: usize = 12;
const SMALL_BYTES: usize = 60;
const DISTINCT: usize = 1 << 13;
const SAMPLES: usize = 3;
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
pub(crate) struct Column {
    /// Its heading, number or path.
    pub(crate) name: String,
    /// How a declaration names it as the entry, and beside the entry: as values of TOML.
    pub(super) as_entry: String,
    pub(super) as_value: String,
    /// The path of the object of JSON that holds it; for a table, empty.
    pub(super) object: String,
    /// Number of cells that are not empty.
    pub(crate) filled: u64,
    /// Number of cells that are entries.
    pub(crate) entries: u64,
    /// Number of cells that hold several entries.
    pub(crate) several: u64,
    /// Some different values.
    pub(crate) samples: Vec<String>,
    hashes: HashSet<u64>,
    few: HashMap<String, Value>,
    is_large: bool,
    dates: DatesOf,
}

/// A value of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) text: String,
    /// Number of rows that have it.
    pub(crate) count: u64,
    /// The first of them.
    pub(crate) line: u64,
}

#[derive(Debug, Default)]
struct DatesOf {
    cells: u64,
    read: [u64; DATE_FORMATS.len()],
    /// Texts that are no dates, and how many cells have them.
    others: BTreeSet<String>,
    other_cells: u64,
}

static FORMATS: LazyLock<Vec<Dates>> = LazyLock::new(|| {
    let formats = DATE_FORMATS.iter().map(|format| Dates {
        format: DateFormat::from_str(format).ok(),
        never: Vec::new(),
    });
    formats.collect()
});

impl Column {
    pub(super) fn new(name: String, as_entry: String, as_value: String, object: String) -> Self {
        Self {
            name,
            as_entry,
            as_value,
            object,
            ..Self::default()
        }
    }

    /// Takes a cell of a row. Empty cells count as a value, but not as filled.
    pub(super) fn add(&mut self, cell: &[u8], is_text: bool, line: u64) {
        self.add_value(cell, line);
        if cell.is_empty() {
            return;
        }
        self.filled += 1;
        let entries = if is_text { entries(cell) } else { 0 };
        self.entries += u64::from(entries > 0);
        self.several += u64::from(entries > 1);
        if self.hashes.len() < DISTINCT
            && self.hashes.insert(Key::of(cell, 0).0)
            && self.samples.len() < SAMPLES
        {
            self.samples.push(shown(decoded(cell).as_bytes()));
        }
        self.dates.add(cell);
    }

    fn add_value(&mut self, cell: &[u8], line: u64) {
        if self.is_large {
            return;
        }
        let text = decoded(cell);
        let text = text.trim();
        let key = text.to_lowercase();
        if let Some(value) = self.few.get_mut(&key) {
            value.count += 1;
            return;
        }
        self.is_large = self.few.len() == SMALL || cell.len() > SMALL_BYTES;
        let (text, count) = (text.to_owned(), 1);
        self.few.insert(key, Value { text, count, line });
    }

    /// Returns the number of different values; `None` if there are too many to count.
    pub(crate) fn distinct(&self) -> Option<usize> {
        let count = self.hashes.len();
        (count < DISTINCT).then_some(count)
    }

    /// Returns the values with their counts, the most frequent first, if they are few.
    pub(crate) fn values(&self) -> Option<Vec<Value>> {
        let mut values: Vec<Value> = self.few.values().cloned().collect();
        // Several values of a JSON document may be on one line.
        values.sort_by(|a, b| (b.count, a.line, &a.text).cmp(&(a.count, b.line, &b.text)));
        (!self.is_large).then_some(values)
    }

    /// Returns whether nearly every filled cell is an entry.
    pub(crate) fn is_of_entries(&self) -> bool {
        self.entries > 0 && self.entries.saturating_mul(100) >= self.filled.saturating_mul(95)
    }

    /// Returns the formats that read the dates of the column, and the texts in it that are no dates;
    /// `None` if it has no dates.
    pub(super) fn dates(&self) -> Option<(Vec<&'static str>, Vec<&str>)> {
        let dates = &self.dates;
        let most = dates.read.into_iter().max().filter(|most| *most > 0)?;
        if dates.others.len() > NEVER || most + dates.other_cells != dates.cells {
            return None;
        }
        let formats = DATE_FORMATS.iter().zip(dates.read);
        let formats = formats.filter(|(_, read)| *read == most);
        let formats = formats.map(|(format, _)| *format).collect();
        Some((formats, dates.others.iter().map(String::as_str).collect()))
    }
}

fn entries(cell: &[u8]) -> usize {
    let is_entry = |text: &[u8]| read_entry(text).is_ok();
    if is_entry(cell) {
        return 1;
    }
    let is_divided = cell.iter().any(|byte| matches!(byte, b',' | b';' | b'\n'));
    match is_divided && pieces(cell).all(is_entry) {
        true => pieces(cell).count(),
        false => 0,
    }
}

impl DatesOf {
    fn add(&mut self, cell: &[u8]) {
        if self.cells == DATED || self.others.len() > NEVER {
            return;
        }
        self.cells += 1;
        let may_be = cell.first().is_some_and(u8::is_ascii_digit) && (8..=40).contains(&cell.len());
        let mut is_date = false;
        for (read, format) in self.read.iter_mut().zip(&*FORMATS) {
            if may_be && format.end(cell).is_ok() {
                *read += 1;
                is_date = true;
            }
        }
        if !is_date {
            self.other_cells += 1;
            self.others.insert(decoded(cell).into_owned());
        }
    }
}

pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        let is_shown = |c: char| {
            let c = c.to_string();
            escaped(c.as_bytes()).to_string() == c
        };
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            c if !c.is_control() && is_shown(c) => quoted.push(c),
            c => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
