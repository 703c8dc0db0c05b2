//! Reads logs of the daemon and of mail servers, as syslog and the systemd journal store them.
//!
//! ```text
//! Nov 21 14:03:22 mx postfix/qmgr[7]: 4Xy: removed                  syslog, journalctl
//! 2026-11-21T14:03:22.5+01:00 mx postfix/qmgr[7]: 4Xy: removed      rsyslog, journalctl -o short-iso
//! {"__REALTIME_TIMESTAMP":"...","SYSLOG_IDENTIFIER":"postfix/qmgr","MESSAGE":"4Xy: removed"}   -o json
//! 4Xy: removed                                                      journalctl -o cat
//! ```

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use serde::Deserialize;

use blocklist_compile::unpack;
use blocklist_filter::base::day::Day;

/// Longer lines are skipped. Syslog and the programs whose logs are read write much shorter ones.
const LINE_BYTES_MAX: u64 = 64 << 10;
const DAY_S: i64 = 86_400;

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Seconds since 1970, if the line has a time.
    pub(crate) at: Option<i64>,
    /// The program, without its process id, if the line names it.
    pub(crate) program: Option<Cow<'a, str>>,
    /// What the program wrote.
    pub(crate) text: Cow<'a, str>,
}

/// Parses a line. `now` completes dates without a year. A line of unknown form is text only.
pub(crate) fn entry(line: &str, now: i64) -> Entry<'_> {
    if let Some(entry) = journal_entry(line) {
        return entry;
    }
    let (at, rest) = read_time(line, now);
    let (program, text) = match at.and_then(|_| program(rest)) {
        Some((program, text)) => (Some(program.into()), text),
        None => (None, rest.trim_start()),
    };
    let text = text.into();
    Entry { at, program, text }
}

/// Returns whether this is a line of `journalctl -o json`.
pub(crate) fn is_json(line: &str) -> bool {
    // Inside a value the quotes would be escaped.
    line.starts_with('{') && line.contains("\"__REALTIME_TIMESTAMP\"")
}

fn journal_entry(line: &str) -> Option<Entry<'_>> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(rename = "__REALTIME_TIMESTAMP", borrow)]
        us: Cow<'a, str>,
        #[serde(rename = "SYSLOG_IDENTIFIER", borrow)]
        program: Option<Cow<'a, str>>,
        // The journal writes an array of bytes if the text is not UTF-8; no line that we read is.
        #[serde(rename = "MESSAGE", borrow)]
        text: Cow<'a, str>,
    }
    if !is_json(line) {
        return None;
    }
    let object: Object<'_> = serde_json::from_str(line).ok()?;
    Some(Entry {
        at: object.us.parse().ok().map(|us: i64| us / 1_000_000),
        program: object.program,
        text: object.text,
    })
}

/// Splits `host program[pid]: text` into program and text.
fn program(rest: &str) -> Option<(&str, &str)> {
    let (_host, rest) = rest.trim_start().split_once(' ')?;
    let (tag, text) = rest.trim_start().split_once(' ')?;
    let tag = tag.strip_suffix(':')?;
    let program = match tag.split_once('[') {
        Some((program, pid)) => {
            pid.strip_suffix(']')?.parse::<u32>().ok()?;
            program
        }
        None => tag,
    };
    Some((program, text))
}

/// Returns the day of a time in seconds since 1970.
pub(crate) fn day(at: i64) -> Option<Day> {
    u16::try_from(at.div_euclid(DAY_S)).ok().map(Day)
}

/// Reads the time at the start of a line. Returns it in seconds since 1970, and the rest of the
/// line; without a time, the whole line.
pub(crate) fn read_time(line: &str, now: i64) -> (Option<i64>, &str) {
    let read = match line.starts_with(|first: char| first.is_ascii_digit()) {
        true => (line.split_once(' ')).and_then(|(stamp, rest)| Some((read_iso(stamp)?, rest))),
        false => read_syslog(line, now),
    };
    read.map_or((None, line), |(at, rest)| (Some(at), rest))
}

/// Reads `2026-11-21T14:03:22.123456+01:00`, `...Z` or `...+0100`; without a zone, as UTC.
pub(crate) fn read_iso(stamp: &str) -> Option<i64> {
    let of_local = || stamp.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    let of_zone = stamp.parse().ok();
    let time = of_zone.or_else(|| of_local().map(|time| time.timestamp()));
    time.map(Timestamp::as_second)
}

/// Reads `Nov 21 14:03:22` as the latest such time that is at most a day after `now`.
fn read_syslog(line: &str, now: i64) -> Option<(i64, &str)> {
    // Other lines are many, and the reason why they are none of these is costly.
    if line.as_bytes().get(3) != Some(&b' ') {
        return None;
    }
    let (mut time, length) = BrokenDownTime::parse_prefix("%b %e %H:%M:%S", line).ok()?;
    let this_year = Timestamp::from_second(now).ok()?;
    let this_year = this_year.to_zoned(TimeZone::UTC).year();
    let mut in_year = |year: i16| {
        time.set_year(Some(year)).ok()?;
        let time = time.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok()?;
        Some(time.timestamp().as_second()).filter(|at| *at <= now + DAY_S)
    };
    // The last February 29 may be four years ago.
    let at = (0..=4).find_map(|back| in_year(this_year - back))?;
    Some((at, line.get(length..)?))
}

/// Calls `each` with every line of a log: a file, which may be compressed, or `-` for standard
/// input. Bytes that are not UTF-8 become U+FFFD. Lines of 64 KiB or more are skipped.
pub(crate) fn each_line(path: &Path, each: impl FnMut(&str)) -> io::Result<()> {
    lines(unpack::open(path)?, each)
}

/// Calls `each` with every line that a unit has written to the journal of this machine since a
/// time, in seconds since 1970. If journalctl(1) fails, it has said why.
pub(crate) fn each_line_of_unit(unit: &str, since: i64, each: impl FnMut(&str)) -> io::Result<()> {
    let mut journalctl = Command::new("journalctl");
    journalctl.args(["--quiet", "--output=json", "--unit", unit, "--since"]);
    journalctl.arg(format!("@{since}")).stdin(Stdio::null());
    journalctl.arg("--output-fields=MESSAGE,SYSLOG_IDENTIFIER");
    let about = |error| io::Error::new(io::Error::kind(&error), format!("journalctl: {error}"));
    let mut child = journalctl.stdout(Stdio::piped()).spawn().map_err(about)?;
    if let Some(output) = child.stdout.take() {
        lines(output, each)?;
    }
    match child.wait()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("journalctl: {status}"))),
    }
}

fn lines(input: impl Read, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut input = BufReader::with_capacity(256 << 10, input);
    let mut line = Vec::new();
    // Whether the next bytes are the rest of a line that is too long.
    let mut is_rest = false;
    loop {
        line.clear();
        let limited = input.by_ref().take(LINE_BYTES_MAX);
        let read = { limited }.read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        let ends = line.ends_with(b"\n");
        if is_rest || read as u64 == LINE_BYTES_MAX && !ends {
            is_rest = !ends;
            continue;
        }
        // The plain check is several times faster than the lossy conversion.
        let text = match std::str::from_utf8(&line) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(&line),
        };
        each(text.trim_end_matches(['\n', '\r']));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_310_000; // 2026-11-22T01:13:20Z

    #[test]
    fn a_date_without_a_year_is_in_the_past() {
        let shown = |text: &str| {
            let (at, _) = read_syslog(text, NOW).unwrap();
            day(at).unwrap().to_string()
        };
        assert_eq!(shown("Nov 22 23:59:59 x"), "2026-11-22");
        assert_eq!(shown("Dec  1 00:00:00 x"), "2025-12-01");
        assert_eq!(shown("Feb 29 00:00:00 x"), "2024-02-29");
        assert_eq!(read_syslog("Nov 31 00:00:00 x", NOW), None);
    }
}
