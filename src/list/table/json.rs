//! JSON, as one document or one a line.
//!
//! What is on no path of the declaration is passed over. An object that holds entries is a row: its
//! values and entries are kept until it ends, and then it is judged. A table without conditions and
//! dates lists each entry at once.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::rows::{Source, Table, list, report};
use super::rules::RowDates;
use super::tree::{NodeId, ROOT, Tree};
use crate::list::formats::out::Out;
use crate::list::row::refusal::Refusal;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{Row, Skip};
use crate::list::text::json::{Fault, String, Token, Tokens};

/// Most bytes of values and entries of rows that are kept until the rows end.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Reads JSON.
#[derive(Debug)]
pub(crate) struct Json {
    tokens: Tokens,
    walk: Walk,
    /// The last byte read was not a newline.
    is_in_line: bool,
}

impl Json {
    /// Returns a reader for one document, or with `one_a_line` for one document
    /// a line.
    pub(crate) fn new(table: Arc<Table>, one_a_line: bool) -> Self {
        Self {
            tokens: Tokens::new(one_a_line),
            walk: Walk {
                table,
                one_a_line,
                ..Walk::default()
            },
            is_in_line: false,
        }
    }

    /// Reads all of a block, and counts its lines.
    pub(crate) fn read(
        &mut self,
        block: &[u8],
        last: bool,
        lines: &mut u64,
        sink: &mut dyn FnMut(u64, Row<'_>),
    ) {
        let walk = &mut self.walk;
        let table = Arc::clone(&walk.table);
        let (Source::Paths(tree) | Source::Strings(tree)) = &table.source else {
            return;
        };
        let mut take = |line, token: Token<'_>| {
            if walk.is_refused {
                return;
            }
            let mut out = Out::new(line, b"", &mut *sink);
            if let Err(refusal) = walk.token(tree, token, &mut out) {
                out.refuse(refusal);
                walk.is_refused = true;
            }
        };
        self.tokens.read(block, lines, &mut take);
        self.is_in_line = block.last().map_or(self.is_in_line, |&byte| byte != b'\n');
        if last {
            self.tokens.end(*lines + 1, &mut take);
            *lines += u64::from(std::mem::take(&mut self.is_in_line));
        }
    }
}

/// What is open, and what it has said so far.
#[derive(Debug, Default)]
struct Walk {
    table: Arc<Table>,
    one_a_line: bool,
    is_refused: bool,
    frames: Vec<Frame>,
    /// How many arrays and objects are open that are on no path.
    passed_over: usize,
    rows: Vec<OpenRow>,
    /// The texts of values and entries of open rows.
    kept: Vec<u8>,
    /// How much of `kept` belongs to rows below the last.
    kept_below: usize,
    values: Vec<Value>,
    entries: Vec<KeptEntry>,
    /// Number of rows reported so far.
    reported: u64,
}

/// An open array or object on a path.
#[derive(Clone, Copy, Debug)]
struct Frame {
    node: NodeId,
    is_object: bool,
    /// The node of the next value; `None` if it is on no path.
    next: Option<NodeId>,
    /// A bit for each declared key that was there.
    seen: u64,
    /// How many keys or elements it has, up to 2.
    members: u8,
    /// Whether it is a row.
    is_row: bool,
    /// Whether it is a document or what `[]` leads to, so that something is expected in it.
    is_element: bool,
    /// [`Walk::reported`] when it began.
    reported: u64,
}

/// An open object that holds entries.
#[derive(Clone, Copy, Debug)]
struct OpenRow {
    node: NodeId,
    /// Where its texts, values and entries begin.
    kept: usize,
    values: usize,
    entries: usize,
    /// Whether it has an entry.
    is_filled: bool,
}

/// The place of a value in the texts.
#[derive(Clone, Debug, Default)]
struct Value {
    text: Range<usize>,
    /// `null`, which is no date.
    is_null: bool,
}

/// An entry that is listed if its row counts.
#[derive(Clone, Debug)]
struct KeptEntry {
    text: Range<usize>,
    line: u64,
    /// Why it is none.
    reason: Option<RejectReason>,
}

impl Walk {
    fn token(&mut self, tree: &Tree, token: Token<'_>, out: &mut Out<'_>) -> Result<(), Refusal> {
        match token {
            Token::Open { is_object } => self.open(tree, is_object, out),
            Token::Close => self.close(tree, out),
            Token::Key(_) | Token::Text(_) | Token::Other(_) if self.passed_over > 0 => Ok(()),
            Token::Key(key) => self.key(tree, key, out),
            Token::Text(String { text, is_whole }) => {
                let fault = (!is_whole).then_some(RejectReason::TooLong);
                self.value(tree, text, fault, out)
            }
            Token::Other(text) => self.value(tree, text, Some(RejectReason::NotAnEntry), out),
            Token::Blank => {
                out.skip(Skip::Blank);
                Ok(())
            }
            Token::End => Ok(()),
            Token::Fault(fault) => self.fault(fault, out),
        }
    }

    fn fault(&mut self, fault: Fault, out: &mut Out<'_>) -> Result<(), Refusal> {
        match fault {
            Fault::BrokenOff => return Err(Refusal::BrokenOff),
            Fault::Syntax if !self.one_a_line => return Err(Refusal::NotJson),
            Fault::Several if !self.one_a_line => return Err(Refusal::SeveralDocuments),
            Fault::Syntax | Fault::Several => out.reject(RejectReason::NotJson, b""),
        }
        self.frames.clear();
        self.rows.clear();
        self.forget(0, 0, 0);
        (self.passed_over, self.kept_below) = (0, 0);
        Ok(())
    }

    /// Returns the node of the value that begins here, and whether it is a document or what `[]`
    /// leads to.
    fn place(&mut self, tree: &Tree) -> (Option<NodeId>, bool) {
        let is_outermost = self.frames.len() == 1;
        let Some(frame) = self.frames.last_mut() else {
            return (Some(ROOT), true);
        };
        let each = tree.node(frame.node).each;
        if frame.is_object {
            return (frame.next.take(), each.is_some());
        }
        frame.members = frame.members.saturating_add(1).min(2);
        // A leading `[]` may be left out.
        let root = is_outermost.then_some(ROOT);
        (each.or(root), true)
    }

    fn open(&mut self, tree: &Tree, is_object: bool, out: &mut Out<'_>) -> Result<(), Refusal> {
        if self.passed_over > 0 {
            self.passed_over += 1;
            return Ok(());
        }
        let (at, is_element) = self.place(tree);
        let Some(at) = at else {
            self.passed_over = 1;
            return Ok(());
        };
        let node = tree.node(at);
        if let Some((_, number)) = node.value {
            return Err(Refusal::NotAValue(self.name(number).into()));
        }
        let is_root_array = at == ROOT && !is_object && self.frames.is_empty();
        let goes_on = match is_object {
            true => !node.keys.is_empty() || node.each.is_some(),
            false => node.each.is_some() && !node.has_names || is_root_array,
        };
        let is_open = self.is_open(at);
        if !(goes_on || is_object && node.is_row) {
            self.passed_over = 1;
            if is_open && node.is_row {
                // The value of a name is no object: it has no values.
                return self.end_row(out);
            }
            return self.misplaced(tree, at, out);
        }
        let is_row = is_object && node.is_row;
        if is_row && !is_open {
            self.begin_row(tree, at);
        }
        self.frames.push(Frame {
            node: at,
            is_object,
            next: None,
            seen: 0,
            members: 0,
            is_row,
            is_element,
            reported: self.reported,
        });
        Ok(())
    }

    /// Reports a value where a path leads on, or where the declaration has another kind of value.
    fn misplaced(&mut self, tree: &Tree, at: NodeId, out: &mut Out<'_>) -> Result<(), Refusal> {
        let node = tree.node(at);
        if node.is_entry && !self.is_undeclared() {
            return self.entry(b"", Some(RejectReason::NotAnEntry), out);
        }
        if node.leads {
            self.reported += 1;
            if self.is_undeclared() {
                return Err(undeclared());
            }
            out.reject(RejectReason::NoEntry, b"");
        }
        Ok(())
    }

    fn close(&mut self, tree: &Tree, out: &mut Out<'_>) -> Result<(), Refusal> {
        if self.passed_over > 0 {
            self.passed_over -= 1;
            return Ok(());
        }
        let Some(frame) = self.frames.pop() else {
            return Ok(());
        };
        if frame.is_row {
            self.end_row(out)?;
        }
        let leads = tree.node(frame.node).leads;
        if leads && !frame.is_object && frame.members == 0 {
            self.reported += 1;
            self.fill();
            out.skip(Skip::Blank);
        }
        if leads && frame.is_element && frame.reported == self.reported {
            self.reported += 1;
            out.reject(RejectReason::NoEntry, b"");
        }
        Ok(())
    }

    fn key(&mut self, tree: &Tree, key: String<'_>, out: &mut Out<'_>) -> Result<(), Refusal> {
        let Some(frame) = self.frames.last_mut() else {
            return Ok(());
        };
        frame.members = frame.members.saturating_add(1).min(2);
        if frame.is_row && frame.members == 2 && !self.table.rules.has_rule {
            return Err(Refusal::Table(
                "JSON objects with more keys than one: say which key".into(),
            ));
        }
        let node = tree.node(frame.node);
        if node.each.is_some() {
            frame.next = node.each;
            if let (true, Some(each)) = (node.has_names, node.each) {
                self.begin_row(tree, each);
                let fault = (!key.is_whole).then_some(RejectReason::TooLong);
                return self.entry(key.text, fault, out);
            }
            return Ok(());
        }
        let known = node.keys.iter().position(|(name, _)| name.is(key.text));
        let Some(number) = known else {
            frame.next = None;
            return Ok(());
        };
        let bit = 1 << number;
        if frame.seen & bit != 0 {
            let name = std::string::String::from_utf8_lossy(key.text);
            return Err(Refusal::DoubledKey(name.into()));
        }
        frame.seen |= bit;
        frame.next = node.keys.get(number).map(|(_, at)| *at);
        Ok(())
    }

    /// Takes a string, number or word. `fault` says why it cannot be an entry.
    fn value(
        &mut self,
        tree: &Tree,
        text: &[u8],
        fault: Option<RejectReason>,
        out: &mut Out<'_>,
    ) -> Result<(), Refusal> {
        let (Some(at), _) = self.place(tree) else {
            return Ok(());
        };
        let node = tree.node(at);
        let is_null = fault.is_some() && text == b"null";
        if let Some((row, number)) = node.value {
            self.keep_value(row, number, text, is_null)?;
        }
        if node.is_entry {
            if fault == Some(RejectReason::NotAnEntry) && self.is_undeclared() {
                return Err(undeclared());
            }
            return match is_null || text.trim_ascii().is_empty() {
                // Not filled. If nothing else is, the row has no entry.
                true if !self.rows.is_empty() => Ok(()),
                true => self.entry(b"", Some(RejectReason::NoEntry), out),
                false => self.entry(text, fault, out),
            };
        }
        if node.is_row && self.is_open(at) {
            // The value of a key that is an entry.
            return self.end_row(out);
        }
        match is_null || !node.leads {
            true => Ok(()),
            false => self.misplaced(tree, at, out),
        }
    }

    fn is_undeclared(&self) -> bool {
        matches!(self.table.source, Source::Strings(_))
    }

    fn is_open(&self, row: NodeId) -> bool {
        self.rows.last().is_some_and(|open| open.node == row)
    }

    fn begin_row(&mut self, tree: &Tree, node: NodeId) {
        self.rows.push(OpenRow {
            node,
            kept: self.kept.len(),
            values: self.values.len(),
            entries: self.entries.len(),
            is_filled: false,
        });
        let values = self.values.len() + tree.value_count();
        self.values.resize(values, Value::default());
    }

    /// Keeps a text until its row ends.
    fn keep(&mut self, text: &[u8]) -> Result<Range<usize>, Refusal> {
        let start = self.kept.len();
        if start + text.len() > MAX_KEPT_BYTES {
            return Err(Refusal::TooLong);
        }
        self.kept.extend_from_slice(text);
        let end = self.kept.len();
        // Where the row is shown.
        self.kept.push(b' ');
        Ok(start..end)
    }

    fn keep_value(
        &mut self,
        row: NodeId,
        number: usize,
        text: &[u8],
        is_null: bool,
    ) -> Result<(), Refusal> {
        let text = self.keep(text)?;
        let Some(at) = self.rows.iter().rposition(|open| open.node == row) else {
            return Ok(());
        };
        if at + 1 < self.rows.len() {
            self.kept_below = text.end;
        }
        let values = self.rows.get(at).map_or(0, |row| row.values);
        if let Some(value) = self.values.get_mut(values + number) {
            *value = Value { text, is_null };
        }
        Ok(())
    }

    /// Takes an entry: lists it at once if no value of its row matters.
    fn entry(
        &mut self,
        text: &[u8],
        reason: Option<RejectReason>,
        out: &mut Out<'_>,
    ) -> Result<(), Refusal> {
        self.fill();
        if self.rows.is_empty() || self.table.rules.need_no_value() {
            self.reported += 1;
            put(text, reason, RowDates::default(), out);
            return Ok(());
        }
        let text = self.keep(text)?;
        self.entries.push(KeptEntry {
            text,
            line: out.line(),
            reason,
        });
        Ok(())
    }

    /// Notes that the row has an entry, or says that it has none.
    fn fill(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.is_filled = true;
        }
    }

    /// Judges the row that ends here.
    fn end_row(&mut self, out: &mut Out<'_>) -> Result<(), Refusal> {
        let Some(row) = self.rows.pop() else {
            return Ok(());
        };
        self.reported += 1;
        let rules = &self.table.rules;
        let text = |range: &Range<usize>| self.kept.get(range.clone()).unwrap_or_default();
        let judged = rules.judge(|number| {
            let value = self.values.get(row.values + number);
            let is_date = [rules.added, rules.expires].contains(&Some(number));
            let value = value.filter(|value| !(is_date && value.is_null));
            Cow::Borrowed(value.map_or(&[][..], |value| text(&value.text)))
        });
        let whole = text(&(row.kept..self.kept.len()));
        match judged {
            Err(why) => report(why, whole, out)?,
            Ok(_) if !row.is_filled => out.reject(RejectReason::NoEntry, whole),
            Ok(dates) => {
                for entry in self.entries.get(row.entries..).unwrap_or_default() {
                    let text = text(&entry.text);
                    put(text, entry.reason, dates, &mut out.at(entry.line, text));
                }
            }
        }
        if self.rows.is_empty() {
            self.kept_below = 0;
        }
        self.forget(row.kept.max(self.kept_below), row.values, row.entries);
        Ok(())
    }

    fn forget(&mut self, kept: usize, values: usize, entries: usize) {
        self.kept.truncate(kept);
        self.values.truncate(values);
        self.entries.truncate(entries);
    }

    /// Returns the key of a value of a row.
    fn name(&self, number: usize) -> &str {
        let mut conditions = self.table.rules.conditions.iter();
        let condition = conditions.find(|condition| condition.value == number);
        condition.map_or("a column of dates", |condition| &condition.name)
    }
}

/// Lists an entry, or rejects it.
fn put(text: &[u8], reason: Option<RejectReason>, dates: RowDates, out: &mut Out<'_>) {
    match reason {
        None => list(text.trim_ascii(), dates, out),
        Some(reason) => out.reject(reason, text),
    }
}

/// An array that is not one of strings alone.
fn undeclared() -> Refusal {
    Refusal::Table("an array of more than strings: say which key".into())
}
