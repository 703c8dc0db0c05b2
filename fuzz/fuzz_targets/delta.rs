//! Any bytes as a delta with correct checksums for an available filter: the result is the filter
//! that it names, or an error and nothing written; never a panic.
//!
//! ```text
//!   flags  header fields of NEW  length      lists        segments
//!   1      256 bytes             2 bytes     of the head  the rest
//! ```
//!
//! | flags | |
//! |-------|-|
//! | 0 | the delta is for another filter |
//! | 1 | the digest is that of the resulting filter; otherwise one that nothing can make |
//! | 2 | the sections of NEW are laid out by the length of the sources |
//!
//! `cargo fuzz run --sanitizer none delta`
#![no_main]

mod made;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

use blocklist_compile::compile::{Plan, Progress, apply};
use blocklist_filter::filter::{Digest, Filter, Load};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;

use made::{HEAD, PAGE, PAGES, SECTIONS, get, put};

/// The filter for which the deltas are, and one that a delta in the corpus makes from it.
const OLD: &[u8] = include_bytes!("../old.blf");
const NEW: &[u8] = include_bytes!("../new.blf");

/// A folder in memory, if there is one.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| made::folder("delta", "old.blf", OLD));

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Digest::of(bytes).0
}

/// Returns the delta for the input, with correct checksums.
fn delta(input: &[u8]) -> Option<Vec<u8>> {
    let (&flags, input) = input.split_first()?;
    let (header, input) = input.split_at_checked(HEAD)?;
    let (&length, input) = input.split_first_chunk::<2>()?;
    let lists = usize::from(u16::from_le_bytes(length)).min(input.len());
    let (lists, segments) = input.split_at(lists);

    let mut header = header.to_vec();
    header.resize(PAGE, 0);
    let sources = SECTIONS + 3 * 24;
    let length = usize::try_from(get(&header, sources + 8)).unwrap_or(usize::MAX);
    if let Some(sources_section) = lists.get(..length) {
        put(
            &mut header,
            sources + 16,
            XxHash3_64::oneshot(sources_section),
        );
    }
    if flags & 4 != 0 {
        let pages = get(&header, PAGES);
        let records = get(&header, SECTIONS + 4 * 24 + 8);
        let lengths = [pages << 12, pages << 3, pages << 4, length as u64, records];
        let mut offset = PAGE as u64;
        for (i, length) in lengths.into_iter().enumerate() {
            put(&mut header, SECTIONS + 24 * i, offset);
            put(&mut header, SECTIONS + 24 * i + 8, length);
            offset = offset.wrapping_add(length);
        }
    }
    let end = get(&header, SECTIONS + 4 * 24).wrapping_add(get(&header, SECTIONS + 4 * 24 + 8));
    made::seal_header(&mut header);

    let mut head = ZlibEncoder::new(Vec::new(), Compression::fast());
    let old = if flags & 1 == 0 { &OLD[..PAGE] } else { NEW };
    let new: &[u8] = if flags & 2 == 0 { &[] } else { NEW };
    let parts = [
        &sha256(old)[..],
        &OLD[24..32],
        &sha256(new),
        &end.to_le_bytes(),
        &header,
        lists,
    ];
    for part in parts {
        head.write_all(part).expect("memory");
    }
    let head = head.finish().expect("memory");

    let mut file = b"\x89bld\r\n\x1a\n\x01\0\0\0".to_vec();
    file.extend_from_slice(&u32::try_from(head.len()).ok()?.to_le_bytes());
    file.extend_from_slice(&head);
    file.extend_from_slice(segments);
    let sum = XxHash3_64::oneshot(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    Some(file)
}

fuzz_target!(|input: &[u8]| {
    let Some(delta) = delta(input) else { return };
    let [old, path, out] = ["old.blf", "delta", "out.blf"].map(|name| FOLDER.join(name));
    fs::write(&path, delta).expect("room");
    let mut plan = Plan::new(&out, vec![path]);
    plan.resources.threads = 1;
    match apply(&plan, &old, None, &Progress::new()) {
        Ok(applied) => {
            assert_eq!(fs::read(&out).expect("it was written"), NEW);
            assert_eq!(
                applied.entries,
                Filter::open(&out, Load::Disk).expect("sound").entries()
            );
            fs::remove_file(&out).expect("it is there");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert_eq!(fs::read_dir(&*FOLDER).expect("a folder").count(), 2);
});
