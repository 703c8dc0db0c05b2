//! The interfaces of a mail server under test.

use std::fs;
use std::path::Path;

use super::site::Socket;
use super::smtp::{Mail, Reply, Smtp};
use super::until;

/// What a mail server does with mail while the milter does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenDown {
    Accept,
    Tempfail,
    Reject,
}

/// A running mail server with its own configuration, queue and port, which delivers every message
/// into a folder; it ends when it is dropped.
pub(crate) trait Mta: Sized {
    /// The name in `BLOCKLIST_MILTER_NEEDED`.
    const NAME: &str;

    /// Returns why the server cannot be started here, if it cannot.
    fn obstacle() -> Option<String>;

    /// Starts the server with one milter, and returns when it listens.
    fn start(milter: &Socket, when_down: WhenDown) -> Self;

    fn port(&self) -> u16;

    /// Returns the folder with one file for each delivered recipient.
    fn mailbox(&self) -> &Path;

    /// Returns the number of messages in quarantine.
    fn held(&self) -> usize;

    /// Returns whether no message waits for delivery; those in quarantine do not count.
    fn idle(&self) -> bool;

    fn log(&self) -> String;

    /// Returns every delivered copy of the message with this subject, when there is one and the
    /// queue is idle.
    fn delivered(&self, subject: &str) -> Vec<String> {
        until(&format!("delivery of {subject:?}"), || {
            let idle = self.idle();
            let copies = self.copies(subject);
            (idle && !copies.is_empty()).then_some(copies)
        })
    }

    /// Returns the copies that exist now.
    fn copies(&self, subject: &str) -> Vec<String> {
        let line = format!("\nSubject: {subject}\n");
        let mut files: Vec<_> = fs::read_dir(self.mailbox())
            .expect("the mailbox exists")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        files.sort();
        files
            .into_iter()
            .map(|file| {
                String::from_utf8_lossy(&fs::read(file).expect("a delivered message")).into_owned()
            })
            .filter(|message| message.contains(&line))
            .collect()
    }

    /// Checks that a message was not delivered, when the queue is idle.
    fn assert_nothing_delivered(&self, subject: &str) {
        until("an idle queue", || self.idle().then_some(()));
        assert_eq!(
            self.copies(subject),
            Vec::<String>::new(),
            "{subject:?} was delivered"
        );
    }

    /// Waits for a log line with all of these words, and returns it.
    fn logged(&self, words: &[&str]) -> String {
        until(&format!("a log line with {words:?}"), || {
            self.log()
                .lines()
                .find(|line| words.iter().all(|word| line.contains(word)))
                .map(str::to_owned)
        })
    }
}

/// What a scenario needs of a server, with or without SMTP.
pub(crate) trait Server: Sized {
    /// The name in `BLOCKLIST_MILTER_NEEDED` and in scenarios.
    const NAME: &str;

    /// Returns why the server cannot be started here, if it cannot.
    fn obstacle() -> Option<String>;

    /// Starts the server with one milter, and returns when it listens.
    fn start(milter: &Socket, when_down: WhenDown) -> Self;

    fn session(&self) -> Box<dyn Session>;

    /// Returns the number of messages in quarantine.
    fn held(&self) -> usize;

    /// Returns whether no message waits for delivery; those in quarantine do not count.
    fn idle(&self) -> bool;

    /// Returns the copies of the message with this subject that were delivered until now.
    fn copies(&self, subject: &str) -> Vec<String>;
}

/// A client's session with a [`Server`].
pub(crate) trait Session {
    /// Sends a message; returns the replies to MAIL, to each RCPT, and to the message if a recipient
    /// was accepted.
    fn send(&mut self, mail: &Mail) -> Vec<Reply>;

    /// Sends commands at once, and returns a reply to each; `None` without SMTP.
    fn say(&mut self, commands: &[String]) -> Option<Vec<Reply>>;

    fn quit(self: Box<Self>);
}

impl<M: Mta> Server for M {
    const NAME: &str = M::NAME;

    fn obstacle() -> Option<String> {
        M::obstacle()
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
        M::start(milter, when_down)
    }

    fn session(&self) -> Box<dyn Session> {
        let (mut session, banner) = Smtp::open(self.port());
        if banner.code == 220 {
            let hello = session.say("EHLO client.test");
            assert_eq!(hello.code, 250, "{hello}");
        }
        Box::new(Greeted(session, banner))
    }

    fn held(&self) -> usize {
        Mta::held(self)
    }

    fn idle(&self) -> bool {
        Mta::idle(self)
    }

    fn copies(&self, subject: &str) -> Vec<String> {
        Mta::copies(self, subject)
    }
}

/// A session, and the banner with which it began. After a refusal there, every command is refused.
struct Greeted(Smtp, Reply);

impl Session for Greeted {
    fn send(&mut self, mail: &Mail) -> Vec<Reply> {
        if self.1.code != 220 {
            return vec![self.1.clone()];
        }
        let sent = self.0.send(mail);
        let before = [sent.mail].into_iter().chain(sent.recipients);
        before.chain(sent.end).collect()
    }

    fn say(&mut self, commands: &[String]) -> Option<Vec<Reply>> {
        Some(self.0.say_at_once(commands))
    }

    fn quit(self: Box<Self>) {
        self.0.quit();
    }
}
