//! A view of how decisions come about, for `explain` and `demo`.

use std::time::Duration;

use crate::milter::Reply;
use crate::policy::{Exemption, Hit, Policy, Seen, Verdict};
use crate::sender::Sender;
use crate::snapshot::Snapshot;

/// Watches decisions come about; the daemon needs none, `explain` and `demo` do.
pub trait Observer {
    /// One look-up, or why there was none.
    fn seen(&mut self, _policy: &Policy, _sender: &Sender<'_>, _seen: &Seen<'_>) {}
    /// A recipient or a message has its verdict.
    fn decided(&mut self, _decision: &Decision<'_>) {}
}

impl Observer for () {}

/// A verdict with all that led to it.
#[derive(Debug)]
pub struct Decision<'a> {
    /// The rules.
    pub snapshot: &'a Snapshot,
    /// All senders that lists name, whitelisted ones too.
    pub hits: &'a [Hit],
    /// What is done, and why.
    pub verdict: Verdict,
    /// Why the client is not refused anything.
    pub exemption: Option<Exemption>,
    /// The answer.
    pub reply: &'a Reply,
    /// Time spent on the message so far.
    pub spent: Duration,
}
