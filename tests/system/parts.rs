//! A list in pieces: the parts give the bytes of one build, or nothing.
use std::ops::Range;
use std::process::Command;

use blocklist_compile::compile::{self, Error, Expected, Plan, Progress, Report};
use blocklist_filter::filter::Filter;

use crate::filter_damage::made::seal_header;
use crate::support::compile::{LIST_WITH_DAYS, TODAY, addresses, build, folder, with_days};
use crate::support::pieces::{cut, part_plan, parts, text, whole, write_pieces};
use crate::support::{Said, Scratch, compiler, has_all, words};

fn join_as(plan: &Plan, expected: &Expected) -> Result<Report, Error> {
    compile::merge(plan, expected, &Progress::new())
}

fn join(dir: &Scratch, output: &str, parts: &[&str]) -> Result<Vec<u8>, String> {
    let plan = dir.plan(output, parts);
    join_as(&plan, &Expected::default()).map_err(|error| error.to_string())?;
    Filter::verify(&plan.output).unwrap();
    Ok(dir.read(output))
}

/// Joins parts that do not belong together; the error has these words.
#[track_caller]
fn not_joined(dir: &Scratch, parts: &[&str], words: &[&str]) {
    let error = join(dir, "bad.blf", parts).unwrap_err();
    has_all(&error, words);
    assert!(!dir.at("bad.blf").exists());
}

fn names_of(parts: &[String]) -> Vec<&str> {
    parts.iter().map(String::as_str).collect()
}

#[test]
fn parts_give_the_bytes_of_one_build() {
    let text = text();
    for pieces in [1, 2, 7, 40] {
        let dir = folder(&[]);
        let one = whole(dir.path(), &text);
        let parts = parts(dir.path(), &text, pieces);
        let mut parts = names_of(&parts);
        assert!(join(&dir, "a.blf", &parts).unwrap() == one, "{pieces}");
        parts.reverse();
        parts.rotate_left(pieces / 3);
        assert!(join(&dir, "b.blf", &parts).unwrap() == one, "{pieces}");
        let mut one_thread = dir.plan("c.blf", &parts);
        one_thread.resources.threads = 1;
        let report = join_as(&one_thread, &Expected::default()).unwrap();
        assert!(dir.read("c.blf") == one);
        assert_eq!(report.inputs.len(), 1);
        assert_eq!(report.inputs[0].lines, text.lines().count() as u64);
        assert_eq!(report.inputs[0].own, report.filter.unwrap().entries);
    }
}

/// Dates of rows, which only wide keys keep, in some pieces but not in others; several lists.
#[test]
fn dates_and_several_lists_survive() {
    let dated = |range: Range<u32>| {
        let row = |n| {
            let (added, ends) = (10 + n % 9, 27 + n % 9);
            format!("user{n}@x.example,20{added:02}-03-01,20{ends:02}-06-01\n")
        };
        range.map(row).collect::<String>()
    };
    let head = "email,added,expires\n";
    let (a, b) = (dated(0..900), dated(600..1500));
    let dir = folder(&[
        ("dated/dated.csv", &format!("{head}{a}{b}")),
        ("dated/list.toml", LIST_WITH_DAYS),
        ("a.csv", &format!("{head}{a}")),
        ("b.csv", &format!("{head}{b}")),
        ("more.txt", &addresses(0..3000)),
    ]);
    for (output, input, source) in [
        ("a.part", "a.csv", "dated.csv"),
        ("b.part", "b.csv", "dated.csv"),
        ("more.part", "more.txt", "more.txt"),
    ] {
        let mut plan = dir.plan(output, &[input]);
        if source == "dated.csv" {
            plan.reads.declared = with_days();
        }
        plan.part = Some(String::new());
        plan.source = Some(source.to_owned());
        build(&plan);
    }
    let one = "build -q --seed 5eed --name test -o one.blf dated more.txt";
    dir.run(&format!("{one} --date {TODAY}")).ok();
    let joined = join(&dir, "all.blf", &["more.part", "b.part", "a.part"]).unwrap();
    // Each piece has the CSV header as a line.
    let [one, all] = ["one.blf", "all.blf"].map(|name| dir.filter(name));
    assert_eq!(all.spec().sources[0].lines, one.spec().sources[0].lines + 1);
    assert_eq!(all.spec().sources[1], one.spec().sources[1]);
    assert_eq!(dir.records("one.blf"), dir.records("all.blf"));
    assert!(all.header().has_entries_of(one.header()) && !joined.is_empty());
    // Entries that have expired by the day of the merge are dropped and not counted.
    let mut later = dir.plan("later.blf", &["a.part", "b.part"]);
    later.built += 3650 * 86_400;
    let report = join_as(&later, &Expected::default()).unwrap();
    assert!(report.expired > 500, "{}", report.expired);
    assert_eq!(report.rows + report.expired, 1800);
}

#[test]
fn a_damaged_part_is_refused_by_name() {
    let part = "a.txt.part";
    let dir = folder(&[("a.txt", &addresses(0..300))]);
    build(&part_plan(dir.path(), "a.txt", "list.txt"));
    let good = dir.read(part);
    let one = join(&dir, "one.blf", &[part]).unwrap();
    for at in (0..good.len()).step_by(97).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        dir.write(part, &bad);
        not_joined(&dir, &[part], &["a.txt.part: "]);
        assert!(Filter::verify(&dir.at(part)).is_err(), "byte {at}");
    }
    for length in [0, 7, 4095, 4096, good.len() - 1] {
        dir.write(part, &good[..length]);
        not_joined(&dir, &[part], &[]);
    }
    dir.write(part, &good);
    Filter::verify(&dir.at(part)).unwrap();
    assert!(join(&dir, "again.blf", &[part]).unwrap() == one);
}

/// Memory is allocated for the possible number of records, never for the number in a header.
#[test]
fn a_part_that_says_more_than_it_has_room_for_is_refused_at_once() {
    const FLAGS: usize = 20;
    const ENTRIES: usize = 56;
    let dir = folder(&[("a.txt", &addresses(0..300))]);
    build(&part_plan(dir.path(), "a.txt", "list.txt"));
    let mut bytes = dir.read("a.txt.part");
    let many = (1_u64 << 45).to_le_bytes();
    let earlier = "one part of a list, made by an earlier version";
    for (at, forged, words) in [
        (
            ENTRIES,
            &many[..],
            "the header's field entries has the invalid value",
        ),
        (FLAGS, &[5], earlier),
    ] {
        bytes[at..at + forged.len()].copy_from_slice(forged);
        seal_header(&mut bytes);
        dir.write("a.txt.part", &bytes);
        not_joined(&dir, &["a.txt.part"], &[&format!("a.txt.part: {words}")]);
    }
}

/// As many open files as a shell allows, and far more parts; some pieces are empty.
#[test]
fn thousands_of_parts_need_few_open_files() {
    let text = addresses(0..1_000);
    let dir = folder(&[]);
    let one = whole(dir.path(), &text);
    let pieces = cut(&text, 1_050);
    assert!(pieces.last().unwrap().is_empty());
    let names = write_pieces(dir.path(), &pieces);
    for name in &names {
        let mut plan = part_plan(dir.path(), name, "list.txt");
        (plan.resources.threads, plan.resources.memory_bytes) = (1, 32 << 20);
        build(&plan);
    }
    dir.write("pieces.txt", names.join("\n"));
    let line = format!(
        "merge -q --name=test --expect=pieces.txt --source=list.txt --date={TODAY} -o all.blf"
    );
    // prlimit, of util-linux
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=24").arg(compiler().get_program());
    limited.args(words(&line));
    limited.args(names.iter().map(|name| format!("{name}.part")));
    Said::of(limited.current_dir(dir.path())).ok();
    assert!(dir.read("all.blf") == one);
}
