//! An interface that shows how decisions are made, for `explain` and `demo`.

use std::time::Duration;

use crate::milter::Reply;
use crate::policy::{Hit, Policy, Seen, Verdict};
use crate::sender::Sender;
use crate::snapshot::Snapshot;

/// Observes how decisions are made. `explain` and `demo` use it; the daemon does not.
pub trait Observer {
    /// Returns whether the decisions are about mail: only then they are counted, logged and kept.
    fn is_about_mail(&self) -> bool {
        true
    }
    /// Called for each look-up, or with the reason why there was none.
    fn seen(&mut self, _policy: &Policy, _sender: &Sender<'_>, _seen: &Seen<'_>) {}
    /// Called for each verdict on a recipient or a message.
    fn decided(&mut self, _decision: &Decision<'_>) {}
}

impl Observer for () {}

/// A verdict, and everything that led to it.
#[derive(Debug)]
pub struct Decision<'a> {
    /// The configuration and filters.
    pub snapshot: &'a Snapshot,
    /// All senders on lists, including whitelisted ones.
    pub hits: &'a [Hit],
    /// The action, and its reason.
    pub verdict: Verdict,
    /// The answer to the mail server.
    pub reply: &'a Reply,
    /// Time spent on the message so far.
    pub spent: Duration,
}
