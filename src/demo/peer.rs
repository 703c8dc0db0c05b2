//! The mail server's side of the milter protocol, as Postfix implements it: for the demo and for
//! tests.
//!
//! ```text
//! O                     negotiation
//! D C, C                client                       answered unless agreed otherwise
//! D H                   macros of HELO, declined
//! D M, M                MAIL                         answered unless agreed otherwise
//! D R, R                RCPT                         answered
//! D T                   macros of DATA, declined
//! D L, L ...            headers                      answered unless agreed otherwise
//! D N, N                end of headers               answered
//! D E, E                end of message               edits, then answered
//! A ... A Q             after every message; at the end
//! ```
//!
//! Everything between two awaited answers is sent in one write, as from Postfix's buffer. Errors are those of the
//! connection, and wrong answers of the milter.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::endpoint::Endpoint;

/// What Postfix offers: version 6, all actions, all steps.
const VERSION: u32 = 6;
const ACTIONS: u32 = 0x1ff;
const STEPS: u32 = 0x001f_ffff;

/// Longest packet that a milter may send; libmilter's limit.
const PACKET_MAX_BYTES: usize = 1 << 16;
/// A milter that does not answer for this long is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Continue.
    Continue,
    /// Accept the message.
    Accept,
    /// Reject permanently, with the mail server's text.
    Reject,
    /// Reject temporarily, with the mail server's text.
    Tempfail,
    /// Accept and drop.
    Discard,
    /// Refuse with this reply; its lines are joined by CR LF.
    Text(String),
}

impl Answer {
    /// Returns whether the SMTP client is refused.
    pub fn refuses(&self) -> bool {
        match self {
            Self::Reject | Self::Tempfail | Self::Text(_) => true,
            Self::Continue | Self::Accept | Self::Discard => false,
        }
    }
}

/// A change to the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A header was added at the end, or inserted at an index.
    Added(String, String),
    /// The n-th header with a name was changed; an empty value deletes it.
    Changed(u32, String, String),
    /// The message was quarantined, with a reason.
    Quarantined(String),
}

/// A message to play.
#[derive(Clone, Debug, Default)]
pub struct TestMail {
    /// Argument of MAIL FROM, with its brackets.
    pub mail_from: Vec<u8>,
    /// Arguments of RCPT TO.
    pub recipients: Vec<Vec<u8>>,
    /// Names and values; folds are LF and white space.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Macros of MAIL, such as `{auth_authen}`, and of every RCPT: those that begin with `{rcpt_`.
    pub macros: Vec<(String, String)>,
}

impl TestMail {
    /// Creates a message from strings; headers have the form `Name: value`.
    pub fn new(mail_from: &str, recipients: &[&str], headers: &[&str]) -> Self {
        let field = |header: &&str| {
            let (name, value) = header.split_once(':').unwrap_or((header, ""));
            (name.into(), value.strip_prefix(' ').unwrap_or(value).into())
        };
        Self {
            mail_from: mail_from.into(),
            recipients: recipients.iter().map(|&to| to.into()).collect(),
            headers: headers.iter().map(field).collect(),
            ..Self::default()
        }
    }
}

/// The result for a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The answer for each recipient.
    pub recipients: Vec<Answer>,
    /// The answer for the message; `None` if all recipients were refused.
    pub message: Option<Answer>,
    /// The changes to the message.
    pub changes: Vec<Change>,
    /// Time from MAIL to the last answer.
    pub time: Duration,
}

/// A connection to a daemon.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Connects to a daemon, which must answer in time.
pub(crate) fn connect(to: &Endpoint) -> io::Result<Box<dyn Stream>> {
    Ok(match to {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        }
        Endpoint::Inet { host, port, .. } => {
            let stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        }
    })
}

/// A connection to a milter.
pub struct Peer {
    stream: Box<dyn Stream>,
    out: Vec<u8>,
    steps: u32,
    messages: u32,
}

impl Peer {
    /// Connects to a unix socket and negotiates.
    pub fn unix(path: &Path) -> io::Result<Self> {
        Self::connect(&Endpoint::Unix(path.to_owned()))
    }

    /// Connects and negotiates.
    pub fn connect(to: &Endpoint) -> io::Result<Self> {
        let mut peer = Self {
            stream: connect(to)?,
            out: Vec::new(),
            steps: 0,
            messages: 0,
        };
        let offer = [VERSION, ACTIONS, STEPS].map(u32::to_be_bytes);
        peer.put(b'O', offer.as_flattened());
        let (code, payload) = peer.packet()?;
        if code != b'O' {
            return broken("no negotiation");
        }
        let (&[version, actions, steps, ..], _) = payload.as_chunks() else {
            return broken("a negotiation cut short");
        };
        let [version, actions, steps] = [version, actions, steps].map(u32::from_be_bytes);
        peer.steps = steps;
        if version > VERSION || actions & !ACTIONS != 0 || steps & !STEPS != 0 {
            return broken("more than was offered");
        }
        Ok(peer)
    }

    /// Announces an SMTP client. Postfix reports port 0 of 127.0.0.1 for local mail.
    pub fn client(&mut self, address: IpAddr, port: u16) -> io::Result<Answer> {
        let (name, version) = ("mx.test", "Postfix 3.7.11");
        let macros = [("j", name), ("{daemon_name}", name), ("v", version)];
        let family = if address.is_ipv4() { b"4" } else { b"6" };
        let (host, address) = (format!("[{address}]\0"), format!("{address}\0"));
        let (port, address) = (port.to_be_bytes(), address.as_bytes());
        let payload = [host.as_bytes(), family, &port, address];
        let answer = self.step(b'C', &macros, &payload)?;
        self.macros(b'H', &[]);
        Ok(answer)
    }

    /// Announces a client somewhere on the internet.
    pub fn stranger(&mut self) -> io::Result<Answer> {
        self.client(Ipv4Addr::new(192, 0, 2, 25).into(), 51_234)
    }

    /// Plays one message, and ends it with an abort.
    pub fn deliver(&mut self, mail: &TestMail) -> io::Result<Delivery> {
        let began = Instant::now();
        self.messages += 1;
        let queue_id = format!("4TEST{:04}", self.messages);
        let mut outcome = Delivery::default();
        outcome.message = self.play(mail, &queue_id, &mut outcome)?;
        outcome.time = began.elapsed();
        // Stays in the buffer until something else is sent, as in Postfix.
        self.put(b'A', &[]);
        Ok(outcome)
    }

    fn play(
        &mut self,
        mail: &TestMail,
        id: &str,
        outcome: &mut Delivery,
    ) -> io::Result<Option<Answer>> {
        let macros = mail.macros.iter().map(|(name, value)| (&**name, &**value));
        let (mut of_rcpt, of_mail): (Vec<_>, Vec<_>) =
            macros.partition(|(name, _)| name.starts_with("{rcpt_"));
        let argument = [mail.mail_from.as_slice(), b"\0SIZE=1000\0"];
        let answer = self.step(b'M', &of_mail, &argument)?;
        if answer != Answer::Continue {
            return Ok(Some(answer));
        }
        let mut accepted = mail.recipients.is_empty();
        for recipient in &mail.recipients {
            let answer = self.step(b'R', &of_rcpt, &[recipient, b"\0"])?;
            outcome.recipients.push(answer.clone());
            match answer {
                // Postfix creates the queue file at the first accepted recipient.
                Answer::Continue if !accepted => {
                    of_rcpt.push(("i", id));
                    accepted = true;
                }
                Answer::Continue => {}
                Answer::Accept | Answer::Discard => return Ok(Some(answer)),
                Answer::Reject | Answer::Tempfail | Answer::Text(_) => {}
            }
        }
        if !accepted {
            return Ok(None);
        }
        self.macros(b'T', &[("i", id)]);
        for (name, value) in &mail.headers {
            let header = [name.as_slice(), b"\0", value, b"\0"];
            let answer = self.step(b'L', &[("i", id)], &header)?;
            if answer != Answer::Continue {
                return Ok(Some(answer));
            }
        }
        let answer = self.step(b'N', &[("i", id)], &[])?;
        if answer != Answer::Continue {
            return Ok(Some(answer));
        }
        self.macros(b'E', &[("i", id)]);
        self.put(b'E', &[]);
        loop {
            let (code, payload) = self.packet()?;
            match change(code, &payload)? {
                Some(change) => outcome.changes.push(change),
                None => return final_answer(code, &payload).map(Some),
            }
        }
    }

    /// Ends the session.
    pub fn quit(mut self) -> io::Result<()> {
        self.put(b'A', &[]);
        self.put(b'Q', &[]);
        self.flush()?;
        let mut surplus = [0];
        match self.stream.read(&mut surplus)? {
            0 => Ok(()),
            _ => broken("an answer that nobody waited for"),
        }
    }

    /// Ends the session without waiting for the milter.
    pub fn leave(mut self) -> io::Result<()> {
        self.put(b'Q', &[]);
        self.flush()
    }

    /// Sends a command after its macros, unless the milter declines it, and reads the answer, if there is one.
    fn step(&mut self, code: u8, macros: &[(&str, &str)], parts: &[&[u8]]) -> io::Result<Answer> {
        // The bits by which a milter declines a step, and leaves it unanswered (SMFIP_NO..., SMFIP_NR_...).
        let (declined, quiet) = match code {
            b'C' => (0x1, 0x1000),
            b'M' => (0x4, 0x4000),
            b'R' => (0x8, 0x8000),
            b'L' => (0x20, 0x80),
            b'N' => (0x40, 0x4_0000),
            _ => (0, 0),
        };
        if self.steps & declined != 0 {
            return Ok(Answer::Continue);
        }
        self.macros(code, macros);
        self.put(code, &parts.concat());
        if self.steps & quiet != 0 {
            return Ok(Answer::Continue);
        }
        let (code, payload) = self.packet()?;
        final_answer(code, &payload)
    }

    fn macros(&mut self, step: u8, macros: &[(&str, &str)]) {
        let mut payload = vec![step];
        for (name, value) in macros {
            payload.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
        }
        self.put(b'D', &payload);
    }

    fn put(&mut self, code: u8, payload: &[u8]) {
        let length = u32::try_from(payload.len() + 1).unwrap_or(u32::MAX);
        self.out.extend_from_slice(&length.to_be_bytes());
        self.out.push(code);
        self.out.extend_from_slice(payload);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        self.stream.flush()
    }

    /// Sends the buffer, and reads one packet.
    fn packet(&mut self) -> io::Result<(u8, Vec<u8>)> {
        self.flush()?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if !(1..=PACKET_MAX_BYTES).contains(&length) {
            return broken("a packet of impossible length");
        }
        let mut packet = vec![0; length];
        self.stream.read_exact(&mut packet)?;
        let payload = packet.split_off(1);
        Ok((packet[0], payload))
    }
}

fn broken<T>(what: &str) -> io::Result<T> {
    let text = format!("the milter broke the protocol: {what}");
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Reads a text that a NUL ends.
fn text(bytes: &[u8]) -> io::Result<String> {
    match bytes.strip_suffix(b"\0") {
        Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        None => broken("a text without its NUL"),
    }
}

fn final_answer(code: u8, payload: &[u8]) -> io::Result<Answer> {
    if code == b'y' {
        return match text(payload)? {
            text if text.is_ascii() => Ok(Answer::Text(text.replace("%%", "%"))),
            _ => broken("a reply that is not ASCII"),
        };
    }
    if !payload.is_empty() {
        return broken("an answer with surplus bytes");
    }
    match code {
        b'c' => Ok(Answer::Continue),
        b'a' => Ok(Answer::Accept),
        b'r' => Ok(Answer::Reject),
        b't' => Ok(Answer::Tempfail),
        b'd' => Ok(Answer::Discard),
        _ => broken(&format!("the code {code:#04x} as an answer")),
    }
}

/// Reads a packet that changes the message; `None` if it is another packet.
fn change(code: u8, payload: &[u8]) -> io::Result<Option<Change>> {
    let header = |bytes: &[u8]| match text(bytes)?.split_once('\0') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => broken("a header without a value"),
    };
    Ok(Some(match code {
        b'h' => {
            let (name, value) = header(payload)?;
            Change::Added(name, value)
        }
        b'm' => {
            let Some((index, rest)) = payload.split_first_chunk() else {
                return broken("a change without its index");
            };
            let (name, value) = header(rest)?;
            Change::Changed(u32::from_be_bytes(*index), name, value)
        }
        b'q' => Change::Quarantined(text(payload)?),
        _ => return Ok(None),
    }))
}
