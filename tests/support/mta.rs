//! The interface of a mail server under test.

use std::fs;
use std::path::Path;

use super::site::Socket;
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
