//! Plain lists under headings, some of which say that their entries are not listed.
//!
//! ```text
//!   [blacklist]              Blocked:                 block:                  # --- Blocklist ---
//!   spam@bad.example         spam@bad.example           - spam@bad.example    spam@bad.example
//!   [whitelist]              Allowed senders:         allow:                  # --- Whitelist ---
//!   friend@good.example      friend@good.example        - friend@good.example friend@good.example
//! ```
//!
//! A heading that is not inside another ends the one before; in YAML the indentation decides.
//! Entries under a heading that says neither are rejected. A comment is a heading only if all its
//! words are known; else it is a remark. A comment that asks not to block what follows applies to
//! the entries up to the next blank line or comment; the entries after those are rejected. A title
//! with a line of signs under it is a heading, too. Entries below the signature of a mail are
//! rejected.
//!
//! Lines with one key and one value each make a [record](Record). YAML beyond this (objects in
//! lists) is rejected line by line. The lines in the brackets of a program or its settings are
//! under the line that opens the brackets: `whitelist {`, `$friends = array(`.

use super::out::Out;
use super::plain;
use super::record::Record;
use crate::list::meaning::action::Action;
use crate::list::meaning::answer::Answer;
use crate::list::meaning::file_heading::of_file;
use crate::list::meaning::headings::Heading;
use crate::list::meaning::label::{Meaning, name_is_of_senders, without_brackets};
use crate::list::meaning::section_heading::{
    Heading as SectionHeading, block, closes_block, heading, is_allowance_of_record, is_object,
    key_and_value, line_of_record, meaning_of, open_comment, without_quotes,
};
use crate::list::meaning::statement::{Statement, holds_entry, without_backslash};
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;
use crate::list::row::reject_reason::RejectReason;

/// Maximum depth of headings inside each other. Lists have two or three levels.
const MAX_DEPTH: usize = 16;

/// Maximum number of bytes of a title that are read.
const MAX_TITLE: usize = 80;

/// The state between lines.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// The open headings.
    open: Vec<Open>,
    /// The sign that ends the comment of several lines that is open.
    comment: Option<&'static [u8]>,
    /// The current record.
    record: Record,
    /// The indentation of a rejected object of YAML, whose lines follow.
    object: Option<usize>,
    /// The statement that the next line may continue.
    statement: Statement,
    /// The values of a key in brackets, over several lines.
    wrapped: Wrapped,
    /// The text of the previous line.
    before: Vec<u8>,
    /// Whether there was an entry.
    is_begun: bool,
    /// The sign before the first entry that has one: `+` or `-`.
    sign: Option<u8>,
    /// Whether the line is below the signature of a mail; a heading ends this.
    is_signed: bool,
    alternation: Alternation,
}

/// Entries that alternate with words for and against them, as in a table that was copied from a web
/// page: each word may be about the entry before it or after it.
#[derive(Debug, Default)]
struct Alternation {
    /// Number of entries since the last such word.
    entries: usize,
    words: usize,
    is_broken: bool,
}

impl Alternation {
    fn word(&mut self) {
        self.is_broken |= self.entries != 1;
        self.entries = 0;
        self.words += 1;
    }

    /// Returns whether each word follows one entry, and none follows the last word.
    fn is_unclear(&self) -> bool {
        !self.is_broken && self.words > 1 && self.entries == 0
    }
}

/// Values in brackets that are not closed on the line of their key, as PowerShell wraps them:
///
/// ```text
///   BlockedSenders : {spam@bad.example, spam2@bad.example,
///                    spam3@bad.example}
/// ```
#[derive(Debug, Default)]
struct Wrapped {
    is_open: bool,
}

impl Wrapped {
    /// Returns a value without the bracket that opens or closes such values.
    fn without_bracket<'a>(&mut self, value: &'a [u8], has_key: bool) -> &'a [u8] {
        let is_closed = matches!(value, [.., b'}' | b']']);
        match value {
            [b'{' | b'[', inner @ ..] if has_key => {
                self.is_open = !is_closed && holds_entry(inner);
                if self.is_open { inner } else { value }
            }
            [inner @ .., _] if self.is_open && is_closed && !has_key => {
                self.is_open = false;
                inner
            }
            _ => {
                self.is_open &= !has_key && !value.is_empty();
                value
            }
        }
    }
}

/// An open heading.
#[derive(Clone, Copy, Debug)]
struct Open {
    indent: usize,
    /// Its meaning together with the headings around it.
    meaning: Meaning,
    is_nested: bool,
    /// It ends where its brackets close, however its lines are indented.
    is_block: bool,
    /// It ends at the next blank line or comment; what follows may be meant either way.
    is_plea: bool,
}

impl Sections {
    /// Reads one line.
    pub(crate) fn read(&mut self, line: &[u8], out: &mut Out<'_>) {
        let line = line.strip_prefix(plain::BOM).unwrap_or(line);
        let text = line.trim_ascii();
        let before = std::mem::replace(
            &mut self.before,
            text.get(..MAX_TITLE).unwrap_or(text).to_vec(),
        );
        let pair = key_and_value(text);
        if pair.is_none() {
            self.record.end(out);
        }
        self.is_signed |= is_signature(&before, text);
        if self.is_signed && holds_entry(text) {
            return out.reject(RejectReason::Signature, text);
        }
        if let [sign @ (b'+' | b'-'), b' ' | b'\t', ..] = line
            && holds_entry(text)
            && *self.sign.get_or_insert(*sign) != *sign
        {
            return out.reject(RejectReason::TwoSigns, text);
        }
        let text = match text {
            [b'+', b' ' | b'\t', rest @ ..] => rest.trim_ascii(),
            _ => text,
        };
        self.is_begun |= holds_entry(&before);
        let indent = line.len() - line.trim_ascii_start().len();
        if let Some(end) = self.comment.or_else(|| open_comment(text)) {
            let is_closed = memchr::memmem::find(text, end).is_some();
            self.comment = if is_closed { None } else { Some(end) };
            // A comment that nothing closes must not hide the entries after it.
            return out.skip(if holds_entry(text) {
                Skip::Mention
            } else {
                Skip::Comment
            });
        }
        self.alternation.entries += usize::from(holds_entry(text));
        if let Some(heading) = heading(text) {
            if text.iter().all(|b| b.is_ascii_alphanumeric() || *b >= 0x80) {
                self.alternation.word();
            } else {
                self.alternation.is_broken = true;
            }
            self.statement = Statement::default();
            self.begin(heading, indent, heading.is_nested && !text.ends_with(b":"));
            return out.skip(Skip::Setting);
        }
        // Brackets that close none of ours can mean anything.
        let in_block = self.open.iter().any(|open| open.is_block);
        let closes =
            closes_block(text) && (in_block || !text.iter().any(u8::is_ascii_alphanumeric));
        if closes && !holds_entry(text) {
            self.close_block();
        }
        // `if address :is "from" "spam@bad.example"`, with its bracket on a line of its own.
        let is_bracket = matches!(text, b"{" | b"(" | b"[") && before.first() != Some(&b'#');
        let bare = || (is_bracket && !before.is_empty()).then_some(Meaning::Unknown);
        if let Some(meaning) = block(text).or_else(bare) {
            self.statement = Statement::default();
            let heading = SectionHeading {
                meaning,
                is_nested: true,
                is_noun: false,
                is_plea: false,
            };
            self.begin(heading, indent, true);
            // `if address :is "from" "spam@bad.example" {`
            return match meaning {
                Meaning::Unknown if names_somebody(text) => out.reject(RejectReason::Section, text),
                _ => out.skip(Skip::Setting),
            };
        }
        if closes && !holds_entry(text) {
            return out.skip(Skip::Setting);
        }
        self.read_entries(text, pair, indent, &before, out);
        if closes {
            self.close_block();
        }
    }

    /// Reads a line that is not a heading.
    fn read_entries(
        &mut self,
        text: &[u8],
        pair: Option<(&[u8], &[u8])>,
        indent: usize,
        before: &[u8],
        out: &mut Out<'_>,
    ) {
        if text.is_empty() || matches!(text, [b'#' | b';', ..]) {
            if let Some(open) = self.open.last_mut().filter(|open| open.is_plea) {
                open.meaning = Meaning::Unknown;
            }
            if text.is_empty() {
                self.statement = Statement::default();
            }
            return out.skip(plain::nothing(text));
        }
        if is_file_name(before, text) {
            return out.skip(Skip::Setting);
        }
        if is_underline(text) {
            let heading = title(before);
            if text.first() == Some(&b':') && !before.is_empty() {
                let meaning = of_file(before);
                self.begin(SectionHeading { meaning, ..heading }, 0, false);
            }
            // Above all entries, it may be the title of the whole list.
            let says_something = self.is_begun || heading.meaning != Meaning::Unknown;
            if is_title(before) && says_something {
                self.begin(heading, 0, false);
            }
            return out.skip(Skip::Setting);
        }
        if matches!(text, b"---" | b"..." | b"-") {
            return out.skip(Skip::Setting);
        }
        if self.object.is_some_and(|object| indent <= object) {
            self.object = None;
        }
        if pair.is_some() {
            // `allow: [...]` is beside the keys with its indentation, not under them.
            let is_beside =
                |open: &mut Open| open.is_nested && !open.is_block && open.indent >= indent;
            while self.open.pop_if(is_beside).is_some() {}
        }
        let meaning = self
            .open
            .last()
            .map_or(Meaning::Listed, |open| open.meaning);
        let carried = self.statement.next(text, indent);
        let text = without_backslash(text);
        let is_outermost = self.open.is_empty();
        let (meaning, value) = match (carried, pair) {
            (Some(said), _) => (inside(meaning, said, is_outermost), text),
            // `mail = ...` says nothing about its entries.
            (None, Some((key, value))) if !is_outermost && name_is_of_senders(key) => {
                (meaning, without_backslash(value))
            }
            (None, Some((key, value))) => (
                inside(meaning, Meaning::of(key), is_outermost),
                without_backslash(value),
            ),
            (None, None) => (meaning, text),
        };
        let value = self.wrapped.without_bracket(value, pair.is_some());
        match meaning {
            Meaning::Skipped(skip) => out.skip(skip),
            _ if is_object(text) => {
                self.object = Some(indent);
                out.reject(RejectReason::YamlObject, text);
            }
            // It belongs to the object, which was rejected at its first line.
            _ if self.object.is_some() && is_allowance_of_record(text) => out.skip(Skip::Allow),
            _ if self.object.is_some() && holds_entry(value) => {
                out.reject(RejectReason::YamlObject, text);
            }
            _ if self.object.is_none() && self.add_to_record(text, meaning, out) => {}
            Meaning::Listed if pair.is_some() && says_something(value) => {
                out.skip(Skip::Setting);
            }
            Meaning::Listed if pair.is_none() && plain::is_address_alone(value) => out.entry(value),
            Meaning::Listed => plain::entries(without_brackets(value, pair.is_some()), out),
            Meaning::Unknown if holds_entry(value) => out.reject(RejectReason::Section, text),
            Meaning::Unknown => out.skip(Skip::Setting),
        }
    }

    /// Ends the list.
    pub(crate) fn finish(&mut self, out: &mut Out<'_>) {
        self.record.end(out);
        if self.alternation.is_unclear() {
            out.reject(RejectReason::Alternation, &self.before);
        }
    }

    /// Adds a line to the record if it belongs to one; returns whether it does.
    fn add_to_record(&mut self, text: &[u8], meaning: Meaning, out: &mut Out<'_>) -> bool {
        if let (Some((column, value)), Some((key, _))) = (line_of_record(text), key_and_value(text))
        {
            self.record.add(column, key, value, text, out);
            out.skip(Skip::Setting);
            return true;
        }
        let Some((key, value)) = key_and_value(text) else {
            return false;
        };
        let value = without_quotes(value);
        match Heading::of(key) {
            Some(heading @ Heading::Entry(_)) if is_one_entry(value) => {
                self.record.add(heading, key, value, text, out);
                if meaning == Meaning::Unknown {
                    self.record.be_unclear();
                }
                true
            }
            _ => false,
        }
    }

    /// Closes the brackets that were opened last, with all headings in them.
    fn close_block(&mut self) {
        if let Some(last) = self.open.iter().rposition(|open| open.is_block) {
            self.open.truncate(last);
        }
    }

    fn begin(&mut self, heading: SectionHeading, indent: usize, is_block: bool) {
        self.is_signed = false;
        // Brackets of unknown meaning are inside everything above them.
        let is_below = is_block && heading.meaning == Meaning::Unknown;
        let stays = |open: &&Open| {
            is_below
                || heading.is_nested && (open.indent < indent || !open.is_nested && heading.is_noun)
        };
        let in_block = self.open.iter().rposition(|open| open.is_block);
        let outer = in_block.map_or(0, |block| block + 1);
        let (_, inner) = self.open.split_at(outer);
        let kept = outer + inner.iter().take_while(stays).count();
        self.open.truncate(kept);
        let parent = self.open.last().map(|open| open.meaning);
        let meaning = match parent {
            // `emails:` says nothing about its entries.
            Some(parent) if heading.is_noun => parent,
            parent => inside(
                parent.unwrap_or(Meaning::Unknown),
                heading.meaning,
                parent.is_none(),
            ),
        };
        if self.open.len() == MAX_DEPTH {
            self.open.pop();
        }
        self.open.push(Open {
            indent,
            meaning,
            is_nested: heading.is_nested,
            is_block,
            is_plea: heading.is_plea,
        });
    }
}

/// Returns what a heading means inside another.
fn inside(parent: Meaning, inner: Meaning, is_outermost: bool) -> Meaning {
    match (parent, inner) {
        _ if is_outermost => inner,
        (Meaning::Skipped(_), _) | (_, Meaning::Unknown) => parent,
        _ => inner,
    }
}

/// Returns whether the value of a key says what happens to a sender: `action: block`,
/// `enabled: true`.
fn says_something(value: &[u8]) -> bool {
    Action::in_column(value).is_some()
        || matches!(Answer::of(value), Some(Answer::Yes | Answer::No))
}

/// Returns whether a line that opens brackets also has an entry. `@friends = (` of Perl is none.
fn names_somebody(text: &[u8]) -> bool {
    let mut words = text.split(|b| b.is_ascii_whitespace() || b"\"'()[]{},;<>".contains(b));
    words.any(|word| looks_like_entry(word) && word.first() != Some(&b'@'))
}

/// Returns whether a line underlines a title: `=====`.
pub(crate) fn is_underline(text: &[u8]) -> bool {
    text.len() > 2
        && text
            .first()
            .is_some_and(|sign| b"=-~:".contains(sign) && text.iter().all(|b| b == sign))
}

/// Returns whether a line is the name of a file between two lines of colons, as `more` shows it.
fn is_file_name(before: &[u8], text: &[u8]) -> bool {
    before.first() == Some(&b':') && is_underline(before) && !text.contains(&b'@')
}

/// Returns whether the signature of a mail begins here: two dashes and a name below them, or
/// thanks.
pub(crate) fn is_signature(before: &[u8], text: &[u8]) -> bool {
    // `Joe <joe@us.example>`
    let end = memchr::memchr(b'<', text).filter(|at| *at > 0);
    let name = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let is_name = || is_title(name) && heading(name).is_none() && !text.contains(&b':');
    before == b"--" && is_name()
        || CLOSINGS.iter().any(|closing| {
            let end = text.trim_ascii_end().strip_suffix(b",").unwrap_or(text);
            closing.as_bytes().eq_ignore_ascii_case(end)
        })
}

/// Phrases that mails end with.
#[rustfmt::skip]
const CLOSINGS: &[&str] = &[
    "best regards", "best wishes", "bien cordialement", "cheers", "cordialement", "danke",
    "freundliche grüße", "gracias", "grazie", "kind regards", "many thanks", "merci",
    "mit freundlichen grüßen", "regards", "saludos", "sincerely", "thank you", "thanks",
    "viele grüße", "with kind regards", "yours sincerely",
];

/// Returns whether a text is a title rather than an entry.
fn is_title(text: &[u8]) -> bool {
    !holds_entry(text) && text.iter().any(u8::is_ascii_alphabetic) && text.first() != Some(&b'#')
}

/// Returns the heading that a title with a line under it makes.
fn title(text: &[u8]) -> SectionHeading {
    SectionHeading {
        meaning: meaning_of(text).0,
        is_nested: false,
        is_noun: false,
        is_plea: false,
    }
}

/// Returns whether a value is an entry and nothing else.
fn is_one_entry(value: &[u8]) -> bool {
    looks_like_entry(value)
        && !value
            .iter()
            .any(|b| b.is_ascii_whitespace() || b",;{}[]<>".contains(b))
}
