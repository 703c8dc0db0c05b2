//! What the lines of a list give: entries, or the reason why there are none.

pub(crate) mod entry;
mod reasons;

pub(crate) use entry::{is_pattern, looks_like_entry};
pub use reasons::{Refusal, RejectReason};

use crate::base::day::Day;
use crate::base::named::named;

/// What one list says about one sender, domain, subtree or local part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEntry<'a> {
    /// The entry, as `address::Entry::read` reads it.
    pub text: &'a [u8],
    /// The day on which the list added it, if the list says so.
    pub added: Option<Day>,
    /// The first day on which it is no longer listed, if the list says so.
    pub expires: Option<Day>,
}

impl<'a> RawEntry<'a> {
    /// Returns an entry without dates.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

/// What a line of a list says. One line may give several rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// Somebody is listed.
    Entry(RawEntry<'a>),
    /// Nobody is listed, as the list intends.
    Skipped {
        /// Why.
        skip: Skip,
        /// The text, or its beginning; for [`Skip::is_by_word`] the word that it is counted by.
        text: &'a [u8],
    },
    /// Perhaps somebody should be listed, but this text cannot say whom.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// The text, or its beginning.
        text: &'a [u8],
    },
    /// Nothing of the list can be used: this text may change the meaning of others.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The text, or its beginning.
        text: &'a [u8],
    },
}

named! {
    /// Why a line lists nobody.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Skip {
        /// Nothing on it.
        Blank = "blank",
        /// A comment.
        Comment = "comment",
        /// Text that continues the line before.
        Continuation = "continues the line before",
        /// It lets a sender pass, as its format documents: `OK`, `!`, `@@`, a negative score.
        Allow = "allows a sender; add it to the whitelist",
        /// It is about clients or recipients, not about senders.
        NotSender = "about clients, recipients or the null sender",
        /// It is about something else: another directive, another action. Counted by this word.
        Other = "about something else",
        /// A row of a table that its owner has declared as not listed. Counted by column and value, as
        /// in `Action = Allow`.
        Unlisted = "not listed, as declared",
    }
}

impl Skip {
    /// Returns whether the user should see it: all but blank lines, comments and their like.
    #[must_use]
    pub fn is_notable(self) -> bool {
        !matches!(self, Self::Blank | Self::Comment | Self::Continuation)
    }

    /// Returns whether such rows are counted by their text.
    #[must_use]
    pub fn is_by_word(self) -> bool {
        matches!(self, Self::Other | Self::Unlisted)
    }
}
