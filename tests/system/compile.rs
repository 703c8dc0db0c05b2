//! Compiling text lists to filter files: the same lists give the same bytes, and no entry is
//! missed.

use crate::support::compile as support;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use blocklist_milter::base::day::Day;
use blocklist_milter::compile::{
    self, Changes, Error, Expected, MIN_MEMORY_BYTES, Plan, Progress, Seed,
};
use blocklist_milter::filter::{Answer, Filter, Key, Load};
use blocklist_milter::inspect::{self, Query};
use blocklist_milter::list::MaxRejects;
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use support::{
    LIST_WITH_DAYS, TODAY, addresses, build, command, folder, names, plan, records, with_days,
};

#[test]
fn threads_order_and_memory_do_not_show() {
    let folder = folder(&[
        ("b.txt", &addresses(0..6_000)),
        ("a.txt", &addresses(4_000..10_000)),
    ]);
    let dir = folder.path();
    let dated = "email,added,expires\nx@y.example,2024-01-02,\nuser1@host.example,2020-02-03,\n";
    fs::create_dir(dir.join("dated")).unwrap();
    fs::write(dir.join("dated/dated.csv"), dated).unwrap();
    fs::write(dir.join("dated/list.toml"), LIST_WITH_DAYS).unwrap();
    for dated in [false, true] {
        let mut all = vec!["b.txt", "a.txt"];
        if dated {
            all.push("dated");
        }
        build(&plan(dir, "one.blf", &all));
        let expected = fs::read(dir.join("one.blf")).unwrap();
        assert_eq!(
            Filter::open(&dir.join("one.blf"), Load::Disk)
                .unwrap()
                .entries(),
            if dated { 10_001 } else { 10_000 }
        );
        for (threads, memory) in [(1, 1 << 30), (2, MIN_MEMORY_BYTES), (7, MIN_MEMORY_BYTES)] {
            all.reverse();
            let _ = fs::remove_file(dir.join("other.blf"));
            let mut plan = plan(dir, "other.blf", &all);
            plan.threads = threads;
            plan.memory_bytes = memory;
            build(&plan);
            assert!(
                fs::read(dir.join("other.blf")).unwrap() == expected,
                "{threads} threads, {memory} bytes"
            );
        }
        fs::remove_file(dir.join("one.blf")).unwrap();
    }
}

#[test]
fn what_does_not_fit_into_memory_is_spilled_and_nothing_shows() {
    let list: String = (0..1_200_000_u32)
        .map(|n| format!("u{n}@x.example\n"))
        .collect();
    let folder = folder(&[("list.txt", &list)]);
    let mut small = plan(folder.path(), "small.blf", &["list.txt"]);
    small.memory_bytes = MIN_MEMORY_BYTES;
    small.records = false;
    let report = build(&small);
    assert!(report.spilled_bytes > 0);
    let mut large = plan(folder.path(), "large.blf", &["list.txt"]);
    large.records = false;
    assert_eq!(build(&large).spilled_bytes, 0);
    let read = |name| fs::read(folder.path().join(name)).unwrap();
    assert!(read("small.blf") == read("large.blf"));
    assert_eq!(names(folder.path()), ["large.blf", "list.txt", "small.blf"]);
}

#[test]
fn nothing_listed_is_missed_however_it_is_written() {
    let list = addresses(0..4_000);
    let folder = folder(&[("list.txt", &list)]);
    for records in [true, false] {
        let mut plan = plan(folder.path(), "list.blf", &["list.txt"]);
        plan.records = records;
        plan.allow_world = true;
        build(&plan);
        let mut query = Query::open(&plan.output, Load::Memory, TODAY).unwrap();
        for line in list.lines() {
            assert!(query.ask(line.as_bytes()).unwrap().listed, "{line}");
            let shouted = line.to_uppercase();
            assert!(query.ask(shouted.as_bytes()).unwrap().listed, "{shouted}");
        }
        if records {
            let strangers = (0..4_000).filter(|n| {
                query
                    .ask(format!("stranger{n}@other.example").as_bytes())
                    .unwrap()
                    .listed
            });
            assert_eq!(strangers.count(), 0);
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
        let lines = |set: &std::collections::BTreeSet<u32>| set.iter().map(|n| addresses(*n..n + 1)).collect::<String>();
        let left: std::collections::BTreeSet<_> = kept.union(&added).filter(|n| !removed.contains(n)).copied().collect();
        let folder = folder(&[
            ("a.txt", &lines(&kept)),
            ("b.txt", &lines(&added)),
            ("remove.txt", &lines(&removed).to_uppercase()),
            ("left.txt", &lines(&left)),
        ]);
        let dir = folder.path();
        build(&plan(dir, "a.blf", &["a.txt"]));
        let changes = Changes { remove: vec![dir.join("remove.txt")], ..Changes::new(plan(dir, "a.blf", &["b.txt"])) };
        compile::update(&changes, &Progress::new()).unwrap();
        Filter::verify(&dir.join("a.blf")).unwrap();
        if left.is_empty() {
            assert_eq!(records(&dir.join("a.blf")).len(), 0);
        } else {
            build(&plan(dir, "left.blf", &["left.txt"]));
            let keys = |name: &str| records(&dir.join(name)).iter().map(|record| (record.key, record.kind)).collect::<Vec<_>>();
            assert_eq!(keys("a.blf"), keys("left.blf"));
        }

        // If only lists were added, the whole file is equal, byte for byte.
        let sides = if records_of_both { ["a.txt", "b.txt"] } else { ["b.txt", "a.txt"] };
        build(&plan(dir, "both.blf", &sides[..1]));
        build(&plan(dir, "both.blf", &sides));
        build(&plan(dir, "grown.blf", &sides[..1]));
        let changes = Changes::new(plan(dir, "grown.blf", &sides[1..]));
        compile::update(&changes, &Progress::new()).unwrap();
        assert!(fs::read(dir.join("both.blf")).unwrap() == fs::read(dir.join("grown.blf")).unwrap());

        build(&plan(dir, "one.blf", &["a.txt"]));
        let mut loose = plan(dir, "two.blf", &["b.txt"]);
        loose.fpr = Some(1e-2);
        build(&loose);
        let merging = plan(dir, "merged.blf", &["one.blf", "two.blf"]);
        compile::merge(&merging, None, &Expected::default(), &Progress::new()).unwrap();
        build(&plan(dir, "whole.blf", &["a.txt", "b.txt"]));
        assert!(fs::read(dir.join("merged.blf")).unwrap() == fs::read(dir.join("whole.blf")).unwrap());
        let found = inspect::compare(&dir.join("one.blf"), &dir.join("two.blf")).unwrap();
        assert!(found.exact);
        assert_eq!(found.both, kept.intersection(&added).count() as u64);
        assert_eq!(found.either, kept.union(&added).count() as u64);
    }

    /// The fast path for plain lines and the full path give the same filter. A comment after an
    /// address sends its line to the full path.
    #[test]
    fn the_fast_path_gives_the_same_result(texts in prop::collection::vec("[a-zA-Z0-9.+_@=/*-]{1,24}(@[a-z.A-Z-]{1,12})?", 1..80), cut: bool) {
        let short: String = texts.iter().map(|text| format!("{text}\n")).collect();
        let long: String = texts.iter().map(|text| format!("{text}{}\n", if cut { " # why" } else { " " })).collect();
        let folder = folder(&[("short.txt", &short), ("long.txt", &long)]);
        let build = |name: &str| {
            let mut plan = plan(folder.path(), "out.blf", &[name]);
            (plan.allow_world, plan.allow_empty) = (true, true);
            plan.declared.format = Some("plain".parse().unwrap());
            plan.max_rejects = MaxRejects::Percent(100.0);
            match compile::build(&plan, &Progress::new()) {
                Ok(report) => {
                    assert_eq!(report.refused, None);
                    records(&plan.output)
                }
                Err(error) => panic!("{error}"),
            }
        };
        let (short, long) = (build("short.txt"), build("long.txt"));
        assert_eq!(short, long);
    }

    /// Duplicates merge to the same record in any order.
    #[test]
    fn duplicates_join_in_any_order(days in prop::collection::vec((19_000..20_400_u16, any::<bool>()), 1..8)) {
        let line = |(day, expires): &(u16, bool)| {
            let end = if *expires { Day(20_500 + day % 100).to_string() } else { String::new() };
            format!("a@b.example,{},{end}\n", Day(*day))
        };
        let head = "email,added,expires\n".to_owned();
        let forth: String = days.iter().map(line).collect();
        let back: String = days.iter().rev().map(line).collect();
        let folder = folder(&[("list.csv", &(head.clone() + &forth))]);
        let plan = Plan { declared: with_days(), ..plan(folder.path(), "list.blf", &["list.csv"]) };
        build(&plan);
        let first = records(&plan.output);
        fs::write(folder.path().join("list.csv"), head + &back).unwrap();
        build(&plan);
        assert_eq!(first, records(&plan.output));
        assert_eq!(first[0].added, days.iter().map(|(day, _)| *day).min().unwrap());
        assert_eq!(first[0].expires.is_none(), days.iter().any(|(_, expires)| !expires));
    }
}

#[test]
fn pages_of_one_shape_are_united_without_records() {
    let (a, b) = (addresses(0..2000), addresses(1000..3000));
    let folder = folder(&[("a.txt", &a), ("b.txt", &b)]);
    for (output, input) in [("a.blf", "a.txt"), ("b.blf", "b.txt")] {
        let mut bare = plan(folder.path(), output, &[input]);
        bare.records = false;
        build(&bare);
    }
    let merging = plan(folder.path(), "both.blf", &["a.blf", "b.blf"]);
    compile::merge(&merging, None, &Expected::default(), &Progress::new()).unwrap();
    let filter = Filter::open(&merging.output, Load::Disk).unwrap();
    assert!(
        filter.header().estimated && filter.entries().abs_diff(3000) < 100,
        "{}",
        filter.entries()
    );
    let mut query = Query::open(&merging.output, Load::Memory, TODAY).unwrap();
    for line in (a + &b).lines() {
        assert!(query.ask(line.as_bytes()).unwrap().listed, "{line}");
    }
    let found =
        inspect::compare(&folder.path().join("a.blf"), &folder.path().join("b.blf")).unwrap();
    assert!(
        !found.exact && found.both.abs_diff(1000) <= 2 * found.error + 10,
        "{found:?}"
    );
}

#[test]
fn an_entry_ends_on_its_day() {
    let folder = folder(&[("list.txt", "a@b.example\nc@d.example\n")]);
    let mut plan = plan(folder.path(), "list.blf", &["list.txt"]);
    plan.expires = Some(Day(TODAY.0 + 10));
    build(&plan);
    let listed = |day: u16| {
        Query::open(&plan.output, Load::Disk, Day(day))
            .unwrap()
            .ask(b"a@b.example")
            .unwrap()
            .listed
    };
    assert!(listed(TODAY.0 + 9) && !listed(TODAY.0 + 10));
    plan.inputs.clear();
    plan.built += 11 * 86_400;
    plan.expires = None;
    compile::update(&Changes::new(plan.clone()), &Progress::new()).unwrap();
    assert_eq!(Filter::open(&plan.output, Load::Disk).unwrap().entries(), 0);
}

#[test]
fn a_rebuild_keeps_the_seed_and_counts_on() {
    let folder = folder(&[("list.txt", "a@b.example\n")]);
    let mut plan = plan(folder.path(), "list.blf", &["list.txt"]);
    plan.seed = Seed::Keep;
    build(&plan);
    let first = Filter::open(&plan.output, Load::Disk).unwrap();
    build(&plan);
    let second = Filter::open(&plan.output, Load::Disk).unwrap();
    assert_eq!(first.spec().seed, second.spec().seed);
    assert_eq!((first.spec().generation, second.spec().generation), (1, 2));
    let mut other = self::plan(folder.path(), "other.blf", &["list.txt"]);
    other.seed = Seed::Keep;
    build(&other);
    assert_ne!(
        Filter::open(&other.output, Load::Disk).unwrap().spec().seed,
        first.spec().seed
    );
    other.seed = Seed::Of(plan.output);
    build(&other);
    assert_eq!(
        Filter::open(&other.output, Load::Disk).unwrap().spec().seed,
        first.spec().seed
    );
}

#[test]
fn filters_that_do_not_fit_together_are_refused() {
    let folder = folder(&[
        ("a.txt", "a@b.example\n"),
        ("many.txt", &addresses(0..5000)),
    ]);
    let dir = folder.path();
    build(&plan(dir, "a.blf", &["a.txt"]));
    let merge = |files: &[&str]| {
        compile::merge(
            &plan(dir, "out.blf", files),
            None,
            &Expected::default(),
            &Progress::new(),
        )
    };
    let mut other = plan(dir, "seed.blf", &["a.txt"]);
    other.seed = Seed::Fixed(1);
    build(&other);
    assert!(
        merge(&["a.blf", "seed.blf"])
            .unwrap_err()
            .to_string()
            .contains("--seed-from")
    );
    assert!(inspect::compare(&dir.join("a.blf"), &dir.join("seed.blf")).is_err());
    let mut rules = plan(dir, "rules.blf", &["a.txt"]);
    rules.rules.plus = true;
    build(&rules);
    assert!(
        merge(&["a.blf", "rules.blf"])
            .unwrap_err()
            .to_string()
            .contains("rules")
    );
    for (output, input) in [("bare.blf", "a.txt"), ("bare-many.blf", "many.txt")] {
        let mut bare = plan(dir, output, &[input]);
        bare.records = false;
        build(&bare);
    }
    assert!(
        merge(&["a.blf", "bare.blf"])
            .unwrap_err()
            .to_string()
            .contains("records")
    );
    assert!(
        merge(&["bare.blf", "bare-many.blf"])
            .unwrap_err()
            .to_string()
            .contains("size or rate")
    );
    let changes = Changes::new(plan(dir, "bare.blf", &["a.txt"]));
    assert!(
        compile::update(&changes, &Progress::new())
            .unwrap_err()
            .to_string()
            .contains("no records")
    );
    assert!(
        !names(dir)
            .iter()
            .any(|name| name.starts_with('.') || name == "out.blf")
    );
}

#[test]
fn answers_of_look_ups_name_source_and_day() {
    let folder = folder(&[("feed.csv", "email,added,expires\na@b.example,2025-03-01,\n")]);
    let plan = Plan {
        declared: with_days(),
        ..plan(folder.path(), "feed.blf", &["feed.csv"])
    };
    build(&plan);
    let filter = Filter::open(&plan.output, Load::Memory).unwrap();
    let key = Key::of(b"a@b.example", filter.spec().seed);
    let Answer::Listed(record) = filter.look_up(key).unwrap() else {
        panic!("not listed")
    };
    assert_eq!(Day(record.added).to_string(), "2025-03-01");
    assert_eq!(filter.source(record.source).unwrap().name, "feed");
}

/// Rows that cannot be read, or that allow senders, must not replace a good filter by an empty one.
#[test]
fn a_list_that_lists_nobody_does_not_empty_a_filter() {
    let folder = folder(&[
        ("good.txt", "a@b.example\n"),
        ("page.txt", "sorry, not found: x.html\nask a@b.example\n"),
        ("empty.txt", ""),
        ("comments.txt", "# nobody yet\n"),
        ("allows.txt", "||x.example^\n@@||x.example^\n"),
    ]);
    let refused = |output: &str, input: &str| {
        let error = compile::build(&plan(folder.path(), output, &[input]), &Progress::new());
        let error = error.unwrap_err();
        assert!(matches!(error, Error::NothingListed(_)), "{error}");
        error.to_string()
    };
    build(&plan(folder.path(), "out.blf", &["good.txt"]));
    let before = fs::read(folder.path().join("out.blf")).unwrap();
    let page = build(&plan(folder.path(), "out.blf", &["page.txt"]))
        .refused
        .unwrap();
    assert!(page.contains("page.txt: 2 lines rejected"), "{page}");
    for output in ["out.blf", "new.blf"] {
        let message = refused(output, "allows.txt");
        assert!(
            message.contains("allow senders") && message.contains("--allow-empty"),
            "{message}"
        );
        refused(output, "empty.txt");
        refused(output, "comments.txt");
    }
    assert_eq!(fs::read(folder.path().join("out.blf")).unwrap(), before);
    assert!(!folder.path().join("new.blf").exists());

    let mut forced = plan(folder.path(), "out.blf", &["allows.txt"]);
    forced.allow_empty = true;
    let report = build(&forced);
    assert_eq!(report.filter.as_ref().unwrap().entries, 0);
    let shown = report.to_string();
    assert!(shown.contains("warning   no entry in "), "{shown}");
}

/// A person who renames the only list to `.bak` gives it up for now. Other skipped files may be a
/// mistake.
#[test]
fn a_folder_of_backups_is_an_empty_one() {
    let folder = folder(&[]);
    let lists = folder.path().join("lists");
    fs::create_dir(&lists).unwrap();
    let put = |name: &str| fs::write(lists.join(name), "a@b.example\n").unwrap();
    put("own.txt");
    assert_eq!(build(&plan(folder.path(), "own.blf", &["lists"])).rows, 1);
    fs::rename(lists.join("own.txt"), lists.join("own.txt.bak")).unwrap();
    put("own.txt~");
    let report = build(&plan(folder.path(), "own.blf", &["lists"]));
    assert_eq!(report.filter.unwrap().entries, 0);
    assert_eq!(report.passed_over.len(), 2, "{:?}", report.passed_over);

    // A backup named on the command line, by a person or by `lists/*`.
    let named = plan(folder.path(), "own.blf", &["lists/own.txt.bak"]);
    let error = compile::build(&named, &Progress::new()).unwrap_err();
    assert!(error.to_string().contains("no list to read"), "{error}");
    // Perhaps a list with a misleading name.
    put("allowlist.txt");
    let error = compile::build(
        &plan(folder.path(), "own.blf", &["lists"]),
        &Progress::new(),
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("no list to read") && error.contains("allowlist.txt"),
        "{error}"
    );
}

/// A list that is too large to be written by hand is not emptied when its last file is renamed.
#[test]
fn a_large_list_is_not_emptied_by_renaming_its_file() {
    let folder = folder(&[]);
    let lists = folder.path().join("lists");
    fs::create_dir(&lists).unwrap();
    fs::write(lists.join("many.txt"), addresses(0..1_000)).unwrap();
    build(&plan(folder.path(), "many.blf", &["lists"]));
    fs::rename(lists.join("many.txt"), lists.join("many.txt.bak")).unwrap();
    let mut plan = plan(folder.path(), "many.blf", &["lists"]);
    for max_shrink in [None, Some(20)] {
        plan.max_shrink = max_shrink;
        let built = compile::build(&plan, &Progress::new());
        assert!(!built.is_ok_and(|report| report.refused.is_none()));
    }
}

/// The limit counts expired entries, and so does the message.
#[test]
fn a_refusal_names_the_numbers_that_it_compares() {
    let folder = folder(&[("old.txt", &addresses(0..1_000))]);
    build(&plan(folder.path(), "many.blf", &["old.txt"]));
    let past = addresses(0..100).replace('\n', " # expires 2020-01-01\n");
    fs::write(folder.path().join("new.txt"), past + &addresses(100..700)).unwrap();
    let mut plan = plan(folder.path(), "many.blf", &["new.txt"]);
    plan.max_shrink = Some(20);
    let report = compile::build(&plan, &Progress::new()).unwrap();
    assert_eq!(report.expired, 100);
    let refused = report.refused.unwrap();
    assert!(refused.contains("700 entries, 1,000 before"), "{refused}");
}

#[test]
fn a_filter_is_not_a_list() {
    let folder = folder(&[("good.txt", "a@b.example\n")]);
    build(&plan(folder.path(), "out.blf", &["good.txt"]));
    let before = fs::read(folder.path().join("out.blf")).unwrap();
    // Detected by content, because a file named `.blf` is skipped.
    fs::write(folder.path().join("filter.txt"), &before).unwrap();
    let twice = plan(folder.path(), "out.blf", &["good.txt", "filter.txt"]);
    let error = compile::build(&twice, &Progress::new()).unwrap_err();
    assert!(
        error.to_string().contains("a filter file, not a list"),
        "{error}"
    );
    // Neither is data that was compressed twice or is not text.
    fs::write(folder.path().join("random.txt"), [1; 100]).unwrap();
    let random = plan(folder.path(), "out.blf", &["random.txt"]);
    let refused = build(&random).refused.unwrap();
    assert!(
        refused.contains("random.txt: a binary file, not a list"),
        "{refused}"
    );
    assert_eq!(fs::read(folder.path().join("out.blf")).unwrap(), before);
}

/// Compares the counts over the records of many filters with sets.
#[test]
fn the_overlap_is_that_of_sets() {
    let ranges = [0..3_000, 1_000..9_000, 2_500..4_000, 20_000..20_010, 0..0];
    let lists: Vec<_> = ranges.iter().cloned().map(addresses).collect();
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..)
        .zip(&lists)
        .map(|(n, list)| {
            let (text, output) = (format!("{n}.txt"), format!("{n}.blf"));
            fs::write(folder.path().join(&text), list).unwrap();
            let mut plan = plan(folder.path(), &output, &[&text]);
            plan.allow_empty = true;
            build(&plan);
            plan.output
        })
        .collect();
    let overlap = inspect::overlap(&files).unwrap();
    let sets: Vec<BTreeSet<Key>> = files
        .iter()
        .map(|file| records(file).iter().map(|record| record.key).collect())
        .collect();
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
    let folder = folder(&[("good.txt", "a@b.example\n")]);
    let plan = plan(folder.path(), "out.blf", &["good.txt"]);
    build(&plan);
    let mut query = command(&["query", plan.output.to_str().unwrap(), "-"]);
    let mut query = query.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = query.stdin.take().unwrap();
    let mut answers = BufReader::new(query.stdout.take().unwrap()).lines();
    for n in 0..3 {
        input
            .write_all(format!("u{n}@c.example\n").as_bytes())
            .unwrap();
        let answer = answers.next().unwrap().unwrap();
        assert_eq!(answer, format!("u{n}@c.example: not listed"));
    }
    drop(input);
    assert_eq!(query.wait().unwrap().code(), Some(1));
}

/// All processors answer, but the output is in order.
#[test]
fn answers_come_in_the_order_of_the_questions() {
    let folder = folder(&[("list.txt", &addresses(0..20_000))]);
    let plan = plan(folder.path(), "out.blf", &["list.txt"]);
    build(&plan);
    let asked: String = (0..60_000)
        .map(|n| format!("user{n}@host.example\n"))
        .collect();
    let asked = asked + &"x".repeat(100_000) + "\n";
    fs::write(folder.path().join("asked.txt"), &asked).unwrap();
    let done = command(&["query", "--json", plan.output.to_str().unwrap(), "-"])
        .stdin(fs::File::open(folder.path().join("asked.txt")).unwrap())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let mut query = Query::open(&plan.output, Load::Memory, TODAY).unwrap();
    let answers = String::from_utf8(done.stdout).unwrap();
    assert_eq!(answers.lines().count(), 60_001);
    for (answer, asked) in answers.lines().zip(asked.lines()).take(60_000) {
        let finding = query.ask(asked.as_bytes()).unwrap();
        assert_eq!(answer, serde_json::to_string(&finding).unwrap());
    }
    let long = answers.lines().last().unwrap();
    assert!(
        long.contains("xxx...\",\"canonical\":null,\"listed\":false"),
        "{long}"
    );
}

#[test]
fn an_address_that_is_asked_for_need_not_be_utf8() {
    let folder = folder(&[("list.txt", "@b.example\n")]);
    let output = folder.path().join("out.blf");
    build(&plan(folder.path(), "out.blf", &["list.txt"]));
    let asked = command(&["query"])
        .arg(&output)
        .arg(OsStr::from_bytes(b"B\xfcro@b.example"))
        .stdout(Stdio::null())
        .status();
    assert_eq!(asked.unwrap().code(), Some(0));
}
