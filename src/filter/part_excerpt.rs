//! Some blocks of a part, without its whole directory.
//!
//! A merge of thousands of parts by ranges of keys opens each part for each range, and then needs
//! only a few of its blocks. To read and check the directory and the sources each time would take
//! longer than to read the blocks. So an excerpt reads the header, the rows of the directory for
//! these blocks, and the blocks, whose checksums are in these rows:
//!
//! ```text
//!   header   ...   row row [row row row] row   ...   block block [block block block] block
//! ```
//!
//! The part was [opened](super::Part) as a whole before, so its directory was sound then. The
//! caller sees by the header whether it is still the same part.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::{Error, Fault};
use super::file::{Reader, Slot, decode_slots};
use super::format::{Header, SLOT_BYTES};
use super::key::Key;
use super::page;
use super::part::{Block, NO_CLASS, Run};
use super::records;

/// Maximum number of bytes of records that are read at once, unless one block has more. They stay
/// in the second-level cache until they are decoded.
const READ_BYTES: u64 = 256 << 10;

/// Memory that is reused from excerpt to excerpt.
#[derive(Debug, Default)]
pub(crate) struct ExcerptMemory {
    rows: Vec<u8>,
    blocks: Vec<u8>,
}

/// A part, opened to read the records of some keys.
#[derive(Debug)]
pub(crate) struct Excerpt {
    path: PathBuf,
    file: File,
    header: Header,
}

impl Excerpt {
    /// Opens a part and checks its header, which is returned without the sources.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the header fails its checks or is not that of a part, [`Error::Io`]
    /// when it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let (file, header, _) = Reader::open_header(path)?;
        if header.part.is_none() {
            return Err(Error::invalid(path, Fault::NotAPart));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
        })
    }

    /// Returns the header, without the sources.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Visits the records from the key `from` to before `end` (`None`: to the last) in the order of
    /// their keys, as runs that differ only in their keys. Their sources must be below `sources`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when a block is damaged, [`Error::Io`] when it cannot be read, and the
    /// errors of `visit`.
    pub(crate) fn each_run<E: From<Error>>(
        &self,
        (from, end): (Key, Option<Key>),
        sources: usize,
        memory: &mut ExcerptMemory,
        mut visit: impl FnMut(Run<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let last = match end {
            Some(Key(0)) => return Ok(()),
            Some(Key(end)) => Key(end - 1),
            None => Key(u64::MAX),
        };
        if last < from {
            return Ok(());
        }
        let pages = self.header.shape.pages;
        let (first, last) = (page::page_of(from, pages), page::page_of(last, pages));
        let ExcerptMemory { rows, blocks } = memory;
        let (start, slots) = self.slots(first, last, rows)?;
        let mut number = first;
        let mut before = start;
        let mut left = slots.as_slice();
        while !left.is_empty() {
            let fits = left.partition_point(|slot| slot.end - before <= READ_BYTES);
            let (here, rest) = left.split_at(fits.max(1));
            left = rest;
            let read_to = here.last().map_or(before, |slot| slot.end);
            blocks.resize(index(read_to - before), 0);
            self.read(blocks, self.header.sections.records.offset + before)?;
            let mut bytes = blocks.as_slice();
            for slot in here {
                let (block, others) = bytes.split_at(index(slot.end - before));
                (bytes, before) = (others, slot.end);
                let fault = |what| self.invalid(Fault::Records { page: number, what });
                if records::sum(block) != slot.sum {
                    return Err(fault("they do not match their checksum").into());
                }
                let block = Block::parse(self.header.shape, number, block)
                    .map_err(|fault| self.invalid(fault))?;
                let kinds = self.header.spec.kinds;
                block.each_run(
                    |run| {
                        run.check_class(kinds, sources).map_err(fault)?;
                        // Only the first and the last block have other records before or after
                        // these.
                        let run = match number == first || number == last {
                            true => run.between(from, end),
                            false => run,
                        };
                        match run.is_empty() {
                            true => Ok(()),
                            false => visit(run),
                        }
                    },
                    || fault(NO_CLASS).into(),
                )?;
                number += 1;
            }
        }
        Ok(())
    }

    /// Returns the rows of the directory for these blocks, and where the first block begins.
    fn slots(&self, first: u64, last: u64, rows: &mut Vec<u8>) -> Result<(u64, Vec<Slot>), Error> {
        // The end of a block is the start of the next one.
        let before = first.saturating_sub(1);
        rows.resize(index((last + 1 - before) * SLOT_BYTES), 0);
        let offset = self.header.sections.directory.offset + before * SLOT_BYTES;
        self.read(rows, offset)?;
        let records_bytes = self.header.sections.records.length;
        let known = (first == 0).then_some(0);
        let mut slots =
            decode_slots(rows, known, records_bytes).map_err(|fault| self.invalid(fault))?;
        let start = match before < first {
            true => slots.remove(0).end,
            false => 0,
        };
        Ok((start, slots))
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        self.file
            .read_exact_at(bytes, offset)
            .map_err(Error::io(&self.path, "read the records of a page"))
    }

    fn invalid(&self, fault: Fault) -> Error {
        Error::invalid(&self.path, fault)
    }
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{
        EncodedPage, Part, Record, Spec, Writer, encode_block, format::MAX_NAME, sources::Source,
    };
    use super::*;
    use crate::base::replacement::Replacement;

    fn spec() -> Spec {
        let source = |file: &str| Source {
            name: file.to_owned(),
            file: file.to_owned(),
            ..Source::default()
        };
        Spec {
            name: "x".repeat(MAX_NAME),
            generation: 1,
            built: 0,
            seed: 0,
            rules_version: 1,
            rules: 0,
            kinds: 0,
            fpr: 1e-6,
            records: true,
            sources: vec![source("a"), source("b")],
        }
    }

    /// Writes a part with blocks of one class, of two, and without records.
    fn part(path: &Path) -> Vec<Record> {
        let replacement = Replacement::claim(path).unwrap();
        let mut writer = Writer::begin_part(replacement, spec(), 9000, 7).unwrap();
        let blocks = writer.shape().pages;
        assert_eq!(blocks, 8);
        let (mut all, mut encoded) = (Vec::new(), EncodedPage::new());
        for block in 0..blocks {
            let Key(base) = page::first_key(block, blocks);
            let count = if block == 2 { 0 } else { 100 + block };
            let record = |n: u64| Record {
                key: Key(base + n * (u64::MAX / blocks / (count - 1)).saturating_sub(1)),
                source: u32::from(block % 2 == 1 && n.is_multiple_of(5)),
                ..Record::default()
            };
            let records: Vec<_> = (0..count).map(record).collect();
            encode_block(writer.shape(), &records, &mut encoded);
            writer.append(std::slice::from_ref(&encoded)).unwrap();
            all.extend(records);
        }
        writer.finish_part(1).unwrap();
        all
    }

    #[test]
    fn an_excerpt_has_the_records_between_its_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.part");
        let all = part(&path);
        let mut whole = Part::open(&path).unwrap();
        let mut read = Vec::new();
        for block in 0..whole.blocks() {
            whole.records(block, &mut read).unwrap();
        }
        assert_eq!(read, all);

        let excerpt = Excerpt::open(&path).unwrap();
        assert!(excerpt.header().has_records_of(whole.header()));
        let mut memory = ExcerptMemory::default();
        let edge = |block: u64| page::first_key(block, 8).0;
        let mut cuts = vec![0, 1, edge(1) - 1, edge(1), edge(1) + 1, edge(2), edge(3)];
        cuts.extend([edge(5), edge(7), u64::MAX - 1, u64::MAX]);
        cuts.extend(
            all.iter()
                .step_by(61)
                .flat_map(|record| [record.key.0, record.key.0 | 1]),
        );
        for &from in &cuts {
            for end in cuts.iter().copied().map(Some).chain([None]) {
                let mut found = Vec::new();
                let keys = (Key(from), end.map(Key));
                let done = excerpt.each_run(keys, 2, &mut memory, |run| {
                    assert!(!run.is_empty());
                    found.extend(run.keys().map(|key| run.class.record(key)));
                    Ok::<_, Error>(())
                });
                done.unwrap();
                let within = |record: &&Record| {
                    record.key.0 >= from && end.is_none_or(|end| record.key.0 < end)
                };
                let expected: Vec<Record> = all.iter().filter(within).copied().collect();
                assert_eq!(found, expected, "{from} {end:?}");
            }
        }
        // There are two sources, but only one is allowed.
        let none = excerpt.each_run((Key(0), None), 1, &mut memory, |_| Ok::<_, Error>(()));
        assert!(
            none.unwrap_err()
                .to_string()
                .contains("a source that is not there")
        );
    }

    #[test]
    fn what_is_damaged_behind_the_header_is_noticed_where_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.part");
        let all = part(&path);
        let good = std::fs::read(&path).unwrap();
        let header = Excerpt::open(&path).unwrap().header().clone();
        let directory = header.sections.directory;
        let records = header.sections.records;
        let places = (directory.offset..directory.end()).chain(records.offset..records.end());
        for at in places.step_by(13) {
            let mut bad = good.clone();
            bad[index(at)] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            let mut count = 0;
            let excerpt = Excerpt::open(&path).unwrap();
            let done = excerpt.each_run((Key(0), None), 2, &mut ExcerptMemory::default(), |run| {
                count += run.len();
                Ok::<_, Error>(())
            });
            assert!(done.is_err() && count < all.len(), "byte {at}");
        }
    }
}
