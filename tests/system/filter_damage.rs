//! Filter files that are damaged, forged or unfinished: they are detected and refused, and never
//! give an answer. `filter_bits.rs` has flipped bits and truncations.
#![allow(
    clippy::cast_possible_truncation,
    reason = "keys are cut to make up data"
)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::{
    Answer, Batch, EncodedPage, Error, Filter, Header, Load, Record, Shape, Spec, Writer, page,
};
use proptest::prelude::*;

use crate::filter_bits::ask;
use crate::support::compile::folder;
use crate::support::filters::{
    begin, by_page, check_answers, encode_page, problem, records, spec, three_pages, write,
};
use crate::support::has;

#[path = "../../fuzz/fuzz_targets/made.rs"]
#[allow(unreachable_pub, reason = "the fuzz targets use it")]
pub(crate) mod made;

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn damaged_records_are_never_not_listed() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    let (header, records) = three_pages(&path);
    let before = Filter::open(&path, Load::Disk).unwrap();
    // The last byte belongs to the last page.
    let last = header.file_bytes() - 1;
    open(&path).write_all_at(&[0xa5], last).unwrap();
    // Records are checked although they are loaded into memory.
    let after = Filter::open(&path, Load::Memory).unwrap();
    let is_last = |record: &&Record| page::page_of(record.key, 3) == 2;
    let (in_last, others): (Vec<_>, Vec<_>) = records.iter().partition(is_last);
    for filter in [&before, &after] {
        assert_eq!(ask(filter, &others, &[]), 0);
        for record in &in_last {
            let found = problem(filter.look_up(record.key));
            has(&found.to_string(), "records of page 2: ");
        }
    }
    let mut left = before.records().unwrap();
    let taken = [(); 2].map(|()| left.take_before(None, &mut Batch::default()).is_ok());
    assert_eq!(taken, [false, true], "one error, then no more records");
}

/// Overwrites a field of the header, and corrects its checksum.
fn forge(path: &Path, at: usize, field: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at..at + field.len()].copy_from_slice(field);
    made::seal_header(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Pages with fewer or more entries than the header says: listed senders would be missed, or others
/// hit.
#[test]
fn pages_that_are_not_filled_as_declared_are_refused() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    for (held, declared) in [
        (0_u64, 2_000_u64),
        (2_000, 0),
        (2_000, 1_500),
        (1_000, 1_200),
    ] {
        write(&path, spec(1e-6, false), &records(held)).unwrap();
        Filter::open(&path, Load::Memory).unwrap();
        forge(&path, 56, &declared.to_le_bytes());
        let opened = problem(Filter::open(&path, Load::Memory));
        for found in [opened, problem(Filter::verify(&path))] {
            let noticed = format!("but the header says {declared}: build the filter again");
            has(&found.to_string(), &noticed);
        }
        fs::remove_file(&path).unwrap();
    }
}

/// Fields that no writer writes, in a header with a correct checksum: refused before any memory is
/// allocated for them.
#[test]
fn impossible_headers_are_refused() {
    let huge = u64::MAX.to_le_bytes();
    let pages = |pages: u64| pages.to_le_bytes();
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    three_pages(&path);
    let sound = fs::read(&path).unwrap();
    let cases: [(&str, usize, &[u8]); 27] = [
        ("version", 8, &[2, 0, 0, 0]),
        ("header size", 12, &[0, 0, 1, 0]),
        ("flags", 20, &[5, 0, 0, 0]),
        ("fpr", 48, &f64::NAN.to_le_bytes()),
        ("fpr", 48, &0.0_f64.to_le_bytes()),
        ("fpr", 48, &0.9_f64.to_le_bytes()),
        ("pages", 64, &pages(0)),
        ("pages", 64, &pages(2)),
        ("pages", 64, &pages(1 << 40)),
        ("pages", 64, &pages((1 << 40) + 1)),
        ("pages", 64, &huge),
        ("probes", 72, &[0; 4]),
        ("probes", 72, &[65, 0, 0, 0]),
        ("page size", 76, &[0, 0x20, 0, 0]),
        ("bits set", 80, &huge),
        ("sources", 88, &[0xff; 4]),
        ("sources", 88, &[3, 0, 0, 0]),
        ("zero", 92, &[1, 0, 0, 0]),
        ("pages offset", 96, &pages(8192)),
        ("pages length", 104, &huge),
        ("sums offset", 120, &huge),
        ("directory length", 152, &pages(32)),
        ("sources length", 176, &huge),
        ("records offset", 192, &pages(0)),
        ("records length", 200, &huge),
        ("name length", 216, &[0xff, 0xff]),
        ("name", 218, b"\xff\xfe"),
    ];
    for (name, at, field) in cases {
        fs::write(&path, &sound).unwrap();
        forge(&path, at, field);
        for load in [Load::Memory, Load::Disk] {
            let found = problem(Filter::open(&path, load).map(drop));
            if name == "version" {
                has(
                    &found.to_string(),
                    "format version 2, but this program reads 1",
                );
            }
        }
    }
}

/// A union of filters without records, as they were merged once: its number of entries is an estimate.
#[test]
fn a_union_of_pages_is_still_read() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    write(&path, spec(1e-6, false), &records(100)).unwrap();
    forge(&path, 20, &[2]);
    assert!(Filter::verify(&path).unwrap().estimated);
    check_answers(&path, &records(100));
}

/// Headers that are possible, but wrong.
#[test]
fn false_declarations_are_noticed() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    let (header, _) = three_pages(&path);
    let sound = fs::read(&path).unwrap();
    let (bits, probes) = (header.set_bits, header.shape.probes + 1);
    let said = format!("{bits} bits are set, but the header says {}", bits - 1);
    for (at, field, words) in [
        (80, &(bits - 1).to_le_bytes()[..], &*said),
        (48, &1e-12_f64.to_le_bytes(), "header declares 1.00e-12"),
        (56, &2_499_u64.to_le_bytes(), "header says 2499 entries"),
        // More probes than were used: every entry would be missed.
        (72, &probes.to_le_bytes(), "a listed sender would be missed"),
        // A kind of entries that the header omits, so that nobody looks it up.
        (19, &[0b0111], "records of page 0"),
    ] {
        fs::write(&path, &sound).unwrap();
        forge(&path, at, field);
        let opened = Filter::open(&path, Load::Memory);
        assert_eq!(opened.is_err(), [80, 48, 72].contains(&at), "{words}");
        has(&problem(Filter::verify(&path)).to_string(), words);
    }
}

/// Half-full pages are refused, whoever wrote them.
#[test]
fn pages_that_hit_everybody_are_refused() {
    let folder = folder(&[]);
    let (pages, probes) = (1, 20);
    let shape = Shape { pages, probes };
    let replacement = Replacement::claim(&folder.at("a.blf")).unwrap();
    let keys = records(40_000);
    let mut writer = Writer::begin(replacement, spec(1e-6, false), 40_000, shape, None).unwrap();
    let mut page = EncodedPage::default();
    encode_page(writer.layout(), &keys, &mut page);
    writer.append(&[page]).unwrap();
    let found = problem(writer.finish()).to_string();
    has(&found, "the pages match 1.00e0 of unlisted senders");
    assert!(folder.names().is_empty());
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let folder = folder(&[]);
    let wrong: [fn(&mut Spec); 5] = [
        |spec| spec.name = "x".repeat(256),
        |spec| spec.name = "a\nb".to_owned(),
        |spec| spec.fpr = 0.7,
        |spec| spec.fpr = f64::NAN,
        |spec| spec.sources[0].licence = "x".repeat(5_000),
    ];
    for change in wrong {
        let mut spec = spec(1e-6, true);
        change(&mut spec);
        let begun = begin(&folder.at("a.blf"), spec, 1);
        assert!(matches!(begun, Err(Error::Unwritable { .. })));
    }
    assert!(folder.names().is_empty());
}

/// Missing and duplicate pages and entries are detected before the old file is replaced.
#[test]
fn lost_pages_and_entries_are_noticed() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    let records = records(2_500);
    let begin = |entries| begin(&path, spec(1e-6, true), entries).unwrap();
    let pages = |writer: &Writer| -> Vec<_> {
        let encoded = by_page(writer.layout().shape, &records).map(|records| {
            let mut page = EncodedPage::default();
            encode_page(writer.layout(), records, &mut page);
            page
        });
        encoded.collect()
    };

    let mut writer = begin(2_500);
    writer.append(&pages(&writer)[..2]).unwrap();
    assert!(matches!(writer.finish(), Err(Error::Unwritable { .. })));

    let mut writer = begin(2_500);
    let appended = writer.append(&pages(&writer)[1..]);
    assert!(matches!(appended, Err(Error::Unwritable { .. })));
    drop(writer);

    let mut writer = begin(2_501);
    writer.append(&pages(&writer)).unwrap();
    let found = problem(writer.finish()).to_string();
    let what = "2500 records, but the header says 2501 entries";
    assert!(found.starts_with(what), "{found}");
    assert!(folder.names().is_empty());
}

/// A small list is found even if its file is overwritten. Fails without `small_records`: each
/// look-up of a listed key is then an error until the file is restored.
#[test]
fn a_small_list_in_memory_needs_its_file_no_longer() {
    let folder = folder(&[]);
    let path = folder.at("a.blf");
    let (_, old) = three_pages(&path);
    let filter = Filter::open(&path, Load::Memory).unwrap();
    assert!(filter.memory_bytes() > filter.header().page_bytes());
    fs::write(&path, "not a filter any more").unwrap();
    for record in &old {
        assert_eq!(filter.look_up(record.key).unwrap(), Answer::Listed(*record));
        let in_memory = filter.look_up_in_memory(record.key);
        assert_eq!(in_memory, Some(Answer::Listed(*record)));
    }
}

/// Corrects every checksum behind the pages after a change of bytes, at the positions of the intact
/// file, so that only the contents can reveal the change.
fn reseal(bytes: &mut [u8], header: &Header) {
    let pages = usize::try_from(header.shape.pages).unwrap();
    let sums = 4096 * (1 + pages);
    let directory = sums + 8 * pages;
    let sources = directory + 16 * pages;
    let records = bytes.len() - (header.record_bytes() as usize - 16 * pages);
    let sections = [sums..directory, directory..sources, sources..records];
    made::seal(bytes, directory..sources, records, sections);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Somebody who forges every checksum can make a filter that lists other senders, but none that
    /// makes a program panic.
    #[test]
    fn forged_files_are_answered_without_a_panic(
        count in 0_u64..1_500,
        in_header in prop::collection::vec((8_usize..240, any::<u8>()), 0..2),
        behind in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        block_heads in prop::collection::vec((0_usize..40, any::<u8>()), 0..3),
    ) {
        let folder = folder(&[]);
        let path = folder.at("a.blf");
        let records = records(count);
        let header = write(&path, spec(1e-6, true), &records).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        reseal(&mut bytes, &header);
        prop_assert!(bytes == fs::read(&path).unwrap(), "the sums of a sound file are right");

        let pages_end = 4096 * (1 + header.shape.pages) as usize;
        let blocks = bytes.len() - header.record_bytes() as usize + 16 * header.shape.pages as usize;
        let behind = behind.iter().map(|(at, byte)| (pages_end + at.index(bytes.len() - pages_end), *byte));
        let block_heads = block_heads.iter().map(|&(at, byte)| (blocks + at, byte));
        for (at, byte) in in_header.iter().copied().chain(behind).chain(block_heads).collect::<Vec<_>>() {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        reseal(&mut bytes, &header);
        fs::write(&path, &bytes).unwrap();
        let _ = Filter::verify(&path);
        for load in [Load::Memory, Load::Disk] {
            if let Ok(filter) = Filter::open(&path, load) {
                for record in &records {
                    let _ = filter.look_up(record.key);
                }
                let mut all = Batch::default();
                let _ = filter.records().map(|mut records| records.take_before(None, &mut all));
                let _ = filter.stats();
            }
        }
    }
}
