//! The units that keep lists up to date, in a separate booted machine: no change of a list is
//! missed, whenever it happens.

use crate::support;

use support::booted::Booted;

/// One file comes immediately after a compilation, when systemd begins to watch the folder again;
/// another during a compilation.
const CHANGES: &str = include_str!("upkeep/changes.sh");

fn assert_each_change_is_compiled(rounds: u32) {
    if let Some(machine) = Booted::turn() {
        machine.done(&format!("ROUNDS={rounds}\n{CHANGES}"));
    }
}

#[test]
fn a_change_at_any_moment_is_compiled() {
    assert_each_change_is_compiled(6);
}

#[test]
#[ignore = "a minute or two: tests/run --long"]
fn many_changes_at_any_moment_are_compiled() {
    assert_each_change_is_compiled(60);
}

/// The same lines: from a user with `logger`, and from the units of mail servers.
const CORRESPONDENTS: &str = include_str!("upkeep/correspondents.sh");

#[test]
fn a_user_of_the_machine_plants_no_correspondent() {
    let Some(machine) = Booted::turn() else {
        return;
    };
    let output = machine.output(CORRESPONDENTS);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let kept: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_once(" # seen "))
        .map(|(address, _)| address)
        .collect();
    let real = ["real15", "real16", "real17"].map(|name| format!("{name}@other.example"));
    assert_eq!(kept, real, "{said}");
}
