//! People that local users write to: a whitelist of their addresses, kept from what was sent.
//!
//! Who gets mail from a user is hardly a spammer to that user. Only mail counts that a user has sent:
//! of a client that has logged in (or that the admin names), delivered to another server. What
//! programs send by themselves does not count, for it goes to anyone who writes in: bounces and
//! notifications (null sender), automatic replies, mail that a list or an alias passes on.
//!
//! | file | about |
//! |---|---|
//! | `book` | the file of addresses, each with the day on which it was last written to |
//! | `mta` | what was sent, from the logs of Postfix and Sendmail |
//! | `sent` | what was sent, from a mailbox of sent mail |
//!
//! Addresses alone are kept, never domains. The daemon reads the file as `correspondents` of its
//! `[whitelist]`.

mod book;
mod mta;
mod sent;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use book::{Book, Change};
pub use mta::read_log;
pub use sent::read_mailbox;

use crate::address::{Entry, Kind};
use crate::list::{self, Day};
use crate::policy::{Entries, Network};

/// Why correspondents cannot be found or kept.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

impl Error {
    fn of<E: Into<Box<dyn std::error::Error + Send + Sync>>>(path: &Path) -> impl Fn(E) -> Self {
        let path = path.to_owned();
        move |source| Self {
            path: path.clone(),
            source: io::Error::other(source),
        }
    }
}

/// Whose mail counts, and to whom.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Our own domains, in lower case: nobody there is a correspondent.
    pub own_domains: Vec<String>,
    /// Clients whose mail counts without a login.
    pub clients: Vec<Network>,
    /// Users of this machine whose mail counts when they submit it here.
    pub uids: Vec<u32>,
}

/// Who was written to, and when last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Canonical addresses.
    pub addresses: BTreeMap<String, Day>,
    /// Messages of users.
    pub messages: u64,
    /// Recipients left out because the message looks like an automatic reply.
    pub automatic: u64,
    /// Recipients left out because the message has too many.
    pub crowds: u64,
}

/// A message to more recipients is a newsletter, or not sent by the user himself.
const RECIPIENTS_MAX: u64 = 100;
/// Addresses that are found at most.
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

/// The canonical form of an address that can be kept: a mailbox, read from a list as it is written.
fn correspondent(address: &str) -> Option<String> {
    let entry = Entry::parse(address.as_bytes(), Entries::rules()).ok()?;
    let text = std::str::from_utf8(entry.as_bytes()).ok()?;
    let is_kept = entry.kind() == Kind::Mailbox
        && list::is_read_as_written(text)
        && !text.starts_with("mailer-daemon@");
    is_kept.then(|| text.to_owned())
}

fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}
