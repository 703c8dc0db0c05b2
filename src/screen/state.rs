//! The state of a connection and of its current message.

use std::sync::Arc;

use super::message::{Message, Origin};
use super::observer::Observer;
use super::progress::Progress;
use super::reads::Reader;
use crate::sender::{Identity, Senders};
use crate::snapshot::{Live, Snapshot};

/// Decides about the messages of one connection.
pub struct Screen<O = ()> {
    pub(super) live: Arc<Live>,
    /// `None` if every look-up is shown, see [`Screen::shows_all`].
    pub(super) reader: Option<Arc<dyn Reader>>,
    pub(super) observer: O,
    pub(super) origin: Origin,
    pub(super) message: Message,
}

impl Screen {
    /// Creates the state of a new connection. The reader reads what must be read from files.
    pub fn new(live: Arc<Live>, reader: Arc<dyn Reader>) -> Self {
        Self {
            reader: Some(reader),
            ..Self::with_observer(live, ())
        }
    }
}

impl<O: Observer> Screen<O> {
    /// Creates the state of a new connection with an observer. Every sender is looked up, and files
    /// are read at once, on this thread.
    pub fn with_observer(live: Arc<Live>, observer: O) -> Self {
        Self {
            live,
            reader: None,
            observer,
            origin: Origin::default(),
            message: Message::default(),
        }
    }

    /// Returns the observer.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Returns the senders of the current message so far; `None` if there is no message, or it has
    /// its verdict and there is no observer.
    pub fn senders(&self) -> Option<&Senders> {
        let workspace = self.message.workspace.as_ref();
        workspace.map(|workspace| &workspace.senders)
    }

    /// Returns whether all look-ups are wanted, even without effect on the verdict. Then they are
    /// done at once, on this thread.
    pub(super) fn shows_all(&self) -> bool {
        self.reader.is_none()
    }

    /// Returns the snapshot with which the current message began. If two newer ones have replaced
    /// it, it returns the snapshot in effect, and the look-ups start again.
    pub(super) fn snapshot(&mut self) -> Option<Arc<Snapshot>> {
        if let Some(snapshot) = self.message.snapshot.as_ref()?.upgrade() {
            return Some(snapshot);
        }
        let snapshot = self.live.snapshot();
        let message = &mut self.message;
        message.snapshot = Some(Arc::downgrade(&snapshot));
        message.overtaken |= !message.reach.sets().is_empty();
        message.reach.clear();
        message.hits.clear();
        message.hits_counted = 0;
        message.progress = Progress::default();
        let is_checked = |&identity: &Identity| snapshot.policy.checks(identity);
        message.is_incomplete |= message.skipped.iter().any(is_checked);
        message.is_envelope_truncated |=
            message.skipped.contains(&Identity::MailFrom) && is_checked(&Identity::MailFrom);
        Some(snapshot)
    }
}
