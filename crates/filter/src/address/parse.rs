//! Splits written bytes into the two parts of an address.
//!
//! ```text
//! "J. Doe" <@relay.example:"j\.doe" (work) @ Example.COM>     written
//!                          ^^^^^^^^^^^^^^^^ ^^^^^^^^^^^^
//!                          local            domain            split()
//!                          j.doe                              local()
//! ```
//!
//! Only [`Lexer`] knows the syntax of quotes, comments, folds and invisible code points. It differs
//! from [`Nesting`] in two points: an unclosed quotation mark is a character of the local part, and
//! invisible code points are removed even after a backslash. Reading is one pass with at most one
//! look ahead for each byte, so it is linear in any input.
//!
//! An unclosed comment runs to the end, as in every other reader that we compared.

use super::error::ParseError;
use super::unicode::{first_char, is_invisible, is_joiner, last_blank, may_begin_blank};
use crate::rfc5322::Nesting;

/// The longest text that is read as one address, in bytes. Postfix keeps 102,400 bytes of a header,
/// so no comment is long enough to hide an address.
pub const MAX_WRITTEN_BYTES: usize = 1 << 20;

/// One byte of the address, and whether it has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A byte with its syntactic meaning.
    Plain(u8),
    Quoted(u8),
    Space,
    /// An opening quotation mark. It shows only that the text is not empty.
    Quote,
}

#[derive(Default)]
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    next: usize,
    begin: usize,
    quoted: bool,
    /// Whether no unescaped quotation mark follows.
    unclosed: bool,
    /// Whether to return zero-width joiners (a domain may need them).
    joiners: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            ..Self::default()
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
                // Also CR and LF: unfolding removes them and keeps the white space after them.
                0..0x20 | 0x7F => continue,
                _ => self.token(byte),
            });
        }
    }
}

/// Returns the first position at or after `at` that does not begin an invisible code point.
fn visible_from(bytes: &[u8], mut at: usize) -> usize {
    while let Some(c) = bytes.get(at..).and_then(first_char)
        && c != '\t'
        && is_invisible(c)
    {
        at += c.len_utf8();
    }
    at
}

/// Returns the position after the quoted string or comment that opened just before `at`; `None` if
/// it is unclosed. A backslash escapes the next visible byte.
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

/// Returns what follows a source route, which reads as the same address; `None` if there is none.
pub fn behind_route(written: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b':', written)?;
    written.get(split(written).ok()?.route?..)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// Where its source route ends, if it has one.
    route: Option<usize>,
    /// The part before the last `@`, or everything if there is none.
    pub(super) local: &'a [u8],
    /// The part after the last `@`.
    pub(super) domain: Option<&'a [u8]>,
}

/// Finds the address in the written text: takes the first angle brackets that are not empty,
/// removes `mailto:` and the source route, and divides at the last `@` outside quotes.
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
    let mut route = None;
    let mut end = written.len();
    while let Some(token) = lexer.next() {
        match token {
            Token::Space => continue,
            Token::Plain(b'<') => {
                address = Address::from(lexer.next);
                is_link = false;
                route = None;
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
                route = (!is_link).then_some(lexer.next);
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
    Ok(Parts {
        route,
        local: &written[address.start..address.at.unwrap_or(end)],
        domain: address.at.map(|at| &written[at + 1..end]),
    })
}

#[derive(Default)]
struct Address {
    start: usize,
    /// Number of tokens so far, without white space.
    tokens: usize,
    /// How many of the first tokens spell `mailto`.
    link: usize,
    /// Whether it began with `@` (or with the comma that the obsolete route allows).
    is_route: bool,
    in_literal: bool,
    at: Option<usize>,
    /// Where the trailing commas, semicolons and parentheses begin: they separate addresses.
    trailing: Option<usize>,
}

impl Address {
    fn from(start: usize) -> Self {
        Self {
            start,
            ..Self::default()
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

    /// Returns whether a colon here ends a source route or `mailto`.
    fn is_prefix(&self) -> bool {
        (self.is_route && !self.in_literal) || (self.link == 6 && self.tokens == 6)
    }
}

/// Appends the content of the local part, without quotes and escapes; returns false if there was
/// nothing (`""` is not nothing).
///
/// Removes white space around dots and at the ends. Between two words it stays, as one space:
/// `john doe@x` is not a valid address, but it is not `johndoe@x` either.
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

/// Appends the content of the domain, without quotes, escapes and white space.
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

pub(super) fn is_blank(raw: &[u8]) -> bool {
    Lexer::new(raw).all(|token| token == Token::Space)
}

/// Returns the text after `byte`, if that is the first token.
pub(super) fn behind(raw: &[u8], byte: u8) -> Option<&[u8]> {
    let mut lexer = Lexer::new(raw);
    let first = lexer.find(|&token| token != Token::Space);
    (first == Some(Token::Plain(byte))).then(|| &raw[lexer.next..])
}

/// Returns whether there is white space between two words that no dot divides.
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

/// Which of the invisible characters and spaces stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Wide spaces, in a local part.
    Spaces,
    /// Joiners, in a domain.
    Joiners,
    /// None, in a domain where joiners have no meaning.
    Nothing,
}

/// Appends a byte. Bytes that a comment separated may now form an invisible code point. It is
/// removed like any other, so that reading the result again finds nothing to remove.
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
