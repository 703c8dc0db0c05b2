//! The columns of a table, with separators or of JSON, by the same cells and tokens as its rows.

use std::collections::HashMap;

use super::column::{Column, Formats, quoted};
use crate::list::{
    Cells, Declared, Format, MAX_DOCUMENT_BYTES, MAX_LINE, Reading, Value, Wildcards, cut, decoded,
    detect, newlines, read_entry, record_length, unescaped, without_line_end,
};

/// Number of columns, or of places in JSON, that are described.
const MAX_COLUMNS: usize = 64;
const MAX_PLACES: usize = 512;
/// Objects and arrays of JSON further inside are not described, nor are keys that are longer.
const MAX_DEPTH: usize = 16;
const MAX_KEY_BYTES: usize = 200;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a table has.
#[derive(Debug)]
pub struct Survey {
    /// Of which kind it is.
    pub kind: Kind,
    /// Its columns; of JSON, the paths to values.
    pub columns: Vec<Column>,
    /// Number of rows below the heading; of JSON, of documents.
    pub rows: u64,
    /// Whether some text is not UTF-8, so that it is read as Windows-1252.
    pub is_windows_1252: bool,
    /// Whether there are more columns.
    pub has_more: bool,
}

/// The kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rows with cells between separators.
    Cells {
        /// What divides them.
        separator: u8,
        /// Whether the first line has several candidates.
        is_one_of_several: bool,
        /// What the first row is.
        first: First,
    },
    /// JSON; one document, or one a line.
    Json {
        /// One a line.
        one_a_line: bool,
    },
}

/// What the first row of a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The names of the columns.
    Heading,
    /// A row: it has an address.
    Row,
    /// The one or the other: it has what may be a domain.
    Either,
}

/// A walk through a table.
pub(super) struct Walk {
    survey: Survey,
    formats: Formats,
    /// The start of a record or document whose end is not there.
    kept: Vec<u8>,
    /// It is longer than any that is read.
    is_over: bool,
    /// The current line.
    line: u64,
    /// Of a table with separators, the number of cells of the first record; 0 before it.
    width: usize,
    cells: Cells,
    /// Of JSON, the places of its values.
    places: Vec<Place>,
}

/// A place in JSON.
#[derive(Debug, Default)]
struct Place {
    path: String,
    key: String,
    /// The place of the object that holds it.
    object: usize,
    keys: HashMap<Box<[u8]>, Option<usize>>,
    each: Option<usize>,
    names: Option<usize>,
    /// Its values, if it has others than objects and arrays.
    column: Option<Column>,
}

impl Walk {
    /// Returns a walk through the table that begins with `head`; `None` if it is none.
    pub(super) fn of(head: &[u8], declared: &Declared) -> Option<Self> {
        let detected = || detect(head, false).ok().map(|detected| detected.format);
        let format = match declared.format {
            None if declared.is_of_table() => detected()
                .filter(|format| format.is_table())
                .or(Some(Format::Csv)),
            None => detected(),
            given => given,
        };
        let kind = match format? {
            Format::Json => Kind::Json { one_a_line: false },
            Format::JsonLines => Kind::Json { one_a_line: true },
            Format::Csv => cells_of(head, declared),
            _ => return None,
        };
        Some(Self {
            survey: Survey {
                kind,
                columns: Vec::new(),
                rows: 0,
                is_windows_1252: false,
                has_more: false,
            },
            formats: Formats::new(),
            kept: Vec::new(),
            is_over: false,
            line: 1,
            width: 0,
            cells: Cells::default(),
            places: vec![Place::default()],
        })
    }

    /// Takes the next bytes of the table.
    pub(super) fn read(&mut self, bytes: &[u8], is_last: bool) {
        let (format, most) = match self.survey.kind {
            Kind::Cells { .. } => (Format::Csv, MAX_LINE),
            Kind::Json { one_a_line: true } => (Format::JsonLines, MAX_LINE),
            Kind::Json { one_a_line: false } => (Format::Json, MAX_DOCUMENT_BYTES),
        };
        if self.is_over {
            return;
        }
        self.kept.extend_from_slice(bytes);
        let whole = match format {
            _ if is_last => self.kept.len(),
            Format::Json => 0,
            format => cut(&Reading::given(format), &self.kept).unwrap_or(0),
        };
        self.is_over = self.kept.len() - whole > most;
        if whole == 0 {
            return;
        }
        let rest = self.kept.split_off(whole);
        let text = std::mem::replace(&mut self.kept, rest);
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let length = match self.survey.kind {
                Kind::Cells { .. } => record_length(rest),
                Kind::Json { one_a_line: true } => memchr::memchr(b'\n', rest).map(|at| at + 1),
                Kind::Json { one_a_line: false } => None,
            };
            let (record, after) = rest.split_at(length.unwrap_or(rest.len()));
            let next = self.line + newlines(record);
            match self.survey.kind {
                Kind::Cells {
                    separator, first, ..
                } => self.record(without_line_end(record), separator, first),
                Kind::Json { .. } => self.document(record),
            }
            self.line = next;
            rest = after;
        }
    }

    pub(super) fn finish(mut self) -> Survey {
        if let Kind::Json { .. } = self.survey.kind {
            self.survey.has_more = self.places.len() >= MAX_PLACES;
            let columns = self.places.into_iter().filter_map(|place| place.column);
            self.survey.columns = columns.collect();
        }
        self.survey
    }

    /// Takes a record of a table with separators.
    fn record(&mut self, record: &[u8], separator: u8, first: First) {
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
            column.add(&cell, true, self.line, &self.formats);
        }
    }

    /// Takes the first record, which perhaps has the names of the columns.
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
            Column::new(shown, written.clone(), written, 0)
        });
        self.survey.columns = columns.collect();
        self.survey.has_more = self.width > MAX_COLUMNS;
    }

    /// Takes a document of JSON, which begins in the current line.
    fn document(&mut self, text: &[u8]) {
        let mut place = text;
        let mut open = match Value::of(text) {
            Value::Members(members) => vec![(Some(0), members)],
            _ => return,
        };
        self.survey.rows += 1;
        while let Some((at, members)) = open.last_mut() {
            let Some((key, value)) = members.next() else {
                open.pop();
                continue;
            };
            let at = *at;
            let between = value.as_ptr().addr() - place.as_ptr().addr();
            self.line += newlines(place.get(..between).unwrap_or_default());
            place = place.get(between..).unwrap_or_default();
            let at = match (at, key) {
                (Some(at), Some(key)) => self.key(at, &unescaped(key)),
                (Some(at), None) => self.each(at),
                (None, _) => None,
            };
            match Value::of(value) {
                Value::Members(members) if open.len() < MAX_DEPTH => open.push((at, members)),
                Value::Members(_) => {}
                Value::Text(text) => self.add(at, &unescaped(text), true),
                Value::Other(b"null") => self.add(at, b"", false),
                Value::Other(text) => self.add(at, text, false),
            }
        }
    }

    /// Adds a place; `None` if there are too many.
    fn add_place(&mut self, path: String, key: String, object: usize) -> Option<usize> {
        let number = self.places.len();
        (number < MAX_PLACES).then(|| {
            self.places.push(Place {
                path,
                key,
                object,
                ..Place::default()
            });
            number
        })
    }

    /// Returns the place of the members of an array.
    fn each(&mut self, at: usize) -> Option<usize> {
        let place = self.places.get(at)?;
        if place.each.is_some() {
            return place.each;
        }
        let (path, key, object) = (format!("{}[]", place.path), place.key.clone(), place.object);
        let each = self.add_place(path, key, object);
        self.places.get_mut(at)?.each = each;
        each
    }

    /// Returns the place of the value of a key.
    fn key(&mut self, at: usize, key: &[u8]) -> Option<usize> {
        // The keys of an object that are entries stand for themselves, and their values are alike.
        if !key.contains(&b'@') || read_entry(key, Wildcards::Star).is_err() {
            return self.member(at, key);
        }
        let each = self.each(at);
        let names = self.names(at, each);
        self.add(names, key, true);
        each
    }

    /// Returns the place of the keys of an object, whose values are at `each`.
    fn names(&mut self, at: usize, each: Option<usize>) -> Option<usize> {
        let place = self.places.get(at)?;
        if place.names.is_some() {
            return place.names;
        }
        let path = format!("{}{{}}", place.path);
        let names = self.add_place(path, String::new(), each?);
        self.places.get_mut(at)?.names = names;
        names
    }

    /// Returns the place of a member of an object.
    fn member(&mut self, at: usize, key: &[u8]) -> Option<usize> {
        let place = self.places.get(at)?;
        if let Some(known) = place.keys.get(key) {
            return *known;
        }
        if place.keys.len() >= MAX_PLACES || key.len() > MAX_KEY_BYTES {
            return None;
        }
        let name = quoted_key(&decoded(key));
        let path = match place.path.is_empty() {
            true => name.clone(),
            false => format!("{}.{name}", place.path),
        };
        let member = self.add_place(path, name, at);
        self.places.get_mut(at)?.keys.insert(key.into(), member);
        member
    }

    fn add(&mut self, at: Option<usize>, text: &[u8], is_text: bool) {
        let Some(place) = at.and_then(|at| self.places.get_mut(at)) else {
            return;
        };
        let Place {
            path, key, object, ..
        } = place;
        let column = place.column.get_or_insert_with(|| {
            // A path through an array leads to several values of a row.
            let as_value = match !key.is_empty() && path.ends_with(key.as_str()) {
                true => quoted(key),
                false => String::new(),
            };
            Column::new(path.clone(), quoted(path), as_value, *object)
        });
        column.add(text.trim_ascii(), is_text, self.line, &self.formats);
    }
}

/// Finds what divides the cells, and what the first row is.
fn cells_of(head: &[u8], declared: &Declared) -> Kind {
    let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    let record = text
        .get(..record_length(text).unwrap_or(text.len()))
        .unwrap_or_default();
    let record = without_line_end(record);
    let count = |separator: u8| {
        let mut cells = Cells::default();
        cells.find(record, separator).map_or(0, |()| cells.count())
    };
    let candidates = [b',', b';', b'\t'].map(|separator| (count(separator), separator));
    let several = candidates.iter().filter(|(count, _)| *count > 1).count() > 1;
    let most = candidates.into_iter().rev().max_by_key(|(count, _)| *count);
    let given = declared.separator.map(|separator| separator.byte());
    let separator = given
        .or_else(|| most.map(|(_, separator)| separator))
        .unwrap_or(b',');
    let mut cells = Cells::default();
    let is_found = cells.find(record, separator).is_ok();
    let mut first = First::Heading;
    for cell in (0..cells.count()).map(|cell| cells.get(record, cell)) {
        if is_found && read_entry(&cell, Wildcards::Star).is_ok() {
            let is_row = cell.contains(&b'@') || first == First::Row;
            first = if is_row { First::Row } else { First::Either };
        }
    }
    Kind::Cells {
        separator,
        is_one_of_several: several && given.is_none(),
        first,
    }
}

/// Writes a key as a path has it.
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
