//! Exim's `lsearch` and `wildlsearch` files: `key: data`.
//!
//! The key ends at a colon or at white space. A key that contains either is in double quotes,
//! which are not part of it; a local part that needs quotes then gets its own. Where Exim takes such a
//! file as a list of senders (`senders = lsearch*@;/etc/exim4/blocked`), the key alone decides, and
//! its data says nothing: so it is read here, too, but only if a person has said that the format is
//! this one. Elsewhere a lookup returns the data, and `friend@good.example: accept` lists nobody. A
//! file with such lines whose format nobody has said is refused. A `!` before a key is an exception.

use super::continued::Logical;
use super::out::Out;
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::words::Nesting;
use crate::rfc5322::{is_special, quote};

/// Reads such a file.
#[derive(Debug)]
pub(crate) struct Exim;

impl Logical for Exim {
    fn logical(&self, text: &[u8], out: &mut Out<'_>) {
        match text.first() {
            Some(b'!') => return out.skip(Skip::Allow),
            Some(b'^') => return out.reject(RejectReason::Pattern, text),
            _ => {}
        }
        match quoted_key(text) {
            Some(key) => out.entry(&key),
            None => out.entry(key_of(text)),
        }
    }
}

/// Returns the key at the start of a text.
fn key_of(text: &[u8]) -> &[u8] {
    let mut nesting = Nesting::new();
    let is_end = |&b: &u8| nesting.step(b) && (b == b':' || b.is_ascii_whitespace());
    let end = text.iter().position(is_end).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// Returns a key in double quotes as an entry.
fn quoted_key(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"\"")?;
    let mut key = Vec::new();
    let mut bytes = inner.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            // The quotes belong to the address: `"a b"@bad.example: data`.
            b'"' if inner.get(at + 1) == Some(&b'@') => return None,
            b'"' => return Some(with_quotes(&key)),
            b'\\' => key.extend(bytes.next().map(|(_, &escaped)| escaped)),
            _ => key.push(byte),
        }
    }
    None
}

/// Puts a local part in double quotes if it needs them.
fn with_quotes(key: &[u8]) -> Vec<u8> {
    let Some(at) = memchr::memrchr(b'@', key) else {
        return key.to_vec();
    };
    let (local, domain) = key.split_at(at);
    let needs_quotes = local.iter().copied().any(is_special);
    if !needs_quotes || local.starts_with(b"\"") {
        return key.to_vec();
    }
    let mut quoted = Vec::new();
    quote(local, &mut quoted);
    quoted.extend_from_slice(domain);
    quoted
}

/// Returns whether a line may be of such a file: an entry, a colon, and a blank or the end. Other files have such lines,
/// too (YAML, aliases), in which the data decides.
pub(crate) fn is_marked(line: &[u8]) -> bool {
    let key = key_of(line);
    let is_end = |b: &u8| b.is_ascii_whitespace();
    line.get(key.len()) == Some(&b':')
        && line.get(key.len() + 1).is_none_or(is_end)
        && looks_like_entry(key)
}
