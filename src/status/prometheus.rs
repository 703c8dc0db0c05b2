//! The report in the text format 0.0.4 of Prometheus
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Names and units follow its conventions: seconds, bytes, `_total` for counters. No label contains
//! an address or anything else that a sender can choose, so that only the configuration determines
//! the number of series.

use std::fmt::{Display, Write as _};

use super::counts::Counts;
use super::report::{Connections, Durations, Filter, List, Reloads, Report};
use crate::snapshot::Health;

/// The prefix of all names.
const PREFIX: &str = "blocklist_milter_";
/// Media type of the text.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The families of samples: name, type, meaning.
const FAMILIES: &str = "\
build_info gauge Version of the program.
start_time_seconds gauge When the program was started, in Unix time.
problems gauge Current problems; the status page names them.
reloads_total counter Reloads of configuration, filters and whitelists.
last_reload_successful gauge 0 while a file is faulty, and what it said before is in effect.
whitelist_entries gauge Entries of the whitelist.
log_lines_lost_total counter Log lines that could not be written.
messages_total counter Messages decided, by action taken.
messages_by_reason_total counter Messages decided, by reason as in the log.
messages_truncated_total counter Messages that named more senders than are looked up.
recipients_deferred_total counter Recipients asked to come in a transaction of their own.
circuit_breaker gauge 1 while refusals are turned into tags because there are too many.
connections gauge Connections of mail servers at the moment.
connections_total counter Connections of mail servers.
protocol_errors_total counter Connections that broke the milter protocol.
connections_cut_total counter Connections not closed by the mail server.
connection_limit_waits_total counter Times that a mail server had to wait because limits.connections was reached, and each further minute of it.
list_entries gauge Entries of a list.
list_generation gauge Rises with each build of the list.
list_built_timestamp_seconds gauge When the filter of the list was built, in Unix time.
list_unchanged_seconds gauge Time since the list was built with its present entries.
list_available gauge 0 while the list has no filter that can be used.
list_stale gauge 1 while the list is older than this limit of the configuration.
list_last_good_copy gauge 1 while the last good copy of the filter is in effect, because the file is damaged or gone.
list_messages_total counter Messages that a list decided.
list_hits_total counter Senders that a list names.
list_source_hits_total counter The same by the source in the list.
list_whitelisted_hits_total counter Hits that the whitelist cleared.
list_undecided_senders_total counter Senders that could not be looked up in the list.
list_false_positives_total counter Bloom filter matches that the records did not confirm.
list_read_errors_total counter Look-ups that failed.
message_duration_seconds histogram Time to decide a message, including disk waits.
";

/// Returns the report as text.
pub(super) fn render(report: &Report) -> String {
    let mut out = Text::default();
    let started_s = report.time_s.saturating_sub(report.uptime_s);
    let problems = |severity: Health| {
        let problems = report.problems.iter();
        let count = problems.filter(|problem| problem.severity == severity);
        (severity.name(), count.count())
    };
    out.by("build_info", "version", [(&*report.version, 1)]);
    out.value("start_time_seconds", started_s);
    out.by(
        "problems",
        "severity",
        [Health::Warning, Health::Critical].map(problems),
    );
    messages(report, &mut out);
    connections(&report.connections, &mut out);
    lists(&report.lists, &mut out);
    let Reloads {
        good,
        refused,
        is_old,
        ..
    } = report.reloads;
    out.by(
        "reloads_total",
        "result",
        [("good", good), ("refused", refused)],
    );
    out.value("last_reload_successful", u8::from(!is_old));
    out.value("whitelist_entries", report.whitelist_entries);
    out.value("log_lines_lost_total", report.log_lines_lost);
    out.0
}

fn messages(report: &Report, out: &mut Text) {
    let messages = &report.messages;
    out.by("messages_total", "verdict", counts(&messages.verdicts));
    out.by(
        "messages_by_reason_total",
        "reason",
        counts(&messages.reasons),
    );
    out.value("messages_truncated_total", messages.truncated);
    out.value("recipients_deferred_total", messages.recipients_deferred);
    out.value("circuit_breaker", u8::from(messages.circuit_breaker));
    let Durations {
        count,
        sum_s,
        at_most,
        ..
    } = &report.durations;
    let bounds = at_most
        .iter()
        .map(|(bound, count)| (bound.to_string(), *count));
    let buckets = bounds.chain([("+Inf".to_owned(), *count)]);
    out.family("message_duration_seconds");
    for (bound, count) in buckets {
        out.sample("message_duration_seconds_bucket", &[("le", &bound)], count);
    }
    out.sample("message_duration_seconds_sum", &[], sum_s);
    out.sample("message_duration_seconds_count", &[], count);
}

fn connections(connections: &Connections, out: &mut Text) {
    out.value("connections", connections.open);
    out.value("connections_total", connections.total);
    out.by(
        "protocol_errors_total",
        "kind",
        counts(&connections.protocol_errors),
    );
    out.by("connections_cut_total", "reason", counts(&connections.cut));
    out.value("connection_limit_waits_total", connections.limit_waits);
}

fn lists(lists: &[List], out: &mut Text) {
    let filters = |value: fn(&Filter) -> u64| {
        let filters = lists
            .iter()
            .filter_map(|list| Some((&*list.name, list.filter.as_ref()?)));
        filters.map(move |(name, filter)| (name, value(filter)))
    };
    let all = |value: fn(&List) -> u64| lists.iter().map(move |list| (&*list.name, value(list)));
    let is = |list: &List, condition: fn(&Filter) -> bool| {
        u64::from(list.filter.as_ref().is_some_and(condition))
    };
    out.by("list_entries", "list", filters(|filter| filter.entries));
    out.by(
        "list_generation",
        "list",
        filters(|filter| filter.generation),
    );
    out.by(
        "list_built_timestamp_seconds",
        "list",
        filters(|filter| filter.built_s),
    );
    out.by(
        "list_unchanged_seconds",
        "list",
        filters(|filter| filter.unchanged_s),
    );
    out.by(
        "list_available",
        "list",
        all(|list| u64::from(list.filter.is_some())),
    );
    out.of_lists("list_stale", lists, "limit", |list| {
        vec![
            ("max_age", is(list, |filter| filter.too_old)),
            (
                "max_unchanged",
                is(list, |filter| filter.unchanged_too_long),
            ),
        ]
    });
    out.by(
        "list_last_good_copy",
        "list",
        lists
            .iter()
            .map(|list| (&*list.name, is(list, |filter| filter.last_good_copy))),
    );
    out.of_lists("list_messages_total", lists, "verdict", |list| {
        counts(&list.messages).collect()
    });
    out.of_lists("list_hits_total", lists, "identity", |list| {
        counts(&list.hits).collect()
    });
    out.of_lists("list_source_hits_total", lists, "source", |list| {
        counts(&list.sources).collect()
    });
    out.by(
        "list_whitelisted_hits_total",
        "list",
        all(|list| list.whitelisted),
    );
    out.by(
        "list_undecided_senders_total",
        "list",
        all(|list| list.undecided),
    );
    out.by(
        "list_false_positives_total",
        "list",
        all(|list| list.false_positives),
    );
    out.by(
        "list_read_errors_total",
        "list",
        all(|list| list.read_errors),
    );
}

fn counts(counts: &Counts) -> impl Iterator<Item = (&str, u64)> {
    counts.iter().map(|(name, count)| (name.as_str(), *count))
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// Begins a family.
    fn family(&mut self, name: &str) {
        let mut known = FAMILIES.lines().filter_map(|line| line.split_once(' '));
        let (_, meaning) = known.find(|(known, _)| *known == name).unwrap_or_default();
        let (kind, help) = meaning.split_once(' ').unwrap_or_default();
        let _ = writeln!(
            self.0,
            "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}"
        );
    }

    /// Writes a family with one sample.
    fn value(&mut self, name: &str, value: impl Display) {
        self.family(name);
        self.sample(name, &[], value);
    }

    /// Writes a family with a sample for each value of a label.
    fn by<'v, V: Display>(
        &mut self,
        name: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, V)>,
    ) {
        self.family(name);
        for (text, value) in values {
            self.sample(name, &[(label, text)], value);
        }
    }

    /// The same for each list.
    fn of_lists(
        &mut self,
        name: &str,
        lists: &[List],
        label: &str,
        values: impl Fn(&List) -> Vec<(&str, u64)>,
    ) {
        self.family(name);
        for list in lists {
            for (text, value) in values(list) {
                self.sample(name, &[("list", &list.name), (label, text)], value);
            }
        }
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "{PREFIX}{name}");
        for (number, (label, text)) in labels.iter().enumerate() {
            let open = if number == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.sample("x", &[("a", "1\"\\\n"), ("b", "")], 2);
        let expected = "blocklist_milter_x{a=\"1\\\"\\\\\\n\",b=\"\"} 2\n";
        assert_eq!(text.0, expected);
    }
}
