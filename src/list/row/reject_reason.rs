//! Why a text cannot be taken as an entry.

use super::day::Day;
use crate::list::text::lines::MAX_LINE;

/// Why a text cannot be taken as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// A regular expression.
    #[error(
        "a regular expression cannot be looked up; list the addresses or domains it stands for"
    )]
    Pattern,
    /// A wildcard where no entry can have one.
    #[error(
        "a wildcard is allowed only as *@domain, *.domain or local@*; if the * is part of the address, put the local part in double quotes"
    )]
    Wildcard,
    /// A hash in place of an address, with the name of the hash.
    #[error("{0} hash instead of an address; the address cannot be recovered from it")]
    Hash(&'static str),
    /// More than [`MAX_LINE`] bytes.
    #[error("longer than {MAX_LINE} bytes")]
    TooLong,
    /// A NUL byte.
    #[error("a NUL byte; is this a text file in UTF-8?")]
    Nul,
    /// Another control character, such as those that color the output of a program.
    #[error("a control character; was this copied from a terminal?")]
    Control,
    /// An entry that a program has shortened to show it.
    #[error("cut off by the program that has written it; export the whole list")]
    CutOff,
    /// A web address.
    #[error("a web address; list its domain")]
    Url,
    /// An IP address or network.
    #[error("an IP address, not a sender's address or domain")]
    IpAddress,
    /// Words before the entry that do not say whether it is listed.
    #[error("words that do not say who is listed; put # before a comment")]
    Words,
    /// A line of a whitelist that refuses somebody.
    #[error("rejects a sender; a whitelist names senders to accept")]
    Refusal,
    /// An entry under a heading that does not say whether it is listed.
    #[error(
        "under a heading that does not say whether it is listed; call it [blocklist] or [whitelist]"
    )]
    Section,
    /// An object of YAML.
    #[error("an object of YAML; convert the list to JSON")]
    YamlObject,
    /// A heading over entries that are not listed, or the start of a comment around some: too late
    /// to read the list by headings.
    #[error(
        "a heading above, or a comment or conflict around, entries that must not be listed; use --format sections"
    )]
    LateHeading,
    /// An entry on an indented line, which continues the line before.
    #[error("indented, so it continues the line before; remove the space if it is an entry")]
    Indented,
    /// A list of addresses that only the rules of a program give a meaning.
    #[error("addresses that other rules use; to reject them, use blocklist_from")]
    NamedList,
    /// Words after the entry that are neither a comment nor an action.
    #[error("words after the entry; put # before a comment")]
    Trailing,
    /// An entry in parentheses, which make it a comment.
    #[error("in parentheses, so a comment; remove them if it is an entry")]
    Parentheses,
    /// Either a comment or a second address after a semicolon.
    #[error(
        "after a semicolon, either a comment or another address; put # before a comment, or one address on a line"
    )]
    Semicolon,
    /// Characters that no domain has: a separator, a bracket, a quote.
    #[error("characters not allowed in a domain; is this a table?")]
    DomainSigns,
    /// Several addresses where one is expected.
    #[error("more than one address; put each on its own line")]
    Several,
    /// Something else in a format of domains.
    #[error("not a domain")]
    NotADomain,
    /// No action in a format where each line has one.
    #[error("no action after it, such as REJECT")]
    NoAction,
    /// A row of a table without an entry in its column.
    #[error("no entry in this row")]
    NoColumn,
    /// A day of expiry that cannot be read.
    #[error("unclear expiry date; write it as 2026-03-31")]
    Date,
    /// A comment that gives the day on which the whole list expires. The program that reads the
    /// list obeys it, see [`expiry`](crate::list::expiry); after the first entry it is out of place.
    #[error("put this before the first entry, for the whole list, or after an entry on its line")]
    ListExpires(Day),
    /// A row with too many fields.
    #[error("too many fields in this row")]
    ManyFields,
    /// A further entry in a row that is about one.
    #[error(
        "a second entry in the same row; name the columns in a heading, or put it on its own line"
    )]
    SecondEntry,
    /// A local part or user in one column, a domain in another.
    #[error(
        "a domain, with a local part or user in another column; put the whole address into a column called email"
    )]
    SplitAddress,
    /// Two days in a row without a heading, one of which may end the entry.
    #[error("two dates, of which one may end the entry; name the columns in a heading")]
    SecondDay,
    /// Words in a row of a table whose columns have unknown names.
    #[error(
        "words in columns whose names are not known; call the columns email, action or comment"
    )]
    UnknownHeading,
    /// A sign or label at the start of what would become an address.
    #[error(
        "a label, number or sign before the address; remove it, or put the local part in double quotes if it is part of the address"
    )]
    Prefix,
    /// A value after the entry that may say that it is not listed.
    #[error(
        "a value after the entry that may say that it is not listed; remove the value or the line"
    )]
    UnclearData,
    /// An entry in what looks like the signature of a mail.
    #[error(
        "below what looks like the signature of a mail; if it is listed, put it above the signature"
    )]
    Signature,
    /// A statement of SQL.
    #[error("a statement of SQL; export the list as CSV")]
    Statement,
    /// A line of a mail, which names senders and recipients alike.
    #[error("a mail, a mail queue or an address book, not a list; list the senders")]
    MailMessage,
    /// A line of the output of `diff`.
    #[error("the output of diff, not a list; give the list itself")]
    Diff,
    /// A line between the marks of a conflict.
    #[error(
        "an unresolved conflict of a version control system; keep the right lines, and remove the marks"
    )]
    Conflict,
    /// A line that says that lines before it are not listed.
    #[error("says that an entry on a line before it is not listed; export the list as CSV or JSON")]
    LateLine,
    /// A row that takes off what a row before it has listed.
    #[error(
        "takes an entry off that a row before it lists, as a log of changes does; export the present list"
    )]
    Withdrawal,
    /// A line with the other sign: `+ a@b` where a line before was `- c@d`.
    #[error(
        "+ before some entries and - before others, of which one may mean that they are not listed; remove the signs"
    )]
    TwoSigns,
    /// A word that may allow the sender, or be the sender's own.
    #[error(
        "a word that may allow the sender; in a table, call its column action, or text if it is not one"
    )]
    UnclearWord,
    /// A line that includes another file.
    #[error("includes another file, which is not read; give that file as an input, too")]
    Include,
    /// A line of a zone file that stands for many records.
    #[error("generates records, which are not read; write each of them on a line")]
    Generate,
    /// The start of a data set that is an allowlist.
    #[error("a data set of names that are not listed; put each data set into a file of its own")]
    DataSet,
    /// Entries that alternate with words for and against them.
    #[error(
        "entries and words that block or allow take turns, and it is unclear which word is about which entry; put both on one line"
    )]
    Alternation,
    /// An empty first column below a word that takes its row off the list.
    #[error(
        "the first column is empty, and the words above it take their row off; repeat what is meant in each row"
    )]
    EmptyCell,
    /// A remark of the list's author that may allow a sender, if no other column says to refuse it.
    #[error(
        "a remark that may allow the sender; say what happens to it in a column or key called action"
    )]
    Remark,
    /// Neither yes nor no, in a column or key that says whether the sender is listed.
    #[error("neither yes nor no in a column that says whether the sender is listed")]
    UnclearAnswer,
    /// A row inside the quotes of another.
    #[error("inside a quoted field of another row")]
    InQuotes,
    /// A quote in a table that nothing closes.
    #[error("a double quote that is never closed")]
    UnclosedQuote,
    /// An absolute name before the zone file said what its zone is.
    #[error("the zone of this name is unknown; put $ORIGIN or the SOA record first")]
    ZoneUnknown,
    /// An object of JSON that says too late what happens to its entries.
    #[error(
        "this object says that its addresses are not listed, but only after too many of them; put that first"
    )]
    LateAllowance,
    /// Not JSON: nothing after it is read.
    #[error("not JSON here; nothing after it was read")]
    BadJson,
    /// A line that is not JSON.
    #[error("this line is not JSON")]
    BadJsonLine,
    /// The end of the text inside an array, object or string.
    #[error("the JSON text is truncated")]
    CutOffJson,
    /// A line of a web page, or of XML.
    #[error(
        "a web page or XML, not a list; was the download refused? Convert XML to plain text or CSV"
    )]
    WebPage,
}

impl RejectReason {
    /// Returns whether entries before or after this row may be listed by mistake, so that nothing
    /// of the list can be used.
    #[must_use]
    pub fn spoils_list(self) -> bool {
        matches!(
            self,
            Self::Alternation
                | Self::DataSet
                | Self::LateHeading
                | Self::LateAllowance
                | Self::LateLine
                | Self::MailMessage
                | Self::TwoSigns
                | Self::Withdrawal
        )
    }
}
