//! Text that precedes an address by mistake. As a part of the address, it would make an entry that
//! never matches.
//!
//! ```text
//!   email=spam@bad.example     1=spam@bad.example     {spam@bad.example     +spam@bad.example
//!   list.txt:spam@bad.example  [1]spam@bad.example    >spam@bad.example     x;spam@bad.example
//!   blocked.from=spam@bad.example   'spam@bad.example   |spam@bad.example
//!   bounce=x@bad.example       [x]@bad.example     local parts: spammers use any character
//! ```

use crate::list::meaning::label::label_of_address;

/// Returns whether `text`, one entry without a display name, begins with something that is not part
/// of the address. In quotes it is a part: `"1=spam"@bad.example`.
pub(super) fn has_prefix(text: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'@', text) else {
        return false;
    };
    let (local, _) = text.split_at(at);
    // `mailto:` is not part of the address, nor is a name before a bracket that is never closed.
    let local = match (local.split_at_checked(7), memchr::memrchr(b'<', local)) {
        (_, Some(bracket)) => local.get(bracket + 1..).unwrap_or_default(),
        (Some((scheme, rest)), _) if scheme.eq_ignore_ascii_case(b"mailto:") => rest,
        _ => local,
    };
    let digits = local.iter().take_while(|b| b.is_ascii_digit()).count();
    match local {
        // A line of a diff.
        [b'+', _, ..] => true,
        // The cell of a table, text in a spreadsheet.
        [b'|' | b'\'', _, ..] => true,
        // The path of a file.
        [b'.', b'/', ..] => true,
        [b'{', ..] if !local.contains(&b'}') => true,
        [b'"', ..] => false,
        // `[x]@bad.example` is an address.
        [b'[', inner @ .., b']'] => inner.iter().copied().any(parts_words),
        _ if local.iter().copied().any(parts_words) => true,
        [0x80..=0xff, ..] => starts_with_bullet(local),
        _ if digits > 0 => matches!(local.get(digits), Some(b'=' | b':' | b')' | b'|')),
        _ => label_of_address(local).is_some(),
    }
}

/// Returns whether a character is not allowed in a local part without quotes (RFC 5321, section
/// 4.1.2).
fn parts_words(b: u8) -> bool {
    b":;,<>()[]\\\"".contains(&b) || b.is_ascii_whitespace()
}

/// Returns whether a text begins with a bullet, dash, quote, arrow, shape or mark, not with a
/// letter or picture.
fn starts_with_bullet(text: &[u8]) -> bool {
    let is_bullet = |char: char| {
        matches!(char, '\u{ab}' | '\u{b7}' | '\u{bb}' | '\u{2010}'..='\u{205e}' | '\u{2190}'..='\u{21ff}'
            | '\u{2500}'..='\u{25ff}' | '\u{2700}'..='\u{27bf}' | '\u{3001}'..='\u{3011}')
    };
    std::str::from_utf8(text).is_ok_and(|text| text.starts_with(is_bullet))
}

/// Returns whether a wildcard of SQL or the shell begins or ends the local part: `%@bad.example`,
/// `spam?@bad.example`. Inside, it may be a part of an address.
pub(super) fn has_wildcard(text: &[u8]) -> bool {
    let Some(at) = memchr::memrchr(b'@', text) else {
        return false;
    };
    let (local, domain) = text.split_at(at);
    !text.starts_with(b"\"")
        && (matches!(local, [.., before, b'?'] if before.is_ascii_alphanumeric())
            || matches!(local, [b'%', ..] | [.., b'%'])
            || domain.starts_with(b"@%"))
}
