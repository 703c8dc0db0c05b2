//! The scenarios of mail servers, with the player in place of a server.

use std::fs;
use std::path::Path;

use crate::support::player::Player;

crate::scenarios! { Player, messages }

/// Every scenario is in the list, and each one in the list exists.
#[test]
fn every_scenario_is_played() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let names = fs::read_dir(folder).expect("our own folder").flatten();
    let names = names.filter_map(|file| {
        let name = file.file_name().into_string().expect("plain names");
        Some(name.strip_suffix(".testcase")?.to_owned())
    });
    let listed = include_str!("../support/scenario.rs")
        .split("fn play")
        .next();
    let listed = listed.expect("the macro is above");
    let mut count = 0;
    for name in names {
        assert!(listed.contains(&format!("{name},")), "{name} is not played");
        count += 1;
    }
    assert_eq!(count, 18);
}
