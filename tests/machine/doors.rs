//! The maps and the policy service with Postfix's own programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::rig::Rig;
use crate::support::{Scratch, has, installed};

const CONFIG: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

/// Returns what `postmap -q` finds in the map of the daemon, and whether it found something.
fn asked(folder: &Path, map: &str, key: &str) -> (bool, String) {
    let output = Command::new("postmap")
        .arg("-c")
        .arg(folder)
        .args(["-q", key, map])
        .output()
        .expect("postmap runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn postfix_asks_the_socketmap() {
    if !installed("postfix") {
        return;
    }
    let rig = Rig::new(&[("spam.list", "@bad.example\n")], CONFIG);
    let scratch = Scratch::new();
    fs::write(scratch.join("main.cf"), "compatibility_level = 3.6\n").expect("our own folder");
    let map = format!("socketmap:unix:{}:list", rig.path("socketmap").display());
    let (is_found, said) = asked(scratch.path(), &map, "a@bad.example");
    assert!(is_found, "{said}");
    has(
        &said,
        "550 5.7.1 a@bad.example is on the sender blocklist spam (case ",
    );
    let unlisted = asked(scratch.path(), &map, "a@ok.example");
    assert_eq!(unlisted, (false, String::new()));
    let gone = format!("socketmap:unix:{}:list", rig.path("gone").display());
    let (is_found, said) = asked(scratch.path(), &gone, "a@bad.example");
    assert!(
        !is_found && !said.is_empty(),
        "a daemon that is away is an error, not a miss"
    );
}
