//! The columns of a table, with separators or of JSON, by the same cells and tokens as its rows.

use std::collections::HashMap;
use std::io::{self, Read};

use super::column::{Column, Formats};
use crate::compile::Begun;
use crate::list::{
    Cells, Declared, Format, MAX_LINE, Token, Tokens, Wildcards, decoded, detect, read_entry,
    record_length, without_line_end,
};

/// Number of columns, or of places in JSON, that are described.
const MAX_COLUMNS: usize = 64;
const MAX_PLACES: usize = 512;
const BLOCK_BYTES: usize = 4 * MAX_LINE;

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
    formats: Option<Formats>,
}

impl std::fmt::Debug for Formats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Formats")
    }
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
        /// Whether the first row has names, not entries.
        has_heading: bool,
    },
    /// JSON; one document, or one a line.
    Json {
        /// One a line.
        one_a_line: bool,
    },
}

/// Returns what kind of table begins with `head`; `None` if it is none.
pub(super) fn shape(head: &[u8], declared: &Declared) -> Option<Kind> {
    let detected = || detect(head, false).ok().map(|detected| detected.format);
    let format = match declared.format {
        None if declared.is_of_table() => detected()
            .filter(|format| format.is_table())
            .or(Some(Format::Csv)),
        None => detected(),
        given => given,
    };
    match format? {
        Format::Json => Some(Kind::Json { one_a_line: false }),
        Format::JsonLines => Some(Kind::Json { one_a_line: true }),
        Format::Csv => Some(cells_of(head, declared)),
        _ => None,
    }
}

/// Finds what divides the cells, and whether the first row is a heading.
fn cells_of(head: &[u8], declared: &Declared) -> Kind {
    let text = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
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
        .or(most.map(|(_, separator)| separator))
        .unwrap_or(b',');
    let mut cells = Cells::default();
    // Without a heading, the first row has an entry.
    let found = cells.find(record, separator).is_ok();
    let is_entry = |cell: usize| {
        let cell = cells.get(record, cell);
        cell.contains(&b'@') && read_entry(&cell, Wildcards::Star).is_ok()
    };
    Kind::Cells {
        separator,
        is_one_of_several: several && given.is_none(),
        has_heading: !(found && (0..cells.count()).any(is_entry)),
    }
}

/// Reads all of a table.
pub(super) fn survey(begun: Begun, kind: Kind) -> io::Result<Survey> {
    let mut survey = Survey {
        kind,
        columns: Vec::new(),
        rows: 0,
        is_windows_1252: false,
        has_more: false,
        formats: Some(Formats::new()),
    };
    let content = io::Cursor::new(begun.head).chain(begun.rest);
    match kind {
        Kind::Cells { .. } => CellWalk::new(kind).run(content, &mut survey)?,
        Kind::Json { one_a_line } => JsonWalk::new(one_a_line).run(content, &mut survey)?,
    }
    survey.formats = None;
    Ok(survey)
}

/// Walks through the records of a table with separators.
struct CellWalk {
    separator: u8,
    wants_heading: bool,
    is_first: bool,
    cells: Cells,
}

impl CellWalk {
    fn new(kind: Kind) -> Self {
        let (separator, wants_heading) = match kind {
            Kind::Cells {
                separator,
                has_heading,
                ..
            } => (separator, has_heading),
            Kind::Json { .. } => (b',', false),
        };
        Self {
            separator,
            wants_heading,
            is_first: true,
            cells: Cells::default(),
        }
    }

    fn run(&mut self, mut content: impl Read, survey: &mut Survey) -> io::Result<()> {
        let (mut buffer, mut filled, mut line) = (vec![0; BLOCK_BYTES], 0, 1);
        loop {
            let free = buffer.get_mut(filled..).unwrap_or_default();
            let count = content.read(free)?;
            filled += count;
            if count > 0 && filled < buffer.len() {
                continue;
            }
            let mut done = 0;
            loop {
                let rest = buffer.get(done..filled).unwrap_or_default();
                let length = match record_length(rest) {
                    Some(length) => length,
                    None if count == 0 => rest.len(),
                    None => break,
                };
                if length == 0 {
                    break;
                }
                let record = rest.get(..length).unwrap_or_default();
                self.record(without_line_end(record), line, survey);
                line += memchr::memchr_iter(b'\n', record).count() as u64;
                done += length;
            }
            // The end, or a record that is longer than any that is read.
            if count == 0 || done == 0 {
                return Ok(());
            }
            buffer.copy_within(done..filled, 0);
            filled -= done;
        }
    }

    fn record(&mut self, record: &[u8], line: u64, survey: &mut Survey) {
        let record = match self.is_first {
            true => record.strip_prefix(b"\xef\xbb\xbf").unwrap_or(record),
            false => record,
        };
        if record.trim_ascii().is_empty() || self.cells.find(record, self.separator).is_err() {
            return;
        }
        survey.is_windows_1252 |= std::str::from_utf8(record).is_err();
        let count = self.cells.count().min(MAX_COLUMNS);
        if std::mem::take(&mut self.is_first) {
            survey.has_more = self.cells.count() > MAX_COLUMNS;
            let name = |number: usize| match self.wants_heading {
                true => decoded(&self.cells.get(record, number)).into_owned(),
                false => (number + 1).to_string(),
            };
            survey.columns = (0..count)
                .map(|number| Column::new(name(number), name(number), 0))
                .collect();
            if self.wants_heading {
                return;
            }
        }
        survey.rows += 1;
        if let Some(formats) = &survey.formats {
            for (number, column) in survey.columns.iter_mut().enumerate() {
                column.add(&self.cells.get(record, number), true, line, formats);
            }
        }
    }
}

/// A place in JSON.
#[derive(Debug)]
struct Place {
    path: String,
    key: String,
    /// The place of the object that holds it.
    object: usize,
    keys: HashMap<Box<[u8]>, Option<usize>>,
    each: Option<usize>,
    names: Option<usize>,
    /// Whether it has a value other than an object or array.
    column: Option<Column>,
}

/// Walks through JSON.
struct JsonWalk {
    tokens: Tokens,
    places: Vec<Place>,
    /// What is open: its place, if it is described, whether it is an object, and where its next
    /// value is.
    open: Vec<(Option<usize>, bool, Option<usize>)>,
}

impl JsonWalk {
    fn new(one_a_line: bool) -> Self {
        let mut walk = Self {
            tokens: Tokens::new(one_a_line),
            places: Vec::new(),
            open: Vec::new(),
        };
        walk.place(String::new(), String::new(), 0);
        walk
    }

    fn run(mut self, mut content: impl Read, survey: &mut Survey) -> io::Result<()> {
        let (mut buffer, mut lines) = (vec![0; BLOCK_BYTES], 0);
        let formats = survey.formats.take().unwrap_or_else(Formats::new);
        let mut tokens = std::mem::replace(&mut self.tokens, Tokens::new(false));
        loop {
            let count = content.read(&mut buffer)?;
            let block = buffer.get(..count).unwrap_or_default();
            tokens.read(block, &mut lines, &mut |line, token| {
                self.token(line, token, survey, &formats);
            });
            if count == 0 {
                break;
            }
        }
        survey.has_more = self.places.len() >= MAX_PLACES;
        let columns = self.places.into_iter().filter_map(|place| place.column);
        survey.columns = columns.collect();
        Ok(())
    }

    /// Adds a place; `None` if there are too many.
    fn place(&mut self, path: String, key: String, object: usize) -> Option<usize> {
        let number = self.places.len();
        (number < MAX_PLACES).then(|| {
            self.places.push(Place {
                path,
                key,
                object,
                keys: HashMap::new(),
                each: None,
                names: None,
                column: None,
            });
            number
        })
    }

    fn token(&mut self, line: u64, token: Token<'_>, survey: &mut Survey, formats: &Formats) {
        match token {
            Token::Open { is_object } => {
                let at = self.next();
                self.open.push((at, is_object, None));
            }
            Token::Close => drop(self.open.pop()),
            Token::Key(key) => self.key(key.text, line, formats),
            Token::Text(text) => self.value(text.text, true, line, formats),
            Token::Other(text) => self.value(text, false, line, formats),
            Token::End => survey.rows += 1,
            Token::Fault(_) => self.open.clear(),
            Token::Blank => {}
        }
    }

    /// Returns the place of the next value.
    fn next(&mut self) -> Option<usize> {
        match self.open.last_mut() {
            None => Some(0),
            Some((_, true, next)) => next.take(),
            Some((at, false, _)) => {
                let at = (*at)?;
                self.each(at)
            }
        }
    }

    fn each(&mut self, at: usize) -> Option<usize> {
        let place = self.places.get(at)?;
        if place.each.is_some() {
            return place.each;
        }
        let (path, key, object) = (format!("{}[]", place.path), place.key.clone(), place.object);
        let each = self.place(path, key, object);
        self.places.get_mut(at)?.each = each;
        each
    }

    fn key(&mut self, key: &[u8], line: u64, formats: &Formats) {
        let Some(at) = self.open.last().and_then(|(at, _, _)| *at) else {
            return;
        };
        // The keys of an object that are entries stand for themselves, and their values are alike.
        let is_entry = key.contains(&b'@') && read_entry(key, Wildcards::Star).is_ok();
        let next = if is_entry {
            let place = self.places.get(at);
            let path = place.map_or_else(String::new, |place| format!("{}{{}}", place.path));
            let names = match place.and_then(|place| place.names) {
                Some(names) => Some(names),
                None => self.place(path, String::new(), at),
            };
            if let Some(place) = self.places.get_mut(at) {
                place.names = names;
            }
            self.add(names, key, true, line, formats);
            self.each(at)
        } else {
            self.member(at, key)
        };
        if let Some((_, _, at)) = self.open.last_mut() {
            *at = next;
        }
    }

    /// Returns the place of a member of an object.
    fn member(&mut self, at: usize, key: &[u8]) -> Option<usize> {
        let place = self.places.get(at)?;
        if let Some(known) = place.keys.get(key) {
            return *known;
        }
        if place.keys.len() >= MAX_PLACES {
            return None;
        }
        let name = quoted_key(&decoded(key));
        let path = match place.path.is_empty() {
            true => name.clone(),
            false => format!("{}.{name}", place.path),
        };
        let member = self.place(path, name, at);
        self.places.get_mut(at)?.keys.insert(key.into(), member);
        member
    }

    fn value(&mut self, text: &[u8], is_text: bool, line: u64, formats: &Formats) {
        let at = self.next();
        let text = if !is_text && text == b"null" {
            b""
        } else {
            text
        };
        self.add(at, text, is_text, line, formats);
    }

    fn add(&mut self, at: Option<usize>, text: &[u8], is_text: bool, line: u64, formats: &Formats) {
        let Some(place) = at.and_then(|at| self.places.get_mut(at)) else {
            return;
        };
        let Place {
            path, key, object, ..
        } = place;
        let column = place
            .column
            .get_or_insert_with(|| Column::new(path.clone(), key.clone(), *object));
        column.add(text.trim_ascii(), is_text, line, formats);
    }
}

/// Writes a key as a path has it.
fn quoted_key(key: &str) -> String {
    let is_bare = !key.is_empty()
        && !key.contains(['.', '[', ']', '{', '}', '"', '\''])
        && !key.contains(char::is_control);
    match is_bare {
        true => key.to_owned(),
        false => serde_json::Value::from(key).to_string(),
    }
}
