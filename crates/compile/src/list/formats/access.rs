//! Access tables of Postfix (access(5)) and Sendmail (source of `makemap`).
//!
//! ```text
//!   key                white space    action
//!   spam@bad.example                  REJECT listed sender       listed
//!   bad.example                       550 5.7.1 go away          listed, with its subdomains
//!   .bad.example                      REJECT                     its subdomains
//!   spammer@                          DISCARD                    a local part everywhere
//!   friend@bad.example                OK                         not listed
//!   From:bad.example                  ERROR:5.7.1:"550 listed"   Sendmail; only From: or no tag
//!   /^spam@bad\.example$/             REJECT                     pcre_table(5), one entry
//! ```
//!
//! In both programs, a domain as the key also matches its subdomains (Postfix:
//! `parent_domain_matches_subdomains` has `smtpd_access_maps` by default; Sendmail: the rule set
//! `LookUpDomain` tries each parent domain), so it gives two entries.

use super::Out;
use crate::list::row::{Refusal, RejectReason, Skip, is_pattern, looks_like_entry};
use crate::list::text::{Words, begins_with_one_of, is_one_of};

/// The program that reads the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Postfix,
    Sendmail,
    /// None: whatever its action, each key is a name to remove.
    Removals,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Refuse,
    Allow,
    /// Neither, or a name that the administrator has defined.
    Other,
}

impl Program {
    /// Reads a line with its continuations.
    pub(crate) fn read(self, text: &[u8], out: &mut Out<'_>) {
        // `if` and `endif` of pcre_table(5) make keys depend on others.
        let mut words = Words(text);
        let key = words.next().unwrap_or_default();
        if matches!(key, b"if" | b"IF" | b"endif" | b"ENDIF") {
            return out.refuse(Refusal::Condition);
        }
        let key = match self {
            Self::Postfix => key,
            Self::Sendmail | Self::Removals => match sender_key(key) {
                Some(key) => key,
                None => return out.skip(Skip::NotSender),
            },
        };
        let action = words.next();
        if self == Self::Removals {
            return list(key, out);
        }
        let Some(action) = action else {
            return out.reject(RejectReason::NoAction, key);
        };
        match self.action(action) {
            Action::Refuse => list(key, out),
            Action::Allow => out.skip(Skip::Allow),
            // No name of a restriction: the line is not what it seems, and may list somebody.
            Action::Other if key.ends_with(b",") || looks_like_entry(action) => {
                out.reject(RejectReason::Several, text);
            }
            Action::Other if action.starts_with(b"#") => out.reject(RejectReason::NoAction, text),
            Action::Other => out.other(action),
        }
    }

    fn action(self, word: &[u8]) -> Action {
        let is = |words| is_one_of(word, words);
        match self {
            _ if is_code(word, b'5') || is("REJECT DISCARD") => Action::Refuse,
            _ if is_code(word, b'4') => Action::Other,
            _ if is("OK") => Action::Allow,
            // A number without a meaning of its own (a time stamp) is OK.
            Self::Postfix if is("PERMIT") || word.iter().all(u8::is_ascii_digit) => Action::Allow,
            Self::Sendmail if is("RELAY") => Action::Allow,
            Self::Sendmail if begins_with_one_of(word, "DISCARD:") => Action::Refuse,
            // `ERROR:5.7.1:"550 text"`, `ERROR:"550 text"`, `ERROR:4.2.1:450 later`
            Self::Sendmail if begins_with_one_of(word, "ERROR:") => match word.get(6..) {
                Some([b'4', ..] | [b'"', b'4', ..]) => Action::Other,
                _ => Action::Refuse,
            },
            _ => Action::Other,
        }
    }
}

/// Returns whether a word is a reply code of this class: `550`.
fn is_code(word: &[u8], class: u8) -> bool {
    matches!(word, [first, a, b] if *first == class && a.is_ascii_digit() && b.is_ascii_digit())
}

fn list(key: &[u8], out: &mut Out<'_>) {
    if is_pattern(key) || key.starts_with(b"!") {
        return out.entry(key);
    }
    let is_v6 = || memchr::memchr(b':', key).is_some();
    let is_part = |b: &u8| match b {
        b'0'..=b'9' | b'.' | b'/' => true,
        b => (*b == b':' || b.is_ascii_hexdigit()) && is_v6(),
    };
    if key.iter().all(is_part) || matches!(key, [b'[', ..] | b"<>" | b"<@>") {
        // The address of a client, or the null sender, which is nobody's.
        out.skip(Skip::NotSender);
    } else if memchr::memchr(b'@', key).is_some() || key.starts_with(b".") {
        out.entry(key);
    } else {
        out.tree(key);
    }
}

/// Returns the key of a Sendmail line without its tag; `None` if it is not about senders.
fn sender_key(key: &[u8]) -> Option<&[u8]> {
    match tag_of(key) {
        None => Some(key),
        Some(tag) if tag.eq_ignore_ascii_case(b"From") => key.get(tag.len() + 1..),
        // To:, Connect:, Spam:, GreetPause:, and an address such as IPv6:2001:db8::1.
        Some(_) => None,
    }
}

fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let tag = key.get(..memchr::memchr(b':', key)?)?;
    (!tag.is_empty() && tag.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')).then_some(tag)
}

const POSTFIX: &str =
    "DUNNO HOLD WARN FILTER REDIRECT PREPEND DEFER_IF_PERMIT DEFER PERMIT BCC INFO";
const TAGS: &str = "ClientConn ClientRate Connect From GreetPause Spam SRV_Features TLS_Clt TLS_Rcpt TLS_Srv To Try_TLS";

/// Returns whether a line has the mark of Postfix: a key without a tag, and an action.
pub(crate) fn is_postfix(line: &[u8]) -> bool {
    is_marked(line, |key, action| {
        tag_of(key).is_none() && is_action_of_both(action)
            || is_key(key) && POSTFIX.split(' ').any(|known| known.as_bytes() == action)
    })
}

/// Returns whether a line has the mark of Sendmail: a tag before the key, or an action of its own.
pub(crate) fn is_sendmail(line: &[u8]) -> bool {
    is_marked(line, |key, action| {
        let tag = tag_of(key).filter(|tag| tag.len() + 1 < key.len());
        tag.is_some_and(|tag| is_one_of(tag, TAGS))
            || is_key(key) && (action == b"RELAY" || begins_with_one_of(action, "ERROR: DISCARD:"))
    })
}

/// Returns whether the first two words of a line are marks. A code without a text may be a count.
fn is_marked(line: &[u8], is_mark: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    let mut words = Words(line);
    match (words.next(), words.next(), words.next()) {
        (Some(_), Some(code), None) if code.iter().all(u8::is_ascii_digit) => false,
        (Some(key), Some(action), _) => is_mark(key, action),
        _ => false,
    }
}

/// Returns whether a word is an action of both programs. `OK` in another letter case is a word.
fn is_action_of_both(word: &[u8]) -> bool {
    matches!(word, b"REJECT" | b"DISCARD" | b"OK") || is_code(word, b'4') || is_code(word, b'5')
}

fn is_key(word: &[u8]) -> bool {
    looks_like_entry(word) || is_pattern(word)
}
