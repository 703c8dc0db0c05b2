//! A list in pieces: the parts give the bytes of one build, or nothing.
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use blocklist_milter::compile::{self, Error, Expected, Plan, Progress, Report};
use blocklist_milter::filter::Filter;

use crate::filter_damage::made::seal_header;
use crate::support::compile::{Dir, LIST_WITH_DAYS, TODAY, addresses, build, folder, with_days};
use crate::support::pieces::{cut, part_plan, parts, text, whole, write_pieces};
use crate::support::{Said, compiler, has, has_all, installed, root, words};

fn join_as(plan: &Plan, expected: &Expected) -> Result<Report, Error> {
    compile::merge(plan, None, expected, &Progress::new())
}

fn join(dir: &Dir, output: &str, parts: &[&str]) -> Result<Vec<u8>, String> {
    let plan = dir.plan(output, parts);
    join_as(&plan, &Expected::default()).map_err(|error| error.to_string())?;
    Filter::verify(&plan.output).unwrap();
    Ok(dir.read(output))
}

/// Joins parts that do not belong together; the error has these words.
#[track_caller]
fn not_joined(dir: &Dir, parts: &[&str], words: &[&str]) {
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
        one_thread.threads = 1;
        let report = join_as(&one_thread, &Expected::default()).unwrap();
        assert!(dir.read("c.blf") == one);
        assert_eq!(report.inputs.len(), 1);
        assert_eq!(report.inputs[0].lines, text.lines().count() as u64);
        assert_eq!(report.inputs[0].own, report.filter.unwrap().entries);
    }
}

/// `build list.txt` of the whole list gives it the same name as the pieces do.
#[test]
fn pieces_count_as_the_file_they_were_cut_from() {
    let text = text();
    let dir = folder(&[("list.txt", &text)]);
    for (number, piece) in cut(&text, 3).iter().enumerate() {
        // A name that a backup may have, too.
        dir.write(&format!("piece.{number}"), piece);
    }
    let run = |words: &str| {
        Said::of(dir.command(words).env("SOURCE_DATE_EPOCH", "1790000000")).ok();
    };
    run("build -q -o seed.blf --allow-empty /dev/null");
    run("build -q -o one.blf --name x --seed-from seed.blf list.txt");
    let part = "build -q --part --seed-from seed.blf --source list.txt -o";
    for number in 0..3 {
        run(&format!("{part} {number}.part piece.{number}"));
    }
    run("merge -q -o all.blf --name x 2.part 0.part 1.part");
    assert!(dir.read("one.blf") == dir.read("all.blf"));
    // Folders of pieces, and pieces in several parts or as a whole, give the same.
    run(&format!("{part} 01.part piece.0 piece.1"));
    run("merge -q -o all.blf --name x 01.part 2.part --overwrite");
    let filter = dir.filter("all.blf");
    assert_eq!(filter.spec().generation, 2);
    assert_eq!(filter.spec().sources.len(), 1);
    assert_eq!(filter.spec().sources[0].licence, "CC0-1.0");
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
            plan.declared = with_days();
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
fn attempts_at_one_piece_are_taken_once_or_refused() {
    let text = text();
    let dir = folder(&[]);
    let one = whole(dir.path(), &text);
    let parts = parts(dir.path(), &text, 3);
    let attempt = |change: &dyn Fn(&mut Plan)| {
        let mut plan = part_plan(dir.path(), "piece.0001", "list.txt");
        plan.output = dir.at("attempt.part");
        change(&mut plan);
        build(&plan);
    };
    let with_attempt = [&names_of(&parts)[..], &["attempt.part"]].concat();
    // A machine with another clock, on the same day.
    attempt(&|plan| plan.built += 5);
    assert!(join(&dir, "all.blf", &with_attempt).unwrap() == one);
    for change in [
        &|plan: &mut Plan| plan.built += 86_400,
        &|plan: &mut Plan| plan.protect.push("host.example".to_owned()),
        &|plan: &mut Plan| plan.source = Some("other.txt".to_owned()),
    ] as [&dyn Fn(&mut Plan); 3]
    {
        attempt(change);
        let words = ["attempt.part: has other records than", "piece piece.0001;"];
        not_joined(&dir, &with_attempt, &words);
    }
    // The piece of the day before.
    dir.write("piece.0001", "spam@bad.example\n");
    attempt(&|_| ());
    let another = "attempt.part: made from another text than";
    let words = [another, "piece.0001.part"];
    not_joined(&dir, &with_attempt, &words);
    // It was renamed, and compiled again a day later.
    dir.write("renamed", dir.read("piece.0000"));
    let mut renamed = part_plan(dir.path(), "renamed", "list.txt");
    renamed.output = dir.at("attempt.part");
    build(&renamed);
    let expected = join(&dir, "same.blf", &with_attempt);
    expected.expect("equal pieces may have two names");
    renamed.built += 86_400;
    build(&renamed);
    let same = "attempt.part: made from the same text as";
    let words = [same, "piece.0000.part, under another name"];
    not_joined(&dir, &with_attempt, &words);
    // Standard input has no name: only the text distinguishes the pieces.
    let mut lines = 0;
    for (output, piece) in [
        ("x.part", "piece.0000"),
        ("y.part", "piece.0002"),
        ("z.part", "piece.0000"),
    ] {
        let mut build = dir.command("build -q --part --seed 5eed --source list.txt -");
        let build = build.args(["-o", output]);
        Said::with_input(build, &dir.read(piece)).ok();
        if output != "z.part" {
            lines += dir.text(piece).lines().count() as u64;
        }
    }
    let plan = dir.plan("stdin.blf", &["x.part", "y.part", "z.part"]);
    let report = join_as(&plan, &Expected::default()).unwrap();
    assert_eq!(report.inputs[0].lines, lines);
}

#[test]
fn pieces_that_must_be_there_are_there() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &text(), 4);
    let parts = names_of(&parts);
    let digest = |piece: usize| {
        let info = blocklist_milter::inspect::part_info(&dir.at(parts[piece]));
        info.unwrap().digest
    };
    // The names of the pieces, the parts that are given, and the sources.
    let join = |names: &str, parts: &[&str], sources: &str| {
        let file = dir.write("pieces.txt", names);
        let expected = Expected {
            pieces: (!names.is_empty()).then_some(file),
            sources: words(sources).into_iter().map(str::to_owned).collect(),
        };
        let joined = join_as(&dir.plan("all.blf", parts), &expected);
        joined.map_or_else(|error| error.to_string(), |_| String::new())
    };
    let all = "piece.0000\npiece.0001\n\npiece.0002\npiece.0003";
    let [first, second, third] = [0, 1, 2].map(digest);
    let by_digest = format!("{first}\n{second}   piece.0001\n{third} piece.0002\npiece.0003\n");
    assert_eq!(join(all, &parts, "list.txt"), "");
    assert_eq!(join(&by_digest, &parts, ""), "");
    let missing = "pieces.txt: parts of these pieces are missing: piece.0001, piece.0002";
    has(&join(all, &[parts[0], parts[3]], ""), missing);
    let foreign = "piece.0003.part: the part of a piece that is not in";
    has(
        &join("piece.0000\npiece.0001\npiece.0002\n", &parts, ""),
        foreign,
    );
    // The right name with another text is another piece.
    let other = by_digest.replace(&second, &third);
    let foreign = "piece.0001.part: the part of a piece that is not in";
    has(&join(&other, &parts, ""), foreign);
    let source = "piece.0000.part: a part of list.txt, which is not given by --source";
    has(&join("", &parts, "other.txt"), source);
    let source = "--source other.txt: no part of this list was given";
    assert_eq!(join("", &parts, "list.txt other.txt"), source);
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
        (ENTRIES, &many[..], "room for at most"),
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
        (plan.threads, plan.memory_bytes) = (1, 32 << 20);
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

/// The example of the manual.
#[test]
fn gnu_parallel_builds_the_parts() {
    if !installed("parallel") {
        return;
    }
    let dir = folder(&[("big.txt", &text())]);
    let guide = fs::read_to_string(root("docs/large.md")).unwrap();
    let blocks = guide.split("```bash\n");
    let mut blocks = blocks.filter_map(|block| block.split("```").next());
    let recipe = blocks.find(|block| block.contains("parallel "));
    let recipe = recipe.expect("docs/large.md has the recipe for GNU parallel");
    // In one shell, so that the date is that of the recipe.
    let build = "blocklist-compile build -q --seed-from seed.blf --name big -o one.blf big.txt";
    let bin = Path::new(env!("CARGO_BIN_EXE_blocklist-compile")).parent();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", bin.unwrap().display());
    let mut shell = Command::new("sh");
    shell.args(["-euc", &format!("{recipe}\n{build}")]);
    shell.current_dir(dir.path());
    Said::of(shell.env("PATH", &path).env("HOME", dir.path())).ok();
    assert!(dir.read("one.blf") == dir.read("big.blf"));
}
