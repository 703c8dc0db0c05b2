//! Records every decision: counts it, for the circuit breaker too, informs the observer, and logs
//! it.

use tracing::{error, warn};

use super::hit_text::shown_address;
use super::observer::{Decision, Observer};
use super::state::Screen;
use crate::address::escaped;
use crate::base::clock::now_s;
use crate::milter::Reply;
use crate::policy::{Action, Change, Hit, Reason, Verdict};
use crate::snapshot::{Refusal, Snapshot};

impl<O: Observer> Screen<O> {
    /// Counts a message once, for the metrics and the circuit breaker.
    fn count(&self, snapshot: &Snapshot, verdict: Verdict) {
        let counters = &self.live.counters;
        counters.verdicts.increment(verdict.action);
        match self.message.exemption {
            Some(exemption) => counters.exemptions.increment(exemption),
            None => counters.reasons.increment(verdict.reason),
        }
        counters.durations.observe(self.message.spent);
        let decided = verdict.hit.and_then(|index| self.message.hits.get(index));
        if let Some(counts) = decided.and_then(|hit| snapshot.counts.get(hit.list)) {
            counts.list.verdicts.increment(verdict.action);
        }
        if let (Some(hit), Some(action)) = (decided, verdict.action)
            && action.refuses()
            && snapshot.config.status.show_addresses
        {
            counters.remember(self.refusal_of(snapshot, hit, action));
        }
        let limit = snapshot.config.safety.max_reject_share;
        let refuses = verdict.refuses() && verdict.reason == Reason::Listed
            || verdict.reason == Reason::RejectShare;
        let shown = |share: f64| format!("{:.0}%", share * 100.0);
        match self.live.count_refusal(refuses, &snapshot.config) {
            Some(Change::On(share)) => error!(
                share = shown(share),
                %limit,
                "more than max_reject_share of the last five minutes' messages would be refused: turning refusals into tags until the share falls"
            ),
            Some(Change::Off(share)) => warn!(
                share = shown(share),
                %limit, "below max_reject_share: refusals are in effect again"
            ),
            None => {}
        }
    }

    /// Returns a refused sender for the status page.
    fn refusal_of(&self, snapshot: &Snapshot, hit: &Hit, action: Action) -> Refusal {
        let list = snapshot.policy.lists().get(hit.list);
        Refusal {
            time_s: now_s(),
            address: escaped(shown_address(hit)).to_string(),
            identity: hit.identity,
            list: list.map_or_else(String::new, |list| list.name().to_owned()),
            action,
            case: self.message.case.clone(),
        }
    }

    /// Counts the hits since the previous decision.
    fn count_hits(&mut self, snapshot: &Snapshot) {
        let message = &mut self.message;
        for hit in message.hits.iter().skip(message.hits_counted) {
            if let Some(counts) = snapshot.counts.get(hit.list) {
                counts.count(hit);
            }
        }
        message.hits_counted = message.hits.len();
    }

    /// Counts a decision, informs the observer, and writes the log line.
    pub(super) fn record(
        &mut self,
        snapshot: &Snapshot,
        verdict: Verdict,
        recipient: Option<&[u8]>,
        reply: &Reply,
    ) {
        if verdict.hit.is_some() {
            self.ensure_case();
        }
        self.count_hits(snapshot);
        // A message whose recipients are refused one by one counts once.
        if self.message.refused <= 1 && (recipient.is_some() || self.message.refused == 0) {
            self.count(snapshot, verdict);
        }
        self.report(snapshot, verdict, recipient, reply);
    }

    /// Informs the observer and writes the log line.
    pub(super) fn report(
        &mut self,
        snapshot: &Snapshot,
        verdict: Verdict,
        recipient: Option<&[u8]>,
        reply: &Reply,
    ) {
        self.observer.decided(&Decision {
            snapshot,
            hits: &self.message.hits,
            verdict,
            exemption: self.message.exemption,
            reply,
            spent: self.message.spent,
        });
        self.log(snapshot, verdict, recipient);
    }
}
