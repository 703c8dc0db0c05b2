//! How text looks on a terminal: its colours, and the columns that there are.

use std::io::{IsTerminal, stdout};

use rustix::termios::tcgetwinsize;

/// The width of text that is not for a terminal, or for one that does not say its own.
const COLUMNS: u16 = 80;
/// No line is longer or shorter: nobody reads the one, and tables do not fit into the other.
const COLUMNS_MIN: u16 = 60;
const COLUMNS_MAX: u16 = 160;

/// Whether text has colours, and how long its lines are.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    has_colours: bool,
    /// Most characters of a line.
    pub columns: usize,
}

/// Something for a terminal, with its colours and width.
pub(crate) struct Painted<'a, T>(pub &'a T, pub Paint);

impl Default for Paint {
    /// No colours, and 80 columns.
    fn default() -> Self {
        Self {
            has_colours: false,
            columns: COLUMNS.into(),
        }
    }
}

impl Paint {
    /// Returns what suits standard output: colours on a terminal, unless `NO_COLOR` is set, and its width.
    pub fn of_stdout() -> Self {
        if !stdout().is_terminal() {
            return Self::default();
        }
        let columns = tcgetwinsize(stdout()).map_or(0, |size| size.ws_col);
        let columns = match columns {
            0 => COLUMNS,
            columns => columns.clamp(COLUMNS_MIN, COLUMNS_MAX),
        };
        Self {
            has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            columns: columns.into(),
        }
    }

    /// Colours a word by its verdict.
    pub fn verdict(self, verdict: &str, width: usize) -> String {
        let colour = match verdict {
            "reject" | "discard" => "1;31",
            "tempfail" | "quarantine" | "tag" => "1;33",
            _ => "1;32",
        };
        self.with(colour, &format!("{verdict:<width$}"))
    }

    /// Formats a heading.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Formats something less important.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Formats something that needs attention.
    pub fn alarm(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn with(self, colour: &str, text: &str) -> String {
        if self.has_colours {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Breaks a text between words into lines of at most so many columns, unless a word is longer. The first line
/// begins with `start`, the others with `indent` blanks.
pub(crate) fn wrapped(start: &str, indent: usize, text: &str, columns: usize) -> String {
    let mut lines = start.to_owned();
    let mut column = start.chars().count();
    for (number, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > columns {
            lines += &format!("\n{:indent$}", "");
            column = indent;
        } else if number > 0 {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += length;
    }
    lines
}
