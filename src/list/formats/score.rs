//! Maps of rspamd and amavis: an entry, perhaps with a score or a symbol.
//!
//! ```text
//!   spam@bad.example                     rspamd: listed
//!   spam2@bad.example   5.0              a positive score is bad
//!   spam3@bad.example   SYMBOL:5.0       rspamd: a symbol, perhaps with a score
//!   friend@good.example -5.0             a negative score is an allowance
//!   .bad.example        3.0              amavis: the domain and its subdomains
//!   /^spam\d+@/i        5.0              an expression: cannot be looked up
//!   spam?@bad.example                    a glob of rspamd: cannot be looked up either
//! ```
//!
//! rspamd gives a leading dot no meaning of its own. It is read as in other formats:
//! as the subdomains only.

use super::out::{Out, before_comment, comment};
use super::plain;
use crate::list::meaning::action::Action;
use crate::list::row::entry::{Wildcards, is_ip};
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};
use crate::list::text::words::Words;

/// The program that reads the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Rspamd,
    Amavis,
}

/// Reads one line.
pub(crate) fn read(program: Program, line: &[u8], out: &mut Out<'_>) {
    let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
    let text = before_comment(line);
    let mut words = Words(text);
    let Some(key) = words.next() else {
        return out.skip(plain::nothing(line));
    };
    if key.first() == Some(&b'!') {
        return out.skip(Skip::Allow);
    }
    if plain::is_cleared(comment(line, text)) {
        return out.reject(RejectReason::UnclearWord, line);
    }
    if let Some(value) = words.next() {
        let score = value.rsplit(|&b| b == b':').next().unwrap_or_default();
        let action = Action::of_score(score).or_else(|| Action::of(value));
        if let Some(skip) = action.and_then(Action::skip) {
            return out.skip(skip);
        }
        let is_value = action.is_some() || is_symbol(value);
        if !is_value {
            // Words, or several entries.
            return plain::entries(line, out);
        }
    }
    match (program, key) {
        (Program::Amavis, [b'.', domain @ ..]) if !domain.is_empty() => out.tree(domain),
        _ => out.raw_entry(RawEntry::new(key), Wildcards::StarAndQuestionMark),
    }
}

/// Returns whether a word is a symbol of rspamd, perhaps with a score: `BAD_SENDER:5.0`.
pub(crate) fn is_symbol(word: &[u8]) -> bool {
    let symbol = word.split(|&b| b == b':').next().unwrap_or_default();
    symbol.contains(&b'_')
        && symbol
            .iter()
            .all(|&b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && !is_ip(word)
}
