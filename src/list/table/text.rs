//! Values of cells, and how they are compared: trimmed and without case.

use std::borrow::Cow;

/// A value or heading that cells are compared with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text(pub(super) Box<str>);

impl Text {
    pub(crate) fn new(written: &str) -> Self {
        Self(folded(written).into())
    }

    /// Returns whether a cell has this value.
    #[inline]
    pub(crate) fn is(&self, cell: &[u8]) -> bool {
        let value = self.0.as_bytes();
        let is_graphic = |end: Option<&u8>| end.is_none_or(u8::is_ascii_graphic);
        let first = cell.first().map(u8::to_ascii_lowercase);
        // A sign of ASCII at its start is what it is compared by.
        if first.as_ref() != value.first() && first.is_some() && is_graphic(cell.first()) {
            return false;
        }
        // Byte by byte: `eq_ignore_ascii_case` costs a row of JSON 200 instructions more.
        let is_same = |(cell, value): (&u8, &u8)| cell.to_ascii_lowercase() == *value;
        if cell.len() == value.len() && cell.iter().zip(value).all(is_same) {
            return true;
        }
        // Only white space at its ends or letters beyond ASCII can still make it equal.
        if is_graphic(cell.first()) && is_graphic(cell.last()) && cell.is_ascii() {
            return false;
        }
        folded(&decoded(cell)) == *self.0
    }
}

/// Returns a text in the form in which texts are compared.
fn folded(text: &str) -> String {
    text.trim().to_lowercase()
}

/// Decodes a cell: a table that is not UTF-8 is read as Windows-1252.
pub(crate) fn decoded(cell: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(cell) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(windows_1252(cell)),
    }
}

/// The characters of the bytes 0x80 to 0x9f in Windows-1252; five of them are controls. All other
/// bytes are as in Unicode. <https://encoding.spec.whatwg.org/index-windows-1252.txt>
const HIGH_CONTROLS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// Decodes Windows-1252, which contains Latin-1 except for its controls.
fn windows_1252(text: &[u8]) -> String {
    text.iter()
        .map(|&byte| match byte {
            0x80..=0x9f => HIGH_CONTROLS[usize::from(byte - 0x80)],
            _ => char::from(byte),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_trimmed_and_without_case() {
        let value = Text::new(" L\u{f6}schen ");
        for (cell, is_equal) in [
            (&b"L\xc3\xb6schen"[..], true),
            ("\u{a0}L\u{d6}SCHEN ".as_bytes(), true),
            (b"l\xf6schen", true),
            (b"L\xd6schen\t", true),
            (b"Loschen", false),
            (b"", false),
        ] {
            assert_eq!(value.is(cell), is_equal, "{cell:?}");
        }
        assert!(Text::new("").is(b"  ") && !Text::new("Block").is(b"Blocked"));
    }
}
