//! Text to staged keys: what each worker does with the blocks it gets.
//!
//! ```text
//!   block -> Reader -> RawEntry -> Entry (canonical) -> guard -> key -> stage
//!   block -> plain lines ----------------------> guard -> key -> stage
//! ```
//!
//! Nothing is allocated for a line.

use std::fmt::Display;
use std::mem;

use super::block::Block;
use super::counts::{Counts, InputCounts, NotListed};
use super::feed::{BLOCK_BYTES, Ends, Feed, Opened, ReadOptions};
use crate::compile::error::Error;
use crate::compile::guard::Danger;
use crate::compile::partition::{Narrow, Sealed, StagedKey, Stager, Store, Wide};
use crate::compile::progress::Progress;
use crate::list::{self, Format, Reader, Reading, Row, Skip};
use blocklist_filter::address::plain::PlainEntry;
use blocklist_filter::address::{Entry, Kind};
use blocklist_filter::base::parallel::on_threads;
use blocklist_filter::filter::{Class, Dates, Key};

pub(crate) struct Read<'m, I> {
    pub(crate) keys: Sealed<'m, I>,
    /// What became of each input.
    pub(crate) lists: Vec<(Opened, InputCounts)>,
}

/// Keys of the size that the dates of the rows need.
pub(crate) enum AnyRead<'m> {
    Narrow(Read<'m, Narrow>),
    Wide(Read<'m, Wide>),
}

/// Reads all inputs on `threads` workers. The keys become wide at the first row with dates of its own.
pub(crate) fn read_any<'m>(
    feed: Feed<'_>,
    store: Store<'m, Narrow>,
    threads: usize,
) -> Result<AnyRead<'m>, Error> {
    let (mut counts, dated) = run(&feed, &store, threads)?;
    if dated.is_empty() {
        return Ok(AnyRead::Narrow(sealed(feed, store, counts)));
    }
    let store = store.widen(feed.options.dates())?;
    let mut stager = Stager::new(&store);
    for (key, class) in dated {
        stager.add(key, class);
    }
    stager.finish()?;
    feed.resume();
    counts.add(run(&feed, &store, threads)?.0);
    Ok(AnyRead::Wide(sealed(feed, store, counts)))
}

/// The same with keys that keep all dates, or that need none.
pub(crate) fn read<'m, I: StagedKey>(
    feed: Feed<'_>,
    store: Store<'m, I>,
    threads: usize,
) -> Result<Read<'m, I>, Error> {
    let (counts, dated) = run(&feed, &store, threads)?;
    assert!(dated.is_empty(), "keys that keep no dates");
    Ok(sealed(feed, store, counts))
}

/// Entries with dates that staged keys cannot keep, of a block for each worker.
type Dated = Vec<(Key, Class)>;

fn run<I: StagedKey>(
    feed: &Feed<'_>,
    store: &Store<'_, I>,
    threads: usize,
) -> Result<(Counts, Dated), Error> {
    let done = on_threads(0..threads, |_| {
        let done = Worker::new(store, feed).run(feed);
        if done.is_err() {
            // The others cannot continue, either.
            feed.end();
        }
        done
    });
    let (mut counts, mut dated) = (Counts::default(), Vec::new());
    for worker in done {
        let (others, of_worker) = worker?;
        counts.add(others);
        dated.extend(of_worker);
    }
    Ok((counts, dated))
}

fn sealed<'m, I: StagedKey>(
    feed: Feed<'_>,
    store: Store<'m, I>,
    mut counts: Counts,
) -> Read<'m, I> {
    let keys = store.seal(feed.options.dates());
    let lists = (0..).zip(feed.opened());
    Read {
        keys,
        lists: (lists.map(|(input, opened)| (opened, counts.counts(input)))).collect(),
    }
}

struct Worker<'a, 'm, I> {
    options: &'a ReadOptions,
    progress: &'a Progress,
    dates: Dates,
    source: u32,
    text: Block,
    /// The canonical text of a plain entry, and any other entry.
    plain: Vec<u8>,
    entry: Entry,
    stager: Stager<'a, 'm, I>,
    counts: Counts,
    /// After their block, no other is read.
    dated: Dated,
    /// A row refuses the input; handled after the block.
    refused: bool,
}

impl<'a, 'm, I: StagedKey> Worker<'a, 'm, I> {
    fn new(store: &'a Store<'m, I>, feed: &Feed<'a>) -> Self {
        Self {
            options: feed.options,
            progress: feed.progress,
            dates: feed.options.dates(),
            source: 0,
            text: Block::new(),
            plain: Vec::new(),
            entry: Entry::new(),
            stager: Stager::new(store),
            counts: Counts::default(),
            dated: Vec::new(),
            refused: false,
        }
    }

    fn run(mut self, feed: &Feed<'_>) -> Result<(Counts, Dated), Error> {
        let mut buffer = vec![0; BLOCK_BYTES];
        while let Some(work) = feed.next(&mut buffer)? {
            let (input, block, reading) = (work.input, work.block, &work.reading);
            self.source = self.options.sources[input as usize];
            self.counts.begin(input, block);
            let (lines, ends_within_line) = match work.whole {
                None => {
                    let lines = self.block(reading, block == 0, &buffer[..work.length]);
                    (lines, work.ends_within_line)
                }
                Some(content) => {
                    let mut reader = Reader::new(reading);
                    let read = reader.read_all(content, &mut |line, row| self.row(line, row));
                    let is_cut = read.map_err(|error| feed.failed(input, error))?;
                    (reader.lines(), is_cut && reading.format != Format::Json)
                }
            };
            let entries = self.counts.end(lines, ends_within_line);
            self.progress.add_entries(entries);
            if mem::take(&mut self.refused) {
                feed.leave(input);
            }
            self.stager.check()?;
            if !self.dated.is_empty() {
                feed.pause();
            }
        }
        self.stager.finish()?;
        Ok((self.counts, self.dated))
    }

    fn class(&self, kind: Kind, dates: Dates) -> Class {
        Class {
            kind: kind as u8,
            source: self.source,
            dates,
        }
    }

    fn block(&mut self, reading: &Reading, at_start: bool, block: &[u8]) -> u64 {
        let mut reader = Reader::part(reading, at_start);
        let is_full = reading.subdomains || self.options.check_end(self.dates).is_err();
        match reading.format {
            Format::Plain if !is_full => self.lines::<false>(&mut reader, block),
            Format::Hosts if !is_full => self.lines::<true>(&mut reader, block),
            _ => {
                reader.read(block, true, &mut |line, row| self.row(line, row));
                reader.lines()
            }
        }
    }

    /// Reads a block of a plain list, or with `HOSTS` of a hosts file; returns the number of lines.
    ///
    /// Nearly every line of a large list is an address or a domain that only needs lower case. It is
    /// read here at once, with the same result as by the full path; property tests compare the two.
    fn lines<const HOSTS: bool>(&mut self, reader: &mut Reader, block: &[u8]) -> u64 {
        let mut lines = 0;
        let dates = self.dates;
        let usual = |worker: &Self| {
            let class = worker.stager.usual();
            [Kind::Mailbox, Kind::Domain]
                .into_iter()
                .find(|kind| class == worker.class(*kind, dates))
        };
        let mut usual_kind = usual(self);
        let mut text = mem::take(&mut self.text);
        text.lines_of::<HOSTS>(block, self.options.rules, |line| {
            lines += 1;
            let written = line.written;
            if let Some((kind, entry)) = line.listed::<HOSTS>() {
                match self.options.key(kind, entry) {
                    Ok(key) if usual_kind == Some(kind) => {
                        self.counts.listed();
                        self.stager.push(key);
                    }
                    Ok(key) => {
                        self.stage(key, self.class(kind, dates));
                        usual_kind = usual(self);
                    }
                    Err(danger) => self.too_broad(lines, &written[line.before..], &danger),
                }
            } else if written.is_empty() {
                self.counts.skip(lines, b"", Skip::Blank);
            } else {
                reader.line(written, &mut |_, row| self.row(lines, row));
                usual_kind = usual(self);
            }
        });
        self.text = text;
        lines
    }

    #[inline]
    fn row(&mut self, line: u64, row: Row<'_>) {
        match row {
            Row::Entry(raw) => self.raw_entry(line, raw),
            Row::Skipped { skip, text } => self.counts.skip(line, text, skip),
            Row::Rejected { reason, text } => self.reject(line, text, &reason),
            Row::Refused { refusal, text } => {
                self.refused = true;
                self.counts.refuse(line, text, refusal);
            }
        }
    }

    fn raw_entry(&mut self, line: u64, raw: list::RawEntry<'_>) {
        let rules = self.options.rules;
        let plain = raw.plain.or_else(|| PlainEntry::of(raw.text));
        let plain = plain.filter(|plain| plain.write(rules, &mut self.plain));
        if plain.is_none()
            && let Err(error) = self.entry.read(raw.text, rules)
        {
            return self.reject(line, raw.text, &error);
        }
        let dates = match self.options.dates_of(&raw, self.dates) {
            Ok(dates) => dates,
            Err(Ends::Expired(_)) => return self.counts.expired(),
            Err(nowhere) => return self.reject(line, raw.text, &nowhere),
        };
        let (kind, text) = match plain {
            Some(plain) => (plain.kind(), &*self.plain),
            None => (self.entry.kind(), self.entry.as_bytes()),
        };
        match self.options.key(kind, text) {
            Ok(key) if !I::KEEPS_DATES && dates != self.dates => {
                self.counts.listed();
                self.dated.push((key, self.class(kind, dates)));
            }
            Ok(key) => self.stage(key, self.class(kind, dates)),
            Err(danger) => self.too_broad(line, raw.text, &danger),
        }
    }

    fn reject(&mut self, line: u64, text: &[u8], reason: &dyn Display) {
        self.counts
            .leave_out(line, text, NotListed::Rejected, reason);
    }

    fn too_broad(&mut self, line: u64, text: &[u8], danger: &Danger) {
        self.counts.leave_out(line, text, NotListed::Broad, danger);
    }

    #[inline]
    fn stage(&mut self, key: Key, class: Class) {
        self.counts.listed();
        self.stager.add(key, class);
    }
}
