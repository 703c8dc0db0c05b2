//! Senders and lists make a verdict. No I/O but look-ups in the filters, no clock, no state.
//!
//! A message is judged in this order:
//!
//! ```text
//! sender -> canonical form -> entries -> each list that checks this identity     examine()
//!    hit -> expired?  no longer a hit
//!        -> is the address on the whitelist?  this hit does not count, others do
//!    hits -> which of them affect this recipient?                                decide()
//!         -> milder action: mailing list, weak address, circuit breaker, dry run
//!         -> the strongest action wins
//!    recipients who want different things -> apart, or what none of them would mind   reach.rs
//! ```
//!
//! A hit counts only if a record proves it. A filter compiled without records cannot prove; its
//! list's action applies then; a warning says what that costs. A filter that
//! cannot be read is neither hit nor miss: the message is *undecided*.
//!
//! There are at most [`LISTS_MAX`] lists, so that a set of lists is one `u64`.

mod action;
mod authentication;
mod breaker;
mod definition;
mod examine;
mod exempt;
mod list;
mod mixed_recipients;
mod reach;
mod reply;
mod verdict;

pub use action::{Action, Effect, Mark};
pub use authentication::{dkim_domains, is_aligned};
pub use breaker::{Change, CircuitBreaker};
pub use definition::{Error, LISTS_MAX, Policy};
pub use examine::{Budget, Circumstances, Evidence, Hit, Scratch, Seen};
pub use exempt::{Entries, Exemption, Network, Recipient};
pub use list::{List, Terms, Weak};
pub use mixed_recipients::MixedRecipients;
pub use reach::Reach;
pub use reply::{Fields, Template, TemplateError};
pub use verdict::{Reason, Softening, Verdict};
