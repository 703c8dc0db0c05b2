//! Standard output and standard error of a command.

use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

use crate::base::paint::Paint;

/// The result of a command.
pub(super) type Done = Result<ExitCode, Box<dyn Error>>;

/// The output of a command. It is not locked between two writes, because other threads may log to
/// it.
#[derive(Debug, Default)]
pub struct Output {
    is_closed: bool,
}

impl Output {
    /// Returns whether the output should have colours.
    pub fn paint(&self) -> Paint {
        Paint::of_stdout()
    }

    /// Prints the result of a command, as text or as one line of JSON.
    pub(super) fn show(&mut self, found: &(impl Serialize + Display), json: bool) -> Done {
        self.show_as(found, found, json)
    }

    /// Does the same with another text than that of the result itself.
    pub(super) fn show_as(
        &mut self,
        found: &impl Serialize,
        text: impl Display,
        json: bool,
    ) -> Done {
        match json {
            true => self.json(found)?,
            false => self.line(format_args!("{text}"))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the result of a long task: JSON to standard output, text to standard error.
    pub(super) fn tell(
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
    pub(super) fn end_if_closed(&self) {
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
pub(super) fn success(is_success: bool) -> ExitCode {
    match is_success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Prints to standard error. Ignores a closed one (`2>&1 | head`).
pub(super) fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{what}");
}
