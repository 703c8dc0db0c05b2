//! The packets from which another session can continue.
//!
//! A restart passes each connection to the next process, which knows nothing about it. The protocol
//! itself describes the state of a session best: the result of the negotiation, then the commands
//! since then, as received.
//!
//! ```text
//!  [version, actions, steps] [D C] [D M] [D R]*        what the next process gets
//!                            ------ -----------
//!                            client   message, until its headers begin
//! ```
//!
//! Only packets that still matter are kept: accepted recipients, and nothing of a completed
//! message. From the first header to the end of the message there is no history. Mail servers send
//! that part without pauses, so it takes milliseconds.

use super::packet::write_packet;
use super::protocol::Command;

/// Enough for a thousand recipients with the longest addresses that SMTP allows. A message with
/// more has no history.
const HISTORY_BYTES_MAX: usize = 256 << 10;
/// A buffer that a message has made larger than this is freed.
const HISTORY_BYTES_KEPT: usize = 1 << 10;

/// The packets that still matter.
#[derive(Debug, Default)]
pub(super) struct History {
    packets: Vec<u8>,
    /// Where the packets of the client end.
    client: usize,
    /// Where the last command ends; the macros after it are for the next.
    command: usize,
    /// Whether MAIL is among them.
    has_mail: bool,
    /// Whether the last recipient is still unanswered.
    is_unanswered: bool,
    /// Whether a packet is missing that a continuation would need.
    has_gap: bool,
}

impl History {
    /// Returns the packets, unless one is missing.
    pub(super) fn packets(&self) -> Option<&[u8]> {
        (!self.has_gap && !self.is_unanswered).then_some(&self.packets)
    }

    /// Adds the macros for the next command.
    pub(super) fn macros(&mut self, payload: &[u8]) {
        match payload.first().and_then(|&code| Command::of_code(code)) {
            Some(Command::Connect) => self.end_client(),
            Some(_) | None if self.has_mail => {}
            Some(Command::Mail) => self.end_message(),
            // Outside a message, no other macros are needed.
            Some(_) | None => return,
        }
        self.push(Command::Macro, &[payload]);
    }

    pub(super) fn connect(&mut self, payload: &[u8]) {
        // Of what came before, keep only the macros that came just before this command.
        self.packets.drain(..self.command);
        self.has_mail = false;
        self.is_unanswered = false;
        self.has_gap = false;
        self.push(Command::Connect, &[payload]);
        self.client = self.packets.len();
        self.command = self.client;
    }

    pub(super) fn mail(&mut self, argument: &[u8]) {
        // Of an abandoned message, keep only the macros that came just before this MAIL.
        self.packets.drain(self.client..self.command);
        self.has_gap = false;
        self.has_mail = true;
        self.push(Command::Mail, &[argument, b"\0"]);
        self.command = self.packets.len();
    }

    pub(super) fn rcpt(&mut self, argument: &[u8]) {
        self.is_unanswered = true;
        self.push(Command::Rcpt, &[argument, b"\0"]);
    }

    /// Records the answer to the last recipient. A refused recipient and its macros are removed.
    pub(super) fn end_rcpt(&mut self, accepted: bool) {
        self.is_unanswered = false;
        if accepted {
            self.command = self.packets.len();
        } else {
            self.packets.truncate(self.command);
        }
    }

    /// Records that headers follow, which the history does not contain. It is not needed until the
    /// end of the message.
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

    /// Records the end of the message, for any reason.
    pub(super) fn end_message(&mut self) {
        self.forget_message();
        self.has_mail = false;
        self.is_unanswered = false;
        self.has_gap = false;
    }

    /// Records that the client has disconnected.
    pub(super) fn end_client(&mut self) {
        self.client = 0;
        self.end_message();
    }

    fn push(&mut self, command: Command, payload: &[&[u8]]) {
        /// The length of a packet's length field and code.
        const PREFIX_BYTES: usize = 5;
        let bytes = payload.iter().map(|part| part.len()).sum::<usize>() + PREFIX_BYTES;
        if self.packets.len() + bytes > HISTORY_BYTES_MAX {
            self.has_gap = true;
        } else {
            write_packet(&mut self.packets, command.code(), payload);
        }
    }
}
