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
//! exceptions. It does not name entries that have expired on the day of NEW's build.
//!
//! | file | about |
//! |---|---|
//! | `differences` | the records of two filters side by side |
//! | `make` | makes a delta of two filters |
//! | `patched` | the records of OLD with the edits of a delta |
//! | `apply` | makes a filter from another one and deltas |

mod apply;
mod differences;
mod make;
mod patched;

pub use apply::{Applied, Deltas, apply};
pub use make::{Made, make};

use std::path::Path;

use super::write::FileRecords;
use crate::compile::error::Error;
use crate::filter::{Digest, Filter, Key, Load};

/// Opens a filter to read its records. No address is looked up in it, so it may have any version of
/// the address rules.
fn open(path: &Path) -> Result<Filter, Error> {
    Ok(Filter::open(path, Load::Disk)?)
}

fn records(filter: &Filter) -> Result<FileRecords<'_>, Error> {
    FileRecords::new(filter, Key::default(), Vec::new())
}

/// Names a filter for messages: "generation 41 (a1b2...)".
fn named(generation: u64, identity: Digest) -> String {
    format!("generation {generation} ({identity:.16})")
}
