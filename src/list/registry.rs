//! One row for each format: its names, the mark that tells it from others, how it is read.
//!
//! | format | listed | not listed |
//! |---|---|---|
//! | plain | `a@b` `a@` `@b` `b` `.b` `*.b` `*@b` | comments |
//! | addresses | the same, several between commas and semicolons | comments |
//! | hosts | names with a null or loopback address | hosts with a real one |
//! | dnsmasq (also unbound), adblock, rbldnsd | domains, with their subdomains if the format says so | `!`, `@@`, real addresses |
//! | rpz | `CNAME .`, `*.`, `rpz-drop.` | `rpz-passthru.`, other records |
//! | postfix-access, sendmail-access | REJECT, DISCARD, 5xx; a domain with its subdomains | OK, DUNNO, 4xx, `To:`, `Connect:` |
//! | spamassassin | `blocklist_from` | `unblocklist_from`, `welcomelist_*` |
//! | rspamd, amavis | a positive score or none | any other score |
//! | exim | keys of `lsearch` files | `!` keys |
//! | csv, json, jsonl | what their owner declares | what their owner declares |

use std::fmt;
use std::str::FromStr;

use super::formats::access::{self, Program};
use super::formats::adblock::{self, Adblock};
use super::formats::continued::Continued;
use super::formats::exim::{self, Exim};
use super::formats::plain::{Kind, Plain};
use super::formats::rpz::{self, Rpz};
use super::formats::spamassassin::{self, SpamAssassin};
use super::formats::{AtLines, KeyOf, LineFormat, dnsmasq, hosts, rbldnsd, score};

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One entry a line; comments.
    Plain,
    /// Plain, with several entries a line.
    Addresses,
    /// `0.0.0.0 bad.example`.
    Hosts,
    /// `address=/bad.example/` of dnsmasq, `local-zone: "bad.example" deny` of unbound.
    Dnsmasq,
    /// `||bad.example^`.
    Adblock,
    /// A response policy zone.
    Rpz,
    /// A `dnset` of rbldnsd.
    Rbldnsd,
    /// access(5) of Postfix.
    PostfixAccess,
    /// The source of Sendmail's access map.
    SendmailAccess,
    /// `blocklist_from` lines.
    SpamAssassin,
    /// A map of rspamd: entry, score.
    Rspamd,
    /// A sender map of amavis: entry, score.
    Amavis,
    /// `lsearch` or `wildlsearch`: entry, colon, data.
    Exim,
    /// A table with commas, semicolons, tabs or another separator.
    Csv,
    /// A JSON document.
    Json,
    /// One JSON document a line.
    JsonLines,
    /// A whitelist: plain, with `OK` after the entry or not.
    Whitelist,
    /// A list of entries to remove, whatever its lines say about them.
    Removals {
        /// Whether its lines are those of an access table, in which a domain includes its
        /// subdomains.
        trees: bool,
    },
}

impl Format {
    /// Returns whether it is read by a [`Table`](super::Table): which column or key names the
    /// sender, and which rows count.
    #[must_use]
    pub fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::Json | Self::JsonLines)
    }
}

/// Where a list can be cut, so that several readers read its parts at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// After each line.
    AtLines,
    /// Before each record: a line with the lines that continue it, in CSV those inside quotes, else
    /// those that begin with white space.
    AtRecords,
    /// Nowhere.
    Never,
}

/// What is known about a format.
pub(crate) struct Registered {
    pub(crate) format: Format,
    pub(crate) name: &'static str,
    /// Other names: programs whose lists have this format.
    pub(crate) aliases: &'static [&'static str],
    /// Whether it can be asked for.
    pub(crate) is_offered: bool,
    pub(crate) splits: Splits,
    /// What only the lines of this format have.
    pub(crate) mark: Option<Mark>,
    /// Makes the reader of a line format; `true` if somebody chose the format.
    pub(crate) lines: Option<fn(bool) -> Box<dyn LineFormat>>,
    /// Its usual lines, if they can be read without a reader: returns their key. Access tables list
    /// mailboxes, too, and a domain with its subdomains.
    pub(crate) usual: Option<KeyOf>,
}

/// A mark for people, and whether a line has it, trimmed and not a comment.
type Mark = (&'static str, fn(&[u8]) -> bool);

/// Returns the format whose mark a line has.
pub(crate) fn marked(line: &[u8]) -> Option<&'static str> {
    let has_mark = |row: &&Registered| row.mark.is_some_and(|(_, is_on)| is_on(line));
    FORMATS.iter().find(has_mark).map(|row| row.name)
}

const fn row(format: Format, name: &'static str, splits: Splits) -> Registered {
    Registered {
        format,
        name,
        aliases: &[],
        is_offered: true,
        splits,
        mark: None,
        lines: None,
        usual: None,
    }
}

impl Registered {
    const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn marked(mut self, shown: &'static str, is_on: fn(&[u8]) -> bool) -> Self {
        self.mark = Some((shown, is_on));
        self
    }

    const fn by(mut self, lines: fn(bool) -> Box<dyn LineFormat>) -> Self {
        self.lines = Some(lines);
        self
    }

    const fn usually(mut self, key: KeyOf) -> Self {
        self.usual = Some(key);
        self
    }

    const fn internal(mut self) -> Self {
        self.is_offered = false;
        self
    }
}

/// The formats; of several that read a list equally, the first counts.
pub(crate) static FORMATS: &[Registered] = &[
    row(Format::Plain, "plain", Splits::AtLines)
        .also(&["text", "qmail", "opensmtpd", "haraka"])
        .by(|is_explicit| Box::new(Plain::new(Kind::Plain, is_explicit, marked))),
    row(Format::Addresses, "addresses", Splits::AtLines)
        .by(|is_explicit| Box::new(Plain::new(Kind::Addresses, is_explicit, marked))),
    row(Format::Hosts, "hosts", Splits::AtLines)
        .marked("a name after an IP address", hosts::is_marked)
        .by(|_| Box::new(AtLines(hosts::read)))
        .usually(hosts::usual),
    row(Format::Dnsmasq, "dnsmasq", Splits::AtLines)
        .also(&["unbound"])
        .marked(
            "address=/, server=/, local=/, local-zone: or local-data:",
            dnsmasq::is_marked,
        )
        .by(|_| Box::new(AtLines(dnsmasq::read))),
    row(Format::Adblock, "adblock", Splits::Never)
        .marked("|| or @@|| before a name, or [Adblock]", adblock::is_marked)
        .by(|_| Box::<Adblock>::default()),
    row(Format::Rpz, "rpz", Splits::Never)
        .marked("$ORIGIN, SOA or CNAME", rpz::is_marked)
        .by(|_| Box::<Rpz>::default()),
    row(Format::Rbldnsd, "rbldnsd", Splits::AtLines)
        .also(&["dnset"])
        .marked(":127.0.0.2:, $SOA, $NS or $DATASET", rbldnsd::is_marked)
        .by(|_| Box::new(AtLines(rbldnsd::read))),
    row(Format::PostfixAccess, "postfix-access", Splits::AtRecords)
        .also(&["access", "postfix"])
        .marked("an action after a key", access::is_postfix)
        .by(|_| Box::new(Continued::new(Program::Postfix)))
        .usually(access::usual),
    row(Format::SendmailAccess, "sendmail-access", Splits::AtRecords)
        .also(&["sendmail"])
        .marked(
            "From:, To: or another tag before a key, or ERROR: after it",
            access::is_sendmail,
        )
        .by(|_| Box::new(Continued::new(Program::Sendmail)))
        .usually(access::usual),
    row(Format::SpamAssassin, "spamassassin", Splits::Never)
        .marked(
            "blocklist_from or an option like it",
            spamassassin::is_marked,
        )
        .by(|_| Box::<SpamAssassin>::default()),
    row(Format::Rspamd, "rspamd", Splits::AtLines)
        .marked("a score after an entry", |line| {
            score::is_marked(line) || score::is_of_rspamd(line)
        })
        .by(|_| Box::new(AtLines(score::rspamd))),
    row(Format::Amavis, "amavis", Splits::AtLines)
        .marked("a score after an entry", score::is_marked)
        .by(|_| Box::new(AtLines(score::amavis))),
    row(Format::Exim, "exim", Splits::AtRecords)
        .also(&["lsearch"])
        .marked("a colon after an entry", exim::is_marked)
        .by(|_| Box::new(Continued::new(Exim))),
    row(Format::Csv, "csv", Splits::AtRecords),
    row(Format::Json, "json", Splits::Never),
    row(Format::JsonLines, "jsonl", Splits::AtLines).also(&["json-lines", "ndjson"]),
    row(Format::Whitelist, "whitelist", Splits::AtLines)
        .by(|_| Box::new(Plain::new(Kind::Whitelist, true, marked)))
        .internal(),
    row(
        Format::Removals { trees: false },
        "removals",
        Splits::AtLines,
    )
    .by(|_| Box::new(Plain::new(Kind::Whitelist, true, marked)))
    .internal(),
    row(
        Format::Removals { trees: true },
        "removals-access",
        Splits::AtRecords,
    )
    .by(|_| Box::new(Continued::new(Program::Removals)))
    .internal(),
];

impl Format {
    pub(crate) fn registered(self) -> &'static Registered {
        let same = |row: &&Registered| row.format == self;
        // A test finds each format there.
        FORMATS.iter().find(same).unwrap_or(&FORMATS[0])
    }

    /// Returns the name that [`Format::from_str`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.registered().name
    }

    /// Returns the names that can be asked for, for messages.
    #[must_use]
    pub fn known() -> String {
        let offered = FORMATS.iter().filter(|row| row.is_offered);
        let names: Vec<&str> = offered.map(|row| row.name).collect();
        names.join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a name is that of no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let named =
            |row: &&Registered| row.is_offered && (row.name == name || row.aliases.contains(&name));
        if let Some(row) = FORMATS.iter().find(named) {
            return Ok(row.format);
        }
        Err(UnknownFormat(format!(
            "unknown list format {name:?}; known are {}; a table is csv, with its column as entry, and perhaps a separator",
            Self::known()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for row in FORMATS {
            assert_eq!(row.format.registered().name, row.name);
            for name in [&[row.name], row.aliases].concat() {
                let read = row.is_offered.then_some(row.format);
                assert_eq!(name.parse::<Format>().ok(), read, "{name}");
            }
        }
        for name in ["csv:3", "Plain", ""] {
            assert!(name.parse::<Format>().is_err(), "{name}");
        }
    }
}
