//! Logs of changes, in tables and JSON: a row lists a sender, and a later one takes it off again.
//!
//! ```text
//!   add,spam@bad.example                    {"op": "block", "email": "spam@bad.example"}
//!   remove,spam@bad.example                 {"op": "unblock", "email": "spam@bad.example"}
//! ```
//!
//! Rows are passed on as they are read, so such a list cannot be used.

use std::collections::HashSet;

use crate::list::meaning::headings::Heading;
use crate::list::meaning::status::{is_addition, is_withdrawal};

/// Maximum number of bytes of the entries that are kept.
const MAX_BYTES: usize = 16 << 20;

/// The entries that rows with an action have listed, in lower case.
#[derive(Debug, Default)]
pub(super) struct Changes {
    listed: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Changes {
    /// Takes what a row says about its entry, and returns whether it takes off what a row before it
    /// has listed. Of more entries than can be kept, it is not known.
    pub(super) fn take_back<'v>(
        &mut self,
        entry: &[u8],
        mut said: impl Iterator<Item = (Heading, &'v [u8])>,
    ) -> bool {
        let change = said.find_map(|(heading, value)| match heading {
            Heading::Action | Heading::Status | Heading::Kind => {
                let is_listed = is_addition(value);
                (is_listed || is_withdrawal(value)).then_some(is_listed)
            }
            _ => None,
        });
        match change {
            Some(true) if self.bytes < MAX_BYTES => {
                let is_new = self.listed.insert(entry.to_ascii_lowercase());
                self.bytes += usize::from(is_new) * (entry.len() + size_of::<Vec<u8>>());
                false
            }
            Some(false) => self.listed.contains(&entry.to_ascii_lowercase()),
            Some(true) | None => false,
        }
    }
}
