//! The keys of a list, which are the same in all of its objects.

use std::collections::HashMap;

use super::super::headings::Heading;

/// Keys remembered; those of a map, which are entries, have no end.
const MAX_KEYS: usize = 256;

/// The longest key remembered.
const MAX_KEY_BYTES: usize = 64;

/// What each key means, once it was asked for.
#[derive(Debug, Default)]
pub(super) struct Keys {
    known: HashMap<Box<[u8]>, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    heading: Option<Heading>,
    /// A person was told that its meaning is unknown.
    is_reported: bool,
}

impl Keys {
    /// What a key is for; nothing when it is not known.
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

    /// Whether a key of unknown meaning was reported, or cannot be.
    pub(super) fn is_reported(&self, name: &[u8]) -> bool {
        self.known.get(name).is_none_or(|known| known.is_reported)
    }

    /// Whether a key is to be reported now.
    pub(super) fn report(&mut self, name: &[u8]) -> bool {
        let known = self.known.get_mut(name);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_reported, true))
    }
}
