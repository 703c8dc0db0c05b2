//! The domain of an address in its one form.
//!
//! | written | form |
//! |---|---|
//! | `Example.COM.` | `example.com` |
//! | `BÜCHER.example`, `xn--bcher-kva.example`, `ｂücher。example` | `xn--bcher-kva.example` |
//! | `[192.000.2.1]`, `[IPv6:2001:DB8:0::1]` | `[192.0.2.1]`, `[ipv6:2001:db8::1]` |
//! | `a..example`, `xn--0.example`, bytes that are not UTF-8 | lower case, else as they are |
//!
//! Labels are mapped one by one (UTS 46, non-transitional): a label that IDNA
//! refuses stays what it is and does not keep its neighbours from being understood, so
//! that `x@xn--0.ｌｉｓｔｅｄ.example` is still under `.listed.example`.
//!
//! A character that would mean something to the reader of an address stands behind
//! a backslash. No such domain exists; the text must only not be mistaken for another.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use idna::uts46::{AsciiDenyList, Hyphens, Uts46};

use super::parse::{Keep, push_visible};
use super::unicode::{Fold, fold};

/// The longest domain that a list may name, in bytes (RFC 1035 section 2.3.4, as text).
pub const MAX_DOMAIN_BYTES: usize = 253;

/// What the reader of an address takes for something else than a letter; a `*` is
/// the reader of an entry's.
const SPECIAL: &str = "()<>[]:;@\\,\"*";

/// What a mapped label must not turn out to contain.
const REFUSED: AsciiDenyList = AsciiDenyList::new(true, SPECIAL);

/// The stops that UTS 46 section 2.3 divides labels at, beside `.`: all of three bytes.
/// No other code point is mapped to a stop: what looks like one (U+2024, one dot leader) is
/// disallowed, and stays what it is; a test asks them all.
const WIDE_STOPS: [char; 3] = ['\u{3002}', '\u{FF0E}', '\u{FF61}'];

/// Appends the one form of a domain, as [`super::parse::domain`] gives it, to `out`.
pub(super) fn canonical(content: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let plain = without_joiners(content);
    // Between ASCII letters no joiner is allowed. Next to bytes that are not text it joins
    // nothing either, and without it they may spell a space or a stop.
    let joins = !plain.is_ascii() && std::str::from_utf8(content).is_ok();
    let content = if joins { content } else { &plain };
    let content = &content[..content.len() - final_stop(content)];
    // No joiner belongs to a literal.
    let bare = &plain[..plain.len() - final_stop(&plain)];
    if let Some(literal) = bare
        .strip_prefix(b"[")
        .and_then(|rest| rest.strip_suffix(b"]"))
        && write_literal(literal, out)
    {
        return;
    }
    if content.is_ascii() {
        // IDNA would do no more: an A-label that it accepts is its own form, in lower
        // case, and one that it refuses is kept.
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
    // Where the last label was joiners only, the stop before it is the final one.
    let end = out.len() - final_stop(&out[start..]);
    out.truncate(end);
}

/// How many bytes long the one stop is that the content ends with; 0 if there is none,
/// or several, which leave an empty label.
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

/// The first label, and the length of the stop behind it (0 at the end).
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

/// The longest label that is mapped, in bytes. The DNS has 63 for what it is mapped to (RFC 1035
/// section 2.3.4), and each letter takes one of them; written in pieces, with its accents
/// apart or as the parts of a Hangul syllable, it has less than 16. A longer label
/// names no host, and the time that Punycode takes grows with the square of its length.
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
    // Joiners are allowed in some scripts; where they are not, nobody sees them.
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
    // What IDNA refuses in one case it may take in the other.
    let mut folded = Vec::with_capacity(plain.len());
    fold(&plain, Fold::Label, &mut folded);
    let mapped = if folded == *plain {
        None
    } else {
        to_ascii(&folded)
    };
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

/// One label by UTS 46, if it is one.
fn to_ascii(label: &[u8]) -> Option<Cow<'_, str>> {
    if label.len() > MAX_LABEL_BYTES {
        return None;
    }
    Uts46::new()
        .to_ascii(
            label,
            REFUSED,
            Hyphens::Allow,
            idna::uts46::DnsLength::Ignore,
        )
        .ok()
}

fn push(byte: u8, out: &mut Vec<u8>) {
    if SPECIAL.as_bytes().contains(&byte) {
        out.push(b'\\');
    }
    out.push(byte.to_ascii_lowercase());
}

/// Appends an IPv4 or IPv6 literal in its one form (RFC 5321 section 4.1.3, RFC
/// 5952); false if it is neither.
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

/// A mapped address, `::ffff:192.0.2.1`, stands for an IPv4 node (RFC 4291 section 2.5.5.2)
/// and is written as one, for the mailbox there is the same.
fn ipv6(text: &str) -> Option<String> {
    let address: Ipv6Addr = text.parse().ok()?;
    Some(match address.to_ipv4_mapped() {
        Some(mapped) => format!("[{mapped}]"),
        None => format!("[ipv6:{address}]"),
    })
}

/// Four numbers of one to three digits. `Ipv4Addr` refuses leading zeros, which RFC 5321 allows.
fn dotted(text: &str) -> Option<[u8; 4]> {
    let mut numbers = text.split('.').map(|number| {
        let plain = (1..=3).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| number.parse().ok()).flatten()
    });
    let four = [
        numbers.next()??,
        numbers.next()??,
        numbers.next()??,
        numbers.next()??,
    ];
    numbers.next().is_none().then_some(four)
}
