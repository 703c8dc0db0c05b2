//! Hosts files: `0.0.0.0 bad.example other.example # why`.
//!
//! A name is listed if its address leads nowhere (`0.0.0.0`, `::`, loopback). A name with a
//! real address is a host of somebody's network, not a listing. A name is the machine's own at
//! 127.0.1.1, as Debian writes it, and at a loopback address if its short form follows.

use std::net::IpAddr;

use super::out::{Out, before_comment};
use super::plain;
use crate::list::row::Skip;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::words::Words;

/// Names that hosts files give to the machine itself.
const OWN_NAMES: &[&str] = &[
    "0.0.0.0",
    "broadcasthost",
    "ip6-allhosts",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-localhost",
    "ip6-localnet",
    "ip6-loopback",
    "ip6-mcastprefix",
    "local",
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
];

/// Reads one line.
pub(crate) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    let text = before_comment(line);
    let mut words = Words(text);
    let Some(first) = words.next() else {
        return out.skip(plain::nothing(line));
    };
    match is_nowhere(first) {
        // Lists merged from several sources have bare names between the others.
        None => plain::entries(text, out),
        Some(false) => out.skip(Skip::OtherAction),
        Some(true) => names(first, line, out),
    }
}

/// Reads the names of an address that leads nowhere.
fn names(address: &[u8], line: &[u8], out: &mut Out<'_>) {
    // hosts(5): a `#` anywhere begins a comment.
    let end = memchr::memchr(b'#', line).unwrap_or(line.len());
    let (text, comment) = line.split_at(end);
    if plain::is_cleared(comment) {
        return out.reject(RejectReason::UnclearWord, line);
    }
    let mut words = Words(text);
    words.next();
    if words.clone().next().is_none() || is_of_machine(address, words.clone()) {
        return out.skip(Skip::Setting);
    }
    for name in words {
        if OWN_NAMES
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
        {
            out.skip(Skip::Setting);
        } else {
            out.domain(name);
        }
    }
}

/// Returns whether these are the names of the machine itself: `127.0.0.1 mail.good.example mail`.
fn is_of_machine<'w>(address: &[u8], mut names: impl Iterator<Item = &'w [u8]>) -> bool {
    if address == b"127.0.1.1" {
        return true;
    }
    let is_loopback = address.starts_with(b"127.") || address == b"::1";
    let full = names.next().unwrap_or_default();
    let short = full.split(|&b| b == b'.').next().unwrap_or_default();
    is_loopback && short.len() < full.len() && names.any(|name| name.eq_ignore_ascii_case(short))
}

/// Returns whether an IP address leads nowhere; `None` if the text is no IP address.
pub(crate) fn is_nowhere(text: &[u8]) -> Option<bool> {
    // Some lists shorten `0.0.0.0` to this.
    if text == b"0" {
        return Some(true);
    }
    // `fe80::1%lo0`: the zone is not part of the address.
    let text = text.split(|&b| b == b'%').next()?;
    let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(match address {
        IpAddr::V4(v4) => v4.is_unspecified() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_loopback(),
    })
}
