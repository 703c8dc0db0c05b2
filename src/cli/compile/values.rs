//! Parses the values of `blocklist-compile`'s options.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::config::Percent;
use crate::list::Day;

/// Parses the path of a file to write. Rejects standard output, because the file is read back or
/// replaced.
pub(super) fn regular_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str() == "-" {
            Err("cannot be standard output; name a file")
        } else {
            Ok(path)
        }
    })
}

pub(super) fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "must be 1 to 16 hexadecimal digits".to_owned())
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| "must be a rate such as 0.000001 or 1e-6".to_owned())
}

pub(super) fn day(text: &str) -> Result<Day, String> {
    Day::read(text.as_bytes()).ok_or_else(|| "must be a date such as 2026-12-31".to_owned())
}

/// Most days after which an entry may expire.
const MAX_DAYS: u16 = 3650;

/// When entries without their own expiry date expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// On this day.
    On(Day),
    /// This many days after the build date.
    After(u16),
}

impl Expires {
    /// Returns the day, given the build date `today`.
    #[must_use]
    pub fn from(self, today: Day) -> Day {
        match self {
            Self::On(day) => day,
            Self::After(days) => Day(today.0.saturating_add(days)),
        }
    }
}

pub(super) fn expires(text: &str) -> Result<Expires, String> {
    if let Some(days) = text.strip_suffix(['d', 'D']) {
        let days = days
            .parse()
            .ok()
            .filter(|days| (1..=MAX_DAYS).contains(days));
        return days
            .map(Expires::After)
            .ok_or_else(|| format!("must be 1d to {MAX_DAYS}d"));
    }
    match Day::read_expiry(text.as_bytes()) {
        Some(Some(day)) => Ok(Expires::On(day)),
        Some(None) if !text.is_empty() => {
            Err("leave this option out for entries that do not expire".to_owned())
        }
        _ => Err("must be a date such as 2026-12-31, or days such as 30d".to_owned()),
    }
}

pub(super) fn shrink(text: &str) -> Result<Percent, &'static str> {
    text.parse().and_then(Percent::of_a_whole)
}

/// Parses `512M` as bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "must be a number of bytes, or one with K, M, G or T, such as 512M".to_owned();
    let text = text.trim_end_matches(['B', 'b']).trim_end_matches(['i']);
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_seeds() {
        assert_eq!(size("2G"), Ok(2 << 30));
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("1000"), Ok(1000));
        assert!(size("lots").is_err() && size("99999999T").is_err());
        assert_eq!(hexadecimal("0xBeef"), Ok(0xbeef));
        assert_eq!(
            expires("30d").map(|expires| expires.from(Day(20_000))),
            Ok(Day(20_030))
        );
        assert_eq!(expires("1970-01-11"), Ok(Expires::On(Day(10))));
        assert!(
            [
                "0d",
                "d",
                "-1d",
                "30",
                "1w",
                "9999d",
                "9999-12-31",
                "never",
                ""
            ]
            .iter()
            .all(|wrong| expires(wrong).is_err())
        );
        assert!(hexadecimal("").is_err() && hexadecimal("12345678901234567").is_err());
    }
}
