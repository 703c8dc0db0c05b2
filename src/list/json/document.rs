//! What a JSON list says, array by array and object by object.
//!
//! Open arrays and objects stand on a stack of our own, so that no input reaches the
//! end of the machine's. An object is understood when it closes: which of its values
//! names the sender, what happens to the sender, and until when.

use super::super::action::{Action, Flag};
use super::super::csv::looks_like_entry;
use super::super::headings::Heading;
use super::super::out::Out;
use super::super::vet::Wildcards;
use super::super::{Day, Item, MAX_LINE, Reason, Skip};

/// Arrays and objects inside each other. Lists have three or four.
const MAX_DEPTH: usize = 64;

/// Keys of arrays whose strings are entries, beside those of objects.
const LISTS: &[&str] = &[
    "addresses",
    "ban",
    "banned",
    "black",
    "blacklist",
    "blacklisted",
    "block",
    "blocked",
    "blocklist",
    "data",
    "denied",
    "deny",
    "denylist",
    "disposable",
    "domains",
    "e-mails",
    "emails",
    "entries",
    "hosts",
    "items",
    "list",
    "mails",
    "records",
    "reject",
    "result",
    "results",
    "rows",
    "senders",
    "spam",
    "spammers",
    "values",
];

/// What a field counts beside its value, so that empty ones without end are too long too.
const FIELD_BYTES: usize = 8;

/// What is open, and what was said in it so far.
#[derive(Debug, Default)]
pub(super) struct Document {
    frames: Vec<Frame>,
    /// Keys for which a value is awaited, and values of the open objects.
    text: Vec<u8>,
    fields: Vec<Field>,
}

/// This cannot be JSON, or is nested too deep.
pub(super) struct Broken;

/// An open array or object.
#[derive(Clone, Copy, Debug)]
struct Frame {
    is_object: bool,
    /// Its strings are entries / allowances / nothing to us.
    holds: Holds,
    /// Where its keys, values and fields begin.
    text: usize,
    fields: usize,
    /// Where the key for the next value begins in `text`, once read.
    key: Option<usize>,
    /// The object has said that it allows: `{"action": "allow", "addresses": [...]}`.
    allows: bool,
    /// It has more text than is kept.
    too_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Entries,
    Allowances,
    Other,
}

/// The key of an object that is about its key: `{"bad.example": {"added": ...}}`.
const SUBJECT: Heading = Heading::Entry(0);

/// A key that is known, and the place of its value in `text`.
#[derive(Clone, Copy, Debug)]
struct Field {
    heading: Heading,
    value: usize,
    end: usize,
    line: u64,
}

impl Document {
    /// Whether the end would come too early.
    pub(super) fn is_open(&self) -> bool {
        !self.frames.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.text.clear();
        self.fields.clear();
    }

    /// Whether the next string is a key.
    pub(super) fn awaits_key(&self) -> bool {
        let frame = self.frames.last();
        frame.is_some_and(|frame| frame.is_object && frame.key.is_none())
    }

    /// An array or object begins.
    pub(super) fn open(&mut self, is_object: bool, out: &mut Out<'_>) -> Result<(), Broken> {
        if self.frames.len() == MAX_DEPTH {
            return Err(Broken);
        }
        let mut holds = Holds::Entries;
        let mut subject = None;
        let mut text = self.text.len();
        if let Some(parent) = self.frames.last_mut() {
            holds = parent.holds;
            if parent.is_object {
                // The key goes with the value, at its end.
                text = parent.key.take().unwrap_or(text);
                let name = self.text.get(text..).unwrap_or_default();
                if parent.allows {
                    holds = Holds::Allowances;
                }
                if holds != Holds::Allowances {
                    holds = Holds::of(name, is_object);
                }
                if looks_like_entry(name) {
                    subject = Some(name.to_vec());
                }
            }
        }
        let frame = Frame {
            is_object,
            holds,
            text,
            fields: self.fields.len(),
            key: None,
            allows: false,
            too_long: false,
        };
        self.frames.push(frame);
        match subject {
            // `{"bad.example": {"added": ...}}`: the object is about its key.
            Some(subject) if is_object => {
                let line = out.line();
                self.field(SUBJECT, &subject, line);
            }
            Some(subject) if holds == Holds::Allowances => {
                drop(subject);
                out.skip(Skip::Allow);
            }
            Some(subject) => out.entry(&subject),
            None => {}
        }
        Ok(())
    }

    /// An array or object ends.
    pub(super) fn close(&mut self, is_object: bool, out: &mut Out<'_>) -> Result<(), Broken> {
        let closes = |frame: &mut Frame| frame.is_object == is_object;
        let frame = self.frames.pop_if(closes).ok_or(Broken)?;
        if frame.too_long {
            out.reject(
                Reason::TooLong,
                self.text.get(frame.text..).unwrap_or_default(),
            );
        } else if frame.is_object {
            self.object(frame, out);
        }
        self.fields.truncate(frame.fields);
        self.text.truncate(frame.text);
        Ok(())
    }

    /// A key has been read.
    pub(super) fn key(&mut self, name: &[u8]) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = Some(self.text.len());
            // A key too long to be one of ours stays a key without a name.
            let name = if name.len() > MAX_LINE { &[] } else { name };
            self.text.extend_from_slice(name);
        }
    }

    /// A value has been read: a string, or a number, `true`, `false` or `null`.
    pub(super) fn value(&mut self, token: &[u8], is_string: bool, out: &mut Out<'_>) {
        match self.frames.last().copied() {
            Some(frame) if frame.is_object => self.member(frame, token, out),
            Some(Frame {
                holds: Holds::Other,
                ..
            }) => {}
            _ if !is_string => {}
            Some(Frame {
                holds: Holds::Allowances,
                ..
            }) => out.skip(Skip::Allow),
            _ if token.len() > MAX_LINE => out.reject(Reason::TooLong, token),
            _ => out.entry(token),
        }
    }

    /// The value of a key.
    fn member(&mut self, frame: Frame, value: &[u8], out: &mut Out<'_>) {
        let key = frame.key.unwrap_or(self.text.len());
        let name = self.text.get(key..).unwrap_or_default().to_vec();
        self.text.truncate(key);
        if let Some(frame) = self.frames.last_mut() {
            frame.key = None;
        }
        let heading = Heading::of(&name);
        let line = out.line();
        if let Some(heading) = heading {
            self.field(heading, value, line);
        } else if looks_like_entry(&name) {
            // `{"spam@bad.example": 5.0}`, a map.
            let action = Action::of(value)
                .or_else(|| Action::of_score(value))
                .or_else(|| matches!(value, b"false" | b"null").then_some(Action::Other));
            let allowed = frame.holds == Holds::Allowances;
            match action.and_then(Action::skip) {
                _ if allowed => out.skip(Skip::Allow),
                Some(skip) => out.skip(skip),
                None => out.entry(&name),
            }
        } else if is_allowance(value) {
            // `"status": "whitelisted"`, whatever the key is called.
            self.field(Heading::Action, value, line);
        } else if let Some(action) = Flag::of(&name).and_then(|flag| flag.read(value)) {
            let word: &[u8] = match action {
                Action::Allow => b"allow",
                _ => b"ignore",
            };
            self.field(Heading::Action, word, line);
        }
    }

    /// Keeps a key and its value until the object ends.
    fn field(&mut self, heading: Heading, value: &[u8], line: u64) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        let start = self.text.len();
        let fields = self.fields.len() - frame.fields;
        if start - frame.text + value.len() + fields * FIELD_BYTES > MAX_LINE {
            frame.too_long = true;
            return;
        }
        frame.allows |= heading == Heading::Action && Action::of(value) == Some(Action::Allow);
        self.text.extend_from_slice(value);
        self.fields.push(Field {
            heading,
            value: start,
            end: self.text.len(),
            line,
        });
    }

    /// What an object says, now that it is whole.
    fn object(&self, frame: Frame, out: &mut Out<'_>) {
        let mut best: Option<(usize, &[u8], u64)> = None;
        let (mut action, mut added, mut expires) = (None, None, &b""[..]);
        for field in self.fields.get(frame.fields..).unwrap_or_default() {
            let value = self.text.get(field.value..field.end).unwrap_or_default();
            match field.heading {
                Heading::Entry(rank) if best.is_none_or(|(other, ..)| rank < other) => {
                    best = Some((rank, value, field.line));
                }
                // A refusal takes nothing back.
                Heading::Action if action.is_none_or(|action| action == Action::Block) => {
                    action = Some(Action::of(value).unwrap_or(Action::Other));
                }
                Heading::Added => added = added.or_else(|| Day::read(value)),
                Heading::Expires => expires = value,
                Heading::Entry(_) | Heading::Action => {}
            }
        }
        let Some((_, text, line)) = best else { return };
        let mut out = out.at(line, text);
        if frame.holds == Holds::Allowances {
            return out.skip(Skip::Allow);
        }
        if let Some(skip) = action.and_then(Action::skip) {
            return out.skip(skip);
        }
        let Some(expires) = Day::read_expiry(expires) else {
            return out.reject(Reason::Date, expires);
        };
        let item = Item {
            text,
            added,
            expires,
        };
        out.item(item, Wildcards::Star);
    }
}

impl Holds {
    /// What an array or object under the key `name` holds.
    fn of(name: &[u8], is_object: bool) -> Self {
        let plain: Vec<u8> = name
            .iter()
            .map(|&b| {
                if b == b'_' {
                    b'-'
                } else {
                    b.to_ascii_lowercase()
                }
            })
            .collect();
        if allows(&plain) {
            Self::Allowances
        } else if is_object
            || matches!(Heading::of(name), Some(Heading::Entry(_)))
            || LISTS.iter().any(|list| list.as_bytes() == plain)
        {
            Self::Entries
        } else {
            Self::Other
        }
    }
}

/// Whether a value can only mean that somebody may pass. `ok` and `good` can mean other
/// things: `{"status": "ok", "results": [...]}`.
fn is_allowance(value: &[u8]) -> bool {
    [
        &b"allow"[..],
        b"allowed",
        b"allowlist",
        b"allowlisted",
        b"welcomelist",
        b"welcomelisted",
        b"whitelist",
        b"whitelisted",
    ]
    .iter()
    .any(|word| word.eq_ignore_ascii_case(value))
}

/// Whether a key of many parts (`allowed_senders`) speaks of allowances.
fn allows(name: &[u8]) -> bool {
    name.split(|&b| b == b'-' || b == b' ')
        .any(|word| word == b"white" || Action::of(word) == Some(Action::Allow))
}
