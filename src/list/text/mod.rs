//! From a text to lines, words, cells and tokens.

pub(crate) mod cells;
pub(crate) mod json;
mod words;

use std::iter;

pub(crate) use words::{
    Nesting, Words, begins_with_one_of, blank_words, divided, is_one_of, pieces,
};

/// The longest line that is read, in bytes. The longest address has 320 bytes,
/// so a hundred of them fit in one line, with names and comments.
pub const MAX_LINE: usize = 64 << 10;

/// The byte order mark that editors put before UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the lines of `block` without their ends (LF or CR LF). The last may have none.
///
/// ```
/// let lines: Vec<_> = blocklist_milter::list::lines(b"a\r\n\nb").collect();
/// assert_eq!(lines, [&b"a"[..], b"", b"b"]);
/// ```
pub fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let (mut start, mut newlines) = (0, memchr::memchr_iter(b'\n', block));
    iter::from_fn(move || {
        let end = newlines.next().unwrap_or(block.len());
        let line = block.get(start..end)?;
        if line.is_empty() && end == block.len() {
            return None;
        }
        start = end + 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// Returns the length of the whole lines at the start of a block, if there are some.
pub(crate) fn whole_lines(block: &[u8]) -> Option<usize> {
    memchr::memrchr(b'\n', block).map(|newline| newline + 1)
}

/// Returns the number of newlines in a text.
pub(crate) fn newlines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
