//! The daemon with `miltertest`, another implementation of the server's side: the scripts in
//! `tests/miltertest/` contain what is sent and what must be answered.

use crate::support;

use std::path::Path;
use std::process::Command;

use support::installed;
use support::scene::site;
use support::site::Transport;

fn play(script: &str, transport: Transport) {
    if !installed("miltertest") {
        return;
    }
    let site = site(transport, "");
    let _daemon = site.serve();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/miltertest");
    let whole = ["play.lua", script]
        .map(|name| std::fs::read_to_string(folder.join(name)).expect("a script of ours"))
        .concat();
    let script = site.write("script.lua", &whole);
    support::run(
        Command::new("miltertest")
            .arg("-D")
            .arg(format!("socket={}", site.socket.for_sendmail()))
            .arg("-s")
            .arg(script),
    );
}

#[test]
fn verdicts_on_a_unix_socket() {
    play("verdicts.lua", Transport::Unix);
}

#[test]
fn verdicts_on_tcp() {
    play("verdicts.lua", Transport::Tcp);
}

#[test]
fn versions_on_a_unix_socket() {
    play("versions.lua", Transport::Unix);
}

#[test]
fn versions_on_tcp() {
    play("versions.lua", Transport::Tcp);
}
