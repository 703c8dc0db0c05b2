//! What the documents say exists: the options of each command line they show, the files they name, the
//! messages that `docs/troubleshooting.md` explains, and the tests that `docs/promises.md` relies on.
//! Their commands are run by `tests/guides_booted.rs`.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocklist_milter::cli::compile::Cli as Compile;
use blocklist_milter::cli::milter::Milter;
use clap::CommandFactory;
use clap::error::ErrorKind;
use support::markdown::{Part, guides, parts, read, root};

/// A command line of ours in a document: where, and its words.
type Shown = (String, Vec<String>);

/// A fault of a command line, if it has one. In running text a command may leave out what is not the
/// point: `blocklist-compile add`.
fn fault(words: &[String], whole: bool) -> Option<String> {
    let command = match words[0].as_str() {
        "blocklist-milter" => Milter::command(),
        _ => Compile::command(),
    };
    // A shell makes several files of a pattern.
    let expanded = words.iter().flat_map(|word| {
        let times = if word.contains('*') { 2 } else { 1 };
        std::iter::repeat_n(word, times)
    });
    let error = command.try_get_matches_from(expanded).err()?;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand if !whole => None,
        _ => Some(error.to_string()),
    }
}

/// Our commands in a piece of shell: words by blanks and quotes, up to what ends a command.
fn commands(shell: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for line in shell.replace("\\\n", " ").lines() {
        let mut words: Vec<String> = Vec::new();
        let mut all = Vec::new();
        let mut word = String::new();
        let (mut quote, mut begun) = (None, false);
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match (quote, character) {
                (Some(open), _) if character == open => quote = None,
                (Some(_), _) => word.push(character),
                (None, '\'' | '"') => (quote, begun) = (Some(character), true),
                (None, '#') if word.is_empty() => break,
                (None, '>' | '<' | '|' | ';' | '&' | '(' | ')') | (None, ' ' | '\t') => {
                    if begun || !word.is_empty() {
                        words.push(std::mem::take(&mut word));
                        begun = false;
                    }
                    if !matches!(character, ' ' | '\t') {
                        all.push(std::mem::take(&mut words));
                    }
                    // The file of a redirection is no argument.
                    if matches!(character, '>' | '<') {
                        while characters.next_if(|next| !next.is_whitespace()).is_some() {}
                    }
                }
                (None, _) => word.push(character),
            }
        }
        if begun || !word.is_empty() {
            words.push(word);
        }
        all.push(words);
        found.extend(all.iter().filter_map(|words| of_ours(words)));
    }
    found
}

/// From the program's name on, also behind `runuser -u NAME --` or `VARIABLE=value`.
fn of_ours(words: &[String]) -> Option<Vec<String>> {
    let begin = match words.first()?.as_str() {
        "runuser" => words.iter().position(|word| word == "--")? + 1,
        "exec" | "!" | "if" | "until" | "sudo" => 1,
        _ => words.iter().position(|word| !word.contains('='))?,
    };
    let mut words = words.get(begin..)?.to_vec();
    let name = words.first()?.rsplit('/').next()?;
    let name = ["blocklist-milter", "blocklist-compile"]
        .into_iter()
        .find(|ours| *ours == name)?;
    words[0] = name.to_owned();
    (words.len() > 1).then_some(words)
}

/// Every command line of ours in the documents.
fn shown() -> Vec<(Shown, bool)> {
    let mut shown = Vec::new();
    for guide in guides() {
        for placed in parts(&read(&guide)) {
            let at = format!("{}:{}", guide.display(), placed.line);
            let (text, whole) = match placed.part {
                Part::Block { language, text } if language != "text" => (text, true),
                Part::Hidden(text) => (text, true),
                Part::Inline(text) => (text, false),
                Part::Block { .. } => continue,
            };
            let commands = commands(&text).into_iter();
            shown.extend(commands.map(|words| ((at.clone(), words), whole)));
        }
    }
    for folder in [
        "contrib/man",
        "contrib/systemd",
        "contrib/feeds",
        "contrib/lib",
        "contrib",
    ] {
        for entry in fs::read_dir(root().join(folder)).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let file = path
                .strip_prefix(root())
                .expect("below it")
                .display()
                .to_string();
            let text = match folder {
                // Examples; what stands before them is made from the command line itself.
                "contrib/man" => text
                    .split(".nf\n")
                    .skip(1)
                    .filter_map(|part| part.split(".fi").next())
                    .collect(),
                _ => text
                    .lines()
                    .map(|line| {
                        line.trim_start_matches(['#', ' '])
                            .replace("ExecStart=", "")
                            .replace("%f", "name")
                    })
                    .fold(String::new(), |text, line| text + &line + "\n"),
            };
            let whole = folder == "contrib/man";
            let commands = commands(&text.replace("\\-", "-")).into_iter();
            shown.extend(
                commands
                    .filter(|words| {
                        whole || words[1].starts_with(|c: char| c == '-' || c.is_ascii_lowercase())
                    })
                    .map(|words| ((file.clone(), words), whole)),
            );
        }
    }
    shown
}

#[test]
fn every_command_line_is_understood() {
    let shown = shown();
    assert!(shown.len() > 40, "only {} found", shown.len());
    let faults: Vec<String> = shown
        .iter()
        .filter_map(|((at, words), whole)| {
            Some(format!(
                "{at}: {}\n{}",
                words.join(" "),
                fault(words, *whole)?
            ))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_wrong_command_line_is_noticed() {
    let fault_of = |line: &str, whole| {
        let found = commands(line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        fault(&found[0], whole)
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
    assert!(commands("man blocklist-milter 8; systemctl start blocklist-milter x").is_empty());
}

/// The examples of the manual, one after the other, in a folder with the lists that they name.
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
    let commands: BTreeSet<String> = commands(&script)
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
                // A package has below /usr what contrib/install puts below /usr/local.
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

/// What a first start makes, and names that stand for any.
fn made_in_use(path: &str) -> bool {
    path.contains("NAME")
        || path.contains('*')
        || path.starts_with("var/lib/blocklist-milter")
        || path.starts_with("run/blocklist-milter")
        || path.starts_with("var/spool/postfix/blocklist-milter")
        || path.starts_with("etc/blocklist-milter/lists")
        || path.starts_with("etc/systemd/system/blocklist-")
}

/// Paths below the root after `contrib/install`, and the folders above them.
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

/// Each message that is explained is in the source: its parts between `...`, in this order, in one file.
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
            .any(|source| has(source, "reload refussed, keeping"))
    );
}

/// The parts of one message stand close together, with names and numbers between.
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

/// Sources and scripts, with the lines of a broken literal joined.
fn sources() -> Vec<String> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join("src"), root().join("contrib/lib")];
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

/// Each test that a promise relies on exists: `tests/reload.rs: name, another_name`.
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
