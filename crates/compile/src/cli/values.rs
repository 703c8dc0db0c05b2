//! Parses the values of `blocklist-compile`'s options.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::settings::Percent;
use blocklist_filter::base::day::Day;

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

pub(super) fn hexadecimal(text: &str) -> Result<u64, &'static str> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "must be 1 to 16 hexadecimal digits")
}

pub(super) fn rate(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .map_err(|_| "must be a rate such as 0.000001 or 1e-6")
}

pub(super) fn day(text: &str) -> Result<Day, &'static str> {
    Day::read(text.as_bytes()).ok_or("must be a date such as 2026-12-31")
}

/// Parses `COLUMN=VALUE[,VALUE]`; the first `=` divides.
pub(super) fn column_values(text: &str) -> Result<(String, Vec<String>), String> {
    let (column, values) = column_and(text, "Action=Block")?;
    Ok((column, values.split(',').map(str::to_owned).collect()))
}

/// Parses `COLUMN=NUMBER`.
pub(super) fn column_number(text: &str) -> Result<(String, f64), String> {
    let (column, number) = column_and(text, "Score=4")?;
    let number: Option<f64> = number.trim().parse().ok();
    let number = number.filter(|number| number.is_finite());
    let number = number.ok_or("must be a column and a number, such as Score=4")?;
    Ok((column, number))
}

fn column_and<'t>(text: &'t str, example: &str) -> Result<(String, &'t str), String> {
    let parts = text.split_once('=');
    match parts.map(|(column, value)| (column.trim(), value)) {
        None | Some(("", _)) => Err(format!(
            "must be a column, = and what it has, such as {example}"
        )),
        Some((column, value)) => Ok((column.to_owned(), value)),
    }
}

pub(super) fn shrink(text: &str) -> Result<Percent, &'static str> {
    text.parse().and_then(Percent::of_a_whole)
}

/// Parses `512M` as bytes.
pub(super) fn size(text: &str) -> Result<u64, &'static str> {
    const WRONG: &str = "must be a number of bytes, or one with K, M, G or T, such as 512M";
    let text = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = number.trim().parse().map_err(|_| WRONG)?;
    number.checked_mul(1 << shift).ok_or(WRONG)
}
