//! What the lines of a list give: entries, or the reason why there are none.

pub(crate) mod charset;
pub(crate) mod day;
pub(crate) mod entry;
pub(crate) mod reject_reason;

use std::fmt;

use day::Day;
use reject_reason::RejectReason;

/// Maximum number of bytes of a rejected or skipped line that are passed on for a message.
const SHOWN: usize = 120;

/// What one list says about one sender, domain, subtree or local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            added: None,
            expires: None,
        }
    }
}

/// What a line of a list says. One line may give several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// Somebody is listed.
    Entry(RawEntry<'a>),
    /// Nobody is listed, as the list intends.
    Skipped {
        /// Why.
        skip: Skip,
        /// The text, or its beginning.
        text: &'a [u8],
    },
    /// Perhaps somebody should be listed, but this text cannot say whom.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// The text, or its beginning.
        text: &'a [u8],
    },
    /// The entries that follow were read from a faulty text.
    Mended {
        /// What was wrong with it.
        mend: Mend,
        /// The text, or its beginning.
        text: &'a [u8],
    },
}

impl<'a> Row<'a> {
    pub(crate) fn rejected(reason: RejectReason, text: &'a [u8]) -> Self {
        Self::Rejected {
            reason,
            text: beginning(text),
        }
    }

    pub(crate) fn mended(mend: Mend, text: &'a [u8]) -> Self {
        Self::Mended {
            mend,
            text: beginning(text),
        }
    }

    pub(crate) fn skipped(skip: Skip, text: &'a [u8]) -> Self {
        Self::Skipped {
            skip,
            text: beginning(text),
        }
    }
}

/// Returns the part of a text that a message shows.
fn beginning(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.get(..SHOWN).unwrap_or(text)
}

/// Why a line lists nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skip {
    /// Nothing on it.
    Blank,
    /// A comment.
    Comment,
    /// Text that continues the line before.
    Continuation,
    /// It lets a sender pass: OK, allow, an exception, a negative score.
    Allow,
    /// Its action is not to refuse: DUNNO, HOLD, FILTER, quarantine.
    OtherAction,
    /// It is about clients or recipients, not about senders.
    NotSender,
    /// A mention under a heading or key that does not say it is listed: a contact, a reporter.
    Mention,
    /// Part of a list of known good names, such as the warninglists of MISP.
    KnownGood,
    /// A column heading, or a setting of the format.
    Setting,
    /// A directive that this reader does not know.
    Directive,
    /// A column or key of unknown meaning that holds `no` or a day; reported once for each.
    UnknownColumn,
}

impl Skip {
    /// Returns whether the user should see it: all but blank lines and comments.
    #[must_use]
    pub fn is_notable(self) -> bool {
        !matches!(self, Self::Blank | Self::Comment)
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => "blank",
            Self::Comment => "comment",
            Self::Allow => "allows a sender; add it to the whitelist",
            Self::OtherAction => "the action is not to reject",
            Self::NotSender => "about clients, recipients or the null sender",
            Self::Continuation => "continues the line before",
            Self::Mention => "only mentioned: its heading or key does not say that it is listed",
            Self::KnownGood => "from a list of known good domains",
            Self::Setting => "heading or setting",
            Self::Directive => "a directive that does not list a sender",
            Self::UnknownColumn => {
                "a column or key of unknown meaning with dates or \"no\" in it; it takes nobody off the list"
            }
        })
    }
}

/// A fault in a text whose meaning was clear nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mend {
    /// Not UTF-8.
    Charset,
    /// The full-width form of the `@`.
    AtSign,
    /// Quotation marks around the entry.
    Quotes,
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Charset => "not UTF-8; listed byte by byte, and as Windows-1252",
            Self::AtSign => "full-width @ read as @",
            Self::Quotes => "quotation marks around the entry removed",
        })
    }
}
