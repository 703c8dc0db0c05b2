//! One mail address: its one canonical form, and the entries it is found by.
//!
//! A list names senders, a message names its sender; both go through this module,
//! and are then compared to the byte. So two things must hold, and everything
//! here serves one of them:
//!
//! * two spellings of one mailbox give the same bytes ([`Canonical`]);
//! * two mailboxes never give the same bytes.
//!
//! The rules, in the order in which they are applied (RFC 5322 section 3.4 and
//! the obsolete forms of section 4.4, RFC 5321 section 4.1.2, RFC 6531, RFC 6532):
//!
//! | step | what happens | where |
//! |---|---|---|
//! | read | comments, folds, controls and invisible code points go; `<>`, `mailto:` and source routes are taken off; the last `@` outside quotes divides | `parse` |
//! | local part | unquoted, NFC, lower case; a BATV tag goes; quoted again only where it must be | `canonical`, `unicode`, `bounce` |
//! | domain | UTS 46 to A-labels, lower case, no final dot; address literals in one form | `domain` |
//! | provider | what a provider documents as one mailbox becomes one (dots at Gmail, `+tag`) | `providers` |
//!
//! An address that none of this touches but for its capitals takes a short cut (`plain`), and a
//! whole list of such takes a shorter one (`block`).
//!
//! Input is bytes. Valid UTF-8 is Unicode; any other byte stays itself, for a
//! replacement character would let two senders share a key. Nothing is repaired
//! that is broken, and letters that look alike are never made equal.
//!
//! An [`Entry`] is what a list names, in its canonical text; [`key`] is its hash.

mod block;
mod bounce;
mod canonical;
mod domain;
mod entry;
mod escaped;
mod parse;
mod plain;
mod providers;
mod unicode;

pub use block::{Block, Line};
pub use canonical::Canonical;
pub use entry::{Entry, Kind, Kinds};
pub use escaped::{escaped, shortened};
pub(crate) use providers::is_provider;

use twox_hash::XxHash3_64;

/// Raised whenever the canonical form of any address changes, so that a filter
/// made by other rules is noticed.
pub const RULES_VERSION: u16 = 2;

/// The longest text that is read as one address, in bytes. Far beyond any mail
/// server's limits (RFC 5321 has 320, Postfix keeps 102,400 of a header), so that
/// no comment is long enough to hide an address.
pub const MAX_WRITTEN_BYTES: usize = 1 << 20;

/// The longest domain that a list may name, in bytes (RFC 1035 section 2.3.4, as text).
pub const MAX_DOMAIN_BYTES: usize = 253;

/// Which optional rules make two addresses one.
///
/// A filter file records them: compiling and looking up must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// What a known provider documents as one mailbox is one: on by default.
    pub providers: bool,
    /// `+tag` is cut at every domain.
    pub plus: bool,
    /// The sender inside an SRS0 or SRS1 address is looked up as well.
    pub srs: bool,
    /// Local parts are compared in NFKC: full-width and other compatibility
    /// letters equal the plain ones.
    pub nfkc: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            providers: true,
            plus: false,
            srs: false,
            nfkc: false,
        }
    }
}

impl Rules {
    /// As one byte of the filter file: bit 0 `providers`, 1 `plus`, 2 `srs`, 3 `nfkc`.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.providers)
            | u8::from(self.plus) << 1
            | u8::from(self.srs) << 2
            | u8::from(self.nfkc) << 3
    }

    /// The rules that [`Self::bits`] wrote; `None` when a bit is set that this version does not know.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits < 16).then_some(Self {
            providers: bits & 1 != 0,
            plus: bits & 2 != 0,
            srs: bits & 4 != 0,
            nfkc: bits & 8 != 0,
        })
    }
}

/// Why bytes name no address, or no entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Nothing there: an empty text, or the null sender `<>`.
    #[error("no address: it is empty, like the null sender <>")]
    Empty,
    /// A bare word, or nothing behind the `@`.
    #[error("no domain: an address has a domain after the @")]
    NoDomain,
    /// Nothing before the `@`.
    #[error("no local part: nothing before the @")]
    NoLocalPart,
    /// Longer than the bound.
    #[error("too long: {got} bytes, the limit is {most}")]
    TooLong {
        /// Bytes that were there.
        got: usize,
        /// Bytes that may be.
        most: usize,
    },
    /// An entry that names every sender, as `*@*` or `@` do.
    #[error("this would list every sender")]
    Everything,
    /// Words that are no domain.
    #[error(
        "neither an address nor a domain; write @name for a domain without a dot, name@ for a local part"
    )]
    NotADomain,
    /// A `*` where an entry cannot have one.
    #[error(
        "a * is allowed only in place of a whole local part, a whole domain or the labels before a domain"
    )]
    Wildcard,
}

/// The key of an entry: XXH3-64 of its canonical text under the seed of the filter.
#[must_use]
#[inline]
pub fn key(entry: &[u8], seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, entry)
}
