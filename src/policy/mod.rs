//! From senders and lists to a verdict. No I/O except look-ups in filters, no clock, no state.
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
//!    recipients with different verdicts -> defer some, or tag for all             recipients.rs
//! ```
//!
//! A hit counts as certain only if a record proves it. A filter compiled without records has no
//! proof; the action of its list applies anyway, and a warning states the cost. A filter that
//! cannot be read gives neither a hit nor a miss: the message is *undecided*.

mod action;
mod authentication;
mod breaker;
mod examine;
mod exempt;
mod list;
mod recipients;
mod reply;
mod verdict;

pub(crate) use action::Action;
pub use authentication::Authentication;
pub(crate) use authentication::is_aligned;
pub use breaker::CircuitBreaker;
pub(crate) use examine::{Budget, Circumstances, Evidence, Hit, Scratch, Seen};
pub use exempt::Entries;
pub(crate) use exempt::{Network, Recipient};
pub(crate) use list::{LISTS_MAX, List, MixedRecipients, Policy, Terms, Weak};
pub(crate) use recipients::ListSets;
pub(crate) use reply::{Fields, Template};
pub use verdict::Reason;
pub(crate) use verdict::{Softening, Verdict};
