//! Text blocklists, read row by row.
//!
//! Lists come in the formats of a dozen programs. Each has a file of its own here
//! that turns its lines into [`Row`]s; what a row's text means (mailbox, domain,
//! subtree, local part) is for `address` to say. A row is never taken from a line
//! that *allows* a sender, and nothing is lost in silence: a line gives items, or
//! is [`Row::Skipped`] and counted, or is [`Row::Rejected`] with its number and a
//! reason.
//!
//! ```text
//!   open -> bytes -> guess -> Format -> Reader::read -> Row, Row, Row ...
//! ```
//!
//! | format | listed | skipped |
//! |---|---|---|
//! | plain | `a@b` `a@` `@b` `b` `.b` `*.b` `*@b`, several between commas | `a@b OK`, `!a@b` |
//! | sections | the same under headings | entries under `[whitelist]`, `allow:` |
//! | hosts | names with a null or loopback address | hosts with a real one |
//! | csv | the column by its heading or number, dates too | rows whose action is no refusal |
//! | postfix-access, sendmail-access | REJECT, DISCARD, 5xx; a domain with all below it | OK, DUNNO, 4xx, `To:`, `Connect:` |
//! | spamassassin | `blocklist_from` | `unblocklist_from`, `welcomelist_*` |
//! | rspamd, amavis | a positive score or none | a negative score |
//! | exim | keys of `lsearch` files | data `accept`, `!` keys |
//! | json, jsonl | strings in arrays, known keys of objects | `"action": "allow"`, `"allowed": [...]` |
//! | rpz | `CNAME .`, `*.`, `rpz-drop.` | `rpz-passthru.`, other records |
//! | rbldnsd, dnsmasq, adblock | domains, with all below them where the format says so | `!`, `@@`, real addresses |
//! | patterns | nothing: regular expressions cannot be looked up | OK, DUNNO |
//! | html, mail | nothing: the page of an error or a mail, in place of a list | |
//!
//! Everything is linear in the input and bounded: a line (for CSV a record, for
//! JSON an object) of more than [`MAX_LINE`] bytes is rejected without being kept.

mod access;
mod action;
mod adblock;
mod archive;
mod charset;
mod csv;
mod day;
mod dnsmasq;
mod exim;
mod format;
mod guess;
mod headings;
mod hosts;
mod input;
mod json;
mod label;
mod lines;
mod names;
mod out;
mod packed;
mod patterns;
mod plain;
mod rbldnsd;
mod rpz;
mod score;
mod sections;
mod spamassassin;
mod vet;
mod words;

pub use archive::{MAX_MEMBERS, Member, members, open_member};
pub use day::Day;
pub use format::{Format, UnknownFormat};
pub use guess::guess;
pub use input::{check_text, open, unpack};
pub use lines::{Lines, lines};
pub use plain::expiry;

use access::Access;
use csv::Csv;
use exim::Exim;
use json::Json;
use out::Out;
use rpz::Rpz;
use sections::Sections;

use std::fmt;
use std::io::{self, Read};

/// The longest line that is read, in bytes. The longest address is 320; this
/// leaves room for a hundred of them in one line with names and comments.
pub const MAX_LINE: usize = 64 << 10;

/// The bytes of a rejected or skipped line that are handed out for a message.
const SHOWN: usize = 120;

/// What one list says about one sender, domain, subtree or local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The entry as `address::Entry::read` takes it.
    pub text: &'a [u8],
    /// The day the list added it, where the list says so.
    pub added: Option<Day>,
    /// The first day it is no longer listed, where the list says so.
    pub expires: Option<Day>,
}

impl<'a> Item<'a> {
    /// An item without dates.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            added: None,
            expires: None,
        }
    }
}

/// What a line of a list holds. One line may give several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row<'a> {
    /// Somebody is listed.
    Item(Item<'a>),
    /// Nobody is listed, and that is as it should be.
    Skipped {
        /// Why.
        skip: Skip,
        /// The text, or its beginning.
        text: &'a [u8],
    },
    /// Perhaps somebody should be listed, but this text cannot say whom.
    Rejected {
        /// Why.
        reason: Reason,
        /// The text, or its beginning.
        text: &'a [u8],
    },
    /// The items that follow were read out of a faulty text.
    Mended {
        /// What was wrong with it.
        mend: Mend,
        /// The text, or its beginning.
        text: &'a [u8],
    },
}

impl<'a> Row<'a> {
    fn rejected(reason: Reason, text: &'a [u8]) -> Self {
        Self::Rejected {
            reason,
            text: beginning(text),
        }
    }

    fn mended(mend: Mend, text: &'a [u8]) -> Self {
        Self::Mended {
            mend,
            text: beginning(text),
        }
    }

    fn skipped(skip: Skip, text: &'a [u8]) -> Self {
        Self::Skipped {
            skip,
            text: beginning(text),
        }
    }
}

/// What a message shows of a text.
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
    /// Its action is something else than refusing: DUNNO, HOLD, FILTER, quarantine.
    OtherAction,
    /// It is about clients or recipients, not about senders.
    NotSender,
    /// A mention, under a heading or key that does not say it is listed: a contact,
    /// a reporter.
    Mention,
    /// Part of a list of known good names, such as the warninglists of MISP.
    KnownGood,
    /// A column heading, or a setting of the format.
    Setting,
    /// A directive that this reader does not know.
    Directive,
}

impl Skip {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 10] = [
        Self::Blank,
        Self::Comment,
        Self::Continuation,
        Self::Allow,
        Self::OtherAction,
        Self::NotSender,
        Self::Mention,
        Self::KnownGood,
        Self::Setting,
        Self::Directive,
    ];

    /// Whether a person should see it: all but blank lines and comments.
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
            Self::Allow => "allows a sender; put it into the whitelist",
            Self::OtherAction => "the action is not to reject",
            Self::NotSender => "about clients, recipients or the null sender",
            Self::Continuation => "continues the line before",
            Self::Mention => "only mentioned: its heading or key does not say that it is listed",
            Self::KnownGood => "from a list of known good domains",
            Self::Setting => "heading or setting",
            Self::Directive => "a directive that does not list a sender",
        })
    }
}

/// What was wrong with a text whose meaning was clear all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mend {
    /// Not UTF-8.
    Charset,
    /// The full-width form of the `@`.
    AtSign,
    /// Quotation marks around the entry.
    Quotes,
}

impl Mend {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 3] = [Self::Charset, Self::AtSign, Self::Quotes];
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

/// Why a text cannot be taken as an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
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
    /// list to obey, see [`expiry`]; it is out of place behind the first entry.
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

impl Reason {
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

impl fmt::Display for Reason {
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

/// Reads a list in pieces of any size and gives its rows.
#[derive(Debug)]
pub struct Reader {
    way: Way,
    /// Lines done so far.
    lines: u64,
    /// Inside a line that was rejected as too long.
    in_long_line: bool,
}

/// How a format is read, with its state between lines where it has one.
#[derive(Debug)]
enum Way {
    Plain,
    /// Each line stands for itself.
    AtLines(fn(&[u8], &mut Out<'_>)),
    Access(Access),
    Exim(Exim),
    Rpz(Rpz),
    Sections(Sections),
    Csv(Box<Csv>),
    Json(Box<Json>),
}

impl Way {
    fn of(format: Format) -> Self {
        match format {
            Format::Plain => Self::Plain,
            Format::Hosts => Self::AtLines(hosts::read),
            Format::Csv { column } => Self::Csv(Box::new(Csv::new(column))),
            Format::PostfixAccess => Self::Access(Access::new(access::Program::Postfix)),
            Format::SendmailAccess => Self::Access(Access::new(access::Program::Sendmail)),
            Format::SpamAssassin => Self::AtLines(spamassassin::read),
            Format::Rspamd => {
                Self::AtLines(|line, out| score::read(score::Program::Rspamd, line, out))
            }
            Format::Amavis => {
                Self::AtLines(|line, out| score::read(score::Program::Amavis, line, out))
            }
            Format::Exim => Self::Exim(Exim::default()),
            Format::Json => Self::Json(Box::new(Json::new(false))),
            Format::JsonLines => Self::Json(Box::new(Json::new(true))),
            Format::Rpz => Self::Rpz(Rpz::default()),
            Format::Sections => Self::Sections(Sections::default()),
            Format::Rbldnsd => Self::AtLines(rbldnsd::read),
            Format::Dnsmasq => Self::AtLines(dnsmasq::read),
            Format::Adblock => Self::AtLines(adblock::read),
            Format::Patterns => Self::AtLines(patterns::read),
            Format::Whitelist => Self::AtLines(names::allowed),
            Format::Removals { trees: false } => Self::AtLines(names::removed),
            Format::Removals { trees: true } => Self::AtLines(names::removed_trees),
            Format::Html => Self::AtLines(|line, out| match line.trim_ascii() {
                b"" => out.skip(Skip::Blank),
                line => out.reject(Reason::WebPage, line),
            }),
            Format::Mail => Self::AtLines(|line, out| match line.trim_ascii() {
                b"" => out.skip(Skip::Blank),
                line => out.reject(Reason::MailMessage, line),
            }),
        }
    }
}

impl Reader {
    /// A reader at the start of a list.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self {
            way: Way::of(format),
            lines: 0,
            in_long_line: false,
        }
    }

    /// Whether each line stands for itself, so that blocks of whole lines can be
    /// read by several readers at once. JSON lines do, for a reader each.
    #[must_use]
    pub fn at_lines(&self) -> bool {
        match &self.way {
            Way::Plain | Way::AtLines(_) => true,
            Way::Access(_)
            | Way::Exim(_)
            | Way::Rpz(_)
            | Way::Sections(_)
            | Way::Csv(_)
            | Way::Json(_) => false,
        }
    }

    /// Lines read to their end so far.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Reads `block`, the next bytes of the list, and returns how many of them are
    /// done with; the rest (an unfinished line or record, never more than [`MAX_LINE`]
    /// bytes) must stand at the start of the next block. With `last` everything is done.
    pub fn read<F>(&mut self, block: &[u8], last: bool, sink: &mut F) -> usize
    where
        F: FnMut(u64, Row<'_>),
    {
        let mut done = 0;
        loop {
            if self.in_long_line {
                done += self.leave_long_line(block.get(done..).unwrap_or_default(), last);
            }
            let rest = block.get(done..).unwrap_or_default();
            let count = match &mut self.way {
                Way::Json(json) => {
                    json.read(rest, last, &mut self.lines, sink);
                    return block.len();
                }
                Way::Csv(csv) => csv.read(rest, last, &mut self.lines, sink),
                _ => self.read_lines(rest, last, sink),
            };
            done += count;
            let unfinished = block.get(done..).unwrap_or_default();
            if unfinished.len() <= MAX_LINE {
                break;
            }
            sink(self.lines + 1, Row::rejected(Reason::TooLong, unfinished));
            self.in_long_line = true;
        }
        if last && let Way::Access(access) = &mut self.way {
            access.finish(&mut Out::new(self.lines, b"", sink));
        }
        done
    }

    /// Reads the whole lines of a block.
    fn read_lines<F>(&mut self, block: &[u8], last: bool, sink: &mut F) -> usize
    where
        F: FnMut(u64, Row<'_>),
    {
        let whole = match memchr::memrchr(b'\n', block) {
            _ if last => block.len(),
            Some(newline) => newline + 1,
            None => 0,
        };
        for line in lines(block.get(..whole).unwrap_or_default()) {
            self.lines += 1;
            let number = self.lines;
            if line.len() > MAX_LINE {
                sink(number, Row::rejected(Reason::TooLong, line));
                continue;
            }
            match &mut self.way {
                Way::Plain => plain::read(line, number, sink),
                Way::AtLines(read) => read(line, &mut Out::new(number, line, sink)),
                Way::Access(access) => access.read(line, &mut Out::new(number, line, sink)),
                Way::Exim(exim) => exim.read(line, &mut Out::new(number, line, sink)),
                Way::Rpz(rpz) => rpz.read(line, &mut Out::new(number, line, sink)),
                Way::Sections(sections) => {
                    sections.read(line, &mut Out::new(number, line, sink));
                }
                // These do not end at lines.
                Way::Csv(_) | Way::Json(_) => {}
            }
        }
        whole
    }

    /// Goes to the end of a line that is not wanted.
    fn leave_long_line(&mut self, block: &[u8], last: bool) -> usize {
        let newline = memchr::memchr(b'\n', block);
        if newline.is_some() || last {
            self.lines += 1;
            self.in_long_line = false;
        }
        newline.map_or(block.len(), |newline| newline + 1)
    }

    /// Reads a list to its end: [`Reader::read`] with a buffer of its own.
    ///
    /// # Errors
    ///
    /// What reading `input` gave. The rows before the error have been handed out.
    pub fn read_all<F>(&mut self, mut input: impl Read, sink: &mut F) -> io::Result<()>
    where
        F: FnMut(u64, Row<'_>),
    {
        let mut buffer = vec![0; 4 * MAX_LINE];
        let mut filled = 0;
        loop {
            let free = buffer.get_mut(filled..).unwrap_or_default();
            let (count, failed) = match input.read(free) {
                Ok(count) => (count, None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => (0, Some(error)),
            };
            filled += count;
            if count > 0 && filled < buffer.len() {
                // An input that comes byte by byte is not read anew with each of them.
                continue;
            }
            let block = buffer.get(..filled).unwrap_or_default();
            let at_end = count == 0 && failed.is_none();
            let done = self.read(block, at_end, sink);
            if let Some(error) = failed {
                return Err(error);
            }
            if at_end {
                return Ok(());
            }
            buffer.copy_within(done..filled, 0);
            filled -= done;
        }
    }
}
