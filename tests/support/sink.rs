//! A server for SMTP and LMTP (RFC 5321, RFC 2033) that takes every message and keeps it, as the last stop of a
//! mail server under test. Every second connection knows no 8BITMIME, so that bodies must be encoded again.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The domain of the last recipient, and the message as it came, with LF as line ends.
pub(crate) type Kept = (String, Vec<u8>);

pub(crate) struct Sink {
    pub(crate) port: u16,
    kept: Arc<Mutex<Vec<Kept>>>,
}

impl Sink {
    /// Listens until the test program ends.
    pub(crate) fn start() -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("bound").port();
        let kept = Arc::default();
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let kept = Arc::clone(&shared);
                // A client may hang up.
                thread::spawn(move || drop(serve(stream, number % 2 == 0, &kept)));
            }
        });
        Self { port, kept }
    }

    /// Returns what has come since the last call.
    pub(crate) fn take(&self) -> Vec<Kept> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(mut stream: TcpStream, is_8bit: bool, kept: &Mutex<Vec<Kept>>) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut say = |text: &str| stream.write_all(text.as_bytes());
    say("220 sink.test ESMTP\r\n")?;
    let (mut line, mut is_lmtp, mut recipients) = (Vec::new(), false, Vec::new());
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let command = String::from_utf8_lossy(&line).trim_end().to_owned();
        match command.to_ascii_uppercase().get(..4).unwrap_or_default() {
            verb @ ("EHLO" | "LHLO") => {
                is_lmtp = verb == "LHLO";
                say(match is_8bit {
                    true => "250-sink.test\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n",
                    false => "250 sink.test\r\n",
                })?;
            }
            "MAIL" | "RSET" => {
                recipients.clear();
                say("250 2.1.0 Ok\r\n")?;
            }
            "RCPT" => {
                let to = command.rsplit('@').next().unwrap_or_default();
                recipients.push(to.trim_end_matches('>').to_owned());
                say("250 2.1.5 Ok\r\n")?;
            }
            "DATA" => {
                say("354 End with .\r\n")?;
                let message = content(&mut lines)?;
                let to = recipients.last().cloned().unwrap_or_default();
                kept.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((to, message));
                let replies = if is_lmtp { recipients.len() } else { 1 };
                say(&"250 2.0.0 Ok\r\n".repeat(replies))?;
            }
            "QUIT" => return say("221 2.0.0 Bye\r\n"),
            _ => say("250 2.0.0 Ok\r\n")?,
        }
    }
}

/// Reads a message up to its final dot.
fn content(lines: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix(b"\r\n").unwrap_or(&line);
        if line == b"." {
            return Ok(message);
        }
        message.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        message.push(b'\n');
    }
}
