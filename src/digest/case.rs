//! One decision, found by the case id in the reply, and explained for the person who must answer a
//! complaint.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::line::{Decision, What, parse};
use super::{Error, each_line};
use crate::address::escaped;
use crate::policy::{Action, Exemption, Reason};
use crate::screen::{Field, case_time};
use crate::undo::{self, Undo};

/// A decision from the log. Fields that the log does not have are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Case {
    /// The case id.
    pub case: String,
    /// The time, in UTC.
    pub time: Option<String>,
    /// The action that was taken.
    pub action: String,
    /// The reason for it.
    pub reason: String,
    /// The action that the list would have taken.
    pub unsoftened: String,
    /// The mail server's queue id of the message.
    pub queue_id: String,
    /// The Message-ID, if there is no queue id.
    pub message_id: String,
    /// The SMTP client.
    pub client: String,
    /// The recipients for whom it was decided one by one.
    pub recipients: Vec<String>,
    /// The identity in which the listed sender was found.
    pub identity: String,
    /// The sender as written.
    pub address: String,
    /// The entry that lists it.
    pub entry: String,
    /// The list.
    pub list: String,
    /// The text list that the entry comes from.
    pub source: String,
    /// Whether a record confirms the hit.
    pub proved: bool,
    /// Why a filter could not be read.
    pub failure: String,
    /// The entry of the whitelist that exempted the sender.
    pub whitelist: String,
    /// Further hits.
    pub also: String,
    /// Commands that accept the sender from now on, the best first.
    pub undo: Vec<Undo>,
    /// The whitelist to add it to.
    pub whitelist_file: Option<PathBuf>,
}

/// Finds a case in logs.
///
/// # Errors
/// When one of them cannot be read.
pub fn find_case(id: &str, logs: &[PathBuf], now: i64) -> Result<Option<Case>, Error> {
    let mut found: Option<Case> = None;
    let finder = memchr::memmem::Finder::new(id);
    let mut is_known = false;
    // The decision may have been made before the id, and is written after it.
    let since = case_time(id).map_or(0, |made| made - 60);
    each_line(logs, since, |line| {
        let has_id = finder.find(line.as_bytes()).is_some();
        if is_known && !has_id {
            return true;
        }
        let is_ours = parse(line, now, |line| {
            let What::Decision(decision) = &line.what else {
                return;
            };
            if has_id && decision.get(Field::Case) == id {
                let case = found.get_or_insert_with(|| Case::new(decision, line.at));
                case.add_recipient(decision.get(Field::Recipient));
            }
        });
        is_known |= is_ours;
        is_ours
    })?;
    Ok(found)
}

impl Case {
    fn new(decision: &Decision<'_>, at: Option<i64>) -> Self {
        let get = |field| decision.get(field).to_owned();
        Self {
            case: get(Field::Case),
            time: at.and_then(shown_time),
            action: get(Field::Action),
            reason: get(Field::Reason),
            unsoftened: get(Field::Unsoftened),
            queue_id: get(Field::QueueId),
            message_id: get(Field::MessageId),
            client: get(Field::Client),
            recipients: Vec::new(),
            identity: get(Field::Identity),
            address: get(Field::Address),
            entry: get(Field::Entry),
            list: get(Field::List),
            source: get(Field::Source),
            proved: decision.get(Field::Proved) != "false",
            failure: get(Field::Failure),
            whitelist: get(Field::Whitelist),
            also: get(Field::Also),
            undo: Vec::new(),
            whitelist_file: None,
        }
    }

    /// Adds how to undo the decision. `file` is the text list with the entry, if it is known.
    pub fn find_undo(&mut self, whitelist: Option<PathBuf>, file: &str) {
        self.undo = undo::commands(&self.address, &self.entry, file, whitelist.as_deref());
        self.whitelist_file = whitelist;
    }

    fn add_recipient(&mut self, recipient: &str) {
        const MAX: usize = 100;
        if !recipient.is_empty()
            && self.recipients.len() < MAX
            && !self.recipients.iter().any(|known| known == recipient)
        {
            self.recipients.push(recipient.to_owned());
        }
    }
}

/// Returns a time as text: `2026-11-21 14:03:22 UTC`.
#[must_use]
pub fn shown_time(seconds: i64) -> Option<String> {
    let time = Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Returns the end of a sentence that says what was done.
fn deed(action: &str) -> &'static str {
    match action.parse() {
        Ok(Action::Reject) => "was refused for good (5xx)",
        Ok(Action::Tempfail) => "was refused for now (4xx); the client may try again",
        Ok(Action::Quarantine) => "was accepted and held",
        Ok(Action::Discard) => "was accepted and deleted",
        Ok(Action::Tag) => "was delivered with a header X-Sender-Blocklist",
        Ok(Action::Log) => "was delivered; the hit was only logged",
        Err(()) => "was accepted",
    }
}

/// Returns the meaning of a reason.
fn meaning(reason: &str) -> Option<&'static str> {
    let of_reason = Reason::ALL.into_iter().find(|known| known.name() == reason);
    let mut exemptions = Exemption::ALL.into_iter();
    if let Some(exemption) = exemptions.find(|known| known.name() == reason) {
        return Some(match exemption {
            Exemption::Authenticated => "the client was authenticated",
            Exemption::Local => "it was submitted on this machine",
            Exemption::Network => "the client is in one of the exempt networks",
        });
    }
    Some(match of_reason? {
        Reason::Listed => "this is what the list does with a listed sender",
        Reason::Unlisted => "no sender is listed",
        Reason::Whitelisted => "the sender is on the whitelist",
        Reason::ExemptRecipient => "no list applies to this recipient",
        Reason::MixedRecipients => "the lists do not apply to all recipients of this message",
        Reason::MailingList => "it came through a mailing list (setting mailing_list)",
        Reason::Weak => "the address was only in a name, comment or encoded word (setting weak)",
        Reason::DryRun => "the list is on trial (setting dry_run)",
        Reason::RejectShare => {
            "too large a share of all mail was refused (setting max_reject_share)"
        }
        Reason::Undecided => {
            "the list could not be read, or there were too many senders, so it is unknown whether a sender is listed (setting on_error)"
        }
    })
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Case {}", show(&self.case))?;
        if let Some(time) = &self.time {
            write!(f, ", {time}")?;
        }
        writeln!(f)?;
        write!(f, "  Mail from {}", show(&self.client))?;
        match (&*self.queue_id, &*self.message_id) {
            ("" | "NOQUEUE", "") => {}
            ("" | "NOQUEUE", id) => write!(f, ", Message-ID {},", show(id))?,
            (id, _) => write!(f, ", queue id {},", show(id))?,
        }
        writeln!(f, " {}.", deed(&self.action))?;
        for recipient in &self.recipients {
            writeln!(f, "  Recipient: {}", show(recipient))?;
        }
        if !self.list.is_empty() {
            self.listing(f)?;
        }
        if let Some(meaning) = meaning(&self.reason) {
            writeln!(f, "  Reason:    {}: {meaning}", self.reason)?;
        }
        for (name, value) in [
            ("Without it", &self.unsoftened),
            ("Failure", &self.failure),
            ("Cleared by", &self.whitelist),
            ("Also listed", &self.also),
        ] {
            if !value.is_empty() {
                writeln!(f, "  {name}: {}", show(value))?;
            }
        }
        if !self.proved {
            let why = "this may be a false positive of its Bloom pages";
            writeln!(f, "  The filter has no records: {why}.")?;
        }
        if self.list.is_empty() || self.reason == Reason::Whitelisted.name() {
            return Ok(());
        }
        self.advice(f)
    }
}

fn show(text: &str) -> String {
    escaped(text.as_bytes()).to_string()
}

impl Case {
    fn listing(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let place = match &*self.identity {
            "mail-from" => "the envelope (MAIL FROM)".to_owned(),
            field => format!("the header {}", header_name(&show(field))),
        };
        writeln!(f, "  Sender:    {} in {place}", show(&self.address))?;
        let (entry, list) = (show(&self.entry), show(&self.list));
        write!(f, "  Listed:    as {entry} on {list}")?;
        if !self.source.is_empty() {
            write!(f, ", from {}", show(&self.source))?;
        }
        writeln!(f)
    }

    fn advice(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for Undo { what, command } in &self.undo {
            writeln!(f, "To {what}:\n  {command}")?;
        }
        if self.undo.is_empty() {
            let why = "the log does not have the address as it was written";
            writeln!(f, "To accept mail from this sender, whitelist it ({why}).")?;
        }
        if self.whitelist_file.is_none() {
            writeln!(
                f,
                "where WHITELIST is a file of [whitelist] in the configuration, which has none now."
            )?;
        }
        let limit = "does not clear a listed one in another";
        writeln!(f, "A whitelisted sender in one field {limit}.")
    }
}

/// Returns the header name of an identity: `reply-to` -> `Reply-To`.
fn header_name(identity: &str) -> String {
    let words = identity
        .split('-')
        .map(|word| match word.split_at_checked(1) {
            Some((first, rest)) => first.to_ascii_uppercase() + rest,
            None => word.to_owned(),
        });
    words.collect::<Vec<_>>().join("-")
}
