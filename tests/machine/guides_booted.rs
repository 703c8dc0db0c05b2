//! Follows the guides exactly: runs every `sh` block of README.md and `docs/`, in order, as root in
//! a separate booted machine with systemd and Debian's Postfix. `support::markdown` describes the
//! format of a guide.

use crate::support;

use std::path::Path;

use support::booted::Booted;
use support::markdown::{Part, guides, parts, read, root};
use support::usable;

#[test]
fn readme() {
    follow("README.md");
}

#[test]
fn postfix() {
    follow("docs/postfix.md");
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_blocklist-milter");

/// Instead of Postfix. `tests/run` has downloaded its packages.
#[test]
fn sendmail() {
    let packages = Path::new(PROGRAM)
        .ancestors()
        .nth(2)
        .expect("target/debug/");
    let packages = packages.join("sendmail-packages");
    let missing = (!packages.is_dir()).then(|| format!("no {}", packages.display()));
    if usable("sendmail-packages", missing) {
        follow("docs/sendmail.md");
    }
}

#[test]
fn daily_work() {
    follow("docs/daily-work.md");
}

#[test]
fn upgrade() {
    follow("docs/upgrade.md");
}

#[test]
fn choosing_lists() {
    follow("docs/choosing-lists.md");
}

#[test]
fn many_hosts() {
    follow("docs/many-hosts.md");
}

#[test]
fn sizing() {
    follow("docs/sizing.md");
}

#[test]
fn troubleshooting() {
    follow("docs/troubleshooting.md");
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
        let followed = tests.contains(&format!("follow(\"{}\")", guide.display()));
        assert_eq!(runs, followed, "{}", guide.display());
    }
}

/// What every guide assumes: Postfix as Debian's package configures it, and the source with its
/// programs built. These are the programs of this test; the `cargo` in this machine only checks its
/// arguments.
const MACHINE: &str = r#"
set -eu
mkdir -p /run/guide /run/built
cat >/run/guide/cargo <<'END'
#!/bin/sh
[ "$*" = "build --release" ]
END
chmod +x /run/guide/cargo
ln -s "$PROGRAMS" /run/built/release
ln -s "${PROGRAMS%/*}/sendmail-packages" /run/guide/sendmail-packages
cp /usr/share/postfix/main.cf.debian /etc/postfix/main.cf
postconf -e myhostname=mx.your.example 'mydestination=localhost, your.example' \
    inet_interfaces=loopback-only inet_protocols=ipv4 alias_maps= alias_database= \
    local_recipient_maps= mailbox_size_limit=0 'smtpd_relay_restrictions=permit_mynetworks,reject' \
    smtpd_peername_lookup=no mynetworks=127.0.0.0/8
chmod 644 /etc/postfix/main.cf
systemctl start postfix
pwd >/run/guide/folder
"#;

/// Runs the commands of a guide, and compares the output.
fn follow(guide: &str) {
    let text = read(Path::new(guide));
    let Some(machine) = Booted::start() else {
        return;
    };
    let programs = Path::new(PROGRAM).parent().expect("in a folder");
    let prepared = machine.output(&format!(
        "PROGRAMS={}; cd {}\n{MACHINE}",
        programs.display(),
        root().display()
    ));
    let said = String::from_utf8_lossy(&prepared.stdout);
    assert!(prepared.status.success(), "the machine: {said}");

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

/// Runs a block in the folder in which the previous one ended.
fn run(machine: &Booted, at: &str, script: &str) -> String {
    let script: String = script.lines().map(with_exit_code).collect();
    let output = machine.output(&format!(
        "set -eu; cd \"$(cat /run/guide/folder)\"; export CARGO_TARGET_DIR=/run/built\n{script}\npwd >/run/guide/folder"
    ));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let journal = machine.output("journalctl --no-pager -n 15");
        panic!(
            "{at}: {}\n{script}---- it printed ----\n{said}---- journal ----\n{}",
            output.status,
            String::from_utf8_lossy(&journal.stdout)
        );
    }
    said
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
