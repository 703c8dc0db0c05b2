//! A decision of the daemon's own code, without references to the message.

use std::time::Duration;

use serde::Serialize;

use crate::policy::{Action, Reason};
use crate::screen::Decision;

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
        let hit = verdict.hit_of(decision.hits);
        let list = hit.and_then(|hit| decision.snapshot.policy.lists().get(hit.list));
        let reason = match decision.exemption {
            Some(exemption) => exemption.name(),
            None if verdict.action == Some(Action::Log) && verdict.reason == Reason::Listed => {
                "log-only"
            }
            None => verdict.reason.name(),
        };
        let action = verdict.action.filter(|&action| action != Action::Log);
        let unsoftened = verdict.softened();
        Self {
            verdict: action.map_or("accept", Action::name).to_owned(),
            reply: decision.reply.shown(),
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
