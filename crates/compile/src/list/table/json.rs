//! JSON, as one document or one a line.
//!
//! What is on no path of the declaration is passed over. An object that holds entries is a row: it
//! is judged by its values, and then its entries are listed.

use std::borrow::Cow;
use std::cell::Cell;
use std::mem;
use std::sync::Arc;

use super::path::{Paths, Step};
use super::rules::{NotListed, Rules, Value as RowValue};
use super::text::Text;
use super::{Source, Table, list, report};
use crate::list::formats::{LineFormat, Out};
use crate::list::row::{RawEntry, Refusal, RejectReason, Row, Skip};
use crate::list::text::json::{Fault, MAX_DOCUMENT_BYTES, Members, Value, check, flat, unescaped};
use crate::list::text::{lines, newlines};
use blocklist_filter::address::plain::PlainEntry;

#[derive(Debug, Default)]
pub(crate) struct Document {
    table: Arc<Table>,
    text: Vec<u8>,
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
        if self.text.len() <= MAX_DOCUMENT_BYTES {
            self.text.extend_from_slice(block);
        }
        *lines += newlines(block);
        if !last {
            return;
        }
        let (text, seen) = (mem::take(&mut self.text), Cell::default());
        let done = match (text.len() > MAX_DOCUMENT_BYTES, check(&text)) {
            (true, _) => Err((Refusal::DocumentTooLong, 1)),
            (false, Err((Fault::Syntax, line))) => Err((Refusal::NotJson, line)),
            (false, Err((Fault::BrokenOff, line))) => Err((Refusal::BrokenOff, line)),
            (false, Ok(())) => Walk::read(&self.table, &text, 1, &seen, sink)
                .and_then(|()| all_there(&self.table.rules, seen.get()).map_err(|why| (why, 1))),
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
    /// The keys of the entries of a row, and then those of its values, if a row has nothing inside.
    keys: Option<Vec<Text>>,
}

impl JsonLines {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let has_no_dates = table.rules.added.or(table.rules.expires).is_none();
        let keys = match &table.source {
            Source::Paths(paths) if has_no_dates && table.rules.has_rule => usual_keys(paths),
            _ => None,
        };
        Self {
            table,
            is_refused: false,
            keys,
        }
    }

    /// Returns the only entry of a usual line, if it is plain; [`Walk`] must read any other line.
    fn plain<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        let (Some(keys), Source::Paths(paths)) = (&self.keys, &self.table.source) else {
            return None;
        };
        let mut found = [&b""[..]; MAX_USUAL];
        let is_flat = (line.is_ascii() || str::from_utf8(line).is_ok())
            && flat(line, |key, value| {
                let mut places = keys.iter().zip(&mut found);
                // A key that is there twice is left to the reader.
                places
                    .all(|(wanted, place)| !wanted.is(key) || mem::replace(place, value).is_empty())
            });
        // What stands in a string, which has no escapes, or else the word.
        let plain = |text: &'l [u8]| match text {
            [b'"', inner @ .., b'"'] => inner,
            word => word,
        };
        let (entries, values) = found.split_at(paths.entries.len());
        let value = |number: usize| {
            let text = values.get(number).copied();
            Ok(Cow::Borrowed(plain(text.unwrap_or_default())))
        };
        if !is_flat || self.table.rules.judge(value).is_err() {
            return None;
        }
        let mut filled = entries.iter().filter(|text| !text.is_empty());
        let entry = match (filled.next(), filled.next()) {
            (Some(text @ [b'"', ..]), None) => plain(text).trim_ascii(),
            _ => return None,
        };
        PlainEntry::of(entry).map(|_| entry)
    }
}

impl LineFormat for JsonLines {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        if self.is_refused {
            return;
        }
        if let Some(entry) = self.plain(line) {
            return out.entry(entry);
        }
        if line.trim_ascii().is_empty() {
            return out.skip(Skip::Blank);
        }
        if check(line).is_err() {
            return out.reject(RejectReason::NotJson, line);
        }
        let seen = Cell::default();
        let read = Walk::read(&self.table, line, out.line, &seen, &mut *out.sink);
        if let Err((refusal, _)) = read {
            out.refuse(refusal);
            self.is_refused = true;
        }
    }

    fn finish(&mut self, out: &mut Out<'_>) {
        if matches!(check(out.text), Err((Fault::BrokenOff, _))) {
            out.refuse(Refusal::BrokenOff);
        }
    }
}

/// Most keys of a line that is read without [`Walk`].
const MAX_USUAL: usize = 8;

fn usual_keys(paths: &Paths) -> Option<Vec<Text>> {
    let entries = paths.entries.iter().map(|path| match &path[..] {
        [Step::Key(key)] => Some(key.clone()),
        _ => None,
    });
    let values = paths.values.iter().map(|path| match &path[..] {
        [key] => Some(key.clone()),
        _ => None,
    });
    let keys: Option<Vec<Text>> = entries.chain(values).collect();
    keys.filter(|keys| keys.len() <= MAX_USUAL)
}

/// Checks the rows of some lines as [`all_there`].
pub(crate) fn check_lines(table: &Table, text: &[u8]) -> Result<(), Refusal> {
    let seen = Cell::new(0);
    for line in lines(text) {
        let read = Walk::read(table, line, 1, &seen, &mut |_, _| {});
        // What refuses the list is reported when it is read.
        if read.is_err() || seen.get() != 0 && all_there(&table.rules, seen.get()).is_ok() {
            return Ok(());
        }
    }
    all_there(&table.rules, seen.get())
}

/// Checks that some row has each value on which rows depend. If none has, its key may be misspelt,
/// unless its owner says that it may be missing.
fn all_there(rules: &Rules, seen: u64) -> Result<(), Refusal> {
    let missing = rules.conditions.iter().find(|condition| {
        let mut values = condition.when.iter().chain(&condition.unless);
        seen & 1 << condition.value == 0 && !values.any(|value| value.is(b""))
    });
    match missing.filter(|_| seen & ROW != 0) {
        Some(condition) => Err(Refusal::Missing(condition.name.clone())),
        None => Ok(()),
    }
}

/// Of the bits of what was seen: a row. Those below are of the values.
const ROW: u64 = 1 << 63;

struct Walk<'w, 't> {
    rules: &'w Rules,
    paths: &'w Paths,
    text: &'t [u8],
    /// A place in the text, and its line.
    place: (usize, u64),
    /// Number of rows reported so far, and of entries outside of rows.
    reported: u64,
    seen: &'w Cell<u64>,
    sink: &'w mut dyn FnMut(u64, Row<'_>),
}

/// The row around a value.
#[derive(Clone, Copy)]
enum Around {
    Nothing,
    Listed(RawEntry<'static>),
    Unlisted,
}

type Rest<'w> = &'w [Step];

impl<'w, 't> Walk<'w, 't> {
    /// Passes on the rows of a document that begins in this line. An error refuses the file.
    fn read(
        table: &'w Table,
        text: &'t [u8],
        line: u64,
        seen: &'w Cell<u64>,
        sink: &'w mut dyn FnMut(u64, Row<'_>),
    ) -> Result<(), (Refusal, u64)> {
        let Source::Paths(paths) = &table.source else {
            return Ok(());
        };
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut walk = Self {
            rules: &table.rules,
            paths,
            text,
            place: (0, line),
            reported: 0,
            seen,
            sink,
        };
        let all: Vec<Rest<'_>> = paths.entries.iter().map(Vec::as_slice).collect();
        let read = match Value::of(text) {
            // A leading `[]` may be left out.
            Value::Members(members) if !members.is_object && through_each(&all).is_empty() => {
                walk.elements(&all, text, members, Around::Nothing)
            }
            _ => walk.element(&all, text, Around::Nothing),
        };
        read.map_err(|refusal| (refusal, walk.place.1))
    }

    /// Reads a document, or what `[]` leads to: it must have an entry.
    fn element(
        &mut self,
        paths: &[Rest<'w>],
        text: &'t [u8],
        around: Around,
    ) -> Result<(), Refusal> {
        let before = self.reported;
        self.value(paths, text, around)?;
        if self.reported == before && matches!(around, Around::Nothing) {
            self.reject(RejectReason::NoEntry, text);
        }
        Ok(())
    }

    /// Reads the elements of an array, or the values of an object.
    fn elements(
        &mut self,
        paths: &[Rest<'w>],
        text: &'t [u8],
        mut members: Members<'t>,
        around: Around,
    ) -> Result<(), Refusal> {
        if members.clone().next().is_none() && !matches!(around, Around::Unlisted) {
            self.reported += 1;
            self.out(text).skip(Skip::Blank);
        }
        members.try_for_each(|(_, value)| self.element(paths, value, around))
    }

    /// Reads a value that these paths lead to, or through.
    fn value(&mut self, paths: &[Rest<'w>], text: &'t [u8], around: Around) -> Result<(), Refusal> {
        let is_entry = paths.iter().any(|path| path.is_empty());
        let is_end = paths.iter().all(|path| path.is_empty());
        let each = through_each(paths);
        match Value::of(text) {
            Value::Text(written) if is_entry => {
                self.entry(written, text, around);
                Ok(())
            }
            Value::Members(members) if !each.is_empty() => {
                self.elements(&each, text, members, around)
            }
            Value::Members(members) if members.is_object && !is_end => {
                self.object(paths, text, members, around)
            }
            value => {
                // A value where a path leads on, or an entry of another kind.
                self.place(text);
                if self.paths.is_undeclared {
                    let why = "an array of more than strings: say which key";
                    return Err(Refusal::Table(why.into()));
                }
                let is_null = matches!(value, Value::Other(b"null"));
                if !is_null && !matches!(around, Around::Unlisted) {
                    let reason = match is_entry {
                        true => RejectReason::NotAnEntry,
                        false => RejectReason::NoEntry,
                    };
                    self.reject(reason, text);
                }
                Ok(())
            }
        }
    }

    fn entry(&mut self, written: &[u8], place: &'t [u8], around: Around) {
        let text = unescaped(written);
        let text = text.trim_ascii();
        let row = match around {
            Around::Unlisted => return,
            Around::Nothing => RawEntry::new(b""),
            Around::Listed(row) => row,
        };
        // One that is empty is not filled.
        if !text.is_empty() {
            self.reported += 1;
            list(text, self.paths.is_undeclared, row, &mut self.out(place));
        }
    }

    fn object(
        &mut self,
        paths: &[Rest<'w>],
        text: &'t [u8],
        members: Members<'t>,
        around: Around,
    ) -> Result<(), Refusal> {
        if paths.iter().any(|path| path.first() == Some(&Step::Names)) {
            self.names(members.clone())?;
        }
        // The object with the last key of a path is a row.
        let is_last = |path: &Rest<'w>| match path {
            [Step::Key(_), rest @ ..] => rest.iter().all(|step| *step == Step::Each),
            _ => false,
        };
        let is_row = paths.iter().any(is_last);
        let around = match is_row {
            true => self.judge(text, text)?,
            false => around,
        };
        if is_row && !self.rules.has_rule && members.clone().count() > 1 {
            self.place(text);
            return Err(Refusal::Table(
                "JSON objects with more keys than one: say which key".into(),
            ));
        }
        let before = self.reported;
        let mut seen = vec![false; paths.len()];
        for (key, value) in members {
            let key = unescaped(key.unwrap_or_default());
            let mut next = Vec::new();
            for (path, seen) in paths.iter().zip(&mut seen) {
                let [Step::Key(name), rest @ ..] = *path else {
                    continue;
                };
                if name.is(&key) {
                    if mem::replace(seen, true) {
                        self.place(value);
                        return Err(doubled(&key));
                    }
                    next.push(rest);
                }
            }
            if !next.is_empty() {
                self.value(&next, value, around)?;
            }
        }
        match around {
            Around::Listed(_) if is_row && self.reported == before => {
                self.reject(RejectReason::NoEntry, text);
            }
            Around::Unlisted if is_row => self.reported += 1,
            _ => {}
        }
        Ok(())
    }

    /// Reads an object whose keys are entries.
    fn names(&mut self, members: Members<'t>) -> Result<(), Refusal> {
        for (key, value) in members {
            let key = key.unwrap_or_default();
            let around = self.judge(value, key)?;
            self.reported += 1;
            self.entry(key, key, around);
        }
        Ok(())
    }

    /// Judges a row by its values. Reports one that does not count; `shown` is its text.
    fn judge(&mut self, row: &'t [u8], shown: &'t [u8]) -> Result<Around, Refusal> {
        let (rules, paths) = (self.rules, self.paths);
        let seen = self.seen;
        seen.set(seen.get() | ROW);
        let value = |number| {
            let value = value_of(rules, paths, row, number)?;
            seen.set(seen.get() | u64::from(!value.is_empty()) << number);
            Ok(value)
        };
        match rules.judge(value) {
            Ok(row) => Ok(Around::Listed(row)),
            Err(why) => {
                report(why, shown, &mut self.out(shown))?;
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

/// Returns the rest of the paths that lead through an array; then no path leads to a key.
fn through_each<'w>(paths: &[Rest<'w>]) -> Vec<Rest<'w>> {
    let each = paths.iter().filter_map(|path| match path {
        [Step::Each, rest @ ..] => Some(rest),
        _ => None,
    });
    each.collect()
}

/// Returns a value of a row as text.
fn value_of<'t>(rules: &Rules, paths: &Paths, row: &'t [u8], number: usize) -> RowValue<'t> {
    let keys = paths.values.get(number).map_or(&[][..], Vec::as_slice);
    let written = keys.iter().try_fold(row, |object, key| member(object, key));
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
            if key.is(&name) && !mem::replace(&mut found, value).is_empty() {
                return Err(doubled(&name));
            }
        }
    }
    Ok(found)
}

fn doubled(key: &[u8]) -> Refusal {
    Refusal::DoubledKey(String::from_utf8_lossy(key).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::formats::read_lines;
    use crate::list::{Declared, Format, reading};
    use proptest::prelude::*;

    fn rows(format: &mut JsonLines, text: &str) -> Vec<String> {
        let (mut rows, mut count) = (Vec::new(), 0);
        let mut sink = |line: u64, row: Row<'_>| rows.push(format!("{line} {row:?}"));
        read_lines(format, text.as_bytes(), true, &mut count, &mut sink);
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// A usual line is read as [`Walk`] reads it.
        #[test]
        fn usual_lines_are_line_by_line(
            lines in proptest::collection::vec((
                "([a-z+-]{1,3}@|)(b\\.example|gmail\\.com|co\\.uk| b\\.example |\\.b\\.example|x|)",
                "(block|Block|allow|\\\\u0062lock|)",
                "(1|-1.5e3|01|true|null|\"\"|\"x\\\\u0041\"|\\{\"a\":[1]\\}|x|\u{fc})",
                "(|,|\\}|,\"sender\":\"y@b.example\")|\r",
            ), 0..12),
            is_strict: bool, has_least: bool,
        ) {
            let condition = |value: &str| vec![("action".to_owned(), vec![value.to_owned()])];
            let declared = Declared {
                at_least: has_least.then(|| ("n".to_owned(), 1.0)).into_iter().collect(),
                format: Some(Format::JsonLines),
                entry: vec!["sender".to_owned(), "n".to_owned()],
                when: condition("block"),
                unless: if is_strict { condition("allow") } else { Vec::new() },
                ..Declared::default()
            };
            let lines = lines.iter().map(|(entry, action, note, end)| {
                format!("{{\"sender\": \"{entry}\" ,\"action\":\"{action}\",\"n\":{note}{end}}}\n")
            });
            let text: String = lines.collect();
            let table = reading(b"{\"action\":0,\"n\":0}", true, &declared).unwrap().table.unwrap();
            let mut by_walk = JsonLines { keys: None, ..JsonLines::new(Arc::clone(&table)) };
            prop_assert_eq!(rows(&mut JsonLines::new(table), &text), rows(&mut by_walk, &text), "{}", text);
        }
    }
}
