//! The formats of lists and their names.

use std::fmt;
use std::str::FromStr;

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// One entry per line; comments.
    Plain,
    /// Plain lists under headings: `[whitelist]`, `allow:`.
    Sections,
    /// `0.0.0.0 bad.example`.
    Hosts,
    /// A table with commas, semicolons, tabs or `|`.
    Csv {
        /// The column that holds the entries, counted from 1; 0 to find it by the
        /// heading or the first row.
        column: u16,
    },
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
    /// A JSON document.
    Json,
    /// One JSON document per line.
    JsonLines,
    /// A response policy zone.
    Rpz,
    /// A `dnset` of rbldnsd.
    Rbldnsd,
    /// `address=/bad.example/`.
    Dnsmasq,
    /// `||bad.example^`.
    Adblock,
    /// Regular expressions, which cannot be looked up.
    Patterns,
    /// A web page in place of a list: nothing in it is an entry.
    Html,
    /// A mail in place of a list: it names senders and recipients alike.
    Mail,
    /// The output of `diff` in place of a list.
    Diff,
    /// A whitelist: plain, and made of the lines that a blocklist skips.
    Whitelist,
    /// A list of entries to remove, whatever its lines say about them.
    Removals {
        /// Whether a domain includes all its subdomains, as in an access table.
        trees: bool,
    },
}

/// Each format with its name on the command line and in reports.
const NAMES: &[(Format, &str)] = &[
    (Format::Plain, "plain"),
    (Format::Sections, "sections"),
    (Format::Hosts, "hosts"),
    (Format::Csv { column: 0 }, "csv"),
    (Format::PostfixAccess, "postfix-access"),
    (Format::SendmailAccess, "sendmail-access"),
    (Format::SpamAssassin, "spamassassin"),
    (Format::Rspamd, "rspamd"),
    (Format::Amavis, "amavis"),
    (Format::Exim, "exim"),
    (Format::Json, "json"),
    (Format::JsonLines, "jsonl"),
    (Format::Rpz, "rpz"),
    (Format::Rbldnsd, "rbldnsd"),
    (Format::Dnsmasq, "dnsmasq"),
    (Format::Adblock, "adblock"),
    (Format::Patterns, "patterns"),
    (Format::Html, "html"),
    (Format::Mail, "mail"),
    (Format::Diff, "diff"),
    (Format::Whitelist, "whitelist"),
    (Format::Removals { trees: false }, "removals"),
];

/// Formats that nobody can ask for: a list turns out to be one, or is read as one.
const NOT_OFFERED: &[Format] = &[
    Format::Patterns,
    Format::Html,
    Format::Mail,
    Format::Diff,
    Format::Whitelist,
    Format::Removals { trees: false },
];

/// Other names: programs whose lists have one of the formats above.
const ALIASES: &[(&str, Format)] = &[
    ("text", Format::Plain),
    ("ini", Format::Sections),
    ("yaml", Format::Sections),
    ("qmail", Format::Plain),
    ("opensmtpd", Format::Plain),
    ("haraka", Format::Plain),
    ("tsv", Format::Csv { column: 0 }),
    ("access", Format::PostfixAccess),
    ("postfix", Format::PostfixAccess),
    ("sendmail", Format::SendmailAccess),
    ("lsearch", Format::Exim),
    ("json-lines", Format::JsonLines),
    ("dnset", Format::Rbldnsd),
    ("unbound", Format::Dnsmasq),
];

impl Format {
    /// Returns the name that [`Format::from_str`] reads; `csv` without its column.
    #[must_use]
    pub fn name(self) -> &'static str {
        let plain = match self {
            Self::Csv { .. } => Self::Csv { column: 0 },
            Self::Removals { .. } => Self::Removals { trees: false },
            other => other,
        };
        NAMES
            .iter()
            .find(|(format, _)| *format == plain)
            .map_or("", |(_, name)| name)
    }

    /// Returns the names that can be asked for, for messages.
    #[must_use]
    pub fn known() -> String {
        let names: Vec<&str> = NAMES
            .iter()
            .filter(|(format, _)| !NOT_OFFERED.contains(format))
            .map(|(_, name)| *name)
            .collect();
        format!("{} (csv:3 for the third column)", names.join(", "))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Csv { column } if *column > 0 => write!(f, ":{column}"),
            _ => Ok(()),
        }
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown list format {name:?}; known are {}", Format::known())]
pub struct UnknownFormat {
    name: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let unknown = || UnknownFormat {
            name: name.to_owned(),
        };
        if let Some((format, column)) = name.split_once(':') {
            return match (format, column.parse()) {
                ("csv" | "tsv", Ok(column)) if column > 0 => Ok(Self::Csv { column }),
                _ => Err(unknown()),
            };
        }
        let named = NAMES.iter().find(|(_, known)| *known == name);
        let alias = || ALIASES.iter().find(|(known, _)| *known == name);
        named
            .map(|(format, _)| *format)
            .filter(|format| !NOT_OFFERED.contains(format))
            .or_else(|| alias().map(|(_, format)| *format))
            .ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, NAMES, NOT_OFFERED};

    #[test]
    fn names_read_back() {
        for (format, name) in NAMES {
            assert_eq!(format.to_string(), *name);
            if NOT_OFFERED.contains(format) {
                assert!(name.parse::<Format>().is_err(), "{name}");
            } else {
                assert_eq!(name.parse(), Ok(*format));
            }
        }
        assert_eq!("csv:3".parse(), Ok(Format::Csv { column: 3 }));
        assert_eq!(Format::Csv { column: 3 }.to_string(), "csv:3");
        for wrong in ["", "csv:", "csv:0", "csv:x", "plain:1", "Plain"] {
            assert!(wrong.parse::<Format>().is_err(), "{wrong}");
        }
    }
}
