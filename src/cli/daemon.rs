//! Commands that ask the running daemon: `status` and `log` at its status socket; `reload` by a signal, and it
//! waits for the result in the daemon's status file.

use std::error::Error;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::de::DeserializeOwned;

use crate::config::{self, Config};
use crate::daemon::{ask_for_reload, fetch};
use crate::endpoint::Endpoint;
use crate::paint::{Paint, Painted};
use crate::policy::Action;
use crate::setup_check::stray_lists;
use crate::status::{Health, Log as Decisions, Report, Running, is_running, monotonic_us};
use blocklist_compile::console::{Done, Output, say, whole_number};

/// How often a daemon is asked for new decisions.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// Time between two reads of the daemon's status file.
const RELOAD_PAUSE: Duration = Duration::from_millis(50);
/// Name of the program in the kernel, which cuts it to 15 bytes.
const COMMAND: &str = "blocklist-milte";

#[derive(Debug, Args)]
pub(super) struct Place {
    /// Ask at this address, such as unix:/run/x.sock or inet:9642@127.0.0.1 [default: `listen` in section `status` of the
    /// configuration].
    #[arg(long, value_name = "ADDRESS")]
    pub socket: Option<Endpoint>,
}

impl Place {
    fn endpoint(&self, config: &Path) -> Result<Endpoint, Box<dyn Error>> {
        if let Some(endpoint) = &self.socket {
            return Ok(endpoint.clone());
        }
        let none = || {
            let config = config.display();
            format!("{config}: [status] listen is \"\": there is no status socket")
        };
        Ok(what_is_good(config)?.status.listen.ok_or_else(none)?)
    }
}

#[derive(Debug, Args)]
pub(super) struct Status {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn status(config: &Path, args: &Status, out: &mut Output) -> Done {
    let endpoint = args.place.endpoint(config)?;
    let mut report: Report = ask(&endpoint, "/status.json")?;
    // A field that another version does not have is no error, but this one all have.
    if report.version.is_empty() {
        return Err(format!("{endpoint}: answered, but not as the daemon does").into());
    }
    if args.place.socket.is_none() {
        // What no daemon reads, and nobody would miss until a listed sender passes.
        for stray in stray_lists(config) {
            report.warn(&stray);
        }
    }
    out.show_as(&report, Painted(&report, Paint::of_stdout()), args.json)?;
    Ok(ExitCode::from(match report.health {
        Health::Ok => 0,
        Health::Warning => 1,
        Health::Critical => 2,
    }))
}

/// Asks the daemon for the JSON at a path.
fn ask<T: DeserializeOwned>(endpoint: &Endpoint, path: &str) -> Result<T, Box<dyn Error>> {
    let (code, body) = fetch(endpoint, path).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => {
                "members of the socket's group may read it, see group in [status]"
            }
            _ => "is it running? (systemctl status blocklist-milter)",
        };
        format!("{endpoint}: no answer from the daemon: {error}; {advice}")
    })?;
    if code == 200
        && let Ok(answer) = serde_json::from_slice(&body)
    {
        return Ok(answer);
    }
    Err(format!("{endpoint}: answered with HTTP {code}, not as this version does").into())
}

/// Returns what is good of a configuration, which may have an error now although the daemon runs.
pub(super) fn what_is_good(path: &Path) -> Result<Config, config::Error> {
    match Config::load_what_is_good(path) {
        (_, Some(fault @ config::Error::Unreadable { .. })) => Err(fault),
        (config, _) => Ok(config),
    }
}

#[derive(Debug, Args)]
pub(super) struct Log {
    #[command(flatten)]
    place: Place,
    /// Wait for new decisions, and show each, until interrupted.
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Only decisions of this list.
    #[arg(long, value_name = "NAME")]
    list: Option<String>,
    /// Only decisions with this action; accept is that of whitelisted and exempt senders.
    #[arg(long, value_name = "ACTION", value_parser = PossibleValuesParser::new(Action::of_decisions()))]
    action: Option<String>,
    /// Print one JSON object instead of text, with the commands that undo each decision.
    #[arg(long)]
    json: bool,
    /// Only decisions with each of these words in a sender, recipient, client, case, source or reason.
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

impl Log {
    fn path(&self, after: u64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("q", &self.words.join(" "));
        query.append_pair("list", self.list.as_deref().unwrap_or_default());
        query.append_pair("action", self.action.as_deref().unwrap_or_default());
        query.append_pair("after", &after.to_string());
        format!("/log.json?{}", query.finish())
    }
}

pub(super) fn log(config: &Path, args: &Log, out: &mut Output) -> Done {
    let endpoint = args.place.endpoint(config)?;
    let mut log: Decisions = ask(&endpoint, &args.path(0))?;
    out.show_as(&log, Painted(&log, Paint::of_stdout()), args.json)?;
    if !log.shows_addresses && !args.json {
        say(format_args!(
            "blocklist-milter: addresses are shown to root and the daemon's user only: show_addresses in [status] is off"
        ));
    }
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        out.flush()?;
        sleep(LOG_PAUSE);
        // A daemon that restarts answers again in a moment.
        let Ok(new) = ask::<Decisions>(&endpoint, &args.path(log.last)) else {
            continue;
        };
        // Without its state folder, it counts from the beginning again.
        let new = match new.last < log.last {
            true => ask(&endpoint, &args.path(0))?,
            false => new,
        };
        // A terminal may have another width by now.
        let paint = Paint::of_stdout();
        write!(out, "{}", Painted(&new, paint))?;
        log = new;
    }
}

#[derive(Debug, Args)]
pub(super) struct Reload {
    /// Process ID of the daemon [default: that of the daemon that wrote `status_file`].
    #[arg(long, value_name = "PID", value_parser = process)]
    pub pid: Option<i32>,
    /// Give up after this many seconds; reading large filters takes a while.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole_number::<u32>)]
    pub timeout: u32,
}

fn process(text: &str) -> Result<i32, &'static str> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or("must be a process ID, such as 1234")
}

pub(super) fn reload(path: &Path, args: &Reload, out: &mut Output) -> Done {
    // The daemon says what is wrong with the configuration, but a faulty one may not say where its status is.
    let (settings, fault) = Config::load_what_is_good(path);
    let file = settings.status_file;
    let is_unreadable = matches!(fault, Some(config::Error::Unreadable { .. }));
    let process = match args.pid {
        Some(process) if command_of(process).is_none_or(|command| command == COMMAND) => process,
        Some(process) => return Err(format!("process {process} is not a blocklist-milter").into()),
        None => match known_process(&file).filter(|_| !is_unreadable) {
            Some(process) => process,
            None => {
                let advice = "start it (restart it if status_file was changed), or name its process with --pid";
                let unknown = format!("{}: names no running daemon; {advice}", file.display());
                return Err(fault.map_or_else(|| unknown.into(), Into::into));
            }
        },
    };
    let is_it = |running: &Running| running.process == process;
    let is_known = Running::read(&file).as_ref().is_some_and(is_it);
    let asked_us = monotonic_us();
    let end = Instant::now() + Duration::from_secs(args.timeout.into());
    ask_for_reload(process).map_err(|error| format!("process {process}: {error}"))?;
    if let Some(fault) = fault
        && !is_known
    {
        return Err(fault.into());
    }
    let running = loop {
        sleep(RELOAD_PAUSE);
        let named = Running::read(&file).filter(is_it);
        let began = |running: &Running| running.reload.as_ref().map(|reload| reload.began_us);
        match named {
            Some(running) if began(&running) >= Some(asked_us) => break running,
            _ if !is_running(process) => {
                return Err(format!("process {process} has ended").into());
            }
            _ if Instant::now() > end => {
                let seconds = args.timeout;
                let text = "the daemon has not reported the result of the reload; see its log";
                return Err(format!("{}: after {seconds} s {text}", file.display()).into());
            }
            _ => {}
        }
    };
    match running.reload.and_then(|reload| reload.refused) {
        Some(reason) => Err(format!("not every file is in effect as it is: {reason}").into()),
        None => {
            writeln!(out, "{}", running.status)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the process id of the daemon that writes this file.
fn known_process(file: &Path) -> Option<i32> {
    let process = Running::read(file)?.process;
    (command_of(process)? == COMMAND).then_some(process)
}

/// Returns the program of a process: its number may now belong to another program, which SIGHUP
/// could end. `None` if there is no such process, or if `/proc` is hidden, as in our units, where
/// systemd knows the process.
fn command_of(process: i32) -> Option<String> {
    let command = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(command.trim_end().to_owned())
}
