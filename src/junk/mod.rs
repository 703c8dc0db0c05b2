//! Adds the senders of messages that users report as junk to a separate blocklist.
//!
//! Only the sender's mailbox is listed, never a domain, because it is one user's opinion about one
//! sender. Anybody can forge the address in From, so DKIM or DMARC must confirm it, according to a
//! server of ours (`authserv_ids`). Without such servers nobody is listed. Correspondents,
//! whitelisted senders and local users are not listed. An entry says who reported which message, and
//! when it expires:
//!
//! ```text
//! spam@bad.example # expires 2026-12-21 added 2026-11-21 reported by alice <id@bad.example>
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::Config;
use crate::explain::{Headers, Stored, each_message};
use crate::policy::{Authentication, Entries, is_aligned};
use crate::sender::Strength;
use crate::snapshot;
use blocklist_compile::compile::{self, By, Done, Plan};
use blocklist_compile::list;
use blocklist_filter::address::{Canonical, escaped};
use blocklist_filter::base::clock::today;
use blocklist_filter::base::day::Day;
use blocklist_filter::base::numbers::counted;
use blocklist_filter::base::path::is_same_file;
use blocklist_filter::base::whole_file::FileError;

/// Most bytes kept of a Message-ID.
const MESSAGE_ID_MAX: usize = 120;
/// Most reports in one run; nobody reports more by hand.
const REPORTS_MAX: usize = 100_000;

/// Why a report fails, for the person who reports.
type Error = Box<dyn std::error::Error>;

/// The options for reports.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) list: PathBuf,
    /// The reporting user.
    pub(crate) by: String,
    /// The first day on which the entries are no longer listed.
    pub(crate) expires: Day,
    pub(crate) own_domains: Vec<String>,
}

/// The results for reported messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ListChange {
    pub(crate) list: PathBuf,
    pub(crate) messages: u64,
    pub(crate) added: Vec<String>,
    /// Senders that were already in the list.
    pub(crate) known: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Messages whose sender was not added: their files, and the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

/// Adds the senders of reported messages to the list. Refuses a whitelist, and a configuration that trusts no results of
/// DKIM.
pub(crate) fn report(
    mailboxes: &[PathBuf],
    options: &Options,
    config: &Config,
) -> Result<ListChange, Error> {
    let allowed = &config.whitelist;
    let mut allowed = allowed.files.iter().chain(&allowed.correspondents);
    if allowed.any(|file| is_same_file(file, &options.list)) {
        let why = "the configuration names this file as a whitelist; name a blocklist";
        return Err(format!("{}: {why}", options.list.display()).into());
    }
    if config.whitelist.authserv_ids.is_empty() {
        return Err("nobody is listed, because anybody can forge a sender: set authserv_ids under [whitelist] to the name that your mail server writes at the beginning of Authentication-Results when it has checked DKIM or DMARC".into());
    }
    let (whitelist, correspondents) = snapshot::cleared_senders(config)?;
    let mut plan = Plan::new(&options.list, Vec::new());
    plan.take_beside(&options.list)?;
    plan.expires = Some(options.expires);
    plan.protect.extend_from_slice(&options.own_domains);
    let mut change = ListChange {
        list: options.list.clone(),
        ..ListChange::default()
    };
    let reports = reports(mailboxes, &mut change, |sender, headers| {
        check(sender, headers, &[&whitelist, &correspondents], config)?;
        compile::may_list(&plan, sender).map_err(|error| error.to_string())?;
        let note = format!(
            "{}{} {}",
            &compile::REPORTED[1..],
            options.by,
            message_id(headers)
        );
        Ok(note.trim_end().to_owned())
    })?;
    let entries: Vec<(&str, &str)> = reports
        .iter()
        .map(|(sender, (_, note))| (sender.as_str(), note.as_str()))
        .collect();
    let edited = compile::add(&plan, &options.list, &entries, By::Reports)?;
    for (entry, done) in edited.entries {
        match done {
            Done::Added => change.added.push(entry),
            Done::Undone(until) => {
                let (name, _) = reports.get(&entry).cloned().unwrap_or_default();
                let why = "blocklist-compile add lists it all the same";
                change.leave_out(&name, &format!("{entry}: undone until {until}; {why}"));
            }
            Done::AlreadyThere(_) | Done::Removed { .. } | Done::NotFound => {
                change.known.push(entry);
            }
        }
    }
    Ok(change)
}

/// Removes the entries that reports of these senders made, so that no report adds them again. Lines that somebody wrote or
/// changed by hand stay, wherever they are in the list.
pub(crate) fn undo(mailboxes: &[PathBuf], list: &Path) -> Result<ListChange, Error> {
    let plan = Plan::new(list, Vec::new());
    let mut change = ListChange {
        list: list.to_owned(),
        ..ListChange::default()
    };
    let mut reports = reports(mailboxes, &mut change, |_, _| Ok(String::new()))?;
    if reports.is_empty() {
        return Ok(change);
    }
    let entries: Vec<String> = reports.keys().cloned().collect();
    // Searches and removes under one lock, because somebody may be editing the list.
    let edited = compile::remove(&plan, list, &entries, By::Reports)?;
    for (entry, line) in edited.kept {
        let (name, _) = reports.remove(&entry).unwrap_or_default();
        let why = "of the list was not made by a report and stays; remove it by hand";
        change.leave_out(&name, &format!("{entry}: line {line} {why}"));
    }
    for (entry, done) in edited.entries {
        if matches!(done, Done::Removed { .. }) {
            change.removed.push(entry);
        } else if let Some((name, _)) = reports.get(&entry) {
            change.leave_out(name, &format!("{entry}: not in the list"));
        }
    }
    Ok(change)
}

/// Returns each sender that may be listed, with the file of its first message and the note about it. `note` gets a sender
/// and the headers; it fails if the sender may not be listed.
fn reports(
    mailboxes: &[PathBuf],
    change: &mut ListChange,
    note: impl Fn(&str, &Headers) -> Result<String, String>,
) -> Result<BTreeMap<String, (String, String)>, Error> {
    let mut reports = BTreeMap::new();
    for mailbox in mailboxes {
        let read = each_message(mailbox, false, &mut |Stored { name, headers, .. }| {
            change.messages += 1;
            let noted = sender(&headers).and_then(|sender| {
                let note = note(&sender, &headers)?;
                Ok((sender, note))
            });
            match noted {
                Ok((sender, note)) if reports.len() < REPORTS_MAX => {
                    reports.entry(sender).or_insert((name, note));
                }
                Ok(_) => change.leave_out(&name, "too many reports at once"),
                Err(why) => change.leave_out(&name, &why),
            }
        });
        read.map_err(FileError::of(mailbox))?;
    }
    Ok(reports)
}

/// Returns the single sender in From, in canonical form.
fn sender(headers: &Headers) -> Result<String, String> {
    let mut named = BTreeSet::new();
    for sender in headers.addresses(&["From"]).iter() {
        let form = Canonical::parse(sender.address, Entries::rules())
            .ok()
            .filter(|_| sender.strength == Strength::Strong)
            .ok_or("the From header is not a single address")?;
        named.insert(form.as_bytes().to_vec());
    }
    match (named.len(), named.first()) {
        (1, Some(sender)) => {
            let text = str::from_utf8(sender).map_err(|_| "the From header is not valid text")?;
            Ok(list::written_address(text))
        }
        (0, _) => Err("the From header has no address".to_owned()),
        (more, _) => Err(format!("the From header has {more} addresses")),
    }
}

/// Checks that this sender may be listed.
fn check(
    sender: &str,
    headers: &Headers,
    cleared: &[&Entries],
    config: &Config,
) -> Result<(), String> {
    let form =
        Canonical::parse(sender.as_bytes(), Entries::rules()).map_err(|error| error.to_string())?;
    let is_in = |entries: &&Entries| entries.find(&form, today()).is_some();
    if cleared.iter().any(is_in) {
        return Err(format!("{sender}: on the whitelist, or a correspondent"));
    }
    for name in ["Delivered-To", "X-Original-To"] {
        let recipient = headers
            .get(name)
            .and_then(|to| Canonical::parse(to.trim_ascii(), Entries::rules()).ok());
        if recipient.is_some_and(|recipient| recipient.domain() == form.domain()) {
            return Err(format!("{sender}: of the same domain as the recipient"));
        }
    }
    let trusted = &config.whitelist.authserv_ids;
    let mut confirmed = false;
    for value in headers.all("Authentication-Results") {
        let results = Authentication::read(value, trusted);
        if results.has_failed {
            return Err(format!("{sender}: DMARC failed, probably forged"));
        }
        let mut signers = results.signers.iter();
        confirmed |= signers.any(|signer| is_aligned(signer, form.domain()))
            || results.passed.iter().any(|domain| domain == form.domain());
    }
    let why = || format!("{sender}: neither DKIM nor DMARC confirms it, perhaps forged");
    confirmed.then_some(()).ok_or_else(why)
}

/// Returns the Message-ID, reduced to characters without a meaning in a list.
fn message_id(headers: &Headers) -> String {
    let id = headers.get("Message-ID").unwrap_or_default();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"<>@.-_+=$".contains(byte);
    let kept = id.iter().copied().filter(is_plain).take(MESSAGE_ID_MAX);
    kept.map(char::from).collect()
}

impl ListChange {
    fn leave_out(&mut self, name: &str, why: &str) {
        if self.left_out.len() < REPORTS_MAX {
            self.left_out.push((name.to_owned(), why.to_owned()));
        }
    }
}

impl Display for ListChange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = self.list.display();
        for (entries, what) in [
            (&self.added, "added to"),
            (&self.known, "already in"),
            (&self.removed, "removed from"),
        ] {
            for entry in entries {
                writeln!(f, "{entry}: {what} {list}")?;
            }
        }
        for (name, why) in &self.left_out {
            writeln!(f, "{}: left out: {why}", escaped(name.as_bytes()))?;
        }
        write!(f, "{} read", counted(self.messages, "message", "messages"))
    }
}
