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

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::journal;
use crate::screen::{DECISION, Field};

/// The name of the daemon in syslog and in the journal.
const PROGRAM: &str = "blocklist-milter";

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Error,
    Warn,
    Info,
    Detail,
}

impl Level {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "ERROR" => Some(Self::Error),
            "WARN" => Some(Self::Warn),
            "INFO" => Some(Self::Info),
            "DEBUG" | "TRACE" => Some(Self::Detail),
            _ => None,
        }
    }
}

/// A line of the daemon's log.
#[derive(Debug)]
pub(super) struct LogLine<'a> {
    /// Seconds since 1970, if the line has a time.
    pub(super) at: Option<i64>,
    pub(super) level: Level,
    pub(super) what: What<'a>,
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum What<'a> {
    Decision(Box<Decision<'a>>),
    /// Any other text.
    Event(Cow<'a, str>),
}

/// The fields of a decision. Fields that the line does not have are empty.
#[derive(Debug, Default)]
pub(super) struct Decision<'a> {
    values: [Cow<'a, str>; Field::ALL.len()],
}

impl<'a> Decision<'a> {
    pub(super) fn get(&self, field: Field) -> &str {
        self.values.get(field as usize).map_or("", |value| value)
    }

    /// Returns whether the daemon can have written it: each decision says what was done, and whose
    /// address a list matched.
    fn is_whole(&self) -> bool {
        let has = |field| !self.get(field).is_empty();
        has(Field::Action) && (has(Field::Address) || !has(Field::List))
    }

    fn set(&mut self, field: Field, value: Cow<'a, str>) {
        if let Some(place) = self.values.get_mut(field as usize) {
            *place = value;
        }
    }
}

/// Passes a line to `each`, if it is the daemon's; returns whether it is. `now` completes dates
/// without a year.
pub(super) fn parse(line: &str, now: i64, each: impl FnOnce(LogLine<'_>)) -> bool {
    let line = line.trim_end();
    if !journal::is_json(line)
        && let Some(found) = daemon_line(line, now)
    {
        each(found);
        return true;
    }
    let entry = journal::entry(line, now);
    if entry.program.is_some_and(|program| program != PROGRAM) {
        return false;
    }
    let Some(found) = daemon_line(&entry.text, now) else {
        return false;
    };
    each(LogLine {
        at: entry.at.or(found.at),
        ..found
    });
    true
}

/// Reads a line as the daemon wrote it.
fn daemon_line(line: &str, now: i64) -> Option<LogLine<'_>> {
    if line.trim_start().starts_with('{') {
        return Object::read(line)?.into_line();
    }
    let (at, rest) = match journal::read_time(line, now) {
        Some((at, rest)) => (Some(at), rest),
        None => (None, line),
    };
    let (level, rest) = level(rest)?;
    let fields = rest
        .strip_prefix(DECISION)
        .and_then(|rest| rest.strip_prefix(' '));
    let decision = fields.and_then(read_fields).filter(Decision::is_whole);
    Some(LogLine {
        at,
        level,
        what: match decision {
            Some(decision) => What::Decision(Box::new(decision)),
            None => What::Event(rest.into()),
        },
    })
}

/// Returns the level at the start of a line, and the text after it.
fn level(rest: &str) -> Option<(Level, &str)> {
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('<') {
        // The priority for the journal, if another program has read the output.
        Some(_) => rest.get(3..)?.trim_start(),
        None => rest,
    };
    let (name, rest) = rest.split_once(' ')?;
    Some((Level::from_name(name)?, rest.trim_start()))
}

/// Reads `name=value name="value"`; returns `None` for any other text.
fn read_fields(mut rest: &str) -> Option<Decision<'_>> {
    let mut decision = Decision::default();
    while !rest.is_empty() {
        let (name, after) = rest.split_at(memchr::memchr(b'=', rest.as_bytes())?);
        let after = after.strip_prefix('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => {
                let end = end_of_quoted(quoted);
                let (value, after) = quoted.split_at(end);
                (unescaped(value), after.strip_prefix('"').unwrap_or(after))
            }
            None => {
                let end = memchr::memchr(b' ', after.as_bytes()).unwrap_or(after.len());
                let (value, after) = after.split_at(end);
                (Cow::Borrowed(value), after)
            }
        };
        if let Some(field) = Field::from_name(name) {
            decision.set(field, value);
        }
        rest = after.trim_start();
    }
    Some(decision)
}

/// Returns the position of the closing quote.
fn end_of_quoted(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

/// Reverses the escaping of `{:?}`.
fn unescaped(text: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let mut chars = after.chars();
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('0') => out.push('\0'),
            Some(same @ ('"' | '\\' | '\'')) => out.push(same),
            other => {
                out.push('\\');
                out.extend(other);
            }
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// A JSON object of the log.
#[derive(Default)]
struct Object<'a> {
    at: Option<i64>,
    level: Option<Level>,
    text: Cow<'a, str>,
    decision: Decision<'a>,
    /// Fields that decisions do not have.
    others: String,
}

impl<'a> Object<'a> {
    fn read(line: &'a str) -> Option<Self> {
        serde_json::Deserializer::from_str(line)
            .deserialize_map(ObjectVisitor)
            .ok()
    }

    fn into_line(self) -> Option<LogLine<'a>> {
        let what = if self.text == DECISION && self.decision.is_whole() {
            What::Decision(Box::new(self.decision))
        } else {
            What::Event(format!("{}{}", self.text, self.others).into())
        };
        Some(LogLine {
            at: self.at,
            level: self.level?,
            what,
        })
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of the log")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object::default();
        while let Some((key, value)) = map.next_entry::<Value<'_>, Value<'_>>()? {
            let (key, value) = (key.text(), value.text());
            if let Some(field) = Field::from_name(&key) {
                if object.text != DECISION {
                    add_other(&mut object.others, &key, &value);
                }
                object.decision.set(field, value);
                continue;
            }
            match &*key {
                "timestamp" => object.at = journal::read_iso(&value),
                "level" => object.level = Level::from_name(&value),
                "message" => object.text = value,
                _ => add_other(&mut object.others, &key, &value),
            }
        }
        Ok(object)
    }
}

/// Adds a value of an event, as the text form shows it. Stops at a length that nobody would read.
fn add_other(out: &mut String, key: &str, value: &str) {
    const MAX: usize = 512;
    if out.len() < MAX && !value.is_empty() {
        out.extend([" ", key, "="]);
        out.push_str(value);
    }
}

/// A value.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Bool(bool),
    Number(serde_json::Number),
    /// Null, an array or an object.
    Other(IgnoredAny),
}

impl<'a> Value<'a> {
    /// Returns it as text; empty for an array or an object.
    fn text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text,
            Self::Bool(value) => value.to_string().into(),
            Self::Number(number) => number.to_string().into(),
            Self::Other(_) => Cow::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1795310000; // 2026-11-22T01:13:20Z

    fn decision(line: &str) -> Option<(Option<i64>, String)> {
        let mut found = None;
        parse(line, NOW, |line| {
            if let What::Decision(decision) = line.what {
                let fields = [Field::QueueId, Field::Address, Field::Action];
                let values = fields.map(|field| decision.get(field).to_owned());
                found = Some((line.at, values.join(" ")));
            }
        });
        found
    }

    #[test]
    fn the_same_decision_is_read_from_every_form_of_the_log() {
        let fields = r#"message queue_id=4Xy address="a \"b\" action=accept\\" action=reject us=7"#;
        let json = r#""level":"INFO","message":"message","queue_id":"4Xy","address":"a \"b\" action=accept\\","action":"reject","us":7}"#;
        let at = Some(1795269802); // 2026-11-21T14:03:22Z
        let expected = r#"4Xy a "b" action=accept\ reject"#;
        let quoted = format!(" INFO {fields}")
            .replace('\\', "\\\\")
            .replace('"', "\\\"");
        for (line, at) in [
            (
                format!("2026-11-21T14:03:22.123456Z  INFO {fields}\r\n"),
                at,
            ),
            (format!(" INFO {fields}"), None),
            (format!("<6> INFO {fields}"), None),
            (
                format!("Nov 21 14:03:22 mx blocklist-milter[7]:  INFO {fields}"),
                at,
            ),
            (
                format!("2026-11-21T15:03:22+01:00 mx blocklist-milter[7]: INFO {fields}"),
                at,
            ),
            (
                format!("2026-11-21T13:03:22.5-0100 mx blocklist-milter: DEBUG {fields}"),
                at,
            ),
            (
                format!("{{\"timestamp\":\"2026-11-21T14:03:22.123456Z\",{json}"),
                at,
            ),
            (
                format!(
                    r#"{{"MESSAGE":"{quoted}","_PID":"7","__REALTIME_TIMESTAMP":"1795269802123456","SYSLOG_IDENTIFIER":"blocklist-milter"}}"#
                ),
                at,
            ),
        ] {
            assert_eq!(decision(&line), Some((at, expected.to_owned())), "{line}");
        }
    }

    #[test]
    fn lines_of_others_are_not_read() {
        let fields = "message queue_id=4Xy action=reject";
        for line in [
            format!("Nov 21 14:03:22 mx postfix/smtpd[7]:  INFO {fields}"),
            format!("Nov 21 14:03:22 mx postfix/smtpd[7]: x blocklist-milter[7]: INFO {fields}"),
            format!(r#"{{"MESSAGE":" INFO {fields}","SYSLOG_IDENTIFIER":"sshd"}}"#),
            format!("mx blocklist-milter[7]: INFO {fields}"),
            // Cut off, or not the daemon's: no sender is named, or no action was taken.
            " INFO message queue_id=4Xy list=spam action=reject".to_owned(),
            " INFO message queue_id=4Xy address=a@b.example list=spam".to_owned(),
            r#"{"level":"INFO","message":"message","list":"spam","action":"reject"}"#.to_owned(),
            "INFO".to_owned(),
            "<".to_owned(),
            "{".to_owned(),
            r#"{"level":7,"message":{"a":[{}]}}"#.to_owned(),
            String::new(),
        ] {
            assert_eq!(decision(&line), None, "{line}");
        }
    }
}
