//! JSON: arrays of strings, objects with a known key; one document, or one per line.
//!
//! ```text
//!   ["spam@bad.example", "bad.example"]                       strings of an array
//!   {"email": "spam@bad.example", "expires": "2026-03-31"}    an object about one sender
//!   {"address": "friend@good.example", "action": "allow"}     allowance
//!   {"blocked": ["bad.example"], "allowed": ["good.example"]} lists by name
//!   {"maintainer": {"email": "me@us.example"}}             a mention
//!   {"spam@bad.example": 5.0, "bad.example": {"added": "..."}} a map
//! ```
//!
//! The bytes are read one after the other, so that a document of any size in one line
//! needs no more memory than one object. [`Document`] decides what
//! they mean. Commas and colons are not checked. Text that cannot be JSON ends the
//! reading (of the line, for JSON lines) with a rejected row that says so. RFC 8259.

mod document;
mod frame;
mod keys;
mod kind;
mod object;
mod stix;

use super::out::Out;
use crate::list::row::Row;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::lines::MAX_LINE;
use document::Document;

/// The state between bytes.
#[derive(Debug)]
pub(crate) struct Json {
    /// One document per line: a newline ends it, even if something is open.
    at_lines: bool,
    state: State,
    /// The string or number being read.
    token: Vec<u8>,
    token_line: u64,
    document: Document,
    /// The last byte read was not a newline.
    in_line: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    String,
    /// After a backslash.
    Escape,
    /// In `\u`: the number of digits read, and their value so far.
    Unicode {
        digits: u8,
        value: u32,
    },
    /// A number or `true`, `false`, `null`.
    Bare,
    /// After an error.
    Broken,
}

impl Json {
    pub(crate) fn new(at_lines: bool) -> Self {
        Self {
            at_lines,
            state: State::Between,
            token: Vec::new(),
            token_line: 0,
            document: Document::new(at_lines),
            in_line: false,
        }
    }

    /// Reads all of `block`.
    pub(crate) fn read(
        &mut self,
        block: &[u8],
        last: bool,
        lines: &mut u64,
        sink: &mut dyn FnMut(u64, Row<'_>),
    ) {
        let mut rest = block;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let mut out = Out::new(*lines + 1, b"", &mut *sink);
            match self.state {
                State::Broken => {
                    // Only the line count matters now.
                    if byte != b'\n' {
                        let skip = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                        rest = rest.get(skip..).unwrap_or_default();
                    }
                }
                State::String if !matches!(byte, b'"' | b'\\' | b'\n') => {
                    // Everything up to the next byte that matters, at once.
                    let more = memchr::memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len());
                    self.extend(&[byte]);
                    self.extend(rest.get(..more).unwrap_or_default());
                    rest = rest.get(more..).unwrap_or_default();
                    continue;
                }
                _ => self.step(byte, &mut out),
            }
            if byte == b'\n' {
                if self.at_lines {
                    self.end(&mut out);
                }
                *lines += 1;
            }
        }
        self.in_line = block.last().map_or(self.in_line, |&byte| byte != b'\n');
        if last {
            self.end(&mut Out::new(*lines + 1, b"", &mut *sink));
            *lines += u64::from(std::mem::take(&mut self.in_line));
        }
    }

    /// Ends the list, or a line that is a document.
    fn end(&mut self, out: &mut Out<'_>) {
        if self.state == State::Bare {
            self.value(out);
        }
        if self.document.is_open() || !matches!(self.state, State::Between | State::Broken) {
            out.reject(RejectReason::CutOffJson, b"");
        }
        self.clear(out);
    }

    fn clear(&mut self, out: &mut Out<'_>) {
        self.state = State::Between;
        self.document.end(out);
        self.token.clear();
    }

    /// Reads one byte.
    fn step(&mut self, byte: u8, out: &mut Out<'_>) {
        match self.state {
            State::Broken => {}
            State::Between => self.between(byte, out),
            State::String => match byte {
                b'"' => self.string(out),
                b'\\' => self.state = State::Escape,
                _ => self.extend(&[byte]),
            },
            State::Escape => {
                self.state = State::String;
                match byte {
                    b'"' | b'\\' | b'/' => self.extend(&[byte]),
                    // No address contains these; as white space they are harmless.
                    b'b' | b'f' | b'n' | b'r' | b't' => self.extend(b" "),
                    b'u' => {
                        self.state = State::Unicode {
                            digits: 0,
                            value: 0,
                        };
                    }
                    _ => self.broken(out),
                }
            }
            State::Unicode { digits, value } => self.unicode(digits, value, byte, out),
            State::Bare => match byte {
                b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' => {
                    self.value(out);
                    self.between(byte, out);
                }
                b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    self.extend(&[byte]);
                }
                _ => self.broken(out),
            },
        }
    }

    /// Reads a byte outside strings and numbers.
    fn between(&mut self, byte: u8, out: &mut Out<'_>) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => {}
            // The byte order mark.
            0xef | 0xbb | 0xbf => {}
            b'"' => {
                self.state = State::String;
                self.token.clear();
                self.token_line = out.line();
            }
            b'[' | b'{' => {
                if self.document.open(byte == b'{', out).is_err() {
                    self.broken(out);
                }
            }
            b']' | b'}' => {
                if self.document.close(byte == b'}', out).is_err() {
                    self.broken(out);
                }
            }
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                self.state = State::Bare;
                self.token.clear();
                self.token_line = out.line();
                self.extend(&[byte]);
            }
            _ => self.broken(out),
        }
    }

    /// Reads one digit of `\uXXXX`. A surrogate pair is combined from two of these.
    fn unicode(&mut self, digits: u8, value: u32, byte: u8, out: &mut Out<'_>) {
        let Some(digit) = char::from(byte).to_digit(16) else {
            return self.broken(out);
        };
        let value = value << 4 | digit;
        if digits < 3 {
            self.state = State::Unicode {
                digits: digits + 1,
                value,
            };
            return;
        }
        self.state = State::String;
        let mut utf8 = [0; 4];
        match (value, self.high_surrogate()) {
            (0xdc00..=0xdfff, Some(high)) => {
                let kept = self.token.len() - SURROGATE_LENGTH;
                self.token.truncate(kept);
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (value - 0xdc00);
                if let Some(char) = char::from_u32(code) {
                    self.extend(char.encode_utf8(&mut utf8).as_bytes());
                }
            }
            _ => match char::from_u32(value) {
                Some(char) => self.extend(char.encode_utf8(&mut utf8).as_bytes()),
                // Half a pair, in the three bytes that UTF-8 would give it. They are never
                // valid UTF-8, so the other half recognizes them, and nothing else equals them.
                None => self.extend(&surrogate_bytes(value)),
            },
        }
    }

    /// Returns the first half of a pair, if the string ends with one.
    fn high_surrogate(&self) -> Option<u32> {
        match self.token.as_slice() {
            [.., 0xed, a @ 0xa0..=0xaf, b @ 0x80..=0xbf] => {
                Some(0xd000 | u32::from(a & 0x3f) << 6 | u32::from(b & 0x3f))
            }
            _ => None,
        }
    }

    /// Adds bytes to the string or number, as far as they can matter.
    fn extend(&mut self, bytes: &[u8]) {
        // One byte more than the limit, which shows that the limit was exceeded.
        let room = (MAX_LINE + 1).saturating_sub(self.token.len());
        self.token
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn broken(&mut self, out: &mut Out<'_>) {
        let reason = if self.at_lines {
            RejectReason::BadJsonLine
        } else {
            RejectReason::BadJson
        };
        out.reject(reason, &self.token);
        self.clear(out);
        self.state = State::Broken;
    }

    /// Takes a string that has ended: a key or a value.
    fn string(&mut self, out: &mut Out<'_>) {
        if self.document.awaits_key() {
            self.state = State::Between;
            self.document.key(&self.token);
        } else {
            self.value(out);
        }
    }

    /// Takes a value that has ended: a string, a number, `true`, `false` or `null`.
    fn value(&mut self, out: &mut Out<'_>) {
        let is_string = self.state != State::Bare;
        self.state = State::Between;
        let mut out = out.at(self.token_line, &self.token);
        self.document.value(&self.token, is_string, &mut out);
    }
}

/// Number of bytes of half a surrogate pair in `token`.
const SURROGATE_LENGTH: usize = 3;

#[expect(clippy::cast_possible_truncation, reason = "the parts are below 256")]
fn surrogate_bytes(value: u32) -> [u8; SURROGATE_LENGTH] {
    [
        0xe0 | (value >> 12) as u8,
        0x80 | (value >> 6 & 0x3f) as u8,
        0x80 | (value & 0x3f) as u8,
    ]
}
