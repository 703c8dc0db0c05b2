//! The log of decisions: searched by a form on the page, as JSON, and in a terminal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::html::{self, dim, escape, header};
use super::source::Status;
use crate::daemon::Page;
use crate::policy::Action;
use crate::snapshot::{Decision, Who};
use crate::undo::{self, Undo};
use blocklist_filter::base::clock::{local, now_s};

/// What is searched. An empty text matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// Words that each occur in some field, in any case; here in lower case.
    words: String,
    list: String,
    action: String,
    /// Only decisions with a greater number.
    after: u64,
}

impl Search {
    /// Reads the query of a URL. Unknown names mean nothing.
    pub(super) fn read(query: &str) -> Self {
        let mut search = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "q" => search.words = value.to_lowercase(),
                "list" => search.list = value.into_owned(),
                "action" => search.action = value.into_owned(),
                "after" => search.after = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        search
    }

    fn finds(&self, decision: &Decision) -> bool {
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        decision.number > self.after
            && is(&self.list, &decision.list)
            && is(&self.action, &decision.action)
            && (self.words.is_empty() || self.finds_words(decision))
    }

    fn finds_words(&self, decision: &Decision) -> bool {
        let unknown = Who::default();
        let who = decision.who.as_ref().unwrap_or(&unknown);
        let fields = [
            &*decision.case,
            &decision.door,
            &decision.action,
            &decision.reason,
            &decision.list,
            &decision.source,
            &decision.identity,
            &who.sender,
            &who.entry,
            &who.recipient,
            &who.client,
            &who.queue_id,
        ];
        // No word has a blank, so that none is found in two fields together.
        let fields = fields.join(" ").to_lowercase();
        (self.words.split_whitespace()).all(|word| fields.contains(word))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Logged {
    #[serde(flatten)]
    pub decision: Arc<Decision>,
    /// Commands that accept the sender from now on, the best first.
    pub undo: Vec<Undo>,
}

/// The decisions that a search finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    /// When it was made, in seconds since 1970.
    pub time_s: u64,
    /// Whether it shows whose mail was decided.
    pub shows_addresses: bool,
    /// The number of the last decision, found or not.
    pub last: u64,
    /// The decisions, the newest first.
    pub decisions: Vec<Logged>,
}

impl Status {
    pub(super) fn log(&self, search: &Search, shows_addresses: bool) -> Log {
        let mut decisions = self.decisions(shows_addresses);
        let last = decisions.first().map_or(0, |last| last.number);
        // What is not shown is not found, either.
        decisions.retain(|decision| search.finds(decision));
        Log {
            time_s: now_s(),
            shows_addresses,
            last,
            decisions: self.logged(decisions),
        }
    }

    pub(super) fn logged(&self, decisions: Vec<Arc<Decision>>) -> Vec<Logged> {
        let snapshot = self.live.snapshot();
        let whitelist = snapshot.config.whitelist.files.first().map(|file| &**file);
        let undo = |decision: &Decision| match &decision.who {
            Some(who) if decision.reason != "whitelisted" && !decision.list.is_empty() => {
                undo::commands(&who.sender, &who.entry, &who.file, whitelist)
            }
            _ => Vec::new(),
        };
        let logged = decisions.into_iter().map(|decision| Logged {
            undo: undo(&decision),
            decision,
        });
        logged.collect()
    }
}

pub(super) fn page(search: &Search, log: &Log) -> Page {
    let main = format!(
        "<section class=\"card\">{}{}{}</section>",
        form(search),
        dim(&format!(
            "{} of the last 1,000 decisions other than plain acceptance, also those before a restart.",
            log.decisions.len()
        )),
        table(&log.decisions, log.shows_addresses)
    );
    let paths = ["/log", "/log.json"];
    html::page("decisions", &header("Decisions"), &main, log.time_s, paths)
}

pub(super) fn form(search: &Search) -> String {
    let options = Action::of_decisions().map(|name| {
        let is_selected = name == search.action;
        let selected = if is_selected { " selected" } else { "" };
        format!("<option{selected}>{name}</option>")
    });
    let options: String = options.collect();
    format!(
        "<form action=\"/log\" role=\"search\"><label>Words <input name=\"q\" type=\"search\" value=\"{}\"></label>\
         <label>List <input name=\"list\" value=\"{}\"></label>\
         <label>Action <select name=\"action\"><option value=\"\">any</option>{options}</select></label>\
         <button>Search</button></form>",
        escape(&search.words),
        escape(&search.list)
    )
}

pub(super) fn table(decisions: &[Logged], shows_addresses: bool) -> String {
    let hidden = "<p class=\"dim\">Addresses are shown to root and the daemon's user only, over the unix socket (also with \
                  <code>ssh -L</code> as root), unless <code>show_addresses</code> in <code>[status]</code> is on.</p>";
    let note = if shows_addresses { "" } else { hidden };
    if decisions.is_empty() {
        return format!("{note}<p>None.</p>");
    }
    let when = local(now_s(), "Time (%Z)");
    let columns = [
        (&*when, ""),
        ("Action", ""),
        ("Sender", "who"),
        ("List", "list"),
        ("Field", "wide"),
        ("Case", ""),
    ];
    note.to_owned() + &html::table("decisions", &columns, decisions.iter().map(row))
}

/// Returns the cells of a decision. What is `wide` has no place on a phone, where it is unfolded.
fn row(logged: &Logged) -> Vec<String> {
    let decision = &*logged.decision;
    let span = |class, text: &str| format!(" <span class=\"{class}\">{}</span>", escape(text));
    let known = decision.who.clone().unwrap_or_default();
    let to = match &*known.recipient {
        "" => String::new(),
        recipient => format!("to {recipient}"),
    };
    let identity = escape(&decision.identity);
    let mut who = escape(&known.sender) + &span("dim wide", &to);
    if !logged.undo.is_empty() {
        who += &format!(
            "<details><summary>undo</summary><p class=\"phone\">{identity}{}</p>",
            span("dim", &to)
        );
        for undo in &logged.undo {
            let (what, command) = (escape(&undo.what), escape(&undo.command));
            who += &format!("<p>To {what}:</p><code>{command}</code>");
        }
        who += "</details>";
    }
    let [year, day] = ["%Y-", "%m-%d %H:%M:%S"].map(|how| local(decision.time_s, how));
    let source = match decision.source == decision.list {
        true => "",
        false => &decision.source,
    };
    vec![
        format!("<span class=\"wide\">{year}</span>{day}"),
        format!("<b>{}</b>", escape(&decision.action)) + &span("dim", &decision.reason),
        who,
        escape(&decision.list) + &span("dim", source),
        identity,
        escape(&decision.case),
    ]
}
