//! What an entry must not be: a pattern, a hash, a web address.
//!
//! `address` reads almost anything as an address, because a message may contain almost
//! anything. The author of a list meant something definite. A text meant as a pattern must
//! not become a strange address that never matches or, worse, a whole domain: a reader that
//! drops comments takes `(foo|bar)@innocent.example` for the domain.

use std::net::IpAddr;

use super::reject_reason::RejectReason;
use crate::rfc5322::{Nesting, Place};

/// The wildcards of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wildcards {
    /// Only the star; `?` is an ordinary character of a local part.
    Star,
    /// Star, question mark, and sets: `[ab]`, `{a,b}`.
    StarAndQuestionMark,
}

/// Returns an error if `text` (one entry, trimmed) cannot be an entry.
pub(crate) fn check(text: &[u8], wildcards: Wildcards) -> Result<(), RejectReason> {
    if is_cut_off(text) {
        return Err(RejectReason::CutOff);
    }
    if !characters(text).special {
        return if is_glued(text) {
            Err(RejectReason::Several)
        } else {
            ordinary(text)
        };
    }
    if text.contains(&0) {
        return Err(RejectReason::Nul);
    }
    if text
        .iter()
        .any(|b| b.is_ascii_control() && !b.is_ascii_whitespace())
    {
        return Err(RejectReason::Control);
    }
    // Only the text in the brackets counts, not the display name before them.
    let address = match (text.strip_suffix(b">"), memchr::memrchr(b'<', text)) {
        (Some(before), Some(bracket)) => before.get(bracket + 1..).unwrap_or_default(),
        _ => text,
    };
    if has_two_mailboxes(text) {
        return Err(RejectReason::Several);
    }
    if let [b'(', inner @ .., b')'] = address
        && looks_like_entry(inner)
        && !inner.iter().any(|b| b"()|\\*?[]^$".contains(b))
    {
        return Err(RejectReason::Parentheses);
    }
    if is_expression(address) {
        return Err(RejectReason::Pattern);
    }
    if memchr::memmem::find(address, b"://").is_some() {
        return Err(RejectReason::Url);
    }
    if has_inner_wildcard(address, wildcards) {
        return Err(RejectReason::Wildcard);
    }
    ordinary(address)?;
    one_address(address)
}

/// Returns whether dots replace omitted text: `spam@bad.exam...`, `spam...@bad.example`. No domain
/// ends with two dots; some mailboxes do.
fn is_cut_off(text: &[u8]) -> bool {
    let ends =
        |text: &[u8], dots: &[u8]| text.ends_with(dots) || text.ends_with("\u{2026}".as_bytes());
    let local = || text.get(..memchr::memrchr(b'@', text)?);
    ends(text, b"..") || local().is_some_and(|local| ends(local, b"..."))
}

/// Returns whether two lines were joined because the first one had no line end:
/// `a@bad.exampleb@bad.example`. Clients do send `a@b@bad.example` and `a@bad.com@bad.example`.
fn is_glued(text: &[u8]) -> bool {
    let mut parts = text.split(|&b| b == b'@').skip(1).peekable();
    while let (Some(part), Some(_)) = (parts.next(), parts.peek()) {
        let part = part.to_ascii_lowercase();
        let ends_as_domain = psl::suffix(&part).is_some_and(|suffix| suffix.is_known());
        if part.contains(&b'.') && !ends_as_domain {
            return true;
        }
    }
    false
}

/// Returns whether there are two addresses in angle brackets: `<a@b> -> <c@d>`.
fn has_two_mailboxes(text: &[u8]) -> bool {
    let mut nesting = Nesting::new();
    let (mut count, mut is_open, mut has_at) = (0, false, false);
    for &b in text {
        match (nesting.step(b), b) {
            (Place::Outside, b'<') => (is_open, has_at) = (true, false),
            (Place::Outside, b'>') => {
                count += usize::from(is_open && has_at);
                is_open = false;
            }
            (_, b'@') => has_at = true,
            _ => {}
        }
    }
    count > 1
}

/// Rejects what would become a strange address that never matches: two addresses in one
/// field, or an address with a separator, quote or bracket after it.
fn one_address(text: &[u8]) -> Result<(), RejectReason> {
    let mut nesting = Nesting::new();
    let (mut ats, mut literal, mut strange) = (0, false, false);
    // About the text before the first `@`. Without an `@`, all of it is a domain.
    let mut strange_before = false;
    let mut before = 0;
    for &b in text {
        // After an `@`, a quotation mark opens nothing: there it is a strange character.
        let place = match b {
            b'"' if ats > 0 && !nesting.is_in_comment() => Place::Outside,
            b => nesting.step(b),
        };
        match (place, b) {
            (Place::Delimiter | Place::Escaped | Place::Comment, _) | (Place::Outside, b')') => {}
            (Place::Outside, b'@') => {
                ats += 1;
                (literal, strange) = (false, false);
            }
            _ if ats == 0 => strange_before |= !is_domain_byte(b),
            // An address literal may contain other characters.
            (_, b'[') if before == b'@' => literal = true,
            _ if literal => literal = b != b']',
            _ => strange |= b"|=!$%&'+,/;?^`{}~\"#<>[]:".contains(&b),
        }
        before = b;
    }
    // `@a,@b:c@d` is a source route to one address.
    let is_route = text.first() == Some(&b'@') && text.contains(&b':');
    if ats > 1 && !is_route {
        Err(RejectReason::Several)
    } else if strange || (ats == 0 && strange_before) {
        Err(RejectReason::DomainSigns)
    } else {
        Ok(())
    }
}

/// Returns whether a byte may occur in a domain or before one: `*.bad.example`.
fn is_domain_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'*') || b >= 0x80
}

/// Which characters a text contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Characters {
    /// Some that may have a meaning for us: white space, quotes, stars, bytes beyond ASCII.
    pub(crate) special: bool,
    /// An `@`.
    pub(crate) at: bool,
}

/// Number of bytes that are classified together. The loops over them have no branch, so that
/// the compiler makes vector instructions of them: 7 ns for 28 bytes; a table takes 14 ns.
const WIDTH: usize = 16;

/// Returns which characters `text` contains.
#[inline]
pub(crate) fn characters(text: &[u8]) -> Characters {
    let mut classes = [0; WIDTH];
    let (chunks, rest) = text.as_chunks::<WIDTH>();
    for chunk in chunks {
        classify(chunk, &mut classes);
    }
    if let (false, Some(end)) = (rest.is_empty(), text.last_chunk::<WIDTH>()) {
        // Some bytes are classified twice, which changes nothing.
        classify(end, &mut classes);
    } else {
        let mut padded = [b'a'; WIDTH];
        for (to, from) in padded.iter_mut().zip(rest) {
            *to = *from;
        }
        classify(&padded, &mut classes);
    }
    let all = u128::from_ne_bytes(classes);
    Characters {
        special: all & u128::from_ne_bytes([SPECIAL; WIDTH]) != 0,
        at: all & u128::from_ne_bytes([AT; WIDTH]) != 0,
    }
}

const SPECIAL: u8 = 1;
const AT: u8 = 2;

/// Adds the class of each byte to `classes`.
#[inline]
fn classify(chunk: &[u8; WIDTH], classes: &mut [u8; WIDTH]) {
    for (class, &b) in classes.iter_mut().zip(chunk) {
        let letter = (b | 0x20).wrapping_sub(b'a') < 26;
        let digit = b.wrapping_sub(b'0') < 10;
        let dash_or_dot = b.wrapping_sub(b'-') < 2;
        let other = (b == b'_') | (b == b'+');
        let at = b == b'@';
        let ordinary = letter | digit | dash_or_dot | other | at;
        *class |= (u8::from(!ordinary) * SPECIAL) | (u8::from(at) * AT);
    }
}

/// Rejects a hash or an IP address, which has no special characters either. A text with an
/// `@` is neither.
fn ordinary(text: &[u8]) -> Result<(), RejectReason> {
    let label = text.strip_prefix(b".").unwrap_or(text);
    let hash = match label.len() {
        32 => "MD5",
        40 => "SHA-1",
        64 => "SHA-256",
        128 => "SHA-512",
        _ => "",
    };
    if !hash.is_empty() && label.iter().all(u8::is_ascii_hexdigit) {
        return Err(RejectReason::Hash(hash));
    }
    // The last character of an IP address or network is a digit (or a hexadecimal digit
    // after a colon), but never the last one of a domain.
    let numeric = text.last().is_some_and(u8::is_ascii_digit) || text.contains(&b':');
    if numeric && !text.contains(&b'@') && is_ip(text) {
        return Err(RejectReason::IpAddress);
    }
    Ok(())
}

/// Returns whether a field looks like an address or a domain, not like another word.
pub(crate) fn looks_like_entry(field: &[u8]) -> bool {
    if field.contains(&b'@') {
        return !field.trim_ascii().contains(&b' ');
    }
    let label = field.rsplit(|&b| b == b'.').next().unwrap_or_default();
    field.len() > label.len() + 1
        && label.len() >= 2
        && label.iter().any(|b| !b.is_ascii_digit())
        && field.iter().all(|&b| {
            b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'*') || b >= 0x80
        })
        && !is_ip(field)
}

/// Returns whether a field only repeats a part of an address: the domain, or a local part
/// that looks like a domain.
pub(crate) fn is_part_of(field: &[u8], address: &[u8]) -> bool {
    let Some(at) = memchr::memrchr(b'@', address) else {
        return false;
    };
    let (local, domain) = address.split_at(at);
    let domain = domain.get(1..).unwrap_or_default();
    looks_like_entry(field)
        && (field.eq_ignore_ascii_case(local) || field.eq_ignore_ascii_case(domain))
}

/// Returns whether a field is an address, perhaps with a display name.
pub(crate) fn is_address(field: &[u8]) -> bool {
    field.contains(&b'@') && (looks_like_entry(field) || field.ends_with(b">"))
}

/// Returns whether an entry equals another, or is a part of it.
pub(crate) fn is_same(entry: &[u8], other: &[u8]) -> bool {
    entry.eq_ignore_ascii_case(other) || is_part_of(entry, other)
}

/// Returns whether `text` is an IP address or a network in CIDR form.
pub(crate) fn is_ip(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    address.parse::<IpAddr>().is_ok()
}

/// Returns whether `text` looks like a regular expression: `/.../i`, an anchor, a backslash
/// outside quotes, `.*`, an alternative in parentheses.
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
    let has_group = memchr::memchr(b'(', text).is_some();
    // Comments are not skipped: a parenthesis may be a group.
    let mut nesting = Nesting::new().without_comments();
    let mut before = b' ';
    for &b in text {
        if nesting.step(b) == Place::Outside {
            match b {
                b'\\' => return true,
                b'*' if before == b'.' => return true,
                // A comment is separate: `(er)` in `spam(er)@bad.example` is a group.
                b'(' if !matches!(before, b' ' | b'\t' | b'>') => return true,
                b'|' if has_group => return true,
                _ => {}
            }
        }
        before = b;
    }
    // `(a|b)@domain` begins with a group.
    text.first() == Some(&b'(')
}

/// Returns whether a wildcard is where no entry can have one.
fn has_inner_wildcard(text: &[u8], wildcards: Wildcards) -> bool {
    let text = match text {
        [b'*', b'@', b'*', b'.', rest @ ..] | [b'*', b'@' | b'.', rest @ ..] => rest,
        [rest @ .., b'@', b'*'] => rest,
        _ => text,
    };
    let mut nesting = Nesting::new().without_comments();
    let mut before = 0;
    text.iter().any(|&b| {
        let before = std::mem::replace(&mut before, b);
        nesting.step(b) == Place::Outside
            && match b {
                b'*' => true,
                b'?' | b'{' => wildcards == Wildcards::StarAndQuestionMark,
                // After the `@`, it is the bracket of an address literal.
                b'[' => wildcards == Wildcards::StarAndQuestionMark && before != b'@',
                _ => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use super::{Characters, characters};

    #[test]
    fn characters_wherever_they_stand() {
        for length in 0..70 {
            let plain = vec![b'a'; length];
            let none = Characters {
                special: false,
                at: false,
            };
            assert_eq!(characters(&plain), none);
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = plain.clone();
                    text[place] = byte;
                    let special = !byte.is_ascii_alphanumeric() && !b".-_+@".contains(&byte);
                    let at = byte == b'@';
                    assert_eq!(
                        characters(&text),
                        Characters { special, at },
                        "{byte} at {place}"
                    );
                }
            }
        }
    }
}
