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
use crate::base::day::{Day, iso};
use crate::list::row::RejectReason;

/// Directives of strftime(3), such as `%d.%m.%Y`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat(String);

impl FromStr for DateFormat {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let format = Self(written.to_owned());
        let sample = Date::constant(2026, 12, 24).at(22, 41, 53, 0);
        let same = sample
            .to_zoned(TimeZone::UTC)
            .ok()
            .and_then(|sample| strtime::format(written, &sample).ok())
            .and_then(|text| format.read(&text))
            .is_some_and(|(date, _)| date == sample.date());
        if same {
            Ok(format)
        } else {
            Err("must name day, month and year, such as \"%d.%m.%Y\" or \"%m/%d/%Y %I:%M:%S %p\"; \"%s\" are seconds since 1970".to_owned())
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
    /// time after midnight. `None` if there is none, or if it is too far away to store
    /// (`9999-12-31`).
    pub(crate) fn end(&self, cell: &[u8]) -> Result<Option<Day>, RejectReason> {
        match self.date(cell)? {
            None => Ok(None),
            Some((date, is_within)) => Day::end(date, is_within).ok_or_else(|| self.fault()),
        }
    }

    /// Reads the day on which an entry was added; `None` if there is none.
    pub(crate) fn start(&self, cell: &[u8]) -> Result<Option<Day>, RejectReason> {
        match self.date(cell)? {
            None => Ok(None),
            Some((date, _)) => Day::of(date).map(Some).ok_or_else(|| self.fault()),
        }
    }

    fn fault(&self) -> RejectReason {
        match self.format {
            None => RejectReason::Date,
            Some(_) => RejectReason::DateFormat,
        }
    }

    /// Reads a date, and whether it has a time after midnight; `None` if the cell says that there
    /// is none.
    fn date(&self, cell: &[u8]) -> Result<Option<(Date, bool)>, RejectReason> {
        let cell = cell.trim_ascii();
        if cell.is_empty() || self.never.iter().any(|never| never.is(cell)) {
            return Ok(None);
        }
        let read = match &self.format {
            None => iso(cell),
            Some(format) => std::str::from_utf8(cell)
                .ok()
                .and_then(|cell| format.read(cell.trim())),
        };
        read.map(Some).ok_or_else(|| self.fault())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dates in ISO 8601 are in `tests/lists/table-dates.txt`.
    #[test]
    fn a_declared_format_is_the_only_one() {
        for row in include_str!("../../../tests/pure/list/dates.txt").lines() {
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
