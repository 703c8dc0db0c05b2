//! SpamAssassin configuration: `blocklist_from` and its older name `blacklist_from`.
//!
//! Each word after the option is a glob over the whole address, so `*@bad.example` is
//! a domain and `*.bad.example` the domains below it; a glob that is neither cannot be
//! looked up. `unblocklist_from` takes an address back and is counted as an allowance,
//! as are all kinds of `welcomelist_*` and `whitelist_*`. A line that begins with an entry, as
//! when somebody appended a plain list, is read as plain; a list of addresses that other rules
//! use by its name is rejected.

use super::entry::{Wildcards, looks_like_entry};
use super::out::{Out, before_comment};
use super::plain;
use super::reject_reason::RejectReason;
use super::row::{RawEntry, Skip};
use super::words::Words;

/// Reads one line.
pub(super) fn read(line: &[u8], out: &mut Out<'_>) {
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
                out.raw_entry(RawEntry::new(glob), Wildcards::StarAndQuestionMark);
            }
        }
        b"blocklist_to" | b"blacklist_to" => out.skip(Skip::NotSender),
        b"enlist_addrlist" => out.reject(RejectReason::NamedList, line),
        option if is_allowance(option) => out.skip(Skip::Allow),
        // The lines of other programs, and options that a colon follows.
        _ if looks_like_entry(option) || option.ends_with(b":") => plain::entries(line, out),
        _ => out.skip(Skip::Directive),
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
