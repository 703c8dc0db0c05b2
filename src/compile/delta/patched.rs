//! The records of a filter with the edits of a delta.

use std::collections::HashMap;
use std::mem;
use std::path::PathBuf;

use super::differences::has_expired;
use crate::compile::Error;
use crate::compile::write::Sorted;
use crate::filter::delta::{Delta, Edits, Head, Touch};
use crate::filter::{self, Class, Fault, Key, Record};

/// Most records between two keys that are asked for: no filter has so many in the few pages that are
/// written at once, and a delta that puts them there would take all memory.
const MAX_AT_ONCE: usize = 4 << 20;

/// A stream of records, changed by a delta.
pub(super) struct Patched<'a> {
    old: Box<dyn Sorted + 'a>,
    edits: Edits,
    head: Head,
    path: PathBuf,
    mapped: HashMap<Class, Class>,
    /// The class of the last record that no edit named, and what became of it.
    last: Option<(Class, Class)>,
    /// The class that was last found to be possible.
    possible: Option<Class>,
    taken: Vec<Record>,
    /// Index of the next record of `old`.
    index: u64,
    /// Up to where records were asked for: what comes now lies behind.
    from: Option<Key>,
    /// The key that went out last, and how many did.
    last_key: Option<Key>,
    count: u64,
}

impl<'a> Patched<'a> {
    pub(super) fn new(old: Box<dyn Sorted + 'a>, delta: Delta) -> Self {
        let path = delta.path().to_owned();
        let (edits, head) = delta.into_edits();
        Self {
            old,
            edits,
            path,
            mapped: head.mapped.iter().copied().collect(),
            head,
            last: None,
            possible: None,
            taken: Vec::new(),
            index: 0,
            from: None,
            last_key: None,
            count: 0,
        }
    }

    fn fault(&self, what: &'static str) -> Error {
        filter::Error::Invalid {
            path: self.path.clone(),
            fault: Fault::Delta { what },
        }
        .into()
    }

    fn mapped(&mut self, class: Class) -> Class {
        match self.last {
            Some((old, new)) if old == class => new,
            Some(_) | None => {
                let new = self.mapped.get(&class).copied().unwrap_or(class);
                self.last = Some((class, new));
                new
            }
        }
    }

    /// Sends added records before `end`.
    fn add_before(&mut self, end: Option<Key>, into: &mut Vec<Record>) -> Result<(), Error> {
        while let Some((key, class)) = self.edits.added_before(end)? {
            self.push(class.record(key), into)?;
        }
        Ok(())
    }

    fn push(&mut self, record: Record, into: &mut Vec<Record>) -> Result<(), Error> {
        if self.last_key.is_some_and(|last| last >= record.key) {
            return Err(self.fault("it adds an entry that is there"));
        }
        // The edits of a segment are read when those of the one before are used up.
        if self.from.is_some_and(|from| record.key < from) {
            return Err(self.fault("its edits are not in order"));
        }
        if into.len() == MAX_AT_ONCE {
            return Err(self.fault("it puts too many entries next to each other"));
        }
        let class = Class::of(&record);
        if self.possible != Some(class) {
            let spec = &self.head.new.spec;
            let declared = class.kind < 8 && spec.kinds >> class.kind & 1 == 1;
            if !declared || class.source as usize >= spec.sources.len() {
                return Err(
                    self.fault("an entry has a kind or source that the filter does not have")
                );
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
            if has_expired(record, self.head.expired) {
                continue;
            }
            self.add_before(Some(record.key), into)?;
            let class = match self.edits.touch(self.index)? {
                Some(Touch::Removed) => None,
                Some(Touch::Changed(class)) => Some(class),
                None => Some(self.mapped(Class::of(record))),
            };
            self.index += 1;
            if let Some(class) = class {
                self.push(class.record(record.key), into)?;
            }
        }
        self.taken = taken;
        self.add_before(end, into)?;
        self.from = end;
        if end.is_none() && (!self.edits.is_done()? || self.count != self.head.new.entries) {
            return Err(self.fault("it does not make the filter that it names"));
        }
        Ok(())
    }
}
