//! Opens and unpacks an input, wherever it is, and counts its bytes. Reading ends on an interrupt,
//! even while it waits for a pipe, and fails if somebody still writes the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::input::{Content, Input};
use crate::compile::progress::Progress;
use crate::unpack;

/// Maximum delay of an interrupt by a pipe without data.
const POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

#[allow(clippy::cast_possible_wrap, reason = "a low bit")]
const NONBLOCK: i32 = OFlags::NONBLOCK.bits() as i32;

/// Opens an input, unpacked. Counts bytes as they are on disk.
pub(crate) fn open(input: &Input, progress: &Progress) -> io::Result<Box<dyn Read + Send>> {
    let (bytes, stop) = (progress.done_counter(), progress.stop_flag());
    match &input.content {
        Content::Whole => {}
        Content::Typed(text) => return Ok(Box::new(Cursor::new(text.clone()))),
        Content::Member(member) => {
            let input = unpack::open_member(&input.path, member)?;
            return Ok(Box::new(CountedMember { input, bytes, stop }));
        }
    }
    let input = if input.is_stdin() {
        // Not `io::stdin()`: its buffer may hold the data that poll would wait for.
        File::from(io::stdin().as_fd().try_clone_to_owned()?)
    } else {
        // A FIFO without a writer would block in `open`, where no signal ends it.
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(NONBLOCK)
            .open(&input.path)?
    };
    unpack::text(Counted {
        state: state_of(&input)?,
        input,
        bytes,
        stop,
    })
}

/// The size of a file and the time of its last change; `None` for a pipe or a terminal.
fn state_of(file: &File) -> io::Result<Option<(u64, SystemTime)>> {
    let meta = file.metadata()?;
    let state = meta.is_file().then(|| Ok((meta.len(), meta.modified()?)));
    state.transpose()
}

struct Counted {
    input: File,
    /// The state of the file when it was opened, also of standard input (`- <list`).
    state: Option<(u64, SystemTime)>,
    bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Counted {
    fn is_ready(&self) -> io::Result<bool> {
        let mut ready = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut ready, Some(&POLL)) {
            Err(Errno::INTR) => Ok(false),
            polled => Ok(polled? > 0),
        }
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            if self.state.is_none() && !self.is_ready()? {
                continue;
            }
            match self.input.read(buffer) {
                // Another process has read the data.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        if count == 0 && !buffer.is_empty() && state_of(&self.input)? != self.state {
            return Err(io::Error::other(
                "it changed while it was read; try again when it is complete",
            ));
        }
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

struct CountedMember {
    input: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Read for CountedMember {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        let count = self.input.read(buffer)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
