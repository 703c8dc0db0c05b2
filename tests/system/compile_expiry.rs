//! The expiry of entries: given on the command line, in a list, or after an entry.
use blocklist_milter::base::day::Day;
use blocklist_milter::list::MaxRejects;

use crate::support::compile::{TODAY, WITH_DAYS, build, build_error, folder};
use crate::support::{Said, has, has_all};

/// Returns the days from the build date to the expiry of each record, sorted; `None` for no expiry.
fn ends(list: &str) -> (Vec<Option<i32>>, u64, u64) {
    let dir = folder(&[("list.txt", list)]);
    let mut plan = dir.plan("out.blf", &["list.txt"]);
    plan.allow_empty = true;
    plan.max_rejects = MaxRejects::Percent(100.0);
    let report = build(&plan);
    let end = |day: u16| i32::from(day) - i32::from(TODAY.0);
    let records = dir.records("out.blf");
    let mut ends: Vec<_> = records
        .iter()
        .map(|record| record.expires.map(end))
        .collect();
    ends.sort_unstable();
    (ends, report.expired, report.rejected)
}

#[test]
fn a_plain_list_says_when_its_entries_end() {
    let date = |days: u16| Day(TODAY.0 + days).to_string();
    let (soon, later, past) = (date(5), date(50), Day(TODAY.0 - 1).to_string());
    let one = (vec![Some(5)], 0, 0);
    for (list, found) in [
        // After an entry.
        (
            "a@b.example # expires SOON\nc@d.example\n",
            (vec![None, Some(5)], 0, 0),
        ),
        ("a@b.example,\t;expires SOON (ticket 7)\n", one.clone()),
        ("Name <a@b.example> # expires SOON\n", one),
        ("a@b.example # expires PAST\n", (vec![], 1, 0)),
        ("a@b.example # expires 9999-12-31\n", (vec![None], 0, 0)),
        // No day of the calendar.
        ("a@b.example # expires 2026-02-30\n", (vec![], 0, 1)),
        // On a line of its own it is about no entry, and other comments change nothing.
        (
            "# expires PAST\na@b.example\nc@d.example # expires LATER\n",
            (vec![None, Some(50)], 0, 0),
        ),
        (
            "a@b.example # Expires: PAST\nc@d.example # expires 30d\n# expires never\n",
            (vec![None; 2], 0, 0),
        ),
    ] {
        let list = list
            .replace("SOON", &soon)
            .replace("LATER", &later)
            .replace("PAST", &past);
        assert_eq!(ends(&list), found, "{list}");
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
        plan.threads = threads;
        build(&plan);
        let records = dir.records("out.blf");
        let ending = records.iter().filter(|record| record.expires.is_some());
        assert!(ending.clone().all(|record| record.source == 1));
        assert_eq!((records.len(), ending.count()), (100_001, 50_000));
    }
}

#[test]
fn without_records_nothing_that_ends_is_listed() {
    let day = Day(TODAY.0 + 5).to_string();
    let list = "[[file]]\nmatch = \"*.csv\"\nentry = \"email\"\nrows = \"all\"\nexpires_in = \"expires\"\n";
    let dir = folder(&[
        (
            "rows.csv",
            &format!("email,added,expires\na@b.example,,{day}\nc@d.example,,\n"),
        ),
        (
            "list.txt",
            &format!("a@b.example # expires {day}\ne@f.example\n"),
        ),
        ("list.toml", list),
    ]);
    let mut plan = dir.plan("out.blf", &["."]);
    plan.records = false;
    plan.max_rejects = MaxRejects::Lines(1);
    let report = build(&plan);
    assert_eq!((report.filter.unwrap().entries, report.rejected), (2, 2));
    has(&report.rejects[0].reason, "--no-records");
    plan.expires = Some(Day(TODAY.0 + 5));
    has_all(&build_error(&plan), &["--expires: ", "--no-records"]);
}

#[test]
fn far_days_are_alike_from_files_and_pipes() {
    let rows = "email,added,expires\na@b.example,,9999-12-31\nc@d.example,,2149-06-06\ne@f.example,,\ng@h.example,,never\n";
    let dir = folder(&[("rows.csv", rows)]);
    let build = format!(
        "build {} -q --seed 5eed --date 2026-01-01 --never never -o",
        WITH_DAYS.join(" ")
    );
    dir.run(&format!("{build} file.blf rows.csv")).ok();
    let mut from_pipe = dir.command(&format!("{build} pipe.blf -"));
    Said::with_input(&mut from_pipe, rows.as_bytes()).ok();
    for name in ["file.blf", "pipe.blf"] {
        let records = dir.records(name);
        assert_eq!(records.len(), 4);
        assert!(
            records.iter().all(|record| record.expires.is_none()),
            "{name}"
        );
    }
}

#[test]
fn a_fixed_build_date_brings_nothing_back() {
    let rows = "email,added,expires\nold@b.example,,2020-06-01\nnew@b.example,,2120-06-01\n";
    let dir = folder(&[("rows.csv", rows)]);
    // 2020-01-01
    let run = |words: &str| Said::of(dir.command(words).env("SOURCE_DATE_EPOCH", "1577836800"));
    let build = format!(
        "build {} -q --seed 5eed -o out.blf rows.csv",
        WITH_DAYS.join(" ")
    );
    run(&build).ok();
    let bytes = dir.read("out.blf");
    run("query out.blf old@b.example").ends(1, &[]);
    run("query out.blf new@b.example").ok();
    dir.remove("out.blf");
    run(&build).ok();
    assert_eq!(dir.read("out.blf"), bytes);
}

#[test]
fn a_wrong_build_date_in_the_environment_is_refused() {
    let dir = folder(&[("list.txt", "spam@bad.example\n")]);
    for words in [
        "build -o out.blf list.txt",
        "add list.txt other@bad.example",
    ] {
        let said = Said::of(dir.command(words).env("SOURCE_DATE_EPOCH", "today"));
        said.ends(2, &["SOURCE_DATE_EPOCH=today: must be"]);
    }
    assert_eq!(dir.text("list.txt"), "spam@bad.example\n");
    assert!(!dir.at("out.blf").exists());
}

#[test]
fn days_count_from_the_build_date() {
    let dir = folder(&[("list.txt", "a@b.example\n")]);
    dir.run("build -q --date 2026-01-01 --expires 30d -o out.blf list.txt")
        .ok();
    let expires = dir.records("out.blf")[0].expires.unwrap();
    assert_eq!(Day(expires).to_string(), "2026-01-31");
}
