//! The log of decisions: searched by a form on the page, as JSON, and in a terminal.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::html::{Text, begin, end};
use super::source::Status;
use super::times::{seconds, zone};
use crate::base::clock::now_s;
use crate::policy::Action;
use crate::snapshot::{Decision, Who};
use crate::undo::{self, Undo};

/// What is searched. An empty text matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// Words that each occur in some field, in any case.
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
            && (self.words.split_whitespace()).all(|word| has(decision, word))
    }
}

/// Returns whether a field of a decision has a word, which is in lower case.
fn has(decision: &Decision, word: &str) -> bool {
    let Decision {
        case,
        action,
        reason,
        list,
        source,
        identity,
        who,
        ..
    } = decision;
    let who = who.iter().flat_map(|who| {
        [
            &who.sender,
            &who.entry,
            &who.recipient,
            &who.client,
            &who.queue_id,
        ]
    });
    let mut fields = [case, action, reason, list, source, identity]
        .into_iter()
        .chain(who);
    fields.any(|field| field.to_lowercase().contains(word))
}

/// A decision, and how to undo it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// The decision.
    #[serde(flatten)]
    pub decision: Arc<Decision>,
    /// Commands that accept the sender from now on, the best first.
    #[serde(default)]
    pub undo: Vec<Undo>,
}

/// The decisions that a search finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// When it was made, in seconds since 1970.
    pub time_s: u64,
    /// Whether the configuration allows to show whose mail was decided.
    pub shows_addresses: bool,
    /// The number of the last decision, found or not.
    pub last: u64,
    /// The decisions, the newest first.
    pub decisions: Vec<Logged>,
}

impl Status {
    /// Returns the decisions that a search finds.
    pub(super) fn log(&self, search: &Search) -> Log {
        let decisions = &self.live.counters.decisions;
        let found = decisions.select(|decision| search.finds(decision));
        Log {
            time_s: now_s(),
            shows_addresses: self.live.snapshot().config.status.show_addresses,
            last: decisions.last(),
            decisions: self.logged(found),
        }
    }

    /// Adds to decisions how to undo them.
    pub(super) fn logged(&self, decisions: Vec<Arc<Decision>>) -> Vec<Logged> {
        let snapshot = self.live.snapshot();
        let whitelist = snapshot.config.whitelist.files.first();
        let logged = decisions.into_iter().map(|decision| {
            let is_wanted =
                |_: &&Who| decision.reason != "whitelisted" && !decision.list.is_empty();
            let undo = decision.who.as_ref().filter(is_wanted).map(|who| {
                undo::commands(
                    &who.sender,
                    &who.entry,
                    &who.file,
                    whitelist.map(|file| &**file),
                )
            });
            Logged {
                undo: undo.unwrap_or_default(),
                decision,
            }
        });
        logged.collect()
    }
}

/// The page of a search.
pub(super) struct LogPage<'a>(pub(super) &'a Search, pub(super) &'a Log);

impl Display for LogPage<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(search, log) = self;
        begin(f, "decisions")?;
        write!(
            f,
            "<header><h1>Decisions</h1><span class=\"dim\"><a href=\"/\">back to the status</a></span></header><main>\
             <section class=\"card\">"
        )?;
        form(f, search)?;
        write!(
            f,
            "<p class=\"dim\">{} of the last 1,000 decisions other than plain acceptance, also those before a restart.</p>",
            log.decisions.len()
        )?;
        table(f, &log.decisions, log.shows_addresses)?;
        write!(f, "</section></main>")?;
        end(f, log.time_s, "/log", "/log.json")
    }
}

/// Writes the form of a search.
pub(super) fn form(f: &mut Formatter<'_>, search: &Search) -> fmt::Result {
    write!(
        f,
        "<form action=\"/log\" role=\"search\"><label>Words <input name=\"q\" type=\"search\" value=\"{}\"></label>\
         <label>List <input name=\"list\" value=\"{}\"></label><label>Action <select name=\"action\"><option value=\"\">any</option>",
        Text(&search.words),
        Text(&search.list)
    )?;
    let names = Action::NAMES.iter().map(|(name, _)| *name);
    for name in std::iter::once("accept").chain(names) {
        let selected = if name == search.action {
            " selected"
        } else {
            ""
        };
        write!(f, "<option{selected}>{name}</option>")?;
    }
    write!(f, "</select></label><button>Search</button></form>")
}

/// Writes decisions as a table.
pub(super) fn table(
    f: &mut Formatter<'_>,
    decisions: &[Logged],
    shows_addresses: bool,
) -> fmt::Result {
    if !shows_addresses {
        write!(
            f,
            "<p class=\"dim\">Addresses are not shown or kept: <code>show_addresses</code> in <code>[status]</code> is off. \
             The log of the mail server has them.</p>"
        )?;
    }
    if decisions.is_empty() {
        return write!(f, "<p>None.</p>");
    }
    let when = format!("Time ({})", zone(now_s()));
    write!(
        f,
        "<table id=\"decisions\"><thead><tr><th>{when}<th>Action<th>Sender<th>List<th>Field<th>Case</tr></thead><tbody>"
    )?;
    for Logged { decision, undo } in decisions {
        let one = decision;
        let Who {
            sender, recipient, ..
        } = one.who.clone().unwrap_or_default();
        write!(
            f,
            "<tr><td data-name=\"{when}\">{}<td data-name=\"Action\"><b>{}</b> <span class=\"dim\">{}</span>\
             <td data-name=\"Sender\" class=\"who\">{}",
            seconds(one.time_s),
            Text(&one.action),
            Text(&one.reason),
            Text(&sender),
        )?;
        if !recipient.is_empty() {
            write!(f, " <span class=\"dim\">to {}</span>", Text(&recipient))?;
        }
        if !undo.is_empty() {
            write!(f, "<details><summary>undo</summary>")?;
            for Undo { what, command } in undo {
                write!(f, "<p>To {}:</p><code>{}</code>", Text(what), Text(command))?;
            }
            write!(f, "</details>")?;
        }
        write!(
            f,
            "<td data-name=\"List\">{} <span class=\"dim\">{}</span><td data-name=\"Field\">{}<td data-name=\"Case\">{}</tr>",
            Text(&one.list),
            Text(if one.source == one.list {
                ""
            } else {
                &one.source
            }),
            Text(&one.identity),
            Text(&one.case)
        )?;
    }
    write!(f, "</tbody></table>")
}
