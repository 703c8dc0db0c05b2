//! Plain lists: what people write and most feeds send.
//!
//! ```text
//!   spam@bad.example                     one entry per line: a@b  a@  @b  b  .b  *.b  *@b
//!   Bad Sender <spam@bad.example>        as mail programs write it; mailto:spam@bad.example
//!   a@bad.example, b@bad.example; c@d    several, between commas or semicolons
//!   spam@bad.example # why               comments: # and ; at the start or after white space
//!   spam@bad.example REJECT              an action, a score or a date after the entry
//!   spam@bad.example # expires 2026-12-24   the first day on which it is no longer listed;
//!                                        in a comment before the first entry: for all entries
//! ```
//!
//! Lists of qmail (`badmailfrom`), OpenSMTPD and Haraka are plain lists.
//!
//! The checks come in the order of safety: a line that allows a sender lists nobody, whatever else
//! is on it.

use super::conflict;
use super::out::Out;
use crate::list::meaning::action::Action;
use crate::list::meaning::end::{end_in, end_of_list};
use crate::list::meaning::label::{Before, Meaning, before};
use crate::list::meaning::mail_line::{begins_page, is_of_mail};
use crate::list::meaning::phrase::Phrase;
use crate::list::meaning::section_heading::{
    Heading, block, heading, is_allowance_of_record, open_comment, without_quotes,
};
use crate::list::meaning::statement::holds_entry;
use crate::list::meaning::status::is_phrase_of_allowance;
use crate::list::meaning::verdict::{is_no, takes_off};
use crate::list::row::day::Day;
use crate::list::row::entry::{Wildcards, characters, is_part_of, looks_like_entry};
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Row, Skip};
use crate::list::text::words::{Nesting, Words};

/// The byte order mark that editors put before UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads one line. Generic, and with a fast path for lines that are only an entry, since lists of a
/// hundred million lines are read here.
#[inline]
pub(crate) fn read<F>(line: &[u8], number: u64, sink: &mut F)
where
    F: FnMut(u64, Row<'_>),
{
    let characters = characters(line);
    if characters.at && !characters.special {
        if may_be_more(line) {
            entries(line, &mut Out::new(number, line, sink));
        } else {
            sink(number, Row::Entry(RawEntry::new(line)));
        }
    } else if !characters.at && !characters.special && !line.is_empty() && !line.starts_with(BOM) {
        // One word, and no separator, comment or quote: a domain, or `OK`.
        let mut out = Out::new(number, line, sink);
        match Action::of(line) {
            Some(Action::Allow) => entries(line, &mut out),
            _ => out.entry(line),
        }
    } else {
        let text = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
        let mut out = Out::new(number, text, sink);
        if line == b"-- " || opens_list(text) {
            // What follows is not listed.
            out.reject(RejectReason::LateHeading, text);
        } else {
            entries(text, &mut out);
        }
    }
}

/// Returns whether a text is an address, and nothing else.
pub(super) fn is_address_alone(text: &[u8]) -> bool {
    let characters = characters(text);
    characters.at && !characters.special && !may_be_more(text)
}

/// Returns whether a line with only an address may be two joined lines, or cut off, or begin with a
/// sign.
#[inline]
fn may_be_more(line: &[u8]) -> bool {
    if line.first() == Some(&b'+') {
        return true;
    }
    let (local, domain) = line.split_at(memchr::memchr(b'@', line).unwrap_or(line.len()));
    local.ends_with(b".")
        || domain.ends_with(b".")
        || memchr::memrchr(b'@', domain).is_some_and(|last| last > 0)
}

/// Returns whether a line names entries that are not listed, and goes on with others:
/// `whitelist = a@good.example,`.
fn opens_list(text: &[u8]) -> bool {
    matches!(text, [.., b',' | b'\\'])
        && !matches!(text, [b'#' | b';', ..])
        && holds_entry(text)
        && match before(text) {
            Before::Skip(skip) => skip != Skip::Comment,
            Before::Unknown => true,
            Before::Entries(_) => false,
        }
}

/// Returns whether a text in a list is read unchanged: no character of it has another meaning
/// there.
pub(crate) fn is_read_as_written(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_alphanumeric() || "@.!$%&'*+-/=?^_`{|}~".contains(c))
}

/// Returns what a line without any text to read is: blank, or a comment.
pub(crate) fn nothing(line: &[u8]) -> Skip {
    if line.is_empty() {
        Skip::Blank
    } else {
        Skip::Comment
    }
}

/// Tells the lines of a table from indented lines, which continue the line before. If the first
/// line is indented, indentation means nothing.
#[derive(Debug, Default)]
pub(super) struct Indentation {
    /// Whether the first line is indented; `None` before it.
    of_list: Option<bool>,
}

impl Indentation {
    /// Returns the text of a line, and whether its indentation makes it a continuation. Skips blank
    /// lines and comments.
    pub(crate) fn read<'a>(
        &mut self,
        line: &'a [u8],
        out: &mut Out<'_>,
    ) -> Option<(&'a [u8], bool)> {
        let line = line.strip_prefix(BOM).unwrap_or(line);
        let text = line.trim_ascii();
        if text.is_empty() || text.first() == Some(&b'#') {
            out.skip(nothing(text));
            return None;
        }
        let is_indented = line.first().is_some_and(u8::is_ascii_whitespace);
        let is_list_indented = *self.of_list.get_or_insert(is_indented);
        Some((text, is_indented && !is_list_indented))
    }
}

/// Reads a text that continues the line before. An entry alone may be meant as a line, so it is
/// rejected.
pub(super) fn continuation(text: &[u8], out: &mut Out<'_>) {
    // `email: spam@bad.example`
    let mut words = match before(text) {
        Before::Entries(rest) => Words(rest),
        Before::Skip(_) | Before::Unknown => Words(text),
    };
    if words.next().is_some_and(looks_like_entry) && words.next().is_none() {
        out.reject(RejectReason::Indented, text);
    } else {
        out.skip(Skip::Continuation);
    }
}

/// Reads the entries of a trimmed line.
pub(crate) fn entries(line: &[u8], out: &mut Out<'_>) {
    if let Some(Heading {
        meaning: Meaning::Skipped(_),
        ..
    }) = heading(line)
    {
        return out.reject(RejectReason::LateHeading, line);
    }
    if is_of_mail(line) {
        return out.reject(RejectReason::MailMessage, line);
    }
    if begins_page(line) {
        return out.reject(RejectReason::WebPage, line);
    }
    if conflict::is_mark(line)
        || open_comment(line).is_some()
        || matches!(block(line), Some(Meaning::Skipped(_)))
    {
        return out.reject(RejectReason::LateHeading, line);
    }
    if is_allowance_of_record(line) {
        return out.reject(RejectReason::LateLine, line);
    }
    match line {
        [b'#' | b';', comment @ ..] => {
            return match end_of_list(comment) {
                Some(None) => out.reject(RejectReason::Date, line),
                Some(Some(Some(day))) => out.reject(RejectReason::ListExpires(day), line),
                None | Some(Some(None)) => out.skip(Skip::Comment),
            };
        }
        [] => return out.skip(Skip::Blank),
        // If a list begins lines with signs, `sections` reads both signs.
        [b'+', b' ' | b'\t', ..] => return out.reject(RejectReason::TwoSigns, line),
        // `! comment` (adblock), `!friend@good.example` (exim, rbldnsd).
        [b'!'] | [b'!', b' ' | b'\t', ..] => return out.skip(Skip::Comment),
        [b'!', ..] => return out.skip(Skip::Allow),
        _ => {}
    }
    // The semicolon of a character reference of HTML would cut it into two entries.
    if memchr::memmem::find(line, b"&#").is_some() {
        return out.reject(RejectReason::DomainSigns, line);
    }
    let line = match before(line) {
        Before::Entries(line) => line,
        Before::Skip(skip) => return out.skip(skip),
        Before::Unknown => return out.reject(RejectReason::Words, line),
    };
    let mut pieces = Pieces::new(line);
    if pieces.any(allows) {
        if !holds_entry(line) {
            // `OK` alone on a line, below an entry or above one.
            return out.reject(RejectReason::LateLine, line);
        }
        return out.skip(Skip::Allow);
    }
    if Pieces::new(line).any(|piece| !piece.contains(&b'@') && (is_no(piece) || takes_off(piece))) {
        // `friend@good.example;no`
        return out.reject(RejectReason::UnclearWord, line);
    }
    let end = pieces.comment.and_then(end_in);
    let is_plan = end.is_some_and(|end| end.is_first);
    if !is_plan && pieces.comment.is_some_and(is_cleared) {
        return out.reject(RejectReason::UnclearWord, line);
    }
    let expires = match end.map(|end| end.day) {
        Some(Some(expires)) => expires,
        Some(None) => return out.reject(RejectReason::Date, line),
        None => None,
    };
    let mut pieces = Pieces::new(line);
    let count = pieces.clone().take(3).count();
    let is_alone = count < 2;
    if !is_alone && is_row_of_several(line) {
        return out.reject(RejectReason::SecondEntry, line);
    }
    if !is_alone && pieces.clone().next().is_some_and(has_own_label) {
        return out.reject(RejectReason::Words, line);
    }
    let mut is_blank = true;
    for piece in pieces.by_ref() {
        is_blank = false;
        // `bad.example, spam@bad.example` may be a row of a table that repeats the domain.
        if count == 2 && Pieces::new(line).any(|other| is_part_of(piece, other)) {
            out.skip(Skip::Mention);
            continue;
        }
        read_piece(piece, is_alone, expires, out);
    }
    if is_blank {
        // Only separators.
        out.skip(Skip::Blank);
    }
    if let Some(text) = pieces.doubtful {
        out.reject(RejectReason::Semicolon, text);
    }
}

/// Returns whether the first of several pieces begins with words that say nothing, which may be
/// about all of them: `friends.list = a@good.example, b@good.example`, `*** gone: a@good.example, ...`.
fn has_own_label(piece: &[u8]) -> bool {
    let local = piece.split(|&b| b == b'@').next().unwrap_or_default();
    let mut words = Words(piece);
    let is_other = |word: &[u8]| !looks_like_entry(word);
    let has_words = words.next().is_some_and(is_other) && words.any(looks_like_entry);
    let has_sign = !is_link(local) && local.iter().any(|b| matches!(b, b'=' | b':'));
    !piece.contains(&b'<') && (has_words || has_sign)
}

/// Returns whether a line is the row of a table that names several: other fields stand between
/// separators without a space, or a field has two addresses.
fn is_row_of_several(line: &[u8]) -> bool {
    let is_entry =
        |piece: &[u8]| piece.contains(&b'<') || Words(piece).next().is_some_and(looks_like_entry);
    let has_two = |piece: &[u8]| {
        !piece.contains(&b'<') && Words(piece).filter(|word| word.contains(&b'@')).count() == 2
    };
    let pieces = || Pieces::new(line);
    let is_apart = [&b", "[..], b"; "]
        .iter()
        .any(|sign| memchr::memmem::find(line, sign).is_some());
    let entries = pieces().filter(|piece| is_entry(piece)).count();
    pieces().any(has_two) || entries > 1 && !is_apart && !pieces().all(is_entry)
}

/// Returns the day on which a whole plain list expires, from the comments before its first entry.
/// `head` is the beginning of the list.
#[must_use]
pub fn expiry(head: &[u8]) -> Option<Day> {
    let head = head.strip_prefix(BOM).unwrap_or(head);
    crate::list::lines(head)
        .map(<[u8]>::trim_ascii)
        .take_while(|line| matches!(line, [] | [b'#' | b';', ..]))
        .filter_map(<[u8]>::split_first)
        .find_map(|(_, comment)| end_of_list(comment)??)
}

/// Returns whether a piece of a line allows a sender: `OK` between commas, or
/// `friend@good.example OK`.
fn allows(piece: &[u8]) -> bool {
    let allow = |word| Action::of(word) == Some(Action::Allow);
    if piece.contains(&b'<') {
        // Words before an angle bracket are a display name.
        return false;
    }
    if is_phrase_of_allowance(piece) {
        return true;
    }
    let mut words = Words(piece);
    match (words.next(), words.next()) {
        (Some(first), None) => allow(without_quotes(first)),
        (Some(first), Some(second)) => {
            allow(first) || allow(second) || Action::of_score(second) == Some(Action::Allow)
        }
        (None, _) => false,
    }
}

/// Returns whether a comment, with or without its sign, takes the entry off the list:
/// `# whitelisted 2026-02-02`, `# REMOVED`, `# no longer spam`, `# a customer, do not block`,
/// `# Bob: please unblock`.
pub(super) fn is_cleared(comment: &[u8]) -> bool {
    let is_sign = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'#' | b';');
    let start = comment.iter().position(|b| !is_sign(b));
    let comment = start
        .and_then(|start| comment.get(start..))
        .unwrap_or_default();
    // In a later clause, what has ended can be anything: `# sells pills. Removed our logo`.
    let mut clauses = comment.split(|b| b",;:.()".contains(b)).skip(1);
    !comment.is_empty()
        && (is_phrase_of_allowance(comment)
            || Phrase::beginning(comment).takes_off()
            || clauses.any(|clause| Phrase::beginning(clause.trim_ascii()).pardons()))
}

/// Returns the text in parentheses at the end of a piece: `friend@good.example (allowed)`.
fn bracketed(piece: &[u8]) -> Option<&[u8]> {
    let inner = piece.strip_suffix(b")")?;
    inner.get(memchr::memrchr(b'(', inner)? + 1..)
}

/// Reads the text between two commas, or alone on its line.
fn read_piece(piece: &[u8], is_alone: bool, expires: Option<Day>, out: &mut Out<'_>) {
    let piece = match before(piece) {
        Before::Entries(piece) => piece,
        Before::Skip(skip) => return out.skip(skip),
        Before::Unknown => return out.reject(RejectReason::Words, piece),
    };
    let end = bracketed(piece).and_then(end_in);
    let expires = match end.map(|end| end.day) {
        Some(Some(day)) => [expires, day].into_iter().flatten().min(),
        Some(None) => return out.reject(RejectReason::Date, piece),
        None => expires,
    };
    let item_of = |text| RawEntry {
        expires,
        ..RawEntry::new(without_query(text))
    };
    if bracketed(piece).is_some_and(is_cleared) {
        return out.reject(RejectReason::UnclearWord, piece);
    }
    if piece.contains(&b'<') || piece.contains(&b'(') {
        return out.raw_entry(item_of(piece), Wildcards::Star);
    }
    let mut words = Words(piece);
    let Some(first) = words.next() else { return };
    let mut item = item_of(first);
    if first.contains(&b'@') && words.clone().all(|word| word.contains(&b'@')) {
        if words.clone().count() == 1 {
            // A sender and a recipient, or an address and its alias.
            return out.reject(RejectReason::SecondEntry, piece);
        }
        out.raw_entry(item, Wildcards::Star);
        return words.for_each(|word| out.raw_entry(item_of(word), Wildcards::Star));
    }
    if !is_alone && !first.contains(&b'@') && !first.contains(&b'.') && first.is_ascii() {
        return out.reject(RejectReason::NotADomain, piece);
    }
    for (place, word) in words.enumerate() {
        let action = Action::of(word).or_else(|| Action::of_score(word));
        match (action, Day::read(word)) {
            (_, Some(day)) => item.added = Some(day),
            _ if Day::is_date(word) => {}
            (Some(action), _) if place == 0 => {
                if let Some(skip) = action.skip() {
                    return out.skip(skip);
                }
                if Action::of(word).is_some() {
                    // The rest is the text of the reply.
                    break;
                }
            }
            // A second number beside a score or a count.
            (Some(_), _) if Action::of(word).is_none() => {}
            _ => return out.reject(RejectReason::Trailing, piece),
        }
    }
    out.raw_entry(item, Wildcards::Star);
}

/// Removes the query of a link: `mailto:a@b?subject=x` is a link to `a@b`.
fn without_query(text: &[u8]) -> &[u8] {
    match memchr::memchr(b'?', text) {
        Some(query) if is_link(text) => text.get(..query).unwrap_or(text),
        _ => text,
    }
}

/// Returns whether a text begins as a link to an address does.
fn is_link(text: &[u8]) -> bool {
    let scheme = text.get(..7);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"mailto:"))
}

/// The pieces of a line between commas and semicolons, up to its comment.
#[derive(Clone)]
pub(crate) struct Pieces<'a> {
    rest: &'a [u8],
    /// The text after a semicolon that may begin a comment or separate addresses.
    doubtful: Option<&'a [u8]>,
    /// The text after the sign of a comment.
    comment: Option<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Self {
            rest: line,
            doubtful: None,
            comment: None,
        }
    }

    /// Returns the text after the sign of a comment, once all pieces were taken.
    pub(crate) fn comment(&self) -> Option<&'a [u8]> {
        self.comment
    }

    /// Returns the next piece, perhaps empty.
    fn cut(&mut self) -> &'a [u8] {
        let mut nesting = Nesting::new();
        let mut before = 0;
        for (at, &byte) in self.rest.iter().enumerate() {
            let apart = before == b' ' || before == b'\t';
            before = byte;
            if !nesting.step(byte) {
                continue;
            }
            let (piece, after) = self.rest.split_at(at);
            match byte {
                b'#' if apart => {
                    self.rest = &[];
                    self.comment = after.get(1..);
                    return piece;
                }
                b';' if apart => {
                    self.rest = &[];
                    self.doubtful = after.contains(&b'@').then_some(after);
                    self.comment = after.get(1..);
                    return piece;
                }
                b',' | b';' => {
                    self.rest = after.get(1..).unwrap_or_default();
                    return piece;
                }
                _ => {}
            }
        }
        // An unclosed quote or bracket runs to the end of the line.
        std::mem::take(&mut self.rest)
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let piece = self.cut().trim_ascii();
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        None
    }
}
