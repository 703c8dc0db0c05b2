//! Choosing the filter of each list: the file at its path if it is good, else the one in effect, else the last good copy.
//!
//! If a file is unchanged (device, inode, size, time of change), the open filter is shared. A new file is opened with
//! its pages on disk, compared with the one in effect (`gate`), and read completely: every checksum, every record. The
//! result is remembered, so another attempt costs nothing until the file changes. A filter is also refused if its pages
//! match more than twice as often as declared (a file that matches every key can be well-formed), if it was compiled
//! with other address rules than those of this program, or if it contradicts `must_hit` or `must_miss`.
//!
//! At a start, mail waits. So the pages are loaded into memory at once, and the rest is checked while mail is served
//! (see [`super::Live`]).

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::error::{Error, FileProblem};
use super::gate::{self, Facts};
use super::last_good::usable_copy;
use super::whitelists::Whitelist;
use crate::config::{Config, ListSettings};
use blocklist_filter::address::Canonical;
use blocklist_filter::base::access;
use blocklist_filter::base::clock::{minute, now_s};
use blocklist_filter::base::file_state::FileState;
use blocklist_filter::base::last_good::copy_of;
use blocklist_filter::base::memory;
use blocklist_filter::base::replacement;
use blocklist_filter::filter::{self, BuildReport, Filter, Load};
use blocklist_filter::lookup::{self, Lookup, Outcome, Reads};

/// Number of random keys that are looked up at a start in a filter whose pages stay on disk. Each may need a read; these
/// are enough to find a file that matches a noticeable share of all mail.
const PROBES: u64 = 2_000;

/// An opened filter and the file it comes from.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    /// Its path in the configuration.
    pub(super) path: PathBuf,
    /// The path at which it was opened: the same, or that of a copy.
    at: PathBuf,
    state: Option<FileState>,
    load: Load,
    pub(super) filter: Arc<Filter>,
    /// When it was built, or one before with the same entries, in seconds since 1970.
    pub(super) unchanged_since_s: u64,
    /// Whether it comes from a feed, or from another host: it has no report of a build here.
    pub(super) is_feed: bool,
    /// The result of reading it completely, if that was done.
    read: Arc<OnceLock<Result<(), Arc<filter::Error>>>>,
}

impl Loaded {
    /// Reads the filter completely, once.
    pub(super) fn read_whole(&self) -> Result<(), Arc<filter::Error>> {
        // With one thread only, because mail is served at the same time.
        let read = || self.filter.check(true, 1).map_err(Arc::new);
        self.read.get_or_init(read).clone()
    }

    /// Whether it was read completely, and is good; `None`: it was not read.
    pub(super) fn is_whole(&self) -> Option<bool> {
        self.read.get().map(Result::is_ok)
    }

    pub(super) fn lacks_pages(&self) -> bool {
        self.load == Load::Memory && !self.filter.is_in_memory()
    }

    /// Whether it decides as its file did when it was opened, as far as this is known.
    pub(super) fn is_sound(&self) -> bool {
        self.is_whole() != Some(false) && !self.filter.is_lost()
    }

    fn description(&self) -> String {
        let spec = self.filter.spec();
        let (generation, built) = (spec.generation, minute(spec.built));
        format!("the last good filter is in use, generation {generation}, built {built}")
    }
}

/// The filter chosen for a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    /// `None`: there is none that can be read.
    pub(super) file: Option<Loaded>,
    /// Whether it is the file at its path.
    pub(super) is_newest: bool,
    /// Whether it decides what the configuration says; if not, there is none that does.
    pub(super) is_good: bool,
}

impl Choice {
    pub(super) fn filter(&self) -> Option<&Arc<Filter>> {
        self.file.as_ref().map(|file| &file.filter)
    }
}

/// The circumstances in which files are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round<'a> {
    /// What is in effect.
    pub(super) filters: &'a [Choice],
    pub(super) whitelists: &'a [Whitelist],
    /// What was opened in the round before.
    pub(super) before: &'a [Loaded],
    /// Whether the daemon starts, and mail waits.
    pub(super) is_start: bool,
    /// Whether somebody has asked for it: then removals need not wait.
    pub(super) is_asked: bool,
    pub(super) now: Instant,
}

impl<'a> Round<'a> {
    pub(super) fn first(now: Instant) -> Self {
        Self {
            filters: &[],
            whitelists: &[],
            before: &[],
            is_start: true,
            is_asked: false,
            now,
        }
    }

    fn in_effect(self) -> impl Iterator<Item = &'a Loaded> {
        let files = self.filters.iter();
        files.filter_map(|choice| choice.file.as_ref())
    }
}

/// What is known about filters beside those in effect.
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// Those that were opened in this round of choosing.
    opened: Vec<Loaded>,
    /// The filter that was last in effect at each path, also at paths that the configuration does not name at present:
    /// if a list comes back, its filter is compared with the last one.
    last: BTreeMap<PathBuf, Facts>,
}

impl Filters {
    /// Begins another round. Returns what was opened in the one before.
    pub(super) fn begin(&mut self) -> Vec<Loaded> {
        let mut before = std::mem::take(&mut self.opened);
        // The next attempt may succeed.
        before.retain(|file| match file.read.get() {
            Some(Err(error)) => error.io_kind().is_none(),
            Some(Ok(())) | None => true,
        });
        before
    }

    pub(super) fn remember<'a>(&mut self, files: impl Iterator<Item = &'a Loaded>) {
        for file in files {
            self.last.insert(file.path.clone(), Facts::of(&file.filter));
        }
    }

    /// Remembers what the daemon's copies say was last in effect.
    pub(super) fn remember_copies(&mut self, config: &Config) {
        for list in config.enabled_lists() {
            let copy = usable_copy(config, &list.filter, "blf");
            if let Some(Ok(copy)) = copy.map(|at| Filter::open(&at, Load::Disk)) {
                self.last.insert(list.filter.clone(), Facts::of(&copy));
            }
        }
    }

    /// Chooses the filter of a list, whose file is in this state.
    pub(super) fn choose(
        &mut self,
        list: &ListSettings,
        state: Option<FileState>,
        config: &Config,
        round: Round<'_>,
    ) -> (Choice, Option<FileProblem>) {
        let must_miss = &config.safety.must_miss;
        let newest = self.newest(list, state, config, round);
        let (newest, error) = match newest {
            Err(error) => (None, error),
            Ok(file) => match check_addresses(list, must_miss, &file) {
                Err(error) => (Some(file), error),
                Ok(()) => {
                    let choice = Choice {
                        file: Some(file),
                        is_newest: true,
                        is_good: true,
                    };
                    return (choice, None);
                }
            },
        };
        let is_good =
            |file: &Loaded| file.is_sound() && check_addresses(list, must_miss, file).is_ok();
        let at_path = || (round.in_effect()).filter(|file| file.path == list.filter);
        // It may have been written over, and then no longer decides as before.
        at_path().for_each(|file| file.filter.look_again());
        let older = at_path().find(|file| is_good(file)).cloned();
        let older = older.or_else(|| self.copy(list, config, round).filter(is_good));
        let instead = older.as_ref().map(Loaded::description);
        let choice = Choice {
            is_newest: false,
            is_good: older.is_some(),
            file: match (older, &error) {
                (Some(older), _) => Some(Loaded {
                    load: list.load,
                    ..older
                }),
                // Its hits are doubtful, but all others are not.
                (None, Error::MustMiss { .. }) => newest,
                // It may be damaged in a few places only, and each read is checked.
                (None, _) => at_path().find(|file| !file.is_sound()).cloned(),
            },
        };
        (choice, Some(FileProblem { error, instead }))
    }

    /// The file at the path of a list, if it can be vouched for.
    fn newest(
        &mut self,
        list: &ListSettings,
        state: Option<FileState>,
        config: &Config,
        round: Round<'_>,
    ) -> Result<Loaded, Error> {
        let path = &list.filter;
        let file = self.open(list, path, state, config, round)?;
        let is_same = |known: &Loaded| Arc::ptr_eq(&known.filter, &file.filter);
        if round.in_effect().any(is_same) && file.is_whole() != Some(false) {
            return Ok(file);
        }
        if let Some(last) = self.last.get(path) {
            let facts = Facts::of(&file.filter);
            let may_shrink = || {
                let report = BuildReport::of(path);
                report.is_some_and(|report| report.approves_shrink(facts.generation, facts.entries))
            };
            gate::compare(&facts, last, config.safety.max_shrink, now_s(), may_shrink)
                .map_err(|why| unfit(list, why))?;
        }
        vouch(list, &file, round.is_start)?;
        Ok(file)
    }

    /// The last good copy for a list, if there is one that can be vouched for.
    fn copy(&mut self, list: &ListSettings, config: &Config, round: Round<'_>) -> Option<Loaded> {
        let at = usable_copy(config, &list.filter, "blf")?;
        let state = FileState::of(&at).ok();
        let file = self.open(list, &at, state, config, round).ok()?;
        vouch(list, &file, round.is_start).ok()?;
        Some(file)
    }

    /// Opens a file, or shares the filter if it is already open.
    fn open(
        &mut self,
        list: &ListSettings,
        at: &Path,
        state: Option<FileState>,
        config: &Config,
        round: Round<'_>,
    ) -> Result<Loaded, Error> {
        let is_same = |known: &&Loaded| {
            (&*known.at, known.load, known.state) == (at, list.load, state)
                && state.is_some()
                // A read has failed since it was found to be whole.
                && (!known.filter.is_damaged() || known.is_whole() == Some(false))
        };
        let known = round.in_effect().chain(&self.opened);
        let known = known.chain(round.before).find(is_same).cloned();
        let file = match known {
            Some(file) => file,
            None => {
                let filter = Filter::open(at, Load::Disk);
                let filter = filter.map_err(|error| unreadable(list, with_advice(error)))?;
                let filter = match at == list.filter {
                    true => filter.with_copy(copy_of(&config.state, at, "blf")),
                    false => filter,
                };
                let before = round.in_effect().find(|before| {
                    before.path == list.filter
                        && filter.header().has_entries_of(before.filter.header())
                });
                let built = filter.spec().built;
                let since_s = before.map_or(built, |before| before.unchanged_since_s);
                Loaded {
                    path: list.filter.clone(),
                    at: at.to_owned(),
                    state,
                    load: list.load,
                    unchanged_since_s: since_s,
                    is_feed: BuildReport::of(&list.filter).is_none_or(|report| report.is_feed),
                    filter: Arc::new(filter),
                    read: Arc::default(),
                }
            }
        };
        self.opened.push(file.clone());
        Ok(file)
    }
}

fn unfit(list: &ListSettings, reason: String) -> Error {
    Error::Unfit {
        list: list.terms.name.clone(),
        path: list.filter.clone(),
        reason,
    }
}

fn unreadable(list: &ListSettings, error: impl Into<lookup::Error>) -> Error {
    Error::Filter {
        list: list.terms.name.clone(),
        source: error.into(),
    }
}

/// Checks that a filter lists all addresses of `must_hit`, and matches none of `must_miss`. They are looked up like
/// senders of a message, which shows that the compiler and this program make the same keys.
fn check_addresses(list: &ListSettings, must_miss: &[String], file: &Loaded) -> Result<(), Error> {
    let lookup = Lookup::new(Arc::clone(&file.filter)).map_err(|error| unreadable(list, error))?;
    let mut form = Canonical::new();
    let mut lists = |address: &&String| {
        if form.read(address.as_bytes(), lookup.rules()).is_err() {
            return false;
        }
        // On day 0 nothing has expired.
        let found = lookup.visit(&form, 0, &mut Reads::Now, |_, _, outcome| match outcome {
            Outcome::Listed(_) | Outcome::Unproved => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    };
    if let Some(address) = list.must_hit.iter().find(|address| !lists(address)) {
        return Err(unfit(
            list,
            format!(
                "does not list {address}, which must_hit requires: the list is wrong or incomplete, or was made by another program; build it again, or correct must_hit"
            ),
        ));
    }
    match must_miss.iter().find(|address| lists(address)) {
        None => Ok(()),
        Some(address) => Err(Error::MustMiss {
            list: list.terms.name.clone(),
            path: list.filter.clone(),
            address: address.clone(),
        }),
    }
}

/// Adds which user may not read a file, and the command that changes this; or how to compile a missing filter.
fn with_advice(mut error: filter::Error) -> filter::Error {
    if let filter::Error::File(replacement::Error::Io { path, source, .. }) = &mut error {
        let kind = source.kind();
        let cause = access::explained(path, std::mem::replace(source, kind.into()));
        *source = match kind {
            io::ErrorKind::NotFound => {
                let build = format!("blocklist-compile build -o {} LIST", path.display());
                io::Error::new(kind, format!("{cause}; compile it with {build}"))
            }
            _ => cause,
        };
    }
    error
}

/// Reads a file completely. At a start, loads its pages into memory, or looks up random keys if the pages stay on disk.
fn vouch(list: &ListSettings, file: &Loaded, is_start: bool) -> Result<(), Error> {
    if !is_start {
        let read = file.read_whole();
        return read.map_err(|error| unreadable(list, lookup::Error::Filter(error)));
    }
    if file.load == Load::Memory && memory::has_room_for(file.filter.memory_bytes()) {
        let loaded = file.filter.load_pages();
        return loaded.map_err(|error| unreadable(list, error));
    }
    let found = file.filter.measured_rate(PROBES);
    let found = found.map_err(|error| unreadable(list, error))?;
    let declared = file.filter.spec().fpr;
    if found > rate_bound(declared) {
        return Err(unfit(
            list,
            format!(
                "matches {found:.1e} of random addresses, more than twice the declared {declared:.1e}: the file is damaged; build it again"
            ),
        ));
    }
    Ok(())
}

/// Twice the declared rate, plus six standard deviations of a Poisson count, which is the possible effect of chance.
fn rate_bound(declared: f64) -> f64 {
    let expected = 2.0 * declared * PROBES as f64;
    (expected + 6.0 * expected.sqrt() + 6.0) / PROBES as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocklist_compile::compile::{self, Plan, Progress};
    use blocklist_filter::filter::Key;

    /// Without a new state of its file: a disk that fails changes none.
    #[test]
    fn a_damaged_filter_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("spam.list"), "first@bad.example\n").unwrap();
        let plan = Plan::new(path("spam.blf"), vec![path("spam.list")]);
        compile::build(&plan, &Progress::new()).unwrap();
        let text = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\nload = 'disk'\n";
        let config = Config::parse(text, &path("c.toml")).unwrap();
        let list = config.enabled_lists().next().unwrap();
        let state = FileState::of(&list.filter).ok();
        let round = Round::first(Instant::now());
        let mut filters = Filters::default();
        let mut open = || filters.open(list, &list.filter, state, &config, round);
        let opened = open().unwrap().filter;
        std::fs::write(path("spam.blf"), "damage").unwrap();
        assert!(Arc::ptr_eq(&open().unwrap().filter, &opened));
        let key = Key::of(b"first@bad.example", opened.spec().seed);
        assert!(opened.look_up(key).is_err());
        assert!(open().is_err());
    }
}
