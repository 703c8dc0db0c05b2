//! Shows the report on a terminal.

use std::fmt::{self, Display, Formatter};

use super::log::{Log, Logged};
use super::report::Report;
use super::times::time;
use super::words::{
    VerdictGroup, action, approximate, at_most, freshness, grouped, largest, last_day, operation,
    recent, sentence,
};
use crate::base::paint::Paint;
use crate::snapshot::{Health, Who};

/// Width of the labels at the left.
const LABEL: usize = 13;
/// Width of a list's name.
const NAME: usize = 22;

/// Something for a terminal, with its colours and width.
pub struct Painted<'a, T>(pub &'a T, pub Paint);

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Painted(self, Paint::default()).fmt(f)
    }
}

impl Display for Painted<'_, Report> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(report, paint) = *self;
        let wrapped = |f: &mut Formatter<'_>, label: &str, text: &str| {
            wrapped(f, paint.columns, label, text, str::to_owned)
        };
        let attention = |f: &mut Formatter<'_>, is_wrong: bool, text: &str| {
            self::wrapped(f, paint.columns, "", text, |line| match is_wrong {
                true => paint.alarm(line),
                false => paint.bold(line),
            })
        };
        attention(f, report.health == Health::Critical, &sentence(report))?;
        writeln!(
            f,
            "blocklist-milter {}: {}, up {}, process {}",
            report.version,
            report.health.name(),
            approximate(report.uptime_s),
            report.process
        )?;
        for problem in &report.problems {
            let text = format!("{}: {}", problem.severity.name(), problem.text);
            attention(f, problem.severity == Health::Critical, &text)?;
        }
        for line in &report.possibly_innocent {
            wrapped(f, "innocent?", line)?;
        }
        let heading = format!(
            "{:NAME$} {:<17} {:>14} {:>11} {:>12}",
            "list", "action", "entries", "hits, 24 h", "since start"
        );
        writeln!(f, "\n{}", paint.bold(&heading))?;
        for list in &report.lists {
            let entries = list.filter.as_ref();
            let entries =
                entries.map_or_else(|| "no filter".to_owned(), |filter| grouped(filter.entries));
            writeln!(
                f,
                "{:NAME$} {:<17} {entries:>14} {:>11} {:>12}",
                cut(&list.name),
                action(list),
                grouped(list.hits_24h),
                grouped(list.hits.values().sum())
            )?;
            if let Some(filter) = &list.filter {
                let (built, _) = freshness(filter);
                writeln!(f, "    built {built}, generation {}", filter.generation)?;
            }
        }
        writeln!(f)?;
        let messages = &report.messages;
        let by = |counts| {
            let rows = largest(counts).into_iter();
            let rows: Vec<_> = rows
                .map(|(name, count)| format!("{name} {}", grouped(count)))
                .collect();
            rows.join(", ")
        };
        let day: Vec<String> = VerdictGroup::ALL
            .iter()
            .map(|kind| {
                format!(
                    "{} {}",
                    grouped(kind.count(report.minutes.iter())),
                    kind.name()
                )
            })
            .collect();
        let day = day.join("; ");
        wrapped(f, "messages", &format!("{day}, {}", last_day(report)))?;
        let total = grouped(messages.total);
        if messages.total == 0 {
            wrapped(f, "since start", "no messages")?;
        } else {
            let verdicts = by(&messages.verdicts);
            wrapped(f, "since start", &format!("{total}: {verdicts}"))?;
            wrapped(f, "reasons", &by(&messages.reasons))?;
        }
        let durations = &report.durations;
        if durations.count > 0 {
            let median = at_most(durations.median_s, durations.count);
            let slow = at_most(durations.p99_s, durations.count);
            wrapped(
                f,
                "time",
                &format!("half of the messages {median}, 99% {slow}"),
            )?;
        }
        for (label, lines) in operation(report) {
            wrapped(f, &label.to_lowercase(), &lines.join("; "))?;
        }
        for Logged { decision: one, .. } in &report.decisions {
            let who = one.who.as_ref().map_or("", |who| &who.sender);
            let text = format!(
                "{} {} {who} ({}, list {}, case {})",
                recent(one.time_s, report.time_s),
                one.action,
                one.identity,
                one.list,
                one.case
            );
            wrapped(f, "decided", &text)?;
        }
        Ok(())
    }
}

impl Display for Log {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Painted(self, Paint::default()).fmt(f)
    }
}

/// One line a decision, the newest last.
impl Display for Painted<'_, Log> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(log, paint) = *self;
        for Logged { decision: one, .. } in log.decisions.iter().rev() {
            write!(
                f,
                "{} {}",
                paint.dim(&time(one.time_s, "%F %H:%M:%S %Z").to_string()),
                paint.verdict(&one.action, 9)
            )?;
            let Who {
                sender,
                recipient,
                client,
                ..
            } = one.who.clone().unwrap_or_default();
            for (before, value) in [
                ("", &sender),
                ("to ", &recipient),
                ("from ", &client),
                ("list ", &one.list),
                ("source ", &one.source),
                ("", &one.identity),
                ("", &one.reason),
                ("case ", &one.case),
            ] {
                if !value.is_empty() {
                    write!(f, " {before}{value}")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Shortens a name to its column.
fn cut(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME - 1).collect();
    format!("{start}…")
}

/// Writes words in lines that fit, with a label before the first; a longer word gets its own line.
fn wrapped(
    f: &mut Formatter<'_>,
    columns: usize,
    label: &str,
    text: &str,
    paint: impl Fn(&str) -> String,
) -> fmt::Result {
    let indent = if label.is_empty() { 4 } else { LABEL };
    let mut line = if label.is_empty() {
        String::new()
    } else {
        format!("{label:LABEL$}")
    };
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > columns {
            writeln!(f, "{}", paint(&line))?;
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    writeln!(f, "{}", paint(line.trim_end()))
}
