//! What the command lines of all programs share: arguments, output, errors, exit codes.
//!
//! `args.rs` of each program defines its commands; man pages and completions are generated from the
//! same definitions. Each command is a function that prints to [`Output`] and returns its exit
//! code. To add a command, add a variant of `Command` in `args.rs`, a function, and an arm in
//! `run`.
//!
//! The programs print an error as `program: what: cause` and exit with [`FAILED`]. If the reader of
//! their output closes it (`| head`), they clean up and end by SIGPIPE, without a message.

use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use serde::Serialize;
use signal_hook::consts::{SIGPIPE, SIGXFSZ};
use signal_hook::low_level::emulate_default_handler;

/// The end of a help text: examples, one a line.
#[doc(hidden)]
#[macro_export]
macro_rules! examples {
    ($one:literal $(,)?) => { concat!("Example:\n  ", $one) };
    ($($line:literal),+ $(,)?) => { concat!("Examples:", $("\n  ", $line),+) };
}
pub use examples;

/// Exit code of a command that failed.
pub const FAILED: u8 = 2;

/// Parses a number of things.
pub fn whole_number<N: FromStr>(text: &str) -> Result<N, &'static str> {
    text.parse()
        .map_err(|_| "must be a whole number, such as 4")
}

/// Makes a write beyond a limit of file sizes (`ulimit -f`) an error, like a full disk, instead of a
/// signal, which would end the program and leave half a file.
pub fn take_file_limits_as_errors() {
    // If this fails, everything else works.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Runs the main function of a program with the arguments `P`. Errors name their causes. `version` is the
/// output of `--version`: only the package of the programs knows their commit.
pub fn main<P: Parser>(
    version: &'static str,
    run: impl FnOnce(P, &mut Output) -> Done,
) -> ExitCode {
    let matches = P::command().version(version).try_get_matches();
    let arguments = match matches.and_then(|matches| P::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return wrong_usage::<P>(&error),
    };
    take_file_limits_as_errors();
    let mut output = Output::default();
    let done = run(arguments, &mut output).and_then(|code| {
        output.flush()?;
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

/// The result of a command.
pub type Done = Result<ExitCode, Box<dyn Error>>;

/// The output of a command. It is not locked between two writes, because other threads may log to
/// it.
#[derive(Debug, Default)]
pub struct Output {
    is_closed: bool,
}

impl Output {
    /// Prints the result of a command, as text or as one line of JSON.
    pub fn show(&mut self, found: &(impl Serialize + Display), json: bool) -> Done {
        self.show_as(found, found, json)
    }

    /// Does the same with another text than that of the result itself.
    pub fn show_as(&mut self, found: &impl Serialize, text: impl Display, json: bool) -> Done {
        match json {
            true => self.json(found)?,
            false => self.line(format_args!("{text}"))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the result of a long task: JSON to standard output, text to standard error.
    pub fn tell(
        &mut self,
        done: &(impl Serialize + Display),
        is_refused: bool,
        json: bool,
        quiet: bool,
    ) -> Done {
        if json {
            self.json(done)?;
        } else if !quiet || is_refused {
            say(format_args!("{done}"));
        }
        Ok(success(!is_refused))
    }

    /// Prints one line of JSON.
    pub fn json(&mut self, found: &impl Serialize) -> io::Result<()> {
        let json = serde_json::to_string(found)?;
        self.line(format_args!("{json}"))
    }

    /// Prints one or more lines in one write: a reader that takes only the first line must not end
    /// the program early. Adds the last line end, if there is a text without it; an
    /// empty text prints nothing.
    pub fn line(&mut self, lines: fmt::Arguments<'_>) -> io::Result<()> {
        let mut lines = lines.to_string();
        if !lines.is_empty() && !lines.ends_with('\n') {
            lines.push('\n');
        }
        self.write_all(lines.as_bytes())
    }

    /// Ends the program by SIGPIPE, like other programs, if nobody reads its output any more.
    fn end_if_closed(&self) {
        if self.is_closed {
            // The runtime ignores the signal, so that writing fails instead. This does not return.
            let _ = emulate_default_handler(SIGPIPE);
        }
    }

    fn checked<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        written.map_err(|error| {
            let kind = error.kind();
            self.is_closed |= kind == io::ErrorKind::BrokenPipe;
            io::Error::new(kind, format!("standard output: {error}"))
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.checked(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.checked(io::stdout().flush())
    }
}

/// Returns the exit code 0, or 1 for the other of two answers.
pub fn success(is_success: bool) -> ExitCode {
    match is_success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Returns a text of at most `most` characters; a text that is cut ends with "...".
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(3)).collect();
    format!("{start}...")
}

/// Prints to standard error. Ignores a closed one (`2>&1 | head`).
pub fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{what}");
}
