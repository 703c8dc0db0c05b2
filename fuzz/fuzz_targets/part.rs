//! Any bytes as the header, directory, sources and records of a part of a list, with correct
//! checksums, merged with an intact part: the result is an intact filter, or an error and nothing
//! written; never a panic.
//!
//! ```text
//!   flags  header fields  directory, sources, records
//!   1      256 bytes      the rest
//! ```
//!
//! | flags | |
//! |-------|-|
//! | 0..2  | blocks: 1, 2, 4 or 8 |
//! | 2     | the sections are laid out by their real lengths, not by the header |
//! | 3     | the seed and the address rules are those of the intact part |
//! | 4     | the part is merged alone |
//!
//! `cargo fuzz run --sanitizer none part`
#![no_main]

mod made;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use blocklist_compile::compile::{self, Expected, Plan, Progress};
use blocklist_filter::filter::Filter;
use libfuzzer_sys::fuzz_target;

use made::{HEAD, PAGE, PAGES, SECTIONS, get, put};

/// Offsets of fields in the header: see `filter::format`.
const RULES: std::ops::Range<usize> = 16..19;
const SEED: std::ops::Range<usize> = 40..48;

/// An intact part.
const OTHER: &[u8] = include_bytes!("../sound.part");

/// A folder in memory, if there is one.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| made::folder("part", "sound.part", OTHER));

/// Returns the file for the input, with correct checksums.
fn part(flags: u8, input: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = input.split_at_checked(HEAD)?;
    let mut file = head.to_vec();
    file.resize(PAGE, 0);
    file.extend_from_slice(rest);
    let blocks = 1 << (flags & 3);
    let sources = (PAGE + 16 * blocks).min(file.len());
    let length = usize::try_from(get(head, SECTIONS + 80)).unwrap_or(usize::MAX);
    let records = sources.saturating_add(length).min(file.len());

    if flags & 4 != 0 {
        put(&mut file, PAGES, blocks as u64);
        let starts = [PAGE, PAGE, PAGE, sources, records, file.len()];
        made::lay_out(&mut file, starts);
    }
    if flags & 8 != 0 {
        for range in [RULES, SEED] {
            file[range.clone()].copy_from_slice(&OTHER[range]);
        }
    }
    let sections = [PAGE..PAGE, PAGE..sources, sources..records];
    made::seal(&mut file, PAGE..sources, records, sections);
    Some(file)
}

fuzz_target!(|input: &[u8]| {
    let Some((&flags, input)) = input.split_first() else {
        return;
    };
    let Some(part) = part(flags, input) else {
        return;
    };
    let [sound, path, out] =
        ["sound.part", "hostile.part", "out.blf"].map(|name| FOLDER.join(name));
    fs::write(&path, part).expect("room");
    let verified = Filter::verify(&path);
    let inputs = if flags & 16 == 0 {
        vec![path, sound]
    } else {
        vec![path]
    };
    let mut plan = Plan::new(&out, inputs);
    (plan.resources.threads, plan.resources.memory_bytes) = (1, compile::MIN_MEMORY_BYTES);
    (plan.built, plan.limits.allow_empty) = (1_790_000_000, true);
    match compile::merge(&plan, &Expected::default(), &Progress::new()) {
        Ok(_) => {
            assert!(verified.is_ok(), "what was merged is sound");
            Filter::verify(&out).expect("what was made is sound");
            fs::remove_file(&out).expect("it is there");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert_eq!(fs::read_dir(&*FOLDER).expect("a folder").count(), 2);
});
