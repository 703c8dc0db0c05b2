//! Some rows of a list, with what becomes of each.

use std::collections::BTreeMap;
use std::io::Read as _;

use crate::compile::{Begun, Ends, Error, Input, Progress, ReadOptions, begin_input};
use crate::list::{Format, RawEntry, Reader, Row, lines};
use blocklist_filter::address::{Entry, escaped};

const SHOWN: usize = 10;
const OUTCOMES: usize = 64;
const SHOWN_BYTES: usize = 120;

/// A row and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The line, counted from 1.
    pub(crate) line: u64,
    /// Its text, escaped.
    pub(crate) text: String,
    /// What becomes of it: "listed", "expired", "skipped", "LEFT OUT" or "REJECTED".
    pub(crate) outcome: &'static str,
    /// As what, or why.
    pub(crate) detail: String,
}

pub(super) fn shown(text: &[u8]) -> String {
    escaped(text.get(..SHOWN_BYTES).unwrap_or(text)).to_string()
}

/// What becomes of a row: the outcome, the rows that are shown alike, and the detail.
type Outcome = (&'static str, String, String);

/// Judges rows as a build does.
pub(super) struct Judge<'a> {
    pub(super) options: ReadOptions,
    pub(super) progress: &'a Progress,
}

impl Judge<'_> {
    pub(super) fn begin(&self, input: &Input) -> Result<Begun, Error> {
        begin_input(input, self.progress).map_err(Error::io(&input.path, "read"))
    }

    /// Returns rows of a list that is not refused: the first of each outcome, then the second, until
    /// there are enough. They are those of the beginning, unless what follows may cancel them.
    pub(super) fn samples(&self, input: &Input) -> Result<Vec<Sample>, Error> {
        let failed = || Error::io(&input.path, "read");
        let begun = self.begin(input)?;
        let (head, mut rest) = (begun.head, begun.rest);
        let Ok(reading) = begun.reading else {
            return Ok(Vec::new());
        };
        let mut next = Vec::new();
        let read = rest.by_ref().take(1).read_to_end(&mut next);
        read.map_err(failed())?;
        let cut = reading.cut().filter(|_| !next.is_empty());
        let length = cut.and_then(|cut| cut(&head)).unwrap_or(head.len());
        let (begin, _) = head.split_at(length);
        let after = next.chain(rest).take(cut.map_or(u64::MAX, |_| 0));
        let rows = begin.chain(after);

        let is_document = reading.format == Format::Json;
        let written: Vec<&[u8]> = lines(&head).map(<[u8]>::trim_ascii).collect();
        let mut kept: BTreeMap<(&str, String), Vec<Sample>> = BTreeMap::new();
        let mut entry = Entry::new();
        let read = Reader::new(&reading).read_all(rows, &mut |line, row| {
            let Some((outcome, class, detail)) = self.outcome(&mut entry, &row) else {
                return;
            };
            let is_full = kept.len() >= OUTCOMES;
            let alike = match kept.get_mut(&(outcome, class.clone())) {
                Some(alike) => alike,
                None if is_full => return,
                None => kept.entry((outcome, class)).or_default(),
            };
            // A row may have several entries; it is shown with the first.
            let is_same = |last: &Sample| last.line == line && !is_document;
            if alike.len() >= SHOWN || alike.last().is_some_and(is_same) {
                return;
            }
            let number = usize::try_from(line - 1).unwrap_or(usize::MAX);
            let text = match (written.get(number), row) {
                (Some(line), _) if !is_document => line,
                (_, Row::Entry(raw)) => raw.text,
                (_, Row::Skipped { text, .. })
                | (_, Row::Rejected { text, .. })
                | (_, Row::Refused { text, .. }) => text,
            };
            alike.push(Sample {
                line,
                text: shown(text),
                outcome,
                detail,
            });
        });
        read.map_err(failed())?;
        let turns = (0..SHOWN).flat_map(|turn| kept.values().filter_map(move |it| it.get(turn)));
        let mut samples: Vec<Sample> = Vec::new();
        for sample in turns {
            let is_shown = samples.iter().any(|other| other.line == sample.line);
            if samples.len() < SHOWN && (is_document || !is_shown) {
                samples.push(sample.clone());
            }
        }
        samples.sort_by_key(|sample| sample.line);
        Ok(samples)
    }

    fn outcome(&self, entry: &mut Entry, row: &Row<'_>) -> Option<Outcome> {
        match row {
            Row::Entry(raw) => Some(self.entry(entry, raw)),
            Row::Skipped { skip, .. } if !skip.is_notable() => None,
            Row::Skipped { skip, text } if skip.is_by_word() => Some(alike(
                "skipped",
                format!("{}: {}", skip.name(), shown(text)),
            )),
            Row::Skipped { skip, .. } => Some(alike("skipped", skip.name().to_owned())),
            Row::Rejected { reason, .. } => Some(rejected(&reason.to_string())),
            Row::Refused { .. } => None,
        }
    }

    fn entry(&self, entry: &mut Entry, raw: &RawEntry<'_>) -> Outcome {
        if let Err(error) = entry.read(raw.text, self.options.rules) {
            return rejected(&error.to_string());
        }
        let (kind, text) = (entry.kind(), entry.as_bytes());
        match self.options.dates_of(raw, self.options.dates()) {
            Err(Ends::Expired(day)) => return ("expired", String::new(), format!("on {day}")),
            Err(nowhere) => return rejected(&nowhere.to_string()),
            Ok(_) => {}
        }
        if let Err(danger) = self.options.key(kind, text) {
            return alike("LEFT OUT", danger.to_string());
        }
        let mut detail = kind.name().to_owned();
        if text != raw.text && text.strip_prefix(b"@") != Some(raw.text) {
            detail = format!("{detail} {}", shown(text));
        }
        let mut class = kind.name().to_owned();
        if let Some(day) = raw.expires {
            detail = format!("{detail}, until {day}");
            class.push_str(" until");
        }
        ("listed", class, detail)
    }
}

fn alike(outcome: &'static str, detail: String) -> Outcome {
    (outcome, detail.clone(), detail)
}

/// Returns the outcome of a rejected row. What to do about it is shown with the totals.
fn rejected(why: &str) -> Outcome {
    let (why, _) = why.split_once(';').unwrap_or((why, ""));
    alike("REJECTED", why.to_owned())
}
