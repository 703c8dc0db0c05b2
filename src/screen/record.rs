//! Records every decision: counts it, for the circuit breaker too, informs the observer, and logs
//! it.

use tracing::{error, warn};

use super::hit_text::{file_of, shown_address, source_of};
use super::observer::{self, Observer};
use super::state::Screen;
use crate::address::shortened;
use crate::base::clock::now_s;
use crate::milter::Reply;
use crate::policy::{Change, Reason, Verdict};
use crate::snapshot::{Decision, Snapshot, Who};

/// Most bytes shown of what a sender chooses.
const SHOWN_BYTES: usize = 100;

impl<O: Observer> Screen<O> {
    /// Counts a message once, for the metrics and the circuit breaker.
    fn count(&self, snapshot: &Snapshot, verdict: Verdict) {
        let counters = &self.live.counters;
        counters.verdicts.increment(verdict.action);
        counters.reasons.increment(verdict.reason);
        counters.durations.observe(self.message.spent);
        let decided = verdict.hit_of(&self.message.hits);
        if let Some(counts) = decided.and_then(|hit| snapshot.counts.get(hit.list)) {
            counts.list.verdicts.increment(verdict.action);
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

    /// Remembers a decision other than plain acceptance.
    fn remember(&self, snapshot: &Snapshot, verdict: Verdict, recipient: Option<&[u8]>) {
        let message = &self.message;
        let hit = verdict.hit_of(&message.hits);
        let hit = hit.or_else(|| message.hits.first());
        if hit.is_none() && verdict.action.is_none() {
            return;
        }
        let text = |bytes: &[u8]| shortened(bytes, SHOWN_BYTES);
        let who = || Who {
            sender: hit.map_or_else(String::new, |hit| text(shown_address(hit))),
            entry: hit.map_or_else(String::new, |hit| text(&hit.entry)),
            file: hit.map_or("", |hit| file_of(snapshot, hit)).to_owned(),
            recipient: recipient.map_or_else(String::new, text),
            client: self.origin.text.clone(),
            queue_id: text(&message.queue_id),
        };
        self.live.counters.decisions.remember(Decision {
            number: 0,
            time_s: now_s(),
            case: message.case.clone(),
            action: verdict.action_name().to_owned(),
            reason: verdict.reason.name().to_owned(),
            list: hit
                .map_or("", |hit| snapshot.policy.list_name(hit.list))
                .to_owned(),
            source: hit.map_or("", |hit| source_of(snapshot, hit)).to_owned(),
            identity: hit.map_or("", |hit| hit.identity.name()).to_owned(),
            who: snapshot.config.status.show_addresses.then(who),
        });
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

    /// Counts a decision, informs the observer, and writes the log line. A recipient that is put off counts when the
    /// message is decided.
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
        let is_put_off = verdict == Verdict::APART;
        let is_about_mail = self.observer.is_about_mail();
        if is_about_mail && !is_put_off {
            self.count_hits(snapshot);
        }
        // A message whose recipients are refused one by one counts once.
        let refused = self.message.refused;
        let counts = !is_put_off && refused <= 1 && (recipient.is_some() || refused == 0);
        if counts && is_about_mail {
            self.count(snapshot, verdict);
            self.remember(snapshot, verdict, recipient);
        }
        self.observer.decided(&observer::Decision {
            snapshot,
            hits: &self.message.hits,
            verdict,
            reply,
            spent: self.message.spent,
        });
        if is_about_mail {
            self.log(snapshot, verdict, recipient, counts);
        }
    }
}
