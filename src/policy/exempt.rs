//! Who is not refused: networks of clients, and sets of entries (recipients, senders).

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::str::FromStr;

use crate::address::{Canonical, Entry, Kind, Kinds, ParseError, Rules};

/// Why a message or a recipient is let through in spite of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exemption {
    /// The client has logged in.
    Authenticated,
    /// The mail was submitted on this machine, not by SMTP: a refusal would bounce to a forged sender.
    Local,
    /// The client is in one of `networks`.
    Network,
    /// The recipient is one that must stay reachable.
    Recipient,
}

impl Exemption {
    /// As the log names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Authenticated => "authenticated",
            Self::Local => "local",
            Self::Network => "network",
            Self::Recipient => "exempt-recipient",
        }
    }
}

/// A range of addresses: `192.0.2.0/24`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether the address is in it. IPv4 written as IPv6 (`::ffff:192.0.2.1`) counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits())
                    .checked_shr(32 - u32::from(self.prefix))
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits())
                    .checked_shr(128 - u32::from(self.prefix))
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let (address, prefix) = match written.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (written, None),
        };
        let bare = address
            .strip_prefix('[')
            .and_then(|a| a.strip_suffix(']'))
            .unwrap_or(address);
        let address: IpAddr = bare.parse().map_err(|_| {
            format!("{written:?} is not a network, such as 192.0.2.0/24 or 2001:db8::/32")
        })?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|&prefix| prefix <= bits)
                .ok_or_else(|| format!("{written:?}: the prefix must be from 0 to {bits}"))?,
        };
        let network = Self { address, prefix };
        if network.lowest() != address {
            return Err(format!(
                "{written:?} has bits beyond its prefix; write {}/{prefix}",
                network.lowest()
            ));
        }
        Ok(match address.to_canonical() {
            // Written as IPv6, as some servers show it; clients are compared as IPv4.
            short @ IpAddr::V4(_) if address.is_ipv6() && prefix >= 96 => Self {
                address: short,
                prefix: prefix - 96,
            },
            _ => network,
        })
    }
}

impl Network {
    fn lowest(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(a) => IpAddr::V4(
                (a.to_bits()
                    & u32::MAX
                        .checked_shl(32 - u32::from(self.prefix))
                        .unwrap_or(0))
                .into(),
            ),
            IpAddr::V6(a) => IpAddr::V6(
                (a.to_bits()
                    & u128::MAX
                        .checked_shl(128 - u32::from(self.prefix))
                        .unwrap_or(0))
                .into(),
            ),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// A small exact set of entries of every kind: a whitelist, or recipients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    set: HashSet<Box<[u8]>>,
    kinds: Option<Kinds>,
}

impl Entries {
    /// The address rules by which whitelists and recipients are compared: the default ones.
    pub fn rules() -> Rules {
        Rules::default()
    }

    /// Adds one entry as an admin writes it.
    ///
    /// # Errors
    /// It is no address, domain, subtree or local part.
    pub fn add(&mut self, written: &[u8]) -> Result<(), ParseError> {
        let entry = Entry::parse(written, Self::rules())?;
        self.kinds.get_or_insert(Kinds::EMPTY).insert(entry.kind());
        self.set.insert(entry.as_bytes().into());
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The entry that names this address, the most specific one first.
    pub fn find(&self, address: &Canonical) -> Option<&[u8]> {
        let found = address.lookups(self.kinds?, |_, entry| match self.set.get(entry) {
            Some(found) => ControlFlow::Break(&**found),
            None => ControlFlow::Continue(()),
        });
        found.break_value()
    }

    /// As [`find`](Self::find), and a bare word (`postmaster`, which RFC 5321 4.5.1 wants accepted
    /// without a domain) is looked up as a local part.
    pub fn find_recipient(&self, written: &[u8], memory: &mut Canonical) -> Option<&[u8]> {
        if self.kinds?.contains(Kind::LocalPart)
            && let Some(word) = bare_word(written)
        {
            let entry = [word.to_ascii_lowercase().as_slice(), b"@"].concat();
            return self.set.get(entry.as_slice()).map(|found| &**found);
        }
        memory.read(written, Self::rules()).ok()?;
        self.find(memory)
    }
}

fn bare_word(written: &[u8]) -> Option<&[u8]> {
    let written = written.trim_ascii();
    let word = written
        .strip_prefix(b"<")
        .and_then(|w| w.strip_suffix(b">"))
        .unwrap_or(written);
    (!word.is_empty() && !word.contains(&b'@')).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let holds = |network: &str, address: &str| {
            network
                .parse::<Network>()
                .unwrap()
                .contains(address.parse().unwrap())
        };
        assert!(holds("192.0.2.0/24", "192.0.2.255"));
        assert!(!holds("192.0.2.0/24", "192.0.3.0"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.6"));
        assert!(holds("0.0.0.0/0", "255.255.255.255"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("192.0.2.0/24", "::ffff:192.0.2.9"));
        assert!(holds("::ffff:192.0.2.0/120", "192.0.2.9"));
        assert!(!holds("::ffff:192.0.2.0/120", "192.0.3.9"));
        assert!(holds("::ffff:192.0.2.7", "::ffff:192.0.2.7"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(holds("[2001:db8::1]", "2001:db8::1"));
        for wrong in [
            "",
            "192.0.2.0/33",
            "192.0.2.1/24",
            "example.com",
            "192.0.2.0/",
            "2001:db8::/129",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn recipients() {
        let mut entries = Entries::default();
        for entry in [
            "postmaster@",
            "abuse@",
            "helpdesk@our.example",
            "@open.example",
        ] {
            entries.add(entry.as_bytes()).unwrap();
        }
        let found = |written: &str| {
            entries
                .find_recipient(written.as_bytes(), &mut Canonical::new())
                .is_some()
        };
        for written in [
            "<postmaster>",
            "POSTMASTER",
            "<Abuse@our.example>",
            "helpdesk@our.example",
            "<x@open.example>",
        ] {
            assert!(found(written), "{written}");
        }
        for written in [
            "<>",
            "",
            "<user>",
            "<user@our.example>",
            "<x@sub.open.example>",
        ] {
            assert!(!found(written), "{written}");
        }
    }
}
