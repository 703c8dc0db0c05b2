//! How far the senders of a message are looked up, and what it waits for.

use std::time::Instant;

use super::reads::{Answers, Pending};
use crate::policy::Budget;
use crate::sender::{Identity, Sender, Senders};

/// The groups of senders, in the order in which they are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// MAIL FROM.
    Envelope,
    /// The header From.
    From,
    /// All other headers.
    Others,
}

const PARTS: [Part; 3] = [Part::Envelope, Part::From, Part::Others];

impl Part {
    fn of(sender: &Sender<'_>) -> Self {
        match sender.identity {
            Identity::MailFrom => Self::Envelope,
            Identity::From => Self::From,
            Identity::Sender
            | Identity::ReplyTo
            | Identity::ReturnPath
            | Identity::ResentFrom
            | Identity::ResentSender
            | Identity::ResentReplyTo => Self::Others,
        }
    }
}

/// The position of the next sender to look up: the number of its part, and an index into the senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    part: usize,
    index: usize,
}

impl Cursor {
    /// Returns the next sender in the parts up to `last`.
    pub(super) fn next<'s>(&mut self, senders: &'s Senders, last: Part) -> Option<Sender<'s>> {
        while let Some(part) = PARTS.get(self.part).filter(|part| **part <= last) {
            while let Some(sender) = senders.get(self.index) {
                self.index += 1;
                if Part::of(&sender) == *part {
                    return Some(sender);
                }
            }
            (self.part, self.index) = (self.part + 1, 0);
        }
        None
    }
}

/// How far the senders of a message are looked up.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) cursor: Cursor,
    pub(super) budget: Budget,
    /// Number of senders looked up since the verdict became certain.
    pub(super) seen_since_final: Option<u32>,
    /// Whether the budget was exhausted before all senders were looked up.
    pub(super) unfinished: bool,
    /// What the message waits for.
    pub(super) waits_for: Option<WaitsFor>,
    /// The answers that the sender at this cursor needs, and those after it.
    pub(super) known: (Cursor, Answers),
    /// The deadline for all reads of this step, set at its first one.
    pub(super) deadline: Option<Instant>,
}

/// What the message waits for.
pub(super) enum WaitsFor {
    /// Until the other connections of the thread have had their turn.
    Turn { taken: bool },
    /// Until reads are done, or the deadline has passed.
    Reads(Vec<Pending>),
}
