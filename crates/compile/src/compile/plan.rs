//! What to build: all settings of one compile, with their defaults.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::guard::Guard;
use super::limits::Limits;
use super::read::{ReadOptions, name_of, text};
use crate::list::{BuildSettings, Declared, ListToml};
use blocklist_filter::address::{Entry, Kind, Rules, escaped};
use blocklist_filter::base::clock::{day_of, now_s};
use blocklist_filter::base::day::Day;
use blocklist_filter::base::memory;
use blocklist_filter::base::parallel::processors;

/// The false-positive rate of the pages, if none is given. A match is decided by its record, so the
/// rate only says how many innocent senders cost a read: one mail in 2,000 at five look-ups.
pub const DEFAULT_FPR: f64 = 1e-4;
/// The same without records, where each match counts as listed.
pub const DEFAULT_FPR_WITHOUT_RECORDS: f64 = 1e-6;
/// With less memory, staging would write more than it sorts.
pub const MIN_MEMORY_BYTES: u64 = 32 << 20;
/// More threads would only wait for each other.
pub(crate) const MAX_THREADS: usize = 256;

/// All settings of a compilation. Its `Default` names no output, and is refused.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The filter file to write.
    pub output: PathBuf,
    /// Name of the list, shown in logs and replies.
    pub name: String,
    /// Write a part of a list: the name of the piece; empty for its default name.
    pub part: Option<String>,
    /// The file that all inputs count as: they are its pieces.
    pub source: Option<String>,
    /// What is read.
    pub reads: Reads,
    /// Target false-positive rate of the pages; if `None`, the default, that of the filter to update, or
    /// the lowest of the filters to merge.
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
    /// The folder in which the daemon keeps copies of its filters, which say what a damaged output held.
    pub copies: Option<PathBuf>,
    /// Replace an output that is not a filter, or is damaged.
    pub overwrite: bool,
    /// Whether what it makes may replace the output.
    pub limits: Limits,
    /// What it may use of the machine.
    pub resources: Resources,
}

/// What is read.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// Lists and folders of lists; `-` is standard input.
    pub inputs: Vec<PathBuf>,
    /// Lists and folders that are read whatever their files are called.
    pub meant: Vec<PathBuf>,
    /// What is declared about all inputs, above what the `list.toml` of a folder says.
    pub declared: Declared,
    /// What a feed has fetched, read in place of the files of a folder whose `list.toml` has `[feed]`.
    pub fetched: Option<PathBuf>,
}

/// What a compilation may use of the machine.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Number of workers.
    pub threads: usize,
    /// Maximum memory.
    pub memory_bytes: u64,
}

/// Where the seed of the keys comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seed {
    /// The seed that the output has now; a random one for a new list.
    #[default]
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
            output,
            reads: Reads {
                inputs,
                ..Reads::default()
            },
            records: true,
            // Entries that have expired since that day are in the filter with their day of expiry, so
            // the same lists, seed and date always give the same bytes, and they are still not found.
            built: source_date().ok().flatten().unwrap_or_else(now_s),
            resources: Resources {
                threads: processors().min(MAX_THREADS),
                // A quarter of what is available.
                memory_bytes: (memory::room_bytes().unwrap_or(0) / 4).max(MIN_MEMORY_BYTES),
            },
            ..Self::default()
        }
    }

    /// Takes the settings of a `list.toml` in place of those here; lists of entries add up.
    pub(crate) fn take(&mut self, settings: &BuildSettings) {
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
        let today = self.today();
        self.expires = expires.map(|end| end.from(today)).or(self.expires);
        self.limits.max_shrink = max_shrink.map(|most| most.0).or(self.limits.max_shrink);
        self.limits.max_growth = max_growth.map(|most| most.0).or(self.limits.max_growth);
        self.limits.max_rejects = max_rejects.unwrap_or(self.limits.max_rejects);
        for (own, given) in [
            (&mut self.allow_world, allow_world),
            (&mut self.limits.allow_empty, allow_empty),
            (&mut self.records, records),
            (&mut self.rules.plus, plus),
            (&mut self.rules.srs, srs),
            (&mut self.rules.nfkc, nfkc),
            (&mut self.rules.providers, providers),
        ] {
            *own = given.unwrap_or(*own);
        }
    }

    /// Takes what the `list.toml` beside a list says about single entries.
    pub fn take_beside(&mut self, list: &Path) -> Result<(), Error> {
        let folder = list.parent().unwrap_or_else(|| Path::new(""));
        let settings = ListToml::of_folder(folder)?.unwrap_or_default().build;
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

    pub(crate) fn guard(&self) -> Result<Guard, Error> {
        let wrong = |option, written: &String, why| {
            let given = written.clone();
            Error::Setting { option, given, why }
        };
        let parse = |written: &String| Entry::parse(written.as_bytes(), self.rules);
        let domain = |written| match parse(written) {
            Ok(entry) if entry.kind() == Kind::Domain => Ok(entry.as_bytes()[1..].to_vec()),
            _ => Err(wrong("--protect", written, "not a domain".to_owned())),
        };
        let allowed = |written| match parse(written) {
            Ok(entry) => Ok(entry.as_bytes().to_vec()),
            Err(error) => Err(wrong("--allow", written, error.to_string())),
        };
        Ok(Guard {
            allows_world: self.allow_world,
            protected: self.protect.iter().map(domain).collect::<Result<_, _>>()?,
            allowed: self.allow.iter().map(allowed).collect::<Result<_, _>>()?,
        })
    }

    /// Returns how lists are read for this plan, whose sources have these numbers.
    pub(crate) fn read_options(&self, seed: u64, sources: Vec<u32>) -> Result<ReadOptions, Error> {
        Ok(ReadOptions {
            rules: self.rules,
            seed,
            today: self.today(),
            expires: self.expires,
            guard: self.guard()?,
            sources,
            records: self.records,
            removes: false,
            takes_digests: self.part.is_some(),
        })
    }

    /// Returns the target false-positive rate of the pages.
    pub fn rate(&self) -> f64 {
        self.fpr.unwrap_or(match self.records {
            true => DEFAULT_FPR,
            false => DEFAULT_FPR_WITHOUT_RECORDS,
        })
    }
}

/// Returns the time that `SOURCE_DATE_EPOCH` sets, in seconds since 1970; `None` if it sets none
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
pub(crate) fn source_date() -> Result<Option<u64>, Error> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    seconds.map(Some).ok_or_else(|| {
        let text = escaped(text.as_encoded_bytes());
        let what = "must be a number of seconds since 1970, such as 1790000000";
        Error::Setting {
            option: "SOURCE_DATE_EPOCH",
            given: text.to_string(),
            why: what.to_owned(),
        }
    })
}

/// Makes the name of a list printable and short.
pub(crate) fn list_name(name: &str) -> String {
    text(Path::new(name))
}
