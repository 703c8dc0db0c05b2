//! Records the look-ups and the last decision of the daemon's own code.

use std::time::Duration;

use serde::Serialize;

use super::explanation::{Lookup, Named};
use crate::lookup::Outcome;
use crate::milter::Reply;
use crate::policy::{Action, Policy, Reason, Seen};
use crate::screen::{Decision, Observer};
use crate::sender::{Identity, Sender, Strength};

/// Records look-ups and the last decision.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) named: Vec<(Identity, Strength, Vec<u8>, Named)>,
    pub(super) decision: Option<RecordedDecision>,
}

/// A decision, without references to the message.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordedDecision {
    /// `accept`, `reject`, `tempfail`, `quarantine`, `tag` or `discard`.
    pub verdict: String,
    /// The reply to the SMTP client, if the message is refused.
    pub reply: Option<String>,
    /// The reason: `listed`, `unlisted`, `whitelisted`, `exempt-recipient`, `mailing-list` ...
    pub reason: String,
    /// The deciding list.
    pub list: Option<String>,
    /// The list's own action, if the reason led to a milder one.
    pub unsoftened: Option<String>,
    /// The field with the listed sender; empty if there is none.
    #[serde(skip)]
    pub identity: &'static str,
    /// The time that it took.
    #[serde(skip)]
    pub spent: Duration,
}

impl RecordedDecision {
    /// Keeps what is shown of a decision.
    pub fn of(decision: &Decision<'_>) -> Self {
        let verdict = decision.verdict;
        let hit = verdict.hit.and_then(|index| decision.hits.get(index));
        let list = hit.and_then(|hit| decision.snapshot.policy.lists().get(hit.list));
        let reason = match decision.exemption {
            Some(exemption) => exemption.name(),
            None if verdict.action == Some(Action::Log) && verdict.reason == Reason::Listed => {
                "log-only"
            }
            None => verdict.reason.name(),
        };
        let action = verdict.action.filter(|&action| action != Action::Log);
        let unsoftened = verdict.unsoftened;
        let unsoftened = unsoftened.filter(|&own| Some(own) != verdict.action);
        Self {
            verdict: action.map_or("accept", Action::name).to_owned(),
            reply: text_of(decision.reply),
            reason: reason.to_owned(),
            list: list.map(|list| list.name().to_owned()),
            identity: hit.map_or("", |hit| hit.identity.name()),
            unsoftened: unsoftened.map(|own| own.name().to_owned()),
            spent: decision.spent,
        }
    }

    /// Returns whether this only defers a recipient, which needs a transaction of its own.
    pub(super) fn is_deferred(&self) -> bool {
        self.reason == Reason::MixedRecipients.name() && self.list.is_none()
    }
}

impl Recorder {
    pub(super) fn clear(&mut self) {
        self.named.clear();
        self.decision = None;
    }
}

impl Observer for Recorder {
    fn is_about_mail(&self) -> bool {
        false
    }

    fn seen(&mut self, policy: &Policy, sender: &Sender<'_>, seen: &Seen<'_>) {
        let (identity, strength) = (sender.identity, sender.strength);
        // Usually the last, because senders are looked up one after the other.
        let at = self
            .named
            .iter()
            .rposition(|n| (n.0, n.1) == (identity, strength) && n.2 == sender.address);
        let at = at.unwrap_or_else(|| {
            self.named.push((
                identity,
                strength,
                sender.address.to_vec(),
                Named::default(),
            ));
            self.named.len() - 1
        });
        let named = &mut self.named[at].3;
        match seen {
            // The canonical form already shows this.
            Seen::NoAddress | Seen::Cleared(_) => {}
            Seen::Unaligned(_) => named.unaligned = true,
            Seen::Entry {
                list,
                kind,
                entry,
                outcome,
            } => {
                let Some(list) = policy.lists().get(*list) else {
                    return;
                };
                let lookup = Lookup::new(list, kind.name(), entry, outcome);
                if named.list.is_none() && matches!(outcome, Outcome::Listed(_) | Outcome::Unproved)
                {
                    named.list = Some(lookup.list.clone());
                    named.entry = Some(lookup.entry.clone());
                }
                named.lookups.push(lookup);
            }
        }
    }

    fn decided(&mut self, decision: &Decision<'_>) {
        self.decision = Some(RecordedDecision::of(decision));
    }
}

pub(super) fn text_of(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Text(text) => Some(text.to_string()),
        Reply::Reject => Some("550 5.7.1 Command rejected".to_owned()),
        Reply::Tempfail => Some("451 4.7.1 Service unavailable - try again later".to_owned()),
        Reply::Continue | Reply::Accept | Reply::Discard | Reply::Later => None,
    }
}
