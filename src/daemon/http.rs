//! Status pages over HTTP for clients that monitor the daemon, and the client that reads them.
//!
//! A separate thread with a lower priority serves them, so mail never waits for it. Limits: [`CONNECTIONS_MAX`]
//! connections at a time, one request each with [`HEADER_BYTES_MAX`] and [`HEADER_TIME`], and [`CONNECTION_TIME`] in
//! total. The body of a request is not read. If a new connection exceeds the limit, the one whose time ([`ASK_TIME`] for its
//! request, then [`TAKE_TIME`]) ends first is closed: clients that ask or read nothing do not block others for long.
//!
//! Only unix sockets and loopback addresses are opened. The Host of a request must be an address or localhost: a
//! foreign web page in a browser on this machine, or on one that `ssh -L` connects to a unix socket, could read these pages,
//! if its host name resolves to that machine (DNS rebinding).

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::header;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::socket::Socket;
use super::{Service, start_patient_thread};
use crate::endpoint::Endpoint;

/// Connections at a time; further ones wait.
const CONNECTIONS_MAX: usize = 16;
/// Connections that may wait to be accepted. Few, so that a client in this queue is served soon.
const BACKLOG: i32 = 64;
/// From accept to the end of the request.
const HEADER_TIME: Duration = Duration::from_secs(1);
/// Time that a connection has for its request, and then for its page, if another connection is waiting.
const ASK_TIME: Duration = Duration::from_millis(50);
const TAKE_TIME: Duration = Duration::from_secs(1);
/// How often a connection looks for a place: one that gives way needs less time to end.
const LOOK: Duration = Duration::from_millis(1);
/// From accept to the last byte of the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Largest request header; the smallest limit that hyper allows.
const HEADER_BYTES_MAX: usize = 8 << 10;
/// Time between two calls of [`Service::tick`].
const TICK: Duration = Duration::from_secs(5);
/// How long accepting pauses after an error, such as no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// How long a client waits for an answer, and how much of it it reads.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Who asks for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Root or the daemon's own user, over a unix socket: whoever can read the daemon's files.
    Administrator,
    /// Whoever can connect, such as the group of the socket.
    Anybody,
}

impl Asker {
    fn of(stream: &UnixStream, over_tcp: bool) -> Self {
        let own = rustix::process::geteuid().as_raw();
        // As it was when the peer connected.
        match stream.peer_cred() {
            Ok(peer) if !over_tcp && [0, own].contains(&peer.uid()) => Self::Administrator,
            _ => Self::Anybody,
        }
    }
}

/// The answer to a request.
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
}

/// The thread, which ends when this is dropped.
pub(super) type Server = oneshot::Sender<Infallible>;

pub(super) fn start<S: Service>(listeners: Vec<Socket>, service: &Arc<S>) -> io::Result<Server> {
    // Here and not in the thread, which may no longer make this call (see `calls`).
    for listener in &listeners {
        rustix::net::listen(listener, BACKLOG)?;
    }
    let (stop, stopped) = oneshot::channel();
    let service = Arc::clone(service);
    let runtime = runtime()?;
    start_patient_thread("status", move || {
        runtime.block_on(serve(listeners, &service, stopped));
    })?;
    Ok(stop)
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve<S: Service>(
    listeners: Vec<Socket>,
    service: &Arc<S>,
    mut stopped: oneshot::Receiver<Infallible>,
) {
    let places = Arc::new(Places {
        permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        needed: Notify::new(),
    });
    // Dropped with this future, and all connections with it.
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(listener, Arc::clone(service), Arc::clone(&places)));
    }
    loop {
        // In a task, so that a panic in it does not end this thread.
        let service = Arc::clone(service);
        let _ = tokio::spawn(async move { service.tick() }).await;
        if timeout(TICK, &mut stopped).await.is_ok() {
            return;
        }
    }
}

async fn accept<S: Service>(listener: Socket, service: Arc<S>, places: Arc<Places>) {
    let mut serving = JoinSet::new();
    let over_tcp = listener.is_tcp;
    // A stream only here, to wait: tokio has no type for a socket of any kind.
    let stream_of = |socket| UnixStream::from_std(OwnedFd::from(socket).into());
    let ready = match listener.try_clone().and_then(stream_of) {
        Ok(ready) => ready,
        Err(error) => return tracing::error!(%error, "cannot serve the status pages"),
    };
    loop {
        let accepted = ready.async_io(Interest::READABLE, || listener.accept());
        let stream = match accepted.await.and_then(stream_of) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection to the status pages");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let permit = places.take().await;
        while serving.try_join_next().is_some() {}
        let (service, places) = (Arc::clone(&service), Arc::clone(&places));
        serving.spawn(async move {
            answer(stream, &service, over_tcp, &places).await;
            drop(permit);
        });
    }
}

struct Places {
    permits: Arc<Semaphore>,
    /// Wakes a connection whose time is over, and that is closed for another one: the one that has waited longest.
    needed: Notify,
}

impl Places {
    /// Takes a place for one more connection. As long as there is none, those whose time is over are closed.
    async fn take(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                return permit;
            }
            self.needed.notify_one();
            sleep(LOOK).await;
        }
    }

    /// Ready when a connection whose time is over must be closed.
    async fn are_needed(&self) {
        loop {
            self.needed.notified().await;
            if self.permits.available_permits() == 0 {
                return;
            }
        }
    }
}

async fn answer<S: Service>(stream: UnixStream, service: &Arc<S>, over_tcp: bool, places: &Places) {
    let asked = Notify::new();
    let asker = Asker::of(&stream, over_tcp);
    let serve = service_fn(|request: Request<Incoming>| {
        asked.notify_one();
        // A page may read filters, and a disk that hangs must not stop the other pages.
        let service = Arc::clone(service);
        spawn_blocking(move || respond(&request, |path| service.page(path, asker)))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES_MAX)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), serve);
    let give_way = async {
        sleep(ASK_TIME).await;
        tokio::select! {
            biased;
            () = asked.notified() => {}
            () = places.are_needed() => return,
        }
        sleep(TAKE_TIME).await;
        places.are_needed().await;
    };
    tokio::select! {
        served = timeout(CONNECTION_TIME, connection) => match served {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a request for a status page failed"),
            Err(_) => tracing::debug!("a request for a status page took too long"),
        },
        () = give_way => {
            tracing::debug!("closing a connection to the status pages for another one");
        }
    }
}

fn respond<B>(request: &Request<B>, page: impl FnOnce(&str) -> Page) -> Response<Full<Bytes>> {
    let page = if !names_us_by_address(request) {
        let text = "the Host header must have an address or \"localhost\"\n";
        Page::text(403, text)
    } else if request.method() != Method::GET && request.method() != Method::HEAD {
        Page::text(405, "only GET and HEAD\n")
    } else {
        let asked = request.uri().path_and_query();
        page(asked.map_or("/", |asked| asked.as_str()))
    };
    let code = StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, page.media_type)
        .header(header::CACHE_CONTROL, "no-store")
        .header(
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        )
        .header(header::REFERRER_POLICY, "no-referrer")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if code == StatusCode::METHOD_NOT_ALLOWED {
        response = response.header(header::ALLOW, "GET, HEAD");
    }
    // To HEAD, hyper sends the length of the body without the body.
    let response = response.body(Full::from(page.body));
    response.expect("all fields are constants")
}

/// Whether the request's Host is an address or localhost, with or without a port. Whoever connects to a unix socket
/// by itself (curl, nginx, our own client) sends localhost, too, if it was asked for `http://localhost/`.
fn names_us_by_address<B>(request: &Request<B>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else {
        // No Host, or an empty one: browsers always send one.
        return true;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Reads a page of a running daemon: its status code and its body.
///
/// # Errors
/// No process listens there, or the answer is late, too long, or not HTTP.
pub fn fetch(endpoint: &Endpoint, path: &str) -> io::Result<(u16, Vec<u8>)> {
    let began = Instant::now();
    let fetched = async {
        match endpoint {
            Endpoint::Unix(socket) => get(UnixStream::from_std(connect(socket)?)?, path).await,
            Endpoint::Inet { host, port, .. } => {
                get(TcpStream::connect((host.as_str(), *port)).await?, path).await
            }
        }
        .map_err(io::Error::other)
    };
    let fetched = runtime()?.block_on(async { timeout_at(began + PATIENCE, fetched).await });
    fetched.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Connects, and waits if the queue of the socket is full: the kernel serves waiting clients in order, before any that only
/// tries again and again.
fn connect(path: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    let address = SocketAddrUnix::new(path)?;
    retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(|error| match error {
        Errno::AGAIN => io::ErrorKind::TimedOut.into(),
        error => io::Error::from(error),
    })?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
) -> Result<(u16, Vec<u8>), Box<dyn Error + Send + Sync>> {
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, "localhost");
    let request = request.body(Full::<Bytes>::default())?;
    let response = sender.send_request(request).await?;
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    Ok((code, body.collect().await?.to_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queue is full, as if many other clients came at the same time.
    #[test]
    fn a_client_waits_for_its_place_in_the_queue() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("s.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("our own folder");
        rustix::net::listen(&listener, 0).expect("a socket");
        let first = std::os::unix::net::UnixStream::connect(&socket).expect("one may wait");
        let asked = std::thread::spawn({
            let endpoint = Endpoint::Unix(socket.clone());
            move || fetch(&endpoint, "/healthz")
        });
        runtime().expect("a runtime").block_on(async {
            // Now the queue is full for the thread, too; or the thread comes later and finds space in it.
            while UnixStream::connect(&socket).await.is_ok() {}
        });
        drop(first);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        // This thread ends with the process of the test.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // The request arrives in one piece; an answer before it would be an error.
                let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
                let _ = std::io::Write::write_all(&mut stream, answer);
            }
        });
        let (code, body) = asked.join().expect("no panic").expect("it was answered");
        assert_eq!((code, body.as_slice()), (200, &b"ok"[..]));
    }

    #[test]
    fn pages_are_only_read_and_only_by_programs_of_this_machine() {
        for (method, host, expected) in [
            ("GET", Some("127.0.0.1:9642"), 200),
            ("HEAD", Some("[::1]:9642"), 200),
            ("GET", Some("LocalHost"), 200),
            ("GET", Some(""), 200),
            ("GET", None, 200),
            ("POST", Some("localhost"), 405),
            ("GET", Some("evil.example:9642"), 403),
            ("GET", Some("127.0.0.1.evil.example"), 403),
            ("GET", Some("status"), 403),
        ] {
            let mut request = Request::builder().method(method).uri("/x");
            if let Some(host) = host {
                request = request.header("host", host);
            }
            let request = request.body(()).expect("a request");
            let response = respond(&request, |path| Page::text(200, path));
            assert_eq!(response.status().as_u16(), expected, "{method} {host:?}");
            // RFC 9110 section 15.5.6.
            assert_eq!(response.headers().contains_key("allow"), expected == 405);
        }
    }
}
