//! JSON, cut into tokens. RFC 8259.
//!
//! The text comes in blocks of any size, and a document of any size needs no more memory than its
//! longest string, of which at most [`MAX_LINE`] bytes are kept. What is open is a bit in a word, so
//! that no input overflows a stack. Text that is not JSON ends the document; with one document a
//! line, only that line.

use super::lines::MAX_LINE;

/// Maximum depth of arrays and objects inside each other; one bit each.
const MAX_DEPTH: u32 = 128;

/// A part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// The start of an object, or else an array.
    Open { is_object: bool },
    /// The end of an object or array.
    Close,
    /// A key of an object.
    Key(String<'t>),
    /// A string.
    Text(String<'t>),
    /// A number, `true`, `false` or `null`.
    Other(&'t [u8]),
    /// The end of a document.
    End,
    /// A blank line between documents.
    Blank,
    /// This is not JSON. Nothing more of this document follows.
    Fault(Fault),
}

/// A string without quotes and escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct String<'t> {
    pub(crate) text: &'t [u8],
    /// Whether this is all of it.
    pub(crate) is_whole: bool,
}

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Something stands where JSON has something else.
    Syntax,
    /// The text ends within a document.
    BrokenOff,
    /// More than one document.
    Several,
}

/// The state between the bytes of a text.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// A newline ends a document.
    one_a_line: bool,
    state: State,
    depth: u32,
    /// A bit for each that is open: whether it is an object.
    objects: u128,
    /// The first part of a string or number whose end has not been read, as it is written.
    kept: Vec<u8>,
    /// Whether `kept` has all of it.
    is_whole: bool,
    unescaped: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A document begins here.
    Start,
    /// A value must follow.
    Value,
    /// A value, or the end of the array.
    ValueOrEnd,
    /// A key, or the end of the object.
    KeyOrEnd,
    Key,
    Colon,
    /// A comma, or the end of the array or object.
    After,
    /// The document is complete.
    Done,
    InString {
        is_key: bool,
        /// After a backslash.
        is_escaped: bool,
    },
    InOther,
    /// After a fault.
    Broken,
}

impl Tokens {
    pub(crate) fn new(one_a_line: bool) -> Self {
        Self {
            one_a_line,
            state: State::Start,
            depth: 0,
            objects: 0,
            kept: Vec::new(),
            is_whole: true,
            unescaped: Vec::new(),
        }
    }

    /// Reads all of `block`, counts its lines, and passes on its tokens with their lines, counted
    /// from 1.
    pub(crate) fn read(
        &mut self,
        block: &[u8],
        lines: &mut u64,
        take: &mut impl FnMut(u64, Token<'_>),
    ) {
        let mut rest = block;
        while let Some((&byte, after)) = rest.split_first() {
            let line = *lines + 1;
            match (self.state, byte) {
                (State::InString { .. }, _) => {
                    rest = self.string(rest, line, take);
                    continue;
                }
                (State::InOther, _) => {
                    rest = self.other(rest, line, take);
                    continue;
                }
                (_, b'\n') => {
                    *lines += 1;
                    if self.one_a_line {
                        self.end_of_line(line, take);
                    }
                }
                (State::Broken, _) => {
                    rest = rest
                        .get(memchr::memchr(b'\n', rest).unwrap_or(rest.len())..)
                        .unwrap_or_default();
                    continue;
                }
                (_, b' ' | b'\t' | b'\r') => {}
                // The byte order mark.
                (State::Start, 0xef | 0xbb | 0xbf) => {}
                (State::Start | State::Value | State::ValueOrEnd, b'"') => self.begin_string(false),
                (State::KeyOrEnd | State::Key, b'"') => self.begin_string(true),
                (State::Start | State::Value | State::ValueOrEnd, b'{' | b'[') => {
                    self.open(byte == b'{', line, take);
                }
                (State::ValueOrEnd, b']') | (State::KeyOrEnd, b'}') => self.close(line, take),
                (State::After, b']') if !self.is_in_object() => self.close(line, take),
                (State::After, b'}') if self.is_in_object() => self.close(line, take),
                (State::After, b',') => {
                    self.state = if self.is_in_object() {
                        State::Key
                    } else {
                        State::Value
                    };
                }
                (State::Colon, b':') => self.state = State::Value,
                (
                    State::Start | State::Value | State::ValueOrEnd,
                    b'-' | b'0'..=b'9' | b't' | b'f' | b'n',
                ) => {
                    self.begin();
                    self.state = State::InOther;
                    continue;
                }
                (State::Done, _) => self.fault(Fault::Several, line, take),
                _ => self.fault(Fault::Syntax, line, take),
            }
            rest = after;
        }
    }

    /// Ends the text.
    pub(crate) fn end(&mut self, line: u64, take: &mut impl FnMut(u64, Token<'_>)) {
        if self.state == State::InOther {
            self.end_of_other(&[], line, take);
        }
        match self.state {
            State::Start | State::Done | State::Broken => {}
            _ => self.fault(Fault::BrokenOff, line, take),
        }
    }

    /// Ends the document of a line.
    fn end_of_line(&mut self, line: u64, take: &mut impl FnMut(u64, Token<'_>)) {
        match self.state {
            State::Start => take(line, Token::Blank),
            State::Done | State::Broken => {}
            _ => self.fault(Fault::Syntax, line, take),
        }
        (self.state, self.depth) = (State::Start, 0);
    }

    fn fault(&mut self, fault: Fault, line: u64, take: &mut impl FnMut(u64, Token<'_>)) {
        self.state = State::Broken;
        take(line, Token::Fault(fault));
    }

    fn is_in_object(&self) -> bool {
        self.objects & 1 != 0
    }

    fn open(&mut self, is_object: bool, line: u64, take: &mut impl FnMut(u64, Token<'_>)) {
        if self.depth == MAX_DEPTH {
            return self.fault(Fault::Syntax, line, take);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(is_object);
        self.state = if is_object {
            State::KeyOrEnd
        } else {
            State::ValueOrEnd
        };
        take(line, Token::Open { is_object });
    }

    fn close(&mut self, line: u64, take: &mut impl FnMut(u64, Token<'_>)) {
        self.depth -= 1;
        self.objects >>= 1;
        take(line, Token::Close);
        self.end_of_value(line, take);
    }

    fn end_of_value(&mut self, line: u64, take: &mut impl FnMut(u64, Token<'_>)) {
        self.state = State::After;
        if self.depth == 0 {
            self.state = State::Done;
            take(line, Token::End);
        }
    }

    /// Begins a string or number.
    fn begin(&mut self) {
        self.kept.clear();
        self.is_whole = true;
    }

    fn begin_string(&mut self, is_key: bool) {
        self.begin();
        self.state = State::InString {
            is_key,
            is_escaped: false,
        };
    }

    /// Keeps a part of a string or number.
    fn keep(&mut self, part: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.kept.len());
        self.is_whole &= part.len() <= room;
        self.kept
            .extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// Reads on in a string; returns what follows.
    fn string<'b>(
        &mut self,
        text: &'b [u8],
        line: u64,
        take: &mut impl FnMut(u64, Token<'_>),
    ) -> &'b [u8] {
        let State::InString {
            is_key,
            mut is_escaped,
        } = self.state
        else {
            return text;
        };
        let mut from = 0;
        loop {
            let rest = text.get(from..).unwrap_or_default();
            if is_escaped && !rest.is_empty() {
                (is_escaped, from) = (false, from + 1);
                continue;
            }
            let Some(at) = memchr::memchr3(b'"', b'\\', b'\n', rest) else {
                self.keep(text);
                self.state = State::InString { is_key, is_escaped };
                return &[];
            };
            let (part, after) = text.split_at(from + at);
            match after.first() {
                Some(b'\\') => (is_escaped, from) = (true, from + at + 1),
                Some(b'"') => {
                    self.end_of_string(is_key, part, line, take);
                    return after.get(1..).unwrap_or_default();
                }
                // A string does not go on in the next line.
                _ => {
                    self.fault(Fault::Syntax, line, take);
                    return after;
                }
            }
        }
    }

    fn end_of_string(
        &mut self,
        is_key: bool,
        part: &[u8],
        line: u64,
        take: &mut impl FnMut(u64, Token<'_>),
    ) {
        let is_kept = !self.kept.is_empty() || part.len() > MAX_LINE;
        if is_kept {
            self.keep(part);
        }
        let written = if is_kept { &self.kept } else { part };
        let is_whole = self.is_whole;
        let text = if memchr::memchr(b'\\', written).is_none() {
            written
        } else if unescape(written, &mut self.unescaped).is_none() && is_whole {
            return self.fault(Fault::Syntax, line, take);
        } else {
            &self.unescaped
        };
        let string = String { text, is_whole };
        if is_key {
            take(line, Token::Key(string));
            self.state = State::Colon;
        } else {
            take(line, Token::Text(string));
            self.end_of_value(line, take);
        }
    }

    /// Reads on in a number or word; returns what follows.
    fn other<'b>(
        &mut self,
        text: &'b [u8],
        line: u64,
        take: &mut impl FnMut(u64, Token<'_>),
    ) -> &'b [u8] {
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.');
        match text.iter().position(|b| !is_part(b)) {
            Some(end) => {
                let (part, after) = text.split_at(end);
                self.end_of_other(part, line, take);
                after
            }
            None => {
                self.keep(text);
                &[]
            }
        }
    }

    fn end_of_other(&mut self, part: &[u8], line: u64, take: &mut impl FnMut(u64, Token<'_>)) {
        let is_kept = !self.kept.is_empty() || part.len() > MAX_LINE;
        if is_kept {
            self.keep(part);
        }
        let text = if is_kept { &self.kept } else { part };
        if !self.is_whole || !(matches!(text, b"true" | b"false" | b"null") || is_number(text)) {
            return self.fault(Fault::Syntax, line, take);
        }
        take(line, Token::Other(text));
        self.end_of_value(line, take);
    }
}

/// Returns whether a text is a number of JSON.
fn is_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(text);
    let mut rest = text.get(whole..).unwrap_or_default();
    if whole == 0 || whole > 1 && text.starts_with(b"0") {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        rest = fraction.get(count..).unwrap_or_default();
        if count == 0 {
            return false;
        }
    }
    match rest {
        [] => true,
        [b'e' | b'E', rest @ ..] => {
            let exponent = rest.strip_prefix(b"+").or_else(|| rest.strip_prefix(b"-"));
            let exponent = exponent.unwrap_or(rest);
            !exponent.is_empty() && exponent.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Undoes the escapes of a string. Half a surrogate pair becomes NUL, which no entry has; U+FFFD
/// would make one text of two different ones.
#[cold]
fn unescape(written: &[u8], text: &mut Vec<u8>) -> Option<()> {
    text.clear();
    let mut rest = written;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        text.extend_from_slice(before);
        rest = escape.get(2..)?;
        let byte = match escape.get(1)? {
            byte @ (b'"' | b'\\' | b'/') => *byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut unit = hexadecimal(rest)?;
                rest = rest.get(4..)?;
                if let (0xd800..=0xdbff, Some(low)) =
                    (unit, rest.strip_prefix(b"\\u").and_then(hexadecimal))
                    && (0xdc00..=0xdfff).contains(&low)
                {
                    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    rest = rest.get(6..)?;
                }
                let char = char::from_u32(unit).unwrap_or('\0');
                text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        text.push(byte);
    }
    text.extend_from_slice(rest);
    Some(())
}

/// Reads four hexadecimal digits.
fn hexadecimal(text: &[u8]) -> Option<u32> {
    let digits = text.get(..4)?.iter();
    digits.copied().try_fold(0, |number, digit| {
        Some(number << 4 | char::from(digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the tokens of a text in pieces of this size, in short.
    fn tokens(text: &[u8], one_a_line: bool, size: usize) -> Vec<std::string::String> {
        let mut found = Vec::new();
        let mut take = |line, token: Token<'_>| {
            let shown = |text| std::string::String::from_utf8_lossy(text).into_owned();
            found.push(match token {
                Token::Open { is_object: true } => "{".to_owned(),
                Token::Open { is_object: false } => "[".to_owned(),
                Token::Close => "}".to_owned(),
                Token::Key(key) => format!("{}:", shown(key.text)),
                Token::Text(String {
                    text,
                    is_whole: true,
                }) => format!("'{}'", shown(text)),
                Token::Text(_) => "long".to_owned(),
                Token::Other(text) => shown(text),
                Token::End => ".".to_owned(),
                Token::Blank => "_".to_owned(),
                Token::Fault(fault) => format!("{fault:?} {line}"),
            });
        };
        let (mut tokens, mut lines) = (Tokens::new(one_a_line), 0);
        for block in text.chunks(size) {
            tokens.read(block, &mut lines, &mut take);
        }
        tokens.end(lines + 1, &mut take);
        assert_eq!(lines, memchr::memchr_iter(b'\n', text).count() as u64);
        found
    }

    #[test]
    fn tokens_of_documents() {
        for (text, expected) in [
            (
                r#"{"a": [1, -2.5e+3, true], "b": {}}"#,
                "{ a: [ 1 -2.5e+3 true } b: { } } .",
            ),
            (r#""x""#, "'x' ."),
            ("5", "5 ."),
            (" [\n] \n", "[ } ."),
            (
                r#"["\u00fc\n\"\ud83d\ude00\/\ud83d"]"#,
                "[ '\u{fc}\n\"\u{1f600}/\0' } .",
            ),
            ("", ""),
            ("{\"a\": 1", "{ a: 1 BrokenOff 1"),
            ("[\"a", "[ BrokenOff 1"),
            ("[\n\"a\nb\"]", "[ Syntax 2"),
            ("[1,]", "[ 1 Syntax 1"),
            ("[1 2]", "[ 1 Syntax 1"),
            ("{\"a\" 1}", "{ a: Syntax 1"),
            ("{\"a\":}", "{ a: Syntax 1"),
            ("{a:1}", "{ Syntax 1"),
            ("{\"a\":1]", "{ a: 1 Syntax 1"),
            ("[01]", "[ Syntax 1"),
            ("[NaN]", "[ Syntax 1"),
            ("[nul]", "[ Syntax 1"),
            ("[1.]", "[ Syntax 1"),
            (r#"["\x"]"#, "[ Syntax 1"),
            (r#"["\u00g0"]"#, "[ Syntax 1"),
            ("{}\n{}", "{ } . Several 2"),
            ("// x\n[]", "Syntax 1"),
            ("['a']", "[ Syntax 1"),
        ] {
            for size in 1..=text.len().max(1) {
                assert_eq!(
                    tokens(text.as_bytes(), false, size).join(" "),
                    expected,
                    "{text} {size}"
                );
            }
        }
        let deep = [b'['; 1000];
        assert_eq!(tokens(&deep, false, 1000).last().unwrap(), "Syntax 1");
    }

    #[test]
    fn with_one_document_a_line_a_fault_is_of_its_line() {
        let text = "{\"a\":1}\n\n{\"a\"\n{} {}\n[\"b\n\"c\"\n5\n{\"d\":";
        let expected =
            "{ a: 1 } . _ { a: Syntax 3 { } . Several 4 [ Syntax 5 'c' . 5 . { d: BrokenOff 8";
        for size in 1..=text.len() {
            assert_eq!(
                tokens(text.as_bytes(), true, size).join(" "),
                expected,
                "{size}"
            );
        }
    }

    #[test]
    fn of_a_long_string_a_part_is_kept() {
        for size in [100, MAX_LINE, 10 * MAX_LINE] {
            let text = format!("[\"{}\", \"b\"]", "x".repeat(MAX_LINE + 1));
            assert_eq!(
                tokens(text.as_bytes(), false, size),
                ["[", "long", "'b'", "}", "."],
                "{size}"
            );
            let text = format!("[\"{}\"]", "x".repeat(MAX_LINE));
            assert_eq!(tokens(text.as_bytes(), false, size)[1].len(), MAX_LINE + 2);
        }
    }

    proptest! {
        /// Whatever serde_json reads is read, and nothing else, however it is cut.
        #[test]
        fn as_serde_reads_it(
            text in r#"([{\[]|[}\]]|,|:|"[a-z\\"/]{0,3}"|-?[0-9.e]{1,3}|true|null| |\n){0,12}"#, size in 1_usize..20,
        ) {
            let found = tokens(text.as_bytes(), false, size);
            let is_json = found.last().is_some_and(|last| last == ".");
            let expected = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(is_json, expected, "{:?}", found);
        }
    }
}
