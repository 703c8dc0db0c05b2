//! Copies of the filters and of the configuration in effect, used when their file is faulty or missing at a start.
//!
//! ```text
//!   a filter is in effect, and was read completely  -> a thread copies it to the folder `state`
//!   a configuration is in effect                    -> the thread prints its settings to the same folder
//!   the file is faulty or missing at the next start -> the copy is used, and an error is logged
//! ```
//!
//! - There is at most one copy for each path, whose hash is in its name: of what was last in effect under it. If a newer
//!   filter cannot be copied, or the configuration no longer names the list, the copy is removed. So it never restores
//!   an entry that the running daemon had dropped, unless the daemon ends before the copy of the newer filter is
//!   complete, and the new file is damaged, too.
//! - The data comes from the open file that was read and checked, even if the path now leads to another file. The copy
//!   is read completely, too, before it gets its final name. A killed process leaves only a hidden, unlocked file, which
//!   the next process removes.
//! - The modification time of a copy is the time at which its original was last seen in effect. It may be used for
//!   seven days after that.
//! - File systems that share blocks between files (XFS, Btrfs) make the copy at once and without additional space. A
//!   hard link would be as cheap everywhere, but the units mount the folder of the filters read-only, and if the file
//!   is overwritten, a hard link is damaged, too.
//! - Whitelists are not copied: without its whitelist, a daemon defers only listed senders, and an old whitelist could
//!   exempt a sender who has been removed from it.
//! - Only one process uses the folder: it holds a lock. A second one makes no copies, and reports this.
//!
//! If the folder does not exist, no copies are made. Errors here never delay mail or a reload.

use std::fs::{self, File};
use std::io::{self, BufReader, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{fstatvfs, ioctl_ficlone};

use super::Snapshot;
use blocklist_filter::base::last_good::{MARK, copy_of};
use blocklist_filter::base::numbers::size;
use blocklist_filter::base::replacement::{self, Replacement};
use blocklist_filter::filter::format::Header;
use blocklist_filter::filter::{self, Filter, Load};

/// How often the modification time of a copy is updated, and a missing copy is made again.
const LOOK_AGAIN: Duration = Duration::from_secs(86_400);
/// After an error, how long to wait before the next attempt.
const TRY_AGAIN: Duration = Duration::from_secs(3600);

/// A copy that should exist.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    /// Of what, for messages.
    what: String,
    copy: PathBuf,
    original: Original,
}

/// What is in effect under the path of a copy.
#[derive(Clone, Debug, PartialEq)]
enum Original {
    /// A filter, known by its header.
    Filter(Box<Header>),
    /// A configuration, printed.
    Config(String),
    /// Nothing good: an existing copy stays.
    Unknown,
}

/// A locked folder. Without the lock, another process with the same folder would remove these copies.
#[derive(Debug)]
struct Held(PathBuf, #[allow(dead_code, reason = "holds the lock")] File);

/// Makes copies, one after the other, each time something else is in effect.
#[derive(Debug, Default)]
pub(super) struct Copies {
    job: Option<JoinHandle<(Option<Held>, Vec<String>)>>,
    held: Option<Held>,
    /// What the last job was to copy, and when it was started.
    done: Option<(Vec<Wanted>, Instant)>,
    /// Current problems, one line each.
    pub(super) problems: Vec<String>,
}

impl Copies {
    /// Starts a job if copies are out of date; never waits. `false` while a job is running.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        config_path: Option<&Path>,
        now: Instant,
    ) -> bool {
        if let Some(job) = self.job.take_if(|job| job.is_finished()) {
            // The default is for a job that has panicked.
            (self.held, self.problems) = job.join().unwrap_or_default();
        }
        if self.job.is_some() {
            return false;
        }
        // Without a configuration, it is unknown which lists there should be.
        if !snapshot.is_configured {
            return true;
        }
        let (wanted, filters) = wanted(snapshot, config_path);
        let pause = match self.problems.is_empty() {
            true => LOOK_AGAIN,
            false => TRY_AGAIN,
        };
        if let Some((before, when)) = &self.done
            && *before == wanted
            && now.saturating_duration_since(*when) < pause
        {
            return true;
        }
        self.done = Some((wanted.clone(), now));
        // The files, because a filter holds memory. In one that was opened long ago, something may have been damaged.
        let files = filters.map(|filter| filter?.file().ok());
        let wanted: Vec<_> = wanted.into_iter().zip(files).collect();
        let folder = snapshot.config.state.clone();
        let held = self.held.take();
        // The new thread inherits the low priority of the calling thread.
        let job = thread::Builder::new()
            .name("copies".to_owned())
            .spawn(move || work(&folder, held, &wanted));
        match job {
            Ok(job) => self.job = Some(job),
            Err(error) => self.problems = vec![format!("cannot keep copies of filters: {error}")],
        }
        self.job.is_none()
    }
}

/// The copies that should exist, and the filter of each.
fn wanted<'a>(
    snapshot: &'a Snapshot,
    config_path: Option<&Path>,
) -> (Vec<Wanted>, impl Iterator<Item = Option<&'a Arc<Filter>>>) {
    let config = &snapshot.config;
    let (mut wanted, mut filters) = (Vec::<Wanted>::new(), Vec::new());
    let lists = config.enabled_lists().zip(&snapshot.filters);
    for (settings, choice) in lists {
        let copy = copy_of(&config.state, &settings.filter, "blf");
        // Two lists may share a filter.
        if wanted.iter().any(|other| other.copy == copy) {
            continue;
        }
        let file = choice.file.as_ref().filter(|_| choice.is_good);
        let filter = file
            .filter(|file| file.is_whole() == Some(true))
            .map(|file| &file.filter);
        filters.push(filter);
        wanted.push(Wanted {
            what: format!("list {}", settings.terms.name),
            copy,
            original: filter.map_or(Original::Unknown, |filter| {
                Original::Filter(Box::new(filter.header().clone()))
            }),
        });
    }
    if let Some(path) = config_path {
        filters.push(None);
        wanted.push(Wanted {
            what: "the configuration".to_owned(),
            copy: copy_of(&config.state, path, "toml"),
            original: Original::Config(config.to_string()),
        });
    }
    (wanted, filters.into_iter())
}

/// Why a copy could not be made.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("it needs {}, and as much again must stay free, but this file system has only {} free", size(*.0), size(*.1))]
    NoRoom(u64, u64),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Replacement(#[from] replacement::Error),
    #[error("the copy is damaged: {0}")]
    Damaged(#[from] filter::Error),
}

/// Locks the folder, unless it is already locked, and updates the copies in it. Returns the problems, one line each.
fn work(
    folder: &Path,
    held: Option<Held>,
    wanted: &[(Wanted, Option<File>)],
) -> (Option<Held>, Vec<String>) {
    const OTHER: &str =
        "another process keeps copies there; give each daemon its own folder (state)";
    let lock = || -> io::Result<Held> {
        let file = File::open(folder)?;
        file.try_lock()?;
        Ok(Held(folder.to_owned(), file))
    };
    let held = held.filter(|held| held.0 == folder);
    let kept = held
        .map_or_else(lock, Ok)
        .and_then(|held| Ok((keep(folder, wanted)?, held)));
    match kept {
        Ok((problems, held)) => (Some(held), problems),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => (None, Vec::new()),
            io::ErrorKind::WouldBlock => (None, vec![problem(folder, &OTHER)]),
            _ => (None, vec![problem(folder, &error)]),
        },
    }
}

/// Updates the copies in the folder. Returns the problems.
fn keep(folder: &Path, wanted: &[(Wanted, Option<File>)]) -> io::Result<Vec<String>> {
    tidy(folder, wanted)?;
    let mut problems = Vec::new();
    for (one, file) in wanted {
        let Wanted { what, copy, .. } = &one;
        let is_made = match &one.original {
            Original::Filter(header) => {
                Filter::open(copy, Load::Disk).is_ok_and(|kept| kept.header() == &**header)
            }
            Original::Config(text) => fs::read(copy).is_ok_and(|kept| kept == text.as_bytes()),
            Original::Unknown => continue,
        };
        let kept = match (&one.original, file) {
            _ if is_made => note_in_effect(copy).map_err(Error::from),
            (Original::Config(text), _) => Replacement::claim_as_created(copy)
                .and_then(|copy| copy.commit_with(text.as_bytes()))
                .map_err(Error::from),
            (_, Some(file)) => copy_filter(copy, file),
            (_, None) => Err(Error::Io(io::ErrorKind::NotFound.into())),
        };
        if let Err(error) = kept {
            if !is_made {
                // The existing copy is of something older.
                let _ = fs::remove_file(copy);
            }
            problems.push(format!("{what}: {}", problem(folder, &error)));
        }
    }
    Ok(problems)
}

fn problem(folder: &Path, error: &dyn std::fmt::Display) -> String {
    format!(
        "cannot keep a copy in {} for a start with a faulty file: {error}",
        folder.display()
    )
}

/// Removes copies that nothing in effect belongs to, and unfinished copies of killed processes.
fn tidy(folder: &Path, wanted: &[(Wanted, Option<File>)]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_old = !name.starts_with('.') && !wanted.iter().any(|(one, _)| one.copy == path);
        // Another process may be writing it.
        let is_unlocked = || File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        let is_left = || name.starts_with('.') && is_unlocked();
        if name.contains(MARK) && (is_old || is_left()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Records in the modification time that the original of this copy is in effect now.
fn note_in_effect(copy: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(copy)?;
    file.set_modified(SystemTime::now())
}

fn copy_filter(copy: &Path, source: &File) -> Result<(), Error> {
    let bytes = source.metadata()?.len();
    let replacement = Replacement::claim_as_created(copy)?;
    if ioctl_ficlone(replacement.file(), source).is_err() {
        let system = fstatvfs(replacement.file()).map_err(io::Error::from)?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        if free / 2 < bytes {
            return Err(Error::NoRoom(bytes, free));
        }
        let mut source = BufReader::with_capacity(1 << 20, source);
        // All others who read this open file say where.
        source.rewind()?;
        io::copy(&mut source, &mut replacement.file())?;
    }
    // With one thread only, because mail is served at the same time.
    Filter::open(replacement.path(), Load::Disk)?.check(true, 1)?;
    Ok(replacement.commit()?)
}
