//! Maps of rspamd and amavis: an entry, perhaps with a score or a symbol.
//!
//! ```text
//!   spam@bad.example                     rspamd: listed
//!   spam2@bad.example   5.0              a positive score is bad
//!   spam3@bad.example   SYMBOL:5.0       rspamd: a symbol, perhaps with a score
//!   friend@good.example -5.0             a score that is not positive lists nobody
//!   .bad.example        3.0              amavis: the domain and its subdomains
//!   /^spam\d+@/i        5.0              an expression: cannot be looked up
//!   spam?@bad.example                    a glob of rspamd: cannot be looked up either
//! ```
//!
//! rspamd gives a leading dot no meaning of its own. It is read as in other formats: as the
//! subdomains only.

use super::{Out, before_comment};
use crate::list::row::{RejectReason, Skip, looks_like_entry};
use crate::list::text::Words;

pub(crate) fn rspamd(line: &[u8], out: &mut Out<'_>) {
    read(line, out, |key, out| out.entry(key));
}

pub(crate) fn amavis(line: &[u8], out: &mut Out<'_>) {
    read(line, out, |key, out| match key {
        [b'.', domain @ ..] if !domain.is_empty() => out.tree(domain),
        key => out.entry(key),
    });
}

fn read(line: &[u8], out: &mut Out<'_>, list: fn(&[u8], &mut Out<'_>)) {
    let text = before_comment(line);
    let mut words = Words(text);
    let Some(key) = words.next() else {
        return out.nothing();
    };
    let score = words.next().map_or(Some(1.0), score_of);
    match score.filter(|_| words.next().is_none()) {
        _ if key.starts_with(b"!") => out.skip(Skip::Allow),
        Some(score) if score > 0.0 => list(key, out),
        Some(_) => out.skip(Skip::Allow),
        None => out.reject(RejectReason::NotOfFormat, text),
    }
}

/// Returns the score of a value: `5.0`, `SYMBOL`, `SYMBOL:5.0`.
fn score_of(value: &[u8]) -> Option<f64> {
    let colon = memchr::memchr(b':', value).unwrap_or(value.len());
    match value.split_at(colon) {
        (symbol, [_, score @ ..]) => number(score).filter(|_| is_symbol(symbol)),
        (symbol, []) => number(symbol).or_else(|| is_symbol(symbol).then_some(1.0)),
    }
}

fn number(word: &[u8]) -> Option<f64> {
    let is_number = |b: &u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.');
    let text = std::str::from_utf8(word).ok()?;
    text.parse().ok().filter(|_| word.iter().all(is_number))
}

/// Returns whether a word is a symbol of rspamd: `BAD_SENDER`.
fn is_symbol(word: &[u8]) -> bool {
    let is_part = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_';
    word.contains(&b'_') && word.iter().all(is_part)
}

/// Returns whether a line has the mark of either map: an entry, and a score with a sign or decimals.
pub(crate) fn is_of_amavis(line: &[u8]) -> bool {
    let is_sign = |b: &u8| b"+-.".contains(b);
    has_value(line, |value| {
        value.iter().any(is_sign) && number(value).is_some()
    })
}

/// Returns whether a line has that mark, or one of rspamd alone: an entry, and a symbol with a score.
pub(crate) fn is_of_rspamd(line: &[u8]) -> bool {
    let is_symbol = |value: &[u8]| value.contains(&b':') && score_of(value).is_some();
    is_of_amavis(line) || has_value(line, is_symbol)
}

fn has_value(line: &[u8], is_value: impl Fn(&[u8]) -> bool) -> bool {
    let mut words = Words(before_comment(line));
    words.next().is_some_and(looks_like_entry)
        && words.next().is_some_and(is_value)
        && words.next().is_none()
}
