//! What a JSON list says, array by array and object by object.
//!
//! Open arrays and objects are on a stack of our own, so that no input overflows the thread's
//! stack. An object is understood when it closes: which of its values names the sender, what
//! happens to the sender, and until when. It may also say so about everything inside it
//! (`{"addresses": [...], "policy": "allow"}`), so the items of open objects are
//! [held](super::super::held) until then.
//! objects are [held](super::super::held) until then.

use super::super::changes::Changes;
use super::super::held::Held;
use super::super::out::Out;
use super::frame::{Field, FieldKey, Frame, Holds};
use super::keys::Keys;
use super::kind::{is_time_name, is_value_name, names_allowed, verdict_of_all};
use super::stix::Addresses;
use crate::list::meaning::action::Action;
use crate::list::meaning::headings::Heading;
use crate::list::meaning::status::status;
use crate::list::meaning::verdict::{is_no, is_suspicious, takes_off};
use crate::list::row::entry::looks_like_entry;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};
use crate::list::text::lines::MAX_LINE;

/// Maximum depth of arrays and objects inside each other. Lists have three or four levels.
const MAX_DEPTH: usize = 64;

/// A key that only the warninglists of MISP have. They name known good senders.
const WARNINGLIST: &[u8] = b"matching_attributes";

/// What a field counts besides its value, so that endless empty fields are too long as well.
const FIELD_BYTES: usize = 8;

/// What is open, and what it has said so far.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Whether each line is a document about one sender.
    pub(super) at_lines: bool,
    pub(super) frames: Vec<Frame>,
    /// Keys whose value is awaited, and values of the open objects.
    pub(super) text: Vec<u8>,
    pub(super) fields: Vec<Field>,
    /// What objects say that represent a single value: the number of open frames around the
    /// value, its meaning, its text and its line.
    values: Vec<(usize, Heading, Vec<u8>, u64)>,
    pub(super) held: Held,
    pub(super) changes: Changes,
    pub(super) addresses: Addresses,
    pub(super) keys: Keys,
}

/// The text cannot be JSON, or is nested too deep.
pub(super) struct Broken;

/// The meaning of the key if an object is about its own key: `{"bad.example": {"added": ...}}`.
const SUBJECT: FieldKey = FieldKey::Heading(Heading::Entry(0));

impl Document {
    pub(super) fn new(at_lines: bool) -> Self {
        Self {
            at_lines,
            ..Self::default()
        }
    }

    /// Returns whether the document is incomplete.
    pub(super) fn is_open(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Ends the document, complete or not. What was understood is listed.
    pub(super) fn end(&mut self, out: &mut Out<'_>) {
        self.held.release(0, out);
        self.addresses.release(out);
        self.frames.clear();
        self.values.clear();
        self.text.clear();
        self.fields.clear();
    }

    /// Returns whether the next string is a key.
    pub(super) fn awaits_key(&self) -> bool {
        let frame = self.frames.last();
        frame.is_some_and(|frame| frame.is_object && frame.key.is_none())
    }

    /// Begins an array or object.
    pub(super) fn open(&mut self, is_object: bool, out: &mut Out<'_>) -> Result<(), Broken> {
        if self.frames.len() == MAX_DEPTH {
            return Err(Broken);
        }
        let (mut holds, mut is_list) = (Holds::Entries, false);
        let mut subject = None;
        let mut text = self.text.len();
        let mut is_known_good = false;
        let mut number = None;
        let (mut is_member, mut value_of) = (false, None);
        let is_row = !is_object && self.frames.last().is_some_and(|frame| !frame.is_object);
        if let Some(parent) = self.frames.last_mut() {
            (holds, is_list) = (parent.holds, parent.is_list);
            if parent.is_object {
                // The key is removed with the value, at its end.
                text = parent.key.take().unwrap_or(text);
                let name = self.text.get(text..).unwrap_or_default();
                is_known_good = name == WARNINGLIST;
                is_member = true;
                if is_object {
                    let heading = self.keys.heading(name).filter(|heading| {
                        matches!(
                            heading,
                            Heading::Expires
                                | Heading::Expired
                                | Heading::Added
                                | Heading::Action
                                | Heading::Status
                                | Heading::Flag(_)
                        )
                    });
                    let inherited = parent.value_of.filter(|_| is_value_name(name));
                    value_of = inherited.or(heading);
                }
                (holds, is_list) = match (parent.skips_all, holds) {
                    (Some(skip), _) | (None, Holds::Skipped(skip)) => (Holds::Skipped(skip), false),
                    _ => Holds::of(name, is_object, parent),
                };
                if is_object && !name.is_empty() && name.iter().all(u8::is_ascii_digit) {
                    parent.is_numbered = true;
                    number = Some(name.to_vec());
                }
                if looks_like_entry(name) {
                    subject = Some(name.to_vec());
                }
                // Not `"emails": [...]`, which may all be of one sender.
                let is_noun = matches!(self.keys.heading(name), Some(Heading::Entry(_)));
                parent.has_list |= is_list
                    && !is_object
                    && !is_noun
                    && !parent.is_keyed
                    && holds == Holds::Entries;
            } else if is_object && holds == Holds::Other {
                // The objects of an array are alike, and say themselves what they are about.
                holds = Holds::Entries;
            }
        }
        if is_known_good {
            // This is a field of the object around it. Its key is removed at its end, as for any
            // value.
            let name = self.text.split_off(text);
            self.field(FieldKey::Skipped(Skip::KnownGood), b"", out.line());
            text = self.text.len();
            self.text.extend_from_slice(&name);
        }
        self.frames.push(Frame {
            is_object,
            // `{"friend@good.example": ["allow"]}`
            is_row: is_row || !is_object && subject.is_some(),
            is_numbered: false,
            holds,
            is_list,
            is_member,
            value_of,
            is_keyed: subject.is_some(),
            has_list: false,
            text,
            fields: self.fields.len(),
            held: self.held.len(),
            key: None,
            skips_all: None,
            too_long: false,
            has_items: false,
            is_released: false,
            is_unclear: false,
        });
        if let Some(number) = number {
            self.field(FieldKey::Id, &number, out.line());
        }
        match subject {
            // `{"bad.example": {"added": ...}}`: the object is about its key.
            Some(subject) if is_object => self.field(SUBJECT, &subject, out.line()),
            Some(subject) => {
                let line = out.line();
                self.string(holds, RawEntry::new(&subject), &mut out.at(line, &subject));
            }
            None => {}
        }
        Ok(())
    }

    /// Ends an array or object.
    pub(super) fn close(&mut self, is_object: bool, out: &mut Out<'_>) -> Result<(), Broken> {
        let closes = |frame: &mut Frame| frame.is_object == is_object;
        let frame = self.frames.pop_if(closes).ok_or(Broken)?;
        if frame.too_long {
            let text = self.text.get(frame.text..).unwrap_or_default();
            out.reject(RejectReason::TooLong, text);
        } else if frame.is_object {
            self.object(&frame, out);
            self.end_of_parent(&frame);
        } else if let (true, Some(skip)) = (frame.is_row, frame.skips_all) {
            if frame.is_released {
                out.reject(RejectReason::LateAllowance, b"");
            }
            self.held.skip(frame.held, skip, out);
        } else if frame.is_row && frame.is_unclear {
            self.held.reject(frame.held, RejectReason::UnclearWord, out);
        }
        self.fields.truncate(frame.fields);
        self.text.truncate(frame.text);
        if let Some(parent) = self.frames.last_mut() {
            parent.has_items |= frame.has_items;
            parent.is_released |= frame.is_released;
        }
        self.hand_up();
        if !self.is_held() {
            self.held.release(0, out);
        }
        if frame.is_numbered {
            self.addresses.release(out);
        }
        if self.frames.is_empty() {
            self.addresses.release(out);
        }
        Ok(())
    }

    /// Takes a key that has been read.
    pub(super) fn key(&mut self, name: &[u8]) {
        if let Some(frame) = self.frames.last_mut() {
            frame.key = Some(self.text.len());
            // A key too long to be known is kept as a key without a name.
            let name = if name.len() > MAX_LINE { &[] } else { name };
            self.text.extend_from_slice(name);
        }
    }

    /// Takes a value that has been read: a string, or a number, `true`, `false` or `null`.
    pub(super) fn value(&mut self, token: &[u8], is_string: bool, out: &mut Out<'_>) {
        match self.frames.last().copied() {
            Some(frame) if frame.is_object => self.member(&frame, token, is_string, out),
            Some(frame) if frame.is_row && self.decides(token, is_string, out) => {}
            _ if !is_string => {}
            _ if token.len() > MAX_LINE => out.reject(RejectReason::TooLong, token),
            Some(frame) => self.string(frame.holds, RawEntry::new(token), out),
            None => out.entry(token),
        }
    }

    /// Returns whether a value of a row says what happens to the others:
    /// `["friend@good.example", "allow"]`.
    fn decides(&mut self, token: &[u8], is_string: bool, out: &mut Out<'_>) -> bool {
        let action = if is_string {
            Action::in_column(token).or_else(|| status(token))
        } else {
            // A positive number can mean anything.
            Action::of_score(token).filter(|action| *action == Action::Allow)
        };
        if let (None, true, Some(frame)) = (
            action,
            is_no(token) || takes_off(token),
            self.frames.last_mut(),
        ) {
            frame.is_unclear = true;
        }
        if let (Some(action), Some(frame)) = (action, self.frames.last_mut()) {
            frame.skips_all = frame.skips_all.or_else(|| action.skip());
            out.skip(Skip::Setting);
        }
        action.is_some()
    }

    /// Takes a string that may be an entry.
    fn string(&mut self, holds: Holds, item: RawEntry<'_>, out: &mut Out<'_>) {
        match holds {
            Holds::Entries => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.has_items = true;
                }
                self.item(item, out);
            }
            Holds::Skipped(skip) => out.skip(skip),
            Holds::Recipients => self.addresses.receives(item.text),
            Holds::Other if looks_like_entry(item.text) => out.skip(Skip::Mention),
            Holds::Other => {
                // `"tags": ["whitelisted"]`
                if status(item.text).is_some() {
                    self.doubt_parent();
                }
            }
        }
    }

    /// Lists an item: at once if no open object can say otherwise, else later.
    pub(super) fn item(&mut self, item: RawEntry<'_>, out: &mut Out<'_>) {
        if !self.is_held() {
            return out.raw_entry(item, crate::list::row::entry::Wildcards::Star);
        }
        if self.held.is_full() {
            self.held.release(0, out);
            for frame in &mut self.frames {
                frame.is_released = true;
                frame.held = 0;
            }
        }
        self.held.add(item, out.line());
    }

    /// Returns whether something open may still say that its items are not listed.
    fn is_held(&self) -> bool {
        let mut frames = self.frames.iter();
        frames.any(|frame| frame.is_object || frame.is_row)
    }

    /// Takes the value of a key.
    fn member(&mut self, frame: &Frame, value: &[u8], is_string: bool, out: &mut Out<'_>) {
        let key = frame.key.unwrap_or(self.text.len());
        let name = self.text.get(key..).unwrap_or_default().to_vec();
        self.text.truncate(key);
        if let Some(frame) = self.frames.last_mut() {
            frame.key = None;
        }
        let line = out.line();
        let is_value = |heading: &Heading| match heading {
            // `"blocked": {"name": "Spam", "entries": [...]}` is a list.
            Heading::Flag(_) => is_time_name(&name),
            _ => is_value_name(&name),
        };
        if let Some(heading) = frame.value_of.filter(is_value) {
            return self.part_of_value(heading, value, line);
        }
        let heading = self.keys.heading(&name);
        if is_string && names_allowed(&name, value) {
            self.field(FieldKey::Name, b"", line);
        }
        if name == b"id" {
            self.field(FieldKey::Id, value, line);
        } else if name.eq_ignore_ascii_case(b"ok") {
            self.field(FieldKey::Answer, value, line);
        } else if let Some(heading) = heading.filter(|heading| heading.matters()) {
            self.field(FieldKey::Heading(heading), value, line);
        } else if matches!(name.as_slice(), b"from_ref" | b"sender_ref") {
            self.addresses.sends(value);
        } else if looks_like_entry(&name) {
            // `{"spam@bad.example": 5.0}`, a map.
            let action = Action::in_column(value)
                .or_else(|| Action::of_score(value))
                .or_else(|| {
                    let is_off = value == b"null" || is_no(value) || takes_off(value);
                    is_off.then_some(Action::Other)
                });
            match action.and_then(Action::skip) {
                Some(skip) => out.at(line, &name).skip(skip),
                None => self.string(frame.holds, RawEntry::new(&name), &mut out.at(line, &name)),
            }
        } else if is_string && value.contains(&b'@') && looks_like_entry(value) {
            out.skip(Skip::Mention);
        } else if heading.is_none() && is_string && takes_off(value) {
            // `"foo": "whitelisted"` may be the sender's own words.
            if let Some(frame) = self.frames.last_mut() {
                frame.is_unclear = true;
            }
        } else if heading.is_none() && is_suspicious(value) && !self.keys.is_reported(&name) {
            self.field(FieldKey::Unknown, &name, line);
        }
    }

    /// Keeps a value of an object that represents a single value of the object around it.
    fn part_of_value(&mut self, heading: Heading, value: &[u8], line: u64) {
        let depth = self.frames.len();
        if self.values.len() < MAX_DEPTH && value.len() <= MAX_LINE {
            self.values.push((depth, heading, value.to_vec(), line));
        } else if let Some(frame) = self.frames.last_mut() {
            frame.too_long = true;
        }
    }

    /// Keeps the end that an object without a sender gives to the object around it:
    /// `"listing": {"expires": "2026-12-24"}`.
    fn end_of_parent(&mut self, frame: &Frame) {
        if frame.has_items || self.subject(frame).is_some() {
            return;
        }
        let ends = self
            .fields(frame)
            .filter(|(field, _)| matches!(field.key, FieldKey::Heading(Heading::Expires)));
        let ends: Vec<_> = ends
            .map(|(field, value)| (Heading::Expires, value.to_vec(), field.line))
            .take(MAX_DEPTH)
            .collect();
        let depth = self.frames.len() + 1;
        for (heading, value, line) in ends {
            self.values.push((depth, heading, value, line));
        }
    }

    /// Gives the value that the closed object represents to the object around it.
    fn hand_up(&mut self) {
        let depth = self.frames.len();
        let stands_for_one = self
            .frames
            .last()
            .is_some_and(|frame| frame.value_of.is_some());
        if stands_for_one {
            for (at, ..) in &mut self.values {
                *at = depth.min(*at);
            }
            return;
        }
        while let Some((_, heading, value, line)) = self.values.pop_if(|(at, ..)| *at > depth) {
            self.field(FieldKey::Heading(heading), &value, line);
        }
    }

    /// Notes that the content of an object may say that its own entry is not listed.
    fn doubt_parent(&mut self) {
        if let [.., parent, _] = self.frames.as_mut_slice() {
            parent.is_unclear |= parent.is_object;
        }
    }

    /// Keeps a key and its value until the object ends.
    fn field(&mut self, key: FieldKey, value: &[u8], line: u64) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        let start = self.text.len();
        let fields = self.fields.len() - frame.fields;
        if start - frame.text + value.len() + fields * FIELD_BYTES > MAX_LINE {
            frame.too_long = true;
            return;
        }
        frame.skips_all = frame.skips_all.or_else(|| match key {
            FieldKey::Heading(heading) => verdict_of_all(heading, value),
            FieldKey::Skipped(skip) => Some(skip),
            FieldKey::Id | FieldKey::Unknown | FieldKey::Name | FieldKey::Answer => None,
        });
        self.text.extend_from_slice(value);
        self.fields.push(Field {
            key,
            value: start,
            end: self.text.len(),
            line,
        });
    }
}
