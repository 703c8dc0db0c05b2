//! Hands connections to the next process, through systemd's descriptor store.
//!
//! If the connection of an SMTP session is closed, the rest of the session is not filtered. A client may pause for minutes, or
//! stay for hours, so there is no good limit for waiting until all sessions end. After a handover, a session is only delayed,
//! by as long as loading the filters takes, and only one process runs at a time.
//!
//! ```text
//!  this process                systemd                        the next process
//!  socketpair: ours, theirs
//!  theirs ----- FDSTORE=1 ---> stores it --- LISTEN_FDS ---> reads it to the end
//!  ours: histories, sockets ...   (in the queue of the socket pair)
//!  exit
//! ```
//!
//! One descriptor in the store is for all connections: theirs are in the queue of this socket pair, in the kernel. The first
//! message has a file in memory with the history of each connection ([`Conversation::history`](crate::door::Conversation::history)),
//! the following have the sockets in the same order. The store also has the listening sockets that the daemon has opened itself:
//! new connections wait in them. systemd keeps it while it restarts a unit, even if the next process crashes before it has
//! read it, and empties it when the unit is stopped.

use std::env;
use std::fs::File;
use std::io::{self, BufWriter, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use sd_notify::NotifyState;

use super::watch::tell;

pub(super) struct Detached {
    pub(super) socket: OwnedFd,
    pub(super) history: Vec<u8>,
}

/// Names, in the store, of the descriptor with the connections, and of the listening sockets.
pub(super) const CONNECTIONS: &str = "connections";
pub(super) const LISTENER: &str = "listener";
/// The first line of the file of histories: the version of this format. After it comes each history, preceded by its length
/// in four bytes. A history that another version does not understand is refused by itself.
const MAGIC: &[u8] = b"blocklist-milter connections 1\n";
/// Sockets per message; the kernel allows 253.
const SOCKETS_MAX: usize = 250;
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether there is a descriptor store. systemd 254 and later announces this itself; for older versions, our unit does.
pub(super) fn is_possible() -> bool {
    let room = env::var("FDSTORE").ok().and_then(|n| n.parse().ok());
    room.is_some_and(|n: u32| n > 0) && env::var_os("NOTIFY_SOCKET").is_some()
}

/// Hands over connections, and counts those that the next process gets, if not all. The process must exit right after it.
pub(super) fn give(left: &[Detached], given: &mut usize) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    keep(CONNECTIONS, [theirs.as_fd()])?;
    queue(&ours, left, given)
}

fn queue(ours: &UnixStream, left: &[Detached], given: &mut usize) -> io::Result<()> {
    // There is no reader yet: never wait for space in the queue.
    ours.set_nonblocking(true)?;
    send(ours, b"+", &[store(left)?.as_fd()])?;
    for some in left.chunks(SOCKETS_MAX) {
        let sockets: Vec<_> = some.iter().map(|one| one.socket.as_fd()).collect();
        send(ours, b"+", &sockets)?;
        *given += some.len();
    }
    Ok(())
}

/// Stores descriptors for the next process. Returns when they are in the store.
pub(super) fn keep<'d>(
    name: &str,
    descriptors: impl IntoIterator<Item = BorrowedFd<'d>>,
) -> io::Result<()> {
    // systemd must keep it even after the other end was closed.
    let state = format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0");
    for descriptor in descriptors {
        notify_with(&state, descriptor)?;
    }
    wait_until_read()
}

/// The connections that the previous process has left in this socket.
pub(super) fn take(store: &UnixStream) -> io::Result<Vec<Detached>> {
    store.set_nonblocking(false)?;
    store.set_read_timeout(Some(PATIENCE))?;
    let mut received = Vec::new();
    let mut receive_all = || -> io::Result<()> {
        while receive(store, &mut received)? {}
        Ok(())
    };
    if let Err(error) = receive_all() {
        // Histories and sockets come in the same order, so all that were received before are complete.
        tracing::error!(%error, "some connections of the previous process were lost");
    }
    let mut received = received.into_iter();
    let Some(file) = received.next() else {
        return Ok(Vec::new());
    };
    let (mut file, mut bytes) = (File::from(file), Vec::new());
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let is_foreign = || io::Error::other("written by another version of this program");
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(is_foreign)?;
    let detached = histories(rest).zip(received).map(|(history, socket)| {
        let history = history.to_vec();
        Detached { socket, history }
    });
    Ok(detached.collect())
}

/// Removes a descriptor from the store; otherwise a socket that we close would stay open there.
pub(super) fn forget(name: &str) {
    let state = format!("FDSTOREREMOVE=1\nFDNAME={name}");
    tell(&[NotifyState::Custom(&state)]);
}

/// Writes the histories one after the other into a file without a name.
fn store(left: &[Detached]) -> io::Result<File> {
    let file = rustix::fs::memfd_create("blocklist-milter connections", MemfdFlags::CLOEXEC)?;
    let mut file = BufWriter::new(File::from(file));
    file.write_all(MAGIC)?;
    for Detached { history, .. } in left {
        let length = u32::try_from(history.len()).map_err(io::Error::other)?;
        file.write_all(&length.to_be_bytes())?;
        file.write_all(history)?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)
}

fn histories(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let (history, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        bytes = rest;
        Some(history)
    })
}

fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    let bytes = [IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the descriptors of one message; `false` at the end. It is an error if the kernel had to leave some out, because
/// the next ones would be assigned to the wrong histories.
fn receive(socket: &UnixStream, into: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received =
        retry_on_intr(|| rustix::net::recvmsg(socket, &mut bytes, &mut ancillary, flags))?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            into.extend(descriptors);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("too few descriptors: raise LimitNOFILE"));
    }
    Ok(received.bytes > 0)
}

fn notify_with(state: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let path = env::var_os("NOTIFY_SOCKET").ok_or(io::ErrorKind::NotFound)?;
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    send(&socket, state.as_bytes(), &[descriptor])
}

/// Waits until systemd has read all notifications: it accepts no descriptors from a process that has exited.
fn wait_until_read() -> io::Result<()> {
    let (ours, theirs) = io::pipe()?;
    notify_with("BARRIER=1", theirs.as_fd())?;
    drop(theirs);
    let mut closed = [PollFd::new(&ours, PollFlags::empty())];
    let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
    match rustix::event::poll(&mut closed, Some(&patience))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may have a lower descriptor limit than the previous one. If some descriptors are left out, the next ones
    /// must not be assigned to the wrong histories.
    #[test]
    fn descriptors_that_are_left_out_are_noticed() {
        const SENT: usize = SOCKETS_MAX + 3;
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let more = [ours.as_fd(); SENT];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&more)));
        let bytes = [IoSlice::new(b"+")];
        rustix::net::sendmsg(&ours, &bytes, &mut ancillary, SendFlags::NOSIGNAL).expect("sent");
        assert!(receive(&theirs, &mut Vec::new()).is_err());
    }

    /// The queue has room for the histories and one message with sockets.
    #[test]
    fn an_error_loses_only_those_that_were_not_counted() {
        let (ours, mut theirs) = UnixStream::pair().expect("sockets");
        ours.set_nonblocking(true).expect("a socket");
        while (&ours).write(b"+").is_ok() {}
        theirs.read_exact(&mut [0; 2]).expect("from the queue");
        let (session, _) = UnixStream::pair().expect("sockets");
        let one = |number: usize| Detached {
            socket: session.try_clone().expect("a descriptor").into(),
            history: number.to_string().into_bytes(),
        };
        let left: Vec<_> = (0..SOCKETS_MAX + 20).map(one).collect();
        let mut given = 0;
        queue(&ours, &left, &mut given).expect_err("no room");
        drop(ours);
        let taken = take(&theirs).expect("the rest");
        assert_eq!((given, taken.len()), (SOCKETS_MAX, SOCKETS_MAX));
        assert_eq!(taken[SOCKETS_MAX - 1].history, b"249");
    }

    #[test]
    fn what_another_version_has_left_is_refused() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let other = tempfile::tempfile().expect("a file");
        send(&ours, b"+", &[other.as_fd()]).expect("there is room");
        drop(ours);
        assert!(take(&theirs).is_err());

        // The previous process has left nothing.
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        drop(ours);
        assert!(take(&theirs).expect("the end").is_empty());
    }
}
