//! Who may be innocent: found in the hits of the day and the last decisions, so that an administrator
//! looks before a customer calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::history::{Counts, DAY_S};
use crate::base::numbers::{counted, grouped};
use crate::snapshot::Decision;

/// A sender who writes to so many recipients is rather a newsletter than spam nobody wants.
const MANY_RECIPIENTS: usize = 5;
/// Most lines of each kind.
const LINES_MAX: usize = 5;

/// Returns one line for each finding in the hits of the last day, and in the last decisions, the newest first.
pub(super) fn possibly_innocent(
    hits: &Counts,
    decisions: &[Arc<Decision>],
    now_s: u64,
) -> Vec<String> {
    let of_kind = |kind: &'static str| {
        let hits = hits.iter();
        hits.filter_map(move |(name, count)| Some((name.strip_prefix(kind)?, *count)))
    };
    let cleared = of_kind("cleared ").map(|(of, count)| {
        let all = hits.get(&format!("all {of}")).copied().unwrap_or(count);
        format!(
            "{of}: {} of {} cleared in the last 24 h by the whitelist, correspondents or exemptions",
            grouped(count),
            counted(all, "hit", "hits")
        )
    });
    let trials = of_kind("trial ").map(|(of, count)| {
        let count = counted(count, "message", "messages");
        format!("{of}: on trial, {count} hit in the last 24 h")
    });
    cleared
        .take(LINES_MAX)
        .chain(newcomers(decisions, now_s).into_iter().take(LINES_MAX))
        .chain(trials.take(LINES_MAX))
        .collect()
}

/// Returns the senders who were refused for the first time in the last day, and write to many.
fn newcomers(decisions: &[Arc<Decision>], now_s: u64) -> Vec<String> {
    let mut senders: BTreeMap<&str, (BTreeSet<&str>, bool)> = BTreeMap::new();
    let refused = decisions.iter().filter(|one| one.action != "accept");
    for (one, who) in refused.filter_map(|one| Some((one, one.who.as_ref()?))) {
        let (recipients, is_known) = senders.entry(&who.sender).or_default();
        *is_known |= one.time_s + DAY_S <= now_s;
        if !who.recipient.is_empty() {
            recipients.insert(&who.recipient);
        }
    }
    senders.retain(|_, (recipients, is_known)| !*is_known && recipients.len() >= MANY_RECIPIENTS);
    let new = senders.iter().map(|(sender, (recipients, _))| {
        let many = recipients.len();
        format!(
            "{sender}: refused for the first time in the last 24 h, and writes to {many} recipients"
        )
    });
    new.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cleared_hits_new_senders_to_many_and_trials_are_told() {
        let now = 10 * DAY_S;
        let refused = |sender: &str, recipient: usize, time_s: u64| -> Arc<Decision> {
            let who = json!({"sender": sender, "recipient": format!("r{recipient}@our.example")});
            let decision = json!({"time_s": time_s, "action": "reject", "who": who});
            serde_json::from_value(decision).unwrap()
        };
        let mut decisions = vec![refused("known@c.example", 9, now - 2 * DAY_S)];
        for number in 0..5 {
            decisions.push(refused("new@c.example", number, now - 9));
            decisions.push(refused("known@c.example", number, now - 9));
        }
        decisions.push(refused("new@few.example", 1, now - 9));
        let hits = [
            ("all partner, feed", 12),
            ("cleared partner, feed", 1),
            ("partner", 15),
            ("trial partner, feed", 1),
        ];
        let hits = hits.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(
            possibly_innocent(&hits, &decisions, now),
            [
                "partner, feed: 1 of 12 hits cleared in the last 24 h by the whitelist, correspondents or exemptions",
                "new@c.example: refused for the first time in the last 24 h, and writes to 5 recipients",
                "partner, feed: on trial, 1 message hit in the last 24 h",
            ]
        );
    }
}
