//! Connections that are handed to the next process, by way of systemd's descriptor store.
//!
//! A mail server keeps one connection for each SMTP session, and one that is closed under
//! it leaves the rest of that session unfiltered. An SMTP client may pause for minutes
//! between two commands, or stay for hours, so waiting for the end of all sessions has no
//! good limit. Handing them over has none to choose: a restart takes as long as loading
//! the filters, no session notices more than a late answer, and one process runs at a time.
//!
//! ```text
//!  this process                systemd                        the next process
//!  socketpair: ours, theirs
//!  theirs ----- FDSTORE=1 ---> keeps it ---- LISTEN_FDS ---> reads it to its end
//!  ours: histories, sockets ...   (they wait in its queue)
//!  exit
//! ```
//!
//! The store holds a single descriptor for the connections, whatever their number; the kernel
//! keeps the others in its queue. Beside it are the listening sockets that we opened ourselves:
//! new connections wait in them. The first message brings a file in memory with the
//! history of each session, those after it the sockets in the same order. What a history
//! is: [`Session::history`](crate::milter::Session::history).
//!
//! systemd keeps the store while it restarts a unit, also after a crash of the next
//! process before it has read it, and empties it when the unit is stopped for good.

use std::env;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
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

/// A connection without its process.
#[derive(Debug)]
pub(super) struct Detached {
    pub(super) socket: OwnedFd,
    /// Of its session.
    pub(super) history: Vec<u8>,
}

/// The name of the descriptor with the connections in the store.
pub(super) const CONNECTIONS: &str = "connections";
/// The name of the listening sockets that we opened ourselves.
pub(super) const LISTENER: &str = "listener";
/// What the file of histories begins with: the version of this format. Each history
/// follows, behind its length in four bytes.
const MAGIC: &[u8] = b"blocklist-milter connections 1\n";
/// Sockets in one message; the kernel allows 253.
const SOCKETS_MAX: usize = 250;
/// For systemd, or for the process before, to do its part.
const PATIENCE: Duration = Duration::from_secs(5);

/// Will somebody keep what is stored? systemd 254 and later says so by itself, our unit
/// says it for older ones.
pub(super) fn is_possible() -> bool {
    let room = env::var("FDSTORE").ok().and_then(|n| n.parse().ok());
    room.is_some_and(|n: u32| n > 0) && env::var_os("NOTIFY_SOCKET").is_some()
}

/// Hands over connections. Exit right after it.
pub(super) fn give(left: &[Detached]) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    keep(CONNECTIONS, [theirs.as_fd()])?;
    fill(&ours, left)
}

/// Has descriptors kept for the next process. Returns when they are in the store.
pub(super) fn keep<'d>(
    name: &str,
    descriptors: impl IntoIterator<Item = BorrowedFd<'d>>,
) -> io::Result<()> {
    // To be kept also when the other end is gone.
    let state = format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0");
    for descriptor in descriptors {
        notify_with(&state, descriptor)?;
    }
    wait_until_read()
}

/// Sends histories and sockets to the process that will read them.
fn fill(socket: &UnixStream, left: &[Detached]) -> io::Result<()> {
    // Nobody reads yet: what does not fit must not be waited for.
    socket.set_nonblocking(true)?;
    let histories = store(left)?;
    send(socket, b"+", &[histories.as_fd()])?;
    for some in left.chunks(SOCKETS_MAX) {
        let sockets: Vec<_> = some.iter().map(|one| one.socket.as_fd()).collect();
        send(socket, b"+", &sockets)?;
    }
    Ok(())
}

/// Takes over what the process before has left in this socket.
pub(super) fn take(store: &UnixStream) -> io::Result<Vec<Detached>> {
    store.set_nonblocking(false)?;
    store.set_read_timeout(Some(PATIENCE))?;
    let mut received = Vec::new();
    loop {
        match receive(store, &mut received) {
            Ok(true) => {}
            Ok(false) => break,
            // Histories and sockets come in the same order: what came first is whole.
            Err(error) => {
                tracing::error!(%error, "some connections of the previous process were lost");
                break;
            }
        }
    }
    let mut received = received.into_iter();
    let Some(histories) = received.next() else {
        return Ok(Vec::new());
    };
    let mut bytes = Vec::new();
    let mut histories = File::from(histories);
    histories.rewind()?;
    histories.read_to_end(&mut bytes)?;
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "written by another version of this program",
        )
    })?;
    Ok(Histories(rest)
        .zip(received)
        .map(|(history, socket)| Detached {
            socket,
            history: history.to_vec(),
        })
        .collect())
}

/// The store may forget what was taken: what we close must be closed.
pub(super) fn forget(name: &str) {
    let state = format!("FDSTOREREMOVE=1\nFDNAME={name}");
    tell(&[NotifyState::Custom(&state)]);
}

/// The histories one after the other, in a file without a name.
fn store(left: &[Detached]) -> io::Result<File> {
    let mut bytes = MAGIC.to_vec();
    for Detached { history, .. } in left {
        let length = u32::try_from(history.len()).map_err(io::Error::other)?;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(history);
    }
    let file = rustix::fs::memfd_create("blocklist-milter connections", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    file.write_all(&bytes)?;
    Ok(file)
}

/// The histories in such a file.
struct Histories<'b>(&'b [u8]);

impl<'b> Iterator for Histories<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (history, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.0 = rest;
        Some(history)
    }
}

/// Sends bytes and, along with them, descriptors.
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

/// Receives the descriptors of one message; `false` at the end. An error where the kernel had to
/// leave some out: what follows would be taken for them.
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

/// Tells systemd something about a descriptor.
fn notify_with(state: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let path = env::var_os("NOTIFY_SOCKET").ok_or(io::ErrorKind::NotFound)?;
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    send(&socket, state.as_bytes(), &[descriptor])
}

/// Returns when systemd has read all that it was sent, and so has the descriptor: of a
/// process that is gone it takes none.
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

    #[test]
    fn connections_arrive_in_order_with_their_histories() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let (mut peers, mut left) = (Vec::new(), Vec::new());
        for n in 0..u32::try_from(2 * SOCKETS_MAX + 1).expect("a small number") {
            let (peer, socket) = UnixStream::pair().expect("sockets");
            peers.push(peer);
            left.push(Detached {
                socket: socket.into(),
                history: n.to_be_bytes().repeat(n as usize % 3),
            });
        }
        let histories: Vec<_> = left.iter().map(|one| one.history.clone()).collect();
        fill(&ours, &left).expect("there is room");
        drop((ours, left));
        let taken = take(&theirs).expect("all was sent");
        assert_eq!(taken.len(), peers.len());
        for (n, ((one, history), mut peer)) in
            taken.into_iter().zip(histories).zip(peers).enumerate()
        {
            assert_eq!(one.history, history);
            let mut socket = UnixStream::from(one.socket);
            write!(socket, "{n}").expect("connected");
            drop(socket);
            let mut heard = String::new();
            peer.read_to_string(&mut heard).expect("text");
            assert_eq!(heard, n.to_string());
        }
    }

    /// A process may have room for fewer descriptors than the one before. What follows those that
    /// are left out must not be taken for them.
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

    #[test]
    fn what_another_version_has_left_is_refused() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let other = tempfile::tempfile().expect("a file");
        send(&ours, b"+", &[other.as_fd()]).expect("there is room");
        drop(ours);
        assert!(take(&theirs).is_err());

        // Nothing at all was left.
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        drop(ours);
        assert!(take(&theirs).expect("the end").is_empty());
    }
}
