//! Filter files with a flipped bit or without their end: each truncation, each bit of the header,
//! and many bits anywhere. The file is refused when it is opened, or reading the damaged part gives
//! an error; no unlisted sender is found, and no listed sender is missed.
//!
//! `tests/run` flips some thousand bits, `tests/run --long` the 100,000 of docs/promises.md.
//! `filter_damage.rs` tests how other kinds of damage are distinguished.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use blocklist_filter::filter::{Answer, Error, Filter, Key, Load, Record};

use crate::support::check::{Random, has};
use crate::support::compile::folder;
use crate::support::filters::{key, problem, records, spec, three_pages, write};
use crate::support::rig::{OK, Rig, letter, verdict};

/// A file in which one bit at a time is flipped.
struct Flipped {
    file: File,
    length: u64,
}

impl Flipped {
    fn open(path: &Path) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len();
        Self { file, length }
    }

    /// Calls `during` while a bit is flipped.
    fn at<T>(&self, at: u64, bit: u64, during: impl FnOnce() -> T) -> T {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, at).unwrap();
        self.file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
        let done = during();
        self.file.write_all_at(&byte, at).unwrap();
        done
    }
}

fn is_refused<T>(result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => false,
        Err(Error::Invalid { .. }) => true,
        Err(other) => panic!("not a fault of the file: {other}"),
    }
}

/// Fails if the size is not compared with the header's: a truncated file is then opened.
#[test]
fn every_truncation_is_refused() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    let header = write(&path, spec(1e-6, true), &records(40)).unwrap();
    let whole = header.file_bytes();
    let file = File::options().write(true).open(&path).unwrap();
    // And files that have grown.
    for got in [2 * whole, whole + 1].into_iter().chain((0..whole).rev()) {
        file.set_len(got).unwrap();
        let expected = match got {
            0..8 => "not a filter file".to_owned(),
            8..4096 => format!("the file has {got} bytes, its header says 4096: "),
            _ => format!("the file has {got} bytes, its header says {whole}: "),
        };
        for load in [Load::Memory, Load::Disk] {
            has(&problem(Filter::open(&path, load)).to_string(), &expected);
        }
        has(&problem(Filter::verify(&path)).to_string(), &expected);
    }
}

/// Fails without the checksum of the header: the first unused bit is then not noticed.
#[test]
fn every_bit_of_the_header_is_guarded() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    write(&path, spec(1e-6, true), &records(40)).unwrap();
    let flipped = Flipped::open(&path);
    for at in 0..4096 {
        for bit in 0..8 {
            flipped.at(at, bit, || {
                for load in [Load::Memory, Load::Disk] {
                    let opened = Filter::open(&path, load);
                    assert!(is_refused(opened), "{load:?}: bit {bit} of byte {at}");
                }
            });
        }
    }
    Filter::verify(&path).unwrap();
}

/// Looks up all keys in an open filter. Returns how many look-ups were errors; panics at a wrong
/// answer.
pub(crate) fn ask(filter: &Filter, listed: &[Record], others: &[Key]) -> u64 {
    let listed = listed.iter().map(|record| (record.key, Some(*record)));
    let mut errors = 0;
    for (key, expected) in listed.chain(others.iter().map(|key| (*key, None))) {
        match (filter.look_up(key), expected) {
            (Err(Error::Invalid { .. }), _) => errors += 1,
            (Ok(Answer::Listed(found)), Some(record)) => assert_eq!(found, record),
            (Ok(Answer::Miss | Answer::FalsePositive), None) => {}
            (other, expected) => panic!("{other:?} for {expected:?}"),
        }
    }
    errors
}

/// Flips bits of all bytes between pages and records, and of this many anywhere.
fn random_flips(count: u64) {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    let (header, listed) = three_pages(&path);
    let pages = 4096..4 * 4096;
    let records = header.file_bytes() - (header.record_bytes() - 3 * 16);
    let others: Vec<_> = (0..200).map(|i| key(i << 32 | 1 << 31)).collect();
    let flipped = Flipped::open(&path);
    let mut random = Random(0x5EED);
    let (mut refused, mut errors) = ([0_u64; 2], [0_u64; 2]);
    let between = (pages.end..records).map(Some);
    for at in between.chain((0..count).map(|_| None)) {
        let at = at.unwrap_or_else(|| random.below(flipped.length));
        let bit = random.below(8);
        // Some of each page, others each time.
        let first = usize::try_from(random.below(60)).unwrap();
        let asked: Vec<_> = listed.iter().copied().skip(first).step_by(60).collect();
        flipped.at(at, bit, || {
            assert!(is_refused(Filter::verify(&path)), "bit {bit} of byte {at}");
            for (n, load) in [Load::Memory, Load::Disk].into_iter().enumerate() {
                let is_read_later = at >= records || load == Load::Disk && pages.contains(&at);
                let opened = Filter::open(&path, load);
                assert_eq!(
                    opened.is_ok(),
                    is_read_later,
                    "{load:?}: bit {bit} of byte {at}"
                );
                match opened {
                    Ok(filter) => errors[n] += ask(&filter, &asked, &others),
                    opened => refused[n] += u64::from(is_refused(opened)),
                }
            }
        });
    }
    Filter::verify(&path).unwrap();
    println!(
        "{count} flipped bits, in memory and from disk: {refused:?} refused, {errors:?} errors"
    );
    // Both ways of detection were tested.
    assert!(refused.iter().all(|refused| *refused > count / 100));
    assert!(errors.iter().all(|errors| *errors > count / 100));
}

/// Fails without the checksum of a page or of its records: a look-up from disk is then wrong, or
/// the file is accepted.
#[test]
fn random_flips_are_refused_or_found_at_the_read() {
    random_flips(1_000);
}

#[test]
#[ignore = "some minutes: tests/run --long"]
fn a_hundred_thousand_random_flips_are_refused_or_found_at_the_read() {
    random_flips(100_000);
}

/// Flips bits under the daemon, whose list is read from disk for each message.
fn flips_under_the_daemon(count: u64) {
    let listed: String = (0..2_000).map(|n| format!("u{n}@bad.example\n")).collect();
    let config = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\nload = 'disk'\n\
        [whitelist]\nfiles = ['white.txt']\n";
    let files = [("spam.list", &*listed), ("white.txt", "# nobody\n")];
    let rig = Rig::new(&files, config);
    let flipped = Flipped::open(&rig.path("spam.blf"));
    let whole = fs::read(rig.path("spam.blf")).unwrap();
    let mut random = Random(0xF11B);
    let mut peer = rig.peer();
    let mut deferred = 0;
    let undecided = || rig.live.snapshot().counts[0].list.undecided.get();
    for round in 0..count {
        let (at, bit) = (random.below(flipped.length), random.below(8));
        let number = random.below(2_000);
        flipped.at(at, bit, || {
            for (sender, right) in [
                (format!("<u{number}@bad.example>"), "reject"),
                (format!("<u{number}@ok{round}.example>"), "accept"),
            ] {
                let mail = letter(&sender, &[OK]);
                let before = undecided();
                match &*verdict(&peer.deliver(&mail).unwrap()) {
                    "tempfail" => {
                        deferred += 1;
                        assert!(undecided() > before, "{sender} is not counted");
                    }
                    other => assert_eq!(other, right, "{sender}: bit {bit} of byte {at}"),
                }
            }
        });
    }
    assert_eq!(fs::read(rig.path("spam.blf")).unwrap(), whole);
    println!("{count} flipped bits, twice as many messages, {deferred} deferred");
    assert!(deferred > count / 20, "{deferred} of {count}");
}

/// Fails without "undecided" in `crates/filter/src/lookup.rs`: an unreliable page then refuses or accepts a
/// sender.
#[test]
fn a_flipped_bit_on_disk_defers_and_never_refuses_an_innocent() {
    flips_under_the_daemon(200);
}

#[test]
#[ignore = "some minutes: tests/run --long"]
fn many_flipped_bits_on_disk_defer_and_never_refuse_an_innocent() {
    flips_under_the_daemon(20_000);
}
