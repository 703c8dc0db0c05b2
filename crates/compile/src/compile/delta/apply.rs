//! Makes a filter from another one and deltas.
//!
//! The records of OLD are read once, in sequence, and pass through all deltas at the same time, so
//! a chain of ten costs little more than one. The result must equal NEW in every byte, or it is
//! removed.

use std::mem;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::make::Mapped;
use crate::compile::error::Error;
use crate::compile::limits::Refused;
use crate::compile::lineage::{Lineage, check_not_input};
use crate::compile::plan::{Plan, Seed};
use crate::compile::progress::{Phase, Progress};
use crate::compile::write::{Sorted, assemble};
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::delta::{Delta, Head, Touch};
use blocklist_filter::filter::{self, Batch, Class, Digest, Filter, Key, Load, Problem, Writer};

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Applied {
    /// The filter.
    pub output: PathBuf,
    /// Why it was not written: it would have too few or too many entries.
    pub refused: Option<Refused>,
    /// Number of deltas applied.
    pub deltas: usize,
    /// Size of the filter in bytes.
    pub bytes: u64,
    /// Number of its entries.
    pub entries: u64,
    /// Its generation.
    pub generation: u64,
    /// Its identity: SHA-256 of its header page, in hexadecimal.
    pub identity: String,
    /// SHA-256 of the whole file.
    pub sha256: String,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Makes the output of `plan` from `old` and deltas, the inputs of the plan in their order. The output
/// may be `old`. It is not written if [`Applied::refused`] is set: expired entries count for `max_shrink` and
/// `max_growth`, too.
///
/// # Errors
/// When a delta does not belong to the filter before it, or is damaged; when the result differs in
/// any byte from the filter that the last delta was made for, or that one has another SHA-256 than
/// `sha256` (in hexadecimal); and whatever prevents writing it.
pub fn apply(
    plan: &Plan,
    old: &Path,
    sha256: Option<&str>,
    progress: &Progress,
) -> Result<Applied, Error> {
    let started = Instant::now();
    check_not_input(&plan.output, &plan.reads.inputs)?;
    let replacement = Replacement::claim(&plan.output)?;
    let old = Filter::open(old, Load::Disk)?;
    let seed = Seed::Fixed(old.spec().seed);
    Lineage::of(plan, &seed)?;
    let chain = open_chain(&old, &plan.reads.inputs)?;
    let Some(last) = chain.last() else {
        return Err(Error::NoInput("delta to apply".to_owned()));
    };
    let (last, path) = (last.head.clone(), last.path.clone());
    if sha256.is_some_and(|wanted| wanted != last.digest.to_string()) {
        return Err(Error::unfit(&path, "does not make the expected filter"));
    }
    let outcome = |refused| Applied {
        output: plan.output.clone(),
        refused,
        deltas: plan.reads.inputs.len(),
        bytes: last.new.file_bytes(),
        entries: last.new.entries,
        generation: last.new.spec.generation,
        identity: last.new.identity().to_string(),
        sha256: last.digest.to_string(),
        seconds: started.elapsed().as_secs_f64(),
    };
    let what = old.path().display().to_string();
    let limits = &plan.limits;
    if let Err(refused) = limits.check_change(&what, old.entries(), last.new.entries) {
        return Ok(outcome(Some(refused)));
    }
    let mut stream: Box<dyn Sorted + '_> = Box::new(old.records()?);
    for delta in chain {
        stream = Box::new(Patched::new(stream, delta));
    }
    progress.begin(Phase::Writing, last.new.entries);
    let spec = last.new.spec.clone();
    let writer = Writer::begin(replacement, spec, last.new.entries, last.new.shape, None)?;
    let writer = assemble(writer, stream, plan.resources.threads.max(1), progress)?;
    if !put_in_place(writer, &last, progress)? {
        let problem = Problem::Delta("it does not make the filter that it names");
        return Err(filter::Error::invalid(&path, problem).into());
    }
    Ok(outcome(None))
}

fn put_in_place(writer: Writer, delta: &Head, progress: &Progress) -> Result<bool, Error> {
    progress.begin(Phase::Checking, 0);
    let (written, header) = writer.complete()?;
    let digest = Digest::of_file(written.file(), || !progress.stopped());
    let digest = digest.map_err(Error::io(written.path(), "read"))?;
    let is_named = digest.ok_or(Error::Interrupted)? == delta.digest && header == delta.new;
    if is_named {
        written.commit()?;
    }
    Ok(is_named)
}

fn named(generation: u64, identity: Digest) -> String {
    format!("generation {generation} ({identity:.16})")
}

fn open_chain(old: &Filter, paths: &[PathBuf]) -> Result<Vec<Delta>, Error> {
    let mut chain: Vec<Delta> = Vec::with_capacity(paths.len());
    let mut most_entries = old.entries();
    for path in paths {
        let delta = Delta::open(path)?;
        let (before, header) = match chain.last() {
            Some(last) => (&*last.path, &last.head.new),
            None => (old.path(), old.header()),
        };
        let identity = header.identity();
        let head = &delta.head;
        let refused = |why: String| Err(Error::unfit(path, why));
        if head.new.identity() == identity {
            return refused(format!(
                "{} already is {}, which this delta makes",
                before.display(),
                named(header.spec.generation, identity)
            ));
        }
        if head.old != identity {
            let what = if chain.is_empty() { "is" } else { "makes" };
            return refused(format!(
                "this delta is for {}, but {} {what} {}; use the whole filter, or the deltas between the two",
                named(head.old_generation, head.old),
                before.display(),
                named(header.spec.generation, identity)
            ));
        }
        // A filter with impossibly many entries would fill the disk with pages.
        most_entries = most_entries.saturating_add(head.added_count);
        if head.new.entries > most_entries {
            let what = "its filter has more entries than the old filter and the delta together";
            return Err(filter::Error::invalid(path, Problem::Delta(what)).into());
        }
        chain.push(delta);
    }
    Ok(chain)
}

/// Maximum number of records between two keys: 96 MiB if no two neighbours have one class; far above what
/// the pages written at once can have.
const MAX_AT_ONCE: usize = 3 << 20;

struct Patched<'a> {
    old: Box<dyn Sorted + 'a>,
    edits: Delta,
    mapped: Mapped,
    /// The last class that was found valid.
    possible: Option<Class>,
    taken: Batch,
    index: u64,
    /// The end of the last request: no record may come before it any more.
    from: Option<Key>,
    last_key: Option<Key>,
    count: u64,
}

impl<'a> Patched<'a> {
    fn new(old: Box<dyn Sorted + 'a>, edits: Delta) -> Self {
        Self {
            old,
            mapped: Mapped::new(&edits.head.mapped),
            edits,
            possible: None,
            taken: Batch::default(),
            index: 0,
            from: None,
            last_key: None,
            count: 0,
        }
    }

    fn problem(&self, what: &'static str) -> Error {
        filter::Error::invalid(&self.edits.path, Problem::Delta(what)).into()
    }

    fn add_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error> {
        while let Some((key, class)) = self.edits.added_before(end)? {
            self.push(key, class, into)?;
        }
        Ok(())
    }

    fn push(&mut self, key: Key, class: Class, into: &mut Batch) -> Result<(), Error> {
        if self.last_key.is_some_and(|last| last >= key) {
            return Err(self.problem("it adds an entry that already exists"));
        }
        // The edits of a segment are read only when those of the one before are used up.
        if self.from.is_some_and(|from| key < from) {
            return Err(self.problem("its edits are not in order"));
        }
        if into.len() == MAX_AT_ONCE {
            return Err(self.problem("it puts too many entries next to each other"));
        }
        if self.possible != Some(class) {
            let spec = &self.edits.head.new.spec;
            if class.check(spec.kinds, spec.sources.len()).is_err() {
                let what = "an entry has a kind or source that the filter does not have";
                return Err(self.problem(what));
            }
            self.possible = Some(class);
        }
        self.last_key = Some(key);
        self.count += 1;
        into.push(key, class);
        Ok(())
    }
}

impl Sorted for Patched<'_> {
    fn take_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error> {
        let mut taken = mem::take(&mut self.taken);
        taken.clear();
        self.old.take_before(end, &mut taken)?;
        let expired = self.edits.head.expired;
        for (class, keys) in (taken.runs()).filter(|(class, _)| !class.dates.have_expired(expired))
        {
            let mapped = self.mapped.of(class);
            for &key in keys {
                self.add_before(Some(key), into)?;
                match self.edits.touch(self.index)? {
                    Some(Touch::Removed) => {}
                    Some(Touch::Changed(class)) => self.push(key, class, into)?,
                    None => self.push(key, mapped, into)?,
                }
                self.index += 1;
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
    use crate::compile::{Plan, Progress, build};
    use blocklist_filter::base::replacement::Replacement;
    use blocklist_filter::filter::delta::{DeltaWriter, Head};
    use blocklist_filter::filter::{Digest, Filter, Load};
    use std::fs;

    struct Given(Vec<Key>);

    impl Sorted for Given {
        fn take_before(&mut self, end: Option<Key>, into: &mut Batch) -> Result<(), Error> {
            let is_before = |key: &Key| end.is_none_or(|end| *key < end);
            for key in self.0.drain(..self.0.partition_point(is_before)) {
                into.push(key, Class::default());
            }
            Ok(())
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
        let class = Class::default();
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
            let old = Given((1..=4096).map(Key).collect());
            let mut patched = Patched::new(Box::new(old), removes_and_adds(key));
            let mut out = Batch::default();
            // Records before this key were written before the next segment is read.
            patched.take_before(Some(Key(2_000)), &mut out).unwrap();
            assert_eq!(out.len(), 0);
            let done = patched.take_before(None, &mut out);
            if in_order {
                done.unwrap();
                assert!(out.records().map(|record| record.key).eq([Key(key)]));
            } else {
                let error = done.unwrap_err().to_string();
                assert!(error.contains("its edits are not in order"), "{error}");
            }
        }
    }
}
