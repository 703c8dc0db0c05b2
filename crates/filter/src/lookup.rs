//! Whether a sender is listed: for the daemon, its checks at a reload, the commands that query a
//! filter, and programs of others.
//!
//! [`Lookup::find`] is all that most need. [`Lookup::visit`] is below it, for those who reuse memory, want to know why a
//! sender is not listed, or must not wait for a disk. Memory answers most look-ups; the others need a read of the file, which may be slow or hang.
//! [`Reads`] says how such a read is done, so that no thread that serves mail ever waits for a disk:
//!
//! ```text
//!   Reads::Now     read here and now                                  commands, checks
//!   Reads::Later   use the answers that are known, and note what else to read ----+    the daemon
//!                              ^                                                   |
//!                              +----- another thread: Read::answer for each <------+
//! ```

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::address::{Canonical, Kind, Kinds, RULES_VERSION, Rules};
use crate::base::clock::today;
use crate::base::day::Day;
use crate::filter::{self, Answer, Filter, Key, Load, Record, Source, Spec};
use crate::rfc5322::quoted;

/// Why a filter gives no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The filter was compiled with other address rules, so its keys mean something else.
    #[error(
        "{}: compiled with address rules {found} (options {options:#04x}), but this program has {RULES_VERSION}: build the filter again",
        path.display()
    )]
    Rules {
        /// The filter file.
        path: PathBuf,
        /// Version in the file.
        found: u16,
        /// Option bits in the file.
        options: u8,
    },
    /// The file cannot be read, or is damaged.
    #[error(transparent)]
    Filter(Arc<filter::Error>),
    /// A noted read took too long, or was not started.
    #[error("the filter was not read in time")]
    NotInTime,
}

impl From<filter::Error> for Error {
    fn from(error: filter::Error) -> Self {
        Self::Filter(Arc::new(error))
    }
}

/// What a filter says about an entry on a day.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// Not listed.
    Miss,
    /// The Bloom page matches, but there is no record of the entry: not listed.
    FalsePositive,
    /// The Bloom page matches, and the filter has no records to confirm it.
    Unproved,
    /// The entry was listed, and has expired.
    Expired(Record),
    /// Listed.
    Listed(Record),
    /// Unknown, because of an error.
    Failed(&'a Error),
    /// Not known yet: the read was noted ([`Reads::Later`]).
    Unread,
}

impl<'a> Outcome<'a> {
    /// Entries that expire on or before this day are no longer listed.
    fn of(answer: &'a Result<Answer, Error>, today: u16) -> Self {
        match answer {
            Ok(Answer::Miss) => Self::Miss,
            Ok(Answer::FalsePositive) => Self::FalsePositive,
            Ok(Answer::Unproved) => Self::Unproved,
            Ok(Answer::Listed(record)) if record.has_expired(today) => Self::Expired(*record),
            Ok(Answer::Listed(record)) => Self::Listed(*record),
            Err(error) => Self::Failed(error),
        }
    }
}

/// An entry that lists a sender, and what its record says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing<'a> {
    /// The entry in canonical form: `a@b`, `a@`, `@b` or `.b`. It may hold any bytes:
    /// [`escaped`](crate::address::escaped) shows them.
    pub entry: Vec<u8>,
    /// What the entry names.
    pub kind: Kind,
    /// The list that it came from; `None` without a record.
    pub source: Option<&'a Source>,
    /// The day on which it was added; `None` without a record.
    pub added: Option<Day>,
    /// The first day on which it is no longer listed, if there is one.
    pub expires: Option<Day>,
    /// Whether a record confirms it. If not, the filter has no records, and its pages match some senders who are not listed:
    /// a share of about [`Spec::fpr`] for each kind of entry.
    pub is_proved: bool,
}

/// A look-up of a key that needs a read of the filter's file.
#[derive(Clone, Debug)]
pub struct Read {
    filter: Arc<Filter>,
    key: Key,
}

impl Read {
    /// Reads the file. Do not call it on a thread that must not block.
    ///
    /// # Errors
    /// As [`Filter::look_up`].
    pub fn answer(&self) -> Result<Answer, Error> {
        Ok(self.filter.look_up(self.key)?)
    }

    /// Returns the filter whose file is read.
    pub fn filter(&self) -> &Arc<Filter> {
        &self.filter
    }
}

/// What to do when memory alone cannot answer.
#[derive(Debug)]
pub enum Reads<'a> {
    /// Read at once, on this thread.
    Now,
    /// Do not read.
    Later {
        /// The answers to reads that were noted before.
        known: &'a [(Read, Result<Answer, Error>)],
        /// Where to note any other read, once; the outcome is [`Outcome::Unread`].
        noted: &'a mut Vec<Read>,
    },
}

/// A filter whose keys this program can make. A clone uses the same filter, and threads can share one.
#[derive(Clone, Debug)]
pub struct Lookup {
    filter: Arc<Filter>,
    rules: Rules,
    kinds: Kinds,
}

impl Lookup {
    /// Wraps a filter.
    ///
    /// # Errors
    /// [`Error::Rules`]: this program makes other keys, so the filter would miss what it lists.
    pub fn new(filter: Arc<Filter>) -> Result<Self, Error> {
        let (rules, kinds) = keys_of(filter.path(), filter.spec())?;
        Ok(Self {
            filter,
            rules,
            kinds,
        })
    }

    /// Opens a filter file, and checks what [`Filter::open`] checks.
    ///
    /// # Errors
    /// [`Error::Filter`] with the errors of [`Filter::open`]; [`Error::Rules`] as for [`new`](Self::new).
    pub fn open(path: &Path, load: Load) -> Result<Self, Error> {
        Self::new(Arc::new(Filter::open(path, load)?))
    }

    /// Returns the filter.
    pub fn filter(&self) -> &Arc<Filter> {
        &self.filter
    }

    /// Returns the rules by which addresses must be read for this filter.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns the entries that list a sender today (in UTC), in any spelling: the mailbox, the local part, the domain, the
    /// domains above it. If there is none, the sender is not listed. A text that is no address, such as the empty sender
    /// `<>`, is not listed; nor is one of more than [`MAX_WRITTEN_BYTES`](crate::address::MAX_WRITTEN_BYTES), which no mail server passes on.
    ///
    /// Reads the file on this thread if a page matches and its records are not in memory, which is rare for senders that are not listed.
    ///
    /// # Errors
    /// [`Error::Filter`]: a read failed, or found damage. The sender may be listed or not.
    pub fn find(&self, sender: &[u8]) -> Result<Vec<Listing<'_>>, Error> {
        let mut found = Vec::new();
        let Ok(sender) = Canonical::parse(sender, self.rules) else {
            return Ok(found);
        };
        let asked = self.visit(&sender, today(), &mut Reads::Now, |kind, entry, outcome| {
            match self.listing(kind, entry, &outcome) {
                Ok(listing) => found.extend(listing),
                Err(error) => return ControlFlow::Break(error),
            }
            ControlFlow::Continue(())
        });
        asked.break_value().map_or(Ok(found), Err)
    }

    /// The same for a mailbox as a mail server has understood it: without the quotes of the local part, which the last `@` ends. So
    /// it stands in Postfix's policy protocol (`sender=`) and in variables of Exim.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_understood(&self, mailbox: &[u8]) -> Result<Vec<Listing<'_>>, Error> {
        self.find(&quoted(mailbox))
    }

    /// Returns what an outcome of this filter says of an entry; `None` if it is not listed.
    ///
    /// # Errors
    /// That of [`Outcome::Failed`]; [`Error::NotInTime`] for [`Outcome::Unread`].
    pub fn listing(
        &self,
        kind: Kind,
        entry: &[u8],
        outcome: &Outcome<'_>,
    ) -> Result<Option<Listing<'_>>, Error> {
        let record = match outcome {
            Outcome::Miss | Outcome::FalsePositive | Outcome::Expired(_) => return Ok(None),
            Outcome::Unread => return Err(Error::NotInTime),
            Outcome::Failed(error) => return Err((*error).clone()),
            Outcome::Unproved => None,
            Outcome::Listed(record) => Some(record),
        };
        Ok(Some(Listing {
            entry: entry.to_owned(),
            kind,
            source: record.and_then(|record| self.filter.source(record.source)),
            added: record.map(|record| Day(record.added)),
            expires: record.and_then(|record| record.expires).map(Day),
            is_proved: record.is_some(),
        }))
    }

    /// Visits every entry that could list this sender, with what the filter says about it, and
    /// stops at the first `Break`: at most one for each kind and spelling, and one for each label of the domain. `today` is in
    /// days since 1970. A miss allocates nothing.
    pub fn visit<B>(
        &self,
        sender: &Canonical,
        today: u16,
        reads: &mut Reads<'_>,
        mut visit: impl FnMut(Kind, &[u8], Outcome<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        sender.lookups(self.kinds, |kind, entry| {
            self.ask(entry, today, reads, |outcome| visit(kind, entry, outcome))
        })
    }

    /// Looks up one entry, given in its canonical form, on a day since 1970, and passes the outcome to `then`.
    pub fn ask<T>(
        &self,
        entry: &[u8],
        today: u16,
        reads: &mut Reads<'_>,
        then: impl FnOnce(Outcome<'_>) -> T,
    ) -> T {
        let key = Key::of(entry, self.filter.spec().seed);
        if let Some(answer) = self.filter.look_up_in_memory(key) {
            return then(Outcome::of(&Ok(answer), today));
        }
        match reads {
            Reads::Now => {
                let answer = self.filter.look_up(key).map_err(Error::from);
                then(Outcome::of(&answer, today))
            }
            Reads::Later { known, noted } => {
                let is_it =
                    |read: &Read| read.key == key && Arc::ptr_eq(&read.filter, &self.filter);
                if let Some((_, answer)) = known.iter().find(|(read, _)| is_it(read)) {
                    return then(Outcome::of(answer, today));
                }
                if !noted.iter().any(is_it) {
                    let filter = Arc::clone(&self.filter);
                    noted.push(Read { filter, key });
                }
                then(Outcome::Unread)
            }
        }
    }
}

/// Returns how the keys of a filter, or of a part of a list, are made, if this program can.
#[doc(hidden)]
pub fn keys_of(path: &Path, spec: &Spec) -> Result<(Rules, Kinds), Error> {
    let keys = understood(spec.rules_version, spec.rules, spec.kinds);
    keys.ok_or_else(|| Error::Rules {
        path: path.to_owned(),
        found: spec.rules_version,
        options: spec.rules,
    })
}

/// Returns the same by the values of a header; `None` if this program cannot.
#[doc(hidden)]
pub fn understood(rules_version: u16, rules: u8, kinds: u8) -> Option<(Rules, Kinds)> {
    let rules = Rules::from_bits(rules).filter(|_| rules_version == RULES_VERSION)?;
    Some((rules, Kinds::from_bits(kinds)?))
}

/// Returns the false positive rate for a sender, 1 - (1 - p)^n, given the rate p for one of its keys, and the kinds of
/// entry that the filter holds ([`Spec::kinds`]).
///
/// It is that of a sender whose domain has three labels, each of whose keys is looked up: n is 1 to 5.
pub fn rate_per_sender(rate: f64, kinds: u8) -> f64 {
    1.0 - (1.0 - rate).powi(lookups(kinds))
}

/// Returns the number of look-ups for one sender in a filter that holds `kinds` (a bit for each), if
/// its domain has three labels: it then lies in two subtrees.
fn lookups(kinds: u8) -> i32 {
    Kind::ALL
        .into_iter()
        .filter(|kind| kinds >> *kind as u8 & 1 == 1)
        .map(|kind| match kind {
            Kind::Mailbox | Kind::LocalPart | Kind::Domain => 1,
            Kind::Subtree => 2,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_looked_up_once_for_each_kind_of_entry() {
        assert_eq!([0, 0b1, 0b101, 0b1111].map(lookups), [0, 1, 2, 5]);
        let mut looked_up = 0;
        let sender = Canonical::parse(b"user@mail.host.example", Rules::default()).unwrap();
        let _ = sender.lookups(Kinds::ALL, |_, _| {
            looked_up += 1;
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(looked_up, lookups(0b1111));
        assert!((rate_per_sender(1e-6, 0b1111) - 5e-6).abs() < 1e-10);
    }
}
