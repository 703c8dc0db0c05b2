//! A mail server without SMTP: it takes whole messages, asks the daemon as Postfix does, and keeps
//! what it accepts in a folder. So the scenarios can be played without root.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use blocklist_milter::demo::peer::{Answer, Change, Peer, TestMail};

use super::mta::{Mta, Place, Session, WhenDown};
use super::site::Socket;
use super::smtp::{Mail, Reply};

pub(crate) struct Player {
    milter: Socket,
    place: Place,
    kept: Arc<Kept>,
}

/// What was accepted.
struct Kept {
    mailbox: PathBuf,
    delivered: AtomicUsize,
    held: AtomicUsize,
}

impl Mta for Player {
    const NAME: &str = "player";

    fn obstacle() -> Option<String> {
        None
    }

    fn start(milter: &Socket, _: WhenDown) -> Self {
        let place = Place::new("player", "maildir", None, &[]);
        let kept = Kept {
            mailbox: place.mailbox.clone(),
            delivered: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
        };
        Self {
            milter: milter.clone(),
            place,
            kept: Arc::new(kept),
        }
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn session(&self) -> Box<dyn Session> {
        let peer = match &self.milter {
            Socket::Unix(path) => Peer::unix(path),
            Socket::Inet(port) => {
                let at = format!("inet:{port}@127.0.0.1");
                Peer::connect(&at.parse().expect("an address"))
            }
        };
        let mut peer = peer.expect("the daemon listens");
        let client = Ipv4Addr::LOCALHOST.into();
        peer.client(client, 51_234).expect("the daemon answers");
        let kept = Arc::clone(&self.kept);
        Box::new(Connection { peer, kept })
    }

    fn held(&self) -> usize {
        self.kept.held.load(SeqCst)
    }

    fn idle(&self) -> bool {
        true
    }
}

struct Connection {
    peer: Peer,
    kept: Arc<Kept>,
}

impl Session for Connection {
    fn send(&mut self, mail: &Mail) -> Vec<Reply> {
        let mut fields = fields(&mail.header);
        fields.push(Field::new(&format!("Subject: {}", mail.subject)));
        let bytes = |text: &String| text.clone().into_bytes();
        let message = TestMail {
            mail_from: bytes(&mail.from),
            recipients: mail.recipients.iter().map(bytes).collect(),
            headers: fields
                .iter()
                .map(|field| (bytes(&field.name), bytes(&field.value)))
                .collect(),
            ..TestMail::default()
        };
        let done = self.peer.deliver(&message).expect("the daemon answers");
        let mut replies = vec![reply(&Answer::Continue)];
        replies.extend(done.recipients.iter().map(reply));
        let Some(answer) = &done.message else {
            return replies;
        };
        replies.push(reply(answer));
        if answer.refuses() || *answer == Answer::Discard {
            return replies;
        }
        let mut changes = done.changes.iter();
        if changes.any(|change| matches!(change, Change::Quarantined(_))) {
            self.kept.held.fetch_add(1, SeqCst);
            return replies;
        }
        for change in &done.changes {
            apply(&mut fields, change);
        }
        let header: String = fields.into_iter().map(|field| field.text).collect();
        let text = format!("{header}\n{}", mail.body.replace("\r\n", "\n"));
        for (recipient, answer) in mail.recipients.iter().zip(&done.recipients) {
            if !answer.refuses() {
                let to = recipient.trim_matches(['<', '>']);
                let number = self.kept.delivered.fetch_add(1, SeqCst);
                let file = self.kept.mailbox.join(format!("{number:06}"));
                fs::write(file, format!("Delivered-To: {to}\n{text}")).expect("our own folder");
            }
        }
        replies
    }

    fn say(&mut self, _: &[String]) -> Option<Vec<Reply>> {
        None
    }

    fn quit(self: Box<Self>) {
        self.peer.quit().expect("nothing is left over");
    }
}

/// A field of a header.
struct Field {
    name: String,
    /// As Postfix passes it: without the blank after the colon, and with LF in folds.
    value: String,
    /// As it will be delivered; empty if it was deleted, so that the numbers of others stay.
    text: String,
}

impl Field {
    fn new(text: &str) -> Self {
        let (name, value) = text.split_once(':').expect("a field");
        let value = value.strip_prefix(' ').unwrap_or(value);
        Self {
            name: name.trim_end().to_owned(),
            value: value.to_owned(),
            text: format!("{text}\n"),
        }
    }
}

fn fields(header: &str) -> Vec<Field> {
    let unfolded = header.replace("\r\n", "\n");
    let mut texts: Vec<String> = Vec::new();
    for line in unfolded.lines() {
        match texts.last_mut() {
            Some(text) if line.starts_with([' ', '\t']) => *text += &format!("\n{line}"),
            _ => texts.push(line.to_owned()),
        }
    }
    texts.iter().map(|text| Field::new(text)).collect()
}

fn apply(fields: &mut Vec<Field>, change: &Change) {
    match change {
        Change::Added(name, value) => fields.push(Field::new(&format!("{name}: {value}"))),
        Change::Changed(index, name, value) => {
            let number = usize::try_from(*index).expect("a small number").max(1) - 1;
            let mut same = fields
                .iter_mut()
                .filter(|field| field.name.eq_ignore_ascii_case(name));
            let field = same.nth(number).expect("a field that was sent");
            field.text = match value.as_str() {
                "" => String::new(),
                value => format!("{name}: {value}\n"),
            };
        }
        Change::Quarantined(_) => {}
    }
}

/// Returns what the client gets for an answer of the daemon.
fn reply(answer: &Answer) -> Reply {
    let text = match answer {
        Answer::Continue | Answer::Accept | Answer::Discard => "250 2.0.0 Ok".to_owned(),
        Answer::Reject => "550 5.7.1 Command rejected".to_owned(),
        Answer::Tempfail => "451 4.7.1 Try again later".to_owned(),
        Answer::Text(text) => text.replace("\r\n", "\n"),
    };
    Reply::new(text)
}
