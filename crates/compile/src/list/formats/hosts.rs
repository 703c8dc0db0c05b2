//! Hosts files (hosts(5)): `0.0.0.0 bad.example other.example # why`.
//!
//! A name is listed if its address leads nowhere (`0.0.0.0`, `::`, loopback). A name with a
//! real address is a host of somebody's network. A name is the machine's own at 127.0.1.1, as Debian
//! writes it, and at a loopback address if its short form follows.

use std::net::IpAddr;

use super::Out;
use crate::list::row::{RejectReason, looks_like_entry};
use crate::list::text::{Words, blank_words, is_one_of};

const OWN_NAMES: &str = "0.0.0.0 broadcasthost ip6-allhosts ip6-allnodes ip6-allrouters ip6-localhost ip6-localnet ip6-loopback \
     ip6-mcastprefix local localhost localhost.localdomain localhost4 localhost6";

pub(crate) fn read(line: &[u8], out: &mut Out<'_>) {
    // A `#` anywhere begins a comment.
    let end = memchr::memchr(b'#', line).unwrap_or(line.len());
    let text = line.get(..end).unwrap_or(line);
    let mut words = blank_words(text);
    let Some(address) = words.next() else {
        return out.nothing();
    };
    match is_nowhere(address) {
        Some(false) => out.other(b"a host with an address"),
        Some(true) if is_of_machine(address, words.clone()) => out.other(b"this machine"),
        Some(true) if words.clone().next().is_some() => {
            for name in words {
                if is_one_of(name, OWN_NAMES) {
                    out.other(b"this machine");
                } else {
                    out.domain(name);
                }
            }
        }
        _ => out.reject(RejectReason::NotOfFormat, text),
    }
}

/// The only name of the machine itself that has a dot, as an entry.
pub(crate) const OWN_DOMAIN: &[u8] = b"@localhost.localdomain";

/// Returns whether a text is what stands before the name on a usual line.
pub(crate) fn is_usual(text: &[u8]) -> bool {
    match text {
        [address @ .., b' ' | b'\t'] => matches!(address, b"0.0.0.0" | b"127.0.0.1"),
        _ => false,
    }
}

/// Returns whether these are the names of the machine itself: `127.0.0.1 mail.good.example mail`.
fn is_of_machine<'w>(address: &[u8], mut names: impl Iterator<Item = &'w [u8]>) -> bool {
    let Some(full) = names.next() else {
        return false;
    };
    if address == b"127.0.1.1" {
        return true;
    }
    let is_loopback = address.starts_with(b"127.") || address == b"::1";
    let short = full.split(|&b| b == b'.').next().unwrap_or_default();
    is_loopback && short.len() < full.len() && names.any(|name| name.eq_ignore_ascii_case(short))
}

/// Returns whether an IP address leads nowhere; `None` if the text is no IP address.
pub(crate) fn is_nowhere(text: &[u8]) -> Option<bool> {
    match text {
        // The last is how some lists shorten the first.
        b"0.0.0.0" | b"127.0.0.1" | b"::" | b"::1" | b"0" => return Some(true),
        // Most keys of access tables are none.
        [first, ..] if first.is_ascii_hexdigit() || *first == b':' => {}
        _ => return None,
    }
    // `fe80::1%lo0`: the zone is not part of the address.
    let text = text.split(|&b| b == b'%').next()?;
    let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(address.is_unspecified() || address.is_loopback())
}

/// Returns whether a line has the mark of a hosts file: a name after an address.
pub(crate) fn is_marked(line: &[u8]) -> bool {
    let mut words = Words(line);
    let (Some(address), Some(name)) = (words.next(), words.next()) else {
        return false;
    };
    address != b"0"
        && is_nowhere(address).is_some()
        && !name.contains(&b'@')
        && (looks_like_entry(name) || is_one_of(name, OWN_NAMES))
}
