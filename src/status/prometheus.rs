//! The report in the text format 0.0.4 of Prometheus
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Names and units follow its conventions: seconds, bytes, `_total` for counters. No label contains
//! an address or anything else that a sender can choose, so that only the configuration determines
//! the number of series.

use std::fmt::{Display, Write as _};

use super::history::Counts;
use super::report::{Filter, List, Report};
use crate::snapshot::Health;

pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Name, type, meaning, and how the samples of a report are written.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Report, &mut Samples<'_>),
);

#[rustfmt::skip]
const METRICS: &[Metric] = &[
    ("build_info", "gauge", "Version of the program.", |r, out| out.by("version", [(&*r.version, 1)])),
    ("start_time_seconds", "gauge", "When the program was started, in Unix time.", |r, out| out.one(r.time_s.saturating_sub(r.uptime_s))),
    ("problems", "gauge", "Current problems; the status page names them.", |r, out| out.by("severity", problems(r))),
    ("messages_total", "counter", "Messages decided, by action taken; none: the door cannot carry it out.", |r, out| out.by("verdict", each(&r.messages.verdicts))),
    ("messages_by_reason_total", "counter", "Messages decided, by reason as in the log.", |r, out| out.by("reason", each(&r.messages.reasons))),
    ("messages_by_door_total", "counter", "Messages decided, by the protocol in which the mail server asked.", |r, out| out.by("door", each(&r.messages.doors))),
    ("messages_truncated_total", "counter", "Messages that named more senders than are looked up.", |r, out| out.one(r.messages.truncated)),
    ("recipients_deferred_total", "counter", "Recipients asked to come in a transaction of their own.", |r, out| out.one(r.messages.recipients_deferred)),
    ("circuit_breaker", "gauge", "1 while refusals are turned into tags because there are too many.", |r, out| out.one(u8::from(r.messages.circuit_breaker))),
    ("message_duration_seconds", "histogram", "Time to decide a message, including disk waits.", durations),
    ("door_open", "gauge", "0 while a socket of listen is not open.", |r, out| out.by("listen", r.doors.iter().map(|door| (&*door.name, u8::from(door.closed.is_none()))))),
    ("connections", "gauge", "Connections of mail servers at the moment.", |r, out| out.one(r.connections.open)),
    ("connections_total", "counter", "Connections of mail servers.", |r, out| out.one(r.connections.total)),
    ("protocol_errors_total", "counter", "Connections that broke the protocol of their socket; of the doors beside milter: kind request.", |r, out| out.by("kind", each(&r.connections.protocol_errors))),
    ("connections_cut_total", "counter", "Connections not closed by the mail server.", |r, out| out.by("reason", each(&r.connections.cut))),
    ("connection_limit_waits_total", "counter", "Times that a mail server had to wait because limits.connections was reached, and each further minute of it.", |r, out| out.one(r.connections.limit_waits)),
    ("list_entries", "gauge", "Entries of a list.", |r, out| out.filters(r, |filter| filter.entries)),
    ("list_generation", "gauge", "Rises with each build of the list.", |r, out| out.filters(r, |filter| filter.generation)),
    ("list_built_timestamp_seconds", "gauge", "When the filter of the list was built, in Unix time.", |r, out| out.filters(r, |filter| filter.built_s)),
    ("list_unchanged_seconds", "gauge", "Time since the list was built with its present entries.", |r, out| out.filters(r, |filter| filter.freshness.unchanged_s)),
    ("list_available", "gauge", "0 while the list has no filter that can be used.", |r, out| out.lists(r, |list| list.filter.is_some().into())),
    ("list_stale", "gauge", "1 while the list is older than this limit of the configuration.", |r, out| out.lists_by(r, "limit", |list| {
        vec![("max_age", is(list, |filter| filter.freshness.too_old)), ("max_unchanged", is(list, |filter| filter.freshness.unchanged_too_long))]
    })),
    ("list_last_good_copy", "gauge", "1 while the last good copy of the filter is in effect, because the file is damaged or gone.", |r, out| out.lists(r, |list| is(list, |filter| filter.freshness.last_good_copy))),
    ("list_messages_total", "counter", "Messages that a list decided.", |r, out| out.lists_by(r, "verdict", |list| each(&list.messages))),
    ("list_hits_total", "counter", "Senders that a list names.", |r, out| out.lists_by(r, "identity", |list| each(&list.hits))),
    ("list_source_hits_total", "counter", "The same by the source in the list.", |r, out| out.lists_by(r, "source", |list| each(&list.sources))),
    ("list_whitelisted_hits_total", "counter", "Hits that the whitelist cleared.", |r, out| out.lists(r, |list| list.whitelisted)),
    ("list_undecided_senders_total", "counter", "Senders that could not be looked up in the list.", |r, out| out.lists(r, |list| list.undecided)),
    ("list_false_positives_total", "counter", "Bloom filter matches that the records did not confirm.", |r, out| out.lists(r, |list| list.false_positives)),
    ("list_read_errors_total", "counter", "Look-ups that failed.", |r, out| out.lists(r, |list| list.read_errors)),
    ("reloads_total", "counter", "Reloads of configuration, filters and whitelists.", |r, out| out.by("result", [("good", r.reloads.good), ("refused", r.reloads.refused)])),
    ("last_reload_successful", "gauge", "0 while a file is faulty, and what it said before is in effect.", |r, out| out.one(u8::from(!r.reloads.is_old))),
    ("whitelist_entries", "gauge", "Entries of the whitelist.", |r, out| out.one(r.whitelist_entries)),
    ("log_lines_lost_total", "counter", "Log lines that could not be written.", |r, out| out.one(r.log_lines_lost)),
];

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    for (name, kind, help, write) in METRICS {
        let name = &format!("blocklist_milter_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let mut samples = Samples { name, text };
        write(report, &mut samples);
        text = samples.text;
    }
    text
}

fn problems(report: &Report) -> [(&'static str, usize); 2] {
    [Health::Warning, Health::Critical].map(|severity| {
        let problems = report.problems.iter();
        let count = problems.filter(|problem| problem.severity == severity);
        (severity.name(), count.count())
    })
}

fn durations(report: &Report, out: &mut Samples<'_>) {
    let durations = &report.durations;
    for (bound, count) in &durations.at_most {
        out.sample("_bucket", &[("le", &bound.to_string())], count);
    }
    out.sample("_bucket", &[("le", "+Inf")], durations.count);
    out.sample("_sum", &[], durations.sum_s);
    out.sample("_count", &[], durations.count);
}

fn each(counts: &Counts) -> Vec<(&str, u64)> {
    let counts = counts.iter();
    counts.map(|(name, count)| (&**name, *count)).collect()
}

fn is(list: &List, condition: fn(&Filter) -> bool) -> u64 {
    list.filter.as_ref().is_some_and(condition).into()
}

/// The samples of one metric, behind those of the metrics before it.
struct Samples<'a> {
    name: &'a str,
    text: String,
}

impl Samples<'_> {
    fn one(&mut self, value: impl Display) {
        self.sample("", &[], value);
    }

    fn by<'v, V: Display>(&mut self, label: &str, values: impl IntoIterator<Item = (&'v str, V)>) {
        for (text, value) in values {
            self.sample("", &[(label, text)], value);
        }
    }

    fn lists(&mut self, report: &Report, value: fn(&List) -> u64) {
        self.by(
            "list",
            report.lists.iter().map(|list| (&*list.name, value(list))),
        );
    }

    /// Writes a sample for each list that has a filter.
    fn filters(&mut self, report: &Report, value: fn(&Filter) -> u64) {
        let lists = report.lists.iter();
        let filters = lists.filter_map(|list| Some((&*list.name, value(list.filter.as_ref()?))));
        self.by("list", filters);
    }

    fn lists_by(&mut self, report: &Report, label: &str, values: fn(&List) -> Vec<(&str, u64)>) {
        for list in &report.lists {
            for (text, value) in values(list) {
                self.sample("", &[("list", &list.name), (label, text)], value);
            }
        }
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = (labels.iter())
            .map(|(label, text)| {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                format!("{label}=\"{}\"", text.replace('\n', "\\n"))
            })
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text, "{}{suffix}{labels} {value}", self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut samples = Samples {
            name: "x",
            text: String::new(),
        };
        samples.sample("", &[("a", "1\"\\\n"), ("b", "")], 2);
        assert_eq!(samples.text, "x{a=\"1\\\"\\\\\\n\",b=\"\"} 2\n");
    }
}
