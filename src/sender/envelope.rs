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

use super::path::Paths;
use super::plain;
use super::store::Out;
use super::word::has_address;

/// Adds the address of the argument; nothing for `<>` and for a bare word.
pub(super) fn scan(paths: &mut Paths, argument: &[u8], out: &mut Out<'_>) {
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
    let found = paths.path(path, out) || paths.content(glued, out);
    // Postfix drops blanks, Sendmail has a dot in their place (its option BlankSub).
    for blank in [None, Some(b'.')] {
        if let Some(address) = stripped(argument, blank) {
            paths.whole(&address, out.begin(), out);
        }
    }
    if found {
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
pub(super) fn understood(paths: &mut Paths, address: &[u8], out: &mut Out<'_>) {
    // An `@` at the end stands in an unclosed comment. Blanks stay: the last may be escaped.
    if !address.ends_with(b"@") {
        paths.whole(address, out.begin(), out);
    }
}

/// The argument as Postfix's reader of envelopes takes it, which minds no grammar: the first brackets that hold
/// something, a source route, comments, quotes and backslashes go, wherever they stand, blanks too, or else
/// `blank` takes their place; and the last `@` of what is left divides. `x<sp"am@"bad .example>;` is spam@bad.example to it.
fn stripped(argument: &[u8], blank: Option<u8>) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(argument.len());
    let (mut escaped, mut quoted, mut bracketed, mut comments) = (false, false, false, 0_usize);
    let mut in_route = false;
    for &byte in argument {
        match byte {
            _ if escaped => {
                escaped = false;
                if comments > 0 {
                    continue;
                }
            }
            b'\\' => {
                escaped = true;
                continue;
            }
            b'(' if !quoted => {
                comments += 1;
                continue;
            }
            b')' if !quoted => {
                comments = comments.saturating_sub(1);
                continue;
            }
            _ if comments > 0 => continue,
            b'"' => {
                quoted = !quoted;
                continue;
            }
            _ if quoted => {}
            b'<' => {
                text.clear();
                bracketed = true;
                in_route = false;
                continue;
            }
            b'>' if in_route => continue,
            // `<>` is nobody, unless somebody is glued to it.
            b'>' if text.is_empty() => {
                bracketed = false;
                continue;
            }
            b'>' => break,
            byte if is_blank(byte) && bracketed => {
                if !text.is_empty() {
                    text.extend(blank);
                }
                continue;
            }
            byte if is_blank(byte) => break,
            _ => {}
        }
        match byte {
            // What begins with an `@` is a route, up to its colon.
            b'@' if text.is_empty() => in_route = true,
            b':' if in_route => {
                in_route = false;
                text.clear();
                continue;
            }
            _ => {}
        }
        text.push(byte);
    }
    let at = memchr::memrchr(b'@', &text)?;
    (at > 0 && !in_route && !quoted).then(|| joined(&text[..at], &text[at + 1..]))
}

/// An address of which the local part says this, and the domain that: as it would be written.
fn joined(local: &[u8], domain: &[u8]) -> Vec<u8> {
    let mut address = Vec::with_capacity(local.len() + domain.len() + 4);
    if local.iter().copied().all(is_atext) {
        address.extend_from_slice(local);
    } else {
        address.push(b'"');
        for &byte in local {
            if matches!(byte, b'"' | b'\\') {
                address.push(b'\\');
            }
            address.push(byte);
        }
        address.push(b'"');
    }
    address.push(b'@');
    let stray = |byte: u8| matches!(byte, b'"' | b'\\') || is_blank(byte);
    address.extend(domain.iter().copied().filter(|&byte| !stray(byte)));
    if domain.starts_with(b"[") && !domain.contains(&b']') {
        address.push(b']');
    }
    // One final dot is no part of a domain anywhere; Sendmail minds no second.
    while address.ends_with(b".") {
        address.pop();
    }
    address
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

/// Needs no quotes in a local part (RFC 5322 section 3.2.3, RFC 6532 section 3.2), dots included.
fn is_atext(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\0')
}
