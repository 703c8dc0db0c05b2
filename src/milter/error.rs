//! Why a connection must be closed.

use super::protocol::Command;

/// The other side does not speak the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A packet of a length that none can have.
    #[error("packet of {length} bytes with code {:?}", char::from(*code))]
    Length {
        /// Its code.
        code: u8,
        /// The length it announced.
        length: u32,
    },
    /// A code that means no command.
    #[error("unknown command code {:?}", char::from(*.0))]
    Unknown(u8),
    /// A command before the negotiation.
    #[error("{} before the negotiation", .0.name())]
    NotNegotiated(Command),
    /// A second negotiation.
    #[error("second negotiation")]
    NegotiatedTwice,
    /// A negotiation that cannot be answered.
    #[error("negotiation that is too short, or of a protocol version before 2")]
    Offer,
    /// A command that belongs to a message, and there is none.
    #[error("{} outside of a message", .0.name())]
    OutsideMessage(Command),
    /// A command without the argument it must have.
    #[error("{} without an argument", .0.name())]
    NoArgument(Command),
}

impl ProtocolError {
    /// The names of all kinds, for counting.
    pub const KINDS: [&'static str; 6] = [
        "packet-length",
        "unknown-command",
        "negotiation",
        "offer",
        "outside-message",
        "no-argument",
    ];

    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Length { .. } => "packet-length",
            Self::Unknown(_) => "unknown-command",
            Self::NotNegotiated(_) | Self::NegotiatedTwice => "negotiation",
            Self::Offer => "offer",
            Self::OutsideMessage(_) => "outside-message",
            Self::NoArgument(_) => "no-argument",
        }
    }
}
