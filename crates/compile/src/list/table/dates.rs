//! Dates in the columns of a table: ISO 8601, or as `date_format` says.
//!
//! A date that is written otherwise rejects its row: `3/4/2026` is March in one country and April in
//! another, and an entry that ends a month early lets a listed sender through. Time zones are
//! ignored: a day is exact enough.

use std::str::FromStr;

use jiff::civil::{Date, Time};
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::TimeZone;

use super::text::Text;
use crate::list::row::RejectReason;
use blocklist_filter::base::day::{Day, iso};

/// Directives of strftime(3), such as `%d.%m.%Y`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat(String);

impl FromStr for DateFormat {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let format = Self(written.to_owned());
        let sample = Date::constant(2026, 12, 24).at(22, 41, 53, 0);
        let read_back = || {
            let sample = sample.to_zoned(TimeZone::UTC).ok()?;
            format.read(&strtime::format(written, &sample).ok()?)
        };
        match read_back() {
            Some((date, _)) if date == sample.date() => Ok(format),
            _ => Err("must name day, month and year, such as \"%d.%m.%Y\" or \"%m/%d/%Y %I:%M:%S %p\"; \"%s\" are seconds since 1970".to_owned()),
        }
    }
}

impl DateFormat {
    /// Reads a date, and whether it has a time after midnight.
    fn read(&self, text: &str) -> Option<(Date, bool)> {
        let time = BrokenDownTime::parse(&self.0, text).ok()?;
        if let Some(instant) = time.timestamp() {
            let instant = instant.to_zoned(TimeZone::UTC).datetime();
            return Some((instant.date(), instant.time() != Time::midnight()));
        }
        let is_within = time.to_time().is_ok_and(|time| time != Time::midnight());
        Some((time.to_date().ok()?, is_within))
    }
}

/// How the date columns of a table are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    /// `None` for ISO 8601.
    pub(crate) format: Option<DateFormat>,
    /// Texts that mean no date, besides an empty one.
    pub(crate) never: Vec<Text>,
}

impl Dates {
    /// Reads the first day on which an entry is no longer listed: the next day, if the date has a
    /// time after midnight. `None` if there is none, or if it is too far away to store (`9999-12-31`).
    pub(crate) fn end(&self, cell: &[u8]) -> Result<Option<Day>, RejectReason> {
        self.day(cell, Day::end)
    }

    /// Reads the day on which an entry was added; `None` if there is none.
    pub(crate) fn start(&self, cell: &[u8]) -> Result<Option<Day>, RejectReason> {
        self.day(cell, |date, _| Day::of(date).map(Some))
    }

    /// Reads the day for a date, and whether that has a time after midnight.
    fn day(
        &self,
        cell: &[u8],
        day: fn(Date, bool) -> Option<Option<Day>>,
    ) -> Result<Option<Day>, RejectReason> {
        let cell = cell.trim_ascii();
        if cell.is_empty() || self.never.iter().any(|never| never.is(cell)) {
            return Ok(None);
        }
        let text = || std::str::from_utf8(cell).ok();
        let (read, fault) = match &self.format {
            None => {
                let date = only_date(cell).map(|date| (date, false));
                (date.or_else(|| iso(cell)), RejectReason::Date)
            }
            Some(format) => {
                let read = text().and_then(|text| format.read(text.trim()));
                (read, RejectReason::DateFormat)
            }
        };
        let day = read.and_then(|(date, is_within)| day(date, is_within));
        day.ok_or(fault)
    }
}

/// Reads `2026-12-24`, as [`iso`] does.
fn only_date(cell: &[u8]) -> Option<Date> {
    let number = |digits: &[u8]| {
        let mut digits = digits.iter().map(|digit| digit.wrapping_sub(b'0'));
        digits.try_fold(0, |sum, digit| {
            (digit < 10).then_some(sum * 10 + i16::from(digit))
        })
    };
    let [year @ .., b'-', m, n, b'-', d, e] = cell else {
        return None;
    };
    let year = <[u8; 4]>::try_from(year).ok()?;
    let month = i8::try_from(number(&[*m, *n])?).ok()?;
    let day = i8::try_from(number(&[*d, *e])?).ok()?;
    Date::new(number(&year)?, month, day).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dates in ISO 8601 are in `tests/lists/table-dates.txt`.
    /// A date alone is read as by the parser of ISO 8601, and nothing else is.
    #[test]
    fn a_date_alone_is_read_in_one_way() {
        for year in [
            "0000", "1969", "2024", "2100", "9999", "02024", "+024", "-024", "20a4",
        ] {
            for month_and_day in (0..14).flat_map(|month| (0..33).map(move |day| (month, day))) {
                let (month, day) = month_and_day;
                let text = format!("{year}-{month:02}-{day:02}");
                if let Some(date) = only_date(text.as_bytes()) {
                    assert_eq!(
                        iso(text.as_bytes()).map(|(date, _)| date),
                        Some(date),
                        "{text}"
                    );
                }
            }
        }
        assert_eq!(only_date(b"2024-02-29"), Date::new(2024, 2, 29).ok());
        for text in ["2023-02-29", "2024-2-29", "2024-02-29 ", "2024-02-29T00:00"] {
            assert_eq!(only_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_declared_format_is_the_only_one() {
        for row in include_str!("../../../../../tests/pure/list/dates.txt").lines() {
            let [format, cell, day] = *row.split(" -> ").collect::<Vec<_>>() else {
                panic!("{row}");
            };
            let found = format.parse().map(|format| {
                let (format, never) = (Some(format), Vec::new());
                let found = Dates { format, never }.end(cell.as_bytes());
                found.map_or_else(|_| "no date".to_owned(), |day| day.unwrap().to_string())
            });
            assert_eq!(found.as_deref().unwrap_or("no format"), day, "{row}");
        }
    }
}
