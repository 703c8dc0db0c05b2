//! The state of the daemon at one moment: everything that the page, JSON, metrics and the command
//! show. The field names are those of `/status.json`, which other programs read. Times are in
//! seconds since 1970, counts since the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::history::{Counts, DAY_S, Minute, counts};
use super::log::Logged;
use super::source::Status;
use crate::daemon::Cut;
use crate::endpoint::{Door, DoorState};
use crate::metrics::Durations;
use crate::policy::{Action, Reason};
use crate::sender::Identity;
use crate::snapshot::{Decision, Freshness, Health, ListCounts, Problem, Reloads, Snapshot};
use blocklist_filter::base::clock::now_s;
use blocklist_filter::base::numbers::{counted, grouped, most_first};

/// The state of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub process: u32,
    /// The time of the report, in seconds since 1970.
    pub time_s: u64,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// What happens to mail, in a clause.
    pub mail: String,
    /// The highest severity of the problems.
    pub health: Health,
    /// The problems, the most severe first.
    pub problems: Vec<Problem>,
    /// The lists in effect, in the order of the configuration.
    pub lists: Vec<List>,
    /// Entries of the whitelist.
    pub whitelist_entries: u64,
    /// Messages decided.
    pub messages: Messages,
    /// How long messages took.
    pub durations: Durations,
    /// The sockets for mail servers.
    pub doors: Vec<DoorState>,
    /// What lists and exemptions want of them in vain, one line each.
    pub beyond_doors: Vec<String>,
    /// Connections of mail servers.
    pub connections: Connections,
    /// Reloads of configuration and filters.
    pub reloads: Reloads,
    /// Lines of the log that could not be written.
    pub log_lines_lost: u64,
    /// Who may have been refused in error, or nearly, one line each.
    pub possibly_innocent: Vec<String>,
    /// The hours of the last 30 days in which messages were decided.
    pub hours: Vec<Minute>,
    /// From when to when messages were counted in these days, in seconds since 1970.
    pub periods: Vec<(u64, u64)>,
    /// The minutes of the last day in which messages were decided.
    pub minutes: Vec<Minute>,
    /// The last decisions other than plain acceptance, the newest first.
    pub decisions: Vec<Logged>,
    /// Whether it shows whose mail was decided.
    pub shows_addresses: bool,
}

impl Report {
    /// Adds a warning.
    pub fn warn(&mut self, text: &str) {
        self.health = self.health.max(Health::Warning);
        self.problems.push(Problem::new(Health::Warning, text));
    }
}

/// A list in effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct List {
    pub name: String,
    pub action: String,
    pub dry_run: bool,
    /// Its filter; `None` if there is none that can be used.
    pub filter: Option<Filter>,
    /// Messages that it decided, by action.
    pub messages: Counts,
    /// Senders that it names, by field.
    pub hits: Counts,
    /// The same by the source that lists them.
    pub sources: Counts,
    pub hits_24h: u64,
    /// `None` if none of the last decisions was about it.
    pub last_hit_s: Option<u64>,
    /// Those with most hits among the last decisions; none if addresses are not shown.
    pub top_entries: Vec<(String, u64)>,
    /// Hits on whitelisted addresses.
    pub whitelisted: u64,
    /// Senders that could not be looked up.
    pub undecided: u64,
    /// Matches of the Bloom filter that the records did not confirm.
    pub false_positives: u64,
    pub read_errors: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    pub entries: u64,
    /// Increases with each build.
    pub generation: u64,
    pub built_s: u64,
    #[serde(flatten)]
    pub freshness: Freshness,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Messages {
    pub total: u64,
    /// By action; `accept` if no list objected, `none` if the mail server could not be told of the action.
    pub verdicts: Counts,
    /// By the door at which the mail server asked.
    pub doors: Counts,
    /// By reason, as in the log.
    pub reasons: Counts,
    /// Messages with more senders than were looked up.
    pub truncated: u64,
    /// Recipients that were asked to come in a transaction of their own.
    pub recipients_deferred: u64,
    /// Whether refusals become tags, because there are too many.
    pub circuit_breaker: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    pub open: u64,
    pub total: u64,
    /// Connections that violated the protocol, by kind.
    pub protocol_errors: Counts,
    /// Connections that we closed, by reason.
    pub cut: Counts,
    /// How often mail servers had to wait because the limit of connections was reached.
    pub limit_waits: u64,
}

impl Status {
    /// Returns the current state, with or without whose mail was decided.
    pub(super) fn report(&self, shows_addresses: bool) -> Report {
        let live = &self.live;
        let snapshot = live.snapshot();
        let counters = &live.counters;
        let time_s = now_s();
        let history = self.sample();
        let circuit_breaker = live.is_circuit_breaker_on(&snapshot.config);
        let problems = self.problems(circuit_breaker);
        let decisions = self.decisions(shows_addresses);
        let hits = history.hits_24h();
        Report {
            possibly_innocent: possibly_innocent(&hits, &decisions, time_s),
            hours: history.hours.steps.clone(),
            periods: history.periods.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            time_s,
            uptime_s: live.uptime_s(),
            mail: live.mail(),
            health: (problems.iter().map(|one| one.severity).max()).unwrap_or_default(),
            problems,
            lists: lists(&snapshot, time_s, &decisions, &hits),
            whitelist_entries: snapshot.policy.whitelist.len() as u64,
            messages: Messages {
                total: counters.messages(),
                verdicts: counts(&counters.verdicts, |name| name),
                doors: counts(&counters.doors, Door::name),
                reasons: counts(&counters.reasons, Reason::name),
                truncated: counters.truncated.get(),
                recipients_deferred: counters.deferred.get(),
                circuit_breaker,
            },
            durations: counters.durations.read(),
            doors: live.doors(),
            beyond_doors: live.beyond(),
            connections: Connections {
                open: self.traffic.open(),
                total: self.traffic.opened.get(),
                protocol_errors: counts(&self.traffic.protocol_errors, |kind| kind),
                cut: counts(&self.traffic.cut, Cut::name),
                limit_waits: self.traffic.full.get(),
            },
            reloads: live.reloads(),
            log_lines_lost: self.log_lines_lost.get(),
            minutes: history.minutes.steps.clone(),
            decisions: self.logged(decisions.into_iter().take(DECISIONS_SHOWN).collect()),
            shows_addresses,
        }
    }

    fn problems(&self, circuit_breaker: bool) -> Vec<Problem> {
        let text = "circuit breaker: more than max_reject_share of the messages would be refused, tagging them instead";
        let breaker = circuit_breaker.then(|| Problem::new(Health::Warning, text));
        self.live.problems().into_iter().chain(breaker).collect()
    }
}

const DECISIONS_SHOWN: usize = 20;

/// Entries that a report shows of each list.
const ENTRIES_SHOWN: usize = 5;

fn lists(
    snapshot: &Snapshot,
    now_s: u64,
    decisions: &[Arc<Decision>],
    hits_24h: &Counts,
) -> Vec<List> {
    let lists = snapshot.policy.lists().iter().zip(&snapshot.counts);
    let lists = lists.zip(snapshot.freshness(now_s));
    let lists = lists.map(|((list, counted), freshness)| {
        let ListCounts { list: counters, .. } = counted;
        let filter = list.filter().zip(freshness);
        let hits = || decisions.iter().filter(|one| one.list == list.name());
        let mut entries = Counts::new();
        for who in hits().filter_map(|one| one.who.as_ref()) {
            *entries.entry(who.entry.clone()).or_default() += 1;
        }
        let mut top_entries = most_first(entries);
        top_entries.truncate(ENTRIES_SHOWN);
        let mut of_fields = counts(&counters.hits, Identity::name);
        let is_checked = |name: &str| list.terms.check.iter().any(|one| one.name() == name);
        of_fields.retain(|name, count| *count > 0 || is_checked(name));
        List {
            name: list.name().to_owned(),
            action: list.terms.action.name().to_owned(),
            dry_run: list.terms.dry_run,
            filter: filter.map(|(filter, freshness)| Filter {
                entries: filter.entries(),
                generation: filter.spec().generation,
                built_s: filter.spec().built,
                freshness,
            }),
            messages: counts(&counters.verdicts, |name| name),
            hits: of_fields,
            sources: counted.by_source(),
            hits_24h: hits_24h.get(list.name()).copied().unwrap_or_default(),
            last_hit_s: hits().map(|one| one.time_s).max(),
            top_entries,
            whitelisted: counters.whitelisted.get(),
            undecided: counters.undecided.get(),
            false_positives: counters.false_positives.get(),
            read_errors: counters.failures.get(),
        }
    });
    lists.collect()
}

/// A sender who writes to so many recipients is rather a newsletter than spam nobody wants.
const MANY_RECIPIENTS: usize = 5;
/// Most lines about innocent senders, of each kind.
const LINES_MAX: usize = 5;

/// Returns who may be innocent, so that an administrator looks before a customer calls: one line for each finding in
/// the hits of the last day, and in the last decisions, the newest first.
fn possibly_innocent(hits: &Counts, decisions: &[Arc<Decision>], now_s: u64) -> Vec<String> {
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
    let refused = decisions
        .iter()
        .filter(|one| !["accept", Action::UNTOLD].contains(&&*one.action));
    for (one, who) in refused.filter_map(|one| Some((one, one.who.as_ref()?))) {
        // A message that could not be judged names nobody.
        if who.sender.is_empty() {
            continue;
        }
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
            decisions.push(refused("", number, now - 9));
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
