//! What to build: all settings of one compile, with their defaults.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Error;
use super::guard::Guard;
use super::partition::{STAGES, StagedKey as _, Wide};
use super::read::{RejectsFile, name_of, text};
use crate::address::{Entry, Kind, Rules, escaped};
use crate::base::clock::{day_number, now_s};
use crate::base::day::Day;
use crate::base::memory;
use crate::base::numbers::size;
use crate::base::parallel::processors;
use crate::filter::sizing::RATES;
use crate::list::{BuildSettings, Declared, ListToml, MaxRejects};

/// The false-positive rate of the pages, if none is given. A match is decided by its record, so the
/// rate only says how many innocent senders cost a read: one mail in 2,000 at five look-ups.
pub const DEFAULT_FPR: f64 = 1e-4;
/// The same without records, where each match counts as listed.
pub const DEFAULT_FPR_WITHOUT_RECORDS: f64 = 1e-6;
/// With less memory, staging would write more than it sorts.
pub const MIN_MEMORY_BYTES: u64 = 32 << 20;
/// Memory that a compilation uses in addition to staged keys: for the program and the buffers of
/// the writer, and per worker for a block of text, and pages and records in progress.
const OTHER_BYTES: u64 = 16 << 20;
const WORKER_BYTES: u64 = 4 << 20;
/// Length in bytes of the shortest usual line. The number of lines of a list is unknown, so it is
/// estimated by this.
const MIN_LINE_BYTES: u64 = 16;
/// Each page needs a checksum (8 bytes) and a place in the directory (16), which stay in memory
/// until the end; it holds about a thousand entries at the default rate. The memory for these
/// doubles as it grows.
const ENTRIES_PER_INDEX_BYTE: u64 = 20;
/// More threads would only wait for each other.
const MAX_THREADS: usize = 256;

/// All settings of a compilation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The filter file to write.
    pub output: PathBuf,
    /// Name of the list, shown in logs and replies.
    pub name: String,
    /// Write a part of a list instead of a filter. The name of the piece; empty for its default
    /// name.
    pub part: Option<String>,
    /// The file that all inputs count as: they are its pieces.
    pub source: Option<String>,
    /// Lists and folders of lists; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Lists and folders that are read whatever their files are called.
    pub meant: Vec<PathBuf>,
    /// What is declared about all inputs, above what the `list.toml` of a folder says.
    pub declared: Declared,
    /// What a feed has fetched, a file or a folder: it is read in place of the files of the folder,
    /// if the `list.toml` there has `[feed]`.
    pub fetched: Option<PathBuf>,
    /// Target false-positive rate of the pages; if `None`, the default.
    pub fpr: Option<f64>,
    /// How addresses are read.
    pub rules: Rules,
    /// Whether exact records are kept.
    pub records: bool,
    /// Where the seed comes from.
    pub seed: Seed,
    /// The time of the build, in seconds since 1970.
    pub built: u64,
    /// The first day on which entries without an expiry of their own are no longer listed.
    pub expires: Option<Day>,
    /// Domains that must not be listed.
    pub protect: Vec<String>,
    /// Overly broad entries to accept, even those under `protect`.
    pub allow: Vec<String>,
    /// Accept all overly broad entries; those under `protect` stay refused.
    pub allow_world: bool,
    /// Write a filter without entries, even if the old one has some or every line was rejected.
    pub allow_empty: bool,
    /// Replace an output that is not a filter, or is damaged.
    pub overwrite: bool,
    /// How many lines of each list may be rejected.
    pub max_rejects: MaxRejects,
    /// The file for every rejected, skipped and repaired line.
    pub rejects: Option<PathBuf>,
    /// Write nothing when an input has no entry, unless `allow_empty`.
    pub strict: bool,
    /// Maximum percentage by which a list, and the filter, may shrink.
    pub max_shrink: Option<u32>,
    /// Whether an administrator said so for this build, so that it counts for the daemon, too.
    pub approves_shrink: bool,
    /// The command that runs this build, with a blank at its end, for messages that name an option.
    pub command: String,
    /// Maximum percentage by which a list may grow.
    pub max_growth: Option<u32>,
    /// Number of workers.
    pub threads: usize,
    /// Maximum memory.
    pub memory_bytes: u64,
}

/// Where the seed of the keys comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// The seed that the output has now; a random one for a new list.
    Keep,
    /// This seed.
    Fixed(u64),
    /// The seed of another filter, so that the two can be merged and compared.
    Of(PathBuf),
}

impl Plan {
    /// Returns a plan with every default.
    pub fn new(output: impl Into<PathBuf>, inputs: Vec<PathBuf>) -> Self {
        let output = output.into();
        Self {
            name: name_of(&output),
            part: None,
            source: None,
            output,
            inputs,
            meant: Vec::new(),
            declared: Declared::default(),
            fetched: None,
            fpr: None,
            rules: Rules::default(),
            records: true,
            seed: Seed::Keep,
            built: build_time(),
            expires: None,
            protect: Vec::new(),
            allow: Vec::new(),
            allow_world: false,
            allow_empty: false,
            overwrite: false,
            max_rejects: MaxRejects::default(),
            rejects: None,
            strict: false,
            max_shrink: None,
            approves_shrink: false,
            command: String::new(),
            max_growth: None,
            threads: default_threads(),
            memory_bytes: memory_share(memory::room_bytes()),
        }
    }

    /// Takes the settings of a `list.toml`. What is set already stays only in lists of entries,
    /// which add up.
    pub fn take(&mut self, settings: &BuildSettings) {
        let BuildSettings {
            fpr,
            expires,
            protect,
            allow,
            allow_world,
            allow_empty,
            max_shrink,
            max_growth,
            max_rejects,
            records,
            plus,
            srs,
            nfkc,
            providers,
        } = settings;
        self.protect.extend_from_slice(protect);
        self.allow.extend_from_slice(allow);
        self.fpr = fpr.or(self.fpr);
        self.expires = expires
            .map(|expires| expires.from(self.today()))
            .or(self.expires);
        self.max_shrink = max_shrink.map(|most| most.0).or(self.max_shrink);
        self.max_growth = max_growth.map(|most| most.0).or(self.max_growth);
        self.max_rejects = max_rejects.unwrap_or(self.max_rejects);
        for (own, given) in [
            (&mut self.allow_world, allow_world),
            (&mut self.allow_empty, allow_empty),
            (&mut self.records, records),
            (&mut self.rules.plus, plus),
            (&mut self.rules.srs, srs),
            (&mut self.rules.nfkc, nfkc),
            (&mut self.rules.providers, providers),
        ] {
            *own = given.unwrap_or(*own);
        }
    }

    /// Takes what the `list.toml` beside a list says about single entries: which may be listed, and
    /// how addresses are read.
    ///
    /// # Errors
    /// When it has faults.
    pub fn take_beside(&mut self, list: &Path) -> Result<(), Error> {
        let settings = ListToml::beside(list)?.build;
        self.take(&BuildSettings {
            fpr: None,
            expires: None,
            max_shrink: None,
            max_growth: None,
            max_rejects: None,
            records: None,
            ..settings
        });
        Ok(())
    }

    /// Returns the day of the build.
    pub fn today(&self) -> Day {
        day_of(self.built)
    }

    /// Returns the guard that refuses entries; `None` if all are allowed.
    ///
    /// # Errors
    /// When a protected domain is not a domain, or an allowed entry is invalid.
    pub(crate) fn guard(&self) -> Result<Option<Guard>, Error> {
        let mut domains = Vec::with_capacity(self.protect.len());
        for written in &self.protect {
            let entry = Entry::parse(written.as_bytes(), self.rules).ok();
            let domain = entry
                .as_ref()
                .filter(|entry| entry.kind() == Kind::Domain)
                .and_then(|entry| entry.as_bytes().strip_prefix(b"@"));
            let domain =
                domain.ok_or_else(|| Error::Plan(format!("--protect {written}: not a domain")))?;
            domains.push(domain.to_vec());
        }
        let mut allowed = Vec::with_capacity(self.allow.len());
        for written in &self.allow {
            let entry = Entry::parse(written.as_bytes(), self.rules)
                .map_err(|error| Error::Plan(format!("--allow {written}: {error}")))?;
            allowed.push(entry.as_bytes().to_vec());
        }
        let guard = match (self.allow_world, domains.is_empty()) {
            (false, _) => Guard::new(domains),
            (true, false) => Guard::of_protected_alone(domains),
            (true, true) => return Ok(None),
        };
        Ok(Some(guard.allowing(allowed)))
    }

    /// Creates the file of rejects, if there is to be one.
    pub(crate) fn rejects_file(&self) -> Result<Option<Arc<RejectsFile>>, Error> {
        let file = self.rejects.as_deref().map(RejectsFile::create);
        Ok(file.transpose()?.map(Arc::new))
    }

    /// Returns the number of threads: those wanted, if memory allows so many.
    pub(crate) fn workers(&self) -> usize {
        self.workers_beside(OTHER_BYTES, WORKER_BYTES)
    }

    /// Returns the number of threads that sort: those wanted, if memory allows so many. The largest
    /// stage has `stage_bytes`, and staged keys occupy `kept_bytes` of memory. A thread that sorts
    /// a stage holds it three times: packed, unpacked, and sorted.
    pub(crate) fn sorters(&self, kept_bytes: u64, stage_bytes: u64) -> usize {
        self.workers_beside(OTHER_BYTES + kept_bytes, stage_bytes.saturating_mul(3))
            .min(self.workers())
    }

    fn workers_beside(&self, others_bytes: u64, worker_bytes: u64) -> usize {
        let most = self.memory_bytes.saturating_sub(others_bytes) / worker_bytes.max(1);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.threads.min(most).max(1)
    }

    /// Returns the memory for the staged keys of lists of `text_bytes` (0 if unknown): what is left
    /// beside blocks of text, stages being sorted, pages in progress, and their index. At least a
    /// quarter; if that is not enough, a compilation exceeds its memory.
    pub(crate) fn stage_bytes(&self, text_bytes: u64) -> usize {
        let workers = self.workers() as u64;
        let entries = text_bytes / MIN_LINE_BYTES;
        let sorted = workers * 3 * (entries * Wide::BYTES as u64 / STAGES as u64);
        let others =
            OTHER_BYTES + (workers * WORKER_BYTES).max(sorted) + entries / ENTRIES_PER_INDEX_BYTE;
        let bytes = self
            .memory_bytes
            .saturating_sub(others)
            .max(self.memory_bytes / 4);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`Error::Plan`] for settings that cannot be met.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_part = self.part.is_some();
        let wrong = [
            (
                self.inputs.is_empty() && self.meant.is_empty(),
                "no input: give a list, a folder, or - for standard input",
            ),
            (
                is_part && self.seed == Seed::Keep,
                "--part: give the seed that all parts of the list share, by --seed-from or --seed",
            ),
            (
                is_part && !self.records,
                "--part: a part consists of records; build it without --no-records",
            ),
            (
                self.expires.is_some() && !self.records,
                "--expires: a filter without records cannot store dates; build it without --no-records",
            ),
        ];
        if let Some((_, why)) = wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            return Err(Error::Plan(why.to_owned()));
        }
        self.check_settings()
    }

    /// Returns the target false-positive rate of the pages.
    pub fn rate(&self) -> f64 {
        self.fpr.unwrap_or(match self.records {
            true => DEFAULT_FPR,
            false => DEFAULT_FPR_WITHOUT_RECORDS,
        })
    }

    /// Checks the settings that need no input.
    pub(crate) fn check_settings(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Plan(what));
        if self.name.is_empty() {
            return wrong("--name: must not be empty".to_owned());
        }
        let rate = self.rate();
        if !RATES.contains(&rate) {
            return wrong(format!(
                "--fpr {rate}: must be between {:e} and {}",
                RATES.start(),
                RATES.end()
            ));
        }
        if self.threads == 0 || self.threads > MAX_THREADS {
            return wrong(format!(
                "--threads {}: must be between 1 and {MAX_THREADS}",
                self.threads
            ));
        }
        if self.memory_bytes < MIN_MEMORY_BYTES {
            return wrong(format!(
                "--memory: {} is too little; give at least 32M",
                size(self.memory_bytes)
            ));
        }
        if self.expires.is_some_and(|day| day <= self.today()) {
            return wrong(
                "--expires: this date is in the past, nothing would be listed".to_owned(),
            );
        }
        Ok(())
    }
}

fn default_threads() -> usize {
    processors().min(MAX_THREADS)
}

/// Returns the default limit: a quarter of the memory that is available.
fn memory_share(room_bytes: Option<u64>) -> u64 {
    room_bytes.map_or(MIN_MEMORY_BYTES, |room| (room / 4).max(MIN_MEMORY_BYTES))
}

/// Returns the time of the build: now, or `SOURCE_DATE_EPOCH` for reproducible builds. Entries that
/// have expired since that day are in the filter with their day of expiry, so the same lists, seed
/// and date always give the same bytes, and those entries are still not found.
fn build_time() -> u64 {
    source_date().ok().flatten().unwrap_or_else(now_s)
}

/// Returns the time that `SOURCE_DATE_EPOCH` sets, in seconds since 1970; `None` if it sets none
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
///
/// # Errors
/// When it is not a number.
pub fn source_date() -> Result<Option<u64>, Error> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    seconds.map(Some).ok_or_else(|| {
        Error::Plan(format!(
            "SOURCE_DATE_EPOCH={}: must be a number of seconds since 1970, such as 1790000000",
            escaped(text.as_encoded_bytes())
        ))
    })
}

/// Returns the day of a time in seconds since 1970; the last day that can be stored, from 2149 on.
pub fn day_of(seconds: u64) -> Day {
    Day(day_number(seconds))
}

/// Makes the name of a list printable and short.
pub fn list_name(name: &str) -> String {
    text(Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_work_at_once_than_memory_allows() {
        let mut plan = Plan::new("x.blf", Vec::new());
        for (threads, memory_mib, workers) in [
            (1, 32, 1),
            (2, 32, 2),
            (256, 32, 4),
            (256, 64, 12),
            (8, 64, 8),
            (256, 4096, 256),
        ] {
            (plan.threads, plan.memory_bytes) = (threads, memory_mib << 20);
            assert_eq!(plan.workers(), workers, "{threads} in {memory_mib} MiB");
            assert!(plan.stage_bytes(0) as u64 >= plan.memory_bytes / 4);
        }
    }

    #[test]
    fn a_quarter_of_the_free_memory_is_taken_and_never_too_little() {
        assert_eq!(memory_share(Some(4 << 30)), 1 << 30);
        assert_eq!(memory_share(Some(0)), MIN_MEMORY_BYTES);
        assert_eq!(memory_share(None), MIN_MEMORY_BYTES);
    }

    #[test]
    fn stages_leave_room_for_what_sorts_and_indexes_them() {
        let mut plan = Plan::new("x.blf", Vec::new());
        (plan.threads, plan.memory_bytes) = (8, 4 << 30);
        // Ten billion lines of 30 bytes.
        let (entries, text_bytes) = (10_000_000_000_u64, 300_000_000_000);
        let stages = plan.stage_bytes(text_bytes) as u64;
        let stage = entries * 16 / STAGES as u64;
        let workers = plan.sorters(stages, stage) as u64;
        assert!(stages >= plan.memory_bytes / 4);
        assert!(stages + workers * 3 * stage <= plan.memory_bytes);
        assert_eq!(workers, 8);
        // A small list leaves nearly all of it to the stages.
        assert!(plan.stage_bytes(1 << 20) as u64 > plan.memory_bytes / 10 * 9);
        assert_eq!(plan.sorters(1 << 20, 1 << 10), 8);
    }
}
