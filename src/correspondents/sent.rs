//! Collects the recipients (To, Cc and Bcc) from a mailbox of sent mail.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::fmt::rfc2822::DateTimeParser;

use super::{Book, RECIPIENTS_MAX, correspondent, domain_of};
use crate::explain::{Headers, Stored, each_message};
use crate::journal;
use crate::sender::Strength;
use blocklist_filter::base::day::Day;
use blocklist_filter::base::whole_file::FileError;

impl Book {
    /// Adds the recipients of the messages in a maildir or another folder of messages.
    pub(crate) fn add_mailbox(&mut self, path: &Path) -> Result<(), FileError> {
        let read = each_message(
            path,
            false,
            &mut |Stored {
                      headers, changed, ..
                  }| {
                if is_automatic(&headers) {
                    self.change.automatic += 1;
                    return;
                }
                let sender = named(&headers, &["From"]).into_iter().next();
                let (Some(sender), Some(day)) = (sender, day(&headers, changed)) else {
                    return;
                };
                self.change.messages += 1;
                let recipients = named(&headers, &["To", "Cc", "Bcc"]);
                if recipients.len() as u64 > RECIPIENTS_MAX {
                    self.change.crowds += 1;
                    return;
                }
                for recipient in recipients {
                    self.add(&recipient, domain_of(&sender), day);
                }
            },
        );
        read.map(drop).map_err(FileError::of(path))
    }
}

/// Returns whether a program sent or forwarded it (RFC 3834 section 5, RFC 2919).
fn is_automatic(headers: &Headers) -> bool {
    let has = |name: &&str| headers.get(name).is_some();
    let says = |name: &str, words: &[&str]| {
        let value = headers.get(name).map(<[u8]>::trim_ascii);
        let is =
            |word: &&str| value.is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
        words.iter().any(is)
    };
    let fields = ["List-Id", "X-Autoreply", "X-Autorespond", "Resent-From"];
    has(&"Auto-Submitted") && !says("Auto-Submitted", &["no"])
        || says("Precedence", &["bulk", "junk", "list", "auto_reply"])
        || says("Return-Path", &["<>"])
        || fields.iter().any(has)
}

/// Returns the addresses in these fields, as the daemon reads them; weak and doubtful ones do not
/// count.
fn named(headers: &Headers, names: &[&str]) -> Vec<String> {
    let found = headers.addresses(names);
    let strong = found.iter().filter(|one| one.strength == Strength::Strong);
    strong
        .filter_map(|one| correspondent(&String::from_utf8_lossy(one.address)))
        .collect()
}

/// Returns the day in the Date field, or else that of the file.
fn day(headers: &Headers, changed: Option<SystemTime>) -> Option<Day> {
    let of_header = headers.get("Date").and_then(|date| {
        let parser = DateTimeParser::new().relaxed_weekday(true);
        let date = parser.parse_timestamp(date.trim_ascii()).ok()?;
        journal::day(date.as_second())
    });
    of_header.or_else(|| {
        let since = changed?.duration_since(UNIX_EPOCH).ok()?;
        journal::day(i64::try_from(since.as_secs()).ok()?)
    })
}
