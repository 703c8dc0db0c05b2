//! Lines that only a mail has, the queue of a mail server, an address book or a web page: the
//! addresses around them can be anybody's.

/// Returns whether a line begins as no line of a list does.
pub(crate) fn is_of_mail(line: &[u8]) -> bool {
    let is_start = |start: &&str| {
        let begins = line.get(..start.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(start.as_bytes()))
    };
    STARTS.iter().any(is_start) || is_queued(line)
}

/// Returns whether a web page begins here, as the answer of a server that refuses a download.
pub(crate) fn begins_page(line: &[u8]) -> bool {
    [&b"<!doctype"[..], b"<html"].iter().any(|start| {
        let begins = line.get(..start.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(start))
    })
}

const STARTS: &[&str] = &[
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
