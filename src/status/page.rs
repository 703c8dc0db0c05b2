//! The status page: HTML and inline SVG, without scripts and external resources.
//!
//! It follows the reader's setting of light or dark, and fits a phone: there, tables become lists.

use super::chart::charts;
use super::html::{self, card, dim, escape, header, paragraph, table};
use super::log::{self, Search};
use super::report::{List, Report};
use super::source::Status;
use super::words::{
    GROUPS, action, approximate, duration, facts, freshness, grouped, groups, largest, last_day,
    listed, recent, sentence,
};
use crate::daemon::{Asker, Page};
use blocklist_filter::base::clock::now_s;

/// Most sources shown of a list; those with most hits.
const SOURCES_MAX: usize = 10;

pub(super) fn page(report: &Report) -> Page {
    let health = report.health.name();
    let header = format!(
        "<h1>blocklist-milter</h1><span class=\"pill {health}\" id=\"health\">{health}</span>\
         <span class=\"dim\">{} · {} · up {} · process {}</span>",
        escape(&report.mail),
        escape(&report.version),
        approximate(report.uptime_s),
        report.process
    );
    let first = escape(&sentence(report));
    let mut main = format!("<p class=\"first\" id=\"sentence\">{first}</p>");
    for problem in &report.problems {
        let (severity, text) = (problem.severity.name(), escape(&problem.text));
        main += &format!("<p class=\"problem {severity}\">{text}</p>");
    }
    main += &innocent(report);
    main += &tiles(report);
    main += &charts(report);
    main += &lists(report);
    main += &decisions(report);
    main += COMPLAINT;
    for list in report.lists.iter().filter(|list| hits(list) > 0) {
        main += &details(list, report);
    }
    main += "<div class=\"two\">";
    for (heading, lines, counts) in facts(report) {
        let lines: String = lines.iter().map(|line| paragraph(line)).collect();
        let mut body = lines + &bars(&counts, "");
        if body.is_empty() {
            body = dim("none yet");
        }
        main += &card(heading, &body);
    }
    main += "</div>";
    html::page(health, &header, &main, report.time_s, ["/", "/status.json"])
}

fn innocent(report: &Report) -> String {
    let line = |line: &String| format!("<li>{}</li>", escape(line));
    let mut lines: String = report.possibly_innocent.iter().map(line).collect();
    if lines.is_empty() {
        lines += "<li class=\"dim\">Nobody in the last 24 h.</li>";
    }
    let list = format!("<ul id=\"innocent\">{lines}</ul>");
    card("Possibly innocent", &list)
}

fn tiles(report: &Report) -> String {
    let day = last_day(report);
    let [accepted, marked, refused] = groups(&report.minutes).map(grouped);
    let filters = report.lists.iter().filter_map(|list| list.filter.as_ref());
    let entries = grouped(filters.map(|filter| filter.entries).sum());
    let median = report.durations.median_s;
    let median = median.map_or_else(|| "–".to_owned(), duration);
    let [of_accepted, of_marked, of_refused] = GROUPS.map(|group| format!("{group} {day}"));
    let tiles = [
        ("refused", refused, &*of_refused),
        ("marked", marked, &of_marked),
        ("accepted", accepted, &of_accepted),
        ("entries", entries, "entries in all lists"),
        ("median", median, "median time per message"),
    ];
    let tiles = tiles.map(|(id, value, label)| {
        format!(
            "<div class=\"card\"><b id=\"{id}\">{value}</b><span class=\"dim\">{label}</span></div>"
        )
    });
    format!("<section class=\"tiles\">{}</section>", tiles.concat())
}

fn hits(list: &List) -> u64 {
    list.hits.values().sum()
}

fn lists(report: &Report) -> String {
    let columns = [
        ("List", ""),
        ("Action", ""),
        ("Entries", "n"),
        ("Built", "gap"),
        ("Hits, 24 h", "n"),
        ("Hits since start", "n"),
        ("Hits per 1,000 messages", "n"),
    ];
    let row = |list: &List| {
        let (built, is_fresh) = match &list.filter {
            Some(filter) => freshness(filter),
            None => ("no filter".to_owned(), false),
        };
        let class = if is_fresh { "" } else { "bad" };
        #[allow(clippy::cast_precision_loss, reason = "for the eye")]
        let rate = hits(list) as f64 * 1000.0 / report.messages.total.max(1) as f64;
        vec![
            format!("<b>{}</b>", escape(&list.name)),
            escape(&action(list)),
            grouped(list.filter.as_ref().map_or(0, |filter| filter.entries)),
            format!("<span class=\"{class}\">{built}</span>"),
            grouped(list.hits_24h),
            grouped(hits(list)),
            format!("{rate:.1}"),
        ]
    };
    let table = table("lists", &columns, report.lists.iter().map(row));
    let note = dim("A message with several listed senders has several hits.");
    card("Lists", &(table + &note))
}

fn decisions(report: &Report) -> String {
    let mut body = log::form(&Search::default());
    if report.shows_addresses {
        body += &form("");
    }
    body += &log::table(&report.decisions, report.shows_addresses);
    card("Last decisions", &body)
}

/// Help for an administrator whom a user has called.
const COMPLAINT: &str = "\
<section class=\"card\"><h2>If a sender complains</h2><p>The reply that the sender got has a case id. \
<code>blocklist-milter case ID</code> explains the decision, and says how \
to accept the sender.</p><p><code>blocklist-milter explain --address ADDRESS</code> shows whether a list \
names an address.</p></section>";

fn details(list: &List, report: &Report) -> String {
    let sources = largest(&list.sources);
    let (sources, more) = sources.split_at(sources.len().min(SOURCES_MAX));
    let mut by_source = bars(sources, "source");
    if !more.is_empty() {
        by_source += &dim(&format!("and {} more", more.len()));
    }
    let mut about = format!(
        "Messages decided by this list: {}. Whitelisted: {}; false positives ruled out by records: {}; undecided: {}.",
        listed(&largest(&list.messages)),
        grouped(list.whitelisted),
        grouped(list.false_positives),
        grouped(list.undecided)
    );
    if let Some(last_s) = list.last_hit_s {
        about += &format!(" Last hit: {}.", recent(last_s, report.time_s));
    }
    if !list.top_entries.is_empty() {
        let entries = listed(&list.top_entries);
        about += &format!(" Entries with most of the last decisions: {entries}.");
    }
    let body = format!(
        "<div class=\"two\"><div><h3>by sender field</h3>{}</div><div><h3>by source</h3>{by_source}</div></div>{}",
        bars(&largest(&list.hits), "hits"),
        dim(&about)
    );
    card(&format!("Hits of {}", list.name), &body)
}

/// Returns a bar for each count, with a length relative to the largest.
fn bars(rows: &[(String, u64)], class: &str) -> String {
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let bar = |(name, count): &(String, u64)| {
        let share = (count * 100).checked_div(most).filter(|_| *count > 0);
        let bar = share.map(|share| format!("<i style=\"width:{share}%\"></i>"));
        format!(
            "<div class=\"row {class}\"><span>{}</span><u>{}</u><b>{}</b></div>",
            escape(name),
            bar.unwrap_or_default(),
            grouped(*count)
        )
    };
    rows.iter().map(bar).collect()
}

impl Status {
    /// Returns the page about the address in the query of a URL; `explain` looks it up. There is none for
    /// whoever sees no addresses.
    pub fn explanation(
        &self,
        query: &str,
        asker: Asker,
        explain: impl FnOnce(&str) -> String,
    ) -> Page {
        if !self.shows_addresses(asker) {
            let why = "addresses are shown to root and the daemon's user only, over the unix socket, unless show_addresses in [status] is on; \
                in a terminal: blocklist-milter explain ADDRESS\n";
            return Page::text(403, why);
        }
        let mut fields = form_urlencoded::parse(query.as_bytes());
        let address = fields.find(|(name, _)| name == "address");
        let address = address.map_or_else(String::new, |(_, address)| address.trim().to_owned());
        let mut main = form(&address);
        if !address.is_empty() {
            let text = explain(&address);
            main += &format!("<pre id=\"explanation\">{}</pre>", escape(&text));
        }
        let main = format!("<section class=\"card\">{main}</section>");
        let paths = ["/explain", "/status.json"];
        html::page("an address", &header("An address"), &main, now_s(), paths)
    }
}

fn form(address: &str) -> String {
    format!(
        "<form action=\"/explain\"><label>Address <input name=\"address\" value=\"{}\"></label>\
         <button>Would its mail be refused?</button></form>",
        escape(address)
    )
}

#[cfg(test)]
mod tests {
    use super::super::history::Counts;
    use super::super::log::Logged;
    use super::*;
    use crate::snapshot::{Decision, Problem, Who};
    use crate::undo::Undo;

    /// For any name of a list file, a source or a sender.
    #[test]
    fn nothing_from_outside_is_markup() {
        let counts = || Counts::from([(String::new(), 1)]);
        let undo = Undo {
            what: String::new(),
            command: String::new(),
        };
        let decision = Decision {
            who: Some(Who::default()),
            ..Decision::default()
        };
        let report = Report {
            problems: vec![Problem::default()],
            lists: vec![List {
                hits: counts(),
                sources: counts(),
                messages: counts(),
                ..List::default()
            }],
            decisions: vec![Logged {
                decision: decision.into(),
                undo: vec![undo],
            }],
            ..Report::default()
        };
        // Every text of it.
        let json = serde_json::to_string(&report).unwrap();
        let evil = json.replace(r#""""#, r#""<script>\"'&""#);
        let page = page(&serde_json::from_str(&evil).unwrap()).body;
        assert!(
            !page.contains("<script") && !page.contains("\"'&"),
            "{page}"
        );
        assert_eq!(page.matches("&lt;script&gt;&quot;&#39;&amp;").count(), 21);
    }
}
