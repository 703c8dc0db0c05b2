//! A join of shares, written only from `contrib/filter-format.md`: it checks that what the compiler
//! writes agrees with the document.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may fail, and cuts numbers where the document does"
)]

use crate::support::compile as support;

use std::fs;
use std::path::Path;

use support::{addresses, command, folder};
use twox_hash::XxHash3_64;

const SHARES: u32 = 3;
const DATE: &str = "2026-10-01";
/// The same day, counted from 1970-01-01.
const DAY: u16 = 20_727;

/// The bytes of a share, read from the front.
struct Bytes(Vec<u8>, usize);

impl Bytes {
    fn open(path: &Path) -> Self {
        Self(fs::read(path).unwrap(), 0)
    }

    fn take(&mut self, length: usize) -> &[u8] {
        self.1 += length;
        &self.0[self.1 - length..self.1]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    /// Reads a checksum of all bytes before it.
    fn check(&mut self) {
        let sum = XxHash3_64::oneshot(&self.0[..self.1]);
        assert_eq!(self.u64(), sum);
    }

    /// Reads what both kinds of shares begin with; returns the length of the head, the sources and
    /// the parts.
    fn head(&mut self, kind: u32, number: u32) -> (u64, usize, usize) {
        assert_eq!(
            self.take(8),
            [0x89, 0x62, 0x6c, 0x73, 0x0d, 0x0a, 0x1a, 0x0a]
        );
        assert_eq!((self.u32(), self.u32()), (1, kind));
        let length = self.u64();
        assert_eq!((self.u32(), self.u32()), (number, SHARES));
        self.take(32);
        assert_eq!((self.u16(), self.u16()), (DAY, 0));
        let counts = (self.u32() as usize, self.u32() as usize);
        assert_eq!(self.u32(), 0);
        (length, counts.0, counts.1)
    }
}

fn u64_in(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Joins the pages of all shares into the bytes of a filter.
fn join(dir: &Path, name: &str, generation: u64, built: u64) -> Vec<u8> {
    let (mut header, mut sources) = (Vec::new(), Vec::new());
    let (mut pages, mut sums, mut directory) = (Vec::new(), Vec::new(), Vec::new());
    let (mut records, mut bits_set, mut entries) = (Vec::new(), 0, 0);
    for number in 1..=SHARES {
        let mut share = Bytes::open(&dir.join(format!("{number}.pages")));
        let (length, source_count, part_count) = share.head(2, number);
        entries += share.u64();
        bits_set += share.u64();
        let records_length = share.u64() as usize;
        let (sum_of_sums, sum_of_directory) = (share.u64(), share.u64());
        let rest = share.u64();
        header = share.take(4096).to_vec();
        let all = u64_in(&header, 64);
        let sources_length = u64_in(&header, 104 + 24 * 3) as usize;
        sources = share.take(sources_length).to_vec();
        assert_eq!(rest, 4096 + (4096 + 8 + 16) * all + sources_length as u64);
        share.take(source_count * 40);
        for _ in 0..part_count {
            share.take(16);
            let length = usize::from(share.u16());
            share.take(length);
        }
        share.check();
        assert_eq!(share.1 as u64, length);
        let bound =
            |number: u32| (u128::from(number) * u128::from(all) / u128::from(SHARES)) as usize;
        let here = bound(number) - bound(number - 1);
        pages.extend_from_slice(share.take(4096 * here));
        let own = share.take(8 * here);
        assert_eq!(XxHash3_64::oneshot(own), sum_of_sums);
        sums.extend_from_slice(own);
        let own = share.take(16 * here);
        assert_eq!(XxHash3_64::oneshot(own), sum_of_directory);
        for row in own.chunks(16) {
            let end = u64_in(row, 0) + records.len() as u64;
            directory.extend_from_slice(&end.to_le_bytes());
            directory.extend_from_slice(&row[8..]);
        }
        records.extend_from_slice(share.take(records_length));
        assert_eq!(share.1, share.0.len());
    }
    set_u64(&mut header, 24, generation);
    set_u64(&mut header, 32, built);
    assert_eq!(u64_in(&header, 56), entries);
    set_u64(&mut header, 80, bits_set);
    set_u64(&mut header, 112 + 24, XxHash3_64::oneshot(&sums));
    set_u64(&mut header, 112 + 24 * 2, XxHash3_64::oneshot(&directory));
    set_u64(&mut header, 104 + 24 * 4, records.len() as u64);
    header[216..218].copy_from_slice(&(name.len() as u16).to_le_bytes());
    header[218..218 + name.len()].copy_from_slice(name.as_bytes());
    let sum = XxHash3_64::oneshot(&header[..4088]);
    set_u64(&mut header, 4088, sum);
    [header, pages, sums, directory, sources, records].concat()
}

#[test]
fn shares_are_joined_as_the_document_says() {
    let folder = folder(&[
        ("1.txt", &addresses(0..9_000)),
        ("2.txt", &addresses(6_000..14_000)),
    ]);
    let dir = folder.path();
    let run = |words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        let done = command(&words).current_dir(dir).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
    };
    for piece in ["1", "2"] {
        run(&format!(
            "build -q --part --seed 5eed --date {DATE} -o {piece}.part {piece}.txt"
        ));
    }
    for number in 1..=SHARES {
        run(&format!(
            "merge -q --date {DATE} --count {number}/{SHARES} -o {number}.count 1.part 2.part"
        ));
    }
    for number in 1..=SHARES {
        run(&format!(
            "merge -q --date {DATE} --pages {number}/{SHARES} -o {number}.pages 1.count 2.count 3.count 1.part 2.part"
        ));
    }
    run(&format!("merge -q --date {DATE} -o all.blf 1.part 2.part"));

    let (mut of_kinds, mut in_parts) = ([0; 4], [0; 2]);
    for number in 1..=SHARES {
        let mut share = Bytes::open(&dir.join(format!("{number}.count")));
        let (length, sources, parts) = share.head(1, number);
        assert_eq!((sources, parts), (2, 2));
        for _ in 0..sources {
            of_kinds
                .iter_mut()
                .for_each(|of_kind| *of_kind += share.u64());
            assert_eq!(share.u64(), 0, "none has expired");
        }
        in_parts
            .iter_mut()
            .for_each(|in_part| *in_part += share.u64());
        share.check();
        assert_eq!((share.1 as u64, share.1), (length, share.0.len()));
    }
    assert_eq!(in_parts, [9_000, 8_000]);
    assert_eq!(of_kinds.iter().sum::<u64>(), 14_000);

    let merged = fs::read(dir.join("all.blf")).unwrap();
    let (generation, built) = (u64_in(&merged, 24), u64_in(&merged, 32));
    let joined = join(dir, "all", generation, built);
    assert_eq!(joined.len(), merged.len());
    assert!(joined == merged, "the bytes differ");
}
