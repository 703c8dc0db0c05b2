//! The file layout: encodes and decodes the header. Works on slices only.
//!
//! All numbers are little-endian. The sections follow each other without gaps, and the file ends
//! with the last one, so every offset and length can be checked before any section is read.
//! `contrib/filter-format.md` describes the same for readers of other programs.
//!
//! ```text
//!   header      4096                one page, below
//!   pages       pages * 4096        Bloom bits; pages start at multiples of 4096
//!   sums        pages * 8           XXH3-64 of each page
//!   directory   pages * 16          per page: u64 end of its records, u64 their XXH3-64
//!   sources     as it is            name, file, licence, counts of each input list
//!   records     as it is            blocks in page order, see `records`
//!
//!   header:  0  magic        8      24  generation  u64     80  bits set    u64
//!            8  version      u32    32  built       u64     88  sources     u32
//!           12  header size  u32    40  seed        u64     92  zero        u32
//!           16  rules version u16   48  fpr         f64     96  5 sections: u64 offset,
//!           18  rules        u8     56  entries     u64         u64 length, u64 XXH3-64
//!           19  kinds        u8     64  pages       u64    216  name length u16, name
//!           20  flags        u32    72  probes      u32         zeros
//!                                   76  page size   u32   4088  XXH3-64 of 0..4088
//! ```
//!
//! Pages and records are checksummed page by page, in the sums and the directory; their own
//! checksum in the section table is 0. Without records (flag 0 clear), directory and records are
//! empty.
//!
//! A part of a list (flag 3, see `file`) has no pages and no sums, and the digest of its
//! input at offset 4072. Flag 2 marks parts of an earlier layout.

use twox_hash::XxHash3_64;

use super::digest::Digest;
use super::error::Problem;
use super::fields::{Fields, is_plain, put_text};
use super::page::{PAGE_BITS, PAGE_BYTES};
use super::sizing::{MAX_PAGES, MAX_PROBES, RATES, Shape};
use super::sources::{self, MAX_SOURCES, MAX_SOURCES_BYTES, Source};

/// Version of the layout that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// First bytes of a filter file. The first byte is not ASCII, and there are different line ends, so
/// that a transfer as text is noticed at once (the idea is from PNG).
pub const MAGIC: [u8; 8] = *b"\x89blf\r\n\x1a\n";

/// Size of the header.
pub const HEADER_BYTES: usize = PAGE_BYTES;

/// Maximum length of a list name in bytes.
pub const MAX_NAME: usize = 255;

/// What a filter is made for: all that is known before its entries are counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Name of the list: at most 255 bytes, no control characters.
    pub name: String,
    /// Number of the build of the list, which rises with each one.
    pub generation: u64,
    /// When it was built, in seconds since 1970.
    pub built: u64,
    /// Seed of the keys. It is a secret: who knows it can find addresses whose bits collide with those of others.
    pub seed: u64,
    /// Version of the address rules that made the keys.
    pub rules_version: u16,
    /// Options of those rules, as [`Rules::bits`](crate::address::Rules::bits) has them.
    pub rules: u8,
    /// Kinds of entry present: bit n for [`Kind`](crate::address::Kind) n.
    pub kinds: u8,
    /// Target false-positive rate of the pages, within [`RATES`].
    pub fpr: f64,
    /// Whether exact records are kept.
    pub records: bool,
    /// The input lists, at most 2^20; a record refers to its source by its position here.
    pub sources: Vec<Source>,
}

/// The whole header of a filter, with its sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// What the filter was made for.
    pub spec: Spec,
    /// Number of pages and probes.
    pub shape: Shape,
    /// Number of distinct entries.
    pub entries: u64,
    /// Whether the number of entries is estimated, not counted: in a union of pages without
    /// records. No such file is written any longer.
    pub estimated: bool,
    /// Number of bits set in all pages.
    pub set_bits: u64,
    /// For a part of a list: the XXH3-128 of the text it was made from.
    pub part: Option<u128>,
    pub(super) sections: Sections,
}

impl Header {
    /// Returns the size of the whole file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.sections[RECORDS].end()
    }

    /// Returns whether both were built from the same entries with the same seed.
    #[doc(hidden)]
    pub fn has_entries_of(&self, other: &Self) -> bool {
        // The checksum over the sums of the pages.
        let entries = |header: &Self| (header.spec.seed, header.entries, header.sections[SUMS].sum);
        entries(self) == entries(other)
    }

    /// Returns whether two parts of a list, or two filters of one shape, have equal records and
    /// sources.
    #[doc(hidden)]
    pub fn has_records_of(&self, other: &Self) -> bool {
        self.has_equal_records(other) && self.sections[SOURCES].sum == other.sections[SOURCES].sum
    }

    /// Returns whether they have equal records, whatever their sources are called.
    #[doc(hidden)]
    pub fn has_equal_records(&self, other: &Self) -> bool {
        // The checksum over the sums of the records.
        let records = |header: &Self| (header.entries, header.sections[DIRECTORY].sum);
        records(self) == records(other)
    }

    /// Returns the SHA-256 of the header page. The header contains the checksums of all sections,
    /// so this distinguishes files without reading all of them.
    pub fn identity(&self) -> Digest {
        Digest::of(&encode_header(self))
    }

    /// Returns the size of the Bloom pages in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.sections[PAGES].length
    }

    /// Returns the size of the records and their directory in bytes.
    pub fn record_bytes(&self) -> u64 {
        self.sections[DIRECTORY].length + self.sections[RECORDS].length
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) sum: u64,
}

impl Section {
    pub(super) fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

pub(super) type Sections = [Section; 5];
pub(super) const PAGES: usize = 0;
pub(super) const SUMS: usize = 1;
pub(super) const DIRECTORY: usize = 2;
pub(super) const SOURCES: usize = 3;
pub(super) const RECORDS: usize = 4;

pub(super) const SUM_BYTES: u64 = 8;
pub(super) const SLOT_BYTES: u64 = 16;

/// Returns the only valid order and size of the sections for this many pages of bits and blocks of
/// records. The caller must set the sums.
pub(super) fn lay_out(pages: u64, blocks: u64, sources: u64, records_bytes: u64) -> Sections {
    let (bits, sums) = (pages * PAGE_BYTES as u64, pages * SUM_BYTES);
    let lengths = [bits, sums, blocks * SLOT_BYTES, sources, records_bytes];
    let (mut offset, sum) = (HEADER_BYTES as u64, 0);
    lengths.map(|length| {
        let section = Section {
            offset,
            length,
            sum,
        };
        offset = section.end();
        section
    })
}

/// Size of a page and of the header, as their fields store it.
const PAGE_SIZE: u32 = PAGE_BITS / 8;
const FLAG_RECORDS: u32 = 1;
const FLAG_ESTIMATED: u32 = 2;
const FLAG_OLD_PART: u32 = 4;
const FLAG_PART: u32 = 8;
const DIGEST_AT: usize = HEADER_BYTES - 24;
const SUM_AT: usize = HEADER_BYTES - 8;

pub(super) fn encode_header(header: &Header) -> Vec<u8> {
    let Header { spec, shape, .. } = header;
    let flags = if spec.records { FLAG_RECORDS } else { 0 }
        | if header.estimated { FLAG_ESTIMATED } else { 0 }
        | header.part.map_or(0, |_| FLAG_PART);
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&PAGE_SIZE.to_le_bytes());
    out.extend_from_slice(&spec.rules_version.to_le_bytes());
    out.extend_from_slice(&[spec.rules, spec.kinds]);
    out.extend_from_slice(&flags.to_le_bytes());
    for value in [spec.generation, spec.built, spec.seed] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    out.extend_from_slice(&spec.fpr.to_le_bytes());
    out.extend_from_slice(&header.entries.to_le_bytes());
    out.extend_from_slice(&shape.pages.to_le_bytes());
    out.extend_from_slice(&shape.probes.to_le_bytes());
    out.extend_from_slice(&PAGE_SIZE.to_le_bytes());
    out.extend_from_slice(&header.set_bits.to_le_bytes());
    let sources = u32::try_from(spec.sources.len()).expect("checked by check_spec");
    out.extend_from_slice(&sources.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for section in header.sections {
        for value in [section.offset, section.length, section.sum] {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
    put_text(&mut out, &spec.name);
    out.resize(DIGEST_AT, 0);
    out.extend_from_slice(&header.part.unwrap_or(0).to_le_bytes());
    let sum = XxHash3_64::oneshot(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Decodes the header of a file of `file_bytes`, and checks each field; zeros stand for what a short file
/// lacks. The caller must read the sources, whose number is returned.
pub(super) fn decode_header(
    bytes: &[u8; HEADER_BYTES],
    file_bytes: u64,
) -> Result<(Header, u32), Problem> {
    let mut fields = Fields::new(bytes.as_slice(), Problem::damaged("malformed header"));
    check_version(&mut fields, bytes, file_bytes)?;
    let header_bytes = fields.u32()?;
    let rules_version = fields.u16()?;
    let [rules, kinds] = fields.array()?;
    let flags = fields.u32()?;
    check_flags(flags)?;
    let digest = bytes[DIGEST_AT..].first_chunk().copied();
    let part = digest
        .map(u128::from_le_bytes)
        .filter(|_| flags & FLAG_PART != 0);
    let mut spec = Spec {
        name: String::new(),
        generation: fields.u64()?,
        built: fields.u64()?,
        seed: fields.u64()?,
        rules_version,
        rules,
        kinds,
        fpr: f64::from_le_bytes(fields.array()?),
        records: flags & FLAG_RECORDS != 0,
        sources: Vec::new(),
    };
    let (entries, pages, probes) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let (page_bytes, set_bits) = (fields.u32()?, fields.u64()?);
    let (source_count, zero) = (fields.u32()?, fields.u32()?);
    let mut sections = Sections::default();
    for section in &mut sections {
        section.offset = fields.u64()?;
        section.length = fields.u64()?;
        section.sum = fields.u64()?;
    }
    spec.name = fields.text(MAX_NAME)?;

    let (size, most_bits) = (u64::from(PAGE_SIZE), pages.saturating_mul(PAGE_BITS.into()));
    let (sources_bytes, records_bytes) = (sections[SOURCES].length, sections[RECORDS].length);
    let most_records_bytes = if spec.records { (1 << 62) - 1 } else { 0 };
    for (field, value, possible) in [
        ("header size", header_bytes.into(), size..=size),
        ("pages", pages, 1..=MAX_PAGES),
        ("probes", probes.into(), 1..=MAX_PROBES.into()),
        ("page size", page_bytes.into(), size..=size),
        ("bits set", set_bits, 0..=most_bits),
        ("sources", source_count.into(), 0..=MAX_SOURCES as u64),
        ("zero", zero.into(), 0..=0),
        ("sources length", sources_bytes, 0..=MAX_SOURCES_BYTES),
        ("records length", records_bytes, 0..=most_records_bytes),
    ] {
        check_field(field, value, possible.contains(&value))?;
    }
    check_field("fpr", spec.fpr.to_bits(), RATES.contains(&spec.fpr))?;
    let blocks = if spec.records { pages } else { 0 };
    let bit_pages = if part.is_some() { 0 } else { pages };
    let expected = lay_out(bit_pages, blocks, sources_bytes, records_bytes);
    check_sections(&sections, &expected, file_bytes)?;
    // Memory is planned by the number of entries before any is read, and each record sets a bit.
    let is_possible = !spec.records || entries <= records_bytes.saturating_mul(8);
    check_field("entries", entries, is_possible)?;
    let header = Header {
        spec,
        shape: Shape { pages, probes },
        entries,
        estimated: flags & FLAG_ESTIMATED != 0,
        set_bits,
        part,
        sections,
    };
    Ok((header, source_count))
}

fn check_version(
    fields: &mut Fields<&[u8], Problem>,
    bytes: &[u8; HEADER_BYTES],
    file_bytes: u64,
) -> Result<(), Problem> {
    if fields.array()? != MAGIC {
        return Err(Problem::NotAFilter);
    }
    if file_bytes < HEADER_BYTES as u64 {
        return Err(Problem::size(HEADER_BYTES as u64, file_bytes));
    }
    let found = fields.u32()?;
    if found != FORMAT_VERSION {
        return Err(Problem::unfit(format!(
            "format version {found}, but this program reads {FORMAT_VERSION}: build the filter again, or \
             update the program"
        )));
    }
    let (summed, sum) = bytes.split_at(SUM_AT);
    match XxHash3_64::oneshot(summed).to_le_bytes() == sum {
        true => Ok(()),
        false => Err(Problem::sum("header bytes")),
    }
}

fn check_flags(flags: u32) -> Result<(), Problem> {
    if flags == FLAG_RECORDS | FLAG_OLD_PART {
        return Err(Problem::unfit(
            "one part of a list, made by an earlier version of blocklist-compile: build it again with this one",
        ));
    }
    let is_possible = flags <= FLAG_RECORDS | FLAG_ESTIMATED || flags == FLAG_RECORDS | FLAG_PART;
    check_field("flags", flags.into(), is_possible)
}

fn check_sections(
    sections: &Sections,
    expected: &Sections,
    file_bytes: u64,
) -> Result<(), Problem> {
    let names = ["pages", "sums", "directory", "sources", "records"];
    for ((name, found), expected) in names.into_iter().zip(sections).zip(expected) {
        let is_there = (found.offset, found.length) == (expected.offset, expected.length);
        check_field(name, found.offset, is_there)?;
    }
    match expected[RECORDS].end() {
        end if end == file_bytes => Ok(()),
        end => Err(Problem::size(end, file_bytes)),
    }
}

fn check_field(field: &'static str, value: u64, is_possible: bool) -> Result<(), Problem> {
    match is_possible {
        true => Ok(()),
        false => Err(Problem::damaged(format!(
            "the header's field {field} has the invalid value {value}"
        ))),
    }
}

/// Checks that this can be the name of a list, or of a piece of one.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    match name.len() > MAX_NAME || !is_plain(name) {
        true => Err("the list's name is longer than 255 bytes or holds control characters"),
        false => Ok(()),
    }
}

/// Checks that what a caller wants to write can be read again.
pub(super) fn check_spec(spec: &Spec) -> Result<(), &'static str> {
    check_name(&spec.name)?;
    if !RATES.contains(&spec.fpr) {
        return Err("the false-positive rate is not between 1e-12 and 0.5");
    }
    sources::check(&spec.sources)
}
