//! Configuration of resolvers. For dnsmasq: `address=/bad.example/`, `server=/bad.example/`; for
//! unbound: `local-zone: "bad.example" always_null`, `local-data: "bad.example A 0.0.0.0"`.
//!
//! A domain with no address, a null address, or no server is blocked, with all its subdomains; in
//! `local-data` alone, unless the zone is a `redirect`. A domain with a real address or a server of its
//! own belongs to somebody's network.

use super::{LineFormat, Out, before_comment, includes, is_nowhere};
use crate::list::row::{Refusal, RejectReason, Skip};

#[derive(Debug, Default)]
pub(crate) struct Resolver {
    /// The zone of the last `redirect`.
    redirected: Vec<u8>,
}

impl LineFormat for Resolver {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        let text = before_comment(line);
        if text.is_empty() {
            return out.nothing();
        }
        if includes(text) {
            return out.refuse(Refusal::Include);
        }
        let end = text.iter().position(|&b| matches!(b, b'=' | b':'));
        let (option, value) = text.split_at(end.unwrap_or(text.len()));
        let option = option.trim_ascii();
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if option.is_empty() || !option.iter().all(is_word) {
            return out.reject(RejectReason::NotOfFormat, text);
        }
        match (value.first(), option) {
            (Some(b':'), b"local-zone" | b"local-data") => {
                self.unbound(option, value.get(1..).unwrap_or_default(), out);
            }
            (Some(b'='), b"address" | b"server" | b"local") => {
                names(option, value.get(1..).unwrap_or_default().trim_ascii(), out);
            }
            _ => out.other(option),
        }
    }
}

/// Reads `/name/name/target`.
fn names(option: &[u8], value: &[u8], out: &mut Out<'_>) {
    let Some(names) = value.strip_prefix(b"/") else {
        // `server=192.0.2.1` is for all names.
        return out.other(option);
    };
    let Some(slash) = memchr::memrchr(b'/', names) else {
        return out.reject(RejectReason::NotOfFormat, value);
    };
    let (names, target) = names.split_at(slash);
    let is_address = option == b"address";
    match target.get(1..).unwrap_or_default().trim_ascii() {
        b"" => {}
        // The standard servers: an exception from a wider rule.
        b"#" if !is_address => return out.skip(Skip::Allow),
        b"#" => {}
        target if is_address && is_nowhere(target) == Some(true) => {}
        _ => return out.other(b"a domain with an address or a server"),
    }
    for name in names.split(|&b| b == b'/') {
        // The manual says that a leading dot or star changes nothing.
        let name = name.strip_prefix(b"*").unwrap_or(name);
        out.tree(name.strip_prefix(b".").unwrap_or(name));
    }
}

impl Resolver {
    fn unbound(&mut self, option: &[u8], value: &[u8], out: &mut Out<'_>) {
        let is_end = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'');
        let mut words = value.split(is_end).filter(|word| !word.is_empty());
        let Some(name) = words.next() else {
            return out.reject(RejectReason::NotOfFormat, value);
        };
        let of_zone = |name: &[u8]| name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase();
        if option == b"local-data" {
            // `bad.example. 300 IN A 0.0.0.0`
            return match words.next_back().and_then(is_nowhere) {
                Some(true) if of_zone(name) == self.redirected => out.tree(name),
                Some(true) => {
                    out.domain(name);
                }
                _ => out.other(b"a domain with an address or a server"),
            };
        }
        let kind = words.next().unwrap_or_default();
        match kind {
            b"always_deny" | b"always_null" | b"always_nxdomain" | b"always_nodata"
            | b"always_refuse" | b"deny" | b"inform_deny" | b"refuse" => out.tree(name),
            b"always_transparent" | b"transparent" | b"typetransparent" => out.skip(Skip::Allow),
            b"redirect" => {
                // Its data say whether it is blocked.
                self.redirected = of_zone(name);
                out.other(kind);
            }
            // `static` either refuses the domain, or is a network of the administrator.
            _ => out.other(kind),
        }
    }
}

pub(crate) fn is_marked(line: &[u8]) -> bool {
    let mut starts = "local-zone: local-data: address=/ server=/ local=/".split(' ');
    starts.any(|start| line.starts_with(start.as_bytes()))
}
