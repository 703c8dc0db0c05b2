//! `blocklist-milter`: arguments, run, exit code. Everything else is in the library.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use blocklist_milter::cli::milter::{Command, Explain, Milter, Replay};
use blocklist_milter::config::Config;
use blocklist_milter::explain::{self, Explainer, Mail, Paint};
use blocklist_milter::{cli, demo, serve, snapshot};

fn main() -> ExitCode {
    let arguments: Milter = match cli::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match run(&arguments) {
        Ok(code) => code,
        Err(failure) if is_closed_pipe(&*failure) => ExitCode::SUCCESS,
        Err(failure) => {
            for line in with_causes(&*failure).lines() {
                eprintln!("blocklist-milter: {line}");
            }
            ExitCode::from(cli::FAILED)
        }
    }
}

fn run(arguments: &Milter) -> Result<ExitCode, Box<dyn Error>> {
    let mut out = io::stdout().lock();
    match &arguments.command {
        Some(Command::Explain(what)) => explain_message(arguments, what, &mut out)?,
        Some(Command::Replay(what)) => replay_mailbox(arguments, what, &mut out)?,
        Some(Command::Demo) if !demo::run(&mut out)? => return Ok(ExitCode::FAILURE),
        Some(Command::Demo) => {}
        None if arguments.print_config => write!(out, "{}", Config::load(&arguments.config)?)?,
        None if arguments.check => write!(out, "{}", snapshot::check(&arguments.config)?)?,
        None => serve::run(&arguments.config)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn explain_message(
    arguments: &Milter,
    what: &Explain,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let mut mail = match (&what.address, &what.message) {
        (Some(address), _) => Mail::from_address(address),
        (None, Some(path)) => Mail::open(path)?,
        (None, None) => Mail::default(),
    };
    if let Some(sender) = &what.mail_from {
        mail.mail_from = Some(sender.clone().into_bytes());
    }
    mail.recipients = what.rcpt.iter().map(|to| to.clone().into_bytes()).collect();
    mail.client = what.client;
    mail.authenticated = what.authenticated;
    let explanation = Explainer::open(&arguments.config)?.explain(&mail);
    if what.json {
        writeln!(out, "{}", serde_json::to_string(&explanation)?)?;
    } else {
        let paint = Paint::of_stdout();
        let report = explain::Report {
            mail: &mail,
            explanation: &explanation,
            paint,
        };
        write!(out, "{report}")?;
    }
    Ok(())
}

fn replay_mailbox(
    arguments: &Milter,
    what: &Replay,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let explainer = Explainer::open(&arguments.config)?;
    let other = what.against.as_deref().map(Explainer::open).transpose()?;
    let replay = explain::replay(&what.mailbox, &explainer, other.as_ref())?;
    if what.json {
        writeln!(out, "{}", serde_json::to_string(&replay)?)?;
    } else {
        write!(out, "{}", replay.report(Paint::of_stdout()))?;
    }
    Ok(())
}

/// The failure and what caused it, each said once.
fn with_causes(failure: &dyn Error) -> String {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(deeper) = cause {
        let detail = deeper.to_string();
        if !text.contains(&detail) {
            text = format!("{text}: {detail}");
        }
        cause = deeper.source();
    }
    text
}

/// `blocklist-milter ... | head` is no failure.
fn is_closed_pipe(failure: &(dyn Error + 'static)) -> bool {
    failure
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
