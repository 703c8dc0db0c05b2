//! The keys of a list. They are the same in all of its objects.

use std::collections::HashMap;

use crate::list::meaning::headings::Heading;

/// Maximum number of keys remembered; the keys of a map are entries, and have no limit.
const MAX_KEYS: usize = 256;

/// Maximum length of a remembered key in bytes.
const MAX_KEY_BYTES: usize = 64;

/// What each key means, once it was looked up.
#[derive(Debug, Default)]
pub(super) struct Keys {
    known: HashMap<Box<[u8]>, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    heading: Option<Heading>,
    /// Whether a report has said that its meaning is unknown.
    is_reported: bool,
}

impl Keys {
    /// Returns what a key is for; `None` if unknown.
    pub(super) fn heading(&mut self, name: &[u8]) -> Option<Heading> {
        if let Some(known) = self.known.get(name) {
            return known.heading;
        }
        let heading = Heading::of(name);
        let is_entry = name.contains(&b'.') || name.contains(&b'@');
        if self.known.len() < MAX_KEYS && name.len() <= MAX_KEY_BYTES && !is_entry {
            let known = Known {
                heading,
                is_reported: false,
            };
            self.known.insert(name.into(), known);
        }
        heading
    }

    /// Returns whether a key of unknown meaning was reported, or cannot be.
    pub(super) fn is_reported(&self, name: &[u8]) -> bool {
        self.known.get(name).is_none_or(|known| known.is_reported)
    }

    /// Returns whether a key is to be reported now, and marks it as reported.
    pub(super) fn report(&mut self, name: &[u8]) -> bool {
        let known = self.known.get_mut(name);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_reported, true))
    }
}
