//! Tests of texts, compressed files and archives.

use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use bzip2::write::BzEncoder;
use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::packed::{MIN_BOMB_BYTES, NOT_READ};
use super::{MAX_MEMBERS, is_text, members, open_member, text};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn xz(text: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

type Compress = fn(&[u8]) -> Vec<u8>;

const FORMATS: [Compress; 4] = [gzip, bzip2, xz, zstd];

/// Several blocks of each format, and of UTF-16.
fn long() -> Vec<u8> {
    let line = |n| format!("spam{n}@bad.example\n").into_bytes();
    (0..20_000).flat_map(line).collect()
}

fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    text(Cursor::new(bytes))?.read_to_end(&mut read)?;
    Ok(read)
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    let random = (0..5_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]);
    assert!(!is_text(&random.collect::<Vec<_>>()) && !is_text(b"\x7fELF\x02\x01"));
    // A few stray bytes only reject their lines.
    assert!(is_text(b"a@b.example\n\0\0\0c@d.example\n"));
    assert!(is_text(&[long(), b"\0".repeat(31)].concat()));
}

#[test]
fn utf16_becomes_utf8() {
    let text = String::from_utf8(long()).unwrap();
    let text = format!("\u{feff}{text}d\u{1f600}@b\u{fc}cher.example\n");
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for (written, text) in [
        (gzip(&little), &*text),
        (little, &text),
        (big, &text),
        // Half a pair.
        (b"\xff\xfea\0\x3d\xd8".to_vec(), "\u{feff}a\0"),
    ] {
        assert_eq!(read(written).unwrap(), text.as_bytes());
    }
}

#[test]
fn compressed_or_not_the_text_is_the_same() {
    // The LF of its first line is behind the first bytes.
    let at_the_border = ("a".repeat(4095) + "\r\nb\r\n").into_bytes();
    for text in [&b""[..], b"a", b"a@b.example\n", &at_the_border, &long()] {
        assert_eq!(read(text.to_vec()).unwrap(), text);
        for format in FORMATS {
            assert_eq!(read(format(text)).unwrap(), text);
            let members = [format(text), format(text)].concat();
            assert_eq!(read(members).unwrap(), text.repeat(2));
        }
        let skippable = b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec();
        let frames = [zstd(text), skippable.clone(), zstd(text)].concat();
        assert_eq!(read(frames).unwrap(), text.repeat(2));
        assert_eq!(read([skippable, zstd(text)].concat()).unwrap(), text);
    }
}

#[test]
fn a_cut_off_or_damaged_file_is_an_error() {
    let text = long();
    for packed in FORMATS.map(|format| format(&text)) {
        for length in [10, packed.len() / 2, packed.len() - 1] {
            let error = read(packed[..length].to_vec()).unwrap_err().to_string();
            assert!(error.contains("download it again"), "{length}: {error}");
        }
        let mut damaged = packed.clone();
        damaged[packed.len() / 2] ^= 0x10;
        assert!(read(damaged).is_err());
        let followed = read([packed, b"rubbish, more than a header".to_vec()].concat());
        assert!(followed.is_err());
    }
}

#[test]
fn what_is_not_read_is_named() {
    let zeros = vec![0; usize::try_from(MIN_BOMB_BYTES + 1).unwrap()];
    let bombs = [gzip as Compress, bzip2, xz].map(|format| (format(&zeros), "bomb"));
    let starts = NOT_READ.iter();
    let starts = starts.map(|(start, what)| ([start, &[0; 8][..]].concat(), *what));
    let others = [
        (gzip(&gzip(b"a@b.example\n")), "compressed twice"),
        (zstd(&gzip(b"a@b.example\n")), "compressed twice"),
        // It became an archive after it was looked at, or is on standard input.
        (tar(), "an archive in another file"),
        (gzip(&tar()), "an archive in another file"),
        (b"a@b.example\rc@d.example".to_vec(), "CR alone"),
    ];
    for (bytes, what) in bombs.into_iter().chain(starts).chain(others) {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

const FILES: [(&str, &[u8]); 3] = [
    ("lists/one.txt", b"a@b.example\n"),
    ("lists/two.txt", b""),
    ("three.txt", b"c@d.example\ne@f.example\n"),
];

type Writer = ZipWriter<Cursor<Vec<u8>>>;

fn made(make: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    make(&mut writer);
    writer.finish().unwrap().into_inner()
}

fn zip(method: CompressionMethod) -> Vec<u8> {
    let options = SimpleFileOptions::default().compression_method(method);
    made(|writer| {
        writer.add_directory("lists", options).unwrap();
        for (name, content) in FILES {
            writer.start_file(name, options).unwrap();
            writer.write_all(content).unwrap();
        }
    })
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
fn every_file_of_an_archive_is_a_list_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let expected = FILES.map(|(name, content)| (name.to_owned(), content.to_vec()));
    let zips = [CompressionMethod::DEFLATE, CompressionMethod::Stored].map(zip);
    for archive in zips.into_iter().chain([tar(), gzip(&tar())]) {
        assert_eq!(contents(&file(&folder, &archive)).unwrap(), expected);
        for length in archive.len() * 3 / 4..archive.len() {
            // Half of the zeros at the end of a tar archive may be missing.
            let found = contents(&file(&folder, &archive[..length]));
            assert!(found.map_or(true, |found| found == expected), "{length}");
        }
    }
    let list = b"a@b.example\n".to_vec();
    for list in [gzip(&list), list, vec![], b"PK@x.example".to_vec()] {
        assert_eq!(members(&file(&folder, &list)).unwrap(), None);
    }
}

/// Another list may stand where the directory names one.
#[test]
fn an_archive_that_changes_while_it_is_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = |list: &[u8]| {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(list.len() as u64);
        builder.append_data(&mut header, "a.txt", list).unwrap();
        let zipped = made(|writer| {
            let options = SimpleFileOptions::default();
            writer.start_file("a.txt", options).unwrap();
            writer.write_all(list).unwrap();
        });
        [builder.into_inner().unwrap(), zipped]
    };
    let list = [&long()[..], b"end@bad.example\n"].concat();
    for (old, new) in archive(&list).into_iter().zip(archive(&long())) {
        let path = file(&folder, &old);
        let replace = || {
            let aside = folder.path().join("aside");
            fs::write(&aside, &old).unwrap();
            fs::rename(aside, &path).unwrap();
        };
        let rewrite = || fs::write(&path, &new).unwrap();
        for change in [&replace as &dyn Fn(), &rewrite] {
            for is_open in [true, false] {
                fs::write(&path, &old).unwrap();
                let member = members(&path).unwrap().unwrap().remove(0);
                let before = is_open.then(|| open_member(&path, &member).unwrap());
                change();
                let read = before.map_or_else(|| open_member(&path, &member), Ok);
                let read = read.and_then(|mut list| list.read_to_end(&mut Vec::new()));
                let error = read.unwrap_err().to_string();
                assert!(error.contains("changed while"), "{error}");
            }
        }
    }
}

#[test]
fn what_is_not_read_in_an_archive_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let nested = made(|writer| {
        writer.start_file("inner.txt.gz", options).unwrap();
        writer.write_all(&gzip(b"a@b.example\n")).unwrap();
    });
    let link = made(|writer| writer.add_symlink("link", "/etc/passwd", options).unwrap());
    let many = made(|writer| {
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
    let changed = |at: &[u8], offset: usize| {
        let mut archive = zip(CompressionMethod::Stored);
        let at = archive.windows(at.len()).rposition(|part| part == at);
        archive[at.unwrap() + offset] |= 1;
        archive
    };
    for (archive, what) in [
        (nested, "compressed again"),
        (link, "link: is a symbolic link"),
        (many, "more than 1000 files"),
        (tar_link, "link: is not a regular file"),
        // The flags in the directory at the end.
        (changed(b"PK\x01\x02", 8), "three.txt: is encrypted"),
        (changed(b"@d.example", 0), "damaged"),
    ] {
        let error = contents(&file(&folder, &archive)).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
