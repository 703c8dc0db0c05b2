//! Exim's `lsearch` and `wildlsearch` files: `key: data`.
//!
//! The key ends at a colon or at white space. It may be in double quotes, which are not part of it.
//! Where Exim takes such a file as a list of senders (`senders = lsearch*@;/etc/exim4/blocked`), the key alone decides, and
//! its data says nothing: so it is read here, too, but only if a person has said that the format is
//! this one. Elsewhere a lookup returns the data, and `friend@good.example: accept` lists nobody. A
//! file with such lines whose format nobody has said is refused. A `!` before a key is an exception.

use super::Out;
use crate::list::row::{RejectReason, Skip, looks_like_entry};
use crate::list::text::Nesting;
use blocklist_filter::rfc5322::closing_quote;

pub(crate) fn read(text: &[u8], out: &mut Out<'_>) {
    match text.first() {
        Some(b'!') => out.skip(Skip::Allow),
        Some(b'^') => out.reject(RejectReason::Pattern, text),
        _ => out.entry(quoted_key(text).unwrap_or_else(|| key_of(text))),
    }
}

fn key_of(text: &[u8]) -> &[u8] {
    let mut nesting = Nesting::new();
    let is_end = |&b: &u8| nesting.step(b) && (b == b':' || b.is_ascii_whitespace());
    let end = text.iter().position(is_end).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// Returns what double quotes at the start enclose, unless they are of the address: `"a b"@bad.example`.
fn quoted_key(text: &[u8]) -> Option<&[u8]> {
    let end = closing_quote(text, 1).filter(|_| text.starts_with(b"\""))?;
    let key = text.get(1..end)?;
    (text.get(end + 1) != Some(&b'@')).then_some(key)
}

/// Returns whether a line may be of such a file: an entry, a colon, and a blank or the end. YAML and
/// aliases have such lines, too.
pub(crate) fn is_marked(line: &[u8]) -> bool {
    let key = key_of(line);
    let is_end = |b: &u8| b.is_ascii_whitespace();
    line.get(key.len()) == Some(&b':')
        && line.get(key.len() + 1).is_none_or(is_end)
        && looks_like_entry(key)
}
