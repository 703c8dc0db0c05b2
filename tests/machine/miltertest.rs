//! The daemon with `miltertest`, another implementation of the server's side: the scripts in
//! `tests/miltertest/` contain what is sent and what must be answered.

use std::fs;
use std::process::Command;

use crate::support::scene::site;
use crate::support::site::Transport;
use crate::support::{installed, root, run, words};

/// How often each of these actions stands in the log after a script.
const VERDICTS: &str = "accept 13 reject 15 tempfail 3 tag 1 quarantine 1 discard 1";
const VERSIONS: &str = "accept 5 reject 10 tempfail 0 tag 0 quarantine 0 discard 0";

fn play(script: &str, transport: Transport, decisions: &str) {
    if !installed("miltertest") {
        return;
    }
    let site = site(transport, "");
    let daemon = site.serve();
    let folder = root("tests/miltertest");
    let whole = ["play.lua", script]
        .map(|name| fs::read_to_string(folder.join(name)).expect("a script of ours"))
        .concat();
    let script = site.write("script.lua", &whole);
    let socket = format!("socket={}", site.socket.for_sendmail());
    run(Command::new("miltertest")
        .args(["-D", &socket, "-s"])
        .arg(script));
    // What the server was told is what the log says, once for each message that was judged.
    assert!(daemon.terminate().success());
    let log = fs::read_to_string(site.at("daemon.log")).expect("it was written");
    for decision in words(decisions).chunks(2) {
        let logged = log.matches(&format!(" action={} ", decision[0])).count();
        assert_eq!(logged.to_string(), decision[1], "{}: {log}", decision[0]);
    }
    assert!(!log.contains(" ERROR "), "{log}");
}

#[test]
fn verdicts_on_each_socket() {
    play("verdicts.lua", Transport::Unix, VERDICTS);
    play("verdicts.lua", Transport::Tcp, VERDICTS);
}

#[test]
fn versions_on_each_socket() {
    play("versions.lua", Transport::Unix, VERSIONS);
    play("versions.lua", Transport::Tcp, VERSIONS);
}
