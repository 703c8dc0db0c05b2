//! The interfaces of a mail server under test.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use super::site::Socket;
use super::smtp::{Mail, Reply, Smtp};
use super::{Scratch, end_processes_in, free_port, is_root, root, show_on_failure, until};

/// A port where nobody listens, for a server that passes no mail on.
pub(crate) const DISCARD: u16 = 9;

/// What a mail server does with mail while the milter does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenDown {
    Accept,
    Tempfail,
    Reject,
}

/// What every server has: a folder of its own, a port, and a folder with one file for each
/// delivered recipient. When dropped, it ends the processes that work below `queue`.
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    pub(crate) port: u16,
    pub(crate) mailbox: PathBuf,
    name: &'static str,
    queue: &'static str,
}

impl Place {
    /// Makes one, with these folders; they and the mailbox belong to `owner`.
    pub(crate) fn new(
        name: &'static str,
        queue: &'static str,
        owner: Option<(u32, u32)>,
        folders: &[&str],
    ) -> Self {
        let scratch = Scratch::new();
        let maildir = ["maildir", "maildir/new", "maildir/cur", "maildir/tmp"];
        for folder in maildir.iter().chain(folders) {
            let folder = scratch.at(folder);
            fs::create_dir_all(&folder).expect("a folder");
            if let Some((uid, gid)) = owner {
                chown(folder, Some(uid), Some(gid)).expect("root may");
            }
        }
        Self {
            mailbox: scratch.at("maildir/new"),
            port: free_port(),
            scratch,
            name,
            queue,
        }
    }

    /// Writes a file; in its text `@DIR@`, `@PORT@` and these names stand for something.
    pub(crate) fn write(&self, name: &str, text: &str, values: &[(&str, &str)]) -> PathBuf {
        let folder = self.scratch.path().to_str().expect("a plain path");
        let port = self.port.to_string();
        let fill =
            |text: String, (name, value): &(&str, &str)| text.replace(&format!("@{name}@"), value);
        let all = [("DIR", folder), ("PORT", &port)];
        let text = all.iter().chain(values).fold(text.to_owned(), fill);
        self.scratch.write(name, &text)
    }

    fn log(&self) -> String {
        let logs = ["mail.log", "log/mainlog", "log/rejectlog", "log/paniclog"];
        let read = |name| fs::read_to_string(self.scratch.at(name));
        logs.map(|name| read(name).unwrap_or_default()).concat()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        show_on_failure(self.name, &self.log());
        end_processes_in(&self.scratch.at(self.queue));
    }
}

/// Returns why a mail server cannot be started by this user, if it cannot.
pub(crate) fn no_root() -> Option<String> {
    (!is_root()).then(|| "starting a mail server takes root".to_owned())
}

/// Returns the folder into which `tests/run` has unpacked a server, which a variable may name.
pub(crate) fn unpacked(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| root("target").join(name), PathBuf::from)
}

/// Returns why an unpacked program cannot be started, if it is missing.
pub(crate) fn not_unpacked(program: &Path) -> Option<String> {
    let is_missing = !program.is_file();
    is_missing.then(|| format!("no {}: tests/run unpacks it", program.display()))
}

/// A running mail server with its own configuration, queue and port, which delivers every message
/// into a folder; it ends when it is dropped.
pub(crate) trait Mta: Sized {
    /// The name in `BLOCKLIST_MILTER_NEEDED` and in scenarios.
    const NAME: &str;

    /// Returns why the server cannot be started here, if it cannot.
    fn obstacle() -> Option<String>;

    /// Starts the server with one milter, and returns when it listens.
    fn start(milter: &Socket, when_down: WhenDown) -> Self;

    fn place(&self) -> &Place;

    /// Returns the number of messages in quarantine.
    fn held(&self) -> usize;

    /// Returns whether no message waits for delivery; those in quarantine do not count.
    fn idle(&self) -> bool;

    fn port(&self) -> u16 {
        self.place().port
    }

    fn mailbox(&self) -> &Path {
        &self.place().mailbox
    }

    fn log(&self) -> String {
        self.place().log()
    }

    fn session(&self) -> Box<dyn Session> {
        let (mut session, banner) = Smtp::open(self.port());
        if banner.code == 220 {
            let hello = session.say("EHLO client.test");
            assert_eq!(hello.code, 250, "{hello}");
        }
        Box::new(Greeted(session, banner))
    }

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
        let files = fs::read_dir(self.mailbox()).expect("the mailbox exists");
        let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
        files.sort();
        let read = |file| fs::read(file).expect("a delivered message");
        let messages = files.into_iter().map(read);
        let messages = messages.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        messages.filter(|message| message.contains(&line)).collect()
    }

    /// Checks that a message was not delivered, when the queue is idle.
    fn assert_nothing_delivered(&self, subject: &str) {
        until("an idle queue", || self.idle().then_some(()));
        let copies = self.copies(subject);
        assert_eq!(copies, Vec::<String>::new(), "{subject:?} was delivered");
    }

    /// Waits for a log line with all of these words, and returns it.
    fn logged(&self, words: &[&str]) -> String {
        until(&format!("a log line with {words:?}"), || {
            line_with(&self.log(), words)
        })
    }
}

/// Returns the first line of a log with all of these words.
pub(crate) fn line_with(log: &str, words: &[&str]) -> Option<String> {
    let mut lines = log.lines();
    let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
    line.map(str::to_owned)
}

/// A client's session with a server.
pub(crate) trait Session {
    /// Sends a message; returns the replies to MAIL, to each RCPT, and to the message if a recipient
    /// was accepted.
    fn send(&mut self, mail: &Mail) -> Vec<Reply>;

    /// Sends commands at once, and returns a reply to each; `None` without SMTP.
    fn say(&mut self, commands: &[String]) -> Option<Vec<Reply>>;

    fn quit(self: Box<Self>);
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
