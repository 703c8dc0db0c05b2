//! A request and its answer, whatever the door.

use std::net::IpAddr;

use crate::milter::{Edit, Mailbox, ProtocolError, Reply};

/// Most bytes of a request: a header block of 768 KiB in base64, and the rest.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Most recipients that a request about one more says: a mail server takes as many in one message.
pub(super) const RECIPIENTS_MAX: usize = 1_000;

/// What a mail server asks. What it does not say is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) sender: Mailbox<Vec<u8>>,
    /// The sender in another reading.
    pub(super) also: Vec<u8>,
    /// The recipients of the message that it has already accepted.
    pub(super) earlier: Vec<Mailbox<Vec<u8>>>,
    /// Whether it has refused a recipient of the message on our answer.
    pub(super) has_refused: bool,
    pub(super) recipient: Option<Mailbox<Vec<u8>>>,
    pub(super) client: Option<IpAddr>,
    pub(super) client_name: Vec<u8>,
    /// The login name, if the client is authenticated.
    pub(super) login: Vec<u8>,
    pub(super) queue_id: Vec<u8>,
    /// The same for all requests about one message.
    pub(super) instance: Vec<u8>,
    /// All of it as it came, if there may be another one about the message.
    pub(super) text: Vec<u8>,
    pub(super) headers: Vec<u8>,
    /// The names of fields of which some may be missing there.
    pub(super) cut: Vec<Vec<u8>>,
    pub(super) stage: Stage,
    pub(super) http: Http,
}

impl Request {
    /// About an envelope sender alone; an empty one is nobody.
    pub(super) fn about(sender: Mailbox<Vec<u8>>) -> Self {
        let stage = match sender.borrowed().written().is_empty() {
            true => Stage::Other,
            false => Stage::Message,
        };
        Self {
            sender,
            also: Vec::new(),
            earlier: Vec::new(),
            has_refused: false,
            recipient: None,
            client: None,
            client_name: Vec::new(),
            login: Vec::new(),
            queue_id: Vec::new(),
            instance: Vec::new(),
            text: Vec::new(),
            headers: Vec::new(),
            cut: Vec::new(),
            stage,
            http: Http::default(),
        }
    }
}

/// How an answer by HTTP is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Http {
    /// Without its text.
    pub(super) is_head: bool,
    /// As the last one of the connection.
    pub(super) is_last: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is nothing to decide.
    #[default]
    Other,
    Recipient,
    /// The envelope sender: recipients may be asked about later.
    Sender,
    /// The whole message: no more is asked about it.
    Message,
}

/// The request at the start of the input, and its length in bytes; `None` if it is not complete.
pub(super) type Found = Result<Option<(Request, usize)>, ProtocolError>;

pub(super) fn fault(why: &'static str) -> ProtocolError {
    ProtocolError::Request(why)
}

/// What is to be done with the recipient or the message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Pass,
    /// Refuse with this reply, in one line.
    Refuse(String),
    /// Accept the message and drop it.
    Drop,
    Hold(String),
    Header(String),
}

impl Answer {
    pub(super) fn of(reply: &Reply, edits: &[Edit]) -> Self {
        if let Some(text) = reply.shown() {
            return Self::Refuse(in_one_line(&text));
        }
        if *reply == Reply::Discard {
            return Self::Drop;
        }
        // One answer only: what stops the message comes first.
        let mut answer = Self::Pass;
        for edit in edits {
            match edit {
                Edit::Quarantine(reason) => return Self::Hold(reason.clone()),
                Edit::AddHeader { name, value } if answer == Self::Pass => {
                    let value = String::from_utf8_lossy(value).replace(['\r', '\n'], " ");
                    answer = Self::Header(format!("{name}: {}", value.trim()));
                }
                Edit::AddHeader { .. } | Edit::DeleteHeader { .. } => {}
            }
        }
        answer
    }

    /// An action of access(5), which Postfix takes from policy servers and maps alike; `None` for nothing.
    pub(super) fn action(&self) -> Option<String> {
        Some(match self {
            Self::Pass => return None,
            Self::Refuse(reply) => reply.clone(),
            Self::Drop => "DISCARD".to_owned(),
            Self::Hold(reason) => format!("HOLD {reason}"),
            Self::Header(header) => format!("PREPEND {header}"),
        })
    }
}

/// Joins the lines of a reply, which all begin with the same codes.
fn in_one_line(text: &str) -> String {
    let enhanced = text.get(4..).and_then(|rest| rest.split(' ').next());
    let codes = 4 + enhanced.map_or(0, str::len) + 1;
    let words: Vec<&str> = text.lines().filter_map(|line| line.get(codes..)).collect();
    // After the code, the mark of a reply with more lines.
    let codes = text.get(..codes).unwrap_or_default().replacen('-', " ", 1);
    codes + &words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::milter::ReplyText;

    #[test]
    fn a_reply_is_one_line_with_its_codes_once() {
        for lines in [&["a 100% b"][..], &["a", "b-c", "d"], &["x-y@b.example"]] {
            let text = ReplyText::new(550, "5.7.1", lines).unwrap();
            let answer = Answer::of(&Reply::Text(text), &[]);
            let expected = format!("550 5.7.1 {}", lines.join(" "));
            assert_eq!(answer.action(), Some(expected));
        }
    }
}
