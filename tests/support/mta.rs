//! A mail server under test, whichever it is.

use std::fs;
use std::path::Path;

use super::site::Socket;
use super::until;

/// What a mail server does with mail while the milter cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenDown {
    Accept,
    Tempfail,
    Reject,
}

/// A running mail server with its own configuration, queue and port, which delivers every message
/// into a folder; it ends when it is dropped.
pub(crate) trait Mta: Sized {
    /// As in `BLOCKLIST_MILTER_NEEDED`.
    const NAME: &str;

    /// Why the server cannot be started here.
    fn obstacle() -> Option<String>;

    /// Starts it with one milter, and returns when it listens.
    fn start(milter: &Socket, when_down: WhenDown) -> Self;

    fn port(&self) -> u16;

    /// The folder with one file for each delivered recipient.
    fn mailbox(&self) -> &Path;

    /// How many messages lie in quarantine.
    fn held(&self) -> usize;

    /// Whether no message waits to be delivered; those in quarantine do not count.
    fn idle(&self) -> bool;

    fn log(&self) -> String;

    /// Every delivered copy of the message with this subject, as soon as there is one and nothing
    /// waits any more.
    fn delivered(&self, subject: &str) -> Vec<String> {
        until(&format!("delivery of {subject:?}"), || {
            let idle = self.idle();
            let copies = self.copies(subject);
            (idle && !copies.is_empty()).then_some(copies)
        })
    }

    /// The copies that are there now.
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

    /// Checks that a message did not come, once nothing waits any more.
    fn assert_nothing_delivered(&self, subject: &str) {
        until("an idle queue", || self.idle().then_some(()));
        assert_eq!(
            self.copies(subject),
            Vec::<String>::new(),
            "{subject:?} was delivered"
        );
    }

    /// Waits until the log has a line with every one of these words, and gives it.
    fn logged(&self, words: &[&str]) -> String {
        until(&format!("a log line with {words:?}"), || {
            self.log()
                .lines()
                .find(|line| words.iter().all(|word| line.contains(word)))
                .map(str::to_owned)
        })
    }
}
