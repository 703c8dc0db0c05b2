//! Copies of the filters in effect, for a start that finds one of them damaged or gone.
//!
//! ```text
//!   a filter is in effect, and was read as a whole -> a thread copies it to the folder `state`
//!   a start finds the filter damaged or gone       -> its copy is in effect, and a warning says so
//! ```
//!
//! - A copy is that of the filter which was in effect last under the path of the configuration, or there is none:
//!   when a newer one cannot be copied, the older copy is removed. So no entry comes back that a running daemon had
//!   dropped, unless it ends in the seconds before the copy of the newer filter is complete, and that file is
//!   damaged, too. The path is part of its name: no other list takes its place, and a list that the configuration no
//!   longer names loses its copy.
//! - It is copied from the file that was read, whatever is under the name now; it is read as a whole, too, before it gets
//!   its name. A killed process leaves only a hidden file without a lock, which the next one removes.
//! - Its time of modification says when its filter was last seen in effect. After [`stand_in::KEPT`] it is not used any more.
//! - File systems that share blocks between files (XFS, Btrfs) make the copy at once and without space. A hard
//!   link would be as cheap anywhere, but the units mount the folder of the filters read-only, and a file that somebody
//!   writes over is damaged under both names.
//! - No copies of whitelists: without its whitelist a start defers listed senders and nobody else, and an old
//!   whitelist could let one pass who was taken off it.
//!
//! - One process has the folder, by a lock. Another that is configured with the same one keeps no copies there, and says so.
//!
//! A folder that is not there means that no copies are wanted. What fails there never delays mail or a reload.

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
use crate::filter::{self, Filter, Load};
use crate::numbers::size;
use crate::replacement::{self, Replacement};

/// How often the time of a copy is brought up to date, and whether it is still there is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(86_400);
/// When a copy that failed is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(3600);

/// How those of unfinished copies do, which begin with a dot.
const UNFINISHED: &str = ".last-good.blf.writing";

/// What is to be in the folder for a filter of the configuration.
#[derive(Debug)]
struct Wanted {
    list: String,
    copy: PathBuf,
    source: Source,
}

/// Where it comes from.
#[derive(Debug)]
enum Source {
    /// This good filter, which is in effect.
    File(File),
    /// It is in effect itself.
    Itself,
    /// No good filter is in effect: what is there stays as it is.
    Unknown,
}

/// A copy, and the filter that it is to be of.
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

/// What came of a job.
#[derive(Debug, Default)]
struct Done {
    held: Option<Held>,
    problems: Vec<String>,
}

/// Makes copies, one after the other, each time that other filters are in effect.
#[derive(Debug, Default)]
pub(super) struct Copies {
    job: Option<JoinHandle<Done>>,
    /// The folder, locked: another process with the same one would remove these copies as not its own.
    held: Option<Held>,
    /// What the last job was started for, and when.
    done: Option<(Vec<Kept>, Instant)>,
    /// What is wrong, a line each.
    pub(super) problems: Vec<String>,
}

impl Copies {
    /// Begins what is to be done; never waits. `false` while it is under way.
    ///
    /// `is_good` says whether a filter in effect was read as a whole and found good.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        is_good: impl Fn(&Arc<Filter>) -> bool,
        now: Instant,
    ) -> bool {
        if let Some(job) = self.job.take_if(|job| job.is_finished()) {
            // It has panicked: nobody knows what there is.
            let Done { held, problems } = job.join().unwrap_or_default();
            (self.held, self.problems) = (held, problems);
        }
        if self.job.is_some() {
            return false;
        }
        // Nobody knows which lists there should be.
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
        // It inherits the low priority of the thread that calls this.
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

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the filter has {}, more than last_good_mib allows, and this file system shares no blocks", size(*.0))]
    TooLarge(u64),
    #[error("it takes {}, and as much again must stay free on this file system, which has {}", size(*.0), size(*.1))]
    NoRoom(u64, u64),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Replacement(#[from] replacement::Error),
    #[error("the copy is not good: {0}")]
    Damaged(#[from] filter::Error),
}

/// Locks the folder, unless that was done, and brings it up to date.
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

const OTHER: &str = "another process keeps copies there; give each a folder of its own (state)";

/// Brings the folder up to date; what is wrong, a line each.
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
                // It is of an older filter.
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

/// Removes copies of filters that the configuration does not name, and what a killed process has left.
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

/// Whether the copy is of this file: the header holds sums of all its parts.
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

/// Notes that the filter of this copy is in effect.
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
    // One thread: the others serve mail.
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
