//! Makes the delta of two filters.
//!
//! The records of both are read twice in sequence, side by side: once to count the classes, once to
//! write the edits.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::compile::error::Error;
use crate::compile::progress::{Phase, Progress};
use crate::compile::write::{Held, STEPS, Walk};
use blocklist_filter::base::clock::day_of;
use blocklist_filter::base::numbers::{counted, grouped, most_first};
use blocklist_filter::base::parallel::processors;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::delta::{Delta, DeltaWriter, Head, MAX_CLASSES, Touch, is_derived};
use blocklist_filter::filter::{Class, Filter, Key, Load};

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
/// When a filter has no records, when `output` is not a delta, and whatever prevents writing it.
pub fn make(output: &Path, [old, new]: [&Path; 2], progress: &Progress) -> Result<Made, Error> {
    let started = Instant::now();
    let replacement = Replacement::claim(output)?;
    if !replacement.is_new() && !Delta::is_one(output) {
        return Err(Error::NotReplaced {
            path: output.to_owned(),
            why: "exists but is not a delta; move it away, or name another file".to_owned(),
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
        let all = counted(new.entries(), "entry", "entries");
        let (old, new) = (old.path().display(), new.path().display());
        let kept = grouped(tally.kept);
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
            Difference::Added(key, class) => writer.add(key, class)?,
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

const MAX_PAIRS: usize = 4 << 20;

/// One key in OLD or NEW.
#[derive(Clone, Copy, Debug)]
enum Difference {
    /// Its class in OLD and in NEW.
    Kept(Class, Class),
    Removed,
    Added(Key, Class),
}

/// Visits all keys of both filters in order. Ignores records of `old` that expire on the day
/// `expired` or before: a filter that is built on this day does not contain them.
fn differences(
    (old, new): (&Filter, &Filter),
    expired: u16,
    progress: &Progress,
    mut visit: impl FnMut(Difference) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut walk = Walk::new([Box::new(old.records()?) as _, Box::new(new.records()?) as _]);
    walk.steps(0..STEPS, progress, |key, held| {
        let is_listed = |&&(of, class): &&Held| of == NEW || !class.dates.have_expired(expired);
        let mut held = held.iter().filter(is_listed);
        let difference = match (held.next(), held.next()) {
            (Some((_, old)), Some((_, new))) => Difference::Kept(*old, *new),
            (Some((NEW, class)), None) => Difference::Added(key, *class),
            (Some(_), None) => Difference::Removed,
            (None, _) => return Ok(()),
        };
        visit(difference)
    })
}

/// The number of the stream of NEW; that of OLD is 0.
const NEW: usize = 1;

/// The new classes of records that no edit names; all others stay.
#[derive(Debug)]
pub(super) struct Mapped {
    classes: HashMap<Class, Class>,
    /// The last old class and its new one: most records have the class of the one before.
    last: Option<(Class, Class)>,
}

impl Mapped {
    pub(super) fn new(classes: &[(Class, Class)]) -> Self {
        Self {
            classes: classes.iter().copied().collect(),
            last: None,
        }
    }

    pub(super) fn of(&mut self, class: Class) -> Class {
        let last = self.last.filter(|(old, _)| *old == class);
        let look_up = || (class, self.classes.get(&class).copied().unwrap_or(class));
        self.last.insert(last.unwrap_or_else(look_up)).1
    }
}

#[derive(Debug, Default)]
struct Tally {
    removed: u64,
    added: u64,
    kept: u64,
    pairs: HashMap<(Class, Class), u64>,
    added_classes: HashMap<Class, u64>,
    /// The pair of the last record, and the number of consecutive records with this pair.
    run: Option<((Class, Class), u64)>,
    too_many: bool,
}

#[derive(Debug)]
struct Classes {
    mapped: Vec<(Class, Class)>,
    /// Classes of exceptions, and of added records; each with the most frequent first.
    changed: Vec<Class>,
    added: Vec<Class>,
    changed_count: u64,
}

impl Tally {
    fn count(&mut self, difference: Difference) {
        match difference {
            Difference::Removed => self.removed += 1,
            Difference::Added(_, class) => {
                self.added += 1;
                *self.added_classes.entry(class).or_default() += 1;
            }
            Difference::Kept(old, new) => {
                self.kept += 1;
                match &mut self.run {
                    Some((pair, length)) if *pair == (old, new) => *length += 1,
                    Some(_) | None => {
                        self.end_run();
                        self.run = Some(((old, new), 1));
                    }
                }
            }
        }
    }

    fn end_run(&mut self) {
        let Some((pair, length)) = self.run.take() else {
            return;
        };
        if self.pairs.len() < MAX_PAIRS {
            *self.pairs.entry(pair).or_default() += length;
        } else if let Some(count) = self.pairs.get_mut(&pair) {
            *count += length;
        } else {
            self.too_many = true;
        }
    }

    /// Returns the changes of classes; `None` if there are more than a delta can have.
    fn classes(mut self) -> Option<Classes> {
        /// A pair takes about as many bytes as this many exceptions.
        const WORTH_A_PAIR: u64 = 8;
        self.end_run();
        let mut most: BTreeMap<Class, (u64, Class)> = BTreeMap::new();
        for (&(old, new), &count) in &self.pairs {
            // Always chooses the same one of equally frequent classes.
            let place = most.entry(old).or_insert((count, new));
            *place = (count, new).max(*place);
        }
        let stays = |class: Class| self.pairs.get(&(class, class)).copied().unwrap_or(0);
        let mapped: BTreeMap<_, _> = most
            .into_iter()
            .filter(|&(old, (count, new))| old != new && count > stays(old) + WORTH_A_PAIR)
            .map(|(old, (_, new))| (old, new))
            .collect();
        let mut changed: HashMap<Class, u64> = HashMap::new();
        for ((old, new), count) in &self.pairs {
            if mapped.get(old).unwrap_or(old) != new {
                *changed.entry(*new).or_default() += count;
            }
        }
        let classes = Classes {
            changed_count: changed.values().sum(),
            mapped: mapped.into_iter().collect(),
            changed: by_frequency(changed),
            added: by_frequency(self.added_classes),
        };
        let fits = |length: usize| length <= MAX_CLASSES;
        let fit = fits(classes.mapped.len()) && fits(classes.changed.len());
        (!self.too_many && fit && fits(classes.added.len())).then_some(classes)
    }
}

fn by_frequency(counts: HashMap<Class, u64>) -> Vec<Class> {
    let classes = most_first(counts).into_iter();
    classes.map(|(class, _)| class).collect()
}
