//! The argument of MAIL FROM, as Postfix and Sendmail pass it to a milter: as typed.
//!
//! Seen from real servers: `<a@b>`, `<a@b> SIZE=1000` in one piece, `a@b` without
//! brackets, `<>`, `<@relay:a@b>`, `<"John Doe"@b>`, `<a@b.>`, raw UTF-8. RFC 5321
//! section 4.1.2 has the grammar; what the server accepted beyond it is read like the
//! inside of an angle address of a header.

use super::plain;
use super::scan::Scanner;
use super::store::Out;

/// Adds the address of the argument; nothing for `<>` and for a bare word.
pub(super) fn scan(scanner: &mut Scanner, argument: &[u8], out: &mut Out<'_>) {
    let argument = argument.trim_ascii();
    if let [b'<', inner @ .., b'>'] = argument
        && plain::is_address(inner)
    {
        out.push(inner);
        return;
    }
    if plain::is_address(argument) {
        out.push(argument);
        return;
    }
    let path = path(argument);
    if !path.is_empty() {
        scanner.path(path, out);
    }
}

/// The path without its brackets and without the parameters behind it.
fn path(argument: &[u8]) -> &[u8] {
    let bracketed = argument.starts_with(b"<");
    let mut quoted = false;
    let mut escaped = false;
    // At the first `>` outside quotes, or at the first blank of a bare address.
    let mut end = None;
    let mut blank = None;
    for (index, &byte) in argument.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'>' => {
                end = Some(index);
                if bracketed {
                    break;
                }
            }
            b' ' | b'\t' | b'\0' if blank.is_none() => blank = Some(index),
            _ => {}
        }
    }
    if bracketed {
        // A quotation mark that nothing closes quotes no bracket.
        let end = end.or_else(|| memchr::memchr(b'>', argument));
        &argument[1..end.unwrap_or(argument.len())]
    } else {
        &argument[..blank.unwrap_or(argument.len())]
    }
}
