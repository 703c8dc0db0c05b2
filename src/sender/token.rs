//! Splits a header value into tokens (RFC 5322 section 3.2, read leniently).
//!
//! A closed quoted string or comment is one token; of an unclosed one, only the opening byte is a
//! token. Finding the closing byte could make a scan quadratic (`((((...`), so:
//!
//! * the closing quote found for one quote is also that of every quote passed on the way (these are
//!   escaped, and after an escape the reading is the same);
//! * once a comment was found open to the end of the text, the end of a later comment is searched
//!   only up to the next comma or `<`, escaped or not, because an unclosed comment ends there;
//! * an unclosed `<` ends at a comma, although its `>` is searched beyond the comma; another `<`
//!   inside the searched text, which was in a comment then, is searched only up to its comma.

use memchr::memchr2;

use super::encoded::Encoded;
use blocklist_filter::rfc5322::{self, Nesting, is_special};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Space,
    /// A run of ordinary bytes, including dots and 8-bit bytes.
    Atom,
    Encoded,
    /// A quoted string with its quotes.
    Quoted,
    /// A comment with its parentheses.
    Comment,
    OpenQuote,
    OpenComment,
    At,
    Comma,
    Semicolon,
    Colon,
    Less,
    Greater,
    /// A square bracket, or a closing parenthesis without an opening one.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Atom,
    Equals,
    Space,
    Quote,
    Open,
    Single(TokenKind),
}

const CLASS: [Class; 256] = {
    let mut class = [Class::Atom; 256];
    class[b' ' as usize] = Class::Space;
    class[b'\t' as usize] = Class::Space;
    class[b'\r' as usize] = Class::Space;
    class[b'\n' as usize] = Class::Space;
    class[b'=' as usize] = Class::Equals;
    class[b'"' as usize] = Class::Quote;
    class[b'(' as usize] = Class::Open;
    class[b'[' as usize] = Class::Single(TokenKind::Other);
    class[b'@' as usize] = Class::Single(TokenKind::At);
    class[b',' as usize] = Class::Single(TokenKind::Comma);
    class[b';' as usize] = Class::Single(TokenKind::Semicolon);
    class[b':' as usize] = Class::Single(TokenKind::Colon);
    class[b'<' as usize] = Class::Single(TokenKind::Less);
    class[b'>' as usize] = Class::Single(TokenKind::Greater);
    class[b')' as usize] = Class::Single(TokenKind::Other);
    class[b']' as usize] = Class::Single(TokenKind::Other);
    class
};

#[derive(Debug, Default)]
pub(super) struct Tokens<'t> {
    text: &'t [u8],
    position: usize,
    /// The last quote whose closing quote was searched.
    quote: Option<Quote>,
    open_comment: bool,
    /// How far the `>` of an angle address was searched without success.
    angle_end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Quote {
    open: usize,
    close: Option<usize>,
    /// Whether `@` or `.` follows, so that it is a local part; `None` if not checked yet.
    local_part: Option<bool>,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    #[inline]
    fn class(&self, index: usize) -> Option<Class> {
        self.text.get(index).map(|&byte| CLASS[byte as usize])
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<(TokenKind, &'t [u8])> {
        let start = self.position;
        let (kind, end) = match self.class(start)? {
            Class::Space => {
                let mut end = start + 1;
                while self.class(end) == Some(Class::Space) {
                    end += 1;
                }
                (TokenKind::Space, end)
            }
            Class::Atom | Class::Equals => self.atom(start),
            Class::Quote => match self.closing_quote(start) {
                Some(close) => (TokenKind::Quoted, close + 1),
                None => (TokenKind::OpenQuote, start + 1),
            },
            Class::Open => match self.closing_parenthesis(start) {
                Some(close) => (TokenKind::Comment, close + 1),
                None => (TokenKind::OpenComment, start + 1),
            },
            Class::Single(kind) => (kind, start + 1),
        };
        self.position = end;
        Some((kind, &self.text[start..end]))
    }

    fn atom(&self, start: usize) -> (TokenKind, usize) {
        let mut end = start;
        loop {
            match self.class(end) {
                Some(Class::Atom) => end += 1,
                Some(Class::Equals) => {
                    if self.text.get(end + 1) == Some(&b'?')
                        && let Some(encoded) = Encoded::at_start(&self.text[end..])
                    {
                        return if end == start {
                            (TokenKind::Encoded, end + encoded.len)
                        } else {
                            (TokenKind::Atom, end)
                        };
                    }
                    end += 1;
                }
                _ => return (TokenKind::Atom, end),
            }
        }
    }

    /// Reads a domain literal at the current position, with its brackets, which have a meaning only
    /// after an `@` and any comments.
    pub(super) fn literal(&mut self) -> Option<&'t [u8]> {
        let rest = &self.text[self.position..];
        let blanks = rest.len() - rest.trim_ascii_start().len();
        let rest = &rest[blanks..];
        if rest.first() != Some(&b'[') {
            return None;
        }
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b']' | b'<' | b'>' | b'@'))?;
        if rest[end] != b']' {
            return None;
        }
        self.position += blanks + end + 1;
        Some(&rest[..=end])
    }

    /// Returns the quote that closes the one at `open`; a backslash escapes the byte after it.
    fn closing_quote(&mut self, open: usize) -> Option<usize> {
        if let Some(quote) = self.quote
            && quote.open <= open
            && quote.close.is_none_or(|close| open < close)
        {
            return quote.close;
        }
        let close = rfc5322::closing_quote(self.text, open + 1);
        self.quote = Some(Quote {
            open,
            close,
            local_part: None,
        });
        close
    }

    /// Returns the parenthesis that closes the comment opened at `open`; comments nest.
    fn closing_parenthesis(&mut self, open: usize) -> Option<usize> {
        let mut nesting = Nesting::in_comment();
        for (index, &byte) in self.text.iter().enumerate().skip(open + 1) {
            // Escaped ones count too, because an unclosed comment ends there. Otherwise the
            // same text would be searched again from each such comma.
            if self.open_comment && matches!(byte, b',' | b'<') {
                return None;
            }
            nesting.step(byte);
            if !nesting.is_in_comment() {
                return Some(index);
            }
        }
        self.open_comment = true;
        None
    }

    /// After [`TokenKind::Less`], reads the inside of the angle address, up to its `>` or, if it is
    /// unclosed, to the next `<`, comma or the end. Returns whether it is closed.
    pub(super) fn angle(&mut self) -> (&'t [u8], bool) {
        let start = self.position;
        let (mut comma, mut quotes, mut comments) = (None, true, true);
        let mut index = start;
        while let Some(&byte) = self.text.get(index) {
            match byte {
                b'>' => {
                    self.position = index + 1;
                    return (&self.text[start..index], true);
                }
                b'<' => break,
                b',' => {
                    comma = comma.or(Some(index));
                    if start < self.angle_end {
                        break;
                    }
                }
                // Here only a local part can be a quoted string; other quotes are ignored.
                b'"' if quotes => match self.quoted_local_part(index) {
                    Some(close) => index = close,
                    None => quotes = false,
                },
                b'(' if comments => match self.closing_parenthesis(index) {
                    Some(close) => index = close,
                    None => comments = false,
                },
                _ => {}
            }
            index += 1;
        }
        self.angle_end = self.angle_end.max(index);
        let end = comma.unwrap_or(index).min(self.text.len());
        self.position = end;
        (&self.text[start..end], false)
    }

    /// Returns the end of the quoted string that begins at `open`, if `@` or `.` follows it.
    fn quoted_local_part(&mut self, open: usize) -> Option<usize> {
        let close = self.closing_quote(open)?;
        let known = self.quote.and_then(|quote| quote.local_part);
        let local_part = known.unwrap_or_else(|| self.leads_to_domain(close + 1));
        if let Some(quote) = &mut self.quote {
            quote.local_part = Some(local_part);
        }
        local_part.then_some(close)
    }

    /// Returns whether `@` or `.` follows, after any blanks and comments.
    fn leads_to_domain(&mut self, mut index: usize) -> bool {
        loop {
            match self.text.get(index) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => index += 1,
                Some(b'(') => match self.closing_parenthesis(index) {
                    Some(close) => index = close + 1,
                    None => return false,
                },
                other => return matches!(other, Some(b'@' | b'.')),
            }
        }
    }

    /// Returns whether what follows is apart from what was read: neither text that touches it, nor a
    /// domain.
    pub(super) fn is_apart(&mut self) -> bool {
        let next = self.text.get(self.position);
        let touches = next.is_some_and(|&byte| !is_special(byte) || byte == b'[');
        !touches && !self.leads_to_domain(self.position)
    }

    /// Moves to the next comma or `<`: after an unclosed quote or comment, only these count.
    pub(super) fn skip_unclosed(&mut self) {
        let rest = &self.text[self.position..];
        self.position += memchr2(b',', b'<', rest).unwrap_or(rest.len());
    }

    /// Moves past a `<` at the current position. Returns whether there was one.
    pub(super) fn skip_less(&mut self) -> bool {
        let less = self.text.get(self.position) == Some(&b'<');
        self.position += usize::from(less);
        less
    }
}
