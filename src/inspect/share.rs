//! An overview of a share of a merge.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::info::seed_id;
use crate::base::numbers::{counted, grouped, size};
use crate::compile::Error;
use crate::filter::{Basis, Counts, Share, ShareKind, SharedPages, share_kind_at, verify_share};
use crate::list::Day;

/// The description of a share of a merge.
#[derive(Clone, Debug, Serialize)]
pub struct ShareInfo {
    /// Its content: "counts" or "pages".
    pub kind: String,
    /// Its number, from 1.
    pub number: u32,
    /// Number of shares.
    pub of: u32,
    /// The day of the merge, as 2026-01-31: entries that expire on it or before are left out.
    pub day: String,
    /// Number of parts that it was made from.
    pub parts: usize,
    /// Distinguishes one set of parts from another.
    pub parts_id: String,
    /// Number of distinct entries in it.
    pub entries: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// The data that only a share of the pages has.
    pub filter: Option<SharedFilter>,
}

/// The filter to which the pages of a share belong.
#[derive(Clone, Debug, Serialize)]
pub struct SharedFilter {
    /// Number of distinct entries of all shares.
    pub entries: u64,
    /// Number of pages of all shares.
    pub pages: u64,
    /// Target false-positive rate.
    pub fpr_target: f64,
    /// Distinguishes seeds without revealing them.
    pub seed_id: String,
}

impl ShareInfo {
    fn new(path: &Path, kind: ShareKind, share: Share, basis: Basis) -> Self {
        Self {
            kind: kind.to_string(),
            number: share.number(),
            of: share.of(),
            day: Day(basis.day).to_string(),
            parts: 0,
            parts_id: format!("{:.16}", basis.parts),
            entries: 0,
            bytes: path.metadata().map_or(0, |meta| meta.len()),
            filter: None,
        }
    }
}

/// Describes a share of a merge by its head; `None` if the file is something else.
///
/// # Errors
/// When it cannot be read or fails its checks.
pub fn share_info(path: &Path) -> Result<Option<ShareInfo>, Error> {
    let Some(kind) = share_kind_at(path)? else {
        return Ok(None);
    };
    Ok(Some(match kind {
        ShareKind::Counts => {
            let counts = Counts::open(path)?;
            ShareInfo {
                parts: counts.records.len(),
                entries: counts.entries(),
                ..ShareInfo::new(path, kind, counts.share, counts.basis)
            }
        }
        ShareKind::Pages => {
            let head = SharedPages::open(path)?.head;
            let header = &head.header;
            ShareInfo {
                parts: head.pieces.len(),
                entries: head.body.entries,
                filter: Some(SharedFilter {
                    entries: header.entries,
                    pages: header.shape.pages,
                    fpr_target: header.spec.fpr,
                    seed_id: seed_id(header.spec.seed),
                }),
                ..ShareInfo::new(path, kind, head.share, head.basis)
            }
        }
    }))
}

/// Reads and checks a whole share of a merge. Returns its description and the number of its
/// entries; `None` if the file is something else.
///
/// # Errors
/// When it cannot be read or fails its checks.
pub fn check_share(path: &Path) -> Result<Option<(String, u64)>, Error> {
    let Some(kind) = share_kind_at(path)? else {
        return Ok(None);
    };
    let (share, entries) = verify_share(path, kind)?;
    Ok(Some((format!("{kind} of {share}"), entries)))
}

impl fmt::Display for ShareInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of share {} of {} of a merge of {}",
            self.kind, self.number, self.of, self.day
        )?;
        writeln!(
            f,
            "parts     {}, id {}",
            counted(self.parts as u64, "part", "parts"),
            self.parts_id
        )?;
        writeln!(f, "entries   {}", grouped(self.entries))?;
        write!(f, "size      {}", size(self.bytes))?;
        if let Some(filter) = &self.filter {
            write!(
                f,
                "\nfilter    {}, {}; rate target {:.2e}; seed id {}",
                counted(filter.entries, "entry", "entries"),
                counted(filter.pages, "page", "pages"),
                filter.fpr_target,
                filter.seed_id
            )?;
        }
        Ok(())
    }
}
