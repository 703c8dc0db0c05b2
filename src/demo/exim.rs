//! The mail server's side of policy delegation, as Exim asks with the ACLs of `contrib/exim`: at RCPT, and
//! after DATA with the header block, each over a connection of its own.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::peer::{Answer, Change, Delivery, TestMail, connect};
use crate::endpoint::Endpoint;

/// Most bytes of an answer: a reply has less.
const ANSWER_MAX_BYTES: u64 = 16 << 10;

/// Asks about a message to one recipient.
///
/// # Errors
/// Those of the socket, or an answer that is none.
pub(super) fn deliver(to: &Endpoint, mail: &TestMail) -> io::Result<Delivery> {
    let began = Instant::now();
    let mut outcome = Delivery::default();
    let login = mail.macros.first().map_or("", |(_, value)| value.as_str());
    let recipient = mail.recipients.first().map_or(&[][..], Vec::as_slice);
    let envelope = format!(
        "client_address=192.0.2.25\nsasl_username={}\nsender_base64={}\n",
        STANDARD.encode(login),
        STANDARD.encode(&mail.mail_from)
    );
    let recipient = STANDARD.encode(recipient);
    let at_rcpt = format!("protocol_state=RCPT\n{envelope}recipient_base64={recipient}\n");
    let (answer, _) = as_milter(ask(to, &at_rcpt)?);
    let is_refused = answer.refuses();
    outcome.recipients.push(answer);
    if !is_refused {
        let fields = mail.headers.iter();
        let block: Vec<u8> = fields
            .flat_map(|(name, value)| [name, &b": "[..], value, b"\n"].concat())
            .collect();
        let block = STANDARD.encode(block);
        let accepted = format!("recipients_base64={recipient}\nheaders_base64={block}\n");
        let at_data = format!("protocol_state=DATA\n{envelope}{accepted}");
        let (answer, change) = as_milter(ask(to, &at_data)?);
        outcome.message = Some(answer);
        outcome.changes.extend(change);
    }
    outcome.time = began.elapsed();
    Ok(outcome)
}

/// Returns what an action is over the milter protocol.
fn as_milter(action: String) -> (Answer, Option<Change>) {
    match action.strip_prefix("PREPEND ") {
        Some(header) => {
            let (name, value) = header.split_once(": ").unwrap_or((header, ""));
            let tag = Change::Added(name.to_owned(), value.to_owned());
            (Answer::Continue, Some(tag))
        }
        None if action.starts_with(['4', '5']) => (Answer::Text(action), None),
        None => (Answer::Continue, None),
    }
}

/// Sends a request, and returns the action in the answer.
///
/// # Errors
/// Those of the socket, or an answer that is none.
pub(crate) fn ask(to: &Endpoint, attributes: &str) -> io::Result<String> {
    let mut stream = connect(to)?;
    stream.write_all(format!("request=smtpd_access_policy\n{attributes}\n").as_bytes())?;
    let mut said = String::new();
    BufReader::new(stream.take(ANSWER_MAX_BYTES)).read_line(&mut said)?;
    match said.trim_end().strip_prefix("action=") {
        Some(action) => Ok(action.to_owned()),
        None => {
            let what = format!("not an answer to a policy request: {said:?}");
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
    }
}
