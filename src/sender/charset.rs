//! Decodes text in the charsets of encoded words, with the tables of crate `mail-parser`.

use mail_parser::decoders::charsets::map::charset_decoder;

/// Converts text in a charset other than UTF-8 to UTF-8; returns `None` if the charset is not known
/// or the text has a character that the charset lacks.
pub(super) fn in_charset(charset: &[u8], text: &[u8]) -> Option<String> {
    // The crate knows few of its names: `unicode-2-0-utf-7`, `csUnicode11UTF7`.
    let utf7 = [&b"utf-7"[..], b"utf7"];
    let is_utf7 = utf7.iter().any(|end| {
        let tail = charset.get(charset.len().saturating_sub(end.len())..);
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end))
    });
    let charset = if is_utf7 { b"utf-7" } else { charset };
    let decoded = charset_decoder(charset)?(text);
    (!decoded.contains('\u{FFFD}')).then_some(decoded)
}
