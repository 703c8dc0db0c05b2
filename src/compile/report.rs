//! The result of a compilation. JSON shows it directly; `text` shows it as text.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::plan::Plan;
use super::read::{Counts, Example, Input, Opened, name_of, text};
use super::wording::{KindCount, bits_per_entry, digest_shown};
use super::write::{Changed, Sources};
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
    /// Faulty rows that were repaired because their meaning was clear, by fault.
    pub mended: Vec<Mended>,
    /// Entries that were left out because they have expired.
    pub expired: u64,
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
            ..self
        }
    }

    /// Returns the report for a list of which only the source in a filter is known.
    pub(crate) fn of_source(source: &Source, expired: u64) -> Self {
        Self {
            file: source.file.clone(),
            format: "parts".to_owned(),
            lines: source.lines,
            entries: source.entries,
            own: 0,
            expired,
            before: None,
            ends_within_line: false,
            rejected: source.rejected,
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

/// Faulty rows whose meaning was clear.
#[derive(Clone, Debug, Serialize)]
pub struct Mended {
    /// The fault, and how it was repaired.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The first of them, as file:line: text.
    pub first: Vec<String>,
}

/// The written filter.
#[derive(Clone, Debug, Serialize)]
pub struct FilterReport {
    /// Distinct entries.
    pub entries: u64,
    /// Number of the build of this list.
    pub generation: u64,
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
    pub(crate) mended: Vec<Mended>,
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
            format,
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
            for (skip, count, examples) in counts.skips() {
                let reason = skip.to_string();
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
            for (mend, count, examples) in counts.mends() {
                let reason = mend.to_string();
                match all.mended.iter_mut().find(|other| other.reason == reason) {
                    Some(other) => other.count += count,
                    None => all.mended.push(Mended {
                        reason,
                        count,
                        first: shown(examples),
                    }),
                }
            }
            for (reason, count, examples) in counts.rejects() {
                match all
                    .rejects
                    .iter_mut()
                    .find(|reject| reject.reason == reason)
                {
                    Some(reject) => reject.count += count,
                    None => all.rejects.push(Reject {
                        reason: reason.to_owned(),
                        count,
                        first: shown(examples),
                    }),
                }
            }
            all.inputs.push(InputReport {
                file,
                format: format.to_string(),
                lines: counts.lines(),
                entries: counts.entries,
                own: 0,
                expired: counts.expired,
                before: None,
                ends_within_line,
                rejected: counts.rejected,
            });
            all.files.push(source.file.clone());
            all.sources.push(source);
        }
        all.rejects
            .sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        all
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
            mended: read.mended,
            expired: read.expired,
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
        self.mended.extend(removals.mended);
        self.inputs.extend(removals.inputs);
        self.rows += removals.rows;
    }

    /// Returns whether a line of this input was rejected.
    pub(crate) fn has_rejects(&self, file: &str) -> bool {
        self.inputs
            .iter()
            .any(|input| input.file == file && input.rejected > 0)
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
        format!("{inputs}: {nothing}, but {} has entries", output.display())
    }

    /// Refuses the output if more lines were rejected than the plan allows, or if an input is
    /// empty under `--strict`; returns whether it is refused.
    pub(crate) fn refuse(&mut self, plan: &Plan) -> bool {
        if plan.max_rejects.is_some_and(|most| self.rejected > most) {
            self.refused = Some(format!(
                "{}: more than --strict or --max-rejects allows",
                counted(self.rejected, "rejected line", "rejected lines")
            ));
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
