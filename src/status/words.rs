//! Formats numbers and times of a report, for the page and the terminal.

use super::counts::Counts;
use super::history::{DAY_S, Minute};
use super::report::{Filter, List, Report};
use super::times::{MINUTE, time};
pub(super) use crate::base::numbers::{counted, grouped};
use crate::snapshot::MAIL_IS_CHECKED;
pub(super) use crate::snapshot::approximate;

/// The actions on messages in three groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerdictGroup {
    Accepted,
    /// Tagged, held or discarded.
    Marked,
    Refused,
}

impl VerdictGroup {
    pub(super) const ALL: [Self; 3] = [Self::Accepted, Self::Marked, Self::Refused];

    pub(super) fn of(verdict: &str) -> Self {
        match verdict {
            "reject" | "tempfail" => Self::Refused,
            "tag" | "quarantine" | "discard" => Self::Marked,
            // "log" changes nothing.
            _ => Self::Accepted,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Marked => "tagged, held or discarded",
            Self::Refused => "refused",
        }
    }

    /// Returns the number of messages in this group in these minutes.
    pub(super) fn count<'a>(self, minutes: impl Iterator<Item = &'a Minute>) -> u64 {
        let verdicts = minutes.flat_map(|minute| &minute.verdicts);
        let counts = verdicts.filter(|(verdict, _)| Self::of(verdict) == self);
        counts.map(|(_, count)| count).sum()
    }
}

/// Formats a time of today as hour and minute, other times with their date; with the zone.
pub(super) fn recent(seconds: u64, now_s: u64) -> String {
    let day = |at| time(at, "%F");
    let is_today = day(seconds) == day(now_s);
    time(seconds, if is_today { "%H:%M %Z" } else { MINUTE })
}

/// Returns the period of the counts of the last day, which begins with the first reading at the
/// earliest.
pub(super) fn last_day(report: &Report) -> String {
    let first_s = report
        .periods
        .first()
        .map_or(report.time_s, |first| first.0);
    let counted_s = report.time_s.saturating_sub(first_s);
    match counted_s {
        0..60 => "since the start".to_owned(),
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
    let refused = VerdictGroup::Refused;
    let of = |steps: &[Minute]| -> (u64, u64) {
        let all = VerdictGroup::ALL
            .iter()
            .map(|kind| kind.count(steps.iter()))
            .sum();
        (refused.count(steps.iter()), all)
    };
    let (now, all) = of(&report.minutes);
    let (from_s, to_s) = (
        report.time_s.saturating_sub(2 * DAY_S),
        report.time_s.saturating_sub(DAY_S),
    );
    let before: Vec<Minute> = (report.hours.iter())
        .filter(|hour| (from_s..to_s).contains(&hour.time_s))
        .cloned()
        .collect();
    let mut text = format!(
        "{works}. Refused {} of {} {}",
        grouped(now),
        counted(all, "message", "messages"),
        last_day(report)
    );
    if !before.is_empty() {
        text += &format!(" ({} in the 24 h before)", grouped(of(&before).0));
    }
    text + "."
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
pub(super) fn at_most(bound: Option<f64>, count: u64) -> String {
    match bound {
        Some(bound) => format!("up to {}", duration(bound)),
        None if count == 0 => "none yet".to_owned(),
        None => "more than 2.5 s".to_owned(),
    }
}

/// Returns the age of a list in words, and whether it is acceptable.
pub(super) fn freshness(filter: &Filter) -> (String, bool) {
    let built = format!("{} ago", approximate(filter.age_s));
    if filter.too_old {
        (format!("{built}, too old"), false)
    } else if filter.unchanged_too_long {
        let unchanged = approximate(filter.unchanged_s);
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

/// Returns what the page and the terminal show alike: headings with their lines.
pub(super) fn operation(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    let connections = &report.connections;
    let (open, total) = (grouped(connections.open), grouped(connections.total));
    let mut of_connections = vec![format!("{open} open, {total} since the start")];
    let ends = [
        ("protocol error", &connections.protocol_errors),
        ("cut:", &connections.cut),
    ];
    for (what, counts) in ends {
        let rows = largest(counts).into_iter();
        of_connections
            .extend(rows.map(|(name, count)| format!("{what} {name}: {}", grouped(count))));
    }
    let reloads = &report.reloads;
    let at = |seconds: Option<u64>| {
        seconds.map_or(String::new(), |at| format!(", last {}", time(at, MINUTE)))
    };
    let refused = grouped(reloads.refused);
    let mut of_reloads = vec![
        format!("{} good{}", grouped(reloads.good), at(reloads.last_good_s)),
        format!("{refused} refused{}", at(reloads.last_refused_s)),
    ];
    let reason = reloads.last_refused_reason.iter();
    of_reloads.extend(reason.map(|reason| format!("last refusal: {}", reason.replace('\n', "; "))));
    let mut all = vec![
        ("Connections", of_connections),
        ("Reloads", of_reloads),
        (
            "Whitelist",
            vec![counted(report.whitelist_entries, "entry", "entries")],
        ),
    ];
    if report.log_lines_lost > 0 {
        all.push((
            "Log",
            vec![counted(report.log_lines_lost, "line lost", "lines lost")],
        ));
    }
    all
}

/// Returns the counts that are not zero, the largest first.
pub(super) fn largest(counts: &Counts) -> Vec<(&str, u64)> {
    let mut rows: Vec<_> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    rows
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
        assert_eq!(recent(now - 86_400, now), time(now - 86_400, MINUTE));
        assert_eq!(recent(now, now), time(now, "%H:%M %Z"));
    }
}
