//! A declaration to propose for a table: a `[[file]]` for the `list.toml` of its folder.
//!
//! What follows from the values alone is filled in. English words are used to fill in more, but only
//! where nothing contradicts; the owner reads and completes it. Whatever is in doubt is a comment, so
//! that the file stays refused until somebody has decided it.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use super::column::{Column, Value};
use super::survey::{Kind, Survey};
use crate::base::replacement::Replacement;
use crate::compile::Error;
use crate::list::{LIST_TOML, ListToml, Refusal};

/// Words that say that a row lists a sender.
const LISTS: &[&str] = &[
    "ban",
    "banned",
    "black",
    "blacklist",
    "blacklisted",
    "block",
    "blocked",
    "blocklist",
    "blocklisted",
    "denied",
    "deny",
    "discard",
    "drop",
    "reject",
    "rejected",
];
/// Words that say that it does not.
const CLEARS: &[&str] = &[
    "accept",
    "accepted",
    "allow",
    "allowed",
    "allowlist",
    "exempt",
    "permit",
    "permitted",
    "safe",
    "safelist",
    "trusted",
    "white",
    "whitelist",
    "whitelisted",
];
/// Words that may say whether a row counts, in a way that depends on the column.
const SWITCHES: &[&str] = &[
    "0", "1", "active", "archived", "closed", "deleted", "disabled", "enabled", "expired", "false",
    "inactive", "no", "off", "on", "open", "removed", "true", "yes",
];
/// Words in the heading of the column with the sender, of the day of the end, and of the day of adding.
const SENDERS: &[&str] = &["sender", "spammer", "from"];
const ENDS: &[&str] = &[
    "expire",
    "expires",
    "expiry",
    "expiration",
    "remove",
    "until",
];
const ADDS: &[&str] = &["added", "created"];

/// Number of columns that are named for a choice.
const CHOICES: usize = 8;

/// A `[[file]]`, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its lines of TOML.
    pub toml: String,
    /// Whether something is left to decide.
    pub is_open: bool,
}

impl Proposal {
    /// Proposes a declaration for a table.
    pub(super) fn new(name: &str, survey: &Survey, refusal: Option<&Refusal>) -> Self {
        let mut draft = Draft {
            toml: format!("[[file]]\nmatch = {}\n", quoted(name)),
            is_open: false,
        };
        draft.separator(survey);
        if let Some(at) = draft.entry(survey) {
            draft.rows(survey, at);
            draft.dates(survey, at);
        }
        // A fault of the text itself cannot be declared away.
        let is_damaged = matches!(
            refusal,
            Some(Refusal::BrokenOff | Refusal::NotJson | Refusal::Quote)
        );
        Self {
            toml: draft.toml,
            is_open: draft.is_open || is_damaged,
        }
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.toml)
    }
}

/// A proposal in progress.
struct Draft {
    toml: String,
    is_open: bool,
}

impl Draft {
    /// Adds a setting, with a note for people.
    fn set(&mut self, setting: &str, note: &str) {
        let _ = writeln!(self.toml, "{setting:<46}  # {note}");
    }

    /// Adds a setting that somebody must decide.
    fn ask(&mut self, setting: &str, note: &str) {
        self.is_open = true;
        let setting = format!("# {setting}");
        let _ = writeln!(self.toml, "{setting:<46}  # {note}");
    }

    fn note(&mut self, note: &str) {
        let _ = writeln!(self.toml, "# {note}");
    }

    fn separator(&mut self, survey: &Survey) {
        if let Kind::Cells {
            separator,
            is_one_of_several: true,
            ..
        } = survey.kind
        {
            let shown = match separator {
                b'\t' => "tab".to_owned(),
                other => char::from(other).to_string(),
            };
            self.set(
                &format!("separator = {}", quoted(&shown)),
                "the first line has others, too",
            );
        }
    }

    /// Names the column with the sender; returns it if it is certain.
    fn entry(&mut self, survey: &Survey) -> Option<usize> {
        let candidates: Vec<usize> = (0..survey.columns.len())
            .filter(|at| column(survey, *at).is_some_and(Column::is_of_entries))
            .collect();
        let by_word: Vec<usize> = candidates
            .iter()
            .copied()
            .filter(|at| column(survey, *at).is_some_and(|column| has_word(&column.key, SENDERS)))
            .collect();
        let chosen = match (candidates.as_slice(), by_word.as_slice()) {
            ([one], _) | (_, [one]) => Some(*one),
            _ => None,
        };
        if let Some(found) = chosen.and_then(|at| column(survey, at)) {
            let place = place(survey, found);
            self.set(
                &format!("entry = {place}"),
                &format!("{} entries", found.entries),
            );
            return chosen;
        }
        // Others than those that are nothing else, if there are none.
        let mut perhaps: Vec<&Column> = match candidates.is_empty() {
            true => survey
                .columns
                .iter()
                .filter(|column| column.entries > 0)
                .collect(),
            false => candidates
                .iter()
                .filter_map(|at| column(survey, *at))
                .collect(),
        };
        perhaps.sort_by_key(|column| std::cmp::Reverse(column.entries));
        if perhaps.is_empty() {
            self.is_open = true;
            self.note("entry = ...  no column has entries: name the one that has");
        }
        for column in perhaps.iter().take(CHOICES) {
            let place = place(survey, column);
            let note = format!(
                "{} of {} are entries: the sender?",
                column.entries, column.filled
            );
            self.ask(&format!("entry = {place}"), &note);
        }
        self.note("and which rows count: when, unless, at_least or rows = \"all\"");
        None
    }

    /// Names the rows that count.
    fn rows(&mut self, survey: &Survey, entry: usize) {
        if survey.columns.len() == 1 && matches!(survey.kind, Kind::Cells { .. }) {
            return;
        }
        let beside = beside(survey, entry);
        let small: Vec<(&Column, Vec<Value>)> = beside
            .iter()
            .filter(|column| column.dates().is_none())
            .filter_map(|column| Some((*column, column.values()?)))
            .collect();
        let is_of =
            |value: &Value, words: &[&str]| words.contains(&value.text.to_lowercase().as_str());
        let known = |values: &[Value]| {
            values
                .iter()
                .any(|value| is_of(value, LISTS) || is_of(value, CLEARS))
        };
        let deciding: Vec<_> = small.iter().filter(|(_, values)| known(values)).collect();
        let switches = small.iter().any(|(_, values)| {
            values.len() > 1 && values.iter().any(|value| is_of(value, SWITCHES))
        });
        if let [(column, values)] = deciding.as_slice() {
            let (lists, others): (Vec<&Value>, Vec<&Value>) =
                values.iter().partition(|value| is_of(value, LISTS));
            let (clears, open): (Vec<&Value>, Vec<&Value>) =
                others.into_iter().partition(|value| is_of(value, CLEARS));
            // Only with both is a value of neither refused.
            let is_certain =
                !switches && !lists.is_empty() && (open.is_empty() || !clears.is_empty());
            for (setting, values, what) in [
                ("when", &lists, "listed"),
                ("unless", &clears, "not listed"),
            ] {
                if values.is_empty() {
                    continue;
                }
                let setting = condition(survey, setting, column, values);
                let note = format!("{what}: {}", rows_of(values));
                match is_certain {
                    true => self.set(&setting, &note),
                    false => self.ask(&setting, &note),
                }
            }
            for value in open {
                self.is_open = true;
                self.note(&format!(
                    "{} = {} ({}, first in line {}): put it into when or unless, or the file is refused",
                    name(survey, column), quoted(&value.text), rows_of(&[value]), value.line,
                ));
            }
        } else if small.is_empty() {
            self.ask("rows = \"all\"", "if every row lists its sender");
        } else {
            self.note("say which rows count: when (listed) and unless (not), or rows = \"all\"; nothing is chosen for you");
        }
        let is_decided = |column: &Column| {
            deciding.len() == 1
                && deciding
                    .iter()
                    .any(|(decided, _)| decided.name == column.name)
        };
        for (column, values) in small
            .iter()
            .filter(|(column, _)| !is_decided(column))
            .take(CHOICES)
        {
            if deciding.len() == 1 && !switches {
                continue;
            }
            let values: Vec<&Value> = values.iter().collect();
            let counts: Vec<String> = values
                .iter()
                .map(|value| format!("{} {}", quoted(&value.text), value.count))
                .collect();
            self.ask(
                &condition(survey, "when", column, &values),
                &counts.join(", "),
            );
        }
    }

    /// Names the columns with dates.
    fn dates(&mut self, survey: &Survey, entry: usize) {
        let dated: Vec<(&Column, _)> = beside(survey, entry)
            .into_iter()
            .filter_map(|column| Some((column, column.dates()?)))
            .collect();
        let of = |words: &[&str]| -> Vec<_> {
            dated
                .iter()
                .filter(|(column, _)| has_word(&column.key, words))
                .collect()
        };
        let (ends, adds) = (of(ENDS), of(ADDS));
        let mut formats: Vec<&Vec<&str>> = Vec::new();
        let mut never: Vec<&(String, u64)> = Vec::new();
        for (setting, found) in [("expires_in", &ends), ("added_in", &adds)] {
            if let [(column, (own, others))] = found.as_slice() {
                self.set(
                    &format!("{setting} = {}", name(survey, column)),
                    &format!("{} dates", column.filled),
                );
                formats.push(own);
                never.extend(others);
            }
        }
        for (column, (own, _)) in dated.iter().take(CHOICES) {
            let is_named = [&ends, &adds]
                .iter()
                .any(|found| matches!(found.as_slice(), [(named, _)] if named.name == column.name));
            if !is_named {
                let form = own.first().copied().unwrap_or_default();
                let form = if form.is_empty() { "ISO 8601" } else { form };
                self.note(&format!(
                    "{} has dates ({form}): expires_in or added_in, if they are",
                    name(survey, column)
                ));
            }
        }
        let Some(first) = formats.first() else {
            return;
        };
        let common: Vec<&str> = first
            .iter()
            .copied()
            .filter(|format| formats.iter().all(|own| own.contains(format)))
            .collect();
        match common.as_slice() {
            [] => self.ask(
                "date_format = \"...\"",
                "these columns have dates of different forms",
            ),
            [format, ..] if format.is_empty() => {}
            [format] => self.set(
                &format!("date_format = {}", quoted(format)),
                "every date so far",
            ),
            [..] => {
                for format in &common {
                    self.ask(
                        &format!("date_format = {}", quoted(format)),
                        "fits every date so far, as others do",
                    );
                }
            }
        }
        if !never.is_empty() {
            let texts: Vec<String> = never.iter().map(|(text, _)| quoted(text)).collect();
            let count: u64 = never.iter().map(|(_, count)| count).sum();
            // These texts may mean something else.
            let setting = format!("never = [{}]", texts.join(", "));
            self.ask(&setting, &format!("{count} cells: no date, so for good?"));
        }
    }
}

fn column(survey: &Survey, at: usize) -> Option<&Column> {
    survey.columns.get(at)
}

/// Returns the other columns of the same row.
fn beside(survey: &Survey, entry: usize) -> Vec<&Column> {
    let object = column(survey, entry).map(|column| column.object);
    let others = survey.columns.iter().enumerate();
    let others = others.filter(|(at, column)| *at != entry && Some(column.object) == object);
    // A path through an array leads to several values of a row.
    let single = others.filter(|(_, column)| {
        matches!(survey.kind, Kind::Cells { .. }) || column.name.ends_with(&column.key)
    });
    single.map(|(_, column)| column).collect()
}

/// Writes where an entry is.
fn place(survey: &Survey, column: &Column) -> String {
    by_number(survey, column).unwrap_or_else(|| quoted(&column.name))
}

/// Writes the name of a column beside the entry.
fn name(survey: &Survey, column: &Column) -> String {
    by_number(survey, column).unwrap_or_else(|| quoted(&column.key))
}

fn by_number(survey: &Survey, column: &Column) -> Option<String> {
    match survey.kind {
        Kind::Cells {
            has_heading: false, ..
        } => Some(column.name.clone()),
        _ => None,
    }
}

fn condition(survey: &Survey, setting: &str, column: &Column, values: &[&Value]) -> String {
    let key = match column
        .key
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        && !column.key.is_empty()
    {
        true => column.key.clone(),
        false => name(survey, column),
    };
    let values: Vec<String> = values.iter().map(|value| quoted(&value.text)).collect();
    format!("{setting} = {{ {key} = [{}] }}", values.join(", "))
}

fn rows_of(values: &[&Value]) -> String {
    let count = values.iter().map(|value| value.count).sum();
    crate::base::numbers::counted(count, "row", "rows")
}

/// Returns whether a name has one of these words.
fn has_word(name: &str, words: &[&str]) -> bool {
    let name = name.to_lowercase();
    name.split(|c: char| !c.is_alphanumeric())
        .any(|word| words.contains(&word))
}

/// Writes a string of TOML, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control()
                || crate::address::escaped(c.to_string().as_bytes()).to_string()
                    != c.to_string() =>
            {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Adds proposals to the `list.toml` of a folder; what stands in it stays.
///
/// # Errors
/// When it cannot be written, or would have faults.
pub fn write(folder: &Path, proposals: &[&Proposal]) -> Result<(), Error> {
    let path = folder.join(LIST_TOML);
    let replacement = Replacement::claim(&path)?;
    let mut text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Error::io(&path, "read")(error)),
    };
    for proposal in proposals {
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        text.push_str(&proposal.toml);
    }
    ListToml::parse(&text, &path)?;
    replacement
        .file()
        .write_all(text.as_bytes())
        .map_err(Error::io(&path, "write"))?;
    replacement.sync()?;
    Ok(replacement.commit()?)
}
