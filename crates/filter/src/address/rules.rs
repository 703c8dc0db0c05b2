//! The optional rules of a list.

/// Which optional rules make two addresses equal. A filter file records them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Addresses that a known provider documents as one mailbox are equal. On by default.
    pub providers: bool,
    /// `+tag` is cut at every domain.
    pub plus: bool,
    /// The sender inside an SRS0 or SRS1 address is looked up as well.
    pub srs: bool,
    /// Local parts are compared in NFKC: full-width and other compatibility characters equal the
    /// ordinary ones.
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
    /// Returns them as one byte of the filter file: bit 0 `providers`, 1 `plus`, 2 `srs`, 3 `nfkc`.
    pub fn bits(self) -> u8 {
        u8::from(self.providers)
            | u8::from(self.plus) << 1
            | u8::from(self.srs) << 2
            | u8::from(self.nfkc) << 3
    }

    /// Reads the byte that [`Self::bits`] returned; `None` if an unknown bit is set.
    pub fn from_bits(bits: u8) -> Option<Self> {
        (bits < 16).then_some(Self {
            providers: bits & 1 != 0,
            plus: bits & 2 != 0,
            srs: bits & 4 != 0,
            nfkc: bits & 8 != 0,
        })
    }
}
