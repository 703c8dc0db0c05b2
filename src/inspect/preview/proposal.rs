//! A declaration to propose for a table: a `[[file]]` for the `list.toml` of its folder.
//!
//! What follows from the values alone is filled in. English words are used to fill in more, but only
//! where nothing else in the table might decide as well. Whatever is in doubt makes a comment of the
//! lines that say which rows count, so that the file stays refused until somebody has decided.

use std::fmt::Write as _;

use super::column::{Column, Value, quoted};
use super::rows::Sample;
use super::survey::{First, Kind, Survey};
use crate::base::numbers::{counted, grouped};
use crate::compile::Report;

/// Words that say that a row lists a sender, and that it does not.
const LISTS: &str = "ban banned black blacklist blacklisted block blocked blocklist blocklisted denied deny discard drop \
     reject rejected";
const CLEARS: &str = "accept accepted allow allowed allowlist exempt permit permitted safe safelist trusted white whitelist \
     whitelisted";
/// Words in the heading of the column with the sender, with the day of the end, and of adding.
const SENDERS: &str = "sender spammer from";
const ENDS: &str = "expire expires expiry expiration remove until";
const ADDS: &str = "added created";

/// Number of columns that are named for a choice.
const CHOICES: usize = 8;
/// Column of the notes.
const NOTES: usize = 46;

/// A `[[file]]`, as text.
#[derive(Debug, Default)]
pub struct Proposal {
    /// Its lines of TOML.
    pub toml: String,
    /// Whether something is left to decide.
    pub is_open: bool,
    /// Whether it says which rows count.
    pub(super) names_rows: bool,
    /// What a build would count in the file with it, if it says which rows count.
    pub report: Option<Report>,
    /// Some rows of the file, read with it.
    pub samples: Vec<Sample>,
}

impl Proposal {
    /// Proposes a declaration for a table.
    pub(super) fn new(name: &str, survey: &Survey) -> Self {
        let mut draft = Draft {
            survey,
            made: Self {
                toml: format!("[[file]]\nmatch = {}\n", quoted(name)),
                ..Self::default()
            },
        };
        draft.separator();
        if let Some(entry) = draft.entry() {
            let dates = draft.dates(entry);
            draft.rows(entry);
            draft.made.toml.push_str(&dates);
        }
        draft.made
    }
}

/// A column with few values: how a condition names it, and the values.
type Small = (String, Vec<Value>);

/// A proposal in progress.
struct Draft<'s> {
    survey: &'s Survey,
    made: Proposal,
}

/// Adds a setting, with a note for people.
fn line(toml: &mut String, setting: &str, note: &str) {
    let _ = writeln!(toml, "{setting:<NOTES$}  # {note}");
}

impl Draft<'_> {
    fn set(&mut self, setting: &str, note: &str) {
        line(&mut self.made.toml, setting, note);
    }

    /// Adds a setting that somebody must decide.
    fn ask(&mut self, setting: &str, note: &str) {
        self.made.is_open = true;
        self.set(&format!("# {setting}"), note);
    }

    /// Adds a note about something that somebody must decide.
    fn doubt(&mut self, note: &str) {
        self.made.is_open = true;
        let _ = writeln!(self.made.toml, "# {note}");
    }

    fn separator(&mut self) {
        if let Kind::Cells {
            separator,
            is_one_of_several: true,
            ..
        } = self.survey.kind
        {
            let shown = match separator {
                b'\t' => "tab".to_owned(),
                other => char::from(other).to_string(),
            };
            let setting = format!("separator = {}", quoted(&shown));
            self.set(&setting, "the first line has others, too");
        }
    }

    /// Names the column with the sender; returns it if it is certain.
    fn entry(&mut self) -> Option<usize> {
        let columns = &self.survey.columns;
        let with = |wanted: &dyn Fn(&Column) -> bool| -> Vec<usize> {
            let all = columns.iter().enumerate();
            all.filter(|(_, column)| wanted(column))
                .map(|(at, _)| at)
                .collect()
        };
        let candidates = with(&Column::is_of_entries);
        let by_word = with(&|column| column.is_of_entries() && has_word(&column.name, SENDERS));
        let chosen = match (candidates.as_slice(), by_word.as_slice()) {
            ([one], _) | (_, [one]) => Some(*one),
            _ => None,
        };
        let Some((at, column)) = chosen.and_then(|at| Some((at, columns.get(at)?))) else {
            let mut perhaps: Vec<&Column> =
                columns.iter().filter(|column| column.entries > 0).collect();
            perhaps.sort_by_key(|column| std::cmp::Reverse(column.entries));
            if perhaps.is_empty() {
                self.doubt("no column has entries: name the one that has, with entry");
            }
            for column in perhaps.iter().take(CHOICES) {
                let note = format!(
                    "{} of {} are entries: the sender?",
                    grouped(column.entries),
                    grouped(column.filled)
                );
                self.ask(&format!("entry = {}", column.as_entry), &note);
            }
            self.doubt("and say which rows count, with when, unless, at_least or rows = \"all\"");
            return None;
        };
        let mut note = counted(column.entries, "cell with an entry", "cells with entries");
        if column.several > 0 {
            let _ = write!(note, ", {} of them with several", grouped(column.several));
        }
        self.set(&format!("entry = {}", column.as_entry), &note);
        if self.first() == Some(First::Either) {
            self.doubt(
                "line 1 may be a row: if it is, name columns by their numbers, and it counts",
            );
        }
        Some(at)
    }

    /// Returns the other columns of the same row.
    fn beside(&self, entry: usize) -> Vec<&Column> {
        let columns = &self.survey.columns;
        let object = columns.get(entry).map(|column| &column.object);
        let others = columns.iter().enumerate().filter(|(at, _)| *at != entry);
        others
            .map(|(_, column)| column)
            .filter(|column| Some(&column.object) == object && !column.as_value.is_empty())
            .collect()
    }

    /// Returns the columns beside the entry with few values: those with a word that says whether a
    /// row counts, and the others.
    fn small(&self, entry: usize) -> (Vec<Small>, Vec<Small>) {
        let filled = self.survey.columns.get(entry).map(|entry| entry.filled);
        let (mut deciding, mut others) = (Vec::new(), Vec::new());
        for column in self.beside(entry) {
            let values = column.values().filter(|_| column.dates().is_none());
            let Some(mut values) = values else {
                continue;
            };
            // A key of JSON that is missing is empty.
            let cells = values.iter().map(|value| value.count).sum();
            let count = filled.unwrap_or(0).saturating_sub(cells);
            if count > 0 && self.first().is_none() {
                values.push(Value {
                    count,
                    ..Value::default()
                });
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

    /// Names the rows that count.
    fn rows(&mut self, entry: usize) {
        if self.first().is_some() && self.survey.columns.len() == 1 {
            return;
        }
        let (mut deciding, mut others) = self.small(entry);
        let [(column, values)] = deciding.as_slice() else {
            deciding.append(&mut others);
            return self.choose_rows(&deciding);
        };
        let is_named = |name: &String| name.starts_with('"');
        let named = self.survey.columns.get(entry);
        let is_entry_named = named.is_some_and(|entry| is_named(&entry.as_entry));
        if self.first() == Some(First::Heading) && !is_named(column) && !is_entry_named {
            self.doubt(
                "by numbers alone, line 1 is a row, too: give a column a heading of its own",
            );
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
        for (setting, values, what) in [
            ("when", &lists, "listed"),
            ("unless", &clears, "not listed"),
        ] {
            if values.is_empty() {
                continue;
            }
            let setting = condition(setting, column, values);
            let note = format!("{what}: {}", rows_of(values));
            match is_certain {
                true => self.set(&setting, &note),
                false => self.ask(&setting, &note),
            }
        }
        self.made.names_rows = is_certain;
        for value in open {
            let first = match value.line {
                0 => String::new(),
                line => format!(", first in line {}", grouped(line)),
            };
            self.doubt(&format!(
                "{column} = {} ({}{first}): put it into when or unless, or the file is refused",
                quoted(&value.text),
                rows_of(&[value]),
            ));
        }
        for (column, values) in others.iter().take(CHOICES) {
            self.doubt(&format!(
                "{column} may decide, too: {}",
                with_counts(values)
            ));
        }
    }

    /// Names what may say which rows count.
    fn choose_rows(&mut self, small: &[Small]) {
        for (column, values) in small.iter().take(CHOICES) {
            let all: Vec<&Value> = values.iter().collect();
            self.ask(&condition("when", column, &all), &with_counts(values));
        }
        self.ask("rows = \"all\"", "if every row lists its sender");
    }

    /// Returns what the first row is; nothing for JSON.
    fn first(&self) -> Option<First> {
        match self.survey.kind {
            Kind::Cells { first, .. } => Some(first),
            Kind::Json { .. } => None,
        }
    }

    /// Returns the lines about columns with dates.
    fn dates(&mut self, entry: usize) -> String {
        let mut settings = Vec::new();
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
            let note = format!("{} filled", grouped(column.filled));
            settings.push((format!("{setting} = {}", column.as_value), note, *count > 1));
            if *count == 1 {
                never.extend(others.iter().map(|text| quoted(text)));
                common = Some(match common {
                    None => formats,
                    Some(mut common) => {
                        common.retain(|format| formats.contains(format));
                        common
                    }
                });
            }
        }
        settings.extend(date_formats(&common.unwrap_or_else(|| vec![""])));
        if !never.is_empty() {
            never.sort();
            never.dedup();
            let note = "no date, so for good?".to_owned();
            settings.push((format!("never = [{}]", never.join(", ")), note, true));
        }
        let mut toml = String::new();
        for (setting, note, asks) in settings {
            self.made.is_open |= asks;
            let sign = if asks { "# " } else { "" };
            line(&mut toml, &format!("{sign}{setting}"), &note);
        }
        toml
    }
}

/// A setting, its note, and whether somebody must decide.
type Setting = (String, String, bool);

/// Returns the settings for dates that each of these formats reads.
fn date_formats(formats: &[&str]) -> Vec<Setting> {
    let (note, asks) = match formats {
        ["", ..] => return Vec::new(),
        [_] => ("fits every date", false),
        [] => ("these columns have dates of different forms", true),
        _ => ("fits every date, as others do", true),
    };
    let formats = if formats.is_empty() {
        &["..."]
    } else {
        formats
    };
    let setting = |format: &&str| format!("date_format = {}", quoted(format));
    let formats = formats.iter();
    formats
        .map(|format| (setting(format), note.to_owned(), asks))
        .collect()
}

/// Returns whether a value is one of these words.
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
    let counts: Vec<String> = values
        .iter()
        .map(|value| format!("{} ({})", quoted(&value.text), grouped(value.count)))
        .collect();
    counts.join(", ")
}

fn rows_of(values: &[&Value]) -> String {
    counted(values.iter().map(|value| value.count).sum(), "row", "rows")
}

fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// Returns whether a name has one of these words.
fn has_word(name: &str, words: &str) -> bool {
    let name = name.to_lowercase();
    name.split(|c: char| !c.is_alphanumeric())
        .any(|word| is_one_of(word, words))
}
