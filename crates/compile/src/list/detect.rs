//! Which format a list has, by marks of syntax alone.
//!
//! A mark is what only the lines of one format have ([`FORMATS`]). Without one, a list is plain.
//! With those of several, the candidates read the beginning of the list: those that reject a line
//! give way to one that rejects none. If the others read it equally, the first in the registry
//! counts; if not, the list is refused. The name of the file means nothing.

use super::formats::{Out, before_comment, before_semicolon, read_lines};
use super::registry::{FORMATS, Format, Purpose, Registered, marked};
use super::row::{Refusal, Row, looks_like_entry};
use super::text::{BOM, begins_with_one_of, blank_words, divided, is_one_of, lines};

/// Detects the format of a list that begins with `head`, and returns it with the mark that decided
/// it; no mark for a plain list. `is_whole` tells whether that is all of the list.
///
/// # Errors
/// When the text is not a list, or has the marks of several formats.
pub fn detect(head: &[u8], is_whole: bool) -> Result<(Format, Option<&'static str>), Refusal> {
    let head = head.strip_prefix(BOM).unwrap_or(head);
    if let Some((what, remedy)) = no_list(head) {
        return Err(Refusal::NotAList { what, remedy });
    }
    let whole = match memchr::memrchr(b'\n', head) {
        Some(newline) if !is_whole => head.get(..newline + 1).unwrap_or(head),
        _ => head,
    };
    if let Some(format) = json(head) {
        return Ok((format, Some("JSON")));
    }
    let candidates = candidates(whole);
    // In a zone, a semicolon begins a comment.
    let of_zone = |row: &&Registered| matches!(row.format, Format::Rpz | Format::Rbldnsd);
    let is_zone = candidates.iter().any(of_zone);
    match (separator(whole, is_zone), candidates.as_slice()) {
        (Some(mark), []) => Ok((Format::Csv, Some(mark))),
        (Some(_), [first, ..]) => Err(Refusal::Ambiguous(first.name(), Format::Csv.name())),
        (None, candidates) => Ok(match one_of(candidates, whole)? {
            Some(row) => (row.format, row.mark.map(|(shown, _)| shown)),
            None => (Format::Plain, None),
        }),
    }
}

/// Returns the lines without their comments, trimmed, except for those that are nothing else.
fn significant(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(head)
        .map(|line| line.strip_prefix(BOM).unwrap_or(line).trim_ascii())
        .map(before_comment)
        .filter(|line| !matches!(line, [] | [b';', ..]))
}

fn candidates(head: &[u8]) -> Vec<&'static Registered> {
    // A line of one word without signs has no mark.
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || b"@.-_+".contains(b);
    let lines = significant(head).filter(|line| !line.iter().all(is_word));
    let lines: Vec<&[u8]> = lines.collect();
    let is_marked = |row: &&Registered| {
        let mark = row.mark.as_ref();
        mark.is_some_and(|(_, is_on)| lines.iter().any(|line| is_on(line)))
    };
    // Other kinds of files have the lines of Exim, too.
    let others = FORMATS.iter().filter(|row| row.format != Format::Exim);
    others.filter(is_marked).collect()
}

/// Returns the candidate that reads a list; `None` if there are no candidates.
fn one_of(
    candidates: &[&'static Registered],
    head: &[u8],
) -> Result<Option<&'static Registered>, Refusal> {
    if let [only] = candidates {
        return Ok(Some(only));
    }
    let read = candidates.iter().map(|row| (*row, result(row, head)));
    let mut read: Vec<_> = read.collect();
    if read.iter().any(|(_, (_, rejected))| *rejected == 0) {
        read.retain(|(_, (_, rejected))| *rejected == 0);
    }
    let Some((chosen, (entries, _))) = read.first() else {
        return Ok(None);
    };
    match read.iter().find(|(_, (others, _))| others != entries) {
        Some((other, _)) => Err(Refusal::Ambiguous(chosen.name(), other.name())),
        None => Ok(Some(chosen)),
    }
}

/// Returns what a format lists, with the lines, and how many lines it rejects.
fn result(row: &Registered, head: &[u8]) -> (Vec<(u64, Vec<u8>)>, usize) {
    let (mut entries, mut rejected, mut lines) = (Vec::new(), 0, 0);
    let mut sink = |line, row: Row<'_>| match row {
        Row::Entry(raw) => entries.push((line, raw.text.to_vec())),
        Row::Skipped { .. } => {}
        Row::Rejected { .. } | Row::Refused { .. } => rejected += 1,
    };
    if let Some(mut format) = row.lines(true, Purpose::List) {
        read_lines(format.as_mut(), head, true, &mut lines, &mut sink);
        format.finish(&mut Out::new(lines, b"", &mut sink));
    }
    (entries, rejected)
}

/// Returns the mark of a table with separators: its first two lines are divided in cells of which
/// some cannot be entries, or the first is one quoted entry.
fn separator(head: &[u8], is_zone: bool) -> Option<&'static str> {
    let mut lines = significant(head).map(|line| match is_zone {
        true => before_semicolon(line),
        false => line,
    });
    let first = lines.next()?;
    let second = lines.next().unwrap_or(first);
    if marked(first).is_some() {
        return None;
    }
    if let [b'"', inner @ .., b'"'] = first
        && !inner.contains(&b'"')
        && looks_like_entry(inner)
    {
        return Some("a quoted entry");
    }
    let marks = [(b',', "commas"), (b';', "semicolons"), (b'\t', "tabs")];
    let is_in_both = |sign: &u8| first.contains(sign) && second.contains(sign);
    let mut found = marks.into_iter().filter(|(sign, _)| is_in_both(sign));
    found
        .next()
        .filter(|_| is_divided(first))
        .map(|(_, mark)| mark)
}

fn is_divided(line: &[u8]) -> bool {
    let is_entry: Vec<bool> = divided(line, b",;\t").map(looks_like_entry).collect();
    is_entry.len() > 1 && is_entry.contains(&false)
}

fn json(head: &[u8]) -> Option<Format> {
    let text = head.trim_ascii_start();
    let (first, rest) = text.split_first()?;
    let after = rest.trim_ascii_start();
    match (first, after) {
        (b'[', [b'[', b'[', ..]) => None,
        (b'[', [b'"' | b'{' | b'[' | b']', ..]) => Some(Format::Json),
        // `[1,"a@x"]`, but not the heading `[1]`.
        (b'[', [b'0'..=b'9', ..]) => {
            let end = after.iter().find(|b| !b.is_ascii_digit());
            (end == Some(&b',')).then_some(Format::Json)
        }
        (b'{', [b'"' | b'}', ..]) => {
            let lines = lines(text).map(<[u8]>::trim_ascii);
            let mut lines = lines.filter(|line| !line.is_empty());
            let is_object = lines.next().is_some_and(|line| line.ends_with(b"}"));
            let is_next_one = lines.next().is_some_and(|line| line.starts_with(b"{"));
            Some(match is_object && is_next_one {
                true => Format::JsonLines,
                false => Format::Json,
            })
        }
        _ => None,
    }
}

fn no_list(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if begins_with_one_of(head.trim_ascii_start(), PAGES) {
        let remedy = "was the download refused? Convert XML to plain text or CSV";
        return Some(("a web page or XML", remedy));
    }
    if is_mail(head) {
        return Some(("a mail", "list its senders, one a line"));
    }
    let remedy = "list the senders whom they block, one a line";
    is_of_mailscanner(head).then_some(("rules of MailScanner", remedy))
}

const PAGES: &str = "<!doctype <html <head <body <?xml <!--";

/// Names of headers that a mail has among its first lines.
const HEADERS: &str = "ARC-Seal Authentication-Results Content-Type DKIM-Signature Date Delivered-To From \
     MIME-Version Message-ID Received Reply-To Return-Path Subject To";

fn is_mail(head: &[u8]) -> bool {
    let mut first_lines = lines(head).filter(|line| !line.trim_ascii().is_empty());
    let is_header = |line: &[u8]| {
        let colon = memchr::memchr(b':', line).unwrap_or(0);
        let (name, value) = line.split_at(colon);
        is_one_of(name, HEADERS) && value.get(1).is_none_or(u8::is_ascii_whitespace)
    };
    let first = lines(head).next().unwrap_or_default();
    let is_folder = first.starts_with(b"From ") && memchr::memchr_iter(b':', first).count() >= 2;
    // Rules about senders and recipients have these two alone.
    let is_of_mail =
        |line| is_header(line) && !line.starts_with(b"From:") && !line.starts_with(b"To:");
    is_folder || first_lines.next().is_some_and(is_header) && first_lines.take(40).any(is_of_mail)
}

/// Returns whether a text begins with a rule of MailScanner: `From: *@bad.example yes`.
fn is_of_mailscanner(head: &[u8]) -> bool {
    let line = significant(head).next().unwrap_or_default();
    let words: Vec<&[u8]> = blank_words(line).collect();
    match words.as_slice() {
        [direction, _, .., answer] => {
            is_one_of(direction, "From: To: FromOrTo: FromAndTo:") && is_one_of(answer, "yes no")
        }
        _ => false,
    }
}
