//! Checks that what the documents name exists: the options of each command line, the files, the
//! messages that `docs/troubleshooting.md` explains, and the tests that `docs/promises.md` names.
//! `tests/machine/guides_booted.rs` runs their commands.

use crate::support;
use crate::support::command_lines;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocklist_milter::cli::compile::Cli as Compile;
use blocklist_milter::cli::milter::Milter;
use clap::CommandFactory;
use command_lines::{commands, fault};
use markdown::{Part, guides, parts, read, root};
use support::markdown;

#[test]
fn blocks_words_and_hidden_commands_are_told_apart() {
    let text = "a `b c` d\n<!-- run\ntrue\n-->\n```sh\nls\n```\n```text\nx\n```\n";
    let found: Vec<(usize, Part)> = parts(text)
        .into_iter()
        .map(|placed| (placed.line, placed.part))
        .collect();
    let block = |language: &str, text: &str| Part::Block {
        language: language.to_owned(),
        text: text.to_owned(),
    };
    let expected = [
        (1, Part::Inline("b c".to_owned())),
        (2, Part::Hidden("true\n".to_owned())),
        (5, block("sh", "ls\n")),
        (8, block("text", "x\n")),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_command_line_is_understood() {
    let (found, faults) = command_lines::faults(&[Milter::command(), Compile::command()]);
    assert!(found > 40, "only {found} found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_wrong_command_line_is_noticed() {
    let ours = [Milter::command(), Compile::command()];
    let fault_of = |line: &str, whole| {
        let found = commands(line, &ours);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        fault(&found[0], whole, &ours)
    };
    for wrong in [
        "blocklist-compile build --outptu x.blf y",
        "runuser -u blocklist-milter -- /usr/local/sbin/blocklist-milter chek",
        "LC_ALL=C blocklist-compile query --jsonl x.blf a@b",
    ] {
        assert!(fault_of(wrong, false).is_some(), "{wrong}");
    }
    let short = "blocklist-compile add";
    assert!(fault_of(short, false).is_none() && fault_of(short, true).is_some());
    assert!(
        fault_of(
            "zcat x | blocklist-compile build -o 'a b.blf' - >log # why",
            true
        )
        .is_none()
    );
    let others = "man blocklist-milter 8; systemctl start blocklist-milter x";
    assert!(commands(others, &ours).is_empty());
}

/// Runs the examples of the manual in order, in a folder with the lists that they name.
#[test]
fn the_examples_of_the_manual_run() {
    let page = read(Path::new("contrib/man/blocklist-compile.1"));
    let (_, examples) = page.split_once(".SH EXAMPLES").expect("it has examples");
    let (examples, _) = examples
        .split_once(".SH ")
        .expect("it is not the last part");
    let folder = tempfile::tempdir().expect("a folder");
    let prepare = "mkdir lists; echo spammer@bad.example >lists/own.txt; seq -f 'x%g@bad.example' 200 >lists/many.txt
        gzip -c lists/many.txt >more.gz; echo spammer@bad.example >addresses.txt; echo 'from=<x@good.example>' >mail.log";
    let mut run = 0;
    let mut script = format!("set -eu\n{prepare}\n");
    for block in examples.split(".nf\n").skip(1) {
        let (block, _) = block.split_once(".fi").expect("it ends");
        for line in block.lines() {
            script += &line
                .replace("\\-", "-")
                .replace("/var/log/mail.log", "mail.log");
            script.push('\n');
            run += 1;
        }
    }
    let program = Path::new(env!("CARGO_BIN_EXE_blocklist-compile"));
    let programs = program.parent().expect("in a folder").display();
    let path = std::env::var("PATH").expect("there is a path");
    support::run(
        Command::new("sh")
            .args(["-c", &script])
            .env("PATH", format!("{programs}:{path}"))
            .current_dir(folder.path()),
    );
    let commands: BTreeSet<String> = commands(&script, &[Compile::command()])
        .into_iter()
        .map(|mut words| words.swap_remove(1))
        .collect();
    for command in Compile::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        assert!(
            commands.contains(command.get_name()),
            "no example of {}",
            command.get_name()
        );
    }
    assert!(run > 10 && folder.path().join("all.blf").exists());
}

/// Files of the repository that the documents name, and those of an installation.
#[test]
fn every_file_that_is_named_exists() {
    let installed = installed();
    let mut missing = BTreeSet::new();
    for guide in guides() {
        let text = read(&guide);
        let words = text.split(|c: char| c.is_whitespace() || "`'\"(),;=<>|{}[]".contains(c));
        for word in words {
            let path = word.trim_end_matches(['.', ':', '/']);
            let named = path.split(':').next().unwrap_or(path);
            let exists = if let Some(below) = named.strip_prefix('/') {
                let ours = below.contains("blocklist")
                    && !below.starts_with("tmp/")
                    && !below.starts_with("var/backups");
                // A package has files below /usr that contrib/install puts below /usr/local.
                let of_package = below
                    .strip_prefix("usr/")
                    .filter(|_| guide.ends_with("install.md"))
                    .is_some_and(|rest| installed.contains(&format!("usr/local/{rest}")));
                !ours || installed.contains(below) || of_package || made_in_use(below)
            } else {
                let of_ours = [
                    "contrib/",
                    "tests/",
                    "src/",
                    "docs/",
                    "benches/",
                    "blocklists/",
                    "fuzz/",
                ];
                let ours = of_ours.iter().any(|folder| named.starts_with(folder))
                    && !named.contains(['*', 'N']);
                !ours || root().join(named).exists() || named.starts_with("fuzz/corpus")
            };
            if !exists {
                missing.insert(format!("{}: {named}", guide.display()));
            }
        }
        // Links between documents.
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            let from = root().join(&guide);
            let file = from.parent().expect("a file").join(target);
            if !target.is_empty() && !target.contains("://") && !file.exists() {
                missing.insert(format!("{}: link to {target}", guide.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Returns whether a path is made at the first start, or is a placeholder.
fn made_in_use(path: &str) -> bool {
    path.contains("NAME")
        || path.contains('*')
        || path.starts_with("var/lib/blocklist-milter")
        || path.starts_with("run/blocklist-milter")
        || path.starts_with("var/spool/postfix/blocklist-milter")
        || path.starts_with("etc/blocklist-milter/lists")
        || path.starts_with("etc/blocklist-milter/fetch/")
        || path.starts_with("etc/blocklist-milter/publisher.")
        || path.starts_with("etc/systemd/system/blocklist-")
}

/// Returns the paths below the root after `contrib/install`, and their folders.
fn installed() -> BTreeSet<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = Path::new(env!("CARGO_BIN_EXE_blocklist-milter"));
    let built = folder.path().join("built");
    fs::create_dir(&built).expect("our own folder");
    symlink(
        programs.parent().expect("in a folder"),
        built.join("release"),
    )
    .expect("our own folder");
    let below = folder.path().join("root");
    support::run(
        Command::new(root().join("contrib/install"))
            .arg("--postfix")
            .env("CARGO_TARGET_DIR", &built)
            .env("DESTDIR", &below),
    );
    let mut found = BTreeSet::new();
    let mut folders = vec![below.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it was installed") {
            let path: PathBuf = entry.expect("it can be read").path();
            let name = path.strip_prefix(&below).expect("below it");
            found.insert(name.to_string_lossy().into_owned());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// Each explained message is in the source: its parts between `...`, in this order, in one file.
#[test]
fn every_message_that_is_explained_exists() {
    let sources = sources();
    let text = read(Path::new("docs/troubleshooting.md"));
    let headings: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    assert!(headings.len() > 30);
    let missing: Vec<&&str> = headings
        .iter()
        .filter(|message| !sources.iter().any(|source| has(source, message)))
        .collect();
    assert!(missing.is_empty(), "no such message: {missing:#?}");
    assert!(
        !sources
            .iter()
            .any(|source| has(source, "the last goood filter"))
    );
}

/// Returns whether the parts of a message are close together, with only names and numbers between
/// them.
fn has(source: &str, message: &str) -> bool {
    const BETWEEN_BYTES: usize = 60;
    let parts: Vec<&str> = message
        .split("...")
        .filter(|part| !part.trim().is_empty())
        .collect();
    let follows = |begin: usize| {
        let mut at = begin;
        parts
            .iter()
            .skip(1)
            .all(|part| match source[at..].find(part) {
                Some(skipped) if skipped <= BETWEEN_BYTES => {
                    at += skipped + part.len();
                    true
                }
                _ => false,
            })
    };
    source
        .match_indices(parts[0])
        .any(|(begin, part)| follows(begin + part.len()))
}

/// Returns sources and scripts, with string literals of several lines joined.
fn sources() -> Vec<String> {
    let mut sources = Vec::new();
    let mut folders = ["src", "fetch/src", "contrib/lib"]
        .map(|folder| root().join(folder))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            let mut joined = String::new();
            for line in text.lines() {
                match line.strip_suffix('\\') {
                    Some(begun) => joined.push_str(begun.trim_start()),
                    None => {
                        joined.push_str(line.trim_start());
                        joined.push('\n');
                    }
                }
            }
            sources.push(joined);
        }
    }
    sources
}

/// Each test that a promise names exists: `tests/system/reload.rs: name, another_name`.
#[test]
fn every_test_of_a_promise_exists() {
    let text = read(Path::new("docs/promises.md"));
    let mut named = 0;
    for placed in parts(&text) {
        let Part::Inline(words) = placed.part else {
            continue;
        };
        let Some((file, tests)) = words
            .split_once(": ")
            .filter(|(file, _)| file.ends_with(".rs"))
        else {
            continue;
        };
        let source = read(Path::new(file));
        for test in tests.split(", ") {
            let defined = source.split(&format!("fn {test}()")).collect::<Vec<_>>();
            let attribute = defined[0].rsplit("}\n").next().unwrap_or_default();
            assert!(
                defined.len() > 1 && (attribute.contains("test]") || attribute.contains("test(")),
                "docs/promises.md:{}: {file} has no test {test}",
                placed.line
            );
            named += 1;
        }
    }
    assert!(named > 30, "only {named} tests named");
}

/// A merge that was not finished leaves them, and no compiler reads these files.
#[test]
fn no_text_has_conflict_marks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut read = 0;
    for folder in [
        "",
        "docs",
        "contrib",
        "contrib/man",
        "contrib/lib",
        "blocklists",
    ] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            read += 1;
            let is_mark = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
            assert!(!text.lines().any(is_mark), "{}", path.display());
        }
    }
    assert!(read > 40, "only {read} files were read");
}
