//! Records the look-ups and the last decision of the daemon's own code.

use super::decision::RecordedDecision;
use super::explanation::{Lookup, Named};
use crate::lookup::Outcome;
use crate::policy::{Policy, Seen};
use crate::screen::{Decision, Observer};
use crate::sender::{Identity, Sender, Strength};

/// Records look-ups and the last decision.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) named: Vec<(Identity, Strength, Vec<u8>, Named)>,
    pub(super) decision: Option<RecordedDecision>,
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
