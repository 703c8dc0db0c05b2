//! A list in pieces: the parts give the bytes of one build, or nothing.
use crate::support as machine;
use crate::support::compile as support;
use crate::support::kills;
use crate::support::pieces;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocklist_milter::compile::{self, Error, Expected, Plan, Progress, Report};
use blocklist_milter::filter::{Filter, Load};
use kills::{When, at_each_call};
use machine::installed;
use pieces::{cut, part_plan, parts, text, whole, write_pieces};
use support::{addresses, build, command, folder, names, plan};
use twox_hash::XxHash3_64;

fn join_as(plan: &Plan, expected: &Expected) -> Result<Report, Error> {
    compile::merge(plan, None, expected, &Progress::new())
}

fn join(dir: &Path, output: &str, parts: &[String]) -> Result<Vec<u8>, String> {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let plan = plan(dir, output, &parts);
    join_as(&plan, &Expected::default()).map_err(|error| error.to_string())?;
    Filter::verify(&plan.output).unwrap();
    Ok(fs::read(&plan.output).unwrap())
}

#[test]
fn parts_give_the_bytes_of_one_build() {
    let text = text();
    for pieces in [1, 2, 7, 40] {
        let dir = folder(&[]);
        let one = whole(dir.path(), &text);
        let mut parts = parts(dir.path(), &text, pieces);
        assert!(
            join(dir.path(), "a.blf", &parts).unwrap() == one,
            "{pieces}"
        );
        parts.reverse();
        parts.rotate_left(pieces / 3);
        assert!(
            join(dir.path(), "b.blf", &parts).unwrap() == one,
            "{pieces}"
        );
        let one_thread = Plan {
            threads: 1,
            ..plan(
                dir.path(),
                "c.blf",
                &parts.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        };
        let report = join_as(&one_thread, &Expected::default()).unwrap();
        assert!(fs::read(&one_thread.output).unwrap() == one);
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
        fs::write(dir.path().join(format!("piece.{number}")), piece).unwrap();
    }
    let run = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut command = command(&words);
        command
            .current_dir(dir.path())
            .env("SOURCE_DATE_EPOCH", "1790000000");
        let done = command.output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{words:?}: {stderr}");
    };
    run("build -q -o seed.blf --allow-empty /dev/null");
    run("build -q -o one.blf --name x --seed-from seed.blf list.txt");
    for number in 0..3 {
        run(&format!(
            "build -q --part -o {number}.part --seed-from seed.blf --source list.txt piece.{number}"
        ));
    }
    run("merge -q -o all.blf --name x 2.part 0.part 1.part");
    let read = |file| fs::read(dir.path().join(file)).unwrap();
    assert!(read("one.blf") == read("all.blf"));
    // Folders of pieces, and pieces in several parts or as a whole, give the same.
    run("build -q --part -o 01.part --seed-from seed.blf --source list.txt piece.0 piece.1");
    run("merge -q -o all.blf --name x 01.part 2.part --overwrite");
    let filter = Filter::open(&dir.path().join("all.blf"), Load::Memory).unwrap();
    assert_eq!(filter.spec().generation, 2);
    assert_eq!(filter.spec().sources.len(), 1);
    assert_eq!(filter.spec().sources[0].licence, "CC0-1.0");
}

/// Dates of rows, which only wide keys keep, in some pieces but not in others; several lists.
#[test]
fn dates_and_several_lists_survive() {
    let dated = |range: std::ops::Range<u32>| -> String {
        let row = |n| {
            format!(
                "user{n}@x.example,20{:02}-03-01,20{:02}-06-01\n",
                10 + n % 9,
                27 + n % 9
            )
        };
        range.map(row).collect()
    };
    let head = "email,added,expires\n";
    let (a, b, c) = (dated(0..900), dated(600..1500), addresses(0..3000));
    let dir = folder(&[
        ("dated.csv", &format!("{head}{a}{b}")),
        ("a.csv", &format!("{head}{a}")),
        ("b.csv", &format!("{head}{b}")),
        ("more.txt", &c),
    ]);
    let named = |mut plan: Plan, source: &str| {
        if source == "dated.csv" {
            plan.declared = support::with_days();
        }
        plan.part = Some(String::new());
        plan.source = Some(source.to_owned());
        build(&plan);
    };
    named(plan(dir.path(), "a.part", &["a.csv"]), "dated.csv");
    named(plan(dir.path(), "b.part", &["b.csv"]), "dated.csv");
    named(plan(dir.path(), "more.part", &["more.txt"]), "more.txt");
    let run = |words: &[&str]| {
        let mut command = command(words);
        let done = command.current_dir(dir.path()).output().unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let day = support::TODAY.to_string();
    fs::create_dir(dir.path().join("dated")).unwrap();
    fs::rename(
        dir.path().join("dated.csv"),
        dir.path().join("dated/dated.csv"),
    )
    .unwrap();
    let table = support::LIST_WITH_DAYS;
    fs::write(dir.path().join("dated/list.toml"), table).unwrap();
    run(&[
        "build", "-q", "--seed", "5eed", "--date", &day, "--name", "test", "-o", "one.blf",
        "dated", "more.txt",
    ]);
    let parts = ["more.part", "b.part", "a.part"].map(str::to_owned);
    let joined = join(dir.path(), "all.blf", &parts).unwrap();
    // Each piece has the CSV header as a line.
    let one = Filter::open(&dir.path().join("one.blf"), Load::Memory).unwrap();
    let all = Filter::open(&dir.path().join("all.blf"), Load::Memory).unwrap();
    assert_eq!(all.spec().sources[0].lines, one.spec().sources[0].lines + 1);
    assert_eq!(all.spec().sources[1], one.spec().sources[1]);
    assert_eq!(
        support::records(&dir.path().join("one.blf")),
        support::records(&dir.path().join("all.blf"))
    );
    assert!(all.header().has_entries_of(one.header()) && !joined.is_empty());
    // Entries that have expired by the day of the merge are dropped and not counted.
    let mut later = plan(dir.path(), "later.blf", &["a.part", "b.part"]);
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
        plan.output = dir.path().join("attempt.part");
        change(&mut plan);
        build(&plan);
    };
    let with_attempt = || {
        let all = [&parts[..], &["attempt.part".to_owned()]].concat();
        join(dir.path(), "all.blf", &all)
    };
    // A machine with another clock, on the same day.
    attempt(&|plan| plan.built += 5);
    assert!(with_attempt().unwrap() == one);
    for change in [
        &|plan: &mut Plan| plan.built += 86_400,
        &|plan: &mut Plan| plan.protect.push("host.example".to_owned()),
        &|plan: &mut Plan| plan.source = Some("other.txt".to_owned()),
    ] as [&dyn Fn(&mut Plan); 3]
    {
        attempt(change);
        let error = with_attempt().unwrap_err();
        assert!(
            error.contains("attempt.part: has other records than"),
            "{error}"
        );
        assert!(error.contains("piece piece.0001;"), "{error}");
    }
    // The piece of the day before.
    fs::write(dir.path().join("piece.0001"), "spam@bad.example\n").unwrap();
    attempt(&|_| ());
    let error = with_attempt().unwrap_err();
    assert!(
        error.contains("attempt.part: made from another text than"),
        "{error}"
    );
    assert!(error.contains("piece.0001.part"), "{error}");
    // Standard input has no name: only the text distinguishes the pieces.
    let from_stdin = |output: &str, text: &str| {
        let mut plan = part_plan(dir.path(), text, "list.txt");
        plan.output = dir.path().join(output);
        plan.part = Some(String::new());
        let mut command = command(&[
            "build", "-q", "--part", "--seed", "5eed", "--source", "list.txt", "-o", output, "-",
        ]);
        command.current_dir(dir.path());
        command.stdin(fs::File::open(dir.path().join(text)).unwrap());
        assert!(command.status().unwrap().success());
    };
    for (output, piece) in [
        ("x.part", "piece.0000"),
        ("y.part", "piece.0002"),
        ("z.part", "piece.0000"),
    ] {
        from_stdin(output, piece);
    }
    let all = ["x.part", "y.part", "z.part"].map(str::to_owned);
    let mut plan = plan(dir.path(), "stdin.blf", &["x.part", "y.part", "z.part"]);
    plan.inputs.dedup();
    let report = join_as(&plan, &Expected::default()).unwrap();
    let lines = |piece| {
        fs::read_to_string(dir.path().join(piece))
            .unwrap()
            .lines()
            .count() as u64
    };
    assert_eq!(
        report.inputs[0].lines,
        lines("piece.0000") + lines("piece.0002")
    );
    assert_eq!(all.len(), 3);
}

#[test]
fn pieces_that_must_be_there_are_there() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &text(), 4);
    let digest = |piece: &str| {
        let info = blocklist_milter::inspect::part_info(&dir.path().join(piece)).unwrap();
        info.digest
    };
    let join = |names: &str, parts: &[String], sources: &[&str]| {
        let file = dir.path().join("pieces.txt");
        fs::write(&file, names).unwrap();
        let expected = Expected {
            pieces: (!names.is_empty()).then_some(file),
            sources: sources.iter().map(|&source| source.to_owned()).collect(),
        };
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let done = join_as(&plan(dir.path(), "all.blf", &parts), &expected);
        done.map(drop).map_err(|error| error.to_string())
    };
    let all = "piece.0000\npiece.0001\n\npiece.0002\npiece.0003";
    join(all, &parts, &["list.txt"]).unwrap();
    let by_digest = format!(
        "{}\n{}   piece.0001\n{} piece.0002\npiece.0003\n",
        digest(&parts[0]),
        digest(&parts[1]),
        digest(&parts[2])
    );
    join(&by_digest, &parts, &[]).unwrap();
    let missing = join(all, &[&parts[..1], &parts[3..]].concat(), &[]).unwrap_err();
    assert!(
        missing.ends_with("pieces.txt: parts of these pieces are missing: piece.0001, piece.0002"),
        "{missing}"
    );
    let foreign = join("piece.0000\npiece.0001\npiece.0002\n", &parts, &[]).unwrap_err();
    assert!(
        foreign.contains("piece.0003.part: the part of a piece that is not in"),
        "{foreign}"
    );
    // The right name with another text is another piece.
    let other = by_digest.replace(&digest(&parts[1]), &digest(&parts[2]));
    let other = join(&other, &parts, &[]).unwrap_err();
    assert!(
        other.contains("piece.0001.part: the part of a piece that is not in"),
        "{other}"
    );
    let source = join("", &parts, &["other.txt"]).unwrap_err();
    assert!(
        source.ends_with("piece.0000.part: a part of list.txt, which is not given by --source"),
        "{source}"
    );
    let source = join("", &parts, &["list.txt", "other.txt"]).unwrap_err();
    assert_eq!(source, "--source other.txt: no part of this list was given");
}

#[test]
fn what_is_foreign_is_refused() {
    let dir = folder(&[]);
    let parts = parts(dir.path(), &text(), 2);
    let odd = |output: &str, change: &dyn Fn(&mut Plan)| {
        let mut plan = part_plan(dir.path(), "piece.0001", "list.txt");
        plan.output = dir.path().join(output);
        change(&mut plan);
        build(&plan);
        let parts = [parts[0].clone(), output.to_owned()];
        join(dir.path(), "all.blf", &parts).unwrap_err()
    };
    let seed = odd("seed.part", &|plan| plan.seed = compile::Seed::Fixed(1));
    assert!(
        seed.contains("seed.part: has a different hash seed from"),
        "{seed}"
    );
    let rules = odd("rules.part", &|plan| plan.rules.plus = true);
    assert!(
        rules.contains("rules.part: made with other address rules"),
        "{rules}"
    );
    let filter = odd("filter.blf", &|plan| plan.part = None);
    assert!(
        filter.contains("filter.blf: not a part of a list"),
        "{filter}"
    );
    assert!(!dir.path().join("all.blf").exists());
    let filters = plan(dir.path(), "all.blf", &["filter.blf", "piece.0000.part"]);
    let part = compile::merge(&filters, None, &Expected::default(), &Progress::new())
        .unwrap_err()
        .to_string();
    assert!(
        part.contains("piece.0000.part: one part of a list, not a filter"),
        "{part}"
    );
}

/// A part never replaces a filter, nor any other file by chance.
#[test]
fn a_part_replaces_parts_only() {
    let dir = folder(&[("a.txt", "spam@bad.example\n"), ("x.part", "precious")]);
    let mut part = part_plan(dir.path(), "a.txt", "list.txt");
    build(&part);
    build(&part);
    build(&plan(dir.path(), "a.blf", &["a.txt"]));
    for output in ["a.blf", "x.part"] {
        part.output = dir.path().join(output);
        let error = compile::build(&part, &Progress::new()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("is not a part of a list; move it away"),
            "{error}"
        );
    }
    part.overwrite = true;
    build(&part);
    assert_eq!(
        names(dir.path()),
        ["a.blf", "a.txt", "a.txt.part", "x.part"]
    );
}

#[test]
fn a_damaged_part_is_refused_by_name() {
    let dir = folder(&[("a.txt", &addresses(0..300))]);
    build(&part_plan(dir.path(), "a.txt", "list.txt"));
    let path = dir.path().join("a.txt.part");
    let good = fs::read(&path).unwrap();
    let one = join(dir.path(), "one.blf", &["a.txt.part".to_owned()]).unwrap();
    let step = 97;
    for at in (0..good.len()).step_by(step).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        let error = join(dir.path(), "bad.blf", &["a.txt.part".to_owned()]).unwrap_err();
        assert!(error.contains("a.txt.part: "), "byte {at}: {error}");
        assert!(Filter::verify(&path).is_err(), "byte {at}");
    }
    for length in [0, 7, 4095, 4096, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        assert!(
            join(dir.path(), "bad.blf", &["a.txt.part".to_owned()]).is_err(),
            "{length}"
        );
    }
    fs::write(&path, &good).unwrap();
    Filter::verify(&path).unwrap();
    assert!(join(dir.path(), "again.blf", &["a.txt.part".to_owned()]).unwrap() == one);
    assert!(!dir.path().join("bad.blf").exists());
}

/// Memory is allocated for the possible number of records, never for the number in a header.
#[test]
fn a_part_that_says_more_than_it_has_room_for_is_refused_at_once() {
    const FLAGS: usize = 20;
    const ENTRIES: usize = 56;
    const SUM: usize = 4088;
    let dir = folder(&[("a.txt", &addresses(0..300))]);
    build(&part_plan(dir.path(), "a.txt", "list.txt"));
    let path = dir.path().join("a.txt.part");
    let mut bytes = fs::read(&path).unwrap();
    bytes[ENTRIES..ENTRIES + 8].copy_from_slice(&(1_u64 << 45).to_le_bytes());
    let sum = XxHash3_64::oneshot(&bytes[..SUM]);
    bytes[SUM..SUM + 8].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = join(dir.path(), "bad.blf", &["a.txt.part".to_owned()]).unwrap_err();
    assert!(error.contains("a.txt.part: room for at most"), "{error}");
    // Flags 5: a part of an earlier version.
    bytes[FLAGS] = 5;
    let sum = XxHash3_64::oneshot(&bytes[..SUM]);
    bytes[SUM..SUM + 8].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = join(dir.path(), "bad.blf", &["a.txt.part".to_owned()]).unwrap_err();
    let why = "a.txt.part: one part of a list, made by an earlier version";
    assert!(error.contains(why), "{error}");
}

/// Killed at each system call that changes a file, `merge` and `build --part` leave the old file or
/// the new one, complete, and the next run finishes.
#[test]
fn a_kill_at_any_system_call_leaves_a_whole_file() {
    let dir = folder(&[
        ("old.txt", &addresses(0..500)),
        ("new.txt", &addresses(100..900)),
    ]);
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    for piece in ["old", "new"] {
        let mut plan = part_plan(dir.path(), &format!("{piece}.txt"), "list.txt");
        plan.output = dir.path().join(format!("{piece}.part"));
        plan.part = Some("piece".to_owned());
        build(&plan);
        let name = format!("{piece}.blf");
        join(dir.path(), &name, &[format!("{piece}.part")]).unwrap();
    }
    let day = format!("--date={}", support::TODAY);
    let part = [
        "build",
        "-q",
        "--part=piece",
        "--seed",
        "5eed",
        "--source",
        "list.txt",
        &day,
    ];
    let merge = [
        "merge", "-q", "--name", "test", &day, "-o", "here", "new.part",
    ];
    for (words, kind) in [
        (&[&part[..], &["-o", "here", "new.txt"]].concat(), "part"),
        (&merge.to_vec(), "blf"),
    ] {
        let [old, mut new] = ["old", "new"].map(|name| read(&format!("{name}.{kind}")));
        // The filter after the old one is its next generation.
        if kind == "blf" {
            fs::write(dir.path().join("here"), &old).unwrap();
            assert!(
                command(words)
                    .current_dir(dir.path())
                    .status()
                    .unwrap()
                    .success()
            );
            new = read("here");
            Filter::verify(&dir.path().join("here")).unwrap();
        }
        let kills = at_each_call(
            dir.path(),
            words,
            || fs::write(dir.path().join("here"), &old).unwrap(),
            |when| {
                let here = read("here");
                assert!(here == old || here == new, "{kind}");
                if when == When::Finished {
                    assert_eq!(names(dir.path()).len(), 7, "{:?}", names(dir.path()));
                }
                here == old
            },
        );
        assert!(
            kills.is_none_or(|kills| kills.killed > 10 && kills.kept > 5),
            "{kills:?}"
        );
    }
}

/// The daemon reports what the file is, and what to do.
#[test]
fn the_daemon_refuses_a_part() {
    let dir = folder(&[
        ("a.txt", "spam@bad.example\n"),
        (
            "x.toml",
            "listen = []\n[[list]]\nname = \"spam\"\nfilter = \"a.txt.part\"\n",
        ),
    ]);
    build(&part_plan(dir.path(), "a.txt", "list.txt"));
    let config = fs::read_to_string(dir.path().join("x.toml")).unwrap();
    let path = dir.path().join("a.txt.part");
    let config = config.replace("a.txt.part", path.to_str().unwrap());
    fs::write(dir.path().join("x.toml"), config).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
        .args(["check", "--config", "x.toml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(check.stderr).unwrap();
    assert_eq!(check.status.code(), Some(2), "{stderr}");
    let message = "a.txt.part: one part of a list, not a filter; join all its parts with";
    assert!(stderr.contains(message), "{stderr}");
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
    fs::write(dir.path().join("pieces.txt"), names.join("\n")).unwrap();
    let day = support::TODAY.to_string();
    let merged = Command::new("prlimit")
        .args([
            "--nofile=24",
            env!("CARGO_BIN_EXE_blocklist-compile"),
            "merge",
            "-q",
            "--name",
            "test",
        ])
        .args([
            "--expect",
            "pieces.txt",
            "--source",
            "list.txt",
            "--date",
            &day,
            "-o",
            "all.blf",
        ])
        .args(names.iter().map(|name| format!("{name}.part")))
        .current_dir(dir.path())
        .output();
    let merged = merged.expect("prlimit, of util-linux");
    assert!(
        merged.status.success(),
        "{}",
        String::from_utf8_lossy(&merged.stderr)
    );
    assert!(fs::read(dir.path().join("all.blf")).unwrap() == one);
}

/// The example of the manual.
#[test]
fn gnu_parallel_builds_the_parts() {
    if !installed("parallel") {
        return;
    }
    let text = text();
    let dir = folder(&[("big.txt", &text)]);
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/large.md")).unwrap();
    let recipe = guide
        .split("```bash\n")
        .find(|block| block.contains("parallel "))
        .and_then(|block| block.split("```").next())
        .expect("docs/large.md has the recipe for GNU parallel");
    let bin = PathBuf::from(env!("CARGO_BIN_EXE_blocklist-compile"));
    let path = format!(
        "{}:{}",
        bin.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let run = |script: &str| {
        let done = Command::new("sh")
            .args(["-euc", script])
            .current_dir(dir.path())
            .env("PATH", &path)
            .env("HOME", dir.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{stderr}");
    };
    // In one shell, so that the date is that of the recipe.
    run(&format!(
        "{recipe}\nblocklist-compile build -q --seed-from seed.blf --name big -o one.blf big.txt"
    ));
    let read = |file| fs::read(dir.path().join(file)).unwrap();
    assert!(read("one.blf") == read("big.blf"));
}
