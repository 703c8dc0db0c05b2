//! An overview of a filter file for an administrator.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::address::{Kind, Kinds, Rules, escaped};
use crate::base::clock::now_s;
use crate::base::numbers::{counted, grouped, size};
use crate::compile::{
    EntryCounts, Error, KindCount, bits_per_entry, bits_shown, day_of, kind_counts, kinds_shown,
    rate_in_people,
};
use crate::filter::{BuildReport, Header, Key, Load, Source, Stats};
use crate::lookup::{Lookup, rate_per_sender};

/// Number of columns of the histogram's longest bar.
const BAR: usize = 40;
/// Number of sources shown in the text; JSON has all of them.
const SHOWN: usize = 12;

/// The description of a filter file.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Name of the list.
    pub name: String,
    /// Number of the build of this list.
    pub generation: u64,
    /// The day it was built, as 2026-01-31.
    pub built: String,
    /// Number of days since then.
    pub age_days: u64,
    /// Number of distinct entries.
    pub entries: u64,
    /// Whether the number of entries is an estimate: for a union of filters without records.
    pub estimated: bool,
    /// Number of distinct entries by kind; empty if there are no records, which alone have the
    /// kinds.
    pub kinds: Vec<KindCount>,
    /// Names of the kinds that occur.
    pub kinds_present: Vec<&'static str>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Size of the pages in bytes.
    pub page_bytes: u64,
    /// Size of the records in bytes.
    pub record_bytes: u64,
    /// Bits of the pages per entry.
    pub bits_per_entry: f64,
    /// Number of bits that a key sets.
    pub probes: u32,
    /// Number of pages of 4096 bytes.
    pub pages: u64,
    /// Fraction of all bits that are set.
    pub fill: f64,
    /// Target false-positive rate.
    pub fpr_target: f64,
    /// False-positive rate of the actual pages.
    pub fpr_expected: f64,
    /// The same rate for a sender. A sender is looked up under several keys if there are several
    /// kinds of entries.
    pub fpr_per_sender: f64,
    /// Number of entries, estimated from the fill of the pages.
    pub entries_estimated: f64,
    /// Standard deviation of that estimate.
    pub entries_deviation: f64,
    /// Whether records confirm every hit.
    pub records: bool,
    /// Distinguishes seeds without revealing them.
    pub seed_id: String,
    /// Version of the address rules.
    pub rules_version: u16,
    /// The address rules that are on.
    pub rules: Vec<&'static str>,
    /// The lists it was made from.
    pub sources: Vec<SourceInfo>,
    /// Number of pages by load: the smallest number of entries of such a page, and the number of
    /// pages.
    pub loads: Vec<(f64, u64)>,
    /// What the last build did, or why it failed.
    pub report: Option<BuildReport>,
}

/// A list that a filter was made from.
#[derive(Clone, Debug, Serialize)]
pub struct SourceInfo {
    /// Short name.
    pub name: String,
    /// The file it was read from.
    pub file: String,
    /// The licence note of the list.
    pub licence: String,
    /// Number of lines.
    pub lines: u64,
    /// Number of entries found in it, duplicates included.
    pub entries: u64,
    /// Number of entries whose record names it; `None` if there are no records.
    pub own: Option<u64>,
    /// Number of rejected lines.
    pub rejected: u64,
}

impl SourceInfo {
    pub(super) fn new(source: &Source, own: Option<u64>) -> Self {
        Self {
            name: source.name.clone(),
            file: source.file.clone(),
            licence: source.licence.clone(),
            lines: source.lines,
            entries: source.entries,
            own,
            rejected: source.rejected,
        }
    }
}

/// Describes a filter file. Reads all of its records.
///
/// # Errors
/// When it cannot be read or fails its checks.
pub fn info(path: &Path) -> Result<Info, Error> {
    let lookup = Lookup::open(path, Load::Disk)?;
    let filter = lookup.filter();
    let stats: Stats = filter.stats()?;
    let counts = if filter.spec().records {
        Some(EntryCounts::of(filter)?)
    } else {
        None
    };
    let spec = filter.spec();
    let report = BuildReport::of(path)
        .filter(|report| report.is_about(spec) || report.failure_after(Some(spec)).is_some());
    Ok(Info {
        report,
        ..describe(filter.header(), &stats, counts.as_ref())
    })
}

fn describe(header: &Header, stats: &Stats, counts: Option<&EntryCounts>) -> Info {
    let spec = &header.spec;
    let present = Kinds::from_bits(spec.kinds).unwrap_or(Kinds::ALL);
    let sources = (0_u32..).zip(&spec.sources).map(|(number, source)| {
        SourceInfo::new(source, counts.map(|counts| counts.of_source(number)))
    });
    Info {
        name: spec.name.clone(),
        generation: spec.generation,
        built: day_of(spec.built).to_string(),
        age_days: now_s().saturating_sub(spec.built) / 86_400,
        entries: header.entries,
        estimated: header.estimated,
        kinds: counts.map(kind_counts).unwrap_or_default(),
        kinds_present: Kind::ALL
            .into_iter()
            .filter(|kind| present.contains(*kind))
            .map(Kind::name)
            .collect(),
        bytes: header.file_bytes(),
        page_bytes: header.page_bytes(),
        record_bytes: header.record_bytes(),
        bits_per_entry: bits_per_entry(header.page_bytes(), header.entries),
        probes: header.shape.probes,
        pages: header.shape.pages,
        fill: stats.fill,
        fpr_target: spec.fpr,
        fpr_expected: stats.rate_expected,
        fpr_per_sender: rate_per_sender(stats.rate_expected, spec.kinds),
        entries_estimated: stats.entries_estimated,
        entries_deviation: stats.entries_deviation,
        records: spec.records,
        seed_id: seed_id(spec.seed),
        rules_version: spec.rules_version,
        rules: rule_names(spec.rules),
        sources: sources.collect(),
        loads: stats.loads.clone(),
        report: None,
    }
}

/// Returns sixteen bits of a hash of the seed: equal for equal seeds, but useless for finding
/// out the seed.
pub(super) fn seed_id(seed: u64) -> String {
    format!("{:04x}", Key::of(b"seed id", seed).0 >> 48)
}

pub(super) fn rule_names(bits: u8) -> Vec<&'static str> {
    let rules = Rules::from_bits(bits).unwrap_or_default();
    let all = [
        (rules.providers, "providers"),
        (rules.plus, "plus"),
        (rules.srs, "srs"),
        (rules.nfkc, "nfkc"),
    ];
    all.into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| name)
        .collect()
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.estimated { "about " } else { "" };
        writeln!(
            f,
            "{}, generation {}, built {} ({})",
            self.name,
            self.generation,
            self.built,
            match self.age_days {
                0 => "today".to_owned(),
                days => format!("{} ago", counted(days, "day", "days")),
            }
        )?;
        write!(f, "entries   {about}{}", grouped(self.entries))?;
        match self.kinds.as_slice() {
            [] if self.entries == 0 => {}
            [] => write!(f, ": {}", self.kinds_present.join(", "))?,
            kinds => write!(f, ": {}", kinds_shown(kinds))?,
        }
        writeln!(
            f,
            "\nsize      {}: {} of pages, {} of records",
            size(self.bytes),
            size(self.page_bytes),
            size(self.record_bytes)
        )?;
        writeln!(
            f,
            "pages     {} of 4096 bytes{}, {} probes",
            grouped(self.pages),
            bits_shown(self.bits_per_entry),
            self.probes
        )?;
        writeln!(
            f,
            "fill      {:.1} % of the bits, as with about {} (+/- {})",
            self.fill * 100.0,
            counted(whole(self.entries_estimated), "entry", "entries"),
            grouped(whole(2.0 * self.entries_deviation))
        )?;
        self.histogram(f)?;
        writeln!(
            f,
            "rate      target {:.2e}\n          {}",
            self.fpr_target,
            rate_in_people(self.fpr_per_sender, self.records)
        )?;
        writeln!(
            f,
            "rules     version {}: {}; seed id {}",
            self.rules_version,
            self.rules.join(", "),
            self.seed_id
        )?;
        write_sources(f, &self.sources)?;
        self.report
            .as_ref()
            .map_or(Ok(()), |report| write_report(f, report))
    }
}

/// Writes what the last build did; without a line end after the last line.
fn write_report(f: &mut fmt::Formatter<'_>, report: &BuildReport) -> fmt::Result {
    if let Some(failure) = report.failure_after(None) {
        write!(f, "\nproblem   {failure}")?;
    }
    for (what, reasons) in [
        ("rejected", &report.rejects),
        ("left out", &report.broad),
        ("skipped", &report.skipped),
    ] {
        for reason in reasons {
            let lines = counted(reason.count, "line", "lines");
            write!(f, "\n{what:<10}{lines}: {}", reason.reason)?;
            for line in &reason.first {
                write!(f, "\n          {line}")?;
            }
        }
    }
    match report.expired {
        0 => Ok(()),
        expired => write!(f, "\nexpired   {}", counted(expired, "entry", "entries")),
    }
}

/// Writes the sources, beginning with "sources"; without a line end after the last one.
pub(super) fn write_sources(f: &mut fmt::Formatter<'_>, sources: &[SourceInfo]) -> fmt::Result {
    write!(f, "sources   {}", sources.len())?;
    for source in sources.iter().take(SHOWN) {
        write!(
            f,
            "\n  {}: {}, {}",
            escaped(source.name.as_bytes()),
            counted(source.lines, "line", "lines"),
            counted(source.entries, "entry", "entries")
        )?;
        if let Some(own) = source.own {
            write!(f, ", {} first found in this list", grouped(own))?;
        }
        if source.rejected > 0 {
            write!(
                f,
                ", {} rejected",
                counted(source.rejected, "line", "lines")
            )?;
        }
        if !source.licence.is_empty() {
            write!(f, " ({})", source.licence)?;
        }
    }
    if sources.len() > SHOWN {
        write!(
            f,
            "\n  and {} more (--json has them all)",
            sources.len() - SHOWN
        )?;
    }
    Ok(())
}

/// Rounds an estimate to a whole number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates are not below 0, and far below 2^64"
)]
fn whole(estimate: f64) -> u64 {
    estimate.round() as u64
}

impl Info {
    /// Shows page loads as bars: an even distribution shows that the hash is sound.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bar has at most 40 columns"
    )]
    fn histogram(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self
            .loads
            .iter()
            .map(|(_, pages)| *pages)
            .max()
            .unwrap_or(0);
        if self.loads.len() < 2 || most == 0 {
            return Ok(());
        }
        writeln!(f, "loads     entries of a page, pages")?;
        for (from, pages) in &self.loads {
            let eighths = (*pages as f64 / most as f64 * (BAR * 8) as f64).round() as usize;
            let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
            writeln!(
                f,
                "{from:>9.0} {}{part} {}",
                "█".repeat(eighths / 8),
                grouped(*pages)
            )?;
        }
        Ok(())
    }
}
