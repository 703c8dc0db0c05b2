//! SpamAssassin configuration: `blocklist_from` and its older name `blacklist_from`.
//!
//! Each word after the option is a glob over the whole address: `*@bad.example` is a domain, and
//! `*.bad.example` are its subdomains. Another glob cannot be looked up. `unblocklist_from` cancels
//! an earlier listing and counts as an allowance, as all options `welcomelist_*` and `whitelist_*`
//! do. A line that begins with an entry, as after somebody appended a plain list, is read as plain.
//! A list of addresses that other rules use by its name is rejected.

use std::collections::HashSet;

use super::held::Held;
use super::include::includes;
use super::out::{Out, before_comment};
use super::plain;
use crate::list::row::entry::{Wildcards, looks_like_entry};
use crate::list::row::reject_reason::RejectReason;
use crate::list::row::{RawEntry, Skip};
use crate::list::text::words::Words;

/// The state between lines.
#[derive(Debug, Default)]
pub(crate) struct SpamAssassin {
    /// What was listed, and may still be cancelled.
    held: Held,
    /// What was cancelled, in lower case.
    taken_back: HashSet<Vec<u8>>,
    /// Whether more was listed than can be held.
    is_released: bool,
}

impl SpamAssassin {
    /// Reads one line.
    pub(crate) fn read(&mut self, line: &[u8], out: &mut Out<'_>) {
        let line = line.strip_prefix(plain::BOM).unwrap_or(line).trim_ascii();
        let mut words = Words(before_comment(line));
        let Some(option) = words.next() else {
            return out.skip(plain::nothing(line));
        };
        match option.to_ascii_lowercase().as_slice() {
            b"blocklist_from" | b"blacklist_from" => {
                if words.clone().next().is_none() {
                    out.skip(Skip::Setting);
                }
                for glob in words {
                    if self.held.is_full() {
                        self.release(out);
                        self.is_released = true;
                    }
                    self.taken_back.remove(&glob.to_ascii_lowercase());
                    self.held.add(RawEntry::new(glob), out.line());
                }
            }
            b"blocklist_to" | b"blacklist_to" => out.skip(Skip::NotSender),
            b"enlist_addrlist" => out.reject(RejectReason::NamedList, line),
            b"unblocklist_from" | b"unblacklist_from" => {
                if self.is_released {
                    return out.reject(RejectReason::LateLine, line);
                }
                self.taken_back
                    .extend(words.map(<[u8]>::to_ascii_lowercase));
                out.skip(Skip::Allow);
            }
            _ if includes(line) => out.reject(RejectReason::Include, line),
            option if is_allowance(option) => out.skip(Skip::Allow),
            // The lines of other programs, and options with a colon.
            _ if looks_like_entry(option) || option.ends_with(b":") => plain::entries(line, out),
            _ => out.skip(Skip::Directive),
        }
    }

    /// Ends the list.
    pub(crate) fn finish(&mut self, out: &mut Out<'_>) {
        self.release(out);
    }

    fn release(&mut self, out: &mut Out<'_>) {
        let taken_back = std::mem::take(&mut self.taken_back);
        self.held.drain(0, |raw, line| {
            let mut out = out.at(line, raw.text);
            if taken_back.contains(&raw.text.to_ascii_lowercase()) {
                out.skip(Skip::Allow);
            } else {
                out.raw_entry(raw, Wildcards::StarAndQuestionMark);
            }
        });
    }
}

fn is_allowance(option: &[u8]) -> bool {
    let option = option.strip_prefix(b"def_").unwrap_or(option);
    [
        &b"welcomelist_"[..],
        b"whitelist_",
        b"unblocklist_",
        b"unblacklist_",
    ]
    .iter()
    .any(|start| option.starts_with(start))
}
