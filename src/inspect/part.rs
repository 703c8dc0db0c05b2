//! An overview of a part of a list.

use std::path::Path;

use serde::Serialize;

use super::info::{SourceInfo, kind_names, rule_names, seed_id};
use crate::compile::{Error, day_of, digest_shown};
use crate::filter::{RecordFile, Source};

/// The description of a part of a list.
#[derive(Clone, Debug, Serialize)]
pub struct PartInfo {
    /// Name of the piece; empty for standard input.
    pub piece: String,
    /// XXH3-128 of the text, as 32 hexadecimal digits.
    pub digest: String,
    /// The day it was built, as 2026-01-31.
    pub built: String,
    /// Number of distinct entries.
    pub entries: u64,
    /// Names of the kinds that occur.
    pub kinds_present: Vec<&'static str>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Target false-positive rate.
    pub fpr_target: f64,
    /// Distinguishes seeds without revealing them.
    pub seed_id: String,
    /// Version of the address rules.
    pub rules_version: u16,
    /// The address rules that are on.
    pub rules: Vec<&'static str>,
    /// The lists that it is a part of.
    pub sources: Vec<SourceInfo>,
}

/// Describes a part of a list by its header.
///
/// # Errors
/// When it cannot be read or fails its checks.
pub fn part_info(path: &Path) -> Result<PartInfo, Error> {
    let part = RecordFile::open_part(path)?;
    let header = part.header();
    let spec = &header.spec;
    let source = |source: &Source| SourceInfo {
        source: source.clone(),
        own: None,
    };
    Ok(PartInfo {
        piece: spec.name.clone(),
        digest: digest_shown(header.part.unwrap_or(0)),
        built: day_of(spec.built).to_string(),
        entries: header.entries,
        kinds_present: kind_names(spec.kinds),
        bytes: header.file_bytes(),
        fpr_target: spec.fpr,
        seed_id: seed_id(spec.seed),
        rules_version: spec.rules_version,
        rules: rule_names(spec.rules),
        sources: spec.sources.iter().map(source).collect(),
    })
}
