//! The result of a compilation, as data: JSON shows it directly, `cli` puts it into words.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::limits::{Refused, RefusedFile, Task};
use super::plan::Plan;
use super::read::{Found, InputCounts, NotListed, Opened, name_of, path_named, text};
use super::write::{EntryCounts, add_counts};
use blocklist_filter::address::Kind;
use blocklist_filter::base::numbers::counted;
use blocklist_filter::filter::{Header, Reason, Source, Written, sizing};
use blocklist_filter::lookup::rate_per_sender;

/// The result of a compilation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The filter file.
    pub output: PathBuf,
    /// Name of the list.
    pub name: String,
    /// Why nothing was written, although there was no error: a limit such as `--max-shrink`.
    pub refused: Option<Refused>,
    /// Whether there was no such file before.
    #[serde(skip)]
    pub is_first: bool,
    #[serde(skip)]
    pub(crate) task: Task,
    /// Whether everything that was read is a folder that somebody keeps by hand.
    #[serde(skip)]
    pub(crate) is_by_hand: bool,
    /// Whether an entry that was typed lists nobody.
    #[serde(skip)]
    pub(crate) has_typed_rejects: bool,
    /// The inputs in the order of their numbers.
    pub inputs: Vec<InputReport>,
    /// Entries read, duplicates included.
    pub rows: u64,
    /// Entries that an earlier row had already listed.
    pub duplicates: u64,
    /// Distinct entries by kind.
    pub kinds: Vec<KindCount>,
    /// Rejected lines by reason.
    pub rejects: Vec<Reason>,
    /// Number of rejected lines.
    pub rejected: u64,
    /// Files and folders that might be meant as lists, and were not read, with the reason.
    pub passed_over: Vec<String>,
    /// Rows that list nobody, as intended, by reason.
    pub skipped: Vec<Skipped>,
    /// Entries that were left out because they are too broad, or protected, by reason.
    pub broad: Vec<Reason>,
    /// The files of which nothing was read; then nothing was written.
    pub refused_files: Vec<RefusedFile>,
    /// Entries that were left out because they have expired.
    pub expired: u64,
    /// The generation that an administrator has allowed to shrink.
    pub approved_shrink: Option<u64>,
    /// Whether a feed was read, which should change.
    pub is_feed: bool,
    /// Number of entries of the filter that was updated or replaced.
    pub entries_before: Option<u64>,
    /// Lists that are in the replaced filter, but not among the inputs.
    pub no_longer_read: Vec<String>,
    /// What an update changed.
    pub changed: Option<Changed>,
    /// Whether nothing was written, because nothing changed.
    pub is_unchanged: bool,
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
#[derive(Clone, Debug, Default, Serialize)]
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
    #[serde(skip)]
    pub(crate) first_reject: String,
    /// The input, as the filter names and counts it.
    #[serde(skip)]
    pub(crate) source: Source,
}

impl InputReport {
    fn with(mut self, other: &Self) -> Self {
        add_counts(&mut self.source, &other.source);
        Self {
            lines: self.lines + other.lines,
            entries: self.entries + other.entries,
            expired: self.expired + other.expired,
            ends_within_line: self.ends_within_line || other.ends_within_line,
            rejected: self.rejected + other.rejected,
            broad: self.broad + other.broad,
            ..self
        }
    }
}

/// Rows that list nobody for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Why: "allows a sender", "comment", ...
    #[serde(flatten)]
    pub why: Reason,
    /// Whether the text shows it; it does not show blank lines and comments.
    pub notable: bool,
}

/// Entries of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindCount {
    /// "mailbox", "local-part", "domain" or "subtree".
    pub kind: &'static str,
    /// Number of entries.
    pub entries: u64,
}

pub(crate) fn kind_counts(entries: &EntryCounts) -> Vec<KindCount> {
    let counts = Kind::ALL.map(Kind::name).into_iter().zip(entries.kinds());
    let counts = counts.filter(|(_, entries)| *entries > 0);
    counts
        .map(|(kind, entries)| KindCount { kind, entries })
        .collect()
}

pub(crate) const REFUSED: &str = "refused";

/// Returns the end of a message about a refused file: the command that shows it, or its archive.
pub(crate) fn preview_hint(file: &str) -> String {
    let path = Path::new(file).ancestors().find(|path| path.is_file());
    let path = path.map_or_else(
        || "FILE, once it is saved as a file".into(),
        Path::to_string_lossy,
    );
    format!(": blocklist-compile preview {path}")
}

/// How an update changes the records of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Entries that the filter did not have.
    pub added: u64,
    /// Entries to add that the filter already had.
    pub already_there: u64,
    /// Entries whose source or dates were changed; they also count as `already_there`.
    pub redated: u64,
    /// Entries that were removed.
    pub removed: u64,
    /// Entries to remove that the filter did not have.
    pub not_found: u64,
    /// Entries dropped because they have expired.
    pub expired: u64,
}

impl Changed {
    pub(crate) fn is_nothing(self) -> bool {
        self.added + self.redated + self.removed + self.expired == 0
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
    /// The expected rate for a sender, who is looked up under a key for each kind of entry.
    pub fpr_per_sender: f64,
    /// Whether records confirm every hit.
    pub records: bool,
    /// Whether all users can read the file, and the seed in it.
    pub world_readable: bool,
    /// Whether all users can write the file.
    pub world_writable: bool,
}

impl FilterReport {
    pub(crate) fn new(header: &Header, output: &Path) -> Self {
        let mode = mode_of(output);
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
    pub(crate) fn new(header: &Header, output: &Path) -> Self {
        Self {
            piece: header.spec.name.clone(),
            digest: digest_shown(header.part.unwrap_or(0)),
            entries: header.entries,
            bytes: header.file_bytes(),
            world_readable: mode_of(output) & 0o004 != 0,
        }
    }
}

fn mode_of(output: &Path) -> u32 {
    output.metadata().map_or(0, |meta| meta.mode())
}

/// Returns the bits of the pages per entry; 0 for an empty list.
#[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
pub(crate) fn bits_per_entry(page_bytes: u64, entries: u64) -> f64 {
    match entries {
        0 => 0.0,
        _ => page_bytes as f64 * 8.0 / entries as f64,
    }
}

pub(crate) fn digest_shown(digest: u128) -> String {
    format!("{digest:032x}")
}

impl Report {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            output: plan.output.clone(),
            is_first: plan.output.try_exists().is_ok_and(|exists| !exists),
            name: plan.name.clone(),
            is_feed: plan.reads.fetched.is_some(),
            task: match plan.part {
                Some(_) => Task::Part,
                None => Task::Build,
            },
            is_by_hand: plan.reads.meant.is_empty()
                && plan.reads.fetched.is_none()
                && plan.reads.inputs.iter().all(|path| path.is_dir()),
            ..Self::default()
        }
    }

    pub(crate) fn of_lists(plan: &Plan, found: &Found, lists: Vec<(Opened, InputCounts)>) -> Self {
        let mut all = Self::new(plan);
        all.passed_over.clone_from(&found.passed_over);
        for (input, (opened, counts)) in found.lists.iter().zip(lists) {
            all.take_list(input.shown(), opened, &counts);
        }
        let rejects = &mut all.rejects;
        rejects.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        all
    }

    fn take_list(&mut self, file: String, opened: Opened, counts: &InputCounts) {
        let refused = match &opened.reading {
            Ok(_) => counts.refused(),
            Err(refusal) => Some((refusal, 0, "")),
        };
        if let Some((why, line, text)) = refused {
            let hint = why.is_for_preview().then(|| preview_hint(&file));
            self.refused_files.push(RefusedFile {
                file: file.clone(),
                line,
                text: text.to_owned(),
                reason: format!("{why}{}", hint.unwrap_or_default()),
            });
        }
        for (why, reason, count, examples) in counts.not_listed() {
            let examples = examples.iter();
            let shown = examples.map(|(line, text)| format!("{file}:{line}: {text}"));
            let new = Reason {
                reason: reason.to_owned(),
                count,
                first: shown.collect(),
            };
            match why {
                NotListed::Rejected => add(&mut self.rejects, new, |all| all),
                NotListed::Broad => add(&mut self.broad, new, |all| all),
                NotListed::Skipped(skip) => {
                    let reason = match new.reason.as_str() {
                        "" => skip.name().to_owned(),
                        word => format!("{}: {word}", skip.name()),
                    };
                    let notable = skip.is_notable();
                    let why = Reason { reason, ..new };
                    let new = Skipped { why, notable };
                    add(&mut self.skipped, new, |skipped| &mut skipped.why);
                }
            }
        }
        let rejected = counts.count_of(NotListed::Rejected);
        self.rows += counts.entries;
        self.rejected += rejected;
        self.expired += counts.expired;
        self.inputs.push(InputReport {
            file,
            format: match opened.reading {
                Ok(reading) => reading.format.to_string(),
                Err(_) => REFUSED.to_owned(),
            },
            lines: counts.lines(),
            entries: counts.entries,
            expired: counts.expired,
            ends_within_line: counts.ends_within_line,
            rejected,
            broad: counts.count_of(NotListed::Broad),
            first_reject: counts.first_reject(),
            source: Source {
                lines: counts.lines(),
                entries: counts.entries,
                rejected,
                ..opened.source
            },
            ..InputReport::default()
        });
    }

    /// Makes one source and one input of all of them: they are pieces of this file.
    pub(crate) fn count_as(&mut self, file: &str) {
        let path = &path_named(file);
        let all = self.inputs.drain(..).reduce(|all, input| all.with(&input));
        if let Some(mut all) = all {
            all.file = text(path);
            (all.source.name, all.source.file) = (name_of(path), text(path));
            self.inputs.push(all);
        }
    }

    pub(crate) fn sources(&self) -> Vec<Source> {
        let sources = self.inputs.iter().map(|input| &input.source);
        sources.cloned().collect()
    }

    pub(crate) fn count(&mut self, counts: &EntryCounts) {
        self.duplicates = self.rows.saturating_sub(counts.entries());
        self.kinds = kind_counts(counts);
        for (number, input) in (0..).zip(&mut self.inputs) {
            input.own = counts.of_source(number);
        }
    }

    /// Adds what became of the lists of removals. Their lines have rows of their own: an entry whose
    /// line was rejected stays listed.
    pub(crate) fn add_removals(&mut self, removals: Self) {
        self.rejected += removals.rejected;
        self.rejects.extend(removals.rejects);
        self.skipped.extend(removals.skipped);
        self.broad.extend(removals.broad);
        self.refused_files.extend(removals.refused_files);
        self.inputs.extend(removals.inputs);
        self.passed_over.extend(removals.passed_over);
        self.rows += removals.rows;
    }

    pub(crate) fn has_notable_skips(&self) -> bool {
        self.skipped.iter().any(|skip| skip.notable)
    }

    pub(crate) fn leaves_out(&self, file: &str) -> bool {
        let mut inputs = self.inputs.iter().filter(|input| input.file == file);
        inputs.any(|input| input.rejected + input.broad > 0)
    }

    /// Returns, for one line of a message, which inputs gave no entry, and what they gave instead.
    pub(crate) fn why_nothing(&self) -> String {
        let inputs = match self.inputs.as_slice() {
            [] => "the folder, which contains no list".to_owned(),
            [input] => input.file.clone(),
            [input, others @ ..] => format!("{} and {} more", input.file, others.len()),
        };
        if let Some(reject) = self.rejects.first() {
            let first = reject.first.first().map_or("", String::as_str);
            let lines = counted(self.rejected, "line", "lines");
            return format!("{inputs}: {lines} rejected ({first}: {})", reject.reason);
        }
        if let Some(broad) = self.broad.first() {
            let first = broad.first.first().map_or("", String::as_str);
            let all = self.broad.iter().map(|broad| broad.count).sum();
            let entries = counted(all, "entry", "entries");
            let reason = &broad.reason;
            return format!(
                "{inputs}: {entries} left out ({first}: {reason}; --allow ENTRY lists it)"
            );
        }
        let nothing = match (self.expired, self.has_notable_skips()) {
            (0, false) => "it lists nothing",
            (0, true) => "none of its rows lists a sender",
            _ => "all of its entries have expired",
        };
        match self.entries_before {
            Some(1..) => {
                let output = self.output.display();
                format!("{inputs}: {nothing}, but {output} has entries")
            }
            _ => format!("{inputs}: {nothing}"),
        }
    }

    pub(crate) fn compare_with(&mut self, before: Option<&Written>) {
        self.entries_before = before.map(|before| before.entries);
        let mut gone = before.map_or_else(BTreeMap::new, |before| before.lists.clone());
        for input in &mut self.inputs {
            input.before = gone.remove(&input.source.file);
        }
        gone.retain(|_, entries| *entries > 0);
        let shown =
            |(file, entries)| format!("{file}: {} before", counted(entries, "entry", "entries"));
        self.no_longer_read = gone.into_iter().map(shown).collect();
    }
}

fn add<T>(all: &mut Vec<T>, mut new: T, why: impl Fn(&mut T) -> &mut Reason) {
    let added = why(&mut new);
    let mut known = all.iter_mut().map(&why);
    match known.find(|known| known.reason == added.reason) {
        Some(known) => known.count += added.count,
        None => all.push(new),
    }
}
