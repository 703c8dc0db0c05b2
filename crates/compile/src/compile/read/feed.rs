//! Blocks of whole lines, from all inputs, for any number of workers.
//!
//! A worker that asks gets the next block of the current input, in its own buffer, which stays in
//! its cache. If the end of the block cuts a record (a line, with those that continue it), the first
//! part is kept for the next block. If a list cannot be cut (JSON, for example), the whole list goes
//! to the worker that asks, and the others continue with the next input. A list that is refused is
//! left, and the others are read: a report names all that are refused.
//!
//! Blocks of an input are numbered, so that line numbers can be added up at the end.

use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::Hasher;

use super::input::{Input, PACKED};
use super::open::open;
use crate::compile::error::Error;
use crate::compile::guard::{Danger, Guard};
use crate::compile::progress::Progress;
use crate::list::{self, Format, Purpose, RawEntry, Reading, Refusal};
use blocklist_filter::address::{Kind, Rules};
use blocklist_filter::base::day::Day;
use blocklist_filter::base::lock::lock;
use blocklist_filter::filter::format::MAGIC;
use blocklist_filter::filter::{Dates, Key, Source};

/// Size of a block. The text stays in the second-level cache from the copy to the parser, and a block
/// is larger than the longest line that a reader accepts.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
const _: () = assert!(BLOCK_BYTES > 2 * list::MAX_LINE);
const HEAD_BYTES: usize = 64 << 10;

/// How lists are read.
#[derive(Debug, Default)]
pub(crate) struct ReadOptions {
    pub(crate) rules: Rules,
    pub(crate) seed: u64,
    /// The day of the build: the day on which entries without a day of their own were added.
    pub(crate) today: Day,
    pub(crate) expires: Option<Day>,
    pub(crate) guard: Guard,
    pub(crate) sources: Vec<u32>,
    /// Whether the output stores dates. If not, entries that expire are refused.
    pub(crate) records: bool,
    /// Whether the entries are to be removed: dates and words beside an entry do not matter.
    pub(crate) removes: bool,
    /// Whether the digest of each text is computed.
    pub(crate) takes_digests: bool,
}

impl ReadOptions {
    pub(crate) fn dates(&self) -> Dates {
        Dates {
            added: self.today.0,
            expires: self.expires.map(|day| day.0),
        }
    }

    /// Returns the dates of an entry with a row of its own, where others have `all`.
    pub(crate) fn dates_of(&self, raw: &RawEntry<'_>, all: Dates) -> Result<Dates, Ends> {
        let dates = Dates {
            added: raw.added.map_or(all.added, |day| day.0),
            expires: raw.expires.map_or(all.expires, |day| Some(day.0)),
        };
        self.check_end(dates)?;
        Ok(match self.records && !self.removes {
            true => dates,
            false => all,
        })
    }

    /// Checks that entries with these dates are still listed, and that their end can be stored.
    pub(super) fn check_end(&self, dates: Dates) -> Result<(), Ends> {
        match dates.expires.filter(|_| !self.removes) {
            Some(day) if day <= self.today.0 => Err(Ends::Expired(Day(day))),
            Some(_) if !self.records => Err(Ends::Nowhere),
            _ => Ok(()),
        }
    }

    /// Returns the key of an entry, unless it must not be listed.
    #[inline(always)]
    pub(crate) fn key(&self, kind: Kind, entry: &[u8]) -> Result<Key, Danger> {
        self.guard.check(kind, entry)?;
        Ok(Key::of(entry, self.seed))
    }
}

/// Why an entry is not listed, although it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ends {
    #[error("expired on {0}")]
    Expired(Day),
    #[error(
        "it expires, and a filter without records cannot store dates; build it without --no-records"
    )]
    Nowhere,
}

/// A part of an input.
pub(crate) struct Work {
    /// Index of the input.
    pub(crate) input: u32,
    pub(crate) block: u32,
    pub(crate) reading: Reading,
    /// Number of bytes in the buffer: whole lines of the input ...
    pub(crate) length: usize,
    /// ... or all of the input, if one worker must read it.
    pub(crate) whole: Option<Box<dyn Read + Send>>,
    /// The input ends with these lines, and the last has no line end.
    pub(crate) ends_within_line: bool,
}

/// What is known about an input that was opened.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// How it is read, or why it is not.
    pub(crate) reading: Result<Reading, Refusal>,
    pub(crate) source: Source,
    /// The XXH3-128 of its text; set once the text was read to its end, if the options say so.
    pub(crate) digest: Arc<OnceLock<u128>>,
}

pub(crate) struct Feed<'a> {
    inputs: &'a [Input],
    pub(super) options: &'a ReadOptions,
    pub(super) progress: &'a Progress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_input: u32,
    current: Option<Current>,
    opened: Vec<Opened>,
    /// Whether there is no further work until [`Feed::resume`].
    is_paused: bool,
}

struct Current {
    input: u32,
    reading: Reading,
    content: Box<dyn Read + Send>,
    /// Number of blocks that were returned.
    blocks: u32,
    /// The first part of a line whose end has not been read.
    unfinished: Vec<u8>,
    /// Whether the input is inside a line that is longer than a block, of which a part was returned.
    in_long_line: bool,
    at_end: bool,
}

/// A list of which the beginning was read.
pub(crate) struct Begun {
    /// How it is read, or why it is not.
    pub(crate) reading: Result<Reading, Refusal>,
    pub(crate) head: Vec<u8>,
    pub(crate) rest: Box<dyn Read + Send>,
}

/// Opens an input, and decides by its beginning how it is read. Fails if it is no text list at all.
pub(crate) fn begin(named: &Input, progress: &Progress) -> io::Result<Begun> {
    let mut rest = open(named, progress)?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut block = rest.by_ref().take(HEAD_BYTES as u64);
    let is_whole = block.read_to_end(&mut head)? < HEAD_BYTES;
    let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if head.starts_with(&MAGIC) {
        return refused("a filter file, not a list; use blocklist-compile merge to merge filters");
    }
    let name = named.path.as_os_str().as_encoded_bytes();
    let mut packed = PACKED.iter().map(|packed| packed.as_bytes());
    if head.is_empty() && packed.any(|packed| name.ends_with(packed)) {
        return refused("an empty file, not an archive; download it again");
    }
    let reading = match named.is_typed() {
        true => Ok(Reading::given(Format::Plain)),
        false => list::reading(&head, is_whole, &named.declared),
    };
    Ok(Begun {
        reading,
        head,
        rest,
    })
}

impl<'a> Feed<'a> {
    pub(crate) fn new(
        inputs: &'a [Input],
        options: &'a ReadOptions,
        progress: &'a Progress,
    ) -> Self {
        Self {
            inputs,
            options,
            progress,
            state: Mutex::default(),
        }
    }

    /// Returns the next piece of work; `None` when everything is read. The buffer has [`BLOCK_BYTES`].
    pub(crate) fn next(&self, buffer: &mut [u8]) -> Result<Option<Work>, Error> {
        let mut state = lock(&self.state);
        if state.is_paused {
            return Ok(None);
        }
        loop {
            self.progress.go_on()?;
            if let Some(current) = &mut state.current {
                let input = current.input;
                let filled = current.fill(buffer);
                let length = filled.map_err(|error| self.failed(input, error))?;
                if length > 0 {
                    current.blocks += 1;
                    return Ok(Some(Work {
                        input,
                        block: current.blocks - 1,
                        reading: current.reading.clone(),
                        length,
                        whole: None,
                        ends_within_line: current.at_end && !buffer[..length].ends_with(b"\n"),
                    }));
                }
                state.current = None;
            }
            let input = state.next_input;
            let Some(named) = self.inputs.get(input as usize) else {
                return Ok(None);
            };
            state.next_input += 1;
            let opened = self.open(named);
            let (opened, content) = opened.map_err(|error| self.failed(input, error))?;
            let reading = opened.reading.clone();
            state.opened.push(opened);
            let Ok(mut reading) = reading else {
                continue;
            };
            if self.options.removes {
                reading.purpose = Purpose::Removal;
            }
            if reading.cut().is_none() {
                return Ok(Some(Work {
                    input,
                    block: 0,
                    reading,
                    length: 0,
                    whole: Some(content),
                    ends_within_line: false,
                }));
            }
            state.current = Some(Current {
                input,
                reading,
                content,
                blocks: 0,
                unfinished: Vec::new(),
                in_long_line: false,
                at_end: false,
            });
        }
    }

    /// Returns no further work of an input, because it is refused.
    pub(crate) fn leave(&self, input: u32) {
        let mut state = lock(&self.state);
        state.current.take_if(|current| current.input == input);
    }

    /// Returns no further work until [`Self::resume`].
    pub(crate) fn pause(&self) {
        lock(&self.state).is_paused = true;
    }

    pub(crate) fn resume(&self) {
        lock(&self.state).is_paused = false;
    }

    /// Returns no further work from now on.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        state.current = None;
        state.next_input = u32::MAX;
    }

    /// Returns the inputs that were opened, in their order.
    pub(crate) fn opened(self) -> Vec<Opened> {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).opened
    }

    fn open(&self, named: &Input) -> io::Result<(Opened, Box<dyn Read + Send>)> {
        let begun = begin(named, self.progress)?;
        let opened = Opened {
            reading: begun.reading,
            source: named.source(&begun.head),
            digest: Arc::default(),
        };
        let text = Cursor::new(begun.head).chain(begun.rest);
        let text: Box<dyn Read + Send> = match self.options.takes_digests {
            true => Box::new(Digested {
                text,
                hasher: Hasher::new(),
                digest: Arc::clone(&opened.digest),
            }),
            false => Box::new(text),
        };
        Ok((opened, text))
    }

    /// Returns the error for an input that failed: the interrupt, if that was the cause.
    pub(crate) fn failed(&self, input: u32, error: io::Error) -> Error {
        match self.progress.stopped() {
            true => Error::Interrupted,
            false => Error::io(&self.inputs[input as usize].path, "read")(error),
        }
    }
}

impl Current {
    /// Puts whole lines into `buffer`; returns their length in bytes, 0 at the end of the input.
    ///
    /// All workers wait for this one, so the buffer is filled in place, by as few reads as possible.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut filled = self.unfinished.len();
            buffer[..filled].copy_from_slice(&self.unfinished);
            self.unfinished.clear();
            while filled < buffer.len() && !self.at_end {
                match self.content.read(&mut buffer[filled..]) {
                    Ok(0) => self.at_end = true,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            let mut start = 0;
            if self.in_long_line {
                let newline = memchr::memchr(b'\n', &buffer[..filled]);
                start = newline.map_or(filled, |at| at + 1);
                self.in_long_line = newline.is_none();
                buffer.copy_within(start..filled, 0);
            }
            let length = filled - start;
            if self.at_end {
                return Ok(length);
            }
            let block = &buffer[..length];
            let end = match self.reading.cut().and_then(|cut| cut(block)) {
                // Nothing but lines that continue another: in what follows, such a line is rejected.
                None if self.reading.format != Format::Csv => list::whole_lines(block),
                end => end,
            };
            match end {
                Some(end) => {
                    self.unfinished.extend_from_slice(&block[end..]);
                    return Ok(end);
                }
                None if start > 0 => self.unfinished.extend_from_slice(block),
                None => {
                    // The reader rejects it as too long.
                    self.in_long_line = true;
                    return Ok(length);
                }
            }
        }
    }
}

/// A text whose digest is computed while it is read.
struct Digested<R> {
    text: R,
    hasher: Hasher,
    digest: Arc<OnceLock<u128>>,
}

impl<R: Read> Read for Digested<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.text.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.digest.get_or_init(|| self.hasher.finish_128());
        } else {
            self.hasher.write(buffer.get(..count).unwrap_or_default());
        }
        Ok(count)
    }
}

/// Returns one digest of several texts in order; for a single text, the digest of that text.
pub(crate) fn digest_of_all(digests: &[u128]) -> u128 {
    if let [digest] = digests {
        return *digest;
    }
    let bytes = digests.iter().flat_map(|digest| digest.to_le_bytes());
    XxHash3_128::oneshot(&bytes.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_list_changed_while_it_is_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.txt");
        let lines = "a@b.example\n".repeat(BLOCK_BYTES);
        for (left, added) in [(100, ""), (lines.len(), "c@d.example\n")] {
            std::fs::write(&path, &lines).unwrap();
            let (inputs, progress) = ([Input::file(&path, &Arc::default())], Progress::new());
            let options = ReadOptions::default();
            let feed = Feed::new(&inputs, &options, &progress);
            let mut buffer = vec![0; BLOCK_BYTES];
            assert!(feed.next(&mut buffer).unwrap().is_some());
            std::fs::write(&path, format!("{}{added}", &lines[..left])).unwrap();
            let error = loop {
                match feed.next(&mut buffer) {
                    Ok(work) => assert!(work.is_some(), "taken for a whole list"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("changed while"), "{error}");
        }
    }
}
