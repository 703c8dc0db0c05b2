//! Text that is not plain UTF-8: other charsets, and characters that word processors put in place
//! of the typed ones.
//!
//! Each entry is examined alone, because a list may mix charsets: people append to it with
//! different programs.

use std::borrow::Cow;

use crate::list::row::Mend;

/// The characters of the bytes 0x80 to 0x9f in Windows-1252; five of them are controls. All other
/// bytes are as in Unicode. <https://encoding.spec.whatwg.org/index-windows-1252.txt>
const HIGH_CONTROLS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// Decodes Windows-1252, which contains Latin-1 except for its controls.
pub(crate) fn windows_1252(text: &[u8]) -> String {
    text.iter()
        .map(|&byte| match byte {
            0x80..=0x9f => HIGH_CONTROLS[usize::from(byte - 0x80)],
            _ => char::from(byte),
        })
        .collect()
}

/// Returns an entry as its author meant it, and what was mended. White space of other scripts
/// around it is removed without a note, as ASCII white space is.
pub(crate) fn mend(text: &str) -> (Cow<'_, str>, Option<Mend>) {
    let trimmed = text.trim();
    let inner = trimmed.trim_matches(is_typographic_quote).trim();
    let mend = (inner.len() < trimmed.len()).then_some(Mend::Quotes);
    if !inner.contains('@') && inner.contains(is_wide_at) {
        return (
            Cow::Owned(inner.replace(is_wide_at, "@")),
            Some(Mend::AtSign),
        );
    }
    (Cow::Borrowed(inner), mend)
}

/// FULLWIDTH COMMERCIAL AT, SMALL COMMERCIAL AT.
fn is_wide_at(char: char) -> bool {
    matches!(char, '\u{ff20}' | '\u{fe6b}')
}

fn is_typographic_quote(char: char) -> bool {
    matches!(
        char,
        '\u{2018}'..='\u{201f}' | '\u{2039}' | '\u{203a}' | '\u{ab}' | '\u{bb}' | '\u{300c}'..='\u{300f}' | '\u{ff02}' | '\u{ff07}'
    )
}

#[cfg(test)]
mod tests {
    use super::{mend, windows_1252};
    use crate::list::Mend;

    #[test]
    fn bytes_become_the_letters_they_were() {
        assert_eq!(
            windows_1252(b"m\xfcller@bad.example"),
            "m\u{fc}ller@bad.example"
        );
        assert_eq!(
            windows_1252(b"\x93a\x94 \x80"),
            "\u{201c}a\u{201d} \u{20ac}"
        );
    }

    #[test]
    fn what_word_processors_write_is_undone() {
        for (written, meant, fault) in [
            (
                "\u{201c}a@b.example\u{201d}",
                "a@b.example",
                Some(Mend::Quotes),
            ),
            (
                "\u{201e}a@b.example\u{201c}",
                "a@b.example",
                Some(Mend::Quotes),
            ),
            ("a\u{ff20}b.example", "a@b.example", Some(Mend::AtSign)),
            ("\u{a0}a@b\u{fc}.example\u{a0}", "a@b\u{fc}.example", None),
            ("o\u{2019}neil@b.example", "o\u{2019}neil@b.example", None),
        ] {
            assert_eq!(mend(written), (meant.into(), fault), "{written}");
        }
    }
}
