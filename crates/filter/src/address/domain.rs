//! The canonical form of a domain.
//!
//! | written | canonical form |
//! |---|---|
//! | `Example.COM.` | `example.com` |
//! | `BÜCHER.example`, `xn--bcher-kva.example`, `ｂücher。example` | `xn--bcher-kva.example` |
//! | `[192.000.2.1]`, `[IPv6:2001:DB8:0::1]` | `[192.0.2.1]`, `[ipv6:2001:db8::1]` |
//! | `a..example`, `xn--0.example`, bytes that are not UTF-8 | lower case, else as they are |
//!
//! Labels are mapped one by one (UTS 46, non-transitional). A label that IDNA rejects stays as it
//! is and does not prevent the mapping of the others, so `x@xn--0.ｌｉｓｔｅｄ.example` is still under
//! `.listed.example`.
//!
//! A character with a meaning in the syntax of an address is escaped by a backslash. No such domain
//! exists; the escape only keeps the text distinct from all others.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use super::parse::{Keep, push_visible};
use super::unicode::{Fold, fold};

/// The longest domain that a list may name, in bytes (RFC 1035 section 2.3.4, as text).
pub const MAX_DOMAIN_BYTES: usize = 253;

/// Characters with a meaning in the syntax of an address, and `*`, which has one in an entry.
const SPECIAL: &str = "()<>[]:;@\\,\"*";

/// Characters that a mapped label must not contain.
const REFUSED: AsciiDenyList = AsciiDenyList::new(true, SPECIAL);

/// The label separators of UTS 46 section 2.3 other than `.`, each three bytes in UTF-8. No other
/// code point is mapped to a separator: one that only looks like it (U+2024, one dot leader) is
/// disallowed and stays as it is. A test checks all code points.
const WIDE_STOPS: [char; 3] = ['\u{3002}', '\u{FF0E}', '\u{FF61}'];

/// Appends the canonical form of a domain, given as the output of [`super::parse::domain`].
pub(super) fn canonical(content: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let plain = without_joiners(content);
    // Between ASCII letters no joiner is allowed. Joiners beside bytes that are not UTF-8 are
    // removed too: they join nothing, and the bytes around them may form a space or a separator.
    let joins = !plain.is_ascii() && std::str::from_utf8(content).is_ok();
    let content = if joins { content } else { &plain };
    let content = &content[..content.len() - final_stop(content)];
    // A domain literal contains no joiners.
    let bare = &plain[..plain.len() - final_stop(&plain)];
    if let Some(literal) = bare
        .strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"))
        && write_literal(literal, out)
    {
        return;
    }
    if content.is_ascii() {
        // IDNA would give the same: an A-label that it accepts is its own canonical form, in lower
        // case, and one that it rejects is kept.
        content.iter().for_each(|&byte| push(byte, out));
        return;
    }
    let mut rest = content;
    loop {
        let (label, stop) = next_label(rest);
        write_label(label, out);
        if stop == 0 {
            break;
        }
        out.push(b'.');
        rest = &rest[label.len() + stop..];
    }
    // If the last label had joiners only, the separator before it is now the final one.
    let end = out.len() - final_stop(&out[start..]);
    out.truncate(end);
    // The mapping may have made a literal, as of `[192。0.2.1]`.
    let mut literal = Vec::new();
    if let Some(inside) = out[start..]
        .strip_prefix(b"\\[")
        .and_then(|rest| rest.strip_suffix(b"\\]"))
        && write_literal(&unescaped(inside), &mut literal)
    {
        out.truncate(start);
        out.append(&mut literal);
    }
}

/// Returns the length of the one separator at the end, in bytes; 0 if there is none, or several:
/// they leave an empty label.
fn final_stop(content: &[u8]) -> usize {
    let stop = stop_at_end(content);
    match stop_at_end(&content[..content.len() - stop]) {
        0 => stop,
        _ => 0,
    }
}

fn stop_at_end(content: &[u8]) -> usize {
    match content {
        [.., b'.'] => 1,
        [.., a, b, c] if is_wide_stop(&[*a, *b, *c]) => 3,
        _ => 0,
    }
}

fn is_wide_stop(bytes: &[u8]) -> bool {
    WIDE_STOPS
        .iter()
        .any(|stop| stop.encode_utf8(&mut [0; 4]).as_bytes() == bytes)
}

/// Returns the first label, and the length of the separator after it (0 at the end).
fn next_label(content: &[u8]) -> (&[u8], usize) {
    for (at, &byte) in content.iter().enumerate() {
        if byte == b'.' {
            return (&content[..at], 1);
        }
        if byte >= 0xE3 && content.get(at..at + 3).is_some_and(is_wide_stop) {
            return (&content[..at], 3);
        }
    }
    (content, 0)
}

/// The longest label that is mapped, in bytes. The DNS allows 63 bytes for the mapped form (RFC
/// 1035 section 2.3.4), and each letter takes at least one of them. Before mapping, a letter with
/// separate accents, or a decomposed Hangul syllable, has less than 16 bytes. A longer label names
/// no host, and the time for Punycode grows with the square of the length.
const MAX_LABEL_BYTES: usize = 1024;

fn write_label(label: &[u8], out: &mut Vec<u8>) {
    if label.is_ascii() {
        label.iter().for_each(|&byte| push(byte, out));
        return;
    }
    if let Some(mapped) = to_ascii(label) {
        out.extend_from_slice(mapped.as_bytes());
        return;
    }
    // Some scripts allow joiners; elsewhere they are invisible and are removed.
    let plain = without_joiners(label);
    if plain.len() < label.len()
        && let Some(mapped) = to_ascii(&plain)
    {
        out.extend_from_slice(mapped.as_bytes());
        return;
    }
    if plain.len() > MAX_LABEL_BYTES {
        plain.iter().for_each(|&byte| push(byte, out));
        return;
    }
    // IDNA may reject a label in one letter case and accept it in the other.
    let mut folded = Vec::with_capacity(plain.len());
    fold(&plain, Fold::Label, &mut folded);
    let mapped = (folded != *plain).then(|| to_ascii(&folded)).flatten();
    match mapped {
        Some(mapped) => out.extend_from_slice(mapped.as_bytes()),
        None => folded.iter().for_each(|&byte| push(byte, out)),
    }
}

fn without_joiners(content: &[u8]) -> Cow<'_, [u8]> {
    if content.is_ascii() {
        return content.into();
    }
    let mut plain = Vec::with_capacity(content.len());
    for &byte in content {
        push_visible(&mut plain, 0, byte, Keep::Nothing);
    }
    plain.into()
}

/// Maps one label by UTS 46; returns `None` if it is not valid.
fn to_ascii(label: &[u8]) -> Option<Cow<'_, str>> {
    if label.len() > MAX_LABEL_BYTES {
        return None;
    }
    let mapped = Uts46::new().to_ascii(label, REFUSED, Hyphens::Allow, DnsLength::Ignore);
    mapped.ok()
}

fn push(byte: u8, out: &mut Vec<u8>) {
    if SPECIAL.as_bytes().contains(&byte) {
        out.push(b'\\');
    }
    out.push(byte.to_ascii_lowercase());
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = text.iter();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(&byte) = bytes.next() {
        let escaped = if byte == b'\\' { bytes.next() } else { None };
        plain.push(*escaped.unwrap_or(&byte));
    }
    plain
}

/// Appends an IPv4 or IPv6 literal in canonical form (RFC 5321 section 4.1.3, RFC 5952), if it is one.
fn write_literal(inside: &[u8], out: &mut Vec<u8>) -> bool {
    let text = std::str::from_utf8(inside).unwrap_or_default();
    let form = match text.split_at_checked(5) {
        Some((tag, rest)) if tag.eq_ignore_ascii_case("ipv6:") => ipv6(rest),
        _ => dotted(text)
            .map(|[a, b, c, d]| format!("[{a}.{b}.{c}.{d}]"))
            .or_else(|| ipv6(text)),
    };
    let Some(form) = form else { return false };
    out.extend_from_slice(form.as_bytes());
    true
}

/// Writes an IPv6 literal. An IPv4-mapped address, `::ffff:192.0.2.1`, denotes an IPv4 node (RFC
/// 4291 section 2.5.5.2) and is written as IPv4, because it is the same mailbox.
fn ipv6(text: &str) -> Option<String> {
    let address: Ipv6Addr = text.parse().ok()?;
    Some(match address.to_ipv4_mapped() {
        Some(mapped) => format!("[{mapped}]"),
        None => format!("[ipv6:{address}]"),
    })
}

/// Reads IPv4. `Ipv4Addr` rejects leading zeros, which RFC 5321 allows.
fn dotted(text: &str) -> Option<[u8; 4]> {
    let number = |number: &str| {
        let plain = (1..=3).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
        number.parse().ok().filter(|_| plain)
    };
    let numbers: Option<Vec<u8>> = text.split('.').take(5).map(number).collect();
    numbers?.try_into().ok()
}
