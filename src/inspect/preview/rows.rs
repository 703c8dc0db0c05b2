//! The rows of a list, and what becomes of each.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use super::against::Keys;
use crate::address::{Entry, Kind, escaped};
use crate::base::day::Day;
use crate::compile::guard::Guard;
use crate::compile::{Begun, Plan};
use crate::list::{Format, MAX_LINE, RawEntry, Reader, Reading, Refusal, Row, Skip};

/// Number of rows that are shown.
const SAMPLES: usize = 10;
/// Number of rows kept of each outcome, and of outcomes; the shown ones are taken from them.
const OF_EACH: usize = SAMPLES;
const OUTCOMES: usize = 64;
/// Number of line numbers kept.
const LINES: usize = 3;
/// Number of bytes read at once.
const BLOCK_BYTES: usize = 4 * MAX_LINE;

/// What becomes of the rows of a list.
#[derive(Debug, Default)]
pub struct Rows {
    /// Number of lines.
    pub lines: u64,
    /// Entries, doubles included.
    pub listed: u64,
    /// Distinct entries by kind: mailboxes, local parts, domains, subtrees.
    pub kinds: [u64; 4],
    /// Entries that the files before, or an earlier row, have as well; `None` if there are too many
    /// to compare.
    pub doubles: Option<u64>,
    /// Rejected rows by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Blank lines, comments and their like.
    pub comments: u64,
    /// Rows that list nobody, as intended, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Entries that are too broad or protected, by reason.
    pub broad: BTreeMap<String, u64>,
    /// Entries that have expired.
    pub expired: u64,
    /// Some rows with their outcome, by line.
    pub samples: Vec<Sample>,
    /// The row for which the file is refused.
    pub refused: Option<RefusedRow>,
    /// Comments of a plain list that have a date which ends no entry: their number, and the first
    /// lines.
    pub dated: (u64, Vec<u64>),
}

impl Rows {
    /// Returns the number of rejected rows.
    #[must_use]
    pub fn rejects(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// Returns how many entries there were, whatever became of them.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.listed + self.expired + self.broad.values().sum::<u64>()
    }
}

/// A row and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The line, counted from 1.
    pub line: u64,
    /// Its text, escaped.
    pub text: String,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It lists somebody.
    Listed {
        /// What.
        kind: Kind,
        /// The first day on which it does no longer.
        expires: Option<Day>,
        /// The entry as it is compared, escaped.
        entry: String,
    },
    /// It would, but that day is over.
    Expired,
    /// It lists nobody, as intended.
    Skipped(String),
    /// It is too broad, or protected.
    Broad(String),
    /// It cannot be read.
    Rejected(String),
}

impl Outcome {
    /// Returns the outcome without what is of this row alone.
    fn class(&self) -> Self {
        match self {
            Self::Listed { kind, expires, .. } => Self::Listed {
                kind: *kind,
                expires: expires.map(|_| Day(0)),
                entry: String::new(),
            },
            other => other.clone(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed {
                kind,
                expires,
                entry,
            } => {
                write!(f, "listed    {}", kind.name())?;
                if !entry.is_empty() {
                    write!(f, " {entry}")?;
                }
                match expires {
                    Some(day) => write!(f, ", until {day}"),
                    None => Ok(()),
                }
            }
            Self::Expired => f.write_str("expired"),
            Self::Skipped(why) => write!(f, "skipped   {why}"),
            Self::Broad(why) => write!(f, "LEFT OUT  {why}"),
            Self::Rejected(why) => write!(f, "REJECTED  {why}"),
        }
    }
}

/// The row for which a file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRow {
    /// The line, counted from 1.
    pub line: u64,
    /// Its text, escaped.
    pub text: String,
    /// Why.
    pub refusal: Refusal,
}

/// Takes the rows of one file.
pub(super) struct Sink<'a> {
    plan: &'a Plan,
    guard: Option<&'a Guard>,
    keys: &'a mut Keys,
    file: String,
    entry: Entry,
    rows: Rows,
    samples: BTreeMap<Outcome, Vec<Sample>>,
}

/// Reads a list.
pub(super) fn read(begun: Begun, reading: &Reading, sink: &mut Sink<'_>) -> io::Result<Rows> {
    let Begun { head, rest, .. } = begun;
    let shown = Lines::new(&head, reading);
    let is_plain = reading.format == Format::Plain;
    let mut content = io::Cursor::new(&head).chain(rest);
    let mut reader = Reader::new(reading);
    let (mut buffer, mut filled) = (vec![0; BLOCK_BYTES], 0);
    loop {
        let free = buffer.get_mut(filled..).unwrap_or_default();
        let count = match content.read(free) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        filled += count;
        if count > 0 && filled < buffer.len() {
            continue;
        }
        let before = reader.lines();
        let block = buffer.get(..filled).unwrap_or_default();
        let done = reader.read(block, count == 0, &mut |line, row| {
            sink.row(line, row, &shown);
        });
        if is_plain {
            sink.dated_comments(before, block.get(..done).unwrap_or_default());
        }
        if count == 0 {
            sink.rows.lines = reader.lines();
            return Ok(sink.finish());
        }
        buffer.copy_within(done..filled, 0);
        filled -= done;
    }
}

/// The lines at the start of a list, to show a row as it is written.
struct Lines<'h>(Vec<&'h [u8]>);

impl<'h> Lines<'h> {
    fn new(head: &'h [u8], reading: &Reading) -> Self {
        // A document is not divided by lines.
        if reading.format == Format::Json {
            return Self(Vec::new());
        }
        let mut lines: Vec<_> = head.split(|byte| *byte == b'\n').collect();
        // The last one may be cut.
        lines.pop();
        Self(lines)
    }

    fn get(&self, line: u64) -> Option<&'h [u8]> {
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        self.0.get(index).map(|line| line.trim_ascii())
    }
}

/// Longest text that is shown, in bytes.
const SHOWN_BYTES: usize = 120;

/// Makes a text safe to show.
pub(super) fn shown(text: &[u8]) -> String {
    escaped(text.get(..SHOWN_BYTES).unwrap_or(text)).to_string()
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        guard: Option<&'a Guard>,
        keys: &'a mut Keys,
        file: String,
    ) -> Self {
        keys.begin();
        Self {
            plan,
            guard,
            keys,
            file,
            entry: Entry::new(),
            rows: Rows::default(),
            samples: BTreeMap::new(),
        }
    }

    fn row(&mut self, line: u64, row: Row<'_>, lines: &Lines<'_>) {
        match row {
            Row::Entry(raw) => self.entry(line, raw, lines),
            Row::Skipped { skip, text } => self.skip(line, skip, text, lines),
            Row::Rejected { reason, text } => self.reject(line, text, reason.to_string(), lines),
            Row::Refused { refusal, text } => {
                let text = shown(text);
                self.rows.refused.get_or_insert(RefusedRow {
                    line,
                    text,
                    refusal,
                });
            }
        }
    }

    /// Takes an entry, as a build does.
    fn entry(&mut self, line: u64, raw: RawEntry<'_>, lines: &Lines<'_>) {
        if let Err(error) = self.entry.read(raw.text, self.plan.rules) {
            return self.reject(line, raw.text, error.to_string(), lines);
        }
        let expires = raw.expires.or(self.plan.expires);
        if expires.is_some_and(|day| day <= self.plan.today()) {
            self.rows.expired += 1;
            return self.sample(line, raw.text, Outcome::Expired, lines);
        }
        let kind = self.entry.kind();
        let danger = self
            .guard
            .map(|guard| guard.check(kind, self.entry.as_bytes()));
        if let Some(Err(danger)) = danger {
            let why = danger.to_string();
            count(&mut self.rows.broad, &why);
            return self.sample(line, raw.text, Outcome::Broad(why), lines);
        }
        self.rows.listed += 1;
        self.keys.add(self.entry.as_bytes(), kind, &self.file, line);
        if self.rows.listed <= SAMPLES as u64 || kind != Kind::Mailbox || raw.expires.is_some() {
            let entry = match self.entry.as_bytes() == raw.text {
                true => String::new(),
                false => shown(self.entry.as_bytes()),
            };
            let outcome = Outcome::Listed {
                kind,
                expires: raw.expires,
                entry,
            };
            self.sample(line, raw.text, outcome, lines);
        }
    }

    fn skip(&mut self, line: u64, skip: Skip, text: &[u8], lines: &Lines<'_>) {
        if !skip.is_notable() {
            self.rows.comments += 1;
            return;
        }
        let why = match skip.is_by_word() {
            true => format!("{skip}: {}", shown(text)),
            false => skip.to_string(),
        };
        count(&mut self.rows.skipped, &why);
        self.sample(line, text, Outcome::Skipped(why), lines);
    }

    fn reject(&mut self, line: u64, text: &[u8], why: String, lines: &Lines<'_>) {
        count(&mut self.rows.rejected, &why);
        self.sample(line, text, Outcome::Rejected(why), lines);
    }

    fn sample(&mut self, line: u64, text: &[u8], outcome: Outcome, lines: &Lines<'_>) {
        let class = outcome.class();
        let is_full = self.samples.len() >= OUTCOMES;
        let kept = match self.samples.get_mut(&class) {
            Some(kept) => kept,
            None if is_full => return,
            None => self.samples.entry(class).or_default(),
        };
        // A row may have several entries; it is shown with the first.
        if kept.len() < OF_EACH && kept.last().is_none_or(|last| last.line != line) {
            let text = shown(lines.get(line).unwrap_or(text));
            kept.push(Sample {
                line,
                text,
                outcome,
            });
        }
    }

    /// Finds comments with a date that ends nothing, in whole lines of a plain list.
    fn dated_comments(&mut self, before: u64, block: &[u8]) {
        let (mut line, mut from) = (before + 1, 0);
        for at in memchr::memchr_iter(b'#', block) {
            let Some(start) = block.get(from..at) else {
                continue;
            };
            line += memchr::memchr_iter(b'\n', start).count() as u64;
            let begin = memchr::memrchr(b'\n', block.get(..at).unwrap_or_default());
            let entry = block
                .get(begin.map_or(0, |begin| begin + 1)..at)
                .unwrap_or_default();
            let rest = block.get(at..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let comment = rest.get(1..end).unwrap_or_default().trim_ascii();
            from = at;
            let is_comment = entry.last().is_some_and(u8::is_ascii_whitespace);
            let is_first = !entry.contains(&b'#') && !entry.trim_ascii().is_empty();
            if is_comment && is_first && has_date(comment) && !is_expiry(comment) {
                self.rows.dated.0 += 1;
                if self.rows.dated.1.len() < LINES {
                    self.rows.dated.1.push(line);
                }
            }
        }
    }

    fn finish(&mut self) -> Rows {
        let mut rows = std::mem::take(&mut self.rows);
        (rows.kinds, rows.doubles) = self.keys.end(rows.listed);
        // The first of each outcome, then the second, until there are enough.
        let mut samples: Vec<Sample> = Vec::with_capacity(SAMPLES);
        for turn in 0..OF_EACH {
            for kept in self.samples.values() {
                if let Some(sample) = kept.get(turn)
                    && samples.len() < SAMPLES
                    && samples.iter().all(|other| other.line != sample.line)
                {
                    samples.push(sample.clone());
                }
            }
        }
        samples.sort_by_key(|sample| sample.line);
        rows.samples = samples;
        rows
    }
}

fn count(counts: &mut BTreeMap<String, u64>, why: &str) {
    if let Some(count) = counts.get_mut(why) {
        *count += 1;
        return;
    }
    let why = match counts.len() < OUTCOMES {
        true => why,
        false => "other reasons",
    };
    *counts.entry(why.to_owned()).or_default() += 1;
}

/// Returns whether a comment ends its entry.
fn is_expiry(comment: &[u8]) -> bool {
    let day = comment
        .strip_prefix(b"expires ")
        .and_then(|day| day.get(..10));
    day.is_some_and(|day| Day::read(day).is_some())
}

/// Returns whether a text has a date: two numbers and a year between `-`, `.` or `/`.
fn has_date(text: &[u8]) -> bool {
    let mut words = text.split(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'.' | b'/'));
    words.any(|word| {
        let mut parts = word
            .split(|byte| matches!(byte, b'-' | b'.' | b'/'))
            .filter(|part| !part.is_empty());
        let lengths =
            [parts.next(), parts.next(), parts.next()].map(|part| part.map_or(0, <[u8]>::len));
        matches!(lengths, [4, 1..=2, 1..=2] | [1..=2, 1..=2, 2 | 4])
    })
}
