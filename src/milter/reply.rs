//! The answers of a handler, and reply texts that a mail server accepts.
//!
//! ```text
//!  Continue c   Accept a   Reject r   Tempfail t   Discard d   (without payload)
//!  Text     y   550-5.7.1 first line CR LF 550 5.7.1 last line NUL
//! ```
//!
//! For a malformed text Postfix replies "451 server configuration problem", and Sendmail drops the
//! text; if the final NUL is missing, Postfix reads past the end. So this module enforces the rules
//! of both servers, and every [`ReplyText`] is valid: RFC 5321 section 4.2 for codes and lines, RFC
//! 3463 for enhanced codes, only ASCII, and each `%` doubled, because Sendmail uses the text as a
//! format.

use std::fmt;

use super::error::Unsendable;
use super::packet::write_packet;
use super::protocol::{
    SMFIR_ACCEPT, SMFIR_CONTINUE, SMFIR_DISCARD, SMFIR_REJECT, SMFIR_REPLYCODE, SMFIR_TEMPFAIL,
};

/// Most lines of a reply.
const REPLY_LINES_MAX: usize = 32;
/// Most bytes of a line, with its codes and with each `%` counted twice. RFC 5321 allows 512 with
/// the line end; at RCPT Sendmail puts the address before the text.
const REPLY_LINE_BYTES_MAX: usize = 500;

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Continue.
    Continue,
    /// Accept the message; no more of it is checked.
    Accept,
    /// Reject permanently, with the mail server's text.
    Reject,
    /// Reject temporarily, with the mail server's text.
    Tempfail,
    /// Accept the message and drop it.
    Discard,
    /// Refuse with this text.
    Text(ReplyText),
    /// The answer is not known yet, and nothing is sent. It comes from
    /// [`Handler::poll_later`](super::Handler::poll_later).
    Later,
}

impl Reply {
    /// Returns whether this is a refusal, temporary or permanent.
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::Reject | Self::Tempfail | Self::Text(_) => true,
            Self::Continue | Self::Accept | Self::Discard | Self::Later => false,
        }
    }

    /// Returns what the SMTP client gets of a refusal, or if no answer comes; as Postfix writes it.
    pub fn shown(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.to_string()),
            Self::Reject => Some("550 5.7.1 Command rejected".to_owned()),
            Self::Tempfail | Self::Later => {
                Some("451 4.7.1 Service unavailable - try again later".to_owned())
            }
            Self::Continue | Self::Accept | Self::Discard => None,
        }
    }

    /// Appends the packet, if there is one.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Continue => write_packet(out, SMFIR_CONTINUE, &[]),
            Self::Accept => write_packet(out, SMFIR_ACCEPT, &[]),
            Self::Reject => write_packet(out, SMFIR_REJECT, &[]),
            Self::Tempfail => write_packet(out, SMFIR_TEMPFAIL, &[]),
            Self::Discard => write_packet(out, SMFIR_DISCARD, &[]),
            Self::Text(text) => write_packet(out, SMFIR_REPLYCODE, &[text.as_bytes()]),
            Self::Later => {}
        }
    }
}

/// A reply with our own text, ready to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct ReplyText {
    code: u16,
    wire: Box<[u8]>,
}

impl ReplyText {
    /// Creates a reply with `code` (400 to 599), an enhanced code of the same class
    /// ("5.7.1") and 1 to 32 lines of printable ASCII. Here a `%` is not doubled.
    pub fn new(code: u16, enhanced: &str, lines: &[impl AsRef<str>]) -> Result<Self, Unsendable> {
        let class = code / 100;
        if !(400..600).contains(&code) {
            let why = format!("reply code {code}: a refusal has a code from 400 to 599");
            return Err(Unsendable(why));
        }
        if !is_enhanced(enhanced) || !enhanced.starts_with(&class.to_string()) {
            return Err(Unsendable(format!(
                "enhanced code {enhanced:?} does not go with {code}: it must look like {class}.7.1"
            )));
        }
        let count = lines.len();
        if !(1..=REPLY_LINES_MAX).contains(&count) {
            let why = format!("a reply has 1 to {REPLY_LINES_MAX} lines, not {count}");
            return Err(Unsendable(why));
        }
        let mut wire = Vec::new();
        for (line, text) in (1..).zip(lines) {
            let text = text.as_ref();
            let start = wire.len();
            let separator = if line == count { ' ' } else { '-' };
            wire.extend_from_slice(format!("{code}{separator}{enhanced} ").as_bytes());
            if text.trim().is_empty() {
                let why = format!("line {line} of the reply has no words after its codes");
                return Err(Unsendable(why));
            }
            for character in text.chars() {
                match u8::try_from(character) {
                    Ok(b'%') => wire.extend_from_slice(b"%%"),
                    Ok(byte @ b' '..=b'~') => wire.push(byte),
                    _ => {
                        return Err(Unsendable(format!(
                            "line {line} of the reply has {character:?}: only printable ASCII can be sent"
                        )));
                    }
                }
            }
            let bytes = wire.len() - start;
            if bytes > REPLY_LINE_BYTES_MAX {
                return Err(Unsendable(format!(
                    "line {line} of the reply has {bytes} bytes with its codes, at most {REPLY_LINE_BYTES_MAX} can be sent"
                )));
            }
            wire.extend_from_slice(if line == count { b"\0" } else { b"\r\n" });
        }
        Ok(Self {
            code,
            wire: wire.into_boxed_slice(),
        })
    }

    /// Returns the reply code, 400 to 599. After 421 the mail server closes the session.
    pub const fn code(&self) -> u16 {
        self.code
    }

    /// Returns the payload as sent: codes on each line, `%` doubled, a NUL at the end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.wire
    }
}

/// Writes the lines as an SMTP client sees them, joined by LF.
impl fmt::Display for ReplyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(self.wire.strip_suffix(b"\0").unwrap_or(&self.wire));
        f.write_str(&text.replace("%%", "%").replace("\r\n", "\n"))
    }
}

impl fmt::Debug for ReplyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyText({:?})", self.to_string())
    }
}

/// Returns whether this is an enhanced code, `class.subject.detail`: a digit, and up to three digits
/// for each of the last two (RFC 3463 section 2).
pub fn is_enhanced(text: &str) -> bool {
    let mut parts = text.split('.');
    let mut has_number = |most: usize| {
        parts.next().is_some_and(|part| {
            (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    has_number(1) && has_number(3) && has_number(3) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_a_server_would_not_take_are_refused() {
        let long = "x".repeat(REPLY_LINE_BYTES_MAX - "550 5.7.1 ".len() + 1);
        let percent = "%".repeat(REPLY_LINE_BYTES_MAX / 2 - 2);
        let many = vec!["x"; REPLY_LINES_MAX + 1];
        let cases: [(u16, &str, &[&str], &str); 15] = [
            (250, "5.7.1", &["x"], "reply code 250"),
            (600, "5.7.1", &["x"], "reply code 600"),
            (550, "4.7.1", &["x"], "must look like 5.7.1"),
            (450, "5.7.1", &["x"], "must look like 4.7.1"),
            (550, "5.7", &["x"], "\"5.7\" does not go with 550"),
            (550, "5.7.1.1", &["x"], "does not go"),
            (550, "5.7.1000", &["x"], "does not go"),
            (550, "5.7.1", &[], "not 0"),
            (550, "5.7.1", &many, "not 33"),
            (550, "5.7.1", &["a", " "], "line 2 of the reply has no"),
            (550, "5.7.1", &["a\r\nb"], "line 1 of the reply has '\\r'"),
            (550, "5.7.1", &["a", "b\0"], "line 2 of the reply has '\\0'"),
            (550, "5.7.1", &["sch\u{f6}n"], "'\u{f6}': only printable"),
            (550, "5.7.1", &[long.as_str()], "has 501 bytes"),
            (550, "5.7.1", &[percent.as_str()], "has 506 bytes"),
        ];
        for (code, text, lines, expected) in cases {
            let refused = ReplyText::new(code, text, lines).expect_err(expected);
            assert!(refused.to_string().contains(expected), "{refused}");
        }
    }
}
