//! A small SMTP client (RFC 5321) that keeps every reply.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// A server that does not answer for this long has failed the test.
const SILENCE: Duration = Duration::from_secs(60);

/// One reply: its code, and all of its lines as received, joined by LF.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Reply {
    /// # Panics
    /// If the text does not begin with a code.
    pub(crate) fn new(text: String) -> Self {
        let code = text.get(..3).and_then(|code| code.parse().ok());
        let code = code.unwrap_or_else(|| panic!("not an SMTP reply: {text}"));
        Self { code, text }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A message with its envelope, innocent unless a test changes something.
#[derive(Debug, Clone)]
pub(crate) struct Mail {
    /// The argument of `MAIL FROM:`, as sent.
    pub(crate) from: String,
    pub(crate) recipients: Vec<String>,
    /// The header, with each line ended by CRLF; without Subject.
    pub(crate) header: String,
    /// Identifies the message among the delivered mail.
    pub(crate) subject: String,
    pub(crate) body: String,
}

impl Mail {
    /// Returns a message from an address on no list.
    pub(crate) fn innocent(subject: &str) -> Self {
        Self {
            from: "<innocent@elsewhere.test>".into(),
            recipients: vec!["<reader@local.test>".into()],
            header: "From: Innocent <innocent@elsewhere.test>\r\nTo: reader@local.test\r\n".into(),
            subject: subject.into(),
            body: "Nothing here is of interest.\r\n".into(),
        }
    }

    pub(crate) fn from(mut self, argument: &str) -> Self {
        self.from = argument.into();
        self
    }

    pub(crate) fn to(mut self, recipients: &[&str]) -> Self {
        self.recipients = recipients
            .iter()
            .map(|&recipient| recipient.to_owned())
            .collect();
        self
    }

    /// Replaces the header.
    pub(crate) fn header(mut self, header: &str) -> Self {
        self.header = header.into();
        self
    }

    /// Returns header and body as sent, dot-stuffed, with the final dot.
    fn content(&self) -> String {
        let whole = format!(
            "{}Subject: {}\r\n\r\n{}",
            self.header, self.subject, self.body
        );
        let stuffed = whole.replace("\r\n.", "\r\n..");
        format!("{stuffed}.\r\n")
    }
}

/// The server's replies to one message, step by step; after a refusal the later steps are missing.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) mail: Reply,
    pub(crate) recipients: Vec<Reply>,
    pub(crate) end: Option<Reply>,
}

impl Sent {
    pub(crate) fn accepted(&self) -> bool {
        self.end.as_ref().is_some_and(|reply| reply.code == 250)
    }

    /// Returns the last reply, which is the result for the sender.
    pub(crate) fn last(&self) -> &Reply {
        self.end
            .as_ref()
            .or_else(|| self.recipients.last())
            .unwrap_or(&self.mail)
    }
}

/// One SMTP session.
pub(crate) struct Smtp {
    stream: BufReader<TcpStream>,
}

impl Smtp {
    /// Connects to 127.0.0.1, and returns the banner too.
    pub(crate) fn open(port: u16) -> (Self, Reply) {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
        stream
            .set_read_timeout(Some(SILENCE))
            .expect("a limit above zero");
        let mut session = Self {
            stream: BufReader::new(stream),
        };
        let banner = session.reply();
        (session, banner)
    }

    /// Connects and sends EHLO.
    pub(crate) fn connect(port: u16) -> Self {
        let (mut session, banner) = Self::open(port);
        assert_eq!(banner.code, 220, "{banner}");
        let hello = session.say("EHLO client.test");
        assert_eq!(hello.code, 250, "{hello}");
        session
    }

    /// Sends one command and waits for its reply.
    pub(crate) fn say(&mut self, command: &str) -> Reply {
        self.write(&format!("{command}\r\n"));
        self.reply()
    }

    /// Sends all commands at once (RFC 2920) and then waits for a reply to each.
    pub(crate) fn say_at_once(&mut self, commands: &[String]) -> Vec<Reply> {
        self.write(
            &commands
                .iter()
                .map(|command| format!("{command}\r\n"))
                .collect::<String>(),
        );
        commands.iter().map(|_| self.reply()).collect()
    }

    /// Sends bytes unchanged, and waits for this number of replies.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8], replies: usize) -> Vec<Reply> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).expect("the server reads");
        (0..replies).map(|_| self.reply()).collect()
    }

    /// Delivers a message; after a refusal the session is ready for the next one.
    pub(crate) fn send(&mut self, mail: &Mail) -> Sent {
        self.send_with(mail, "")
    }

    /// Like [`Self::send`], with parameters of MAIL FROM such as `SMTPUTF8`.
    pub(crate) fn send_with(&mut self, mail: &Mail, parameters: &str) -> Sent {
        let space = if parameters.is_empty() { "" } else { " " };
        let reply = self.say(&format!("MAIL FROM:{}{space}{parameters}", mail.from));
        let mut sent = Sent {
            mail: reply,
            recipients: Vec::new(),
            end: None,
        };
        if sent.mail.code != 250 {
            return sent;
        }
        for recipient in &mail.recipients {
            sent.recipients
                .push(self.say(&format!("RCPT TO:{recipient}")));
        }
        if sent.recipients.iter().all(|reply| reply.code != 250) {
            assert_eq!(self.say("RSET").code, 250);
            return sent;
        }
        let data = self.say("DATA");
        if data.code == 354 {
            self.write(&mail.content());
            sent.end = Some(self.reply());
        } else {
            sent.end = Some(data);
        }
        sent
    }

    pub(crate) fn quit(mut self) {
        let reply = self.say("QUIT");
        assert_eq!(reply.code, 221, "{reply}");
    }

    fn write(&mut self, text: &str) {
        self.stream
            .get_mut()
            .write_all(text.as_bytes())
            .expect("the server reads");
    }

    fn reply(&mut self) -> Reply {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            self.stream
                .read_until(b'\n', &mut line)
                .expect("the server answers");
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            assert!(line.len() >= 3, "the server hung up after {lines:?}");
            let more = line.as_bytes().get(3) == Some(&b'-');
            lines.push(line);
            if !more {
                break;
            }
        }
        Reply::new(lines.join("\n"))
    }
}

/// Sends one message in a separate session.
pub(crate) fn send(port: u16, mail: &Mail) -> Sent {
    let mut session = Smtp::connect(port);
    let sent = session.send(mail);
    session.quit();
    sent
}
