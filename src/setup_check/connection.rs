//! Asks milters as a mail server does: whether they answer, and what the daemon answers.

use std::io;

use super::findings::About;
use super::program::{PATIENCE, within};
use crate::demo::peer::{Answer, Delivery, Peer, TestMail};
use crate::endpoint::{Endpoint, EndpointError};
use crate::screen::Trial;

/// Sends the sender of a test transaction over each socket: the daemon must answer, and accept it.
pub(super) fn check(sockets: &[Endpoint], start: &str, findings: &mut About<'_>) {
    for socket in sockets {
        let to = socket.clone();
        let asked = within(PATIENCE, move || {
            let trial = Trial::random()?;
            let delivery = ask_daemon(&to, &trial)?;
            let outcome = match delivery.recipients.first() {
                Some(Answer::Text(text)) => trial.outcome(text),
                _ => None,
            };
            Ok((outcome, delivery.time.as_millis()))
        });
        match asked {
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
                start,
            ),
        }
    }
}

fn ask_daemon(socket: &Endpoint, trial: &Trial) -> io::Result<Delivery> {
    let mut peer = Peer::connect(socket)?;
    peer.stranger()?;
    let delivery = peer.deliver(&TestMail::new(&trial.mail_from(), &["<postmaster>"], &[]))?;
    peer.quit()?;
    Ok(delivery)
}

/// Asks the milter at this address; returns why it does not answer.
pub(super) fn silence(address: Result<Endpoint, EndpointError>) -> Option<String> {
    let socket = match address {
        Ok(socket) => socket,
        Err(error) => return Some(error.to_string()),
    };
    let answer = within(PATIENCE, move || Peer::connect(&socket)?.leave());
    answer.err().map(|error| error.to_string())
}
