//! How far the senders of a message are looked up, and what it waits for.

use std::time::Instant;

use super::reads::{Answers, Pending};
use crate::policy::Budget;
use crate::sender::{Identity, Sender, Senders};

/// The groups of senders, in the order in which they are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// MAIL FROM.
    #[default]
    Envelope,
    /// The header From.
    From,
    /// All other headers.
    Others,
    /// None left.
    End,
}

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

    fn next(self) -> Self {
        match self {
            Self::Envelope => Self::From,
            Self::From => Self::Others,
            Self::Others | Self::End => Self::End,
        }
    }
}

/// The position of the next sender to look up: its part, and an index into the senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    part: Part,
    index: usize,
}

impl Cursor {
    /// Returns the next sender in the parts up to `last`.
    pub(super) fn next<'s>(&mut self, senders: &'s Senders, last: Part) -> Option<Sender<'s>> {
        while self.part <= last {
            while let Some(sender) = senders.get(self.index) {
                self.index += 1;
                if Part::of(&sender) == self.part {
                    return Some(sender);
                }
            }
            *self = Self {
                part: self.part.next(),
                index: 0,
            };
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
