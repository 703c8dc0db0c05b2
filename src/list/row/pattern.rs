//! Patterns that match exactly one entry, and so can be looked up.
//!
//! ```text
//!   /^spam@bad\.example$/     spam@bad.example
//!   /^spam@/                  spam@
//!   /@bad\.example$/          @bad.example
//!   /\.bid$/i                 .bid
//! ```
//!
//! Letter case does not matter in entries, so a flag `i` changes nothing. Any other pattern matches
//! more than one entry, or less.

/// Returns whether a text is written as a pattern: between slashes, with flags or none.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    split(text).is_some()
}

/// Returns the expression and the flags.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"/")?;
    let (expression, flags) = inner.split_at_checked(memchr::memrchr(b'/', inner)?)?;
    let flags = flags.get(1..)?;
    flags
        .iter()
        .all(u8::is_ascii_alphabetic)
        .then_some((expression, flags))
}

/// Returns the only entry that a pattern matches.
pub(crate) fn entry(text: &[u8]) -> Option<Vec<u8>> {
    let (expression, flags) = split(text)?;
    if !flags.iter().all(|&flag| flag == b'i') {
        return None;
    }
    let anchors = (expression.starts_with(b"^"), expression.ends_with(b"$"));
    let inner = expression.strip_prefix(b"^").unwrap_or(expression);
    let text = literal(inner.strip_suffix(b"$").unwrap_or(inner))?;
    let at = memchr::memchr(b'@', &text);
    let is_one = match anchors {
        (true, true) => at.is_some_and(|at| at > 0 && at + 1 < text.len()),
        (true, false) => at.is_some_and(|at| at > 0 && at + 1 == text.len()),
        (false, true) => {
            (at == Some(0) || at.is_none() && text.starts_with(b".")) && text.len() > 1
        }
        (false, false) => false,
    };
    is_one.then_some(text)
}

/// Returns the text that an expression without any freedom matches.
fn literal(expression: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(expression.len());
    let mut bytes = expression.iter().copied();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'@' | b'=' | b'#' | b'~' => {
                byte
            }
            // A letter after it would be a class of characters: `\d`, `\w`.
            b'\\' => bytes.next().filter(u8::is_ascii_punctuation)?,
            _ => return None,
        });
    }
    Some(text)
}
