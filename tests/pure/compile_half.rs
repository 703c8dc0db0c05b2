//! An incomplete list never replaces a filter; a list that a person empties on purpose is empty.
use crate::support::compile as support;

use std::fs;
use std::path::Path;

use blocklist_milter::compile::{self, Error, Expected, Plan, Progress};
use blocklist_milter::list::MaxRejects;
use support::{build, folder, plan};

use crate::support::{has, has_all};

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
fn service(dir: &Path) -> Plan {
    let mut plan = plan(dir, "out.blf", &["lists"]);
    plan.max_shrink = Some(20);
    plan
}

fn site(lists: &[(&str, &str)]) -> support::Dir {
    let folder = folder(&[]);
    fs::create_dir(folder.path().join("lists")).unwrap();
    for (name, content) in lists {
        fs::write(folder.path().join("lists").join(name), content).unwrap();
    }
    build(&service(folder.path()));
    folder
}

#[test]
fn an_own_list_may_be_emptied() {
    for empty in ["", "# nobody at present\n\n", "\n"] {
        let feed = entries("feed", 1000);
        for lists in [
            &[("own.txt", "spam@bad.example\n")][..],
            &[("own.txt", "spam@bad.example\n"), ("feed.txt", &feed)],
        ] {
            let site = site(lists);
            fs::write(site.path().join("lists/own.txt"), empty).unwrap();
            for plan in [
                service(site.path()),
                plan(site.path(), "out.blf", &["lists"]),
            ] {
                let report = build(&plan);
                let left = 1000 * (lists.len() as u64 - 1);
                assert_eq!(report.filter.unwrap().entries, left, "{empty:?}");
            }
        }
    }
    let site = site(&[("own.txt", "spam@bad.example\n")]);
    fs::remove_file(site.path().join("lists/own.txt")).unwrap();
    let report = build(&service(site.path()));
    assert_eq!(report.entries_before, Some(1));
    assert!(report.no_longer_read[0].ends_with("own.txt: 1 entry before"));
}

#[test]
fn what_holds_no_entry_by_mistake_empties_nothing() {
    for broken in [
        "friend@good.example OK\n",
        "foo bar\n",
        "<html><body>Not found",
    ] {
        let site = site(&[("own.txt", "spam@bad.example\n")]);
        let old = fs::read(site.path().join("out.blf")).unwrap();
        fs::write(site.path().join("lists/own.txt"), broken).unwrap();
        let error = match built(&service(site.path())) {
            Ok(refused) => refused.unwrap(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("own.txt"), "{broken:?}: {error}");
        assert_eq!(fs::read(site.path().join("out.blf")).unwrap(), old);
    }
}

#[test]
fn a_feed_that_broke_replaces_nothing() {
    let (large, small) = (entries("large", 5000), entries("small", 300));
    for (list, now, refused) in [
        (
            "small.txt",
            String::new(),
            "small.txt: 0 entries, 300 before",
        ),
        (
            "small.txt",
            entries("small", 239),
            "239 entries, 300 before",
        ),
        ("small.txt", entries("small", 240), ""),
        (
            "large.txt",
            large[..large.len() / 2].to_owned(),
            "--max-shrink 100%",
        ),
    ] {
        let site = site(&[("large.txt", &large), ("small.txt", &small)]);
        let old = fs::read(site.path().join("out.blf")).unwrap();
        fs::write(site.path().join("lists").join(list), now).unwrap();
        let said = built(&service(site.path())).unwrap();
        assert!(said.iter().all(|said| said.contains(refused)), "{said:?}");
        assert_eq!(said.is_some(), !refused.is_empty(), "{said:?}");
        let unchanged = fs::read(site.path().join("out.blf")).unwrap() == old;
        assert_eq!(unchanged, said.is_some());
        let mut meant = service(site.path());
        meant.max_shrink = Some(100);
        assert_eq!(built(&meant).unwrap(), None);
    }
}

#[test]
fn a_list_of_many_that_has_none_is_an_error_without_any_limit() {
    let feed = entries("feed", 300);
    let site = site(&[("feed.txt", &feed), ("own.txt", "spam@bad.example\n")]);
    fs::write(site.path().join("lists/feed.txt"), "").unwrap();
    let mut plan = plan(site.path(), "out.blf", &["lists"]);
    let error = built(&plan).unwrap_err().to_string();
    has_all(&error, &["feed.txt, which had 300 before", "--allow-empty"]);
    plan.allow_empty = true;
    assert_eq!(build(&plan).filter.unwrap().entries, 1);
}

#[test]
fn a_list_that_is_gone_counts_in_the_whole() {
    let (large, small) = (entries("large", 5000), entries("small", 300));
    let site = site(&[("large.txt", &large), ("small.txt", &small)]);
    fs::remove_file(site.path().join("lists/small.txt")).unwrap();
    let report = build(&service(site.path()));
    assert!(report.no_longer_read[0].contains("small.txt: 300 entries before"));
    fs::write(site.path().join("lists/small.txt"), small).unwrap();
    build(&service(site.path()));
    fs::remove_file(site.path().join("lists/large.txt")).unwrap();
    let refused = built(&service(site.path())).unwrap().unwrap();
    has(&refused, "out.blf: 300 entries, 5,300 before");
}

#[test]
fn a_list_may_grow_so_far() {
    let site = site(&[("feed.txt", &entries("feed", 300))]);
    let mut plan = service(site.path());
    plan.max_growth = Some(100);
    fs::write(site.path().join("lists/feed.txt"), entries("feed", 601)).unwrap();
    let refused = built(&plan).unwrap().unwrap();
    has(&refused, "--max-growth 101%");
    plan.max_growth = Some(101);
    assert_eq!(built(&plan).unwrap(), None);
}

#[test]
fn what_is_no_list_is_refused_and_the_others_are_named_too() {
    let good = ("good.txt", "spam@bad.example\n");
    let page = "<!DOCTYPE html>\n<html><body>503</body></html>\n";
    for (name, text, says) in [
        ("feed.txt", page, "feed.txt: a web page or XML, not a list"),
        (
            "feed.txt",
            "From: a@b.example\nTo: c@d.example\n",
            "feed.txt: a mail, not a list",
        ),
        (
            "feed.txt",
            "@@ -1 +1 @@\n-a@b.example\n",
            "feed.txt: the output of diff",
        ),
        (
            "feed.txt",
            &"\x01\x02".repeat(100),
            "feed.txt: a binary file",
        ),
        (
            "feed.txt",
            "a@b.example\n[allowed]\n",
            "feed.txt:2: \"[allowed]\": a heading",
        ),
    ] {
        let folder = folder(&[good, (name, text), ("other.txt", page)]);
        let plan = plan(folder.path(), "out.blf", &["good.txt", name, "other.txt"]);
        let refused = built(&plan).unwrap().unwrap();
        has(&refused, says);
        has(&refused, "1 file more");
        assert!(!plan.output.exists());
    }
    let folder = folder(&[good, ("feed.txt.gz", "")]);
    assert!(
        built(&plan(
            folder.path(),
            "out.blf",
            &["good.txt", "feed.txt.gz"]
        ))
        .is_err()
    );
}

#[test]
fn strict_wants_an_entry_of_each_input() {
    let folder = folder(&[("good.txt", "spam@bad.example\n"), ("none.txt", "# none\n")]);
    let mut plan = plan(folder.path(), "out.blf", &["good.txt", "none.txt"]);
    (plan.strict, plan.max_rejects) = (true, MaxRejects::Lines(0));
    let refused = built(&plan).unwrap().unwrap();
    has_all(&refused, &["none.txt", "--strict"]);
    plan.allow_empty = true;
    assert_eq!(built(&plan).unwrap(), None);
}

#[test]
fn a_last_line_without_its_end_is_noted() {
    let feed = entries("feed", 300);
    for (name, text, noted) in [
        ("feed.txt", feed.trim_end(), true),
        ("feed.txt", &feed, false),
    ] {
        let folder = folder(&[(name, text)]);
        let report = build(&plan(folder.path(), "out.blf", &[name]));
        assert_eq!(report.inputs[0].ends_within_line, noted, "{name}");
        assert_eq!(
            report.to_string().contains("no line end"),
            noted && name != "feed.csv"
        );
    }
}

/// Merges filters, with limits against the previous result.
fn merged(dir: &Path, inputs: &[&str]) -> Option<String> {
    let mut plan = plan(dir, "all.blf", inputs);
    (plan.max_shrink, plan.max_growth) = (Some(20), Some(30));
    let report = compile::merge(&plan, None, &Expected::default(), &Progress::new()).unwrap();
    report.refused
}

fn filter(dir: &Path, name: &str, count: u32, records: bool) {
    let list = format!("{name}.txt");
    fs::write(dir.join(&list), entries(name, count)).unwrap();
    let mut plan = plan(dir, &format!("{name}.blf"), &[&list]);
    plan.records = records;
    build(&plan);
}

#[test]
fn half_of_what_is_merged_replaces_nothing() {
    let folder = folder(&[]);
    let dir = folder.path();
    filter(dir, "a", 3000, true);
    filter(dir, "b", 1000, true);
    assert_eq!(merged(dir, &["a.blf", "b.blf"]), None);
    let old = fs::read(dir.join("all.blf")).unwrap();
    for (count, inputs, said) in [
        (
            2000,
            &["a.blf", "b.blf"][..],
            "a.txt: 2,000 entries, 3,000 before",
        ),
        (
            4000,
            &["a.blf", "b.blf"],
            "a.txt: 4,000 entries, 3,000 before",
        ),
        (3000, &["a.blf"], "all.blf: 3,000 entries, 4,000 before"),
    ] {
        filter(dir, "a", count, true);
        let refused = merged(dir, inputs).unwrap();
        has(&refused, said);
        assert!(fs::read(dir.join("all.blf")).unwrap() == old);
    }
    filter(dir, "a", 2500, true);
    assert_eq!(merged(dir, &["a.blf", "b.blf"]), None);
}

#[test]
fn half_of_united_pages_replaces_nothing() {
    let folder = folder(&[]);
    let dir = folder.path();
    filter(dir, "a", 2000, false);
    filter(dir, "b", 2000, false);
    assert_eq!(merged(dir, &["a.blf", "b.blf"]), None);
    let old = fs::read(dir.join("all.blf")).unwrap();
    let refused = merged(dir, &["a.blf"]).unwrap();
    has(&refused, "--max-shrink 20%");
    assert!(fs::read(dir.join("all.blf")).unwrap() == old);
}

#[test]
fn a_line_longer_than_a_block_counts_as_one() {
    let long = "x".repeat(600_000);
    let text = format!("a@x.example\n{long}\n{long}\nfoo bar\nb@x.example\n");
    let folder = folder(&[("list.txt", &text)]);
    let rejects = folder.path().join("rejects");
    let mut plan = plan(folder.path(), "out.blf", &["list.txt"]);
    (plan.threads, plan.rejects) = (1, Some(rejects.clone()));
    built(&plan).unwrap();
    let rejects = fs::read_to_string(rejects).unwrap();
    let numbers = rejects
        .lines()
        .filter_map(|line| line.rsplit_once("list.txt:"));
    let numbers: Vec<_> = numbers.map(|(_, rest)| rest.split(':').next()).collect();
    assert_eq!(numbers, [Some("2"), Some("3"), Some("4")]);
}
