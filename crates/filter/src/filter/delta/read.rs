//! Reading a delta, and checking it.

use std::collections::VecDeque;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufReader, ErrorKind, Read, Take};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use super::super::error::{Error, Problem};
use super::super::fields::Fields;
use super::super::file::open;
use super::super::record::{Class, Key};
use super::rice::{BitReader, malformed};
use super::{
    COUNT_BITS, Head, MAGIC, PARAMETER_BITS, PRELUDE_BYTES, SEGMENT_EDITS, SUM_BYTES, Touch,
    VERSION,
};

/// Maximum size of a head: larger than 64 MiB of sources and three full lists of classes, if
/// nothing in them can be compressed.
const MAX_HEAD_BYTES: u32 = 128 << 20;

/// A delta whose checksum is correct and whose head is read. Its edits are read segment by segment.
#[derive(Debug)]
pub struct Delta {
    pub path: PathBuf,
    pub head: Head,
    bits: BitReader<Take<BufReader<File>>>,
    /// The number of edits in segments that were not read yet.
    touched_left: u64,
    added_left: u64,
    touched: VecDeque<(u64, Touch)>,
    added: VecDeque<(Key, Class)>,
    /// The lowest index and key that the next edit can have; `None` if it can have none.
    next_index: Option<u64>,
    next_key: Option<u64>,
}

impl Delta {
    pub fn is_one(path: &Path) -> bool {
        let mut start = [0; MAGIC.len()];
        open(path)
            .is_ok_and(|(file, _)| file.read_exact_at(&mut start, 0).is_ok() && start == MAGIC)
    }

    pub fn open(path: &Path) -> Result<Self, Error> {
        let invalid = |problem| Error::invalid(path, problem);
        let truncated = Problem::Delta("it is truncated");
        let (file, bytes) = open(path)?;
        let mut file = BufReader::new(file);
        let read = |file: &mut BufReader<File>, count| {
            let mut bytes = Vec::new();
            let read = file.take(count).read_to_end(&mut bytes);
            read.map(|_| bytes).map_err(Error::io(path, "read"))
        };
        let prelude = read(&mut file, PRELUDE_BYTES)?;
        let mut fields = Fields::new(prelude.as_slice(), truncated.clone());
        if fields.array() != Ok(MAGIC) {
            return Err(invalid(Problem::unfit(
                "not a delta; make one with blocklist-compile delta",
            )));
        }
        let found = fields.u32().map_err(invalid)?;
        if found != VERSION {
            return Err(invalid(Problem::unfit(format!(
                "delta version {found}, but this program reads {VERSION}: use the whole filter, or update \
                 the program"
            ))));
        }
        let head_bytes = fields.u32().map_err(invalid)?;
        let segments_bytes = bytes
            .checked_sub(PRELUDE_BYTES + SUM_BYTES + u64::from(head_bytes))
            .filter(|_| head_bytes <= MAX_HEAD_BYTES)
            .ok_or_else(|| invalid(truncated.clone()))?;
        check_sum(path, file.get_ref(), bytes - SUM_BYTES)?;
        let head = read(&mut file, head_bytes.into())?;
        let head = Head::decode(&head).map_err(invalid)?;
        // Each edit takes at least one bit.
        let edits = head.touched_count.saturating_add(head.added_count);
        if edits > segments_bytes.saturating_mul(8) {
            return Err(invalid(truncated));
        }
        Ok(Self {
            path: path.to_owned(),
            touched_left: head.touched_count,
            added_left: head.added_count,
            head,
            bits: BitReader::new(file.take(segments_bytes)),
            touched: VecDeque::new(),
            added: VecDeque::new(),
            next_index: Some(0),
            next_key: Some(0),
        })
    }

    /// Returns what happens to the record of OLD with this index; the caller must ask in the order
    /// of indexes.
    pub fn touch(&mut self, index: u64) -> Result<Option<Touch>, Error> {
        self.load()?;
        let touched = self.touched.pop_front_if(|touched| touched.0 == index);
        Ok(touched.map(|(_, touch)| touch))
    }

    /// Returns the next added record, if its key is before `end`; without `end`, for any key.
    pub fn added_before(&mut self, end: Option<Key>) -> Result<Option<(Key, Class)>, Error> {
        self.load()?;
        Ok(self
            .added
            .pop_front_if(|added| end.is_none_or(|end| added.0 < end)))
    }

    pub fn is_done(&mut self) -> Result<bool, Error> {
        self.load()?;
        let at_end = self
            .bits
            .is_at_end()
            .map_err(Error::io(&self.path, "read"))?;
        Ok(self.touched.is_empty() && self.added.is_empty() && at_end)
    }

    fn load(&mut self) -> Result<(), Error> {
        if !self.touched.is_empty()
            || !self.added.is_empty()
            || (self.touched_left, self.added_left) == (0, 0)
        {
            return Ok(());
        }
        self.segment().map_err(|error| match error.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                Error::invalid(&self.path, Problem::Delta("an edit in it cannot be read"))
            }
            _ => Error::io(&self.path, "read")(error),
        })
    }

    fn segment(&mut self) -> io::Result<()> {
        let touched = self.bits.take(COUNT_BITS)?;
        let added = self.bits.take(COUNT_BITS)?;
        if !(1..=SEGMENT_EDITS as u64).contains(&(touched + added)) {
            return Err(malformed());
        }
        let left = self.touched_left.checked_sub(touched);
        self.touched_left = left.ok_or_else(malformed)?;
        let left = self.added_left.checked_sub(added);
        self.added_left = left.ok_or_else(malformed)?;
        let mut parameters = [0; 4];
        for parameter in &mut parameters {
            *parameter = u8::try_from(self.bits.take(PARAMETER_BITS)?).unwrap_or(0);
        }
        let [gaps, numbers, key_gaps, key_numbers] = parameters;
        for _ in 0..touched {
            let index = after_gap(&mut self.next_index, self.bits.rice(gaps)?)?;
            let number = match self.head.changed.is_empty() {
                true => 0,
                false => self.bits.rice(numbers)?,
            };
            let touch = match number.checked_sub(1) {
                None => Touch::Removed,
                Some(number) => Touch::Changed(class(&self.head.changed, number)?),
            };
            self.touched.push_back((index, touch));
        }
        for _ in 0..added {
            let key = after_gap(&mut self.next_key, self.bits.rice(key_gaps)?)?;
            let number = match self.head.added.len() > 1 {
                true => self.bits.rice(key_numbers)?,
                false => 0,
            };
            let class = class(&self.head.added, number)?;
            self.added.push_back((Key(key), class));
        }
        self.bits.align()
    }
}

fn check_sum(path: &Path, file: &File, end: u64) -> Result<(), Error> {
    let failed = || Error::io(path, "read");
    let mut sum = XxHash3_64::new();
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0;
    while at < end {
        let count = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        file.read_exact_at(&mut buffer[..count], at)
            .map_err(failed())?;
        sum.write(&buffer[..count]);
        at += count as u64;
    }
    let mut expected = [0; 8];
    file.read_exact_at(&mut expected, end).map_err(failed())?;
    let problem = Problem::Delta("it does not match its checksum");
    match sum.finish().to_le_bytes() == expected {
        true => Ok(()),
        false => Err(Error::invalid(path, problem)),
    }
}

/// Returns the number after a gap from the lowest possible one, which it raises.
fn after_gap(next: &mut Option<u64>, gap: u64) -> io::Result<u64> {
    let number = next.and_then(|next| next.checked_add(gap));
    *next = number.and_then(|number| number.checked_add(1));
    number.ok_or_else(malformed)
}

fn class(classes: &[Class], number: u64) -> io::Result<Class> {
    let class = usize::try_from(number).ok().and_then(|at| classes.get(at));
    class.copied().ok_or_else(malformed)
}
