//! Compiling text lists to filter files: the same lists give the same bytes, and no entry is
//! missed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use blocklist_milter::base::day::Day;
use blocklist_milter::compile::{
    self, Changes, Expected, MIN_MEMORY_BYTES, Plan, Progress, Report, Seed,
};
use blocklist_milter::filter::{Answer, Filter, Key, Load};
use blocklist_milter::inspect::{self, Query};
use blocklist_milter::list::MaxRejects;
use proptest::prelude::{ProptestConfig, any, prop, proptest};

use crate::support::compile::{
    Dir, LIST_WITH_DAYS, TODAY, addresses, build, build_error, folder, records, with_days,
};
use crate::support::{has, has_all};

fn merge(dir: &Dir, output: &str, inputs: &[&str]) -> Result<Report, compile::Error> {
    let plan = dir.plan(output, inputs);
    compile::merge(&plan, None, &Expected::default(), &Progress::new())
}

/// Builds a filter without records.
fn build_bare(dir: &Dir, output: &str, input: &str) {
    let mut bare = dir.plan(output, &[input]);
    bare.records = false;
    build(&bare);
}

#[test]
fn threads_order_and_memory_do_not_show() {
    let dated = "email,added,expires\nx@y.example,2024-01-02,\nuser1@host.example,2020-02-03,\n";
    let dir = folder(&[
        ("b.txt", &addresses(0..6_000)),
        ("a.txt", &addresses(4_000..10_000)),
        ("dated/dated.csv", dated),
        ("dated/list.toml", LIST_WITH_DAYS),
    ]);
    for (mut all, entries) in [
        (vec!["b.txt", "a.txt"], 10_000),
        (vec!["b.txt", "a.txt", "dated"], 10_001),
    ] {
        dir.build("one.blf", &all);
        let expected = dir.read("one.blf");
        assert_eq!(dir.filter("one.blf").entries(), entries);
        for (threads, memory) in [(1, 1 << 30), (2, MIN_MEMORY_BYTES), (7, MIN_MEMORY_BYTES)] {
            all.reverse();
            let mut plan = dir.plan("other.blf", &all);
            (plan.threads, plan.memory_bytes) = (threads, memory);
            build(&plan);
            assert!(
                dir.read("other.blf") == expected,
                "{threads} threads, {memory} bytes"
            );
            dir.remove("other.blf");
        }
        dir.remove("one.blf");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_spilled_and_nothing_shows() {
    let list: String = (0..1_200_000_u32)
        .map(|n| format!("u{n}@x.example\n"))
        .collect();
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
    let dir = folder(&[("a.txt", &a), ("b.txt", &b)]);
    build_bare(&dir, "a.blf", "a.txt");
    build_bare(&dir, "b.blf", "b.txt");
    merge(&dir, "both.blf", &["a.blf", "b.blf"]).unwrap();
    let filter = dir.filter("both.blf");
    assert!(filter.header().estimated);
    assert!(
        filter.entries().abs_diff(3000) < 100,
        "{}",
        filter.entries()
    );
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

#[test]
fn a_rebuild_keeps_the_seed_and_counts_on() {
    let dir = folder(&[("list.txt", "a@b.example\n")]);
    let built = |output: &str, seed: Seed| {
        let mut plan = dir.plan(output, &["list.txt"]);
        plan.seed = seed;
        build(&plan);
        let filter = dir.filter(output);
        (filter.spec().seed, filter.spec().generation)
    };
    let first = built("list.blf", Seed::Keep);
    assert_eq!(first.1, 1);
    assert_eq!(built("list.blf", Seed::Keep), (first.0, 2));
    assert_ne!(built("other.blf", Seed::Keep).0, first.0);
    assert_eq!(built("other.blf", Seed::Of(dir.at("list.blf"))).0, first.0);
}

#[test]
fn filters_that_do_not_fit_together_are_refused() {
    let dir = folder(&[
        ("a.txt", "a@b.example\n"),
        ("many.txt", &addresses(0..5000)),
    ]);
    dir.build("a.blf", &["a.txt"]);
    let mut other = dir.plan("seed.blf", &["a.txt"]);
    other.seed = Seed::Fixed(1);
    build(&other);
    let mut rules = dir.plan("rules.blf", &["a.txt"]);
    rules.rules.plus = true;
    build(&rules);
    build_bare(&dir, "bare.blf", "a.txt");
    build_bare(&dir, "bare-many.blf", "many.txt");
    for (files, why) in [
        (["a.blf", "seed.blf"], "--seed-from"),
        (["a.blf", "rules.blf"], "rules"),
        (["a.blf", "bare.blf"], "records"),
        (["bare.blf", "bare-many.blf"], "size or rate"),
    ] {
        has(
            &merge(&dir, "out.blf", &files).unwrap_err().to_string(),
            why,
        );
    }
    assert!(inspect::compare(&dir.at("a.blf"), &dir.at("seed.blf")).is_err());
    let changes = Changes::new(dir.plan("bare.blf", &["a.txt"]));
    let error = compile::update(&changes, &Progress::new()).unwrap_err();
    has(&error.to_string(), "no records");
    let is_left = |name: &String| name.starts_with('.') || name == "out.blf";
    assert!(!dir.names().iter().any(is_left));
}

#[test]
fn answers_of_look_ups_name_source_and_day() {
    let dir = folder(&[("feed.csv", "email,added,expires\na@b.example,2025-03-01,\n")]);
    let mut plan = dir.plan("feed.blf", &["feed.csv"]);
    plan.declared = with_days();
    build(&plan);
    let filter = dir.filter("feed.blf");
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
    let dir = folder(&[
        ("good.txt", "a@b.example\n"),
        ("page.txt", "sorry, not found: x.html\nask a@b.example\n"),
        ("empty.txt", ""),
        ("comments.txt", "# nobody yet\n"),
        ("allows.txt", "||x.example^\n@@||x.example^\n"),
    ]);
    dir.build("out.blf", &["good.txt"]);
    let before = dir.read("out.blf");
    let page = dir.build("out.blf", &["page.txt"]).refused.unwrap();
    has(&page, "page.txt: 2 lines rejected");
    for output in ["out.blf", "new.blf"] {
        for input in ["allows.txt", "empty.txt", "comments.txt"] {
            let error = build_error(&dir.plan(output, &[input]));
            has(&error, "--allow-empty");
            assert_eq!(
                error.contains("allow senders"),
                input == "allows.txt",
                "{error}"
            );
        }
    }
    assert_eq!(dir.read("out.blf"), before);
    assert!(!dir.at("new.blf").exists());

    let mut forced = dir.plan("out.blf", &["allows.txt"]);
    forced.allow_empty = true;
    let report = build(&forced);
    assert_eq!(report.filter.as_ref().unwrap().entries, 0);
    has(&report.to_string(), "warning   no entry in ");
}

/// A person who renames the only list to `.bak` gives it up for now. Other skipped files may be a
/// mistake.
#[test]
fn a_folder_of_backups_is_an_empty_one() {
    let dir = folder(&[("lists/own.txt", "a@b.example\n")]);
    assert_eq!(dir.build("own.blf", &["lists"]).rows, 1);
    dir.rename("lists/own.txt", "lists/own.txt.bak");
    dir.write("lists/own.txt~", "a@b.example\n");
    let report = dir.build("own.blf", &["lists"]);
    assert_eq!(report.filter.unwrap().entries, 0);
    assert_eq!(report.passed_over.len(), 2, "{:?}", report.passed_over);

    // A backup named on the command line, by a person or by `lists/*`.
    let error = build_error(&dir.plan("own.blf", &["lists/own.txt.bak"]));
    has(&error, "no list to read");
    // Perhaps a list with a misleading name.
    dir.write("lists/allowlist.txt", "a@b.example\n");
    let error = build_error(&dir.plan("own.blf", &["lists"]));
    has_all(&error, &["no list to read", "allowlist.txt"]);
}

/// A list that is too large to be written by hand is not emptied when its last file is renamed.
#[test]
fn a_large_list_is_not_emptied_by_renaming_its_file() {
    let dir = folder(&[("lists/many.txt", &addresses(0..1_000))]);
    dir.build("many.blf", &["lists"]);
    dir.rename("lists/many.txt", "lists/many.txt.bak");
    let mut plan = dir.plan("many.blf", &["lists"]);
    for max_shrink in [None, Some(20)] {
        plan.max_shrink = max_shrink;
        let built = compile::build(&plan, &Progress::new());
        assert!(!built.is_ok_and(|report| report.refused.is_none()));
    }
}

/// The limit counts expired entries, and so does the message.
#[test]
fn a_refusal_names_the_numbers_that_it_compares() {
    let dir = folder(&[("old.txt", &addresses(0..1_000))]);
    dir.build("many.blf", &["old.txt"]);
    let past = addresses(0..100).replace('\n', " # expires 2020-01-01\n");
    dir.write("new.txt", past + &addresses(100..700));
    let mut plan = dir.plan("many.blf", &["new.txt"]);
    plan.max_shrink = Some(20);
    let report = build(&plan);
    assert_eq!(report.expired, 100);
    has(&report.refused.unwrap(), "700 entries, 1,000 before");
}

#[test]
fn a_filter_is_not_a_list() {
    let dir = folder(&[("good.txt", "a@b.example\n")]);
    dir.build("out.blf", &["good.txt"]);
    let before = dir.read("out.blf");
    // Detected by content, because a file named `.blf` is skipped.
    dir.write("filter.txt", &before);
    let error = build_error(&dir.plan("out.blf", &["good.txt", "filter.txt"]));
    has(&error, "a filter file, not a list");
    // Neither is data that was compressed twice or is not text.
    dir.write("random.txt", [1; 100]);
    let refused = dir.build("out.blf", &["random.txt"]).refused.unwrap();
    has(&refused, "random.txt: a binary file, not a list");
    assert_eq!(dir.read("out.blf"), before);
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
    let asked: String = (0..60_000)
        .map(|n| format!("user{n}@host.example\n"))
        .collect();
    let asked = asked + &"x".repeat(100_000) + "\n";
    let file = std::fs::File::open(dir.write("asked.txt", &asked)).unwrap();
    let done = dir
        .command("query --json out.blf -")
        .stdin(file)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let mut query = Query::open(&dir.at("out.blf"), Load::Memory, TODAY).unwrap();
    let answers = String::from_utf8(done.stdout).unwrap();
    assert_eq!(answers.lines().count(), 60_001);
    for (answer, asked) in answers.lines().zip(asked.lines()).take(60_000) {
        let finding = query.ask(asked.as_bytes()).unwrap();
        assert_eq!(answer, serde_json::to_string(&finding).unwrap());
    }
    let long = answers.lines().last().unwrap();
    has(long, "xxx...\",\"canonical\":null,\"listed\":false");
}

#[test]
fn an_address_that_is_asked_for_need_not_be_utf8() {
    let dir = folder(&[("list.txt", "@b.example\n")]);
    dir.build("out.blf", &["list.txt"]);
    let mut query = dir.command("query out.blf");
    let asked = query.arg(OsStr::from_bytes(b"B\xfcro@b.example")).output();
    assert_eq!(asked.unwrap().status.code(), Some(0));
}
