//! Why a text cannot be taken as an entry.

use std::fmt;

use super::day::Day;
use super::lines::MAX_LINE;

/// Why a text cannot be taken as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RejectReason {
    /// A regular expression.
    Pattern,
    /// A wild card where no entry can have one.
    Wildcard,
    /// A hash in place of an address; the name of the hash.
    Hash(&'static str),
    /// More than [`MAX_LINE`] bytes.
    TooLong,
    /// A NUL byte.
    Nul,
    /// A web address.
    Url,
    /// An IP address or network.
    IpAddress,
    /// Words before the entry that do not say whether it is listed.
    Words,
    /// A line of a whitelist that refuses somebody.
    Refusal,
    /// An entry under a heading that does not say whether it is listed.
    Section,
    /// An object of YAML.
    YamlObject,
    /// A heading over entries that are not listed, or the start of a comment around some, too late to read the list by headings.
    LateHeading,
    /// An entry on an indented line, which continues the line before.
    Indented,
    /// A list of addresses that only the rules of a program give a meaning.
    NamedList,
    /// Words after the entry that are neither a comment nor an action.
    Trailing,
    /// An entry in parentheses, which make a comment of it.
    Parentheses,
    /// Either a comment or a second address after a semicolon.
    Semicolon,
    /// Characters that no domain has: a separator, a bracket, a quote.
    DomainSigns,
    /// Several addresses where one is expected.
    Several,
    /// Something else where the format has a domain.
    NotADomain,
    /// No action in a format where each line has one.
    NoAction,
    /// A row of a table with nothing in the column that holds the entries.
    NoColumn,
    /// A day of expiry that cannot be read.
    Date,
    /// A comment that gives a day of expiry for the whole list. This is for whoever reads the
    /// list to obey, see [`expiry`](super::expiry); it is out of place behind the first entry.
    ListExpires(Day),
    /// A row of too many fields.
    ManyFields,
    /// A further entry in a row that is about one.
    SecondEntry,
    /// A statement of SQL.
    Statement,
    /// A mail, and what is said in it of senders and recipients.
    MailMessage,
    /// A line that says of the lines before it that they are not listed.
    LateLine,
    /// A word that may allow the sender, or be the sender's own.
    UnclearWord,
    /// Neither yes nor no, in a column or key that says whether the sender is listed.
    UnclearAnswer,
    /// A row inside the quotes of another.
    InQuotes,
    /// A quote in a table that nothing closes.
    UnclosedQuote,
    /// An absolute name before the zone file said what its zone is.
    ZoneUnknown,
    /// An object of JSON that says too late what happens to its entries.
    LateAllowance,
    /// Not JSON: nothing after it is read.
    BadJson,
    /// A line that is not JSON.
    BadJsonLine,
    /// The end of the text inside an array, object or string.
    CutOffJson,
    /// A line of a web page.
    WebPage,
}

impl RejectReason {
    /// Whether entries before or after this row may be listed by mistake, so that nothing of
    /// the list can be used.
    #[must_use]
    pub fn spoils_list(self) -> bool {
        matches!(
            self,
            Self::LateHeading | Self::LateAllowance | Self::LateLine
        )
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern => f.write_str(
                "a regular expression cannot be looked up; list the addresses or domains it stands for",
            ),
            Self::Wildcard => f.write_str(
                "a wildcard is allowed only as *@domain, *.domain or local@*; if the * is part of the address, put the local part in double quotes",
            ),
            Self::Hash(name) => write!(
                f,
                "{name} hash instead of an address; the address cannot be recovered from it"
            ),
            Self::TooLong => write!(f, "longer than {MAX_LINE} bytes"),
            Self::Nul => f.write_str("a NUL byte; is this a text file in UTF-8?"),
            Self::Url => f.write_str("a web address; list its domain"),
            Self::IpAddress => f.write_str("an IP address, not a sender's address or domain"),
            Self::Refusal => f.write_str("rejects a sender; a whitelist names senders to accept"),
            Self::Words => f.write_str(
                "words that do not say who is listed; put # before a comment",
            ),
            Self::Section => f.write_str(
                "under a heading that does not say whether it is listed; call it [blocklist] or [whitelist]",
            ),
            Self::YamlObject => f.write_str("an object of YAML; convert the list to JSON"),
            Self::LateHeading => f.write_str(
                "a heading above, or comment around, entries that must not be listed; use --format sections",
            ),
            Self::Indented => f.write_str(
                "indented, so it continues the line before; remove the space if it is an entry",
            ),
            Self::NamedList => f.write_str(
                "addresses that other rules use; to reject them, use blocklist_from",
            ),
            Self::Trailing => {
                f.write_str("words after the entry; put # before a comment")
            }
            Self::Parentheses => f.write_str(
                "in parentheses, so a comment; remove them if it is an entry",
            ),
            Self::Semicolon => f.write_str(
                "after a semicolon, either a comment or another address; \
                 put # before a comment, or one address on a line",
            ),
            Self::DomainSigns => f.write_str(
                "characters not allowed in a domain; is this a table?",
            ),
            Self::Several => f.write_str("more than one address; put each on its own line"),
            Self::NotADomain => f.write_str("not a domain"),
            Self::NoAction => f.write_str("no action after it, such as REJECT"),
            Self::NoColumn => f.write_str("no entry in this row"),
            Self::ManyFields => f.write_str("too many fields in this row"),
            Self::SecondEntry => f.write_str(
                "a second entry in the same row; name the columns in a heading, or put it on its own line",
            ),
            Self::Statement => f.write_str("a statement of SQL; export the list as CSV"),
            Self::MailMessage => f.write_str("a mail, not a list; list its sender"),
            Self::LateLine => f.write_str(
                "says that an entry on a line before it is not listed; export the list as CSV or JSON",
            ),
            Self::UnclearWord => f.write_str(
                "a word that may allow the sender; in a table, call its column action, or comment if it is not one",
            ),
            Self::UnclearAnswer => f.write_str(
                "neither yes nor no in a column that says whether the sender is listed",
            ),
            Self::InQuotes => f.write_str("inside a quoted field of another row"),
            Self::Date => f.write_str(
                "unclear expiry date; write it as 2026-03-31",
            ),
            Self::ListExpires(_) => f.write_str(
                "put this before the first entry, for the whole list, or after an entry on its line",
            ),
            Self::UnclosedQuote => f.write_str("a double quote that is never closed"),
            Self::ZoneUnknown => {
                f.write_str("the zone of this name is unknown; put $ORIGIN or the SOA record first")
            }
            Self::LateAllowance => f.write_str(
                "this object says that its addresses are not listed, but only after too many of them; put that first",
            ),
            Self::BadJson => f.write_str("not JSON here; nothing after it was read"),
            Self::BadJsonLine => f.write_str("this line is not JSON"),
            Self::CutOffJson => f.write_str("the JSON text is truncated"),
            Self::WebPage => f.write_str("a web page, not a list; was the download refused?"),
        }
    }
}
