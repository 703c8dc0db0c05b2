//! The columns of a table, with separators or of JSON, by the same cells and tokens as its rows.

use std::collections::HashMap;
use std::io::{self, Read};

use super::column::{Column, quoted};
use crate::list::{
    self, BOM, Cells, Cut, Declared, Format, MAX_DOCUMENT_BYTES, MAX_LINE, Value, decoded,
    newlines, read_entry, record_length, separator_of, unescaped, without_line_end,
};

const BLOCK_BYTES: u64 = 4 * MAX_LINE as u64;
const MAX_COLUMNS: usize = 64;
const MAX_PATHS: usize = 512;
/// Objects and arrays of JSON further inside are not described, nor are keys that are longer.
const MAX_DEPTH: usize = 16;
const MAX_KEY_BYTES: usize = 200;

#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) kind: Kind,
    /// Its columns; of JSON, the paths to values.
    pub(crate) columns: Vec<Column>,
    /// Number of rows below the heading; of JSON, of documents.
    pub(crate) rows: u64,
    /// Whether some text is not UTF-8, so that it is read as Windows-1252.
    pub(crate) is_windows_1252: bool,
    /// Whether there are more columns.
    pub(crate) has_more: bool,
}

/// The kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows with cells between separators.
    Cells {
        separator: u8,
        /// Whether the first line has several candidates.
        is_one_of_several: bool,
        first: First,
    },
    /// JSON; one document, or one a line.
    Json { one_a_line: bool },
}

/// What the first row of a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The names of the columns.
    Heading,
    /// A row: it has an address.
    Row,
    /// The one or the other: it has what may be a domain.
    Either,
}

struct Walk {
    survey: Survey,
    line: u64,
    /// Of a table with separators, the number of cells of the first record; 0 before it.
    width: usize,
    cells: Cells,
    paths: HashMap<String, usize>,
}

impl Survey {
    /// Describes the table that begins with `head`; `None` if it is none.
    pub(super) fn of(
        head: &[u8],
        rest: impl Read,
        declared: &Declared,
    ) -> io::Result<Option<Self>> {
        let kind = match list::format(head, false, declared) {
            Ok((Format::Json, _)) => Kind::Json { one_a_line: false },
            Ok((Format::JsonLines, _)) => Kind::Json { one_a_line: true },
            Ok((Format::Csv, _)) => cells_of(head, declared),
            _ => return Ok(None),
        };
        let mut walk = Walk {
            survey: Self {
                kind,
                columns: Vec::new(),
                rows: 0,
                is_windows_1252: false,
                has_more: false,
            },
            line: 1,
            width: 0,
            cells: Cells::default(),
            paths: HashMap::new(),
        };
        walk.read(head.chain(rest))?;
        Ok(Some(walk.survey))
    }
}

impl Walk {
    /// Reads a table, up to a record that is longer than any that a build reads.
    fn read(&mut self, mut content: impl Read) -> io::Result<()> {
        let (most, length): (_, Cut) = match self.survey.kind {
            Kind::Json { one_a_line: false } => (MAX_DOCUMENT_BYTES, |_| None),
            Kind::Json { one_a_line: true } => {
                (MAX_LINE, |text| Some(memchr::memchr(b'\n', text)? + 1))
            }
            Kind::Cells { .. } => (MAX_LINE, record_length),
        };
        let mut text = Vec::new();
        while text.len() <= most {
            let is_last = content.by_ref().take(BLOCK_BYTES).read_to_end(&mut text)? == 0;
            let mut rest = &text[..];
            while let Some(length) = length(rest).or_else(|| is_last.then_some(rest.len()))
                && !rest.is_empty()
            {
                let (record, after) = rest.split_at(length);
                self.record(record);
                rest = after;
            }
            if is_last {
                break;
            }
            text.drain(..text.len() - rest.len());
        }
        Ok(())
    }

    fn record(&mut self, record: &[u8]) {
        let next = self.line + newlines(record);
        match self.survey.kind {
            Kind::Cells {
                separator, first, ..
            } => self.row(without_line_end(record), separator, first),
            Kind::Json { .. } => self.document(record),
        }
        self.line = next;
    }

    fn row(&mut self, record: &[u8], separator: u8, first: First) {
        let record = match self.width {
            0 => record.strip_prefix(BOM).unwrap_or(record),
            _ => record,
        };
        if record.trim_ascii().is_empty() || self.cells.find(record, separator).is_err() {
            return;
        }
        self.survey.is_windows_1252 |= std::str::from_utf8(record).is_err();
        if self.width == 0 {
            self.width = self.cells.count();
            self.heading(record, first != First::Row);
            if first != First::Row {
                return;
            }
        }
        // Such a row is rejected.
        if self.cells.count() != self.width {
            return;
        }
        self.survey.rows += 1;
        for (number, column) in self.survey.columns.iter_mut().enumerate() {
            let cell = self.cells.get(record, number);
            column.add(&cell, true, self.line);
        }
    }

    fn heading(&mut self, record: &[u8], has_names: bool) {
        let heading = |number| decoded(&self.cells.get(record, number)).trim().to_owned();
        let headings: Vec<String> = (0..self.width).map(heading).collect();
        // What cannot name a column: it has a number instead.
        let is_name = |name: &String| {
            let lower = name.to_lowercase();
            let same = headings.iter().filter(|name| name.to_lowercase() == lower);
            !name.starts_with('-') && !name.bytes().all(|b| b.is_ascii_digit()) && same.count() == 1
        };
        let columns = (1..).zip(&headings).take(MAX_COLUMNS);
        let columns = columns.map(|(number, name)| {
            let or_number = |is_it: bool, name: String| match has_names && is_it {
                true => name,
                false => number.to_string(),
            };
            let written = or_number(is_name(name), quoted(name));
            let shown = or_number(!name.is_empty(), name.clone());
            Column::new(shown, written.clone(), written, String::new())
        });
        self.survey.columns = columns.collect();
        self.survey.has_more = self.width > MAX_COLUMNS;
    }

    fn document(&mut self, text: &[u8]) {
        let Value::Members(members) = Value::of(text) else {
            return;
        };
        self.survey.rows += 1;
        let (mut place, mut path) = (text, String::new());
        // For each object and array that is open: the length of its path, and of that of the object
        // around it.
        let mut open = vec![(0, 0, members)];
        while let Some((length, object, members)) = open.last_mut() {
            let Some((key, value)) = members.next() else {
                open.pop();
                continue;
            };
            let between = value.as_ptr().addr() - place.as_ptr().addr();
            self.line += newlines(place.get(..between).unwrap_or_default());
            place = place.get(between..).unwrap_or_default();
            path.truncate(*length);
            let mut object = *object;
            if let Some(key) = key.map(unescaped) {
                object = path.len();
                // Keys that are entries stand for themselves, and their values are alike.
                if key.contains(&b'@') && read_entry(&key).is_ok() {
                    let each = format!("{path}[]");
                    path.push_str("{}");
                    self.add(&path, &each, &key, true);
                    path = each;
                    object = path.len();
                } else if key.len() > MAX_KEY_BYTES {
                    continue;
                } else {
                    path.push_str(if path.is_empty() { "" } else { "." });
                    path.push_str(&quoted_key(&decoded(&key)));
                }
            } else {
                path.push_str("[]");
            }
            let around = path.get(..object).unwrap_or_default();
            match Value::of(value) {
                Value::Members(members) if open.len() < MAX_DEPTH => {
                    open.push((path.len(), object, members));
                }
                Value::Members(_) => {}
                Value::Text(text) => self.add(&path, around, &unescaped(text), true),
                Value::Other(b"null") => self.add(&path, around, b"", false),
                Value::Other(text) => self.add(&path, around, text, false),
            }
        }
    }

    fn add(&mut self, path: &str, object: &str, text: &[u8], is_text: bool) {
        let columns = &mut self.survey.columns;
        let number = match self.paths.get(path) {
            Some(number) => *number,
            None if columns.len() == MAX_PATHS => {
                self.survey.has_more = true;
                return;
            }
            None => {
                // A path through an array leads to several values of a row.
                let key = path.strip_prefix(object).unwrap_or_default();
                let key = key.strip_prefix('.').unwrap_or(key);
                let as_value = match key.ends_with("[]") || key.ends_with("{}") {
                    true => String::new(),
                    false => quoted(key),
                };
                let (name, object) = (path.to_owned(), object.to_owned());
                columns.push(Column::new(name, quoted(path), as_value, object));
                self.paths.insert(path.to_owned(), columns.len() - 1);
                columns.len() - 1
            }
        };
        if let Some(column) = columns.get_mut(number) {
            column.add(text.trim_ascii(), is_text, self.line);
        }
    }
}

fn cells_of(head: &[u8], declared: &Declared) -> Kind {
    let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    let (record, _) = text.split_at(record_length(text).unwrap_or(text.len()));
    let record = without_line_end(record);
    let count = |separator: u8| {
        let mut cells = Cells::default();
        cells.find(record, separator).map_or(0, |()| cells.count())
    };
    let candidates = [b',', b';', b'\t'].map(|separator| (count(separator), separator));
    let most = candidates.into_iter().rev().max_by_key(|(count, _)| *count);
    let given = declared.separator;
    let separator = given.unwrap_or_else(|| most.map_or(b',', |(_, separator)| separator));
    let mut cells = Cells::default();
    let is_found = cells.find(record, separator).is_ok();
    let mut first = First::Heading;
    for cell in (0..cells.count()).map(|cell| cells.get(record, cell)) {
        if is_found && read_entry(&cell).is_ok() {
            let is_row = cell.contains(&b'@') || first == First::Row;
            first = if is_row { First::Row } else { First::Either };
        }
    }
    Kind::Cells {
        separator,
        is_one_of_several: given.is_none() && separator_of(record).is_err(),
        first,
    }
}

fn quoted_key(key: &str) -> String {
    let is_bare = !key.is_empty()
        && !key.starts_with('-')
        && !key.contains(['.', '[', ']', '{', '}', '"', '\''])
        && !key.contains(char::is_control);
    match is_bare {
        true => key.to_owned(),
        false => serde_json::Value::from(key).to_string(),
    }
}
