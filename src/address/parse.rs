//! From bytes as somebody wrote them to the two halves of an address.
//!
//! ```text
//! "J. Doe" <@relay.example:"j\.doe" (work) @ Example.COM>     written
//!                          ^^^^^^^^^^^^^^^^ ^^^^^^^^^^^^
//!                          local            domain            split()
//!                          j.doe                              local()
//! ```
//!
//! [`Lexer`] alone knows what quotes, comments, folds and invisible code points are; it differs from
//! [`Nesting`] alone in that a quotation mark which nothing closes is text, and invisible code points are
//! none even behind a backslash. All else here takes its tokens. No recursion, no look back, one pass and at
//! most one look ahead a byte: linear in the input, whatever it is.
//!
//! What is not closed: a comment runs to the end, as in every reader that was
//! compared; a quotation mark without a second one is a letter of the local part.

use super::error::ParseError;
use super::unicode::{first_char, is_invisible, is_joiner, last_blank, may_begin_blank};
use crate::rfc5322::Nesting;

/// The longest text that is read as one address, in bytes. Far beyond any mail
/// server's limits (RFC 5321 has 320, Postfix keeps 102,400 of a header), so that
/// no comment is long enough to hide an address.
pub const MAX_WRITTEN_BYTES: usize = 1 << 20;

/// One byte of the address, and whether it stood in quotes or behind a backslash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A byte that means what it says: `@` divides, `<` opens.
    Plain(u8),
    /// A byte that is only a letter.
    Quoted(u8),
    /// White space outside quotes.
    Space,
    /// A quotation mark opens; says no more than that something stands here.
    Quote,
}

/// Reads tokens; comments, controls and invisible code points are passed over.
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    /// Where the next token is looked for.
    next: usize,
    /// Where the last token began.
    begin: usize,
    quoted: bool,
    /// No quotation mark follows that is not escaped.
    unclosed: bool,
    /// Zero-width joiners are given out (a domain may need them).
    joiners: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            next: 0,
            begin: 0,
            quoted: false,
            unclosed: false,
            joiners: false,
        }
    }

    fn with_joiners(bytes: &'a [u8]) -> Self {
        Self {
            joiners: true,
            ..Self::new(bytes)
        }
    }

    fn token(&self, byte: u8) -> Token {
        if self.quoted {
            Token::Quoted(byte)
        } else {
            Token::Plain(byte)
        }
    }
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            let &byte = self.bytes.get(self.next)?;
            self.begin = self.next;
            if may_begin_blank(byte)
                && let Some(c) = first_char(&self.bytes[self.next..])
            {
                if is_invisible(c) && !(self.joiners && is_joiner(c)) {
                    self.next += c.len_utf8();
                    continue;
                }
                if c.is_whitespace() && !self.quoted {
                    self.next += c.len_utf8();
                    return Some(Token::Space);
                }
            }
            self.next += 1;
            return Some(match byte {
                b'\\' => {
                    self.next = visible_from(self.bytes, self.next);
                    let escaped = self.bytes.get(self.next);
                    self.next += usize::from(escaped.is_some());
                    match escaped {
                        Some(b'\t') => Token::Quoted(b' '),
                        Some(&escaped) => Token::Quoted(escaped),
                        None => Token::Quoted(byte),
                    }
                }
                b'"' if self.quoted => {
                    self.quoted = false;
                    continue;
                }
                b'"' => {
                    self.unclosed = self.unclosed
                        || end_of(Nesting::in_quotes(), self.bytes, self.next).is_none();
                    if self.unclosed {
                        Token::Quoted(byte)
                    } else {
                        self.quoted = true;
                        Token::Quote
                    }
                }
                b'(' if !self.quoted => {
                    let end = end_of(Nesting::in_comment(), self.bytes, self.next);
                    self.next = end.unwrap_or(self.bytes.len());
                    continue;
                }
                b' ' | b'\t' if self.quoted => Token::Quoted(b' '),
                b' ' | b'\t' => Token::Space,
                // CR and LF too: unfolding removes them and keeps the white space behind them.
                0..0x20 | 0x7F => continue,
                _ => self.token(byte),
            });
        }
    }
}

/// The first position from `at` on that does not begin an invisible code point.
fn visible_from(bytes: &[u8], mut at: usize) -> usize {
    while let Some(c) = bytes.get(at..).and_then(first_char)
        && c != '\t'
        && is_invisible(c)
    {
        at += c.len_utf8();
    }
    at
}

/// Where reading goes on behind the quoted string or comment that opened just before `at`; `None` if
/// it is not closed. A backslash escapes the next byte that can be seen.
fn end_of(mut nesting: Nesting, bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(&byte) = bytes.get(at) {
        nesting.step(byte);
        at += 1;
        if nesting.is_outside() {
            return Some(at);
        }
        if nesting.is_escaping() {
            at = visible_from(bytes, at);
        }
    }
    None
}

/// The halves of an address, as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// What stands before the last `@`, or everything if there is none.
    pub(super) local: &'a [u8],
    /// What stands behind the last `@`.
    pub(super) domain: Option<&'a [u8]>,
}

/// Finds the address in what was written: takes the first angle brackets that hold
/// something, without `mailto:` and without the source route, and divides at
/// the last `@` outside quotes.
///
/// # Errors
/// [`ParseError::TooLong`]; [`ParseError::Empty`] when nothing can be seen.
pub(super) fn split(written: &[u8]) -> Result<Parts<'_>, ParseError> {
    if written.len() > MAX_WRITTEN_BYTES {
        return Err(ParseError::TooLong {
            got: written.len(),
            most: MAX_WRITTEN_BYTES,
        });
    }
    let mut lexer = Lexer::new(written);
    let mut address = Address::from(0);
    let mut is_link = false;
    let mut end = written.len();
    while let Some(token) = lexer.next() {
        match token {
            Token::Space => continue,
            Token::Plain(b'<') => {
                address = Address::from(lexer.next);
                is_link = false;
                continue;
            }
            Token::Plain(b'>') if address.tokens == 0 => {
                address = Address::from(lexer.next);
                continue;
            }
            Token::Plain(b'>') => {
                end = lexer.begin;
                break;
            }
            Token::Plain(b':') if address.is_prefix() => {
                is_link |= !address.is_route;
                address = Address::from(lexer.next);
                continue;
            }
            Token::Plain(b'?') if is_link && address.at.is_some() => {
                end = lexer.begin;
                break;
            }
            Token::Plain(b',' | b';' | b')') => {
                address.trailing = address.trailing.or(Some(lexer.begin));
                address.tokens += 1;
                address.is_route |= address.tokens == 1 && token == Token::Plain(b',');
                continue;
            }
            Token::Plain(b'@') => address.at = Some(lexer.begin),
            Token::Plain(b'[') => address.in_literal = true,
            Token::Plain(b']') => address.in_literal = false,
            Token::Plain(_) | Token::Quoted(_) | Token::Quote => {}
        }
        address.take(token);
    }
    if address.tokens == 0 {
        return Err(ParseError::Empty);
    }
    let end = address.trailing.unwrap_or(end);
    Ok(match address.at {
        Some(at) => Parts {
            local: &written[address.start..at],
            domain: Some(&written[at + 1..end]),
        },
        None => Parts {
            local: &written[address.start..end],
            domain: None,
        },
    })
}

/// What is known of the address that may have begun at `start`.
struct Address {
    start: usize,
    /// Tokens so far, white space not counted.
    tokens: usize,
    /// How many of the tokens, from the first, spell `mailto`.
    link: usize,
    /// It began with `@` (or the comma that the obsolete route allows).
    is_route: bool,
    in_literal: bool,
    /// The last `@`.
    at: Option<usize>,
    /// Where the commas and the like begin that nothing follows: they divide addresses.
    trailing: Option<usize>,
}

impl Address {
    fn from(start: usize) -> Self {
        Self {
            start,
            tokens: 0,
            link: 0,
            is_route: false,
            in_literal: false,
            at: None,
            trailing: None,
        }
    }

    fn take(&mut self, token: Token) {
        const LINK: &[u8] = b"mailto";
        if let Token::Plain(byte) = token {
            self.is_route |= self.tokens == 0 && byte == b'@';
            let next = LINK.get(self.tokens) == Some(&byte.to_ascii_lowercase());
            self.link += usize::from(next && self.link == self.tokens);
        }
        self.tokens += 1;
        self.trailing = None;
    }

    /// Does a colon here end a source route, or `mailto`?
    fn is_prefix(&self) -> bool {
        (self.is_route && !self.in_literal) || (self.link == 6 && self.tokens == 6)
    }
}

/// Appends what the local part says, without quotes and escapes; false if nothing
/// at all stood there (`""` is something).
///
/// White space around dots and at the ends goes. Between two words it stays, as
/// one space: `john doe@x` is not an address by the book, and it is not `johndoe@x`.
pub(super) fn local(raw: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut any = false;
    let mut space = false;
    let mut after_dot = true;
    for token in Lexer::new(raw) {
        any |= token != Token::Space;
        match token {
            Token::Space => space = true,
            Token::Quote => {}
            Token::Plain(b'.') => {
                space = false;
                after_dot = true;
                out.push(b'.');
            }
            Token::Plain(byte) | Token::Quoted(byte) => {
                if space && !after_dot {
                    out.push(b' ');
                }
                space = false;
                after_dot = false;
                push_visible(out, start, byte, Keep::Spaces);
            }
        }
    }
    any
}

/// Appends what the domain says, without quotes, escapes and any white space.
pub(super) fn domain(raw: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    for token in Lexer::with_joiners(raw) {
        match token {
            Token::Space | Token::Quote | Token::Quoted(b' ') => {}
            Token::Plain(byte) | Token::Quoted(byte) => {
                push_visible(out, start, byte, Keep::Joiners);
            }
        }
    }
}

/// Does nothing stand here?
pub(super) fn is_blank(raw: &[u8]) -> bool {
    Lexer::new(raw).all(|token| token == Token::Space)
}

/// What stands behind `byte`, if that is the first that stands here.
pub(super) fn behind(raw: &[u8], byte: u8) -> Option<&[u8]> {
    let mut lexer = Lexer::new(raw);
    let first = lexer.find(|&token| token != Token::Space);
    (first == Some(Token::Plain(byte))).then(|| &raw[lexer.next..])
}

/// Is there white space between two words that no dot divides?
pub(super) fn has_gap(raw: &[u8]) -> bool {
    let dot = Token::Plain(b'.');
    let mut before = dot;
    let mut space = false;
    for token in Lexer::new(raw) {
        if token == Token::Space {
            space = true;
            continue;
        }
        if space && before != dot && token != dot {
            return true;
        }
        (before, space) = (token, false);
    }
    false
}

/// What stays of the characters that show nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Wide spaces, in a local part.
    Spaces,
    /// Joiners, in a domain.
    Joiners,
    /// Nothing, in a domain where joiners mean nothing.
    Nothing,
}

/// Appends a byte. Bytes that were apart (a comment stood between them) may now
/// spell a code point that shows nothing; it goes as any other does, so that reading
/// the result once more finds nothing to drop.
pub(super) fn push_visible(out: &mut Vec<u8>, start: usize, byte: u8, keep: Keep) {
    out.push(byte);
    if byte & 0xC0 == 0x80
        && let Some(c) = last_blank(&out[start..])
        && (is_invisible(c) && !(keep == Keep::Joiners && is_joiner(c))
            || keep != Keep::Spaces && c.is_whitespace())
    {
        out.truncate(out.len() - c.len_utf8());
    }
}
