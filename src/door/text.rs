//! One connection of a text protocol: requests, one after the other, and their answers.
//!
//! A request becomes calls of the handler, in this order:
//!
//! ```text
//!  connect, mail           unless the request is about the message of the one before (instance)
//!  accepted                for each recipient that was accepted before
//!  rcpt                    for the one asked about
//!  header, end_of_headers  for a request about the message
//! ```
//!
//! What a restart passes on, its history:
//!
//! ```text
//!  policy 190 1a2b.0\n  request=...\n\n     request=...\n\nrequest=smtpd_acc
//!  door, its length,    the open message   requests without an answer, as far as they have come
//!  ended message        as one request
//! ```

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use super::policy;
use super::request::{
    Answer, Found, Http, RECIPIENTS_MAX, REQUEST_BYTES_MAX, Request, Stage, fault,
};
use crate::endpoint::Door;
use crate::milter::{
    Client, Edit, Family, Handler, Macros, Mailbox, Progress, ProtocolError, Reply, Status,
};

/// How requests are read and answers are written.
pub(super) struct Protocol {
    pub(super) door: Door,
    pub(super) read: fn(&[u8]) -> Found,
    pub(super) write: fn(&Answer, Http, &mut Vec<u8>),
    /// Answers what is no question, as `on_error` says; then the connection is closed.
    pub(super) refuse: fn(&Answer, &mut Vec<u8>),
}

/// One connection.
pub struct TextSession<H> {
    protocol: Protocol,
    handler: H,
    /// Requests without an answer; the last one may be incomplete.
    input: Vec<u8>,
    /// The bytes there of the current request.
    current: usize,
    /// The rest of the current request, if the first step is answered later.
    steps: VecDeque<Step>,
    macros: Macros,
    has_answered: bool,
    /// Of the current request.
    http: Http,
    /// The first request about a message, if more may be asked about it; with the recipients accepted since.
    open: Option<Request>,
    /// The last message about which no more is asked, and whether it passed. A client may send DATA again that was
    /// refused.
    ended: Vec<u8>,
    has_passed: bool,
}

/// A call of the handler that has an answer.
enum Step {
    Recipient(Mailbox<Vec<u8>>, Answers),
    EndOfHeaders,
}

/// When the answer for a recipient is that of the request.
#[derive(Clone, Copy)]
enum Answers {
    Always,
    /// Nobody has asked about it before.
    IfRefused,
}

impl<H: Handler> TextSession<H> {
    pub(super) fn new(protocol: Protocol, handler: H) -> Self {
        Self {
            protocol,
            handler,
            input: Vec::new(),
            current: 0,
            steps: VecDeque::new(),
            macros: Macros::default(),
            has_answered: false,
            http: Http::default(),
            open: None,
            ended: Vec::new(),
            has_passed: false,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.steps.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.input.is_empty()
    }

    /// Continues a connection whose client has answers. Returns the input; `None` if this is no history.
    pub(super) fn resume(&mut self, history: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = history.split_at_checked(memchr::memchr(b'\n', history)?)?;
        let (length, ended) = head.split_at_checked(memchr::memchr(b' ', head)?)?;
        let length = std::str::from_utf8(length).ok()?.parse().ok()?;
        let (first, input) = rest.get(1..)?.split_at_checked(length)?;
        if !first.is_empty() {
            let (request, _) = (self.protocol.read)(first).ok()??;
            self.begin_message(&request);
        }
        self.ended = ended.get(1..)?.to_vec();
        self.has_passed = true;
        self.has_answered = true;
        Some(input.to_vec())
    }

    pub(super) fn history(&self, unread: &[u8]) -> Vec<u8> {
        let is_counted = self.handler.is_counted();
        let open = self.open.as_ref().filter(|open| !open.text.is_empty());
        let open = open.map_or_else(Vec::new, |open| policy::retold(open, is_counted));
        let mut history = format!("{} {} ", self.protocol.door.name(), open.len()).into_bytes();
        let ended = if self.has_passed { &*self.ended } else { b"" };
        for part in [ended, b"\n", &open, &self.input, unread] {
            history.extend_from_slice(part);
        }
        history
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Whether the last request that the client has announced is answered.
    pub(super) fn has_ended(&self) -> bool {
        self.http.is_last && !self.is_waiting()
    }

    pub(super) fn receive_up_to(
        &mut self,
        most: usize,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Progress, ProtocolError> {
        self.input.extend_from_slice(input);
        let (commands, status) = self.answer_requests(most, out)?;
        Ok(Progress {
            taken: input.len(),
            commands,
            status,
        })
    }

    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        while self.is_waiting() {
            let reply = ready!(self.handler.poll_later(cx));
            self.note(&reply, out);
            self.run(out);
        }
        // The rest of the input. A fault in it shows with the next.
        let _ = self.answer_requests(usize::MAX, out);
        Poll::Ready(())
    }

    /// Answers the complete requests of the input. Returns how many there were.
    fn answer_requests(
        &mut self,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Status), ProtocolError> {
        let mut count = 0;
        while !self.is_waiting() && !self.has_ended() {
            self.input.drain(..std::mem::take(&mut self.current));
            if self.input.is_empty() && self.input.capacity() > REQUEST_BYTES_MAX / 64 {
                self.input = Vec::new();
            }
            let found = match (self.protocol.read)(&self.input) {
                Ok(None) if self.input.len() > REQUEST_BYTES_MAX => Err(fault("longer than 1 MiB")),
                found => found,
            };
            let found = found.inspect_err(|_| {
                let answer = Answer::of(&self.handler.not_understood(), &[]);
                (self.protocol.refuse)(&answer, out);
            })?;
            let Some((request, length)) = found else {
                break;
            };
            if length > most {
                return Ok((count, Status::Long));
            }
            self.current = length;
            count += 1;
            self.begin(&request, out);
        }
        let status = match self.is_waiting() {
            true => Status::Waiting,
            false if self.has_ended() => Status::Quit,
            false => Status::Open,
        };
        Ok((count, status))
    }

    fn begin(&mut self, request: &Request, out: &mut Vec<u8>) {
        self.http = request.http;
        let is_ended = !request.instance.is_empty() && request.instance == self.ended;
        let has_passed = is_ended && self.has_passed && request.stage == Stage::Message;
        if request.stage == Stage::Other || has_passed {
            self.write(&Answer::Pass, out);
            return;
        }
        let open = self.open.as_ref();
        let continues = open.is_some_and(|open| open.instance == request.instance);
        if !continues {
            self.finish_message();
            self.begin_message(request);
        }
        match (request.stage, &request.recipient) {
            (Stage::Recipient, Some(recipient)) => {
                let step = Step::Recipient(recipient.clone(), Answers::Always);
                self.steps.push_back(step);
            }
            _ => {
                // Who has asked about each recipient does not say them again.
                if !continues && request.earlier.is_empty() {
                    let nobody = || Mailbox::Written(Vec::new());
                    let recipient = request.recipient.clone().unwrap_or_else(nobody);
                    (self.steps).push_back(Step::Recipient(recipient, Answers::IfRefused));
                }
                request
                    .cut
                    .iter()
                    .for_each(|name| self.handler.mark_cut(name));
                for (name, value) in fields(&request.headers) {
                    self.handler.header(name, &value);
                }
                self.steps.push_back(Step::EndOfHeaders);
                if request.stage == Stage::Sender {
                    self.open = None;
                }
            }
        }
        self.run(out);
    }

    fn begin_message(&mut self, request: &Request) {
        let client = Client {
            host: &request.client_name,
            address: request.client,
            // Unlike mail that was submitted on this machine, it came by SMTP, whatever its name is.
            port: 1,
            family: Family::Inet,
        };
        let macros = Macros::default()
            .with("i", &request.queue_id)
            .with("mail_addr", &request.also)
            .with("auth_authen", &request.login);
        self.handler.connect(&client, &macros);
        self.handler.mail(request.sender.borrowed(), &macros);
        if request.has_refused {
            self.handler.mark_counted();
        }
        for recipient in &request.earlier {
            self.handler.accepted(recipient.borrowed());
        }
        self.open = (!request.instance.is_empty()).then(|| request.clone());
        self.macros = macros;
    }

    fn run(&mut self, out: &mut Vec<u8>) {
        while let Some(step) = self.steps.front() {
            let reply = match step {
                Step::Recipient(recipient, _) => {
                    self.handler.rcpt(recipient.borrowed(), &self.macros)
                }
                Step::EndOfHeaders => self.handler.end_of_headers(&self.macros),
            };
            if reply == Reply::Later {
                return;
            }
            self.note(&reply, out);
        }
    }

    fn note(&mut self, reply: &Reply, out: &mut Vec<u8>) {
        match self.steps.pop_front() {
            Some(Step::Recipient(_, Answers::IfRefused)) if reply.is_refusal() => {
                self.steps.clear();
                self.end_message(false);
                self.write(&Answer::of(reply, &[]), out);
            }
            Some(Step::Recipient(_, Answers::IfRefused)) | None => {}
            Some(Step::Recipient(recipient, Answers::Always)) => {
                match &mut self.open {
                    None => self.handler.abort(),
                    Some(open) if reply.is_refusal() || open.earlier.len() >= RECIPIENTS_MAX => {}
                    Some(open) => open.earlier.push(recipient),
                }
                self.write(&Answer::of(reply, &[]), out);
            }
            Some(Step::EndOfHeaders) => {
                let mut edits: Vec<Edit> = Vec::new();
                if *reply == Reply::Continue {
                    self.handler.end_of_message(&self.macros, &mut edits);
                }
                self.end_message(!reply.is_refusal());
                self.write(&Answer::of(reply, &edits), out);
            }
        }
    }

    fn end_message(&mut self, has_passed: bool) {
        self.has_passed = has_passed;
        let open = self.open.take();
        self.ended = open.map_or_else(Vec::new, |open| open.instance);
    }

    /// Ends the message of earlier requests: all its recipients were asked about, and its headers are
    /// not seen here. One whose recipients were all refused has ended with that.
    pub(super) fn finish_message(&mut self) {
        let is_waiting = self.is_waiting();
        let open = self.open.take().filter(|_| !is_waiting);
        if open.is_some_and(|open| !open.earlier.is_empty()) {
            self.handler.mark_unheard();
            let _ = self.handler.end_of_headers(&self.macros);
        }
        self.handler.abort();
        self.steps.clear();
    }

    fn write(&mut self, answer: &Answer, out: &mut Vec<u8>) {
        self.has_answered = true;
        (self.protocol.write)(answer, self.http, out);
    }
}

/// The fields of a header block: the name, and the value with its folds as LF and white space.
fn fields(block: &[u8]) -> impl Iterator<Item = (&[u8], Vec<u8>)> {
    let mut lines = block
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .peekable();
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?;
            let mut value = Vec::new();
            let colon = memchr::memchr(b':', line);
            if let Some(colon) = colon {
                let first = line.get(colon + 1..).unwrap_or_default();
                value.extend_from_slice(first.strip_prefix(b" ").unwrap_or(first));
            }
            while let Some(more) =
                lines.next_if(|line| line.starts_with(b" ") || line.starts_with(b"\t"))
            {
                value.push(b'\n');
                value.extend_from_slice(more);
            }
            if let Some(name) = colon.and_then(|colon| line.get(..colon)) {
                return Some((name.trim_ascii_end(), value));
            }
        }
    })
}
