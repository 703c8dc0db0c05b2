//! Escapes bytes from outside for logs and terminals.

use std::fmt::{self, Display, Formatter, Write as _};

use super::unicode::is_invisible;

/// Shows bytes from outside: printable UTF-8 unchanged, everything else (control characters, line
/// ends, invisible and bidirectional code points, bytes that are not UTF-8) as `\u{200b}` or
/// `\xff`. The result is one line, without terminal control sequences.
///
/// ```
/// use blocklist_filter::address::escaped;
/// assert_eq!(escaped(b"a\n\xFF@\xC3\xA9.example").to_string(), "a\\u{a}\\xff@é.example");
/// ```
pub fn escaped(bytes: &[u8]) -> impl Display {
    Escaped(bytes)
}

/// The same as [`escaped`], but a text of more than about `most` bytes loses its middle: the domain is at the end.
pub fn shortened(bytes: &[u8], most: usize) -> String {
    let half = most / 2;
    match (bytes.split_at_checked(half), bytes.len().checked_sub(half)) {
        (Some((head, _)), Some(at)) if bytes.len() > most => {
            let tail = bytes.get(at..).unwrap_or_default();
            format!("{}[...]{}", escaped(head), escaped(tail))
        }
        _ => escaped(bytes).to_string(),
    }
}

struct Escaped<'a>(&'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if is_invisible(c) || (c != ' ' && c.is_whitespace()) {
                    write!(f, "{}", c.escape_unicode())?;
                } else {
                    f.write_char(c)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}
