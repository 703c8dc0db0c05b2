//! Wording that the report of a compilation and the description of a filter share.

use serde::Serialize;

use super::write::EntryCounts;
use crate::address::Kind;
use crate::base::numbers::counted;

/// Entries of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindCount {
    /// "mailbox", "local-part", "domain" or "subtree".
    pub kind: &'static str,
    /// Number of entries.
    pub entries: u64,
}

/// Returns the counts of the kinds that occur.
pub(crate) fn kind_counts(entries: &EntryCounts) -> Vec<KindCount> {
    let counts = Kind::ALL.into_iter().zip(entries.kinds());
    counts
        .filter(|(_, entries)| *entries > 0)
        .map(|(kind, entries)| KindCount {
            kind: kind.name(),
            entries,
        })
        .collect()
}

/// Shows kinds with their counts: "1 mailbox, 20 domains".
pub(crate) fn kinds_shown(kinds: &[KindCount]) -> String {
    let shown = kinds.iter().map(|count| {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == count.kind);
        kind.map_or_else(String::new, |kind| counted_kind(count.entries, kind))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Shows one kind with its count: "1 mailbox", "20 domains".
fn counted_kind(number: u64, kind: Kind) -> String {
    let many = match kind {
        Kind::Mailbox => "mailboxes",
        Kind::LocalPart => "local-parts",
        Kind::Domain => "domains",
        Kind::Subtree => "subtrees",
    };
    counted(number, kind.name(), many)
}

/// Returns the bits of the pages per entry; 0 for an empty list.
#[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
pub(crate) fn bits_per_entry(page_bytes: u64, entries: u64) -> f64 {
    if entries == 0 {
        0.0
    } else {
        page_bytes as f64 * 8.0 / entries as f64
    }
}

/// Shows the bits per entry if they mean something; they do not if a filter has so few
/// entries that its one page is almost empty.
pub(crate) fn bits_shown(bits_per_entry: f64) -> String {
    if (f64::MIN_POSITIVE..MANY_BITS).contains(&bits_per_entry) {
        format!(", {bits_per_entry:.2} bits an entry")
    } else {
        String::new()
    }
}

/// Above this, bits per entry only show that one page is the minimum size.
const MANY_BITS: f64 = 200.0;

/// Explains a rate of false positives per sender.
pub(crate) fn rate_in_people(rate: f64, records: bool) -> String {
    let matches = rate * 100_000.0;
    let matches = if matches >= 10.0 {
        format!("about {matches:.0}")
    } else if matches < 0.005 {
        "fewer than 0.01".to_owned()
    } else {
        format!("about {matches:.2}")
    };
    let end = if records {
        "none of them is listed: records confirm every match"
    } else {
        "each of them is listed: there are no records to confirm a match"
    };
    let exactly = match rate > 0.0 {
        true => format!("({rate:.2e}); "),
        false => String::new(),
    };
    // Two lines: one would be longer than a terminal is wide.
    format!(
        "of 100,000 unlisted senders {matches} match the Bloom filter\n          {exactly}{end}"
    )
}

/// Shows the digest of a text as 32 hexadecimal digits.
pub(crate) fn digest_shown(digest: u128) -> String {
    format!("{digest:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_shown_for_people() {
        assert!(rate_in_people(1e-6, true).contains("about 0.10 match"));
        assert!(!rate_in_people(0.0, true).contains("e0"));
    }
}
