//! Formats that are recognized by the beginning of a text, not line by line: JSON, a web page, a
//! mail.

use crate::list::format::Format;
use crate::list::meaning::mail_line::is_of_mail;
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
    is_folder || lines(head).take(MAIL_LINES).any(is_of_mail)
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
