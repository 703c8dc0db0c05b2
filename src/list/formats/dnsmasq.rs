//! Configuration of resolvers. For dnsmasq: `address=/bad.example/`, `server=/bad.example/`; for
//! unbound: `local-zone: "bad.example" always_null`, `local-data: "bad.example A 0.0.0.0"`.
//!
//! A domain with no address, a null address, or no server is blocked, with all its subdomains. A
//! domain with a real address or a server of its own belongs to somebody's network.

use super::hosts::{self, is_nowhere};
use super::include::includes;
use super::out::{Out, before_comment, comment};
use super::plain;
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::words::Words;

/// Reads one line.
pub(crate) fn read(line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    let text = before_comment(line);
    if text.is_empty() {
        return out.skip(plain::nothing(line));
    }
    if plain::is_cleared(comment(line, text)) {
        return out.reject(RejectReason::UnclearWord, line);
    }
    if includes(text) {
        return out.reject(RejectReason::Include, text);
    }
    if let Some((option @ (b"local-zone" | b"local-data"), value)) = split(text, b':') {
        return unbound(option, value.trim_ascii(), out);
    }
    let Some((option, value)) = split(text, b'=') else {
        // `domain-needed` is an option; `bad.example` is a line of a plain list.
        return match Words(text).next() {
            Some(word) if looks_like_entry(word) || is_nowhere(word).is_some() => {
                hosts::read(line, out);
            }
            _ => out.skip(Skip::Directive),
        };
    };
    let option = option.trim_ascii();
    let is_server = matches!(option, b"server" | b"local");
    let value = value.trim_ascii();
    if option.contains(&b'@') || option.contains(&b' ') {
        return plain::entries(text, out);
    }
    if !is_server && option != b"address" {
        return out.skip(Skip::Directive);
    }
    let Some((names, slash)) = value
        .strip_prefix(b"/")
        .and_then(|names| Some((names, memchr::memrchr(b'/', names)?)))
    else {
        // `server=192.0.2.1` is for all names.
        return out.skip(Skip::Setting);
    };
    let (names, target) = names.split_at(slash);
    match target.get(1..).unwrap_or_default().trim_ascii() {
        b"" => {}
        // The standard servers: an exception from a wider rule.
        b"#" if is_server => return out.skip(Skip::Allow),
        b"#" => {}
        target if !is_server && is_nowhere(target) == Some(true) => {}
        _ => return out.skip(Skip::OtherAction),
    }
    for name in names.split(|&b| b == b'/') {
        // The manual says that a leading dot or star changes nothing.
        let name = name.strip_prefix(b"*").unwrap_or(name);
        out.tree(name.strip_prefix(b".").unwrap_or(name));
    }
}

/// Returns whether a line is an option of unbound that may block a domain.
pub(crate) fn is_of_unbound(text: &[u8]) -> bool {
    text.starts_with(b"local-zone:") || text.starts_with(b"local-data:")
}

/// Reads an option of unbound.
fn unbound(option: &[u8], value: &[u8], out: &mut Out<'_>) {
    let mut words = value
        .split(|&b| b.is_ascii_whitespace() || matches!(b, b'"' | b'\''))
        .filter(|word| !word.is_empty());
    let Some(name) = words.next() else {
        return out.skip(Skip::Directive);
    };
    if option == b"local-data" {
        // `bad.example. 300 IN A 0.0.0.0`
        return match words.next_back().and_then(is_nowhere) {
            Some(true) => out.domain(name),
            _ => out.skip(Skip::OtherAction),
        };
    }
    match words.next().unwrap_or_default() {
        b"always_deny" | b"always_null" | b"always_nxdomain" | b"always_nodata"
        | b"always_refuse" | b"deny" | b"inform_deny" | b"refuse" => out.tree(name),
        // Either the domain is refused, or it is a network of the administrator.
        b"static" => out.reject(RejectReason::UnclearData, value),
        b"always_transparent" | b"transparent" | b"typetransparent" => out.skip(Skip::Allow),
        _ => out.skip(Skip::OtherAction),
    }
}

fn split(text: &[u8], sign: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(sign, text)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}
