//! An overview of a filter file for an administrator.

use std::path::Path;

use serde::Serialize;

use crate::address::{Kind, Kinds, Rules};
use crate::base::clock::now_s;
use crate::compile::{EntryCounts, Error, KindCount, bits_per_entry, day_of, kind_counts};
use crate::filter::{BuildReport, Header, Key, Load, Source, Stats};
use crate::lookup::{Lookup, rate_per_sender};

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
    /// The list, as the filter names and counts it.
    #[serde(flatten)]
    pub source: Source,
    /// Number of entries whose record names it; `None` if there are no records.
    pub own: Option<u64>,
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
    let sources = (0_u32..)
        .zip(&spec.sources)
        .map(|(number, source)| SourceInfo {
            source: source.clone(),
            own: counts.map(|counts| counts.of_source(number)),
        });
    Info {
        name: spec.name.clone(),
        generation: spec.generation,
        built: day_of(spec.built).to_string(),
        age_days: now_s().saturating_sub(spec.built) / 86_400,
        entries: header.entries,
        estimated: header.estimated,
        kinds: counts.map(kind_counts).unwrap_or_default(),
        kinds_present: kind_names(spec.kinds),
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

/// Returns the names of the kinds that a header declares.
pub(super) fn kind_names(bits: u8) -> Vec<&'static str> {
    let present = Kinds::from_bits(bits).unwrap_or(Kinds::ALL);
    let kinds = Kind::ALL.into_iter();
    let kinds = kinds.filter(|kind| present.contains(*kind));
    kinds.map(Kind::name).collect()
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
