//! The argument of MAIL FROM, as Postfix and Sendmail pass it to a milter: as typed.
//!
//! Seen from real servers: `<a@b>`, `<a@b> SIZE=1000` in one piece, `a@b` without
//! brackets, `<>`, `<@relay:a@b>`, `<"John Doe"@b>`, `<a@b.>`, raw UTF-8. RFC 5321
//! section 4.1.2 has the grammar; what the server accepted beyond it is read like the
//! inside of an angle address of a header. Where Postfix 3.7 accepts an argument of
//! `tests/senders/mail.txt`, the sender it logs is among those found.
//!
//! What only a server can know it says in `{mail_addr}`: that `x%bad.example` is x@bad.example to
//! it (without that, a percent hack or a bang path is never undone), and what a bare `x` is.

use crate::address::{Canonical, ParseError, Rules};

use super::plain;
use super::scan::Scanner;
use super::store::Out;
use super::word::has_address;

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
    let (path, glued) = split(argument);
    // Postfix takes `<>a@b` for a@b ...
    if scanner.path(path, out) || scanner.content(glued, out) {
        return;
    }
    // ... and `<@b>` for `""@b`, which is one of the mailboxes that an entry `@b` lists. An `@`
    // at the end stands in an unclosed comment.
    let end = path.iter().rposition(|&byte| byte != b'@');
    let path = &path[..end.map_or(0, |last| last + 1)];
    if has_address(path)
        && let Err(ParseError::NoLocalPart) = Canonical::parse(path, Rules::default())
    {
        out.push(&[b"\"\"", path].concat());
    }
}

/// Adds the address as the server understood it: after it has undone quotes, blanks, routes, bang paths
/// and percent signs, and completed what had no domain. It comes without brackets; Postfix writes it in
/// lower case and in quotes where it must, Sendmail more as it came.
///
/// Nothing is added that says the same as what was found in the argument: nearly every time it does.
pub(super) fn understood(scanner: &mut Scanner, address: &[u8], out: &mut Out<'_>) {
    let address = address.trim_ascii();
    if has_address(address) {
        scanner.whole(address, out.begin(), out);
    }
}

/// The path without its brackets, and what stands behind these without a blank between;
/// without the parameters.
fn split(argument: &[u8]) -> (&[u8], &[u8]) {
    let bracketed = argument.starts_with(b"<");
    let mut quoted = false;
    let mut escaped = false;
    let mut comments = 0_usize;
    // The first `>` outside quotes and comments.
    let mut end = None;
    for (index, &byte) in argument.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' if comments == 0 => quoted = !quoted,
            _ if quoted => {}
            byte if !bracketed && is_blank(byte) => return (&argument[..index], b""),
            b'(' if bracketed => comments += 1,
            b')' => comments = comments.saturating_sub(1),
            b'>' if bracketed && comments == 0 => {
                end = Some(index);
                break;
            }
            _ => {}
        }
    }
    if !bracketed {
        return (argument, b"");
    }
    // A quotation mark or a parenthesis that nothing closes hides no bracket.
    match end.or_else(|| memchr::memchr(b'>', argument)) {
        Some(end) => {
            let behind = &argument[end + 1..];
            let blank = behind.iter().position(|&byte| is_blank(byte));
            (&argument[1..end], &behind[..blank.unwrap_or(behind.len())])
        }
        None => (&argument[1..], b""),
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\0')
}
