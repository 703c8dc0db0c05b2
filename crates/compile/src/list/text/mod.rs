//! From a text to lines, words, cells and tokens.

pub(crate) mod cells;
pub(crate) mod json;

use std::iter;

use blocklist_filter::rfc5322::{self, Role};

/// The longest line that is read, in bytes. The longest address has 320 bytes,
/// so a hundred of them fit in one line, with names and comments.
pub const MAX_LINE: usize = 64 << 10;

/// The byte order mark that editors put before UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the lines of `block` without their ends (LF or CR LF). The last may have none.
///
/// ```
/// let lines: Vec<_> = blocklist_compile::list::lines(b"a\r\n\nb").collect();
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

/// Tracks quotes, comments and angle brackets through a text.
pub(crate) struct Nesting {
    inner: rfc5322::Nesting,
    angled: bool,
}

impl Nesting {
    pub(crate) const fn new() -> Self {
        Self {
            inner: rfc5322::Nesting::strict(),
            angled: false,
        }
    }

    /// Reads the next byte, and returns whether it is outside of all of them, as an opening bracket is.
    pub(crate) fn step(&mut self, byte: u8) -> bool {
        let was_angled = self.angled;
        let outside = self.inner.step(byte) == Role::Outside;
        match byte {
            b'<' if outside => self.angled = true,
            b'>' if outside => self.angled = false,
            _ => {}
        }
        outside && !was_angled
    }
}

/// Whether a byte ends a word, or may hold white space in it.
static IS_MARK: [bool; 256] = {
    let (mut is_mark, mut byte) = ([false; 256], 0_u8);
    loop {
        is_mark[byte as usize] =
            byte.is_ascii_whitespace() || matches!(byte, b'"' | b'(' | b'<' | b'\\');
        if byte == u8::MAX {
            break is_mark;
        }
        byte += 1;
    }
};

/// The words of a text between white space outside of quotes, brackets and comments.
#[derive(Clone)]
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        if text.is_empty() {
            return None;
        }
        // Most words contain nothing that could hold white space together.
        let mark = text.iter().position(|b| IS_MARK[usize::from(*b)]);
        let end = match mark.and_then(|at| text.get(at)) {
            Some(mark) if !mark.is_ascii_whitespace() => {
                let mut nesting = Nesting::new();
                text.iter()
                    .position(|&b| nesting.step(b) && b.is_ascii_whitespace())
            }
            _ => mark,
        };
        let end = end.unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

/// Returns the words of a text between white space, wherever it stands.
pub(crate) fn blank_words(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Returns whether a word is one of several, which blanks divide; letter case does not matter.
pub(crate) fn is_one_of(word: &[u8], words: &str) -> bool {
    let mut words = words.as_bytes().split(|byte| *byte == b' ');
    words.any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns whether a text begins with one of several words, as [`is_one_of`] does.
pub(crate) fn begins_with_one_of(text: &[u8], words: &str) -> bool {
    let mut starts = words.split(' ').map(|word| (word, text.get(..word.len())));
    starts.any(|(word, start)| start.is_some_and(|start| is_one_of(start, word)))
}

/// Returns the pieces of a text between some signs outside of quotes and brackets, trimmed, but for
/// empty ones.
pub(crate) fn divided<'a>(text: &'a [u8], signs: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut nesting = Nesting::new();
    text.split(move |byte| nesting.step(*byte) && signs.contains(byte))
        .map(<[u8]>::trim_ascii)
        .filter(|piece| !piece.is_empty())
}

/// Returns the pieces between what divides several entries: commas, semicolons and line breaks.
pub(crate) fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    divided(text, b",;\n\r")
}

#[cfg(test)]
mod tests {
    use super::Words;

    #[test]
    fn white_space_divides_outside_of_quotes_and_brackets_alone() {
        for row in include_str!("../../../../../tests/pure/list/words.txt").lines() {
            let (text, words) = row.split_once(" -> ").unwrap();
            let found: Vec<_> = Words(text.as_bytes()).collect();
            assert_eq!(found.join(&b'|'), words.as_bytes(), "{text}");
        }
    }
}
