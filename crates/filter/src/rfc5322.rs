//! The characters that have a meaning in an address by RFC 5322: character classes, quoted strings,
//! comments and quoted pairs.
//!
//! Every reader of addresses, in a message or in a list, tracks quotes and comments with
//! [`Nesting`]; every writer quotes a local part with [`quote`].
//!
//! ```text
//!   byte    s  "  a  \  "  b  "  @  (  x  \  )  y  )  c
//!   place   O  D  Q  D  E  Q  D  O  D  C  D  C  C  D  O     Outside, Delimiter, Quoted, Escaped, Comment
//! ```

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Outside quotes and comments, with its syntactic meaning: `@` divides, `<` opens.
    Outside,
    /// A quotation mark, parenthesis or backslash that acts as a delimiter.
    Delimiter,
    /// After a backslash, not in a comment.
    Escaped,
    Quoted,
    Comment,
}

/// Tracks quoted strings, comments and quoted pairs in a text (RFC 5322 sections 3.2.1, 3.2.2,
/// 3.2.4), byte by byte. Comments nest. An unclosed comment or quoted string runs to the end.
#[derive(Clone, Copy, Debug)]
pub struct Nesting {
    quoted: bool,
    escaped: bool,
    depth: usize,
    escapes_outside: bool,
    has_comments: bool,
}

impl Nesting {
    /// A text where a backslash escapes in quoted strings and comments only (RFC 5322).
    pub const fn strict() -> Self {
        Self {
            quoted: false,
            escaped: false,
            depth: 0,
            escapes_outside: false,
            has_comments: true,
        }
    }

    /// A text where a backslash escapes everywhere, as in RFC 5321 section 4.1.2 and mail servers.
    pub const fn with_escapes_outside() -> Self {
        Self {
            escapes_outside: true,
            ..Self::strict()
        }
    }

    /// The same, but parentheses have no meaning.
    pub const fn without_comments(self) -> Self {
        Self {
            has_comments: false,
            ..self
        }
    }

    /// Behind the mark that opens a quoted string.
    pub(crate) const fn in_quotes() -> Self {
        Self {
            quoted: true,
            ..Self::strict()
        }
    }

    /// Behind the parenthesis that opens a comment.
    pub const fn in_comment() -> Self {
        Self {
            depth: 1,
            ..Self::strict()
        }
    }

    #[inline]
    pub const fn step(&mut self, byte: u8) -> Role {
        let is_comment = self.depth > 0;
        match byte {
            _ if self.escaped => {
                self.escaped = false;
                return if is_comment {
                    Role::Comment
                } else {
                    Role::Escaped
                };
            }
            b'\\' if self.quoted || is_comment || self.escapes_outside => self.escaped = true,
            b'"' if !is_comment => self.quoted = !self.quoted,
            _ if self.quoted => return Role::Quoted,
            b'(' if self.has_comments => self.depth += 1,
            b')' if is_comment => self.depth -= 1,
            _ if is_comment => return Role::Comment,
            _ => return Role::Outside,
        }
        Role::Delimiter
    }

    pub(crate) const fn is_escaping(&self) -> bool {
        self.escaped
    }

    pub const fn is_in_quotes(&self) -> bool {
        self.quoted
    }

    pub const fn is_in_comment(&self) -> bool {
        self.depth > 0
    }

    pub const fn is_outside(&self) -> bool {
        !self.quoted && self.depth == 0
    }
}

/// Returns the position of the mark that closes the quoted string whose text begins at `from`.
pub fn closing_quote(text: &[u8], from: usize) -> Option<usize> {
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

pub fn is_quoted_string(text: &[u8]) -> bool {
    text.starts_with(b"\"") && closing_quote(text, 1) == Some(text.len() - 1)
}

/// Appends the text as a quoted string (section 3.2.4).
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
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

/// Returns a mailbox (or a local part) that is written without quotes, divided by its last `@`, with
/// those that it needs.
pub fn quoted(mailbox: &[u8]) -> Cow<'_, [u8]> {
    let at = memchr::memrchr(b'@', mailbox).unwrap_or(mailbox.len());
    let (local, domain) = mailbox.split_at_checked(at).unwrap_or_default();
    let is_plain = |&byte: &u8| byte == b'.' || is_atext(byte);
    if mailbox.is_empty() || !local.is_empty() && local.iter().all(is_plain) {
        return mailbox.into();
    }
    let mut text = Vec::with_capacity(mailbox.len() + 4);
    quote(local, &mut text);
    text.extend_from_slice(domain);
    text.into()
}

/// What needs no quotes in a local part: `atext` of section 3.2.3, and of RFC 6532 section 3.2.
pub const fn is_atext(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+'
        | b'-' | b'/' | b'=' | b'?' | b'^'..=b'`' | b'{'..=b'~' | 0x80..)
}

/// What may be in the name of a host: LDH of RFC 1123 section 2.1, dots, the underscore of service
/// names, and RFC 6531.
pub const fn is_in_domain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') || !byte.is_ascii()
}

/// What has a meaning outside quotes: white space, and the `specials` of section 3.2.3 but the dot.
pub const fn is_special(byte: u8) -> bool {
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
            Role::Outside => 'O',
            Role::Delimiter => 'D',
            Role::Escaped => 'E',
            Role::Quoted => 'Q',
            Role::Comment => 'C',
        };
        text.bytes().map(place).collect()
    }

    #[test]
    fn every_byte_has_its_place() {
        let strict = Nesting::strict();
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
