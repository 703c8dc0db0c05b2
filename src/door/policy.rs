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
//! Postfix gives `sender` and `recipient` without the quotes of RFC 5321. Some attributes are ours, for
//! mail servers without milters. Those in base64 may have any bytes (a line end would end the request):
//!
//! | attribute | |
//! |---|---|
//! | `sender_base64`, `recipient_base64` | as `sender` and `recipient`, but as written: with quotes |
//! | `recipients_base64` | the recipients that were accepted before, as written, with commas between them |
//! | `has_refused=1` | a recipient was refused before, and the message was counted with it |
//! | `headers_base64` | the header block of the message |
//! | `fields` | in its place, where Exim gives only a part of the block: fields by name, see `add_values` |
//! | `hides_fields=1` | there may be fields that cannot be asked for by name |
//!
//! A request about a sender is decided in whatever state it comes; one that does not say the sender is a fault.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::request::{Answer, Found, RECIPIENTS_MAX, Request, Stage, fault};
use crate::milter::{Mailbox, ProtocolError};
use blocklist_filter::rfc5322::{Nesting, Role};

/// How much Exim gives of the fields of one name (its `header_insert_maxlen`).
const EXIM_FIELDS_BYTES_MAX: usize = 64 << 10;

pub(super) fn read(input: &[u8]) -> Found {
    // Some clients end lines with CRLF, as in SMTP.
    let first = memchr::memchr(b'\n', input).and_then(|end| input.get(..end));
    let is_crlf = first.is_some_and(|line| line.ends_with(b"\r"));
    let end_mark: &[u8] = if is_crlf { b"\r\n\r\n" } else { b"\n\n" };
    let Some(end) = memchr::memmem::find(input, end_mark) else {
        return Ok(None);
    };
    let mut sender = None;
    let mut request = Request::about(Mailbox::Understood(Vec::new()));
    let mut is_policy = false;
    let mut state: &[u8] = b"";
    for line in input
        .get(..end)
        .unwrap_or_default()
        .split(|&byte| byte == b'\n')
    {
        let line = line.strip_suffix(b"\r").filter(|_| is_crlf).unwrap_or(line);
        let equals = memchr::memchr(b'=', line).ok_or_else(|| fault("a line without ="))?;
        let (name, value) = line.split_at(equals);
        let value = value.get(1..).unwrap_or_default();
        match name {
            b"request" => is_policy = value == b"smtpd_access_policy",
            b"protocol_state" => state = value,
            b"sender" => sender = Some(Mailbox::Understood(value.to_vec())),
            b"sender_base64" => sender = Some(Mailbox::Written(decoded(value)?)),
            b"recipient" if value.is_empty() => request.recipient = None,
            b"recipient" => request.recipient = Some(Mailbox::Understood(value.to_vec())),
            b"recipient_base64" => request.recipient = Some(Mailbox::Written(decoded(value)?)),
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
            b"fields" => add_fields(value, &mut request)?,
            b"hides_fields" if value == b"1" => request.cut.push(b"From".to_vec()),
            _ => {}
        }
    }
    if !is_policy {
        return Err(fault("not request=smtpd_access_policy"));
    }
    request.sender = sender.ok_or_else(|| {
        fault("a policy request without sender= or sender_base64=: what asks here must say the sender, as Postfix and the ACLs of contrib/exim do")
    })?;
    let is_nobody = request.sender.borrowed().written().is_empty();
    // Postfix asks in the state MAIL, without a recipient, with smtpd_delay_reject = no.
    request.stage = match (state, &request.recipient) {
        (b"DATA" | b"END-OF-MESSAGE", _) => Stage::Message,
        (b"RCPT", Some(_)) => Stage::Recipient,
        _ if is_nobody => Stage::Other,
        (_, Some(_)) => Stage::Recipient,
        (_, None) => Stage::Sender,
    };
    // The client sends this recipient again, in another transaction. After DATA it would send them all again.
    if request.stage == Stage::Recipient && request.earlier.len() > RECIPIENTS_MAX {
        return Err(fault("too many recipients"));
    }
    if request.stage == Stage::Recipient && !request.instance.is_empty() {
        request.text = [input.get(..end).unwrap_or_default(), b"\n"].concat();
        if is_crlf {
            request.text.retain(|&byte| byte != b'\r');
        }
    }
    Ok(Some((request, end + end_mark.len())))
}

pub(super) fn write(answer: &Answer, out: &mut Vec<u8>) {
    let action = answer.action();
    let action = action.as_deref().unwrap_or("DUNNO");
    out.extend_from_slice(format!("action={action}\n\n").as_bytes());
}

/// Writes the first request about a message again, with the recipients that were accepted since.
pub(super) fn retold(first: &Request, has_refused: bool) -> Vec<u8> {
    let encoded = |one: &Mailbox<Vec<u8>>| STANDARD.encode(one.borrowed().written()) + ",";
    let accepted: String = first.earlier.iter().map(encoded).collect();
    let refused = u8::from(has_refused);
    let known = format!("recipients_base64={accepted}\nhas_refused={refused}\n\n");
    [&first.text, known.as_bytes()].concat()
}

fn decoded(value: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    STANDARD.decode(value).map_err(|_| fault("not base64"))
}

/// The mailboxes of a list with commas between them.
fn recipients(value: &[u8]) -> Result<Vec<Mailbox<Vec<u8>>>, ProtocolError> {
    let pieces = value.split(|&byte| byte == b',').map(decoded);
    let list = pieces.collect::<Result<Vec<_>, _>>()?.join(&b',');
    let mut nesting = Nesting::with_escapes_outside().without_comments();
    let each = list
        .split(|&byte| nesting.step(byte) == Role::Outside && byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|one| !one.is_empty());
    Ok(each.map(|one| Mailbox::Written(one.to_vec())).collect())
}

/// Adds the fields of some names to the headers: `name RAW LIST,name RAW LIST`, the texts in base64.
fn add_fields(value: &[u8], request: &mut Request) -> Result<(), ProtocolError> {
    for one in value.split(|&byte| byte == b',') {
        let mut parts = one.split(|&byte| byte == b' ');
        let mut next = || parts.next().unwrap_or_default();
        let (name, raw, list) = (next(), decoded(next())?, decoded(next())?);
        if raw.len().max(list.len()) >= EXIM_FIELDS_BYTES_MAX {
            request.cut.push(name.to_vec());
        }
        add_values(name, &raw, &list, &mut request.headers);
    }
    Ok(())
}

/// Adds the fields of a name to a header block.
///
/// In `raw`, each value ends with LF, but its folds have one, too. In `list`, there is a colon between two
/// values, unless nothing but empty ones came before, and their own colons are doubled, but so are those
/// around an empty value. Both together tell where each value ends: where there is LF in `raw` alone.
fn add_values(name: &[u8], raw: &[u8], mut list: &[u8], block: &mut Vec<u8>) {
    let (mut is_inside, mut has_begun) = (false, false);
    for (index, &byte) in raw.iter().enumerate() {
        if !is_inside {
            block.extend_from_slice(name);
            block.push(b':');
        }
        block.push(byte);
        let is_fold = || list.starts_with(b"\n") && list.get(1) == raw.get(index + 1);
        is_inside = byte != b'\n' || is_fold();
        let listed = match byte {
            b'\n' if !is_inside => usize::from(has_begun && list.starts_with(b":")),
            b':' => 2,
            _ => 1,
        };
        has_begun |= listed > 0;
        list = list.get(listed..).unwrap_or_default();
    }
    if is_inside {
        block.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What Exim gives for these fields as `$rh_NAME:` and `$lh_NAME:`.
    fn as_exim_gives_them(values: &[String]) -> (String, String) {
        let raw = values.iter().map(|value| format!("{value}\n")).collect();
        let mut list = String::new();
        for value in values {
            if !list.is_empty() {
                list.push(':');
            }
            list += &value.replace(':', "::");
        }
        (raw, list)
    }

    #[test]
    fn all_recipients_that_were_accepted_may_be_said_after_data() {
        for (earlier, stage, is_read) in [
            (RECIPIENTS_MAX, "RCPT", true),
            (RECIPIENTS_MAX + 1, "RCPT", false),
            (RECIPIENTS_MAX + 1, "DATA", true),
            (RECIPIENTS_MAX * 10, "DATA", true),
        ] {
            let before = STANDARD.encode("a@b.example, ".repeat(earlier));
            let request = format!(
                "request=smtpd_access_policy\nprotocol_state={stage}\nsender=a@b.example\nrecipient=a@b.example\n\
                 recipients_base64={before}\n\n"
            );
            assert_eq!(
                read(request.as_bytes()).is_ok(),
                is_read,
                "{earlier} {stage}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_fields_of_a_name_are_told_apart(
            values in proptest::collection::vec("( ?[ab:]|\n ){0,6}", 0..6),
        ) {
            let (raw, list) = as_exim_gives_them(&values);
            let mut block = Vec::new();
            add_values(b"from", raw.as_bytes(), list.as_bytes(), &mut block);
            let expected: String = values.iter().map(|value| format!("from:{value}\n")).collect();
            prop_assert_eq!(String::from_utf8(block).expect("as it was"), expected);
        }
    }
}
