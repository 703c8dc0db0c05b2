//! Policy delegation: lines `name=value`, an empty line; the answer `action=...`, an empty line
//! (Postfix: SMTPD_POLICY_README).
//!
//! ```text
//!  request=smtpd_access_policy          action=550 5.7.1 a@b is on the sender blocklist x
//!  protocol_state=RCPT
//!  sender=a@b
//!  recipient=c@d
//! ```
//!
//! Some attributes are ours, for mail servers without milters. `headers_base64` is the header block
//! of the message (a plain header would end the request); `recipients_base64` are the recipients
//! that were accepted before, each in base64, with commas between them; `has_refused=1` says that
//! one was refused before, with which the message was counted; `sender_base64` and
//! `recipient_base64` are what a client chooses, where the mail server does not check it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::request::{Answer, Found, RECIPIENTS_MAX, Request, Stage, fault};
use crate::milter::ProtocolError;

pub(super) fn read(input: &[u8]) -> Found {
    let Some(end) = memchr::memmem::find(input, b"\n\n") else {
        return Ok(None);
    };
    let mut request = Request::default();
    let mut is_policy = false;
    let mut state: &[u8] = b"";
    for line in input
        .get(..end)
        .unwrap_or_default()
        .split(|&byte| byte == b'\n')
    {
        let equals = memchr::memchr(b'=', line).ok_or_else(|| fault("a line without ="))?;
        let (name, value) = line.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        match name {
            b"request" => is_policy = value == b"smtpd_access_policy",
            b"protocol_state" => state = value,
            b"sender" => request.sender = value.to_vec(),
            b"sender_base64" => request.sender = decoded(value)?,
            b"recipient" => request.recipient = (!value.is_empty()).then(|| value.to_vec()),
            b"recipient_base64" => request.recipient = Some(decoded(value)?),
            b"recipients_base64" => request.earlier = recipients(value)?,
            b"has_refused" => request.has_refused = value == b"1",
            b"client_address" => {
                request.client = std::str::from_utf8(value)
                    .ok()
                    .and_then(|ip| ip.parse().ok());
            }
            b"client_name" => request.client_name = value.to_vec(),
            b"sasl_username" => request.login = value.to_vec(),
            b"queue_id" => request.queue_id = value.to_vec(),
            b"instance" => request.instance = value.to_vec(),
            b"headers_base64" => request.headers = decoded(value)?,
            _ => {}
        }
    }
    if !is_policy {
        return Err(fault("not request=smtpd_access_policy"));
    }
    request.stage = match state {
        b"DATA" | b"END-OF-MESSAGE" => Stage::Message,
        b"RCPT" if request.recipient.is_some() => Stage::Recipient,
        _ => Stage::Other,
    };
    Ok(Some((request, end + 2)))
}

pub(super) fn write(answer: &Answer, out: &mut Vec<u8>) {
    let action = answer.action();
    let action = action.as_deref().unwrap_or("DUNNO");
    out.extend_from_slice(format!("action={action}\n\n").as_bytes());
}

fn decoded(value: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    STANDARD.decode(value).map_err(|_| fault("not base64"))
}

fn recipients(value: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let each = value
        .split(|&byte| byte == b',')
        .filter(|one| !one.is_empty());
    let all: Vec<_> = each
        .take(RECIPIENTS_MAX + 1)
        .map(decoded)
        .collect::<Result<_, _>>()?;
    match all.len() > RECIPIENTS_MAX {
        true => Err(fault("too many recipients")),
        false => Ok(all),
    }
}
