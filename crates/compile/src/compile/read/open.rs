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
    match &input.content {
        Content::Whole => {}
        Content::Typed(text) => return Ok(Box::new(Cursor::new(text.clone()))),
        Content::Member(member) => {
            let input = unpack::open_member(&input.path, member)?;
            return Ok(Box::new(Counted::new(input, progress)));
        }
    }
    let file = if input.is_stdin() {
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
    let state = state_of(&file)?;
    unpack::text(Counted::new(Unchanged { file, state }, progress))
}

/// The size of a file and the time of its last change; `None` for a pipe or a terminal.
fn state_of(file: &File) -> io::Result<Option<(u64, SystemTime)>> {
    let meta = file.metadata()?;
    let state = meta.is_file().then(|| Ok((meta.len(), meta.modified()?)));
    state.transpose()
}

/// A file or pipe. While a pipe has no data, reading fails with [`io::ErrorKind::WouldBlock`].
struct Unchanged {
    file: File,
    /// The state of the file when it was opened, also of standard input (`- <list`).
    state: Option<(u64, SystemTime)>,
}

impl Read for Unchanged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.state.is_none() {
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&POLL)) {
                Ok(0) | Err(Errno::INTR) => return Err(io::ErrorKind::WouldBlock.into()),
                polled => polled?,
            };
        }
        let count = self.file.read(buffer)?;
        if count == 0 && !buffer.is_empty() && state_of(&self.file)? != self.state {
            return Err(unpack::changed());
        }
        Ok(count)
    }
}

struct Counted<R> {
    input: R,
    bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl<R: Read> Counted<R> {
    fn new(input: R, progress: &Progress) -> Self {
        Self {
            input,
            bytes: progress.done_counter(),
            stop: progress.stop_flag(),
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            match self.input.read(buffer) {
                // There are no data yet, or another process has read them.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break read?,
            }
        };
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
