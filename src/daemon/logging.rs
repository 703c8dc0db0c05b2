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
//! Libraries log only warnings and errors. Otherwise, if the log is in a watched folder, a trace message about a written
//! file would cause another write, and so on forever.
//!
//! Lines go to standard error, where journald or a container reads them. journald adds the time of each line, and takes its
//! priority from a prefix (`<4>`, sd-daemon(3)). If the reader hangs, a write blocks; so a separate thread writes the lines
//! from a bounded queue. It collects them for some milliseconds, so that a line of a busy daemon costs no system call of its
//! own; a kill (SIGKILL) loses those. Lines for which the queue has no space, or that cannot be written (full disk), are lost and
//! counted. As soon as lines can be written again, one of them reports how many were lost.

use std::env;
use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::metrics::Counter;

/// Lines that may wait to be written.
const QUEUE_LINES: usize = 8192;
/// Longer lines are truncated.
const LINE_BYTES_MAX: usize = 32 << 10;
/// Most bytes per write, if several lines wait.
const BATCH_BYTES: usize = 64 << 10;
/// How long lines are collected after the first one. Meanwhile nobody has to wake the thread.
const COLLECTED: Duration = Duration::from_millis(5);

/// At the end, how long to wait for the remaining lines to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The format of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineFormat {
    /// A text, then `name=value` pairs.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The running log. Dropping it writes the waiting lines, unless the reader hangs.
#[derive(Debug)]
pub struct Logging {
    lost: Arc<Counter>,
    queue: SyncSender<Line>,
    /// Closed when the thread has written all lines.
    written: Receiver<()>,
}

/// An element of the queue.
#[derive(Debug)]
enum Line {
    Text(Vec<u8>),
    /// There are no more lines.
    End,
}

impl Logging {
    /// Sends the log of the whole process to standard error, from `level` up. A panic of any thread is logged too.
    ///
    /// # Errors
    /// There already is a log, or the thread cannot be started.
    pub fn start(level: LevelFilter, format: LineFormat) -> io::Result<Self> {
        let journal = stderr_is_journal();
        let (logging, queue) = Self::write_to(io::stderr(), format, journal)?;
        let lines = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(queue);
        let ours = Targets::new()
            .with_target(env!("CARGO_CRATE_NAME"), level)
            .with_default(level.min(LevelFilter::WARN));
        match format {
            LineFormat::Text if journal => lines
                .without_time()
                .with_target(false)
                .with_ansi(false)
                .finish()
                .with(ours)
                .try_init(),
            LineFormat::Text => lines
                .with_target(false)
                .with_ansi(false)
                .finish()
                .with(ours)
                .try_init(),
            LineFormat::Json => lines
                .json()
                .flatten_event(true)
                .with_target(false)
                .finish()
                .with(ours)
                .try_init(),
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

    /// Number of lines lost since the start, because the queue was full or they could not be written.
    #[must_use]
    pub fn lost(&self) -> Arc<Counter> {
        Arc::clone(&self.lost)
    }

    fn write_to(
        out: impl Write + Send + 'static,
        format: LineFormat,
        journal: bool,
    ) -> io::Result<(Self, Queue)> {
        let (sender, receiver) = sync_channel(QUEUE_LINES);
        let lost = Arc::new(Counter::default());
        let counted = Arc::clone(&lost);
        let (writing, written) = sync_channel(0);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                write_lines(out, format, journal, &receiver, &counted);
                drop(writing);
            })?;
        let queue = Queue {
            journal,
            lines: sender.clone(),
            lost: Arc::clone(&lost),
        };
        Ok((
            Self {
                lost,
                queue: sender,
                written,
            },
            queue,
        ))
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        // The end of the program does not wait for a reader that hangs, either.
        if self.queue.try_send(Line::End).is_ok() {
            let _ = self.written.recv_timeout(LAST_WORDS);
        }
    }
}

/// Writes lines from the queue until its end.
fn write_lines(
    mut out: impl Write,
    format: LineFormat,
    journal: bool,
    lines: &Receiver<Line>,
    lost: &Counter,
) {
    let mut reported = 0;
    let mut batch = Vec::new();
    let mut torn = false;
    let mut open = true;
    while open && let Ok(first) = lines.recv() {
        if matches!(first, Line::Text(_)) {
            thread::sleep(COLLECTED);
        }
        batch.clear();
        if torn {
            // A part of the previous line may have been written.
            batch.push(b'\n');
        }
        let mut count = 0;
        let mut next = Some(first);
        while let Some(line) = next.take() {
            match line {
                Line::Text(text) => {
                    batch.extend_from_slice(&text);
                    count += 1;
                }
                Line::End => open = false,
            }
            if batch.len() < BATCH_BYTES {
                next = lines.try_recv().ok();
            }
        }
        let now_lost = lost.get();
        if now_lost > reported {
            // Not through the log itself, because its queue is full.
            batch.extend_from_slice(priority(journal, Level::WARN));
            format.report_loss(now_lost - reported, &mut batch);
        }
        // If writing the log fails, this cannot be reported until it works again.
        torn = out.write_all(&batch).and_then(|()| out.flush()).is_err();
        if torn {
            lost.add(count);
        } else {
            reported = now_lost;
        }
    }
}

impl LineFormat {
    /// Appends a line that reports lost lines.
    fn report_loss(self, lines: u64, out: &mut Vec<u8>) {
        const LOSS: &str = "log lines were lost: they could not be written";
        let line = match self {
            Self::Text => format!("{lines} {LOSS}\n"),
            Self::Json => {
                format!("{{\"level\":\"WARN\",\"message\":\"{LOSS}\",\"lines\":{lines}}}\n")
            }
        };
        out.extend_from_slice(line.as_bytes());
    }
}

/// Makes lines for the queue; one per event.
struct Queue {
    journal: bool,
    lines: SyncSender<Line>,
    lost: Arc<Counter>,
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter {
            queue: self,
            line: Vec::new(),
        }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter {
            queue: self,
            line: priority(self.journal, *event.level()).to_vec(),
        }
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

/// The prefix of a line for journald: its syslog priority.
fn priority(journal: bool, level: Level) -> &'static [u8] {
    if !journal {
        return b"";
    }
    match level {
        Level::ERROR => b"<3>",
        Level::WARN => b"<4>",
        Level::INFO => b"<6>",
        Level::DEBUG | Level::TRACE => b"<7>",
    }
}

/// One line, queued when it is complete.
struct LineWriter<'a> {
    queue: &'a Queue,
    line: Vec<u8>,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
        self.line
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter<'_> {
    fn drop(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        if line.len() >= LINE_BYTES_MAX && !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        if self.queue.lines.try_send(Line::Text(line)).is_err() {
            self.queue.lost.increment();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Condvar, Mutex};

    /// Blocks until it is opened, then passes on everything.
    struct Gate {
        open: Arc<(Mutex<bool>, Condvar)>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (open, opened) = &*self.open;
            let waiting = open.lock().expect("not poisoned");
            drop(
                opened
                    .wait_while(waiting, |open| !*open)
                    .expect("not poisoned"),
            );
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stuck_reader_loses_lines_and_makes_nobody_wait() {
        let open = Arc::new((Mutex::new(false), Condvar::new()));
        let (written, lines) = channel();
        let gate = Gate {
            open: Arc::clone(&open),
            written,
        };
        let (logging, queue) = Logging::write_to(gate, LineFormat::Text, false).expect("a thread");
        // More than fits into the queue, the batch that is being written, and the next one.
        let total = 4 * QUEUE_LINES as u64;
        for n in 0..total {
            writeln!(queue.make_writer(), "line {n}").expect("never fails");
        }
        let lost = logging.lost().get();
        assert!(lost > 0);

        *open.0.lock().expect("not poisoned") = true;
        open.1.notify_all();
        drop(queue);
        // The end waits for the lines in the queue, if there is space in it for the end marker.
        let mut text = String::new();
        while !text.contains("log lines were lost") {
            let more = lines.recv().expect("the loss is reported");
            text.push_str(&String::from_utf8(more).expect("what was written"));
        }
        drop(logging);
        text.extend(
            lines
                .iter()
                .map(|more| String::from_utf8(more).expect("as written")),
        );
        assert_eq!(text.matches("line ").count() as u64, total - lost);
        assert!(text.starts_with("line 0\n"));
    }

    /// A disk that is full for the first two writes, and then has free space again.
    struct FullAtFirst {
        refusals: u32,
        written: Sender<Vec<u8>>,
    }

    impl Write for FullAtFirst {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let refused = self.refusals > 0;
            self.refusals = self.refusals.saturating_sub(1);
            let part = if refused { &bytes[..0] } else { bytes };
            let _ = self.written.send(part.to_vec());
            if refused {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_told_of() {
        let (written, lines) = channel();
        let out = FullAtFirst {
            refusals: 2,
            written,
        };
        let (logging, queue) = Logging::write_to(out, LineFormat::Json, true).expect("a thread");
        let mut text = Vec::new();
        for n in 0..4 {
            writeln!(queue.make_writer(), "{{\"n\":{n}}}").expect("never fails");
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
    fn long_lines_are_cut_and_stay_lines() {
        let (written, lines) = channel();
        let open = Arc::new((Mutex::new(true), Condvar::new()));
        let (logging, queue) =
            Logging::write_to(Gate { open, written }, LineFormat::Text, false).expect("a thread");
        let mut line = queue.make_writer();
        line.write_all(&[b'x'; LINE_BYTES_MAX + 7])
            .expect("never fails");
        drop(line);
        drop((logging, queue));
        let text: Vec<u8> = lines.iter().flatten().collect();
        assert_eq!(text.len(), LINE_BYTES_MAX + 1);
        assert!(text.ends_with(b"x\n"));
    }
}
