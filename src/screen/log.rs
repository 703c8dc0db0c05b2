//! The log line of a decision.

use std::fmt::{self, Display, Formatter, Write as _};

use tracing::field::display;
use tracing::{debug, info};

use super::field::{DECISION, Field};
use super::hit_text::source_of;
use super::message::Message;
use super::observer::Observer;
use super::state::Screen;
use crate::address::{escaped, shortened};
use crate::policy::{Evidence, Hit, Verdict};
use crate::sender::Identity;
use crate::snapshot::{Counters, Snapshot};

/// Most hits named in a line, besides the deciding one.
const ALSO_MAX: usize = 10;
/// Follows such a hit if the whitelist exempts it, or if it could not be looked up.
const ALSO_WHITELISTED: &str = ":whitelisted";
pub(crate) const ALSO_UNDECIDED: &str = ":undecided";
/// Most bytes shown of each address (SMTP's own limit, RFC 5321 section 4.5.3.1.3), and of each of
/// those hits. Even with every byte escaped twice, a line is shorter than the log's limit.
const SHOWN_BYTES: usize = 256;
const ALSO_BYTES: usize = 80;

impl<O: Observer> Screen<O> {
    /// Writes the line of a decision. Values that cannot contain a blank have no quotes, so that
    /// they are easy to search; addresses are quoted. A message without a hit and with a queue id
    /// allocates nothing.
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
        let is_unproved = |hit: &&Hit| hit.evidence == Evidence::Unproved;
        let us = u64::try_from(message.spent.as_micros()).unwrap_or(u64::MAX);
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    { Field::Messages.name() } = (!counts).then_some(0),
                    { Field::QueueId.name() } = display(Word(id)),
                    { Field::Client.name() } = display(Word(self.origin.text.as_bytes())),
                    { Field::MessageId.name() } = text(message_id),
                    { Field::Recipient.name() } = recipient.and_then(text),
                    { Field::Identity.name() } =
                        sender.map(|(identity, _)| display(identity.name())),
                    { Field::Address.name() } = sender.and_then(|(_, address)| text(address)),
                    { Field::Entry.name() } = hit.and_then(|hit| text(&hit.entry)),
                    { Field::List.name() } = hit.map(list),
                    { Field::Source.name() } = source.filter(|source| !source.is_empty()),
                    { Field::Action.name() } = display(verdict.action_name()),
                    { Field::Reason.name() } = display(verdict.reason.name()),
                    { Field::Unsoftened.name() } = hit.and(verdict.softened()).map(display),
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

/// Returns a text of the message, shortened; `None` if it is empty.
fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| shortened(bytes, SHOWN_BYTES))
}

/// Returns the sender of a line: of the hit, or of a message that was accepted without look-ups.
fn sender_of<'a>(message: &'a Message, hit: Option<&'a Hit>) -> Option<(Identity, &'a [u8])> {
    if let Some(hit) = hit {
        return Some((hit.identity, &hit.address));
    }
    message.exemption?;
    let sender = message.workspace.as_ref()?.senders.get(0)?;
    Some((sender.identity, sender.address))
}

/// Returns why it is unknown whether the sender is listed.
fn failure(hit: &Hit) -> Option<&str> {
    match &hit.evidence {
        Evidence::Undecided(failure) => Some(failure),
        Evidence::Proved { .. } | Evidence::Unproved => None,
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

/// An identifier from the mail server. It has no quotes unless it could be mistaken for another
/// field.
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

/// Returns the hits other than the deciding one, for the log: `list:identity:address, ...`,
/// followed by `:whitelisted` or `:undecided` where that applies. Escapes commas and colons in
/// addresses, so that a sender cannot fake a hit or one of these words.
fn also(snapshot: &Snapshot, message: &Message, decided: Option<usize>) -> Option<String> {
    let mut text = String::new();
    let others = message
        .hits
        .iter()
        .enumerate()
        .filter(|(index, _)| Some(*index) != decided);
    for (number, (_, hit)) in others.enumerate() {
        if number == ALSO_MAX {
            text.push_str(" ...");
            break;
        }
        let list = snapshot.policy.list_name(hit.list);
        let comma = if number == 0 { "" } else { ", " };
        let state = if hit.cleared.is_some() {
            ALSO_WHITELISTED
        } else if hit.is_undecided() {
            ALSO_UNDECIDED
        } else {
            ""
        };
        let address = shortened(&hit.address, ALSO_BYTES);
        let address = address.replace(',', "\\x2c").replace(':', "\\x3a");
        let _ = write!(
            text,
            "{comma}{list}:{}:{address}{state}",
            hit.identity.name(),
        );
    }
    (!text.is_empty()).then_some(text)
}
