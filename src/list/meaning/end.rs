//! The day on which an entry ends, in a comment: `expires 2026-12-24`, `valid until 24.12.2026`,
//! `remove after 2026-12-24`, `gilt bis 24.12.2026`.

use super::column_name::Name;
use super::heading_words::names_undoing;
use super::headings::Heading;
use crate::list::row::day::Day;

/// Length of the shortest date in bytes: `1.1.26`.
const SHORTEST_DATE: usize = 6;

/// Maximum number of words before a date that are read.
const MAX_WORDS: usize = 4;

/// What a comment says about the end of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The day; `Some(None)` if it never comes, `None` if it cannot be read.
    pub(crate) day: Option<Option<Day>>,
    /// Whether the comment begins with it.
    pub(crate) is_first: bool,
}

/// Finds the end of an entry anywhere in its comment.
pub(crate) fn end_in(comment: &[u8]) -> Option<End> {
    let mut before: Vec<&[u8]> = Vec::new();
    let mut is_first = true;
    let mut tokens = tokens(comment).peekable();
    while let Some(token) = tokens.next() {
        if !token.first().is_some_and(u8::is_ascii_digit) {
            before.push(token);
            continue;
        }
        if is_date(token) || is_expires(&before) {
            let from = before.len().saturating_sub(MAX_WORDS);
            let words = before.get(from..).unwrap_or_default();
            if names_end(words) {
                let time = tokens.next_if(|time| time.contains(&b':'));
                return Some(End {
                    day: Day::read_expiry(&[token, time.unwrap_or_default()].join(&b' ')),
                    is_first: is_first && from == 0 && is_end_alone(words),
                });
            }
        }
        // `until 31 Dec 2030`, `until the 31st of December 2030`
        let mut words = before.as_slice();
        let mut has_month = tokens.peek().is_some_and(|token| is_month(token));
        while let [rest @ .., last] = words
            && (is_month(last) || is_day_of_month(last) || is_between(last))
        {
            has_month |= is_month(last);
            words = rest;
        }
        let from = words.len().saturating_sub(MAX_WORDS);
        if has_month && names_end(words.get(from..).unwrap_or_default()) {
            return Some(End {
                day: None,
                is_first: false,
            });
        }
        if is_day_of_month(token) {
            before.push(token);
            continue;
        }
        before.clear();
        is_first = false;
    }
    None
}

/// Reads the day on which a whole list ends, from a comment that begins with it. Many lists say
/// `# Expires: 1 day`: when to fetch them again, not when they end.
pub(crate) fn end_of_list(comment: &[u8]) -> Option<Option<Option<Day>>> {
    let end = end_in(comment).filter(|end| end.is_first)?;
    let is_dated = tokens(comment)
        .find(|token| token.first().is_some_and(u8::is_ascii_digit))
        .is_some_and(is_date);
    is_dated.then_some(end.day)
}

/// Returns the words, numbers and dates of a comment.
fn tokens(comment: &[u8]) -> impl Iterator<Item = &[u8]> {
    let divides = |b: &u8| b.is_ascii_whitespace() || b",;=()[]".contains(b);
    comment
        .split(divides)
        .map(|token| token.strip_suffix(b":").unwrap_or(token))
        .map(|token| token.strip_suffix(b".").unwrap_or(token))
        .flat_map(|token| match token.split_at_checked(8) {
            // `expires:2026-12-24`
            Some((b"expires:" | b"Expires:", date)) => vec![&token[..7], date],
            _ => vec![token],
        })
        .filter(|token| !token.is_empty())
}

/// Returns whether a token is meant as a date: `2026-02-30` is, `1` is not.
fn is_date(token: &[u8]) -> bool {
    let date = token
        .split(|b| matches!(b, b'T' | b't'))
        .next()
        .unwrap_or_default();
    date.len() >= SHORTEST_DATE
        && date
            .iter()
            .all(|b| b.is_ascii_digit() || b"-./".contains(b))
}

/// Returns whether a token is a day of a month: `31`, `31.`, `31st`.
fn is_day_of_month(token: &[u8]) -> bool {
    let digits = token.iter().take_while(|b| b.is_ascii_digit()).count();
    let after = token.get(digits..).unwrap_or_default();
    let is_ordinal = [&b"st"[..], b"nd", b"rd", b"th", b"."].contains(&after);
    matches!(digits, 1 | 2) && (after.is_empty() || is_ordinal)
}

/// Returns whether a word comes between the parts of a date.
fn is_between(word: &[u8]) -> bool {
    let is_word = |known: &&str| known.as_bytes().eq_ignore_ascii_case(word);
    ["of", "the", "de", "den", "le"].iter().any(is_word)
}

/// Returns whether a word is the name of a month or its start, in English or spelled alike.
fn is_month(word: &[u8]) -> bool {
    let is_month = |month: &&str| {
        word.get(..3)
            .is_some_and(|start| start.eq_ignore_ascii_case(month.as_bytes()))
    };
    (word.iter().all(u8::is_ascii_alphabetic) && word.len() <= "september".len())
        && [
            "jan", "feb", "mar", "apr", "may", "mai", "jun", "jul", "aug", "sep", "oct", "okt",
            "nov", "dec", "dez",
        ]
        .iter()
        .any(is_month)
}

fn is_expires(words: &[&[u8]]) -> bool {
    matches!(words, [word] if word.eq_ignore_ascii_case(b"expires"))
}

/// Returns whether some words end with the name of a day on which an entry ends.
fn names_end(words: &[&[u8]]) -> bool {
    (0..words.len())
        .rev()
        .any(|from| is_end_alone(words.get(from..).unwrap_or_default()))
}

/// Returns whether all words together name the day on which an entry ends.
fn is_end_alone(words: &[&[u8]]) -> bool {
    let words = match words {
        [words @ .., last] if !words.is_empty() && is_preposition(last) => words,
        words => words,
    };
    let text = words.join(&b' ');
    matches!(Heading::of(&text), Some(Heading::Expires))
        || Name::of(&text).is_some_and(|name| names_undoing(&name))
}

/// Returns whether a word comes between the name of an end and its day.
fn is_preposition(word: &[u8]) -> bool {
    let is_word = |known: &&str| known.as_bytes().eq_ignore_ascii_case(word);
    [
        "after", "am", "at", "by", "from", "le", "nach", "on", "the", "zum",
    ]
    .iter()
    .any(is_word)
}
