//! The completions, in real shells.

use std::fs;
use std::process::Command;

use crate::support::{installed, root};

/// Returns a folder with a filter and a list.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["spam.blf", "spam.txt"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    folder
}

/// Runs a shell; returns what it prints.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns what bash offers for the last of these words.
fn in_bash(program: &str, words: &str) -> Vec<String> {
    let script = root("contrib/completions").join(format!("{program}.bash"));
    let words: Vec<&str> = words.split(' ').collect();
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let function = program.replace('-', "__");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let text = format!(
        "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _{function} {program} '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        quoted.join(" "),
        words.len() - 1
    );
    let folder = folder();
    let said = said(
        Command::new("bash")
            .args(["--norc", "-c", &text])
            .current_dir(&folder),
    );
    said.split_whitespace().map(str::to_owned).collect()
}

/// Returns what zsh offers: one in a terminal gets the words and a tab, and tells each match.
fn in_zsh(_: &str, words: &str) -> Vec<String> {
    const TELL: &str = r#"
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z "PS1=; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; bindkey '^I' complete-word; \
            compadd() { [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd \"\$@\"; return }; \
            typeset -a hits; builtin compadd -A hits \"\$@\"; for hit in \$hits; do print -r -- \"
HIT:\$hit\"; done; builtin compadd \"\$@\" }; \
            ends() { print END: }; comppostfuncs=(ends); print READY:"
        zpty -r z line $'*READY:\r\n*'
        zpty -w -n z "$2"$'\t'
        zpty -r -m z line '*END:*'
        print -r -- "$line"
        zpty -d z
    "#;
    let folder = folder();
    let completions = root("contrib/completions");
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", TELL, "zsh"])
        .arg(&completions)
        .arg(words);
    let said = said(zsh.current_dir(&folder).env("TERM", "xterm"));
    let hits = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("HIT:"));
    hits.map(str::to_owned).collect()
}

/// Returns what fish offers. It puts filters before other files.
fn in_fish(program: &str, words: &str) -> Vec<String> {
    let script = root("contrib/completions").join(format!("{program}.fish"));
    let text = format!("source '{}'; complete -C '{words}'", script.display());
    let folder = folder();
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", &text])
        .env("HOME", folder.path());
    let said = said(fish.current_dir(&folder));
    let offered = said.lines().filter_map(|line| line.split('\t').next());
    let first = |offered: &&str| !(words.ends_with(" sp") && offered.ends_with(".txt"));
    offered.filter(first).map(str::to_owned).collect()
}

/// What is typed, and the one thing that is offered.
const OFFERED: &[&str] = &[
    "blocklist-compile ver | verify",
    "blocklist-compile build --max-g | --max-growth",
    "blocklist-compile false-positives --j | --json",
    "blocklist-compile info --j | --json",
    "blocklist-compile info sp | spam.blf",
    "blocklist-compile query sp | spam.blf",
    "blocklist-compile verify sp | spam.blf",
    "blocklist-milter log --fol | --follow",
    "blocklist-milter setup-check --post | --postfix",
    "blocklist-fetch --he | --help",
];

#[test]
fn shells_complete_commands_options_and_filters() {
    type Shell = fn(&str, &str) -> Vec<String>;
    let shells: [(&str, Shell); 3] = [("bash", in_bash), ("zsh", in_zsh), ("fish", in_fish)];
    for (shell, offered_by) in shells {
        if !installed(shell) {
            continue;
        }
        for row in OFFERED {
            let (words, offered) = row.split_once(" | ").unwrap();
            let program = words.split(' ').next().unwrap();
            assert_eq!(offered_by(program, words), [offered], "{shell}: {words}");
        }
    }
}
