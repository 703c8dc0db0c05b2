//! Why a connection must be closed.

use super::protocol::Command;

/// The peer violates the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A packet with an impossible length.
    #[error("packet of {length} bytes with code {:?}", char::from(*code))]
    Length {
        /// Its code.
        code: u8,
        /// The length in its prefix.
        length: u32,
    },
    /// A code that is not a command.
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
    /// A command of a message, without a message.
    #[error("{} outside of a message", .0.name())]
    OutsideMessage(Command),
    /// A command without its required argument.
    #[error("{} without an argument", .0.name())]
    NoArgument(Command),
    /// A request of another protocol that cannot be read.
    #[error("request: {0}")]
    Request(&'static str),
}

impl ProtocolError {
    /// The names of all kinds, for counters.
    pub const KINDS: [&'static str; 7] = [
        "packet-length",
        "unknown-command",
        "negotiation",
        "offer",
        "outside-message",
        "no-argument",
        "request",
    ];

    /// Returns the name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Length { .. } => "packet-length",
            Self::Unknown(_) => "unknown-command",
            Self::NotNegotiated(_) | Self::NegotiatedTwice => "negotiation",
            Self::Offer => "offer",
            Self::OutsideMessage(_) => "outside-message",
            Self::NoArgument(_) => "no-argument",
            Self::Request(_) => "request",
        }
    }
}

/// Why a reply text or a change to a message cannot be sent: a mail server would not take it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsendable(pub(super) String);
