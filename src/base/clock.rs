//! The time, in the units of lists and reports.

use std::time::UNIX_EPOCH;

use jiff::Timestamp;

use super::day::Day;

const DAY_S: u64 = 86_400;

/// Returns the seconds since 1970. Whether an entry has expired depends on this clock alone.
pub fn now_s() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// Returns the days since 1970.
pub fn today() -> u16 {
    day_of(now_s()).0
}

/// Returns the day of a time in seconds since 1970; the last day that can be stored, from 2149 on.
pub fn day_of(seconds: u64) -> Day {
    Day(u16::try_from(seconds / DAY_S).unwrap_or(u16::MAX))
}

/// Formats a time in seconds since 1970, to the minute: `2026-11-22 05:00 UTC`.
pub fn minute(s: u64) -> String {
    let time = i64::try_from(s)
        .ok()
        .and_then(|s| Timestamp::from_second(s).ok());
    time.map_or(String::new(), |time| {
        time.strftime("%F %H:%M UTC").to_string()
    })
}
