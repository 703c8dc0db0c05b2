//! The head of a share: encodes and decodes it. Works on slices only.
//!
//! All numbers are little-endian. s is the number of sources, p the number of parts.
//!
//! ```text
//!    0  magic 8   u32 version   u32 kind: 1 counts, 2 pages   u64 bytes of the head
//!   24  u32 number of the share, from 1   u32 of how many
//!   32  32 bytes: SHA-256 that tells one set of parts from another
//!   64  u16 day   u16 1 where records differ in their dates, else 0   u32 sources   u32 parts   u32 zero
//!
//!   counts, from 80:
//!       s * 40  entries of the share by kind, 4 u64; u64 expired entries
//!       p * 8   u64 records of each part in the share, duplicates and expired ones included
//!
//!   pages, from 80:
//!       u64 entries of the share   u64 bits set   u64 bytes of its records   u64 XXH3-64 of its sums
//!       u64 XXH3-64 of its directory   u64 bytes of the filter without its records
//!       4096    header page of the filter, as far as it is known; then its sources section
//!       s * 40  as in the counts, of all shares
//!       p parts 16 bytes digest, u16 length and name of the piece
//!
//!   u64 XXH3-64 of all bytes before
//! ```
//!
//! The parts are in the order of their names and digests.

use twox_hash::XxHash3_64;

use super::super::delta::is_derived;
use super::super::digest::{DIGEST_BYTES, Digest};
use super::super::error::Fault;
use super::super::fields::{Fields, is_plain, put_text};
use super::super::format::{self, HEADER_BYTES, Header, MAX_NAME, SHARE_MAGIC, Sections, Spec};
use super::super::sizing::Shape;
use super::super::sources::{self, MAX_SOURCES};
use super::number::{Share, ShareKind};

/// Version of the layout.
const VERSION: u32 = 1;

/// Size of the part that counts and pages have in common.
pub(super) const PRELUDE_BYTES: usize = 80;
/// Size of the checksum at the end.
pub(super) const SUM_BYTES: usize = 8;
/// Maximum size of a head: for the maximum number of sources and parts, with long names.
pub(super) const MAX_HEAD_BYTES: u64 = 512 << 20;
/// Maximum number of parts of a merge in shares.
pub(crate) const MAX_PARTS: usize = 1 << 20;

/// What a share was made from: equal in all shares of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    /// Distinguishes one set of parts from another.
    pub(crate) parts: Digest,
    /// Entries are left out if they expire on this day (counted from 1970) or before.
    pub(crate) day: u16,
}

/// The number of entries of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceCounts {
    /// Entries whose record names this source, by kind.
    pub(crate) kinds: [u64; 4],
    /// Entries that were left out because they have expired.
    pub(crate) expired: u64,
}

/// The number of entries in a share of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) share: Share,
    pub(crate) basis: Basis,
    /// Whether some records have other dates than the first one.
    pub(crate) dated: bool,
    pub(crate) sources: Vec<SourceCounts>,
    /// Number of records of each part, duplicates and expired ones included.
    pub(crate) records: Vec<u64>,
}

/// The head of a share of the pages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PagesHead {
    pub(crate) share: Share,
    pub(crate) basis: Basis,
    /// The header of the filter, with its sources; without its name, generation, time and sums.
    pub(crate) header: Header,
    /// The counts of the whole filter.
    pub(crate) sources: Vec<SourceCounts>,
    /// Name and digest of each piece.
    pub(crate) pieces: Vec<(String, u128)>,
    pub(crate) body: Body,
}

/// What follows the head of a share of the pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) entries: u64,
    pub(super) set_bits: u64,
    pub(super) records_bytes: u64,
    pub(super) sums_sum: u64,
    pub(super) directory_sum: u64,
}

fn damaged(what: &'static str) -> Fault {
    Fault::DamagedShare { what }
}

/// Returns the fault of a head with impossible fields.
fn malformed() -> Fault {
    damaged("its head is malformed")
}

/// The beginning of both kinds.
struct Prelude {
    share: Share,
    basis: Basis,
    dated: bool,
    sources: usize,
    parts: usize,
}

impl Prelude {
    fn encode(&self, kind: ShareKind) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&SHARE_MAGIC);
        for value in [VERSION, kind.number()] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        // `seal` fills this in.
        out.extend_from_slice(&[0; 8]);
        for value in [self.share.number(), self.share.of()] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.basis.parts.0);
        for value in [self.basis.day, u16::from(self.dated)] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for count in [self.sources, self.parts] {
            let count = u32::try_from(count).expect("sources and parts were counted before");
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        out
    }

    /// Decodes the fields after the length of the head.
    fn decode(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        let (number, of) = (fields.u32()?, fields.u32()?);
        let share = Share::new(number, of).ok_or_else(malformed)?;
        let parts = Digest(fields.array::<DIGEST_BYTES>()?);
        let day = fields.u16()?;
        let dated = match fields.u16()? {
            0 => false,
            1 => true,
            _ => return Err(malformed()),
        };
        let mut count = |most: usize| {
            let count = usize::try_from(fields.u32()?).unwrap_or(usize::MAX);
            match count <= most {
                true => Ok(count),
                false => Err(malformed()),
            }
        };
        let (sources, part_count) = (count(MAX_SOURCES)?, count(MAX_PARTS)?);
        if fields.u32()? != 0 {
            return Err(malformed());
        }
        Ok(Self {
            share,
            basis: Basis { parts, day },
            dated,
            sources,
            parts: part_count,
        })
    }
}

/// Returns the kind of a share and the length of its head, from its first bytes.
pub(super) fn kind_and_length(prelude: &[u8; PRELUDE_BYTES]) -> Result<(ShareKind, u64), Fault> {
    let mut fields = Fields(prelude);
    let _magic: [u8; 8] = fields.array()?;
    let found = fields.u32()?;
    if found != VERSION {
        let known = VERSION;
        return Err(Fault::ShareVersion { found, known });
    }
    let kind = ShareKind::of_number(fields.u32()?).ok_or_else(malformed)?;
    Ok((kind, fields.u64()?))
}

/// Returns the fields of a whole head between its length and its checksum, which is checked.
fn fields(head: &[u8]) -> Result<Fields<'_>, Fault> {
    let summed = head.len().checked_sub(SUM_BYTES);
    let (summed, sum) = summed
        .and_then(|at| head.split_at_checked(at))
        .ok_or_else(malformed)?;
    if XxHash3_64::oneshot(summed).to_le_bytes() != sum {
        return Err(damaged("its head does not match its checksum"));
    }
    // The first 24 bytes are magic, version, kind and length.
    summed.get(24..).map(Fields).ok_or_else(malformed)
}

/// Sets the length and appends the checksum.
fn seal(mut head: Vec<u8>) -> Vec<u8> {
    let length = (head.len() + SUM_BYTES) as u64;
    head[16..24].copy_from_slice(&length.to_le_bytes());
    let sum = XxHash3_64::oneshot(&head);
    head.extend_from_slice(&sum.to_le_bytes());
    head
}

fn put_counts(out: &mut Vec<u8>, sources: &[SourceCounts]) {
    for source in sources {
        for count in source.kinds.iter().chain([&source.expired]) {
            out.extend_from_slice(&count.to_le_bytes());
        }
    }
}

/// Reads the counts of the sources. Their number was checked; memory grows as they are read.
fn take_counts(fields: &mut Fields<'_>, sources: usize) -> Result<Vec<SourceCounts>, Fault> {
    let mut counts = Vec::new();
    for _ in 0..sources {
        let mut kinds = [0; 4];
        for count in &mut kinds {
            *count = fields.u64()?;
        }
        let expired = fields.u64()?;
        counts.push(SourceCounts { kinds, expired });
    }
    Ok(counts)
}

impl Counts {
    pub(super) fn encode(&self) -> Vec<u8> {
        let prelude = Prelude {
            share: self.share,
            basis: self.basis,
            dated: self.dated,
            sources: self.sources.len(),
            parts: self.records.len(),
        };
        let mut out = prelude.encode(ShareKind::Counts);
        put_counts(&mut out, &self.sources);
        for records in &self.records {
            out.extend_from_slice(&records.to_le_bytes());
        }
        seal(out)
    }

    pub(super) fn decode(head: &[u8]) -> Result<Self, Fault> {
        let mut fields = fields(head)?;
        let prelude = Prelude::decode(&mut fields)?;
        let sources = take_counts(&mut fields, prelude.sources)?;
        let mut records = Vec::new();
        for _ in 0..prelude.parts {
            records.push(fields.u64()?);
        }
        if !fields.0.is_empty() {
            return Err(malformed());
        }
        let counts = Self {
            share: prelude.share,
            basis: prelude.basis,
            dated: prelude.dated,
            sources,
            records,
        };
        let all = sum(counts.records.iter().copied());
        match (entries(&counts.sources), all) {
            // Their sum fits into 64 bits: this was checked.
            (Some((entries, expired)), Some(all)) if entries + expired <= all => Ok(counts),
            _ => Err(damaged("it counts more entries than records")),
        }
    }

    /// Returns the number of distinct entries.
    pub(crate) fn entries(&self) -> u64 {
        entries(&self.sources).map_or(0, |(entries, _)| entries)
    }
}

/// Returns the entries and expired entries of all sources, if their sum fits into 64 bits.
fn entries(sources: &[SourceCounts]) -> Option<(u64, u64)> {
    let entries = sum(sources.iter().flat_map(|source| source.kinds))?;
    let expired = sum(sources.iter().map(|source| source.expired))?;
    entries.checked_add(expired)?;
    Some((entries, expired))
}

fn sum(mut counts: impl Iterator<Item = u64>) -> Option<u64> {
    counts.try_fold(0, u64::checked_add)
}

impl PagesHead {
    /// Returns the head of pages that are not written yet, for a filter with this many entries and
    /// this shape.
    pub(crate) fn new(
        (share, basis): (Share, Basis),
        (spec, entries, shape): (Spec, u64, Shape),
        sources: Vec<SourceCounts>,
        pieces: Vec<(String, u128)>,
    ) -> Self {
        let header = Header {
            spec,
            shape,
            entries,
            estimated: false,
            set_bits: 0,
            part: None,
            sections: Sections::default(),
        };
        Self {
            share,
            basis,
            header,
            sources,
            pieces,
            body: Body::default(),
        }
    }

    /// Returns whether both are shares of one merge.
    pub(crate) fn is_of_merge(&self, other: &Self) -> bool {
        let merge = |head: &Self| (head.share.of(), head.basis);
        merge(self) == merge(other)
            && self.header == other.header
            && self.sources == other.sources
            && self.pieces == other.pieces
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let prelude = Prelude {
            share: self.share,
            basis: self.basis,
            dated: false,
            sources: self.sources.len(),
            parts: self.pieces.len(),
        };
        let listed = sources::encode(&self.header.spec.sources);
        let blocks = self.header.shape.pages;
        let mut sections = Sections::lay_out(blocks, blocks, listed.len() as u64, 0);
        sections.sources.sum = XxHash3_64::oneshot(&listed);
        let bytes = sections.records.end();
        let header = Header {
            sections,
            ..self.header.clone()
        };
        let mut out = prelude.encode(ShareKind::Pages);
        let body = self.body;
        for value in [
            body.entries,
            body.set_bits,
            body.records_bytes,
            body.sums_sum,
            body.directory_sum,
            bytes,
        ] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&format::encode_header(&header));
        out.extend_from_slice(&listed);
        put_counts(&mut out, &self.sources);
        for (name, digest) in &self.pieces {
            out.extend_from_slice(&digest.to_le_bytes());
            put_text(&mut out, name);
        }
        seal(out)
    }

    /// Decodes a head. Checks every field, and that the size of the filter follows from its entries
    /// and rate.
    pub(super) fn decode(head: &[u8]) -> Result<Self, Fault> {
        let mut fields = fields(head)?;
        let prelude = Prelude::decode(&mut fields)?;
        let body = Body {
            entries: fields.u64()?,
            set_bits: fields.u64()?,
            records_bytes: fields.u64()?,
            sums_sum: fields.u64()?,
            directory_sum: fields.u64()?,
        };
        let bytes = fields.u64()?;
        let page = fields.array::<HEADER_BYTES>()?;
        let (mut header, source_count) = format::decode_header(&page, bytes)?;
        let section = header.sections.sources;
        let listed = usize::try_from(section.length)
            .ok()
            .and_then(|length| fields.0.split_at_checked(length));
        let (listed, rest) = listed.ok_or_else(malformed)?;
        if XxHash3_64::oneshot(listed) != section.sum {
            return Err(Fault::Sum { part: "sources" });
        }
        header.spec.sources = sources::decode(listed, source_count)?;
        fields = Fields(rest);
        let counts = take_counts(&mut fields, prelude.sources)?;
        let mut pieces = Vec::new();
        for _ in 0..prelude.parts {
            let digest = u128::from_le_bytes(fields.array()?);
            let name = fields.text(MAX_NAME).filter(|name| is_plain(name));
            pieces.push((name.ok_or_else(malformed)?, digest));
        }
        if !fields.0.is_empty() || header.spec.sources.len() != counts.len() || prelude.dated {
            return Err(malformed());
        }
        let whole = Self {
            share: prelude.share,
            basis: prelude.basis,
            header,
            sources: counts,
            pieces,
            body,
        };
        whole.check_sizes()?;
        Ok(whole)
    }

    fn check_sizes(&self) -> Result<(), Fault> {
        let Header { spec, entries, .. } = &self.header;
        if !is_derived(&self.header) {
            return Err(damaged("its pages do not follow from its entries"));
        }
        let adds_up = self::entries(&self.sources).is_some_and(|(counted, expired)| {
            counted == *entries && entries.checked_add(expired).is_some()
        });
        let kinds = (0_u32..4).all(|kind| {
            let is_there = self
                .sources
                .iter()
                .any(|source| source.kinds[kind as usize] > 0);
            is_there == (spec.kinds >> kind & 1 == 1)
        });
        // Expired entries no longer count among the entries of a source.
        let fits = spec
            .sources
            .iter()
            .zip(&self.sources)
            .all(|(source, counts)| source.entries.checked_add(counts.expired).is_some());
        if !adds_up || !kinds || spec.kinds > 15 || !fits || self.body.entries > *entries {
            return Err(damaged("its counts do not add up"));
        }
        if self.body.records_bytes >= 1 << 62 {
            return Err(malformed());
        }
        Ok(())
    }

    /// Returns the sections of these pages, after a head of `head_bytes`.
    pub(super) fn sections(&self, head_bytes: u64) -> Sections {
        let pages = self.share.pages(self.header.shape.pages);
        let count = pages.end - pages.start;
        Sections::lay_out_behind(head_bytes, count, count, 0, self.body.records_bytes)
    }
}
