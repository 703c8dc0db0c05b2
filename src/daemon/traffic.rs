//! Counters of the connections of mail servers.

use crate::metrics::{Counter, Each};
use crate::milter::ProtocolError;
use blocklist_filter::base::named::named;
use blocklist_filter::base::throttle::Throttle;

named! {
    /// Why a connection ended before the mail server closed it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Cut {
        /// The mail server has not sent or accepted anything for too long.
        Timeout = "timeout",
        /// A read or write failed.
        Lost = "lost",
        /// A bug in this program.
        Panic = "internal-error",
    }
}

/// Counts since the start.
pub struct Traffic {
    /// Connections accepted, or taken over from the previous process.
    pub opened: Counter,
    /// Connections that have ended for any reason.
    pub closed: Counter,
    /// Of these, connections that ended before the mail server closed them.
    pub cut: Each<Cut>,
    /// Of these, connections that broke the protocol, by [`ProtocolError::kind`].
    pub protocol_errors: Each<&'static str>,
    /// When one of them was logged.
    pub(super) broken: Throttle<60>,
    /// How often mail servers had to wait because the limit was reached, and once more for each further minute.
    pub full: Counter,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            opened: Counter::default(),
            closed: Counter::default(),
            cut: Each::new(Cut::ALL),
            protocol_errors: Each::new(ProtocolError::KINDS),
            broken: Throttle::default(),
            full: Counter::default(),
        }
    }
}

impl Traffic {
    /// Connections at the moment.
    pub fn open(&self) -> u64 {
        // In this order: otherwise a connection that opens and closes in between would make the result negative.
        let closed = self.closed.get();
        self.opened.get().saturating_sub(closed)
    }
}
