//! Any bytes as the header, checksums, directory and records of a share of a merge, with correct
//! checksums: counts with an intact part, or pages alone, give a file as intact as they are, or an
//! error and nothing written; never a panic.
//!
//! ```text
//!   flags  head's length  fields     counts: the rest
//!   1      2, of pages    72 bytes   pages: 48 bytes, 256 of the header page, sources and more; directory, records
//! ```
//!
//! | flags | |
//! |-------|-|
//! | 0     | pages, not counts |
//! | 1     | the share is share 1 of 1 |
//! | 2     | counts: of the intact part, and made for its day |
//! | 3..5  | pages: how many there are in the file, 0 to 3 |
//!
//! The pages have the bits of the intact part's own.
//! `cargo fuzz run --sanitizer none share`
#![no_main]

mod made;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use blocklist_milter::compile::{self, Expected, Plan, Progress};
use blocklist_milter::filter::{Filter, Share};
use blocklist_milter::inspect;
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;

use made::{HEAD, PAGE, put};

/// Offsets of fields in the share's header: see `filter::share`.
const MAGIC: [u8; 8] = *b"\x89bls\r\n\x1a\n";
const KIND: usize = 12;
const LENGTH: usize = 16;
const NUMBER: usize = 24;
/// SHA-256 of the parts, and the day.
const BASIS: std::ops::Range<usize> = 32..66;
const COUNTS: usize = 80;
/// In pages: bytes of records, checksums of checksums and directory, header page.
const RECORDS_BYTES: usize = 96;
const SUMS: usize = 104;
const HEADER: usize = 128;

/// An intact part, and the build date.
const PART: &[u8] = include_bytes!("../sound.part");
const BUILT_S: u64 = 1_790_000_000;

struct Site {
    folder: PathBuf,
    /// Its own count of all keys, and its page.
    count: Vec<u8>,
    page: Vec<u8>,
}

/// A folder in memory, if there is one.
static SITE: LazyLock<Site> = LazyLock::new(|| {
    let folder = made::folder("share", "sound.part", PART);
    let path = folder.join("sound.count");
    let plan = plan(path.clone(), vec![folder.join("sound.part")]);
    compile::count_share(&plan, all(), &Expected::default(), &Progress::new()).expect("counted");
    let count = fs::read(&path).expect("it is there");
    let pages = folder.join("sound.pages");
    let plan = self::plan(pages.clone(), vec![path.clone(), folder.join("sound.part")]);
    let expected = Expected::default();
    compile::write_share(&plan, all(), None, &expected, &Progress::new()).expect("written");
    let bytes = fs::read(&pages).expect("it is there");
    let head = usize::try_from(made::get(&bytes, LENGTH)).expect("a short head");
    for path in [path, pages] {
        fs::remove_file(path).expect("it is there");
    }
    Site {
        folder,
        count,
        page: bytes[head..head + PAGE].to_vec(),
    }
});

fn all() -> Share {
    Share::new(1, 1).expect("share 1 of 1")
}

fn plan(output: PathBuf, inputs: Vec<PathBuf>) -> Plan {
    let mut plan = Plan::new(output, inputs);
    (plan.threads, plan.memory_bytes) = (1, compile::MIN_MEMORY_BYTES);
    (plan.built, plan.allow_empty) = (BUILT_S, true);
    plan
}

/// Returns the file for the input, with correct lengths and checksums.
fn share(flags: u8, input: &[u8]) -> Option<Vec<u8>> {
    let (head_bytes, input) = input.split_first_chunk::<2>()?;
    let (fields, rest) = input.split_at_checked(COUNTS - 8)?;
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(fields);
    let pages = flags & 1 == 1;
    file[8..KIND].copy_from_slice(&1_u32.to_le_bytes());
    file[KIND..LENGTH].copy_from_slice(&(u32::from(pages) + 1).to_le_bytes());
    if flags & 2 != 0 {
        put(&mut file, NUMBER, 1 << 32 | 1);
    }
    if flags & 4 != 0 {
        file[BASIS].copy_from_slice(&SITE.count[BASIS]);
    }
    if !pages {
        file.extend_from_slice(rest);
        seal(&mut file);
        return Some(file);
    }
    let (numbers, rest) = rest.split_at_checked(HEADER - COUNTS)?;
    let (header, rest) = rest.split_at_checked(HEAD)?;
    file.extend_from_slice(numbers);
    file.extend_from_slice(header);
    file.resize(HEADER + PAGE, 0);
    let head_bytes = usize::from(u16::from_le_bytes(*head_bytes));
    let (head, records) = rest.split_at(head_bytes.min(rest.len()));
    file.extend_from_slice(head);
    let count = usize::from(flags >> 3 & 3);
    let (directory, records) = records.split_at_checked(16 * count)?;
    let mut directory = directory.to_vec();
    let mut start = 0;
    for row in directory.chunks_exact_mut(16) {
        let end = usize::try_from(made::get(row, 0)).unwrap_or(usize::MAX);
        if let Some(block) = records.get(start..end) {
            put(row, 8, XxHash3_64::oneshot(block));
            start = end;
        }
    }
    let page = &SITE.page;
    let sums = XxHash3_64::oneshot(page).to_le_bytes().repeat(count);
    put(&mut file, RECORDS_BYTES, records.len() as u64);
    put(&mut file, SUMS, XxHash3_64::oneshot(&sums));
    put(&mut file, SUMS + 8, XxHash3_64::oneshot(&directory));
    made::seal_header(&mut file[HEADER..HEADER + PAGE]);
    seal(&mut file);
    for part in [&page.repeat(count), &sums, &directory, records] {
        file.extend_from_slice(part);
    }
    Some(file)
}

/// Corrects the length and the checksum of a share's header.
fn seal(head: &mut Vec<u8>) {
    let length = head.len() as u64 + 8;
    put(head, LENGTH, length);
    let sum = XxHash3_64::oneshot(head);
    head.extend_from_slice(&sum.to_le_bytes());
}

fuzz_target!(|input: &[u8]| {
    let Some((&flags, input)) = input.split_first() else {
        return;
    };
    let Some(share) = share(flags, input) else {
        return;
    };
    let [part, path, out] =
        ["sound.part", "hostile.share", "out"].map(|name| SITE.folder.join(name));
    fs::write(&path, share).expect("room");
    let is_sound = matches!(inspect::check_share(&path), Ok(Some(_)));
    let expected = Expected::default();
    let progress = Progress::new();
    let done = match flags & 1 {
        1 => compile::join_shares(&plan(out.clone(), vec![path]), None, &expected, &progress),
        _ => {
            let plan = plan(out.clone(), vec![path, part]);
            compile::write_share(&plan, all(), None, &expected, &progress)
        }
    };
    match done {
        Ok(_) => {
            if flags & 1 == 1 {
                // A join copies records without decoding them.
                assert_eq!(
                    Filter::verify(&out).is_ok(),
                    is_sound,
                    "as sound as its share"
                );
            }
            fs::remove_file(&out).expect("it is there");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert_eq!(fs::read_dir(&SITE.folder).expect("a folder").count(), 2);
});
