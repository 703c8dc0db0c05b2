//! ZIP and tar archives of lists: each file in an archive is a list of its own.
//!
//! A tar archive may be compressed as a whole (`lists.tar.gz`). A file in an archive must be text: one
//! that is compressed again or encrypted, or an archive, is an error that names it. Limits:
//! [`MAX_MEMBERS`], the ratio of [`packed`](super::packed), and the work of reading a tar archive from
//! its start once for each list.
//!
//! Only a regular file is read as an archive, since the directory of a ZIP archive is at its end,
//! and each list is read from its position. That file must stay as it was when its directory was read: in
//! another one, there are other lists at these positions, and a tar archive has no checksum of them.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::Ordering;

use flate2::CrcReader;
use flate2::read::DeflateDecoder;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::packed::{Metered, first_bytes, invalid, is_packed, is_tar, refuse_bomb, unpacked};
use super::{changed, decoded};
use blocklist_filter::base::access::open_regular;
use blocklist_filter::base::file_state::FileState;

/// Maximum number of files in an archive.
pub const MAX_MEMBERS: usize = 1_000;
/// Maximum number of bytes unpacked to reach every list of a tar archive from its start.
const MAX_TAR_BYTES: u64 = 1 << 40;
/// A block of a tar archive; its header has the mark of POSIX.1-1988 ("ustar") at byte 257.
const TAR_BLOCK_BYTES: u64 = 512;

/// One file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path in the archive, unchanged.
    pub name: Vec<u8>,
    /// Its size in bytes, unpacked.
    pub size_bytes: u64,
    /// Where its bytes begin in a ZIP archive on disk, or in an unpacked tar archive.
    start: u64,
    /// How they are written in a ZIP archive.
    zipped: Option<Zipped>,
    /// The state of the archive when its directory was read.
    archive: FileState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Zipped {
    bytes: u64,
    is_deflated: bool,
    crc: u32,
}

/// Returns the files of an archive in its order; `None` if `path` is not an archive, or not a regular file.
///
/// # Errors
/// When the archive cannot be read to its end, or holds what is not supported: see the module.
pub fn members(path: &Path) -> io::Result<Option<Vec<Member>>> {
    if path.as_os_str() == "-" || !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut file = open_regular(path)?;
    let state = FileState::of_open(&file)?;
    let head = first_bytes(&mut file, 4)?;
    file.rewind()?;
    let members = if matches!(head.as_slice(), b"PK\x03\x04" | b"PK\x05\x06") {
        zip_members(file.try_clone()?, state)
    } else {
        let mut content = unpacked(file.try_clone()?)?;
        match first_bytes(&mut content, TAR_BLOCK_BYTES) {
            Ok(head) if is_tar(&head) => tar_members(Cursor::new(head).chain(content), state),
            // The reader of the list reports what is wrong with it.
            _ => return Ok(None),
        }
    };
    // Also in place of what is wrong with half an archive.
    unchanged(&file, state)?;
    members.map(Some)
}

/// Fails if an archive is no longer as it was.
fn unchanged(file: &File, state: FileState) -> io::Result<()> {
    match FileState::of_open(file)? == state {
        true => Ok(()),
        false => Err(changed()),
    }
}

/// Opens a list of an archive.
///
/// # Errors
/// When it cannot be read, is compressed again, or the archive has changed since its directory was read.
pub fn open_member(path: &Path, member: &Member) -> io::Result<Box<dyn Read + Send>> {
    let file = open_regular(path)?;
    let opened = open_at(&file, member);
    // Also in place of what is wrong there now.
    unchanged(&file, member.archive)?;
    opened
}

fn open_at(file: &File, member: &Member) -> io::Result<Box<dyn Read + Send>> {
    let mut archive = file.try_clone()?;
    let content: Box<dyn Read + Send> = match member.zipped {
        Some(zipped) => {
            archive.seek(SeekFrom::Start(member.start))?;
            let packed = archive.take(zipped.bytes);
            match zipped.is_deflated {
                true => Box::new(DeflateDecoder::new(packed)),
                false => Box::new(packed),
            }
        }
        None => {
            let mut archive = unpacked(archive)?;
            io::copy(&mut archive.by_ref().take(member.start), &mut io::sink())?;
            archive
        }
    };
    let mut content = Checked {
        content: CrcReader::new(content),
        left_bytes: member.size_bytes,
        crc: member.zipped.map(|zipped| zipped.crc),
        archive: (file.try_clone()?, member.archive),
    };
    let head = first_bytes(&mut content, 8)?;
    if is_packed(&head) {
        return Err(invalid(
            "is compressed again inside the archive; decompress it first",
        ));
    }
    decoded(Cursor::new(head).chain(content))
}

/// Reads exactly as many bytes as the archive says, and checks their checksum if it has one, and that the
/// archive did not change.
struct Checked<R> {
    content: CrcReader<R>,
    left_bytes: u64,
    crc: Option<u32>,
    archive: (File, FileState),
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        let room = buffer.len().min(most);
        let Some(buffer) = buffer.get_mut(..room).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let read = self.content.read(buffer);
        self.left_bytes -= read.as_ref().map_or(0, |count| *count as u64);
        let is_at_end = self.left_bytes == 0;
        if is_at_end || !matches!(read, Ok(1..)) {
            unchanged(&self.archive.0, self.archive.1)?;
        }
        let count = read?;
        if count == 0 || is_at_end && self.crc.is_some_and(|crc| crc != self.content.crc().sum()) {
            return Err(invalid(
                "the archive is damaged or truncated; download it again",
            ));
        }
        Ok(count)
    }
}

fn zip_members(file: File, state: FileState) -> io::Result<Vec<Member>> {
    let damaged = |error: ZipError| damaged("ZIP", &error);
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    if archive.len() > MAX_MEMBERS {
        return Err(too_many());
    }
    let mut members = Vec::with_capacity(archive.len());
    for number in 0..archive.len() {
        let member = archive.by_index_raw(number).map_err(damaged)?;
        let name = member.name_raw().to_vec();
        if member.is_dir() {
            continue;
        }
        let refused = |why: &str| Err(refused(&name, why));
        if member.encrypted() {
            return refused("is encrypted");
        }
        if member.is_symlink() {
            return refused("is a symbolic link");
        }
        let is_deflated = match member.compression() {
            CompressionMethod::DEFLATE => true,
            CompressionMethod::Stored => false,
            other => return refused(&format!("is compressed by method {other}")),
        };
        let (bytes, size_bytes, crc) = (member.compressed_size(), member.size(), member.crc32());
        refuse_bomb(bytes, size_bytes)
            .map_err(|error| invalid(format!("{}: {error}", name.escape_ascii())))?;
        let Some(start) = member.data_start() else {
            return refused("has a path that leads out of the archive");
        };
        let zipped = Zipped {
            bytes,
            is_deflated,
            crc,
        };
        members.push(Member {
            name,
            size_bytes,
            start,
            zipped: Some(zipped),
            archive: state,
        });
    }
    Ok(members)
}

fn tar_members(content: impl Read, state: FileState) -> io::Result<Vec<Member>> {
    let damaged = |error: io::Error| damaged("tar", &error);
    let mut archive = tar::Archive::new(Metered::new(content));
    let mut members = Vec::new();
    let (mut work_bytes, mut blocks) = (0_u64, 0);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        let start = entry.raw_file_position();
        let end = start.saturating_add(entry.size());
        blocks = end.div_ceil(TAR_BLOCK_BYTES);
        if kind.is_dir() || kind.is_pax_global_extensions() {
            continue;
        }
        if !kind.is_file() && !kind.is_contiguous() {
            return Err(refused(&name, "is not a regular file"));
        }
        work_bytes = work_bytes.saturating_add(end);
        if members.len() == MAX_MEMBERS || work_bytes > MAX_TAR_BYTES {
            return Err(too_many());
        }
        members.push(Member {
            name,
            size_bytes: entry.size(),
            start,
            zipped: None,
            archive: state,
        });
        // Reads to the end, so that a truncated archive is not taken for a shorter one.
        io::copy(&mut entry, &mut io::sink()).map_err(damaged)?;
    }
    // An archive that is cut off between two files only lacks the blocks of zeros at its end.
    let read_bytes = archive.into_inner().bytes.load(Ordering::Relaxed);
    if read_bytes / TAR_BLOCK_BYTES <= blocks {
        return Err(damaged(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(members)
}

fn damaged(kind: &str, error: &dyn Display) -> io::Error {
    invalid(format!(
        "the {kind} archive is damaged or truncated ({error}); download it again"
    ))
}

fn refused(name: &[u8], why: &str) -> io::Error {
    let name = name.escape_ascii();
    invalid(format!("{name}: {why}; unpack it first"))
}

fn too_many() -> io::Error {
    invalid(format!(
        "holds more than {MAX_MEMBERS} files, or too many for their size; unpack it first"
    ))
}
