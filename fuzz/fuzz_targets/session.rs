//! One connection of a mail server: the first byte says how the rest is split into pieces.
//!
//! Nothing may panic; all at once and in pieces must give the same. A command that waits for an
//! answer gets one, and no other does: neither macros, ABORT and QUIT, nor a step that was agreed
//! to have none.
//! `cargo fuzz run --sanitizer none session`
#![no_main]

use blocklist_milter::milter::{
    Client, Edit, Handler, MacroLists, MacroStage, Macros, Mailbox, Reply, ReplyText, Session, Status,
};
use libfuzzer_sys::fuzz_target;
use std::task::{Context, Poll, Waker};

/// Answers depending on its input, and keeps a checksum of it.
#[derive(Default)]
struct Any(u64);

impl Any {
    fn note(&mut self, bytes: &[u8]) -> Reply {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        match self.0 % 16 {
            0 => Reply::Accept,
            1 => Reply::Reject,
            2 => Reply::Tempfail,
            3 => Reply::Discard,
            5 => Reply::Later,
            4 => ReplyText::new(550, "5.7.1", &["no"]).map_or(Reply::Reject, Reply::Text),
            _ => Reply::Continue,
        }
    }
}

impl Handler for Any {
    fn macros(&self) -> MacroLists {
        &[(MacroStage::Mail, &["i", "auth_authen"])]
    }

    fn connect(&mut self, client: &Client<'_>, macros: &Macros) {
        self.note(client.host);
        self.note(macros.get("i").unwrap_or_default());
    }

    fn mail(&mut self, sender: Mailbox<&[u8]>, macros: &Macros) {
        self.note(&sender.written());
        self.note(macros.get("auth_authen").unwrap_or_default());
    }

    fn rcpt(&mut self, recipient: Mailbox<&[u8]>, _: &Macros) -> Reply {
        self.note(&recipient.written())
    }

    fn header(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.note(name);
        self.note(value);
        true
    }

    fn end_of_headers(&mut self, _: &Macros) -> Reply {
        self.note(b"N")
    }

    fn end_of_message(&mut self, macros: &Macros, edits: &mut Vec<Edit>) -> Reply {
        let value = macros.get("i").unwrap_or_default().to_vec();
        edits.push(Edit::AddHeader {
            name: "X-A".to_owned(),
            value,
        });
        match self.note(b"E") {
            // Only the steps before it can wait.
            Reply::Later => Reply::Continue,
            reply => reply,
        }
    }

    fn abort(&mut self) {
        self.note(b"A");
    }

    fn poll_later(&mut self, _: &mut Context<'_>) -> Poll<Reply> {
        match self.note(b"?") {
            Reply::Later => Poll::Pending,
            reply => Poll::Ready(reply),
        }
    }
}

/// Plays the stream in pieces. Returns what was sent, how it ended, and a checksum of the calls.
fn play(stream: &[u8], size: usize) -> (Vec<u8>, Option<bool>, u64) {
    let mut session = Session::new(Any::default());
    let mut sent = Vec::new();
    for mut piece in stream.chunks(size) {
        while !piece.is_empty() {
            let mut out = Vec::new();
            let result = session.receive(piece, &mut out);
            sent.extend(out);
            match result {
                Err(_) => return (sent, Some(false), session.handler().0),
                Ok(progress) if progress.status == Status::Quit => {
                    return (sent, Some(true), session.handler().0);
                }
                Ok(progress) => piece = &piece[progress.taken..],
            }
            let cx = &mut Context::from_waker(Waker::noop());
            let mut out = Vec::new();
            // Limited, because an unchanging checksum would be polled forever.
            for _ in 0..100 {
                if session.poll_answer(cx, &mut out).is_ready() {
                    break;
                }
            }
            sent.extend(out);
            if session.is_waiting() {
                return (sent, None, session.handler().0);
            }
        }
    }
    (sent, None, session.handler().0)
}

/// Returns whether the server waits for an answer. Written independently of the code, from the
/// table of the protocol.
fn is_awaited(letter: u8, steps: u32) -> bool {
    match letter {
        b'A' | b'D' | b'K' | b'Q' => false,
        b'C' => steps & 0x1000 == 0,
        b'H' => steps & 0x2000 == 0,
        b'M' => steps & 0x4000 == 0,
        b'R' => steps & 0x8000 == 0,
        b'T' => steps & 0x1_0000 == 0,
        b'U' => steps & 0x2_0000 == 0,
        b'N' => steps & 0x4_0000 == 0,
        b'B' => steps & 0x8_0000 == 0,
        b'L' => steps & 0x80 == 0,
        _ => true,
    }
}

/// Returns the letters of the answers, without changes to the message; stores the agreed steps in
/// `steps`.
fn answers(mut sent: &[u8], steps: &mut u32) -> Vec<u8> {
    let mut letters = Vec::new();
    while let Some((length, rest)) = sent.split_first_chunk() {
        let (packet, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        sent = rest;
        match packet[0] {
            b'h' | b'i' | b'm' | b'q' => continue,
            b'O' => *steps = u32::from_be_bytes(*packet[9..].first_chunk().expect("three numbers")),
            _ => {}
        }
        letters.push(packet[0]);
    }
    assert!(sent.is_empty(), "whole packets are sent");
    letters
}

/// Plays the stream command by command, and counts the answers to each.
fn count_answers(stream: &[u8]) {
    let mut session = Session::new(Any::default());
    let (mut rest, mut steps) = (stream, 0);
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some(&letter) = behind.get(..length).and_then(<[u8]>::first) else {
            return;
        };
        let (mut packet, behind) = rest.split_at(4 + length);
        rest = behind;
        let mut out = Vec::new();
        while !packet.is_empty() {
            match session.receive(packet, &mut out) {
                Err(_) => return assert!(out.is_empty(), "an end is no answer"),
                Ok(progress) if progress.status == Status::Quit => {
                    return assert!(out.is_empty(), "QUIT is not answered");
                }
                Ok(progress) => packet = &packet[progress.taken..],
            }
            let cx = &mut Context::from_waker(Waker::noop());
            let mut polls = 0;
            while session.poll_answer(cx, &mut out).is_pending() {
                polls += 1;
                if polls > 100 {
                    return;
                }
            }
        }
        let letters = answers(&out, &mut steps);
        let expected = usize::from(is_awaited(letter, steps));
        assert_eq!(
            letters.len(),
            expected,
            "{letters:?} to {:?}",
            char::from(letter)
        );
    }
}

fuzz_target!(|data: &[u8]| {
    if let Some((size, stream)) = data.split_first() {
        let expected = play(stream, usize::MAX);
        assert_eq!(play(stream, usize::from(*size) + 1), expected);
        count_answers(stream);
    }
});
