//! The columns of a table, with separators or of JSON, by the same cells and tokens as its rows.

use std::collections::HashMap;

use super::column::{Column, Formats, quoted};
use crate::list::{
    Cells, Declared, Format, MAX_DOCUMENT_BYTES, MAX_LINE, Value, Wildcards, decoded, detect,
    lines, read_entry, record_length, unescaped, without_line_end,
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
    formats: Formats,
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
    walker: Walker,
}

enum Walker {
    Cells(CellWalk),
    Json(Box<JsonWalk>),
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
        let walker = match kind {
            Kind::Cells { separator, .. } => Walker::Cells(CellWalk {
                separator,
                ..CellWalk::default()
            }),
            Kind::Json { one_a_line } => Walker::Json(Box::new(JsonWalk::new(one_a_line))),
        };
        let survey = Survey {
            kind,
            columns: Vec::new(),
            rows: 0,
            is_windows_1252: false,
            has_more: false,
            formats: Formats::new(),
        };
        Some(Self { survey, walker })
    }

    /// Takes the next bytes of the table.
    pub(super) fn read(&mut self, bytes: &[u8], is_last: bool) {
        match &mut self.walker {
            Walker::Cells(walk) => walk.read(bytes, is_last, &mut self.survey),
            Walker::Json(walk) => walk.read(bytes, is_last, &mut self.survey),
        }
    }

    pub(super) fn finish(mut self) -> Survey {
        if let Walker::Json(walk) = self.walker {
            self.survey.has_more = walk.places.len() >= MAX_PLACES;
            let columns = walk.places.into_iter().filter_map(|place| place.column);
            self.survey.columns = columns.collect();
        }
        self.survey
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

/// Walks through the records of a table with separators.
#[derive(Default)]
struct CellWalk {
    separator: u8,
    /// Number of cells of the first record; 0 before it.
    width: usize,
    cells: Cells,
    /// The start of a record whose end is not there.
    kept: Vec<u8>,
    line: u64,
    /// A record was longer than any that is read.
    is_over: bool,
}

impl CellWalk {
    fn read(&mut self, bytes: &[u8], is_last: bool, survey: &mut Survey) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(bytes);
        let mut done = 0;
        while !self.is_over {
            let rest = kept.get(done..).unwrap_or_default();
            let length = match record_length(rest) {
                None if is_last => rest.len(),
                None => break,
                Some(length) => length,
            };
            if length == 0 {
                break;
            }
            let record = rest.get(..length).unwrap_or_default();
            self.record(without_line_end(record), survey);
            self.line += memchr::memchr_iter(b'\n', record).count() as u64;
            done += length;
        }
        kept.drain(..done);
        self.is_over |= kept.len() > MAX_LINE;
        self.kept = if self.is_over { Vec::new() } else { kept };
    }

    fn record(&mut self, record: &[u8], survey: &mut Survey) {
        let record = match self.width {
            0 => record.strip_prefix(BOM).unwrap_or(record),
            _ => record,
        };
        if record.trim_ascii().is_empty() || self.cells.find(record, self.separator).is_err() {
            return;
        }
        survey.is_windows_1252 |= std::str::from_utf8(record).is_err();
        if self.width == 0 {
            self.width = self.cells.count();
            if self.heading(record, survey) {
                return;
            }
        }
        // Such a row is rejected.
        if self.cells.count() != self.width {
            return;
        }
        survey.rows += 1;
        for (number, column) in survey.columns.iter_mut().enumerate() {
            let cell = self.cells.get(record, number);
            column.add(&cell, true, self.line + 1, &survey.formats);
        }
    }

    /// Takes the first record; returns whether it is a heading.
    fn heading(&self, record: &[u8], survey: &mut Survey) -> bool {
        let has_names = !matches!(
            survey.kind,
            Kind::Cells {
                first: First::Row,
                ..
            }
        );
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
        survey.columns = columns.collect();
        survey.has_more = self.width > MAX_COLUMNS;
        has_names
    }
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

/// Walks through JSON.
struct JsonWalk {
    one_a_line: bool,
    /// The start of a document whose end is not there.
    kept: Vec<u8>,
    lines: u64,
    places: Vec<Place>,
}

impl JsonWalk {
    fn new(one_a_line: bool) -> Self {
        Self {
            one_a_line,
            kept: Vec::new(),
            lines: 0,
            places: vec![Place::default()],
        }
    }

    fn read(&mut self, bytes: &[u8], is_last: bool, survey: &mut Survey) {
        if self.kept.len() + bytes.len() > MAX_DOCUMENT_BYTES {
            return;
        }
        self.kept.extend_from_slice(bytes);
        let whole = match memchr::memrchr(b'\n', bytes) {
            _ if is_last => self.kept.len(),
            Some(newline) if self.one_a_line => self.kept.len() - bytes.len() + newline + 1,
            _ => return,
        };
        let rest = self.kept.split_off(whole);
        let documents = std::mem::replace(&mut self.kept, rest);
        if !self.one_a_line {
            self.lines = 1;
            return self.document(&documents, survey);
        }
        for line in lines(&documents) {
            self.lines += 1;
            self.document(line, survey);
        }
    }

    /// Takes a document that begins in the current line.
    fn document(&mut self, text: &[u8], survey: &mut Survey) {
        let formats = &survey.formats;
        let mut place = 0;
        let mut open = match Value::of(text) {
            Value::Members(members) => vec![(Some(0), members)],
            _ => return,
        };
        survey.rows += 1;
        while let Some((at, members)) = open.last_mut() {
            let Some((key, value)) = members.next() else {
                open.pop();
                continue;
            };
            let at = *at;
            if !self.one_a_line {
                let to = value.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
                let between = text.get(place..to).unwrap_or_default();
                self.lines += memchr::memchr_iter(b'\n', between).count() as u64;
                place = to;
            }
            let at = match (at, key) {
                (Some(at), Some(key)) => self.key(at, &unescaped(key), formats),
                (Some(at), None) => self.each(at),
                (None, _) => None,
            };
            match Value::of(value) {
                Value::Members(members) if open.len() < MAX_DEPTH => open.push((at, members)),
                Value::Members(_) => {}
                Value::Text(text) => self.add(at, &unescaped(text), true, formats),
                Value::Other(b"null") => self.add(at, b"", false, formats),
                Value::Other(text) => self.add(at, text, false, formats),
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
    fn key(&mut self, at: usize, key: &[u8], formats: &Formats) -> Option<usize> {
        // The keys of an object that are entries stand for themselves, and their values are alike.
        if !key.contains(&b'@') || read_entry(key, Wildcards::Star).is_err() {
            return self.member(at, key);
        }
        let each = self.each(at);
        let names = self.names(at, each);
        self.add(names, key, true, formats);
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

    fn add(&mut self, at: Option<usize>, text: &[u8], is_text: bool, formats: &Formats) {
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
        column.add(text.trim_ascii(), is_text, self.lines, formats);
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
