//! Times of a report, in UTC.

use jiff::Timestamp;

/// A time to the minute: `2026-11-22 05:00 UTC`.
pub(super) const MINUTE: &str = "%F %H:%M UTC";

/// Formats a time in seconds since 1970.
pub(super) fn time(seconds: u64, how: &str) -> String {
    let seconds = i64::try_from(seconds).ok();
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(String::new, |time| time.strftime(how).to_string())
}

/// Formats a time to the second: `2026-11-22 05:00:59`.
pub(super) fn seconds(seconds: u64) -> String {
    time(seconds, "%F %H:%M:%S")
}

/// Formats hour and minute.
pub(super) fn clock(seconds: u64) -> String {
    time(seconds, "%H:%M")
}
