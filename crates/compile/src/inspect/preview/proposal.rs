//! A declaration to propose for a table: a `[[file]]` for the `list.toml` of its folder.
//!
//! What follows from the values alone is filled in. What depends on the meaning of a word, only a person knows: each choice
//! is a line in a comment, with the number of its rows, and the file stays refused until somebody has decided.

use std::fmt::Write as _;

use super::column::{Column, Value, quoted};
use super::survey::{First, Kind, Survey};
use crate::list::Declared;
use blocklist_filter::base::numbers::{counted, grouped};

const CHOICES: usize = 8;
const NOTES: usize = 46;
const SAY_ROWS: &str = "and say which rows count, with when, unless, at_least or rows = \"all\"";

/// A `[[file]]`, as text.
#[derive(Debug, Default)]
pub(crate) struct Proposal {
    pub(crate) toml: String,
    /// Whether something is left to decide.
    pub(crate) is_open: bool,
}

impl Proposal {
    pub(super) fn new(name: &str, survey: &Survey, given: &Declared) -> Self {
        let mut draft = Draft {
            survey,
            made: Self {
                toml: format!("[[file]]\nmatch = {}\n", quoted(name)),
                ..Self::default()
            },
        };
        draft.form(given);
        if let Some(entry) = draft.entry() {
            draft.rows(entry);
            draft.dates(entry);
        }
        draft.made
    }
}

/// A column with few values: how a condition names it, and the values.
type Small = (String, Vec<Value>);

struct Draft<'s> {
    survey: &'s Survey,
    made: Proposal,
}

impl<'s> Draft<'s> {
    /// Adds a setting with a note for people; as a comment, if somebody must decide.
    fn put(&mut self, setting: &str, note: &str, asks: bool) {
        self.made.is_open |= asks;
        let setting = format!("{}{setting}", if asks { "# " } else { "" });
        let _ = writeln!(self.made.toml, "{setting:<NOTES$}  # {note}");
    }

    fn doubt(&mut self, note: &str) {
        self.made.is_open = true;
        let _ = writeln!(self.made.toml, "# {note}");
    }

    /// Names the format and the separator, if an option gave them or there are several.
    fn form(&mut self, given: &Declared) {
        if let Some(format) = given.format {
            let format = quoted(format.name());
            self.put(&format!("format = {format}"), "as given", false);
        }
        let Kind::Cells {
            separator,
            is_one_of_several,
            ..
        } = self.survey.kind
        else {
            return;
        };
        let note = match given.separator {
            Some(_) => "as given",
            None if is_one_of_several => "the first line has others, too",
            None => return,
        };
        let shown = match separator {
            b'\t' => "tab".to_owned(),
            b' ' => "space".to_owned(),
            other => char::from(other).to_string(),
        };
        self.put(&format!("separator = {}", quoted(&shown)), note, false);
    }

    fn entry(&mut self) -> Option<&'s Column> {
        let columns = &self.survey.columns;
        let all = columns.iter().filter(|column| column.is_of_entries());
        let [column] = all.collect::<Vec<_>>()[..] else {
            let perhaps = columns.iter().filter(|column| column.entries > 0);
            let mut perhaps: Vec<&Column> = perhaps.collect();
            perhaps.sort_by_key(|column| std::cmp::Reverse(column.entries));
            if perhaps.is_empty() {
                self.doubt("no column has entries: name the one that has, with entry");
            }
            for column in perhaps.iter().take(CHOICES) {
                let (entries, filled) = (grouped(column.entries), grouped(column.filled));
                let note = format!("{entries} of {filled} are entries: the sender?");
                self.put(&format!("entry = {}", column.as_entry), &note, true);
            }
            self.doubt(SAY_ROWS);
            return None;
        };
        let mut note = counted(column.entries, "cell with an entry", "cells with entries");
        if column.several > 0 {
            let _ = write!(note, ", {} of them with several", grouped(column.several));
        }
        if self.first() == Some(First::Either) {
            let number = columns.iter().position(|it| std::ptr::eq(it, column));
            let number = number.map_or(0, |at| at + 1);
            self.put(&format!("entry = {number}"), "if line 1 is a row", true);
            let setting = format!("entry = {}", column.as_entry);
            self.put(&setting, "if it is a heading", true);
            self.doubt(SAY_ROWS);
            return None;
        }
        self.put(&format!("entry = {}", column.as_entry), &note, false);
        Some(column)
    }

    fn beside(&self, entry: &'s Column) -> impl Iterator<Item = &'s Column> + use<'s> {
        let others = self.survey.columns.iter();
        let others = others.filter(move |column| !std::ptr::eq(*column, entry));
        others.filter(|column| column.object == entry.object && !column.as_value.is_empty())
    }

    /// Returns the columns beside the entry with few values.
    fn small(&self, entry: &'s Column) -> Vec<Small> {
        let mut small = Vec::new();
        for column in self.beside(entry) {
            let values = column.values().filter(|_| column.dates().is_none());
            let Some(mut values) = values else {
                continue;
            };
            // A key of JSON that is missing is empty.
            let cells = values.iter().map(|value| value.count).sum();
            let count = entry.filled.saturating_sub(cells);
            if count > 0 && self.first().is_none() {
                let missing = Value::default();
                values.push(Value { count, ..missing });
            }
            // What is different in each row is a note or a number.
            let repeats = values.len() < 4 || values.iter().any(|value| value.count > 1);
            if values.len() > 1 && repeats {
                small.push((column.as_value.clone(), values));
            }
        }
        small
    }

    /// Adds a line for each choice of rows.
    fn rows(&mut self, entry: &'s Column) {
        if self.first().is_some() && self.survey.columns.len() == 1 {
            return;
        }
        let small = self.small(entry);
        let is_named = |name: &str| name.starts_with('"');
        let has_name =
            is_named(&entry.as_entry) || small.iter().any(|(column, _)| is_named(column));
        if self.first() == Some(First::Heading) && !has_name {
            let why = "by numbers alone, line 1 is a row, too: give a column a heading of its own";
            self.doubt(why);
        }
        self.doubt("which rows list their sender? keep one of these lines, without its #:");
        for (column, values) in small.iter().take(CHOICES) {
            for value in values {
                let rows = counted(value.count, "row", "rows");
                self.put(&when(column, value), &rows, true);
            }
        }
        let rows = counted(entry.filled, "row", "rows");
        self.put("rows = \"all\"", &rows, true);
    }

    fn first(&self) -> Option<First> {
        match self.survey.kind {
            Kind::Cells { first, .. } => Some(first),
            Kind::Json { .. } => None,
        }
    }

    fn dates(&mut self, entry: &'s Column) {
        let mut never: Vec<String> = Vec::new();
        for column in self.beside(entry) {
            let Some((formats, others)) = column.dates() else {
                continue;
            };
            let filled = counted(column.filled, "date", "dates");
            let ends = format!("{filled}, if its rows end on that day");
            self.put(&format!("expires_in = {}", column.as_value), &ends, true);
            self.put(
                &format!("added_in = {}", column.as_value),
                "or were added on it",
                true,
            );
            self.date_formats(&formats);
            never.extend(others.iter().map(|text| quoted(text)));
        }
        if !never.is_empty() {
            never.sort();
            never.dedup();
            let setting = format!("never = [{}]", never.join(", "));
            self.put(&setting, "no date, so for good?", true);
        }
    }

    fn date_formats(&mut self, formats: &[&str]) {
        let note = match formats {
            ["", ..] => return,
            [_] => "with it: fits every date",
            _ => "with it: fits every date, as others do",
        };
        for format in formats {
            let setting = format!("date_format = {}", quoted(format));
            self.put(&setting, note, true);
        }
    }
}

fn when(column: &str, value: &Value) -> String {
    let bare = column.trim_matches('"');
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let key = match !bare.is_empty() && bare.bytes().all(is_bare) {
        true => bare,
        false => column,
    };
    format!("when = {{ {key} = [{}] }}", quoted(&value.text))
}
