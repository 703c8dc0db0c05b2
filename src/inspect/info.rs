//! What an administrator wants to know of a filter file at a glance.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::address::{Kind, Kinds, Rules, escaped};
use crate::clock::now_s;
use crate::compile::{
    EntryCounts, Error, KindCount, bits_per_entry, bits_shown, day_of, kind_counts, kinds_shown,
    rate_in_people,
};
use crate::filter::{Header, Key, Load, Source, Stats};
use crate::lookup::{Lookup, rate_per_sender};
use crate::numbers::{counted, grouped, size};

/// Columns of the histogram's longest bar.
const BAR: usize = 40;
/// Sources shown in the text; JSON has them all.
const SHOWN: usize = 12;

/// A filter file, described.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Name of the list.
    pub name: String,
    /// Which build of this list.
    pub generation: u64,
    /// The day it was built, as 2026-01-31.
    pub built: String,
    /// Days since then.
    pub age_days: u64,
    /// Distinct entries.
    pub entries: u64,
    /// Whether the entries are an estimate: a union of filters without records.
    pub estimated: bool,
    /// Distinct entries by kind; empty without records, which alone have them.
    pub kinds: Vec<KindCount>,
    /// Names of the kinds that are there.
    pub kinds_present: Vec<&'static str>,
    /// Size of the file.
    pub bytes: u64,
    /// Size of the pages.
    pub page_bytes: u64,
    /// Size of the records.
    pub record_bytes: u64,
    /// Bits of the pages for each entry.
    pub bits_per_entry: f64,
    /// Bits that a key sets.
    pub probes: u32,
    /// Pages of 4096 bytes.
    pub pages: u64,
    /// Part of all bits that is set.
    pub fill: f64,
    /// Rate asked for.
    pub fpr_target: f64,
    /// Rate of the pages as they are.
    pub fpr_expected: f64,
    /// The same for a sender, who is looked up under several keys where there are several kinds.
    pub fpr_per_sender: f64,
    /// Entries by the fill of the pages.
    pub entries_estimated: f64,
    /// Standard deviation of that estimate.
    pub entries_deviation: f64,
    /// Whether records prove every hit.
    pub records: bool,
    /// Tells seeds apart without telling the seed.
    pub seed_id: String,
    /// Version of the address rules.
    pub rules_version: u16,
    /// Address rules that are on.
    pub rules: Vec<&'static str>,
    /// The lists it was made from.
    pub sources: Vec<SourceInfo>,
    /// Pages by load: entries of a page from, and pages.
    pub loads: Vec<(f64, u64)>,
}

/// A list that a filter was made from.
#[derive(Clone, Debug, Serialize)]
pub struct SourceInfo {
    /// Short name.
    pub name: String,
    /// The file it was read from.
    pub file: String,
    /// What the list says of its licence.
    pub licence: String,
    /// Lines.
    pub lines: u64,
    /// Entries found in it, duplicates included.
    pub entries: u64,
    /// Entries whose record names it; none without records.
    pub own: Option<u64>,
    /// Rejected lines.
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
    Ok(describe(filter.header(), &stats, counts.as_ref()))
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
    }
}

/// Sixteen bits of a hash of the seed: equal for equal seeds, and of no use to anyone who
/// would like to know the seed.
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
        write_sources(f, &self.sources)
    }
}

/// The sources, from "sources" on; without a line end behind the last.
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

/// An estimate as a whole number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates are not below 0, and far below 2^64"
)]
fn whole(estimate: f64) -> u64 {
    estimate.round() as u64
}

impl Info {
    /// Page loads as bars: an even spread shows that the hash is sound.
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
