//! JSON, read where it stands. RFC 8259.
//!
//! serde_json says whether a text is JSON ([`check`]). Its values are then found by their places: a
//! value is its own text, and [`Members`] goes through those of an object or array. Nothing is
//! copied, and nothing is opened that the caller does not ask for, so no input overflows a stack.
//! Of a text that is not JSON, or only its beginning, some values are found and nothing panics.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::{BOM, newlines};

/// The largest document that is read: it is kept in memory. JSON lines have no limit.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Something stands where one document has something else.
    Syntax,
    /// The text ends within a document.
    BrokenOff,
}

/// Checks that a text is one document, or nothing but white space; an error has its line. Time is
/// linear, and memory a bit for each level of arrays and objects.
pub(crate) fn check(text: &[u8]) -> Result<(), (Fault, u64)> {
    let body = text.strip_prefix(BOM).unwrap_or(text);
    if body.trim_ascii().is_empty() {
        return Ok(());
    }
    // What nobody asks for is not decoded, so this is not checked below.
    if let Err(error) = std::str::from_utf8(body) {
        let before = body.get(..error.valid_up_to()).unwrap_or_default();
        return Err((Fault::Syntax, 1 + newlines(before)));
    }
    let error = match serde_json::from_slice(body) {
        Ok(IgnoredAny) => return Ok(()),
        Err(error) => error,
    };
    let fault = match error.is_eof() {
        true => Fault::BrokenOff,
        false => Fault::Syntax,
    };
    Err((fault, error.line() as u64))
}

/// A value.
pub(crate) enum Value<'t> {
    /// An object, or else an array.
    Members(Members<'t>),
    /// A string, with its escapes.
    Text(&'t [u8]),
    /// A number, `true`, `false` or `null`.
    Other(&'t [u8]),
}

impl<'t> Value<'t> {
    /// Returns the value that a text begins with.
    pub(crate) fn of(text: &'t [u8]) -> Self {
        let text = text.strip_prefix(BOM).unwrap_or(text).trim_ascii();
        match text {
            [first @ (b'{' | b'['), rest @ ..] => Self::Members(Members {
                rest,
                is_object: *first == b'{',
            }),
            [b'"', rest @ ..] => Self::Text(rest.strip_suffix(b"\"").unwrap_or(rest)),
            _ => Self::Other(text),
        }
    }
}

/// The members of an object or array: the key, with its escapes, if there is one, and the value.
#[derive(Clone)]
pub(crate) struct Members<'t> {
    rest: &'t [u8],
    pub(crate) is_object: bool,
}

impl<'t> Iterator for Members<'t> {
    type Item = (Option<&'t [u8]>, &'t [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.rest.trim_ascii_start();
        rest = match rest {
            [b',', after @ ..] => after.trim_ascii_start(),
            _ => rest,
        };
        let mut key = None;
        if self.is_object {
            let inner = rest.strip_prefix(b"\"")?;
            let (written, after) = inner.split_at(string_length(inner));
            key = Some(written);
            let after = after.get(1..)?.trim_ascii_start();
            rest = after.strip_prefix(b":")?.trim_ascii_start();
        }
        let length = match rest.first()? {
            b'"' => string_length(rest.get(1..)?) + 2,
            b'{' | b'[' => nested_length(rest),
            _ => {
                let is_end = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b']' | b'}');
                rest.iter().position(is_end).unwrap_or(rest.len())
            }
        };
        let (value, after) = rest.split_at(length.min(rest.len()));
        self.rest = after;
        (!value.is_empty()).then_some((key, value))
    }
}

/// Passes on the members of a flat object, as most rows of JSON lines are: its strings have no
/// escapes, its numbers are whole, and only blanks stand between. Returns false for any other text,
/// and when `each` does.
#[inline]
pub(crate) fn flat<'t>(text: &'t [u8], mut each: impl FnMut(&'t [u8], &'t [u8]) -> bool) -> bool {
    // Without a branch, so that the compiler makes vector instructions of it.
    let is_plain = |plain, byte: &u8| plain & (*byte >= b' ') & (*byte != b'\\');
    let Some(mut rest) = text
        .strip_prefix(b"{")
        .filter(|_| text.iter().fold(true, is_plain))
    else {
        return false;
    };
    loop {
        let Some((key, [b':', after @ ..])) = flat_string(trim_blanks(rest)) else {
            return false;
        };
        let value = trim_blanks(after);
        let after = match value {
            [b'"', ..] => flat_string(value).map(|(_, after)| after),
            [b'1'..=b'9', after @ ..] => {
                let end = after.iter().position(|b| !b.is_ascii_digit());
                after.get(end.unwrap_or(after.len())..)
            }
            [b't', b'r', b'u', b'e', after @ ..]
            | [b'n', b'u', b'l', b'l', after @ ..]
            | [b'f', b'a', b'l', b's', b'e', after @ ..] => Some(after),
            _ => None,
        };
        let Some(after) = after.map(trim_blanks) else {
            return false;
        };
        let written = value.get(..value.len() - after.len()).unwrap_or_default();
        if !each(key, written.trim_ascii_end()) {
            return false;
        }
        match after {
            [b',', after @ ..] => rest = after,
            after => return after == b"}",
        }
    }
}

/// Returns a string without escapes, and what follows it and blanks.
#[inline]
fn flat_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let (string, after) = inner.split_at(memchr::memchr(b'"', inner)?);
    Some((string, trim_blanks(after.get(1..)?)))
}

#[inline]
fn trim_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

/// Returns the length of a string up to its closing quote.
#[inline]
fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at;
        }
        at += 2;
    }
    text.len()
}

/// Returns the length of an object or array.
fn nested_length(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    let is_mark = |b: &u8| matches!(b, b'"' | b'{' | b'[' | b'}' | b']');
    while let Some(found) = text.get(at..).unwrap_or_default().iter().position(is_mark) {
        at += found + 1;
        match text.get(at - 1) {
            Some(b'"') => at += string_length(text.get(at..).unwrap_or_default()) + 1,
            Some(b'{' | b'[') => depth += 1,
            _ if depth <= 1 => return at,
            _ => depth -= 1,
        }
    }
    text.len()
}

/// Returns a string without its escapes. One with half a surrogate pair becomes NUL, which no entry
/// has; U+FFFD would make one text of two different ones.
#[inline]
pub(crate) fn unescaped(written: &[u8]) -> Cow<'_, [u8]> {
    match memchr::memchr(b'\\', written) {
        None => Cow::Borrowed(written),
        Some(_) => Cow::Owned(without_escapes(written)),
    }
}

#[cold]
fn without_escapes(written: &[u8]) -> Vec<u8> {
    let quoted = [b"\"", written, b"\""].concat();
    serde_json::from_slice(&quoted).map_or_else(|_| vec![0], String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a document as serde_json writes it, from what is found in it.
    fn written(text: &[u8]) -> serde_json::Value {
        match Value::of(text) {
            Value::Members(members) if members.is_object => members
                .map(|(key, value)| (string(key.unwrap()), written(value)))
                .collect(),
            Value::Members(members) => members.map(|(_, value)| written(value)).collect(),
            Value::Text(text) => string(text).into(),
            Value::Other(text) => serde_json::from_slice(text).unwrap(),
        }
    }

    fn string(text: &[u8]) -> String {
        String::from_utf8(unescaped(text).into_owned()).unwrap()
    }

    #[test]
    fn half_a_pair_is_nul_and_a_fault_has_its_line() {
        assert_eq!(*unescaped(br"\ud83d\ude00"), *"\u{1f600}".as_bytes());
        assert_eq!(*unescaped(br"a \ud83d"), *b"\0");
        for (text, fault) in [
            (&b"\xef\xbb\xbf {}\n "[..], Ok(())),
            (b"", Ok(())),
            (b"{}\n {}", Err((Fault::Syntax, 2))),
            (b"[\n1,", Err((Fault::BrokenOff, 2))),
            (b"['a']", Err((Fault::Syntax, 1))),
            (b"[1,\n\"\xfc\"]", Err((Fault::Syntax, 2))),
        ] {
            assert_eq!(check(text), fault, "{}", text.escape_ascii());
        }
        assert!(check(&[b'['; 1 << 20]).is_err());
    }

    proptest! {
        /// What serde_json reads is read alike, and anything else ends.
        #[test]
        fn as_serde_reads_it(
            text in r#"([{\[]|[}\]]|,|:|"(a|b|\\"|\\\\|\\u00fc|/){0,3}"|-?[0-9.e]{1,3}|true|null| |\n){0,14}"#,
        ) {
            if let Ok(expected) = serde_json::from_str::<serde_json::Value>(&text) {
                prop_assert_eq!(check(text.as_bytes()), Ok(()));
                prop_assert_eq!(written(text.as_bytes()), expected);
            } else if let Value::Members(members) = Value::of(text.as_bytes()) {
                prop_assert!(members.count() <= text.len());
            }
        }
    }
}
