//! Checks the sockets as a mail server finds them, and sends one message over each.

use std::fs;
use std::io;
use std::net::ToSocketAddrs;
use std::os::unix::fs::FileTypeExt;

use super::findings::Findings;
use crate::demo::peer::{Answer, Peer, TestMail};
use crate::endpoint::Endpoint;

const ABOUT: &str = "socket";

/// RFC 2606: on no list, and nobody's address.
const SENDER: &str = "setup-check@blocklist-milter.invalid";

pub(super) fn check(sockets: &[Endpoint], start: &str, findings: &mut Findings) {
    for socket in sockets {
        let Endpoint::Unix(path) = socket else {
            continue;
        };
        match fs::metadata(path) {
            Ok(found) if found.file_type().is_socket() => {}
            Ok(_) => findings.wrong(
                ABOUT,
                format!("{}: not a socket", path.display()),
                format!("rm {} && {start}", path.display()),
            ),
            Err(error) => findings.wrong(ABOUT, format!("{}: {error}", path.display()), start),
        }
    }
}

/// Sends a message from nobody to nobody: it must be accepted, and soon.
pub(super) fn play(sockets: &[Endpoint], findings: &mut Findings) {
    for socket in sockets {
        match message_over(socket) {
            Ok((answer, ms)) if !answer.refuses() => {
                findings.good(ABOUT, format!("{socket}: a test message was accepted in {ms} ms"));
            }
            Ok((answer, _)) => findings.wrong(
                ABOUT,
                format!("{socket}: a test message from the unlisted {SENDER}: {}", said(&answer)),
                "journalctl -u blocklist-milter.service   # it says which list is undecided, and why",
            ),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => findings.notice(
                ABOUT,
                format!("{socket}: this user may not connect, so no test message was sent"),
                "run setup-check as root",
            ),
            Err(error) => findings.wrong(
                ABOUT,
                format!("{socket}: no test message can be sent: {error}"),
                "systemctl status blocklist-milter.socket blocklist-milter.service",
            ),
        }
    }
}

fn message_over(socket: &Endpoint) -> io::Result<(Answer, u128)> {
    let mut peer = match socket {
        Endpoint::Unix(path) => Peer::unix(path)?,
        Endpoint::Inet { host, port, .. } => {
            let address = (host.as_str(), *port).to_socket_addrs()?.next();
            Peer::tcp(address.ok_or(io::ErrorKind::NotFound)?)?
        }
    };
    peer.stranger()?;
    let letter = TestMail::new(
        &format!("<{SENDER}>"),
        &["<setup-check@localhost>"],
        &[&format!("From: {SENDER}"), "Subject: setup-check"],
    );
    let outcome = peer.deliver(&letter)?;
    peer.quit()?;
    let refused = outcome.recipients.iter().find(|answer| answer.refuses());
    let answer = refused.cloned().or(outcome.message);
    Ok((answer.unwrap_or(Answer::Reject), outcome.time.as_millis()))
}

fn said(answer: &Answer) -> String {
    match answer {
        Answer::Continue | Answer::Accept => "accepted".to_owned(),
        Answer::Reject => "refused".to_owned(),
        Answer::Tempfail => "refused for now (4xx)".to_owned(),
        Answer::Discard => "deleted".to_owned(),
        Answer::Text(text) => format!("{text:?}"),
    }
}
