//! The kinds of entry that a list holds.

/// What an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// One mailbox: `a@b`.
    Mailbox = 0,
    /// A local part at every domain: `a@`.
    LocalPart = 1,
    /// Every mailbox of one domain: `@b`.
    Domain = 2,
    /// Every mailbox of every domain under one, itself not: `.b`.
    Subtree = 3,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Mailbox, Self::LocalPart, Self::Domain, Self::Subtree];

    /// As it is shown to people and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mailbox => "mailbox",
            Self::LocalPart => "local-part",
            Self::Domain => "domain",
            Self::Subtree => "subtree",
        }
    }
}

/// A set of [`Kind`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u8);

impl Kinds {
    /// None of them.
    pub const EMPTY: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(0b1111);

    /// Is `kind` in the set?
    #[must_use]
    pub fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Puts `kind` into the set.
    pub fn insert(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u8;
    }

    /// From one byte of the filter file, where bit n is the kind of number n; `None` when a bit is
    /// set that no kind has.
    #[must_use]
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
