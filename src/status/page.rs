//! The status page: HTML and inline SVG, without scripts and external resources.
//!
//! It follows the reader's setting of light or dark, and fits a phone: there, tables become lists.
//! The chart contains no text, because text would shrink with it.

use std::fmt::{self, Display, Formatter};

use super::chart;
use super::explanation;
use super::html::{Text, begin, end};
use super::log::{Search, form, table};
use super::report::Report;
use super::words::{
    VerdictGroup, action, approximate, at_most, duration, freshness, grouped, largest, last_day,
    operation, recent, sentence,
};

/// Most sources shown of a list; those with most hits.
const SOURCES_MAX: usize = 10;

/// A report as an HTML page.
pub(super) struct Html<'a>(pub(super) &'a Report);

impl Display for Html<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let health = report.health.name();
        begin(f, health)?;
        write!(
            f,
            "<header><h1>blocklist-milter</h1><span class=\"pill {health}\" id=\"health\">{health}</span>\
             <span class=\"dim\">{} · {} · up {} · process {}</span></header><main>",
            Text(&report.mail),
            Text(&report.version),
            approximate(report.uptime_s),
            report.process
        )?;
        write!(
            f,
            "<p class=\"first\" id=\"sentence\">{}</p>",
            Text(&sentence(report))
        )?;
        for problem in &report.problems {
            let severity = problem.severity.name();
            write!(
                f,
                "<p class=\"problem {severity}\">{}</p>",
                Text(&problem.text)
            )?;
        }
        innocent(f, report)?;
        tiles(f, report)?;
        chart::day(f, report)?;
        chart::month(f, report)?;
        lists(f, report)?;
        decisions(f, report)?;
        complaint(f)?;
        hits(f, report)?;
        write!(f, "<div class=\"two\">")?;
        write!(
            f,
            "<section class=\"card\"><h2>Reasons</h2><p class=\"dim\">All messages since the start, with the reasons of the log.</p>"
        )?;
        bars(f, &largest(&report.messages.reasons), "reason")?;
        write!(f, "</section>")?;
        durations(f, report)?;
        write!(f, "</div><div class=\"two\">")?;
        for (heading, lines) in operation(report) {
            write!(f, "<section class=\"card\"><h2>{heading}</h2>")?;
            for line in lines {
                write!(f, "<p>{}</p>", Text(&line))?;
            }
            write!(f, "</section>")?;
        }
        write!(f, "</div></main>")?;
        end(f, report.time_s, "/", "/status.json")
    }
}

fn tiles(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    write!(f, "<section class=\"tiles\">")?;
    let mut tile = |id: &str, value: &str, label: &str| {
        write!(
            f,
            "<div class=\"card\"><b id=\"{id}\">{value}</b><span class=\"dim\">{label}</span></div>"
        )
    };
    let when = last_day(report);
    for (id, kind) in [
        ("refused", VerdictGroup::Refused),
        ("marked", VerdictGroup::Marked),
        ("accepted", VerdictGroup::Accepted),
    ] {
        let count = grouped(kind.count(report.minutes.iter()));
        tile(id, &count, &format!("{} {when}", kind.name()))?;
    }
    let entries = report.lists.iter().filter_map(|list| list.filter.as_ref());
    let entries = entries.map(|filter| filter.entries).sum();
    tile("entries", &grouped(entries), "entries in all lists")?;
    let durations = &report.durations;
    let median = durations.median_s.map_or_else(|| "–".to_owned(), duration);
    tile("median", &median, "median time per message")?;
    write!(f, "</section>")
}

fn lists(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    write!(
        f,
        "<section class=\"card\"><h2>Lists</h2><table id=\"lists\"><thead><tr><th>List<th>Action<th class=\"n\">Entries\
         <th class=\"gap\">Built<th class=\"n\">Hits, 24 h<th class=\"n\">Hits since start<th class=\"n\">Hits per 1,000 messages</tr></thead><tbody>"
    )?;
    for list in &report.lists {
        let hits: u64 = list.hits.values().sum();
        let (built, is_fresh) = match &list.filter {
            Some(filter) => freshness(filter),
            None => ("no filter".to_owned(), false),
        };
        let entries = list.filter.as_ref().map_or(0, |filter| filter.entries);
        #[allow(clippy::cast_precision_loss, reason = "for the eye")]
        let rate = hits as f64 * 1000.0 / report.messages.total.max(1) as f64;
        write!(
            f,
            "<tr><td data-name=\"List\"><b>{}</b><td data-name=\"Action\">{}<td data-name=\"Entries\" class=\"n\">{}\
             <td data-name=\"Built\" class=\"gap {}\">{built}<td data-name=\"Hits, 24 h\" class=\"n\">{}<td data-name=\"Hits since start\" class=\"n\">{}\
             <td data-name=\"Hits per 1,000 messages\" class=\"n\">{rate:.1}</tr>",
            Text(&list.name),
            Text(&action(list)),
            grouped(entries),
            if is_fresh { "" } else { "bad" },
            grouped(list.hits_24h),
            grouped(hits)
        )?;
    }
    write!(
        f,
        "</tbody></table><p class=\"dim\">A message with several listed senders has several hits.</p></section>"
    )
}

/// Writes the hits by list, identity and source.
fn hits(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    for list in report
        .lists
        .iter()
        .filter(|list| list.hits.values().any(|count| *count > 0))
    {
        let name = Text(&list.name);
        write!(
            f,
            "<section class=\"card\"><h2>Hits of {name}</h2><div class=\"two\"><div><h3>by sender field</h3>"
        )?;
        bars(f, &largest(&list.hits), "hits")?;
        let mut sources = largest(&list.sources);
        let more = sources.len().saturating_sub(SOURCES_MAX);
        sources.truncate(SOURCES_MAX);
        write!(f, "</div><div><h3>by source</h3>")?;
        bars(f, &sources, "source")?;
        if more > 0 {
            write!(f, "<p class=\"dim\">and {more} more</p>")?;
        }
        write!(
            f,
            "</div></div><p class=\"dim\">Messages decided by this list: "
        )?;
        let decided: Vec<String> = largest(&list.messages)
            .iter()
            .map(|(verdict, count)| format!("{verdict} {}", grouped(*count)))
            .collect();
        write!(f, "{}", Text(&decided.join(", ")))?;
        write!(
            f,
            ". Whitelisted: {}; false positives ruled out by records: {}; undecided: {}.",
            grouped(list.whitelisted),
            grouped(list.false_positives),
            grouped(list.undecided)
        )?;
        if let Some(last_s) = list.last_hit_s {
            write!(f, " Last hit: {}.", recent(last_s, report.time_s))?;
        }
        let entries = list.top_entries.iter();
        let entries: Vec<String> = entries
            .map(|(entry, count)| format!("{entry} {}", grouped(*count)))
            .collect();
        if !entries.is_empty() {
            let entries = entries.join(", ");
            write!(
                f,
                " Entries with most of the last decisions: {}.",
                Text(&entries)
            )?;
        }
        write!(f, "</p></section>")?;
    }
    Ok(())
}

/// Writes a bar for each count, with a length relative to the largest.
fn bars(f: &mut Formatter<'_>, rows: &[(&str, u64)], class: &str) -> fmt::Result {
    let most = rows
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(1)
        .max(1);
    for (name, count) in rows {
        write!(
            f,
            "<div class=\"row {class}\"><span>{}</span><u>{}</u><b>{}</b></div>",
            Text(name),
            match count * 100 / most {
                0 if *count == 0 => String::new(),
                share => format!("<i style=\"width:{share}%\"></i>"),
            },
            grouped(*count)
        )?;
    }
    if rows.is_empty() {
        write!(f, "<p class=\"dim\">none yet</p>")?;
    }
    Ok(())
}

fn durations(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let durations = &report.durations;
    write!(
        f,
        "<section class=\"card\"><h2>Time per message</h2><p class=\"dim\">99% {}.</p>",
        at_most(durations.p99_s, durations.count)
    )?;
    let mut rows: Vec<(String, u64)> = Vec::new();
    let mut before = 0;
    for (bound, count) in &durations.at_most {
        rows.push((format!("up to {}", duration(*bound)), count - before));
        before = *count;
    }
    rows.push(("longer".to_owned(), durations.count - before));
    let first = rows
        .iter()
        .position(|(_, count)| *count > 0)
        .unwrap_or(rows.len());
    let last = rows
        .iter()
        .rposition(|(_, count)| *count > 0)
        .map_or(0, |last| last + 1);
    let shown = rows.get(first..last).unwrap_or_default();
    let shown: Vec<_> = shown
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    bars(f, &shown, "time")?;
    write!(f, "</section>")
}

/// Writes help for an administrator whom a user has called.
fn complaint(f: &mut Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "<section class=\"card\"><h2>If a sender complains</h2><p>The reply that the sender got has a case id. \
         <code>journalctl -u blocklist-milter -o cat | blocklist-milter case ID</code> explains the decision, and says how \
         to accept the sender.</p><p><code>blocklist-milter explain --address ADDRESS</code> shows whether a list \
         names an address.</p></section>"
    )?;
    Ok(())
}

/// Writes who may have been refused, or nearly, in error.
fn innocent(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    write!(
        f,
        "<section class=\"card\"><h2>Possibly innocent</h2><ul id=\"innocent\">"
    )?;
    for line in &report.possibly_innocent {
        write!(f, "<li>{}</li>", Text(line))?;
    }
    if report.possibly_innocent.is_empty() {
        write!(f, "<li class=\"dim\">Nobody in the last 24 h.</li>")?;
    }
    write!(f, "</ul></section>")
}

/// Writes the last decisions.
fn decisions(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    write!(f, "<section class=\"card\"><h2>Last decisions</h2>")?;
    form(f, &Search::default())?;
    if report.shows_addresses {
        explanation::form(f, "")?;
    }
    table(f, &report.decisions, report.shows_addresses)?;
    write!(f, "</section>")
}

#[cfg(test)]
mod tests {
    use super::super::Problem;
    use super::super::counts::Counts;
    use super::super::log::Logged;
    use super::super::report::List;
    use super::*;
    use crate::snapshot::{Decision, Who};
    use crate::undo::Undo;
    use std::sync::Arc;

    /// For any name of a list file, a source or a sender.
    #[test]
    fn nothing_from_outside_is_markup() {
        let evil = || "<script>\"'&".to_owned();
        let report = Report {
            version: evil(),
            problems: vec![Problem {
                text: evil(),
                ..Problem::default()
            }],
            lists: vec![List {
                name: evil(),
                action: evil(),
                hits: Counts::from([(evil(), 1)]),
                sources: Counts::from([(evil(), 1)]),
                messages: Counts::from([(evil(), 1)]),
                ..List::default()
            }],
            decisions: vec![Logged {
                decision: Arc::new(Decision {
                    case: evil(),
                    action: evil(),
                    reason: evil(),
                    list: evil(),
                    source: evil(),
                    identity: evil(),
                    who: Some(Who {
                        sender: evil(),
                        recipient: evil(),
                        ..Who::default()
                    }),
                    ..Decision::default()
                }),
                undo: vec![Undo {
                    what: evil(),
                    command: evil(),
                }],
            }],
            ..Report::default()
        };
        let page = Html(&report).to_string();
        assert!(
            !page.contains("<script") && !page.contains("\"'&"),
            "{page}"
        );
        assert_eq!(page.matches("&lt;script&gt;&quot;&#39;&amp;").count(), 17);
    }
}
