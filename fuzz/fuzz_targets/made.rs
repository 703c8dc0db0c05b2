//! Shared code of the targets that make files with correct checksums: numbers and checksums of a
//! header, the checksums of blocks, a folder in memory.
#![allow(dead_code, reason = "each target uses a part of it")]

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use twox_hash::XxHash3_64;

/// Bytes of the header, and of a page.
pub const PAGE: usize = 4096;
/// Bytes of the header that are taken from the input.
pub const HEAD: usize = 256;

/// Offsets of fields in the header: see `filter::format`.
pub const PAGES: usize = 64;
pub const SECTIONS: usize = 96;

/// Reads eight bytes as a number.
pub fn get(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"))
}

/// Writes a number as eight bytes.
pub fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Lays out the sections of a file between these offsets.
pub fn lay_out(file: &mut [u8], starts: [usize; 6]) {
    for (i, pair) in starts.windows(2).enumerate() {
        put(file, SECTIONS + 24 * i, pair[0] as u64);
        put(file, SECTIONS + 24 * i + 8, (pair[1] - pair[0]) as u64);
    }
}

/// Corrects the checksums of a file: those of its blocks of records, which begin at `records` and
/// which the rows of the directory name, those of the sections, and that of the header.
pub fn seal(file: &mut [u8], directory: Range<usize>, records: usize, sections: [Range<usize>; 3]) {
    let mut start = records;
    for row in directory
        .clone()
        .step_by(16)
        .take_while(|row| row + 16 <= directory.end)
    {
        let end = usize::try_from(get(file, row)).unwrap_or(usize::MAX);
        let end = records.saturating_add(end);
        if let Some(block) = file.get(start..end) {
            let sum = XxHash3_64::oneshot(block);
            put(file, row + 8, sum);
            start = end;
        }
    }
    for (i, range) in sections.into_iter().enumerate() {
        let sum = XxHash3_64::oneshot(&file[range]);
        put(file, SECTIONS + 24 * (i + 1) + 16, sum);
    }
    seal_header(file);
}

/// Corrects the checksum of a header.
pub fn seal_header(header: &mut [u8]) {
    let sum = XxHash3_64::oneshot(&header[..PAGE - 8]);
    put(header, PAGE - 8, sum);
}

/// Creates a folder for this process, in memory if possible, with one file in it.
pub fn folder(target: &str, file: &str, bytes: &[u8]) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let folder = parent.join(format!("blocklist-fuzz-{target}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(file), bytes).expect("room");
    folder
}
