//! What a text must not be to become an entry: a pattern, a hash, a web address.
//!
//! `address` reads almost anything as an address, because a mail may carry almost
//! anything. A list is written by somebody who meant something, and what was meant
//! as a pattern must not end up as a strange address that never matches, or, worse,
//! as a whole domain (`(foo|bar)@innocent.example` is the domain to a reader that
//! drops comments).

use std::net::IpAddr;

use super::Reason;

/// Which wild cards the format has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wildcards {
    /// The star; `?` is an ordinary sign of a local part.
    Star,
    /// Both, and sets: `[ab]`, `{a,b}`.
    StarAndQuestionMark,
}

/// Says why `text` (trimmed, one entry) cannot be an entry, if so.
pub(super) fn vet(text: &[u8], wildcards: Wildcards) -> Result<(), Reason> {
    if is_ordinary(text) {
        return ordinary(text);
    }
    if text.contains(&0) {
        return Err(Reason::Nul);
    }
    // Only what stands in the brackets counts, not the name before them.
    let address = match (text.strip_suffix(b">"), memchr::memrchr(b'<', text)) {
        (Some(before), Some(bracket)) => before.get(bracket + 1..).unwrap_or_default(),
        _ => text,
    };
    if is_expression(address) {
        return Err(Reason::Pattern);
    }
    if memchr::memmem::find(address, b"://").is_some() {
        return Err(Reason::Url);
    }
    if has_inner_wildcard(address, wildcards) {
        return Err(Reason::Wildcard);
    }
    ordinary(address)
}

/// Whether all signs of `text` are such as almost all entries are made of.
#[inline]
pub(super) fn is_ordinary(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&b| ORDINARY[usize::from(b)])
}

/// The signs that almost all entries are made of and that mean nothing special.
const ORDINARY: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(b, b'.' | b'-' | b'_' | b'+' | b'=' | b'@' | b'\'' | b'&')
            || b >= 0x80;
        byte += 1;
    }
    table
};

/// A text without special signs can still be a hash or an IP address.
fn ordinary(text: &[u8]) -> Result<(), Reason> {
    let label = text.strip_prefix(b".").unwrap_or(text);
    let hash = match label.len() {
        32 => "MD5",
        40 => "SHA-1",
        64 => "SHA-256",
        128 => "SHA-512",
        _ => "",
    };
    if !hash.is_empty() && label.iter().all(u8::is_ascii_hexdigit) {
        return Err(Reason::Hash(hash));
    }
    // The last sign of an IP address or network is a digit (or a hexadecimal one
    // after a colon), which no domain's is.
    let numeric = text.last().is_some_and(u8::is_ascii_digit) || text.contains(&b':');
    if numeric && !text.contains(&b'@') && is_ip(text) {
        return Err(Reason::IpAddress);
    }
    Ok(())
}

/// Whether `text` is an IP address or a network in CIDR form.
pub(super) fn is_ip(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<IpAddr>().is_ok()
}

/// Whether `text` has the signs of a regular expression: `/.../i`, an anchor, a
/// backslash outside quotes, `.*`, an alternative in parentheses.
fn is_expression(text: &[u8]) -> bool {
    if let [b'/', rest @ ..] = text
        && let Some(end) = memchr::memrchr(b'/', rest)
        && rest
            .get(end + 1..)
            .is_some_and(|flags| flags.iter().all(u8::is_ascii_alphabetic))
    {
        return true;
    }
    if text.first() == Some(&b'^') || text.last() == Some(&b'$') {
        return true;
    }
    let mut in_quotes = false;
    let mut before = b' ';
    let mut escaped = false;
    for &b in text {
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ if in_quotes => {}
            b'\\' => return true,
            b'*' if before == b'.' => return true,
            // A comment stands apart: `(er)` in `spam(er)@bad.example` is a group.
            b'(' if !matches!(before, b' ' | b'\t' | b'>') => return true,
            b'|' if memchr::memchr(b'(', text).is_some() => return true,
            _ => {}
        }
        before = b;
    }
    // `(a|b)@domain` begins with its group.
    text.first() == Some(&b'(')
}

/// Whether a wild card stands where no entry can have one.
fn has_inner_wildcard(text: &[u8], wildcards: Wildcards) -> bool {
    let text = match text {
        [b'*', b'@', b'*', b'.', rest @ ..] | [b'*', b'@' | b'.', rest @ ..] => rest,
        [rest @ .., b'@', b'*'] => rest,
        _ => text,
    };
    let mut in_quotes = false;
    let mut escaped = false;
    let mut before = 0;
    text.iter().any(|&b| {
        let before = std::mem::replace(&mut before, b);
        match b {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ if in_quotes => {}
            b'*' => return true,
            b'?' | b'{' => return wildcards == Wildcards::StarAndQuestionMark,
            // The bracket of an address literal stands after the `@`.
            b'[' => return wildcards == Wildcards::StarAndQuestionMark && before != b'@',
            _ => {}
        }
        false
    })
}
