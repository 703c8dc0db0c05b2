//! One row for each format: its names, the mark that tells it from others, how it is read.

use std::fmt;
use std::str::FromStr;

use super::formats::access::Program;
use super::formats::adblock::{self, Adblock};
use super::formats::continued::{self, Continued};
use super::formats::dnsmasq::{self, Resolver};
use super::formats::plain::{Kind, Plain};
use super::formats::rpz::{self, Rpz};
use super::formats::spamassassin::{self, SpamAssassin};
use super::formats::{LineFormat, ReadLine, access, exim, hosts, rbldnsd, score};
use super::text::cells::whole_records;
use super::text::whole_lines;

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
}

/// What a list is read for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To list its senders.
    #[default]
    List,
    /// To let its senders pass. In a plain list, `OK` may stand after an entry.
    Whitelist,
    /// To remove its entries, whatever a plain list or an access table says about them.
    Removal,
}

/// Returns the length of the whole records at the start of a block, if there are some.
pub type Cut = fn(&[u8]) -> Option<usize>;
type IsMarked = fn(&[u8]) -> bool;

/// What is known about a format.
pub(crate) struct Registered {
    pub(crate) format: Format,
    /// Its name, then those of programs whose lists have it.
    names: &'static str,
    by: By,
    /// What only its lines have: for people, and whether a line (trimmed, no comment) has it.
    pub(crate) mark: Option<(&'static str, IsMarked)>,
}

/// How a list is read.
#[derive(Clone, Copy)]
enum By {
    Plain(Kind),
    /// Each line alone.
    Line(ReadLine),
    /// Each line with those that continue it.
    Continued(ReadLine),
    /// From its start to its end.
    Whole(fn() -> Box<dyn LineFormat>),
    /// As a table, which can perhaps be cut.
    Table(Option<Cut>),
}

const fn row(format: Format, names: &'static str) -> Registered {
    Registered {
        format,
        names,
        by: By::Plain(Kind::Plain),
        mark: None,
    }
}

impl Registered {
    const fn by(mut self, by: By) -> Self {
        self.by = by;
        self
    }

    const fn marked(mut self, shown: &'static str, is_on: IsMarked) -> Self {
        self.mark = Some((shown, is_on));
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.names.split(' ').next().unwrap_or_default()
    }

    pub(crate) fn cut(&self) -> Option<Cut> {
        match self.by {
            By::Plain(_) | By::Line(_) => Some(whole_lines),
            By::Continued(_) => Some(continued::cut),
            By::Whole(_) => None,
            By::Table(cut) => cut,
        }
    }

    /// Returns a reader for a format that is no table; `is_explicit` tells whether somebody chose it.
    pub(crate) fn lines(&self, is_explicit: bool, purpose: Purpose) -> Option<Box<dyn LineFormat>> {
        let is_access = matches!(self.format, Format::PostfixAccess | Format::SendmailAccess);
        Some(match self.by {
            By::Plain(kind) => Box::new(Plain {
                kind,
                takes_ok: kind == Kind::Plain && purpose != Purpose::List,
                is_explicit: is_explicit || purpose != Purpose::List,
                foreign: marked,
            }),
            By::Continued(_) if is_access && purpose == Purpose::Removal => {
                Box::new(Continued::new(|text, out| {
                    Program::Removals.read(text, out);
                }))
            }
            By::Line(read) => Box::new(read),
            By::Continued(read) => Box::new(Continued::new(read)),
            By::Whole(new) => new(),
            By::Table(_) => return None,
        })
    }
}

/// Returns the format whose mark a line has.
pub(crate) fn marked(line: &[u8]) -> Option<&'static str> {
    let has_mark = |row: &&Registered| row.mark.is_some_and(|(_, is_on)| is_on(line));
    FORMATS.iter().find(has_mark).map(Registered::name)
}

/// The formats; of several that read a list equally, the first counts.
pub(crate) static FORMATS: &[Registered] = &[
    row(Format::Plain, "plain text qmail opensmtpd haraka"),
    row(Format::Addresses, "addresses").by(By::Plain(Kind::Addresses)),
    row(Format::Hosts, "hosts")
        .by(By::Line(hosts::read))
        .marked("a name after an IP address", hosts::is_marked),
    row(Format::Dnsmasq, "dnsmasq unbound")
        .by(By::Whole(|| Box::<Resolver>::default()))
        .marked(
            "address=/, server=/, local=/, local-zone: or local-data:",
            dnsmasq::is_marked,
        ),
    row(Format::Adblock, "adblock")
        .by(By::Whole(|| Box::<Adblock>::default()))
        .marked("|| or @@|| before a name, or [Adblock]", adblock::is_marked),
    row(Format::Rpz, "rpz")
        .by(By::Whole(|| Box::<Rpz>::default()))
        .marked("$ORIGIN, SOA or CNAME", rpz::is_marked),
    row(Format::Rbldnsd, "rbldnsd dnset")
        .by(By::Line(rbldnsd::read))
        .marked(":127.0.0.2:, $SOA, $NS or $DATASET", rbldnsd::is_marked),
    row(Format::PostfixAccess, "postfix-access access postfix")
        .by(By::Continued(|text, out| Program::Postfix.read(text, out)))
        .marked("an action after a key", access::is_postfix),
    row(Format::SendmailAccess, "sendmail-access sendmail")
        .by(By::Continued(|text, out| Program::Sendmail.read(text, out)))
        .marked(
            "From:, To: or another tag before a key, or ERROR: after it",
            access::is_sendmail,
        ),
    row(Format::SpamAssassin, "spamassassin")
        .by(By::Whole(|| Box::<SpamAssassin>::default()))
        .marked(
            "blocklist_from or an option like it",
            spamassassin::is_marked,
        ),
    row(Format::Rspamd, "rspamd")
        .by(By::Line(score::rspamd))
        .marked("a score after an entry", score::is_of_rspamd),
    row(Format::Amavis, "amavis")
        .by(By::Line(score::amavis))
        .marked("a score after an entry", score::is_of_amavis),
    row(Format::Exim, "exim lsearch")
        .by(By::Continued(exim::read))
        .marked("a colon after an entry", exim::is_marked),
    row(Format::Csv, "csv").by(By::Table(Some(whole_records))),
    row(Format::Json, "json").by(By::Table(None)),
    row(Format::JsonLines, "jsonl json-lines ndjson").by(By::Table(Some(whole_lines))),
];

impl Format {
    pub(crate) fn registered(self) -> &'static Registered {
        let same = |row: &&Registered| row.format == self;
        // A test finds each format there.
        FORMATS.iter().find(same).unwrap_or(&FORMATS[0])
    }

    /// Returns whether it is read by a [`Table`](super::Table): which column or key names the
    /// sender, and which rows count.
    #[must_use]
    pub fn is_table(self) -> bool {
        matches!(self.registered().by, By::Table(_))
    }

    /// Returns the name that [`Format::from_str`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.registered().name()
    }

    /// Returns the names that can be asked for, for messages.
    #[must_use]
    pub fn known() -> String {
        let names: Vec<&str> = FORMATS.iter().map(Registered::name).collect();
        names.join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = |row: &&Registered| row.names.split(' ').any(|other| other == name);
        if let Some(row) = FORMATS.iter().find(named) {
            return Ok(row.format);
        }
        Err(format!(
            "unknown list format {name:?}; known are {}; a table is csv, with its column as entry, and perhaps a separator; each section of a list needs a file of its own",
            Self::known()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for row in FORMATS {
            assert_eq!(row.format.registered().names, row.names);
            for name in row.names.split(' ') {
                assert_eq!(name.parse(), Ok(row.format), "{name}");
            }
        }
        for name in ["csv:3", "Plain", ""] {
            assert!(name.parse::<Format>().is_err(), "{name}");
        }
    }
}
