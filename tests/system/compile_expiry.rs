//! The expiry of entries in a list; `tests/commands/expiry.toml` has options and tables.

use blocklist_milter::base::day::Day;
use blocklist_milter::list::MaxRejects;

use crate::support::compile::{TODAY, build, folder};
use crate::support::rows;

/// Returns the days from the build date to the expiry of each record, sorted, `None` for no expiry;
/// then how many entries have expired, and how many lines were rejected.
fn ends(list: &str) -> String {
    let dir = folder(&[("list.txt", list)]);
    let mut plan = dir.plan("out.blf", &["list.txt"]);
    plan.allow_empty = true;
    plan.max_rejects = MaxRejects::Percent(100.0);
    let report = build(&plan);
    let end = |day: u16| i32::from(day) - i32::from(TODAY.0);
    let records = dir.records("out.blf").into_iter();
    let mut ends: Vec<_> = records.map(|record| record.expires.map(end)).collect();
    ends.sort_unstable();
    format!("{ends:?} {} {}", report.expired, report.rejected)
}

#[test]
fn a_plain_list_says_when_its_entries_end() {
    let date = |days: u16| Day(TODAY.0 + days).to_string();
    let (soon, later, past) = (date(5), date(50), Day(TODAY.0 - 1).to_string());
    for [list, found] in rows(
        r"
        // After an entry.
        a@b.example # expires SOON\nc@d.example\n    | [None, Some(5)] 0 0
        a@b.example,\t;expires SOON (ticket 7)\n     | [Some(5)] 0 0
        Name <a@b.example> # expires SOON\n          | [Some(5)] 0 0
        a@b.example # expires PAST\n                 | [] 1 0
        a@b.example # expires 9999-12-31\n           | [None] 0 0
        // No day of the calendar.
        a@b.example # expires 2026-02-30\n           | [] 0 1
        // On a line of its own it is about no entry, and other comments change nothing.
        # expires PAST\na@b.example\nc@d.example # expires LATER\n                        | [None, Some(50)] 0 0
        a@b.example # Expires: PAST\nc@d.example # expires 30d\n# expires never\n         | [None, None] 0 0
        ",
    ) {
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
