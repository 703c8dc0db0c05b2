//! Writing a delta, from front to back.

use std::collections::HashMap;
use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::super::error::Error;
use super::super::record::{Class, Key};
use super::super::writer::Stream;
use super::rice::{BitWriter, parameter};
use super::{COUNT_BITS, Head, MAGIC, PARAMETER_BITS, SEGMENT_EDITS, Touch, VERSION};
use crate::base::replacement::Replacement;

pub struct DeltaWriter {
    replacement: Replacement,
    sum: XxHash3_64,
    out: Stream,
    limit: u64,
    changed: HashMap<Class, u64>,
    added: HashMap<Class, u64>,
    segment: Segment,
    bits: BitWriter,
}

/// Edits that are not written yet, each with its gap and number.
#[derive(Debug, Default)]
struct Segment {
    touched: Vec<(u64, u64)>,
    added: Vec<(u64, u64)>,
    next_index: u64,
    next_key: u64,
}

impl DeltaWriter {
    /// Begins a delta, which is only useful if it is smaller than the filter that it makes.
    pub fn begin(replacement: Replacement, head: &Head) -> Result<Self, Error> {
        let failed = Error::io(replacement.target(), "write");
        let encoded = head.encode().map_err(failed)?;
        let numbers = |classes: &[Class]| classes.iter().copied().zip(0..).collect();
        let mut writer = Self {
            sum: XxHash3_64::new(),
            out: Stream::at(0),
            limit: head.new.file_bytes(),
            changed: numbers(&head.changed),
            added: numbers(&head.added),
            segment: Segment::default(),
            bits: BitWriter::default(),
            replacement,
        };
        let length = u32::try_from(encoded.len()).unwrap_or(u32::MAX);
        let out = &mut writer.bits.bytes;
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&encoded);
        Ok(writer)
    }

    /// Removes or changes the record of OLD with this index. Indexes and keys of edits must rise.
    ///
    /// # Panics
    /// If the head does not have the class.
    pub fn touch(&mut self, index: u64, touch: Touch) -> Result<(), Error> {
        let number = match touch {
            Touch::Removed => 0,
            Touch::Changed(class) => self.changed[&class] + 1,
        };
        let gap = index - self.segment.next_index;
        self.segment.next_index = index + 1;
        self.segment.touched.push((gap, number));
        self.flush_if_full()
    }

    pub fn add(&mut self, Key(key): Key, class: Class) -> Result<(), Error> {
        let gap = key - self.segment.next_key;
        // No key comes after the last of all keys.
        self.segment.next_key = key.saturating_add(1);
        self.segment.added.push((gap, self.added[&class]));
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> Result<(), Error> {
        if self.segment.touched.len() + self.segment.added.len() == SEGMENT_EDITS {
            self.encode_segment();
            self.put()?;
        }
        Ok(())
    }

    fn encode_segment(&mut self) {
        let Segment { touched, added, .. } = &mut self.segment;
        let bits = &mut self.bits;
        for edits in [&*touched, added] {
            bits.put(edits.len() as u64, COUNT_BITS);
        }
        let numbered = [!self.changed.is_empty(), self.added.len() > 1];
        let parameters = [&*touched, added].map(|edits| {
            let sum = |part: fn(&(u64, u64)) -> u64| {
                edits.iter().map(|edit| u128::from(part(edit))).sum()
            };
            [sum(|edit| edit.0), sum(|edit| edit.1)].map(|sum| parameter(sum, edits.len()))
        });
        for parameter in parameters.as_flattened() {
            bits.put((*parameter).into(), PARAMETER_BITS);
        }
        for ((edits, [gaps, numbers]), numbered) in
            [touched, added].into_iter().zip(parameters).zip(numbered)
        {
            for (gap, number) in edits.drain(..) {
                bits.rice(gap, gaps);
                if numbered {
                    bits.rice(number, numbers);
                }
            }
        }
        bits.align();
    }

    pub fn is_too_large(&self) -> bool {
        self.out.end() + self.bits.bytes.len() as u64 >= self.limit
    }

    fn put(&mut self) -> Result<(), Error> {
        self.sum.write(&self.bits.bytes);
        self.out.write(&self.replacement, &self.bits.bytes)?;
        self.bits.bytes.clear();
        Ok(())
    }

    /// Writes the rest and puts the delta in place; returns its size in bytes. If it would be as large
    /// as the filter that it makes, writes nothing.
    pub fn finish(mut self) -> Result<Option<u64>, Error> {
        if !self.segment.touched.is_empty() || !self.segment.added.is_empty() {
            self.encode_segment();
        }
        if self.is_too_large() {
            return Ok(None);
        }
        self.put()?;
        let sum = self.sum.finish().to_le_bytes();
        self.out.write(&self.replacement, &sum)?;
        self.out.flush(&self.replacement)?;
        self.replacement.commit()?;
        Ok(Some(self.out.end()))
    }
}
