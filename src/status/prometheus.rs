//! The report in the text format 0.0.4 of Prometheus
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Names and units follow its conventions: seconds, bytes, `_total` for counters. No label contains
//! an address or anything else that a sender can choose, so that only the configuration determines
//! the number of series.

use std::fmt::{Display, Write as _};

use super::counts::Counts;
use super::report::{List, Report};
use crate::snapshot::{Health, Problem};

/// The prefix of all names.
const PREFIX: &str = "blocklist_milter_";
/// Media type of the text.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns the report as text.
pub(super) fn render(report: &Report) -> String {
    let mut out = Text::default();
    out.gauge("build_info", "Version of the program.");
    out.sample(&[("version", &report.version)], 1);
    out.gauge(
        "start_time_seconds",
        "When the program was started, in Unix time.",
    );
    out.sample(&[], report.time_s.saturating_sub(report.uptime_s));
    out.gauge("problems", "Current problems; the status page names them.");
    for severity in [Health::Warning, Health::Critical] {
        let is_such = |problem: &&Problem| problem.severity == severity;
        let count = report.problems.iter().filter(is_such).count();
        out.sample(&[("severity", severity.name())], count);
    }
    messages(report, &mut out);
    connections(report, &mut out);
    lists(&report.lists, &mut out);
    let reloads = &report.reloads;
    out.counter(
        "reloads_total",
        "Reloads of configuration, filters and whitelists.",
    );
    out.sample(&[("result", "good")], reloads.good);
    out.sample(&[("result", "refused")], reloads.refused);
    out.gauge(
        "last_reload_successful",
        "0 while a file is faulty, and what it said before is in effect.",
    );
    out.sample(&[], u8::from(!reloads.is_old));
    out.gauge("whitelist_entries", "Entries of the whitelist.");
    out.sample(&[], report.whitelist_entries);
    out.counter(
        "log_lines_lost_total",
        "Log lines that could not be written.",
    );
    out.sample(&[], report.log_lines_lost);
    out.0
}

fn messages(report: &Report, out: &mut Text) {
    let messages = &report.messages;
    out.counter("messages_total", "Messages decided, by action taken.");
    out.samples(&[], "verdict", &messages.verdicts);
    out.counter(
        "messages_by_reason_total",
        "Messages decided, by reason as in the log.",
    );
    out.samples(&[], "reason", &messages.reasons);
    out.counter(
        "messages_truncated_total",
        "Messages that named more senders than are looked up.",
    );
    out.sample(&[], messages.truncated);
    out.counter(
        "recipients_deferred_total",
        "Recipients asked to come in a transaction of their own.",
    );
    out.sample(&[], messages.recipients_deferred);
    out.gauge(
        "circuit_breaker",
        "1 while refusals are turned into tags because there are too many.",
    );
    out.sample(&[], u8::from(messages.circuit_breaker));
    let name = "message_duration_seconds";
    out.family(
        name,
        "histogram",
        "Time to decide a message, including disk waits.",
    );
    for (bound, count) in &report.durations.at_most {
        out.named(
            "message_duration_seconds_bucket",
            &[("le", &bound.to_string())],
            count,
        );
    }
    let count = report.durations.count;
    out.named("message_duration_seconds_bucket", &[("le", "+Inf")], count);
    out.named("message_duration_seconds_sum", &[], report.durations.sum_s);
    out.named("message_duration_seconds_count", &[], count);
}

fn connections(report: &Report, out: &mut Text) {
    let connections = &report.connections;
    out.gauge("connections", "Connections of mail servers at the moment.");
    out.sample(&[], connections.open);
    out.counter("connections_total", "Connections of mail servers.");
    out.sample(&[], connections.total);
    out.counter(
        "protocol_errors_total",
        "Connections that broke the milter protocol.",
    );
    out.samples(&[], "kind", &connections.protocol_errors);
    out.counter(
        "connections_cut_total",
        "Connections not closed by the mail server.",
    );
    out.samples(&[], "reason", &connections.cut);
    out.counter(
        "connection_limit_waits_total",
        "Times that a mail server had to wait because limits.connections was reached, and each further minute of it.",
    );
    out.sample(&[], connections.limit_waits);
}

fn lists(lists: &[List], out: &mut Text) {
    /// Gets a value of a list's filter.
    type Value = fn(&super::report::Filter) -> u64;
    let of_filter: [(&str, &str, Value); 4] = [
        ("list_entries", "Entries of a list.", |filter| {
            filter.entries
        }),
        (
            "list_generation",
            "Rises with each build of the list.",
            |filter| filter.generation,
        ),
        (
            "list_built_timestamp_seconds",
            "When the filter of the list was built, in Unix time.",
            |filter| filter.built_s,
        ),
        (
            "list_unchanged_seconds",
            "Time since the list was built with its present entries.",
            |filter| filter.unchanged_s,
        ),
    ];
    for (name, help, value) in of_filter {
        out.gauge(name, help);
        for list in lists {
            if let Some(filter) = &list.filter {
                out.sample(&[("list", &list.name)], value(filter));
            }
        }
    }
    out.gauge(
        "list_available",
        "0 while the list has no filter that can be used.",
    );
    for list in lists {
        out.sample(&[("list", &list.name)], u8::from(list.filter.is_some()));
    }
    out.gauge(
        "list_stale",
        "1 while the list is older than this limit of the configuration.",
    );
    for list in lists {
        let filter = list.filter.as_ref();
        let limits = [
            ("max_age", filter.is_some_and(|filter| filter.too_old)),
            (
                "max_unchanged",
                filter.is_some_and(|filter| filter.unchanged_too_long),
            ),
        ];
        for (limit, is_stale) in limits {
            out.sample(
                &[("list", &list.name), ("limit", limit)],
                u8::from(is_stale),
            );
        }
    }
    out.gauge(
        "list_last_good_copy",
        "1 while the last good copy of the filter is in effect, because the file is damaged or gone.",
    );
    for list in lists {
        let is_copy = list
            .filter
            .as_ref()
            .is_some_and(|filter| filter.last_good_copy);
        out.sample(&[("list", &list.name)], u8::from(is_copy));
    }
    /// Gets the counts of a list by some property.
    type Values = fn(&List) -> &Counts;
    let by: [(&str, &str, &str, Values); 3] = [
        (
            "list_messages_total",
            "Messages that a list decided.",
            "verdict",
            |list| &list.messages,
        ),
        (
            "list_hits_total",
            "Senders that a list names.",
            "identity",
            |list| &list.hits,
        ),
        (
            "list_source_hits_total",
            "The same by the source in the list.",
            "source",
            |list| &list.sources,
        ),
    ];
    for (name, help, label, values) in by {
        out.counter(name, help);
        for list in lists {
            out.samples(&[("list", &list.name)], label, values(list));
        }
    }
    /// Gets a count of a list.
    type Count = fn(&List) -> u64;
    let counts: [(&str, &str, Count); 4] = [
        (
            "list_whitelisted_hits_total",
            "Hits that the whitelist cleared.",
            |list| list.whitelisted,
        ),
        (
            "list_undecided_senders_total",
            "Senders that could not be looked up in the list.",
            |list| list.undecided,
        ),
        (
            "list_false_positives_total",
            "Bloom filter matches that the records did not confirm.",
            |list| list.false_positives,
        ),
        ("list_read_errors_total", "Look-ups that failed.", |list| {
            list.read_errors
        }),
    ];
    for (name, help, count) in counts {
        out.counter(name, help);
        for list in lists {
            out.sample(&[("list", &list.name)], count(list));
        }
    }
}

/// The text, and the name of the current family.
#[derive(Default)]
struct Text(String, &'static str);

impl Text {
    fn gauge(&mut self, name: &'static str, help: &str) {
        self.family(name, "gauge", help);
    }

    fn counter(&mut self, name: &'static str, help: &str) {
        self.family(name, "counter", help);
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.1 = name;
        let _ = writeln!(
            self.0,
            "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}"
        );
    }

    /// Writes a sample of the current family.
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.named(self.1, labels, value);
    }

    /// Writes a sample of the current family for each count.
    fn samples(&mut self, labels: &[(&str, &str)], label: &str, counts: &Counts) {
        for (name, count) in counts {
            let labels: Vec<_> = labels
                .iter()
                .copied()
                .chain([(label, name.as_str())])
                .collect();
            self.sample(&labels, count);
        }
    }

    fn named(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
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
        text.gauge("x", "Help.");
        text.sample(&[("a", "1\"\\\n"), ("b", "")], 2);
        let expected = "# HELP blocklist_milter_x Help.\n# TYPE blocklist_milter_x gauge\n\
            blocklist_milter_x{a=\"1\\\"\\\\\\n\",b=\"\"} 2\n";
        assert_eq!(text.0, expected);
    }
}
