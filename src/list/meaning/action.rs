//! What a word or a score beside an entry says about it.

use super::vocabulary::{Place, Sense, sense};
use crate::list::row::Skip;

/// What a word beside an entry says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The sender is refused.
    Block,
    /// The sender passes.
    Allow,
    /// Something else.
    Other,
}

impl Action {
    /// Returns what `word` says, in any case; `None` if it is not a word for an action.
    pub(crate) fn of(word: &[u8]) -> Option<Self> {
        match sense(word, Place::Action)? {
            Sense::Block => Some(Self::Block),
            Sense::Allow => Some(Self::Allow),
            Sense::Other | Sense::Recipient | Sense::Mention | Sense::Sender | Sense::Filling => {
                Some(Self::Other)
            }
        }
    }

    /// Returns what a score says: positive is bad, as in rspamd and amavis.
    pub(crate) fn of_score(word: &[u8]) -> Option<Self> {
        // `f64` also parses `inf`, `nan` and `1e5`, which no list uses.
        if !word
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+'))
        {
            return None;
        }
        let score: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
        Some(if score > 0.0 {
            Self::Block
        } else if score < 0.0 {
            Self::Allow
        } else {
            Self::Other
        })
    }

    /// Returns why a line with this action lists nobody; `None` if it lists somebody.
    pub(crate) fn skip(self) -> Option<Skip> {
        match self {
            Self::Block => None,
            Self::Allow => Some(Skip::Allow),
            Self::Other => Some(Skip::OtherAction),
        }
    }
}
