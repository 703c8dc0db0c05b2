//! Short forms of what most tests do: search a text, run a program, read a table, roll dice.
#![allow(dead_code, reason = "each test program takes what it needs")]

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Fails unless the text contains this.
#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in\n{text}");
}

/// Fails unless the text contains each of these.
#[track_caller]
pub(crate) fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        has(text, part);
    }
}

/// Returns the words of a text.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Returns the rows of a table: one a line, its cells between `|` with blanks around. Other blanks
/// around a cell do not count; `\n`, `\t` and `\s` in it are a line end, a tab and a blank. A line that begins with
/// `// ` is a comment.
#[track_caller]
pub(crate) fn rows<const N: usize>(table: &'static str) -> Vec<[&'static str; N]> {
    let cell = |cell: &'static str| match cell.trim() {
        plain if !plain.contains('\\') => plain,
        escaped => {
            let parts = escaped.split("\\\\");
            let escapes = [("\\n", "\n"), ("\\t", "\t"), ("\\s", " ")];
            let replace = |part: String, (escape, sign)| part.replace(escape, sign);
            let parts = parts.map(|part| escapes.into_iter().fold(part.to_owned(), replace));
            &*parts.collect::<Vec<_>>().join("\\").leak()
        }
    };
    let row = |row: &'static str| {
        let is_end = |&(at, _): &(usize, &str)| {
            let behind = &row[at + 1..];
            let before = &row[..at];
            (before.is_empty() || before.ends_with(' '))
                && (behind.is_empty() || behind.starts_with(' '))
        };
        let mut start = 0;
        let mut cells = Vec::new();
        for (at, _) in row.match_indices('|').filter(is_end) {
            cells.push(cell(&row[start..at]));
            start = at + 1;
        }
        cells.push(cell(&row[start..]));
        cells
            .try_into()
            .unwrap_or_else(|cells| panic!("{N} cells expected: {cells:?}"))
    };
    let lines = table.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("// "))
        .map(row)
        .collect()
}

/// Returns a text compressed by gzip.
pub(crate) fn packed(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).expect("memory");
    packed.finish().expect("memory")
}

/// What a program said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    /// `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::with_input(command.stdin(Stdio::null()), b"")
    }

    /// Runs a command to its end, with this input.
    #[track_caller]
    pub(crate) fn with_input(command: &mut Command, input: &[u8]) -> Self {
        Self::written(command.stdout(Stdio::piped()), input)
    }

    /// The same; its output goes where the command says.
    #[track_caller]
    pub(crate) fn written(command: &mut Command, input: &[u8]) -> Self {
        if !input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input may have closed it.
            let _ = stdin.write_all(input);
        }
        let done = child.wait_with_output().expect("our own child");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: done.status.code(),
            signal: done.status.signal(),
            out: text(done.stdout),
            err: text(done.stderr),
        }
    }

    /// Returns its output; it must have ended with 0.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Returns all that it said; it must have ended with this code, and said each of these.
    #[track_caller]
    pub(crate) fn ends(self, code: i32, parts: &[&str]) -> String {
        let said = self.all();
        assert_eq!(self.code, Some(code), "{said}");
        has_all(&said, parts);
        said
    }

    /// Returns its output and its errors.
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Returns its output as JSON; it must have ended with 0.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }
}

/// Random numbers that are the same for the same seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("below a usize")
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())].clone()
    }
}
