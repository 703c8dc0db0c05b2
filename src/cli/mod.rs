//! The command lines of both programs: arguments, output, errors, exit codes.
//!
//! `args.rs` of each program defines its commands; man pages and completions are generated from the
//! same definitions. Each command is a function that prints to [`Output`] and returns its exit
//! code. To add a command, add a variant of `Command` in `args.rs`, a function, and an arm in
//! `run`.
//!
//! Both programs print an error as `program: what: cause` and exit with [`FAILED`]. If the reader of
//! their output closes it (`| head`), they clean up and end by SIGPIPE, without a message.

pub mod compile;
pub mod milter;
mod output;
mod progress;

use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use signal_hook::consts::SIGXFSZ;

pub use output::Output;
use output::{Done, say};

/// The output of `--version`: the version, the commit of a release, the target.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("BLOCKLIST_MILTER_BUILD"),
    ")"
);

/// The end of a help text: examples, one a line.
macro_rules! examples {
    ($one:literal $(,)?) => { concat!("Example:\n  ", $one) };
    ($($line:literal),+ $(,)?) => { concat!("Examples:", $("\n  ", $line),+) };
}
use examples;

/// Exit code of a command that failed.
pub const FAILED: u8 = 2;

/// Parses a number of things.
fn whole_number<N: FromStr>(text: &str) -> Result<N, &'static str> {
    text.parse()
        .map_err(|_| "must be a whole number, such as 4")
}

/// Makes a write beyond a limit of file sizes (`ulimit -f`) an error, like a full disk, instead of a
/// signal, which would end the program and leave half a file.
pub fn take_file_limits_as_errors() {
    // If this fails, everything else works.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Runs the main function of a program with the arguments `P`. Errors name their causes.
fn main<P: Parser>(run: impl FnOnce(P, &mut Output) -> Done) -> ExitCode {
    let arguments = match P::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return wrong_usage::<P>(&error),
    };
    take_file_limits_as_errors();
    let mut output = Output::default();
    let done = run(arguments, &mut output).and_then(|code| {
        std::io::Write::flush(&mut output)?;
        Ok(code)
    });
    done.unwrap_or_else(|error| {
        output.end_if_closed();
        let program = P::command();
        // Each of several errors has its own line.
        for line in error.to_string().lines() {
            say(format_args!("{}: {line}", program.get_name()));
        }
        ExitCode::from(FAILED)
    })
}

/// Prints requested help, or the error in the arguments, in one line.
fn wrong_usage<P: Parser>(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Help that nobody reads (`--help | head -1`) is not an error.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { FAILED } else { 0 });
    }
    let program = P::command();
    let program = program.get_name();
    let text = error.to_string();
    let mut lines = text.trim_start_matches("error: ").lines().map(str::trim);
    let about: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let tip = lines.find(|line| line.starts_with("tip: "));
    say(format_args!(
        "{program}: {} ({})",
        about.join(" "),
        tip.unwrap_or("see --help")
    ));
    ExitCode::from(FAILED)
}
