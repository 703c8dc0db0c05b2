//! Why nothing of a list is read.

use crate::list::text::MAX_LINE;
use crate::list::text::json::MAX_DOCUMENT_BYTES;

/// Why a whole list is not read: a part of it may mean something else than it seems.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another kind of text in place of a list.
    #[error("{what}, not a list; {remedy}")]
    NotAList {
        /// What it is.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The marks of two formats, which would read it differently.
    #[error("either {0} or {1}; say which with --format or format in list.toml")]
    Ambiguous(&'static str, &'static str),
    /// A line that only another format has.
    #[error(
        "a line of the format {0} in a plain list; say --format {0} if it is one, --format plain if not"
    )]
    ForeignMark(&'static str),
    /// A line that may say something about the entries below it.
    #[error(
        "a heading, which may say that the lines below it are not listed; put # before it if it does not, or each part into a file of its own"
    )]
    Heading,
    /// A sign before an entry.
    #[error(
        "a sign before the entry, which may say that it is not listed; remove the sign, or put the local part in double quotes if it is part of the address"
    )]
    Sign,
    /// A line that includes another file.
    #[error(
        "includes another file, which is not read; give that file as an input, too, and remove this line"
    )]
    Include,
    /// A line that decides about others.
    #[error("a condition for the lines below it, which is not read; list the senders themselves")]
    Condition,
    /// Several data sets in one file, each of which has a meaning of its own.
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
    /// A value about which nothing is declared.
    #[error("{0}, which is neither in when nor in unless; put this value into one of them")]
    Undeclared(Box<str>),
    /// A quote that is not closed on its line, or is no quote of a cell.
    #[error(
        "a quote that is not closed, or inside a cell, so that it is unclear where the row ends; write such a cell in quotes, and its own quotes doubled"
    )]
    Quote,
    /// Text that is not JSON.
    #[error(
        "not JSON from here on; was the export complete? If each line is a document of its own, use the format jsonl"
    )]
    NotJson,
    /// The end of the file within a row or document.
    #[error("the file breaks off here; download or export it again")]
    BrokenOff,
    /// More than is kept in memory.
    #[error(
        "a JSON document of more than {} MiB; write each object on a line of its own, and use the format jsonl",
        MAX_DOCUMENT_BYTES >> 20
    )]
    DocumentTooLong,
    /// A key that an object has twice.
    #[error("an object with the key {0} twice, so that it is unclear which one counts")]
    DoubledKey(Box<str>),
    /// An array or object where the declaration has a value.
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
