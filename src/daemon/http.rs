//! Pages over HTTP for whoever watches the daemon, and the client that reads them.
//!
//! A thread of its own with a lower priority serves them, so that no mail waits for it. Whoever connects
//! is bounded: [`CONNECTIONS_MAX`] at a time, one request each, [`HEADER_BYTES_MAX`] for it, and
//! [`CONNECTION_TIME`] for all. Pages are read, never written to; a body that is sent is not read.
//!
//! Only unix sockets and loopback addresses are opened, and for the latter a request must name the server by
//! its address or as localhost. Otherwise a page of somebody else's could read ours by a browser on this
//! machine, once its own name leads here (DNS rebinding).

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::Service;
use super::listen::Listener;
use crate::endpoint::Endpoint;

/// Connections at a time; further ones wait.
const CONNECTIONS_MAX: usize = 16;
/// From accept to the last byte of the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Of a request; the smallest that hyper allows.
const HEADER_BYTES_MAX: usize = 8 << 10;
/// How often the service may do what its pages need.
const TICK: Duration = Duration::from_secs(5);
/// How long accepting pauses after an error, such as no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// How much less urgent than mail, as nice(1) has it.
const NICE: i32 = 10;

/// What a client waits for an answer, and how much it takes of one.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 16 << 20;

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
}

/// The thread that serves pages. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    _stop: oneshot::Sender<Infallible>,
}

impl Server {
    pub(super) fn start<S: Service>(
        listeners: Vec<Listener>,
        service: &Arc<S>,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let service = Arc::clone(service);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || {
                // Of this thread alone, on Linux.
                if let Err(error) = rustix::process::setpriority_process(None, NICE) {
                    tracing::debug!(%error, "cannot lower the priority of the status pages");
                }
                runtime.block_on(serve(listeners, &service, stopped));
            })?;
        Ok(Self { _stop: stop })
    }
}

async fn serve<S: Service>(
    listeners: Vec<Listener>,
    service: &Arc<S>,
    mut stopped: oneshot::Receiver<Infallible>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropped with this future, and all connections with it.
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(accept(listener, Arc::clone(service), Arc::clone(&permits)));
    }
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            // In a task, so that a fault there does not end this thread.
            _ = tick.tick() => {
                let service = Arc::clone(service);
                let _ = tokio::spawn(async move { service.tick() }).await;
            }
        }
    }
}

/// Accepts connections of one socket without end.
async fn accept<S: Service>(listener: Listener, service: Arc<S>, permits: Arc<Semaphore>) {
    let mut serving = JoinSet::new();
    let open = || -> io::Result<Socket> {
        Ok(match listener {
            Listener::Unix(listener) => Socket::Unix(UnixListener::from_std(listener)?),
            Listener::Tcp(listener) => Socket::Tcp(TcpListener::from_std(listener)?),
        })
    };
    let socket = match open() {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, "cannot serve the status pages"),
    };
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        while serving.try_join_next().is_some() {}
        let service = Arc::clone(&service);
        let connection = match &socket {
            Socket::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                serving.spawn(async move {
                    answer(stream, &service, false).await;
                    drop(permit);
                })
            }),
            Socket::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                serving.spawn(async move {
                    answer(stream, &service, true).await;
                    drop(permit);
                })
            }),
        };
        if let Err(error) = connection {
            tracing::debug!(%error, "cannot accept a connection to the status pages");
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Answers one request.
async fn answer<S: Service>(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    service: &Arc<S>,
    over_tcp: bool,
) {
    let serve = service_fn(|request: Request<Incoming>| {
        let response = respond(&request, over_tcp, |path| service.page(path));
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES_MAX)
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME)
        .serve_connection(TokioIo::new(stream), serve);
    match timeout(CONNECTION_TIME, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a request for a status page failed"),
        Err(_) => tracing::debug!("a request for a status page took too long"),
    }
}

fn respond<B>(
    request: &Request<B>,
    over_tcp: bool,
    page: impl FnOnce(&str) -> Page,
) -> Response<Full<Bytes>> {
    let page = if over_tcp && !names_us_by_address(request) {
        Page::text(
            403,
            "the Host header must have an address or \"localhost\"\n",
        )
    } else if request.method() != Method::GET && request.method() != Method::HEAD {
        Page::text(405, "only GET and HEAD\n")
    } else {
        page(request.uri().path())
    };
    // To HEAD, hyper sends the length of the body without the body.
    let mut response = Response::new(Full::from(page.body));
    *response.status_mut() =
        StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = [
        (header::CONTENT_TYPE, page.media_type),
        (header::CACHE_CONTROL, "no-store"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fields {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

/// Whether the request's Host is an address or localhost, with or without a port.
fn names_us_by_address<B>(request: &Request<B>) -> bool {
    let Some(host) = request.headers().get(header::HOST) else {
        // HTTP/1.0; browsers always send one.
        return true;
    };
    let Ok(host) = host.to_str() else {
        return false;
    };
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Reads a page of a running daemon: its status code and its body.
///
/// # Errors
/// Nobody listens there, or the answer is late, too long or no HTTP.
pub fn fetch(endpoint: &Endpoint, path: &str) -> io::Result<(u16, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let fetched = async {
        match endpoint {
            Endpoint::Unix(socket) => get(UnixStream::connect(socket).await?, path).await,
            Endpoint::Inet { host, port, .. } => {
                get(TcpStream::connect((host.as_str(), *port)).await?, path).await
            }
        }
    };
    let fetched = runtime.block_on(async { timeout(PATIENCE, fetched).await });
    fetched.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn get(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    path: &str,
) -> io::Result<(u16, Vec<u8>)> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(header::HOST, "localhost")
        .body(Full::<Bytes>::default())
        .map_err(io::Error::other)?;
    let response = sender
        .send_request(request)
        .await
        .map_err(io::Error::other)?;
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
        .map_err(io::Error::other)?;
    Ok((code, body.to_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: &str, host: Option<&str>, over_tcp: bool) -> u16 {
        let mut request = Request::builder().method(method).uri("/x");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(()).expect("a request");
        let response = respond(&request, over_tcp, |path| Page::text(200, path));
        response.status().as_u16()
    }

    #[test]
    fn pages_are_only_read_and_only_by_programs_of_this_machine() {
        assert_eq!(code("GET", Some("127.0.0.1:9642"), true), 200);
        assert_eq!(code("HEAD", Some("[::1]:9642"), true), 200);
        assert_eq!(code("GET", Some("LocalHost"), true), 200);
        assert_eq!(code("GET", None, true), 200);
        assert_eq!(code("POST", Some("localhost"), true), 405);
        assert_eq!(code("GET", Some("evil.example:9642"), true), 403);
        assert_eq!(code("GET", Some("127.0.0.1.evil.example"), true), 403);
        // A browser cannot connect to a unix socket; curl names it as it likes.
        assert_eq!(code("GET", Some("status"), false), 200);
    }
}
