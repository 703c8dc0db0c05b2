//! Looks up the senders of a message, without ever waiting for a disk.
//!
//! Senders are looked up one after the other, in the order in which they are likely listed: the
//! envelope's at RCPT; at the end of the headers those of From, and then all others. Reads that
//! memory cannot answer are noted, and done by special threads
//! ([`Readers`](crate::daemon::Readers)), up to [`READS_AT_ONCE`] at a time. Then the same senders
//! are looked up again with the answers. An unlisted sender needs no read (except for filters on
//! disk), so almost every message gets its answer at once.
//!
//! ```text
//!   sender, sender, ... --all in memory-----------------------> next
//!                       --reads noted--> Later ... answers ---> again, with the answers
//!                       --a long message--> Later, after the other connections
//! ```
//!
//! The look-ups end early if no remaining look-up could change the result, or if the message's
//! [`Budget`] is exhausted. In the second case the message is undecided, unless the senders that
//! were looked up cause a refusal.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tracing::debug;

use super::message::Message;
use super::observer::Observer;
use super::progress::{Batch, Cursor, Part, Pending, Progress};
use super::state::Screen;
use super::workspace::Workspace;
use crate::address::escaped;
use crate::daemon::Deadline;
use crate::lookup::{self, Outcome, Read, Reads};
use crate::policy::{Budget, Circumstances, Policy, Reach, Seen, Softening, is_aligned};
use crate::sender::Sender;
use crate::snapshot::Snapshot;

/// Reads of a message at a time. A message needs one, rarely two, unless its filters are on disk.
const READS_AT_ONCE: usize = 64;
/// When the verdict is certain, this many more senders are looked up, for the log. No real message
/// has more.
const SENDERS_FOR_THE_LOG: u32 = 16;

/// Whether all requested senders are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// Yes, as far as necessary.
    Done,
    /// No; [`Screen::poll_look_up`] continues.
    Later,
}

impl<O: Observer> Screen<O> {
    /// Looks up the senders up to and including this part.
    pub(super) fn look_up(&mut self, snapshot: &Snapshot, last: Part) -> Looked {
        let mut noted = Vec::new();
        let Progress { cursor, budget, .. } = self.message.progress;
        let mut from = cursor;
        let mut hits = self.message.hits.len();
        let at_once = self.shows_all();
        while !self.message.is_looked_up() {
            let mut cursor = self.message.progress.cursor;
            let reads = if at_once {
                Reads::Now
            } else {
                Reads::Note(&mut noted)
            };
            if !self.examine_next(snapshot, &mut cursor, last, reads) {
                // Skip also a sender for which the budget was too small: the reads noted for it are
                // done.
                self.message.progress.cursor = cursor;
                break;
            }
            self.message.progress.cursor = cursor;
            let turn_is_over = !at_once && self.message.progress.budget.is_a_turn_from(&budget);
            if noted.is_empty() {
                from = cursor;
                self.note_if_final(snapshot, hits, last);
                hits = self.message.hits.len();
                if turn_is_over {
                    self.message.progress.pending = Some(Pending::Turn { taken: false });
                    return Looked::Later;
                }
            } else if turn_is_over || noted.len() >= READS_AT_ONCE {
                break;
            }
        }
        let Some(readers) = self.readers.as_ref().filter(|_| !noted.is_empty()) else {
            return Looked::Done;
        };
        let patience = Duration::from_millis(snapshot.config.limits.read_ms);
        let progress = &mut self.message.progress;
        let deadline = *(progress.deadline).get_or_insert_with(|| Deadline::after(patience));
        noted.sort_by_key(|read| Arc::as_ptr(read.filter()));
        let batches = noted.chunk_by(|a, b| Arc::ptr_eq(a.filter(), b.filter()));
        let batches = batches.map(|reads| {
            let reads: Arc<[Read]> = reads.into();
            let disk = reads
                .first()
                .map_or(0, |read| Arc::as_ptr(read.filter()).addr());
            Batch {
                waiting: readers.submit(disk, Arc::clone(&reads), Read::answer, deadline),
                reads,
                answers: None,
            }
        });
        self.message.progress.pending = Some(Pending::Reads {
            from,
            hits,
            batches: batches.collect(),
        });
        Looked::Later
    }

    /// Continues after [`Looked::Later`]; ready when the senders up to this part are looked up.
    pub(super) fn poll_look_up(
        &mut self,
        cx: &mut Context<'_>,
        snapshot: &Snapshot,
        last: Part,
    ) -> Poll<()> {
        loop {
            match &mut self.message.progress.pending {
                None => {}
                Some(Pending::Turn { taken: true }) => {}
                Some(Pending::Turn { taken }) => {
                    *taken = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Pending::Reads { batches, .. }) => {
                    for batch in batches {
                        ready!(batch.poll(cx));
                    }
                    self.look_up_again(snapshot, last);
                }
            }
            self.message.progress.pending = None;
            if self.look_up(snapshot, last) == Looked::Done {
                return Poll::Ready(());
            }
        }
    }

    /// Looks up the senders again whose reads are done.
    fn look_up_again(&mut self, snapshot: &Snapshot, last: Part) {
        let Some(Pending::Reads {
            mut from,
            hits,
            batches,
        }) = self.message.progress.pending.take()
        else {
            return;
        };
        let known = batches.into_iter().flat_map(|batch| {
            let reads: Vec<_> = batch.reads.iter().cloned().collect();
            let answers = batch.answers.unwrap_or_default().into_iter();
            let late = std::iter::repeat_with(|| Err(lookup::Error::NotInTime));
            reads.into_iter().zip(answers.chain(late))
        });
        let known: Vec<_> = known.collect();
        self.message.hits.truncate(hits);
        let end = self.message.progress.cursor;
        let budget = std::mem::replace(&mut self.message.progress.budget, Budget::UNLIMITED);
        while from != end {
            let before = self.message.hits.len();
            if !self.examine_next(snapshot, &mut from, last, Reads::Known(&known)) {
                break;
            }
            self.note_if_final(snapshot, before, last);
        }
        self.message.progress.budget = budget;
    }

    /// Examines the next sender; `false` if there is none, or no budget for it.
    fn examine_next(
        &mut self,
        snapshot: &Snapshot,
        cursor: &mut Cursor,
        last: Part,
        reads: Reads<'_>,
    ) -> bool {
        let Self {
            live,
            observer,
            message,
            ..
        } = self;
        let Some(Workspace { senders, scratch }) = message.workspace.as_deref_mut() else {
            return false;
        };
        let Some(sender) = cursor.next(senders, last) else {
            return false;
        };
        let policy = &snapshot.policy;
        let queue_id = &message.queue_id;
        let dkim = &message.dkim;
        let is_last_look = matches!(reads, Reads::Known(_));
        let mut unread = false;
        let aligned = |domain: &[u8]| dkim.iter().any(|signer| is_aligned(signer, domain));
        let mut now = Circumstances {
            reads,
            budget: &mut message.progress.budget,
            today: message.today,
            aligned: &aligned,
        };
        let examined = policy.examine(&sender, &mut now, scratch, &mut message.hits, |seen| {
            if let Seen::Entry { list, outcome, .. } = &seen {
                let counts = snapshot.counts.get(*list).map(|counts| &counts.list);
                match outcome {
                    Outcome::FalsePositive => {
                        if let Some(counts) = counts {
                            counts.false_positives.increment();
                        }
                    }
                    Outcome::Failed(failure) => {
                        if let Some(counts) = counts {
                            counts.failures.increment();
                        }
                        let name = policy.lists().get(*list).map_or("", |list| list.name());
                        live.tell_failure(name, &failure.to_string());
                    }
                    // The budget was too small to note all reads for this sender.
                    Outcome::Unread => unread |= is_last_look,
                    Outcome::Miss
                    | Outcome::Unproved
                    | Outcome::Expired(_)
                    | Outcome::Listed(_) => {}
                }
            }
            log_look_up(queue_id, policy, &sender, &seen);
            observer.seen(policy, &sender, &seen);
        });
        message.progress.unfinished |= examined.is_err() || unread;
        examined.is_ok()
    }

    /// Checks whether the verdict is certain, or counts the senders looked up since it is. `hits`
    /// is the number of hits before the last sender. No verdict is certain before all recipients
    /// are known.
    fn note_if_final(&mut self, snapshot: &Snapshot, hits: usize, last: Part) {
        let may_end = !self.shows_all();
        let message = &mut self.message;
        if let Some(seen) = &mut message.progress.seen_since_final {
            *seen += 1;
        } else if may_end
            && message.hits.len() > hits
            && last > Part::Envelope
            && (snapshot.policy).is_final(&message.hits, message.reach(), message.softening())
        {
            message.progress.seen_since_final = Some(0);
        }
    }

    /// Starts to measure the time of a step.
    pub(super) fn begin(&mut self) {
        self.message.began.get_or_insert_with(Instant::now);
        self.message.progress.deadline = None;
    }

    /// Adds the time of a step, including waiting, to the time of the message.
    pub(super) fn end(&mut self) {
        if let Some(began) = self.message.began.take() {
            self.message.spent += began.elapsed();
        }
    }
}

/// Logs each look-up and its outcome, at level debug.
fn log_look_up(queue_id: &[u8], policy: &Policy, sender: &Sender<'_>, seen: &Seen<'_>) {
    let list_of = |list: &usize| policy.lists().get(*list).map_or("", |list| list.name());
    let (list, entry, outcome) = match seen {
        Seen::NoAddress => ("", &b""[..], "not an address"),
        Seen::Cleared(entry) => ("", *entry, "cleared by the whitelist"),
        Seen::Unaligned(entry) => ("", *entry, "on the whitelist, but without a DKIM signature"),
        Seen::Entry {
            list,
            entry,
            outcome,
            ..
        } => {
            let outcome = match outcome {
                Outcome::Miss => "not listed",
                Outcome::FalsePositive => "not listed: hits a page, but has no record",
                Outcome::Unproved => "listed, without a record",
                Outcome::Expired(_) => "expired",
                Outcome::Listed(_) => "listed",
                Outcome::Unread => "to be read",
                Outcome::Failed(_) => "not known: cannot be read",
            };
            (list_of(list), *entry, outcome)
        }
    };
    debug!(
        queue_id = %escaped(queue_id),
        identity = sender.identity.name(),
        address = %escaped(sender.address),
        list,
        entry = %escaped(entry),
        outcome,
        "looked up"
    );
}

impl Message {
    /// Returns whether no remaining look-up could change the verdict, or none is allowed.
    fn is_looked_up(&self) -> bool {
        let Progress {
            unfinished,
            seen_since_final,
            ..
        } = self.progress;
        unfinished || seen_since_final.is_some_and(|senders| senders >= SENDERS_FOR_THE_LOG)
    }

    /// Returns the sets of lists that affect the recipients.
    pub(super) fn reach(&self) -> &[u64] {
        match self.reach.sets() {
            _ if self.overtaken => Reach::EVERYBODY,
            // Without any RCPT (an old mail server that skips it), every list affects the message.
            [] => Reach::EVERYBODY,
            sets => sets,
        }
    }

    pub(super) fn softening(&self) -> Softening {
        Softening {
            mailing_list: self.mailing_list,
            circuit_breaker: self.circuit_breaker,
        }
    }
}
