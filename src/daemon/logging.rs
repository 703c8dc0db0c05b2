//! The log: levels, formats, and a writer that never delays mail.
//!
//! | level | means |
//! |---|---|
//! | error | service is lost, completely or for one connection |
//! | warn | service is degraded, or something is configured wrongly |
//! | info | start, stop, reload, and one line per decided message |
//! | debug | reasons: why a verdict, why a connection ended |
//! | trace | the protocol, command by command |
//!
//! Libraries log only warnings and errors: with the log in a watched folder, a trace message about a written file would cause
//! another write, and so on forever.
//!
//! Lines go to standard error, where journald or a container reads them. journald adds the time of each line, and takes its
//! priority from a prefix (`<4>`, sd-daemon(3)). If the reader hangs, a write blocks; so a separate thread writes the lines,
//! which all threads append to one bounded buffer. It collects them for some milliseconds, so that a line of a busy daemon
//! costs no memory and no system call of its own; SIGKILL loses those, an orderly end loses none. Lines for which the buffer
//! has no space, or that cannot be written (full disk), are lost and counted; the next that can be written is about them.

use std::env;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::panic;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::start_thread;
use crate::metrics::Counter;
use blocklist_filter::base::lock::{lock, wait};
use blocklist_filter::base::named::named;

/// Most bytes of lines that wait to be written: some ten thousand lines.
const WAITING_BYTES_MAX: usize = 2 << 20;
/// A buffer that waiting lines have made larger than this is shrunk to it.
const WAITING_BYTES_KEPT: usize = 256 << 10;
/// Longer lines are truncated.
const LINE_BYTES_MAX: usize = 32 << 10;
/// How long lines are collected after the first one. Meanwhile nobody has to wake the thread.
const COLLECTED: Duration = Duration::from_millis(5);

const LAST_WORDS: Duration = Duration::from_secs(1);

named! {
    /// The format of log lines.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LogFormat {
        /// A text, then `name=value` pairs.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

/// The running log. Dropping it writes the waiting lines, unless the reader hangs.
pub(crate) struct Logging {
    queue: Arc<Queue>,
    /// Closed when the thread has written all lines.
    written: Receiver<()>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Wakes the thread that writes, if it rests.
    work: Condvar,
    lost: Arc<Counter>,
    /// journald reads the lines.
    journal: bool,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    lines: u64,
    /// The thread has nothing to write.
    rests: bool,
    ended: bool,
}

impl Queue {
    fn add(&self, priority: &[u8], line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.get(..LINE_BYTES_MAX).unwrap_or(line);
        let mut waiting = lock(&self.waiting);
        if waiting.bytes.len() + line.len() > WAITING_BYTES_MAX {
            self.lost.increment();
            return;
        }
        for part in [priority, line, b"\n"] {
            waiting.bytes.extend_from_slice(part);
        }
        waiting.lines += 1;
        if std::mem::take(&mut waiting.rests) {
            self.work.notify_one();
        }
    }

    /// Waits for lines and moves them to `batch`. Returns their number, and whether there will be more.
    fn collect(&self, batch: &mut Vec<u8>) -> (u64, bool) {
        let mut waiting = lock(&self.waiting);
        while waiting.lines == 0 && !waiting.ended {
            waiting.rests = true;
            waiting = wait(&self.work, waiting);
        }
        waiting.rests = false;
        if !waiting.ended {
            drop(waiting);
            thread::sleep(COLLECTED);
            waiting = lock(&self.waiting);
        }
        std::mem::swap(&mut waiting.bytes, batch);
        (std::mem::take(&mut waiting.lines), !waiting.ended)
    }

    /// The prefix of a line for journald: its syslog priority.
    fn priority(&self, level: Level) -> &'static [u8] {
        match level {
            _ if !self.journal => b"",
            Level::ERROR => b"<3>",
            Level::WARN => b"<4>",
            Level::INFO => b"<6>",
            Level::DEBUG | Level::TRACE => b"<7>",
        }
    }
}

impl Logging {
    /// Sends the log of the whole process to standard error, from `level` up. A panic of any thread is logged too.
    pub(crate) fn start(level: LevelFilter, format: LogFormat) -> io::Result<Self> {
        let journal = stderr_is_journal();
        let (logging, queue) = Self::write_to(io::stderr(), format, journal)?;
        let lines = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .with_ansi(false)
            .with_writer(queue);
        // Like the format that the library has, but for its colours, which take half of a line's time.
        let pairs = debug_fn(|line, field, value| match field.name() {
            "message" => write!(Visible(line), "{value:?}"),
            name => write!(line, "{name}={value:?}"),
        })
        .delimited(" ");
        let ours = Targets::new()
            .with_target(env!("CARGO_CRATE_NAME"), level)
            .with_default(level.min(LevelFilter::WARN));
        match format {
            LogFormat::Text if journal => {
                let lines = lines.fmt_fields(pairs).without_time();
                lines.finish().with(ours).try_init()
            }
            LogFormat::Text => lines.fmt_fields(pairs).finish().with(ours).try_init(),
            LogFormat::Json => {
                let lines = lines.json().flatten_event(true);
                lines.finish().with(ours).try_init()
            }
        }
        .map_err(io::Error::other)?;
        panic::set_hook(Box::new(|failed| {
            // Always one line, even if the message contains line breaks.
            let failed = failed.to_string().replace(char::is_control, " ");
            tracing::error!(
                thread = thread::current().name().unwrap_or("unnamed"),
                "internal error: {failed}"
            );
        }));
        Ok(logging)
    }

    pub(crate) fn lost(&self) -> Arc<Counter> {
        Arc::clone(&self.queue.lost)
    }

    fn write_to(
        out: impl Write + Send + 'static,
        format: LogFormat,
        journal: bool,
    ) -> io::Result<(Self, Lines)> {
        let queue = Arc::new(Queue {
            journal,
            ..Queue::default()
        });
        let (lines, source) = (Lines(Arc::clone(&queue)), Arc::clone(&queue));
        let (writing, written) = sync_channel(0);
        start_thread("log", move || {
            write_lines(out, format, &source);
            drop(writing);
        })?;
        Ok((Self { queue, written }, lines))
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        lock(&self.queue.waiting).ended = true;
        self.queue.work.notify_one();
        // The end of the program does not wait for a reader that hangs.
        let _ = self.written.recv_timeout(LAST_WORDS);
    }
}

fn write_lines(mut out: impl Write, format: LogFormat, queue: &Queue) {
    let mut reported = 0;
    let mut batch = Vec::new();
    let mut torn = false;
    let mut open = true;
    while open {
        batch.clear();
        batch.shrink_to(WAITING_BYTES_KEPT);
        let count;
        (count, open) = queue.collect(&mut batch);
        if batch.is_empty() {
            continue;
        }
        if torn {
            // A part of the previous line may have been written.
            batch.insert(0, b'\n');
        }
        let now_lost = queue.lost.get();
        if now_lost > reported {
            // Not through the log itself, because there may be no space.
            batch.extend_from_slice(queue.priority(Level::WARN));
            batch.extend_from_slice(format.loss(now_lost - reported).as_bytes());
        }
        // If writing the log fails, this cannot be reported until it works again.
        torn = out.write_all(&batch).and_then(|()| out.flush()).is_err();
        if torn {
            queue.lost.add(count);
        } else {
            reported = now_lost;
        }
    }
}

impl LogFormat {
    fn loss(self, lines: u64) -> String {
        const LOSS: &str = "log lines were lost: they could not be written";
        match self {
            Self::Text => format!("{lines} {LOSS}\n"),
            Self::Json => {
                format!("{{\"level\":\"WARN\",\"message\":\"{LOSS}\",\"lines\":{lines}}}\n")
            }
        }
    }
}

/// Escapes control characters, which a terminal would obey.
struct Visible<'w, 'l>(&'w mut Writer<'l>);

impl fmt::Write for Visible<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            write!(self.0, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

struct Lines(Arc<Queue>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0, b"")
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        Line(&self.0, self.0.priority(*event.level()))
    }
}

/// Takes a line with this priority. The library formats it before, so that it keeps nobody waiting, and writes it in one piece.
struct Line<'a>(&'a Queue, &'static [u8]);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(self.1, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether standard error is a stream of journald (systemd.exec(5), `JOURNAL_STREAM`).
fn stderr_is_journal() -> bool {
    let Ok(found) = rustix::fs::fstat(io::stderr()) else {
        return false;
    };
    let stream = format!("{}:{}", found.st_dev, found.st_ino);
    env::var("JOURNAL_STREAM").is_ok_and(|journal| journal == stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::mpsc::{Sender, channel};

    #[test]
    fn a_stuck_reader_loses_lines_and_makes_nobody_wait() {
        // A pipe has space for two of these lines.
        let (mut reader, pipe) = io::pipe().expect("a pipe");
        let (logging, queue) = Logging::write_to(pipe, LogFormat::Text, false).expect("a thread");
        // More than fits into the buffer, and into the one that is being written.
        let total = 4 * (WAITING_BYTES_MAX / LINE_BYTES_MAX);
        for n in 0..total {
            // Longer than a line may be.
            let long = "x".repeat(LINE_BYTES_MAX);
            queue.0.add(b"", format!("line {n}\n{long}\n").as_bytes());
        }
        let lost = usize::try_from(logging.lost().get()).expect("not many");
        assert!(lost > 0);
        // The end waits for the lines in the buffer.
        let ended = thread::spawn(move || drop((logging, queue)));
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("what was written");
        ended.join().expect("no panic");
        let numbers = text.lines().filter(|line| line.starts_with("line "));
        assert_eq!(numbers.count(), total - lost);
        let longest = text.lines().map(str::len).max();
        assert_eq!(longest, Some(LINE_BYTES_MAX - "line 0\n".len()));
        assert!(text.starts_with("line 0\n"));
        assert!(text.contains(" log lines were lost"));
    }

    /// Refuses some writes, as a disk that is full at first, and passes on all others.
    struct Refusing(u32, Sender<Vec<u8>>);

    impl Write for Refusing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let is_refused = self.0 > 0;
            self.0 = self.0.saturating_sub(1);
            let written = if is_refused { &[] } else { bytes };
            let _ = self.1.send(written.to_vec());
            match is_refused {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(bytes.len()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_of() {
        let (sender, lines) = channel();
        let full = Refusing(2, sender);
        let (logging, queue) = Logging::write_to(full, LogFormat::Json, true).expect("a thread");
        let mut text = Vec::new();
        for n in 0..4 {
            queue.0.add(b"", format!("{{\"n\":{n}}}\n").as_bytes());
            // One batch for each line.
            text.extend(lines.recv().expect("written or refused"));
        }
        assert_eq!(logging.lost().get(), 2);
        let expected = concat!(
            "\n{\"n\":2}\n",
            "<4>{\"level\":\"WARN\",\"message\":\"log lines were lost: ",
            "they could not be written\",\"lines\":2}\n",
            "{\"n\":3}\n"
        );
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    #[test]
    fn a_text_has_no_control_characters() {
        let mut line = String::new();
        write!(Visible(&mut Writer::new(&mut line)), "a\n\x1bé\u{9b}[b").expect("a string");
        assert_eq!(line, r"a\n\u{1b}é\u{9b}[b");
    }
}
