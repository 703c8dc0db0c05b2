//! `blocklist-milter report` and `case`: summarize the daemon's log, as text or JSON.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::daemon::what_is_good;
use crate::config::{self, Config, DEFAULT_PATH};
use crate::logs::{self, History};
use crate::screen::case_time;
use blocklist_compile::console::{Done, Output, say};
use blocklist_filter::base::clock::{now_s, second, today};
use blocklist_filter::base::day::Day;

#[derive(Debug, Args)]
pub(super) struct Report {
    /// First day of the report (UTC), such as 2026-11-21, or 7d for the last seven days. Older lines
    /// are used only to know what was refused before.
    #[arg(long, value_name = "DAY", value_parser = since)]
    pub since: Option<Day>,
    /// Remember in this file what was refused and which lists had hits, for the next report.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Begin the output with mail headers to this address, for sendmail -t.
    #[arg(long, value_name = "ADDRESS", value_parser = mail_address, conflicts_with = "json")]
    pub mail_to: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Log files, also compressed ones; - for standard input [default: the journal of this machine].
    #[arg(value_name = "LOG")]
    pub logs: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Case {
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// The case id, such as 0tpxdv000; or the reply in quotes, which has it.
    pub id: String,
    /// Log files, also compressed ones; - for standard input [default: the journal of this machine].
    #[arg(value_name = "LOG")]
    pub logs: Vec<PathBuf>,
}

/// Prints a report of logs.
pub(super) fn report(config: &Path, args: &Report, out: &mut Output) -> Done {
    let system = rustix::system::uname();
    let mut options = logs::Options {
        since: args.since,
        now: now_s().cast_signed(),
        host: system.nodename().to_str().ok().map(str::to_owned),
        lists: Vec::new(),
    };
    if let Some(config) = read_config(config)? {
        options.know(&config);
    }
    let mut history = match &args.state {
        Some(file) => History::read(file)?,
        None => History::default(),
    };
    let summary = logs::summarize(&args.logs, &options, &mut history)?;
    if let Some(to) = &args.mail_to {
        write!(out, "{}", summary.mail_headers(to))?;
    }
    out.show(&summary, args.json)?;
    out.flush()?;
    // Last: if printing fails, the next report must show the same again.
    if let Some(file) = &args.state {
        history.write(file)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the decision with a case id. Exit code 1: it is in none of the logs.
pub(super) fn case(config: &Path, args: &Case, out: &mut Output) -> Done {
    let Some((id, made)) = case_of(&args.id) else {
        return Err(format!("{:?} is not a case id, such as 0tpxdv000", args.id).into());
    };
    let Some(mut case) = logs::find_case(id, &args.logs, now_s().cast_signed())? else {
        let when = second(made).unwrap_or_default();
        let place = match args.logs.is_empty() {
            true => "journal",
            false => "given log",
        };
        say(format_args!(
            "blocklist-milter: case {id} is not in the {place}; it dates from {when}: name a log of that time"
        ));
        return Ok(ExitCode::FAILURE);
    };
    case.find_undo(read_config(config)?.as_ref());
    out.show(&case, args.json)
}

/// Finds the case id in what a reply shows: the id, `(case ID)`, or the whole reply. Returns it with
/// its time.
fn case_of(text: &str) -> Option<(&str, i64)> {
    let mut words = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let first = words.clone().next()?;
    let id = words
        .find(|word| *word == "case")
        .and_then(|_| words.next())
        .unwrap_or(first);
    Some((id, case_time(id)?))
}

/// Returns what is good of the configuration; `None` if the log is read on another machine, which has none.
fn read_config(path: &Path) -> Result<Option<Config>, config::Error> {
    let is_elsewhere = path == Path::new(DEFAULT_PATH) && !path.exists();
    (!is_elsewhere).then(|| what_is_good(path)).transpose()
}

/// Parses `2026-11-21`, or `7d` for seven days ago.
fn since(text: &str) -> Result<Day, &'static str> {
    let days = text.strip_suffix('d').and_then(|days| days.parse().ok());
    let day = days.map(|days: u16| Day(today().saturating_sub(days)));
    let day = day.or_else(|| Day::read(text.as_bytes()));
    day.ok_or("must be a date such as 2026-11-21, or days such as 7d")
}

/// Parses an address that becomes part of a header line.
fn mail_address(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err("must be one mail address");
    }
    Ok(text.to_owned())
}
