//! Numbers and texts, one after the other: little-endian numbers; each text after its length in
//! 16 bits.

use super::error::Fault;

/// Reads little-endian fields from the front.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Fault::Malformed {
            part: "header fields",
        })?;
        self.0 = rest;
        Ok(*field)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self, longest: usize) -> Option<String> {
        let length = usize::from(self.u16().ok()?);
        if length > longest {
            return None;
        }
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// Appends a text.
///
/// # Panics
///
/// If it is longer than 65,535 bytes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("its length was checked");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Returns whether a text has no control characters.
pub(super) fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}
