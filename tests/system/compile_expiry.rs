//! The expiry of entries: given on the command line, in a list, or after an entry.
use crate::support::compile as support;

use std::fs;
use std::process::Stdio;

use blocklist_milter::base::day::Day;
use blocklist_milter::compile::{self, Progress};
use blocklist_milter::list::MaxRejects;
use support::{TODAY, WITH_DAYS, build, command, folder, plan, records};

/// Returns the days from the build date to the expiry of each record, sorted; `None` for no expiry.
fn ends(list: &str) -> (Vec<Option<i32>>, u64, u64) {
    let folder = folder(&[("list.txt", list)]);
    let mut plan = plan(folder.path(), "out.blf", &["list.txt"]);
    plan.allow_empty = true;
    plan.max_rejects = MaxRejects::Percent(100.0);
    let report = build(&plan);
    let records = records(&folder.path().join("out.blf"));
    let end = |day: u16| i32::from(day) - i32::from(TODAY.0);
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
    for (list, found) in [
        // After an entry.
        (
            format!("a@b.example # expires {soon}\nc@d.example\n"),
            (vec![None, Some(5)], 0, 0),
        ),
        (
            format!("a@b.example,\t;expires {soon} (ticket 7)\n"),
            (vec![Some(5)], 0, 0),
        ),
        (
            format!("Name <a@b.example> # expires {soon}\n"),
            (vec![Some(5)], 0, 0),
        ),
        (format!("a@b.example # expires {past}\n"), (vec![], 1, 0)),
        (
            "a@b.example # expires 9999-12-31\n".to_owned(),
            (vec![None], 0, 0),
        ),
        // No day of the calendar.
        (
            "a@b.example # expires 2026-02-30\n".to_owned(),
            (vec![], 0, 1),
        ),
        // On a line of its own it is about no entry, and other comments change nothing.
        (
            format!("# expires {past}\na@b.example\nc@d.example # expires {later}\n"),
            (vec![None, Some(50)], 0, 0),
        ),
        (
            format!("a@b.example # Expires: {past}\nc@d.example # expires 30d\n# expires never\n"),
            (vec![None; 2], 0, 0),
        ),
    ] {
        assert_eq!(ends(&list), found, "{list}");
    }
}

#[test]
fn a_day_in_one_list_is_not_a_day_in_the_others() {
    let day = Day(TODAY.0 + 5).to_string();
    let many: String = (0..50_000).map(|n| format!("u{n}@x.example\n")).collect();
    let dated = many
        .replace('u', "v")
        .replace('\n', &format!(" # expires {day}\n"));
    let folder = folder(&[
        ("a.txt", &many),
        ("b.txt", &dated),
        ("c.txt", "w@x.example\n"),
    ]);
    for threads in [1, 3] {
        let mut plan = plan(folder.path(), "out.blf", &["a.txt", "b.txt", "c.txt"]);
        plan.threads = threads;
        build(&plan);
        let records = records(&folder.path().join("out.blf"));
        let ending = records.iter().filter(|record| record.expires.is_some());
        assert!(ending.clone().all(|record| record.source == 1));
        assert_eq!((records.len(), ending.count()), (100_001, 50_000));
    }
}

#[test]
fn without_records_nothing_that_ends_is_listed() {
    let day = Day(TODAY.0 + 5).to_string();
    let csv = format!("email,added,expires\na@b.example,,{day}\nc@d.example,,\n");
    let folder = folder(&[
        ("rows.csv", &csv),
        (
            "list.txt",
            &format!("a@b.example # expires {day}\ne@f.example\n"),
        ),
        (
            "list.toml",
            "[[file]]\nmatch = \"*.csv\"\nentry = \"email\"\nrows = \"all\"\nexpires_in = \"expires\"\n",
        ),
    ]);
    let mut plan = plan(folder.path(), "out.blf", &["."]);
    plan.records = false;
    plan.max_rejects = MaxRejects::Lines(1);
    let report = build(&plan);
    assert_eq!((report.filter.unwrap().entries, report.rejected), (2, 2));
    assert!(report.rejects[0].reason.contains("--no-records"));
    plan.expires = Some(Day(TODAY.0 + 5));
    let error = compile::build(&plan, &Progress::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--expires: ") && error.contains("--no-records"),
        "{error}"
    );
}

#[test]
fn far_days_are_alike_from_files_and_pipes() {
    let rows = "email,added,expires\na@b.example,,9999-12-31\nc@d.example,,2149-06-06\ne@f.example,,\ng@h.example,,never\n";
    let folder = folder(&[("rows.csv", rows)]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let common = [
        "build",
        "-q",
        "--seed",
        "5eed",
        "--date",
        "2026-01-01",
        "--never",
        "never",
        "-o",
    ];
    let run = |output: &str, input: &str, stdin: Stdio| {
        let mut words = [&common[..1], &WITH_DAYS, &common[1..]].concat();
        words.extend([output, input]);
        let status = command(&words).stdin(stdin).status().unwrap();
        assert!(status.success());
    };
    run(&path("file.blf"), &path("rows.csv"), Stdio::null());
    let mut cat = std::process::Command::new("cat");
    let mut cat = cat
        .arg(path("rows.csv"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    run(&path("pipe.blf"), "-", cat.stdout.take().unwrap().into());
    cat.wait().unwrap();
    for name in ["file.blf", "pipe.blf"] {
        let records = records(&folder.path().join(name));
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
    let folder = folder(&[("rows.csv", rows)]);
    let (rows, output) = (
        folder.path().join("rows.csv"),
        folder.path().join("out.blf"),
    );
    let (rows, output) = (rows.to_str().unwrap(), output.to_str().unwrap());
    let run = |words: &[&str]| {
        let mut command = command(words);
        // 2020-01-01
        command
            .env("SOURCE_DATE_EPOCH", "1577836800")
            .output()
            .unwrap()
    };
    let words = [
        &["build"][..],
        &WITH_DAYS,
        &["-q", "--seed", "5eed", "-o", output, rows],
    ]
    .concat();
    assert!(run(&words).status.success());
    let bytes = fs::read(output).unwrap();
    assert_eq!(
        run(&["query", output, "old@b.example"]).status.code(),
        Some(1)
    );
    assert_eq!(
        run(&["query", output, "new@b.example"]).status.code(),
        Some(0)
    );
    fs::remove_file(output).unwrap();
    run(&words);
    assert_eq!(fs::read(output).unwrap(), bytes);
}

#[test]
fn a_wrong_build_date_in_the_environment_is_refused() {
    let folder = folder(&[("list.txt", "spam@bad.example\n")]);
    let path = |name| folder.path().join(name);
    let (list, output) = (path("list.txt"), path("out.blf"));
    let (list, output) = (list.to_str().unwrap(), output.to_str().unwrap());
    for arguments in [
        &["build", "-o", output, list][..],
        &["add", list, "other@bad.example"],
    ] {
        let mut command = command(arguments);
        let done = command.env("SOURCE_DATE_EPOCH", "today").output().unwrap();
        assert_eq!(done.status.code(), Some(2));
        let error = String::from_utf8(done.stderr).unwrap();
        assert!(
            error.contains("SOURCE_DATE_EPOCH=today: must be"),
            "{error}"
        );
    }
    assert_eq!(fs::read(list).unwrap(), b"spam@bad.example\n");
    assert!(!fs::exists(output).unwrap());
}

#[test]
fn days_count_from_the_build_date() {
    let folder = folder(&[("list.txt", "a@b.example\n")]);
    let (list, output) = (
        folder.path().join("list.txt"),
        folder.path().join("out.blf"),
    );
    let words = [
        "build",
        "-q",
        "--date",
        "2026-01-01",
        "--expires",
        "30d",
        "-o",
    ];
    let mut command = command(&words);
    assert!(command.arg(&output).arg(&list).status().unwrap().success());
    let expires = records(&output)[0].expires.unwrap();
    assert_eq!(Day(expires).to_string(), "2026-01-31");
}
