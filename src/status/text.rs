//! Shows the report on a terminal with 80 columns.

use std::fmt::{self, Display, Formatter};

use super::log::Logged;
use super::report::Report;
use super::words::{
    VerdictGroup, action, approximate, at_most, freshness, grouped, largest, last_day, operation,
    recent, sentence,
};

const COLUMNS: usize = 80;
/// Width of the labels at the left.
const LABEL: usize = 13;
/// Width of a list's name.
const NAME: usize = 22;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        wrapped(f, "", &sentence(self))?;
        writeln!(
            f,
            "blocklist-milter {}: {}, up {}, process {}",
            self.version,
            self.health.name(),
            approximate(self.uptime_s),
            self.process
        )?;
        for problem in &self.problems {
            let text = format!("{}: {}", problem.severity.name(), problem.text);
            wrapped(f, "", &text)?;
        }
        for line in &self.possibly_innocent {
            wrapped(f, "innocent?", line)?;
        }
        writeln!(
            f,
            "\n{:NAME$} {:<17} {:>14} {:>11} {:>12}",
            "list", "action", "entries", "hits, 24 h", "since start"
        )?;
        for list in &self.lists {
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
        let messages = &self.messages;
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
                    grouped(kind.count(self.minutes.iter())),
                    kind.name()
                )
            })
            .collect();
        let day = day.join("; ");
        wrapped(f, "messages", &format!("{day}, {}", last_day(self)))?;
        let total = grouped(messages.total);
        if messages.total == 0 {
            wrapped(f, "since start", "no messages")?;
        } else {
            let verdicts = by(&messages.verdicts);
            wrapped(f, "since start", &format!("{total}: {verdicts}"))?;
            wrapped(f, "reasons", &by(&messages.reasons))?;
        }
        let durations = &self.durations;
        if durations.count > 0 {
            let median = at_most(durations.median_s, durations.count);
            let slow = at_most(durations.p99_s, durations.count);
            wrapped(
                f,
                "time",
                &format!("half of the messages {median}, 99% {slow}"),
            )?;
        }
        for (label, lines) in operation(self) {
            wrapped(f, &label.to_lowercase(), &lines.join("; "))?;
        }
        for Logged { decision: one, .. } in &self.decisions {
            let who = one.who.as_ref().map_or("", |who| &who.sender);
            let text = format!(
                "{} UTC {} {who} ({}, list {}, case {})",
                recent(one.time_s, self.time_s),
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

/// Shortens a name to its column.
fn cut(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME - 1).collect();
    format!("{start}…")
}

/// Writes words in lines that fit, with a label before the first; a longer word gets its own line.
fn wrapped(f: &mut Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    let indent = if label.is_empty() { 4 } else { LABEL };
    let mut line = if label.is_empty() {
        String::new()
    } else {
        format!("{label:LABEL$}")
    };
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(f, "{line}")?;
            line = " ".repeat(indent);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    writeln!(f, "{}", line.trim_end())
}
