//! The time, in the units that lists and reports count in.

use std::time::UNIX_EPOCH;

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
