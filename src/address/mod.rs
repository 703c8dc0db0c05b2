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
//! An address that none of this touches but for its capitals takes a short cut (`plain`).
//!
//! Input is bytes. Valid UTF-8 is Unicode; any other byte stays itself, for a
//! replacement character would let two senders share a key. Nothing is repaired
//! that is broken, and letters that look alike are never made equal.
//!
//! An [`Entry`] is what a list names, in its canonical text; a [`Key`](crate::filter::Key) is its
//! hash.

mod bounce;
mod canonical;
mod domain;
mod entry;
mod error;
mod escaped;
mod kind;
mod parse;
pub(crate) mod plain;
pub(crate) mod providers;
mod rules;
mod unicode;

pub use canonical::Canonical;
pub use domain::MAX_DOMAIN_BYTES;
pub use entry::Entry;
pub use error::ParseError;
pub use escaped::{escaped, shortened};
pub use kind::{Kind, Kinds};
pub use parse::MAX_WRITTEN_BYTES;
pub use rules::Rules;

/// Raised whenever the canonical form of any address changes, so that a filter
/// made by other rules is noticed.
pub const RULES_VERSION: u16 = 2;
