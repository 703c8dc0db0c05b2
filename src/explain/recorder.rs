//! Records the look-ups and the last decision of the daemon's own code.

use std::collections::HashMap;

use super::decision::RecordedDecision;
use super::explanation::{Lookup, Named};
use crate::lookup::Outcome;
use crate::policy::{Policy, Seen};
use crate::screen::{Decision, Observer};
use crate::sender::{Identity, Sender, Strength};

/// Records look-ups and the last decision.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) named: HashMap<(Identity, Strength, Vec<u8>), Named>,
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
        let key = (sender.identity, sender.strength, sender.address.to_vec());
        let named = self.named.entry(key).or_default();
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
