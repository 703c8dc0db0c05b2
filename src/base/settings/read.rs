//! Reads TOML tables setting by setting, and collects every error with its position.
//!
//! `serde` stops at the first error. An administrator who edits a configuration wants all of them
//! at once, each with line and column. So this module walks the tree of the `toml` crate, which has
//! positions. The caller asks for each setting by name. An invalid value is noted as an error and
//! replaced by its default. A key that nobody asked for is unknown; the error suggests the most
//! similar known name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::values::{Invalid, nearest, text, wrong_type};
use super::{Problem, Removed, Settings};

pub(crate) struct Checker<'t> {
    text: &'t str,
    /// Every setting, to tell where a misplaced one belongs.
    settings: Settings<'t>,
    removed: &'t [Removed],
    problems: RefCell<Vec<Problem>>,
    /// Lines with a syntax error: further errors in them would be guesses.
    broken_lines: RefCell<BTreeSet<usize>>,
    /// Whether the name of a table is broken: then settings seem to be where they are not.
    has_broken_table: Cell<bool>,
}

impl<'t> Checker<'t> {
    /// `removed` are settings of earlier versions, to tell what replaces them.
    pub(crate) fn new(text: &'t str, settings: Settings<'t>, removed: &'t [Removed]) -> Self {
        Self {
            text,
            settings,
            removed,
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

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort();
        problems
    }

    /// Parses the whole document. Records its syntax errors, the first of each line.
    pub(crate) fn document(&self) -> Spanned<DeTable<'t>> {
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
        table
    }

    pub(crate) fn section<'s>(
        &'s self,
        path: &'static str,
        table: &'s DeTable<'t>,
        span: Range<usize>,
    ) -> Section<'s, 't> {
        Section {
            checker: self,
            path,
            table: Some(table),
            span,
            asked: RefCell::default(),
        }
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
pub(crate) struct Section<'s, 't> {
    checker: &'s Checker<'t>,
    path: &'static str,
    table: Option<&'s DeTable<'t>>,
    span: Range<usize>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'s, 't> Section<'s, 't> {
    /// Returns the position where the table begins, for errors about the table as a whole.
    pub(crate) fn start(&self) -> usize {
        self.span.start
    }

    pub(crate) fn problem(&self, at: usize, message: String) {
        self.checker.problem(at, message);
    }

    /// Returns line and column of a setting's value, or of the table if the setting is missing.
    pub(crate) fn place(&self, name: &str) -> (usize, usize) {
        let place = self.checker.place(self.at(name), String::new());
        (place.line, place.column)
    }

    fn at(&self, name: &str) -> usize {
        let value = self.table.and_then(|table| table.get(name));
        value.map_or(self.span.start, |value| value.span().start)
    }

    fn value(&self, name: &'static str) -> Option<&'s Spanned<DeValue<'t>>> {
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

    pub(crate) fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Invalid>,
    ) -> Option<T> {
        self.get(name, None, |value| read(value).map(Some))
    }

    /// Returns a setting without default. `None` if it is missing or invalid, which is recorded.
    pub(crate) fn required<T>(
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
    pub(crate) fn each<T>(
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
    pub(crate) fn check_filled(&self, name: &str, what: &str) {
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
        self.table.is_some_and(|table| table.contains_key(name))
    }

    pub(crate) fn wrong(&self, name: &str, message: &str) {
        let message = format!("{name}: {message}");
        self.checker.problem(self.at(name), message);
    }

    /// Returns the table under `name`; if it is missing, one where every setting has its default.
    pub(crate) fn table(&self, name: &'static str) -> Self {
        let none = Section {
            checker: self.checker,
            path: name,
            table: None,
            span: self.span.clone(),
            asked: RefCell::default(),
        };
        let Some(value) = self.value(name) else {
            return none;
        };
        let Some(table) = value.get_ref().as_table() else {
            let wanted = format!("a table, written [{name}]");
            self.note(value, name, &wrong_type(&wanted, value.get_ref()));
            return none;
        };
        self.checker.section(name, table, value.span())
    }

    pub(crate) fn tables(&self, name: &'static str) -> Vec<Self> {
        let Some(value) = self.value(name) else {
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
        let mut sections = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_table() {
                Some(table) => sections.push(self.checker.section(name, table, item.span())),
                None => wrong(item),
            }
        }
        sections
    }

    /// Records each key that nobody asked for, with the most similar known name.
    pub(crate) fn finish(self) {
        let Some(table) = self.table else { return };
        let mut asked = self.asked.into_inner();
        asked.dedup();
        for key in table.keys() {
            let written = key.get_ref().as_ref();
            if asked.contains(&written) {
                continue;
            }
            let is_it = |one: &&Removed| (one.0, one.1) == (self.path, written);
            if let Some((_, name, instead)) = self.checker.removed.iter().find(is_it) {
                let message = format!("{name} is no longer a setting: {instead}; remove this line");
                self.checker.problem(key.span().start, message);
                continue;
            }
            let place = match self.path {
                "" => String::new(),
                path => format!(" in [{path}]"),
            };
            let home = elsewhere(self.checker.settings, written);
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

fn elsewhere(settings: Settings<'_>, written: &str) -> Option<String> {
    let (section, _) = settings
        .iter()
        .find(|(_, names)| names.split_whitespace().any(|name| name == written))?;
    Some(match *section {
        "" => "at the top of the file, before the first [section]".to_owned(),
        "list" | "file" => format!("in [[{section}]]"),
        section => format!("in [{section}]"),
    })
}
