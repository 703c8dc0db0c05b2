//! What a complete object of a JSON list says: which sender it names, whether that sender is
//! listed, and whether those inside it are.
//!
//! ```text
//!   {"email": "spam@bad.example", "expires": "2026-03-31"}      names a sender itself
//!   {"emails": ["a@bad.example"], "listed": false}              speaks of those inside it
//!   {"name": "Whitelist", "entries": ["friend@good.example"]}   so does the name of a list
//! ```

use super::super::out::Out;
use super::document::Document;
use super::frame::{Field, FieldKey, Frame, Holds};
use crate::list::meaning::action::Action;
use crate::list::meaning::answer::{is_blank, number};
use crate::list::meaning::flag::{Flag, holds_entry};
use crate::list::meaning::headings::{Heading, Place};
use crate::list::meaning::verdict::{Verdict, earliest};
use crate::list::meaning::whose::whose;
use crate::list::row::day::Day;
use crate::list::row::entry::is_part_of;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};

/// The sender that an object names.
pub(super) struct Subject {
    text: Vec<u8>,
    line: u64,
    /// The object names another one, too, and nothing says which of them is the sender.
    is_one_of_several: bool,
}

impl Document {
    pub(super) fn fields(&self, frame: &Frame) -> impl Iterator<Item = (Field, &[u8])> {
        let fields = self.fields.get(frame.fields..).unwrap_or_default();
        fields.iter().map(|field| {
            let value = self.text.get(field.value..field.end).unwrap_or_default();
            (*field, value)
        })
    }

    /// Returns the keys of an object that are known as headings, with their values.
    fn headings(&self, frame: &Frame) -> impl Iterator<Item = (Heading, &[u8])> {
        self.fields(frame)
            .filter_map(|(field, value)| match field.key {
                FieldKey::Heading(heading) => Some((heading, value)),
                _ => None,
            })
    }

    /// Handles an object that is complete.
    pub(super) fn object(&mut self, frame: &Frame, out: &mut Out<'_>) {
        let subject = self.subject(frame);
        self.judge_items(frame, subject.is_some(), out);
        let verdict = self.verdict(frame);
        let Some(subject) = subject else {
            // `"email": "...", "blocking": {"active": false}`
            if let (false, Ok(Some(_)) | Err(_), Some(parent)) =
                (frame.has_items, &verdict, self.frames.last_mut())
            {
                parent.is_unclear |= parent.is_object;
            }
            return;
        };
        let text = &subject.text;
        let mut changes = std::mem::take(&mut self.changes);
        let takes_back = changes.take_back(text, self.headings(frame));
        self.changes = changes;
        let mut out = out.at(subject.line, text);
        if takes_back {
            return out.reject(RejectReason::Withdrawal, text);
        }
        if let Holds::Skipped(skip) = frame.holds {
            return out.skip(skip);
        }
        if let Ok(Some(skip)) = verdict {
            return out.skip(skip);
        }
        // The address at the start of a list is that of its maintainer.
        let is_outermost = self.frames.is_empty() && !self.at_lines;
        let is_head =
            is_outermost && frame.has_items || frame.has_list && (is_outermost || frame.is_member);
        if frame.holds == Holds::Other || is_head {
            return out.skip(Skip::Mention);
        }
        if let Err(reason) = verdict {
            return out.reject(reason, text);
        }
        if frame.is_unclear {
            return out.reject(RejectReason::UnclearWord, text);
        }
        let has_local_part = || {
            let mut fields = self.fields(frame);
            fields.any(|(field, value)| {
                field.key == FieldKey::Heading(Heading::LocalPart) && !is_blank(value)
            })
        };
        if !text.contains(&b'@') && has_local_part() {
            return out.reject(RejectReason::SplitAddress, text);
        }
        if subject.is_one_of_several || frame.has_list {
            return out.reject(RejectReason::SecondEntry, text);
        }
        let expires = match self.ends(frame) {
            Ok(expires) => expires,
            Err((reason, end)) => return out.reject(reason, &end),
        };
        let (mut added, mut id) = (None, None);
        let mut unknown = Vec::new();
        let mut is_stix_address = false;
        for (field, value) in self.fields(frame) {
            match field.key {
                FieldKey::Heading(Heading::Added | Heading::Flag(Flag::BlockedSince)) => {
                    added = added.or_else(|| Day::read(value));
                }
                FieldKey::Heading(Heading::Kind) => is_stix_address |= value == b"email-addr",
                FieldKey::Id => id = Some(value.to_vec()),
                FieldKey::Unknown => unknown.push((value.to_vec(), field.line)),
                FieldKey::Heading(_) | FieldKey::Skipped(_) | FieldKey::Name | FieldKey::Answer => {
                }
            }
        }
        for (name, line) in unknown {
            if self.keys.report(&name) {
                out.at(line, &name).skip(Skip::UnknownColumn);
            }
        }
        let item = RawEntry {
            text,
            added,
            expires,
        };
        match id {
            Some(id) if is_stix_address => self.addresses.add(&id, item, &mut out),
            _ => self.item(item, &mut out),
        }
        if let Some(parent) = self.frames.last_mut() {
            parent.has_items = true;
        }
    }

    /// Returns the sender that an object names by its own keys.
    pub(super) fn subject(&self, frame: &Frame) -> Option<Subject> {
        let mut named: Vec<_> = self
            .fields(frame)
            .filter_map(|(field, value)| match field.key {
                FieldKey::Heading(heading) => {
                    let (place, rank) = place(heading, value)?;
                    // An address takes precedence over anything that may be only a part of one.
                    let has_no_at = !value.contains(&b'@');
                    Some(((place, has_no_at, rank), value, field.line))
                }
                _ => None,
            })
            .collect();
        named.sort_by_key(|(order, ..)| *order);
        let &((place, ..), mut text, mut line) = named.first()?;
        if let Some((_, whole, whole_line)) =
            named.iter().find(|(_, other, _)| is_part_of(text, other))
        {
            (text, line) = (whole, *whole_line);
        }
        let is_other = |other: &[u8]| {
            holds_entry(other) && !other.eq_ignore_ascii_case(text) && !is_part_of(other, text)
        };
        let is_one_of_several = place != Place::Sender
            && named
                .iter()
                .any(|&((at, ..), other, _)| at == place && is_other(other));
        Some(Subject {
            text: text.to_vec(),
            line,
            is_one_of_several,
        })
    }

    /// Returns why the sender that an object names is not listed; `None` if it is listed.
    fn verdict(&self, frame: &Frame) -> Result<Option<Skip>, RejectReason> {
        if let Some(skip) = frame.skips_all {
            return Ok(Some(skip));
        }
        let mut verdict = Verdict::default();
        for (field, value) in self.fields(frame) {
            let heading = match field.key {
                FieldKey::Heading(heading) => heading,
                FieldKey::Answer => Heading::Flag(Flag::Allows),
                _ => continue,
            };
            if let (Heading::Kind | Heading::Status, Some(skip)) = (heading, whose(value)) {
                return Ok(Some(skip));
            }
            verdict.add(heading, value);
        }
        verdict.skip()
    }

    /// Applies what an object says about everything inside it.
    fn judge_items(&mut self, frame: &Frame, names_somebody: bool, out: &mut Out<'_>) {
        if !frame.has_items {
            return;
        }
        let verdict = self.verdict_of_items(frame, names_somebody);
        let ends = self.ends_of_items(frame);
        let is_said = !matches!((&verdict, &ends), (Ok(None), Ok(None)));
        if frame.is_released && is_said {
            out.reject(RejectReason::LateAllowance, b"");
        }
        match (verdict, ends) {
            (Ok(Some(skip)), _) => self.held.skip(frame.held, skip, out),
            (Err(reason), _) | (Ok(None), Err(reason)) => {
                self.held.reject(frame.held, reason, out);
            }
            (Ok(None), Ok(Some(day))) => self.held.end(frame.held, day),
            (Ok(None), Ok(None)) => {}
        }
    }

    /// Returns why those inside an object are not listed; `None` if they are. What the answer of a
    /// program says about itself (`"status": "success"`, `"removed": 12`) is not about them.
    fn verdict_of_items(
        &self,
        frame: &Frame,
        names_somebody: bool,
    ) -> Result<Option<Skip>, RejectReason> {
        if let Some(skip) = frame.skips_all {
            return Ok(Some(skip));
        }
        let mut verdict = Verdict::default();
        for (field, value) in self.fields(frame) {
            match field.key {
                FieldKey::Name if !names_somebody => return Ok(Some(Skip::Allow)),
                FieldKey::Heading(Heading::Kind | Heading::Status) if whose(value).is_some() => {
                    return Ok(whose(value));
                }
                FieldKey::Heading(heading) if says_of_all(heading, value) => {
                    verdict.add(heading, value);
                }
                _ => {}
            }
        }
        match verdict.skip() {
            Ok(None) if frame.is_unclear && !names_somebody => Err(RejectReason::UnclearWord),
            verdict => verdict,
        }
    }

    /// Returns the day from which the sender that an object names is no longer listed.
    fn ends(&self, frame: &Frame) -> Result<Option<Day>, (RejectReason, Vec<u8>)> {
        earliest(self.headings(frame)).map_err(|(reason, end)| (reason, end.to_vec()))
    }

    /// Returns the same for those inside it. A small number is the seconds until the next request.
    fn ends_of_items(&self, frame: &Frame) -> Result<Option<Day>, RejectReason> {
        let is_pause = self.fields(frame).any(|(field, value)| {
            matches!(
                field.key,
                FieldKey::Heading(Heading::Expires | Heading::Expired)
            ) && number(value).is_some()
                && Day::read(value).is_none()
        });
        match self.ends(frame) {
            Err(_) if is_pause => Ok(None),
            ends => ends.map_err(|(reason, _)| reason),
        }
    }
}

/// Returns whether a value is about everything inside its object.
fn says_of_all(heading: Heading, value: &[u8]) -> bool {
    let said = heading.says(value);
    match heading {
        Heading::Action | Heading::Status | Heading::Kind => {
            number(value).is_none()
                && matches!(said, Ok(Some(Action::Allow | Action::Other)))
                && !is_blank(value)
        }
        Heading::Flag(_) => !is_blank(value) && (said.is_ok() || number(value).is_none()),
        Heading::Score | Heading::Probability | Heading::WhiteOrBlack => said.is_ok(),
        _ => false,
    }
}

/// Returns how far a value can be trusted to name the sender (the lowest, the most); `None` if it
/// does not name one.
fn place(heading: Heading, value: &[u8]) -> Option<(Place, usize)> {
    match heading {
        // `"from": "2026-01-01"`
        Heading::Entry(rank) if Place::of(rank) == Place::Sender && Day::is_date(value) => None,
        Heading::Entry(rank) if !is_blank(value) => Some((Place::of(rank), rank)),
        // `"blocked_domain": "bad.example"`
        Heading::Flag(Flag::Blocks | Flag::Bad) if holds_entry(value) => Some((Place::Blocked, 0)),
        _ => None,
    }
}
