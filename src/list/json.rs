//! JSON: arrays of strings, objects with a known key, one document or one a line.
//!
//! ```text
//!   ["spam@bad.example", "bad.example"]                       strings of an array
//!   {"email": "spam@bad.example", "expires": "2026-03-31"}    an object about one sender
//!   {"address": "friend@good.example", "action": "allow"}     allowance
//!   {"blocked": ["bad.example"], "allowed": ["good.example"]} lists by name
//!   {"spam@bad.example": 5.0, "bad.example": {"added": "..."}} a map
//! ```
//!
//! Read byte by byte with a stack of our own, so that a document of any size in one
//! line needs no more memory than one object, and none at all of the machine's stack.
//! Commas and colons are not checked; what cannot be JSON at all ends the reading (of
//! the line, for JSON lines) with a rejected row that says so. RFC 8259.

use super::action::{Action, Flag};
use super::csv::looks_like_entry;
use super::headings::{Heading, is_never};
use super::out::Out;
use super::vet::Wildcards;
use super::{Day, Item, MAX_LINE, Reason, Row, Skip};

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

/// The state between bytes.
#[derive(Debug)]
pub(super) struct Json {
    /// A document a line: a newline ends it, whatever is open.
    at_lines: bool,
    state: State,
    /// The string or number being read.
    token: Vec<u8>,
    token_line: u64,
    frames: Vec<Frame>,
    /// Keys and values of the open objects.
    text: Vec<u8>,
    fields: Vec<Field>,
    /// The last byte read was no newline.
    in_line: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    String,
    /// After a backslash.
    Escape,
    /// In `\u`: digits read, and their value so far.
    Unicode {
        digits: u8,
        value: u32,
    },
    /// A number or `true`, `false`, `null`.
    Bare,
    /// After an error.
    Broken,
}

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
    /// It has more text than is kept.
    too_long: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Entries,
    Allowances,
    Other,
}

/// A key and its value, as places in `text`.
#[derive(Clone, Copy, Debug)]
struct Field {
    key: usize,
    value: usize,
    end: usize,
    line: u64,
}

impl Json {
    pub(super) fn new(at_lines: bool) -> Self {
        Self {
            at_lines,
            state: State::Between,
            token: Vec::new(),
            token_line: 0,
            frames: Vec::new(),
            text: Vec::new(),
            fields: Vec::new(),
            in_line: false,
        }
    }

    /// Reads all of `block`.
    pub(super) fn read(
        &mut self,
        block: &[u8],
        last: bool,
        lines: &mut u64,
        sink: &mut dyn FnMut(u64, Row<'_>),
    ) {
        let mut rest = block;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let mut out = Out::new(*lines + 1, &mut *sink);
            match self.state {
                State::Broken => {
                    // Only lines matter now.
                    if byte != b'\n' {
                        let skip = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                        rest = rest.get(skip..).unwrap_or_default();
                    }
                }
                State::String if !matches!(byte, b'"' | b'\\' | b'\n') => {
                    // Everything up to the next sign that matters, at once.
                    let more = memchr::memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len());
                    self.extend(&[byte]);
                    self.extend(rest.get(..more).unwrap_or_default());
                    rest = rest.get(more..).unwrap_or_default();
                    continue;
                }
                _ => self.step(byte, &mut out),
            }
            if byte == b'\n' {
                if self.at_lines {
                    self.end(&mut out);
                }
                *lines += 1;
            }
        }
        self.in_line = block.last().map_or(self.in_line, |&byte| byte != b'\n');
        if last {
            self.end(&mut Out::new(*lines + 1, &mut *sink));
            *lines += u64::from(std::mem::take(&mut self.in_line));
        }
    }

    /// The end of the list, or of a line that is a document.
    fn end(&mut self, out: &mut Out<'_>) {
        if self.state == State::Bare {
            self.value(out);
        }
        if !self.frames.is_empty() || !matches!(self.state, State::Between | State::Broken) {
            out.reject(Reason::CutOffJson, b"");
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.state = State::Between;
        self.frames.clear();
        self.text.clear();
        self.fields.clear();
        self.token.clear();
    }

    /// Takes one byte in.
    fn step(&mut self, byte: u8, out: &mut Out<'_>) {
        match self.state {
            State::Broken => {}
            State::Between => self.between(byte, out),
            State::String => match byte {
                b'"' => self.string(out),
                b'\\' => self.state = State::Escape,
                _ => self.extend(&[byte]),
            },
            State::Escape => {
                self.state = State::String;
                match byte {
                    b'"' | b'\\' | b'/' => self.extend(&[byte]),
                    // No address has these; as white space they stay harmless.
                    b'b' | b'f' | b'n' | b'r' | b't' => self.extend(b" "),
                    b'u' => {
                        self.state = State::Unicode {
                            digits: 0,
                            value: 0,
                        };
                    }
                    _ => self.broken(out),
                }
            }
            State::Unicode { digits, value } => self.unicode(digits, value, byte, out),
            State::Bare => match byte {
                b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' => {
                    self.value(out);
                    self.between(byte, out);
                }
                b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    self.extend(&[byte]);
                }
                _ => self.broken(out),
            },
        }
    }

    /// A byte outside strings and numbers.
    fn between(&mut self, byte: u8, out: &mut Out<'_>) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => {}
            // The byte order mark.
            0xef | 0xbb | 0xbf => {}
            b'"' => {
                self.state = State::String;
                self.token.clear();
                self.token_line = out.line();
            }
            b'[' | b'{' => self.open(byte == b'{', out),
            b']' | b'}' => match self.frames.last() {
                Some(frame) if frame.is_object == (byte == b'}') => self.close(out),
                _ => self.broken(out),
            },
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                self.state = State::Bare;
                self.token.clear();
                self.token_line = out.line();
                self.extend(&[byte]);
            }
            _ => self.broken(out),
        }
    }

    /// One digit of `\uXXXX`. Pairs of surrogates are put together from two of these.
    fn unicode(&mut self, digits: u8, value: u32, byte: u8, out: &mut Out<'_>) {
        let Some(digit) = char::from(byte).to_digit(16) else {
            return self.broken(out);
        };
        let value = value << 4 | digit;
        if digits < 3 {
            self.state = State::Unicode {
                digits: digits + 1,
                value,
            };
            return;
        }
        self.state = State::String;
        let mut utf8 = [0; 4];
        match (value, self.high_surrogate()) {
            (0xdc00..=0xdfff, Some(high)) => {
                let kept = self.token.len() - SURROGATE_LENGTH;
                self.token.truncate(kept);
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (value - 0xdc00);
                if let Some(char) = char::from_u32(code) {
                    self.extend(char.encode_utf8(&mut utf8).as_bytes());
                }
            }
            _ => match char::from_u32(value) {
                Some(char) => self.extend(char.encode_utf8(&mut utf8).as_bytes()),
                // Half a pair, in the bytes that UTF-8 would give it: three, and never
                // valid, so that the other half finds it and nothing else equals it.
                None => self.extend(&surrogate_bytes(value)),
            },
        }
    }

    /// The first half of a pair, if the string ends with one.
    fn high_surrogate(&self) -> Option<u32> {
        match self.token.as_slice() {
            [.., 0xed, a @ 0xa0..=0xaf, b @ 0x80..=0xbf] => {
                Some(0xd000 | u32::from(a & 0x3f) << 6 | u32::from(b & 0x3f))
            }
            _ => None,
        }
    }

    /// More of the string or number, as far as it can matter.
    fn extend(&mut self, bytes: &[u8]) {
        // One byte above the bound, so that the bound is seen to be passed.
        let room = (MAX_LINE + 1).saturating_sub(self.token.len());
        self.token
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn broken(&mut self, out: &mut Out<'_>) {
        let reason = if self.at_lines {
            Reason::BadJsonLine
        } else {
            Reason::BadJson
        };
        out.reject(reason, &self.token);
        self.clear();
        self.state = State::Broken;
    }

    /// An array or object begins.
    fn open(&mut self, is_object: bool, out: &mut Out<'_>) {
        if self.frames.len() == MAX_DEPTH {
            return self.broken(out);
        }
        let mut holds = Holds::Entries;
        let mut subject = None;
        let mut text = self.text.len();
        let of_allowance = self.is_about_allowances();
        if let Some(parent) = self.frames.last_mut() {
            holds = parent.holds;
            if parent.is_object {
                // The key goes with the value, at its end.
                text = parent.key.take().unwrap_or(text);
                let name = self.text.get(text..).unwrap_or_default();
                if of_allowance {
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
            too_long: false,
        };
        self.frames.push(frame);
        match subject {
            // `{"bad.example": {"added": ...}}`: the object is about its key.
            Some(subject) if is_object => {
                let line = out.line();
                self.field(b"email", &subject, line);
            }
            Some(subject) if holds == Holds::Allowances => {
                drop(subject);
                out.skip(Skip::Allow);
            }
            Some(subject) => out.entry(&subject),
            None => {}
        }
    }

    /// Whether the object under way has said that it allows: `{"action": "allow",
    /// "addresses": [...]}`.
    fn is_about_allowances(&self) -> bool {
        let Some(frame) = self.frames.last() else {
            return false;
        };
        let fields = self.fields.get(frame.fields..).unwrap_or_default();
        frame.is_object
            && fields.iter().any(|field| {
                let key = self.text.get(field.key..field.value).unwrap_or_default();
                let value = self.text.get(field.value..field.end).unwrap_or_default();
                Heading::of(key) == Some(Heading::Action)
                    && Action::of(value) == Some(Action::Allow)
            })
    }

    /// An array or object ends.
    fn close(&mut self, out: &mut Out<'_>) {
        let Some(frame) = self.frames.pop() else {
            return;
        };
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
    }

    /// A string has ended: a key or a value.
    fn string(&mut self, out: &mut Out<'_>) {
        self.state = State::Between;
        let is_key = self
            .frames
            .last()
            .is_some_and(|frame| frame.is_object && frame.key.is_none());
        if !is_key {
            return self.value(out);
        }
        let token = std::mem::take(&mut self.token);
        if let Some(frame) = self.frames.last_mut() {
            frame.key = Some(self.text.len());
            // A key too long to be one of ours stays a key without a name.
            let name = if token.len() > MAX_LINE {
                &[][..]
            } else {
                &token
            };
            self.text.extend_from_slice(name);
        }
        self.token = token;
    }

    /// A value has ended: a string, a number, `true`, `false` or `null`.
    fn value(&mut self, out: &mut Out<'_>) {
        let is_string = self.state != State::Bare;
        self.state = State::Between;
        let token = std::mem::take(&mut self.token);
        let mut out = out.at(self.token_line);
        match self.frames.last().copied() {
            Some(frame) if frame.is_object => self.member(frame, &token, &mut out),
            Some(Frame {
                holds: Holds::Other,
                ..
            }) => {}
            _ if !is_string => {}
            Some(Frame {
                holds: Holds::Allowances,
                ..
            }) => out.skip(Skip::Allow),
            _ if token.len() > MAX_LINE => out.reject(Reason::TooLong, &token),
            _ => out.entry(&token),
        }
        self.token = token;
    }

    /// The value of a key.
    fn member(&mut self, frame: Frame, value: &[u8], out: &mut Out<'_>) {
        let key = frame.key.unwrap_or(self.text.len());
        let name = self.text.get(key..).unwrap_or_default().to_vec();
        self.text.truncate(key);
        if let Some(frame) = self.frames.last_mut() {
            frame.key = None;
        }
        if Heading::of(&name).is_none() && looks_like_entry(&name) {
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
        } else if Heading::of(&name).is_some() {
            let line = out.line();
            self.field(&name, value, line);
        } else if is_allowance(value) {
            // `"status": "whitelisted"`, whatever the key is called.
            let line = out.line();
            self.field(b"action", value, line);
        } else if let Some(action) = Flag::of(&name).and_then(|flag| flag.read(value)) {
            let word: &[u8] = match action {
                Action::Allow => b"allow",
                _ => b"ignore",
            };
            let line = out.line();
            self.field(b"action", word, line);
        }
    }

    /// Keeps a key and its value until the object ends.
    fn field(&mut self, name: &[u8], value: &[u8], line: u64) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        let key = self.text.len();
        if key - frame.text + name.len() + value.len() > MAX_LINE {
            frame.too_long = true;
            return;
        }
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.fields.push(Field {
            key,
            value: key + name.len(),
            end: self.text.len(),
            line,
        });
    }

    /// What an object says, now that it is whole.
    fn object(&self, frame: Frame, out: &mut Out<'_>) {
        let mut best: Option<(usize, &[u8], u64)> = None;
        let (mut action, mut added, mut expires) = (None, None, &b""[..]);
        for field in self.fields.get(frame.fields..).unwrap_or_default() {
            let key = self.text.get(field.key..field.value).unwrap_or_default();
            let value = self.text.get(field.value..field.end).unwrap_or_default();
            match Heading::of(key) {
                Some(Heading::Entry(rank)) if best.is_none_or(|(other, ..)| rank < other) => {
                    best = Some((rank, value, field.line));
                }
                // A refusal takes nothing back.
                Some(Heading::Action) if action.is_none_or(|action| action == Action::Block) => {
                    action = Some(Action::of(value).unwrap_or(Action::Other));
                }
                Some(Heading::Added) => added = added.or_else(|| Day::read(value)),
                Some(Heading::Expires) => expires = value,
                Some(Heading::Entry(_) | Heading::Action) | None => {}
            }
        }
        let Some((_, text, line)) = best else { return };
        let mut out = out.at(line);
        if frame.holds == Holds::Allowances {
            return out.skip(Skip::Allow);
        }
        if let Some(skip) = action.and_then(Action::skip) {
            return out.skip(skip);
        }
        let expires = match Day::read(expires) {
            None if !is_never(expires) => return out.reject(Reason::Date, expires),
            day => day,
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

/// The bytes that half a surrogate pair takes in `token`.
const SURROGATE_LENGTH: usize = 3;

#[expect(clippy::cast_possible_truncation, reason = "the parts are below 256")]
fn surrogate_bytes(value: u32) -> [u8; SURROGATE_LENGTH] {
    [
        0xe0 | (value >> 12) as u8,
        0x80 | (value >> 6 & 0x3f) as u8,
        0x80 | (value & 0x3f) as u8,
    ]
}
