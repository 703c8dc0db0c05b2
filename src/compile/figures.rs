//! Numbers as a person reads them.

use crate::address::Kind;

/// Look-ups for a sender in a filter that holds `kinds` (bits by kind). A domain of three
/// labels is assumed: it lies in two subtrees.
pub(crate) fn lookups(kinds: u8) -> i32 {
    Kind::ALL
        .into_iter()
        .filter(|kind| kinds >> *kind as u8 & 1 == 1)
        .map(|kind| match kind {
            Kind::Mailbox | Kind::LocalPart | Kind::Domain => 1,
            Kind::Subtree => 2,
        })
        .sum()
}

/// The rate for a sender, who is looked up under several keys, from the rate for a key.
pub(crate) fn rate_per_sender(rate: f64, kinds: u8) -> f64 {
    1.0 - (1.0 - rate).powi(lookups(kinds))
}

/// What a rate of false positives of a sender means.
pub(crate) fn rate_in_people(rate: f64, records: bool) -> String {
    let hits = rate * 100_000.0;
    let hits = if hits >= 10.0 {
        format!("{hits:.0}")
    } else if hits < 0.005 {
        "next to none".to_owned()
    } else {
        format!("{hits:.2}")
    };
    let end = if records {
        "none rejected: records confirm every hit"
    } else {
        "each of them rejected: there are no records to confirm a hit"
    };
    // Two lines: one would be longer than a terminal is wide.
    format!(
        "of 100,000 innocent senders {hits} are expected to hit the pages\n          ({rate:.2e}), {end}"
    )
}

/// 1234567 -> 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Bytes with a unit a person reads.
#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "bytes" {
                format!("{bytes} bytes")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.2} TiB")
}

/// "1 line", "1,234 lines".
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// "1 mailbox", "20 domains".
pub(crate) fn counted_kind(number: u64, kind: Kind) -> String {
    let many = match kind {
        Kind::Mailbox => "mailboxes",
        Kind::LocalPart => "local-parts",
        Kind::Domain => "domains",
        Kind::Subtree => "subtrees",
    };
    counted(number, kind.name(), many)
}

/// Bits of the pages for each entry; 0 for an empty list.
#[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
pub(crate) fn bits_per_entry(page_bytes: u64, entries: u64) -> f64 {
    if entries == 0 {
        0.0
    } else {
        page_bytes as f64 * 8.0 / entries as f64
    }
}

/// Bits an entry, where they tell something: not in a filter of so few entries that
/// its one page is almost empty.
pub(crate) fn bits_shown(bits_per_entry: f64) -> String {
    if (f64::MIN_POSITIVE..MANY_BITS).contains(&bits_per_entry) {
        format!(", {bits_per_entry:.2} bits an entry")
    } else {
        String::new()
    }
}

/// Beyond this, bits an entry only say that a page is the least there is.
const MANY_BITS: f64 = 200.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Canonical, Kinds, Rules};
    use std::ops::ControlFlow;

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [12, 4096, 3 << 30].map(size),
            ["12 bytes", "4.0 KiB", "3.0 GiB"]
        );
        assert!(rate_in_people(1e-6, true).contains("0.10 are expected"));
    }

    #[test]
    fn a_sender_is_looked_up_once_for_each_kind_of_entry() {
        assert_eq!([0, 0b1, 0b101, 0b1111].map(lookups), [0, 1, 2, 5]);
        let mut looked_up = 0;
        let sender = Canonical::parse(b"user@mail.host.example", Rules::default()).unwrap();
        let _ = sender.lookups(Kinds::ALL, |_, _| {
            looked_up += 1;
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(looked_up, lookups(0b1111));
        assert!((rate_per_sender(1e-6, 0b1111) - 5e-6).abs() < 1e-10);
    }
}
