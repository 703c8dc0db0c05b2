//! The sockets on which mail servers find us: opening and removing them.
//!
//! A unix socket is made for its owner alone and opened to others only when its group is
//! as wanted, so there is no moment at which a stranger could connect. One
//! that is left over is removed only if it is a socket and nobody answers on it: what
//! is not ours is never deleted, and a second daemon never takes the first one's place, not
//! even when both start at once: the folder is locked meanwhile. Mode and group are set by
//! descriptor, not by a path at which others may put a link.
//!
//! Sockets that systemd hands over are used in place of the configured ones; they stay
//! open while the daemon restarts, so that no mail server is ever refused.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Error;
use crate::access;
use crate::endpoint::Endpoint;

/// Connections that may wait to be accepted. The kernel cuts it to
/// `net.core.somaxconn`; with a short queue a busy Postfix waits in `connect`.
const BACKLOG: i32 = i32::MAX;

/// Who may connect to a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Permission bits of the socket; connecting needs the right to write.
    pub mode: u32,
    /// Group of the socket, by name or number; `None`: the group of the process.
    pub group: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            mode: 0o660,
            group: None,
        }
    }
}

/// Whether systemd hands sockets over to this process (sd_listen_fds(3)).
pub fn inherits_sockets() -> bool {
    let is = |name: &str, wanted: &dyn Fn(u32) -> bool| {
        let value = std::env::var(name).ok();
        value
            .and_then(|value| value.parse().ok())
            .is_some_and(wanted)
    };
    is("LISTEN_PID", &|pid| pid == std::process::id()) && is("LISTEN_FDS", &|count| count > 0)
}

/// An open listening socket, not blocking.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Another descriptor of the same socket.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
        }
    }
}

/// All sockets of the daemon. Dropping it closes them and removes the unix sockets that
/// it made.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    pub(super) open: Vec<Listener>,
    /// Where they really are: with the port that was chosen, for one.
    pub(super) endpoints: Vec<Endpoint>,
    /// systemd has handed them over.
    pub(super) inherited: bool,
    /// The connections that the process before has left there; see `handover`.
    pub(super) left_behind: Option<UnixStream>,
    made: Vec<MadeSocket>,
}

/// A socket file that we made: its path, device and inode.
#[derive(Debug)]
struct MadeSocket {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for MadeSocket {
    /// Removes the file, unless another has taken its place.
    fn drop(&mut self) {
        // Not between the look and the removal may another take its place.
        let _lock = lock_folder(&self.path);
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the socket cannot be removed");
        }
    }
}

impl Listeners {
    /// Takes the sockets that systemd hands over; where it hands over none, opens
    /// `endpoints`.
    pub(super) fn open(endpoints: &[Endpoint], access: &Access) -> Result<Self, Error> {
        let mut inherited = Self::inherited()?;
        if inherited.inherited {
            tracing::info!(
                sockets = inherited.open.len(),
                "using the sockets from systemd, ignoring `listen`"
            );
            return Ok(inherited);
        }
        if endpoints.is_empty() {
            return Err(Error::NoEndpoint);
        }
        let mut listeners = Self {
            left_behind: inherited.left_behind.take(),
            ..Self::default()
        };
        for endpoint in endpoints {
            match endpoint {
                Endpoint::Unix(path) => {
                    let (listener, made) = open_unix(path, access)?;
                    listeners.made.push(made);
                    listeners.add(Listener::Unix(listener), endpoint)?;
                }
                Endpoint::Inet { host, port, v6 } => {
                    let listener = open_inet(host, *port, *v6).map_err(|cause| Error::Listen {
                        endpoint: endpoint.clone(),
                        cause,
                    })?;
                    listeners.add(Listener::Tcp(listener), endpoint)?;
                }
            }
        }
        Ok(listeners)
    }

    fn inherited() -> Result<Self, Error> {
        let mut listeners = Self::default();
        let mut handed_over = ListenFd::from_env();
        for n in 0..handed_over.len() {
            let listener = match handed_over.take_unix_listener(n) {
                // The one socket among them that does not listen.
                Ok(Some(unix)) if !socket_acceptconn(&unix).unwrap_or(true) => {
                    listeners.left_behind = Some(UnixStream::from(OwnedFd::from(unix)));
                    continue;
                }
                Ok(Some(unix)) => Listener::Unix(unix),
                _ => match handed_over.take_tcp_listener(n) {
                    Ok(Some(tcp)) => Listener::Tcp(tcp),
                    Ok(None) => continue,
                    Err(cause) => return Err(Error::Inherited { number: n, cause }),
                },
            };
            let endpoint = match &listener {
                Listener::Unix(unix) => Endpoint::Unix(
                    unix.local_addr()
                        .ok()
                        .and_then(|address| address.as_pathname().map(Path::to_owned))
                        .unwrap_or_default(),
                ),
                Listener::Tcp(tcp) => tcp
                    .local_addr()
                    .map_err(|cause| Error::Inherited { number: n, cause })?
                    .into(),
            };
            listeners.add(listener, &endpoint)?;
            listeners.inherited = true;
        }
        Ok(listeners)
    }

    fn add(&mut self, listener: Listener, endpoint: &Endpoint) -> Result<(), Error> {
        let listen = || -> io::Result<Endpoint> {
            match &listener {
                Listener::Unix(unix) => {
                    rustix::net::listen(unix, BACKLOG)?;
                    unix.set_nonblocking(true)?;
                    Ok(endpoint.clone())
                }
                Listener::Tcp(tcp) => {
                    rustix::net::listen(tcp, BACKLOG)?;
                    tcp.set_nonblocking(true)?;
                    Ok(tcp.local_addr()?.into())
                }
            }
        };
        let real = listen().map_err(|cause| Error::Listen {
            endpoint: endpoint.clone(),
            cause,
        })?;
        self.open.push(listener);
        self.endpoints.push(real);
        Ok(())
    }
}

fn open_inet(host: &str, port: u16, v6: bool) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()?
        .filter(|address| address.is_ipv6() == v6)
        .collect();
    if addresses.is_empty() {
        let family = if v6 { "IPv6" } else { "IPv4" };
        let text = format!("{host} has no {family} address");
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
    }
    TcpListener::bind(&*addresses)
}

fn open_unix(path: &Path, access: &Access) -> Result<(UnixListener, MadeSocket), Error> {
    let failed = |cause: io::Error| Error::Listen {
        endpoint: Endpoint::Unix(path.to_owned()),
        cause,
    };
    let group = access
        .group
        .as_deref()
        .map(|name| Ok((name, group_number(name)?)))
        .transpose()?;
    let _lock = lock_folder(path).map_err(failed)?;
    remove_stale(path)?;
    let listener = bind(path).map_err(|errno| failed(errno.into()))?;
    let made = || -> Result<_, Error> {
        // From here on by descriptor: another file may come to stand there.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let found = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
            return Err(Error::NotASocket {
                path: path.to_owned(),
            });
        }
        if let Some((name, number)) = group {
            let group = Some(Gid::from_raw(number));
            rustix::fs::chownat(&file, "", None, group, AtFlags::EMPTY_PATH).map_err(|errno| {
                Error::Group {
                    path: path.to_owned(),
                    group: name.to_owned(),
                    cause: errno.into(),
                }
            })?;
        }
        // Where such a descriptor leads to; itself it takes no change of mode.
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mode = fs::Permissions::from_mode(access.mode);
        fs::set_permissions(itself, mode).map_err(failed)?;
        Ok(MadeSocket {
            path: path.to_owned(),
            device: found.st_dev,
            inode: found.st_ino,
        })
    };
    let made = made().inspect_err(|error| {
        // Nobody can use it; but what has come to stand there instead is not ours.
        if !matches!(error, Error::NotASocket { .. }) {
            let _ = fs::remove_file(path);
        }
    })?;
    Ok((listener, made))
}

/// A socket that listens. The mode of an unbound one becomes that of its file: so it is made for
/// its owner alone, without touching the mask of the whole process.
fn bind(path: &Path) -> Result<UnixListener, Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Of two processes that start at once, the second waits here and then finds the first.
fn lock_folder(path: &Path) -> io::Result<File> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

/// Makes room for a socket, if what is there is a socket that nobody listens on.
fn remove_stale(path: &Path) -> Result<(), Error> {
    let failed = |cause: io::Error| Error::Listen {
        endpoint: Endpoint::Unix(path.to_owned()),
        cause,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Error::NotASocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match knock(path) {
        Err(Errno::CONNREFUSED) => {
            tracing::info!(socket = %path.display(), "removing a stale socket");
            fs::remove_file(path).map_err(failed)
        }
        Err(Errno::NOENT) => Ok(()),
        Err(Errno::ACCESS) => Err(failed(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "a socket of another user exists and may be in use: find the process that listens on it, or remove it",
        ))),
        // With a full queue the answer is "again": somebody is there all the same.
        Ok(()) | Err(Errno::AGAIN) => Err(Error::InUse {
            path: path.to_owned(),
        }),
        Err(errno) => Err(failed(errno.into())),
    }
}

/// Connects without waiting.
fn knock(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

/// The number of a group given by name or by number.
///
/// # Errors
/// There is none of this name.
pub fn group_number(group: &str) -> Result<u32, Error> {
    access::group_number(group).ok_or_else(|| Error::NoGroup {
        group: group.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the socket").permissions().mode() & 0o777
    }

    #[test]
    fn a_unix_socket_has_its_mode_and_goes_when_it_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        let endpoints = [Endpoint::Unix(path.clone())];
        let listeners = Listeners::open(&endpoints, &Access::default()).expect("a socket");
        assert_eq!(mode(&path), 0o660);
        assert!(matches!(
            Listeners::open(&endpoints, &Access::default()),
            Err(Error::InUse { .. })
        ));
        drop(listeners);
        assert!(!path.exists());
        let access = Access {
            mode: 0o600,
            group: Some("0".to_owned()),
        };
        let opened = Listeners::open(&endpoints, &access);
        if rustix::process::geteuid().is_root() {
            let _listeners = opened.expect("a socket");
            assert_eq!(mode(&path), 0o600);
        } else {
            assert!(matches!(opened, Err(Error::Group { .. })));
            assert!(!path.exists(), "a socket that nobody can use");
        }
    }

    #[test]
    fn of_many_that_start_at_once_one_listens() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        drop(UnixListener::bind(&path).expect("a socket that stays behind"));
        let endpoints = [Endpoint::Unix(path.clone())];
        let opened: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Listeners::open(&endpoints, &Access::default())))
                .collect();
            let opened = starts.into_iter().map(|start| start.join());
            opened.map(|opened| opened.expect("no panic")).collect()
        });
        assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1);
        let in_use = |error: &Error| matches!(error, Error::InUse { .. });
        assert!(
            opened
                .iter()
                .flat_map(|opened| opened.as_ref().err())
                .all(in_use)
        );
        assert_eq!(knock(&path), Ok(()));
    }

    #[test]
    fn only_a_dead_socket_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        let endpoints = [Endpoint::Unix(path.clone())];
        fs::write(&path, "a file").expect("a file");
        assert!(matches!(
            Listeners::open(&endpoints, &Access::default()),
            Err(Error::NotASocket { .. })
        ));
        fs::remove_file(&path).expect("removed");
        drop(UnixListener::bind(&path).expect("a socket that stays behind"));
        let listeners = Listeners::open(&endpoints, &Access::default()).expect("a socket");

        // Another has taken the place: it is not ours to remove.
        fs::remove_file(&path).expect("removed");
        let _other = UnixListener::bind(&path).expect("another socket");
        drop(listeners);
        assert!(path.exists());
    }
}
