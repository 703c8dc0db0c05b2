//! What a mail server has said that still counts: enough to bring another session to the
//! same point.
//!
//! A restart hands each connection to the next process, which knows nothing of it. The
//! protocol itself is the best description of where a session stands: what was agreed,
//! then the commands since, as they came.
//!
//! ```text
//!  [version, actions, steps] [D C] [D M] [D R]*        what the next process is given
//!                            ------ -----------
//!                            client   message, until its headers begin
//! ```
//!
//! Only what counts is kept: recipients that were accepted, and nothing of a message that
//! is over. Once headers have come there is no history until the message has ended: mail
//! servers send them in one go, so that this takes milliseconds.

use super::packet::write_packet;
use super::protocol::Command;

/// A thousand recipients with the longest addresses that SMTP allows. A message with more
/// has no history.
const HISTORY_BYTES_MAX: usize = 256 << 10;
/// What a message leaves behind is given back when it was more than this.
const HISTORY_BYTES_KEPT: usize = 1 << 10;

/// The packets that still count.
#[derive(Debug, Default)]
pub(super) struct History {
    packets: Vec<u8>,
    /// Where those of the client end.
    client: usize,
    /// Where the last command ends; what follows are macros for the next.
    command: usize,
    /// MAIL is among them.
    has_mail: bool,
    /// The last recipient has no answer yet.
    is_asked: bool,
    /// Something came that is not among them and would be missed.
    has_gap: bool,
}

impl History {
    /// The packets, unless one is missing.
    pub(super) fn packets(&self) -> Option<&[u8]> {
        (!self.has_gap && !self.is_asked).then_some(&self.packets)
    }

    /// Macros for the command that follows.
    pub(super) fn macros(&mut self, payload: &[u8]) {
        match payload.first().and_then(|&code| Command::of_code(code)) {
            Some(Command::Connect) => self.end_client(),
            Some(_) | None if self.has_mail => {}
            Some(Command::Mail) => self.end_message(),
            // Outside of a message nothing else is asked for.
            Some(_) | None => return,
        }
        self.push(Command::Macro, &[payload]);
    }

    pub(super) fn connect(&mut self, payload: &[u8]) {
        if self.client > 0 {
            self.end_client();
        }
        self.push(Command::Connect, &[payload]);
        self.client = self.packets.len();
        self.command = self.client;
    }

    pub(super) fn mail(&mut self, argument: &[u8]) {
        // Of a message that was given up without a word only what came just before stays.
        self.packets.drain(self.client..self.command);
        self.has_gap = false;
        self.has_mail = true;
        self.push(Command::Mail, &[argument, b"\0"]);
        self.command = self.packets.len();
    }

    pub(super) fn rcpt(&mut self, argument: &[u8]) {
        self.is_asked = true;
        self.push(Command::Rcpt, &[argument, b"\0"]);
    }

    /// The last recipient was answered. One that was refused counts no more, nor do its
    /// macros.
    pub(super) fn end_rcpt(&mut self, accepted: bool) {
        self.is_asked = false;
        if accepted {
            self.command = self.packets.len();
        } else {
            self.packets.truncate(self.command);
        }
    }

    /// From here on the message is more than its history, which nobody needs until it is over.
    pub(super) fn begin_headers(&mut self) {
        self.has_gap = true;
        self.forget_message();
    }

    fn forget_message(&mut self) {
        self.packets.truncate(self.client);
        if self.packets.capacity() > HISTORY_BYTES_KEPT {
            self.packets.shrink_to_fit();
        }
        self.command = self.client;
    }

    /// The message is over, in whatever way.
    pub(super) fn end_message(&mut self) {
        self.forget_message();
        self.has_mail = false;
        self.is_asked = false;
        self.has_gap = false;
    }

    /// The client is gone.
    pub(super) fn end_client(&mut self) {
        self.client = 0;
        self.end_message();
    }

    fn push(&mut self, command: Command, payload: &[&[u8]]) {
        /// A packet's length and its code.
        const PREFIX_BYTES: usize = 5;
        let bytes = payload.iter().map(|part| part.len()).sum::<usize>() + PREFIX_BYTES;
        if self.packets.len() + bytes > HISTORY_BYTES_MAX {
            self.has_gap = true;
        } else {
            write_packet(&mut self.packets, command.code(), payload);
        }
    }
}
