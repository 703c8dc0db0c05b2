//! Exemptions: networks of clients, and sets of entries (recipients, senders).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::str::FromStr;

use ipnet::IpNet;

use blocklist_filter::address::{Canonical, Entry, Kind, Kinds, ParseError, Rules};

/// A range of addresses: `192.0.2.0/24`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Returns whether the address is in it. IPv4 written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let (address, prefix) = match written.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (written, None),
        };
        let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
        let bare = bare.unwrap_or(address);
        let address: IpAddr = bare.parse().map_err(|_| {
            format!("{written:?} is not a network, such as 192.0.2.0/24 or 2001:db8::/32")
        })?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let network = match prefix {
            None => IpNet::from(address),
            Some(prefix) => prefix
                .parse()
                .ok()
                .and_then(|prefix| IpNet::new(address, prefix).ok())
                .ok_or_else(|| format!("{written:?}: the prefix must be from 0 to {bits}"))?,
        };
        let lowest = network.trunc();
        if lowest != network {
            return Err(format!(
                "{written:?} has bits set after its prefix; write {lowest}"
            ));
        }
        // An IPv4 network written as IPv6, as some servers show it. Clients are compared as IPv4.
        let short = address.to_canonical();
        let short_prefix = network.prefix_len().checked_sub(96);
        let short = short_prefix
            .filter(|_| short.is_ipv4() && address.is_ipv6())
            .and_then(|prefix| IpNet::new(short, prefix).ok());
        Ok(Self(short.unwrap_or(network)))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A small exact set of entries of every kind: a whitelist, or recipients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Each entry, with the first day on which it no longer counts, if it ends.
    ends: HashMap<Box<[u8]>, Option<u16>>,
    kinds: Kinds,
    /// Those of a setting, as written.
    written: Vec<String>,
}

impl Entries {
    /// Returns the address rules for whitelists and recipients: the default ones.
    pub fn rules() -> Rules {
        Rules::default()
    }

    /// Creates the set of a setting, whose entries were parsed before.
    pub fn of_setting(written: Vec<String>) -> Self {
        let mut entries = Self::default();
        for entry in &written {
            let _ = entries.add(entry.as_bytes());
        }
        Self { written, ..entries }
    }

    /// Returns the entries of a setting as written.
    pub fn written(&self) -> &[String] {
        &self.written
    }

    /// Adds one entry as an administrator writes it, and returns its kind.
    pub fn add(&mut self, written: &[u8]) -> Result<Kind, ParseError> {
        self.add_until(written, None)
    }

    /// Adds one entry that no longer counts from the day `expires` on, in days since 1970. Of two
    /// that are the same, the one that ends later counts.
    pub fn add_until(&mut self, written: &[u8], expires: Option<u16>) -> Result<Kind, ParseError> {
        let entry = Entry::parse(written, Self::rules())?;
        self.kinds.insert(entry.kind());
        self.insert(entry.as_bytes().into(), expires);
        Ok(entry.kind())
    }

    fn insert(&mut self, entry: Box<[u8]>, expires: Option<u16>) {
        let end = self.ends.entry(entry).or_insert(expires);
        *end = end.zip(expires).map(|(one, other)| one.max(other));
    }

    /// Adds all entries of another set, in the same way.
    pub fn add_all(&mut self, other: &Self) {
        let kinds = Kind::ALL.into_iter();
        let held = kinds.filter(|kind| other.kinds.contains(*kind));
        held.for_each(|kind| self.kinds.insert(kind));
        for (entry, &expires) in &other.ends {
            self.insert(entry.clone(), expires);
        }
    }

    /// Returns how many entries of another set are not in this one.
    pub fn lacks(&self, other: &Self) -> usize {
        let entries = other.ends.keys();
        let lacking = entries.filter(|entry| !self.ends.contains_key(*entry));
        lacking.count()
    }

    /// Returns the number of entries, including those that have ended.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of entries that no longer count on a day.
    pub fn expired(&self, today: u16) -> usize {
        let ended = |end: &&Option<u16>| end.is_some_and(|end| end <= today);
        self.ends.values().filter(ended).count()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the most specific entry that names this address on a day, in days since 1970.
    pub fn find(&self, address: &Canonical, today: u16) -> Option<&[u8]> {
        let found = address.lookups(self.kinds, |_, entry| {
            match self.ends.get_key_value(entry) {
                Some((found, end)) if end.is_none_or(|end| today < end) => {
                    ControlFlow::Break(&**found)
                }
                _ => ControlFlow::Continue(()),
            }
        });
        found.break_value()
    }

    /// Returns the entry that names a recipient, in either of its forms. A bare word (`postmaster`,
    /// which servers must accept without a domain by RFC 5321 section 4.5.1) is looked up as a
    /// local part.
    pub fn find_recipient(
        &self,
        recipient: Recipient<'_>,
        memory: &mut Canonical,
    ) -> Option<&[u8]> {
        let mut forms = recipient.forms();
        forms.find_map(|form| self.find_in(form, memory))
    }

    /// Like [`find_recipient`](Self::find_recipient), but for entries that exempt mail: a form
    /// counts only if it is written as plainly as the entry.
    ///
    /// For a sender we look behind a BATV tag, `mailto:`, comments and the like, because a listed
    /// one may be hidden there. For a recipient that would be wrong: a server that does not know
    /// these forms takes `prvs=0=abuse@our.example` for another of its mailboxes, and the exemption
    /// of `abuse@` must not be a way to reach it.
    pub fn find_exempt(&self, recipient: Recipient<'_>, memory: &mut Canonical) -> Option<&[u8]> {
        recipient.forms().find_map(|form| {
            let found = self.find_in(form, memory)?;
            is_plain(form, memory).then_some(found)
        })
    }

    fn find_in(&self, written: &[u8], memory: &mut Canonical) -> Option<&[u8]> {
        if self.is_empty() {
            return None;
        }
        if self.kinds.contains(Kind::LocalPart)
            && let Some(word) = bare_word(written)
        {
            let entry = [word.to_ascii_lowercase().as_slice(), b"@"].concat();
            let found = self.ends.get_key_value(entry.as_slice());
            return found.map(|(found, _)| &**found);
        }
        // Most are `<local@domain>` in plain letters: without the brackets they are read faster.
        let bare = unbracketed(written);
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"@.-_".contains(byte);
        let is_bare = bare.iter().all(is_plain);
        let written = if is_bare { bare } else { written };
        memory.read(written, Self::rules()).ok()?;
        // Entries for recipients are in the configuration and do not end.
        self.find(memory, 0)
    }
}

/// A recipient of a message, in both known forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recipient<'a> {
    /// The argument of RCPT TO as the client sent it.
    pub written: &'a [u8],
    /// The address as the mail server understood it (`{rcpt_addr}`), if it sent that. Sendmail
    /// omits the domain of a local mailbox.
    pub understood: Option<&'a [u8]>,
}

impl<'a> Recipient<'a> {
    fn forms(self) -> impl Iterator<Item = &'a [u8]> {
        [Some(self.written), self.understood].into_iter().flatten()
    }

    pub(super) fn longest(self) -> usize {
        self.forms().map(<[u8]>::len).max().unwrap_or_default()
    }
}

fn unbracketed(written: &[u8]) -> &[u8] {
    let written = written.trim_ascii();
    written
        .strip_prefix(b"<")
        .and_then(|inner| inner.strip_suffix(b">"))
        .unwrap_or(written)
}

fn bare_word(written: &[u8]) -> Option<&[u8]> {
    let word = unbracketed(written);
    (!word.is_empty() && !word.contains(&b'@')).then_some(word)
}

/// Whether an address is written plainly: a word, or a word, one `@` and a domain, which neither the
/// server (`victim%other@our.example`) nor a rule for senders changes.
fn is_plain(written: &[u8], memory: &mut Canonical) -> bool {
    let bare = unbracketed(written);
    let mut halves = bare.split(|&byte| byte == b'@');
    let (Some(local), domain, None) = (halves.next(), halves.next(), halves.next()) else {
        return false;
    };
    let Some(domain) = domain else {
        return true;
    };
    let (domain, marks) = match domain {
        [b'[', literal @ .., b']'] => (literal, ".:"),
        name => (name, ".-_"),
    };
    let in_domain = |c: char| c.is_alphanumeric() || marks.contains(c);
    let plain_domain = std::str::from_utf8(domain).is_ok_and(|name| name.chars().all(in_domain));
    // Provider rules may change more, but the result is still an address that somebody exempted.
    let rules = Rules {
        providers: false,
        ..Entries::rules()
    };
    plain_domain
        && !local.iter().any(|byte| matches!(byte, b'%' | b'!'))
        && memory.read(bare, rules).is_ok()
        && memory.local().eq_ignore_ascii_case(local)
}
