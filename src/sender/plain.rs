//! Reads the ordinary forms of a sender field directly: `a@b`, `Name <a@b>`, `"Name" <a@b>`.
//!
//! Nine of ten fields have these forms, and no parser reads them differently. The property test
//! `plain_is_what_both_parsers_find` in `tests/pure/sender.rs` compares the results with the scan and
//! mail-parser; every value that is not certainly plain goes to them.

use memchr::memchr;

/// May be in a plain local part. Excludes `?` (it could end an encoded word), quotes, and
/// everything special in RFC 5322.
const LOCAL: u8 = 1;
const DOMAIN: u8 = 2;
/// May be in an unquoted name beside an angle address.
const NAME: u8 = 4;
const QUOTED: u8 = 8;

const CLASS: [u8; 256] = {
    let mut class = [NAME | QUOTED; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation, reason = "byte < 256")]
        match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' => {
                class[byte] |= LOCAL | DOMAIN;
            }
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'/' | b'=' | b'^' | b'_'
            | b'`' | b'{' | b'|' | b'}' | b'~' => class[byte] |= LOCAL,
            b'"' | b'\\' => class[byte] = 0,
            b'(' | b')' | b',' | b':' | b';' | b'<' | b'>' | b'@' | b'[' | b']' => {
                class[byte] = QUOTED;
            }
            _ => {}
        }
        byte += 1;
    }
    class
};

fn all(bytes: &[u8], class: u8) -> bool {
    bytes.iter().all(|&byte| CLASS[byte as usize] & class != 0)
}

/// Returns whether these bytes are one plain address: RFC 5321 Dot-string and Domain, but dots may
/// be anywhere except twice at the end (Sendmail drops these).
pub(super) fn is_address(bytes: &[u8]) -> bool {
    let Some(at) = memchr(b'@', bytes) else {
        return false;
    };
    let (local, domain) = (&bytes[..at], &bytes[at + 1..]);
    !local.is_empty()
        && domain.iter().any(u8::is_ascii_alphanumeric)
        && !domain.ends_with(b"..")
        && all(local, LOCAL)
        && all(domain, DOMAIN)
}

/// Returns whether these bytes are a mailbox without a domain, `root`.
pub(super) fn is_atom(bytes: &[u8]) -> bool {
    let is_in_atom = |byte: &u8| CLASS[*byte as usize] & LOCAL != 0 || !byte.is_ascii();
    !bytes.is_empty() && bytes.iter().all(is_in_atom)
}

/// Removes the blanks and folds around a text. A form feed is not white space in RFC 5322: the scan
/// keeps it as a part of the address, and also reads the address without it.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..]
    | [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = text
    {
        text = rest;
    }
    text
}

pub(super) fn mailbox(value: &[u8]) -> Option<&[u8]> {
    let value = trim(value);
    let Some(rest) = value.strip_suffix(b">") else {
        return is_address(value).then_some(value);
    };
    let open = memchr::memrchr(b'<', rest)?;
    let (name, address) = (trim(&rest[..open]), &rest[open + 1..]);
    let named = match name {
        [b'"', inner @ .., b'"'] => all(inner, QUOTED),
        name => all(name, NAME),
    };
    (named && is_address(address)).then_some(address)
}
