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
use crate::policy::{Action, Evidence, Exemption, Verdict};
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
        let hit = verdict.hit.and_then(|index| message.hits.get(index));
        let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| shortened(bytes, SHOWN_BYTES));
        let id = if message.queue_id.is_empty() {
            b"NOQUEUE"
        } else {
            message.queue_id.as_slice()
        };
        let queue_id = display(Word(id));
        let truncated = message.is_truncated().then_some(true);
        let client = display(Word(self.origin.text.as_bytes()));
        let action = display(verdict.action.map_or("accept", Action::name));
        let reason = message
            .exemption
            .map_or_else(|| verdict.reason.name(), Exemption::name);
        let us = u64::try_from(message.spent.as_micros()).unwrap_or(u64::MAX);
        let recipient = recipient.and_then(text);
        // After the first refused or deferred recipient of a message, further ones are details.
        let is_detail = |before: u32| recipient.is_some() && before > 1;
        let (is_detail, is_notable) = match hit {
            Some(_) => (is_detail(message.refused), true),
            None => {
                let is_notable = snapshot.config.log.accepted || verdict.action.is_some();
                (is_detail(message.deferred), is_notable)
            }
        };
        if !is_detail && !is_notable {
            if counts {
                self.live.counters.not_logged.increment(reason);
            }
            return;
        }
        let reason = display(reason);
        let messages = (!counts).then_some(0);
        let tells_id = message.queue_id.is_empty() && !message.message_id.is_empty();
        let message_id = tells_id.then(|| shortened(&message.message_id, SHOWN_BYTES));
        let (identity, address) = match hit {
            Some(hit) => (Some(hit.identity), text(&hit.address)),
            None => {
                // The sender of a message that was accepted without look-ups.
                let workspace = message.exemption.and(message.workspace.as_ref());
                let sender = workspace.and_then(|workspace| workspace.senders.get(0));
                let address = sender.and_then(|sender| text(sender.address));
                (sender.map(|sender| sender.identity), address)
            }
        };
        let list = hit.map(|hit| {
            let list = snapshot.policy.lists().get(hit.list);
            display(list.map_or("", |list| list.name()))
        });
        let source = hit
            .map(|hit| source_of(snapshot, hit))
            .filter(|source| !source.is_empty());
        let failure = hit.and_then(|hit| match &hit.evidence {
            Evidence::Undecided(failure) => Some(failure.as_str()),
            Evidence::Proved { .. } | Evidence::Unproved => None,
        });
        let softened = verdict
            .unsoftened
            .filter(|&own| hit.is_some() && Some(own) != verdict.action);
        let proved = hit.filter(|hit| matches!(hit.evidence, Evidence::Unproved));
        let whitelist = hit.and_then(|hit| hit.cleared.as_deref().and_then(text));
        let also = hit.and_then(|_| also(snapshot, message, verdict.hit));
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    { Field::Messages.name() } = messages,
                    { Field::QueueId.name() } = queue_id,
                    { Field::Client.name() } = client,
                    { Field::MessageId.name() } = message_id,
                    { Field::Recipient.name() } = recipient,
                    { Field::Identity.name() } = identity.map(|identity| display(identity.name())),
                    { Field::Address.name() } = address,
                    { Field::Entry.name() } = hit.and_then(|hit| text(&hit.entry)),
                    { Field::List.name() } = list,
                    { Field::Source.name() } = source,
                    { Field::Action.name() } = action,
                    { Field::Reason.name() } = reason,
                    { Field::Unsoftened.name() } = softened.map(display),
                    { Field::Proved.name() } = proved.map(|_| false),
                    { Field::Failure.name() } = failure,
                    { Field::Whitelist.name() } = whitelist,
                    { Field::Also.name() } = also,
                    { Field::Truncated.name() } = truncated,
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

/// Writes a line for the accepted messages that got none, with `accepted = false`: one for each reason.
pub fn log_accepted(counters: &Counters) {
    for (reason, messages) in counters.not_logged.take() {
        info!(
            { Field::Messages.name() } = messages,
            { Field::Action.name() } = "accept",
            { Field::Reason.name() } = display(reason),
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
        let list = snapshot
            .policy
            .lists()
            .get(hit.list)
            .map_or("", |list| list.name());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_be_taken_for_another_field() {
        let shown = |name: &[u8]| Word(name).to_string();
        assert_eq!(shown(b"4XyZ1"), "4XyZ1");
        assert_eq!(shown(b"a action=accept"), "\"a action=accept\"");
        assert_eq!(shown(b"a\" b"), "\"a\\\" b\"");
        assert!(shown(&[b' '; 9000]).len() < 300);
    }
}
