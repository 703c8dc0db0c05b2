//! Reads the argument of MAIL FROM as Postfix and Sendmail pass it to a milter: unchanged.
//!
//! Real servers pass `<a@b>`, `<a@b> SIZE=1000` in one string, `a@b` without brackets, `<>`,
//! `<@relay:a@b>`, `<"John Doe"@b>`, `<a@b.>` and raw UTF-8. RFC 5321 section 4.1.2 defines the
//! grammar; what servers accept beyond it is read like the inside of an angle address in a header.
//! For each argument in `tests/senders/mail.txt` that Postfix 3.7 accepts, the sender that it logs
//! is among those found here.
//!
//! Some things only the server knows, and reports in `{mail_addr}`: whether it treats
//! `x%bad.example` as x@bad.example (without that, a percent hack or a bang path is never undone),
//! and which address a bare `x` means.

use blocklist_filter::address::{Canonical, ParseError, Rules};
use blocklist_filter::rfc5322::{Nesting, Role};

use super::flat::{Flat, is_blank};
use super::path::Paths;
use super::plain;
use super::store::{Mark, Out};
use super::word::has_address;

/// Adds the address of the argument; adds nothing for `<>` and for a bare word.
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
    // Postfix reads `<>a@b` as a@b ...
    let found = paths.path(path, out) || paths.content(glued, out);
    // Postfix drops blanks; Sendmail replaces them by a dot (its option BlankSub).
    for blank in [None, Some(b'.')] {
        if let Some(address) = Flat::of(argument, blank).and_then(|flat| flat.address()) {
            paths.whole(&address, Mark::default(), out);
        }
    }
    if found {
        return;
    }
    // ... and `<@b>` as `""@b`, which is one of the mailboxes that an entry `@b` lists. An `@` at
    // the end is inside an unclosed comment.
    let end = path.iter().rposition(|&byte| byte != b'@');
    let path = &path[..end.map_or(0, |last| last + 1)];
    if has_address(path)
        && let Err(ParseError::NoLocalPart) = Canonical::parse(path, Rules::default())
    {
        out.push(&[b"\"\"", path].concat());
    }
}

/// Adds the address as the server understood it: after it has undone quotes, blanks, routes, bang
/// paths and percent signs, and has completed an address without a domain. It has no brackets.
/// Postfix writes it in lower case, quoted where necessary; Sendmail changes it less. Nearly always
/// the argument gave the same address already, and this adds nothing.
pub(super) fn understood(paths: &mut Paths, address: &[u8], out: &mut Out<'_>) {
    // An `@` at the end is inside an unclosed comment. Keep blanks: the last may be escaped.
    if !address.ends_with(b"@") {
        paths.whole(address, Mark::default(), out);
    }
}

/// Returns the path without its brackets, and the text directly behind them; not the parameters.
fn split(argument: &[u8]) -> (&[u8], &[u8]) {
    let bracketed = argument.starts_with(b"<");
    let mut nesting = Nesting::with_escapes_outside();
    if !bracketed {
        nesting = nesting.without_comments();
    }
    // The first `>` outside quotes and comments.
    let mut end = None;
    for (index, &byte) in argument.iter().enumerate() {
        if nesting.step(byte) != Role::Outside {
            continue;
        }
        if !bracketed && is_blank(byte) {
            return (&argument[..index], b"");
        }
        if bracketed && byte == b'>' {
            end = Some(index);
            break;
        }
    }
    if !bracketed {
        return (argument, b"");
    }
    // An unclosed quotation mark or parenthesis does not hide a bracket.
    match end.or_else(|| memchr::memchr(b'>', argument)) {
        Some(end) => {
            let behind = &argument[end + 1..];
            let blank = behind.iter().position(|&byte| is_blank(byte));
            (&argument[1..end], &behind[..blank.unwrap_or(behind.len())])
        }
        None => (&argument[1..], b""),
    }
}
