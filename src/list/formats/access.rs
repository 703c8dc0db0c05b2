//! Access tables of Postfix (access(5)) and Sendmail (source of `makemap`).
//!
//! ```text
//!   key                white space    action
//!   spam@bad.example                  REJECT listed sender       listed
//!   bad.example                       550 5.7.1 go away          listed, with its subdomains
//!   .bad.example                      REJECT                     its subdomains
//!   spammer@                          DISCARD                    a local part everywhere
//!   friend@bad.example                OK                         not a listing
//!   From:bad.example                  ERROR:5.7.1:"550 listed"   Sendmail; only From: or no tag
//! ```
//!
//! In both programs, a domain as the key also matches its subdomains (Postfix:
//! `parent_domain_matches_subdomains` has `smtpd_access_maps` by default; Sendmail: the rule set
//! `LookUpDomain` tries each parent domain), so it gives two entries. A line that starts with
//! white space continues the previous line; comments and blank lines may come between. If the
//! very first line is indented, indentation has no meaning.

use super::out::Out;
use super::plain::Indentation;
use super::{hosts, plain};
use crate::list::meaning::action::Action;
use crate::list::row::Skip;
use crate::list::row::entry::looks_like_entry;
use crate::list::row::reject_reason::RejectReason;
use crate::list::text::lines::MAX_LINE;
use crate::list::text::words::Words;

/// The program that reads the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Postfix,
    Sendmail,
}

/// The state between lines: a line that the next one may continue.
#[derive(Debug)]
pub(crate) struct AccessTable {
    program: Program,
    logical: Vec<u8>,
    first_line: u64,
    indentation: Indentation,
}

impl AccessTable {
    pub(crate) fn new(program: Program) -> Self {
        Self {
            program,
            logical: Vec::new(),
            first_line: 0,
            indentation: Indentation::default(),
        }
    }

    /// Reads one line.
    pub(crate) fn read(&mut self, line: &[u8], out: &mut Out<'_>) {
        let Some((text, is_indented)) = self.indentation.read(line, out) else {
            return;
        };
        if is_indented && !self.logical.is_empty() && !self.program.is_line(text) {
            // The action is in the first words; the rest of a text beyond MAX_LINE is dropped.
            if self.logical.len() + text.len() < MAX_LINE {
                self.logical.push(b' ');
                self.logical.extend_from_slice(text);
            }
            plain::continuation(text, out);
        } else {
            self.finish(out);
            self.logical.extend_from_slice(text);
            self.first_line = out.line();
        }
    }

    /// Reads the collected line: no further line continues it.
    pub(crate) fn finish(&mut self, out: &mut Out<'_>) {
        if self.logical.is_empty() {
            return;
        }
        let mut words = Words(&self.logical);
        let key = words.next().unwrap_or_default();
        let mut out = out.at(self.first_line, &self.logical);
        match words.next() {
            None => out.reject(RejectReason::NoAction, key),
            Some(action) => match self.program.action(action).skip() {
                Some(skip) => out.skip(skip),
                None => self.program.key(key, &mut out),
            },
        }
        self.logical.clear();
    }
}

impl Program {
    /// Returns what the first word of an action does.
    fn action(self, word: &[u8]) -> Action {
        match (self, word) {
            // `ERROR:5.7.1:"550 text"`, `ERROR:"550 text"`, `ERROR:4.2.1:450 later`.
            (Self::Sendmail, [tag @ .., _]) if starts(tag, b"ERROR:") => {
                let code = word.iter().find(|b| b.is_ascii_digit());
                match code {
                    Some(b'4') => Action::Other,
                    _ => Action::Block,
                }
            }
            (Self::Sendmail, _) if starts(word, b"DISCARD:") => Action::Block,
            (_, [class @ b'4'..=b'5', a, b]) if a.is_ascii_digit() && b.is_ascii_digit() => {
                match class {
                    b'5' => Action::Block,
                    _ => Action::Other,
                }
            }
            // Postfix treats an all-numeric action (a time stamp) as OK.
            (Self::Postfix, digits) if digits.iter().all(u8::is_ascii_digit) => Action::Allow,
            // Restriction classes and conditions such as `reject_unauth_pipelining`.
            _ => Action::in_column(word).unwrap_or(Action::Other),
        }
    }

    /// Returns whether an indented text is still a line of its own: an entry and its action.
    fn is_line(self, text: &[u8]) -> bool {
        let mut words = Words(text);
        let is_key = |key: &[u8]| looks_like_entry(sender_key(key).unwrap_or(key));
        words.next().is_some_and(is_key)
            && words.next().is_some_and(|word| {
                // Not a number: it may be part of the text of the action before.
                word.first().is_some_and(u8::is_ascii_uppercase)
                    && (Action::of(word).is_some() || self.action(word) != Action::Other)
            })
    }

    /// Lists the entries of a key that is refused.
    fn key(self, key: &[u8], out: &mut Out<'_>) {
        let key = match self {
            Self::Postfix => key,
            Self::Sendmail => match sender_key(key) {
                Some(key) => key,
                None => return out.skip(Skip::NotSender),
            },
        };
        let number_or_network = key
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'/'));
        if number_or_network || hosts::is_nowhere(key).is_some() || key.starts_with(b"[") {
            // The address of a client.
            out.skip(Skip::NotSender);
        } else if matches!(key, b"<>" | b"<@>") {
            // The null sender is nobody's address.
            out.skip(Skip::NotSender);
        } else if key.contains(&b'@') || key.starts_with(b".") {
            out.entry(key);
        } else {
            out.tree(key);
        }
    }
}

/// Returns the key of a Sendmail line without its tag; `None` if it is not about senders.
fn sender_key(key: &[u8]) -> Option<&[u8]> {
    let Some(colon) = memchr::memchr(b':', key) else {
        return Some(key);
    };
    let (tag, rest) = key.split_at(colon);
    let is_tag = !tag.is_empty() && tag.iter().all(u8::is_ascii_alphanumeric);
    if starts(key, b"From:") {
        rest.get(1..)
    } else if is_tag {
        // To:, Connect:, Spam:, GreetPause:, and an address such as IPv6:2001:db8::1.
        None
    } else {
        Some(key)
    }
}

fn starts(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
