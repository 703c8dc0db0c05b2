//! The listening sockets for mail servers: those of `listen`, or those from systemd.
//!
//! Those from systemd stay open while the daemon restarts, so connections are never refused. Those of `listen` do so in
//! systemd's descriptor store, if the unit has one. One that cannot be opened stops no other.

use std::env;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

use super::Error;
use super::handover::{self, CONNECTIONS, LISTENER};
use super::socket::Socket;
use super::unix_socket::{MadeSocket, give_access, is_stale, open_unix};
use crate::endpoint::{Door, DoorState, Endpoint, Listen};
use blocklist_filter::base::path::folder_of;

/// How a systemd socket unit marks a socket for the status pages (`FileDescriptorName=`).
const STATUS: &str = "status";

/// Whether a socket unit of systemd passes sockets for mail to this process (sd_listen_fds(3)).
pub(crate) fn inherits_sockets() -> bool {
    let is_other = |name: &str| ![CONNECTIONS, LISTENER, STATUS].contains(&name);
    sd_notify::listen_fds_with_names().is_ok_and(|mut all| all.any(|(_, name)| is_other(&name)))
}

/// An open socket, and what belongs to it.
pub(super) struct Open {
    pub(super) listener: Socket,
    pub(super) door: Door,
    /// Its actual address, for example with the port that the system has chosen.
    pub(super) endpoint: Endpoint,
    /// It is one of `listen`, and systemd does not keep it.
    is_ours: bool,
    made: Option<MadeSocket>,
}

impl Open {
    /// Opens a socket of `listen`, unless it was kept.
    pub(super) fn at(at: &Endpoint, door: Door, kept: Option<Socket>) -> Result<Self, Error> {
        let open = || {
            let (listener, made) = match (at, kept) {
                (Endpoint::Unix(path), Some(kept)) => (kept, Some(give_access(path)?)),
                (Endpoint::Unix(path), None) => {
                    let (listener, made) = open_unix(path)?;
                    (Socket::new(listener)?, Some(made))
                }
                (Endpoint::Inet { .. }, Some(kept)) => (kept, None),
                (Endpoint::Inet { host, port, v6 }, None) => {
                    (Socket::new(open_inet(host, *port, *v6)?)?, None)
                }
            };
            listener.listen()?;
            Ok(Self {
                endpoint: listener.endpoint()?,
                listener,
                door,
                is_ours: true,
                made,
            })
        };
        open().map_err(|cause| Error::listen(at, cause))
    }
}

/// All sockets of the daemon. Dropping it closes them and removes the unix sockets that it has created.
#[derive(Default)]
pub(super) struct Listeners {
    pub(super) mail: Vec<Open>,
    pub(super) status: Vec<Open>,
    /// Those of `listen`, or of systemd in their place.
    pub(super) doors: Vec<DoorState>,
    /// Some for mail servers are from a socket unit of systemd.
    pub(super) inherited: bool,
    /// The connections that the previous process has left in the descriptor store; see `handover`.
    pub(super) left_behind: Vec<UnixStream>,
}

impl Listeners {
    /// Uses the sockets from systemd, and opens those of `listen` whose doors have none.
    pub(super) fn open(listen: &[Listen]) -> Result<Self, Error> {
        let (mut listeners, mut stored, mut failed) = Self::inherited();
        if !stored.is_empty() {
            // Including sockets that are no longer configured: otherwise connections would wait in them forever.
            handover::forget(LISTENER);
        }
        if listeners.inherited {
            tracing::info!(
                sockets = listeners.mail.len(),
                "using the sockets from systemd in place of those of `listen`"
            );
        } else if listen.is_empty() && failed.is_none() {
            return Err(Error::NoEndpoint);
        }
        let given: Vec<Door> = listeners.mail.iter().map(|open| open.door).collect();
        for one @ Listen { door, at } in listen {
            let mut state = DoorState::open(one);
            if !given.contains(door) {
                let kept = stored.iter().position(|kept| is_at(kept, at));
                let kept = kept.map(|index| stored.swap_remove(index));
                match Open::at(at, *door, kept) {
                    Ok(open) => listeners.mail.push(open),
                    Err(error) => {
                        state = DoorState::closed(&state.name, &error);
                        failed = failed.or(Some(error));
                    }
                }
            }
            listeners.doors.push(state);
        }
        for open in listeners.mail.iter().filter(|open| !open.is_ours) {
            let (door, at) = (open.door, open.endpoint.clone());
            let state = DoorState::open(&Listen { door, at });
            if !listeners.doors.contains(&state) {
                listeners.doors.push(state);
            }
        }
        match failed {
            // Then the service manager acts.
            Some(error) if listeners.mail.is_empty() => return Err(error),
            _ => {}
        }
        Ok(listeners)
    }

    /// Other descriptors of the same sockets, and what is spoken at each.
    pub(super) fn try_clone(&self) -> io::Result<Vec<(Door, Socket)>> {
        let sockets = self.mail.iter();
        sockets
            .map(|open| Ok((open.door, open.listener.try_clone()?)))
            .collect()
    }

    /// Stores the sockets of `listen` for the next process; systemd keeps its own anyway.
    pub(super) fn hand_over(mut self) {
        self.mail.retain(|open| open.is_ours);
        if self.mail.is_empty() {
            return;
        }
        match handover::keep(LISTENER, self.mail.iter().map(|open| open.listener.as_fd())) {
            Ok(()) => {
                let made = self.mail.into_iter().filter_map(|open| open.made);
                made.for_each(std::mem::forget);
            }
            Err(error) => tracing::error!(%error, "cannot hand over the listening sockets"),
        }
    }

    /// The sockets from systemd, and those of `listen` that the previous process has left there.
    /// Returns the first error, too.
    fn inherited() -> (Self, Vec<Socket>, Option<Error>) {
        let (mut listeners, mut stored, mut failed) = (Self::default(), Vec::new(), None);
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let names: Vec<&str> = names.split(':').collect();
        let mut handed_over = ListenFd::from_env();
        for number in 0..handed_over.len() {
            let name = names.get(number).copied().unwrap_or_default();
            let taken = listeners.inherit(&mut handed_over, number, name, &mut stored);
            if let Err(cause) = taken {
                let error = Error::Inherited { number, cause };
                listeners.doors.push(DoorState::closed(name, &error));
                failed = failed.or(Some(error));
            }
        }
        (listeners, stored, failed)
    }

    fn inherit(
        &mut self,
        handed_over: &mut ListenFd,
        number: usize,
        name: &str,
        stored: &mut Vec<Socket>,
    ) -> io::Result<()> {
        let listener = match handed_over.take_unix_listener(number) {
            // The only descriptors in the store that do not listen are those with connections.
            Ok(Some(unix)) if !socket_acceptconn(&unix).unwrap_or(true) => {
                self.left_behind.push(UnixStream::from(OwnedFd::from(unix)));
                return Ok(());
            }
            Ok(Some(unix)) => Socket::new(unix)?,
            _ => match handed_over.take_tcp_listener(number)? {
                Some(tcp) => Socket::new(tcp)?,
                None => return Ok(()),
            },
        };
        if name == LISTENER {
            stored.push(listener);
            return Ok(());
        }
        listener.listen()?;
        let open = Open {
            endpoint: listener.endpoint()?,
            listener,
            door: Door::from_name(name).unwrap_or_default(),
            is_ours: false,
            made: None,
        };
        let endpoint = &open.endpoint;
        match (name == STATUS, endpoint.is_local()) {
            (true, false) => {
                tracing::error!(%endpoint, "[status] listen: not a loopback address; status pages are not served");
            }
            (true, true) => self.status.push(open),
            (false, is_local) => {
                if !is_local {
                    tracing::warn!(%endpoint, "this socket from systemd can be reached from other machines, and any program that connects is treated as the mail server; use a unix socket or a loopback address, or protect the port by a firewall");
                }
                self.inherited = true;
                self.mail.push(open);
            }
        }
        Ok(())
    }
}

/// Why this socket could not be opened now, as far as can be known without opening it.
pub(crate) fn obstacle(at: &Endpoint) -> Option<Error> {
    let tried = match at {
        Endpoint::Unix(path) => fs::read_dir(folder_of(path))
            .and_then(|_| is_stale(path))
            .map(drop),
        Endpoint::Inet { host, port, v6 } => open_inet(host, *port, *v6).map(drop),
    };
    tried.err().map(|cause| Error::listen(at, cause))
}

/// Whether a mail server that connects to this endpoint reaches this socket.
fn is_at(socket: &Socket, endpoint: &Endpoint) -> bool {
    match endpoint {
        // If its file is gone, no client can connect to it.
        Endpoint::Unix(path) => {
            socket.endpoint().is_ok_and(|bound| bound == *endpoint)
                && fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        }
        // With the scope of an IPv6 address, which an endpoint does not have.
        Endpoint::Inet { host, port, v6 } => {
            let addresses = addresses(host, *port, *v6).unwrap_or_default();
            (socket.address()).is_ok_and(|bound| addresses.contains(&bound))
        }
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
