//! Asks milters, and the mail server: whether they answer, and whether the daemon is reached.
//!
//! ```text
//! 220 ...   EHLO [127.0.0.1]   MAIL FROM:<a sender used once>   RCPT TO:<postmaster>   RSET   QUIT
//! ```
//!
//! The mail server gets one transaction over SMTP, which ends before there is a message. Postfix applies no
//! restrictions to `postmaster` without a domain (RFC 5321 section 4.5.1), so that the answer to RCPT is the
//! daemon's, if the mail server asks it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::findings::Findings;
use super::program::{PATIENCE, within};
use super::units::Milter;
use crate::demo::peer::{Answer, Peer, TestMail};
use crate::endpoint::{Endpoint, EndpointError};
use crate::screen::Trial;

/// Longest reply that is read.
const REPLY_MAX_BYTES: u64 = 64 << 10;

/// Sends the sender of a test transaction over each socket: the daemon must answer, and accept it.
pub(super) fn check_daemon(milter: &Milter, findings: &mut Findings) {
    for socket in &milter.sockets {
        let to = socket.clone();
        match within(PATIENCE, move || ask_daemon(&to)) {
            Ok((Some(true), ms)) => {
                findings.good(format!("{socket}: a test sender was accepted in {ms} ms"));
            }
            Ok((Some(false), _)) => findings.wrong(
                format!("{socket}: the daemon refuses even unlisted senders"),
                "blocklist-milter status",
            ),
            Ok((None, _)) => findings.wrong(
                format!("{socket}: another milter answers, or another version of this one"),
                "systemctl restart blocklist-milter.service",
            ),
            Err(error) => findings.wrong(
                format!("{socket}: the daemon cannot be asked: {error}"),
                milter.start(),
            ),
        }
    }
}

/// Returns whether the daemon would accept a sender, if it is the daemon that answers, and after how many milliseconds.
fn ask_daemon(socket: &Endpoint) -> io::Result<(Option<bool>, u128)> {
    let trial = Trial::random()?;
    let mut peer = Peer::connect(socket)?;
    peer.stranger()?;
    let delivery = peer.deliver(&TestMail::new(&trial.mail_from(), &["<postmaster>"], &[]))?;
    peer.quit()?;
    let outcome = match delivery.recipients.first() {
        Some(Answer::Text(text)) => trial.outcome(text),
        _ => None,
    };
    Ok((outcome, delivery.time.as_millis()))
}

/// Asks the milter at this address; returns why it does not answer.
pub(super) fn silence(address: Result<Endpoint, EndpointError>) -> Option<String> {
    let answer = address
        .map_err(io::Error::other)
        .and_then(|socket| within(PATIENCE, move || Peer::connect(&socket)?.leave()));
    answer.err().map(|error| error.to_string())
}

/// How a mail server that does not ask the daemon is reported.
pub(super) struct Server<'a> {
    /// The command that starts it.
    pub(super) start: &'a str,
    /// The command that makes it read its configuration again.
    pub(super) reload: &'a str,
    /// Whether it asks other milters for some clients, perhaps for this one.
    pub(super) has_exceptions: bool,
}

/// Finds out whether the mail server at `address` (`host:port`) asks the daemon.
pub(super) fn check_server(address: &str, server: &Server<'_>, findings: &mut Findings) {
    let to = address.to_owned();
    let ended = within(PATIENCE, move || {
        let trial = Trial::random()?;
        let (step, reply) = transaction(&to, &trial.mail_from())?;
        Ok((trial.outcome(&reply), step, reply))
    });
    let (would_accept, step, reply) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let text = format!("{address}: no mail is accepted here: {error}");
            return findings.wrong(text, server.start);
        }
    };
    let tested = "a test transaction over SMTP";
    match would_accept {
        Some(true) => findings.good(format!("{address}: {tested} reached the daemon")),
        Some(false) => findings.wrong(
            format!("{address}: {tested} reached the daemon, which refuses even unlisted senders"),
            "blocklist-milter status",
        ),
        // The recipient was accepted: the daemon was not asked.
        None if reply.starts_with('2') && server.has_exceptions => findings.notice(
            format!("{address}: {tested} did not reach the daemon: perhaps smtpd_milter_maps exempts this machine"),
            "",
        ),
        None if reply.starts_with('2') => findings.wrong(
            format!("{address}: {tested} did not reach the daemon: no mail is checked here"),
            server.reload,
        ),
        None if is_about_milters(&reply) => findings.wrong(
            format!("{address}: the mail server cannot use a milter, and answers {step} with {reply:?}"),
            "see its log",
        ),
        None => findings.notice(
            format!("{address}: it is unknown whether mail is checked: the mail server answered {step} with {reply:?}"),
            "",
        ),
    }
}

/// Returns whether this is what Postfix answers if a milter fails: for default_action=tempfail and
/// for one that it does not know; for `reject`, when the client connects and later.
fn is_about_milters(reply: &str) -> bool {
    [
        "451 4.7.1 Service unavailable",
        "451 4.3.5 ",
        "550 5.5.0 Service unavailable",
    ]
    .iter()
    .any(|start| reply.starts_with(start))
        || reply.starts_with("554 ") && reply.ends_with(" not accepting connections")
}

/// Returns the step at which the transaction ends, because the mail server refuses it or because it is the last
/// one, and its reply.
fn transaction(address: &str, sender: &str) -> io::Result<(&'static str, String)> {
    let stream = TcpStream::connect(address)?;
    let mut input = BufReader::new(stream.try_clone()?);
    let mut ask = |command: &str| -> io::Result<String> {
        (&stream).write_all(command.as_bytes())?;
        reply(&mut input)
    };
    let mail = format!("MAIL FROM:{sender}\r\n");
    let mut ended = ("", String::new());
    for (step, command) in [
        ("the connection", ""),
        ("EHLO", "EHLO [127.0.0.1]\r\n"),
        ("MAIL", &mail),
        ("RCPT", "RCPT TO:<postmaster>\r\n"),
    ] {
        ended = (step, ask(command)?);
        if !ended.1.starts_with('2') {
            break;
        }
    }
    // The result is known, even if the server has closed the connection.
    let _ = ask("RSET\r\n").and_then(|_| ask("QUIT\r\n"));
    Ok(ended)
}

/// Reads a reply: its last line, or all lines with their codes.
fn reply(input: &mut impl BufRead) -> io::Result<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in input.take(REPLY_MAX_BYTES).split(b'\n') {
        let line = line?;
        lines.push(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
        if line.get(3) != Some(&b'-') {
            return Ok(lines.join(" "));
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
