//! The result for a message, with all evidence, as text or JSON; and the observer that records it from the
//! daemon's own code.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::policy::{Action, Entries, List, Policy, Reason, Seen};
use crate::screen::{Decision, Observer, source_of};
use crate::sender::{Identity, Sender, Strength};
use blocklist_compile::compile;
use blocklist_filter::address::escaped;
use blocklist_filter::base::day::Day;
use blocklist_filter::lookup::Outcome;

/// A verdict with all evidence. The JSON fields are stable; more may be added.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explanation {
    /// The decision about the message.
    #[serde(flatten)]
    pub decision: RecordedDecision,
    /// The result for each recipient, if any were given.
    pub recipients: Vec<Recipient>,
    /// Every sender found, in the order of the message.
    pub identities: Vec<Named>,
    /// Whether addresses were dropped because there are too many.
    pub truncated: bool,
    /// The changes to the message.
    pub changes: Vec<String>,
}

/// The answer to one recipient's RCPT.
#[derive(Clone, Debug, Serialize)]
pub struct Recipient {
    pub recipient: String,
    pub verdict: &'static str,
    pub reply: Option<String>,
    /// Whether no list affects it.
    pub exempt: bool,
    /// Whether it needs a transaction of its own.
    pub deferred: bool,
}

/// One sender of the message.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Named {
    /// The field: `mail-from`, `from` ...
    pub identity: &'static str,
    /// As written.
    pub address: String,
    /// The canonical form; `null` if it is not an address.
    pub canonical: Option<String>,
    /// Why it is not an address.
    pub fault: Option<String>,
    /// The first list that names it.
    pub list: Option<String>,
    /// The entry of that list.
    pub entry: Option<String>,
    /// Whether the whitelist names it.
    pub whitelisted: bool,
    /// The entry of the whitelist.
    pub whitelist_entry: Option<String>,
    /// Whether the whitelist names it without confirmation by an aligned DKIM signature.
    pub unaligned: bool,
    /// Whether it is a correspondent, and a list that names it does not exempt them.
    pub not_exempt: bool,
    /// Whether it is in a place where no address belongs, or only some mail programs show it.
    pub weak: bool,
    /// Whether only some mail programs show it, and others the address beside it.
    pub doubtful: bool,
    /// Every look-up.
    pub lookups: Vec<Lookup>,
}

/// One entry looked up in one list.
#[derive(Clone, Debug, Serialize)]
pub struct Lookup {
    pub list: String,
    /// `mailbox`, `domain`, `subtree` or `local-part`.
    pub kind: &'static str,
    /// In canonical form.
    pub entry: String,
    /// Whether the Bloom page matches.
    pub page: bool,
    /// `miss`, `false-positive`, `unproved`, `expired`, `listed` or `failed`.
    pub outcome: &'static str,
    /// If there is a record.
    pub source: Option<String>,
    /// The day.
    pub added: Option<String>,
    /// The first day on which it is no longer listed.
    pub expires: Option<String>,
    pub failure: Option<String>,
    /// The line of the text list, if the list can be read: `own.txt:7: spam@bad.example # why`.
    pub line: Option<String>,
    #[serde(skip)]
    text_list: PathBuf,
}

impl Explanation {
    /// Finds the lines of the text lists that name the senders, because they may have comments.
    pub fn find_lines(&mut self) {
        let identities = self.identities.iter_mut();
        let lookups = identities.flat_map(|named| &mut named.lookups);
        for lookup in lookups.filter(|lookup| lookup.outcome == "listed") {
            let (list, entry) = (&lookup.text_list, lookup.entry.as_bytes());
            // The list may be on another machine, or may have changed.
            if let Ok(Some((number, line))) = compile::line_of(list, Entries::rules(), entry) {
                let list = list.display();
                lookup.line = Some(format!("{list}:{number}: {line}"));
            }
        }
    }
}

impl Lookup {
    fn new(list: &List, kind: &'static str, entry: &[u8], outcome: &Outcome<'_>) -> Self {
        let (name, page, record) = match outcome {
            Outcome::Miss => ("miss", false, None),
            Outcome::FalsePositive => ("false-positive", true, None),
            Outcome::Unproved => ("unproved", true, None),
            Outcome::Expired(record) => ("expired", true, Some(record)),
            Outcome::Listed(record) => ("listed", true, Some(record)),
            Outcome::Failed(_) | Outcome::Unread => ("failed", false, None),
        };
        let source = record.and_then(|record| list.filter()?.source(record.source));
        let added = record.map(|record| record.added).filter(|day| *day > 0);
        let shown = |day| Day(day).to_string();
        Self {
            list: list.name().to_owned(),
            kind,
            entry: escaped(entry).to_string(),
            page,
            outcome: name,
            source: source.map(|source| escaped(source.name.as_bytes()).to_string()),
            added: added.map(shown),
            expires: record.and_then(|record| record.expires).map(shown),
            failure: match outcome {
                Outcome::Failed(failure) => Some(failure.to_string()),
                _ => None,
            },
            line: None,
            text_list: source.map_or_else(PathBuf::new, |source| source.file.clone().into()),
        }
    }
}

/// A decision, without references to the message.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecordedDecision {
    /// `accept`, `reject`, `tempfail`, `quarantine`, `tag` or `discard`; empty before the decision.
    pub verdict: &'static str,
    /// The reply to the SMTP client, if the message is refused.
    pub reply: Option<String>,
    /// The reason: `listed`, `unlisted`, `whitelisted`, `exempt-recipient`, `mailing-list` ...
    pub reason: &'static str,
    /// The deciding list.
    pub list: Option<String>,
    /// The list's own action, if the reason led to a milder one.
    pub unsoftened: Option<&'static str>,
    /// The sender that decided.
    #[serde(skip)]
    pub listed: Listed,
    /// The time that it took.
    #[serde(skip)]
    pub spent: Duration,
}

/// The sender that a list has decided about, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The field: `mail-from`, `from` ...
    pub identity: Option<&'static str>,
    /// In canonical form.
    pub sender: Option<String>,
    /// The entry that names it.
    pub entry: Option<String>,
    /// The text list with the entry, if there is a record.
    pub source: Option<String>,
}

impl RecordedDecision {
    /// Keeps what is shown of a decision.
    pub fn of(decision: &Decision<'_>) -> Self {
        let verdict = decision.verdict;
        let hit = verdict.hit_of(decision.hits);
        let list = hit.and_then(|hit| decision.snapshot.policy.lists().get(hit.list));
        let reason = match (verdict.action, verdict.reason) {
            (Some(Action::Log), Reason::Listed) => "log-only",
            (_, reason) => reason.name(),
        };
        let action = verdict.action.filter(|&action| action != Action::Log);
        let shown = |text: &[u8]| (!text.is_empty()).then(|| escaped(text).to_string());
        let listed = hit.filter(|hit| !hit.is_undecided());
        let listed = listed.map_or_else(Listed::default, |hit| Listed {
            identity: Some(hit.identity.name()),
            sender: shown(&hit.canonical),
            entry: shown(&hit.entry),
            source: shown(source_of(decision.snapshot, hit).as_bytes()),
        });
        Self {
            verdict: Action::name_of(action),
            reply: decision.reply.shown(),
            reason,
            list: list.map(|list| list.name().to_owned()),
            listed,
            unsoftened: verdict.softened().map(Action::name),
            spent: decision.spent,
        }
    }
}

/// Records look-ups and the last decision.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) named: HashMap<(Identity, Strength, Vec<u8>), Named>,
    pub(super) decision: Option<RecordedDecision>,
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
            Seen::NotExempt => named.not_exempt = true,
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
