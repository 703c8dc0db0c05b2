//! Reads the payloads of the commands that have one.
//!
//! Accepts everything that a mail server might send: a missing final NUL, a connect packet that
//! ends early, an invalid address. Missing parts count as unknown.

use std::net::IpAddr;

use super::protocol::{SMFIA_INET, SMFIA_INET6, SMFIA_UNIX};

/// How the client is connected to the mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Sendmail reports this for a client on standard input.
    #[default]
    Unknown,
    /// A unix socket.
    Unix,
    /// IPv4 or IPv6.
    Inet,
}

/// The client of the mail server, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client<'a> {
    /// Its host name, or its address in square brackets if it has no name.
    pub host: &'a [u8],
    /// Its address, unless it is unknown or not an IP address.
    pub address: Option<IpAddr>,
    /// Its port; 0 if unknown, and for mail that Postfix received locally without SMTP.
    pub port: u16,
    /// The kind of connection.
    pub family: Family,
}

impl<'a> Client<'a> {
    /// Reads the payload of CONNECT: host NUL and family; for most families also two bytes of port,
    /// and address NUL.
    pub(super) fn read(payload: &'a [u8]) -> Self {
        let (host, rest) = string(payload);
        let mut client = Client {
            host,
            ..Client::default()
        };
        let Some((family, rest)) = rest.split_first() else {
            return client;
        };
        client.family = match *family {
            SMFIA_INET | SMFIA_INET6 => Family::Inet,
            SMFIA_UNIX => Family::Unix,
            _ => Family::Unknown,
        };
        if let Some((port, rest)) = rest.split_first_chunk() {
            client.port = u16::from_be_bytes(*port);
            client.address = match client.family {
                Family::Inet => address(string(rest).0),
                Family::Unix | Family::Unknown => None,
            };
        }
        client
    }
}

/// Reads an IP address as text, with or without Sendmail's tag. An IPv4 address inside IPv6 counts
/// as IPv4, so that administrators write each network once.
fn address(text: &[u8]) -> Option<IpAddr> {
    const IPV6_TAG: &[u8] = b"IPv6:";
    let untagged = match text.split_at_checked(IPV6_TAG.len()) {
        Some((tag, rest)) if tag.eq_ignore_ascii_case(IPV6_TAG) => rest,
        _ => text,
    };
    let address: IpAddr = std::str::from_utf8(untagged).ok()?.parse().ok()?;
    Some(address.to_canonical())
}

/// Returns the first string of a payload, without its NUL, and the rest. Without a NUL, the string
/// is the whole payload.
pub(super) fn string(payload: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(0, payload).unwrap_or(payload.len());
    let (string, rest) = payload.split_at(end);
    (string, rest.get(1..).unwrap_or_default())
}

/// Returns the name and the value of HEADER. The value is everything after the name except the
/// final NUL, so nothing is lost if a server passes on a NUL inside the value.
pub(super) fn header(payload: &[u8]) -> (&[u8], &[u8]) {
    let (name, value) = string(payload);
    (name, value.strip_suffix(b"\0").unwrap_or(value))
}
