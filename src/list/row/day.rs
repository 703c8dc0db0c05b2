//! Days as lists write them: the day an entry was added, the day it ends.

use std::fmt;

use jiff::civil::Date;

/// A day, counted from 1970-01-01; the last one is 2149-06-06.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(pub u16);

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Numbers of this length are read as seconds since 1970: ten digits are the years 2001 to 2286.
const UNIX_DIGITS: usize = 10;
/// Maximum length of seconds for an end that never comes: the year 9999.
const MAX_UNIX_DIGITS: usize = 12;
/// The same in milliseconds.
const MAX_MILLISECONDS_DIGITS: usize = 15;
const SECONDS_OF_DAY: i64 = 24 * 60 * 60;

impl Day {
    /// Returns the day of a date; `None` before 1970 and after 2149-06-06.
    #[must_use]
    pub fn of(date: Date) -> Option<Self> {
        let days = EPOCH.until(date).ok()?.get_days();
        u16::try_from(days).ok().map(Self)
    }

    /// Reads a day from the start of `text`: `2026-03-01`, `2026/03/01`, `2026.03.01` or
    /// `20260301`, with or without a time after it; `01.03.2026`, day first; `3/31/2026`,
    /// `31/3/2026` and `31-3-2026` if only one of the numbers can be the day; seconds since 1970
    /// in ten digits, or milliseconds in thirteen. Time zones are ignored: a day is exact enough.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        u16::try_from(days(text)?).ok().map(Self)
    }

    /// Returns whether `text` begins with a date, even if it is unclear which one.
    pub(crate) fn is_date(text: &[u8]) -> bool {
        Self::read(text).is_some() || Self::is_unclear(text)
    }

    /// Returns whether `text` is a date whose day and month may be the other way round: `3/4/2026`
    /// is March in one country and April in another.
    fn is_unclear(text: &[u8]) -> bool {
        matches!(parts(text), Some((b'-' | b'/', [day, month, year])) if year.len() == 4
            && number(day).zip(number(month)).is_some_and(|(day, month)| is_either(day, month)))
    }

    /// Reads the first day on which an entry is no longer listed: the next day if the text has a
    /// time after midnight. Returns `Some(None)` if the text says that the entry does not end: by a
    /// word, by a zero date (`0000-00-00`), or by a day too far away to store (`9999-12-31`).
    /// Returns `None` if the text cannot be read.
    #[must_use]
    #[allow(
        clippy::option_option,
        reason = "an end that is unknown is not one that never comes"
    )]
    pub fn read_expiry(text: &[u8]) -> Option<Option<Self>> {
        let text = text.trim_ascii();
        let is_never = NEVER
            .iter()
            .any(|never| text.eq_ignore_ascii_case(never.as_bytes()));
        if is_never || ZERO_DATES.iter().any(|zero| text.starts_with(zero)) {
            return Some(None);
        }
        match days(text)? + i64::from(is_within_day(text)) {
            ..0 => None,
            days => match u16::try_from(days) {
                Ok(days) if days < u16::MAX => Some(Some(Self(days))),
                _ => Some(None),
            },
        }
    }
}

/// What lists write in place of a day when an entry does not end.
const NEVER: &[&str] = &[
    "",
    "-",
    "0",
    "n/a",
    "never",
    "never expire",
    "never expires",
    "no",
    "none",
    "null",
];

/// Dates that databases (MySQL, .NET) write if none is set.
const ZERO_DATES: &[&[u8]] = &[b"0000-00-00", b"0001-01-01"];

/// Returns whether a date has a time after midnight: `2026-12-24T18:00:00Z`, or seconds since 1970.
fn is_within_day(text: &[u8]) -> bool {
    let date = text.trim_ascii();
    if date.iter().all(u8::is_ascii_digit) {
        return seconds(date).is_some_and(|seconds| seconds % SECONDS_OF_DAY != 0);
    }
    let time = date.get(date_of(date).len() + 1..).unwrap_or_default();
    // `12:00:00 AM`, as Microsoft writes midnight.
    let time = match time.strip_prefix(b"12:") {
        Some(rest) if time.to_ascii_uppercase().ends_with(b"AM") => rest,
        _ => time,
    };
    let end = time.iter().position(|&b| !b.is_ascii_digit() && b != b':');
    let time = time.get(..end.unwrap_or(time.len())).unwrap_or_default();
    time.iter().any(|&b| matches!(b, b'1'..=b'9'))
}

/// Returns the text of a date without the time after it.
fn date_of(text: &[u8]) -> &[u8] {
    let is_end = |&b: &u8| matches!(b, b' ' | b'T' | b't');
    let end = text.iter().position(is_end).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Reads seconds since 1970, or milliseconds.
fn seconds(digits: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match digits.len() {
        UNIX_DIGITS..=MAX_UNIX_DIGITS => Some(number),
        ..=MAX_MILLISECONDS_DIGITS if digits.len() > MAX_UNIX_DIGITS => Some(number / 1000),
        _ => None,
    }
}

/// Returns the days from 1970-01-01 to a date in any year of four digits.
fn days(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    let date = date_of(text);
    if date.iter().all(u8::is_ascii_digit) {
        if date.len() != 8 {
            return seconds(date).map(|seconds| seconds / SECONDS_OF_DAY);
        }
        let (year, rest) = date.split_at(4);
        let (month, day) = rest.split_at(2);
        return from_parts(number(year)?, number(month)?, number(day)?);
    }
    let (sign, [a, b, c]) = parts(date)?;
    match (sign, a.len(), c.len()) {
        (b'-' | b'/' | b'.', 4, 1..=2) => from_parts(number(a)?, number(b)?, number(c)?),
        (b'.', 1..=2, 4) => from_parts(number(c)?, number(b)?, number(a)?),
        (b'/' | b'-', 1..=2, 4) => match (number(a)?, number(b)?) {
            (one, other) if is_either(one, other) => None,
            (month, day) if day > 12 => from_parts(number(c)?, month, day),
            (day, month) => from_parts(number(c)?, month, day),
        },
        _ => None,
    }
}

/// Returns whether each of two different numbers can be the day or the month.
fn is_either(one: i16, other: i16) -> bool {
    one != other && one <= 12 && other <= 12
}

/// Returns the sign between the parts of a date, and the parts.
fn parts(text: &[u8]) -> Option<(u8, [&[u8]; 3])> {
    let date = date_of(text.trim_ascii());
    let sign = *date.iter().find(|b| !b.is_ascii_digit())?;
    let mut parts = date.split(|&b| b == sign);
    let found = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some((sign, found))
}

fn from_parts(year: i16, month: i16, day: i16) -> Option<i64> {
    let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let date = Date::new(year, month, day).ok()?;
    EPOCH.until(date).ok().map(|span| span.get_days().into())
}

fn number(digits: &[u8]) -> Option<i16> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i16, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| i16::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = EPOCH
            .checked_add(jiff::Span::new().days(i64::from(self.0)))
            .unwrap_or(EPOCH);
        date.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Day;

    #[test]
    fn dates_of_real_lists() {
        for (text, day) in [
            ("1970-01-01", Some(0)),
            ("2026-03-01", Some(20513)),
            ("2026-03-01 10:00:00", Some(20513)),
            ("2026-03-31T10:00:00Z", Some(20543)),
            ("20260301", Some(20513)),
            ("01.03.2026", Some(20513)),
            ("3/31/2026 10:00", Some(20543)),
            ("31/3/2026", Some(20543)),
            ("3/3/2026", Some(20515)),
            ("3/4/2026", None),
            ("3-4-2026", None),
            ("31-3-2026", Some(20543)),
            ("3-31-2026", Some(20543)),
            ("3-3-2026", Some(20515)),
            ("1772359200", Some(20513)),
            ("1772359200000", Some(20513)),
            ("2149-06-06", Some(u16::MAX)),
            ("2149-06-07", None),
            ("2026-02-30", None),
            ("1969-12-31", None),
            ("Never expire", None),
            ("12", None),
            ("", None),
        ] {
            assert_eq!(Day::read(text.as_bytes()), day.map(Day), "{text}");
        }
        assert_eq!(Day(20513).to_string(), "2026-03-01");
    }

    #[test]
    fn dates_that_may_be_either_way_round() {
        for (text, is_unclear) in [
            ("3/4/2026", true),
            ("12-11-2026 10:00", true),
            ("3.4.2026", false),
            ("3/31/2026", false),
            ("3/3/2026", false),
            ("2026-03-04", false),
            ("3-4-20", false),
            ("3-4", false),
        ] {
            assert_eq!(Day::is_unclear(text.as_bytes()), is_unclear, "{text}");
        }
    }

    #[test]
    fn what_never_comes_is_not_an_end() {
        for (text, expiry) in [
            ("2026-03-01", Some(Some(Day(20513)))),
            ("2149-06-05", Some(Some(Day(u16::MAX - 1)))),
            ("2149-06-06", Some(None)),
            ("2026-03-01 00:00:00", Some(Some(Day(20513)))),
            ("2026-03-01T00:00:00Z", Some(Some(Day(20513)))),
            ("2026-03-01T18:00:00Z", Some(Some(Day(20514)))),
            ("01.03.2026 10:00", Some(Some(Day(20514)))),
            ("3/31/2026 12:00:00 AM", Some(Some(Day(20543)))),
            ("3/31/2026 12:30 AM", Some(Some(Day(20544)))),
            ("3/31/2026 12:00:00 PM", Some(Some(Day(20544)))),
            ("2026-03-01 (by Bob)", Some(Some(Day(20513)))),
            ("1772323200", Some(Some(Day(20513)))),
            ("1772359200", Some(Some(Day(20514)))),
            ("1772359200000", Some(Some(Day(20514)))),
            ("2149-06-05T10:00:00Z", Some(None)),
            ("9999-12-31", Some(None)),
            ("9999-12-31T23:59:59Z", Some(None)),
            ("31.12.9999", Some(None)),
            ("12/31/9999", Some(None)),
            ("99991231", Some(None)),
            ("253402300799", Some(None)),
            ("0000-00-00", Some(None)),
            ("0000-00-00 00:00:00", Some(None)),
            ("0001-01-01T00:00:00", Some(None)),
            ("Never", Some(None)),
            ("", Some(None)),
            ("0", Some(None)),
            ("1969-12-31", None),
            ("2026-02-30", None),
            ("soon", None),
            ("3/4/2026", None),
            ("3-4-2026", None),
        ] {
            assert_eq!(Day::read_expiry(text.as_bytes()), expiry, "{text}");
        }
    }
}
