//! The log: levels, forms, and a writer that never makes mail wait.
//!
//! | level | means |
//! |---|---|
//! | error | service is lost, in whole or for one connection |
//! | warn | service is degraded, or something is set up wrongly |
//! | info | start, stop, reload, and one line per decided message |
//! | debug | reasons: why a verdict, why a connection ended |
//! | trace | the protocol, command by command |
//!
//! Libraries have warnings and errors alone: what they trace of a file that is written would be written too, and
//! so on without end where the log is in a watched folder.
//!
//! Lines go to standard error, where journald or a container takes them. journald has the time
//! of each line, and takes its priority from a prefix (`<4>`, sd-daemon(3)). If the reader
//! is stuck, a write there blocks; so a thread of its own writes, out of a bounded queue.
//! What the queue does not hold is lost and counted, and so is what cannot be written (a
//! full disk): a line says how many as soon as lines go through again.

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
/// Longer lines are cut.
const LINE_BYTES_MAX: usize = 32 << 10;
/// Written at once at most, when several lines wait.
const BATCH_BYTES: usize = 64 << 10;

/// At the end, what still waits may take this long to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineFormat {
    /// Words for people, then `name=value` pairs.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The running log. Dropping it writes what still waits, as far as somebody reads it.
#[derive(Debug)]
pub struct Logging {
    lost: Arc<Counter>,
    queue: SyncSender<Line>,
    /// Closed when the thread has written all.
    written: Receiver<()>,
}

/// What the queue holds.
#[derive(Debug)]
enum Line {
    Text(Vec<u8>),
    /// Nothing more comes.
    End,
}

impl Logging {
    /// Sends the log of the whole process to standard error, from `level` up. A panic of
    /// any thread is logged too.
    ///
    /// # Errors
    /// When there is a log already, or no thread can be had.
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
            // One line, whatever the message holds.
            let failed = failed.to_string().replace(char::is_control, " ");
            tracing::error!(
                thread = thread::current().name().unwrap_or("unnamed"),
                "internal error: {failed}"
            );
        }));
        Ok(logging)
    }

    /// Lines that were lost since the start, because nobody took them or they could not be
    /// written.
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
        // The end of the program does not wait for a stuck reader either.
        if self.queue.try_send(Line::End).is_ok() {
            let _ = self.written.recv_timeout(LAST_WORDS);
        }
    }
}

/// Takes lines from the queue for as long as there are any.
fn write_lines(
    mut out: impl Write,
    format: LineFormat,
    journal: bool,
    lines: &Receiver<Line>,
    lost: &Counter,
) {
    let mut told = 0;
    let mut batch = Vec::new();
    let mut torn = false;
    let mut open = true;
    while open && let Ok(first) = lines.recv() {
        batch.clear();
        if torn {
            // Of the line before a part may stand there.
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
        if now_lost > told {
            // Not by way of the log itself, whose queue is just full.
            batch.extend_from_slice(priority(journal, Level::WARN));
            format.tell_loss(now_lost - told, &mut batch);
        }
        // Where the log itself fails there is nobody to tell, until it works again.
        torn = out.write_all(&batch).and_then(|()| out.flush()).is_err();
        if torn {
            lost.add(count);
        } else {
            told = now_lost;
        }
    }
}

impl LineFormat {
    /// Appends a line that tells of lost ones.
    fn tell_loss(self, lines: u64, out: &mut Vec<u8>) {
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

/// Is standard error a stream of journald's? (systemd.exec(5), `JOURNAL_STREAM`)
fn stderr_is_journal() -> bool {
    let Ok(found) = rustix::fs::fstat(io::stderr()) else {
        return false;
    };
    let stream = format!("{}:{}", found.st_dev, found.st_ino);
    env::var("JOURNAL_STREAM").is_ok_and(|journal| journal == stream)
}

/// How a line for journald begins: with its priority in syslog's numbers.
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

    /// Takes nothing until it is opened, then hands on all it is given.
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
        // More than the queue, a batch under way, and the batch after that can hold.
        let total = 4 * QUEUE_LINES as u64;
        for n in 0..total {
            writeln!(queue.make_writer(), "line {n}").expect("never fails");
        }
        let lost = logging.lost().get();
        assert!(lost > 0);

        *open.0.lock().expect("not poisoned") = true;
        open.1.notify_all();
        drop(queue);
        // The end waits for what is in the queue, if there is room to say so.
        let mut text = String::new();
        while !text.contains("log lines were lost") {
            let more = lines.recv().expect("the loss is told");
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

    /// A disk that is full for the first two writes, and then has room again.
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
            // A batch for each.
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
