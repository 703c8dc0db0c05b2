//! `query`: answers for a few addresses, or for any number from standard input.
//!
//! ```text
//!   standard input --reader--> blocks of lines --workers--> answers --in order--> standard output
//! ```
//!
//! A block is the result of one read, up to its last newline. So all processors work on a file, and
//! a user who types, or a program that asks and waits, gets the answer to each line before the next
//! one.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::args::QueryArgs;
use crate::base::clock::today;
use crate::base::day::Day;
use crate::base::parallel::processors;
use crate::cli::Done;
use crate::cli::output::Output;
use crate::compile::Error;
use crate::filter::Load;
use crate::inspect::{Finding, Query};

/// Longest line of addresses, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Most bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Blocks that wait for each worker, or whose answers wait to be printed.
const BLOCKS_PER_WORKER: usize = 4;

/// Answers for one block: the output, and whether an address in it is listed.
type Answers = Result<(Vec<u8>, bool), Error>;
/// A block, and the channel for its answers.
type Question = (Vec<u8>, SyncSender<Answers>);

pub(super) fn query(args: &QueryArgs, out: &mut Output) -> Done {
    let many = args.addresses.iter().any(|address| address == "-");
    let load = if many { Load::Memory } else { Load::Disk };
    let mut query = Query::open(&args.file, load, Day(today()))?;
    let mut listed = false;
    for address in &args.addresses {
        if address == "-" {
            listed |= all_of_stdin(&query, args.json, out)?;
            continue;
        }
        let mut text = Vec::new();
        let finding = query.ask(address.as_encoded_bytes())?;
        // The null sender is no address either, but mail comes from it.
        if finding.canonical.is_none() && address != "<>" {
            let address = &finding.address;
            return Err(format!("{address}: neither an address nor an entry of a list").into());
        }
        listed |= finding.listed;
        put(&finding, args.json, &mut text);
        out.write_all(&text)?;
    }
    Ok(if listed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Starts a detached thread.
fn start(run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let started = thread::Builder::new().spawn(run);
    started.map(drop).map_err(|source| Error::Io {
        path: "a thread".into(),
        doing: "be started",
        source,
    })
}

/// Answers every line of standard input, in order.
fn all_of_stdin(
    query: &Query,
    json: bool,
    out: &mut impl Write,
) -> Result<bool, Box<dyn std::error::Error>> {
    let workers = processors();
    let (questions, asked) = sync_channel::<Question>(workers);
    // The threads are not joined: if output fails, the reading thread may wait for input
    // forever.
    let asked = Arc::new(Mutex::new(asked));
    for _ in 0..workers {
        let (asked, query) = (Arc::clone(&asked), query.clone());
        start(move || work(&asked, query, json))?;
    }
    let (in_order, answers) = sync_channel(workers * BLOCKS_PER_WORKER);
    start(move || read(io::stdin().lock(), &questions, &in_order))?;
    let mut listed = false;
    for answer in answers {
        let answer = answer.recv().map_err(|_| Error::Io {
            path: "standard input".into(),
            doing: "answer",
            source: io::Error::other("internal error: a worker ended early"),
        })?;
        let (text, any) = answer?;
        listed |= any;
        out.write_all(&text)?;
        out.flush()?;
    }
    Ok(listed)
}

/// Sends each block to the workers, and the receiver of its answers to the printer.
fn read(
    input: impl Read,
    questions: &SyncSender<Question>,
    in_order: &SyncSender<Receiver<Answers>>,
) {
    let mut blocks = Blocks {
        input,
        begun: Vec::new(),
    };
    loop {
        let (answers, awaited) = sync_channel(1);
        let next = blocks.next();
        if matches!(next, Ok(None)) || in_order.send(awaited).is_err() {
            return;
        }
        let gone = match next {
            Ok(Some(block)) => questions.send((block, answers)).is_err(),
            Ok(None) => true,
            Err(source) => {
                let failed = Error::Io {
                    path: "standard input".into(),
                    doing: "read",
                    source,
                };
                // This is the end, even if nobody receives it.
                let _ = answers.send(Err(failed));
                true
            }
        };
        if gone {
            return;
        }
    }
}

/// Answers blocks until there are no more.
fn work(asked: &Mutex<Receiver<Question>>, mut query: Query, json: bool) {
    loop {
        let question = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((block, answers)) = question else {
            return;
        };
        if answers.send(answer(&mut query, &block, json)).is_err() {
            return;
        }
    }
}

/// Answers each non-empty line of a block.
fn answer(query: &mut Query, block: &[u8], json: bool) -> Answers {
    let mut out = Vec::with_capacity(4 * block.len());
    let mut listed = false;
    for line in block.split(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let finding = if line.len() > MAX_LINE_BYTES {
            Finding::too_long(text)
        } else {
            query.ask(text)?
        };
        listed |= finding.listed;
        put(&finding, json, &mut out);
    }
    Ok((out, listed))
}

/// Appends the finding about one address, as lines.
fn put(finding: &Finding, json: bool, out: &mut Vec<u8>) {
    // Neither can fail: memory accepts every write, and each key of the object is a string.
    let _ = if json {
        serde_json::to_writer(&mut *out, finding).map_err(io::Error::from)
    } else {
        write!(out, "{finding}")
    };
    out.push(b'\n');
}

/// Splits the input into blocks of whole lines, one block per read if possible.
struct Blocks<R> {
    input: R,
    /// The incomplete last line.
    begun: Vec<u8>,
}

impl<R: Read> Blocks<R> {
    /// Returns the next block; `None` at the end. Of a line that is too long, it keeps enough to
    /// detect the length.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut block = std::mem::take(&mut self.begun);
        loop {
            let old = block.len();
            block.resize(old + READ_BYTES, 0);
            let count = match self.input.read(&mut block[old..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    block.truncate(old);
                    continue;
                }
                count => count?,
            };
            block.truncate(old + count);
            if count == 0 {
                return Ok((!block.is_empty()).then_some(block));
            }
            if let Some(at) = memchr::memrchr(b'\n', &block[old..]) {
                self.begun = block.split_off(old + at + 1);
                return Ok(Some(block));
            }
            block.truncate(MAX_LINE_BYTES + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn blocks(input: &[u8], drop: usize) -> Vec<Vec<u8>> {
        let mut blocks = Blocks {
            input: Drops(input, drop),
            begun: Vec::new(),
        };
        std::iter::from_fn(|| blocks.next().unwrap()).collect()
    }

    #[test]
    fn blocks_are_whole_lines_and_none_is_lost() {
        let text = b"a@b.example\n\nc@d.example\r\nno newline at the end";
        for drop in 1..text.len() + 2 {
            let blocks = blocks(text, drop);
            assert_eq!(blocks.concat(), text, "{drop}");
            let (_, whole) = blocks.split_last().unwrap();
            assert!(whole.iter().all(|block| block.ends_with(b"\n")), "{drop}");
        }
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_is_one_line() {
        for length in [MAX_LINE_BYTES + 1, 3 * READ_BYTES, 5 << 20] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\na@b.example\n");
            let blocks = blocks(&text, READ_BYTES).concat();
            assert!(blocks.len() <= MAX_LINE_BYTES + READ_BYTES + 1, "{length}");
            let lines: Vec<_> = blocks.split(|byte| *byte == b'\n').collect();
            assert_eq!(lines.len(), 3);
            assert!(lines[0].len() > MAX_LINE_BYTES && lines[1] == b"a@b.example");
        }
    }
}
