//! Opening filter files, each only if it has changed.
//!
//! If a file is unchanged (device, inode, size, time of change), the open filter is shared. A new file is opened with
//! its pages on disk, compared with the one in effect (`gate`), and read completely: every checksum, every record.
//! The result is stored as long as the reload is refused, so another attempt costs nothing until the file changes.
//!
//! At a start there is no filter in effect to protect, and mail waits. So the pages are loaded into memory at once,
//! and the rest is checked while mail is served (see [`super::Live`]).

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::gate::{self, Facts};
use crate::address::Canonical;
use crate::base::access;
use crate::base::clock::now_s;
use crate::base::file_state::FileState;
use crate::base::memory;
use crate::config::{ListSettings, SafetySettings};
use crate::filter::{self, Fault, Filter, Load};
use crate::lookup::{Lookup, Outcome, Reads};

/// Number of random keys that are looked up at a start in a filter whose pages stay on disk. Each may need a read, so
/// there are few; they are enough to find a file that matches a noticeable share of all mail.
const PROBES: u64 = 2_000;

/// An opened filter and the file it came from.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) path: PathBuf,
    pub(super) load: Load,
    state: Option<FileState>,
    pub(super) filter: Arc<Filter>,
    /// When it was built, or one before with the same entries, in seconds since 1970.
    pub(super) unchanged_since_s: u64,
}

/// A filter that was read completely, and its error, if any.
#[derive(Debug)]
struct Checked {
    file: Loaded,
    result: Result<(), Fault>,
}

/// State that survives a reload: the filters that were read for a refused reload, and the facts about the filter that was
/// last in effect under each path.
#[derive(Debug, Default)]
pub(super) struct Tried {
    checked: Vec<Checked>,
    /// Also for paths that the configuration does not name at present: if a list comes back, its filter is compared
    /// with the last one.
    last: BTreeMap<PathBuf, Facts>,
}

impl Tried {
    /// Reads a filter completely, unless this was already done.
    fn check(&mut self, file: &Loaded) -> Result<(), filter::Error> {
        let known = self.checked.iter().find(|known| known.file.is(file));
        let result = if let Some(known) = known {
            known.result.clone()
        } else {
            // With one thread only, because mail is served at the same time.
            let result = match file.filter.check(1) {
                Ok(()) => Ok(()),
                Err(filter::Error::Invalid { fault, .. }) => Err(fault),
                // It may succeed the next time, so it is not stored.
                Err(other) => return Err(other),
            };
            self.checked.push(Checked {
                file: file.clone(),
                result: result.clone(),
            });
            result
        };
        result.map_err(|fault| filter::Error::Invalid {
            path: file.path.clone(),
            fault,
        })
    }

    /// Forgets files that no longer exist or have changed.
    pub(super) fn tidy(&mut self) {
        self.checked
            .retain(|known| FileState::of(&known.file.path).ok() == known.file.state);
    }

    /// Stores the facts about filters that are put into effect.
    pub(super) fn remember<'a>(&mut self, files: impl Iterator<Item = &'a Loaded>) {
        for file in files {
            self.last.insert(file.path.clone(), Facts::of(&file.filter));
        }
    }

    pub(super) fn clear(&mut self) {
        self.checked.clear();
    }
}

impl Loaded {
    /// Whether both are the same unchanged file, held in the same way.
    fn is(&self, other: &Self) -> bool {
        (&self.path, self.load, self.state) == (&other.path, other.load, other.state)
            && self.state.is_some()
    }

    fn open(path: &Path, load: Load) -> Result<Self, filter::Error> {
        // Taken before opening: if the file is replaced in between, the next look sees a change.
        let state = FileState::of(path).ok();
        let filter = Filter::open(path, Load::Disk)?;
        Ok(Self {
            path: path.to_owned(),
            load,
            state,
            unchanged_since_s: filter.spec().built,
            filter: Arc::new(filter),
        })
    }

    /// Whether its pages should be in memory, but are not.
    pub(super) fn lacks_pages(&self) -> bool {
        self.load == Load::Memory && !self.filter.is_in_memory()
    }
}

/// Opens the filter of a list, or shares the one that is already open.
///
/// `tried` contains the filters that were read for earlier attempts; `None` at a start.
pub(super) fn open(
    settings: &ListSettings,
    safety: &SafetySettings,
    (old, new): (&[Loaded], &[Loaded]),
    tried: Option<&mut Tried>,
) -> Result<Loaded, Error> {
    let path = &settings.filter;
    let failed = |source| Error::Filter {
        list: settings.terms.name.clone(),
        source: with_obstacle(source),
    };
    let state = FileState::of(path).ok();
    let tries = tried.iter().flat_map(|tried| &tried.checked);
    let known = new.iter().chain(old).chain(tries.map(|known| &known.file));
    let same = known.into_iter().find(|known| {
        known.path == *path
            && known.load == settings.load
            && known.state == state
            && state.is_some()
    });
    let mut file = match same {
        Some(same) => same.clone(),
        None => Loaded::open(path, settings.load).map_err(failed)?,
    };
    if old.iter().any(|known| known.is(&file)) || new.iter().any(|known| known.is(&file)) {
        return Ok(file);
    }
    if let Some(last) = tried.as_ref().and_then(|tried| tried.last.get(path)) {
        let found = Facts::of(&file.filter);
        gate::compare(&found, last, safety, now_s()).map_err(|source| Error::Objection {
            list: settings.terms.name.clone(),
            path: path.clone(),
            source,
        })?;
    }
    if let Some(before) = old.iter().find(|known| known.path == *path)
        && file.filter.header().has_entries_of(before.filter.header())
    {
        file.unchanged_since_s = before.unchanged_since_s;
    }
    match tried {
        Some(tried) => tried.check(&file).map_err(failed)?,
        None => begin(settings, &file)?,
    }
    Ok(file)
}

/// Checks that the filter lists all addresses of `must_hit`. They are looked up like senders of a message, which shows
/// that the compiler and this program make the same keys. Unknown address rules are reported elsewhere.
pub(super) fn check_must_hit(settings: &ListSettings, filter: &Arc<Filter>) -> Result<(), Error> {
    let Ok(lookup) = Lookup::new(Arc::clone(filter)) else {
        return Ok(());
    };
    let mut form = Canonical::new();
    for address in &settings.must_hit {
        let is_listed = form.read(address.as_bytes(), lookup.rules()).is_ok() && {
            let mut reads = Reads::Now;
            // On day 0 nothing has expired.
            let found = lookup.visit(&form, 0, &mut reads, |_, _, outcome| match outcome {
                Outcome::Listed(_) | Outcome::Unproved => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            found.is_break()
        };
        if !is_listed {
            return Err(Error::MustHit {
                list: settings.terms.name.clone(),
                path: settings.filter.clone(),
                address: address.clone(),
            });
        }
    }
    Ok(())
}

/// Opens the copy of a list's filter in the same way as a start opens the filter itself.
pub(super) fn copy(settings: &ListSettings, copy: &Path) -> Result<Loaded, Error> {
    let failed = |source| Error::Filter {
        list: settings.terms.name.clone(),
        source,
    };
    let mut file = Loaded::open(copy, settings.load).map_err(failed)?;
    begin(settings, &file)?;
    // Under this path it is compared with the next file. Its file state never equals that of the file at the path.
    file.path.clone_from(&settings.filter);
    Ok(file)
}

/// Adds which user may not read the file, and the command that changes this.
fn with_obstacle(error: filter::Error) -> filter::Error {
    match error {
        filter::Error::Io {
            path,
            action,
            source,
        } => filter::Error::Io {
            source: with_advice(&path, access::explained(&path, source)),
            path,
            action,
        },
        other => other,
    }
}

/// If a filter does not exist, adds how to compile it.
fn with_advice(path: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let advice = format!(
        "compile it with blocklist-compile build -o {} LIST",
        path.display()
    );
    io::Error::new(error.kind(), format!("{error}; {advice}"))
}

/// The checks of a start: loads the pages into memory, or looks up random keys if the pages stay on disk.
fn begin(settings: &ListSettings, file: &Loaded) -> Result<(), Error> {
    let failed = |source| Error::Filter {
        list: settings.terms.name.clone(),
        source,
    };
    if file.load == Load::Memory && memory::has_room_for(file.filter.memory_bytes()) {
        return file.filter.load_pages().map_err(failed);
    }
    let found = file.filter.measured_rate(PROBES).map_err(failed)?;
    let declared = file.filter.spec().fpr;
    if found > rate_bound(declared, PROBES) {
        return Err(Error::Rate {
            list: settings.terms.name.clone(),
            path: file.path.clone(),
            found,
            declared,
        });
    }
    Ok(())
}

/// Twice the declared rate, plus six standard deviations of a Poisson count, which is the possible effect of chance.
fn rate_bound(declared: f64, probes: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let probes = probes as f64;
    let expected = 2.0 * declared * probes;
    (expected + 6.0 * expected.sqrt() + 6.0) / probes
}
