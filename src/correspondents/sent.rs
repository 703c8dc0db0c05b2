//! Collects the recipients (To, Cc and Bcc) from a mailbox of sent mail.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use jiff::fmt::rfc2822::DateTimeParser;

use super::{Error, RECIPIENTS_MAX, Rules, Written, correspondent, domain_of};
use crate::base::day::Day;
use crate::explain::{Headers, each_message};
use crate::journal;
use crate::sender::{Identity, Senders, Strength};

/// Adds the recipients of the messages in a maildir, another folder of messages, or an mbox.
///
/// # Errors
/// The mailbox cannot be read.
pub fn read_mailbox(path: &Path, rules: &Rules, written: &mut Written) -> Result<(), Error> {
    each_message(path, &mut |name, headers| {
        if let Some(headers) = headers {
            message(&name, &headers, rules, written);
        }
    })
    .map_err(Error::of(path))
}

fn message(name: &str, headers: &Headers, rules: &Rules, written: &mut Written) {
    if is_automatic(headers) {
        written.automatic += 1;
        return;
    }
    let Some(sender) = named(headers, &["From"]).into_iter().next() else {
        return;
    };
    let Some(day) = day(name, headers) else {
        return;
    };
    written.messages += 1;
    let recipients = named(headers, &["To", "Cc", "Bcc"]);
    if recipients.len() as u64 > RECIPIENTS_MAX {
        written.crowds += 1;
        return;
    }
    for recipient in recipients {
        written.add(&recipient, domain_of(&sender), day, rules);
    }
}

/// Returns whether a program sent or forwarded it (RFC 3834 section 5, RFC 2919).
fn is_automatic(headers: &Headers) -> bool {
    let says = |name: &str, words: &[&str]| {
        headers.get(name).is_some_and(|value| {
            let value = value.trim_ascii();
            words
                .iter()
                .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    let is_submitted = headers.get("Auto-Submitted").is_some() && !says("Auto-Submitted", &["no"]);
    is_submitted
        || says("Precedence", &["bulk", "junk", "list", "auto_reply"])
        || says("Return-Path", &["<>"])
        || ["List-Id", "X-Autoreply", "X-Autorespond", "Resent-From"]
            .iter()
            .any(|name| headers.get(name).is_some())
}

/// Returns the addresses in these fields, as the daemon reads them; weak and doubtful ones do not
/// count.
fn named(headers: &Headers, names: &[&str]) -> Vec<String> {
    let mut found = Senders::default();
    for field in &headers.fields {
        let is_asked = names
            .iter()
            .any(|name| field.name.eq_ignore_ascii_case(name.as_bytes()));
        if is_asked {
            // The grammar of these fields is that of From.
            found.add_header(Identity::From, &field.value);
        }
    }
    let strong = found.iter().filter(|one| one.strength == Strength::Strong);
    strong
        .filter_map(|one| correspondent(&String::from_utf8_lossy(one.address)))
        .collect()
}

/// Returns the day in the Date field, or else that of the file.
fn day(name: &str, headers: &Headers) -> Option<Day> {
    let of_header = headers.get("Date").and_then(|date| {
        let parser = DateTimeParser::new().relaxed_weekday(true);
        let date = parser.parse_timestamp(date.trim_ascii()).ok()?;
        journal::day(date.as_second())
    });
    of_header.or_else(|| {
        let changed = fs::metadata(name).ok()?.modified().ok()?;
        let since = changed.duration_since(UNIX_EPOCH).ok()?;
        journal::day(i64::try_from(since.as_secs()).ok()?)
    })
}
