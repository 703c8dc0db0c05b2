//! The time, in the units of lists and reports.

use std::sync::LazyLock;
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use jiff::tz::TimeZone;

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

/// How [`local`] shows a time to the minute: `2026-11-22 05:00 CET`.
pub const MINUTE: &str = "%F %H:%M %Z";

/// UTC on a machine that does not say its zone, such as a container.
static ZONE: LazyLock<TimeZone> = LazyLock::new(|| TimeZone::try_system().unwrap_or(TimeZone::UTC));

/// Reads the zone of the machine. Later, the daemon's sandbox would forbid it.
pub fn read_time_zone() {
    LazyLock::force(&ZONE);
}

/// Formats a time in seconds since 1970, to the minute: `2026-11-22 05:00 UTC`.
pub fn minute(s: u64) -> String {
    formatted(s, TimeZone::UTC, "%F %H:%M UTC")
}

/// The same to the second, `2026-11-22 05:00:59 UTC`, also before 1970; `None` if no calendar has it.
pub fn second(s: i64) -> Option<String> {
    let time = Timestamp::from_second(s).ok()?;
    Some(time.strftime("%F %H:%M:%S UTC").to_string())
}

/// Formats a time in seconds since 1970, in the zone of the machine.
pub fn local(s: u64, how: &str) -> String {
    formatted(s, ZONE.clone(), how)
}

fn formatted(s: u64, zone: TimeZone, how: &str) -> String {
    let time = i64::try_from(s).ok();
    let time = time.and_then(|s| Timestamp::from_second(s).ok());
    time.map_or_else(String::new, |time| {
        time.to_zoned(zone).strftime(how).to_string()
    })
}
