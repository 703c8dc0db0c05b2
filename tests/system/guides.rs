//! Checks that what the documents name exists: the options of each command line, the files, the
//! messages that `docs/troubleshooting.md` explains, and the tests that `docs/promises.md` names.
//! `tests/machine/guides_booted.rs` runs their commands.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocklist_compile::cli::Cli as Compile;
use blocklist_milter::cli::Milter;
use clap::CommandFactory;

use crate::packages::{FETCH, paths};
use crate::support::command_lines::{commands, fault, faults};
use crate::support::markdown::{Part, guides, parts, read, root};
use crate::support::{below, run};

#[test]
fn every_command_line_is_understood() {
    let (found, faults) = faults(&[Milter::command(), Compile::command()]);
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
    let right = "zcat x | blocklist-compile build -o 'a b.blf' - >log # why";
    assert!(fault_of(right, true).is_none());
    let others = "man blocklist-milter 8; systemctl start blocklist-milter x";
    assert!(commands(others, &ours).is_empty());
}

/// Runs the examples of the manual in order, in a folder with the lists that they name.
#[test]
fn the_examples_of_the_manual_run() {
    let page = read(Path::new("contrib/man/blocklist-compile.1"));
    let (_, examples) = page.split_once(".SH EXAMPLES").expect("it has examples");
    let (examples, _) = examples.split_once(".SH ").expect("more parts");
    let folder = tempfile::tempdir().expect("a folder");
    let prepare = "mkdir lists; echo spammer@bad.example >lists/own.txt; seq -f 'x%g@bad.example' 200 >lists/many.txt
        gzip -c lists/many.txt >more.gz; echo spammer@bad.example >addresses.txt; echo 'from=<x@good.example>' >mail.log";
    let blocks = examples.split(".nf\n").skip(1);
    let blocks = blocks.map(|block| block.split_once(".fi").expect("it ends").0);
    let examples: String = blocks.collect();
    let examples = examples
        .replace("\\-", "-")
        .replace("/var/log/mail.log", "mail.log");
    let script = format!("set -eu\n{prepare}\n{examples}");
    let program = Path::new(env!("CARGO_BIN_EXE_blocklist-compile"));
    let programs = program.parent().expect("in a folder").display();
    let path = std::env::var("PATH").expect("there is a path");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .env("PATH", format!("{programs}:{path}"));
    run(shell.current_dir(folder.path()));
    let commands = commands(&script, &[Compile::command()]).into_iter();
    let commands: BTreeSet<String> = commands.map(|mut words| words.swap_remove(1)).collect();
    let ours = Compile::command();
    for command in ours.get_subcommands() {
        let name = command.get_name();
        let is_shown = command.is_hide_set() || commands.contains(name);
        assert!(is_shown, "no example of {name}");
    }
    assert!(examples.lines().count() > 10 && folder.path().join("all.blf").exists());
}

/// Files of the repository that the documents name, and those of an installation.
#[test]
fn every_file_that_is_named_exists() {
    let installed = paths("/usr/local", &FETCH, |_| true);
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
                    .filter(|_| guide.ends_with("install.md") || guide.ends_with("exim.md"))
                    .is_some_and(|rest| installed.contains(&format!("usr/local/{rest}")));
                !ours || installed.contains(below) || of_package || made_in_use(below)
            } else {
                let of_ours = "contrib/ tests/ src/ docs/ benches/ blocklists/ fuzz/";
                let is_ours = of_ours.split(' ').any(|folder| named.starts_with(folder));
                let ours = is_ours && !named.contains(['*', 'N']);
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
    let folders = [
        "var/lib/blocklist-milter",
        "run/blocklist-milter",
        "var/spool/postfix/blocklist-milter",
        "run/blocklist-fetch/",
        "etc/blocklist-milter/lists",
        "etc/blocklist-milter/fetch/",
        "etc/blocklist-milter/publisher.",
        "etc/systemd/system/blocklist-",
        "etc/exim4/conf.d/main/000_blocklist-milter",
    ];
    let is_placeholder = path.contains("NAME") || path.contains('*');
    is_placeholder || folders.iter().any(|folder| path.starts_with(folder))
}

/// Each explained message is in the source: its parts between `...`, in this order, in one file.
#[test]
fn every_message_that_is_explained_exists() {
    let sources = sources();
    let is_said = |message: &str| sources.iter().any(|source| has(source, message));
    let text = read(Path::new("docs/troubleshooting.md"));
    let headings = text
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let (said, missing): (Vec<&str>, Vec<&str>) = headings.partition(|message| is_said(message));
    assert!(missing.is_empty(), "no such message: {missing:#?}");
    assert!(said.len() > 30);
    assert!(!is_said("the last goood filter"));
}

/// Returns whether the parts of a message are close together, with only names and numbers between
/// them.
fn has(source: &str, message: &str) -> bool {
    const BETWEEN_BYTES: usize = 60;
    let parts = message.split("...").filter(|part| !part.trim().is_empty());
    let parts: Vec<&str> = parts.collect();
    let follows = |begin: usize| {
        let mut at = begin;
        parts.iter().skip(1).all(|part| {
            let skipped = source[at..].find(part);
            at += skipped.unwrap_or_default() + part.len();
            skipped.is_some_and(|skipped| skipped <= BETWEEN_BYTES)
        })
    };
    let mut begun = source.match_indices(parts[0]);
    begun.any(|(begin, part)| follows(begin + part.len()))
}

/// Returns sources and scripts, with string literals of several lines joined.
fn sources() -> Vec<String> {
    let folders = [
        "src",
        "crates/filter/src",
        "crates/compile/src",
        "crates/fetch/src",
        "contrib/lib",
    ]
    .map(|folder| root().join(folder));
    let files = folders.iter().flat_map(|folder| below(folder));
    let joined = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("text");
        let lines = text.lines().map(|line| match line.strip_suffix('\\') {
            Some(begun) => begun.trim_start().to_owned(),
            None => format!("{}\n", line.trim_start()),
        });
        lines.collect()
    };
    files.filter(|path| path.is_file()).map(joined).collect()
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
        let Some((file, tests)) = words.split_once(".rs: ") else {
            continue;
        };
        let source = read(Path::new(&format!("{file}.rs")));
        for test in tests.split(", ") {
            let defined = source.split_once(&format!("fn {test}()"));
            let attribute = defined.map(|(before, _)| before.rsplit("}\n").next());
            let attribute = attribute.flatten().unwrap_or_default();
            let is_test = attribute.contains("test]") || attribute.contains("test(");
            assert!(
                is_test,
                "line {}: {file}.rs has no test {test}",
                placed.line
            );
            named += 1;
        }
    }
    assert!(named > 30, "only {named} tests named");
}
