//! Numbers and texts, one after the other: little-endian numbers; each text after its length in
//! 16 bits, without control characters.

use std::io::Read;

pub(super) struct Fields<R, P> {
    from: R,
    /// What is said of a field that is cut off or malformed.
    problem: P,
}

impl<R: Read, P: Clone> Fields<R, P> {
    pub(super) fn new(from: R, problem: P) -> Self {
        Self { from, problem }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], P> {
        let mut bytes = [0; N];
        let read = self.from.read_exact(&mut bytes);
        read.map(|()| bytes).map_err(|_| self.problem.clone())
    }

    pub(super) fn u16(&mut self) -> Result<u16, P> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, P> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, P> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads bytes; memory grows as they come.
    pub(super) fn bytes(&mut self, length: u64) -> Result<Vec<u8>, P> {
        let mut bytes = Vec::new();
        match self.from.by_ref().take(length).read_to_end(&mut bytes) {
            Ok(count) if count as u64 == length => Ok(bytes),
            Ok(_) | Err(_) => Err(self.problem.clone()),
        }
    }

    pub(super) fn text(&mut self, longest: usize) -> Result<String, P> {
        let length = self.u16()?;
        let text = match usize::from(length) <= longest {
            true => String::from_utf8(self.bytes(length.into())?).ok(),
            false => None,
        };
        let text = text.filter(|text| is_plain(text));
        text.ok_or_else(|| self.problem.clone())
    }

    pub(super) fn end(mut self) -> Result<(), P> {
        match self.from.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) | Err(_) => Err(self.problem),
        }
    }
}

/// Appends a text of at most 65,535 bytes.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("its length was checked");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}
