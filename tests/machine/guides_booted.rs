//! Follows the guides exactly: runs every `sh` block of README.md and `docs/`, in order, as root in
//! a separate booted machine with systemd and Debian's Postfix. `support::markdown` describes the
//! format of a guide.

use crate::support;

use std::path::Path;

use support::booted::{Booted, packages};
use support::markdown::{Part, guides, parts, read};

/// Makes a test of each guide.
macro_rules! follow {
    ($($test:ident: $guide:literal,)+) => {
        $(#[test] fn $test() { follow($guide); })+
    };
}

follow! {
    readme: "README.md",
    postfix: "docs/postfix.md",
    daily_work: "docs/daily-work.md",
    choosing_lists: "docs/choosing-lists.md",
    many_hosts: "docs/many-hosts.md",
    doors: "docs/doors.md",
    stalwart: "docs/stalwart.md",
    sizing: "docs/sizing.md",
    troubleshooting: "docs/troubleshooting.md",
}

#[test]
fn upgrade() {
    follow("docs/upgrade.md");
}

#[test]
fn sendmail() {
    if packages("sendmail-packages") {
        follow("docs/sendmail.md");
    }
}

#[test]
fn exim() {
    if packages("exim-packages") {
        follow("docs/exim.md");
    }
}

/// A test here follows every guide that has something to run.
#[test]
fn every_guide_is_followed() {
    let tests = read(Path::new("tests/machine/guides_booted.rs"));
    for guide in guides() {
        let is_run = |part: &Part| matches!(part, Part::Block { language, .. } if language == "sh");
        let runs = parts(&read(&guide))
            .iter()
            .any(|placed| is_run(&placed.part));
        let guide = guide.display();
        let forms = [format!(": \"{guide}\","), format!("follow(\"{guide}\")")];
        let followed = forms.iter().any(|form| tests.contains(form));
        assert_eq!(runs, followed, "{guide}");
    }
}

/// Runs the commands of a guide, and compares the output.
fn follow(guide: &str) {
    let text = read(Path::new(guide));
    let Some(machine) = Booted::turn() else {
        return;
    };
    machine.done("echo /project >/run/guide/folder");
    let mut said = String::new();
    let mut blocks = 0;
    for placed in parts(&text) {
        let at = format!("{guide}:{}", placed.line);
        match placed.part {
            Part::Block { language, text } if language == "sh" => {
                said = run(&machine, &at, &text);
                blocks += 1;
            }
            Part::Hidden(script) => {
                run(&machine, &at, &script);
            }
            Part::Block { language, text } if language == "text" => {
                assert_shown(&at, &text, &said);
            }
            Part::Block { .. } | Part::Inline(_) => {}
        }
    }
    assert!(blocks > 0, "{guide} has no block to run");
}

/// Runs a block, which begins in line `at`, in the folder in which the previous one ended.
fn run(machine: &Booted, at: &str, script: &str) -> String {
    let script: String = script.lines().map(with_exit_code).collect();
    machine.done(&format!(
        ": {at}; set -eu; cd \"$(cat /run/guide/folder)\"; export CARGO_TARGET_DIR=/run/built\n{script}\npwd >/run/guide/folder"
    ))
}

/// Converts `command   # exit 1` to a command that fails unless the exit code is 1.
fn with_exit_code(line: &str) -> String {
    match line.rsplit_once("# exit ") {
        Some((command, code)) if code.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("code=0; {command} || code=$?; [ $code = {code} ]\n")
        }
        _ => format!("{line}\n"),
    }
}

/// Checks that each line that a guide shows is in the output, in this order.
fn assert_shown(at: &str, shown: &str, said: &str) {
    let mut rest = said;
    for line in shown.lines().map(str::trim).filter(|line| !line.is_empty()) {
        for part in line
            .split("...")
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let Some(found) = rest.find(part) else {
                panic!("{at}: no {part:?} in what is left of\n{said}");
            };
            rest = &rest[found + part.len()..];
        }
    }
}

#[test]
fn an_exit_code_is_held_to() {
    let run = |line: &str| {
        let script = format!("set -e\n{}", with_exit_code(line));
        let status = std::process::Command::new("sh")
            .args(["-c", &script])
            .status();
        status.expect("sh is there").success()
    };
    assert!(run("true") && !run("false") && run("false   # exit 1"));
    assert!(!run("true   # exit 1") && !run("sh -c 'exit 2'   # exit 1"));
}

#[test]
#[should_panic(expected = "no \"three\"")]
fn what_is_shown_is_looked_for_in_order() {
    assert_shown("guide:1", "one ... two\nthree", "three one and two");
}
