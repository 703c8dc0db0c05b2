//! Cutting a block of bytes into lines.

/// The longest line that is read, in bytes. The longest address has 320 bytes,
/// so a hundred of them fit in one line, with names and comments.
pub const MAX_LINE: usize = 64 << 10;

/// The byte order mark that editors put before UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the lines of `block` without their ends. A carriage return before the
/// newline belongs to the end. A last line without a newline is a line too; an
/// empty block has none.
///
/// ```
/// let lines: Vec<_> = blocklist_milter::list::lines(b"a\r\n\nb").collect();
/// assert_eq!(lines, [&b"a"[..], b"", b"b"]);
/// ```
#[must_use]
pub fn lines(block: &[u8]) -> Lines<'_> {
    Lines {
        block,
        start: 0,
        newlines: memchr::memchr_iter(b'\n', block),
    }
}

/// The iterator that [`lines`] returns.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    block: &'a [u8],
    /// Where the next line starts.
    start: usize,
    newlines: memchr::Memchr<'a>,
}

impl Lines<'_> {
    /// Returns where in the block the next line starts.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.newlines.next().unwrap_or(self.block.len());
        let line = self.block.get(self.start..end)?;
        if line.is_empty() && end == self.block.len() {
            return None;
        }
        self.start = end + 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Returns the number of newlines in a text.
pub(crate) fn newlines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
