//! The head of a delta: the two filters, and the classes that its edits refer to.
//!
//! ```text
//!   32   identity of OLD: SHA-256 of its header page
//!   u64  generation of OLD
//!   32   SHA-256 of NEW, the whole file
//!   u64  bytes of NEW
//!   4096 header page of NEW; then its sources section
//!   u16  day: records of OLD that expire on it or before are not in NEW
//!   u32  pairs of classes, 10 + 10 bytes each: old and new class of records that no edit names
//!   u32  classes that edits give to records of OLD, 10 bytes each
//!   u32  classes of added records, 10 bytes each
//!   u64  records of OLD that edits name;  u64 added records
//! ```
//!
//! It is compressed (zlib): a header page is mostly zeros, and sources are text. Lists of classes
//! begin with the most frequent, whose number takes the fewest bits.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use twox_hash::XxHash3_64;

use super::super::digest::{DIGEST_BYTES, Digest};
use super::super::error::Problem;
use super::super::fields::Fields;
use super::super::format::{self, HEADER_BYTES, Header, SOURCES};
use super::super::record::{CLASS_BYTES, Class};
use super::super::sizing;
use super::super::sources;

/// Maximum number of classes in a list: every day of 11 years for 256 sources.
pub const MAX_CLASSES: usize = 1 << 20;

/// The data of a delta before its edits, in the order of the table above.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub old: Digest,
    pub old_generation: u64,
    pub digest: Digest,
    pub new: Header,
    pub expired: u16,
    pub mapped: Vec<(Class, Class)>,
    pub changed: Vec<Class>,
    pub added: Vec<Class>,
    pub touched_count: u64,
    pub added_count: u64,
}

impl Head {
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
        out.write_all(&self.old.0)?;
        out.write_all(&self.old_generation.to_le_bytes())?;
        out.write_all(&self.digest.0)?;
        out.write_all(&self.new.file_bytes().to_le_bytes())?;
        out.write_all(&format::encode_header(&self.new))?;
        out.write_all(&sources::encode(&self.new.spec.sources))?;
        out.write_all(&self.expired.to_le_bytes())?;
        out.write_all(&count(self.mapped.len())?)?;
        for (old, new) in &self.mapped {
            out.write_all(&old.encode())?;
            out.write_all(&new.encode())?;
        }
        for classes in [&self.changed, &self.added] {
            out.write_all(&count(classes.len())?)?;
            for class in classes {
                out.write_all(&class.encode())?;
            }
        }
        out.write_all(&self.touched_count.to_le_bytes())?;
        out.write_all(&self.added_count.to_le_bytes())?;
        out.finish()
    }

    /// Decodes a head and checks every field. Memory grows as bytes are read, and lists have a
    /// maximum length.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Problem> {
        let mut fields = Fields::new(ZlibDecoder::new(bytes), MALFORMED);
        let old = Digest(fields.array::<DIGEST_BYTES>()?);
        let old_generation = fields.u64()?;
        let digest = Digest(fields.array::<DIGEST_BYTES>()?);
        let new_bytes = fields.u64()?;
        let header = fields.array::<HEADER_BYTES>()?;
        let (mut new, source_count) = format::decode_header(&header, new_bytes)?;
        let sources = new.sections[SOURCES];
        // Its length was checked together with the header.
        let listed = fields.bytes(sources.length)?;
        if XxHash3_64::oneshot(&listed) != sources.sum {
            return Err(Problem::sum("sources"));
        }
        new.spec.sources = sources::decode(&listed, source_count)?;
        if !is_derived(&new) {
            return Err(Problem::Delta(
                "it makes a filter without records, or with an unexpected number of pages",
            ));
        }
        let expired = fields.u16()?;
        let mut mapped = Vec::new();
        for _ in 0..length(&mut fields)? {
            mapped.push((class(&mut fields)?, class(&mut fields)?));
        }
        let mut classes = || -> Result<Vec<_>, Problem> {
            let count = length(&mut fields)?;
            (0..count).map(|_| class(&mut fields)).collect()
        };
        let (changed, added) = (classes()?, classes()?);
        let head = Self {
            old,
            old_generation,
            digest,
            new,
            expired,
            mapped,
            changed,
            added,
            touched_count: fields.u64()?,
            added_count: fields.u64()?,
        };
        fields.end()?;
        Ok(head)
    }
}

/// Returns whether size and pages of a filter follow from its entries and rate. Then it can be made
/// again from its records, and a delta cannot demand more pages than those need.
pub fn is_derived(header: &Header) -> bool {
    header.spec.records
        && header.part.is_none()
        && !header.estimated
        && header.shape == sizing::shape(header.entries, header.spec.fpr)
}

fn count(length: usize) -> io::Result<[u8; 4]> {
    let length = u32::try_from(length).map_err(io::Error::other)?;
    Ok(length.to_le_bytes())
}

const MALFORMED: Problem = Problem::Delta("its head is malformed");

fn length(fields: &mut Fields<impl Read, Problem>) -> Result<u32, Problem> {
    let length = fields.u32()?;
    match length as usize <= MAX_CLASSES {
        true => Ok(length),
        false => Err(MALFORMED),
    }
}

fn class(fields: &mut Fields<impl Read, Problem>) -> Result<Class, Problem> {
    let bytes = fields.array::<CLASS_BYTES>()?;
    Class::decode(&bytes).map_err(Problem::Delta)
}
