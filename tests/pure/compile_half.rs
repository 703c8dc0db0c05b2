//! An incomplete list never replaces a filter; a list that a person empties on purpose is empty.
use blocklist_milter::compile::{self, Error, Expected, Plan, Progress};
use blocklist_milter::list::MaxRejects;

use crate::support::compile::{Dir, build, folder};
use crate::support::{has, has_all, rows};

/// Returns this many entries of one list.
fn entries(name: &str, count: u32) -> String {
    (0..count)
        .map(|n| format!("{name}{n}@x.example\n"))
        .collect()
}

fn built(plan: &Plan) -> Result<Option<String>, Error> {
    compile::build(plan, &Progress::new()).map(|report| report.refused)
}

/// Returns the plan of the shipped unit: a folder of lists is compiled to `out.blf`.
fn service(dir: &Dir) -> Plan {
    let mut plan = dir.plan("out.blf", &["lists"]);
    plan.max_shrink = Some(20);
    plan
}

/// Returns why the unit's plan is refused.
#[track_caller]
fn refused(plan: &Plan) -> String {
    built(plan).unwrap().expect("a refusal")
}

fn site(lists: &[(&str, &str)]) -> Dir {
    let dir = folder(&[]);
    for (name, content) in lists {
        dir.write(&format!("lists/{name}"), content);
    }
    build(&service(&dir));
    dir
}

#[test]
fn an_own_list_may_be_emptied() {
    let own = ("own.txt", "spam@bad.example\n");
    let feed = entries("feed", 1000);
    for empty in ["", "# nobody at present\n\n", "\n"] {
        for lists in [&[own][..], &[own, ("feed.txt", &feed)]] {
            let site = site(lists);
            site.write("lists/own.txt", empty);
            for plan in [service(&site), site.plan("out.blf", &["lists"])] {
                let left = 1000 * (lists.len() as u64 - 1);
                assert_eq!(build(&plan).filter.unwrap().entries, left, "{empty:?}");
            }
        }
    }
    let site = site(&[own]);
    site.remove("lists/own.txt");
    let report = build(&service(&site));
    assert_eq!(report.entries_before, Some(1));
    has(&report.no_longer_read[0], "own.txt: 1 entry before");
}

#[test]
fn what_holds_no_entry_by_mistake_empties_nothing() {
    for broken in [
        "friend@good.example OK\n",
        "foo bar\n",
        "<html><body>Not found",
    ] {
        let site = site(&[("own.txt", "spam@bad.example\n")]);
        let old = site.read("out.blf");
        site.write("lists/own.txt", broken);
        let error = match built(&service(&site)) {
            Ok(refused) => refused.unwrap(),
            Err(error) => error.to_string(),
        };
        has(&error, "own.txt");
        assert_eq!(site.read("out.blf"), old);
    }
}

#[test]
fn a_feed_that_broke_replaces_nothing() {
    let (large, small) = (entries("large", 5000), entries("small", 300));
    let half = &large[..large.len() / 2];
    let [below, enough] = [239, 240].map(|count| entries("small", count));
    for (list, now, why) in [
        ("small.txt", "", "small.txt: 0 entries, 300 before"),
        ("small.txt", &below, "239 entries, 300 before"),
        ("small.txt", &enough, ""),
        ("large.txt", half, "--max-shrink 100%"),
    ] {
        let site = site(&[("large.txt", &large), ("small.txt", &small)]);
        let old = site.read("out.blf");
        site.write(&format!("lists/{list}"), now);
        let said = built(&service(&site)).unwrap();
        assert_eq!(said.is_some(), !why.is_empty(), "{said:?}");
        assert_eq!(site.read("out.blf") == old, said.is_some());
        has(&said.unwrap_or_default(), why);
        let mut meant = service(&site);
        meant.max_shrink = Some(100);
        assert_eq!(built(&meant).unwrap(), None);
    }
}

#[test]
fn a_list_of_many_that_has_none_is_an_error_without_any_limit() {
    let feed = entries("feed", 300);
    let site = site(&[("feed.txt", &feed), ("own.txt", "spam@bad.example\n")]);
    site.write("lists/feed.txt", "");
    let mut plan = site.plan("out.blf", &["lists"]);
    let error = built(&plan).unwrap_err().to_string();
    has_all(&error, &["feed.txt, which had 300 before", "--allow-empty"]);
    plan.allow_empty = true;
    assert_eq!(build(&plan).filter.unwrap().entries, 1);
}

#[test]
fn a_list_that_is_gone_counts_in_the_whole() {
    let (large, small) = (entries("large", 5000), entries("small", 300));
    let site = site(&[("large.txt", &large), ("small.txt", &small)]);
    site.remove("lists/small.txt");
    let report = build(&service(&site));
    has(&report.no_longer_read[0], "small.txt: 300 entries before");
    site.write("lists/small.txt", small);
    build(&service(&site));
    site.remove("lists/large.txt");
    let why = refused(&service(&site));
    has(&why, "out.blf: 300 entries, 5,300 before");
}

#[test]
fn a_list_may_grow_so_far() {
    let site = site(&[("feed.txt", &entries("feed", 300))]);
    let mut plan = service(&site);
    plan.max_growth = Some(100);
    site.write("lists/feed.txt", entries("feed", 601));
    has(&refused(&plan), "--max-growth 101%");
    plan.max_growth = Some(101);
    assert_eq!(built(&plan).unwrap(), None);
}

#[test]
fn what_is_no_list_is_refused_and_the_others_are_named_too() {
    let good = ("good.txt", "spam@bad.example\n");
    let page = "<!DOCTYPE html>\n<html><body>503</body></html>\n";
    let binary = "\x01\x02".repeat(100);
    for [text, says] in rows(
        r#"
        page                                  | feed.txt: a web page or XML, not a list
        From: a@b.example\nSubject: c\n       | feed.txt: a mail, not a list
        --- a\n+++ b\n-a@b.example\n          | feed.txt:1: "--- a": a heading
        binary                                | feed.txt: a binary file
        a@b.example\n[allowed]\n              | feed.txt:2: "[allowed]": a heading
        "#,
    ) {
        let text = match text {
            "page" => page,
            "binary" => &binary,
            text => text,
        };
        let dir = folder(&[good, ("feed.txt", text), ("other.txt", page)]);
        let plan = dir.plan("out.blf", &["good.txt", "feed.txt", "other.txt"]);
        has_all(&refused(&plan), &[says, "1 file more"]);
        assert!(!plan.output.exists());
    }
    let dir = folder(&[good, ("feed.txt.gz", "")]);
    assert!(built(&dir.plan("out.blf", &["good.txt", "feed.txt.gz"])).is_err());
}

#[test]
fn strict_wants_an_entry_of_each_input() {
    let dir = folder(&[("good.txt", "spam@bad.example\n"), ("none.txt", "# none\n")]);
    let mut plan = dir.plan("out.blf", &["good.txt", "none.txt"]);
    (plan.strict, plan.max_rejects) = (true, MaxRejects::Lines(0));
    has_all(&refused(&plan), &["none.txt", "--strict"]);
    plan.allow_empty = true;
    assert_eq!(built(&plan).unwrap(), None);
}

#[test]
fn a_last_line_without_its_end_is_noted() {
    let feed = entries("feed", 300);
    for (text, noted) in [(feed.trim_end(), true), (&feed, false)] {
        let report = folder(&[("feed.txt", text)]).build("out.blf", &["feed.txt"]);
        assert_eq!(report.inputs[0].ends_within_line, noted);
        assert_eq!(report.to_string().contains("no line end"), noted);
    }
}

/// Merges filters, with limits against the previous result.
fn merged(dir: &Dir, inputs: &[&str]) -> Option<String> {
    let mut plan = dir.plan("all.blf", inputs);
    (plan.max_shrink, plan.max_growth) = (Some(20), Some(30));
    let report = compile::merge(&plan, None, &Expected::default(), &Progress::new()).unwrap();
    report.refused
}

fn filter(dir: &Dir, name: &str, count: u32, records: bool) {
    let list = format!("{name}.txt");
    dir.write(&list, entries(name, count));
    let mut plan = dir.plan(&format!("{name}.blf"), &[&list]);
    plan.records = records;
    build(&plan);
}

#[test]
fn half_of_what_is_merged_replaces_nothing() {
    let dir = folder(&[]);
    filter(&dir, "a", 3000, true);
    filter(&dir, "b", 1000, true);
    let both = ["a.blf", "b.blf"];
    assert_eq!(merged(&dir, &both), None);
    let old = dir.read("all.blf");
    for (count, inputs, said) in [
        (2000, &both[..], "a.txt: 2,000 entries, 3,000 before"),
        (4000, &both, "a.txt: 4,000 entries, 3,000 before"),
        (3000, &["a.blf"], "all.blf: 3,000 entries, 4,000 before"),
    ] {
        filter(&dir, "a", count, true);
        has(&merged(&dir, inputs).unwrap(), said);
        assert!(dir.read("all.blf") == old);
    }
    filter(&dir, "a", 2500, true);
    assert_eq!(merged(&dir, &both), None);
}

#[test]
fn half_of_united_pages_replaces_nothing() {
    let dir = folder(&[]);
    filter(&dir, "a", 2000, false);
    filter(&dir, "b", 2000, false);
    assert_eq!(merged(&dir, &["a.blf", "b.blf"]), None);
    let old = dir.read("all.blf");
    has(&merged(&dir, &["a.blf"]).unwrap(), "--max-shrink 20%");
    assert!(dir.read("all.blf") == old);
}

#[test]
fn a_line_longer_than_a_block_counts_as_one() {
    const BLOCK: usize = 256 << 10;
    for length in [BLOCK - 20, BLOCK, BLOCK + 1, 600_000] {
        let long = "x".repeat(length);
        let text = format!("a@x.example\n{long}\n{long}\nfoo bar\nb@x.example\n");
        let dir = folder(&[("list.txt", &text)]);
        let mut plan = dir.plan("out.blf", &["list.txt"]);
        plan.max_rejects = MaxRejects::Lines(9);
        let report = compile::build(&plan, &Progress::new()).unwrap();
        let rejects = report.rejects.iter().flat_map(|reason| &reason.first);
        let numbers = rejects.filter_map(|line| line.split("list.txt:").nth(1)?.split(':').next());
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        assert_eq!(numbers, ["2", "3"], "{length}");
        assert_eq!(report.refused_files[0].line, 4);
    }
}
