//! Stored filter files of format version 1, in `tests/filters/`: every later version of the program
//! opens, verifies and queries them, and builds the same pages and records from the same lists.
//! (The sources differ: they name the path of the list.)
//!
//! When `RULES_VERSION` is raised, build them again, in that folder:
//!
//! ```text
//! blocklist-compile build --name stored --seed 0123456789abcdef --date 2026-01-31 -o records.blf list.txt
//! blocklist-compile build --name stored --seed 0123456789abcdef --date 2026-01-31 --no-records -o no-records.blf list-without-dates.txt
//! ```

use std::fs;
use std::path::PathBuf;

use blocklist_compile::compile::{self, Plan, Progress, Seed};
use blocklist_compile::inspect::Query;
use blocklist_filter::base::day::Day;
use blocklist_filter::filter::{Filter, Load};

use crate::support::compile::records;
use crate::support::{root, rows};

/// Each filter, its list, whether it has records, and its number of entries.
const STORED: [(&str, &str, bool, u64); 2] = [
    ("records.blf", "list.txt", true, 6),
    ("no-records.blf", "list-without-dates.txt", false, 5),
];

fn stored(name: &str) -> PathBuf {
    root("tests/filters").join(name)
}

fn day(date: &str) -> Day {
    Day::read(date.as_bytes()).unwrap()
}

#[test]
fn they_are_opened_verified_and_queried() {
    for (name, _, records, entries) in STORED {
        let path = stored(name);
        let header = Filter::verify(&path).unwrap();
        assert_eq!((header.spec.records, header.entries), (records, entries));
        for load in [Load::Memory, Load::Disk] {
            let listed_on = |date: &str, address: &str| {
                let mut query = Query::open(&path, load, day(date)).unwrap();
                let finding = query.ask(address.as_bytes()).unwrap();
                assert!(finding.matches.iter().all(|hit| hit.proved == records));
                finding.listed
            };
            for [address, listed] in rows(
                r#"
                SPAMMER@bad.example      | listed
                "Odd Local"@bad.example  | listed
                anyone@worse.example     | listed
                anyone@sub.worst.example | listed
                lottery@other.example    | listed
                friend@bad.example       | not
                a@sub.worse.example      | not
                a@worst.example          | not
                "#,
            ) {
                let found = listed_on("2026-02-01", address);
                assert_eq!(found, listed == "listed", "{name}: {address}");
            }
            assert_eq!(listed_on("2026-06-29", "old@bad.example"), records);
            assert!(!listed_on("2026-06-30", "old@bad.example"));
        }
    }
}

#[test]
fn the_same_lists_give_the_same_entries() {
    let folder = tempfile::tempdir().unwrap();
    for (name, list, with_records, _) in STORED {
        let output = folder.path().join(name);
        let mut plan = Plan::new(&output, vec![stored(list)]);
        plan.name = "stored".to_owned();
        plan.seed = Seed::Fixed(0x0123_4567_89ab_cdef);
        plan.built = u64::from(day("2026-01-31").0) * 86_400;
        plan.records = with_records;
        let built = compile::build(&plan, &Progress::new()).unwrap();
        assert_eq!(built.rejected, 0, "{built}");
        let (new, old) = (fs::read(&output).unwrap(), fs::read(stored(name)).unwrap());
        assert!(new[4096..8192] == old[4096..8192], "{name}: other pages");
        if with_records {
            assert_eq!(records(&output), records(&stored(name)));
        }
    }
}
