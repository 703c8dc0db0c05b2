//! Reads encoded words, `=?charset?Q?text?=` (RFC 2047), as mail programs do.
//!
//! It is more lenient than the RFC where mail programs are: it allows any length, a language after
//! the charset (RFC 2231), and blanks inside. It does not allow blanks or an `@` together with angle
//! brackets, because a program that does not decode such a word sees a mailbox in it: three of the four
//! readers in `tests/machine/delivered.rs` show that of `=?utf-8?Q?<a@b>?= <c@d>` first.
//!
//! Finding all encoded words of a text is linear in its length: a search stops at the next `=?`, so
//! no two searches pass the same byte.

use mail_parser::decoders::charsets::map::charset_decoder;

/// Longest accepted name of a charset; the longest that IANA has registered is 45 bytes.
const MAX_CHARSET_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Quoted,
    Base64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Encoded<'t> {
    charset: &'t [u8],
    coding: Coding,
    data: &'t [u8],
    /// Length of the whole word in bytes, from `=?` to `?=`.
    pub(super) len: usize,
}

impl<'t> Encoded<'t> {
    pub(super) fn at_start(text: &'t [u8]) -> Option<Self> {
        let rest = text.strip_prefix(b"=?")?;
        let end = rest
            .iter()
            .take(MAX_CHARSET_BYTES + 1)
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b':' | b'+' | b'*' | b'\''))?;
        let (charset, rest) = rest.split_at(end);
        let (coding, data) = match rest {
            [b'?', b'q' | b'Q', b'?', data @ ..] => (Coding::Quoted, data),
            [b'?', b'b' | b'B', b'?', data @ ..] => (Coding::Base64, data),
            _ => return None,
        };
        if charset.is_empty() {
            return None;
        }
        let (mut blank, mut angle, mut at) = (false, false, false);
        for (index, &byte) in data.iter().enumerate() {
            match byte {
                b'?' if data.get(index + 1) == Some(&b'=') => {
                    return Some(Self {
                        charset,
                        coding,
                        data: &data[..index],
                        len: text.len() - data.len() + index + 2,
                    });
                }
                b'=' if data.get(index + 1) == Some(&b'?')
                    && data.get(index + 2) != Some(&b'=') =>
                {
                    return None;
                }
                b'\r' | b'\n' => return None,
                b' ' | b'\t' => blank = true,
                b'<' | b'>' => angle = true,
                b'@' => at = true,
                _ => {}
            }
            // Thunderbird and Python skip characters that are not base64. Those that form addresses
            // are excepted: other programs see the address in the raw text.
            let may_be_address = !byte.is_ascii() || br#"@<>(),;:"\[]"#.contains(&byte);
            if ((blank || at) && angle) || (coding == Coding::Base64 && may_be_address) {
                return None;
            }
        }
        None
    }

    /// Appends the decoded text: in UTF-8 if the charset is known, else the bytes unconverted.
    pub(super) fn decode(&self, text: &mut Vec<u8>) {
        let start = text.len();
        match self.coding {
            Coding::Quoted => quoted_printable(self.data, text),
            Coding::Base64 => base64(self.data, text),
        }
        let charset = self.charset.split(|&byte| byte == b'*').next();
        let charset = charset.unwrap_or_default();
        if charset.eq_ignore_ascii_case(b"utf-8") || charset.eq_ignore_ascii_case(b"us-ascii") {
            return;
        }
        if let Some(decoded) = in_charset(charset, &text[start..]) {
            text.truncate(start);
            text.extend_from_slice(decoded.as_bytes());
        }
    }
}

/// Converts text to UTF-8; `None` if the charset is not known, or lacks a character of the text.
fn in_charset(charset: &[u8], text: &[u8]) -> Option<String> {
    // The crate knows few of its names: `unicode-2-0-utf-7`, `csUnicode11UTF7`.
    let name = charset.to_ascii_lowercase();
    let is_utf7 = name.ends_with(b"utf-7") || name.ends_with(b"utf7");
    let charset = if is_utf7 { b"utf-7" } else { charset };
    let decoded = charset_decoder(charset)?(text);
    (!decoded.contains('\u{FFFD}')).then_some(decoded)
}

pub(super) fn in_windows_1252(text: &[u8]) -> String {
    charset_decoder(b"windows-1252").map_or_else(String::new, |decoder| decoder(text))
}

/// Returns whether `text` may contain an encoded word: a `=?` with a `?=` after it. (Building a
/// substring searcher takes longer than reading most of these texts.)
pub(super) fn may_encode(text: &[u8]) -> bool {
    let mut opener = memchr::memchr_iter(b'=', text);
    opener
        .find(|index| text.get(index + 1) == Some(&b'?'))
        .is_some_and(|index| {
            let rest = &text[index + 2..];
            memchr::memchr_iter(b'?', rest).any(|index| rest.get(index + 1) == Some(&b'='))
        })
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16)?.try_into().ok()
}

/// Decodes the "Q" encoding. Keeps anything that is not `=XX` or `_`.
fn quoted_printable(data: &[u8], text: &mut Vec<u8>) {
    let mut rest = data;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let escape = match (byte, after) {
            (b'=', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escape {
            text.push(high << 4 | low);
            rest = &after[2..];
        } else {
            text.push(if byte == b'_' { b' ' } else { byte });
        }
    }
}

/// Decodes base64, also in the URL alphabet. Skips padding and bytes outside the alphabet.
fn base64(data: &[u8], text: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u32, 0);
    for &byte in data {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                // Padding: the data may be several encoded pieces joined together.
                (bits, count) = (0, 0);
                continue;
            }
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            let [.., low] = (bits >> count).to_be_bytes();
            text.push(low);
        }
    }
}

/// Appends `text` with its encoded words decoded, and without the blanks between two of them (RFC
/// 2047 section 6.2). Then replaces every appended byte for which `blank` is true by a space.
pub(super) fn decode_all(text: &[u8], blank: impl Fn(u8) -> bool, decoded: &mut Vec<u8>) {
    let start = decoded.len();
    let mut rest = text;
    // Where the last encoded word ends, in `decoded`.
    let mut word_end = None;
    while !rest.is_empty() {
        if let Some(encoded) = Encoded::at_start(rest) {
            if let Some(end) = word_end
                && decoded[end..].iter().all(u8::is_ascii_whitespace)
            {
                decoded.truncate(end);
            }
            encoded.decode(decoded);
            word_end = Some(decoded.len());
            rest = &rest[encoded.len..];
            continue;
        }
        let skipped = rest.get(1..).unwrap_or_default();
        let next = memchr::memchr(b'=', skipped).map_or(rest.len(), |index| index + 1);
        decoded.extend_from_slice(&rest[..next]);
        rest = &rest[next..];
    }
    for byte in &mut decoded[start..] {
        if blank(*byte) {
            *byte = b' ';
        }
    }
}
