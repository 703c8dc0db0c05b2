//! Records with one line per key, as PowerShell, MySQL and YAML write them.
//!
//! ```text
//!   Value  : spam@bad.example          address: friend@good.example
//!   Action : Block                       action: OK
//! ```
//!
//! A record ends at a blank line, at a line without a key, and before a key that it already
//! has. All its lines together decide about its entries, in any order.

use super::out::Out;
use crate::list::meaning::headings::Heading;
use crate::list::meaning::section_heading::is_allowance_of_record;
use crate::list::meaning::verdict::{Verdict, earliest};
use crate::list::meaning::whose::whose;
use crate::list::row::day::Day;
use crate::list::row::entry::Wildcards;
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};

/// Maximum number of lines of a record.
const MAX_LINES: usize = 64;

/// The lines of the current record.
#[derive(Debug, Default)]
pub(super) struct Record {
    lines: Vec<Line>,
    /// Its heading does not say whether it is listed, so one of its lines must.
    is_unclear: bool,
}

#[derive(Debug)]
struct Line {
    number: u64,
    key: Vec<u8>,
    heading: Heading,
    value: Vec<u8>,
    /// It allows a sender, whatever else the record says.
    is_allowance: bool,
}

impl Record {
    /// Adds a line with this key; `text` is the whole line.
    pub(crate) fn add(
        &mut self,
        heading: Heading,
        key: &[u8],
        value: &[u8],
        text: &[u8],
        out: &mut Out<'_>,
    ) {
        let is_known = self
            .lines
            .iter()
            .any(|line| line.key.eq_ignore_ascii_case(key));
        if is_known || self.lines.len() == MAX_LINES {
            self.end(out);
        }
        self.lines.push(Line {
            number: out.line(),
            key: key.to_vec(),
            heading,
            value: value.to_vec(),
            is_allowance: is_allowance_of_record(text),
        });
    }

    /// Says that the heading above the record can mean anything.
    pub(crate) fn be_unclear(&mut self) {
        self.is_unclear = true;
    }

    /// Lists the entries of the record, or reports why they are not listed.
    pub(crate) fn end(&mut self, out: &mut Out<'_>) {
        let Self { lines, is_unclear } = std::mem::take(self);
        let is_entry = |line: &&Line| matches!(line.heading, Heading::Entry(_));
        if !lines.iter().any(|line| is_entry(&line)) {
            // It is about entries before it, which have no keys.
            if let Some(line) = lines.iter().find(|line| line.is_allowance) {
                let mut text = line.key.clone();
                text.extend_from_slice(b": ");
                text.extend_from_slice(&line.value);
                out.at(line.number, &text)
                    .reject(RejectReason::LateLine, &text);
            }
            return;
        }
        let verdict = match verdict(&lines) {
            Ok(None) if is_unclear && lines.iter().all(|line| is_entry(&line)) => {
                Err(RejectReason::Section)
            }
            verdict => verdict,
        };
        let ends = ends(&lines);
        for line in lines.iter().filter(is_entry) {
            let text = &line.value;
            let mut out = out.at(line.number, text);
            match (verdict, ends) {
                (Ok(Some(skip)), _) => out.skip(skip),
                (Err(reason), _) | (Ok(None), Err(reason)) => out.reject(reason, text),
                (Ok(None), Ok(expires)) => {
                    let item = RawEntry {
                        expires,
                        ..RawEntry::new(text)
                    };
                    out.raw_entry(item, Wildcards::Star);
                }
            }
        }
    }
}

fn verdict(lines: &[Line]) -> Result<Option<Skip>, RejectReason> {
    let mut verdict = Verdict::default();
    for line in lines {
        if let (Heading::Kind | Heading::Status, Some(skip)) = (line.heading, whose(&line.value)) {
            return Ok(Some(skip));
        }
        verdict.add(line.heading, &line.value);
    }
    verdict.skip()
}

fn ends(lines: &[Line]) -> Result<Option<Day>, RejectReason> {
    let ends = lines.iter().map(|line| (line.heading, &*line.value));
    earliest(ends).map_err(|(reason, _)| reason)
}
