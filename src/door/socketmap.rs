//! The socketmap protocol of Sendmail and Postfix (socketmap_table(5)): netstrings.
//!
//! ```text
//!  15:list a@b.example,         -->  43:OK 550 5.7.1 a@b.example is on the ...,
//!                                    9:NOTFOUND ,
//!                                    20:TEMP try again later,
//! ```
//!
//! The key is an envelope sender; the name of the map means nothing. The value is an action of
//! access(5), as `check_sender_access` takes it.

use super::request::{Answer, Found, Request, fault};
use crate::milter::Mailbox;

/// Most bytes of a netstring: those that Postfix takes.
const NETSTRING_BYTES_MAX: usize = 100_000;

pub(super) fn read(input: &[u8]) -> Found {
    const DIGITS_MAX: usize = 6;
    let head = input.get(..=DIGITS_MAX).unwrap_or(input);
    let Some(colon) = memchr::memchr(b':', head) else {
        return match input.len() > DIGITS_MAX {
            true => Err(fault("not a netstring")),
            false => Ok(None),
        };
    };
    let digits = std::str::from_utf8(input.get(..colon).unwrap_or_default());
    let length: usize = digits
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .filter(|length| *length <= NETSTRING_BYTES_MAX)
        .ok_or_else(|| fault("not a netstring"))?;
    let (start, end) = (colon + 1, colon + 1 + length);
    let (Some(text), Some(comma)) = (input.get(start..end), input.get(end)) else {
        return Ok(None);
    };
    if *comma != b',' {
        return Err(fault("a netstring without its comma"));
    }
    let blank = memchr::memchr(b' ', text).ok_or_else(|| fault("a map without a key"))?;
    let key = text.get(blank + 1..).unwrap_or_default();
    // Whether it has quotes is up to the mail server, and in Sendmail to the rule set.
    // Nothing is to be decided about the null sender.
    let sender = if key == b"<>" { b"" } else { key };
    Ok(Some((
        Request::about(Mailbox::Either(sender.to_vec())),
        end + 1,
    )))
}

pub(super) fn write(answer: &Answer, out: &mut Vec<u8>) {
    let text = match answer.action() {
        None => "NOTFOUND ".to_owned(),
        Some(action) => format!("OK {action}"),
    };
    out.extend_from_slice(format!("{}:{text},", text.len()).as_bytes());
}
