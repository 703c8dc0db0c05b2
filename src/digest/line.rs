//! One line of the daemon's log, in every form in which an admin may have it.
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
//! A line is read from its start: what a sender wrote stands in a value, and can never be taken for a
//! line of its own.

use std::borrow::Cow;
use std::fmt;

use jiff::civil::Date;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::list::Day;
use crate::screen::{DECISION, Field};

/// The name under which syslog and the journal keep the daemon's lines.
const PROGRAM: &str = "blocklist-milter";
const DAY_S: i64 = 86_400;

/// How severe a line is.
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
    /// Seconds since 1970, if the line says when.
    pub(super) at: Option<i64>,
    pub(super) level: Level,
    pub(super) what: What<'a>,
}

/// What a line is about.
#[derive(Debug)]
pub(super) enum What<'a> {
    Decision(Box<Decision<'a>>),
    /// Anything else, in words.
    Event(Cow<'a, str>),
}

/// The fields of a decision. Those that the line does not have are empty.
#[derive(Debug, Default)]
pub(super) struct Decision<'a> {
    values: [Cow<'a, str>; Field::ALL.len()],
}

impl<'a> Decision<'a> {
    pub(super) fn get(&self, field: Field) -> &str {
        self.values.get(field as usize).map_or("", |value| value)
    }

    fn set(&mut self, field: Field, value: Cow<'a, str>) {
        if let Some(place) = self.values.get_mut(field as usize) {
            *place = value;
        }
    }
}

impl LogLine<'_> {
    /// The day of a time.
    pub(super) fn day(at: i64) -> Option<Day> {
        u16::try_from(at.div_euclid(DAY_S)).ok().map(Day)
    }
}

/// Hands a line over, if it is one of the daemon's; `false` if it is not. `now` completes dates without
/// a year.
pub(super) fn parse(line: &str, now: i64, mut each: impl FnMut(LogLine<'_>)) -> bool {
    let line = line.trim_end();
    if !line.starts_with('{') {
        return parse_text(line, now).map(&mut each).is_some();
    }
    let Some(object) = Object::read(line) else {
        return false;
    };
    let Some(text) = &object.journal_text else {
        return object.into_line().map(&mut each).is_some();
    };
    if !object.is_ours {
        return false;
    }
    let inner = match text.trim_start() {
        json if json.starts_with('{') => Object::read(json).and_then(Object::into_line),
        text => parse_text(text, now),
    };
    inner
        .map(|line| {
            let at = object.journal_at.or(line.at);
            each(LogLine { at, ..line });
        })
        .is_some()
}

fn parse_text(line: &str, now: i64) -> Option<LogLine<'_>> {
    let (mut at, rest) = match read_time(line, now) {
        Some((at, rest)) => (Some(at), rest),
        None => (None, line),
    };
    let (level, rest) = level(rest).or_else(|| {
        // What syslog puts before: host and program.
        let (_host, rest) = rest.trim_start().split_once(' ')?;
        let (tag, rest) = rest.trim_start().split_once(' ')?;
        let pid = tag.strip_suffix(':')?.strip_prefix(PROGRAM)?;
        if !pid.is_empty() && !pid.starts_with('[') {
            return None;
        }
        at?;
        let rest = match read_time(rest, now) {
            Some((own, rest)) => {
                at = Some(own);
                rest
            }
            None => rest,
        };
        level(rest)
    })?;
    let fields = rest
        .strip_prefix(DECISION)
        .and_then(|rest| rest.strip_prefix(' '));
    let decision = fields.and_then(read_fields);
    Some(LogLine {
        at,
        level,
        what: match decision {
            Some(decision) => What::Decision(Box::new(decision)),
            None => What::Event(rest.into()),
        },
    })
}

/// The level at the start of a line, and what follows it.
fn level(rest: &str) -> Option<(Level, &str)> {
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('<') {
        // The priority for the journal, where something else has read it.
        Some(_) => rest.get(3..)?.trim_start(),
        None => rest,
    };
    let (name, rest) = rest.split_once(' ')?;
    Some((Level::from_name(name)?, rest.trim_start()))
}

/// `name=value name="value"`; `None` if it is something else.
fn read_fields(mut rest: &str) -> Option<Decision<'_>> {
    let mut decision = Decision::default();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
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

/// Where the closing quote is.
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

/// Undoes what `{:?}` does to a string.
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

/// A time at the start of a line, in seconds since 1970, and what follows it.
pub(crate) fn read_time(line: &str, now: i64) -> Option<(i64, &str)> {
    let bytes = line.as_bytes();
    if bytes.first()?.is_ascii_digit() {
        read_iso(line)
    } else {
        read_syslog(line, now)
    }
}

/// `2026-11-21T14:03:22.123456+01:00`, `...Z`, `...+0100`.
fn read_iso(line: &str) -> Option<(i64, &str)> {
    let (stamp, rest) = line.split_once(' ')?;
    let bytes = stamp.as_bytes();
    let (date, time) = stamp.split_at_checked(10)?;
    let number = |at: usize| -> Option<i64> {
        let digits = bytes.get(at..at + 2)?;
        digits.iter().try_fold(0, |sum, &digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + i64::from(digit - b'0'))
        })
    };
    if !time.starts_with('T') || bytes.get(13) != Some(&b':') || bytes.get(16) != Some(&b':') {
        return None;
    }
    let day = Day::read(date.as_bytes())?;
    let local = seconds(day, (number(11)?, number(14)?, number(17)?));
    let zone = stamp.get(19..)?;
    let zone = zone.trim_start_matches(|c: char| c == '.' || c == ',' || c.is_ascii_digit());
    let offset = match zone.split_at_checked(1) {
        None | Some(("Z", _)) => 0,
        Some((sign @ ("+" | "-"), _)) => {
            let at = bytes.len() - zone.len() + 1;
            let minutes = number(at + 2).or_else(|| number(at + 3))?;
            let offset = number(at)? * 3600 + minutes * 60;
            if sign == "+" { offset } else { -offset }
        }
        Some(_) => return None,
    };
    Some((local - offset, rest))
}

/// `Nov 21 14:03:22`: the last such day that is not later than tomorrow.
fn read_syslog(line: &str, now: i64) -> Option<(i64, &str)> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (stamp, rest) = line.split_at_checked(15)?;
    let name = stamp.get(..3)?;
    let month = (1_i8..).zip(MONTHS).find(|&(_, known)| known == name)?.0;
    let number = |from: usize, to: usize| stamp.get(from..to)?.trim_start().parse::<i8>().ok();
    let day = number(4, 6)?;
    let clock = (number(7, 9)?, number(10, 12)?, number(13, 15)?);
    let clock = (clock.0.into(), clock.1.into(), clock.2.into());
    let this_year: i16 = LogLine::day(now)?.to_string().get(..4)?.parse().ok()?;
    let in_year = |year: i16| {
        let at = seconds(Day::of(Date::new(year, month, day).ok()?)?, clock);
        (at <= now + DAY_S).then_some(at)
    };
    // February 29 may be four years ago.
    let at = (0..=4).find_map(|back| in_year(this_year - back))?;
    Some((at, rest))
}

fn seconds(day: Day, (hour, minute, second): (i64, i64, i64)) -> i64 {
    i64::from(day.0) * DAY_S + hour * 3600 + minute * 60 + second
}

/// A JSON object of the log, or of the journal around it.
#[derive(Default)]
struct Object<'a> {
    at: Option<i64>,
    level: Option<Level>,
    text: Cow<'a, str>,
    decision: Decision<'a>,
    /// Fields that no decision has.
    others: String,
    journal_text: Option<Cow<'a, str>>,
    journal_at: Option<i64>,
    is_ours: bool,
}

impl<'a> Object<'a> {
    fn read(line: &'a str) -> Option<Self> {
        serde_json::Deserializer::from_str(line)
            .deserialize_map(ObjectVisitor)
            .ok()
    }

    fn into_line(self) -> Option<LogLine<'a>> {
        let what = if self.text == DECISION {
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
        let mut object = Object {
            is_ours: true,
            ..Object::default()
        };
        while let Some(Scalar(key)) = map.next_key()? {
            if let Some(field) = Field::from_name(&key) {
                let value = map.next_value::<Scalar<'_>>()?.0;
                if object.text != DECISION {
                    add_other(&mut object.others, &key, &value);
                }
                object.decision.set(field, value);
                continue;
            }
            if key.starts_with('_') && key != "__REALTIME_TIMESTAMP" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<Scalar<'_>>()?.0;
            match &*key {
                "timestamp" => {
                    // read_iso wants what follows a time, too.
                    object.at = read_iso(&format!("{value} ")).map(|(at, _)| at);
                }
                "level" => object.level = Level::from_name(&value),
                "message" => object.text = value,
                "MESSAGE" => object.journal_text = Some(value),
                "SYSLOG_IDENTIFIER" => object.is_ours = value == PROGRAM,
                "__REALTIME_TIMESTAMP" => {
                    object.journal_at = value.parse().ok().map(|us: i64| us / 1_000_000);
                }
                _ => add_other(&mut object.others, &key, &value),
            }
        }
        Ok(object)
    }
}

/// Values of an event, as the text form shows them; what is longer is of no use to a person.
fn add_other(out: &mut String, key: &str, value: &str) {
    const MAX: usize = 512;
    if out.len() < MAX && !value.is_empty() {
        out.extend([" ", key, "="]);
        out.push_str(value);
    }
}

/// A value without parts, as text; empty for an array or an object.
struct Scalar<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar(text.to_owned().into()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar(if value { "true" } else { "false" }.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar(value.to_string().into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar(value.to_string().into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar(value.to_string().into()))
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Cow::default()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar(Cow::default()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar(Cow::default()))
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
            "INFO".to_owned(),
            "<".to_owned(),
            "{".to_owned(),
            r#"{"level":7,"message":{"a":[{}]}}"#.to_owned(),
            String::new(),
        ] {
            assert_eq!(decision(&line), None, "{line}");
        }
    }

    #[test]
    fn a_date_without_a_year_is_in_the_past() {
        let day = |text: &str| {
            let (at, _) = read_syslog(text, NOW).unwrap();
            LogLine::day(at).unwrap().to_string()
        };
        assert_eq!(day("Nov 22 23:59:59 x"), "2026-11-22");
        assert_eq!(day("Dec  1 00:00:00 x"), "2025-12-01");
        assert_eq!(day("Feb 29 00:00:00 x"), "2024-02-29");
        assert_eq!(read_syslog("Nov 31 00:00:00 x", NOW), None);
    }
}
