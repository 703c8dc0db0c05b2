//! Correspondents: a whitelist of addresses to which local users write, collected from sent mail.
//!
//! A person to whom a user writes is hardly a spammer for this user. Only mail that a user sent
//! counts: from an authenticated client (or one that the administrator names), delivered to another
//! server. Mail that programs send automatically does not count, because it goes to everybody who
//! writes to us: bounces and notifications (null sender), automatic replies, mail forwarded by a
//! list or alias.
//!
//! `mta` finds sent mail in the logs of Postfix and Sendmail, `sent` in a mailbox. The file of addresses has the last
//! day on which a user wrote to each. The daemon reads it as `correspondents` of its `[whitelist]`:
//!
//! ```text
//! # People whom our users wrote to, kept by blocklist-milter correspondents.
//! bob@other.example # seen 2026-11-21
//! ```
//!
//! Only addresses are stored, never domains.

mod mta;
mod sent;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::policy::{Entries, Network};
use blocklist_compile::list::written_address;
use blocklist_filter::address::{Entry, Kind, escaped};
use blocklist_filter::base::day::Day;
use blocklist_filter::base::numbers::counted;
use blocklist_filter::base::replacement::{self, Replacement};
use blocklist_filter::base::whole_file::{self, FileError};

const HEAD: &str =
    "# People whom our users wrote to, kept by \"blocklist-milter correspondents\".\n";
const SEEN: &str = " # seen ";
/// A larger file is not a file of correspondents.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// A message to more recipients is a newsletter, or is not sent by the user personally.
const RECIPIENTS_MAX: u64 = 100;
/// Most addresses that are collected.
const ADDRESSES_MAX: usize = 1_000_000;

/// Which mail counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// Our own domains, in lower case: addresses there are not correspondents.
    pub(crate) own_domains: Vec<String>,
    /// Clients whose mail counts without authentication.
    pub(crate) clients: Vec<Network>,
    /// User ids on this machine whose locally submitted mail counts.
    pub(crate) uids: Vec<u32>,
}

/// The changes that one run made to the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    pub(crate) file: PathBuf,
    /// Number of addresses in the file now.
    pub(crate) addresses: u64,
    pub(crate) added: u64,
    /// Number of known addresses to which users wrote again.
    pub(crate) seen_again: u64,
    /// Number of addresses dropped because nobody wrote to them for too long.
    pub(crate) dropped: u64,
    /// Messages from users.
    messages: u64,
    /// Recipients ignored because the message looks like an automatic reply.
    automatic: u64,
    /// Recipients ignored because the message has too many.
    crowds: u64,
}

/// The file, and what a run has read.
#[derive(Debug, Default)]
pub(crate) struct Book {
    rules: Rules,
    /// The addresses in the file, each with the last day on which a user wrote to it.
    known: BTreeMap<String, Day>,
    /// Those to which users wrote according to what was read.
    written: BTreeMap<String, Day>,
    change: Change,
}

impl Book {
    /// Reads the file; a missing one gives no addresses.
    pub(crate) fn read(path: &Path, rules: Rules) -> Result<Self, FileError> {
        let mut book = Self {
            rules,
            ..Self::default()
        };
        book.change.file = path.to_owned();
        let text = whole_file::read(path, FILE_BYTES_MAX, "a file of correspondents")?;
        let text = String::from_utf8(text.unwrap_or_default())
            .map_err(|_| FileError::of(path)("not a file of correspondents: not text"))?;
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line.rsplit_once(SEEN).and_then(|(address, day)| {
                Some((correspondent(address)?, Day::read(day.as_bytes())?))
            });
            let Some((address, day)) = entry else {
                let line = escaped(line.as_bytes());
                let why = format!(
                    "not a file of correspondents: line {number} is not \"ADDRESS # seen DATE\": {line}"
                );
                return Err(FileError::of(path)(why));
            };
            book.known.insert(address, day);
        }
        Ok(book)
    }

    fn add(&mut self, address: &str, sender_domain: &str, day: Day) {
        let Some(address) = correspondent(address) else {
            return;
        };
        let domain = domain_of(&address);
        if domain == sender_domain || self.rules.own_domains.iter().any(|own| own == domain) {
            return;
        }
        if let Some(last) = self.written.get_mut(&address) {
            *last = day.max(*last);
        } else if self.written.len() < ADDRESSES_MAX {
            self.written.insert(address, day);
        }
    }

    /// Adds the addresses to which users wrote, drops those to which nobody wrote for `keep` days, and
    /// replaces the file if its content changes. After an error the old file stays.
    pub(crate) fn update(mut self, today: Day, keep: u16) -> Result<Change, replacement::Error> {
        let (known, change) = (&mut self.known, &mut self.change);
        let oldest = Day(today.0.saturating_sub(keep));
        for (address, day) in self.written {
            // A wrong clock must not keep an address forever.
            let day = day.min(today);
            if day < oldest {
                continue;
            }
            match known.get_mut(&address) {
                Some(last) if *last < day => {
                    *last = day;
                    change.seen_again += 1;
                }
                Some(_) => {}
                None => {
                    known.insert(address, day);
                    change.added += 1;
                }
            }
        }
        let before = known.len();
        known.retain(|_, day| *day >= oldest);
        change.dropped = (before - known.len()) as u64;
        change.addresses = known.len() as u64;
        let mut text = HEAD.to_owned();
        for (address, day) in known {
            text.push_str(&format!("{}{SEEN}{day}\n", written_address(address)));
        }
        if !fs::read_to_string(&change.file).is_ok_and(|old| old == text) {
            Replacement::claim(&change.file)?.commit_text(text.as_bytes())?;
        }
        Ok(self.change)
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {} new, {} written to again, {} dropped; from {}",
            self.file.display(),
            counted(self.addresses, "address", "addresses"),
            self.added,
            self.seen_again,
            self.dropped,
            counted(self.messages, "message", "messages")
        )?;
        for (count, what) in [
            (self.automatic, "recipients of automatic replies"),
            (self.crowds, "recipients of messages to very many"),
        ] {
            if count > 0 {
                write!(f, "; left out: {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Returns the canonical form of an address that can be stored: a mailbox.
fn correspondent(address: &str) -> Option<String> {
    let entry = Entry::parse(address.as_bytes(), Entries::rules()).ok()?;
    let text = std::str::from_utf8(entry.as_bytes()).ok()?;
    let is_kept = entry.kind() == Kind::Mailbox && !text.starts_with("mailer-daemon@");
    is_kept.then(|| text.to_owned())
}

fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocklist_compile::list;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn addresses_are_kept_until_nobody_writes_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("correspondents");
        let read = || Book::read(&path, Rules::default());
        let take = |day: u16, addresses: &[&str]| {
            let mut book = read().unwrap();
            for address in addresses {
                book.add(address, "our.example", Day(day));
            }
            let change = book.update(Day(day), 120).unwrap();
            (change.added, change.seen_again, change.dropped)
        };
        assert_eq!(take(20_000, &["a@x.example", "b@x.example"]), (2, 0, 0));
        assert_eq!(take(20_100, &["a@x.example"]), (0, 1, 0));
        assert_eq!(take(20_120, &[]), (0, 0, 0));
        assert_eq!(take(20_121, &[]), (0, 0, 1));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{HEAD}a@x.example # seen 2025-01-12\n"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );

        // Whatever the local part looks like.
        let odd =
            "-kei-@x +p@x a?b@x a|b@x 'q@x #h@x x{y@x x$@x ^x@x !b@x a*b@x ;x@x =x@x %x%@x ü²@x";
        let odd: Vec<&str> = odd.split(' ').collect();
        assert_eq!(take(20_242, &odd), (odd.len() as u64, 0, 1));
        let book = read().unwrap();
        assert_eq!(book.known.len(), odd.len());
        for line in fs::read_to_string(&path).unwrap().lines().skip(1) {
            let (entry, _) = list::split_comment(line.as_bytes());
            let entry = list::read_entry(entry).unwrap();
            let address = correspondent(str::from_utf8(&entry).unwrap());
            assert!(book.known.contains_key(&address.unwrap()), "{line}");
        }

        fs::write(&path, "a@x.example\n").unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("line 1 is not"), "{error}");
    }
}
