//! Headings above entries, and the other lines that are not entries themselves.

use super::action::Action;
use super::file_heading::file_heading;
use super::headings::Heading as Column;
use super::label::{Meaning, is_comment as is_other_comment, name_is_of_senders, words_of};
use super::phrase::Phrase;
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;
use crate::list::text::words::Words;

/// Maximum number of words in a heading.
const MAX_WORDS: usize = 5;

/// A line about the lines after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) meaning: Meaning,
    /// `name:`, which may be inside another heading.
    pub(crate) is_nested: bool,
    /// It only says what its entries are: `emails:`.
    pub(crate) is_noun: bool,
    /// A comment that asks not to block what follows it, until the next blank line or comment.
    pub(crate) is_plea: bool,
}

/// Returns what a trimmed line says, if it is a heading.
pub(crate) fn heading(text: &[u8]) -> Option<Heading> {
    let (is_comment, inner) = match text {
        [b'#' | b';', rest @ ..] => (true, rest.trim_ascii()),
        [b'/', b'/', rest @ ..] => (true, rest.trim_ascii()),
        _ => (false, text),
    };
    // Most lines are entries.
    if inner.len() > 80 || inner.contains(&b'@') {
        return None;
    }
    if let Some(meaning) = file_heading(text) {
        return Some(Heading {
            meaning,
            is_nested: false,
            is_noun: false,
            is_plea: false,
        });
    }
    let (inner, is_tagged) = without_tags(without_anchor(inner));
    let is_decoration =
        |b: &u8| !(b.is_ascii_alphanumeric() || matches!(b, b'.' | b'"' | b'\'') || *b >= 0x80);
    // A comment of another language; `--- never block ---` is a heading.
    let is_open = inner
        .last()
        .is_some_and(|b| !is_decoration(b) || b".!:".contains(b));
    let is_remark = is_comment || is_open && (is_other_comment(text) || text.starts_with(b"%"));
    if is_plea(inner, is_remark) {
        return Some(Heading {
            meaning: Meaning::Skipped(Skip::Allow),
            is_nested: false,
            is_noun: false,
            is_plea: is_remark,
        });
    }
    let (inner, is_quoted) = match inner {
        [b'"', quoted @ .., b'"'] | [b'\'', quoted @ .., b'\''] => (quoted.trim_ascii(), true),
        _ => (inner, false),
    };
    let start = inner.iter().position(|b| !is_decoration(b))?;
    let mut end = inner.iter().rposition(|b| !is_decoration(b))? + 1;
    // `Exceptions (never block):`
    let has_open = inner.get(start..end)?.contains(&b'(');
    end += usize::from(has_open && inner.get(end) == Some(&b')'));
    let name = inner.get(start..end)?;
    let before = inner.get(..start)?;
    let after = inner.get(end..)?.trim_ascii();
    let is_ini = before.first() == Some(&b'[') && after.first() == Some(&b']');
    // `:allowed:` of Ruby.
    let is_key = (after == b":" || opens_brackets(after))
        && before.iter().all(|b| matches!(b, b'-' | b' ' | b':'));
    let is_tag = matches!(before, b"<" | b"</") && after == b">";
    // `* Whitelist` of Org.
    let is_starred = before.ends_with(b" ") && before.trim_ascii_end().iter().all(|b| *b == b'*');
    let is_framed = is_tag
        || is_tagged && before.is_empty() && after.is_empty()
        || before.len() >= 2 && !after.is_empty()
        || after.len() >= 3
        || matches!(
            (before, after),
            (b"*", b"*") | (b"_", b"_") | (b"~", b"~") | (b"(", b")")
        )
        || is_quoted && before.is_empty() && after.is_empty();
    let is_name = name
        .iter()
        .all(|&b| b.is_ascii_alphanumeric() || b" _-/&()".contains(&b) || b >= 0x80);
    let is_letter = |b: &u8| b.is_ascii_alphabetic() || *b >= 0x80;
    let is_foreign = |word: &&[u8]| word.first().is_some_and(|b| *b >= 0x80);
    let foreign = name.split(u8::is_ascii_whitespace).filter(is_foreign);
    let words = words_of(name).count() + foreign.count();
    // `The following are trusted senders`
    let is_sentence = !is_comment && words > 2 && points_on(name);
    if !is_name || words > MAX_WORDS && !is_sentence || !name.iter().any(is_letter) {
        return None;
    }
    let (meaning, all_known) = match after_end(name) {
        Some(rest) => end_of(rest),
        None if is_sentence => meaning_of_sentence(name),
        None => meaning_of(name),
    };
    let is_heading = if is_comment {
        // `# Whitelist`, but not `# no whitelist is kept here`.
        all_known
    } else {
        is_ini
            || is_key
            || (is_framed || is_sentence && all_known) && meaning != Meaning::Unknown
            || (words > 1 || is_verdict(name))
                && all_known
                && after.is_empty()
                && (before.is_empty() || is_starred)
    };
    is_heading.then_some(Heading {
        // The end of a section.
        meaning: if is_tag && before == b"</" || is_ini && before == b"[/" {
            Meaning::Listed
        } else {
            meaning
        },
        is_nested: is_key && !is_comment,
        is_noun: name_is_of_senders(name),
        is_plea: false,
    })
}

/// Returns a key of YAML without the anchor behind it: `defaults: &name`.
fn without_anchor(text: &[u8]) -> &[u8] {
    match memchr::memmem::find(text, b": &").and_then(|at| text.split_at_checked(at + 1)) {
        Some((key, anchor)) if !anchor.trim_ascii().contains(&b' ') => key,
        _ => text,
    }
}

/// Returns a text without tags around it, such as `<h2>Whitelist</h2>` and `[b]Whitelist[/b]`, and
/// whether it had some.
fn without_tags(text: &[u8]) -> (&[u8], bool) {
    let inner = || {
        let (opens, rest) = text
            .split_first()
            .filter(|(b, _)| matches!(b, b'<' | b'['))?;
        let closes = if *opens == b'<' { b'>' } else { b']' };
        let (tag, rest) = rest.split_at(memchr::memchr(closes, rest)?);
        let name = tag.split(|b| !b.is_ascii_alphanumeric()).next()?;
        let rest = rest.get(1..)?.strip_suffix(&[closes])?.strip_suffix(name)?;
        rest.strip_suffix(&[*opens, b'/'])
            .filter(|_| !name.is_empty())
    };
    match inner() {
        Some(inner) => (inner.trim_ascii(), true),
        None => (text, false),
    }
}

/// Returns whether the values of a name are on the lines after it: `= [`, `: {`, `(` follow.
fn opens_brackets(after: &[u8]) -> bool {
    let name = after
        .strip_suffix(b"[")
        .or_else(|| after.strip_suffix(b"{"));
    let name = name.or_else(|| after.strip_suffix(b"("));
    name.is_some_and(|rest| matches!(rest.trim_ascii_end(), b"" | b":" | b"="))
}

/// Returns the meaning of the lines in the brackets that a line of a program or its settings opens,
/// up to the line that closes them: `whitelist {`, `$friends = array(`, `map $sender $passes {`.
/// Words that no heading has can mean anything.
pub(crate) fn block(text: &[u8]) -> Option<Meaning> {
    let (&last, before) = text.split_last()?;
    let is_strange = |b: &u8| matches!(b, b',' | b'\t' | b'|' | b'<');
    if !matches!(last, b'(' | b'[' | b'{')
        || text.len() > MAX_BLOCK
        || is_other_comment(text)
        || before.first().is_none_or(|b| b"#;%".contains(b))
        || before.iter().any(is_strange)
        || memchr::memchr_iter(b'"', before).count() % 2 == 1
        || Words(before).next().is_some_and(looks_like_entry)
    {
        return None;
    }
    let is_sign = |b: &u8| !(b.is_ascii_alphanumeric() || *b >= 0x80);
    let Some(start) = before.iter().position(|b| !is_sign(b)) else {
        // `} {` continues what was said before it.
        return b")]}".contains(before.first()?).then_some(Meaning::Unknown);
    };
    let end = before.iter().rposition(|b| !is_sign(b))? + 1;
    match meaning_of(before.get(start..end)?) {
        (meaning, true) if before.get(..start)?.is_empty() => Some(meaning),
        _ => Some(Meaning::Unknown),
    }
}

/// Returns whether a line closes brackets that another has opened: `}`, `];`, `} else {`,
/// `"spam@bad.example" )`.
pub(crate) fn closes_block(text: &[u8]) -> bool {
    let end = text.trim_ascii_end();
    let end = end.iter().rposition(|b| !b",;".contains(b));
    let text = end.map_or(text, |end| text.get(..=end).unwrap_or(text));
    let count = |signs: &[u8]| text.iter().filter(|b| signs.contains(b)).count();
    let ends = |b: Option<&u8>| b.is_some_and(|b| b")]}".contains(b));
    ends(text.first()) || ends(text.last()) && count(b")]}") > count(b"([{")
}

/// Maximum length in bytes of a line that opens brackets; a longer one is text.
const MAX_BLOCK: usize = 200;

/// Returns whether a line that names nobody asks not to block:
/// `*** Our customers, please do not block! ***`. A comment must say that it is about the lines
/// after it: `# The following must never be blocked`.
fn is_plea(text: &[u8], is_comment: bool) -> bool {
    let points_on = || text.last() == Some(&b':') || points_on(text);
    // `email,not spam`
    let is_table = || {
        let mut names = text.split(|b| matches!(b, b',' | b';' | b'\t' | b'|'));
        names.any(|name| matches!(Column::of(name.trim_ascii()), Some(Column::Entry(_))))
    };
    Phrase::beginning(text).is_plea()
        && !is_table()
        // `action: not spam` is about the entry on an earlier line.
        && line_of_record(text).is_none()
        && (!is_comment || points_on())
        && !text.split(u8::is_ascii_whitespace).any(looks_like_entry)
}

/// Returns whether a sentence is about the lines after it.
fn points_on(text: &[u8]) -> bool {
    text.split(|b| !b.is_ascii_alphabetic())
        .any(|word| (POINTERS.iter()).any(|pointer| pointer.as_bytes().eq_ignore_ascii_case(word)))
}

/// Returns what a sentence says about the lines after it, without the words that only join it.
fn meaning_of_sentence(text: &[u8]) -> (Meaning, bool) {
    let is_filling = |word: &[u8]| {
        let mut filling = POINTERS.iter().chain(FILLING);
        filling.any(|filling| filling.as_bytes().eq_ignore_ascii_case(word))
    };
    let words: Vec<&[u8]> = words_of(text).filter(|word| !is_filling(word)).collect();
    meaning_of(&words.join(&b' '))
}

/// Words that only join a sentence.
const FILLING: &[&str] = &[
    "all", "am", "and", "are", "as", "been", "here", "have", "is", "list", "our", "the", "were",
];

/// Words in sentences about the lines after them.
const POINTERS: &[&str] = &[
    "below",
    "following",
    "next",
    "these",
    "those",
    "folgende",
    "folgenden",
    "diese",
    "suivants",
    "suivantes",
    "siguientes",
    "seguenti",
    "volgende",
];

/// Returns what follows the word that ends a section: `# --- end of whitelist ---`.
fn after_end(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().position(|b| !b.is_ascii_alphabetic());
    let (word, rest) = name.split_at(end.unwrap_or(name.len()));
    let is_end = [&b"end"[..], b"ende", b"fin", b"fine"];
    let is_end = is_end.iter().any(|end| end.eq_ignore_ascii_case(word));
    is_end.then(|| rest.trim_ascii())
}

/// Returns the meaning of the entries after the end of a section with this name, and whether its
/// words are known. After a section that is not listed, they are listed, as without a heading;
/// after a section that is listed, their meaning is unknown.
fn end_of(name: &[u8]) -> (Meaning, bool) {
    if name.is_empty() {
        return (Meaning::Listed, true);
    }
    match meaning_of(name) {
        (Meaning::Skipped(_), all_known) => (Meaning::Listed, all_known),
        (_, all_known) => (Meaning::Unknown, all_known),
    }
}

/// Returns what a name says, and whether all of its words are known.
pub(crate) fn meaning_of(name: &[u8]) -> (Meaning, bool) {
    let meaning = Meaning::of(name);
    if meaning != Meaning::Unknown && Meaning::all_known(name) {
        return (meaning, true);
    }
    // `Not blocked`, `Removed`, `Liste blanche` take entries off. `Old entries` may still be
    // listed.
    let is_vague = words_of(name).any(|word| {
        [&b"old"[..], b"past"]
            .iter()
            .any(|vague| vague.eq_ignore_ascii_case(word))
    });
    let phrase = Phrase::of(name);
    // `Current entries`
    if meaning == Meaning::Unknown && phrase.is_active() {
        return (Meaning::Listed, true);
    }
    // `Old entries (no longer blocked)`
    if phrase.is_known_refutal() {
        return (Meaning::Skipped(Skip::Allow), true);
    }
    match phrase.heads().filter(|_| !is_vague) {
        Some(Action::Allow) => (Meaning::Skipped(Skip::Allow), true),
        Some(Action::Other) => (Meaning::Skipped(Skip::OtherAction), true),
        Some(Action::Block) => (Meaning::Listed, true),
        None => (meaning, false),
    }
}

/// Returns whether one word alone is a heading: `ALLOWED`, `Whitelist`. `OK` alone says nothing.
fn is_verdict(word: &[u8]) -> bool {
    !word.eq_ignore_ascii_case(b"ok")
        && (matches!(Action::of(word), Some(Action::Allow | Action::Block))
            || Phrase::of(word)
                .heads()
                .is_some_and(|action| action != Action::Block))
        || [&b"exceptions"[..], b"friends", b"approved"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(word))
}

/// Returns the end of the comment that a line opens and does not close.
pub(crate) fn open_comment(text: &[u8]) -> Option<&'static [u8]> {
    let end = match text {
        [b'/', b'*', ..] => &b"*/"[..],
        [b'<', b'!', b'-', b'-', ..] => b"-->",
        _ => return None,
    };
    memchr::memmem::find(text, end).is_none().then_some(end)
}

/// Returns whether a line takes the entry of a line before it off the list: `Action : Allow`, as
/// PowerShell and LDIF write records.
pub(crate) fn is_allowance_of_record(text: &[u8]) -> bool {
    let said = line_of_record(text);
    said.is_some_and(|(column, value)| match column {
        Column::Action => Action::in_column(value) == Some(Action::Allow),
        Column::Expires => false,
        column => matches!(column.says(value), Ok(Some(Action::Allow | Action::Other))),
    })
}

/// Returns what a line of a record says about the entry on another line, with its value.
pub(crate) fn line_of_record(text: &[u8]) -> Option<(Column, &[u8])> {
    // Most lines are entries.
    if text.len() > 80 || text.contains(&b'@') {
        return None;
    }
    let (key, value) = key_and_value(text)?;
    // `BlockedSenderDomains : {bad.example}`
    let mut words = value.split(|b| !(b.is_ascii_alphanumeric() || b".-_*".contains(b)));
    if words.any(looks_like_entry) {
        return None;
    }
    let column = Column::of(key).filter(|column| {
        matches!(
            column,
            Column::Action
                | Column::Status
                | Column::Kind
                | Column::Flag(_)
                | Column::Score
                | Column::WhiteOrBlack
                | Column::Expires
                | Column::Expired
        )
    })?;
    Some((column, without_quotes(value)))
}

/// Returns a value without the quotes around it.
pub(crate) fn without_quotes(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner.trim_ascii(),
        _ => value,
    }
}

/// Splits `key: value` of YAML and `key = value` of INI files.
pub(crate) fn key_and_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|b| matches!(b, b':' | b'='))?;
    let (key, value) = (text.get(..at)?.trim_ascii(), text.get(at + 1..)?);
    let is_key = key
        .iter()
        .all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b' '));
    let is_apart =
        text.get(at) == Some(&b'=') || value.first().is_some_and(u8::is_ascii_whitespace);
    // `1 = spam@bad.example`; `1=spam@bad.example` is an address.
    let is_number = || text.get(at) == Some(&b'=') && key.len() < at && !key.is_empty();
    (is_key && is_apart && (key.iter().any(u8::is_ascii_alphabetic) || is_number()))
        .then_some((key, value.trim_ascii()))
}

/// Returns whether a line begins one object in a list of objects: `- email: a@b`.
pub(crate) fn is_object(text: &[u8]) -> bool {
    text.strip_prefix(b"- ")
        .is_some_and(|text| key_and_value(text.trim_ascii()).is_some())
}
