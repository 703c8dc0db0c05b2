//! Any bytes as the header, directory, sources and records of a filter with correct checksums:
//! errors, never a panic; a filter that is accepted answers correctly.
//!
//! ```text
//!   flags  header fields  directory, sources, records
//!   1      256 bytes      the rest
//! ```
//!
//! | flags | |
//! |-------|-|
//! | 0..2  | pages: this number plus 1; with 3, as many as the header says |
//! | 2..4  | bits of the pages: none, some, or (for 2 and 3) all |
//! | 4     | the sections are laid out by their real lengths, not by the header |
//!
//! The pages are generated: with all bits set, every key leads to the records.
//! `cargo fuzz run --sanitizer none filter_file`
#![no_main]

mod made;

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use blocklist_filter::filter::{Answer, Batch, Error, Filter, Key, Load};
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;

use made::{HEAD, PAGE, PAGES, SECTIONS, get, put};

/// Offsets of fields in the header: see `filter::format`.
const FLAGS: usize = 20;
const SET_BITS: usize = 80;

/// Returns the file for the input, with correct checksums.
fn file(input: &[u8]) -> Option<Vec<u8>> {
    let (&flags, input) = input.split_first()?;
    let (head, rest) = input.split_at_checked(HEAD)?;
    let mut file = head.to_vec();
    file.resize(PAGE, 0);
    let pages = match usize::from(flags & 3) {
        3 => usize::try_from(get(head, PAGES))
            .ok()
            .filter(|&pages| pages <= 8)?,
        pages => pages + 1,
    };
    for _ in 0..pages {
        let byte = [0, 0x21, 0xff, 0xff][usize::from(flags >> 2 & 3)];
        file.resize(file.len() + PAGE, byte);
    }

    let sums = file.len();
    for page in 0..pages {
        let sum = XxHash3_64::oneshot(&file[PAGE * (page + 1)..][..PAGE]);
        file.extend_from_slice(&sum.to_le_bytes());
    }
    let directory = file.len();
    file.extend_from_slice(rest);
    let length = if head[FLAGS] & 1 == 1 { 16 * pages } else { 0 };
    let sources = (directory + length).min(file.len());
    let length = usize::try_from(get(head, SECTIONS + 80)).unwrap_or(usize::MAX);
    let records = sources.saturating_add(length).min(file.len());

    if flags & 16 != 0 {
        put(&mut file, PAGES, pages as u64);
        let set: u32 = file[PAGE..sums].iter().map(|byte| byte.count_ones()).sum();
        put(&mut file, SET_BITS, set.into());
        let end = file.len();
        made::lay_out(&mut file, [PAGE, sums, directory, sources, records, end]);
    }
    let sections = [sums..directory, directory..sources, sources..records];
    made::seal(&mut file, directory..sources, records, sections);
    Some(file)
}

/// Returns a file in memory, and the path that opens it.
fn in_memory(bytes: &[u8]) -> (File, PathBuf) {
    let made = rustix::fs::memfd_create("filter", rustix::fs::MemfdFlags::CLOEXEC);
    let descriptor: OwnedFd = made.expect("a file in memory");
    let mut file = File::from(descriptor);
    file.write_all(bytes).expect("room");
    file.rewind().expect("a file");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    (file, path)
}

fn is_told(error: &Error) {
    assert!(
        matches!(error, Error::Invalid { .. } | Error::NoRecords(_)),
        "{error}"
    );
    assert!(!error.to_string().is_empty());
}

fn try_all(path: &Path, keys: &[Key]) {
    let verified = Filter::verify(path);
    if let Err(error) = &verified {
        is_told(error);
    }
    let mut answers = Vec::new();
    for load in [Load::Memory, Load::Disk] {
        let filter = match Filter::open(path, load) {
            Ok(filter) => filter,
            Err(error) => {
                assert!(verified.is_err(), "what is sound can be opened: {error}");
                is_told(&error);
                continue;
            }
        };
        let given: Vec<_> = keys
            .iter()
            .map(|&key| filter.look_up(key).map_err(|error| is_told(&error)))
            .collect();
        answers.push(given);
        let _ = filter.stats().map_err(|error| is_told(&error));
        match filter.records() {
            Err(error) => is_told(&error),
            Ok(mut records) => {
                let (mut count, mut before, mut all) = (0, None, Batch::default());
                let taken = records.take_before(None, &mut all);
                assert!(taken.is_ok() || verified.is_err());
                for record in all.records() {
                    assert!(before < Some(record.key), "in the order of the keys");
                    before = Some(record.key);
                    count += 1;
                    let answer = filter.look_up(record.key);
                    if verified.is_ok() {
                        assert!(filter.source(record.source).is_some());
                        assert_eq!(answer.expect("sound"), Answer::Listed(record));
                    }
                }
                assert!(verified.is_err() || count == filter.entries());
            }
        }
    }
    if let [memory, disk] = &answers[..] {
        assert_eq!(memory, disk, "the same from memory and from disk");
    }
}

fuzz_target!(|input: &[u8]| {
    let Some(file) = file(input) else { return };
    let mut keys: Vec<Key> = input
        .as_chunks()
        .0
        .iter()
        .rev()
        .take(8)
        .map(|key| Key(u64::from_le_bytes(*key)))
        .collect();
    keys.extend([0, 1, u64::MAX / 2, u64::MAX].map(Key));
    let (_file, path) = in_memory(&file);
    try_all(&path, &keys);
});
