//! From what is declared to how a file is read, decided before its first row: finds the columns and
//! paths of the declaration in the beginning of the file.

use std::cell::Cell;
use std::sync::Arc;

use super::declared::Declared;
use super::profiles;
use crate::list::detect::detect;
use crate::list::registry::{Cut, Format, Purpose};
use crate::list::row::{Refusal, entry};
use crate::list::table::dates::Dates;
use crate::list::table::json::check_lines;
use crate::list::table::path::{Paths, Step, steps};
use crate::list::table::rules::{Condition, Rules};
use crate::list::table::text::{Text, decoded};
use crate::list::table::{Columns, Source, Table};
use crate::list::text::BOM;
use crate::list::text::cells::{Cells, record_length, without_line_end};
use crate::list::text::json::{Value, unescaped};
use crate::settings::nearest;
use crate::unpack::is_text;

/// How one file is read: its format, and for a table which of its columns or keys count.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The format.
    pub format: Format,
    /// What decided it.
    pub why: Why,
    /// For a table, how its rows are read. `None` for every other format.
    pub table: Option<Arc<Table>>,
    /// Whether a domain stands for its subdomains, too.
    pub subdomains: bool,
    /// What it is read for.
    pub purpose: Purpose,
}

/// What decided how a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// An option, or the program itself.
    Given,
    /// `list.toml`.
    Declared,
    /// The published form of a product's export, by its name.
    Profile(&'static str),
    /// A mark that only this format has.
    Mark(&'static str),
    /// Nothing: no mark of any format.
    NoMark,
}

impl Reading {
    /// Returns the reading of a format that was given and needs no table.
    #[must_use]
    pub fn given(format: Format) -> Self {
        Self {
            format,
            why: Why::Given,
            table: None,
            subdomains: false,
            purpose: Purpose::List,
        }
    }

    /// Returns the reading of a whitelist.
    #[must_use]
    pub fn whitelist() -> Self {
        Self {
            purpose: Purpose::Whitelist,
            ..Self::given(Format::Plain)
        }
    }

    /// Returns what finds where the list can be cut, so that several readers read its parts at once:
    /// the length of the whole records at the start of its next bytes, if there are some. `None` if it
    /// is read from its start to its end.
    #[must_use]
    pub fn cut(&self) -> Option<Cut> {
        self.format.registered().cut()
    }
}

impl Why {
    /// Returns whether a person or a profile chose the format. What looks like another one is then
    /// a rejected line; otherwise it refuses the file.
    #[must_use]
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Given | Self::Declared | Self::Profile(_))
    }
}

/// Decides how a list is read that begins with `head` (up to 64 KiB); `is_whole` tells whether
/// that is all of it.
///
/// # Errors
/// When the list is not read; the refusal says what was found and what to do.
pub fn reading(head: &[u8], is_whole: bool, declared: &Declared) -> Result<Reading, Refusal> {
    if !is_text(head) {
        return Err(Refusal::NotAList {
            what: "a binary file",
            remedy: "is it compressed twice, encrypted, or another kind of file?",
        });
    }
    if let Err((setting, why)) = declared.check() {
        return Err(mapping(format!("{setting}: {why}")));
    }
    let (format, why) = format(head, is_whole, declared)?;
    let table = match format {
        Format::Csv => Some(csv(head, is_whole, declared)?),
        Format::Json | Format::JsonLines => Some(json(head, format, declared)?),
        _ => None,
    };
    let (table, profile) = table.unzip();
    Ok(Reading {
        format,
        why: profile.flatten().map_or(why, Why::Profile),
        table: table.map(Arc::new),
        subdomains: declared.subdomains.unwrap_or(false),
        purpose: Purpose::List,
    })
}

/// Decides which format the list has, and what decides it.
pub(crate) fn format(
    head: &[u8],
    is_whole: bool,
    declared: &Declared,
) -> Result<(Format, Why), Refusal> {
    if let Some(format) = declared.format {
        return Ok(match declared.is_in_file {
            true => (format, Why::Declared),
            false => (format, Why::Given),
        });
    }
    let has_columns = declared.is_of_table();
    match detect(head, is_whole) {
        Ok((format, mark)) if format.is_table() || !has_columns => {
            Ok((format, mark.map_or(Why::NoMark, Why::Mark)))
        }
        Err(refusal) if !has_columns || matches!(refusal, Refusal::NotAList { .. }) => Err(refusal),
        // Only a table has columns.
        _ => Ok((Format::Csv, Why::Declared)),
    }
}

fn mapping(why: impl Into<Box<str>>) -> Refusal {
    Refusal::Mapping(why.into())
}

type Resolved = (Table, Option<&'static str>);

/// Returns a declaration with that of the profile of a table, if it names no entry itself.
fn with_profile(
    is_json: bool,
    names: &[String],
    declared: &Declared,
) -> (Declared, Option<&'static str>) {
    match profiles::find(is_json, names).filter(|_| declared.entry.is_empty()) {
        Some(profile) => (declared.clone().or(&profile.declared), Some(&profile.name)),
        None => (declared.clone(), None),
    }
}

fn csv(head: &[u8], is_whole: bool, declared: &Declared) -> Result<Resolved, Refusal> {
    let Some(record) = first_record(head, is_whole)? else {
        return Ok((Table::default(), None));
    };
    let separator = match declared.separator {
        Some(separator) => separator,
        None => separator_of(record)?,
    };
    let mut cells = Cells::default();
    cells.find(record, separator).map_err(|_| Refusal::Quote)?;
    let width = cells.count();
    let heading = |column| decoded(&cells.get(record, column)).into_owned();
    let headings: Vec<String> = (0..width).map(heading).collect();
    let (declared, profile) = &with_profile(false, &headings, declared);
    let undeclared = || {
        let columns = shown(&headings);
        Refusal::Table(format!("a table with the columns {columns}: say which column").into())
    };
    let is_alone = width == 1 && !declared.is_of_table();
    if is_alone && declared.format.is_none() {
        // One column and nothing else: a first line that is no entry may be a heading.
        entry::read(&cells.get(record, 0)).map_err(|_| undeclared())?;
    }
    if !is_alone && (declared.entry.is_empty() || width > 1 && !declared.has_rule()) {
        return Err(undeclared());
    }
    let has_heading = Cell::new(false);
    let mut values = Vec::new();
    let find = |column: &str| {
        has_heading.set(has_heading.get() || !is_number(column));
        column_number(column, &headings)
    };
    let rules = rules(declared, &mut values, find)?;
    let entry = declared.entry.iter().map(|column| find(column));
    let entry = entry.collect::<Result<Vec<usize>, Refusal>>()?;
    let source = Source::Columns(Columns {
        separator,
        width,
        entry: if is_alone { vec![0] } else { entry },
        has_heading: has_heading.get(),
        values,
        is_undeclared: is_alone,
    });
    Ok((Table { source, rules }, *profile))
}

fn first_record(head: &[u8], is_whole: bool) -> Result<Option<&[u8]>, Refusal> {
    let mut rest = head.strip_prefix(BOM).unwrap_or(head);
    loop {
        let length = match record_length(rest) {
            Some(length) => length,
            None if is_whole && !rest.contains(&b'\n') => rest.len(),
            None => return Err(Refusal::Quote),
        };
        let (record, after) = rest.split_at(length);
        let record = without_line_end(record);
        if !record.trim_ascii().is_empty() {
            return Ok(Some(record));
        }
        if after.is_empty() {
            return Ok(None);
        }
        rest = after;
    }
}

/// Returns what divides the columns of the first record.
pub(crate) fn separator_of(record: &[u8]) -> Result<u8, Refusal> {
    let mut is_quoted = false;
    let mut found = record.iter().filter(|&&byte| {
        is_quoted ^= byte == b'"';
        !is_quoted && matches!(byte, b',' | b';' | b'\t')
    });
    let first = *found.next().unwrap_or(&b',');
    match found.all(|other| *other == first) {
        true => Ok(first),
        false => Err(mapping(
            "the first line has several of comma, semicolon and tab: say which one divides the columns, with separator",
        )),
    }
}

fn is_number(column: &str) -> bool {
    column.bytes().all(|byte| byte.is_ascii_digit())
}

fn shown_column(column: &str) -> String {
    match is_number(column) {
        true => format!("column {column}"),
        false => column.to_owned(),
    }
}

fn column_number(column: &str, headings: &[String]) -> Result<usize, Refusal> {
    if is_number(column) {
        let width = headings.len();
        let wrong = || format!("there is no column {column}; the first line has {width}");
        return match column.parse::<usize>() {
            Ok(number @ 1..) if number <= width => Ok(number - 1),
            _ => Err(mapping(wrong())),
        };
    }
    let wanted = Text::new(column);
    let mut found = (0..headings.len()).filter(|&at| Text::new(&headings[at]) == wanted);
    match (found.next(), found.next()) {
        (Some(number), None) => Ok(number),
        (Some(_), Some(_)) => Err(mapping(format!(
            "the heading \"{column}\" is there twice, so that it is unclear which column is meant; rename one, or give the columns numbers"
        ))),
        (None, _) => {
            let names: Vec<&str> = headings.iter().map(String::as_str).collect();
            let hint = nearest(column, &names).map_or_else(String::new, |name| {
                format!(" (did you mean \"{}\"?)", name.escape_debug())
            });
            Err(mapping(format!(
                "no column has the heading \"{column}\"{hint}. The first line is: {}",
                shown(headings)
            )))
        }
    }
}

/// Most names that a message shows, and the longest.
const SHOWN: usize = 12;
const SHOWN_CHARS: usize = 40;

fn shown(names: &[String]) -> String {
    let name = |name: &String| {
        let chars = name.chars().take(SHOWN_CHARS);
        chars.flat_map(char::escape_debug).collect()
    };
    let mut shown: Vec<String> = names.iter().take(SHOWN).map(name).collect();
    if names.len() > SHOWN {
        shown.push(format!("and {} more", names.len() - SHOWN));
    }
    shown.join(", ")
}

/// Finds the values of a row. `find` returns where a column is; `places` are those of the values.
fn rules<P: PartialEq>(
    declared: &Declared,
    places: &mut Vec<P>,
    find: impl Fn(&str) -> Result<P, Refusal>,
) -> Result<Rules, Refusal> {
    let mut value = |column: &str| -> Result<usize, Refusal> {
        let place = find(column)?;
        let known = places.iter().position(|other| *other == place);
        Ok(known.unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        }))
    };
    let texts = |values: &[String]| values.iter().map(|value| Text::new(value)).collect();
    let when =
        (declared.when.iter()).map(|(column, values)| (column, texts(values), Vec::new(), None));
    let unless = declared.unless.iter();
    let unless = unless.map(|(column, values)| (column, Vec::new(), texts(values), None));
    let at_least = declared.at_least.iter();
    let at_least = at_least.map(|(column, least)| (column, Vec::new(), Vec::new(), Some(*least)));
    let mut conditions: Vec<Condition> = Vec::new();
    for (column, when, unless, at_least) in when.chain(unless).chain(at_least) {
        let value = value(column)?;
        let known = conditions.iter().position(|other| other.value == value);
        let at = known.unwrap_or(conditions.len());
        if known.is_none() {
            conditions.push(Condition {
                value,
                name: shown_column(column).into(),
                ..Condition::default()
            });
        }
        let condition = &mut conditions[at];
        condition.when.extend(when);
        condition.unless.extend(unless);
        condition.at_least = at_least.or(condition.at_least);
    }
    let added = declared.added_in.as_deref().map(&mut value).transpose()?;
    let expires = declared.expires_in.as_deref().map(&mut value).transpose()?;
    Ok(Rules {
        conditions,
        has_rule: declared.has_rule(),
        added,
        expires,
        dates: Dates {
            format: declared.date_format.clone(),
            never: texts(&declared.never),
        },
    })
}

fn json(head: &[u8], format: Format, declared: &Declared) -> Result<Resolved, Refusal> {
    let keys = keys(head)?;
    let (declared, profile) = &with_profile(true, &keys, declared);
    let path = |written: &str| steps(written).map_err(mapping);
    if declared.entry.is_empty() {
        if declared.is_of_table() || format == Format::JsonLines || !is_array_of_strings(head) {
            let what = match keys.is_empty() {
                true => "JSON that is no array of strings: say which key".to_owned(),
                false => format!("JSON with the keys {}: say which key", shown(&keys)),
            };
            return Err(Refusal::Table(what.into()));
        }
        let source = Source::Paths(Paths {
            entries: vec![vec![Step::Each]],
            values: Vec::new(),
            is_undeclared: true,
        });
        let rules = Rules::default();
        return Ok((Table { source, rules }, None));
    }
    let mut values: Vec<Vec<Step>> = Vec::new();
    let rules = rules(declared, &mut values, path)?;
    let entries: Result<Vec<_>, _> = declared.entry.iter().map(|entry| path(entry)).collect();
    let entries = entries?;
    let has_names = entries.iter().any(|entry| entry.ends_with(&[Step::Names]));
    if has_names && !declared.has_rule() {
        return Err(Refusal::Table(
            "JSON with values beside the keys that are entries: say which key".into(),
        ));
    }
    let source = Source::Paths(Paths::new(entries, &values).map_err(mapping)?);
    let table = Table { source, rules };
    if format == Format::JsonLines {
        // The last line may be cut off.
        let end = memchr::memrchr(b'\n', head).unwrap_or(head.len());
        check_lines(&table, head.get(..end).unwrap_or(head))?;
    }
    Ok((table, *profile))
}

/// Returns whether JSON begins as an array of strings does, or is an empty array.
fn is_array_of_strings(head: &[u8]) -> bool {
    let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    let inner = text.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    inner.is_some_and(|inner| matches!(inner.first(), Some(b'"' | b']')))
}

/// Returns the keys of the first object that JSON begins with, perhaps in an array.
fn keys(head: &[u8]) -> Result<Vec<String>, Refusal> {
    let mut value = Value::of(head);
    loop {
        match value {
            Value::Members(members) if members.is_object => {
                let keys = members.filter_map(|(key, _)| key);
                let keys = keys.map(|key| decoded(&unescaped(key)).into_owned());
                return Ok(keys.collect());
            }
            Value::Members(mut members) => match members.next() {
                Some((_, first)) => value = Value::of(first),
                None => return Ok(Vec::new()),
            },
            Value::Text(_) => return Ok(Vec::new()),
            Value::Other(text) => {
                let is_json = text.first().is_none_or(|b| b"-0123456789tfn".contains(b));
                return is_json.then(Vec::new).ok_or(Refusal::NotJson);
            }
        }
    }
}
