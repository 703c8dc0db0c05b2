//! Who may be innocent: found in the last decisions, so that an administrator looks before a
//! customer calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::history::DAY_S;
use crate::base::numbers::{counted, grouped};
use crate::policy::Reason;
use crate::snapshot::Decision;

/// A sender who writes to so many recipients is rather a newsletter than spam nobody wants.
const MANY_RECIPIENTS: usize = 5;
/// Most lines of each kind.
const LINES_MAX: usize = 5;

/// Counts of a list and source.
#[derive(Default)]
struct Hits {
    all: u64,
    cleared: u64,
    dry_run: u64,
}

/// Returns one line for each finding in decisions of the last day, the newest first.
pub(super) fn possibly_innocent(decisions: &[Arc<Decision>], now_s: u64) -> Vec<String> {
    let is_recent = |one: &&Arc<Decision>| one.time_s + DAY_S > now_s;
    let mut hits: BTreeMap<(&str, &str), Hits> = BTreeMap::new();
    for one in decisions
        .iter()
        .filter(is_recent)
        .filter(|one| !one.list.is_empty())
    {
        let hits = hits.entry((&one.list, &one.source)).or_default();
        hits.all += 1;
        hits.dry_run += u64::from(one.reason == Reason::DryRun.name());
        let is_cleared = one.action == "accept" && one.reason != Reason::DryRun.name();
        hits.cleared += u64::from(is_cleared);
    }
    let name = |(list, source): &(&str, &str)| match list == source || source.is_empty() {
        true => (*list).to_owned(),
        false => format!("{list}, {source}"),
    };
    let cleared = hits.iter().filter(|(_, hits)| hits.cleared > 0).map(|(of, hits)| {
        format!(
            "{}: {} of {} cleared in the last 24 h by the whitelist, correspondents or exemptions",
            name(of),
            grouped(hits.cleared),
            counted(hits.all, "hit", "hits")
        )
    });
    let trial = hits
        .iter()
        .filter(|(_, hits)| hits.dry_run > 0)
        .map(|(of, hits)| {
            let count = counted(hits.dry_run, "message", "messages");
            format!("{}: on trial, {count} hit in the last 24 h", name(of))
        });
    cleared
        .take(LINES_MAX)
        .chain(newcomers(decisions, now_s).into_iter().take(LINES_MAX))
        .chain(trial.take(LINES_MAX))
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
    let new = senders
        .into_iter()
        .filter(|(_, (recipients, is_known))| !is_known && recipients.len() >= MANY_RECIPIENTS);
    new.map(|(sender, (recipients, _))| {
        format!(
            "{sender}: refused for the first time in the last 24 h, and writes to {} recipients",
            recipients.len()
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Who;

    #[test]
    fn cleared_hits_new_senders_to_many_and_trials_are_told() {
        let one = |action: &str, reason: &str, time_s, sender: &str, recipient: &str| Decision {
            time_s,
            action: action.to_owned(),
            reason: reason.to_owned(),
            list: "partner".to_owned(),
            source: "feed".to_owned(),
            who: Some(Who {
                sender: sender.to_owned(),
                recipient: recipient.to_owned(),
                ..Who::default()
            }),
            ..Decision::default()
        };
        let now = 10 * DAY_S;
        let mut all = vec![
            one("accept", "whitelisted", now - 5, "friend@a.example", ""),
            one("accept", "dry-run", now - 5, "x@b.example", ""),
            one(
                "accept",
                "whitelisted",
                now - 2 * DAY_S,
                "old@a.example",
                "",
            ),
            one(
                "reject",
                "listed",
                now - 2 * DAY_S,
                "known@c.example",
                "r@our.example",
            ),
        ];
        for number in 0..5 {
            let recipient = format!("r{number}@our.example");
            all.push(one(
                "reject",
                "listed",
                now - 9,
                "new@c.example",
                &recipient,
            ));
            all.push(one(
                "reject",
                "listed",
                now - 9,
                "known@c.example",
                &recipient,
            ));
        }
        assert_eq!(
            possibly_innocent(&all.into_iter().map(Arc::new).collect::<Vec<_>>(), now),
            [
                "partner, feed: 1 of 12 hits cleared in the last 24 h by the whitelist, correspondents or exemptions",
                "new@c.example: refused for the first time in the last 24 h, and writes to 5 recipients",
                "partner, feed: on trial, 1 message hit in the last 24 h",
            ]
        );
    }
}
