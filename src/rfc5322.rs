//! What RFC 5322 gives a meaning to in an address: character classes, quoted strings, comments and
//! quoted pairs.
//!
//! Every reader of addresses, in a message or in a list, follows quotes and comments by [`Nesting`];
//! every writer puts a local part in quotes by [`quote`].
//!
//! ```text
//!   byte    s  "  a  \  "  b  "  @  (  x  \  )  y  )  c
//!   place   O  D  Q  D  E  Q  D  O  D  C  D  C  C  D  O     Outside, Delimiter, Quoted, Escaped, Comment
//! ```

/// What a byte is to its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It means what it says: `@` divides, `<` opens.
    Outside,
    /// A quotation mark, a parenthesis or a backslash with a meaning of its own.
    Delimiter,
    /// Behind a backslash, not in a comment.
    Escaped,
    /// Text of a quoted string.
    Quoted,
    /// Text of a comment.
    Comment,
}

/// Follows quoted strings, comments and quoted pairs through a text (RFC 5322 sections 3.2.1, 3.2.2,
/// 3.2.4), byte by byte. Comments nest; what is not closed runs to the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nesting {
    quoted: bool,
    escaped: bool,
    depth: usize,
    escapes_outside: bool,
    has_comments: bool,
}

impl Nesting {
    /// At the start of a text. A backslash escapes in quoted strings and comments, as RFC 5322 has it.
    pub(crate) const fn new() -> Self {
        Self {
            quoted: false,
            escaped: false,
            depth: 0,
            escapes_outside: false,
            has_comments: true,
        }
    }

    /// At the start of a text in which a backslash escapes everywhere, as RFC 5321 section 4.1.2 and
    /// the mail servers have it.
    pub(crate) const fn with_escapes_outside() -> Self {
        Self {
            escapes_outside: true,
            ..Self::new()
        }
    }

    /// The same, with parentheses of no meaning.
    pub(crate) const fn without_comments(self) -> Self {
        Self {
            has_comments: false,
            ..self
        }
    }

    /// Just behind the quotation mark that opens a quoted string.
    pub(crate) const fn in_quotes() -> Self {
        Self {
            quoted: true,
            ..Self::new()
        }
    }

    /// Just behind the parenthesis that opens a comment.
    pub(crate) const fn in_comment() -> Self {
        Self {
            depth: 1,
            ..Self::new()
        }
    }

    /// Takes the next byte in and says where it stands.
    #[inline]
    pub(crate) const fn step(&mut self, byte: u8) -> Place {
        let is_comment = self.depth > 0;
        match byte {
            _ if self.escaped => {
                self.escaped = false;
                return if is_comment {
                    Place::Comment
                } else {
                    Place::Escaped
                };
            }
            b'\\' if self.quoted || is_comment || self.escapes_outside => self.escaped = true,
            b'"' if !is_comment => self.quoted = !self.quoted,
            _ if self.quoted => return Place::Quoted,
            b'(' if self.has_comments => self.depth += 1,
            b')' if is_comment => self.depth -= 1,
            _ if is_comment => return Place::Comment,
            _ => return Place::Outside,
        }
        Place::Delimiter
    }

    /// Whether the next byte stands behind a backslash.
    pub(crate) const fn is_escaping(&self) -> bool {
        self.escaped
    }

    /// Whether the next byte stands in a quoted string.
    pub(crate) const fn is_in_quotes(&self) -> bool {
        self.quoted
    }

    /// Whether the next byte stands in a comment.
    pub(crate) const fn is_in_comment(&self) -> bool {
        self.depth > 0
    }

    /// Whether the next byte stands neither in a quoted string nor in a comment.
    pub(crate) const fn is_outside(&self) -> bool {
        !self.quoted && self.depth == 0
    }
}

/// The quotation mark that closes the quoted string whose text begins at `from`.
pub(crate) fn closing_quote(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = text.get(at..)?;
        let found = memchr::memchr2(b'"', b'\\', rest)?;
        if rest.get(found) == Some(&b'"') {
            return Some(at + found);
        }
        at += found + 2;
    }
}

/// Whether the text is one quoted string.
pub(crate) fn is_quoted_string(text: &[u8]) -> bool {
    text.starts_with(b"\"") && closing_quote(text, 1) == Some(text.len() - 1)
}

/// Appends the text as a quoted string (section 3.2.4).
pub(crate) fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Needs no quotes in a local part: `atext` of section 3.2.3, and of RFC 6532 section 3.2.
pub(crate) const fn is_atext(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+'
        | b'-' | b'/' | b'=' | b'?' | b'^'..=b'`' | b'{'..=b'~' | 0x80..)
}

/// Has a meaning of its own outside quotes: `specials` of section 3.2.3 but the dot, and white space.
pub(crate) const fn is_special(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(
            byte,
            b'"' | b'\\' | b'(' | b')' | b'<' | b'>' | b',' | b':' | b';' | b'@' | b'[' | b']'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(mut nesting: Nesting, text: &str) -> String {
        let place = |byte| match nesting.step(byte) {
            Place::Outside => 'O',
            Place::Delimiter => 'D',
            Place::Escaped => 'E',
            Place::Quoted => 'Q',
            Place::Comment => 'C',
        };
        text.bytes().map(place).collect()
    }

    #[test]
    fn every_byte_has_its_place() {
        let strict = Nesting::new();
        let lenient = Nesting::with_escapes_outside();
        for (nesting, text, expected) in [
            (strict, r#"s"a\"b"@(x\)y)c"#, "ODQDEQDODCDCCDO"),
            (strict, r#"a\"b"(c)"#, "OODQDDCD"),
            (lenient, r#"a\"b"(c)"#, "ODEODQQQ"),
            (strict, r#"(a(b)"c)d)e"#, "DCDCDCCDOOO"),
            (strict.without_comments(), r#"(a"(")"#, "OODQDO"),
            (lenient, r"(\(\\)a\\", "DDCDCDODE"),
            (Nesting::in_quotes(), r#"a" "#, "QDO"),
            (Nesting::in_comment(), r#"")a"#, "CDO"),
        ] {
            assert_eq!(places(nesting, text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_quoted_is_one_quoted_string() {
        for text in ["", "a", "a b", "\"", "\\", "a\\\"", "(x)@"] {
            let mut quoted = Vec::new();
            quote(text.as_bytes(), &mut quoted);
            assert!(is_quoted_string(&quoted), "{text}");
        }
        for text in ["", "\"", "a", "\"a\\\"", "\"a\"b", "\"a\"b\"", "a\""] {
            assert!(!is_quoted_string(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_byte_is_atext_or_special_or_a_dot_or_a_control() {
        for byte in 0..=u8::MAX {
            let kinds = [
                is_atext(byte),
                is_special(byte),
                byte == b'.' || (byte.is_ascii_control() && !byte.is_ascii_whitespace()),
            ];
            assert_eq!(kinds.iter().filter(|&&kind| kind).count(), 1, "{byte}");
        }
    }
}
