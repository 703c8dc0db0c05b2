//! The rows of a list, and what becomes of each.

use std::collections::BTreeMap;

use super::against::Keys;
use crate::address::{Entry, Kind, escaped};
use crate::compile::Plan;
use crate::compile::guard::Guard;
use crate::list::{Format, RawEntry, Reading, Refusal, Row, Skip, lines};

/// Number of rows that are shown, and kept of each outcome.
const SAMPLES: usize = 10;
/// Number of outcomes and reasons that are told apart.
const REASONS: usize = 64;
/// Number of line numbers kept.
const LINES: usize = 3;
/// Longest text that is shown, in bytes.
const SHOWN_BYTES: usize = 120;

/// What becomes of the rows of a list.
#[derive(Debug, Default)]
pub struct Rows {
    /// Number of lines.
    pub lines: u64,
    /// Entries, doubles included.
    pub listed: u64,
    /// Distinct entries by kind: mailboxes, local parts, domains, subtrees; `None` if there are too
    /// many to compare.
    pub kinds: Option<[u64; 4]>,
    /// Rejected rows by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Whether more rows are rejected than a build allows.
    pub has_too_many_rejects: bool,
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
    /// Returns whether a build would use none of them.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || self.has_too_many_rejects
    }

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
    /// What becomes of it: "listed", "expired", "skipped", "LEFT OUT" or "REJECTED".
    pub outcome: &'static str,
    /// As what, or why.
    pub detail: String,
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

/// Makes a text safe to show.
pub(super) fn shown(text: &[u8]) -> String {
    escaped(text.get(..SHOWN_BYTES).unwrap_or(text)).to_string()
}

/// Takes the rows of one file.
pub(super) struct Sink<'a> {
    plan: &'a Plan,
    guard: Option<&'a Guard>,
    keys: &'a mut Keys,
    /// The lines at the start of the list, to show a row as it is written.
    lines: Vec<Box<[u8]>>,
    is_plain: bool,
    is_document: bool,
    entry: Entry,
    rows: Rows,
    /// Kept rows of each outcome.
    samples: BTreeMap<(&'static str, String), Vec<Sample>>,
    /// Kept entries of each kind, with and without a day of their own.
    kept: [[usize; 4]; 2],
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        guard: Option<&'a Guard>,
        keys: &'a mut Keys,
        file: String,
    ) -> Self {
        keys.begin(file);
        Self {
            plan,
            guard,
            keys,
            lines: Vec::new(),
            is_plain: false,
            is_document: false,
            entry: Entry::new(),
            rows: Rows::default(),
            samples: BTreeMap::new(),
            kept: [[0; 4]; 2],
        }
    }

    /// Notes how a list is read, and what it begins with.
    pub(super) fn begin(&mut self, reading: &Reading, head: &[u8]) {
        self.is_plain = reading.format == Format::Plain;
        self.is_document = reading.format == Format::Json;
        if !self.is_document {
            let all = lines(head).map(|line| {
                let line = line.trim_ascii();
                line.get(..SHOWN_BYTES).unwrap_or(line).into()
            });
            self.lines = all.collect();
            // The last one may be cut.
            if !head.ends_with(b"\n") {
                self.lines.pop();
            }
        }
    }

    pub(super) fn row(&mut self, line: u64, row: Row<'_>) {
        match row {
            Row::Entry(raw) => self.entry(line, raw),
            Row::Skipped { skip, .. } if !skip.is_notable() => self.rows.comments += 1,
            Row::Skipped { skip, text } => self.skip(line, skip, text),
            Row::Rejected { reason, text } => self.reject(line, text, &reason.to_string()),
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
    fn entry(&mut self, line: u64, raw: RawEntry<'_>) {
        if let Err(error) = self.entry.read(raw.text, self.plan.rules) {
            return self.reject(line, raw.text, &error.to_string());
        }
        let expires = raw.expires.or(self.plan.expires);
        if let Some(day) = expires.filter(|day| *day <= self.plan.today()) {
            self.rows.expired += 1;
            return self.sample(line, raw.text, "expired", "", format!("on {day}"));
        }
        let kind = self.entry.kind();
        let danger = self
            .guard
            .map(|guard| guard.check(kind, self.entry.as_bytes()));
        if let Some(Err(danger)) = danger {
            let why = danger.to_string();
            count(&mut self.rows.broad, &why);
            return self.sample(line, raw.text, "LEFT OUT", &why, why.clone());
        }
        self.rows.listed += 1;
        self.keys.add(self.entry.as_bytes(), kind, line);
        let kept = &mut self.kept[usize::from(raw.expires.is_some())][kind as usize];
        if *kept < SAMPLES {
            *kept += 1;
            self.sample_entry(line, kind, raw);
        }
    }

    fn sample_entry(&mut self, line: u64, kind: Kind, raw: RawEntry<'_>) {
        let mut detail = kind.name().to_owned();
        let entry = self.entry.as_bytes();
        if entry != raw.text && entry.strip_prefix(b"@") != Some(raw.text) {
            detail = format!("{detail} {}", shown(entry));
        }
        if let Some(day) = raw.expires {
            detail = format!("{detail}, until {day}");
        }
        let dated = if raw.expires.is_some() { " until" } else { "" };
        let class = format!("{}{dated}", kind.name());
        self.sample(line, raw.text, "listed", &class, detail);
    }

    fn skip(&mut self, line: u64, skip: Skip, text: &[u8]) {
        let why = match skip.is_by_word() {
            true => format!("{skip}: {}", shown(text)),
            false => skip.to_string(),
        };
        count(&mut self.rows.skipped, &why);
        self.sample(line, text, "skipped", &why, why.clone());
    }

    fn reject(&mut self, line: u64, text: &[u8], why: &str) {
        count(&mut self.rows.rejected, why);
        // What to do about it is shown once, below the rows.
        let cause = why.split_once("; ").map_or(why, |(cause, _)| cause);
        self.sample(line, text, "REJECTED", why, cause.to_owned());
    }

    /// Keeps a row to show it, if there are few of the same outcome and class.
    fn sample(
        &mut self,
        line: u64,
        text: &[u8],
        outcome: &'static str,
        class: &str,
        detail: String,
    ) {
        let class = (outcome, class.to_owned());
        let is_full = self.samples.len() >= REASONS;
        let kept = match self.samples.get_mut(&class) {
            Some(kept) => kept,
            None if is_full => return,
            None => self.samples.entry(class).or_default(),
        };
        // A row may have several entries; it is shown with the first.
        let is_same_row = |last: &Sample| last.line == line && !self.is_document;
        if kept.len() >= SAMPLES || kept.last().is_some_and(is_same_row) {
            return;
        }
        let number = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let text = self.lines.get(number).map_or(text, |line| line);
        kept.push(Sample {
            line,
            text: shown(text),
            outcome,
            detail,
        });
    }

    /// Finds comments with a date that ends nothing, in whole lines of a plain list.
    pub(super) fn comments(&mut self, before: u64, block: &[u8]) {
        if !self.is_plain || memchr::memchr(b'#', block).is_none() {
            return;
        }
        for (line, text) in (before + 1..).zip(lines(block)) {
            let Some(at) = memchr::memchr(b'#', text) else {
                continue;
            };
            let (entry, comment) = text.split_at(at);
            let note = comment.get(1..).unwrap_or_default().trim_ascii_start();
            let is_note = has_date(note) && !note.starts_with(b"expires ");
            if is_note && !entry.trim_ascii().is_empty() {
                self.rows.dated.0 += 1;
                if self.rows.dated.1.len() < LINES {
                    self.rows.dated.1.push(line);
                }
            }
        }
    }

    pub(super) fn finish(mut self, lines: u64) -> Rows {
        self.rows.lines = lines;
        self.rows.kinds = self.keys.end();
        let (rejects, entries) = (self.rows.rejects(), self.rows.entries());
        self.rows.has_too_many_rejects = self.plan.max_rejects.is_over(rejects, entries);
        // The first of each outcome, then the second, until there are enough.
        let samples = &mut self.rows.samples;
        for turn in 0..SAMPLES {
            for sample in self.samples.values().filter_map(|kept| kept.get(turn)) {
                let is_shown = samples.iter().any(|other| other.line == sample.line);
                if samples.len() < SAMPLES && (self.is_document || !is_shown) {
                    samples.push(sample.clone());
                }
            }
        }
        samples.sort_by_key(|sample| sample.line);
        self.rows
    }
}

fn count(counts: &mut BTreeMap<String, u64>, why: &str) {
    if let Some(count) = counts.get_mut(why) {
        *count += 1;
        return;
    }
    let why = match counts.len() < REASONS {
        true => why,
        false => "other reasons",
    };
    *counts.entry(why.to_owned()).or_default() += 1;
}

/// Returns whether a text has a date: two numbers and a year between `-`, `.` or `/`.
fn has_date(text: &[u8]) -> bool {
    let mut words = text.split(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'.' | b'/'));
    words.any(|word| {
        let parts = word.split(|byte| !byte.is_ascii_digit());
        let lengths: Vec<usize> = parts.map(<[u8]>::len).take(3).collect();
        matches!(
            lengths.as_slice(),
            [4, 1..=2, 1..=2] | [1..=2, 1..=2, 2 | 4]
        )
    })
}
