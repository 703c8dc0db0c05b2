//! What is kept of a connection and of the message under way.

use std::sync::Arc;

use super::message::{Message, Origin};
use super::observer::Observer;
use super::progress::Progress;
use crate::daemon::Readers;
use crate::sender::{Identity, Senders};
use crate::snapshot::{Live, Snapshot};

/// Decides about the messages of one connection.
pub struct Screen<O = ()> {
    pub(super) live: Arc<Live>,
    /// None: all is shown, see [`Screen::shows_all`].
    pub(super) readers: Option<Arc<Readers>>,
    pub(super) observer: O,
    pub(super) origin: Origin,
    pub(super) message: Message,
}

impl Screen {
    /// For a new connection. What must be read is read by the readers.
    pub fn new(live: Arc<Live>, readers: Arc<Readers>) -> Self {
        Self {
            readers: Some(readers),
            ..Self::with_observer(live, ())
        }
    }
}

impl<O: Observer> Screen<O> {
    /// For a new connection, watched. Every sender is looked up, and what must be read is read
    /// at once.
    pub fn with_observer(live: Arc<Live>, observer: O) -> Self {
        Self {
            live,
            readers: None,
            observer,
            origin: Origin::default(),
            message: Message::default(),
        }
    }

    /// The observer.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The senders of the message under way, as far as it has come; `None`: none has begun, or it has its verdict
    /// and is not watched.
    pub fn senders(&self) -> Option<&Senders> {
        let workspace = self.message.workspace.as_ref();
        workspace.map(|workspace| &workspace.senders)
    }

    /// Whether all look-ups are wanted, also those that change nothing any more: then they are
    /// made at once, on this thread.
    pub(super) fn shows_all(&self) -> bool {
        self.readers.is_none()
    }

    /// The snapshot that the message under way began with. One that was taken back, since two others
    /// came after it, is replaced by the one in effect, and the look-ups begin again.
    pub(super) fn snapshot(&mut self) -> Option<Arc<Snapshot>> {
        let lease = self.message.lease.as_ref()?;
        if let Some(snapshot) = lease.snapshot() {
            return Some(snapshot);
        }
        let (lease, snapshot) = self.live.lease();
        let message = &mut self.message;
        message.lease = Some(lease);
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
