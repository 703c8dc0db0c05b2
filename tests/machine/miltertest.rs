//! The daemon with `miltertest`, another implementation of the server's side: the scripts in
//! `tests/miltertest/` contain what is sent and what must be answered.

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::installed;
use support::scene::site;
use support::site::Transport;

const ACTIONS: [&str; 6] = [
    "accept",
    "reject",
    "tempfail",
    "tag",
    "quarantine",
    "discard",
];
/// How often each of these stands in the log after a script.
const VERDICTS: [usize; 6] = [13, 15, 3, 1, 1, 1];
const VERSIONS: [usize; 6] = [5, 10, 0, 0, 0, 0];

fn play(script: &str, transport: Transport, decisions: [usize; 6]) {
    if !installed("miltertest") {
        return;
    }
    let site = site(transport, "");
    let daemon = site.serve();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/miltertest");
    let whole = ["play.lua", script]
        .map(|name| fs::read_to_string(folder.join(name)).expect("a script of ours"))
        .concat();
    let script = site.write("script.lua", &whole);
    support::run(
        Command::new("miltertest")
            .arg("-D")
            .arg(format!("socket={}", site.socket.for_sendmail()))
            .arg("-s")
            .arg(script),
    );
    // What the server was told is what the log says, once for each message that was judged.
    assert!(daemon.terminate().success());
    let log = fs::read_to_string(site.path().join("daemon.log")).expect("it was written");
    let logged = ACTIONS.map(|action| log.matches(&format!(" action={action} ")).count());
    assert_eq!(logged, decisions, "{log}");
    assert!(!log.contains(" ERROR "), "{log}");
}

#[test]
fn verdicts_on_a_unix_socket() {
    play("verdicts.lua", Transport::Unix, VERDICTS);
}

#[test]
fn verdicts_on_tcp() {
    play("verdicts.lua", Transport::Tcp, VERDICTS);
}

#[test]
fn versions_on_a_unix_socket() {
    play("versions.lua", Transport::Unix, VERSIONS);
}

#[test]
fn versions_on_tcp() {
    play("versions.lua", Transport::Tcp, VERSIONS);
}
