//! Plain lists: what people write and most feeds send.
//!
//! ```text
//!   spam@bad.example                     one entry a line: a@b  a@  @b  b  .b  *.b  *@b
//!   Bad Sender <spam@bad.example>        as mail programs write it; mailto:spam@bad.example
//!   spam@bad.example,                    a separator at the end is dropped
//!   spam@bad.example # why               a comment: # at the start or after white space
//!   ; why                                a comment: ; at the start only; behind an entry, it divides a table
//!   spam@bad.example # expires 2026-12-24 and why
//!                                        the first day on which it is no longer listed
//! ```
//!
//! A comment changes nothing, but for one that begins with `expires` and a date: it ends the entry on
//! its line. Any other line is rejected. A heading, a sign before an entry, or a line of another
//! format may change what the lines below it mean, so it refuses the list; unless a person has said
//! that the list is plain.
//!
//! The format `addresses` has several entries a line, between commas and semicolons. In a whitelist,
//! `OK` may follow an entry.

use super::{LineFormat, Out};
use crate::list::row::{RawEntry, Refusal, RejectReason, entry, looks_like_entry};
use crate::list::text::{blank_words, pieces};
use blocklist_filter::base::day::Day;
use blocklist_filter::rfc5322::closing_quote;

/// How plain lists differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One entry a line.
    Plain,
    /// Several entries a line.
    Addresses,
}

#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) kind: Kind,
    /// Whether `OK` may stand after an entry.
    pub(crate) takes_ok: bool,
    /// Whether somebody has said that the list is plain.
    pub(crate) is_explicit: bool,
    /// Returns the name of the format whose mark a line has.
    pub(crate) foreign: fn(&[u8]) -> Option<&'static str>,
}

impl LineFormat for Plain {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        let line = line.trim_ascii();
        let (text, comment) = match line {
            [b';', ..] if self.kind != Kind::Addresses => return out.nothing(),
            line => split_comment(line),
        };
        if text.is_empty() {
            return out.nothing();
        }
        let expires = match comment.map_or(Ok(None), end) {
            Ok(expires) => expires,
            Err(reason) => return out.reject(reason, line),
        };
        let raw = RawEntry {
            expires,
            ..RawEntry::new(text)
        };
        if self.kind == Kind::Addresses {
            return self.several(raw, out);
        }
        let text = match text {
            [entry @ .., b',' | b';'] => entry.trim_ascii_end(),
            _ => text,
        };
        let text = match text {
            // `friend@good.example OK`
            [entry @ .., blank, b'O' | b'o', b'K' | b'k']
                if self.takes_ok && blank.is_ascii_whitespace() =>
            {
                entry.trim_ascii_end()
            }
            _ => text,
        };
        if let Err(reason) = out.list(RawEntry { text, ..raw }) {
            self.other(text, reason, out);
        }
    }
}

impl Plain {
    fn several(&self, raw: RawEntry<'_>, out: &mut Out<'_>) {
        let mut found = false;
        for text in pieces(raw.text) {
            found |= looks_like_entry(text);
            let listed = out.list(RawEntry { text, ..raw });
            let listed = listed.map_err(|reason| match reason {
                RejectReason::Several => RejectReason::NotApart,
                reason => reason,
            });
            match listed {
                Ok(()) => {}
                Err(reason) if found => out.reject(reason, text),
                Err(reason) => return self.other(raw.text, reason, out),
            }
        }
        if !found && pieces(raw.text).next().is_none() {
            // Only separators.
            out.reject(RejectReason::NotAnEntry, raw.text);
        }
    }

    #[cold]
    fn other(&self, text: &[u8], reason: RejectReason, out: &mut Out<'_>) {
        use RejectReason::{CutOff, Hash, IpAddress, Url};
        if matches!(reason, Hash(_) | CutOff | IpAddress | Url) {
            return out.reject(reason, text);
        }
        let (refusal, reason) = if is_signed(text) {
            (Refusal::Sign, RejectReason::Sign)
        } else if let Some(format) = (self.foreign)(text) {
            (Refusal::ForeignMark(format), reason)
        } else if is_heading(text) {
            (Refusal::Heading, RejectReason::Heading)
        } else {
            return out.reject(reason, text);
        };
        match self.is_explicit {
            true => out.reject(reason, text),
            false => out.refuse(refusal),
        }
    }
}

/// Returns the text of a line before its comment.
pub(crate) fn before_comment(line: &[u8]) -> &[u8] {
    split_comment(line.trim_ascii()).0
}

/// Divides a trimmed line into its text and its comment, without the `#`. A quoted string at the start
/// may contain one.
pub fn split_comment(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut from = match line {
        [b'"', ..] => closing_quote(line, 1).unwrap_or(0),
        _ => 0,
    };
    loop {
        let rest = line.get(from..).unwrap_or_default();
        let Some(at) = memchr::memchr(b'#', rest) else {
            return (line, None);
        };
        let (text, comment) = line.split_at(from + at);
        if text.last().is_none_or(u8::is_ascii_whitespace) {
            return (text.trim_ascii_end(), comment.get(1..));
        }
        from += at + 1;
    }
}

/// Returns the day on which a comment ends its entry: `expires 2026-12-24 perhaps with a note`.
fn end(comment: &[u8]) -> Result<Option<Day>, RejectReason> {
    let mut words = blank_words(comment);
    let (Some(b"expires"), Some(day)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let is_written = |(at, b): (usize, &u8)| match at {
        4 | 7 => *b == b'-',
        _ => b.is_ascii_digit(),
    };
    match day.len() == 10 && day.iter().enumerate().all(is_written) {
        true => Day::read_end(day).ok_or(RejectReason::Date),
        false => Ok(None),
    }
}

/// Returns whether a text begins with a sign, and has an entry after it.
fn is_signed(text: &[u8]) -> bool {
    match text {
        [b'!' | b'+' | b'-', rest @ ..] => blank_words(rest).next().is_some_and(looks_like_entry),
        _ => false,
    }
}

/// Returns whether a line is only a heading: `[x]`, `== x ==`, `x:`, or words of which none can be
/// an entry: one has an `@`, or a dot before its last character.
fn is_heading(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace);
    let may_be = |word: &[u8]| match word {
        [before @ .., _] => word.contains(&b'@') || before.contains(&b'.'),
        [] => false,
    };
    let is_alone = !text.iter().any(u8::is_ascii_whitespace);
    match text {
        [b'[', .., b']'] | [b'=', b'=', ..] => true,
        [word @ .., b':'] if !is_alone || !looks_like_entry(word) => true,
        _ => !words.any(may_be),
    }
}

/// Returns how a list writes a mailbox in canonical form: a local part that could be read as something
/// else gets double quotes.
pub fn written_address(address: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-=".contains(c);
    let is_read_back = |local: &str| match local.chars().next() {
        None | Some('"') => true,
        Some(first) => first.is_ascii_alphanumeric() && local.chars().all(is_plain),
    };
    match address.rsplit_once('@') {
        Some((local, domain)) if !is_read_back(local) => format!("\"{local}\"@{domain}"),
        _ => address.to_owned(),
    }
}

/// Returns how a plain list writes an entry, so that it is read back as this entry whatever comment
/// follows: a local part that begins like a comment or with a sign, or has a `?`, gets double quotes.
pub fn written(text: &str) -> Result<String, RejectReason> {
    let quoted = |text: &str| {
        text.split_once('@')
            .map(|(local, domain)| format!("\"{local}\"@{domain}"))
    };
    let read = |text: &str| {
        let entry = entry::read(text.as_bytes())?.into_owned();
        String::from_utf8(entry).map_err(|_| RejectReason::NotUtf8)
    };
    let text = text.trim();
    match read(text) {
        Ok(entry) if entry.starts_with('#') => read(&quoted(&entry).unwrap_or(entry)),
        Err(reason @ (RejectReason::Sign | RejectReason::Wildcard)) if !text.contains('*') => {
            read(&quoted(text).ok_or(reason)?)
        }
        read => read,
    }
}
