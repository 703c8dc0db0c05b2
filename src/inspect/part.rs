//! An overview of a part of a list.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::info::{SourceInfo, rule_names, seed_id, write_sources};
use crate::address::{Kind, Kinds};
use crate::base::numbers::{counted, size};
use crate::compile::{Error, day_of, digest_shown};
use crate::filter::RecordFile;

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
    let present = Kinds::from_bits(spec.kinds).unwrap_or(Kinds::ALL);
    let kinds = Kind::ALL.into_iter();
    Ok(PartInfo {
        piece: spec.name.clone(),
        digest: digest_shown(header.part.unwrap_or(0)),
        built: day_of(spec.built).to_string(),
        entries: header.entries,
        kinds_present: kinds
            .filter(|kind| present.contains(*kind))
            .map(Kind::name)
            .collect(),
        bytes: header.file_bytes(),
        fpr_target: spec.fpr,
        seed_id: seed_id(spec.seed),
        rules_version: spec.rules_version,
        rules: rule_names(spec.rules),
        sources: spec
            .sources
            .iter()
            .map(|source| SourceInfo::new(source, None))
            .collect(),
    })
}

impl fmt::Display for PartInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let piece = match self.piece.as_str() {
            "" => "standard input",
            piece => piece,
        };
        writeln!(f, "part of a list, built {}", self.built)?;
        writeln!(f, "piece     {piece}\ndigest    {}", self.digest)?;
        writeln!(
            f,
            "entries   {}: {}",
            counted(self.entries, "entry", "entries"),
            self.kinds_present.join(", ")
        )?;
        writeln!(f, "size      {}", size(self.bytes))?;
        writeln!(f, "rate      target {:.2e}", self.fpr_target)?;
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
