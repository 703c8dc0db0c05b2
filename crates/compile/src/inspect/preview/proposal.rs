//! A declaration to propose for a table: a `[[file]]` for the `list.toml` of its folder.
//!
//! What follows from the values alone is filled in. English words are used to fill in more, but only
//! where nothing else in the table might decide as well. Whatever is in doubt makes a comment of the
//! lines that say which rows count, so that the file stays refused until somebody has decided.

use std::fmt::Write as _;

use super::column::{Column, Value, quoted};
use super::rows::Sample;
use super::survey::{First, Kind, Survey};
use crate::compile::Report;
use crate::list::Declared;
use blocklist_filter::base::numbers::{counted, grouped};

/// Words that say that a row lists a sender, and that it does not.
const LISTS: &str = "ban banned black blacklist blacklisted block blocked blocklist blocklisted denied deny discard drop \
     reject rejected";
const CLEARS: &str = "accept accepted allow allowed allowlist exempt permit permitted safe safelist trusted white whitelist \
     whitelisted";
/// Words in the heading of the column with the sender, with the day of the end, and of adding.
const SENDERS: &str = "sender spammer from";
const ENDS: &str = "expire expires expiry expiration remove until";
const ADDS: &str = "added created";

const CHOICES: usize = 8;
const NOTES: usize = 46;

/// A `[[file]]`, as text.
#[derive(Debug, Default)]
pub(crate) struct Proposal {
    pub(crate) toml: String,
    /// Whether something is left to decide.
    pub(crate) is_open: bool,
    pub(super) names_rows: bool,
    /// What a build would count in the file with it, if it says which rows count.
    pub(crate) report: Option<Report>,
    /// Some rows of the file, read with it.
    pub(crate) samples: Vec<Sample>,
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
            // What the dates leave open leaves the rows open, but the rows come first.
            let before = std::mem::take(&mut draft.made.toml);
            draft.dates(entry);
            let dates = std::mem::replace(&mut draft.made.toml, before);
            draft.rows(entry);
            draft.made.toml.push_str(&dates);
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
        let with = |word: &dyn Fn(&Column) -> bool| -> Vec<&'s Column> {
            let of_entries = columns.iter().filter(|column| column.is_of_entries());
            of_entries.filter(|column| word(column)).collect()
        };
        let (all, by_word) = (with(&|_| true), with(&|it| has_word(&it.name, SENDERS)));
        let (([column], _) | (_, [column])) = (all.as_slice(), by_word.as_slice()) else {
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
            self.doubt("and say which rows count, with when, unless, at_least or rows = \"all\"");
            return None;
        };
        let mut note = counted(column.entries, "cell with an entry", "cells with entries");
        if column.several > 0 {
            let _ = write!(note, ", {} of them with several", grouped(column.several));
        }
        self.put(&format!("entry = {}", column.as_entry), &note, false);
        if self.first() == Some(First::Either) {
            let why = "line 1 may be a row: if it is, name columns by their numbers, and it counts";
            self.doubt(why);
        }
        Some(*column)
    }

    fn beside(&self, entry: &'s Column) -> impl Iterator<Item = &'s Column> + use<'s> {
        let others = self.survey.columns.iter();
        let others = others.filter(move |column| !std::ptr::eq(*column, entry));
        others.filter(|column| column.object == entry.object && !column.as_value.is_empty())
    }

    /// Returns the columns beside the entry with few values: those with a word that says whether a
    /// row counts, and the others.
    fn small(&self, entry: &'s Column) -> (Vec<Small>, Vec<Small>) {
        let (mut deciding, mut others) = (Vec::new(), Vec::new());
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
            let is_known = |value: &Value| is_of(value, LISTS) || is_of(value, CLEARS);
            if values.iter().any(is_known) {
                deciding.push((column.as_value.clone(), values));
            } else if values.len() > 1 && repeats {
                others.push((column.as_value.clone(), values));
            }
        }
        (deciding, others)
    }

    fn rows(&mut self, entry: &'s Column) {
        if self.first().is_some() && self.survey.columns.len() == 1 {
            return;
        }
        let (mut deciding, mut others) = self.small(entry);
        let [(column, values)] = deciding.as_slice() else {
            deciding.append(&mut others);
            return self.choose_rows(&deciding);
        };
        let is_named = |name: &str| name.starts_with('"');
        let has_name = is_named(column) || is_named(&entry.as_entry);
        if self.first() == Some(First::Heading) && !has_name {
            let why = "by numbers alone, line 1 is a row, too: give a column a heading of its own";
            self.doubt(why);
        }
        let (lists, rest): (Vec<&Value>, Vec<&Value>) =
            values.iter().partition(|value| is_of(value, LISTS));
        let (clears, open): (Vec<&Value>, Vec<&Value>) =
            rest.into_iter().partition(|value| is_of(value, CLEARS));
        // Only with both settings is a value of neither refused.
        let is_certain = !self.made.is_open
            && others.is_empty()
            && !lists.is_empty()
            && (open.is_empty() || !clears.is_empty());
        let settings = [
            ("when", &lists, "listed"),
            ("unless", &clears, "not listed"),
        ];
        for (setting, values, what) in settings {
            if !values.is_empty() {
                let setting = condition(setting, column, values);
                let note = format!("{what}: {}", rows_of(values));
                self.put(&setting, &note, !is_certain);
            }
        }
        self.made.names_rows = is_certain;
        for value in open {
            let first = match value.line {
                0 => String::new(),
                line => format!(", first in line {}", grouped(line)),
            };
            let (text, rows) = (quoted(&value.text), rows_of(&[value]));
            self.doubt(&format!(
                "{column} = {text} ({rows}{first}): put it into when or unless, or the file is refused"
            ));
        }
        for (column, values) in others.iter().take(CHOICES) {
            let counts = with_counts(values);
            self.doubt(&format!("{column} may decide, too: {counts}"));
        }
    }

    fn choose_rows(&mut self, small: &[Small]) {
        for (column, values) in small.iter().take(CHOICES) {
            let all: Vec<&Value> = values.iter().collect();
            self.put(&condition("when", column, &all), &with_counts(values), true);
        }
        self.put("rows = \"all\"", "if every row lists its sender", true);
    }

    fn first(&self) -> Option<First> {
        match self.survey.kind {
            Kind::Cells { first, .. } => Some(first),
            Kind::Json { .. } => None,
        }
    }

    fn dates(&mut self, entry: &'s Column) {
        let (mut common, mut never): (Option<Vec<&str>>, Vec<String>) = (None, Vec::new());
        let (mut ends, mut adds) = (0, 0);
        for column in self.beside(entry) {
            let Some((formats, others)) = column.dates() else {
                continue;
            };
            let (setting, count) = if has_word(&column.name, ENDS) {
                ("expires_in", &mut ends)
            } else if has_word(&column.name, ADDS) {
                ("added_in", &mut adds)
            } else {
                ("expires_in or added_in", &mut 2)
            };
            *count += 1;
            let setting = format!("{setting} = {}", column.as_value);
            let note = format!("{} filled", grouped(column.filled));
            self.put(&setting, &note, *count > 1);
            if *count == 1 {
                never.extend(others.iter().map(|text| quoted(text)));
                let common = common.get_or_insert_with(|| formats.clone());
                common.retain(|format| formats.contains(format));
            }
        }
        if let Some(formats) = common {
            self.date_formats(&formats);
        }
        if !never.is_empty() {
            never.sort();
            never.dedup();
            let setting = format!("never = [{}]", never.join(", "));
            self.put(&setting, "no date, so for good?", true);
        }
    }

    fn date_formats(&mut self, formats: &[&str]) {
        let (formats, note, asks) = match formats {
            ["", ..] => return,
            [_] => (formats, "fits every date", false),
            [] => (
                &["..."][..],
                "these columns have dates of different forms",
                true,
            ),
            _ => (formats, "fits every date, as others do", true),
        };
        for format in formats {
            self.put(&format!("date_format = {}", quoted(format)), note, asks);
        }
    }
}

fn is_of(value: &Value, words: &str) -> bool {
    is_one_of(&value.text.to_lowercase(), words)
}

fn condition(setting: &str, column: &str, values: &[&Value]) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(&value.text)).collect();
    let bare = column.trim_matches('"');
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let key = match !bare.is_empty() && bare.bytes().all(is_bare) {
        true => bare,
        false => column,
    };
    format!("{setting} = {{ {key} = [{}] }}", values.join(", "))
}

fn with_counts(values: &[Value]) -> String {
    let counts = values.iter();
    let counts = counts.map(|it| format!("{} ({})", quoted(&it.text), grouped(it.count)));
    counts.collect::<Vec<_>>().join(", ")
}

fn rows_of(values: &[&Value]) -> String {
    counted(values.iter().map(|value| value.count).sum(), "row", "rows")
}

fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

fn has_word(name: &str, words: &str) -> bool {
    let name = name.to_lowercase();
    name.split(|c: char| !c.is_alphanumeric())
        .any(|word| is_one_of(word, words))
}
