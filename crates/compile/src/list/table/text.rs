//! Values of cells, and how they are compared: trimmed and without case.

use std::borrow::Cow;

use mail_parser::decoders::charsets::map::charset_decoder;

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
        Err(_) => match charset_decoder(b"windows-1252") {
            Some(decode) => Cow::Owned(decode(cell)),
            None => String::from_utf8_lossy(cell),
        },
    }
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
