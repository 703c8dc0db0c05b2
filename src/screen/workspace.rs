//! Memory that a message needs from MAIL to its verdict, and that a connection does not need
//! between two messages.
//!
//! A mail server keeps thousands of connections open, most of which wait for their client. So a
//! connection borrows this memory from its thread for each message, and the thread keeps some of it
//! for the next: an ordinary message allocates nothing here, on any connection.

use std::cell::RefCell;

use crate::policy::Scratch;
use crate::sender::Senders;

/// Number of workspaces that a thread keeps: about as many as messages overlap. Each takes three to
/// ten KiB.
const KEPT: usize = 32;

thread_local! {
    /// Accessed only briefly; a borrow never lasts for a message.
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
    /// Returns a workspace without senders.
    pub(super) fn borrow() -> Box<Self> {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        spare.unwrap_or_default()
    }

    /// Returns it to the current thread for the next message. That thread may differ from the one
    /// it came from.
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

    #[test]
    fn a_thread_keeps_a_bounded_number() {
        let borrowed: Vec<_> = (0..2 * KEPT).map(|_| Workspace::borrow()).collect();
        borrowed.into_iter().for_each(Workspace::give_back);
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}
