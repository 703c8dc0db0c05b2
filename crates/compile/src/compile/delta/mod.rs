//! The differences between two filters, for hosts that have one and need the other.
//!
//! ```text
//!   records of OLD --+
//!                    +--> differences --count classes--> head --again--> edits        delta
//!   records of NEW --+
//!
//!   records of OLD --> patched by the first delta --> ... --> assemble --same bytes?--> NEW   apply
//! ```
//!
//! A build gives each entry the day of the build, so the records of tomorrow's build differ from
//! today's in all their dates. Sources are also numbered again when a list is added. Therefore a
//! delta first says how each *class* of records (kind, source, dates) changes, and then names the
//! exceptions. It does not name entries that have expired on the day of NEW's build. No address is
//! looked up in the filters, so they may have any version of the address rules.

mod apply;
mod make;

pub use apply::{Applied, apply};
pub use make::{Made, make};
