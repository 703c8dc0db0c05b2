//! The answer to a request, whatever the door.

use crate::milter::{Edit, Reply};

/// What is to be done with the recipient or the message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing.
    Pass,
    /// Refuse with this reply, in one line.
    Refuse(String),
    /// Accept the message and drop it.
    Drop,
    /// Hold the message, for this reason.
    Hold(String),
    /// Add this header.
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
        let held = edits.iter().find_map(|edit| match edit {
            Edit::Quarantine(reason) => Some(Self::Hold(reason.clone())),
            Edit::AddHeader { .. } | Edit::DeleteHeader { .. } => None,
        });
        let tagged = edits.iter().find_map(|edit| match edit {
            Edit::AddHeader { name, value } => {
                let value = String::from_utf8_lossy(value).replace(['\r', '\n'], " ");
                Some(Self::Header(format!("{name}: {}", value.trim())))
            }
            Edit::Quarantine(_) | Edit::DeleteHeader { .. } => None,
        });
        held.or(tagged).unwrap_or(Self::Pass)
    }

    /// Returns it as an action of access(5), which Postfix takes from policy servers and maps alike;
    /// `None` for nothing.
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
        for (lines, expected) in [
            (&["a 100% b"][..], "550 5.7.1 a 100% b"),
            (&["a", "b-c", "d"], "550 5.7.1 a b-c d"),
            (
                &["x-y@b.example is listed"],
                "550 5.7.1 x-y@b.example is listed",
            ),
            (&["x-y", "z"], "550 5.7.1 x-y z"),
        ] {
            let text = ReplyText::new(550, "5.7.1", lines).unwrap();
            let answer = Answer::of(&Reply::Text(text), &[]);
            assert_eq!(answer.action().as_deref(), Some(expected));
        }
    }
}
