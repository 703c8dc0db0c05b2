//! Words before an entry, and headings above several: what they say about the entries.
//!
//! ```text
//!   Blocked: spam@bad.example       listed           - spam@bad.example     listed
//!   unblock friend@good.example     allowed          To: victim@us.example  a recipient
//!   maintainer: me@us.example       mentioned        -- spam@bad.example    a comment
//!
//!   [whitelist]   Whitelisted:   allow:   # --- allowed senders ---   == Exceptions ==
//! ```
//!
//! An unknown word says nothing about the entry after it, so that entry is rejected, not listed.
//! Words before an angle bracket are a display name, which the sender chooses: of those, only a
//! label with its colon counts.

use super::action::Action;
use super::vocabulary::{Place, Sense, sense};
use crate::list::row::Skip;
use crate::list::row::day::Day;
use crate::list::row::entry::{is_ip, looks_like_entry};
use crate::list::text::words::Words;

/// What a label or heading says about its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// They are listed.
    Listed,
    /// They are not listed, for this reason.
    Skipped(Skip),
    /// Nothing is known.
    Unknown,
}

impl Meaning {
    /// Returns what a name of one or several words says: `allowed_senders`, `Reply-To`.
    pub(crate) fn of(name: &[u8]) -> Self {
        let mut found = None;
        let mut is_negated = false;
        if is_reply_to(name) {
            return Self::Listed;
        }
        for word in words_of(name) {
            is_negated |= NEGATIONS
                .iter()
                .any(|negation| negation.eq_ignore_ascii_case(word));
            let meaning = match sense(word, Place::Label) {
                Some(Sense::Allow) => Self::Skipped(Skip::Allow),
                Some(Sense::Block) => Self::Listed,
                Some(Sense::Recipient) => Self::Skipped(Skip::NotSender),
                Some(Sense::Mention) => Self::Skipped(Skip::Mention),
                Some(Sense::Other | Sense::Sender | Sense::Filling) | None => continue,
            };
            found = match (found, meaning) {
                // `Block (no whitelist)` may mean either.
                (Some(Self::Listed), Self::Skipped(Skip::Allow))
                | (Some(Self::Skipped(Skip::Allow)), Self::Listed) => Some(Self::Unknown),
                // What happens to a recipient or contact does not matter.
                (Some(Self::Unknown | Self::Skipped(_)), _) => found,
                _ => Some(meaning),
            };
        }
        match found {
            Some(Self::Skipped(Skip::Allow) | Self::Listed) if is_negated => Self::Unknown,
            Some(meaning) => meaning,
            None if name_is_of_senders(name) => Self::Listed,
            None => Self::Unknown,
        }
    }
}

impl Meaning {
    /// Returns whether every word of a name is known here.
    pub(super) fn all_known(name: &[u8]) -> bool {
        words_of(name).all(|word| sense(word, Place::Label).is_some())
    }
}

/// Words that turn the meaning of the others into its opposite.
const NEGATIONS: [&[u8]; 5] = [b"not", b"never", b"no", b"non", b"un"];

/// Returns whether a name is `Reply-To`: it names a sender, although `To` names a recipient.
fn is_reply_to(name: &[u8]) -> bool {
    let mut words = words_of(name);
    let mut is_next = |word: &[u8]| {
        words
            .next()
            .is_some_and(|next| next.eq_ignore_ascii_case(word))
    };
    is_next(b"reply") && is_next(b"to")
}

/// Returns whether all words of a name are those of lists of senders.
pub(crate) fn name_is_of_senders(name: &[u8]) -> bool {
    let mut words = words_of(name).peekable();
    words.peek().is_some() && words.all(|word| sense(word, Place::Label) == Some(Sense::Sender))
}

/// Returns the words of a name, also if capitals separate them: `AllowedSenders`.
pub(super) fn words_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = name;
    std::iter::from_fn(move || {
        let start = rest.iter().position(u8::is_ascii_alphanumeric)?;
        rest = rest.get(start..)?;
        let mut before = b'A';
        let end = rest.iter().position(|&byte| {
            let divides = before.is_ascii_lowercase() && byte.is_ascii_uppercase();
            before = byte;
            divides || !byte.is_ascii_alphanumeric()
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(word)
    })
}

/// What comes before the entries of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before<'a> {
    /// Nothing that matters; these are the entries.
    Entries(&'a [u8]),
    /// Words that say who they are: nobody is listed, for this reason.
    Skip(Skip),
    /// Unknown words.
    Unknown,
}

/// Maximum number of bullets and labels one after the other: `- block: From: a@b`.
const MAX_LABELS: usize = 4;

/// Reads what comes before the entries of `text`.
pub(crate) fn before(text: &[u8]) -> Before<'_> {
    let mut text = text.trim_ascii();
    let whole = text.len();
    for _ in 0..MAX_LABELS {
        if is_comment(text) {
            return Before::Skip(Skip::Comment);
        }
        let Some((meaning, rest)) = leading(text) else {
            return Before::Entries(without_brackets(text, text.len() < whole));
        };
        if meaning == Meaning::Listed && rest.trim_ascii().is_empty() {
            return Before::Skip(Skip::Setting);
        }
        match meaning {
            Meaning::Listed => text = rest.trim_ascii(),
            Meaning::Skipped(skip) => return Before::Skip(skip),
            Meaning::Unknown => return Before::Unknown,
        }
    }
    Before::Unknown
}

/// Removes the brackets of a list in another language: `[a@b, c@d]`, `Senders: {a@b}`. Without a
/// label or a comma, it may be the heading of a section.
pub(crate) fn without_brackets(text: &[u8], has_label: bool) -> &[u8] {
    match text {
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}']
            if has_label || inner.contains(&b',') =>
        {
            inner.trim_ascii()
        }
        _ => text,
    }
}

/// Returns whether a text is a comment of SQL, C, BASIC or m4. `--a@b` is an address.
pub(crate) fn is_comment(text: &[u8]) -> bool {
    let word = Words(text).next().unwrap_or_default();
    (word.starts_with(b"--") && word.iter().all(|&b| b == b'-'))
        || text.starts_with(b"//")
        || text.starts_with(b"/*")
        || ((word.eq_ignore_ascii_case(b"rem") || word == b"dnl") && word.len() < text.len())
}

/// Returns the meaning of the first bullet, number, label or word, and the text after it.
fn leading(text: &[u8]) -> Option<(Meaning, &[u8])> {
    if let Some((name, rest)) = colon_label(text) {
        return Some((Meaning::of(name), rest));
    }
    let mut words = Words(text);
    let first = words.next()?;
    let rest = words.0.trim_ascii();
    if rest.is_empty() {
        return None;
    }
    if BULLETS.contains(&first) {
        return Some((Meaning::Listed, rest));
    }
    let number = first
        .strip_suffix(b".")
        .or_else(|| first.strip_suffix(b")"))
        .unwrap_or(first);
    let starts_with_entry = || words.clone().next().is_some_and(looks_like_entry);
    if let Some(action) = Action::of_score(number) {
        return starts_with_entry().then_some(match action {
            Action::Allow => (Meaning::Skipped(Skip::Allow), rest),
            // A rank or a count.
            Action::Block | Action::Other => (Meaning::Listed, rest),
        });
    }
    if Day::is_date(first) && starts_with_entry() {
        return Some((Meaning::Listed, rest));
    }
    let is_word = first
        .iter()
        .all(|&b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !is_word {
        return None;
    }
    if text.contains(&b'<') {
        // A display name. A command is not a name, but a display name may be the same word.
        let is_command = sense(first, Place::Command).is_some();
        return is_command.then_some((Meaning::Unknown, rest));
    }
    Some((Meaning::of(first), rest))
}

/// Returns the label of `Reply-To: a@b`, `allow:a@b` or `block = a@b`, and the text after it.
fn colon_label(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text
        .iter()
        .take(MAX_LABEL_BYTES)
        .position(|&b| !(b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b' ' | b'\t')))?;
    let (name, rest) = text.split_at(end);
    let (&sign, rest) = rest.split_first()?;
    let is_name = name.iter().any(u8::is_ascii_alphabetic);
    let is_label = match sign {
        // Not `mailto:a@b`, `http://bad.example`, `fe80::1`.
        b':' => {
            !rest.starts_with(b"//")
                && !rest.starts_with(b":")
                && !name.eq_ignore_ascii_case(b"mailto")
                && !is_ip(text)
        }
        // `user=good.example@bad.example` is an address.
        b'=' => {
            name.ends_with(b" ")
                || rest.first().is_none_or(u8::is_ascii_whitespace)
                || is_verdict(name)
                || rest.starts_with(b"<") && Meaning::of(name) != Meaning::Unknown
                || is_label_of_address(text)
        }
        _ => false,
    };
    (is_name && is_label).then_some((name, rest))
}

/// Returns whether a word says that a sender is refused or passes. `info` is also a name.
fn is_verdict(word: &[u8]) -> bool {
    matches!(Action::of(word), Some(Action::Allow | Action::Block))
}

/// Recognizes `from=a@b`, `to=a@b`. If it may also be a name, the check of the entry rejects it.
fn is_label_of_address(text: &[u8]) -> bool {
    let before_at = text.split(|&b| b == b'@').next().unwrap_or_default();
    matches!(
        label_of_address(before_at),
        Some((
            _,
            Meaning::Listed | Meaning::Skipped(Skip::Allow | Skip::NotSender)
        ))
    )
}

/// Returns the label before a `=` in the text before an `@`, and what it means. The names in
/// bounce addresses are not labels: `user=good.example@bounce.example`.
pub(crate) fn label_of_address(local: &[u8]) -> Option<(&[u8], Meaning)> {
    let (name, value) = local.split_at(memchr::memchr(b'=', local)?);
    let is_name = name.len() > 1
        && name
            .iter()
            .all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if !is_name {
        return None;
    }
    let meaning = Meaning::of(name);
    let is_sure = is_verdict(name) || SURE.iter().any(|known| known.eq_ignore_ascii_case(name));
    let has_domain = value.contains(&b'.') && !value.starts_with(b"=<");
    let is_known =
        meaning != Meaning::Unknown && (name.len() > 2 || name.eq_ignore_ascii_case(b"to"));
    (is_sure || is_known && !has_domain || is_known && is_of_several(name))
        .then_some((name, meaning))
}

/// Recognizes names that no mailbox has: `blacklist_from`, `envelope-sender`.
fn is_of_several(name: &[u8]) -> bool {
    name.iter().any(|b| matches!(b, b'-' | b'_' | b'.')) && !name_is_of_senders(name)
}

/// Labels that are not names of mailboxes.
const SURE: &[&[u8]] = &[
    b"email",
    b"from",
    b"mailfrom",
    b"rcpt",
    b"recipient",
    b"sender",
    b"to",
];

/// Maximum length of a label in bytes: `Envelope-Sender-Address`, and some more words.
const MAX_LABEL_BYTES: usize = 64;

const BULLETS: &[&[u8]] = &[
    b"-",
    b"*",
    b"+",
    "\u{2022}".as_bytes(),
    "\u{2013}".as_bytes(),
    "\u{b7}".as_bytes(),
];
