//! Why a text cannot be taken as an entry.

use crate::list::text::MAX_LINE;

/// Why a text cannot be taken as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// A regular expression that matches more than one entry.
    #[error("a pattern cannot be looked up; list the addresses or domains it stands for")]
    Pattern,
    /// A wildcard where no entry can have one.
    #[error(
        "a wildcard is allowed only as *@domain, *.domain or local@*; if it is part of the address, put the local part in double quotes"
    )]
    Wildcard,
    /// A hash in place of an address, with the name of the hash.
    #[error("{0} hash instead of an address; the address cannot be recovered from it")]
    Hash(&'static str),
    /// More than [`MAX_LINE`] bytes.
    #[error("longer than {MAX_LINE} bytes")]
    TooLong,
    /// A control character.
    #[error("a control character; is this a text file, or copied from a terminal?")]
    Control,
    /// Bytes that are not UTF-8.
    #[error("not UTF-8; save the file as UTF-8")]
    NotUtf8,
    /// An entry that a program has shortened to show it.
    #[error("cut off by the program that has written it; export the whole list")]
    CutOff,
    /// A web address.
    #[error("a web address; list its domain")]
    Url,
    /// An IP address or network.
    #[error("an IP address, not a sender's address or domain")]
    IpAddress,
    /// Several entries where one is expected.
    #[error("several entries; put each on its own line, or use --format addresses")]
    Several,
    /// A bar, which divides columns.
    #[error("a | in it; if it divides columns, use --format csv --separator \"|\"")]
    Bar,
    /// Words before or after the entry.
    #[error("words beside the entry; put # before a comment")]
    Words,
    /// A sign at the start of what would become an address.
    #[error(
        "a sign before the address; remove it, or put the local part in double quotes if it is part of the address"
    )]
    Sign,
    /// A heading, in a list that was declared to be plain.
    #[error("a heading, which is not read; the lines below it are")]
    Heading,
    /// Neither an address nor a domain.
    #[error("neither an address nor a domain")]
    NotAnEntry,
    /// Something else in a format of domains.
    #[error("not a domain")]
    NotADomain,
    /// A line that the format of the list does not have.
    #[error("not a line of this format")]
    NotOfFormat,
    /// No action in a format where each line has one.
    #[error(
        "no action after it, such as REJECT; if the list is plain, say --format plain, or format = \"plain\" in list.toml"
    )]
    NoAction,
    /// An indented entry, which continues the line before, or has none to continue.
    #[error("indented, so it continues the line before; remove the space if it is an entry")]
    Indented,
    /// A day of expiry that cannot be read.
    #[error("not a date; write it as 2026-03-31")]
    Date,
    /// The same, in a table that has a format of its own.
    #[error("not a date as date_format says")]
    DateFormat,
    /// An absolute name before the zone file said what its zone is.
    #[error("the zone of this name is unknown; put $ORIGIN or the SOA record first")]
    ZoneUnknown,
    /// A line of a zone file that stands for many records.
    #[error("generates records, which are not read; write each of them on a line")]
    Generate,
    /// A row whose number of cells is not that of the first.
    #[error("not as many cells as the first row")]
    Cells,
    /// A quote inside a cell.
    #[error("a quote inside a cell; write such a cell in quotes, and its own quotes doubled")]
    Quote,
    /// A row without an entry.
    #[error("no entry in this row")]
    NoEntry,
    /// A value that is no number, in a column of numbers.
    #[error("not a number, in a column that at_least names")]
    NotANumber,
    /// A line that is not JSON.
    #[error("not JSON")]
    NotJson,
}
