//! Compiling text lists to filter files: the same lists give the same bytes, and no entry is
//! missed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use blocklist_milter::base::day::Day;
use blocklist_milter::compile::{
    self, Changes, Expected, MIN_MEMORY_BYTES, Plan, Progress, Report,
};
use blocklist_milter::filter::{Filter, Key, Load};
use blocklist_milter::inspect::{self, Query};
use blocklist_milter::list::MaxRejects;
use proptest::prelude::{ProptestConfig, any, prop, proptest};

use crate::support::compile::{Dir, TODAY, addresses, build, folder, records, with_days};
use crate::support::has;

fn merge(dir: &Dir, output: &str, inputs: &[&str]) -> Result<Report, compile::Error> {
    let plan = dir.plan(output, inputs);
    compile::merge(&plan, None, &Expected::default(), &Progress::new())
}

#[test]
fn what_does_not_fit_into_memory_is_spilled_and_nothing_shows() {
    let list = (0..1_200_000_u32).map(|n| format!("u{n}@x.example\n"));
    let list: String = list.collect();
    let dir = folder(&[("list.txt", &list)]);
    let spilled = ["small.blf", "large.blf"].map(|output| {
        let mut plan = dir.plan(output, &["list.txt"]);
        plan.records = false;
        if output == "small.blf" {
            plan.memory_bytes = MIN_MEMORY_BYTES;
        }
        build(&plan).spilled_bytes > 0
    });
    assert_eq!(spilled, [true, false]);
    assert!(dir.read("small.blf") == dir.read("large.blf"));
    assert_eq!(dir.names(), ["large.blf", "list.txt", "small.blf"]);
}

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
        let changes = Changes { remove: vec![dir.at("remove.txt")], ..Changes::new(dir.plan("a.blf", &["b.txt"])) };
        compile::update(&changes, &Progress::new()).unwrap();
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
        let changes = Changes::new(dir.plan("grown.blf", &sides[1..]));
        compile::update(&changes, &Progress::new()).unwrap();
        // A file that would not change is not written.
        let (first, more) = if records_of_both { (&kept, &added) } else { (&added, &kept) };
        assert!(more.is_subset(first) || dir.read("both.blf") == dir.read("grown.blf"));

        dir.build("one.blf", &["a.txt"]);
        let mut loose = dir.plan("two.blf", &["b.txt"]);
        loose.fpr = Some(1e-2);
        build(&loose);
        merge(&dir, "merged.blf", &["one.blf", "two.blf"]).unwrap();
        dir.build("whole.blf", &["a.txt", "b.txt"]);
        assert!(dir.read("merged.blf") == dir.read("whole.blf"));
        let found = inspect::compare(&dir.at("one.blf"), &dir.at("two.blf")).unwrap();
        assert!(found.exact);
        assert_eq!(found.both, kept.intersection(&added).count() as u64);
        assert_eq!(found.either, kept.union(&added).count() as u64);
    }

    /// The fast path for plain lines and the full path give the same filter. A comment after an
    /// address sends its line to the full path.
    #[test]
    fn the_fast_path_gives_the_same_result(texts in prop::collection::vec("[a-zA-Z0-9.+_@=/*-]{1,24}(@[a-z.A-Z-]{1,12})?", 1..80), cut: bool) {
        let with_end = |end: &str| texts.iter().map(|text| format!("{text}{end}\n")).collect::<String>();
        let dir = folder(&[("short.txt", &with_end("")), ("long.txt", &with_end(if cut { " # why" } else { " " }))]);
        let [short, long] = ["short.txt", "long.txt"].map(|name| {
            let mut plan = dir.plan("out.blf", &[name]);
            (plan.allow_world, plan.allow_empty) = (true, true);
            plan.declared.format = Some("plain".parse().unwrap());
            plan.max_rejects = MaxRejects::Percent(100.0);
            assert_eq!(build(&plan).refused, None);
            dir.records("out.blf")
        });
        assert_eq!(short, long);
    }

    /// Duplicates merge to the same record in any order.
    #[test]
    fn duplicates_join_in_any_order(days in prop::collection::vec((19_000..20_400_u16, any::<bool>()), 1..8)) {
        let line = |(day, expires): &(u16, bool)| {
            let end = if *expires { Day(20_500 + day % 100).to_string() } else { String::new() };
            format!("a@b.example,{},{end}\n", Day(*day))
        };
        let dir = folder(&[]);
        let built = |rows: String| {
            dir.write("list.csv", format!("email,added,expires\n{rows}"));
            build(&Plan { declared: with_days(), ..dir.plan("list.blf", &["list.csv"]) });
            dir.records("list.blf")
        };
        let first = built(days.iter().map(line).collect());
        assert_eq!(first, built(days.iter().rev().map(line).collect()));
        assert_eq!(first[0].added, days.iter().map(|(day, _)| *day).min().unwrap());
        assert_eq!(first[0].expires.is_none(), days.iter().any(|(_, expires)| !expires));
    }
}

#[test]
fn pages_of_one_shape_are_united_without_records() {
    let (a, b) = (addresses(0..2000), addresses(1000..3000));
    let dir = folder(&[
        ("a.txt", &a),
        ("b.txt", &b),
        ("many.txt", &addresses(0..5000)),
    ]);
    for name in ["a", "b", "many"] {
        let mut bare = dir.plan(&format!("{name}.blf"), &[&format!("{name}.txt")]);
        bare.records = false;
        build(&bare);
    }
    let names = dir.names();
    let error = merge(&dir, "both.blf", &["a.blf", "many.blf"]).unwrap_err();
    has(&error.to_string(), "size or rate");
    assert_eq!(dir.names(), names);
    merge(&dir, "both.blf", &["a.blf", "b.blf"]).unwrap();
    let filter = dir.filter("both.blf");
    assert!(filter.header().estimated);
    // Fuller pages have a higher rate, which the union declares.
    assert!(filter.spec().fpr > 2.0 * dir.filter("a.blf").spec().fpr);
    let entries = filter.entries();
    assert!(entries.abs_diff(3000) < 100, "{entries}");
    let mut query = Query::open(&dir.at("both.blf"), Load::Memory, TODAY).unwrap();
    for line in (a + &b).lines() {
        assert!(query.ask(line.as_bytes()).unwrap().listed, "{line}");
    }
    let found = inspect::compare(&dir.at("a.blf"), &dir.at("b.blf")).unwrap();
    let is_near = found.both.abs_diff(1000) <= 2 * found.error + 10;
    assert!(!found.exact && is_near, "{found:?}");
}

#[test]
fn an_entry_ends_on_its_day() {
    let dir = folder(&[("list.txt", "a@b.example\nc@d.example\n")]);
    let mut plan = dir.plan("list.blf", &["list.txt"]);
    plan.expires = Some(Day(TODAY.0 + 10));
    build(&plan);
    let listed = |day: u16| {
        let mut query = Query::open(&plan.output, Load::Disk, Day(day)).unwrap();
        query.ask(b"a@b.example").unwrap().listed
    };
    assert!(listed(TODAY.0 + 9) && !listed(TODAY.0 + 10));
    plan.inputs.clear();
    plan.built += 11 * 86_400;
    plan.expires = None;
    compile::update(&Changes::new(plan), &Progress::new()).unwrap();
    assert_eq!(dir.filter("list.blf").entries(), 0);
}

/// Compares the counts over the records of many filters with sets.
#[test]
fn the_overlap_is_that_of_sets() {
    let ranges = [0..3_000, 1_000..9_000, 2_500..4_000, 20_000..20_010, 0..0];
    let dir = folder(&[]);
    let files = (0..).zip(ranges).map(|(n, range)| {
        dir.write(&format!("{n}.txt"), addresses(range));
        let mut plan = dir.plan(&format!("{n}.blf"), &[&format!("{n}.txt")]);
        plan.allow_empty = true;
        build(&plan);
        plan.output
    });
    let files: Vec<_> = files.collect();
    let overlap = inspect::overlap(&files).unwrap();
    let keys = |file| records(file).iter().map(|record| record.key).collect();
    let sets: Vec<BTreeSet<Key>> = files.iter().map(|file| keys(file)).collect();
    for (i, a) in sets.iter().enumerate() {
        for (j, b) in sets.iter().enumerate() {
            let both = a.intersection(b).count() as u64;
            assert_eq!(overlap.shared[i][j], both, "{i} and {j}");
            if i < j {
                let compared = inspect::compare(&files[i], &files[j]).unwrap();
                assert_eq!((compared.both, compared.a), (both, a.len() as u64));
            }
        }
        let others = |key: &&Key| (0..).zip(&sets).any(|(j, b)| i != j && b.contains(*key));
        let alone = a.len() - a.iter().filter(others).count();
        assert_eq!(overlap.alone.as_ref().unwrap()[i], alone as u64, "{i}");
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
    let asked = asked.collect::<String>() + &"x".repeat(1 << 20) + "\nno line end";
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
    has(long, "xxx...\",\"canonical\":null,\"listed\":false");
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
