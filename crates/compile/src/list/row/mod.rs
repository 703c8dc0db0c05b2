//! What the lines of a list give: entries, or the reason why there are none, or why nothing of the
//! list is read.

pub(crate) mod entry;

pub(crate) use entry::{is_pattern, looks_like_entry};

use crate::list::text::MAX_LINE;
use crate::list::text::json::MAX_DOCUMENT_BYTES;
use blocklist_filter::address::plain::PlainEntry;
use blocklist_filter::base::day::Day;
use blocklist_filter::base::named::named;

/// What one list says about one sender, domain, subtree or local part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEntry<'a> {
    /// The entry, as `address::Entry::read` reads it.
    pub text: &'a [u8],
    /// The day on which the list added it, if the list says so.
    pub added: Option<Day>,
    /// The first day on which it is no longer listed, if the list says so.
    pub expires: Option<Day>,
    /// What the text is, if that is known already.
    pub plain: Option<PlainEntry<'a>>,
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

/// Why a whole list is not read: a part of it may mean something else than it seems.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of a variant says what it is")]
pub enum Refusal {
    /// Another kind of text in place of a list.
    #[error("{what}, not a list; {remedy}")]
    NotAList {
        what: &'static str,
        remedy: &'static str,
    },
    #[error("either {0} or {1}; say which with --format or format in list.toml")]
    Ambiguous(&'static str, &'static str),
    #[error(
        "a line of the format {0} in a plain list; say --format {0} if it is one, --format plain if not"
    )]
    ForeignMark(&'static str),
    #[error(
        "a heading, which may say that the lines below it are not listed; say --format plain, or so in list.toml, if it does not, or put each part into a file of its own"
    )]
    Heading,
    #[error(
        "a sign before the entry, which may say that it is not listed; take the line out, name the format if it has such signs (--format exim), or put the local part in double quotes if the sign is part of the address"
    )]
    Sign,
    #[error(
        "includes another file, which is not read; give that file as an input, too, and remove this line"
    )]
    Include,
    #[error("a condition for the lines below it, which is not read; list the senders themselves")]
    Condition,
    #[error(
        "a data set, which may be one of names that are not listed; put each data set into a file of its own"
    )]
    DataSet,
    /// More rules than can be kept to see which of them a later line cancels.
    #[error(
        "more rules than can be read together; divide the list, with the exceptions in each part"
    )]
    TooManyRules,
    /// Longer than [`MAX_LINE`] bytes, in a format whose records do not end at lines.
    #[error("a record longer than {MAX_LINE} bytes")]
    TooLong,
    /// A table without a declaration: what it has, and "say which column" or "key".
    #[error("{0} names the sender and which rows count")]
    Table(Box<str>),
    /// A declaration that the file does not fit.
    #[error("{0}")]
    Mapping(Box<str>),
    #[error("{0}, which is neither in when nor in unless; put this value into one of them")]
    Undeclared(Box<str>),
    #[error(
        "a quote that is not closed, or inside a cell, so that it is unclear where the row ends; write such a cell in quotes, and its own quotes doubled"
    )]
    Quote,
    #[error(
        "not JSON from here on; was the export complete? If each line is a document of its own, use the format jsonl"
    )]
    NotJson,
    #[error("the file breaks off here; download or export it again")]
    BrokenOff,
    /// More than is kept in memory.
    #[error(
        "a JSON document of more than {} MiB; write each object on a line of its own, and use the format jsonl",
        MAX_DOCUMENT_BYTES >> 20
    )]
    DocumentTooLong,
    #[error("an object with the key {0} twice, so that it is unclear which one counts")]
    DoubledKey(Box<str>),
    #[error(
        "no row has a value for the key {0} beside its entry; if it may be missing, put \"\" among its values"
    )]
    Missing(Box<str>),
    #[error("an array or object at {0}, which the declaration takes for a value")]
    NotAValue(Box<str>),
}

impl Refusal {
    /// Returns whether `blocklist-compile preview FILE` shows how to mend it, so that a message
    /// should end with that command.
    #[must_use]
    pub fn is_for_preview(&self) -> bool {
        !matches!(self, Self::NotAList { .. })
    }
}

/// Why a text cannot be taken as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of a variant says what it is")]
pub enum RejectReason {
    #[error("a pattern cannot be looked up; list the addresses or domains it stands for")]
    Pattern,
    #[error(
        "a wildcard is allowed only as *@domain, *.domain or local@*; if it is part of the address, put the local part in double quotes"
    )]
    Wildcard,
    /// A hash in place of an address, with the name of the hash.
    #[error("{0} hash instead of an address; the address cannot be recovered from it")]
    Hash(&'static str),
    #[error("longer than {MAX_LINE} bytes")]
    TooLong,
    #[error("a control character; is this a text file, or copied from a terminal?")]
    Control,
    #[error("not UTF-8; save the file as UTF-8")]
    NotUtf8,
    #[error("cut off by the program that has written it; export the whole list")]
    CutOff,
    #[error("a web address; list its domain")]
    Url,
    #[error("an IP address, not a sender's address or domain")]
    IpAddress,
    #[error(
        "several entries; put each on its own line, or use --format addresses (for a table, --entry)"
    )]
    Several,
    #[error("several entries without a comma or semicolon between them; put one there")]
    NotApart,
    #[error("a | in it; if it divides columns, use --format csv --separator \"|\"")]
    Bar,
    #[error(
        "words beside the entry; put # before a comment, or name the format if they say what becomes of mail (--format postfix-access)"
    )]
    Words,
    /// A sign at the start of what would become an address.
    #[error(
        "a sign before the address; remove it, or put the local part in double quotes if it is part of the address"
    )]
    Sign,
    /// A heading, in a list that was declared to be plain.
    #[error("a heading, which is not read (the lines below it are)")]
    Heading,
    #[error("neither an address nor a domain")]
    NotAnEntry,
    /// Something else in a format of domains.
    #[error("not a domain")]
    NotADomain,
    #[error("not a domain, since no top-level domain is a number; a date, or another column?")]
    NumberAtEnd,
    #[error("not a line of this format")]
    NotOfFormat,
    #[error(
        "no action after it, such as REJECT; if the list is plain, say --format plain, or format = \"plain\" in list.toml"
    )]
    NoAction,
    #[error("indented, so it continues the line before; remove the space if it is an entry")]
    Indented,
    #[error(
        "not a date; write it as 2026-03-31, or say how a table writes dates (date_format = \"%d.%m.%Y\" for 31.03.2026)"
    )]
    Date,
    /// The same, in a table that has a format of its own.
    #[error("not a date as date_format says")]
    DateFormat,
    #[error("the zone of this name is unknown; put $ORIGIN or the SOA record first")]
    ZoneUnknown,
    #[error("generates records, which are not read; write each of them on a line")]
    Generate,
    #[error("not as many cells as the first row")]
    Cells,
    #[error("a quote inside a cell; write such a cell in quotes, and its own quotes doubled")]
    Quote,
    #[error("no entry in this row")]
    NoEntry,
    #[error("not a number, in a column that at_least names")]
    NotANumber,
    #[error("not JSON")]
    NotJson,
}
