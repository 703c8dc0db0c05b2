//! The report of a compilation, and the overview of a filter, as text on one screen: rows of a label
//! and what it says; what was changed in a list and its filter.

use std::fmt::{self, Display, Formatter};

use crate::compile::{
    self, Applied, Changed, Done, Edited, FilterReport, KindCount, PartReport, REFUSED, Report,
    SMALL,
};
use crate::inspect::{Info, Made, PartInfo, SourceInfo};
use blocklist_filter::address::escaped;
use blocklist_filter::base::numbers::{counted, grouped, size};
use blocklist_filter::filter::{BuildReport, Reason};

/// Number of inputs and reasons shown in the text; JSON has all of them.
const SHOWN: usize = 8;
/// Number of rejected lines shown of each reason.
const LINES_SHOWN: usize = 3;
const SOURCES_SHOWN: usize = 12;
/// Above this, bits per entry only show that one page is the minimum size.
const MANY_BITS: f64 = 200.0;

#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn row(&mut self, label: &str, what: impl Display) {
        self.0.push(format!("{label:<10}{what}"));
    }

    fn rows(&mut self, label: &str, all: impl IntoIterator<Item: Display>) {
        for what in all {
            self.row(label, what);
        }
    }

    /// Says how many of all are not shown, and where they are.
    fn others(&mut self, indent: &str, all: usize, shown: usize, what: &str) {
        if all > shown {
            self.0.push(format!(
                "{indent}and {} more{what} has them all)",
                all - shown
            ));
        }
    }

    /// Shows lines of which the same became, with the first few.
    fn reasons<'r>(
        &mut self,
        label: &str,
        (one, many): (&str, &str),
        reasons: impl IntoIterator<Item = &'r Reason>,
        hint: &str,
        first: usize,
    ) {
        for reason in reasons {
            let count = counted(reason.count, one, many);
            self.row(label, format_args!("{count}: {}{hint}", reason.reason));
            self.rows("", reason.first.iter().take(first));
        }
    }
}

impl Display for Lines {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

const LINES: (&str, &str) = ("line", "lines");
const ENTRIES: (&str, &str) = ("entry", "entries");
const IN_REPORT: &str = " (--report FILE";

fn lines(count: u64) -> String {
    counted(count, LINES.0, LINES.1)
}

fn entries(count: u64) -> String {
    counted(count, ENTRIES.0, ENTRIES.1)
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = Lines::default();
        let output = self.output.display();
        read(self, &mut text);
        if let Some(refused) = &self.refused {
            let outcome = match self.is_first {
                true => "was not written",
                false => "is unchanged",
            };
            text.row("refused", format_args!("{refused}; {output} {outcome}"));
            return text.fmt(f);
        }
        if let Some(part) = &self.part {
            write_part(self, part, &mut text);
        }
        if let Some(filter) = &self.filter {
            write_entries(self, filter.entries, &mut text);
            if self.is_unchanged {
                text.row("unchanged", format_args!("{output}: nothing was written"));
                return text.fmt(f);
            }
            write_filter(self, filter, &mut text);
        }
        let seconds = self.seconds.max(1e-3);
        let mut took = format!("{seconds:.2} s");
        // A small list or a very short duration gives no meaningful speed.
        if seconds >= 0.1 && self.rows >= 100_000 {
            let per_second = self.rows as f64 / seconds / 1e6;
            took += &format!(", {per_second:.2} million entries a second");
        }
        if self.spilled_bytes > 0 {
            took += &format!(", {} spilled", size(self.spilled_bytes));
        }
        text.row("took", took);
        if self.changed.is_some() {
            let note = "the next build from text lists replaces these changes";
            text.row("note", note);
        }
        let next = match self.part {
            Some(_) => "merge -o FILE PART...".to_owned(),
            None => format!("query {output} ADDRESS"),
        };
        text.row("next", format_args!("blocklist-compile {next}"));
        text.fmt(f)
    }
}

/// Returns what a build would count.
pub(super) fn counts(report: &Report) -> String {
    let mut text = Lines::default();
    read(report, &mut text);
    if report.refused.is_none() {
        write_entries(report, report.rows - report.duplicates, &mut text);
    }
    text.to_string()
}

/// Shows what became of the lines that were read.
fn read(report: &Report, text: &mut Lines) {
    for input in report.inputs.iter().take(SHOWN) {
        text.0.push(match input.format.as_str() {
            REFUSED => format!("  {}: {REFUSED}", input.file),
            format => format!(
                "  {}: {format}, {}, {}",
                input.file,
                lines(input.lines),
                entries(input.entries)
            ),
        });
    }
    text.others("  ", report.inputs.len(), SHOWN, IN_REPORT);
    text.rows("not read", report.passed_over.iter().take(SHOWN));
    let indent = " ".repeat(10);
    text.others(&indent, report.passed_over.len(), SHOWN, IN_REPORT);
    let rejects = report.rejects.iter().take(SHOWN);
    text.reasons("rejected", LINES, rejects, "", LINES_SHOWN);
    let of_reasons = format!(" reasons{IN_REPORT}");
    text.others(&indent, report.rejects.len(), SHOWN, &of_reasons);
    let inputs = || report.inputs.iter();
    let empty = inputs().filter(|input| input.entries == 0 && report.refused_files.is_empty());
    for input in empty.take(SHOWN) {
        text.row("warning", format_args!("no entry in {}", input.file));
    }
    let skipped = report.skipped.iter().filter(|skipped| skipped.notable);
    text.reasons("skipped", LINES, skipped.map(|skipped| &skipped.why), "", 1);
    let hint = " (--allow ENTRY lists it)";
    text.reasons("left out", ENTRIES, &report.broad, hint, 1);
    if report.expired > 0 {
        let why = "left out: expiry date has passed";
        text.row("expired", format_args!("{} {why}", entries(report.expired)));
    }
    let cut_off = inputs().filter(|input| input.ends_within_line && input.entries >= SMALL);
    for input in cut_off.take(SHOWN) {
        let why = "the last line has no line ending; is the list truncated?";
        text.row("note", format_args!("{}: {why}", input.file));
    }
    for file in report.no_longer_read.iter().take(SHOWN) {
        text.row("note", format_args!("no longer among the inputs: {file}"));
    }
}

fn write_part(report: &Report, part: &PartReport, text: &mut Lines) {
    let (entries, size) = (entries(part.entries), size(part.bytes));
    let output = report.output.display();
    text.row("part", format_args!("{output}: {entries}, {size}"));
    match part.piece.as_str() {
        "" => text.row("piece", &part.digest),
        piece => text.row("piece", format_args!("{piece}, {}", part.digest)),
    }
    if part.world_readable {
        text.row("warning", world_readable(report));
    }
}

fn world_readable(report: &Report) -> String {
    let output = report.output.display();
    format!("all users can read {output}, including its secret hash seed; use chmod o= {output}")
}

fn write_entries(report: &Report, entries: u64, text: &mut Lines) {
    if report.inputs.is_empty() && entries == 0 && report.changed.is_none() {
        let why = "no list was read, for example because a folder is empty";
        text.row("warning", why);
    }
    let mut counts = grouped(entries);
    counts += &match report.kinds.as_slice() {
        [] if entries == 0 => ": the list is empty".to_owned(),
        [] => String::new(),
        kinds => format!(": {}", kinds_shown(kinds)),
    };
    if let Some(before) = report.entries_before {
        counts += &format!("; {} before", grouped(before));
    }
    if report.duplicates > 0 {
        let duplicates = counted(report.duplicates, "duplicate", "duplicates");
        counts += &format!("; {duplicates} dropped");
    }
    text.row("entries", counts);
    text.rows("changes", report.changed);
}

fn write_filter(report: &Report, filter: &FilterReport, text: &mut Lines) {
    let (output, generation) = (report.output.display(), filter.generation);
    let [bytes, pages] = [filter.bytes, filter.page_bytes].map(size);
    let bits = bits_shown(filter.bits_per_entry);
    let file = format!("{output}: {bytes} ({pages} of pages{bits}), generation {generation}");
    text.row("filter", file);
    let rate = rate_in_people(filter.fpr_per_sender, filter.records);
    text.row("rate", rate);
    if filter.world_writable {
        let why = "and so decide which mail is refused; use chmod o=";
        let all = format!("all users can write {output}, {why} {output}");
        text.row("warning", all);
    }
    if filter.world_readable {
        text.row("warning", world_readable(report));
    }
}

/// Shows "1 added, 2 already there, 3 removed, 4 not found"; counts of zero are left out.
impl Display for Changed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.added, "added"),
            (self.already_there, "already there"),
            (self.removed, "removed"),
            (self.not_found, "not found"),
            (self.expired, "expired"),
        ];
        let mut shown = counts.into_iter().filter(|(count, _)| *count > 0);
        let Some((count, what)) = shown.next() else {
            return f.write_str("no changes");
        };
        write!(f, "{} {what}", grouped(count))?;
        shown.try_for_each(|(count, what)| write!(f, ", {} {what}", grouped(count)))
    }
}

impl Display for Edited {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = self.list.display();
        let shown = self.entries.iter().map(|(entry, done)| match done {
            Done::Added => {
                let mut over = self.overridden.iter().filter(|(of, _)| of == entry);
                let over = over
                    .next()
                    .map(|(_, until)| format!("; it was undone until {until}"));
                format!("{entry}: added to {list}{}", over.unwrap_or_default())
            }
            Done::Undone(until) => format!("{entry}: undone until {until}"),
            Done::AlreadyThere(line) => format!("{entry}: already in {list}, line {line}"),
            Done::Removed { line, lines: 1 } => {
                format!("{entry}: removed from {list}, line {line}")
            }
            Done::Removed { line, lines } => {
                format!("{entry}: removed from {list}, {lines} lines from line {line}")
            }
            Done::NotFound => {
                let by = self.covered.iter().filter(|(of, ..)| of == entry);
                let by =
                    by.map(|(_, by, line)| format!("; line {line}, {by}, lists it all the same"));
                format!("{entry}: not in {list}{}", by.collect::<String>())
            }
        });
        f.write_str(&shown.collect::<Vec<_>>().join("\n"))
    }
}

impl Display for compile::Made {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let output = self.output.display();
        if let Some(why) = &self.refused {
            return write!(f, "{output}: not written: {why}");
        }
        let [added, removed, changed] = [self.added, self.removed, self.changed].map(grouped);
        write!(
            f,
            "{output}: {added} added, {removed} removed, {changed} changed; {}, {:.3} % of the {} of the whole filter",
            size(self.bytes),
            self.bytes as f64 * 100.0 / self.new_bytes as f64,
            size(self.new_bytes)
        )
    }
}

impl Display for Applied {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let output = self.output.display();
        if let Some(why) = &self.refused {
            return write!(f, "{output}: not written: {why}");
        }
        write!(
            f,
            "{output}: generation {}, {}, {}; {} applied",
            self.generation,
            counted(self.entries, "entry", "entries"),
            size(self.bytes),
            counted(self.deltas as u64, "delta", "deltas")
        )
    }
}

/// Shows kinds with their counts: "1 mailbox, 20 domains".
fn kinds_shown(kinds: &[KindCount]) -> String {
    let shown = kinds.iter().map(|count| {
        let many = match count.kind {
            "mailbox" => "mailboxes".to_owned(),
            kind => format!("{kind}s"),
        };
        counted(count.entries, count.kind, &many)
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Shows the bits per entry if they mean something; they do not if a filter has so few
/// entries that its one page is almost empty.
fn bits_shown(bits_per_entry: f64) -> String {
    match (f64::MIN_POSITIVE..MANY_BITS).contains(&bits_per_entry) {
        true => format!(", {bits_per_entry:.2} bits an entry"),
        false => String::new(),
    }
}

/// Explains a rate of false positives per sender.
fn rate_in_people(rate: f64, records: bool) -> String {
    let matches = match rate * 100_000.0 {
        matches if matches >= 10.0 => format!("about {matches:.0}"),
        ..0.005 => "fewer than 0.01".to_owned(),
        matches => format!("about {matches:.2}"),
    };
    let end = match records {
        true => "none of them is listed: records confirm every match",
        false => "each of them is listed: there are no records to confirm a match",
    };
    let exactly = match rate > 0.0 {
        true => format!("({rate:.2e}); "),
        false => String::new(),
    };
    // Two lines: one would be longer than a terminal is wide.
    format!(
        "of 100,000 unlisted senders {matches} match the Bloom filter\n          {exactly}{end}"
    )
}

impl Display for Info {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = Lines::default();
        let age = match self.age_days {
            0 => "today".to_owned(),
            days => format!("{} ago", counted(days, "day", "days")),
        };
        let (name, generation, built) = (&self.name, self.generation, &self.made.built);
        text.0.push(format!(
            "{name}, generation {generation}, built {built} ({age})"
        ));
        let kinds = match self.kinds.as_slice() {
            [] if self.made.entries == 0 => String::new(),
            [] => format!(": {}", self.made.kinds_present.join(", ")),
            kinds => format!(": {}", kinds_shown(kinds)),
        };
        let about = if self.estimated { "about " } else { "" };
        let count = grouped(self.made.entries);
        text.row("entries", format_args!("{about}{count}{kinds}"));
        let [all, pages, records] = [self.made.bytes, self.page_bytes, self.record_bytes].map(size);
        let size = format!("{all}: {pages} of pages, {records} of records");
        text.row("size", size);
        let (pages, bits) = (grouped(self.pages), bits_shown(self.bits_per_entry));
        let pages = format!("{pages} of 4096 bytes{bits}, {} probes", self.probes);
        text.row("pages", pages);
        let (fill, about) = (self.fill * 100.0, entries(whole(self.entries_estimated)));
        let error = grouped(whole(2.0 * self.entries_deviation));
        let fill = format!("{fill:.1} % of the bits, as with about {about} (+/- {error})");
        text.row("fill", fill);
        text.row("rate", format_args!("target {:.2e}", self.made.fpr_target));
        text.row("", rate_in_people(self.fpr_per_sender, self.records));
        rules(&self.made, &mut text);
        sources(&self.made.sources, &mut text);
        if let Some(report) = &self.report {
            last_build(report, &mut text);
        }
        text.fmt(f)
    }
}

impl Display for PartInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = Lines::default();
        let (built, entries) = (&self.made.built, entries(self.made.entries));
        text.0.push(format!("part of a list, built {built}"));
        let piece = match self.piece.as_str() {
            "" => "standard input",
            piece => piece,
        };
        text.row("piece", piece);
        text.row("digest", &self.digest);
        let kinds = self.made.kinds_present.join(", ");
        text.row("entries", format_args!("{entries}: {kinds}"));
        text.row("size", size(self.made.bytes));
        text.row("rate", format_args!("target {:.2e}", self.made.fpr_target));
        rules(&self.made, &mut text);
        sources(&self.made.sources, &mut text);
        text.fmt(f)
    }
}

fn rules(made: &Made, text: &mut Lines) {
    let (version, rules, seed_id) = (made.rules_version, made.rules.join(", "), &made.seed_id);
    let rules = format!("version {version}: {rules}; seed id {seed_id}");
    text.row("rules", rules);
}

fn last_build(report: &BuildReport, text: &mut Lines) {
    text.rows("problem", report.failure_after(None));
    for (label, reasons) in [
        ("rejected", &report.rejects),
        ("left out", &report.broad),
        ("skipped", &report.skipped),
    ] {
        text.reasons(label, LINES, reasons, "", LINES_SHOWN);
    }
    if report.expired > 0 {
        text.row("expired", entries(report.expired));
    }
}

fn sources(all: &[SourceInfo], text: &mut Lines) {
    text.row("sources", all.len());
    for SourceInfo { source, own } in all.iter().take(SOURCES_SHOWN) {
        let name = escaped(source.name.as_bytes());
        let mut row = format!(
            "  {name}: {}, {}",
            lines(source.lines),
            entries(source.entries)
        );
        if let Some(own) = own {
            row += &format!(", {} first found in this list", grouped(*own));
        }
        if source.rejected > 0 {
            row += &format!(", {} rejected", lines(source.rejected));
        }
        if !source.licence.is_empty() {
            row += &format!(" ({})", source.licence);
        }
        text.0.push(row);
    }
    text.others("  ", all.len(), SOURCES_SHOWN, " (--json");
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates are not below 0, and far below 2^64"
)]
fn whole(estimate: f64) -> u64 {
    estimate.round() as u64
}
