//! Compiling text lists to filter files: no entry is missed, and a query answers in its order.
//! `tests/commands/same-bytes.toml` compares the bytes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use blocklist_compile::compile::{self, Changes, Expected, Progress};
use blocklist_compile::inspect::{self, Query};
use blocklist_filter::base::day::Day;
use blocklist_filter::filter::{Filter, Load};
use proptest::prelude::{ProptestConfig, prop, proptest};

use crate::support::compile::{TODAY, addresses, build, folder};
use crate::support::has;

#[test]
fn nothing_listed_is_missed_however_it_is_written() {
    let list = addresses(0..4_000);
    let dir = folder(&[("list.txt", &list)]);
    for records in [true, false] {
        let mut plan = dir.plan("list.blf", &["list.txt"]);
        (plan.records, plan.allow_world) = (records, true);
        build(&plan);
        let mut query = Query::open(&plan.output, Load::Memory, TODAY).unwrap();
        let mut listed = |line: &str| query.ask(line.as_bytes()).unwrap().listed;
        for line in list.lines() {
            assert!(listed(line), "{line}");
            let shouted = line.to_uppercase();
            assert!(listed(&shouted), "{shouted}");
        }
        if records {
            let mut strangers = (0..4_000).map(|n| format!("stranger{n}@other.example"));
            assert!(!strangers.any(|stranger| listed(&stranger)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Updating equals building from the remaining entries; merging equals building from all.
    #[test]
    fn records_stand_for_the_text(
        kept in prop::collection::btree_set(0..400_u32, 1..60),
        added in prop::collection::btree_set(0..400_u32, 1..60),
        removed in prop::collection::btree_set(0..400_u32, 0..60),
        records_of_both: bool,
    ) {
        let lines = |set: &BTreeSet<u32>| set.iter().map(|n| addresses(*n..n + 1)).collect::<String>();
        let left: BTreeSet<_> = kept.union(&added).filter(|n| !removed.contains(n)).copied().collect();
        let dir = folder(&[
            ("a.txt", &lines(&kept)),
            ("b.txt", &lines(&added)),
            ("remove.txt", &lines(&removed).to_uppercase()),
            ("left.txt", &lines(&left)),
        ]);
        dir.build("a.blf", &["a.txt"]);
        let changes = Changes { remove: vec![dir.at("remove.txt")], ..Changes::default() };
        compile::update(&dir.plan("a.blf", &["b.txt"]), &changes, &Progress::new()).unwrap();
        Filter::verify(&dir.at("a.blf")).unwrap();
        let keys = |name: &str| dir.records(name).iter().map(|record| (record.key, record.kind)).collect::<Vec<_>>();
        if left.is_empty() {
            assert_eq!(keys("a.blf"), []);
        } else {
            dir.build("left.blf", &["left.txt"]);
            assert_eq!(keys("a.blf"), keys("left.blf"));
        }

        // If only lists were added, the whole file is equal, byte for byte.
        let sides = if records_of_both { ["a.txt", "b.txt"] } else { ["b.txt", "a.txt"] };
        dir.build("both.blf", &sides[..1]);
        dir.build("both.blf", &sides);
        dir.build("grown.blf", &sides[..1]);
        compile::update(&dir.plan("grown.blf", &sides[1..]), &Changes::default(), &Progress::new()).unwrap();
        // A file that would not change is not written.
        let (first, more) = if records_of_both { (&kept, &added) } else { (&added, &kept) };
        assert!(more.is_subset(first) || dir.read("both.blf") == dir.read("grown.blf"));

        dir.build("one.blf", &["a.txt"]);
        let mut loose = dir.plan("two.blf", &["b.txt"]);
        loose.fpr = Some(1e-2);
        build(&loose);
        let merged = dir.plan("merged.blf", &["one.blf", "two.blf"]);
        compile::merge(&merged, &Expected::default(), &Progress::new()).unwrap();
        dir.build("whole.blf", &["a.txt", "b.txt"]);
        assert!(dir.read("merged.blf") == dir.read("whole.blf"));
        let found = inspect::compare(&dir.at("one.blf"), &dir.at("two.blf")).unwrap();
        assert_eq!(found.both, kept.intersection(&added).count() as u64);
        assert_eq!(found.either, kept.union(&added).count() as u64);
    }
}

#[test]
fn a_day_in_one_list_is_not_a_day_in_the_others() {
    let many: String = (0..50_000).map(|n| format!("u{n}@x.example\n")).collect();
    let end = format!(" # expires {}\n", Day(TODAY.0 + 5));
    let dated = many.replace('u', "v").replace('\n', &end);
    let dir = folder(&[
        ("a.txt", &many),
        ("b.txt", &dated),
        ("c.txt", "w@x.example\n"),
    ]);
    for threads in [1, 3] {
        let mut plan = dir.plan("out.blf", &["a.txt", "b.txt", "c.txt"]);
        plan.resources.threads = threads;
        build(&plan);
        let records = dir.records("out.blf");
        let ending = records.iter().filter(|record| record.expires.is_some());
        assert!(ending.clone().all(|record| record.source == 1));
        assert_eq!((records.len(), ending.count()), (100_001, 50_000));
    }
}

/// A person types an address and reads the answer; a program asks and waits.
#[test]
fn query_answers_each_line_before_it_asks_for_the_next() {
    let dir = folder(&[("good.txt", "a@b.example\n")]);
    dir.build("out.blf", &["good.txt"]);
    let mut query = dir.command("query out.blf -");
    let mut query = query.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = query.stdin.take().unwrap();
    let mut answers = BufReader::new(query.stdout.take().unwrap()).lines();
    for n in 0..3 {
        writeln!(input, "u{n}@c.example").unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert_eq!(answer, format!("u{n}@c.example: not listed"));
    }
    drop(input);
    assert_eq!(query.wait().unwrap().code(), Some(1));
}

/// All processors answer, but the output is in order.
#[test]
fn answers_come_in_the_order_of_the_questions() {
    let dir = folder(&[("list.txt", &addresses(0..20_000))]);
    dir.build("out.blf", &["list.txt"]);
    let asked = (0..60_000).map(|n| format!("user{n}@host.example\n"));
    let asked = asked.collect::<String>() + "user1@host.example" + &" ".repeat(1 << 20);
    let asked = asked + "x\nno line end";
    let file = std::fs::File::open(dir.write("asked.txt", &asked)).unwrap();
    let mut query = dir.command("query --json out.blf -");
    let done = query.stdin(file).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let mut query = Query::open(&dir.at("out.blf"), Load::Memory, TODAY).unwrap();
    let answers = String::from_utf8(done.stdout).unwrap();
    assert_eq!(answers.lines().count(), 60_002);
    for (answer, asked) in answers.lines().zip(asked.lines()).take(60_000) {
        let finding = query.ask(asked.as_bytes()).unwrap();
        assert_eq!(answer, serde_json::to_string(&finding).unwrap());
    }
    let [long, last] = [60_000, 60_001].map(|n| answers.lines().nth(n).unwrap());
    has(long, " [...] ");
    has(long, "\"canonical\":null,\"listed\":false");
    has(last, "no line end");
}

#[test]
fn an_address_that_is_asked_for_need_not_be_utf8() {
    let dir = folder(&[("list.txt", "@b.example\n")]);
    dir.build("out.blf", &["list.txt"]);
    let mut query = dir.command("query out.blf");
    let asked = query.arg(OsStr::from_bytes(b"B\xfcro@b.example")).output();
    assert_eq!(asked.unwrap().status.code(), Some(0));
}
