//! The notation in `tests/addresses.txt` for bytes that a text file should not contain.

/// Returns the bytes in a cell: `{200B}` is a code point, `{xFF}` a byte.
///
/// # Panics
/// If a code is invalid.
pub(crate) fn bytes(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = shown;
    while let Some((before, (code, after))) = rest
        .split_once('{')
        .and_then(|(b, r)| Some((b, r.split_once('}')?)))
    {
        bytes.extend_from_slice(before.as_bytes());
        match code.strip_prefix('x') {
            Some(byte) => bytes.push(u8::from_str_radix(byte, 16).expect("a code")),
            None => {
                let c =
                    char::from_u32(u32::from_str_radix(code, 16).expect("a code")).expect("a code");
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Returns the words of a text in the same notation; `{}` is an empty one.
///
/// # Panics
/// If a code is invalid.
pub(crate) fn byte_words(text: &str) -> Vec<Vec<u8>> {
    let word = |word| {
        if word == "{}" {
            Vec::new()
        } else {
            bytes(word)
        }
    };
    text.split_whitespace().map(word).collect()
}
