//! Copies of the filters in effect, used when a filter file is damaged or missing at the next start.
//!
//! ```text
//!   a filter is in effect, and was read completely   -> a thread copies it to the folder `state`
//!   a filter is damaged or missing at the next start -> its copy is used, and a warning is logged
//! ```
//!
//! - For each path in the configuration there is at most one copy: of the filter that was last in effect under this
//!   path. If a newer filter cannot be copied, the older copy is removed. So a copy never restores an entry that the
//!   running daemon had dropped. One exception: the daemon ends before the copy of the newer filter is complete, and
//!   the new file is damaged, too. The name of the copy contains a hash of the path, so a list never gets the copy of
//!   another list. If the configuration no longer names a list, its copy is removed.
//! - The data comes from the open file that was read and checked, even if the path now leads to another file. The
//!   copy is read completely, too, before it gets its final name. A killed process leaves only a hidden, unlocked
//!   file, which the next process removes.
//! - The modification time of the copy is the time at which its filter was last seen in effect. After
//!   [`stand_in::KEPT`] the copy is no longer used.
//! - File systems that share blocks between files (XFS, Btrfs) make the copy at once and without additional space. A
//!   hard link would be as cheap on every file system, but the units mount the folder of the filters read-only, and
//!   if the file is overwritten, a hard link is damaged, too.
//! - Whitelists are not copied: without its whitelist, a daemon defers only listed senders, and an old whitelist
//!   could exempt a sender who has been removed from it.
//! - Only one process uses the folder: it holds a lock. A second process with the same folder makes no copies, and
//!   reports this.
//!
//! If the folder does not exist, no copies are made. Errors here never delay mail or a reload.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{fstatvfs, ioctl_ficlone};

use super::Snapshot;
use super::stand_in::{self, ENDING};
use crate::base::numbers::size;
use crate::base::replacement::{self, Replacement};
use crate::filter::{self, Filter, Load};

/// How often the modification time of a copy is updated, and a missing copy is made again.
const LOOK_AGAIN: Duration = Duration::from_secs(86_400);
/// After an error, how long to wait before the next attempt.
const TRY_AGAIN: Duration = Duration::from_secs(3600);

/// How the names of unfinished copies end; they begin with a dot.
const UNFINISHED: &str = ".last-good.blf.writing";

/// The copy that should exist for a filter of the configuration.
#[derive(Debug)]
struct Wanted {
    list: String,
    copy: PathBuf,
    source: Source,
}

/// Where the data of a copy comes from.
#[derive(Debug)]
enum Source {
    /// From the file of the filter in effect, which was checked.
    File(File),
    /// The copy itself is in effect.
    Itself,
    /// No good filter is in effect: an existing copy stays.
    Unknown,
}

/// The path of a copy, and the filter that it should contain.
#[derive(Debug)]
struct Kept(PathBuf, Weak<Filter>);

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 && self.1.ptr_eq(&other.1)
    }
}

/// A locked folder.
#[derive(Debug)]
struct Held(PathBuf, #[allow(dead_code, reason = "holds the lock")] File);

/// The result of a job.
#[derive(Debug, Default)]
struct Done {
    held: Option<Held>,
    problems: Vec<String>,
}

/// Makes copies, one after the other, each time the filters in effect have changed.
#[derive(Debug, Default)]
pub(super) struct Copies {
    job: Option<JoinHandle<Done>>,
    /// The locked folder. Without the lock, another process with the same folder would remove these copies.
    held: Option<Held>,
    /// The copies that the last job should make, and when it was started.
    done: Option<(Vec<Kept>, Instant)>,
    /// Current problems, one line each.
    pub(super) problems: Vec<String>,
}

impl Copies {
    /// Starts a job if copies are out of date; never waits. `false` while a job is running.
    ///
    /// `is_good` says whether a filter in effect was read completely and is undamaged.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        is_good: impl Fn(&Arc<Filter>) -> bool,
        now: Instant,
    ) -> bool {
        if let Some(job) = self.job.take_if(|job| job.is_finished()) {
            // The default is for a job that has panicked.
            let Done { held, problems } = job.join().unwrap_or_default();
            (self.held, self.problems) = (held, problems);
        }
        if self.job.is_some() {
            return false;
        }
        // Without a configuration, it is unknown which lists there should be.
        if snapshot.is_without_config() {
            return true;
        }
        let mut filters = Vec::new();
        let mut wanted = Vec::new();
        for (settings, file) in snapshot.config.enabled_lists().zip(&snapshot.loaded) {
            let Some(copy) = stand_in::path_of(&snapshot.config, &settings.filter) else {
                continue;
            };
            let list = &settings.terms.name;
            let is_doubtful = snapshot
                .faults
                .iter()
                .any(|fault| fault.list() == Some(list));
            let filter = file.as_ref().map(|file| &file.filter);
            let filter = filter.filter(|filter| is_good(filter) && !is_doubtful);
            let source = match filter {
                None => Source::Unknown,
                Some(_) if snapshot.stand_ins.iter().any(|one| one.list == *list) => Source::Itself,
                Some(filter) => match filter.file() {
                    Ok(file) => Source::File(file),
                    Err(_) => Source::Unknown,
                },
            };
            let good = filter.map(Arc::downgrade).unwrap_or_default();
            filters.push(Kept(copy.clone(), good));
            // Two lists may share a filter.
            if !wanted.iter().any(|other: &Wanted| other.copy == copy) {
                let list = list.clone();
                wanted.push(Wanted { list, copy, source });
            }
        }
        let pause = match self.problems.is_empty() {
            true => LOOK_AGAIN,
            false => TRY_AGAIN,
        };
        let is_done = self.done.as_ref().is_some_and(|(before, when)| {
            *before == filters && now.saturating_duration_since(*when) < pause
        });
        if is_done {
            return true;
        }
        self.done = Some((filters, now));
        let folder = snapshot.config.state.clone();
        let max_bytes = snapshot.config.safety.last_good_mib.saturating_mul(1 << 20);
        let held = self.held.take();
        // The new thread inherits the low priority of the calling thread.
        let job = thread::Builder::new()
            .name("copies".to_owned())
            .spawn(move || work(folder, held, wanted, max_bytes));
        match job {
            Ok(job) => self.job = Some(job),
            Err(error) => self.problems = vec![format!("cannot keep copies of filters: {error}")],
        }
        self.job.is_none()
    }
}

/// Why a copy could not be made.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the filter has {}, more than last_good_mib allows, and this file system cannot share blocks between files", size(*.0))]
    TooLarge(u64),
    #[error("it needs {}, and as much again must stay free, but this file system has only {} free", size(*.0), size(*.1))]
    NoRoom(u64, u64),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Replacement(#[from] replacement::Error),
    #[error("the copy is damaged: {0}")]
    Damaged(#[from] filter::Error),
}

/// Locks the folder, unless it is already locked, and updates the copies in it.
fn work(folder: PathBuf, held: Option<Held>, wanted: Vec<Wanted>, max_bytes: u64) -> Done {
    let held = match held.filter(|held| held.0 == folder) {
        Some(held) => held,
        None => match File::open(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Done::default(),
            opened => match opened.and_then(|file| Ok(file.try_lock().map(|()| file)?)) {
                Ok(file) => Held(folder, file),
                Err(error) => {
                    let error = match error.kind() {
                        io::ErrorKind::WouldBlock => OTHER.to_owned(),
                        _ => error.to_string(),
                    };
                    let problems = vec![problem(&folder, &error)];
                    return Done {
                        held: None,
                        problems,
                    };
                }
            },
        },
    };
    let problems = keep(&held.0, wanted, max_bytes);
    Done {
        held: Some(held),
        problems,
    }
}

const OTHER: &str = "another process keeps copies there; give each daemon its own folder (state)";

/// Updates the copies in the folder. Returns the problems, one line each.
fn keep(folder: &Path, wanted: Vec<Wanted>, max_bytes: u64) -> Vec<String> {
    match tidy(folder, &wanted) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![problem(folder, &error)],
    }
    let mut problems = Vec::new();
    for Wanted { list, copy, source } in wanted {
        let kept = match source {
            Source::Unknown => Ok(()),
            Source::Itself => note_in_effect(&copy).map_err(Error::from),
            Source::File(file) if is_copy(&copy, &file) => {
                note_in_effect(&copy).map_err(Error::from)
            }
            Source::File(file) => make(&copy, &file, max_bytes).inspect_err(|_| {
                // The existing copy is of an older filter.
                let _ = fs::remove_file(&copy);
            }),
        };
        if let Err(error) = kept {
            let error = problem(folder, &error);
            problems.push(format!("list {list}: {error}"));
        }
    }
    problems
}

fn problem(folder: &Path, error: &dyn std::fmt::Display) -> String {
    format!(
        "cannot keep a copy of the filter in {} for a start with a damaged file: {error}",
        folder.display()
    )
}

/// Removes copies of filters that the configuration does not name, and unfinished copies of killed processes.
fn tidy(folder: &Path, wanted: &[Wanted]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_old = name.ends_with(ENDING) && !wanted.iter().any(|one| one.copy == path);
        // Another process may be writing it.
        let is_left = || name.starts_with('.') && name.ends_with(UNFINISHED) && is_unlocked(&path);
        if is_old || is_left() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn is_unlocked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Whether the copy is of this file. It compares only the headers, which contain the checksums of all sections.
fn is_copy(copy: &Path, of: &File) -> bool {
    const HEADER_BYTES: usize = 4096;
    let header = |file: &File| -> io::Result<([u8; HEADER_BYTES], u64)> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        Ok((bytes, file.metadata()?.len()))
    };
    let kept = File::open(copy).and_then(|file| header(&file));
    matches!((kept, header(of)), (Ok(kept), Ok(of)) if kept == of)
}

/// Records in the modification time that the filter of this copy is in effect now.
fn note_in_effect(copy: &Path) -> io::Result<()> {
    File::options()
        .write(true)
        .open(copy)?
        .set_modified(SystemTime::now())
}

fn make(copy: &Path, source: &File, max_bytes: u64) -> Result<(), Error> {
    let bytes = source.metadata()?.len();
    let replacement = Replacement::claim_as_created(copy)?;
    if ioctl_ficlone(replacement.file(), source).is_err() {
        if bytes > max_bytes {
            return Err(Error::TooLarge(bytes));
        }
        let system = fstatvfs(replacement.file()).map_err(io::Error::from)?;
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        if free / 2 < bytes {
            return Err(Error::NoRoom(bytes, free));
        }
        copy_bytes(source, replacement.file(), bytes)?;
    }
    // With one thread only, because mail is served at the same time.
    Filter::open(replacement.path(), Load::Disk)?.check(1)?;
    Ok(replacement.commit()?)
}

fn copy_bytes(from: &File, to: &File, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let most = usize::try_from(bytes - at).unwrap_or(usize::MAX);
        let piece = buffer.len().min(most);
        let piece = &mut buffer[..piece];
        from.read_exact_at(piece, at)?;
        to.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}
