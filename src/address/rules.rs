//! The rules that a list can choose.

/// Which optional rules make two addresses one.
///
/// A filter file records them: compiling and looking up must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// What a known provider documents as one mailbox is one: on by default.
    pub providers: bool,
    /// `+tag` is cut at every domain.
    pub plus: bool,
    /// The sender inside an SRS0 or SRS1 address is looked up as well.
    pub srs: bool,
    /// Local parts are compared in NFKC: full-width and other compatibility
    /// letters equal the plain ones.
    pub nfkc: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            providers: true,
            plus: false,
            srs: false,
            nfkc: false,
        }
    }
}

impl Rules {
    /// As one byte of the filter file: bit 0 `providers`, 1 `plus`, 2 `srs`, 3 `nfkc`.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.providers)
            | u8::from(self.plus) << 1
            | u8::from(self.srs) << 2
            | u8::from(self.nfkc) << 3
    }

    /// The rules that [`Self::bits`] wrote; `None` when a bit is set that this version does not know.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits < 16).then_some(Self {
            providers: bits & 1 != 0,
            plus: bits & 2 != 0,
            srs: bits & 4 != 0,
            nfkc: bits & 8 != 0,
        })
    }
}
