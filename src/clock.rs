//! The time, in the units that lists and reports count in.

use std::time::UNIX_EPOCH;

use jiff::Timestamp;

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// Seconds since 1970, now. Whether an entry is still listed is asked of this clock alone.
#[must_use]
pub fn now_s() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// Days since 1970, now.
#[must_use]
pub fn today() -> u16 {
    day_number(now_s())
}

/// The day of a time in seconds since 1970; the last that can be written, from 2149 on.
#[must_use]
pub fn day_number(seconds: u64) -> u16 {
    u16::try_from(seconds / DAY_S).unwrap_or(u16::MAX)
}

/// A time in seconds since 1970, to the minute: `2026-11-22 05:00 UTC`.
#[must_use]
pub fn minute(s: u64) -> String {
    let time = i64::try_from(s)
        .ok()
        .and_then(|s| Timestamp::from_second(s).ok());
    time.map_or(String::new(), |time| {
        time.strftime("%F %H:%M UTC").to_string()
    })
}
