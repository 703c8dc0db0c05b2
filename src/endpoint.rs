//! The address of a socket, as written in the configuration.
//!
//! ```text
//!  unix:/run/x.sock  local:/run/x.sock     a unix socket; the path is absolute
//!  inet:8891@127.0.0.1                     Sendmail's form: port@host
//!  inet:127.0.0.1:8891                     Postfix's form: host:port
//!  inet6:8891@::1    inet6:[::1]:8891      the same for IPv6
//!  policy:unix:/run/x.sock                 another protocol there ([`Door`])
//! ```
//!
//! `inet` or `inet6` matters only for a host name: Postfix also writes `inet:[::1]:8891`. This module handles the text only;
//! `daemon` opens the socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use blocklist_filter::base::named::named;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A unix socket at this absolute path.
    Unix(PathBuf),
    /// A TCP port of a host, given by name or address, in one address family.
    Inet {
        /// The host, without brackets.
        host: String,
        /// The port; 0 means any free one.
        port: u16,
        /// IPv6 instead of IPv4.
        v6: bool,
    },
}

impl Endpoint {
    /// Returns whether a client that connects to this address reaches a program that listens on
    /// `listening`.
    pub fn leads_to(&self, listening: &Self) -> bool {
        let (
            Self::Inet { host, port, .. },
            Self::Inet {
                host: own,
                port: own_port,
                ..
            },
        ) = (self, listening)
        else {
            return self == listening;
        };
        let is_any = own.parse().is_ok_and(|own: IpAddr| own.is_unspecified());
        let is_localhost = |host: &str| ["localhost", "127.0.0.1", "::1"].contains(&host);
        let is_named = [host, own].iter().any(|host| *host == "localhost");
        port == own_port
            && (host == own || is_any || is_named && is_localhost(host) && is_localhost(own))
    }

    /// Returns whether the system chooses the port.
    pub fn has_any_port(&self) -> bool {
        matches!(self, Self::Inet { port: 0, .. })
    }

    /// Returns whether only programs on this machine can connect: a unix socket, or a loopback
    /// address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Inet { host, .. } => {
                host == "localhost"
                    || host
                        .parse()
                        .is_ok_and(|address: IpAddr| address.is_loopback())
            }
        }
    }
}

named! {
    /// The protocol that is spoken at a socket, with the word before its address; a milter needs none.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum Door {
        /// Milter.
        #[default]
        Milter = "milter",
        /// Policy delegation of Postfix.
        Policy = "policy",
        /// Sendmail's and Postfix's socketmap.
        SocketMap = "socketmap",
        /// HTTP, for rspamd.
        Rspamd = "rspamd",
    }
}

/// How far something goes at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// For every mail server.
    Always,
    /// For one that sends the headers of the message: Exim does, Postfix does not.
    WithHeaders,
    /// For none.
    Never,
}

/// What a mail server says at a door, besides the envelope sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sees {
    /// The recipients.
    pub recipients: bool,
    /// The client, and its login.
    pub client: bool,
    /// The headers.
    pub headers: Extent,
}

/// What a mail server can be told at a door, besides to refuse for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// To refuse for now.
    pub tempfail: Extent,
    /// What it does with an accepted message: tag, quarantine, discard.
    pub changes: Extent,
}

impl Door {
    /// Returns what a mail server says there.
    pub const fn sees(self) -> Sees {
        let (all, headers) = match self {
            Self::Milter => (true, Extent::Always),
            Self::Policy => (true, Extent::WithHeaders),
            Self::SocketMap | Self::Rspamd => (false, Extent::Never),
        };
        Sees {
            recipients: all,
            client: all,
            headers,
        }
    }

    /// Returns what a mail server can be told there.
    pub const fn answers(self) -> Answers {
        let (tempfail, changes) = match self {
            Self::Milter | Self::SocketMap => (Extent::Always, Extent::Always),
            Self::Policy => (Extent::Always, Extent::WithHeaders),
            Self::Rspamd => (Extent::Never, Extent::Never),
        };
        Answers { tempfail, changes }
    }
}

/// What is served where: `policy:unix:/run/x.sock`; without a door, a milter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    /// The protocol.
    pub door: Door,
    /// The address.
    pub at: Endpoint,
}

impl FromStr for Listen {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let door = text
            .split_once(':')
            .and_then(|(word, rest)| Some((Door::from_name(word)?, rest)));
        let (door, rest) = door.unwrap_or((Door::Milter, text));
        let at = rest.parse()?;
        Ok(Self { door, at })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.door {
            Door::Milter => self.at.fmt(f),
            door => write!(f, "{}:{}", door.name(), self.at),
        }
    }
}

/// A socket for mail servers: whether it is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DoorState {
    /// As in `listen`.
    pub name: String,
    /// Why it is not open.
    pub closed: Option<String>,
}

impl DoorState {
    /// It is open.
    pub fn open(listen: &Listen) -> Self {
        let name = listen.to_string();
        Self { name, closed: None }
    }

    /// It is not open for this reason.
    pub fn closed(name: &str, why: &impl ToString) -> Self {
        let (name, closed) = (name.to_owned(), Some(why.to_string()));
        Self { name, closed }
    }

    /// Returns what is spoken there.
    pub fn door(&self) -> Door {
        self.name
            .parse()
            .map_or(Door::Milter, |one: Listen| one.door)
    }

    /// Returns what is wrong, and what to do.
    pub fn problem(&self) -> Option<String> {
        let (name, why) = (&self.name, self.closed.as_ref()?);
        Some(format!(
            "listen: {name} is not open, and a mail server that asks there gets no answer: {why}; the daemon opens it at its next start: {RESTART}"
        ))
    }
}

/// The command with which a socket is opened: the running daemon opens none.
pub const RESTART: &str = "systemctl restart blocklist-milter.service";

/// Why a text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No known keyword before the first colon.
    #[error(
        "{0:?} is not a socket address: it must begin with unix:, inet: or inet6:, perhaps after policy:, socketmap: or rspamd:"
    )]
    Kind(String),
    /// A path that is not absolute.
    #[error("the path of a unix socket must begin with a slash, not {0:?}")]
    Relative(String),
    /// Longer than the system allows.
    #[error("the path of a unix socket has at most {UNIX_PATH_BYTES_MAX} bytes, not {0}")]
    TooLong(usize),
    /// Neither `port@host` nor `host:port`.
    #[error("{0:?} is neither port@host nor host:port, with a port of at most 65535")]
    Inet(String),
}

/// Most bytes of a unix socket's path on Linux.
const UNIX_PATH_BYTES_MAX: usize = 107;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let kind = || EndpointError::Kind(text.to_owned());
        let (word, rest) = text.split_once(':').ok_or_else(kind)?;
        match word {
            "unix" | "local" if !rest.starts_with('/') => {
                Err(EndpointError::Relative(rest.to_owned()))
            }
            "unix" | "local" if rest.len() > UNIX_PATH_BYTES_MAX => {
                Err(EndpointError::TooLong(rest.len()))
            }
            "unix" | "local" => Ok(Self::Unix(rest.into())),
            "inet" | "inet6" => {
                inet(rest, word == "inet6").ok_or_else(|| EndpointError::Inet(rest.to_owned()))
            }
            _ => Err(kind()),
        }
    }
}

/// Parses `port@host` or `host:port`; `v6` is the family of a host name.
fn inet(text: &str, v6: bool) -> Option<Endpoint> {
    let swapped = text.split_once('@').map(|(port, host)| (host, port));
    let (host, port) = swapped.or_else(|| text.rsplit_once(':'))?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let port = port.parse().ok().filter(|_| !host.is_empty())?;
    let address: Result<IpAddr, _> = host.parse();
    Some(Endpoint::Inet {
        host: host.to_owned(),
        port,
        v6: address.map_or(v6, |address| address.is_ipv6()),
    })
}

/// Writes the form that Sendmail and libmilter read.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Inet { host, port, v6 } => {
                write!(f, "{}:{port}@{host}", if *v6 { "inet6" } else { "inet" })
            }
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Inet {
            host: address.ip().to_string(),
            port: address.port(),
            v6: address.is_ipv6(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_in_both_spellings() {
        let inet = |host: &str, port, v6| Endpoint::Inet {
            host: host.to_owned(),
            port,
            v6,
        };
        let cases = [
            ("unix:/run/a.sock", Endpoint::Unix("/run/a.sock".into())),
            ("local:/run/a.sock", Endpoint::Unix("/run/a.sock".into())),
            ("inet:8891@127.0.0.1", inet("127.0.0.1", 8891, false)),
            ("inet:127.0.0.1:8891", inet("127.0.0.1", 8891, false)),
            ("inet:localhost:0", inet("localhost", 0, false)),
            ("inet6:8891@::1", inet("::1", 8891, true)),
            ("inet6:[::1]:8891", inet("::1", 8891, true)),
            ("inet6:::1:8891", inet("::1", 8891, true)),
            ("inet:[::1]:8891", inet("::1", 8891, true)),
            ("inet:8891@::1", inet("::1", 8891, true)),
            ("inet6:8891@127.0.0.1", inet("127.0.0.1", 8891, false)),
            ("inet6:8891@localhost", inet("localhost", 8891, true)),
        ];
        for (text, expected) in cases {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint, expected);
            assert_eq!(endpoint.to_string().parse(), Ok(expected));
        }
    }

    #[test]
    fn what_is_not_an_endpoint_is_refused_with_its_reason() {
        let long = format!("unix:/{}", "x".repeat(UNIX_PATH_BYTES_MAX));
        let cases = [
            ("/run/a.sock", EndpointError::Kind("/run/a.sock".into())),
            ("tcp:1@host", EndpointError::Kind("tcp:1@host".into())),
            (
                "unix:run/a.sock",
                EndpointError::Relative("run/a.sock".into()),
            ),
            (&long, EndpointError::TooLong(UNIX_PATH_BYTES_MAX + 1)),
            ("inet:8891", EndpointError::Inet("8891".into())),
            ("inet:@host", EndpointError::Inet("@host".into())),
            ("inet:8891@", EndpointError::Inet("8891@".into())),
            ("inet:65536@host", EndpointError::Inet("65536@host".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Endpoint>(), Err(expected));
        }
    }
}
