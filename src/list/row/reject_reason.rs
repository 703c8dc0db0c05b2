//! Why a text cannot be taken as an entry.

use crate::list::text::MAX_LINE;

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
    #[error("a | in it; if it divides columns, use --format csv --separator \"|\"")]
    Bar,
    #[error("words beside the entry; put # before a comment")]
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
    #[error("not a line of this format")]
    NotOfFormat,
    #[error(
        "no action after it, such as REJECT; if the list is plain, say --format plain, or format = \"plain\" in list.toml"
    )]
    NoAction,
    #[error("indented, so it continues the line before; remove the space if it is an entry")]
    Indented,
    #[error("not a date; write it as 2026-03-31")]
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
