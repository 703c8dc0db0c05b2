//! ZIP and tar archives of lists: each file in an archive is a list of its own.
//!
//! A tar archive may be compressed as a whole (`lists.tar.gz`, `.bz2`, `.xz`, `.zst`). A file in an
//! archive must be text: a file that is compressed again or encrypted, or an archive in an archive,
//! is an error that names the file. Limits: [`MAX_MEMBERS`], the ratio of
//! [`packed`](super::packed), and the work of reading a tar archive from its start once for each
//! list.
//!
//! Only a regular file is read as an archive, since the directory of a ZIP archive is at its end,
//! and each list is read from its position.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::Ordering;

use flate2::CrcReader;
use flate2::read::DeflateDecoder;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::decoded;
use super::packed::{Metered, first_bytes, invalid, is_packed, refuse_bomb, unpacked};

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
    place: Place,
}

/// Where its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the archive as it is on disk.
    Zip {
        start: u64,
        packed_bytes: u64,
        deflated: bool,
        crc: u32,
    },
    /// In the unpacked archive.
    Tar { start: u64 },
}

/// Returns the files of an archive in its order; `None` if `path` is not an archive, or not a regular file.
///
/// # Errors
/// When the archive cannot be read to its end, or holds what is not supported: see the module.
pub fn members(path: &Path) -> io::Result<Option<Vec<Member>>> {
    if path.as_os_str() == "-" || !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let head = first_bytes(&mut File::open(path)?, 4)?;
    if matches!(head.as_slice(), b"PK\x03\x04" | b"PK\x05\x06") {
        return zip_members(File::open(path)?).map(Some);
    }
    let mut content = unpacked(File::open(path)?)?;
    // If this is not an archive, the reader of the list reports what is wrong with it.
    match first_bytes(&mut content, TAR_BLOCK_BYTES) {
        Ok(head) if head.get(257..262) == Some(b"ustar") => {
            tar_members(Cursor::new(head).chain(content)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Opens a list of an archive.
///
/// # Errors
/// When it cannot be read, or is compressed again.
pub fn open_member(path: &Path, member: &Member) -> io::Result<Box<dyn Read + Send>> {
    let mut file = File::open(path)?;
    let (content, crc): (Box<dyn Read + Send>, _) = match member.place {
        Place::Zip {
            start,
            packed_bytes,
            deflated,
            crc,
        } => {
            file.seek(SeekFrom::Start(start))?;
            let packed = file.take(packed_bytes);
            match deflated {
                true => (Box::new(DeflateDecoder::new(packed)), Some(crc)),
                false => (Box::new(packed), Some(crc)),
            }
        }
        Place::Tar { start } => {
            let mut archive = unpacked(file)?;
            io::copy(&mut archive.by_ref().take(start), &mut io::sink())?;
            (archive, None)
        }
    };
    let mut content = Checked {
        content: CrcReader::new(content),
        left_bytes: member.size_bytes,
        crc,
    };
    let head = first_bytes(&mut content, 8)?;
    if is_packed(&head) {
        return Err(invalid(
            "is compressed again inside the archive; decompress it first",
        ));
    }
    decoded(Cursor::new(head).chain(content))
}

/// Reads exactly as many bytes as the archive says, and checks their checksum if it has one.
struct Checked<R> {
    content: CrcReader<R>,
    left_bytes: u64,
    crc: Option<u32>,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        let room = buffer.len().min(most);
        let Some(buffer) = buffer.get_mut(..room).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let count = self.content.read(buffer)?;
        self.left_bytes -= count as u64;
        let is_at_end = self.left_bytes == 0;
        if count == 0 || is_at_end && self.crc.is_some_and(|crc| crc != self.content.crc().sum()) {
            return Err(invalid(
                "the archive is damaged or truncated; download it again",
            ));
        }
        Ok(count)
    }
}

fn zip_members(file: File) -> io::Result<Vec<Member>> {
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
        let deflated = match member.compression() {
            CompressionMethod::DEFLATE => true,
            CompressionMethod::Stored => false,
            other => return refused(&format!("is compressed by method {other}")),
        };
        let (packed_bytes, size_bytes) = (member.compressed_size(), member.size());
        refuse_bomb(packed_bytes, size_bytes)
            .map_err(|error| invalid(format!("{}: {error}", name.escape_ascii())))?;
        let Some(start) = member.data_start() else {
            return refused("has a path that leads out of the archive");
        };
        members.push(Member {
            place: Place::Zip {
                start,
                packed_bytes,
                deflated,
                crc: member.crc32(),
            },
            name,
            size_bytes,
        });
    }
    Ok(members)
}

fn tar_members(content: impl Read) -> io::Result<Vec<Member>> {
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
            place: Place::Tar { start },
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::PathBuf;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::unpack::packed::testing::gzip;

    const FILES: [(&str, &[u8]); 3] = [
        ("lists/one.txt", b"a@b.example\n"),
        ("lists/two.txt", b""),
        ("three.txt", b"c@d.example\ne@f.example\n"),
    ];

    type Writer = ZipWriter<Cursor<Vec<u8>>>;

    fn zip(method: CompressionMethod) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(method);
        writer.add_directory("lists", options).unwrap();
        for (name, content) in FILES {
            writer.start_file(name, options).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn tar() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in FILES {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, name, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn file(folder: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
        let path = folder.path().join("archive");
        fs::write(&path, bytes).unwrap();
        path
    }

    fn contents(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
        let members = members(path)?.unwrap_or_default();
        let contents = members.iter().map(|member| {
            let mut content = Vec::new();
            open_member(path, member)?.read_to_end(&mut content)?;
            Ok((member.name.escape_ascii().to_string(), content))
        });
        contents.collect()
    }

    #[test]
    fn every_file_is_a_list_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let expected = FILES.map(|(name, content)| (name.to_owned(), content.to_vec()));
        for archive in [
            zip(CompressionMethod::DEFLATE),
            zip(CompressionMethod::Stored),
            tar(),
            gzip(&tar()),
        ] {
            let path = file(&folder, &archive);
            assert_eq!(contents(&path).unwrap(), expected);
        }
        for list in [
            b"a@b.example\n".to_vec(),
            gzip(b"a@b.example\n"),
            vec![],
            b"PK@x.example".to_vec(),
        ] {
            assert_eq!(members(&file(&folder, &list)).unwrap(), None);
        }
    }

    #[test]
    fn what_is_damaged_is_an_error_and_never_a_shorter_list() {
        let folder = tempfile::tempdir().unwrap();
        for archive in [zip(CompressionMethod::DEFLATE), tar(), gzip(&tar())] {
            for length in archive.len() * 3 / 4..archive.len() {
                // Half of the zeros at the end of a tar archive may be missing.
                let found = contents(&file(&folder, &archive[..length]));
                assert!(
                    found.map_or(true, |found| found.len() == FILES.len()),
                    "{length}"
                );
            }
        }
        let archive = zip(CompressionMethod::Stored);
        let at = archive
            .windows(11)
            .position(|part| part == b"c@d.example")
            .unwrap();
        let mut damaged = archive;
        damaged[at] = b'x';
        let error = contents(&file(&folder, &damaged)).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }

    #[test]
    fn what_is_not_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let made = |make: &dyn Fn(&mut Writer)| {
            let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
            make(&mut writer);
            writer.finish().unwrap().into_inner()
        };
        let nested = made(&|writer| {
            writer.start_file("inner.txt.gz", options).unwrap();
            writer.write_all(&gzip(b"a@b.example\n")).unwrap();
        });
        let link = made(&|writer| writer.add_symlink("link", "/etc/passwd", options).unwrap());
        let many = made(&|writer| {
            for number in 0..=MAX_MEMBERS {
                writer.start_file(number.to_string(), options).unwrap();
            }
        });
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        let linked = builder.append_link(&mut header, "link", "/etc/passwd");
        let tar_link = linked.and_then(|()| builder.into_inner()).unwrap();
        let mut encrypted = zip(CompressionMethod::Stored);
        // Bit 0 of the flags in the directory at the end: encrypted.
        let mut parts = encrypted.windows(4);
        let at = parts.rposition(|part| part == b"PK\x01\x02").unwrap();
        encrypted[at + 8] |= 1;
        for (archive, what) in [
            (nested, "compressed again"),
            (link, "link: is a symbolic link"),
            (many, "more than 1000 files"),
            (tar_link, "link: is not a regular file"),
            (encrypted, "three.txt: is encrypted"),
        ] {
            let error = contents(&file(&folder, &archive)).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
