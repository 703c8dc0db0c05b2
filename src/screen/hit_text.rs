//! How hits are shown: in replies, in the tag header, in the log.

use crate::filter::Source;
use crate::policy::{Evidence, Hit};
use crate::snapshot::Snapshot;

/// Returns `list=spammers; identity=from; address=a@b; source=feed`, or `undecided` if it is
/// unknown whether a sender is listed.
pub(super) fn tag(snapshot: &Snapshot, hit: Option<&Hit>) -> String {
    let Some(hit) = hit.filter(|hit| !hit.is_undecided()) else {
        return "undecided".to_owned();
    };
    let list = snapshot.policy.list_name(hit.list);
    let mut tag = format!("list={list}; identity={}; address=", hit.identity.name());
    plain(shown_address(hit), &mut tag);
    let source = source_of(snapshot, hit);
    if !source.is_empty() {
        tag.push_str("; source=");
        plain(source.as_bytes(), &mut tag);
    }
    tag
}

/// Appends printable ASCII; replaces bytes that could end a `key=value` of the tag.
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

/// Returns the address as written if it is printable ASCII without blanks, else its canonical form.
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

/// Returns the name of the source whose entry it is; empty if unknown.
pub(super) fn source_of<'a>(snapshot: &'a Snapshot, hit: &Hit) -> &'a str {
    source(snapshot, hit).map_or("", |source| source.name.as_str())
}

/// Returns the file of this source.
pub(super) fn file_of<'a>(snapshot: &'a Snapshot, hit: &Hit) -> &'a str {
    source(snapshot, hit).map_or("", |source| source.file.as_str())
}

fn source<'a>(snapshot: &'a Snapshot, hit: &Hit) -> Option<&'a Source> {
    let Evidence::Proved { source, .. } = hit.evidence else {
        return None;
    };
    snapshot
        .policy
        .lists()
        .get(hit.list)?
        .filter()?
        .source(source)
}

/// Returns the day when the entry was added, `2026-08-21`; empty if unknown.
pub(super) fn day_of(hit: &Hit) -> String {
    match hit.evidence {
        Evidence::Proved { added, .. } if added > 0 => crate::base::day::Day(added).to_string(),
        Evidence::Proved { .. } | Evidence::Unproved | Evidence::Undecided(_) => String::new(),
    }
}
