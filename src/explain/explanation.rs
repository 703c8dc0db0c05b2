//! The result for a message, with all evidence, for output as text or JSON.

use std::path::PathBuf;

use serde::Serialize;

use super::decision::RecordedDecision;
use crate::address::escaped;
use crate::base::day::Day;
use crate::compile;
use crate::lookup::Outcome;
use crate::policy::{Entries, List};

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
    /// As given.
    pub recipient: String,
    /// As for the message.
    pub verdict: String,
    /// As for the message.
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
    pub identity: String,
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
    /// Name of the list.
    pub list: String,
    /// `mailbox`, `domain`, `subtree` or `local-part`.
    pub kind: String,
    /// Canonical text of the entry.
    pub entry: String,
    /// Whether the Bloom page matches.
    pub page: bool,
    /// `miss`, `false-positive`, `unproved`, `expired`, `listed` or `failed`.
    pub outcome: String,
    /// Name of the source, if there is a record.
    pub source: Option<String>,
    /// The day when the entry was added.
    pub added: Option<String>,
    /// The first day on which it is no longer listed.
    pub expires: Option<String>,
    /// Why the look-up failed.
    pub failure: Option<String>,
    /// The line of the text list, if the list can be read: `own.txt:7: spam@bad.example # why`.
    pub line: Option<String>,
    /// The path of the text list.
    #[serde(skip)]
    text_list: PathBuf,
}

impl Explanation {
    /// Finds the lines of the text lists that name the senders, because they may have comments.
    pub fn find_lines(&mut self) {
        let lookups = self
            .identities
            .iter_mut()
            .flat_map(|named| &mut named.lookups);
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
    pub(super) fn new(list: &List, kind: &str, entry: &[u8], outcome: &Outcome<'_>) -> Self {
        let (name, page, record) = match outcome {
            Outcome::Miss => ("miss", false, None),
            Outcome::FalsePositive => ("false-positive", true, None),
            Outcome::Unproved => ("unproved", true, None),
            Outcome::Expired(record) => ("expired", true, Some(record)),
            Outcome::Listed(record) => ("listed", true, Some(record)),
            Outcome::Failed(_) | Outcome::Unread => ("failed", false, None),
        };
        let source = record.and_then(|record| list.source(record.source));
        Self {
            list: list.name().to_owned(),
            kind: kind.to_owned(),
            entry: escaped(entry).to_string(),
            page,
            outcome: name.to_owned(),
            source: source.map(|source| escaped(source.name.as_bytes()).to_string()),
            added: record
                .filter(|record| record.added > 0)
                .map(|record| Day(record.added).to_string()),
            expires: record
                .and_then(|record| record.expires)
                .map(|day| Day(day).to_string()),
            line: None,
            text_list: source
                .map(|source| source.file.clone().into())
                .unwrap_or_default(),
            failure: if let Outcome::Failed(failure) = outcome {
                Some(failure.to_string())
            } else {
                None
            },
        }
    }
}
