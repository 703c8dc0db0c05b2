//! Correspondents: a whitelist of addresses to which local users write, collected from sent mail.
//!
//! A person to whom a user writes is hardly a spammer for this user. Only mail that a user sent
//! counts: from an authenticated client (or one that the administrator names), delivered to another
//! server. Mail that programs send automatically does not count, because it goes to everybody who
//! writes to us: bounces and notifications (null sender), automatic replies, mail forwarded by a
//! list or alias.
//!
//! | file | about |
//! |---|---|
//! | `book` | the file of addresses, each with the last day on which a user wrote to it |
//! | `mta` | sent mail in the logs of Postfix and Sendmail |
//! | `sent` | sent mail in a mailbox |
//!
//! Only addresses are stored, never domains. The daemon reads the file as `correspondents` of its
//! `[whitelist]`.

mod book;
mod mta;
mod sent;

use std::collections::BTreeMap;

pub use book::{Book, Change};
pub use mta::read_log;
pub use sent::read_mailbox;

use crate::address::{Entry, Kind};
use crate::base::day::Day;
pub use crate::base::whole_file::FileError as Error;
use crate::policy::{Entries, Network};

/// Which mail counts.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Our own domains, in lower case: addresses there are not correspondents.
    pub own_domains: Vec<String>,
    /// Clients whose mail counts without authentication.
    pub clients: Vec<Network>,
    /// User ids on this machine whose locally submitted mail counts.
    pub uids: Vec<u32>,
}

/// The addresses to which users wrote, and when last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Canonical addresses.
    pub addresses: BTreeMap<String, Day>,
    /// Number of messages from users.
    pub messages: u64,
    /// Number of recipients ignored because the message looks like an automatic reply.
    pub automatic: u64,
    /// Number of recipients ignored because the message has too many.
    pub crowds: u64,
}

/// A message to more recipients is a newsletter, or is not sent by the user personally.
const RECIPIENTS_MAX: u64 = 100;
/// Most addresses that are collected.
const ADDRESSES_MAX: usize = 1_000_000;

impl Written {
    fn add(&mut self, address: &str, sender_domain: &str, day: Day, rules: &Rules) {
        let Some(address) = correspondent(address) else {
            return;
        };
        let domain = domain_of(&address);
        let is_own = domain == sender_domain || rules.own_domains.iter().any(|own| own == domain);
        if is_own {
            return;
        }
        if let Some(last) = self.addresses.get_mut(&address) {
            *last = day.max(*last);
        } else if self.addresses.len() < ADDRESSES_MAX {
            self.addresses.insert(address, day);
        }
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
