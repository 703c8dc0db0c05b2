//! An overview of a filter file, or of a part of a list, for an administrator.

use std::path::Path;

use serde::Serialize;

use crate::compile::{EntryCounts, Error, KindCount, bits_per_entry, digest_shown, kind_counts};
use blocklist_filter::address::{Kind, Kinds, Rules};
use blocklist_filter::base::clock::{day_of, now_s};
use blocklist_filter::filter::{BuildReport, FilterFile, Header, Key, Load, Source};
use blocklist_filter::lookup::{Lookup, rate_per_sender};

/// What a filter, or a part of a list, was made of, and how.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Made {
    /// The day it was built, as 2026-01-31.
    pub(crate) built: String,
    pub(crate) entries: u64,
    pub(crate) kinds_present: Vec<&'static str>,
    pub(crate) bytes: u64,
    pub(crate) fpr_target: f64,
    /// Distinguishes seeds without revealing them.
    pub(crate) seed_id: String,
    pub(crate) rules_version: u16,
    /// The address rules that are on.
    pub(crate) rules: Vec<&'static str>,
    pub(crate) sources: Vec<SourceInfo>,
}

/// A list that a filter was made from.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SourceInfo {
    /// The list, as the filter names and counts it.
    #[serde(flatten)]
    pub(crate) source: Source,
    /// Number of entries whose record names it; `None` if there are no records.
    pub(crate) own: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Info {
    pub(crate) name: String,
    pub(crate) generation: u64,
    #[serde(flatten)]
    pub(crate) made: Made,
    /// Number of days since it was built.
    pub(crate) age_days: u64,
    /// Whether the number of entries is an estimate: for a union of filters without records.
    pub(crate) estimated: bool,
    /// Number of distinct entries by kind; empty if there are no records.
    pub(crate) kinds: Vec<KindCount>,
    pub(crate) page_bytes: u64,
    pub(crate) record_bytes: u64,
    /// Bits of the pages, without the records.
    pub(crate) bits_per_entry: f64,
    /// Number of bits that a key sets.
    pub(crate) probes: u32,
    /// Number of pages of 4096 bytes.
    pub(crate) pages: u64,
    /// Fraction of all bits that are set.
    pub(crate) fill: f64,
    /// False-positive rate of the actual pages.
    pub(crate) fpr_expected: f64,
    /// The same rate for a sender, who is looked up under a key for each kind.
    pub(crate) fpr_per_sender: f64,
    /// Number of entries, estimated from the fill of the pages.
    pub(crate) entries_estimated: f64,
    /// Standard deviation of that estimate.
    pub(crate) entries_deviation: f64,
    /// Whether records confirm every hit.
    pub(crate) records: bool,
    /// What the last build did, or why it failed.
    pub(crate) report: Option<BuildReport>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct PartInfo {
    /// Name of the piece; empty for standard input.
    pub(crate) piece: String,
    /// XXH3-128 of the text, as 32 hexadecimal digits.
    pub(crate) digest: String,
    #[serde(flatten)]
    pub(crate) made: Made,
}

/// Describes a part of a list by its header.
pub(crate) fn part_info(path: &Path) -> Result<PartInfo, Error> {
    let part = FilterFile::open_part(path)?;
    let header = &part.header;
    Ok(PartInfo {
        piece: header.spec.name.clone(),
        digest: digest_shown(header.part.unwrap_or(0)),
        made: Made::new(header, None),
    })
}

/// Describes a filter file. Reads all of its records.
pub(crate) fn info(path: &Path) -> Result<Info, Error> {
    let lookup = Lookup::open(path, Load::Disk)?;
    let filter = lookup.filter();
    let (header, spec, stats) = (filter.header(), filter.spec(), filter.stats()?);
    let counts = (spec.records).then(|| EntryCounts::of(filter));
    let counts = counts.transpose()?;
    Ok(Info {
        name: spec.name.clone(),
        generation: spec.generation,
        made: Made::new(header, counts.as_ref()),
        age_days: now_s().saturating_sub(spec.built) / 86_400,
        estimated: header.estimated,
        kinds: counts.as_ref().map(kind_counts).unwrap_or_default(),
        page_bytes: header.page_bytes(),
        record_bytes: header.record_bytes(),
        bits_per_entry: bits_per_entry(header.page_bytes(), header.entries),
        probes: header.shape.probes,
        pages: header.shape.pages,
        fill: stats.fill,
        fpr_expected: stats.rate_expected,
        fpr_per_sender: rate_per_sender(stats.rate_expected, spec.kinds),
        entries_estimated: stats.entries_estimated,
        entries_deviation: stats.entries_deviation,
        records: spec.records,
        report: BuildReport::of(path)
            .filter(|report| report.is_about(spec) || report.failure_after(Some(spec)).is_some()),
    })
}

impl Made {
    fn new(header: &Header, counts: Option<&EntryCounts>) -> Self {
        let spec = &header.spec;
        let present = Kinds::from_bits(spec.kinds).unwrap_or(Kinds::ALL);
        let kinds = Kind::ALL.into_iter().filter(|kind| present.contains(*kind));
        let rules = Rules::from_bits(spec.rules).unwrap_or_default();
        let rules = [
            (rules.providers, "providers"),
            (rules.plus, "plus"),
            (rules.srs, "srs"),
            (rules.nfkc, "nfkc"),
        ];
        let rules = rules
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name));
        let source = |(number, source): (u32, &Source)| SourceInfo {
            source: source.clone(),
            own: counts.map(|counts| counts.of_source(number)),
        };
        // Sixteen bits of a hash: equal for equal seeds, but useless for finding out the seed.
        let seed_id = Key::of(b"seed id", spec.seed).0 >> 48;
        Self {
            built: day_of(spec.built).to_string(),
            entries: header.entries,
            kinds_present: kinds.map(Kind::name).collect(),
            bytes: header.file_bytes(),
            fpr_target: spec.fpr,
            seed_id: format!("{seed_id:04x}"),
            rules_version: spec.rules_version,
            rules: rules.collect(),
            sources: (0..).zip(&spec.sources).map(source).collect(),
        }
    }
}
