//! Looks up the senders of a message, without ever waiting for a disk.
//!
//! Senders are looked up one after the other, in the order in which they are likely listed: the
//! envelope's at RCPT; at the end of the headers those of From, and then all others. Where memory
//! cannot answer, the look-up suspends at this sender: its reads, and those of the senders after it,
//! up to [`READS_AT_ONCE`], are done by other threads ([`Reader`](super::Reader)), and then it goes
//! on with the answers. An unlisted sender needs no read (except for filters on disk), so almost
//! every message gets its answer at once.
//!
//! ```text
//!   sender, sender, ... --all in memory-----------------------> next
//!                       --reads noted--> Later ... answers ---> again, with the answers
//!                       --a long message--> Later, after the other connections
//! ```
//!
//! The look-ups end early if no remaining look-up could change the result, or if the message's
//! [`Budget`] is exhausted. In the second case the message is undecided,
//! unless the senders that were looked up cause a refusal.

use std::task::{Context, Poll};
use std::time::Instant;

use tracing::debug;

use super::reads::Pending;
use super::state::{Message, Observer, Part, Progress, Screen, WaitsFor, Workspace};
use crate::policy::{Budget, Circumstances, ListSets, Policy, Seen, is_aligned};
use crate::sender::Sender;
use crate::snapshot::Snapshot;
use blocklist_filter::address::escaped;
use blocklist_filter::lookup::{Outcome, Read, Reads};

/// Reads of a message at a time. A message needs one, rarely two, unless its filters are on disk.
const READS_AT_ONCE: usize = 64;
/// When the verdict is certain, this many more senders are looked up, for the log.
const SENDERS_FOR_THE_LOG: u32 = 16;

impl<O: Observer> Screen<O> {
    /// Looks up the senders up to and including this part, as far as necessary. If that takes time,
    /// [`Screen::poll_look_up`] continues.
    pub(super) fn look_up(&mut self, snapshot: &Snapshot, last: Part) -> Poll<()> {
        let begun = self.message.progress.budget;
        let at_once = self.shows_all();
        let mut noted = Vec::new();
        // Where to go on with the answers.
        let mut suspended = None;
        while !self.message.is_looked_up() {
            let Progress { cursor, budget, .. } = self.message.progress;
            let hits = self.message.hits.len();
            let more = self.examine_next(snapshot, last, &mut noted);
            let progress = &mut self.message.progress;
            let turn_is_over = !at_once && progress.budget.is_a_turn_from(&begun);
            if !noted.is_empty() {
                suspended.get_or_insert((cursor, budget, hits));
                if !more || turn_is_over || noted.len() >= READS_AT_ONCE {
                    break;
                }
                continue;
            }
            if !more {
                break;
            }
            self.note_if_final(snapshot, hits, last);
            if turn_is_over {
                self.message.progress.waits_for = Some(WaitsFor::Turn { taken: false });
                return Poll::Pending;
            }
        }
        let (Some((cursor, budget, hits)), Some(reader)) = (suspended, &self.reader) else {
            return Poll::Ready(());
        };
        self.message.hits.truncate(hits);
        let progress = &mut self.message.progress;
        (progress.cursor, progress.budget) = (cursor, budget);
        progress.unfinished = false;
        if progress.known.0 != cursor {
            progress.known = (cursor, Vec::new());
        }
        let deadline = || Instant::now() + reader.patience();
        progress.deadline.get_or_insert_with(deadline);
        // A flood of messages with thousands of senders must not use up a slow disk.
        let can_wait = budget.is_a_turn_from(&Budget::default());
        let pending = Pending::submit(noted, can_wait, &**reader);
        progress.waits_for = Some(WaitsFor::Reads(pending));
        Poll::Pending
    }

    /// Continues to look up; ready when the senders up to this part are looked up.
    pub(super) fn poll_look_up(
        &mut self,
        cx: &mut Context<'_>,
        snapshot: &Snapshot,
        last: Part,
    ) -> Poll<()> {
        loop {
            let progress = &mut self.message.progress;
            match progress.waits_for.take() {
                None | Some(WaitsFor::Turn { taken: true }) => {}
                Some(WaitsFor::Turn { taken: false }) => {
                    progress.waits_for = Some(WaitsFor::Turn { taken: true });
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(WaitsFor::Reads(pending)) => {
                    let has_time = |deadline| Instant::now() < deadline;
                    if progress.deadline.is_some_and(has_time)
                        && pending.iter().any(|one| one.poll(cx).is_pending())
                    {
                        progress.waits_for = Some(WaitsFor::Reads(pending));
                        return Poll::Pending;
                    }
                    for one in pending {
                        one.take(&mut progress.known.1);
                    }
                }
            }
            if self.look_up(snapshot, last).is_ready() {
                return Poll::Ready(());
            }
        }
    }

    /// Examines the next sender; `false` if there is none, or no budget for it. Reads that must be
    /// done first are `noted`.
    fn examine_next(&mut self, snapshot: &Snapshot, last: Part, noted: &mut Vec<Read>) -> bool {
        let at_once = self.shows_all();
        let Self {
            live,
            observer,
            message,
            ..
        } = self;
        let Some(Workspace { senders, scratch }) = message.workspace.as_deref_mut() else {
            return false;
        };
        let progress = &mut message.progress;
        let Some(sender) = progress.cursor.next(senders, last) else {
            return false;
        };
        let policy = &snapshot.policy;
        let queue_id = &message.queue_id;
        let dkim = &message.dkim;
        let aligned = |domain: &[u8]| dkim.iter().any(|signer| is_aligned(signer, domain));
        let known = &progress.known.1;
        let mut now = Circumstances {
            reads: match at_once {
                true => Reads::Now,
                false => Reads::Later { known, noted },
            },
            budget: &mut progress.budget,
            today: message.today,
            aligned: &aligned,
        };
        let examined = policy.examine(&sender, &mut now, scratch, &mut message.hits, |seen| {
            if observer.is_about_mail()
                && let Seen::Entry { list, outcome, .. } = &seen
                && let Some(counts) = snapshot.counts.get(*list)
            {
                match outcome {
                    Outcome::FalsePositive => counts.list.false_positives.increment(),
                    Outcome::Failed(failure) => {
                        counts.list.failures.increment();
                        live.tell_failure(policy.list_name(*list), &failure.to_string());
                    }
                    Outcome::Unread
                    | Outcome::Miss
                    | Outcome::Unproved
                    | Outcome::Expired(_)
                    | Outcome::Listed(_) => {}
                }
            }
            log_look_up(queue_id, policy, &sender, &seen);
            observer.seen(policy, &sender, &seen);
        });
        progress.unfinished |= examined.is_err();
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
            && (snapshot.policy).is_final(&message.hits, message.reach(), message.softening)
        {
            message.progress.seen_since_final = Some(0);
        }
    }

    /// Begins a step.
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
    let (list, entry, outcome) = match seen {
        Seen::NoAddress => ("", &b""[..], "not an address"),
        Seen::Cleared(entry) => ("", *entry, "cleared by the whitelist"),
        Seen::Unaligned(entry) => ("", *entry, "on the whitelist, but without a DKIM signature"),
        Seen::NotExempt => (
            "",
            &b""[..],
            "a correspondent, but the list does not exempt them",
        ),
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
            (policy.list_name(*list), *entry, outcome)
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
    /// Whether no remaining look-up could change the verdict, or none is allowed.
    fn is_looked_up(&self) -> bool {
        let is_enough = |senders| senders >= SENDERS_FOR_THE_LOG;
        self.progress.unfinished || self.progress.seen_since_final.is_some_and(is_enough)
    }

    /// The sets of lists that affect the recipients.
    pub(super) fn reach(&self) -> &[u64] {
        match self.reach.sets() {
            _ if self.overtaken => ListSets::EVERYBODY,
            // Without any RCPT (an old mail server that skips it), every list affects the message.
            [] => ListSets::EVERYBODY,
            sets => sets,
        }
    }
}
