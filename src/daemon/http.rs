//! Status pages over HTTP for clients that monitor the daemon, and the client that reads them.
//!
//! A separate thread accepts connections, and each has a thread of its own. All have a lower priority, so mail never waits
//! for them. Limits: [`CONNECTIONS_MAX`] connections at a time, one request each with [`HEADER_BYTES_MAX`] and
//! [`HEADER_TIME`], and [`CONNECTION_TIME`] in total. The pages are read-only; the body of a request is not read.
//!
//! Clients that send no request, or do not read their page, cannot block others for long: if a new connection exceeds the
//! limit, the one whose time ([`ASK_TIME`], then [`TAKE_TIME`]) ends first is closed.
//!
//! Only unix sockets and loopback addresses are opened. On the latter, the Host of a request must be an address or
//! localhost. Otherwise a foreign web page in a browser on this machine could read these pages, if its host name resolves to
//! this machine (DNS rebinding).

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use httparse::{EMPTY_HEADER, Header, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::Service;
use super::priority;
use super::socket::{Listener, Stream, Until};
use crate::base::lock::lock;
use crate::endpoint::Endpoint;

/// Connections at a time; further ones wait.
const CONNECTIONS_MAX: usize = 16;
/// Threads at a time: those of the connections, and those whose connection was closed while a disk hangs.
const THREADS_MAX: usize = 256;
/// Connections that may wait to be accepted. Few, so that a client in this queue is served soon.
const BACKLOG: i32 = 64;
/// From accept to the end of the request.
const HEADER_TIME: Duration = Duration::from_secs(1);
/// Time that a connection has for its request, and then for its page, if another connection is waiting.
const ASK_TIME: Duration = Duration::from_millis(50);
const TAKE_TIME: Duration = Duration::from_secs(1);
/// From accept to the last byte of the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Largest request header, and most fields in it.
const HEADER_BYTES_MAX: usize = 8 << 10;
const FIELDS_MAX: usize = 100;
/// How often [`Service::tick`] is called.
const TICK: Duration = Duration::from_secs(5);
/// How long accepting pauses after an error, such as no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How long a client waits for an answer, and how much of it it reads.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// What follows the length of every answer.
const FIELDS: &str = "Connection: close\r\n\
    Cache-Control: no-store\r\n\
    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'\r\n\
    Referrer-Policy: no-referrer\r\n\
    X-Content-Type-Options: nosniff\r\n";

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Status code of HTTP.
    pub code: u16,
    /// Media type.
    pub media_type: &'static str,
    /// The text.
    pub body: String,
}

impl Page {
    /// A page of plain text.
    pub fn text(code: u16, body: impl Into<String>) -> Self {
        Self {
            code,
            media_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    /// The answer with this page; to HEAD, without it.
    fn answer(&self, to_head: bool) -> String {
        let reason = match self.code {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed\r\nAllow: GET, HEAD",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
        let Self {
            code,
            media_type,
            body,
        } = self;
        let length = body.len();
        let body = if to_head { "" } else { body };
        format!(
            "HTTP/1.1 {code} {reason}\r\nDate: {date}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{FIELDS}\r\n{body}"
        )
    }
}

/// The thread that accepts connections. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    _alive: PipeWriter,
}

impl Server {
    pub(super) fn start<S: Service>(
        listeners: Vec<Listener>,
        service: &Arc<S>,
    ) -> io::Result<Self> {
        // Here and not in the thread, which may no longer make this call (see `calls`).
        for listener in &listeners {
            rustix::net::listen(listener, BACKLOG)?;
        }
        let (ended, alive) = io::pipe()?;
        let service = Arc::clone(service);
        thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || {
                // The threads that it starts inherit this.
                priority::lower("status");
                serve(&listeners, &service, &ended);
            })?;
        Ok(Self { _alive: alive })
    }
}

fn serve<S: Service>(listeners: &[Listener], service: &Arc<S>, ended: &PipeReader) {
    let visits = Arc::<Visits>::default();
    let mut tick = Instant::now();
    loop {
        let now = Instant::now();
        if now >= tick {
            tick = now + TICK;
            // A panic in it, which is logged, must not end this thread.
            let _ = catch_unwind(AssertUnwindSafe(|| service.tick()));
        }
        let mut ready = vec![PollFd::new(ended, PollFlags::empty())];
        let sockets = listeners.iter().map(AsFd::as_fd);
        ready.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let patience = Timespec::try_from(tick.saturating_duration_since(Instant::now()));
        // After an error, such as a signal, no socket is ready.
        let _ = poll(&mut ready, patience.as_ref().ok());
        let mut ready = ready.iter().map(|one| !one.revents().is_empty());
        if ready.next() == Some(true) {
            return;
        }
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            if let Err(error) = accept(listener, service, &visits) {
                tracing::debug!(%error, "cannot accept a connection to the status pages");
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// Accepts a connection, and starts its thread.
fn accept<S: Service>(
    listener: &Listener,
    service: &Arc<S>,
    visits: &Arc<Visits>,
) -> io::Result<()> {
    visits.make_room();
    let stream = match listener.accept() {
        // The client may be gone.
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        stream => stream?,
    };
    if Arc::strong_count(visits) > THREADS_MAX {
        return Ok(());
    }
    let visit = Visit::begin(stream, Arc::clone(visits));
    let service = Arc::clone(service);
    let answer = move || {
        if let Err(error) = visit.answer(&*service) {
            tracing::debug!(%error, "a request for a status page failed");
        }
    };
    let thread = thread::Builder::new().name("page".to_owned());
    thread.spawn(answer).map(drop)
}

/// The open connections of all sockets, each with the time after which it may be closed for another one.
#[derive(Default)]
struct Visits {
    open: Mutex<Vec<(Arc<Stream>, Instant)>>,
    /// One has ended.
    left: Condvar,
}

impl Visits {
    /// Returns when there is room for one more. If none ends, one is closed when its time is over.
    fn make_room(&self) {
        let mut open = lock(&self.open);
        while open.len() >= CONNECTIONS_MAX {
            let times = open.iter().map(|(_, over)| *over).enumerate();
            let Some((first, over)) = times.min_by_key(|(_, over)| *over) else {
                return;
            };
            let left = over.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::debug!("closing a connection to the status pages for another one");
                open.swap_remove(first).0.end(Shutdown::Both);
                return;
            }
            let woken = self.left.wait_timeout(open, left);
            open = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// An open connection. It ends when this is dropped.
struct Visit {
    stream: Arc<Stream>,
    visits: Arc<Visits>,
}

impl Visit {
    fn begin(stream: Stream, visits: Arc<Visits>) -> Self {
        let stream = Arc::new(stream);
        let over = Instant::now() + ASK_TIME;
        lock(&visits.open).push((Arc::clone(&stream), over));
        Self { stream, visits }
    }

    /// Records that it has sent its request.
    fn has_asked(&self) {
        let mut open = lock(&self.visits.open);
        let own = open.iter_mut();
        for (_, over) in own.filter(|(one, _)| Arc::ptr_eq(one, &self.stream)) {
            *over = Instant::now() + TAKE_TIME;
        }
    }

    /// Answers its request.
    fn answer<S: Service>(&self, service: &S) -> io::Result<()> {
        let begun = Instant::now();
        let mut header = Until(&self.stream, begun + HEADER_TIME);
        let mut received = Vec::new();
        let mut piece = [0; 2 << 10];
        let answer = loop {
            let length = header.read(&mut piece)?;
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            received.extend_from_slice(piece.get(..length).unwrap_or_default());
            let page = |path: &str| {
                self.has_asked();
                service.page(path)
            };
            if let Some(answer) = answer_to(&received, self.stream.is_tcp, page) {
                break answer;
            }
        };
        let mut until = Until(&self.stream, begun + CONNECTION_TIME);
        until.write_all(answer.as_bytes())?;
        self.stream.end(Shutdown::Write);
        // Until the client has it and closes: otherwise what it has sent beyond a request would destroy the answer.
        while until.read(&mut piece)? > 0 {}
        Ok(())
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let is_other = |(one, _): &(Arc<Stream>, Instant)| !Arc::ptr_eq(one, &self.stream);
        lock(&self.visits.open).retain(is_other);
        self.visits.left.notify_one();
    }
}

/// The answer to a request; `None` if its header is not complete.
fn answer_to(received: &[u8], over_tcp: bool, page: impl FnOnce(&str) -> Page) -> Option<String> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let page = match request.parse(received) {
        Ok(Status::Partial) if received.len() < HEADER_BYTES_MAX => return None,
        Ok(Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Page::text(431, "the header is too long\n")
        }
        Err(error) => Page::text(400, format!("not HTTP: {error}\n")),
        Ok(_) if over_tcp && !names_us_by_address(request.headers) => Page::text(
            403,
            "the Host header must have an address or \"localhost\"\n",
        ),
        Ok(_) if !matches!(request.method, Some("GET" | "HEAD")) => {
            Page::text(405, "only GET and HEAD\n")
        }
        Ok(_) => page(request.path.unwrap_or("/")),
    };
    Some(page.answer(request.method == Some("HEAD")))
}

/// Whether the Host of these fields is an address or localhost, with or without a port.
fn names_us_by_address(fields: &[Header<'_>]) -> bool {
    let is_host = |field: &&Header<'_>| field.name.eq_ignore_ascii_case("host");
    let mut hosts = fields.iter().filter(is_host);
    // No Host: HTTP/1.0. Browsers always send one.
    hosts.all(|host| {
        let host = str::from_utf8(host.value).unwrap_or_default();
        let name = match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    })
}

/// Reads a page of a running daemon: its status code and its body.
///
/// # Errors
/// No process listens there, or the answer is late, too long, or not HTTP.
pub fn fetch(endpoint: &Endpoint, path: &str) -> io::Result<(u16, Vec<u8>)> {
    let until = Instant::now() + PATIENCE;
    let stream = Stream::from_socket(match endpoint {
        Endpoint::Unix(socket) => connect(socket)?,
        Endpoint::Inet { host, port, .. } => {
            let mut tried: io::Result<TcpStream> = Err(ErrorKind::AddrNotAvailable.into());
            for address in (host.as_str(), *port).to_socket_addrs()? {
                tried = tried.or_else(|_| TcpStream::connect_timeout(&address, PATIENCE));
            }
            tried?.into()
        }
    })?;
    let mut stream = Until(&stream, until);
    // Version 1.0, so that the answer comes in one piece.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let parsed = response.parse(&answer).map_err(io::Error::other)?;
    let (Status::Complete(head), Some(code)) = (parsed, response.code) else {
        return Err(ErrorKind::UnexpectedEof.into());
    };
    let is_length = |field: &&Header<'_>| field.name.eq_ignore_ascii_case("content-length");
    let length = response.headers.iter().find(is_length);
    let length = length.and_then(|field| str::from_utf8(field.value).ok()?.parse().ok());
    let body = answer.split_off(head);
    match length.is_none_or(|length: usize| length == body.len()) {
        true => Ok((code, body)),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Connects, and waits if the queue of the socket is full. The kernel serves waiting clients in order; a client that tried
/// again and again instead would always come after those that wait.
fn connect(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    let address = SocketAddrUnix::new(path)?;
    retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(|error| match error {
        Errno::AGAIN => ErrorKind::TimedOut.into(),
        error => io::Error::from(error),
    })?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    use crate::daemon::unix_socket::knock;

    /// The queue is full, as if many other clients came at the same time.
    #[test]
    fn a_client_waits_for_its_place_in_the_queue() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("s.sock");
        let listener = UnixListener::bind(&socket).expect("our own folder");
        rustix::net::listen(&listener, 0).expect("a socket");
        let first = connect(&socket).expect("one may wait");
        let asked = thread::spawn({
            let endpoint = Endpoint::Unix(socket.clone());
            move || fetch(&endpoint, "/healthz")
        });
        // Now the queue is full for the thread, too; or the thread comes later and finds space in it.
        while knock(&socket).is_ok() {}
        drop(first);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        // This thread ends with the process of the test.
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // The request arrives in one piece; an answer before it would be an error.
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer);
            }
        });
        let (code, body) = asked.join().expect("no panic").expect("it was answered");
        assert_eq!((code, body.as_slice()), (200, &b"ok"[..]));
    }

    /// A refused method is answered with the allowed ones (RFC 9110 section 15.5.6).
    #[test]
    fn pages_are_only_read_and_only_by_programs_of_this_machine() {
        for (request, host, over_tcp, code) in [
            ("GET", "Host: 127.0.0.1:9642", true, 200),
            ("HEAD", "Host: [::1]:9642", true, 200),
            ("GET", "HOST: LocalHost", true, 200),
            ("GET", "X: no host", true, 200),
            ("POST", "Host: localhost", true, 405),
            ("GET", "Host: evil.example:9642", true, 403),
            ("GET", "Host: 127.0.0.1.evil.example", true, 403),
            ("GET", "Host: \u{fc}", true, 403),
            ("GET", "Host: localhost\r\nHost: evil.example", true, 403),
            // A browser cannot connect to a unix socket, and curl may send any Host.
            ("GET", "Host: status", false, 200),
            ("\0\0\0\x0dO", "", false, 400),
        ] {
            let sent = format!("{request} /x HTTP/1.1\r\n{host}\r\n\r\n");
            let page = |path: &str| Page::text(200, path);
            let answer = answer_to(sent.as_bytes(), over_tcp, page).expect("it is complete");
            let has = |text: &str| answer.contains(text);
            assert!(has(&format!("HTTP/1.1 {code} ")), "{sent}{answer}");
            assert_eq!(has("\r\nAllow: GET, HEAD\r\n"), code == 405, "{answer}");
            assert_eq!(has("\r\nContent-Length: 2\r\n"), code == 200, "{answer}");
            let is_shown = code == 200 && request == "GET";
            assert_eq!(answer.ends_with("\r\n\r\n/x"), is_shown, "{answer}");
        }
    }

    #[test]
    fn a_request_is_bounded() {
        let begun = "GET / HTTP/1.1\r\nX: ".to_owned();
        let answer = |text: &str| answer_to(text.as_bytes(), false, |_| Page::text(200, ""));
        assert_eq!(answer(&begun), None);
        for long in [
            begun + &"x".repeat(HEADER_BYTES_MAX),
            "GET / HTTP/1.1\r\n".to_owned() + &"X: x\r\n".repeat(FIELDS_MAX + 1) + "\r\n",
        ] {
            assert!(answer(&long).is_some_and(|said| said.starts_with("HTTP/1.1 431 ")));
        }
    }
}
