//! Plain lists under headings, some of which say that their entries are not listed.
//!
//! ```text
//!   [blacklist]              Blocked:                 block:                  # --- Blocklist ---
//!   spam@bad.example         spam@bad.example           - spam@bad.example    spam@bad.example
//!   [whitelist]              Allowed senders:         allow:                  # --- Whitelist ---
//!   friend@good.example      friend@good.example        - friend@good.example friend@good.example
//! ```
//!
//! A heading of its own, under no other, ends the one before; in YAML the indentation tells.
//! Entries under a heading that says neither are rejected. In a comment only words that are all
//! known make a heading; anything else is a remark. YAML beyond this (objects in lists) is
//! rejected line by line.

use super::action::Action;
use super::csv::looks_like_entry;
use super::headings::Heading as Column;
use super::label::{Meaning, name_is_of_senders, words_of};
use super::out::Out;
use super::{Reason, Skip, plain};

/// Headings inside each other. Lists have two or three.
const MAX_DEPTH: usize = 16;

/// Words of the longest heading.
const MAX_WORDS: usize = 5;

/// A line that is about the lines after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) meaning: Meaning,
    /// `name:`, which may stand inside another.
    pub(super) is_nested: bool,
    /// It only says what its entries are: `emails:`.
    is_noun: bool,
}

/// The state between lines.
#[derive(Debug, Default)]
pub(super) struct Sections {
    /// The headings above.
    open: Vec<Open>,
    /// The sign that ends the comment of several lines that is open.
    comment: Option<&'static [u8]>,
}

/// A heading above.
#[derive(Clone, Copy, Debug)]
struct Open {
    indent: usize,
    /// What it means with those around it.
    meaning: Meaning,
    is_nested: bool,
}

impl Sections {
    /// Reads one line.
    pub(super) fn read(&mut self, line: &[u8], out: &mut Out<'_>) {
        let line = line.strip_prefix(plain::BOM).unwrap_or(line);
        let text = line.trim_ascii();
        let indent = line.len() - line.trim_ascii_start().len();
        if let Some(end) = self.comment.or_else(|| open_comment(text)) {
            let is_closed = memchr::memmem::find(text, end).is_some();
            self.comment = if is_closed { None } else { Some(end) };
            // One that nothing closes must not hide the entries after it.
            return out.skip(if holds_entry(text) {
                Skip::Mention
            } else {
                Skip::Comment
            });
        }
        if matches!(text, b"]" | b"],") {
            // The end of `allowed = [`.
            self.open.pop_if(|open| open.is_nested);
            return out.skip(Skip::Setting);
        }
        if let Some(heading) = heading(text) {
            self.begin(heading, indent);
            return out.skip(Skip::Setting);
        }
        if text.is_empty() || matches!(text, [b'#' | b';', ..]) {
            return out.skip(plain::nothing(text));
        }
        if matches!(text, b"---" | b"...") {
            return out.skip(Skip::Setting);
        }
        let pair = key_and_value(text);
        if pair.is_some() {
            // `allow: [...]` stands beside the keys of its indentation, not under them.
            let is_beside = |open: &mut Open| open.is_nested && open.indent >= indent;
            while self.open.pop_if(is_beside).is_some() {}
        }
        let meaning = self
            .open
            .last()
            .map_or(Meaning::Listed, |open| open.meaning);
        let (meaning, value) = match pair {
            Some((key, value)) => (
                inside(meaning, Meaning::of(key), self.open.is_empty()),
                value,
            ),
            None => (meaning, text),
        };
        match meaning {
            Meaning::Skipped(skip) => out.skip(skip),
            // Indented, it is about an object of YAML, which is rejected.
            _ if indent == 0 && is_allowance_of_record(text) => {
                out.reject(Reason::LateLine, text);
            }
            _ if is_object(text) => out.reject(Reason::YamlObject, text),
            Meaning::Listed if pair.is_some() && Action::in_column(value).is_some() => {
                out.skip(Skip::Setting);
            }
            Meaning::Listed => plain::entries(without_brackets(value), out),
            Meaning::Unknown if holds_entry(value) => out.reject(Reason::Section, text),
            Meaning::Unknown => out.skip(Skip::Setting),
        }
    }

    fn begin(&mut self, heading: Heading, indent: usize) {
        if heading.is_nested {
            let kept = self
                .open
                .iter()
                .take_while(|open| open.indent < indent || !open.is_nested && heading.is_noun)
                .count();
            self.open.truncate(kept);
        } else {
            self.open.clear();
        }
        let parent = self.open.last().map(|open| open.meaning);
        let meaning = inside(
            parent.unwrap_or(Meaning::Unknown),
            heading.meaning,
            parent.is_none(),
        );
        if self.open.len() == MAX_DEPTH {
            self.open.pop();
        }
        self.open.push(Open {
            indent,
            meaning,
            is_nested: heading.is_nested,
        });
    }
}

/// What a heading means under another.
fn inside(parent: Meaning, own: Meaning, is_outermost: bool) -> Meaning {
    match (parent, own) {
        _ if is_outermost => own,
        (Meaning::Skipped(_), _) | (_, Meaning::Unknown) => parent,
        _ => own,
    }
}

/// The end of the comment that a line opens and does not close.
pub(super) fn open_comment(text: &[u8]) -> Option<&'static [u8]> {
    let end = match text {
        [b'/', b'*', ..] => &b"*/"[..],
        [b'<', b'!', b'-', b'-', ..] => b"-->",
        _ => return None,
    };
    memchr::memmem::find(text, end).is_none().then_some(end)
}

/// Whether a line takes the entry of a line before it off the list: `Action : Allow`, as
/// PowerShell and LDIF write records.
pub(super) fn is_allowance_of_record(text: &[u8]) -> bool {
    // Most lines are entries.
    if text.len() > 80 || text.contains(&b'@') {
        return false;
    }
    key_and_value(text).is_some_and(|(key, value)| {
        matches!(Column::of(key), Some(Column::Action | Column::Status))
            && Action::in_column(value) == Some(Action::Allow)
    })
}

/// Whether a trimmed line is a heading, and what it says.
pub(super) fn heading(text: &[u8]) -> Option<Heading> {
    let (is_comment, inner) = match text {
        [b'#' | b';', rest @ ..] => (true, rest.trim_ascii()),
        [b'/', b'/', rest @ ..] => (true, rest.trim_ascii()),
        _ => (false, text),
    };
    // Most lines are entries.
    if inner.len() > 80 || inner.contains(&b'@') {
        return None;
    }
    let is_decoration =
        |b: &u8| !(b.is_ascii_alphanumeric() || matches!(b, b'.' | b'"' | b'\'') || *b >= 0x80);
    let start = inner.iter().position(|b| !is_decoration(b))?;
    let end = inner.iter().rposition(|b| !is_decoration(b))? + 1;
    let name = inner.get(start..end)?;
    let before = inner.get(..start)?;
    let after = inner.get(end..)?.trim_ascii();
    let is_ini = before.first() == Some(&b'[') && after.first() == Some(&b']');
    let is_key = matches!(after, b":" | b": [" | b":[" | b"= [" | b"=[")
        && before.iter().all(|b| matches!(b, b'-' | b' '));
    let is_framed = before.len() >= 2 && !after.is_empty() || after.len() >= 3;
    let is_name = name
        .iter()
        .all(|&b| b.is_ascii_alphanumeric() || b" _-/&()".contains(&b));
    let words = words_of(name).count();
    if !is_name || words > MAX_WORDS || !name.iter().any(u8::is_ascii_alphabetic) {
        return None;
    }
    let meaning = Meaning::of(name);
    let is_heading = if is_comment {
        // `# Whitelist`, but not `# no whitelist is kept here`.
        meaning != Meaning::Unknown && Meaning::all_known(name)
    } else {
        is_ini
            || is_key
            || is_framed && meaning != Meaning::Unknown
            || (words > 1 || is_verdict(name))
                && meaning != Meaning::Unknown
                && Meaning::all_known(name)
                && after.is_empty()
                && before.is_empty()
    };
    is_heading.then_some(Heading {
        meaning,
        is_nested: is_key && !is_comment,
        is_noun: name_is_of_senders(name),
    })
}

/// Whether one word alone is a heading: `ALLOWED`, `Whitelist`. `OK` alone says nothing.
fn is_verdict(word: &[u8]) -> bool {
    !word.eq_ignore_ascii_case(b"ok")
        && matches!(Action::of(word), Some(Action::Allow | Action::Block))
        || [&b"exceptions"[..], b"friends", b"approved"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word))
}

/// `key: value` of YAML and `key = value` of INI files.
pub(super) fn key_and_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|b| matches!(b, b':' | b'='))?;
    let (key, value) = (text.get(..at)?.trim_ascii(), text.get(at + 1..)?);
    let is_key = key
        .iter()
        .all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b' '));
    let is_apart =
        text.get(at) == Some(&b'=') || value.first().is_some_and(u8::is_ascii_whitespace);
    (is_key && is_apart && key.iter().any(u8::is_ascii_alphabetic))
        .then_some((key, value.trim_ascii()))
}

/// `- email: a@b`: one object of a list of objects.
pub(super) fn is_object(text: &[u8]) -> bool {
    text.strip_prefix(b"- ")
        .is_some_and(|text| key_and_value(text.trim_ascii()).is_some())
}

/// `[a@b, "c@d"]` -> `a@b, "c@d"`.
fn without_brackets(value: &[u8]) -> &[u8] {
    let inner = value.strip_prefix(b"[");
    inner
        .and_then(|inner| inner.strip_suffix(b"]"))
        .unwrap_or(value)
}

fn holds_entry(value: &[u8]) -> bool {
    value.contains(&b'@')
        || value
            .split(|b| b.is_ascii_whitespace() || matches!(b, b',' | b'"' | b'\''))
            .any(looks_like_entry)
}
