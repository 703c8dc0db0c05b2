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
use super::answer::Answer;
use super::entry::looks_like_entry;
use super::label::Meaning;
use super::out::Out;
use super::plain;
use super::reject_reason::RejectReason;
use super::row::Skip;
use super::section_heading::{
    Heading, heading, is_allowance_of_record, is_object, key_and_value, open_comment,
};

/// Headings inside each other. Lists have two or three.
const MAX_DEPTH: usize = 16;

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
                out.reject(RejectReason::LateLine, text);
            }
            _ if is_object(text) => out.reject(RejectReason::YamlObject, text),
            // Of the object, which was rejected at its first line.
            _ if is_allowance_of_record(text) => out.skip(Skip::Allow),
            Meaning::Listed if pair.is_some() && says_something(value) => {
                out.skip(Skip::Setting);
            }
            Meaning::Listed => plain::entries(without_brackets(value), out),
            Meaning::Unknown if holds_entry(value) => out.reject(RejectReason::Section, text),
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

/// `[a@b, "c@d"]` -> `a@b, "c@d"`.
fn without_brackets(value: &[u8]) -> &[u8] {
    let inner = value.strip_prefix(b"[");
    inner
        .and_then(|inner| inner.strip_suffix(b"]"))
        .unwrap_or(value)
}

/// Whether the value of a key says what happens to somebody: `action: block`, `enabled: true`.
fn says_something(value: &[u8]) -> bool {
    Action::in_column(value).is_some()
        || matches!(Answer::of(value), Some(Answer::Yes | Answer::No))
}

fn holds_entry(value: &[u8]) -> bool {
    value.contains(&b'@')
        || value
            .split(|b| b.is_ascii_whitespace() || matches!(b, b',' | b'"' | b'\''))
            .any(looks_like_entry)
}
