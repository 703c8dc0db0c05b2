//! Decodes text in the charsets of encoded words, with the tables of crate `mail-parser`.

use mail_parser::decoders::charsets::map::charset_decoder;

/// Converts text in a charset other than UTF-8 to UTF-8; returns `None` if the charset is not known
/// or the text has a character that the charset lacks.
pub(super) fn in_charset(charset: &[u8], text: &[u8]) -> Option<String> {
    let decoded = charset_decoder(charset)?(text);
    (!decoded.contains('\u{FFFD}')).then_some(decoded)
}
