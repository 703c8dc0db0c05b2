//! Records every decision: counts it, for the circuit breaker too, remembers it, informs the observer, and logs it.

use std::fmt::{self, Display, Formatter, Write as _};

use tracing::field::display;
use tracing::{debug, error, info, warn};

use super::answer::{file_of, shown_address, source_of};
use super::state::{self, Message, Observer, Screen};
use crate::endpoint::Extent;
use crate::milter::Reply;
use crate::policy::{Action, Evidence, Hit, Reason, Verdict};
use crate::sender::Identity;
use crate::snapshot::{Counters, Decision, Snapshot, Who};
use blocklist_filter::address::{escaped, shortened};
use blocklist_filter::base::clock::now_s;
use blocklist_filter::base::named::named;

/// The text of the log line of a decision; its fields follow.
pub const DECISION: &str = "message";
/// Most hits named in a line, besides the deciding one.
const ALSO_MAX: usize = 10;
/// Follows such a hit if it could not be looked up.
pub(crate) const ALSO_UNDECIDED: &str = ":undecided";
/// Most bytes shown in a line of each address (SMTP's own limit, RFC 5321 section 4.5.3.1.3), and of
/// each of those hits. Even with every byte escaped twice, a line is shorter than the log's limit.
const SHOWN_BYTES: usize = 256;
const ALSO_BYTES: usize = 80;
/// Most bytes remembered of what a sender chooses.
const REMEMBERED_BYTES: usize = 100;

impl<O: Observer> Screen<O> {
    /// Whether the mail server hears of the action.
    pub(super) fn is_told(&self, verdict: Verdict) -> bool {
        let is_told = |action: Action| {
            let is_heard = action == Action::Log || !self.message.is_unheard;
            is_heard && action.at(self.door) != Extent::Never
        };
        verdict.action.is_none_or(is_told)
    }

    /// The name of what happens to the message or the recipient.
    fn deed(&self, verdict: Verdict) -> &'static str {
        match self.is_told(verdict) {
            true => Action::name_of(verdict.action),
            false => Action::UNTOLD,
        }
    }

    /// Counts a message once, for the metrics and the circuit breaker.
    fn count(&self, snapshot: &Snapshot, verdict: Verdict) {
        let (counters, deed) = (&self.live.counters, self.deed(verdict));
        counters.verdicts.increment(deed);
        counters.doors.increment(self.door);
        counters.reasons.increment(verdict.reason);
        counters.durations.observe(self.message.spent);
        let decided = verdict.hit_of(&self.message.hits);
        if let Some(counts) = decided.and_then(|hit| snapshot.counts.get(hit.list)) {
            counts.list.verdicts.increment(deed);
        }
        let limit = snapshot.config.safety.max_reject_share;
        let refuses = verdict.refuses() && verdict.reason == Reason::Listed
            || verdict.reason == Reason::RejectShare;
        let shown = |share: f64| format!("{:.0}%", share * 100.0);
        let (breaker, now_s) = (&self.live.circuit_breaker, self.live.uptime_s());
        match breaker.count(refuses, now_s, limit.share()) {
            Some((true, share)) => error!(
                share = shown(share),
                %limit,
                "more than max_reject_share of the last five minutes' messages would be refused: turning refusals into tags until the share falls"
            ),
            Some((false, share)) => warn!(
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
        let text = |bytes: &[u8]| shortened(bytes, REMEMBERED_BYTES);
        let who = Who {
            sender: hit.map_or_else(String::new, |hit| text(shown_address(hit))),
            entry: hit.map_or_else(String::new, |hit| text(&hit.entry)),
            file: hit.map_or("", |hit| file_of(snapshot, hit)).to_owned(),
            recipient: recipient.map_or_else(String::new, text),
            client: self.origin.text.clone(),
            queue_id: text(&message.queue_id),
        };
        let list = hit.map_or("", |hit| snapshot.policy.list_name(hit.list));
        self.live.counters.decisions.remember(Decision {
            number: 0,
            time_s: now_s(),
            case: message.case.clone(),
            door: self.door.name().to_owned(),
            action: self.deed(verdict).to_owned(),
            reason: verdict.reason.name().to_owned(),
            list: list.to_owned(),
            source: hit.map_or("", |hit| source_of(snapshot, hit)).to_owned(),
            identity: hit.map_or("", |hit| hit.identity.name()).to_owned(),
            who: Some(who),
        });
    }

    fn count_hits(&mut self, snapshot: &Snapshot) {
        let message = &mut self.message;
        for hit in message.hits.iter().skip(message.hits_counted) {
            if let Some(counts) = snapshot.counts.get(hit.list) {
                counts.count(hit);
            }
        }
        message.hits_counted = message.hits.len();
    }

    /// Records a decision. A recipient that is put off counts when the message is decided.
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
        self.observer.decided(&state::Decision {
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

    /// Writes the line of a decision. Values that cannot contain a blank have no quotes, so that they
    /// are easy to search. A message without a hit and with a queue id allocates nothing.
    pub(super) fn log(
        &self,
        snapshot: &Snapshot,
        verdict: Verdict,
        recipient: Option<&[u8]>,
        counts: bool,
    ) {
        let message = &self.message;
        let hit = verdict.hit_of(&message.hits);
        // After the first refused or deferred recipient of a message, further ones are details.
        let (before, is_notable) = match hit {
            Some(_) => (message.refused, true),
            None => {
                let is_notable = snapshot.config.log.accepted || verdict.action.is_some();
                (message.deferred, is_notable)
            }
        };
        let is_detail = recipient.is_some_and(|recipient| !recipient.is_empty()) && before > 1;
        if !is_detail && !is_notable {
            if counts {
                self.live.counters.not_logged.increment(verdict.reason);
            }
            return;
        }
        let sender = sender_of(message, hit);
        let list = |hit: &Hit| display(snapshot.policy.list_name(hit.list));
        let source = hit.map(|hit| source_of(snapshot, hit));
        let (id, message_id) = match &*message.queue_id {
            b"" => (&b"NOQUEUE"[..], &*message.message_id),
            id => (id, &b""[..]),
        };
        let unsoftened = match self.is_told(verdict) {
            true => verdict.softened(),
            false => verdict.unsoftened.or(verdict.action),
        };
        let is_unproved = |hit: &&Hit| hit.evidence == Evidence::Unproved;
        let us = u64::try_from(message.spent.as_micros()).unwrap_or(u64::MAX);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    { Field::Messages.name() } = (!counts).then_some(0),
                    { Field::QueueId.name() } = display(Word(id)),
                    { Field::Client.name() } = display(Word(self.origin.text.as_bytes())),
                    { Field::Door.name() } = display(self.door.name()),
                    { Field::MessageId.name() } = text(message_id),
                    { Field::Recipient.name() } = recipient.and_then(text),
                    { Field::Identity.name() } =
                        sender.map(|(identity, _)| display(identity.name())),
                    { Field::Address.name() } = sender.and_then(|(_, address)| text(address)),
                    { Field::Entry.name() } = hit.and_then(|hit| text(&hit.entry)),
                    { Field::List.name() } = hit.map(list),
                    { Field::Source.name() } = source.filter(|source| !source.is_empty()),
                    { Field::Action.name() } = display(self.deed(verdict)),
                    { Field::Reason.name() } = display(verdict.reason.name()),
                    { Field::Unsoftened.name() } = hit.and(unsoftened).map(display),
                    { Field::Proved.name() } = hit.filter(is_unproved).map(|_| false),
                    { Field::Failure.name() } = hit.and_then(failure),
                    { Field::Whitelist.name() } = hit.and_then(|hit| text(hit.cleared.as_ref()?)),
                    { Field::Also.name() } = hit.and_then(|_| also(snapshot, message, verdict.hit)),
                    { Field::Truncated.name() } = message.is_truncated().then_some(true),
                    { Field::Case.name() } = hit.map(|_| display(&message.case)),
                    { Field::Us.name() } = us,
                    "{DECISION}"
                )
            };
        }
        if is_detail {
            line!(debug);
        } else {
            line!(info);
        }
    }
}

/// A text of the message, shortened; `None` if it is empty.
fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| shortened(bytes, SHOWN_BYTES))
}

/// The sender of a line: of the hit, or of a message that was accepted without look-ups.
fn sender_of<'a>(message: &'a Message, hit: Option<&'a Hit>) -> Option<(Identity, &'a [u8])> {
    if let Some(hit) = hit {
        return Some((hit.identity, &hit.address));
    }
    message.exemption?;
    let sender = message.workspace.as_ref()?.senders.get(0)?;
    Some((sender.identity, sender.address))
}

/// Why it is unknown whether the sender is listed.
fn failure(hit: &Hit) -> Option<&str> {
    match &hit.evidence {
        Evidence::Undecided(failure) => Some(failure),
        Evidence::Proved(_) | Evidence::Unproved => None,
    }
}

/// Writes a line for the accepted messages that got none, with `accepted = false`: one for each reason.
pub fn log_accepted(counters: &Counters) {
    for (reason, messages) in counters.not_logged.take() {
        info!(
            { Field::Messages.name() } = messages,
            { Field::Action.name() } = "accept",
            { Field::Reason.name() } = display(reason.name()),
            "{DECISION}"
        );
    }
}

/// An identifier from the mail server, in quotes only if it could be mistaken for another field.
struct Word<'a>(&'a [u8]);

impl Display for Word<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.iter().any(|byte| b" \"=".contains(byte)) {
            write!(f, "{:?}", shortened(self.0, SHOWN_BYTES))
        } else {
            escaped(self.0).fmt(f)
        }
    }
}

/// The hits other than the deciding one: `list:identity:address, ...`, followed by `:whitelisted` or
/// `:undecided` where that applies. Commas and colons in addresses are escaped, so that a sender
/// cannot fake a hit or one of these words.
fn also(snapshot: &Snapshot, message: &Message, decided: Option<usize>) -> Option<String> {
    let mut text = String::new();
    let hits = message.hits.iter().enumerate();
    let others = hits.filter(|(index, _)| Some(*index) != decided);
    for (number, (_, hit)) in others.enumerate() {
        if number == ALSO_MAX {
            text.push_str(" ...");
            break;
        }
        let list = snapshot.policy.list_name(hit.list);
        let comma = if number == 0 { "" } else { ", " };
        let state = if hit.cleared.is_some() {
            ":whitelisted"
        } else if hit.is_undecided() {
            ALSO_UNDECIDED
        } else {
            ""
        };
        let address = shortened(&hit.address, ALSO_BYTES);
        let address = address.replace(',', "\\x2c").replace(':', "\\x3a");
        let identity = hit.identity.name();
        let _ = write!(text, "{comma}{list}:{identity}:{address}{state}");
    }
    (!text.is_empty()).then_some(text)
}

named! {
    /// A field of a decision in the log, for the daemon that writes it and the commands that read it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Field {
        /// The number of messages that the line counts, if not one: 0 for what becomes of a further
        /// recipient, or of the message after a refused recipient; more in the hourly line of
        /// `accepted = false`.
        Messages = "messages",
        /// The queue id of the message at the mail server.
        QueueId = "queue_id",
        /// Address of the client.
        Client = "client",
        /// The protocol in which the mail server asked.
        Door = "door",
        /// The Message-ID, if there is no queue id.
        MessageId = "message_id",
        /// The recipient, if the decision is about one only.
        Recipient = "recipient",
        /// The field with the listed sender.
        Identity = "identity",
        /// The sender as written.
        Address = "address",
        /// The entry that lists it.
        Entry = "entry",
        /// The list.
        List = "list",
        /// The text list that the entry is from.
        Source = "source",
        /// The action; `none` if the mail server could not be told.
        Action = "action",
        /// The reason.
        Reason = "reason",
        /// The action that the list would have taken.
        Unsoftened = "unsoftened",
        /// `false` if no record confirms the hit.
        Proved = "proved",
        /// Why a filter could not be read.
        Failure = "failure",
        /// The entry of the whitelist that exempted the sender.
        Whitelist = "whitelist",
        /// Further hits.
        Also = "also",
        /// Whether not all senders were looked up.
        Truncated = "truncated",
        /// The case id in the reply.
        Case = "case",
        /// Time for the message, in microseconds.
        Us = "us",
    }
}
