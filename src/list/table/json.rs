//! JSON, as one document or one a line.
//!
//! What is on no path of the declaration is passed over. An object that holds entries is a row: it
//! is judged by its values, and then its entries are listed.

use std::borrow::Cow;
use std::sync::Arc;

use super::rows::{Source, Table, list, report};
use super::rules::{self, NotListed, RowDates, Rules};
use super::text::Text;
use super::tree::{MAX_KEYS, Node};
use crate::list::formats::out::Out;
use crate::list::formats::{Keys, LineFormat};
use crate::list::row::refusal::Refusal;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{Row, Skip};
use crate::list::text::json::{Fault, MAX_DOCUMENT_BYTES, Members, Value, check, flat, unescaped};
use crate::list::text::lines::newlines;

/// Reads a document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    table: Arc<Table>,
    text: Vec<u8>,
    is_too_long: bool,
}

impl Document {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            ..Self::default()
        }
    }

    /// Takes the next bytes. With `last`, passes on the rows of all, and counts the lines.
    pub(crate) fn read(
        &mut self,
        block: &[u8],
        last: bool,
        lines: &mut u64,
        sink: &mut dyn FnMut(u64, Row<'_>),
    ) {
        self.is_too_long |= self.text.len() + block.len() > MAX_DOCUMENT_BYTES;
        if !self.is_too_long {
            self.text.extend_from_slice(block);
        }
        *lines += newlines(block);
        if !last {
            return;
        }
        let text = std::mem::take(&mut self.text);
        let done = match (self.is_too_long, check(&text)) {
            (true, _) => Err((Refusal::DocumentTooLong, 1)),
            (false, Err((fault, at))) => {
                let refusal = match fault {
                    Fault::Syntax => Refusal::NotJson,
                    Fault::BrokenOff => Refusal::BrokenOff,
                    Fault::Several => Refusal::SeveralDocuments,
                };
                Err((refusal, 1 + newlines(text.get(..at).unwrap_or_default())))
            }
            (false, Ok(())) => Walk::read(&self.table, &text, 1, sink),
        };
        if let Err((refusal, line)) = done {
            Out::new(line, b"", sink).refuse(refusal);
        }
        *lines += u64::from(text.last().is_some_and(|&byte| byte != b'\n'));
    }
}

/// Reads one document a line.
#[derive(Debug)]
pub(crate) struct JsonLines {
    table: Arc<Table>,
    is_refused: bool,
}

impl JsonLines {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            is_refused: false,
        }
    }
}

impl LineFormat for JsonLines {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        if self.is_refused {
            return;
        }
        if line.trim_ascii().is_empty() {
            return out.skip(Skip::Blank);
        }
        if check(line).is_err() {
            return out.reject(RejectReason::NotJson, line);
        }
        let number = out.line();
        if let Err((refusal, _)) = Walk::read(&self.table, line, number, out.sink()) {
            out.refuse(refusal);
            self.is_refused = true;
        }
    }
    fn finish(&mut self, out: &mut Out<'_>) {
        if matches!(check(out.text()), Err((Fault::BrokenOff, _))) {
            out.refuse(Refusal::BrokenOff);
        }
    }
}

impl Keys for JsonLines {
    fn key<'l>(&mut self, line: &'l [u8]) -> &'l [u8] {
        let rules = &self.table.rules;
        let tree = match &self.table.source {
            Source::Paths { tree, .. } if tree.is_row && rules.has_rule => tree,
            _ => return b"",
        };
        let mut found: Found<'l> = [b""; MAX_KEYS];
        let is_flat = flat(line, |key, value| {
            let known = tree.keys.iter().position(|(name, _)| name.is(key));
            let known = known.and_then(|number| found.get_mut(number));
            known.is_none_or(|known| std::mem::replace(known, value).is_empty())
        });
        // What stands in a string, which has no escapes, or else the word.
        let plain = |text: &'l [u8]| match text {
            [b'"', inner @ .., b'"'] => inner,
            word => word,
        };
        let value = |number: usize| {
            let at = tree.values.get(number);
            let text = at.filter(|(_, below)| below.is_empty());
            let text = text.and_then(|(key, _)| found.get(*key)).copied();
            Ok(Cow::Borrowed(plain(text.unwrap_or_default())))
        };
        if !is_flat || !rules.count(value) {
            return b"";
        }
        let values = tree.keys.iter().zip(&found);
        let mut filled = values.filter(|((_, child), value)| child.leads() && !value.is_empty());
        match (filled.next(), filled.next()) {
            (Some(((_, child), text @ [b'"', ..])), None) if child.is_entry => {
                plain(text).trim_ascii()
            }
            _ => b"",
        }
    }
}

/// Goes through a document.
struct Walk<'w, 't> {
    table: &'w Table,
    is_undeclared: bool,
    text: &'t [u8],
    /// A place in the text, and its line.
    place: (usize, u64),
    /// Number of rows reported so far, and of entries outside of rows.
    reported: u64,
    sink: &'w mut dyn FnMut(u64, Row<'_>),
}

/// What is known about the row around a value.
#[derive(Clone, Copy)]
enum Around {
    /// There is none.
    Nothing,
    /// It counts.
    Listed(RowDates),
    /// It does not.
    Unlisted,
}

/// The values of the keys of an object that count; empty if there is none.
type Found<'t> = [&'t [u8]; MAX_KEYS];

impl<'w, 't> Walk<'w, 't> {
    /// Passes on the rows of a document that begins in this line.
    ///
    /// # Errors
    /// Why the file is refused, and the line.
    fn read(
        table: &'w Table,
        text: &'t [u8],
        line: u64,
        sink: &'w mut dyn FnMut(u64, Row<'_>),
    ) -> Result<(), (Refusal, u64)> {
        let Source::Paths {
            tree,
            is_undeclared,
        } = &table.source
        else {
            return Ok(());
        };
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut walk = Self {
            table,
            is_undeclared: *is_undeclared,
            text,
            place: (0, line),
            reported: 0,
            sink,
        };
        let read = match Value::of(text) {
            // A leading `[]` may be left out.
            Value::Members(members) if !members.is_object && tree.each.is_none() => {
                walk.elements(tree, text, members, Around::Nothing)
            }
            _ => walk.element(tree, text, Around::Nothing),
        };
        read.map_err(|refusal| (refusal, walk.place.1))
    }

    /// Reads a document, or what `[]` leads to: something is expected in it.
    fn element(&mut self, node: &Node, text: &'t [u8], around: Around) -> Result<(), Refusal> {
        let before = self.reported;
        self.value(node, text, around)?;
        if self.reported == before && matches!(around, Around::Nothing) {
            self.reject(RejectReason::NoEntry, text);
        }
        Ok(())
    }

    fn elements(
        &mut self,
        node: &Node,
        text: &'t [u8],
        mut members: Members<'t>,
        around: Around,
    ) -> Result<(), Refusal> {
        if members.clone().next().is_none() && !matches!(around, Around::Unlisted) {
            self.reported += 1;
            self.out(text).skip(Skip::Blank);
        }
        members.try_for_each(|(_, value)| self.element(node, value, around))
    }

    /// Reads a value on a path.
    fn value(&mut self, node: &Node, text: &'t [u8], around: Around) -> Result<(), Refusal> {
        match (Value::of(text), &node.each) {
            (Value::Members(members), Some(each)) if node.has_names && members.is_object => {
                self.names(each, members)
            }
            (Value::Members(members), Some(each)) if !node.has_names => {
                self.elements(each, text, members, around)
            }
            (Value::Members(members), None) if members.is_object && !node.keys.is_empty() => {
                self.object(node, text)
            }
            (Value::Text(written), _) if node.is_entry => {
                self.entry(written, text, around);
                Ok(())
            }
            (value, _) => {
                // A value where a path leads on, or an entry of another kind.
                self.place(text);
                if self.is_undeclared {
                    return Err(Refusal::Table(
                        "an array of more than strings: say which key".into(),
                    ));
                }
                let is_null = matches!(value, Value::Other(b"null"));
                if !is_null && !matches!(around, Around::Unlisted) {
                    let reason = match node.is_entry {
                        true => RejectReason::NotAnEntry,
                        false => RejectReason::NoEntry,
                    };
                    self.reject(reason, text);
                }
                Ok(())
            }
        }
    }

    /// Lists an entry, which stands at `place`.
    fn entry(&mut self, written: &[u8], place: &'t [u8], around: Around) {
        let text = unescaped(written);
        let text = text.trim_ascii();
        let dates = match around {
            Around::Unlisted => return,
            Around::Nothing => RowDates::default(),
            Around::Listed(dates) => dates,
        };
        // One that is empty is not filled.
        if !text.is_empty() {
            self.reported += 1;
            list(text, dates, &mut self.out(place));
        }
    }

    /// Reads an object that has entries, or leads to some.
    fn object(&mut self, node: &Node, text: &'t [u8]) -> Result<(), Refusal> {
        let mut found: Found<'t> = [b""; MAX_KEYS];
        self.find(node, text, &mut found)?;
        let mut around = Around::Nothing;
        if node.is_row {
            around = self.judge(node, &found, text)?;
        }
        let before = self.reported;
        for ((_, child), value) in node.keys.iter().zip(found) {
            if child.leads() && !value.is_empty() {
                self.value(child, value, around)?;
            }
        }
        match around {
            Around::Listed(_) if self.reported == before => {
                self.reject(RejectReason::NoEntry, text);
            }
            Around::Unlisted => self.reported += 1,
            Around::Nothing | Around::Listed(_) => {}
        }
        Ok(())
    }

    /// Reads an object whose keys are entries.
    fn names(&mut self, node: &Node, members: Members<'t>) -> Result<(), Refusal> {
        for (key, value) in members {
            let key = key.unwrap_or_default();
            let mut found: Found<'t> = [b""; MAX_KEYS];
            self.find(node, value, &mut found)?;
            let around = self.judge(node, &found, key)?;
            self.reported += 1;
            self.entry(key, key, around);
        }
        Ok(())
    }

    /// Finds the values of the keys of an object that count.
    fn find(&mut self, node: &Node, text: &'t [u8], found: &mut Found<'t>) -> Result<(), Refusal> {
        let Value::Members(members) = Value::of(text) else {
            return Ok(());
        };
        let mut count = 0;
        for (key, value) in members.filter_map(|(key, value)| Some((unescaped(key?), value))) {
            count += 1;
            let known = node.keys.iter().position(|(name, _)| name.is(&key));
            if let Some(known) = known.and_then(|number| found.get_mut(number))
                && !std::mem::replace(known, value).is_empty()
            {
                self.place(value);
                return Err(doubled(&key));
            }
        }
        if node.is_row && count > 1 && !self.table.rules.has_rule {
            self.place(text);
            return Err(Refusal::Table(
                "JSON objects with more keys than one: say which key".into(),
            ));
        }
        Ok(())
    }

    /// Judges a row by its values. Reports one that does not count; `text` is shown for it.
    fn judge(&mut self, node: &Node, found: &Found<'t>, text: &'t [u8]) -> Result<Around, Refusal> {
        let rules = &self.table.rules;
        match rules.judge(|number| value_of(rules, node, found, number)) {
            Ok(dates) => Ok(Around::Listed(dates)),
            Err(why) => {
                report(why, text, &mut self.out(text))?;
                Ok(Around::Unlisted)
            }
        }
    }

    fn reject(&mut self, reason: RejectReason, text: &'t [u8]) {
        self.reported += 1;
        self.out(text).reject(reason, text);
    }

    /// Returns where the rows of a part of the text go.
    fn out<'o>(&'o mut self, part: &'t [u8]) -> Out<'o> {
        let line = self.place(part);
        Out::new(line, part, &mut *self.sink)
    }

    /// Returns the line in which a part of the text begins.
    fn place(&mut self, part: &[u8]) -> u64 {
        let (at, line) = self.place;
        let to = part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let between = |from, to| newlines(self.text.get(from..to).unwrap_or_default());
        self.place = match to >= at {
            true => (to, line + between(at, to)),
            false => (to, line - between(to, at)),
        };
        self.place.1
    }
}

/// Returns a value of a row as text.
fn value_of<'t>(rules: &Rules, node: &Node, found: &Found<'t>, number: usize) -> rules::Value<'t> {
    let Some((key, below)) = node.values.get(number) else {
        return Ok(Cow::Borrowed(b""));
    };
    let first = found.get(*key).copied().unwrap_or_default();
    let written = below
        .iter()
        .try_fold(first, |object, key| member(object, key));
    match Value::of(written.map_err(NotListed::Refused)?) {
        Value::Text(text) => Ok(unescaped(text)),
        // It is no date.
        Value::Other(b"null") if [rules.added, rules.expires].contains(&Some(number)) => {
            Ok(Cow::Borrowed(b""))
        }
        Value::Other(text) => Ok(Cow::Borrowed(text)),
        Value::Members(_) => {
            let name = rules.name(number).into();
            Err(NotListed::Refused(Refusal::NotAValue(name)))
        }
    }
}

/// Returns the member of an object with this key; empty if there is none.
fn member<'t>(object: &'t [u8], key: &Text) -> Result<&'t [u8], Refusal> {
    let mut found: &[u8] = b"";
    if let Value::Members(members) = Value::of(object) {
        for (name, value) in members {
            let name = unescaped(name.unwrap_or_default());
            if key.is(&name) && !std::mem::replace(&mut found, value).is_empty() {
                return Err(doubled(&name));
            }
        }
    }
    Ok(found)
}

fn doubled(key: &[u8]) -> Refusal {
    Refusal::DoubledKey(String::from_utf8_lossy(key).into())
}
