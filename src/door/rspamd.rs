//! An external map of rspamd, by HTTP/1.1: `GET /?key=a@b.example`.
//!
//! 200 with the reply as text: the sender is listed; 404: it is not; 503: unknown, ask again later.
//! rspamd takes every other answer than 200 as no match.

use super::request::{Answer, Found, Request, fault};
use crate::milter::Mailbox;

/// Most header fields of a request.
const FIELDS_MAX: usize = 32;
/// How many times the score of its rule rspamd gives for a listed sender. It reads a word or a number at the
/// start of a value as a symbol or as this factor: without it, the code 550 was one.
const FACTOR: u32 = 1;

pub(super) fn read(input: &[u8]) -> Found {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut http = httparse::Request::new(&mut fields);
    let length = match http.parse(input) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(fault("not HTTP")),
    };
    if !matches!(http.method, Some("GET" | "HEAD")) {
        return Err(fault("only GET"));
    }
    let query = http.path.unwrap_or_default().split_once('?');
    let query = query.map_or("", |(_, query)| query);
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let key = pairs.find(|(name, _)| name == "key");
    let sender = key.map_or_else(Vec::new, |(_, key)| key.as_bytes().to_vec());
    // rspamd 3.12 gives `addr` of a sender without quotes; a selector may give another form.
    Ok(Some((Request::about(Mailbox::Either(sender)), length)))
}

pub(super) fn write(answer: &Answer, out: &mut Vec<u8>) {
    let (status, text) = match answer {
        Answer::Refuse(reply) if reply.starts_with('4') => {
            ("503 Service Unavailable", reply.clone())
        }
        answer => match answer.action() {
            Some(action) => ("200 OK", format!("{FACTOR} {action}")),
            None => ("404 Not Found", "not listed".to_owned()),
        },
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    );
    out.extend_from_slice(head.as_bytes());
}
