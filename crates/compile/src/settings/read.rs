//! Reads TOML tables setting by setting, and collects every error with its position.
//!
//! `serde` stops at the first error. An administrator who edits a configuration wants all of them
//! at once, each with line and column. So this module walks the tree of the `toml` crate, which has
//! positions. The caller asks for each setting by name. An invalid value is noted as an error and
//! replaced by its default. A key that nobody asked for is unknown; the error suggests the most
//! similar known name, or tells in which section it belongs: what all sections have is learnt by reading
//! an empty file first.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::{Invalid, nearest, text, wrong_type};
use super::{Error, Problem};

/// Reads a text of settings. `read` asks for each setting, and is called twice: first, to learn what
/// settings there are, with a file that has none. Returns what `read` has made of the text, and all
/// errors of it; `path` is for messages.
pub fn checked<T>(text: &str, path: &Path, read: impl Fn(&Section<'_>) -> T) -> (T, Option<Error>) {
    let learner = Checker::new("", None);
    learner.document(&read);
    let checker = Checker::new(text, Some(learner.known.into_inner()));
    let value = checker.document(read);
    let mut problems = checker.problems.into_inner();
    problems.sort();
    let error = (!problems.is_empty()).then(|| Error::Faulty {
        path: path.to_owned(),
        problems,
    });
    (value, error)
}

struct Checker<'t> {
    text: &'t str,
    /// Every setting with its section (`""` is the top of the file), to tell where a misplaced one belongs.
    known: RefCell<Vec<(&'static str, &'static str)>>,
    /// Whether `known` is still to be filled: then every table is there, and each list of tables has one.
    learns: bool,
    problems: RefCell<Vec<Problem>>,
    /// Lines with a syntax error: further errors in them would be guesses.
    broken_lines: RefCell<BTreeSet<usize>>,
    /// Whether the name of a table is broken: then settings seem to be where they are not.
    has_broken_table: Cell<bool>,
}

impl<'t> Checker<'t> {
    fn new(text: &'t str, known: Option<Vec<(&'static str, &'static str)>>) -> Self {
        Self {
            text,
            learns: known.is_none(),
            known: RefCell::new(known.unwrap_or_default()),
            problems: RefCell::default(),
            broken_lines: RefCell::default(),
            has_broken_table: Cell::new(false),
        }
    }

    fn problem(&self, at: usize, message: impl Into<String>) {
        let problem = self.place(at, message.into());
        let mut problems = self.problems.borrow_mut();
        let is_guess =
            self.has_broken_table.get() || self.broken_lines.borrow().contains(&problem.line);
        if !is_guess && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    fn place(&self, at: usize, message: String) -> Problem {
        Problem::at(self.text, at, message)
    }

    /// Reads the whole document. Records its syntax errors, the first of each line.
    fn document<T>(&self, read: impl Fn(&Section<'_>) -> T) -> T {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let span = error.span().unwrap_or_default();
            let mut message = error.message().trim().to_owned();
            if message == "duplicate key"
                && let Some(key) = self.text.get(span.clone())
            {
                message = format!("{message} {key}");
            } else if let Some(hint) = self.text.get(span.start..).and_then(hint) {
                message = format!("{message}; {hint}");
            } else if message.starts_with("string values must be quoted") {
                message = unquoted(self.text.get(span.start..).unwrap_or_default());
            }
            if let Some(setting) = setting_at(self.text, span.start) {
                message = format!("{setting}: {message}");
            }
            let before = self.text.get(..span.start).unwrap_or_default();
            let line = before.rsplit('\n').next().unwrap_or_default();
            let is_of_table = line.trim_start().starts_with('[');
            self.has_broken_table
                .set(self.has_broken_table.get() || is_of_table);
            let problem = self.place(span.start, message);
            if self.broken_lines.borrow_mut().insert(problem.line) {
                self.problems.borrow_mut().push(problem);
            }
        }
        self.section("", Some(table.get_ref()), 0..0, read)
    }

    /// Reads a table. Records each key of it that `read` has not asked for.
    fn section<'s, T>(
        &'s self,
        path: &'static str,
        table: Option<&'s DeTable<'t>>,
        span: Range<usize>,
        read: impl FnOnce(&Section<'s>) -> T,
    ) -> T {
        let section = Section {
            checker: self,
            path,
            table,
            span,
            asked: RefCell::default(),
        };
        let value = read(&section);
        section.finish();
        value
    }

    /// Returns the position of byte `offset` of a decoded string in the file: exact if the string
    /// is written without escapes, else the start of the value.
    fn inside(&self, value: &Spanned<DeValue<'_>>, offset: usize) -> usize {
        let span = value.span();
        let written = self.text.get(span.clone()).unwrap_or_default();
        value
            .get_ref()
            .as_str()
            .filter(|decoded| !decoded.is_empty())
            .and_then(|decoded| written.find(decoded))
            .map_or(span.start, |start| span.start + start + offset)
    }
}

/// One table of the file, or a missing table, where every setting has its default.
pub struct Section<'s> {
    checker: &'s Checker<'s>,
    path: &'static str,
    table: Option<&'s DeTable<'s>>,
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'s> Section<'s> {
    /// Returns the position where the table begins, for errors about the table as a whole.
    pub fn start(&self) -> usize {
        self.span.start
    }

    pub fn problem(&self, at: usize, message: String) {
        self.checker.problem(at, message);
    }

    /// Returns line and column of a setting's value, or of the table if the setting is missing.
    pub fn place(&self, name: &str) -> (usize, usize) {
        let place = self.checker.place(self.at(name), String::new());
        (place.line, place.column)
    }

    fn at(&self, name: &str) -> usize {
        let value = self.table.and_then(|table| table.get(name));
        value.map_or(self.span.start, |value| value.span().start)
    }

    fn value(&self, name: &'static str) -> Option<&'s Spanned<DeValue<'s>>> {
        if self.checker.learns {
            self.checker.known.borrow_mut().push((self.path, name));
        }
        self.table_or_value(name)
    }

    fn table_or_value(&self, name: &'static str) -> Option<&'s Spanned<DeValue<'s>>> {
        self.asked.borrow_mut().push(name);
        self.table?.get(name)
    }

    fn note(&self, value: &Spanned<DeValue<'_>>, name: &str, invalid: &Invalid) {
        let at = match invalid.offset {
            Some(offset) => self.checker.inside(value, offset),
            None => value.span().start,
        };
        self.checker
            .problem(at, format!("{name}: {}", invalid.message));
    }

    /// Returns a setting as read by `read`, or its default. Records an error, and then returns the
    /// default.
    pub(crate) fn get<T>(
        &self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Invalid>,
    ) -> T {
        let Some(value) = self.value(name) else {
            return default;
        };
        read(value.get_ref()).unwrap_or_else(|invalid| {
            self.note(value, name, &invalid);
            default
        })
    }

    pub fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Invalid>,
    ) -> Option<T> {
        self.get(name, None, |value| read(value).map(Some))
    }

    /// Returns a setting without default. `None` if it is missing or invalid, which is recorded.
    pub fn required<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Invalid>,
    ) -> Option<T> {
        if !self.has(name) {
            let message = format!("[{}] missing required setting {name}", self.path);
            self.checker.problem(self.start(), message);
        }
        self.optional(name, read)
    }

    /// Returns a list of strings, each read by `read`. Records and omits invalid ones. One string
    /// is a list with one element: `listen = "inet:8891@127.0.0.1"`.
    pub fn each<T>(
        &self,
        name: &'static str,
        default: Vec<T>,
        read: impl Fn(&str) -> Result<T, Invalid>,
    ) -> Vec<T> {
        let Some(value) = self.value(name) else {
            return default;
        };
        let value_type = value.get_ref();
        if value_type.as_array().is_none() && value_type.as_str().is_none() {
            let wanted = "a string or a list of strings, such as [\"a\", \"b\"]";
            self.note(value, name, &wrong_type(wanted, value_type));
            return default;
        }
        self.items(name, |item| text(item).and_then(&read))
    }

    /// Returns a list of values, each read by `read`. Records and omits invalid ones. One value is a
    /// list with one element.
    pub(crate) fn items<T>(
        &self,
        name: &'static str,
        read: impl Fn(&DeValue<'_>) -> Result<T, Invalid>,
    ) -> Vec<T> {
        let Some(value) = self.value(name) else {
            return Vec::new();
        };
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        let mut all = Vec::new();
        for item in items {
            match read(item.get_ref()) {
                Ok(read) => all.push(read),
                Err(invalid) => self.note(item, name, &invalid),
            }
        }
        all
    }

    /// Records that a list is empty, which lacks `what` then.
    pub fn check_filled(&self, name: &str, what: &str) {
        let value = self.table.and_then(|table| table.get(name));
        if let Some(value) = value
            && value.get_ref().as_array().is_some_and(|all| all.is_empty())
        {
            self.note(value, name, &format!("lacks {what}").into());
        }
    }

    /// Returns the keys and values of a table whose keys can be any names. Records and omits invalid
    /// ones; `wanted` says what the table should be.
    pub(crate) fn map<T>(
        &self,
        name: &'static str,
        wanted: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, Invalid>,
    ) -> Vec<(String, T)> {
        let Some(value) = self.value(name) else {
            return Vec::new();
        };
        let Some(table) = value.get_ref().as_table().filter(|table| !table.is_empty()) else {
            self.note(value, name, &wrong_type(wanted, value.get_ref()));
            return Vec::new();
        };
        let mut rows: Vec<_> = table.iter().collect();
        // In the order of the file.
        rows.sort_by_key(|(key, _)| key.span().start);
        let mut all = Vec::new();
        for (key, value) in rows {
            let key = key.get_ref().as_ref();
            match read(value.get_ref()) {
                Ok(read) => all.push((key.to_owned(), read)),
                Err(invalid) => {
                    self.note(value, &format!("{name}: {}", key.escape_debug()), &invalid);
                }
            }
        }
        all
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.checker.learns || self.table.is_some_and(|table| table.contains_key(name))
    }

    pub(crate) fn wrong(&self, name: &str, message: &str) {
        let message = format!("{name}: {message}");
        self.checker.problem(self.at(name), message);
    }

    /// Reads the table under `name`; if it is missing, every setting has its default.
    pub fn table<T>(&self, name: &'static str, read: impl FnOnce(&Self) -> T) -> T {
        let value = self.table_or_value(name);
        let table = value.and_then(|value| value.get_ref().as_table());
        if let (Some(value), None) = (value, table) {
            let wanted = format!("a table, written [{name}]");
            self.note(value, name, &wrong_type(&wanted, value.get_ref()));
        }
        let span = value.map_or_else(|| self.span.clone(), Spanned::span);
        self.checker.section(name, table, span, read)
    }

    pub fn tables<T>(&self, name: &'static str, mut read: impl FnMut(&Self) -> T) -> Vec<T> {
        let Some(value) = self.table_or_value(name) else {
            if self.checker.learns {
                self.checker.section(name, None, 0..0, read);
            }
            return Vec::new();
        };
        let wanted = format!("a list of tables, each written [[{name}]]");
        let wrong = |value: &Spanned<DeValue<'_>>| {
            self.note(value, name, &wrong_type(&wanted, value.get_ref()));
        };
        let Some(items) = value.get_ref().as_array() else {
            wrong(value);
            return Vec::new();
        };
        let mut all = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_table() {
                None => wrong(item),
                table => all.push(self.checker.section(name, table, item.span(), &mut read)),
            }
        }
        all
    }

    /// Records each key that nobody asked for, with the most similar known name.
    fn finish(self) {
        let Some(table) = self.table else { return };
        let mut asked = self.asked.into_inner();
        asked.dedup();
        for key in table.keys() {
            let written = key.get_ref().as_ref();
            if asked.contains(&written) {
                continue;
            }
            let place = match self.path {
                "" => String::new(),
                path => format!(" in [{path}]"),
            };
            let home = elsewhere(&self.checker.known.borrow(), written);
            let hint = match (home, nearest(written, &asked)) {
                (Some(section), _) => format!("; it belongs {section}"),
                (None, Some(name)) => format!("; did you mean {name}?"),
                (None, None) => format!("; there are: {}", asked.join(", ")),
            };
            let written = written.escape_debug();
            let message = format!("unknown setting {written}{place}{hint}");
            self.checker.problem(key.span().start, message);
        }
    }
}

fn unquoted(text: &str) -> String {
    let word = text.split([',', ']', '}', '#', '\n']).next();
    match word.unwrap_or_default().trim() {
        "" => "the value is missing".to_owned(),
        word => format!("a text must be in quotes: \"{}\"", word.escape_debug()),
    }
}

fn setting_at(text: &str, at: usize) -> Option<&str> {
    let begin = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let (name, _) = text.get(begin..)?.lines().next()?.split_once('=')?;
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = name.trim();
    (!name.is_empty() && name.chars().all(is_bare)).then_some(name)
}

/// Returns how to write a value that is no TOML, at the start of `text`, if it is a frequent mistake.
fn hint(text: &str) -> Option<&'static str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    let word = text.get(..end.unwrap_or(text.len()))?.to_ascii_lowercase();
    let is_boolean = ["yes", "no", "on", "off", "true", "false"].contains(&&*word);
    is_boolean.then_some("write true or false")
}

fn elsewhere(known: &[(&str, &str)], written: &str) -> Option<String> {
    let (section, _) = known.iter().find(|(_, name)| *name == written)?;
    Some(match *section {
        "" => "at the top of the file, before the first [section]".to_owned(),
        "list" | "file" => format!("in [[{section}]]"),
        section => format!("in [{section}]"),
    })
}
