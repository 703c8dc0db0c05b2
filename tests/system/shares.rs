//! A merge in shares: counts and pages of shares give the bytes of one merge, or nothing.
#![allow(clippy::unwrap_used, reason = "a test may end by a panic")]

use crate::support as machine;
use crate::support::compile as support;
use crate::support::kills;
use crate::support::pieces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocklist_milter::compile::{self, Error, Expected, Plan, Progress, Report};
use blocklist_milter::filter::{Filter, Share};
use kills::{When, at_each_call};
use machine::{find_program, usable};
use pieces::{part_plan, parts, text, whole};
use support::{addresses, build, command, folder, names, plan};

/// A folder with parts, in which a merge is done in shares.
struct Site<'a> {
    dir: &'a Path,
    parts: Vec<String>,
    /// Changes the plan of every step.
    change: fn(&mut Plan),
}

fn share(number: u32, of: u32) -> Share {
    Share::new(number, of).unwrap()
}

fn said<T>(done: Result<T, Error>) -> Result<T, String> {
    done.map_err(|error| error.to_string())
}

impl<'a> Site<'a> {
    fn new(dir: &'a Path, parts: &[String]) -> Self {
        Self {
            dir,
            parts: parts.to_vec(),
            change: |_| (),
        }
    }

    fn plan(&self, output: &str, inputs: &[String]) -> Plan {
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let mut plan = plan(self.dir, output, &inputs);
        (self.change)(&mut plan);
        plan
    }

    fn count(&self, number: u32, of: u32) -> Result<Report, String> {
        let plan = self.plan(&format!("{number}.count"), &self.parts);
        said(compile::count_share(
            &plan,
            share(number, of),
            &Expected::default(),
            &Progress::new(),
        ))
    }

    fn counts(&self, of: u32) -> Vec<String> {
        let count = |number| {
            let report = self.count(number, of).unwrap();
            assert!(report.share.is_some() && report.filter.is_none());
            format!("{number}.count")
        };
        (1..=of).map(count).collect()
    }

    fn write(&self, number: u32, of: u32, counts: &[String]) -> Result<Report, String> {
        self.write_at(None, number, of, counts)
    }

    fn write_at(
        &self,
        fpr: Option<f64>,
        number: u32,
        of: u32,
        counts: &[String],
    ) -> Result<Report, String> {
        let inputs = [counts, &self.parts].concat();
        let plan = self.plan(&format!("{number}.pages"), &inputs);
        said(compile::write_share(
            &plan,
            share(number, of),
            fpr,
            &Expected::default(),
            &Progress::new(),
        ))
    }

    fn pages(&self, of: u32, counts: &[String]) -> Vec<String> {
        let write = |number| {
            self.write(number, of, counts).unwrap();
            format!("{number}.pages")
        };
        (1..=of).map(write).collect()
    }

    fn join(&self, output: &str, pages: &[String]) -> Result<Report, String> {
        self.join_expecting(output, pages, &Expected::default())
    }

    fn join_expecting(
        &self,
        output: &str,
        pages: &[String],
        expected: &Expected,
    ) -> Result<Report, String> {
        let plan = self.plan(output, pages);
        let report = said(compile::join_shares(
            &plan,
            None,
            expected,
            &Progress::new(),
        ))?;
        if report.refused.is_none() {
            Filter::verify(&plan.output).unwrap();
        }
        Ok(report)
    }

    fn merge(&self, output: &str) -> Report {
        let plan = self.plan(output, &self.parts);
        compile::join(&plan, None, &Expected::default(), &Progress::new()).unwrap()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.join(name)).unwrap()
    }
}

#[test]
fn shares_give_the_bytes_of_one_build() {
    let text = text();
    let dir = folder(&[]);
    let one = whole(dir.path(), &text);
    let parts = parts(dir.path(), &text, 7);
    for (counts, pages, threads) in [(1, 1, 1), (2, 3, 2), (3, 2, 1), (7, 64, 2), (64, 7, 2)] {
        let mut site = Site::new(dir.path(), &parts);
        if threads == 1 {
            site.change = |plan| plan.threads = 1;
        }
        let mut counts = site.counts(counts);
        // Another machine may name the parts in another order.
        site.parts.reverse();
        counts.rotate_left(1);
        let mut pages = site.pages(pages, &counts);
        pages.reverse();
        site.join("all.blf", &pages).unwrap();
        assert!(site.read("all.blf") == one, "{pages:?}");
        fs::remove_file(dir.path().join("all.blf")).unwrap();
    }
}

/// The reports also agree, except for the time.
#[test]
fn the_report_is_that_of_one_merge() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &text(), 4);
    let site = Site::new(dir.path(), &parts);
    let merged = site.merge("all.blf");
    let one = site.read("all.blf");
    fs::remove_file(dir.path().join("all.blf")).unwrap();
    let pages = site.pages(3, &site.counts(2));
    let joined = site.join("all.blf", &pages).unwrap();
    assert!(site.read("all.blf") == one);
    let [merged, joined] = [merged, joined].map(|mut report| {
        report.seconds = 0.0;
        serde_json::to_value(&report).unwrap()
    });
    assert_eq!(merged, joined);
}

/// Dates of rows in some parts only, several lists, and entries that have expired by the day of the
/// merge.
#[test]
fn dates_and_several_lists_survive() {
    let dated = |range: std::ops::Range<u32>| -> String {
        let row = |n| {
            format!(
                "user{n}@x.example,20{:02}-03-01,20{:02}-06-01\n",
                10 + n % 9,
                27 + n % 9
            )
        };
        "email,added,expires\n".to_owned() + &range.map(row).collect::<String>()
    };
    let dir = folder(&[
        ("a.csv", &dated(0..900)),
        ("b.csv", &dated(600..1500)),
        ("more.txt", &addresses(0..3000)),
        ("none.txt", ""),
    ]);
    for (piece, source) in [
        ("a.csv", "dated.csv"),
        ("b.csv", "dated.csv"),
        ("more.txt", "more.txt"),
        ("none.txt", "none.txt"),
    ] {
        build(&part_plan(dir.path(), piece, source));
    }
    let parts = ["a.csv", "b.csv", "more.txt", "none.txt"].map(|piece| format!("{piece}.part"));
    for change in [
        |_: &mut Plan| (),
        |plan: &mut Plan| plan.built += 3650 * 86_400,
        |plan: &mut Plan| plan.built += 40_000 * 86_400,
    ] {
        let mut site = Site::new(dir.path(), &parts);
        site.change = change;
        let merged = site.merge("all.blf");
        let one = site.read("all.blf");
        fs::remove_file(dir.path().join("all.blf")).unwrap();
        let counts = site.counts(5);
        let pages = site.pages(4, &counts);
        let joined = site.join("all.blf", &pages).unwrap();
        assert!(site.read("all.blf") == one);
        assert_eq!(
            (joined.rows, joined.expired, joined.duplicates),
            (merged.rows, merged.expired, merged.duplicates)
        );
        for file in ["all.blf"]
            .into_iter()
            .chain(counts.iter().chain(&pages).map(String::as_str))
        {
            fs::remove_file(dir.path().join(file)).unwrap();
        }
    }
}

#[test]
fn few_entries_in_many_shares() {
    for lines in [0, 1, 2, 5] {
        let text = addresses(0..lines);
        let dir = folder(&[]);
        let one = whole(dir.path(), &text);
        let site = Site::new(dir.path(), &parts(dir.path(), &text, 3));
        let pages = site.pages(9, &site.counts(9));
        site.join("all.blf", &pages).unwrap();
        assert!(site.read("all.blf") == one, "{lines}");
    }
}

/// A repeated attempt at a share, and one of another merge.
#[test]
fn attempts_at_one_share_are_taken_once_or_refused() {
    let text = text();
    let dir = folder(&[]);
    let one = whole(dir.path(), &text);
    let site = Site::new(dir.path(), &parts(dir.path(), &text, 3));
    let mut counts = site.counts(2);
    let mut pages = site.pages(2, &counts);
    let again = |name: &str, as_name: &str| {
        fs::copy(dir.path().join(name), dir.path().join(as_name)).unwrap();
        as_name.to_owned()
    };
    counts.push(again("2.count", "again.count"));
    pages.push(again("1.pages", "again.pages"));
    let first = site.read("2.pages");
    site.write(2, 2, &counts).unwrap();
    assert!(
        site.read("2.pages") == first,
        "all of a share is determined"
    );
    site.join("all.blf", &pages).unwrap();
    assert!(site.read("all.blf") == one);

    // Our program cannot make different pages from another count of the same parts, but another
    // program may.
    let foreign = |offset: usize, name: &str| {
        let mut bytes = site.read(name);
        bytes[offset] ^= 1;
        seal(&mut bytes);
        fs::write(dir.path().join(name), bytes).unwrap();
    };
    // A field of the first source, of mailboxes, or of expired entries.
    foreign(80, "again.count");
    let error = site.write(1, 2, &counts).unwrap_err();
    assert!(
        error.contains("again.count: differs from ") && error.contains("both are share 2 of 2"),
        "{error}"
    );
    // The checksum of its page checksums.
    foreign(104, "again.pages");
    let error = site.join("all.blf", &pages).unwrap_err();
    assert!(
        error.contains("again.pages: differs from ") && error.contains("both are share 1 of 2"),
        "{error}"
    );
}

/// Corrects the checksum of a share's header.
fn seal(bytes: &mut [u8]) {
    let length = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    let at = usize::try_from(length).unwrap() - 8;
    let sum = twox_hash::XxHash3_64::oneshot(&bytes[..at]);
    bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn what_is_missing_or_foreign_is_refused_by_name() {
    let text = text();
    let dir = folder(&[]);
    let parts = parts(dir.path(), &text, 3);
    let site = Site::new(dir.path(), &parts);
    let counts = site.counts(3);
    let pages = site.pages(3, &counts);
    let expect = |done: Result<Report, String>, message: &str| {
        let error = done.unwrap_err();
        assert!(error.contains(message), "{error}");
    };
    // Counts.
    expect(
        site.write(1, 2, &[]),
        "--pages: give the counts of all shares",
    );
    expect(
        site.write(1, 2, &counts[1..2]),
        "of 3 shares the counts of these are missing: 1, 3",
    );
    let of_two = Site {
        parts: parts[..2].to_vec(),
        ..Site::new(dir.path(), &[])
    };
    expect(
        of_two.write(1, 2, &counts),
        "1.count: counts of other parts than those given here",
    );
    let mut tomorrow = Site::new(dir.path(), &parts);
    tomorrow.change = |plan| plan.built += 86_400;
    expect(
        tomorrow.write(1, 2, &counts),
        "1.count: made for the day 2025-11-08, but this merge is of 2025-11-09; give all steps the same --date",
    );
    expect(
        site.write(1, 2, &[&counts[..], &pages[1..2]].concat()),
        "2.pages: not the counts of a share; make them with blocklist-compile merge --count",
    );
    fs::create_dir(dir.path().join("four")).unwrap();
    let other = |number: u32, of: u32| {
        let plan = site.plan(&format!("four/{number}.count"), &parts);
        compile::count_share(
            &plan,
            share(number, of),
            &Expected::default(),
            &Progress::new(),
        )
        .unwrap();
        format!("four/{number}.count")
    };
    let four = other(4, 4);
    expect(
        site.write(1, 2, &[&counts[..], &[four]].concat()),
        "four/4.count: share 4 of 4, but",
    );

    // Pages.
    let join = |pages: &[String]| site.join("all.blf", pages);
    expect(
        join(&pages[..2]),
        "of 3 shares the pages of these are missing: 3",
    );
    expect(
        join(&[&pages[..], &counts[..1]].concat()),
        "1.count: not the pages of a share; make them with blocklist-compile merge --pages",
    );
    expect(
        join(&[&pages[..], &parts[..1]].concat()),
        "piece.0000.part: not the pages of a share",
    );
    expect(
        tomorrow.join("all.blf", &pages),
        "1.pages: made for the day 2025-11-08, but this merge is of 2025-11-09",
    );
    let with = |third: &Site<'_>, counts: &[String], fpr| {
        third.write_at(fpr, 3, 3, counts).unwrap();
        let refused = join(&pages);
        site.write(3, 3, &site.counts(3)).unwrap();
        refused
    };
    let two_counts = of_two.counts(1);
    expect(
        with(&of_two, &two_counts, None),
        "3.pages: made of other parts than",
    );
    let later = tomorrow.counts(1);
    expect(
        with(&tomorrow, &later, None),
        "3.pages: made for the day 2025-11-09, but",
    );
    expect(
        with(&site, &site.counts(3), Some(1e-4)),
        "3.pages: made for the rate 1e-4, but",
    );
    site.write(3, 4, &site.counts(3)).unwrap();
    expect(join(&pages), "3.pages: share 3 of 4, but");
    site.write(3, 3, &site.counts(3)).unwrap();
    let mut plan = site.plan("all.blf", &pages);
    plan.fpr = 1e-4;
    let rate = compile::join_shares(&plan, Some(1e-4), &Expected::default(), &Progress::new());
    expect(
        said(rate),
        "1.pages: made for the rate 1e-6; leave --fpr out, or make all pages again with --fpr 1e-4",
    );
    let mixed = site.plan("all.blf", &[&parts[..], &pages[..1]].concat());
    expect(
        said(compile::join(
            &mixed,
            None,
            &Expected::default(),
            &Progress::new(),
        )),
        "1.pages: one share of a merge, not a filter; join the pages of all shares with blocklist-compile merge",
    );
    assert!(!dir.path().join("all.blf").exists());
    join(&pages).unwrap();
}

/// The limits of a merge of parts also apply to a merge of shares.
#[test]
fn the_limits_of_a_merge_hold_for_shares() {
    let dir = folder(&[("pieces.txt", "piece.0000\npiece.0001\n")]);
    let parts = parts(dir.path(), &addresses(0..2_000), 2);
    let site = Site::new(dir.path(), &parts);
    let pages = site.pages(2, &site.counts(2));
    let expected = |pieces: &str, source: &str| Expected {
        pieces: Some(dir.path().join(pieces)),
        sources: vec![source.to_owned()],
    };
    let join = |expected: &Expected| site.join_expecting("all.blf", &pages, expected);
    join(&expected("pieces.txt", "list.txt")).unwrap();
    let first = site.read("all.blf");
    fs::write(
        dir.path().join("more.txt"),
        "piece.0000\npiece.0001\npiece.0002\n",
    )
    .unwrap();
    let error = join(&expected("more.txt", "list.txt")).unwrap_err();
    assert!(
        error.ends_with("more.txt: parts of these pieces are missing: piece.0002"),
        "{error}"
    );
    fs::write(dir.path().join("less.txt"), "piece.0000\n").unwrap();
    let error = join(&expected("less.txt", "list.txt")).unwrap_err();
    assert!(
        error.contains("1.pages: the part of a piece that is not in "),
        "{error}"
    );
    let error = join(&expected("pieces.txt", "other.txt")).unwrap_err();
    assert!(
        error.contains("1.pages: a part of list.txt, which is not given by --source"),
        "{error}"
    );
    // Counts and pages check the same.
    let plan = site.plan("x.count", &parts);
    let counted = compile::count_share(
        &plan,
        share(1, 2),
        &expected("more.txt", "list.txt"),
        &Progress::new(),
    );
    assert!(
        said(counted)
            .unwrap_err()
            .contains("more.txt: parts of these pieces")
    );

    // It is the next generation, and never a smaller one.
    assert!(site.read("all.blf") == first);
    let mut limited = Site::new(dir.path(), &parts);
    limited.change = |plan| (plan.max_shrink, plan.max_growth) = (Some(20), Some(20));
    assert_eq!(
        limited
            .join("all.blf", &pages)
            .unwrap()
            .filter
            .unwrap()
            .generation,
        2
    );
    let second = site.read("all.blf");
    let half = Site::new(dir.path(), &parts[..1]);
    let half_pages = half.pages(1, &half.counts(1));
    let refused = limited
        .join("all.blf", &half_pages)
        .unwrap()
        .refused
        .unwrap();
    assert!(
        refused.contains("list.txt: ") && refused.contains("--max-shrink 20%"),
        "{refused}"
    );
    assert!(site.read("all.blf") == second);
    half.join("all.blf", &half_pages).unwrap();
    let pages = site.pages(2, &site.counts(2));
    let refused = limited.join("all.blf", &pages).unwrap().refused.unwrap();
    assert!(refused.contains("--max-growth 20%"), "{refused}");
}

/// A share replaces only shares of its kind, and nothing else replaces it by chance.
#[test]
fn a_share_replaces_its_like_only() {
    let dir = folder(&[("1.count", "precious")]);
    let parts = parts(dir.path(), &addresses(0..100), 1);
    let mut site = Site::new(dir.path(), &parts);
    let error = site.count(1, 1).unwrap_err();
    assert!(
        error.ends_with("1.count: exists but is not the counts of a share; move it away, or replace it with --overwrite"),
        "{error}"
    );
    site.change = |plan| plan.overwrite = true;
    site.count(1, 1).unwrap();
    site.change = |_| ();
    site.count(1, 1).unwrap();
    let counts = ["1.count".to_owned()];
    fs::copy(dir.path().join("1.count"), dir.path().join("1.pages")).unwrap();
    let error = site.write(1, 1, &counts).unwrap_err();
    assert!(
        error.contains("1.pages: exists but is not the pages of a share"),
        "{error}"
    );
    fs::remove_file(dir.path().join("1.pages")).unwrap();
    let pages = site.pages(1, &counts);
    let error = site.join("1.count", &pages).unwrap_err();
    assert!(
        error.contains("1.count: exists but is not a valid filter file"),
        "{error}"
    );
}

#[test]
fn a_damaged_share_is_refused_by_name() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &addresses(0..60), 2);
    let site = Site::new(dir.path(), &parts);
    let counts = site.counts(2);
    let pages = site.pages(2, &counts);
    site.join("one.blf", &pages).unwrap();
    let try_all = |name: &str, attempt: &dyn Fn() -> Result<Report, String>| {
        let path = dir.path().join(name);
        let good = fs::read(&path).unwrap();
        let head = usize::try_from(u64::from_le_bytes(good[16..24].try_into().unwrap())).unwrap();
        let refused = |bad: &[u8], what: &dyn Fn() -> String| {
            fs::write(&path, bad).unwrap();
            let error = attempt().unwrap_err();
            assert!(error.contains(&format!("{name}: ")), "{}: {error}", what());
            let verified = blocklist_milter::inspect::check_share(&path);
            assert!(!matches!(verified, Ok(Some(_))), "{}", what());
        };
        for length in 0..good.len() {
            refused(&good[..length], &|| format!("{length} bytes"));
        }
        refused(&[&good[..], b"x"].concat(), &|| "one byte more".to_owned());
        // Every bit of the fields, one bit of every byte of the header, and one of every 7th byte
        // after it.
        let all_bits = (0..128).flat_map(|at| (0..8).map(move |bit| (at, bit)));
        let some = (128..head).chain((head..good.len()).step_by(7));
        for (at, bit) in all_bits.chain(some.map(|at| (at, at % 8))) {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            refused(&bad, &|| format!("byte {at}, bit {bit}"));
        }
        fs::write(&path, &good).unwrap();
        assert!(
            blocklist_milter::inspect::check_share(&path)
                .unwrap()
                .is_some()
        );
    };
    let mut other = Site::new(dir.path(), &parts);
    other.change = |plan| {
        plan.output.set_extension("again");
        plan.threads = 1;
    };
    try_all("2.count", &|| other.write(1, 2, &counts));
    // The page of such a small list is in the last share.
    try_all("2.pages", &|| site.join("bad.blf", &pages));
    assert!(!dir.path().join("bad.blf").exists() && !dir.path().join("1.again").exists());
    site.join("again.blf", &pages).unwrap();
    assert!(site.read("again.blf") == site.read("one.blf"));
}

/// Memory and time depend on the data, never on a header, whose checksum anybody can make.
#[test]
fn a_share_that_says_what_cannot_be_is_refused() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &addresses(0..60), 2);
    let site = Site::new(dir.path(), &parts);
    let counts = site.counts(2);
    let pages = site.pages(2, &counts);
    let header = 128;
    for (name, at, value) in [
        // Shares, sources, parts; entries and expired entries of a source; records of a part.
        ("2.count", 24, u64::MAX),
        ("2.count", 68, u64::from(u32::MAX)),
        ("2.count", 72, u64::from(u32::MAX)),
        ("2.count", 80, u64::MAX),
        ("2.count", 80, 1 << 40),
        ("2.count", 112, u64::MAX),
        ("2.count", 120, u64::MAX),
        ("2.count", 120, 1 << 40),
        ("2.count", 120, 7),
        // Entries, bits, bytes of records, bytes of the filter.
        ("2.pages", 80, u64::MAX),
        ("2.pages", 80, 3),
        ("2.pages", 88, u64::MAX),
        ("2.pages", 96, u64::MAX),
        ("2.pages", 96, 1 << 61),
        ("2.pages", 96, 1),
        ("2.pages", 120, u64::MAX),
        ("2.pages", 120, 0),
        // In the header page, whose own checksum is then wrong.
        ("2.pages", header + 56, u64::MAX),
        ("2.pages", header + 64, 1 << 40),
    ] {
        let good = site.read(name);
        let mut bad = good.clone();
        bad[at..at + 8].copy_from_slice(&value.to_le_bytes());
        seal(&mut bad);
        fs::write(dir.path().join(name), &bad).unwrap();
        let done = match name {
            "2.count" => site.write(1, 2, &counts),
            _ => site.join("all.blf", &pages),
        };
        assert!(done.is_err(), "{name} {at} {value}");
        fs::write(dir.path().join(name), &good).unwrap();
    }
    // The same with both checksums corrected: more pages than the entries need, and too many
    // entries.
    for (at, value) in [(56, 1_u64 << 50), (64, 1 << 40), (72, 64), (56, u64::MAX)] {
        let good = site.read("2.pages");
        let mut bad = good.clone();
        bad[header + at..][..8].copy_from_slice(&value.to_le_bytes());
        let sum = twox_hash::XxHash3_64::oneshot(&bad[header..header + 4088]);
        bad[header + 4088..][..8].copy_from_slice(&sum.to_le_bytes());
        seal(&mut bad);
        fs::write(dir.path().join("2.pages"), &bad).unwrap();
        assert!(site.join("all.blf", &pages).is_err(), "{at} {value}");
        fs::write(dir.path().join("2.pages"), &good).unwrap();
    }
    assert!(!dir.path().join("all.blf").exists());
}

/// Killed at each system call that changes a file, each step leaves the old file or the new one,
/// complete.
#[test]
fn a_kill_at_any_system_call_leaves_a_whole_file() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &addresses(0..900), 2);
    let old = Site::new(dir.path(), &parts[..1]);
    let new = Site::new(dir.path(), &parts);
    let old_pages = old.pages(1, &old.counts(1));
    old.join("old.blf", &old_pages).unwrap();
    let [old_count, old_page] = ["1.count", "1.pages"].map(|name| old.read(name));
    let pages = new.pages(1, &new.counts(1));
    let join = new.plan("here", &pages);
    fs::copy(dir.path().join("old.blf"), &join.output).unwrap();
    new.join("here", &pages).unwrap();
    let [new_count, new_page, new_filter] =
        ["1.count", "1.pages", "here"].map(|name| new.read(name));
    let old_filter = new.read("old.blf");
    let day = format!("--date={}", support::TODAY);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let merge = ["merge", "-q", &day, "-o", "here"];
    for (words, old, new) in [
        (
            [&merge[..], &["--count", "1/1"], &parts].concat(),
            old_count,
            new_count,
        ),
        (
            [&merge[..], &["--pages", "1/1", "1.count"], &parts].concat(),
            old_page,
            new_page,
        ),
        (
            [&merge[..], &["--name", "test", "1.pages"]].concat(),
            old_filter,
            new_filter,
        ),
    ] {
        let files = names(dir.path()).len();
        let kills = at_each_call(
            dir.path(),
            &words,
            || fs::write(dir.path().join("here"), &old).unwrap(),
            |when| {
                let here = fs::read(dir.path().join("here")).unwrap();
                assert!(here == old || here == new, "{words:?}");
                if when == When::Finished {
                    assert_eq!(names(dir.path()).len(), files);
                }
                here == old
            },
        );
        assert!(
            kills.is_none_or(|kills| kills.killed > 10 && kills.kept > 5),
            "{kills:?}"
        );
    }
}

/// The daemon reports what the file is, and what to do.
#[test]
fn the_daemon_refuses_shares() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &addresses(0..9), 1);
    let site = Site::new(dir.path(), &parts);
    let pages = site.pages(1, &site.counts(1));
    for name in ["1.count", pages[0].as_str()] {
        let config = format!(
            "listen = []\n[[list]]\nname = \"spam\"\nfilter = \"{}\"\n",
            dir.path().join(name).display()
        );
        fs::write(dir.path().join("x.toml"), config).unwrap();
        let check = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
            .args(["check", "--config", "x.toml"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(check.stderr).unwrap();
        assert_eq!(check.status.code(), Some(2), "{stderr}");
        let message = format!("{name}: one share of a merge, not a filter; join the pages of all");
        assert!(stderr.contains(&message), "{stderr}");
        let query = command(&["query", name, "a@b.example"]);
        let mut query = query;
        let query = query.current_dir(dir.path()).output().unwrap();
        assert_eq!(query.status.code(), Some(2));
    }
}

/// The example of the manual, after the one for parts.
#[test]
fn gnu_parallel_merges_in_shares() {
    let missing = find_program("parallel").is_none();
    if !usable("parallel", missing.then(|| "not installed".to_owned())) {
        return;
    }
    let dir = folder(&[("big.txt", &text())]);
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/large.md")).unwrap();
    let recipes: Vec<&str> = guide
        .split("```bash\n")
        .filter_map(|block| block.split("```").next())
        .filter(|block| block.contains("parallel "))
        .collect();
    let [parts, shares] = recipes.as_slice() else {
        panic!("docs/large.md has two recipes for GNU parallel");
    };
    let bin = PathBuf::from(env!("CARGO_BIN_EXE_blocklist-compile"));
    let path = format!(
        "{}:{}",
        bin.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let script = format!("{parts}\nmv big.blf one.blf\n{shares}");
    let done = Command::new("sh")
        .args(["-euc", &script])
        .current_dir(dir.path())
        .env("PATH", &path)
        .env("HOME", dir.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{stderr}");
    let read = |file| fs::read(dir.path().join(file)).unwrap();
    assert!(read("one.blf") == read("big.blf"));
}
