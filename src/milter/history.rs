//! The packets from which another session can continue.
//!
//! A restart passes each connection to the next process. The protocol itself describes the state of
//! a session best: the result of the negotiation, then the commands since then, as received. What is
//! not yet answered comes last, behind a packet that has no other meaning there.
//!
//! ```text
//!  [version, actions, steps] [D C][C]  [D M][M] ([D R][R])* [L]* [D N][N]  [O skip lost] bytes
//!                            ------    ---------------------------------   -------------------
//!                            client    message: answered, or without       if there is more: what
//!                                      answers                             was read after that
//! ```
//!
//! * Only what the handler needs to decide again is kept: of a recipient, what
//!   [`Handler::recipient_to_keep`](super::Handler::recipient_to_keep) returns; of the headers,
//!   those that [`Handler::header`](super::Handler::header) asks for; of the macros between two
//!   commands, the last packet; nothing of a refused recipient and of a completed message.
//! * `bytes`: the command whose answer is pending, an incomplete packet, and input that was read
//!   but not processed. Before them, `skip` bytes (`u32`) belong to a packet whose end is not
//!   wanted.
//! * `lost` (one byte, 1): the message has parts that were too much to keep.
//! * A connection without a negotiation has version 0.
//!
//! This is read by later and earlier versions of this program. They refuse a history with a packet
//! that they do not know.

use super::packet::write_packet;
use super::protocol::Command;

/// Most bytes of a history. What would exceed it is lost.
const HISTORY_BYTES_MAX: usize = RECIPIENTS_BYTES_MAX + (256 << 10);
/// With more bytes, further recipients are refused, if possible. This is enough for a thousand with
/// the longest addresses that SMTP allows (256 bytes, RFC 5321 section 4.5.3.1.3), each as the client
/// and as the server writes it.
const RECIPIENTS_BYTES_MAX: usize = 640 << 10;
/// A buffer that a message has made larger than this is freed.
const HISTORY_BYTES_KEPT: usize = 1024;
/// A larger buffer grows by this much: doubled, it would be the largest part of a connection.
const GROWTH_BYTES: usize = 64 << 10;

/// The packets that still matter.
#[derive(Debug, Default)]
pub(super) struct History {
    packets: Vec<u8>,
    /// Where the packets of the client end.
    client: usize,
    /// Where the last command ends; the macros after it are for the next.
    command: usize,
    /// Where the command begins whose answer is pending.
    pending: Option<usize>,
    has_mail: bool,
    pub(super) is_lost: bool,
}

impl History {
    /// Returns the packets of finished commands, and the one whose answer is pending.
    pub(super) fn packets(&self) -> (&[u8], &[u8]) {
        let end = self.pending.unwrap_or(self.packets.len());
        self.packets.split_at_checked(end).unwrap_or_default()
    }

    pub(super) fn macros(&mut self, payload: &[u8]) {
        match payload.first().and_then(|&code| Command::of_code(code)) {
            Some(Command::Connect) => self.end_client(),
            Some(_) | None if self.has_mail => self.packets.truncate(self.command),
            Some(Command::Mail) => self.end_message(),
            // Outside a message, no other macros are needed.
            Some(_) | None => return,
        }
        self.push_if_it_fits(Command::Macro, payload);
    }

    pub(super) fn connect(&mut self, payload: &[u8]) {
        // Of what came before, keep only the macros that came just before this command.
        self.packets.drain(..self.command);
        self.begin(false);
        self.push(Command::Connect, &[payload]);
        self.client = self.packets.len();
        self.command = self.client;
    }

    pub(super) fn mail(&mut self, argument: &[u8]) {
        // Of an abandoned message, keep only the macros that came just before this MAIL.
        self.packets.drain(self.client..self.command);
        self.begin(true);
        self.push(Command::Mail, &[argument, b"\0"]);
        self.command = self.packets.len();
    }

    pub(super) fn has_space(&self, bytes: usize) -> bool {
        self.packets.len() + bytes < RECIPIENTS_BYTES_MAX
    }

    pub(super) fn rcpt(&mut self, argument: &[u8]) {
        self.pending = Some(self.packets.len());
        self.push(Command::Rcpt, &[argument, b"\0"]);
    }

    pub(super) fn header(&mut self, payload: &[u8]) {
        self.packets.truncate(self.command);
        self.push_if_it_fits(Command::Header, payload);
        self.command = self.packets.len();
    }

    pub(super) fn end_of_headers(&mut self, command: Command) {
        self.pending = Some(self.packets.len());
        self.push(command, &[]);
    }

    /// Records the answer to a command. Only an accepted recipient and the end of the headers are
    /// kept, with their macros.
    pub(super) fn end_command(&mut self, accepted: bool) {
        if self.pending.take().is_some() && accepted {
            if self.packets.len() <= HISTORY_BYTES_MAX {
                self.command = self.packets.len();
            } else {
                self.is_lost = true;
            }
        }
        self.packets.truncate(self.command);
    }

    pub(super) fn end_message(&mut self) {
        self.packets.truncate(self.client);
        if self.packets.capacity() > HISTORY_BYTES_KEPT {
            self.packets.shrink_to_fit();
        }
        self.command = self.client;
        self.begin(false);
    }

    pub(super) fn end_client(&mut self) {
        self.client = 0;
        self.end_message();
    }

    fn begin(&mut self, has_mail: bool) {
        self.has_mail = has_mail;
        self.pending = None;
        self.is_lost = false;
    }

    fn push_if_it_fits(&mut self, command: Command, payload: &[u8]) {
        if self.packets.len() + payload.len() < HISTORY_BYTES_MAX {
            self.push(command, &[payload]);
        } else {
            self.is_lost = true;
        }
    }

    fn push(&mut self, command: Command, payload: &[&[u8]]) {
        let bytes = payload.iter().map(|part| part.len()).sum::<usize>() + 5;
        if self.packets.capacity() >= GROWTH_BYTES {
            let free = self.packets.capacity() - self.packets.len();
            if free < bytes {
                self.packets.reserve_exact(bytes.max(GROWTH_BYTES));
            }
        }
        write_packet(&mut self.packets, command.code(), payload);
    }
}
