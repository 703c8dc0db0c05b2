//! The result of a compilation. JSON shows it directly; `text` shows it as text.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::changes::Changed;
use super::plan::Plan;
use super::read::{Counts, Example, Input, Opened, Refused, name_of, text};
use super::wording::{KindCount, bits_per_entry, digest_shown};
use super::write::Sources;
use crate::base::numbers::counted;
use crate::filter::{Header, Source, sizing};
use crate::lookup::rate_per_sender;

/// The result of a compilation.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The filter file.
    pub output: PathBuf,
    /// Name of the list.
    pub name: String,
    /// Why nothing was written, although there was no error: a limit such as `--strict`,
    /// `--max-rejects` or `--max-shrink`.
    pub refused: Option<String>,
    /// The inputs in the order of their numbers.
    pub inputs: Vec<InputReport>,
    /// Entries read, duplicates included.
    pub rows: u64,
    /// Entries that an earlier row had already listed.
    pub duplicates: u64,
    /// Distinct entries by kind.
    pub kinds: Vec<KindCount>,
    /// Rejected lines by reason.
    pub rejects: Vec<Reject>,
    /// Number of rejected lines.
    pub rejected: u64,
    /// Files and folders that might be meant as lists, and were not read, with the reason.
    pub passed_over: Vec<String>,
    /// Rows that list nobody, as intended, by reason.
    pub skipped: Vec<Skipped>,
    /// Entries that were left out because they are too broad, or protected, by reason.
    pub broad: Vec<Reject>,
    /// The files of which nothing was read; then nothing was written.
    pub refused_files: Vec<RefusedFile>,
    /// Entries that were left out because they have expired.
    pub expired: u64,
    /// The generation that an administrator has allowed to shrink.
    pub approved_shrink: Option<u64>,
    /// Number of entries of the filter that was updated or replaced.
    pub entries_before: Option<u64>,
    /// Lists that are in the replaced filter, but not among the inputs.
    pub no_longer_read: Vec<String>,
    /// The inputs, as the filter names them.
    #[serde(skip)]
    pub(crate) files: Vec<String>,
    /// What an update changed; if it changed nothing, nothing was written.
    pub changed: Option<Changed>,
    /// The filter; `None` if it was refused.
    pub filter: Option<FilterReport>,
    /// The part of a list, if one was written instead of a filter.
    pub part: Option<PartReport>,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of bytes that did not fit into memory.
    pub spilled_bytes: u64,
}

/// One input.
#[derive(Clone, Debug, Serialize)]
pub struct InputReport {
    /// The file.
    pub file: String,
    /// The format it was read as.
    pub format: String,
    /// Number of lines.
    pub lines: u64,
    /// Number of entries, duplicates included.
    pub entries: u64,
    /// Entries whose record names this list: no earlier list has them.
    pub own: u64,
    /// Entries that were left out because they have expired.
    pub expired: u64,
    /// Entries that the replaced filter had from this list.
    pub before: Option<u64>,
    /// Whether the last line has no line end: the list may be truncated.
    pub ends_within_line: bool,
    /// Number of rejected lines.
    pub rejected: u64,
    /// Entries that were left out because they are too broad, or protected.
    pub broad: u64,
    /// The first rejected line, with its number and the reason.
    #[serde(skip)]
    pub(crate) first_reject: String,
}

impl InputReport {
    /// Adds the counts of another input.
    fn with(self, other: &Self) -> Self {
        Self {
            lines: self.lines + other.lines,
            entries: self.entries + other.entries,
            own: self.own + other.own,
            expired: self.expired + other.expired,
            before: None,
            ends_within_line: self.ends_within_line || other.ends_within_line,
            rejected: self.rejected + other.rejected,
            broad: self.broad + other.broad,
            ..self
        }
    }

    /// Returns the report for a list of which only the source in a filter is known.
    pub(crate) fn of_source(source: &Source, format: &str, expired: u64) -> Self {
        Self {
            file: source.file.clone(),
            format: format.to_owned(),
            lines: source.lines,
            entries: source.entries,
            own: 0,
            expired,
            before: None,
            ends_within_line: false,
            rejected: source.rejected,
            broad: 0,
            first_reject: String::new(),
        }
    }
}

/// Lines rejected for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct Reject {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The first of them, as file:line: text.
    pub first: Vec<String>,
}

/// Rows that list nobody for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Why: "allows a sender", "comment", ...
    pub reason: String,
    /// How many.
    pub count: u64,
    /// Whether the text shows it; it does not show blank lines and comments.
    pub notable: bool,
    /// The first of them, as file:line: text.
    pub first: Vec<String>,
}

/// The format of a file of which no line was read.
pub(super) const REFUSED: &str = "refused";

/// A file of which nothing is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedFile {
    /// The file.
    pub file: String,
    /// The line that refuses it, counted from 1; 0 if it is none.
    pub line: u64,
    /// Its text, or its beginning.
    pub text: String,
    /// Why, and what to do.
    pub reason: String,
}

impl RefusedFile {
    fn new(file: &str, refused: &Refused) -> Self {
        let reason = refused.refusal.to_string();
        let reason = match refused.refusal.is_for_preview() {
            true => with_preview(&reason, file),
            false => reason,
        };
        Self {
            file: file.to_owned(),
            line: refused.line,
            text: refused.text.clone(),
            reason,
        }
    }

    /// Returns the refusal of a file with too many rejected lines.
    pub(crate) fn of_rejects(file: &str, reason: &str) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            text: String::new(),
            reason: with_preview(reason, file),
        }
    }
}

/// Adds the command that shows what can be done.
fn with_preview(reason: &str, file: &str) -> String {
    format!("{reason}: blocklist-compile preview {file}")
}

impl fmt::Display for RefusedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            text,
            reason,
        } = self;
        match line {
            0 => write!(f, "{file}: {reason}"),
            _ => write!(f, "{file}:{line}: \"{text}\": {reason}"),
        }
    }
}

/// The written filter.
#[derive(Clone, Debug, Serialize)]
pub struct FilterReport {
    /// Distinct entries.
    pub entries: u64,
    /// Number of the build of this list.
    pub generation: u64,
    /// The time of the build, in seconds since 1970.
    pub built_s: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Size of the pages, which the daemon holds in memory.
    pub page_bytes: u64,
    /// Bits of the pages for each entry.
    pub bits_per_entry: f64,
    /// Target false-positive rate.
    pub fpr_target: f64,
    /// Expected false-positive rate.
    pub fpr_expected: f64,
    /// The expected rate for a sender. A sender is looked up under several keys if there are
    /// several kinds of entries.
    pub fpr_per_sender: f64,
    /// Whether records confirm every hit.
    pub records: bool,
    /// Whether all users can read the file, and the seed in it.
    pub world_readable: bool,
    /// Whether all users can write the file.
    pub world_writable: bool,
}

impl FilterReport {
    /// Returns the report for the header that was written.
    pub(crate) fn new(header: &Header, output: &Path) -> Self {
        let mode = output.metadata().map_or(0, |meta| meta.mode());
        let page_bytes = header.page_bytes();
        let fpr_expected = sizing::rate(header.entries, header.shape);
        Self {
            entries: header.entries,
            generation: header.spec.generation,
            built_s: header.spec.built,
            bytes: header.file_bytes(),
            page_bytes,
            bits_per_entry: bits_per_entry(page_bytes, header.entries),
            fpr_target: header.spec.fpr,
            fpr_expected,
            fpr_per_sender: rate_per_sender(fpr_expected, header.spec.kinds),
            records: header.spec.records,
            world_readable: mode & 0o004 != 0,
            world_writable: mode & 0o002 != 0,
        }
    }
}

/// The written part of a list.
#[derive(Clone, Debug, Serialize)]
pub struct PartReport {
    /// Name of the piece; empty for standard input.
    pub piece: String,
    /// XXH3-128 of the text, as 32 hexadecimal digits.
    pub digest: String,
    /// Distinct entries.
    pub entries: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Whether all users can read the file, and the seed in it.
    pub world_readable: bool,
}

impl PartReport {
    /// Returns the report for the header that was written.
    pub(crate) fn new(header: &Header, output: &Path) -> Self {
        let mode = output.metadata().map_or(0, |meta| meta.mode());
        Self {
            piece: header.spec.name.clone(),
            digest: digest_shown(header.part.unwrap_or(0)),
            entries: header.entries,
            bytes: header.file_bytes(),
            world_readable: mode & 0o004 != 0,
        }
    }
}

/// The result of reading, for the sources in the filter and for the report.
#[derive(Debug, Default)]
pub(crate) struct ReadReport {
    pub(crate) sources: Vec<Source>,
    pub(crate) inputs: Vec<InputReport>,
    pub(crate) files: Vec<String>,
    pub(crate) rejects: Vec<Reject>,
    pub(crate) rows: u64,
    pub(crate) rejected: u64,
    pub(crate) expired: u64,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) broad: Vec<Reject>,
    pub(crate) refused_files: Vec<RefusedFile>,
}

impl ReadReport {
    /// Makes one source and one input of all of them: they are pieces of this file.
    pub(crate) fn count_as(&mut self, file: &str) {
        let path = Path::new(file);
        let (name, file) = (name_of(path), text(path));
        for source in &mut self.sources {
            (source.name, source.file) = (name.clone(), file.clone());
        }
        let mut sources = Sources::default();
        sources.add_counts(&self.sources);
        self.sources = sources.into_list();
        let inputs = std::mem::take(&mut self.inputs);
        self.inputs = inputs
            .into_iter()
            .reduce(|all, input| all.with(&input))
            .into_iter()
            .collect();
        for input in &mut self.inputs {
            input.file.clone_from(&file);
        }
        self.files = vec![file; self.inputs.len()];
    }

    /// Joins the counts of all workers with what is known about the inputs.
    pub(crate) fn new(inputs: &[Input], mut opened: Vec<Opened>, mut counts: Counts) -> Self {
        opened.sort_by_key(|opened| opened.input);
        let mut all = Self::default();
        for Opened {
            input,
            reading,
            mut source,
            ends_within_line,
            ..
        } in opened
        {
            let file = inputs
                .get(input as usize)
                .map_or_else(String::new, Input::shown);
            let counts = counts.counts(input);
            source.lines = counts.lines();
            source.entries = counts.entries;
            source.rejected = counts.rejected;
            all.rows += counts.entries;
            all.rejected += counts.rejected;
            all.expired += counts.expired;
            let shown = |examples: Vec<Example>| -> Vec<String> {
                examples
                    .iter()
                    .map(|example| format!("{file}:{}: {}", example.line, example.text))
                    .collect()
            };
            let refused = reading.as_ref().err().map(|refusal| Refused {
                refusal: refusal.clone(),
                line: 0,
                text: String::new(),
            });
            let refused = refused.or_else(|| counts.refused());
            all.refused_files
                .extend(refused.map(|refused| RefusedFile::new(&file, &refused)));
            for (skip, word, count, examples) in counts.skips() {
                let reason = match word {
                    "" => skip.to_string(),
                    word => format!("{skip}: {word}"),
                };
                match all.skipped.iter_mut().find(|other| other.reason == reason) {
                    Some(other) => other.count += count,
                    None => all.skipped.push(Skipped {
                        reason,
                        count,
                        notable: skip.is_notable(),
                        first: shown(examples),
                    }),
                }
            }
            for (reason, count, examples) in counts.rejects() {
                add(&mut all.rejects, reason, count, shown(examples));
            }
            for (reason, count, examples) in counts.broads() {
                add(&mut all.broad, reason, count, shown(examples));
            }
            all.inputs.push(InputReport {
                file,
                format: reading
                    .map_or_else(|_| REFUSED.to_owned(), |reading| reading.format.to_string()),
                lines: counts.lines(),
                entries: counts.entries,
                own: 0,
                expired: counts.expired,
                before: None,
                ends_within_line,
                rejected: counts.rejected,
                broad: counts.broad,
                first_reject: counts.first_reject(),
            });
            all.files.push(source.file.clone());
            all.sources.push(source);
        }
        all.rejects
            .sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        all
    }
}

/// Adds lines to those with the same reason.
fn add(rejects: &mut Vec<Reject>, reason: &str, count: u64, first: Vec<String>) {
    match rejects.iter_mut().find(|reject| reject.reason == reason) {
        Some(reject) => reject.count += count,
        None => rejects.push(Reject {
            reason: reason.to_owned(),
            count,
            first,
        }),
    }
}

impl Report {
    /// Returns what is known when everything is read.
    pub(crate) fn after_reading(plan: &Plan, read: ReadReport, spilled_bytes: u64) -> Self {
        Self {
            output: plan.output.clone(),
            name: plan.name.clone(),
            refused: None,
            files: read.files,
            inputs: read.inputs,
            rows: read.rows,
            duplicates: 0,
            kinds: Vec::new(),
            rejects: read.rejects,
            rejected: read.rejected,
            passed_over: Vec::new(),
            skipped: read.skipped,
            broad: read.broad,
            refused_files: read.refused_files,
            expired: read.expired,
            approved_shrink: None,
            entries_before: None,
            no_longer_read: Vec::new(),
            changed: None,
            filter: None,
            part: None,
            seconds: 0.0,
            spilled_bytes,
        }
    }

    /// Adds the rejected, skipped and repaired lines of the lists of removals.
    pub(crate) fn add_rejects(&mut self, removals: ReadReport) {
        self.rejected += removals.rejected;
        self.rejects.extend(removals.rejects);
        self.skipped.extend(removals.skipped);
        self.broad.extend(removals.broad);
        self.refused_files.extend(removals.refused_files);
        self.inputs.extend(removals.inputs);
        self.rows += removals.rows;
    }

    /// Returns whether a line of this input was rejected or left out.
    pub(crate) fn leaves_out(&self, file: &str) -> bool {
        self.inputs
            .iter()
            .any(|input| input.file == file && input.rejected + input.broad > 0)
    }

    /// Returns, for one line of a message, which inputs gave no entry, and what they gave instead.
    pub(crate) fn why_nothing(&self, output: &Path) -> String {
        let inputs = match self.inputs.as_slice() {
            [] => "the folder, which contains no list".to_owned(),
            [input] => input.file.clone(),
            [input, others @ ..] => format!("{} and {} more", input.file, others.len()),
        };
        if let Some(reject) = self.rejects.first() {
            let first = reject.first.first().map_or("", String::as_str);
            return format!(
                "{inputs}: {} rejected ({first}: {})",
                counted(self.rejected, "line", "lines"),
                reject.reason
            );
        }
        let nothing = match (self.expired, self.skipped.iter().any(|skip| skip.notable)) {
            (0, false) => "it lists nothing",
            (0, true) => "all of its rows allow senders or are about something else",
            _ => "all of its entries have expired",
        };
        match self.entries_before {
            Some(1..) => format!("{inputs}: {nothing}, but {} has entries", output.display()),
            _ => format!("{inputs}: {nothing}"),
        }
    }

    /// Refuses the output if more lines were rejected than the plan allows, or if an input is
    /// empty under `--strict`; returns whether it is refused.
    pub(crate) fn refuse(&mut self, plan: &Plan) -> bool {
        self.refuse_rejects(plan);
        if let [refused, others @ ..] = self.refused_files.as_slice() {
            self.refused = Some(match others.len() {
                0 => refused.to_string(),
                count => format!(
                    "{refused}; and {} more",
                    counted(count as u64, "file", "files")
                ),
            });
        }
        if plan.strict
            && !plan.allow_empty
            && self.refused.is_none()
            && let Some(input) = self.inputs.iter().find(|input| input.entries == 0)
        {
            self.refused = Some(format!(
                "no entry in {}: --strict allows this only with --allow-empty",
                input.file
            ));
        }
        self.refused.is_some()
    }
}
