//! What the page and the terminal say alike about a report.

use super::history::{Counts, DAY_S, Minute};
use super::report::{Connections, Filter, List, Report};
use crate::metrics::Durations;
use crate::snapshot::{MAIL_IS_CHECKED, Reloads};
use blocklist_filter::base::clock::{MINUTE, local};
use blocklist_filter::base::numbers::most_first;
pub(super) use blocklist_filter::base::numbers::{counted, grouped};

/// The groups of what happens to messages.
pub(super) const GROUPS: [&str; 3] = ["accepted", "tagged, held or discarded", "refused"];

/// Counts the messages of these minutes in each group.
pub(super) fn groups<'a>(minutes: impl IntoIterator<Item = &'a Minute>) -> [u64; 3] {
    let [mut accepted, mut marked, mut refused] = [0; 3];
    for (verdict, count) in minutes.into_iter().flat_map(|minute| &minute.verdicts) {
        match verdict.as_str() {
            "reject" | "tempfail" => refused += count,
            "tag" | "quarantine" | "discard" => marked += count,
            // "log" and "none" change nothing.
            _ => accepted += count,
        }
    }
    [accepted, marked, refused]
}

/// Formats a time of today as hour and minute, other times with their date; with the zone.
pub(super) fn recent(seconds: u64, now_s: u64) -> String {
    let day = |at| local(at, "%F");
    let is_today = day(seconds) == day(now_s);
    local(seconds, if is_today { "%H:%M %Z" } else { MINUTE })
}

/// Returns the period of the counts of the last day, which begins with the first reading at the
/// earliest.
pub(super) fn last_day(report: &Report) -> String {
    let first_s = report.periods.first().map(|first| first.0);
    let counted_s = first_s.map_or(0, |first_s| report.time_s.saturating_sub(first_s));
    match counted_s {
        0..60 => "in the last minute".to_owned(),
        60..DAY_S => format!("in the last {}", approximate(counted_s)),
        _ => "in the last 24 h".to_owned(),
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Returns what matters most, besides problems: whether it works, and what it did.
pub(super) fn sentence(report: &Report) -> String {
    let works = match report.mail.as_str() {
        MAIL_IS_CHECKED => "Working".to_owned(),
        mail => capitalized(mail),
    };
    let counts @ [.., refused] = groups(&report.minutes);
    let mut text = format!(
        "{works}. Refused {} of {} {}",
        grouped(refused),
        counted(counts.iter().sum(), "message", "messages"),
        last_day(report)
    );
    let day_before = |hour: &&Minute| {
        let age_s = report.time_s.saturating_sub(hour.time_s);
        (DAY_S + 1..=2 * DAY_S).contains(&age_s)
    };
    let mut before = report.hours.iter().filter(day_before).peekable();
    if before.peek().is_some() {
        let [.., refused] = groups(before);
        text += &format!(" ({} in the 24 h before)", grouped(refused));
    }
    text + "."
}

/// A time in two units at most, such as `2 d 4 h`.
pub(super) fn approximate(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (1..=9, hours, _) => format!("{days} d {} h", hours % 24),
        (days, _, _) => format!("{days} d"),
    }
}

/// Formats a duration: `50 µs`, `2.5 ms`.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{} ms", (seconds * 1e4).round() / 10.0)
    } else {
        format!("{} s", (seconds * 10.0).round() / 10.0)
    }
}

/// Formats an upper bound of durations: `up to 50 µs`.
fn at_most(bound: Option<f64>) -> String {
    let longer = || "more than 2.5 s".to_owned();
    bound.map_or_else(longer, |bound| format!("up to {}", duration(bound)))
}

/// Returns the age of a list in words, and whether it is acceptable.
pub(super) fn freshness(filter: &Filter) -> (String, bool) {
    let built = format!("{} ago", approximate(filter.freshness.age_s));
    if filter.freshness.too_old {
        (format!("{built}, too old"), false)
    } else if filter.freshness.unchanged_too_long {
        let unchanged = approximate(filter.freshness.unchanged_s);
        (format!("{built}, the same entries for {unchanged}"), false)
    } else {
        (built, true)
    }
}

/// Returns the action of a list: `reject`, `tag (dry run)`.
pub(super) fn action(list: &List) -> String {
    let dry_run = if list.dry_run { " (dry run)" } else { "" };
    format!("{}{dry_run}", list.action)
}

/// A heading, which is in lower case on a terminal; sentences; and counts by name, which a terminal
/// shows only if there are no sentences.
type Fact = (&'static str, Vec<String>, Vec<(String, u64)>);

/// Returns what is known about messages, and about the program, in the order in which it is shown.
pub(super) fn facts(report: &Report) -> Vec<Fact> {
    let messages = &report.messages;
    let verdicts = listed(&largest(&messages.verdicts));
    let since_start = match messages.total {
        0 => "no messages".to_owned(),
        total => format!("{}: {verdicts}", grouped(total)),
    };
    let whitelist = counted(report.whitelist_entries, "entry", "entries");
    let (spent, bars) = durations(&report.durations);
    let mut facts = vec![
        ("Since start", vec![since_start], vec![]),
        ("Reasons", vec![], largest(&messages.reasons)),
        ("Time", spent, bars),
        ("Connections", connections(&report.connections), vec![]),
        ("Reloads", reloads(&report.reloads), vec![]),
        ("Whitelist", vec![whitelist], vec![]),
    ];
    if !report.beyond_doors.is_empty() {
        facts.push(("Doors", report.beyond_doors.clone(), vec![]));
    }
    if report.log_lines_lost > 0 {
        let lost = counted(report.log_lines_lost, "line lost", "lines lost");
        facts.push(("Log", vec![lost], vec![]));
    }
    facts
}

/// Returns how long messages took: in a sentence, and the messages by time from the first bar to the last.
fn durations(durations: &Durations) -> (Vec<String>, Vec<(String, u64)>) {
    let mut lines = Vec::new();
    if durations.count > 0 {
        let median = at_most(durations.median_s);
        let slow = at_most(durations.p99_s);
        lines.push(format!("half of the messages {median}, 99% {slow}"));
    }
    let mut counts = Vec::new();
    let mut before = 0;
    for (bound, count) in &durations.at_most {
        counts.push((at_most(Some(*bound)), count - before));
        before = *count;
    }
    counts.push(("longer".to_owned(), durations.count - before));
    let is_used = |(_, count): &(String, u64)| *count > 0;
    counts.truncate(counts.iter().rposition(is_used).map_or(0, |last| last + 1));
    counts.drain(..counts.iter().position(is_used).unwrap_or(0));
    (lines, counts)
}

fn connections(connections: &Connections) -> Vec<String> {
    let (open, total) = (grouped(connections.open), grouped(connections.total));
    let mut lines = vec![format!("{open} open, {total} since the start")];
    for (what, counts) in [
        ("protocol error", &connections.protocol_errors),
        ("cut:", &connections.cut),
    ] {
        let rows = largest(counts).into_iter();
        lines.extend(rows.map(|(name, count)| format!("{what} {name}: {}", grouped(count))));
    }
    lines
}

fn reloads(reloads: &Reloads) -> Vec<String> {
    let at = |seconds: Option<u64>| match seconds {
        Some(at) => format!(", last {}", local(at, MINUTE)),
        None => String::new(),
    };
    let refused = grouped(reloads.refused);
    let mut lines = vec![
        format!("{} good{}", grouped(reloads.good), at(reloads.last_good_s)),
        format!("{refused} refused{}", at(reloads.last_refused_s)),
    ];
    let reason = reloads.last_refused_reason.iter();
    lines.extend(reason.map(|reason| format!("last refusal: {}", reason.replace('\n', "; "))));
    lines
}

/// Shows counts as `reject 3, tag 1`.
pub(super) fn listed(counts: &[(String, u64)]) -> String {
    let counts = counts.iter();
    let counts = counts.map(|(name, count)| format!("{name} {}", grouped(*count)));
    counts.collect::<Vec<_>>().join(", ")
}

/// Returns the counts that are not zero, the largest first.
pub(super) fn largest(counts: &Counts) -> Vec<(String, u64)> {
    let counts = counts.iter().filter(|(_, count)| **count > 0);
    most_first(counts.map(|(name, count)| (name.clone(), *count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a first start, "none in 24 hours" would be wrong; and a time without a date may be of
    /// last week.
    #[test]
    fn it_is_said_since_when_is_counted_and_of_which_day_a_time_is() {
        let up = |counted_s: u64| {
            last_day(&Report {
                time_s: 1_795_310_000,
                periods: vec![(1_795_310_000 - counted_s, 1_795_310_000)],
                ..Report::default()
            })
        };
        assert_eq!(up(600), "in the last 10 min");
        assert_eq!(up(86_400), "in the last 24 h");
        let now = 1_795_310_000;
        // In whatever zone this machine is.
        assert_eq!(recent(now - 86_400, now), local(now - 86_400, MINUTE));
        assert_eq!(recent(now, now), local(now, "%H:%M %Z"));
    }
}
