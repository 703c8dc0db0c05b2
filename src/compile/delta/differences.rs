//! The records of two filters side by side, and how their classes change.

use std::collections::{BTreeMap, HashMap};

use crate::compile::error::Error;
use crate::compile::progress::Progress;
use crate::compile::write::{Held, STEPS, Walk};
use crate::filter::delta::MAX_CLASSES;
use crate::filter::{Class, Filter, Record};

/// Maximum number of pairs of classes that are counted.
const MAX_PAIRS: usize = 4 << 20;

/// One key in OLD or NEW.
#[derive(Clone, Copy, Debug)]
pub(super) enum Difference {
    /// In both filters: its class in OLD and in NEW.
    Kept(Class, Class),
    /// Only in OLD.
    Removed,
    /// Only in NEW.
    Added(Record),
}

/// Visits all keys of both filters in order. Ignores records of `old` that expire on the day
/// `expired` or before: a filter that is built on this day does not contain them.
pub(super) fn differences(
    (old, new): (&Filter, &Filter),
    expired: u16,
    progress: &Progress,
    mut visit: impl FnMut(Difference) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut walk = Walk::new([Box::new(old.records()?) as _, Box::new(new.records()?) as _]);
    walk.steps(0..STEPS, progress, |held| {
        let is_listed = |&&(of, record): &&Held| of == NEW || !record.has_expired(expired);
        let mut held = held.iter().filter(is_listed);
        let difference = match (held.next(), held.next()) {
            (Some((_, old)), Some((_, new))) => Difference::Kept(Class::of(old), Class::of(new)),
            (Some((NEW, record)), None) => Difference::Added(*record),
            (Some(_), None) => Difference::Removed,
            (None, _) => return Ok(()),
        };
        visit(difference)
    })
}

/// The number of the stream of NEW; that of OLD is 0.
const NEW: usize = 1;

/// The new classes of records that no edit names. Most have the class of the one before.
#[derive(Debug)]
pub(super) struct Mapped {
    classes: HashMap<Class, Class>,
    last: (Class, Class),
}

impl Mapped {
    /// Returns a map of old classes to new ones; all others stay.
    pub(super) fn new(classes: &[(Class, Class)]) -> Self {
        let classes: HashMap<Class, Class> = classes.iter().copied().collect();
        let of_default = classes.get(&Class::default()).copied();
        Self {
            classes,
            last: (Class::default(), of_default.unwrap_or_default()),
        }
    }

    /// Returns the new class of an old one.
    pub(super) fn of(&mut self, class: Class) -> Class {
        if self.last.0 != class {
            let new = self.classes.get(&class).copied();
            self.last = (class, new.unwrap_or(class));
        }
        self.last.1
    }
}

/// Number of occurrences of each difference of classes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) removed: u64,
    pub(super) added: u64,
    pub(super) kept: u64,
    pairs: HashMap<(Class, Class), u64>,
    added_classes: HashMap<Class, u64>,
    /// The pair of the last record, and the number of consecutive records with this pair.
    run: Option<((Class, Class), u64)>,
    too_many: bool,
}

/// The changes of classes that a delta names.
#[derive(Debug)]
pub(super) struct Classes {
    /// The new class of each class that changes.
    pub(super) mapped: Vec<(Class, Class)>,
    /// Classes of exceptions, and of added records; each with the most frequent first.
    pub(super) changed: Vec<Class>,
    pub(super) added: Vec<Class>,
    /// Number of exceptions.
    pub(super) changed_count: u64,
}

impl Tally {
    pub(super) fn count(&mut self, difference: Difference) {
        match difference {
            Difference::Removed => self.removed += 1,
            Difference::Added(record) => {
                self.added += 1;
                *self.added_classes.entry(Class::of(&record)).or_default() += 1;
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
    pub(super) fn classes(mut self) -> Option<Classes> {
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
        let lengths = [
            classes.changed.len(),
            classes.added.len(),
            classes.mapped.len(),
        ];
        let fits = !self.too_many && lengths.iter().all(|&length| length <= MAX_CLASSES);
        fits.then_some(classes)
    }
}

fn by_frequency(counts: HashMap<Class, u64>) -> Vec<Class> {
    let mut classes: Vec<_> = counts.into_iter().collect();
    classes.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then(a.cmp(b)));
    classes.into_iter().map(|(class, _)| class).collect()
}
