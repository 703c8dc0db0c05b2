//! An entry of a list.
//!
//! | written | kind | canonical text |
//! |---|---|---|
//! | `a@b`, `Name <a@b>`, `mailto:a@b` | mailbox | `a@b` |
//! | `a@`, `a@*` | local part | `a@` |
//! | `@b`, `b`, `*@b` | domain | `@b` |
//! | `.b`, `*.b`, `*@*.b`, `*@.b`, `@*.b` | subtree: every domain under b, not b itself | `.b` |
//!
//! Texts of different kinds always differ, so the hash of the text alone can be the key of the
//! entry.

use super::canonical::{self, Canonical};
use super::domain::MAX_DOMAIN_BYTES;
use super::error::ParseError;
use super::kind::Kind;
use super::parse::{self, Parts};
use super::plain::lower_domain;
use super::rules::Rules;

/// One entry of a list in canonical form. Reusable, like [`Canonical`].
///
/// ```
/// use blocklist_filter::address::{Entry, Kind, Rules};
/// let entry = Entry::parse(b"*.Example.COM", Rules::default())?;
/// assert_eq!((entry.kind(), entry.as_bytes()), (Kind::Subtree, &b".example.com"[..]));
/// # Ok::<(), blocklist_filter::address::ParseError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Entry {
    kind: Kind,
    mailbox: Canonical,
    /// The text of an entry that is not a mailbox.
    other: Vec<u8>,
}

impl Entry {
    /// Creates an empty entry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads one entry in the notation of lists, as the table of this module has it. After an error the content of `self` must
    /// not be used.
    ///
    /// # Errors
    /// Each of [`ParseError`]: the text names nobody, everybody, or more than an entry can.
    pub fn read(&mut self, written: &[u8], rules: Rules) -> Result<(), ParseError> {
        if memchr::memchr(b'@', written).is_none() {
            if self.read_plain_domain(written) {
                return Ok(());
            }
        } else if self.mailbox.read_plain(written, rules) {
            self.kind = Kind::Mailbox;
            return Ok(());
        }
        self.other.clear();
        self.read_full(written, rules)
    }

    /// Reads a domain or a subtree that needs no change but lower case; returns false for any other.
    fn read_plain_domain(&mut self, written: &[u8]) -> bool {
        let below = written
            .strip_prefix(b"*.")
            .or_else(|| written.strip_prefix(b"."));
        let (kind, prefix) = match below {
            None => (Kind::Domain, b'@'),
            Some(_) => (Kind::Subtree, b'.'),
        };
        let domain = below.unwrap_or(written);
        self.kind = kind;
        self.other.clear();
        self.other.push(prefix);
        domain.len() < MAX_DOMAIN_BYTES && lower_domain(domain, &mut self.other)
    }

    fn read_full(&mut self, written: &[u8], rules: Rules) -> Result<(), ParseError> {
        let Parts { local, domain, .. } = parse::split(written)?;
        let Some(domain) = domain else {
            return self.read_domain(local, true);
        };
        match (Half::of(local), Half::of(domain)) {
            (Half::All, Half::All) => Err(ParseError::Everything),
            (Half::All, Half::Name | Half::Pattern) => self.read_domain(domain, false),
            // `@@`, `a@b@`: a typing error, and no mailbox has such a local part.
            (Half::Name, Half::All) if !local.starts_with(b"\"") && local.contains(&b'@') => {
                Err(ParseError::NoDomain)
            }
            (Half::Name, Half::All) => {
                canonical::local_entry(local, rules, &mut self.other);
                self.other.push(b'@');
                self.kind = Kind::LocalPart;
                Ok(())
            }
            (Half::Name, Half::Name) if !parse::has_gap(domain) => {
                self.kind = Kind::Mailbox;
                self.mailbox.read(written, rules)
            }
            (Half::Name, Half::Name) => Err(ParseError::NotADomain),
            (Half::Name, Half::Pattern) | (Half::Pattern, _) => Err(ParseError::Wildcard),
        }
    }

    /// Reads one entry into a new one.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(written: &[u8], rules: Rules) -> Result<Self, ParseError> {
        let mut entry = Self::new();
        entry.read(written, rules)?;
        Ok(entry)
    }

    /// Returns what the entry names.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns its canonical text: `a@b`, `a@`, `@b` or `.b`.
    pub fn as_bytes(&self) -> &[u8] {
        match self.kind {
            Kind::Mailbox => self.mailbox.as_bytes(),
            Kind::LocalPart | Kind::Domain | Kind::Subtree => &self.other,
        }
    }

    /// Reads a domain or a subtree. One without any `@` (`bare`) must look like a domain.
    fn read_domain(&mut self, written: &[u8], bare: bool) -> Result<(), ParseError> {
        let star = parse::behind(written, b'*');
        self.other.push(b'@');
        canonical::domain_entry(star.unwrap_or(written), &mut self.other);
        self.kind = Kind::Domain;
        if self.other.get(1) == Some(&b'.') {
            self.kind = Kind::Subtree;
            self.other.remove(0);
        }
        let domain = &self.other[1..];
        if domain.iter().all(|&byte| byte == b'.') {
            return Err(ParseError::Everything);
        }
        if star.is_some() && self.kind == Kind::Domain || domain.contains(&b'*') {
            return Err(match domain {
                b"\\*" => ParseError::Everything,
                _ => ParseError::Wildcard,
            });
        }
        let is_literal = domain.starts_with(b"[");
        let is_one_label = self.kind == Kind::Domain && !is_literal && !domain.contains(&b'.');
        if parse::has_gap(written)
            || domain.iter().any(|&byte| matches!(byte, b'\\' | b'/'))
            || bare && is_one_label
        {
            return Err(ParseError::NotADomain);
        }
        if domain.len() > MAX_DOMAIN_BYTES {
            return Err(ParseError::TooLong {
                got: domain.len(),
                most: MAX_DOMAIN_BYTES,
            });
        }
        Ok(())
    }
}

/// What one side of the `@` in an entry names.
enum Half {
    /// Empty or `*`: matches everything.
    All,
    /// Begins with `*`.
    Pattern,
    Name,
}

impl Half {
    fn of(raw: &[u8]) -> Self {
        match parse::behind(raw, b'*') {
            Some(rest) if parse::is_blank(rest) => Self::All,
            None if parse::is_blank(raw) => Self::All,
            Some(_) => Self::Pattern,
            None => Self::Name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_plain_domain_is_read_as_by_the_full_path(
            prefix in r"|\.|\*\.",
            written in r"[A-Za-z0-9._-]{1,16}|(xn--BCHER-kva|GoogleMail|gmail|user.fastmail)\.(com|\.com)|[!-~]{1,8}|[a-z.]{250,260}",
            bits in 0_u8..16,
        ) {
            let rules = Rules::from_bits(bits).unwrap();
            let (mut fast, mut full) = (Entry::new(), Entry::new());
            let written = prefix + &written;
            if fast.read_plain_domain(written.as_bytes()) {
                full.read_full(written.as_bytes(), rules).unwrap();
                prop_assert_eq!(fast.kind(), full.kind());
                prop_assert_eq!(fast.as_bytes(), full.as_bytes());
            }
        }
    }
}
