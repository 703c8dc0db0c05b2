//! The kinds of entries in a list.

use crate::base::named::named;

named! {
    /// What an entry names. The order gives the numbers in filter files.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Kind {
        /// One mailbox: `a@b`.
        #[default]
        Mailbox = "mailbox",
        /// A local part at every domain: `a@`.
        LocalPart = "local-part",
        /// Every mailbox of one domain: `@b`.
        Domain = "domain",
        /// Every mailbox of every domain under one, but not of that domain itself: `.b`.
        Subtree = "subtree",
    }
}

/// A set of [`Kind`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u8);

impl Kinds {
    /// The empty set.
    pub const EMPTY: Self = Self(0);
    /// The set of all kinds.
    pub const ALL: Self = Self(0b1111);

    /// Returns whether `kind` is in the set.
    pub fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Adds `kind` to the set.
    pub fn insert(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u8;
    }

    /// Reads one byte of the filter file, where bit n is the kind with number n; returns `None` if
    /// a bit is set that no kind has.
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits & !Self::ALL.0 == 0).then_some(Self(bits))
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        let mut set = Self::EMPTY;
        kinds.into_iter().for_each(|kind| set.insert(kind));
        set
    }
}
