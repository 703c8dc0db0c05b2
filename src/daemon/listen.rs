//! The sockets on which mail servers find us: written forms, opening, removal.
//!
//! ```text
//!  unix:/run/x.sock  local:/run/x.sock     a unix socket; the path is absolute
//!  inet:8891@127.0.0.1                     as Sendmail writes it: port@host
//!  inet:127.0.0.1:8891                     as Postfix writes it: host:port
//!  inet6:8891@::1    inet6:[::1]:8891      the same for IPv6
//! ```
//!
//! A unix socket is made for its owner alone and opened to others only when its group is
//! as wanted, so there is no moment at which a stranger could connect. One
//! that is left over is removed only if it is a socket and nobody answers on it: what
//! is not ours is never deleted, and a second daemon never takes the first one's place.
//!
//! Sockets that systemd hands over are used in place of the configured ones; they stay
//! open while the daemon restarts, so that no mail server is ever refused.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use listenfd::ListenFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Error;

/// Connections that may wait to be accepted. The kernel cuts it to
/// `net.core.somaxconn`; with a short queue a busy Postfix waits in `connect`.
const BACKLOG: i32 = i32::MAX;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A unix socket at this absolute path.
    Unix(PathBuf),
    /// TCP at this port of a host: a name or an address, of the family asked for.
    Inet {
        /// The host, without brackets.
        host: String,
        /// The port; 0 takes any free one.
        port: u16,
        /// IPv6 instead of IPv4.
        v6: bool,
    },
}

/// Why a written endpoint is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No known word before the first colon.
    #[error("{0:?} is no socket: it must begin with unix:, inet: or inet6:")]
    Kind(String),
    /// A path that is not absolute.
    #[error("the path of a unix socket must begin with a slash, not {0:?}")]
    Relative(String),
    /// Longer than the system allows.
    #[error("the path of a unix socket has at most {UNIX_PATH_BYTES_MAX} bytes, not {0}")]
    TooLong(usize),
    /// Neither `port@host` nor `host:port`.
    #[error("{0:?} is neither port@host nor host:port")]
    Inet(String),
}

/// Most bytes of a unix socket's path on Linux.
const UNIX_PATH_BYTES_MAX: usize = 107;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let kind = |text: &str| EndpointError::Kind(text.to_owned());
        let (word, rest) = text.split_once(':').ok_or_else(|| kind(text))?;
        match word {
            "unix" | "local" => {
                if !rest.starts_with('/') {
                    return Err(EndpointError::Relative(rest.to_owned()));
                }
                if rest.len() > UNIX_PATH_BYTES_MAX {
                    return Err(EndpointError::TooLong(rest.len()));
                }
                Ok(Self::Unix(PathBuf::from(rest)))
            }
            "inet" | "inet6" => {
                let (host, port) = match rest.split_once('@') {
                    Some((port, host)) => Some((host, port)),
                    None => rest.rsplit_once(':'),
                }
                .ok_or_else(|| EndpointError::Inet(rest.to_owned()))?;
                let host = host
                    .strip_prefix('[')
                    .and_then(|host| host.strip_suffix(']'))
                    .unwrap_or(host);
                match port.parse() {
                    Ok(port) if !host.is_empty() => Ok(Self::Inet {
                        host: host.to_owned(),
                        port,
                        v6: word == "inet6",
                    }),
                    _ => Err(EndpointError::Inet(rest.to_owned())),
                }
            }
            _ => Err(kind(text)),
        }
    }
}

/// The form that Sendmail and libmilter read.
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

/// Who may connect to a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Permission bits of the socket; connecting needs the right to write.
    pub mode: u32,
    /// Group of the socket, by name or number; `None`: the group of the process.
    pub group: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            mode: 0o660,
            group: None,
        }
    }
}

/// An open listening socket, not blocking.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Another descriptor of the same socket.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
        }
    }
}

/// All sockets of the daemon. Dropping it closes them and removes the unix sockets that
/// it made.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    pub(super) open: Vec<Listener>,
    /// Where they really are: with the port that was chosen, for one.
    pub(super) endpoints: Vec<Endpoint>,
    made: Vec<MadeSocket>,
}

/// A socket file that we made: its path, device and inode.
#[derive(Debug)]
struct MadeSocket {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for MadeSocket {
    /// Removes the file, unless another has taken its place.
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the socket cannot be removed");
        }
    }
}

impl Listeners {
    /// Takes the sockets that systemd hands over; where it hands over none, opens
    /// `endpoints`.
    pub(super) fn open(endpoints: &[Endpoint], access: &Access) -> Result<Self, Error> {
        let inherited = Self::inherited()?;
        if !inherited.open.is_empty() {
            tracing::info!(
                sockets = inherited.open.len(),
                "the sockets come from systemd, `listen` is not used"
            );
            return Ok(inherited);
        }
        if endpoints.is_empty() {
            return Err(Error::NoEndpoint);
        }
        let mut listeners = Self::default();
        for endpoint in endpoints {
            match endpoint {
                Endpoint::Unix(path) => {
                    let (listener, made) = open_unix(path, access)?;
                    listeners.made.push(made);
                    listeners.add(Listener::Unix(listener), endpoint)?;
                }
                Endpoint::Inet { host, port, v6 } => {
                    let listener = open_inet(host, *port, *v6).map_err(|cause| Error::Listen {
                        endpoint: endpoint.clone(),
                        cause,
                    })?;
                    listeners.add(Listener::Tcp(listener), endpoint)?;
                }
            }
        }
        Ok(listeners)
    }

    fn inherited() -> Result<Self, Error> {
        let mut listeners = Self::default();
        let mut handed_over = ListenFd::from_env();
        for n in 0..handed_over.len() {
            let listener = match handed_over.take_unix_listener(n) {
                Ok(Some(unix)) => Listener::Unix(unix),
                _ => match handed_over.take_tcp_listener(n) {
                    Ok(Some(tcp)) => Listener::Tcp(tcp),
                    Ok(None) => continue,
                    Err(cause) => return Err(Error::Inherited { number: n, cause }),
                },
            };
            let endpoint = match &listener {
                Listener::Unix(unix) => Endpoint::Unix(
                    unix.local_addr()
                        .ok()
                        .and_then(|address| address.as_pathname().map(Path::to_owned))
                        .unwrap_or_default(),
                ),
                Listener::Tcp(tcp) => tcp
                    .local_addr()
                    .map_err(|cause| Error::Inherited { number: n, cause })?
                    .into(),
            };
            listeners.add(listener, &endpoint)?;
        }
        Ok(listeners)
    }

    fn add(&mut self, listener: Listener, endpoint: &Endpoint) -> Result<(), Error> {
        let listen = || -> io::Result<Endpoint> {
            match &listener {
                Listener::Unix(unix) => {
                    rustix::net::listen(unix, BACKLOG)?;
                    unix.set_nonblocking(true)?;
                    Ok(endpoint.clone())
                }
                Listener::Tcp(tcp) => {
                    rustix::net::listen(tcp, BACKLOG)?;
                    tcp.set_nonblocking(true)?;
                    Ok(tcp.local_addr()?.into())
                }
            }
        };
        let real = listen().map_err(|cause| Error::Listen {
            endpoint: endpoint.clone(),
            cause,
        })?;
        self.open.push(listener);
        self.endpoints.push(real);
        Ok(())
    }
}

fn open_inet(host: &str, port: u16, v6: bool) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()?
        .filter(|address| address.is_ipv6() == v6)
        .collect();
    if addresses.is_empty() {
        let family = if v6 { "IPv6" } else { "IPv4" };
        let text = format!("{host} has no {family} address");
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
    }
    TcpListener::bind(&*addresses)
}

fn open_unix(path: &Path, access: &Access) -> Result<(UnixListener, MadeSocket), Error> {
    let failed = |cause: io::Error| Error::Listen {
        endpoint: Endpoint::Unix(path.to_owned()),
        cause,
    };
    let group = access.group.as_deref().map(group_number).transpose()?;
    remove_stale(path)?;
    // The mode of an unbound socket becomes that of its file. So it is made for its
    // owner alone, without touching the mask of the whole process.
    let bind = || {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(UnixListener::from(socket))
    };
    let listener = bind().map_err(|errno: Errno| failed(errno.into()))?;
    let file = fs::symlink_metadata(path).map_err(failed)?;
    let made = MadeSocket {
        path: path.to_owned(),
        device: file.dev(),
        inode: file.ino(),
    };
    if group.is_some() {
        chown(path, None, group).map_err(failed)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(access.mode)).map_err(failed)?;
    Ok((listener, made))
}

/// Makes room for a socket, if what is there is a socket that nobody listens on.
fn remove_stale(path: &Path) -> Result<(), Error> {
    let failed = |cause: io::Error| Error::Listen {
        endpoint: Endpoint::Unix(path.to_owned()),
        cause,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Error::NotASocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match knock(path) {
        Err(Errno::CONNREFUSED) => {
            tracing::info!(socket = %path.display(), "a socket left over is removed");
            fs::remove_file(path).map_err(failed)
        }
        Err(Errno::NOENT) => Ok(()),
        // With a full queue the answer is "again": somebody is there all the same.
        Ok(()) | Err(Errno::AGAIN) => Err(Error::InUse {
            path: path.to_owned(),
        }),
        Err(errno) => Err(failed(errno.into())),
    }
}

/// Connects without waiting.
fn knock(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

/// The number of a group given by name, from the local file, or by number. Asking
/// further (LDAP) would take a C library; a number serves there.
fn group_number(group: &str) -> Result<u32, Error> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let file = fs::read_to_string("/etc/group").unwrap_or_default();
    file.lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let number = fields.nth(1)?;
            (name == group).then(|| number.parse().ok())?
        })
        .ok_or_else(|| Error::NoGroup {
            group: group.to_owned(),
        })
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
        ];
        for (text, expected) in cases {
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint, expected);
            assert_eq!(endpoint.to_string().parse(), Ok(expected));
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_its_reason() {
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

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the socket").permissions().mode() & 0o777
    }

    #[test]
    fn a_unix_socket_has_its_mode_and_goes_when_it_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        let endpoints = [Endpoint::Unix(path.clone())];
        let listeners = Listeners::open(&endpoints, &Access::default()).expect("a socket");
        assert_eq!(mode(&path), 0o660);
        assert!(matches!(
            Listeners::open(&endpoints, &Access::default()),
            Err(Error::InUse { .. })
        ));
        drop(listeners);
        assert!(!path.exists());
        let access = Access {
            mode: 0o600,
            group: Some("0".to_owned()),
        };
        if rustix::process::geteuid().is_root() {
            let _listeners = Listeners::open(&endpoints, &access).expect("a socket");
            assert_eq!(mode(&path), 0o600);
        }
    }

    #[test]
    fn only_a_dead_socket_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("m.sock");
        let endpoints = [Endpoint::Unix(path.clone())];
        fs::write(&path, "a file").expect("a file");
        assert!(matches!(
            Listeners::open(&endpoints, &Access::default()),
            Err(Error::NotASocket { .. })
        ));
        fs::remove_file(&path).expect("removed");
        drop(UnixListener::bind(&path).expect("a socket that stays behind"));
        let listeners = Listeners::open(&endpoints, &Access::default()).expect("a socket");

        // Another has taken the place: it is not ours to remove.
        fs::remove_file(&path).expect("removed");
        let _other = UnixListener::bind(&path).expect("another socket");
        drop(listeners);
        assert!(path.exists());
    }
}
