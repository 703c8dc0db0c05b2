//! The formats of lists.

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
