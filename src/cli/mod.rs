//! The daemon, `blocklist-milter`, and its commands.
//!
//! Exit codes: 0 done; 1 a verdict of the demo was not the expected one, a case was not found or
//! the setup is wrong; 2 failed. For `status`: 0 no problem, 1 warning, 2 critical or no answer.

mod args;
mod daemon;
mod logs;
mod people;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::config::Config;
use crate::demo;
use crate::explain::{self, Explainer, Mail};
use crate::paint::{Paint, Painted};
use crate::serve;
use crate::setup_check;
use crate::snapshot;
use crate::status::Checked;
use blocklist_compile::console::{self, Done, FAILED, Output, say, success};

pub use args::Milter;
use args::{Command, Explain, Replay};

/// The output of `--version`: the version, the commit of a release, the target.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("BLOCKLIST_MILTER_BUILD"),
    ")"
);

/// Runs the command line. Prints errors as `blocklist-milter: what: cause`.
pub fn main() -> ExitCode {
    console::main(VERSION, run)
}

fn run(arguments: Milter, out: &mut Output) -> Done {
    let config = arguments.config.clone();
    run_command(&config, arguments.into_command()?, out).map_err(|error| {
        let is_about_it = error.to_string().contains(&*config.to_string_lossy());
        if is_about_it && matches!(config.try_exists(), Ok(false)) {
            format!("{error}; run contrib/install or the package's set-up, copy the example configuration, or name another file with --config").into()
        } else {
            error
        }
    })
}

fn run_command(config: &Path, command: Option<Command>, out: &mut Output) -> Done {
    match command {
        None => serve::run(config).map(|()| ExitCode::SUCCESS),
        Some(Command::Check { json }) => check(config, json, out),
        Some(Command::PrintConfig) => {
            write!(out, "{}", Config::load(config)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Explain(args)) => explain(config, args, out),
        Some(Command::Replay(args)) => replay(config, &args, out),
        Some(Command::Report(args)) => logs::report(config, &args, out),
        Some(Command::Correspondents(args)) => people::correspondents(&args, out),
        Some(Command::Junk(args)) => people::junk(config, &args, out),
        Some(Command::Case(args)) => logs::case(config, &args, out),
        Some(Command::SetupCheck(args)) => {
            if !rustix::process::geteuid().is_root() {
                return Err("setup-check: only root can see what the mail server and the daemon see: run it as root".into());
            }
            let servers = [&args.postfix, &args.sendmail, &args.exim];
            let findings = setup_check::run(config, servers.map(Option::as_deref));
            out.show(&findings, args.json)?;
            Ok(success(!findings.is_wrong()))
        }
        Some(Command::Reload(args)) => daemon::reload(config, &args, out),
        Some(Command::Status(args)) => daemon::status(config, &args, out),
        Some(Command::Log(args)) => daemon::log(config, &args, out),
        Some(Command::Demo) => {
            let paint = Paint::of_stdout();
            Ok(success(demo::run(out, paint)?))
        }
    }
}

/// `check --json`
#[derive(Serialize)]
struct CheckJson<'a> {
    good: bool,
    errors: Vec<&'a str>,
    #[serde(flatten)]
    checked: Option<&'a Checked>,
}

fn check(config: &Path, json: bool, out: &mut Output) -> Done {
    let checked = crate::status::check(config, None).map_err(|problems| {
        let texts: Vec<String> = problems.into_iter().map(|problem| problem.text).collect();
        texts.join("\n")
    });
    if json {
        let errors = checked.as_ref().err().into_iter();
        out.json(&CheckJson {
            good: checked.is_ok(),
            errors: errors.flat_map(|errors| errors.lines()).collect(),
            checked: checked.as_ref().ok(),
        })?;
        return Ok(ExitCode::from(if checked.is_ok() { 0 } else { FAILED }));
    }
    write!(out, "{}", checked?)?;
    Ok(ExitCode::SUCCESS)
}

fn explain(config: &Path, args: Explain, out: &mut Output) -> Done {
    let is_address =
        |path: &&PathBuf| !path.exists() && path.as_os_str().as_encoded_bytes().contains(&b'@');
    let meant = args.message.as_ref().filter(is_address);
    let meant = meant.map(|path| path.display().to_string());
    let address = args.address.or(meant);
    let mut mail = match (&address, &args.message) {
        (Some(address), _) => Mail::from_address(address),
        (None, Some(path)) => Mail::open(path)?,
        (None, None) => {
            return Err("give an address, or a stored message (- for standard input)".into());
        }
    };
    let bytes = |all: Vec<OsString>| all.into_iter().map(OsString::into_vec).collect();
    mail.mail_from = args.mail_from.map(OsString::into_vec).or(mail.mail_from);
    mail.mail_addr = args.mail_addr.map(OsString::into_vec);
    mail.recipients = bytes(args.rcpt);
    mail.recipient_addrs = bytes(args.rcpt_addr);
    mail.client = args.client;
    mail.authenticated = args.authenticated;
    mail.sendmail = args.sendmail;
    let mut explanation = explainer(config, &[])?.explain(&mail);
    explanation.find_lines();
    let is_sender = |named: &explain::Named| named.canonical.is_some();
    if let Some(address) = &address
        && !explanation.identities.iter().any(is_sender)
    {
        let mut named = explanation.identities.iter();
        let fault = named.find_map(|named| named.fault.as_deref());
        let why = fault.unwrap_or("it has no domain");
        return Err(format!("{address}: not an address: {why}").into());
    }
    let report = (&mail, &explanation);
    out.show_as(
        &explanation,
        Painted(&report, Paint::of_stdout()),
        args.json,
    )
}

fn explainer(config: &Path, correspondents: &[PathBuf]) -> Result<Explainer, snapshot::Error> {
    let explainer = Explainer::open(config, correspondents)?;
    for fault in explainer.faults() {
        say(format_args!("blocklist-milter: {fault}"));
    }
    Ok(explainer)
}

fn replay(config: &Path, args: &Replay, out: &mut Output) -> Done {
    let own = explainer(config, &[])?;
    let other = match (&args.against, args.correspondents.as_slice()) {
        (Some(other), _) => Some(explainer(other, &[])?),
        (None, []) => None,
        (None, files) => Some(explainer(config, files)?),
    };
    let replay = explain::replay(&args.mailbox, &own, other.as_ref())?;
    out.show_as(&replay, Painted(&replay, Paint::of_stdout()), args.json)
}
