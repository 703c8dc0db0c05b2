//! SpamAssassin configuration: `blocklist_from` and its older name `blacklist_from`.
//!
//! Each word after the option is a glob over the whole address: `*@bad.example` is a domain, and
//! `*.bad.example` are its subdomains. Another glob cannot be looked up. `unblocklist_from` cancels
//! a listing before it, as all options `welcomelist_*` and `whitelist_*` allow a sender.

use super::{Held, LineFormat, Out, before_comment, includes};
use crate::list::row::{Refusal, RejectReason, Skip, looks_like_entry};
use crate::list::text::{Words, begins_with_one_of};

#[derive(Debug, Default)]
pub(crate) struct SpamAssassin {
    held: Held,
    conditions: usize,
}

impl LineFormat for SpamAssassin {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) {
        let text = before_comment(line);
        let mut words = Words(text);
        let Some(option) = words.next() else {
            return out.nothing();
        };
        match option.to_ascii_lowercase().as_slice() {
            b"if" | b"ifplugin" => {
                self.conditions += 1;
                out.other(option);
            }
            b"endif" => {
                self.conditions = self.conditions.saturating_sub(1);
                out.other(option);
            }
            _ if self.conditions > 0 && is_marked(text) => out.refuse(Refusal::Condition),
            b"blocklist_from" | b"blacklist_from" => {
                if words.clone().next().is_none() {
                    out.reject(RejectReason::NotAnEntry, text);
                }
                for glob in words {
                    self.held.restore(glob);
                    self.held.add(glob, out);
                }
            }
            b"blocklist_to" | b"blacklist_to" => out.skip(Skip::NotSender),
            b"unblocklist_from" | b"unblacklist_from" => {
                words.for_each(|glob| self.held.cancel(glob, out));
                out.skip(Skip::Allow);
            }
            _ if includes(text) => out.refuse(Refusal::Include),
            other if is_allowance(other) => out.skip(Skip::Allow),
            _ if looks_like_entry(option) => out.reject(RejectReason::NotOfFormat, text),
            other => out.other(other),
        }
    }

    fn finish(&mut self, out: &mut Out<'_>) {
        self.held
            .finish(out, |glob| vec![glob], |glob, out| out.entry(glob));
    }
}

fn is_allowance(option: &[u8]) -> bool {
    let option = option.strip_prefix(b"def_").unwrap_or(option);
    begins_with_one_of(option, "welcomelist_ whitelist_ unblocklist_ unblacklist_")
}

/// Returns whether a line has the mark of SpamAssassin: one of these options, and a value.
pub(crate) fn is_marked(line: &[u8]) -> bool {
    let mut words = Words(line);
    let option = words.next().unwrap_or_default().to_ascii_lowercase();
    let is_listing = begins_with_one_of(&option, "blocklist_ blacklist_");
    words.next().is_some() && (is_listing || is_allowance(&option))
}
