//! What came of a compile: for a person on one screen, for a program as JSON.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::Plan;
use super::feed::Opened;
use super::input::Input;
use super::keys::Census;
use super::tally::Tally;
use crate::address::Kind;
use crate::filter::{Header, Source, sizing};
use crate::list::Skip;

/// Inputs and reasons shown to a person; JSON has them all.
const SHOWN: usize = 8;

/// What came of a compile.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The filter file.
    pub output: PathBuf,
    /// Name of the list.
    pub name: String,
    /// Why nothing was written, when `--strict` or `--max-rejects` forbade it.
    pub refused: Option<String>,
    /// The inputs in the order of their numbers.
    pub inputs: Vec<InputReport>,
    /// Entries read, doubles included.
    pub rows: u64,
    /// Entries that an earlier row had listed already.
    pub doubles: u64,
    /// Distinct entries by kind.
    pub kinds: Vec<KindCount>,
    /// Rejected lines by reason.
    pub rejects: Vec<Reject>,
    /// Rejected lines.
    pub rejected: u64,
    /// Rows that list nobody, and are not meant to, by reason.
    pub skipped: Vec<Skipped>,
    /// Entries left out because their last day is past.
    pub expired: u64,
    /// Entries of the filter that was updated.
    pub entries_before: Option<u64>,
    /// The filter; none when it was refused.
    pub filter: Option<FilterReport>,
    /// Seconds it took.
    pub seconds: f64,
    /// Bytes that did not fit into memory.
    pub spilled_bytes: u64,
}

/// One input.
#[derive(Clone, Debug, Serialize)]
pub struct InputReport {
    /// The file.
    pub file: String,
    /// The format it was read as.
    pub format: String,
    /// Lines.
    pub lines: u64,
    /// Entries, doubles included.
    pub entries: u64,
    /// Entries whose record names this list: no list before has them.
    pub own: u64,
    /// Rejected lines.
    pub rejected: u64,
}

/// Entries of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindCount {
    /// "mailbox", "local-part", "domain" or "subtree".
    pub kind: &'static str,
    /// How many.
    pub entries: u64,
}

/// Lines rejected for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct Reject {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The first of them, as file:line: text.
    pub first: Vec<String>,
}

/// Rows that list nobody for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Why: "allows a sender", "comment", ...
    pub reason: String,
    /// How many.
    pub count: u64,
    /// Whether a person should know: not so for blank lines, comments and headings.
    pub notable: bool,
}

/// The written filter.
#[derive(Clone, Debug, Serialize)]
pub struct FilterReport {
    /// Distinct entries.
    pub entries: u64,
    /// Which build of this list.
    pub generation: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Size of the pages, which the daemon holds in memory.
    pub page_bytes: u64,
    /// Bits of the pages for each entry.
    pub bits_per_entry: f64,
    /// Rate asked for.
    pub fpr_target: f64,
    /// Rate to expect.
    pub fpr_expected: f64,
    /// Whether records prove every hit.
    pub records: bool,
}

impl FilterReport {
    /// From the header that was written.
    pub(crate) fn new(header: &Header) -> Self {
        let page_bytes = header.page_bytes();
        Self {
            entries: header.entries,
            generation: header.spec.generation,
            bytes: header.file_bytes(),
            page_bytes,
            bits_per_entry: bits_per_entry(page_bytes, header.entries),
            fpr_target: header.spec.fpr,
            fpr_expected: sizing::rate(header.entries, header.shape),
            records: header.spec.records,
        }
    }
}

/// Bits of the pages for each entry; 0 for an empty list.
#[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
pub(crate) fn bits_per_entry(page_bytes: u64, entries: u64) -> f64 {
    if entries == 0 {
        0.0
    } else {
        page_bytes as f64 * 8.0 / entries as f64
    }
}

/// Bits an entry, where they tell something: not in a filter of so few entries that
/// its one page is almost empty.
pub(crate) fn bits_shown(bits_per_entry: f64) -> String {
    if (f64::MIN_POSITIVE..MANY_BITS).contains(&bits_per_entry) {
        format!(", {bits_per_entry:.2} bits an entry")
    } else {
        String::new()
    }
}

/// Beyond this, bits an entry only say that a page is the least there is.
const MANY_BITS: f64 = 200.0;

/// What reading gave, for the sources in the filter and for the report.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    pub(crate) sources: Vec<Source>,
    pub(crate) inputs: Vec<InputReport>,
    pub(crate) rejects: Vec<Reject>,
    pub(crate) rows: u64,
    pub(crate) rejected: u64,
    pub(crate) expired: u64,
    pub(crate) skipped: Vec<Skipped>,
}

impl Readings {
    /// Puts the tally of all workers beside what the inputs said of themselves.
    pub(crate) fn new(inputs: &[Input], mut opened: Vec<Opened>, mut tally: Tally) -> Self {
        opened.sort_by_key(|opened| opened.input);
        let mut all = Self::default();
        for Opened {
            input,
            format,
            mut source,
        } in opened
        {
            let file = inputs
                .get(input as usize)
                .map_or_else(String::new, Input::shown);
            let counts = tally.counts(input);
            source.lines = counts.lines();
            source.entries = counts.entries;
            source.rejected = counts.rejected;
            all.rows += counts.entries;
            all.rejected += counts.rejected;
            all.expired += counts.expired;
            for (skip, count) in Skip::ALL.into_iter().zip(counts.skipped) {
                all.skip(skip, count);
            }
            for (reason, count, examples) in counts.rejects() {
                let first = examples
                    .iter()
                    .map(|example| format!("{file}:{}: {}", example.line, example.text));
                match all
                    .rejects
                    .iter_mut()
                    .find(|reject| reject.reason == reason)
                {
                    Some(reject) => reject.count += count,
                    None => all.rejects.push(Reject {
                        reason: reason.to_owned(),
                        count,
                        first: first.collect(),
                    }),
                }
            }
            all.inputs.push(InputReport {
                file,
                format: format.to_string(),
                lines: counts.lines(),
                entries: counts.entries,
                own: 0,
                rejected: counts.rejected,
            });
            all.sources.push(source);
        }
        all.rejects
            .sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
        all
    }

    /// Counts `count` rows that list nobody.
    fn skip(&mut self, skip: Skip, count: u64) {
        let reason = skip.to_string();
        match self.skipped.iter_mut().find(|other| other.reason == reason) {
            Some(other) => other.count += count,
            None if count > 0 => self.skipped.push(Skipped {
                reason,
                count,
                notable: match skip {
                    Skip::Allow | Skip::OtherAction | Skip::NotSender => true,
                    Skip::Blank | Skip::Comment | Skip::Setting => false,
                },
            }),
            None => {}
        }
    }
}

/// Counts by kind, those that are there.
pub(crate) fn kind_counts(census: &Census) -> Vec<KindCount> {
    let kinds = [Kind::Mailbox, Kind::LocalPart, Kind::Domain, Kind::Subtree];
    let counted = kinds.into_iter().zip(census.kinds());
    counted
        .filter(|(_, entries)| *entries > 0)
        .map(|(kind, entries)| KindCount {
            kind: kind.name(),
            entries,
        })
        .collect()
}

impl Report {
    /// What is known when all is read.
    pub(crate) fn begun(plan: &Plan, readings: Readings, spilled_bytes: u64) -> Self {
        Self {
            output: plan.output.clone(),
            name: plan.name.clone(),
            refused: None,
            inputs: readings.inputs,
            rows: readings.rows,
            doubles: 0,
            kinds: Vec::new(),
            rejects: readings.rejects,
            rejected: readings.rejected,
            skipped: readings.skipped,
            expired: readings.expired,
            entries_before: None,
            filter: None,
            seconds: 0.0,
            spilled_bytes,
        }
    }

    /// Takes in what lists of removals had to reject.
    pub(crate) fn add_rejects(&mut self, removals: Readings) {
        self.rejected += removals.rejected;
        self.rejects.extend(removals.rejects);
        self.inputs.extend(removals.inputs);
        self.rows += removals.rows;
    }

    /// Which inputs gave no entry, and what they gave instead, for one line of a message.
    pub(crate) fn why_nothing(&self, output: &Path) -> String {
        let inputs = match self.inputs.as_slice() {
            [] => "the folder, which holds no list".to_owned(),
            [input] => input.file.clone(),
            [input, others @ ..] => format!("{} and {} more", input.file, others.len()),
        };
        if let Some(reject) = self.rejects.first() {
            let lines = if self.rejected == 1 { "line" } else { "lines" };
            let first = reject.first.first().map_or("", String::as_str);
            return format!(
                "{inputs}: {} {lines} rejected ({first}: {})",
                grouped(self.rejected),
                reject.reason
            );
        }
        let nothing = match (self.expired, self.skipped.iter().any(|skip| skip.notable)) {
            (0, false) => "nothing is listed there",
            (0, true) => "all of its rows allow senders or are about something else",
            _ => "the last day of all entries is past",
        };
        format!("{inputs}: {nothing}, and {} has entries", output.display())
    }

    /// Whether more was rejected than the plan allows.
    pub(crate) fn refuse(&mut self, plan: &Plan) -> bool {
        if plan.max_rejects.is_some_and(|most| self.rejected > most) {
            let lines = if self.rejected == 1 { "line" } else { "lines" };
            self.refused = Some(format!(
                "{} rejected {lines}: more than --strict or --max-rejects allows",
                grouped(self.rejected)
            ));
        }
        self.refused.is_some()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for input in self.inputs.iter().take(SHOWN) {
            writeln!(
                f,
                "  {}: {}, {} lines, {} entries",
                input.file,
                input.format,
                grouped(input.lines),
                grouped(input.entries)
            )?;
        }
        if self.inputs.len() > SHOWN {
            writeln!(
                f,
                "  and {} more inputs (--report FILE has them all)",
                self.inputs.len() - SHOWN
            )?;
        }
        for reject in self.rejects.iter().take(SHOWN) {
            writeln!(f, "rejected  {}: {}", grouped(reject.count), reject.reason)?;
            for line in &reject.first {
                writeln!(f, "          {line}")?;
            }
        }
        if self.rejects.len() > SHOWN {
            writeln!(
                f,
                "          and {} more reasons (--report FILE has them all)",
                self.rejects.len() - SHOWN
            )?;
        }
        for input in self
            .inputs
            .iter()
            .filter(|input| input.entries == 0)
            .take(SHOWN)
        {
            writeln!(f, "warning   no entry in {}", input.file)?;
        }
        for skipped in self.skipped.iter().filter(|skipped| skipped.notable) {
            writeln!(
                f,
                "skipped   {}: {}",
                grouped(skipped.count),
                skipped.reason
            )?;
        }
        if self.expired > 0 {
            writeln!(
                f,
                "expired   {} entries whose last day is past were left out",
                grouped(self.expired)
            )?;
        }
        if let Some(refused) = &self.refused {
            return write!(
                f,
                "refused   {refused}; {} stands as it was",
                self.output.display()
            );
        }
        let kinds: Vec<_> = self
            .kinds
            .iter()
            .map(|kind| format!("{} {}", grouped(kind.entries), kind.kind))
            .collect();
        if let Some(filter) = &self.filter {
            write!(f, "entries   {}", grouped(filter.entries))?;
            match kinds.as_slice() {
                [] if filter.entries == 0 => f.write_str(": the list is empty")?,
                [] => {}
                kinds => write!(f, ": {}", kinds.join(", "))?,
            }
            match self.entries_before {
                Some(before) => writeln!(f, "; {} before", grouped(before))?,
                None => writeln!(f, "; {} doubles dropped", grouped(self.doubles))?,
            }
            write!(
                f,
                "filter    {}: {}",
                self.output.display(),
                size(filter.bytes)
            )?;
            writeln!(
                f,
                " ({} of pages{}), generation {}",
                size(filter.page_bytes),
                bits_shown(filter.bits_per_entry),
                filter.generation
            )?;
            writeln!(
                f,
                "rate      {}",
                rate_in_people(filter.fpr_expected, filter.records)
            )?;
        }
        let seconds = Duration::from_secs_f64(self.seconds.max(1e-3)).as_secs_f64();
        write!(f, "took      {seconds:.2} s")?;
        // What takes no time has no speed.
        if seconds >= 0.1 {
            #[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
            let per_second = self.rows as f64 / seconds / 1e6;
            write!(f, ", {per_second:.2} million entries a second")?;
        }
        if self.spilled_bytes > 0 {
            write!(f, ", {} spilled", size(self.spilled_bytes))?;
        }
        write!(
            f,
            "\nnext      blocklist-compile query {} ADDRESS",
            self.output.display()
        )
    }
}

/// What a rate of false positives means.
pub(crate) fn rate_in_people(rate: f64, records: bool) -> String {
    let hits = rate * 100_000.0;
    let hits = if hits >= 10.0 {
        format!("{hits:.0}")
    } else if hits < 0.005 {
        "next to none".to_owned()
    } else {
        format!("{hits:.2}")
    };
    let end = if records {
        "0 rejected: records prove every hit"
    } else {
        "each of them rejected: there are no records to prove a hit"
    };
    format!("of 100,000 innocent senders {hits} are expected to hit the pages ({rate:.2e}), {end}")
}

/// 1234567 -> 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Bytes with a unit a person reads.
#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "bytes" {
                format!("{bytes} bytes")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.2} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [12, 4096, 3 << 30].map(size),
            ["12 bytes", "4.0 KiB", "3.0 GiB"]
        );
        assert!(rate_in_people(1e-6, true).contains("0.10 are expected"));
    }
}
