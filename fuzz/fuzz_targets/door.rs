//! One connection of policy delegation, a socketmap or rspamd: the first byte says which, and how the rest is split
//! into pieces.
//!
//! Nothing may panic; all at once and in pieces must give the same answers.
//! `cargo fuzz run --sanitizer none door`
#![no_main]

use blocklist_milter::door::Conversation;
use blocklist_milter::endpoint::Door;
use blocklist_milter::milter::{Edit, Handler, Macros, Mailbox, Reply, Status};
use libfuzzer_sys::fuzz_target;
use std::task::{Context, Poll, Waker};

/// Answers depending on its input.
#[derive(Default)]
struct Any(u64);

impl Any {
    fn note(&mut self, bytes: &[u8]) -> Reply {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        match self.0 % 8 {
            0 => Reply::Accept,
            1 => Reply::Reject,
            2 => Reply::Tempfail,
            3 => Reply::Discard,
            4 => Reply::Later,
            _ => Reply::Continue,
        }
    }
}

impl Handler for Any {
    fn mail(&mut self, sender: Mailbox<&[u8]>, _: &Macros) {
        self.note(&sender.written());
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

    fn end_of_message(&mut self, _: &Macros, edits: &mut Vec<Edit>) -> Reply {
        edits.push(Edit::Quarantine(self.0.to_string()));
        Reply::Accept
    }

    fn poll_later(&mut self, _: &mut Context<'_>) -> Poll<Reply> {
        Poll::Ready(Reply::Tempfail)
    }
}

/// Returns the answers, and whether the connection stays open.
fn play(door: Door, pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<u8>, bool) {
    let mut session = Conversation::new(door, Any::default());
    let mut out = Vec::new();
    let cx = &mut Context::from_waker(Waker::noop());
    for piece in pieces {
        let mut status = match session.receive_up_to(usize::MAX, piece, &mut out) {
            Ok(progress) => progress.status,
            Err(_) => return (out, false),
        };
        while status == Status::Waiting {
            assert!(session.poll_answer(cx, &mut out).is_ready());
            status = match session.receive_up_to(usize::MAX, &[], &mut out) {
                Ok(progress) => progress.status,
                Err(_) => return (out, false),
            };
        }
    }
    session.close();
    (out, true)
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, input)) = input.split_first() else {
        return;
    };
    let door = [Door::Policy, Door::SocketMap, Door::Rspamd][usize::from(first % 3)];
    let size = usize::from(first / 3 % 16 + 1);
    let whole = play(door, &mut std::iter::once(input));
    assert_eq!(play(door, &mut input.chunks(size)), whole);
});
