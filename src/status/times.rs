//! Times in the zone of the machine, which is always named beside them.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time to the minute: `2026-11-22 05:00 CET`.
pub(super) const MINUTE: &str = "%F %H:%M %Z";

/// UTC on a machine that does not say its zone, such as a container.
static ZONE: LazyLock<TimeZone> = LazyLock::new(|| TimeZone::try_system().unwrap_or(TimeZone::UTC));

/// Reads the zone of the machine. Later, the daemon's sandbox would forbid it.
pub fn read_time_zone() {
    LazyLock::force(&ZONE);
}

/// Formats a time in seconds since 1970.
pub(super) fn time(seconds: u64, how: &str) -> String {
    let seconds = i64::try_from(seconds).ok();
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let time = time.map(|time| time.to_zoned(ZONE.clone()));
    time.map_or_else(String::new, |time| time.strftime(how).to_string())
}
