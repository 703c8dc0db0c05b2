//! Formats that are recognized by the beginning of a text, not line by line: JSON, a web page, a
//! mail.

use super::format::Format;
use super::lines::lines;

/// Returns the format of a text as a whole, if it has one; `extension` is that of its file.
pub(super) fn of_whole(head: &[u8], extension: &str) -> Option<Format> {
    if is_web_page(head) {
        Some(Format::Html)
    } else if is_mail(head) {
        Some(Format::Mail)
    } else {
        json(head, extension)
    }
}

/// Returns whether a text is a page that says why there is no list; addresses in it are not listed.
fn is_web_page(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    [
        &b"<!doctype"[..],
        b"<html",
        b"<head",
        b"<body",
        b"<?xml",
        b"<!--",
    ]
    .iter()
    .any(|start| {
        text.get(..start.len())
            .is_some_and(|begins| begins.eq_ignore_ascii_case(start))
    })
}

/// Returns whether a text is a mail as it was sent, or a folder of mails: lines that only mails
/// have are among the first.
fn is_mail(head: &[u8]) -> bool {
    let is_folder = head.starts_with(b"From ") && {
        let first = lines(head).next().unwrap_or_default();
        first.iter().filter(|&&b| b == b':').count() >= 2
    };
    let traces = [
        // An address book, a directory.
        "begin:vcard",
        "dn: ",
        "dn:: ",
        "received:",
        "message-id:",
        "mime-version:",
        "dkim-signature:",
    ];
    is_folder
        || lines(head).take(MAIL_LINES).any(|line| {
            traces.iter().any(|trace| {
                line.get(..trace.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(trace.as_bytes()))
            })
        })
}

/// Number of lines among which a mail has one of these.
const MAIL_LINES: usize = 40;

/// Recognizes JSON by its first character.
fn json(head: &[u8], extension: &str) -> Option<Format> {
    let text = head.trim_ascii_start();
    match text.first()? {
        b'{' if matches!(extension, "jsonl" | "ndjson") => Some(Format::JsonLines),
        b'[' if starts_no_json(text.get(1..)?.trim_ascii_start().first()?) => None,
        b'[' => Some(Format::Json),
        b'{' => {
            let mut lines = lines(text).map(<[u8]>::trim_ascii);
            let first = lines.next()?;
            // One damaged line must not make the whole list one damaged document.
            let (mut begun, mut said) = (0, 0);
            for line in lines.filter(|line| !line.is_empty()) {
                said += 1;
                begun += usize::from(line.starts_with(b"{"));
            }
            let one_a_line = first.ends_with(b"}") && said > 0 && begun * 2 >= said;
            Some(if one_a_line {
                Format::JsonLines
            } else {
                Format::Json
            })
        }
        _ => None,
    }
}

/// Returns whether no JSON has this character after a bracket: it begins a title, or an address
/// without quotes.
fn starts_no_json(sign: &u8) -> bool {
    sign.is_ascii_alphabetic() || *sign == b'\''
}
