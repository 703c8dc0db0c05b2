//! Days as lists write them: the day an entry was added, the day it ends.

use std::fmt;

use jiff::civil::{Date, Time};
use jiff::fmt::temporal::Pieces;

/// A day, counted from 1970-01-01; the last one is 2149-06-06.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(pub u16);

const EPOCH: Date = Date::constant(1970, 1, 1);

impl Day {
    /// Returns the day of a date; `None` before 1970 and after 2149-06-06.
    #[doc(hidden)]
    pub fn of(date: Date) -> Option<Self> {
        u16::try_from(days(date)?).ok().map(Self)
    }

    /// Reads a day, with or without a time after it (ISO 8601); `None` for any other text, and for another year than 1970 to 2149.
    /// Time zones are ignored: a day is exact enough.
    pub fn read(text: &[u8]) -> Option<Self> {
        Self::of(iso(text.trim_ascii())?.0)
    }

    /// Reads the first day on which an entry is no longer listed: the next day if the text has a
    /// time after midnight. Returns `Some(None)` for a day too far away to store (`9999-12-31`),
    /// which never comes, and `None` if the text cannot be read.
    #[doc(hidden)]
    pub fn read_end(text: &[u8]) -> Option<Option<Self>> {
        let (date, is_after_midnight) = iso(text.trim_ascii())?;
        Self::end(date, is_after_midnight)
    }

    /// Returns the first day on which an entry is no longer listed that ends on a date, perhaps
    /// after midnight; as [`read_end`](Self::read_end).
    #[doc(hidden)]
    pub fn end(date: Date, is_after_midnight: bool) -> Option<Option<Self>> {
        let days = days(date)?.checked_add(i32::from(is_after_midnight))?;
        match u16::try_from(days) {
            Ok(days) if days < u16::MAX => Some(Some(Self(days))),
            _ if days > 0 => Some(None),
            _ => None,
        }
    }
}

fn days(date: Date) -> Option<i32> {
    EPOCH.until(date).ok().map(|span| span.get_days())
}

/// Reads a date of ISO 8601, perhaps with a time: `2026-12-24`, `20261224`, `2026-12-24T18:00:00Z`,
/// `2026-12-24 18:00:00.000 +01:00`. Returns the date, and whether it has a time after midnight.
pub fn iso(text: &[u8]) -> Option<(Date, bool)> {
    // A blank before the zone is no ISO 8601, but frequent.
    let text = std::str::from_utf8(text).ok()?.replace(" +", "+");
    let text = text.replace(" -", "-");
    let pieces = Pieces::parse(&text).ok()?;
    let time = pieces.time().unwrap_or(Time::midnight());
    Some((pieces.date(), time != Time::midnight()))
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = EPOCH
            .checked_add(jiff::Span::new().days(i64::from(self.0)))
            .unwrap_or(EPOCH);
        date.fmt(f)
    }
}
