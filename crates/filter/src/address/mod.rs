//! One mail address: its canonical form, and the entries that name it.
//!
//! The senders that a list names, and those of a message, go through this module and are then
//! compared byte by byte. So two conditions must hold:
//!
//! * two spellings of one mailbox give the same bytes ([`Canonical`]);
//! * two mailboxes never give the same bytes.
//!
//! The rules, in the order in which they apply (RFC 5322 section 3.4 and
//! the obsolete forms of section 4.4, RFC 5321 section 4.1.2, RFC 6531, RFC 6532):
//!
//! | step | what happens | where |
//! |---|---|---|
//! | read | removes comments, folds, control characters and invisible code points; removes `<>`, `mailto:` and source routes; divides at the last `@` outside quotes | `parse` |
//! | local part | removes quotes, applies NFC and lower case; removes a BATV tag; quotes again only if necessary | `canonical`, `unicode`, `bounce` |
//! | domain | maps to A-labels by UTS 46, lower case, without final dot; gives address literals one form | `domain` |
//! | provider | makes equal what a provider documents as one mailbox (dots at Gmail, `+tag`) | `providers` |
//!
//! An address that only needs lower case takes a shortcut (`plain`).
//!
//! Input is bytes. Valid UTF-8 is Unicode; any other byte stays as it is, because a replacement
//! character would let two senders share a key. Broken addresses are not repaired, and letters
//! that look alike are never made equal.

mod bounce;
mod canonical;
mod domain;
mod entry;
mod error;
mod escaped;
mod kind;
mod parse;
#[doc(hidden)]
pub mod plain;
#[doc(hidden)]
pub mod providers;
mod rules;
mod unicode;

pub use canonical::Canonical;
pub use domain::MAX_DOMAIN_BYTES;
pub use entry::Entry;
pub use error::ParseError;
pub use escaped::{escaped, shortened};
pub use kind::{Kind, Kinds};
pub use parse::MAX_WRITTEN_BYTES;
#[doc(hidden)]
pub use parse::behind_route;
pub use rules::Rules;

/// Version of the rules by which this crate reads addresses. Increased whenever the canonical form of any address changes, so that a filter compiled with
/// other rules is detected.
pub const RULES_VERSION: u16 = 2;
