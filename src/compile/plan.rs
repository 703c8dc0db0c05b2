//! What to build: all settings of one compile, with their defaults.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::guard::Guard;
use super::partition::{STAGES, StagedKey as _, Wide};
use super::read::{RejectsFile, name_of, text};
use crate::address::{Entry, Kind, Rules};
use crate::clock::{day_number, now_s};
use crate::filter::sizing::RATES;
use crate::list::{Day, Format};
use crate::memory;
use crate::numbers::size;
use crate::parallel::processors;

/// The false-positive rate of the pages when nobody says otherwise.
pub const DEFAULT_FPR: f64 = 1e-6;
/// With less the staging would write more than it sorts.
pub const MIN_MEMORY_BYTES: u64 = 32 << 20;
/// Memory that a compilation takes in addition to staged keys: the program and buffers of the writer, and of
/// each worker a block of text, pages and records under way.
const OTHER_BYTES: u64 = 16 << 20;
const WORKER_BYTES: u64 = 4 << 20;
/// The shortest line of a list that is not made to be short: what is not known of lists is how
/// many lines they have.
const MIN_LINE_BYTES: u64 = 16;
/// A page, which has a checksum (8 bytes) and a place in the directory (16) that stay in memory
/// until the end, holds about a thousand entries at the default rate. Their memory doubles as it grows.
const ENTRIES_PER_INDEX_BYTE: u64 = 20;
/// More would only wait for each other.
const MAX_THREADS: usize = 256;

/// All there is to say about a compile.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The filter file to write.
    pub output: PathBuf,
    /// Name of the list, shown in logs and replies.
    pub name: String,
    /// Write a part of a list instead of a filter; the name of the piece, empty for the usual one.
    pub part: Option<String>,
    /// The file that all inputs count as: they are its pieces.
    pub source: Option<String>,
    /// Lists and folders of lists; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// The same, whatever they are called.
    pub meant: Vec<PathBuf>,
    /// The format of all inputs; each is guessed otherwise.
    pub format: Option<Format>,
    /// Target rate of false positives of the pages.
    pub fpr: f64,
    /// How addresses are read.
    pub rules: Rules,
    /// Whether exact records are kept.
    pub records: bool,
    /// Where the seed comes from.
    pub seed: Seed,
    /// When this is built, in seconds since 1970.
    pub built: u64,
    /// The first day on which entries that bring no expiry of their own end.
    pub expires: Option<Day>,
    /// Domains that must not be listed.
    pub protect: Vec<String>,
    /// Overly broad entries to take, even those under `protect`.
    pub allow: Vec<String>,
    /// Take all overly broad entries; those under `protect` stay refused.
    pub allow_world: bool,
    /// Write a filter without entries over one that has some, or though every line was
    /// rejected.
    pub allow_empty: bool,
    /// Replace an output that is no filter, or a damaged one.
    pub overwrite: bool,
    /// Rejected lines up to which the filter is written; any number otherwise.
    pub max_rejects: Option<u64>,
    /// Where every rejected, skipped and repaired line is written.
    pub rejects: Option<PathBuf>,
    /// Write nothing when an input has no entry, unless `allow_empty`.
    pub strict: bool,
    /// By how many percent a list, and the filter, may shrink.
    pub max_shrink: Option<u32>,
    /// By how many percent a list may grow.
    pub max_growth: Option<u32>,
    /// Workers.
    pub threads: usize,
    /// Memory to stay within.
    pub memory_bytes: u64,
}

/// Where the seed of the keys comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// The one the output has now; a random one for a new list.
    Keep,
    /// This.
    Fixed(u64),
    /// That of another filter, so that the two can be merged and compared.
    Of(PathBuf),
}

impl Plan {
    /// A plan with every default.
    pub fn new(output: impl Into<PathBuf>, inputs: Vec<PathBuf>) -> Self {
        let output = output.into();
        Self {
            name: name_of(&output),
            part: None,
            source: None,
            output,
            inputs,
            meant: Vec::new(),
            format: None,
            fpr: DEFAULT_FPR,
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
            max_rejects: None,
            rejects: None,
            strict: false,
            max_shrink: None,
            max_growth: None,
            threads: default_threads(),
            memory_bytes: memory_share(memory::room_bytes()),
        }
    }

    /// The day this is built.
    pub fn today(&self) -> Day {
        day_of(self.built)
    }

    /// What refuses entries; none when all are allowed.
    ///
    /// # Errors
    /// When a protected domain is none.
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

    /// The file of rejects, empty.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn rejects_file(&self) -> Result<Option<Arc<RejectsFile>>, Error> {
        let file = self.rejects.as_deref().map(RejectsFile::create);
        Ok(file.transpose()?.map(Arc::new))
    }

    /// As many threads as wanted, if memory allows so many.
    pub(crate) fn workers(&self) -> usize {
        self.workers_beside(OTHER_BYTES, WORKER_BYTES)
    }

    /// As many threads as wanted, if memory allows so many when the largest stage has
    /// `stage_bytes` and `kept_bytes` of memory hold staged keys: who sorts a stage has it three
    /// times, packed, unpacked, and where it is sorted into.
    pub(crate) fn sorters(&self, kept_bytes: u64, stage_bytes: u64) -> usize {
        self.workers_beside(OTHER_BYTES + kept_bytes, stage_bytes.saturating_mul(3))
            .min(self.workers())
    }

    fn workers_beside(&self, others_bytes: u64, worker_bytes: u64) -> usize {
        let most = self.memory_bytes.saturating_sub(others_bytes) / worker_bytes.max(1);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.threads.min(most).max(1)
    }

    /// Memory for the staged keys of lists of `text_bytes` (0 when nobody can know): what is
    /// left beside blocks of text, stages being sorted, pages under way, and their index. At
    /// least a quarter; beyond that a compile takes more than it should.
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

    /// # Errors
    /// [`Error::Plan`] for settings that cannot be met.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.inputs.is_empty() && self.meant.is_empty() {
            return Err(Error::Plan(
                "no input: give a list, a folder, or - for standard input".to_owned(),
            ));
        }
        if self.part.is_some() && self.seed == Seed::Keep {
            return Err(Error::Plan(
                "--part: give the seed that all parts of the list share, by --seed-from or --seed"
                    .to_owned(),
            ));
        }
        if self.part.is_some() && !self.records {
            return Err(Error::Plan(
                "--part: a part consists of records; build it without --no-records".to_owned(),
            ));
        }
        if self.expires.is_some() && !self.records {
            return Err(Error::Plan(
                "--expires: a filter without records cannot store dates; build it without --no-records"
                    .to_owned(),
            ));
        }
        self.check_settings()
    }

    /// The same for what needs no input.
    pub(crate) fn check_settings(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Plan(what));
        if self.name.is_empty() {
            return wrong("--name: must not be empty".to_owned());
        }
        if !RATES.contains(&self.fpr) {
            return wrong(format!(
                "--fpr {}: must be between {:e} and {}",
                self.fpr,
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

/// The limit unless one is given: a quarter of the memory that can still be taken.
fn memory_share(room_bytes: Option<u64>) -> u64 {
    room_bytes.map_or(MIN_MEMORY_BYTES, |room| (room / 4).max(MIN_MEMORY_BYTES))
}

/// When something is built: now, or what `SOURCE_DATE_EPOCH` says, for reproducible builds
/// (<https://reproducible-builds.org/specs/source-date-epoch/>). Entries that have expired
/// since that day are in the filter, with the day on which they end: the same lists, seed and
/// date give the same bytes whenever they are built, and nobody finds those entries listed.
fn build_time() -> u64 {
    let fixed = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|text| text.parse().ok());
    fixed.unwrap_or_else(now_s)
}

/// The day of a time in seconds since 1970; the last that can be written, from 2149 on.
pub fn day_of(seconds: u64) -> Day {
    Day(day_number(seconds))
}

/// The name of a list must be printable and short.
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
        // Ten thousand million lines of 30 bytes.
        let (entries, text_bytes) = (10_000_000_000_u64, 300_000_000_000);
        let stages = plan.stage_bytes(text_bytes) as u64;
        let stage = entries * 16 / STAGES as u64;
        let workers = plan.sorters(stages, stage) as u64;
        assert!(stages >= plan.memory_bytes / 4);
        assert!(stages + workers * 3 * stage <= plan.memory_bytes);
        assert_eq!(workers, 8);
        // A small list leaves nearly all to the stages.
        assert!(plan.stage_bytes(1 << 20) as u64 > plan.memory_bytes / 10 * 9);
        assert_eq!(plan.sorters(1 << 20, 1 << 10), 8);
    }
}
