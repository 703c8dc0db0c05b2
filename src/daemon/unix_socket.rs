//! A unix socket at a path: opening it, its permissions, its removal.
//!
//! Only its owner has access until it listens, then its group, too. The mode is set through a descriptor, not through a path
//! at which others could put a link. What is at the path is removed only if it is a socket on which no process listens. The
//! folder is locked meanwhile, so of two daemons that start at the same time, the second never replaces the socket of the
//! first. Anyone who can read the folder can lock it: a start continues without the lock after [`LOCK_PATIENCE`], and an end
//! does not wait at all.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::socket::BACKLOG;
use blocklist_filter::base::path::folder_of;

/// How long a start waits for another one, which takes milliseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_TRIED_AGAIN: Duration = Duration::from_millis(10);

/// Permission bits of a socket: connecting needs write permission. Its group is that of the process, or of a folder
/// with the setgid bit.
const MODE: u32 = 0o660;

/// A socket file that this process has created. Dropping it removes the file, unless another one has replaced it.
pub(super) struct MadeSocket {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for MadeSocket {
    fn drop(&mut self) {
        // It prevents a replacement between check and removal. If another process has it, the next start removes the socket.
        let Ok(Some(_lock)) = lock_folder(&self.path, Duration::ZERO) else {
            return;
        };
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the socket cannot be removed");
        }
    }
}

pub(super) fn open_unix(path: &Path) -> io::Result<(UnixListener, MadeSocket)> {
    let lock = lock_folder(path, LOCK_PATIENCE)?;
    if lock.is_none() {
        tracing::warn!(
            socket = %path.display(),
            "another process has locked the folder of this socket (lslocks shows which), continuing without the lock: do not start a second daemon now"
        );
    }
    remove_stale(path)?;
    let listener = bind(path)?;
    let made = give_access(path).inspect_err(|error| {
        // Nobody can use the socket, so it is removed; a file of another kind is not.
        if error.kind() != io::ErrorKind::AlreadyExists {
            let _ = fs::remove_file(path);
        }
    })?;
    Ok((listener, made))
}

/// Sets the mode of the socket at this path.
pub(super) fn give_access(path: &Path) -> io::Result<MadeSocket> {
    // From here on through a descriptor: the file at the path may be replaced.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(not_a_socket());
    }
    // The mode cannot be changed through such a descriptor directly, but through its path in /proc.
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::set_permissions(itself, fs::Permissions::from_mode(MODE))?;
    Ok(MadeSocket {
        path: path.to_owned(),
        device: found.st_dev,
        inode: found.st_ino,
    })
}

/// Creates a listening socket. The mode of the unbound socket becomes that of its file, so only its owner has access, and the
/// umask of the process need not be changed.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Locks the folder. If two processes start at the same time, the second one waits here, and then finds the first. `None`:
/// another process still holds the lock after `patience`.
fn lock_folder(path: &Path, patience: Duration) -> io::Result<Option<File>> {
    let folder = File::open(folder_of(path))?;
    let began = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => {
                thread::sleep(LOCK_TRIED_AGAIN);
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Removes the file at this path, if it is a socket on which no process listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    if is_stale(path)? {
        tracing::info!(socket = %path.display(), "removing a stale socket");
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Whether there is a socket at this path on which no process listens.
///
/// # Errors
/// There is something else, or a process listens.
pub(super) fn is_stale(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => return Err(not_a_socket()),
        Ok(_) => {}
    }
    match knock(path) {
        Err(Errno::CONNREFUSED) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(Errno::ACCESS) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "a socket of another user exists and may be in use: find the process that listens on it, or remove it",
        )),
        // EAGAIN means a full queue: a process listens.
        Ok(()) | Err(Errno::AGAIN) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there: stop it first",
        )),
        Err(errno) => Err(errno.into()),
    }
}

fn not_a_socket() -> io::Error {
    let text = "a file that is not a socket is there: remove it";
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

/// Connects without waiting.
fn knock(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{AddrInUse, AlreadyExists};
    use std::os::unix::fs::symlink;

    fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
        result.err().map(|error| error.kind())
    }

    /// If two processes start at the same time, the second one waits, and then finds the first.
    #[test]
    fn a_start_waits_for_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        drop(UnixListener::bind(&path).expect("a socket that stays behind"));
        let lock = lock_folder(&path, Duration::ZERO).expect("our own folder");
        assert!(lock.is_some());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| open_unix(&path).map(drop));
            thread::sleep(LOCK_PATIENCE / 4);
            assert!(!second.is_finished(), "it waits");
            fs::remove_file(&path).expect("the one that stayed behind");
            let _first = UnixListener::bind(&path).expect("nobody else is at it");
            drop(lock);
            assert_eq!(kind(second.join().expect("no panic")), Some(AddrInUse));
        });
    }

    /// `flock FOLDER sleep 3600`, by somebody who can read the folder.
    #[test]
    fn a_stranger_with_the_lock_delays_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        let stranger = File::open(folder.path()).expect("a folder");
        stranger.lock().expect("nobody else has it");
        let began = Instant::now();
        let (listener, made) = open_unix(&path).expect("a socket");
        assert!(began.elapsed() < 4 * LOCK_PATIENCE, "{:?}", began.elapsed());
        assert_eq!(knock(&path), Ok(()));
        // Without the lock, too, files of other programs are not removed.
        assert_eq!(kind(open_unix(&path)), Some(AddrInUse));
        let began = Instant::now();
        drop((listener, made));
        assert!(began.elapsed() < LOCK_PATIENCE, "{:?}", began.elapsed());
        assert!(path.exists(), "not removed without the lock");
        drop(stranger);
        drop(open_unix(&path).expect("the stale one is removed"));
        assert!(!path.exists());
    }

    #[test]
    fn what_others_have_put_there_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        fs::write(&path, "a file").expect("our own folder");
        assert_eq!(kind(open_unix(&path)), Some(AlreadyExists));
        fs::remove_file(&path).expect("it is still there");
        let made = open_unix(&path).expect("a socket");
        // Another file has replaced it.
        fs::remove_file(&path).expect("our own socket");
        let _other = UnixListener::bind(&path).expect("another socket");
        drop(made);
        assert!(path.exists());
    }

    /// A link to the socket of another program, which has ended, or a link that was put there after the bind.
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (other, path) = (folder.path().join("other"), folder.path().join("m.sock"));
        drop(UnixListener::bind(&other).expect("a socket that stays behind"));
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("our own");
        symlink(&other, &path).expect("a link");
        for result in [open_unix(&path).map(drop), give_access(&path).map(drop)] {
            assert_eq!(kind(result), Some(AlreadyExists));
            let mode = fs::metadata(&other).expect("it stays").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(path.is_symlink());
        }
    }
}
