//! An external map of rspamd, by HTTP/1.1: the header `key: a@b.example` (`method = "header"`), or `GET /?key=a@b.example`.
//!
//! 200 with the reply as text: the sender is listed; 404: it is not; 503: unknown, ask again later; 400: no question.
//! rspamd takes every other answer than 200 as no match.

use super::request::{Answer, Found, Http, Request, fault};
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
    let value = |name: &str| {
        let mut fields = http.headers.iter();
        let field = fields.find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| field.value)
    };
    let has_body = value("Content-Length").is_some_and(|length| length != b"0")
        || value("Transfer-Encoding").is_some();
    if !matches!(http.method, Some("GET" | "HEAD")) || has_body {
        return Err(fault(
            "not GET, or with a body: the map in rspamd needs method = \"header\"",
        ));
    }
    let query = http.path.and_then(|path| path.split_once('?'));
    let pair = query.and_then(|(_, query)| query.split('&').find(|pair| pair.starts_with("key=")));
    let mut request = match (pair, value("key")) {
        (Some(pair), _) => of_query(pair),
        (None, Some(key)) => Request::about(Mailbox::Either(key.to_vec())),
        (None, None) => {
            return Err(fault(
                "no key: the map in rspamd needs external = true and method = \"header\"",
            ));
        }
    };
    let connection = value("Connection").unwrap_or_default().to_ascii_lowercase();
    let has = |option: &[u8]| memchr::memmem::find(&connection, option).is_some();
    request.http = Http {
        is_head: http.method == Some("HEAD"),
        is_last: has(b"close") || http.version == Some(0) && !has(b"keep-alive"),
    };
    Ok(Some((request, length)))
}

/// A request about `key=...`. rspamd writes `%` as it is, and `%40` for `@`: `50%deal@bad.example` comes as
/// `50%deal%40bad.example`.
fn of_query(pair: &str) -> Request {
    let decoded = form_urlencoded::parse(pair.as_bytes()).next();
    let decoded = decoded.map_or_else(Default::default, |(_, key)| key);
    let mut request = Request::about(Mailbox::Either(decoded.as_bytes().to_vec()));
    let raw = pair.strip_prefix("key=").unwrap_or(pair);
    if let Some((local, domain)) = raw.rsplit_once("%40") {
        request.also = format!("{local}@{domain}").into_bytes();
    }
    request
}

/// Answers what is no question, on which the connection is closed.
pub(super) fn refuse(out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    );
}

pub(super) fn write(answer: &Answer, http: Http, out: &mut Vec<u8>) {
    let (status, text) = match answer {
        Answer::Refuse(reply) if reply.starts_with('4') => {
            ("503 Service Unavailable", reply.clone())
        }
        answer => match answer.action() {
            Some(action) => ("200 OK", format!("{FACTOR} {action}")),
            None => ("404 Not Found", "not listed".to_owned()),
        },
    };
    let length = text.len();
    let last = match http.is_last {
        true => "Connection: close\r\n",
        false => "",
    };
    let text = if http.is_head { "" } else { &text };
    let answer = format!(
        "HTTP/1.1 {status}\r\n{last}Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{text}"
    );
    out.extend_from_slice(answer.as_bytes());
}
