//! The completions, in real shells.

use std::process::Command;

use crate::support::compile::folder;
use crate::support::{Said, installed, root, rows};

/// Runs a shell in a folder with a filter and a list; returns what it prints.
fn said(command: &mut Command) -> String {
    let folder = folder(&[("spam.blf", ""), ("spam.txt", "")]);
    command
        .current_dir(folder.path())
        .env("HOME", folder.path());
    Said::of(command).out
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
    let said = said(Command::new("bash").args(["--norc", "-c", &text]));
    said.split_whitespace().map(str::to_owned).collect()
}

/// Returns what zsh offers: one in a terminal gets the words and a tab, and tells each match.
fn in_zsh(_: &str, words: &str) -> Vec<String> {
    const TELL: &str = include_str!("completions.zsh");
    let mut zsh = Command::new("zsh");
    let zsh = zsh.args(["-f", "-c", TELL, "zsh"]).env("TERM", "xterm");
    let said = said(zsh.arg(root("contrib/completions")).arg(words));
    let lines = said.lines().map(str::trim);
    let hits = lines.filter_map(|line| line.strip_prefix("HIT:"));
    hits.map(str::to_owned).collect()
}

/// Returns what fish offers. It puts filters before other files.
fn in_fish(program: &str, words: &str) -> Vec<String> {
    let script = root("contrib/completions").join(format!("{program}.fish"));
    let text = format!("source '{}'; complete -C '{words}'", script.display());
    let said = said(Command::new("fish").args(["--no-config", "-c", &text]));
    let offered = said.lines().filter_map(|line| line.split('\t').next());
    let first = |offered: &&str| !(words.ends_with(" sp") && offered.ends_with(".txt"));
    offered.filter(first).map(str::to_owned).collect()
}

/// What is typed, and the one thing that is offered.
const OFFERED: &str = "
    blocklist-compile ver | verify
    blocklist-compile build --max-g | --max-growth
    blocklist-compile false-positives --j | --json
    blocklist-compile info --j | --json
    blocklist-compile info sp | spam.blf
    blocklist-compile query sp | spam.blf
    blocklist-compile verify sp | spam.blf
    blocklist-milter log --fol | --follow
    blocklist-milter setup-check --post | --postfix
    blocklist-fetch --he | --help
";

#[test]
fn shells_complete_commands_options_and_filters() {
    type Shell = fn(&str, &str) -> Vec<String>;
    let shells: [(&str, Shell); 3] = [("bash", in_bash), ("zsh", in_zsh), ("fish", in_fish)];
    for (shell, offered_by) in shells {
        if !installed(shell) {
            continue;
        }
        for [words, offered] in rows(OFFERED) {
            let program = words.split(' ').next().unwrap();
            assert_eq!(offered_by(program, words), [offered], "{shell}: {words}");
        }
    }
}
