//! The mail server's side of policy delegation, as Exim asks with the ACLs of `contrib/exim`: at RCPT, and
//! after DATA with the header block, each over a connection of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::peer::{Answer, Change, Delivery, TestMail};

/// A daemon that does not answer for this long is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks about a message to one recipient.
///
/// # Errors
/// Those of the socket, or an answer that is none.
pub(super) fn deliver(socket: &Path, mail: &TestMail) -> io::Result<Delivery> {
    let began = Instant::now();
    let mut outcome = Delivery {
        recipients: Vec::new(),
        message: None,
        changes: Vec::new(),
        time: Duration::ZERO,
    };
    let login = mail.macros.first().map_or("", |(_, value)| value.as_str());
    let recipient = mail.recipients.first().map_or(&[][..], Vec::as_slice);
    let envelope = format!(
        "client_address=192.0.2.25\nsasl_username={}\nsender_base64={}\n",
        STANDARD.encode(login),
        STANDARD.encode(&mail.mail_from)
    );
    let recipient = STANDARD.encode(recipient);
    let at_rcpt = format!("protocol_state=RCPT\n{envelope}recipient_base64={recipient}\n");
    let (answer, _) = ask(socket, &at_rcpt)?;
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
        let (answer, change) = ask(socket, &at_data)?;
        outcome.message = Some(answer);
        outcome.changes.extend(change);
    }
    outcome.time = began.elapsed();
    Ok(outcome)
}

/// Sends a request, and returns the answer.
fn ask(socket: &Path, attributes: &str) -> io::Result<(Answer, Option<Change>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("request=smtpd_access_policy\n{attributes}\n").as_bytes())?;
    let mut said = String::new();
    BufReader::new(stream).read_line(&mut said)?;
    let Some(action) = said.trim_end().strip_prefix("action=") else {
        let what = format!("not an answer to a policy request: {said:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    };
    Ok(match action.strip_prefix("PREPEND ") {
        Some(header) => {
            let (name, value) = header.split_once(": ").unwrap_or((header, ""));
            let tag = Change::Added(name.to_owned(), value.to_owned());
            (Answer::Continue, Some(tag))
        }
        None if action.starts_with(['4', '5']) => (Answer::Text(action.to_owned()), None),
        None => (Answer::Continue, None),
    })
}
