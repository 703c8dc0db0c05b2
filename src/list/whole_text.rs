//! Formats that are recognized by the beginning of a text, not line by line: JSON, a web page, a
//! mail.

use crate::list::format::Format;
use crate::list::text::lines::lines;

/// Returns the format of a text as a whole, if it has one; `extension` is that of its file.
pub(super) fn of_whole(head: &[u8], extension: &str) -> Option<Format> {
    if is_web_page(head) {
        Some(Format::Html)
    } else if is_mail(head) {
        Some(Format::Mail)
    } else if is_diff(head) {
        Some(Format::Diff)
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
        // The mail queues of Postfix and Sendmail.
        "-queue id-",
        "-----q-id-----",
    ];
    is_folder
        || lines(head).take(MAIL_LINES).any(|line| {
            traces.iter().any(|trace| {
                line.get(..trace.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(trace.as_bytes()))
            }) || is_queued(line)
        })
}

/// Returns whether a line is that of a mail in Exim's queue:
/// ` 25m  2.9K 1tEXiM-0000c8-00 <spam@bad.example>`.
fn is_queued(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace);
    let mut words = words.by_ref().filter(|word| !word.is_empty());
    let is_number = |word: Option<&[u8]>, units: &[u8]| {
        word.and_then(<[u8]>::split_last)
            .is_some_and(|(unit, number)| {
                (units.contains(unit) || unit.is_ascii_digit())
                    && number.iter().all(|b| b.is_ascii_digit() || *b == b'.')
            })
    };
    is_number(words.next(), b"smhdw")
        && is_number(words.next(), b"KMG")
        && words.next().is_some_and(|id| {
            let parts = id.split(|&b| b == b'-');
            let is_part =
                |part: &[u8]| part.len() > 1 && part.iter().all(u8::is_ascii_alphanumeric);
            parts.clone().count() == 3 && parts.clone().all(is_part)
        })
        && words
            .next()
            .is_some_and(|sender| sender.first() == Some(&b'<'))
}

/// Returns whether a text is the output of `diff`: it says what is added and removed, but not what
/// the list has now.
fn is_diff(head: &[u8]) -> bool {
    let mut before: &[u8] = b"";
    lines(head).take(DIFF_LINES).any(|line| {
        let before = std::mem::replace(&mut before, line);
        line.starts_with(b"diff --git ")
            || line.starts_with(b"@@ -")
            || line.starts_with(b"+++ ") && before.starts_with(b"--- ")
            || line.starts_with(b"--- ") && before.starts_with(b"*** ")
            || matches!(line, [b'<' | b'>', b' ', ..]) && is_change(before)
    })
}

/// Returns whether a line of `diff` says which lines have changed: `3c3`, `5a5,6`.
fn is_change(line: &[u8]) -> bool {
    let mut ranges = line.split(|b| matches!(b, b'a' | b'c' | b'd'));
    let is_range = |range: &[u8]| {
        range.first().is_some_and(u8::is_ascii_digit)
            && range.iter().all(|b| b.is_ascii_digit() || *b == b',')
    };
    ranges.clone().count() == 2 && ranges.all(is_range)
}

/// Number of lines among which a diff has one of these; remarks may come before them.
const DIFF_LINES: usize = 500;

/// Number of lines among which a mail has one of these.
const MAIL_LINES: usize = 40;

/// Recognizes JSON by its first character.
fn json(head: &[u8], extension: &str) -> Option<Format> {
    let text = head.trim_ascii_start();
    match text.first()? {
        b'{' if matches!(extension, "jsonl" | "ndjson") => Some(Format::JsonLines),
        &bracket if starts_no_json(bracket, text.get(1..)?.trim_ascii_start()) => None,
        b'[' => Some(Format::Json),
        b'{' => {
            let mut lines = lines(text).map(<[u8]>::trim_ascii);
            let first = lines.next()?;
            // One damaged line must not make the whole list one damaged document.
            let (mut objects, mut lines_with_text) = (0, 0);
            for line in lines.filter(|line| !line.is_empty()) {
                lines_with_text += 1;
                objects += usize::from(line.starts_with(b"{"));
            }
            let one_a_line =
                first.ends_with(b"}") && lines_with_text > 0 && objects * 2 >= lines_with_text;
            Some(if one_a_line {
                Format::JsonLines
            } else {
                Format::Json
            })
        }
        _ => None,
    }
}

/// Returns whether no JSON has this after a bracket: a title, an address without quotes,
/// `[[entry]]` of TOML, a table of a wiki, a dictionary of Python.
fn starts_no_json(bracket: u8, behind: &[u8]) -> bool {
    match (bracket, behind) {
        (b'[', [b'[', sign, ..] | [sign, ..]) if sign.is_ascii_alphabetic() => true,
        (_, [b'\'', ..]) => true,
        (b'{', [sign, ..]) => !matches!(sign, b'"' | b'}' | b'/' | b'#' | b'*'),
        _ => false,
    }
}
