//! Shows the report and the log on a terminal.

use std::fmt::{self, Display, Formatter};

use super::log::{Log, Logged};
use super::report::{List, Report};
use super::words::{
    GROUPS, action, approximate, facts, freshness, grouped, groups, last_day, listed, recent,
    sentence,
};
use crate::paint::{Painted, wrapped};
use crate::snapshot::{Decision, Health, Who};
use blocklist_compile::console::shortened;
use blocklist_filter::base::clock::local;

/// Width of the labels at the left.
const LABEL: usize = 13;
/// Width of a list's name.
const NAME: usize = 22;

impl<T> Painted<'_, T> {
    fn labelled(&self, label: &str, text: &str) -> String {
        wrapped(&format!("{label:LABEL$}"), LABEL, text, self.1.columns) + "\n"
    }

    /// Returns lines that somebody should read first.
    fn attention(&self, is_critical: bool, text: &str) -> String {
        let lines = wrapped("", 4, text, self.1.columns);
        let paint = |line| match is_critical {
            true => self.1.alarm(line) + "\n",
            false => self.1.bold(line) + "\n",
        };
        lines.lines().map(paint).collect()
    }
}

impl Display for Painted<'_, Report> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(report, paint) = self;
        let is_critical = report.health == Health::Critical;
        f.write_str(&self.attention(is_critical, &sentence(report)))?;
        let (health, up) = (report.health.name(), approximate(report.uptime_s));
        let (version, process) = (&report.version, report.process);
        writeln!(
            f,
            "blocklist-milter {version}: {health}, up {up}, process {process}"
        )?;
        for problem in &report.problems {
            let text = format!("{}: {}", problem.severity.name(), problem.text);
            f.write_str(&self.attention(problem.severity == Health::Critical, &text))?;
        }
        for line in &report.possibly_innocent {
            f.write_str(&self.labelled("innocent?", line))?;
        }
        let heading = row(["list", "action", "entries", "hits, 24 h", "since start"]);
        writeln!(f, "\n{}", paint.bold(&heading))?;
        for list in &report.lists {
            f.write_str(&lines(list))?;
        }
        let day = GROUPS.iter().zip(groups(&report.minutes));
        let day = day.map(|(group, count)| format!("{} {group}", grouped(count)));
        let day = day.collect::<Vec<_>>().join("; ") + ", " + &last_day(report);
        write!(f, "\n{}", self.labelled("messages", &day))?;
        for (heading, lines, counts) in facts(report) {
            let text = match lines.is_empty() {
                true => listed(&counts),
                false => lines.join("; "),
            };
            if !text.is_empty() {
                f.write_str(&self.labelled(&heading.to_lowercase(), &text))?;
            }
        }
        for Logged { decision, .. } in &report.decisions {
            let when = recent(decision.time_s, report.time_s);
            let text = format!("{when} {}{}", decision.action, about(decision));
            f.write_str(&self.labelled("decided", &text))?;
        }
        Ok(())
    }
}

/// One line a decision, the newest last.
impl Display for Painted<'_, Log> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(log, paint) = self;
        for Logged { decision, .. } in log.decisions.iter().rev() {
            let when = local(decision.time_s, "%F %H:%M:%S %Z");
            let action = paint.verdict(&decision.action, 9);
            writeln!(f, "{} {action}{}", paint.dim(&when), about(decision))?;
        }
        Ok(())
    }
}

/// Returns whose mail was decided and why, with a blank before each part.
fn about(decision: &Decision) -> String {
    let door = match &*decision.door {
        "milter" => String::new(),
        door => door.to_owned(),
    };
    let Who {
        sender,
        recipient,
        client,
        ..
    } = decision.who.clone().unwrap_or_default();
    let parts = [
        ("", &sender),
        ("to ", &recipient),
        ("from ", &client),
        ("door ", &door),
        ("list ", &decision.list),
        ("source ", &decision.source),
        ("", &decision.identity),
        ("", &decision.reason),
        ("case ", &decision.case),
    ];
    let parts = parts.iter().filter(|(_, value)| !value.is_empty());
    let parts = parts.map(|(before, value)| format!(" {before}{value}"));
    parts.collect()
}

/// Returns what is known of a list: its figures, and below them its age.
fn lines(list: &List) -> String {
    let filter = list.filter.as_ref();
    let entries = filter.map_or_else(|| "no filter".to_owned(), |filter| grouped(filter.entries));
    let hits = grouped(list.hits.values().sum());
    let (name, day) = (shortened(&list.name, NAME), grouped(list.hits_24h));
    let mut lines = row([&name, &action(list), &entries, &day, &hits]) + "\n";
    if let Some(filter) = filter {
        let (built, _) = freshness(filter);
        lines += &format!("    built {built}, generation {}\n", filter.generation);
    }
    lines
}

fn row([list, action, entries, day, start]: [&str; 5]) -> String {
    format!("{list:NAME$} {action:<17} {entries:>14} {day:>11} {start:>12}")
}
