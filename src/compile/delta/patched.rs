//! The records of a filter, changed by the edits of a delta.

use std::mem;

use super::differences::Mapped;
use crate::compile::error::Error;
use crate::compile::write::Sorted;
use crate::filter::delta::{Delta, Touch};
use crate::filter::{self, Class, Key, Problem, Record};

/// Maximum number of records between two keys. No filter has so many in the few pages that are
/// written at once, and a delta with more would take all memory.
const MAX_AT_ONCE: usize = 4 << 20;

/// A stream of records, changed by a delta.
pub(super) struct Patched<'a> {
    old: Box<dyn Sorted + 'a>,
    edits: Delta,
    mapped: Mapped,
    /// The last class that was found valid.
    possible: Option<Class>,
    taken: Vec<Record>,
    /// Index of the next record of `old`.
    index: u64,
    /// The end of the last request: no record may come before it any more.
    from: Option<Key>,
    /// The last key returned, and the number of records returned.
    last_key: Option<Key>,
    count: u64,
}

impl<'a> Patched<'a> {
    pub(super) fn new(old: Box<dyn Sorted + 'a>, edits: Delta) -> Self {
        Self {
            old,
            mapped: Mapped::new(&edits.head.mapped),
            edits,
            possible: None,
            taken: Vec::new(),
            index: 0,
            from: None,
            last_key: None,
            count: 0,
        }
    }

    fn problem(&self, what: &'static str) -> Error {
        filter::Error::Invalid {
            path: self.edits.path.clone(),
            problem: Problem::Delta(what),
        }
        .into()
    }

    /// Appends added records before `end`.
    fn add_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        while let Some((key, class)) = self.edits.added_before(end)? {
            self.push(class.record(key), into)?;
        }
        Ok(())
    }

    fn push(&mut self, record: Record, into: &mut Vec<Record>) -> Result<(), Error> {
        if self.last_key.is_some_and(|last| last >= record.key) {
            return Err(self.problem("it adds an entry that already exists"));
        }
        // The edits of a segment are read only when those of the one before are used up.
        if self.from.is_some_and(|from| record.key < from) {
            return Err(self.problem("its edits are not in order"));
        }
        if into.len() == MAX_AT_ONCE {
            return Err(self.problem("it puts too many entries next to each other"));
        }
        let class = Class::of(&record);
        if self.possible != Some(class) {
            let spec = &self.edits.head.new.spec;
            if class.check(spec.kinds, spec.sources.len()).is_err() {
                let what = "an entry has a kind or source that the filter does not have";
                return Err(self.problem(what));
            }
            self.possible = Some(class);
        }
        self.last_key = Some(record.key);
        self.count += 1;
        into.push(record);
        Ok(())
    }
}

impl Sorted for Patched<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        let mut taken = mem::take(&mut self.taken);
        taken.clear();
        self.old.take_before(end, &mut taken)?;
        for record in &taken {
            if record.has_expired(self.edits.head.expired) {
                continue;
            }
            self.add_before(Some(record.key), into)?;
            let class = match self.edits.touch(self.index)? {
                Some(Touch::Removed) => None,
                Some(Touch::Changed(class)) => Some(class),
                None => Some(self.mapped.of(Class::of(record))),
            };
            self.index += 1;
            if let Some(class) = class {
                self.push(class.record(record.key), into)?;
            }
        }
        self.taken = taken;
        self.add_before(end, into)?;
        self.from = end;
        if end.is_none() && (!self.edits.is_done()? || self.count != self.edits.head.new.entries) {
            return Err(self.problem("it does not make the filter that it names"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::replacement::Replacement;
    use crate::compile::write::Given;
    use crate::compile::{Plan, Progress, build};
    use crate::filter::delta::{DeltaWriter, Head};
    use crate::filter::{Digest, Filter, Load};
    use std::fs;

    fn record(key: u64) -> Record {
        Record {
            key: Key(key),
            ..Record::default()
        }
    }

    /// Removes the records 1 to 4096 in one segment, and adds this key in the next one.
    fn removes_and_adds(key: u64) -> Delta {
        let folder = tempfile::tempdir().unwrap();
        let [list, delta] = ["new.txt", "delta"].map(|name| folder.path().join(name));
        fs::write(&list, "a@b.example\n").unwrap();
        let plan = Plan::new(list.with_extension("blf"), vec![list]);
        build(&plan, &Progress::new()).unwrap();
        let new = Filter::open(&plan.output, Load::Disk).unwrap();
        let class = Class::of(&record(key));
        let head = Head {
            old: Digest::of(b"old"),
            old_generation: 1,
            digest: Digest::of(b"new"),
            new: new.header().clone(),
            expired: 0,
            mapped: Vec::new(),
            changed: Vec::new(),
            added: vec![class],
            touched_count: 4096,
            added_count: 1,
        };
        let mut writer = DeltaWriter::begin(Replacement::claim(&delta).unwrap(), &head).unwrap();
        for index in 0..4096 {
            writer.touch(index, Touch::Removed).unwrap();
        }
        writer.add(Key(key), class).unwrap();
        writer.finish().unwrap();
        Delta::open(&delta).unwrap()
    }

    #[test]
    fn edits_that_are_not_in_order_are_refused() {
        for (key, in_order) in [(5_000, true), (2_000, true), (1_999, false), (0, false)] {
            let old = Given::keys(&(1..=4096).collect::<Vec<_>>());
            let mut patched = Patched::new(Box::new(old), removes_and_adds(key));
            let mut out = Vec::new();
            // Records before this key were written before the next segment is read.
            patched.take_before(Some(Key(2_000)), &mut out).unwrap();
            assert!(out.is_empty());
            let done = patched.take_before(None, &mut out);
            if in_order {
                done.unwrap();
                assert_eq!(out, [record(key)]);
            } else {
                let error = done.unwrap_err().to_string();
                assert!(error.contains("its edits are not in order"), "{error}");
            }
        }
    }
}
