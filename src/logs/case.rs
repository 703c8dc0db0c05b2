//! One decision, found by the case id in the reply, and explained for who must answer a complaint.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use serde::Serialize;

use super::line::{Decision, What, parse};
use super::{Error, each_line};
use crate::config::Config;
use crate::explain::in_words;
use crate::policy::{Action, Reason};
use crate::screen::{Field, case_time};
use crate::undo::{self, Undo};
use blocklist_filter::address::escaped;
use blocklist_filter::base::clock::second;
use blocklist_filter::filter::{Filter, Load};

/// A decision from the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Case {
    #[serde(flatten)]
    pub decision: Decision,
    /// In UTC.
    pub time: Option<String>,
    /// The recipients for whom it was decided one by one.
    pub recipients: Vec<String>,
    /// Whether a record confirms the hit.
    pub proved: bool,
    /// Commands that accept the sender from now on, the best first.
    pub undo: Vec<Undo>,
    /// The whitelist to add it to.
    pub whitelist_file: Option<PathBuf>,
}

/// Finds a case in logs.
pub(crate) fn find_case(id: &str, logs: &[PathBuf], now: i64) -> Result<Option<Case>, Error> {
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
        let Some(line) = parse(line, now) else {
            return false;
        };
        is_known = true;
        if let What::Decision(decision) = line.what
            && decision.get(Field::Case) == id
        {
            let recipient = decision.get(Field::Recipient).to_owned();
            let case = found.get_or_insert_with(|| Case {
                time: line.at.and_then(second),
                proved: decision.get(Field::Proved) != "false",
                decision: *decision,
                ..Case::default()
            });
            case.add_recipient(recipient);
        }
        true
    })?;
    Ok(found)
}

impl Case {
    /// Adds how to undo the decision with this configuration.
    pub(crate) fn find_undo(&mut self, config: Option<&Config>) {
        let get = |field| self.decision.get(field);
        let whitelist = config.and_then(|config| config.whitelist.files.first());
        let file = config.and_then(|config| self.text_list(config));
        self.undo = undo::commands(
            get(Field::Address),
            get(Field::Entry),
            &file.unwrap_or_default(),
            whitelist.map(|file| &**file),
        );
        self.whitelist_file = whitelist.cloned();
    }

    /// Returns the text list with the entry, if the filter is on this machine.
    fn text_list(&self, config: &Config) -> Option<String> {
        let get = |field| self.decision.get(field);
        let mut lists = config.enabled_lists();
        let list = lists.find(|list| list.terms.name == get(Field::List))?;
        let filter = Filter::open(&list.filter, Load::Disk).ok()?;
        let mut sources = filter.spec().sources.iter();
        let source = sources.find(|source| source.name == get(Field::Source))?;
        Some(source.file.clone())
    }

    fn add_recipient(&mut self, recipient: String) {
        const MAX: usize = 100;
        let is_new = !recipient.is_empty() && !self.recipients.contains(&recipient);
        if is_new && self.recipients.len() < MAX {
            self.recipients.push(recipient);
        }
    }

    /// Returns a field as it can be shown.
    fn shown(&self, field: Field) -> String {
        escaped(self.decision.get(field).as_bytes()).to_string()
    }
}

/// Returns the end of a sentence that says what was done.
fn deed(action: &str) -> &'static str {
    match Action::from_name(action) {
        Some(Action::Reject) => "was refused for good (5xx)",
        Some(Action::Tempfail) => "was refused for now (4xx); the client may try again",
        Some(Action::Quarantine) => "was accepted and held",
        Some(Action::Discard) => "was accepted and deleted",
        Some(Action::Tag) => "was delivered with a header X-Sender-Blocklist",
        Some(Action::Log) => "was delivered; the hit was only logged",
        None if action == Action::UNTOLD => {
            "was accepted: the mail server asked where it cannot be told of the action"
        }
        None => "was accepted",
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = |field| self.shown(field);
        write!(f, "Case {}", shown(Field::Case))?;
        if let Some(time) = &self.time {
            write!(f, ", {time}")?;
        }
        write!(f, "\n  Mail from {}", shown(Field::Client))?;
        match (&*shown(Field::QueueId), &*shown(Field::MessageId)) {
            ("" | "NOQUEUE", "") => {}
            ("" | "NOQUEUE", id) => write!(f, ", Message-ID {id},")?,
            (id, _) => write!(f, ", queue id {id},")?,
        }
        writeln!(f, " {}.", deed(self.decision.get(Field::Action)))?;
        for recipient in &self.recipients {
            writeln!(f, "  Recipient: {}", escaped(recipient.as_bytes()))?;
        }
        let (list, reason) = (shown(Field::List), self.decision.get(Field::Reason));
        if !list.is_empty() {
            let field = match &*shown(Field::Identity) {
                "mail-from" => "the envelope (MAIL FROM)".to_owned(),
                field => format!("the header {field}"),
            };
            let (address, entry) = (shown(Field::Address), shown(Field::Entry));
            writeln!(f, "  Sender:    {address} in {field}")?;
            let source = match &*shown(Field::Source) {
                "" => String::new(),
                source => format!(", from {source}"),
            };
            writeln!(f, "  Listed:    as {entry} on {list}{source}")?;
        }
        if !reason.is_empty() {
            let unsoftened = shown(Field::Unsoftened);
            let [list, unsoftened] =
                [&list, &unsoftened].map(|text| Some(&**text).filter(|text| !text.is_empty()));
            let why = in_words(reason, list, unsoftened);
            writeln!(f, "  Reason:    {reason}: {}", escaped(why.as_bytes()))?;
        }
        for (name, field) in [
            ("Without it", Field::Unsoftened),
            ("Failure", Field::Failure),
            ("Cleared by", Field::Whitelist),
            ("Also listed", Field::Also),
        ] {
            let value = shown(field);
            if !value.is_empty() {
                writeln!(f, "  {name}: {value}")?;
            }
        }
        if !self.proved {
            let why = "this may be a false positive of its Bloom pages";
            writeln!(f, "  The filter has no records: {why}.")?;
        }
        if list.is_empty() || reason == Reason::Whitelisted.name() {
            return Ok(());
        }
        writeln!(f)?;
        for Undo { what, command } in &self.undo {
            writeln!(f, "To {what}:\n  {command}")?;
        }
        if self.undo.is_empty() {
            let why = "the log does not have the address as it was written";
            writeln!(f, "To accept mail from this sender, whitelist it ({why}).")?;
        }
        if self.whitelist_file.is_none() {
            let none = "a file of [whitelist] in the configuration, which has none now";
            writeln!(f, "where WHITELIST is {none}.")?;
        }
        let limit = "does not clear a listed one in another";
        writeln!(f, "A whitelisted sender in one field {limit}.")
    }
}
