//! What was counted of the connections of mail servers.

use crate::metrics::{Counter, Each};
use crate::milter::ProtocolError;

/// Why a connection ended before the mail server closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The mail server did not send or take anything for too long.
    Timeout,
    /// A read or write failed.
    Lost,
    /// A fault of this program.
    Panic,
}

impl Cut {
    /// All.
    pub const ALL: [Self; 3] = [Self::Timeout, Self::Lost, Self::Panic];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::Panic => "internal-error",
        }
    }
}

/// Counts since the start.
#[derive(Debug)]
pub struct Traffic {
    /// Connections accepted, or taken over from the process before.
    pub opened: Counter,
    /// Those that have ended, in whatever way.
    pub closed: Counter,
    /// Those of them that were cut.
    pub cut: Each<Cut>,
    /// Those that broke the protocol, by [`ProtocolError::kind`].
    pub protocol_errors: Each<&'static str>,
    /// Times that mail servers had to wait, since there were as many connections as there may be; once more
    /// for each further minute.
    pub full: Counter,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            opened: Counter::default(),
            closed: Counter::default(),
            cut: Each::new(Cut::ALL),
            protocol_errors: Each::new(ProtocolError::KINDS),
            full: Counter::default(),
        }
    }
}

impl Traffic {
    /// Connections at the moment.
    pub fn open(&self) -> u64 {
        // In this order, or one that comes and goes in between would make it less than none.
        let closed = self.closed.get();
        self.opened.get().saturating_sub(closed)
    }
}
