//! One line of the daemon's log, in every form in which an administrator may have it.
//!
//! ```text
//! 2026-11-21T14:03:22.123456Z  INFO message queue_id=4Xy client=...        format = "text"
//! {"timestamp":"...","level":"INFO","message":"message","queue_id":...}    format = "json"
//!  INFO message queue_id=...                                               journalctl -o cat
//! Nov 21 14:03:22 mx blocklist-milter[7]:  INFO message queue_id=...       journalctl, syslog
//! 2026-11-21T14:03:22+01:00 mx blocklist-milter[7]:  INFO message ...      journalctl -o short-iso, rsyslog
//! {"__REALTIME_TIMESTAMP":"...","MESSAGE":" INFO message ..."}             journalctl -o json
//! ```
//!
//! A line is read from its start: a sender's text is always inside a value, and cannot be taken for
//! a line.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use tracing::Level;

use crate::journal;
use crate::screen::{DECISION, Field};

/// The name of the daemon in syslog and in the journal.
const PROGRAM: &str = "blocklist-milter";

#[derive(Debug)]
pub(super) struct LogLine {
    /// Seconds since 1970, if the line has a time.
    pub(super) at: Option<i64>,
    pub(super) level: Level,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Decision(Box<Decision>),
    /// Any other text.
    Event(String),
}

/// The fields of a decision. Fields that the line does not have are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    values: [String; Field::ALL.len()],
}

impl Decision {
    /// Returns the value of a field, as in the log.
    pub(crate) fn get(&self, field: Field) -> &str {
        self.values.get(field as usize).map_or("", |value| value)
    }

    /// Returns whether the daemon can have written it: each decision says what was done, and whose
    /// address a list matched.
    fn is_whole(&self) -> bool {
        let has = |field| !self.get(field).is_empty();
        has(Field::Action) && (has(Field::Address) || !has(Field::List))
    }

    fn set(&mut self, field: Field, value: String) {
        if let Some(place) = self.values.get_mut(field as usize) {
            *place = value;
        }
    }
}

/// As an object with the names of the log.
impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in Field::ALL {
            match field {
                // Those about one line of several, and one that is a truth value there.
                Field::Messages | Field::Recipient | Field::Proved | Field::Us => {}
                field => map.serialize_entry(field.name(), self.get(field))?,
            }
        }
        map.end()
    }
}

/// Reads a line, if it is the daemon's. `now` completes dates without a year.
pub(super) fn parse(line: &str, now: i64) -> Option<LogLine> {
    let line = line.trim_end();
    if !journal::is_json(line)
        && let Some(found) = daemon_line(line, now)
    {
        return Some(found);
    }
    let entry = journal::entry(line, now);
    if entry.program.is_some_and(|program| program != PROGRAM) {
        return None;
    }
    let found = daemon_line(&entry.text, now)?;
    let at = entry.at.or(found.at);
    Some(LogLine { at, ..found })
}

/// Reads a line as the daemon wrote it.
fn daemon_line(line: &str, now: i64) -> Option<LogLine> {
    if line.trim_start().starts_with('{') {
        return object(&serde_json::from_str(line).ok()?);
    }
    let (at, rest) = journal::read_time(line, now);
    let mut rest = rest.trim_start();
    if rest.starts_with('<') {
        // The priority for the journal, if another program has read the output.
        rest = rest.get(3..)?.trim_start();
    }
    let (name, rest) = rest.split_once(' ')?;
    let (level, rest) = (level(name)?, rest.trim_start());
    let fields = rest.strip_prefix(DECISION);
    let fields = fields.and_then(|rest| rest.strip_prefix(' '));
    let decision = fields.and_then(read_fields).filter(Decision::is_whole);
    let what = match decision {
        Some(decision) => What::Decision(Box::new(decision)),
        None => What::Event(rest.to_owned()),
    };
    Some(LogLine { at, level, what })
}

/// Reads `format = "json"`.
fn object(object: &Map<String, Value>) -> Option<LogLine> {
    /// Stops at a length that nobody would read.
    const MAX: usize = 512;
    let mut decision = Decision::default();
    let mut others = String::new();
    for (name, value) in object {
        let value = text(value);
        if let Some(field) = Field::from_name(name) {
            decision.set(field, value.clone());
        }
        let is_other = !["timestamp", "level", "message"].contains(&&**name);
        if is_other && others.len() < MAX && !value.is_empty() {
            others.extend([" ", name, "=", &value]);
        }
    }
    let get = |name| object.get(name).map(text).unwrap_or_default();
    let message = get("message");
    let what = match message == DECISION && decision.is_whole() {
        true => What::Decision(Box::new(decision)),
        false => What::Event(message + &others),
    };
    Some(LogLine {
        at: journal::read_iso(&get("timestamp")),
        level: level(&get("level"))?,
        what,
    })
}

/// Returns a value as text; empty for null, an array or an object.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

fn level(name: &str) -> Option<Level> {
    // It would take lower case and numbers, too.
    let level = name.parse().ok();
    level.filter(|level: &Level| level.as_str() == name)
}

/// Reads `name=value name="value"`; returns `None` for any other text.
fn read_fields(mut rest: &str) -> Option<Decision> {
    let mut decision = Decision::default();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => read_quoted(quoted),
            None => {
                let (value, after) = after.split_once(' ').unwrap_or((after, ""));
                (value.to_owned(), after)
            }
        };
        if let Some(field) = Field::from_name(name) {
            decision.set(field, value);
        }
        rest = after.trim_start();
    }
    Some(decision)
}

/// Reads up to the closing quote, and reverses the escaping of `{:?}`. Returns the value, and what follows.
fn read_quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
        let (before, after) = rest.split_at(at);
        value += before;
        if let Some(after) = after.strip_prefix('"') {
            return (value, after);
        }
        let mut chars = after.chars();
        chars.next();
        match chars.next() {
            Some('n') => value.push('\n'),
            Some('r') => value.push('\r'),
            Some('t') => value.push('\t'),
            Some('0') => value.push('\0'),
            Some(same @ ('"' | '\\' | '\'')) => value.push(same),
            other => {
                value.push('\\');
                value.extend(other);
            }
        }
        rest = chars.as_str();
    }
    (value + rest, "")
}
