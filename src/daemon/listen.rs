//! The listening sockets for mail servers: those of `listen`, or those from systemd.
//!
//! If systemd passes sockets, they are used instead of the configured ones. They stay open while the daemon restarts, so
//! connections are never refused. Those of `listen` stay open in systemd's descriptor store, if the unit has one.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

use super::Error;
use super::handover::{self, CONNECTIONS, LISTENER};
use super::unix_socket::{BACKLOG, MadeSocket, give_access, open_unix};
use crate::endpoint::{Door, Endpoint, Listen};

/// How a systemd socket unit marks a socket for the status pages (`FileDescriptorName=`).
const STATUS: &str = "status";

/// Whether a socket unit of systemd passes sockets for mail to this process (sd_listen_fds(3)).
pub fn inherits_sockets() -> bool {
    let number = |name: &str| env::var(name).ok()?.parse::<usize>().ok();
    let names = names();
    let is_own = |name: &&String| [CONNECTIONS, LISTENER, STATUS].contains(&name.as_str());
    number("LISTEN_PID").is_some_and(|pid| pid == std::process::id() as usize)
        && number("LISTEN_FDS").is_some_and(|count| count > names.iter().filter(is_own).count())
}

/// The names of the descriptors that systemd passes, in their order.
fn names() -> Vec<String> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    names.split(':').map(str::to_owned).collect()
}

/// An open listening socket in non-blocking mode.
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

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Whether a mail server that connects to this endpoint reaches this socket.
    fn is_at(&self, endpoint: &Endpoint) -> bool {
        match (self, endpoint) {
            (Self::Unix(listener), Endpoint::Unix(path)) => {
                let bound = listener.local_addr();
                // If its file is gone, no client can connect to it.
                bound.is_ok_and(|bound| bound.as_pathname() == Some(path))
                    && fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
            }
            (Self::Tcp(listener), Endpoint::Inet { host, port, v6 }) => {
                let addresses = addresses(host, *port, *v6).unwrap_or_default();
                let bound = listener.local_addr();
                bound.is_ok_and(|bound| addresses.contains(&bound))
            }
            (Self::Unix(_), Endpoint::Inet { .. }) | (Self::Tcp(_), Endpoint::Unix(_)) => false,
        }
    }
}

/// All sockets of the daemon. Dropping it closes them and removes the unix sockets that it has created.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    pub(super) open: Vec<Listener>,
    /// What is spoken at each.
    pub(super) doors: Vec<Door>,
    /// Their actual addresses, for example with the port that the system has chosen.
    pub(super) endpoints: Vec<Endpoint>,
    /// A socket unit of systemd has passed some; these come first.
    pub(super) inherited: bool,
    from_systemd: usize,
    /// The connections that the previous process has left in the descriptor store; see `handover`.
    pub(super) left_behind: Vec<UnixStream>,
    /// The sockets of `listen` that the previous process has left there.
    stored: Vec<Listener>,
    /// The sockets for the status pages, from a socket unit of systemd.
    pub(super) status: Vec<Listener>,
    made: Vec<MadeSocket>,
    status_made: Vec<MadeSocket>,
}

impl Listeners {
    /// Uses the sockets from systemd; if there are none, opens `endpoints`.
    pub(super) fn open(listen: &[Listen]) -> Result<Self, Error> {
        let mut inherited = Self::inherited()?;
        let mut stored = std::mem::take(&mut inherited.stored);
        if !stored.is_empty() {
            // Including sockets that are no longer configured: otherwise connections would wait in them forever.
            handover::forget(LISTENER);
        }
        if inherited.inherited {
            tracing::info!(
                sockets = inherited.open.len(),
                "using the sockets from systemd in place of those of `listen`"
            );
        } else if listen.is_empty() {
            return Err(Error::NoEndpoint);
        }
        let mut listeners = inherited;
        listeners.from_systemd = listeners.open.len();
        let doors = listeners.doors.clone();
        // A socket unit has those of some doors; the others are opened here.
        let is_open = |one: &&Listen| listeners.inherited && doors.contains(&one.door);
        let missing: Vec<&Listen> = listen.iter().filter(|one| !is_open(one)).collect();
        for Listen { door, at: endpoint } in missing {
            let kept = stored.iter().position(|kept| kept.is_at(endpoint));
            let kept = kept.map(|index| stored.swap_remove(index));
            match endpoint {
                Endpoint::Unix(path) => {
                    let (listener, made) = match kept {
                        Some(Listener::Unix(listener)) => (listener, give_access(path)?),
                        _ => open_unix(path)?,
                    };
                    listeners.made.push(made);
                    listeners.add(Listener::Unix(listener), *door, endpoint)?;
                }
                Endpoint::Inet { host, port, v6 } => {
                    let listener = match kept {
                        Some(Listener::Tcp(listener)) => Ok(listener),
                        _ => open_inet(host, *port, *v6),
                    };
                    let listener = listener.map_err(|cause| Error::Listen {
                        endpoint: endpoint.clone(),
                        cause,
                    })?;
                    listeners.add(Listener::Tcp(listener), *door, endpoint)?;
                }
            }
        }
        Ok(listeners)
    }

    /// Other descriptors of the same sockets, and what is spoken at each.
    pub(super) fn try_clone(&self) -> io::Result<Vec<(Door, Listener)>> {
        let sockets = self.doors.iter().zip(&self.open);
        sockets
            .map(|(door, listener)| Ok((*door, listener.try_clone()?)))
            .collect()
    }

    /// Stores the sockets of `listen` for the next process; systemd keeps its own anyway.
    pub(super) fn hand_over(mut self) {
        let own = self.open.iter().skip(self.from_systemd);
        if own.len() == 0 {
            return;
        }
        match handover::keep(LISTENER, own.map(Listener::as_fd)) {
            Ok(()) => self.made.drain(..).for_each(std::mem::forget),
            Err(error) => tracing::error!(%error, "cannot hand over the listening sockets"),
        }
    }

    fn inherited() -> Result<Self, Error> {
        let mut listeners = Self::default();
        let names = names();
        let mut handed_over = ListenFd::from_env();
        for n in 0..handed_over.len() {
            let listener = match handed_over.take_unix_listener(n) {
                // The only descriptors in the store that do not listen are those with connections.
                Ok(Some(unix)) if !socket_acceptconn(&unix).unwrap_or(true) => {
                    let store = UnixStream::from(OwnedFd::from(unix));
                    listeners.left_behind.push(store);
                    continue;
                }
                Ok(Some(unix)) => Listener::Unix(unix),
                _ => match handed_over.take_tcp_listener(n) {
                    Ok(Some(tcp)) => Listener::Tcp(tcp),
                    Ok(None) => continue,
                    Err(cause) => return Err(Error::Inherited { number: n, cause }),
                },
            };
            if names.get(n).is_some_and(|name| name == LISTENER) {
                listeners.stored.push(listener);
                continue;
            }
            let endpoint = match &listener {
                Listener::Unix(unix) => Endpoint::Unix(name_of(unix)),
                Listener::Tcp(tcp) => tcp
                    .local_addr()
                    .map_err(|cause| Error::Inherited { number: n, cause })?
                    .into(),
            };
            let name = names.get(n).map_or("", String::as_str);
            let door = Door::NAMES.iter().find(|row| row.0 == name);
            listeners.add(listener, door.map_or(Door::Milter, |row| row.1), &endpoint)?;
            if names.get(n).is_some_and(|name| name == STATUS) {
                listeners.take_for_status();
            } else {
                listeners.inherited = true;
            }
        }
        Ok(listeners)
    }

    /// Uses the socket that was just added for the status pages.
    fn take_for_status(&mut self) {
        let (Some(listener), Some(endpoint)) = (self.open.pop(), self.endpoints.pop()) else {
            return;
        };
        self.doors.pop();
        if endpoint.is_local() {
            self.status.push(listener);
        } else {
            tracing::error!(%endpoint, "[status] listen: not a loopback address; status pages are not served");
        }
    }

    /// Opens the configured socket of the status pages, unless systemd has passed one.
    pub(super) fn open_status(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        if !self.status.is_empty() {
            return Ok(());
        }
        let mut opened = Self::default();
        match endpoint {
            Endpoint::Unix(path) => {
                let (listener, made) = open_unix(path)?;
                opened.made.push(made);
                opened.add(Listener::Unix(listener), Door::Milter, endpoint)?;
            }
            Endpoint::Inet { host, port, v6 } => {
                let listener = open_inet(host, *port, *v6).map_err(|cause| Error::Listen {
                    endpoint: endpoint.clone(),
                    cause,
                })?;
                opened.add(Listener::Tcp(listener), Door::Milter, endpoint)?;
            }
        }
        self.status_made.append(&mut opened.made);
        self.status.append(&mut opened.open);
        Ok(())
    }

    fn add(&mut self, listener: Listener, door: Door, endpoint: &Endpoint) -> Result<(), Error> {
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
        self.doors.push(door);
        self.endpoints.push(real);
        Ok(())
    }
}

/// The path of a unix socket; for one without a file, its name after an `@`, as systemd and ss(8) write it.
fn name_of(listener: &UnixListener) -> PathBuf {
    let Ok(address) = listener.local_addr() else {
        return PathBuf::new();
    };
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => path.to_owned(),
        (None, Some(name)) => OsString::from_vec([b"@", name].concat()).into(),
        (None, None) => PathBuf::new(),
    }
}

fn addresses(host: &str, port: u16, v6: bool) -> io::Result<Vec<SocketAddr>> {
    let addresses = (host, port).to_socket_addrs()?;
    Ok(addresses
        .filter(|address| address.is_ipv6() == v6)
        .collect())
}

fn open_inet(host: &str, port: u16, v6: bool) -> io::Result<TcpListener> {
    let addresses = addresses(host, port, v6)?;
    if addresses.is_empty() {
        let family = if v6 { "IPv6" } else { "IPv4" };
        let text = format!("{host} has no {family} address");
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
    }
    TcpListener::bind(&*addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::unix_socket::knock;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::SocketAddr;
    use std::path::Path;

    #[test]
    fn a_socket_without_a_file_has_a_name_in_the_log() {
        let address = SocketAddr::from_abstract_name(format!("milter {}", std::process::id()));
        let listener = UnixListener::bind_addr(&address.expect("a name")).expect("a socket");
        let name = format!("@milter {}", std::process::id());
        assert_eq!(name_of(&listener), PathBuf::from(name));
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the socket").permissions().mode() & 0o777
    }

    #[test]
    fn a_unix_socket_has_its_mode_and_goes_when_it_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        let endpoints = [Endpoint::Unix(path.clone()).into()];
        let listeners = Listeners::open(&endpoints).expect("a socket");
        assert_eq!(mode(&path), 0o660);
        assert!(matches!(
            Listeners::open(&endpoints),
            Err(Error::InUse { .. })
        ));
        drop(listeners);
        assert!(!path.exists());
        if rustix::process::geteuid().is_root() {
            let folder = folder.path();
            std::os::unix::fs::chown(folder, None, Some(54_321)).expect("root may");
            fs::set_permissions(folder, fs::Permissions::from_mode(0o2755)).expect("our own");
            let _listeners = Listeners::open(&endpoints).expect("a socket");
            let group = fs::metadata(&path).expect("the socket").gid();
            assert_eq!(group, 54_321, "that of a folder with the setgid bit");
        }
    }

    #[test]
    fn of_many_that_start_at_once_one_listens() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        drop(UnixListener::bind(&path).expect("a socket that stays behind"));
        let endpoints = [Endpoint::Unix(path.clone()).into()];
        let opened: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Listeners::open(&endpoints)))
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
        let endpoints = [Endpoint::Unix(path.clone()).into()];
        fs::write(&path, "a file").expect("a file");
        assert!(matches!(
            Listeners::open(&endpoints),
            Err(Error::NotASocket { .. })
        ));
        fs::remove_file(&path).expect("removed");
        drop(UnixListener::bind(&path).expect("a socket that stays behind"));
        let listeners = Listeners::open(&endpoints).expect("a socket");

        // Another file has replaced it, which must not be removed.
        fs::remove_file(&path).expect("removed");
        let _other = UnixListener::bind(&path).expect("another socket");
        drop(listeners);
        assert!(path.exists());
    }
}
