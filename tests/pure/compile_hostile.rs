//! Hostile lists give the same entries as the same lines in a plain list, with any number of
//! threads and any memory.

use std::collections::BTreeSet;
use std::fs;
use std::sync::LazyLock;

use blocklist_compile::compile::{self, Changes, MIN_MEMORY_BYTES, Plan, Progress};
use blocklist_compile::inspect;
use blocklist_compile::list::{Format, MaxRejects, Reader, Reading, Row};
use blocklist_filter::address::{Entry, Rules};
use blocklist_filter::filter::{Filter, Key, Load};
use twox_hash::XxHash3_64;

use crate::support::check::Random;
use crate::support::compile::{build, folder, names, plan, records};
use crate::support::has;
use crate::support::table::byte_words;

static DOMAINS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    byte_words(
        "
        bad.example gmail.com GoogleMail.com x.fastmail.com yahoo.co.uk xn--bcher-kva.example
        XN--BCHER-KVA.example xn--a.example a_b.example -a.example 192.0.2.1 [192.0.2.1] example
        b{FC}cher.example a..example bad.example. a-.b me.com proton.me
        ",
    )
});

/// Makes lists.
struct Dice(Random);

impl Dice {
    /// Returns a number below `end`.
    fn roll(&mut self, end: usize) -> usize {
        self.0.index(end)
    }

    fn one_of<'a>(&mut self, all: &[&'a [u8]]) -> &'a [u8] {
        self.0.one_of(all)
    }

    fn some_of(&mut self, signs: &[u8], most: usize) -> Vec<u8> {
        let count = self.roll(most + 1);
        (0..count).map(|_| signs[self.roll(signs.len())]).collect()
    }

    fn line(&mut self) -> Vec<u8> {
        const WORD: &[u8] = b"abcxyzABCXYZ0189+-_";
        const SIGNS: &[u8] = b"aZ09+-_..@@ \t\r\0#;,<>()\"\\[]!*=/:%&'{}|~^`?$\xc3\xbc\xff\x80\xef\xbb\xbf\xe2\x80\x8b";
        let local = [self.some_of(WORD, 12), b".q".repeat(self.roll(3))].concat();
        let domain = &self.0.one_of(&DOMAINS)[..];
        let at = &b"@"[..];
        let comments: &[&[u8]] = &[b" # why", b" OK", b" REJECT", b" ", b"\t1.5"];
        let signs: &[&[u8]] = &[b" ", b"\xef\xbb\xbf", b"#", b"!", b"prvs=12345678=", b"\0"];
        match self.roll(24) {
            0 => self.some_of(SIGNS, 40),
            1 => [&self.some_of(SIGNS, 9), at, &self.some_of(SIGNS, 30)].concat(),
            2 => [at, domain].concat(),
            3 => [self.one_of(&[b"*.", b".", b"*@", b""]), domain].concat(),
            4 => [&local, at].concat(),
            5 => [&local, at, domain, self.one_of(comments)].concat(),
            6 => [self.one_of(signs), &local, at, domain].concat(),
            // About as long as an address may be.
            7 => {
                let long = b"L".repeat(1 + self.roll(64));
                let domain = b"x.".repeat(110 + self.roll(80));
                [&long, at, &domain, b"y"].concat()
            }
            8 => [&b"l".repeat(280 + self.roll(120)), &b"@bad.example"[..]].concat(),
            9 => vec![],
            // Longer than a piece, and rarely longer than a line may be.
            10 if self.roll(60) == 0 => vec![b'a'; 8_000 + self.roll(400)],
            10 if self.roll(200) == 0 => {
                let long = b"a".repeat(60_000 + self.roll(300_000));
                [&long, &b"@bad.example"[..]].concat()
            }
            11 => [&local, at, domain, b",", &local, b"2@", domain].concat(),
            _ => {
                let number = self.roll(10_000).to_string();
                [&local, number.as_bytes(), at, domain].concat()
            }
        }
    }

    /// Returns a list of about this many bytes, with line ends of all kinds.
    fn list(&mut self, bytes: usize) -> Vec<u8> {
        let ends: &[&[u8]] = match self.roll(3) {
            0 => &[b"\n"],
            1 => &[b"\r\n"],
            _ => &[b"\n", b"\n", b"\n", b"\r\n", b"\r\r\n", b"\n\n", b"\n\r\n"],
        };
        let mut list = Vec::with_capacity(bytes);
        while list.len() < bytes {
            list.extend(self.line());
            list.extend(self.one_of(ends));
        }
        if self.roll(2) == 0 {
            let end = list.trim_ascii_end().len();
            list.truncate(end);
        }
        list
    }
}

/// The content of a list, read as a whole, line by line.
#[derive(Debug, Default, PartialEq)]
struct Said {
    keys: BTreeSet<(Key, u8)>,
    entries: u64,
    lines: u64,
    rejected: u64,
}

impl Said {
    /// Returns the numbers of keys, entries, lines and rejected lines.
    fn counts(&self) -> [u64; 4] {
        [
            self.keys.len() as u64,
            self.entries,
            self.lines,
            self.rejected,
        ]
    }
}

fn seed_of(plan: &Plan) -> u64 {
    Filter::open(&plan.output, Load::Disk).unwrap().spec().seed
}

fn said(list: &[u8], seed: u64) -> Said {
    let rules = Rules::default();
    let mut said = Said::default();
    let mut reader = Reader::new(&Reading::given(Format::Plain));
    reader.read(list, true, &mut |_, row| match row {
        Row::Entry(raw) => match Entry::parse(raw.text, rules) {
            Ok(entry) => {
                said.entries += 1;
                said.keys
                    .insert((Key::of(entry.as_bytes(), seed), entry.kind() as u8));
            }
            Err(_) => said.rejected += 1,
        },
        Row::Rejected { .. } => said.rejected += 1,
        Row::Skipped { .. } | Row::Refused { .. } => {}
    });
    said.lines = reader.lines();
    said
}

fn compare(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut dice = Dice(Random(seed));
        let bytes = [200, 8 << 10, 64 << 10, 300 << 10, 900 << 10][dice.roll(5)];
        let more = dice.roll(200);
        let list = dice.list(bytes + more);
        let folder = folder(&[]);
        fs::write(folder.path().join("list.txt"), &list).unwrap();
        let mut plan = plan(folder.path(), "out.blf", &["list.txt"]);
        (plan.allow_world, plan.limits.allow_empty) = (true, true);
        plan.reads.declared.format = Some(Format::Plain);
        plan.limits.max_rejects = MaxRejects::Percent(100.0);
        plan.resources.threads = 1 + dice.roll(4);
        plan.resources.memory_bytes = [MIN_MEMORY_BYTES, 1 << 30][dice.roll(2)];
        let built = compile::build(&plan, &Progress::new());
        let report = built.unwrap_or_else(|error| panic!("{seed}: {error}"));
        let stored = records(&plan.output);
        let found = Said {
            keys: stored
                .iter()
                .map(|record| (record.key, record.kind))
                .collect(),
            entries: report.rows,
            lines: report.inputs[0].lines,
            rejected: report.rejected,
        };
        let expected = said(&list, seed_of(&plan));
        let [shown, wanted] = [&found, &expected].map(Said::counts);
        assert!(found == expected, "seed {seed}: {shown:?}, not {wanted:?}");
        Filter::verify(&plan.output).unwrap();
    }
}

#[test]
fn hostile_lists_say_what_they_say() {
    compare(0..40);
}

#[test]
#[ignore = "minutes: tests/run --long"]
fn many_hostile_lists_say_what_they_say() {
    compare(1_000..3_000);
}

/// More lists than a narrow item can number.
#[test]
fn entries_of_thousands_of_lists_are_removed() {
    const LISTS: usize = 1_100;
    let listed = |n: usize| format!("u{n}@bad.example\n");
    let all: String = (0..LISTS + 5).map(listed).collect();
    let folder = folder(&[("all.txt", &all)]);
    let leaving = folder.path().join("leaving");
    fs::create_dir(&leaving).unwrap();
    for n in 0..LISTS {
        fs::write(leaving.join(format!("{n}.txt")), listed(n)).unwrap();
    }
    let mut plan = plan(folder.path(), "out.blf", &["all.txt"]);
    build(&plan);
    plan.reads.inputs.clear();
    let changes = Changes {
        remove: vec![leaving],
        ..Changes::default()
    };
    compile::update(&plan, &changes, &Progress::new()).unwrap();
    let seed = seed_of(&plan);
    let left = records(&plan.output);
    let left: BTreeSet<Key> = left.iter().map(|record| record.key).collect();
    let expected = (LISTS..LISTS + 5)
        .map(|n| Key::of(listed(n).trim().as_bytes(), seed))
        .collect();
    assert_eq!(left, expected);
    assert_eq!(names(folder.path()), ["all.txt", "leaving", "out.blf"]);
}

/// The numbers of entries in headers are declarations: whatever they are, comparing neither fails
/// nor believes them; without records, it is refused as always.
#[test]
fn declared_numbers_of_entries_do_no_harm_in_a_comparison() {
    let folder = folder(&[("list.txt", "a@b.example\nc@d.example\n")]);
    let path = folder.path().join("list.blf");
    for with_records in [true, false] {
        let mut plan = plan(folder.path(), "list.blf", &["list.txt"]);
        plan.records = with_records;
        plan.overwrite = true;
        build(&plan);
        // More records than there is room for would be refused.
        let most = if with_records { 100 } else { u64::MAX };
        for declared in [0, most] {
            let mut bytes = fs::read(&path).unwrap();
            bytes[56..64].copy_from_slice(&declared.to_le_bytes());
            let sum = XxHash3_64::oneshot(&bytes[..4088]);
            bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
            fs::write(&path, &bytes).unwrap();
            let found = inspect::compare(&path, &path);
            if with_records {
                let found = found.unwrap();
                assert_eq!((found.a, found.b, found.both, found.either), (2, 2, 2, 2));
                assert!(!found.to_string().is_empty());
            } else {
                has(&found.unwrap_err().to_string(), "list.blf: has no records");
            }
        }
    }
}

#[test]
fn a_line_longer_than_a_block_counts_as_one() {
    const BLOCK: usize = 256 << 10;
    for length in [BLOCK - 20, BLOCK, BLOCK + 1, 600_000] {
        let long = "x".repeat(length);
        let text = format!("a@x.example\n{long}\n{long}\nfoo bar\nb@x.example\n");
        let dir = folder(&[("list.txt", &text)]);
        let mut plan = dir.plan("out.blf", &["list.txt"]);
        plan.limits.max_rejects = MaxRejects::Lines(9);
        let report = compile::build(&plan, &Progress::new()).unwrap();
        assert_eq!(report.refused_files[0].line, 4);
        // What refuses a list is a rejected line, if the format is given.
        plan.reads.declared.format = Some(Format::Plain);
        let report = compile::build(&plan, &Progress::new()).unwrap();
        let rejects = report.rejects.iter().flat_map(|reason| &reason.first);
        let numbers = rejects.filter_map(|line| line.split("list.txt:").nth(1)?.split(':').next());
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        assert_eq!(numbers, ["2", "3", "4"], "{length}");
        assert_eq!(report.rows, 2);
    }
}
