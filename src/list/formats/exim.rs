//! Exim's `lsearch` and `wildlsearch` files: `key: data`.
//!
//! The key ends at a colon or at white space. A key that contains either is in double quotes,
//! which are not part of it; a local part that needs quotes then gets its own. A line that
//! starts with white space continues the data. The data is free text, but a word of allowance
//! in it counts, and a word that may take the key off the list has the line rejected.

use super::out::Out;
use super::plain::{self, Indentation};
use crate::list::meaning::action::Action;
use crate::list::meaning::answer::{Answer, is_blank};
use crate::list::meaning::phrase::Phrase;
use crate::list::meaning::status::is_past;
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::words::{Nesting, Words};
use crate::rfc5322::{is_special, quote};

/// The state between lines.
#[derive(Debug, Default)]
pub(crate) struct Exim {
    indentation: Indentation,
}

impl Exim {
    /// Reads one line.
    pub(crate) fn read(&mut self, line: &[u8], out: &mut Out<'_>) {
        let Some((text, is_indented)) = self.indentation.read(line, out) else {
            return;
        };
        if is_indented && !is_key(text) {
            plain::continuation(text, out);
        } else {
            entry(text, out);
        }
    }
}

/// Returns whether an indented text begins with a key and its colon.
fn is_key(text: &[u8]) -> bool {
    let key = Words(text).next().unwrap_or_default();
    key.strip_suffix(b":").is_some_and(looks_like_entry)
}

/// Reads the text of a line.
fn entry(text: &[u8], out: &mut Out<'_>) {
    if text.first() == Some(&b'!') {
        return out.skip(Skip::Allow);
    }
    if text.first() == Some(&b'^') {
        return out.reject(RejectReason::Pattern, text);
    }
    let (key, data) = match quoted_key(text) {
        Some((key, data)) => (key, data),
        None => {
            let mut nesting = Nesting::new();
            let end = text
                .iter()
                .position(|&b| nesting.step(b) && (b == b':' || b.is_ascii_whitespace()))
                .unwrap_or(text.len());
            let (key, data) = text.split_at(end);
            (key.to_vec(), data)
        }
    };
    let data = data.trim_ascii_start();
    let is_word = !looks_like_entry(&key) && !key.contains(&b'@') && !key.contains(&b'.');
    if is_word && !data.is_empty() {
        // A line of a plain list: `unblock friend@good.example`, `To: somebody`.
        return plain::entries(text, out);
    }
    let data = data.strip_prefix(b":").unwrap_or(data).trim_ascii();
    let said = without_quotes(data);
    let allows = Words(said).next().and_then(Action::of) == Some(Action::Allow)
        || Action::in_column(said) == Some(Action::Allow)
        || Action::of_score(said) == Some(Action::Allow);
    let mut words = Words(said);
    let names_another = words
        .next()
        .is_some_and(|word| looks_like_entry(word) && words.next().is_none())
        // `hdr.from: Spammer <spam@bad.example>`
        || !key.contains(&b'@') && said.ends_with(b">") && said.contains(&b'@');
    if allows {
        out.skip(Skip::Allow);
    } else if names_another {
        // Perhaps a recipient and a sender whom they refuse: `me@us.example: spam@bad.example`.
        out.reject(RejectReason::SecondEntry, text);
    } else if is_unclear(said) {
        out.reject(RejectReason::UnclearData, text);
    } else {
        out.entry(&key);
    }
}

/// Returns whether data may take its key off the list, as in a map of YAML: `no`, `null`,
/// `expired`, `{action: allow}`.
fn is_unclear(data: &[u8]) -> bool {
    let is_nothing = !data.is_empty() && (is_blank(data) || matches!(data, b"~" | b"none"));
    is_nothing
        || matches!(data, [b'{' | b'[', ..])
        || Answer::of(data) == Some(Answer::No)
        || is_past(data)
        || Phrase::beginning(data).takes_off()
}

fn without_quotes(data: &[u8]) -> &[u8] {
    match data {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner.trim_ascii(),
        _ => data,
    }
}

/// Returns a key in double quotes as an entry, and the text after it.
fn quoted_key(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let mut key = Vec::new();
    let mut bytes = inner.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => {
                let rest = inner.get(at + 1..).unwrap_or_default();
                // The quotes belong to the address: `"a b"@bad.example: data`.
                if rest.starts_with(b"@") {
                    return None;
                }
                return Some((with_quotes(&key), rest));
            }
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
