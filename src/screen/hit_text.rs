//! Hits as they are shown to others: in replies, in the tag header, in the log.

use crate::policy::{Evidence, Hit};
use crate::snapshot::Snapshot;

/// `list=spammers; identity=from; address=a@b; source=feed`, or `undecided` where nobody knows whether
/// anybody is listed.
pub(super) fn tag(snapshot: &Snapshot, hit: Option<&Hit>) -> String {
    let Some(hit) = hit.filter(|hit| !hit.is_undecided()) else {
        return "undecided".to_owned();
    };
    let list = snapshot
        .policy
        .lists()
        .get(hit.list)
        .map_or("", |list| list.name());
    let mut tag = format!("list={list}; identity={}; address=", hit.identity.name());
    plain(shown_address(hit), &mut tag);
    let source = source_of(snapshot, hit);
    if !source.is_empty() {
        tag.push_str("; source=");
        plain(source.as_bytes(), &mut tag);
    }
    tag
}

/// Printable ASCII that cannot end a `key=value` of the tag.
fn plain(bytes: &[u8], out: &mut String) {
    const MAX: usize = 256;
    out.extend(bytes.iter().take(MAX).map(|&byte| {
        if byte.is_ascii_graphic() && byte != b';' {
            char::from(byte)
        } else {
            '?'
        }
    }));
}

/// The address as its writer knows it, where that is a plain word; else its canonical form.
pub(super) fn shown_address(hit: &Hit) -> &[u8] {
    let written = hit.address.trim_ascii();
    let bare = written
        .strip_prefix(b"<")
        .and_then(|bare| bare.strip_suffix(b">"))
        .unwrap_or(written);
    if bare.iter().all(|byte| byte.is_ascii_graphic()) {
        bare
    } else {
        &hit.canonical
    }
}

/// The name of the hit's source; empty if it is not known.
pub(super) fn source_of<'a>(snapshot: &'a Snapshot, hit: &Hit) -> &'a str {
    let Evidence::Proved { source, .. } = hit.evidence else {
        return "";
    };
    let list = snapshot.policy.lists().get(hit.list);
    list.and_then(|list| list.source(source))
        .map_or("", |source| source.name.as_str())
}

/// The day the entry was added, `2026-08-21`; empty if it is not known.
pub(super) fn day_of(hit: &Hit) -> String {
    match hit.evidence {
        Evidence::Proved { added, .. } if added > 0 => crate::list::Day(added).to_string(),
        Evidence::Proved { .. } | Evidence::Unproved | Evidence::Undecided(_) => String::new(),
    }
}
