//! Text in the charsets of encoded words, by the tables of crate `mail-parser`.

use mail_parser::decoders::charsets::map::charset_decoder;

/// Text of a charset other than UTF-8, as UTF-8; `None` when the charset is not known
/// or a character is not in it.
pub(super) fn in_charset(charset: &[u8], text: &[u8]) -> Option<String> {
    let decoded = charset_decoder(charset)?(text);
    (!decoded.contains('\u{FFFD}')).then_some(decoded)
}
