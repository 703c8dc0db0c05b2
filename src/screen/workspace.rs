//! Memory that a message needs between MAIL and its verdict, and no connection between two messages.
//!
//! A mail server keeps thousands of connections open, most of which wait for their client. So a connection borrows this
//! memory from its thread for a message, and the thread keeps some of it for the next one: an ordinary message
//! allocates nothing here, whichever connection it comes over.

use std::cell::RefCell;

use crate::policy::Scratch;
use crate::sender::Senders;

/// How much a thread keeps, in messages: as many as begin before one of them ends, or more. Each takes three to ten KiB.
const KEPT: usize = 32;

thread_local! {
    /// Borrowed for a moment, never across a message.
    #[allow(clippy::vec_box, reason = "a message holds its own in a box")]
    static SPARE: RefCell<Vec<Box<Workspace>>> = const { RefCell::new(Vec::new()) };
}

/// The senders of a message, and memory for their canonical forms.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) senders: Senders,
    pub(super) scratch: Scratch,
}

impl Workspace {
    /// Without any senders.
    pub(super) fn borrow() -> Box<Self> {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        spare.unwrap_or_default()
    }

    /// For the next message of this thread, which need not be the one that it was borrowed of.
    pub(super) fn give_back(mut self: Box<Self>) {
        self.senders.clear();
        self.scratch.give_back();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < KEPT {
                spare.push(self);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::Identity;

    #[test]
    fn a_message_finds_nothing_of_the_one_before() {
        for address in [&b"a@b.example"[..], b"c@d.example"] {
            let mut workspace = Workspace::borrow();
            assert!(workspace.senders.is_empty());
            workspace.senders.add_header(Identity::From, address);
            assert_eq!(workspace.senders.len(), 1);
            workspace.give_back();
        }
    }

    #[test]
    fn a_thread_keeps_a_bounded_number() {
        let borrowed: Vec<_> = (0..2 * KEPT).map(|_| Workspace::borrow()).collect();
        borrowed.into_iter().for_each(Workspace::give_back);
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}
