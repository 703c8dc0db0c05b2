//! The command lines of both programs, apart from what they do, so that man pages are
//! made from the same definitions.

pub mod compile;
pub mod milter;
mod progress;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// Exit code of what failed.
pub const FAILED: u8 = 2;

/// The command line of this process.
///
/// # Errors
/// The exit code, when there is nothing to run: the help was asked for, or a mistake was
/// answered with one line.
pub fn parse<P: Parser>() -> Result<P, ExitCode> {
    P::try_parse().map_err(|error| {
        if !error.use_stderr()
            || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { FAILED } else { 0 });
        }
        let text = error.to_string();
        let mut lines = text.trim_start_matches("error: ").lines().map(str::trim);
        let about: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let tip = lines.find(|line| line.starts_with("tip: "));
        let _ = writeln!(
            io::stderr(),
            "{}: {} ({})",
            P::command().get_name(),
            about.join(" "),
            tip.unwrap_or("see --help")
        );
        ExitCode::from(FAILED)
    })
}
