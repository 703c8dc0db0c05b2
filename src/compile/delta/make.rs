//! Makes the delta of two filters.
//!
//! The records of both are read twice in sequence: once to count the classes, once to write the
//! edits.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::differences::{Difference, Mapped, Tally, differences};
use crate::base::numbers::{counted, grouped};
use crate::base::parallel::processors;
use crate::base::replacement::Replacement;
use crate::compile::error::Error;
use crate::compile::plan::day_of;
use crate::compile::progress::{Phase, Progress};
use crate::filter::delta::{Delta, DeltaWriter, Head, Touch, is_derived};
use crate::filter::{Class, Filter, Load};

/// The contents of a delta.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Made {
    /// The delta.
    pub output: PathBuf,
    /// Why it was not written, if the filters are too different.
    pub refused: Option<String>,
    /// Entries of NEW that OLD does not have.
    pub added: u64,
    /// Entries of OLD that NEW does not have and that have not expired.
    pub removed: u64,
    /// Entries of both whose source or dates change in another way than those of their class.
    pub changed: u64,
    /// Size of the delta in bytes; 0 if it was not written.
    pub bytes: u64,
    /// Size of NEW in bytes.
    pub new_bytes: u64,
    /// Entries of NEW.
    pub entries: u64,
    /// Identity of OLD: SHA-256 of its header page, in hexadecimal.
    pub old_identity: String,
    /// Identity of NEW.
    pub new_identity: String,
    /// SHA-256 of NEW, the whole file.
    pub new_sha256: String,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Writes the delta that makes one filter from another to `output`.
///
/// # Errors
/// When a filter has no records or cannot be read, when `output` exists and is not a delta, and
/// whatever prevents writing it.
pub fn make(output: &Path, [old, new]: [&Path; 2], progress: &Progress) -> Result<Made, Error> {
    let started = Instant::now();
    let replacement = Replacement::claim(output)?;
    if !replacement.is_new() && !Delta::is_one(output) {
        return Err(Error::NotReplaced {
            path: output.to_owned(),
            wanted: "a delta",
            instead: "name another file",
        });
    }
    let [old, new] = [old, new].map(|path| Filter::open(path, Load::Disk));
    let (old, new) = (old?, new?);
    for filter in [&old, &new] {
        filter.records()?;
    }
    let mut made = Made {
        output: output.to_owned(),
        new_bytes: new.header().file_bytes(),
        entries: new.entries(),
        old_identity: old.header().identity().to_string(),
        new_identity: new.header().identity().to_string(),
        ..Made::default()
    };
    made.refused = match unlike(&old, &new) {
        None => write(replacement, (&old, &new), &mut made, progress)?,
        why => why,
    };
    if let Some(why) = &mut made.refused {
        why.push_str("; use the whole filter");
    }
    made.seconds = started.elapsed().as_secs_f64();
    Ok(made)
}

/// Returns why there can be no delta of the two, if so.
fn unlike(old: &Filter, new: &Filter) -> Option<String> {
    let (old_path, new_path) = (old.path().display(), new.path().display());
    if old.spec().seed != new.spec().seed {
        let than = format!("than {old_path}, so they share nothing");
        return Some(format!("{new_path} has another hash seed {than}"));
    }
    let why = "does not have the number of pages that the compiler chooses for its entries";
    (!is_derived(new.header())).then(|| format!("{new_path} {why}"))
}

/// Writes the delta; returns why not, if it is not worth it.
fn write(
    replacement: Replacement,
    (old, new): (&Filter, &Filter),
    made: &mut Made,
    progress: &Progress,
) -> Result<Option<String>, Error> {
    let expired = day_of(new.spec().built).0;
    let records = old.entries().saturating_add(new.entries());
    progress.begin(Phase::Counting, records);
    let mut tally = Tally::default();
    differences((old, new), expired, progress, |difference| {
        tally.count(difference);
        Ok(())
    })?;
    (made.added, made.removed) = (tally.added, tally.removed);
    if tally.kept < new.entries() / 2 {
        let (kept, all) = (
            grouped(tally.kept),
            counted(new.entries(), "entry", "entries"),
        );
        let (old, new) = (old.path().display(), new.path().display());
        return Ok(Some(format!("only {kept} of {all} in {new} are in {old}")));
    }
    let Some(classes) = tally.classes() else {
        return Ok(Some("too many different sources and dates".to_owned()));
    };
    made.changed = classes.changed_count;

    progress.begin(Phase::Checking, 0);
    new.check(false, processors())?;
    let digest = new.digest(|| !progress.stopped())?;
    let digest = digest.ok_or(Error::Interrupted)?;
    made.new_sha256 = digest.to_string();
    let head = Head {
        old: old.header().identity(),
        old_generation: old.spec().generation,
        digest,
        new: new.header().clone(),
        expired,
        mapped: classes.mapped,
        changed: classes.changed,
        added: classes.added,
        touched_count: made.removed + made.changed,
        added_count: made.added,
    };
    progress.begin(Phase::Writing, records);
    let mut writer = DeltaWriter::begin(replacement, &head)?;
    edits((old, new), &head, &mut writer, progress)?;
    let Some(bytes) = writer.finish()? else {
        return Ok(Some("the delta would be larger".to_owned()));
    };
    made.bytes = bytes;
    Ok(None)
}

/// Writes all edits, as long as they are smaller than the filter.
fn edits(
    filters: (&Filter, &Filter),
    head: &Head,
    writer: &mut DeltaWriter,
    progress: &Progress,
) -> Result<(), Error> {
    let mut index = 0;
    let mut mapped = Mapped::new(&head.mapped);
    differences(filters, head.expired, progress, |difference| {
        if writer.is_too_large() {
            return Ok(());
        }
        match difference {
            Difference::Added(record) => writer.add(record.key, Class::of(&record))?,
            Difference::Removed => {
                writer.touch(index, Touch::Removed)?;
                index += 1;
            }
            Difference::Kept(old, new) => {
                if mapped.of(old) != new {
                    writer.touch(index, Touch::Changed(new))?;
                }
                index += 1;
            }
        }
        Ok(())
    })
}
