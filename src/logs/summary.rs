//! Counts what a log contains.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Serialize;
use tracing::Level;

use super::history::History;
use super::line::{Decision, LogLine, What, parse};
use super::{Error, each_line};
use crate::config::Config;
use crate::journal;
use crate::policy::{Action, Reason};
use crate::screen::{ALSO_UNDECIDED, Field};
use blocklist_filter::base::day::Day;
use blocklist_filter::base::numbers::most_first;
use blocklist_filter::filter::{Filter, Load};

/// Days without a hit after which a list or source may not be worth keeping.
pub(super) const IDLE_DAYS: u16 = 30;
/// Most entries and groups that are counted separately; a log with more is not the daemon's.
const DISTINCT_MAX: usize = 1_000_000;
const MOST_MAX: usize = 10;
const FIRST_MAX: usize = 10_000;
/// The last ones are kept.
const PROBLEMS_MAX: usize = 10;
const PROBLEM_BYTES: usize = 500;

/// How a log is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The first day of the summary; older lines only count as history.
    pub since: Option<Day>,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// This machine.
    pub host: Option<String>,
    /// The lists in use, with their sources; see [`Options::know`].
    pub lists: Vec<(String, Vec<String>)>,
}

impl Options {
    /// Adds the lists of a configuration, with their sources from the filters that can be read.
    pub fn know(&mut self, config: &Config) {
        for list in config.enabled_lists() {
            let filter = Filter::open(&list.filter, Load::Disk);
            let sources = filter.iter().flat_map(|filter| &filter.spec().sources);
            let sources = sources.map(|source| source.name.clone()).collect();
            self.lists.push((list.terms.name.clone(), sources));
        }
    }
}

/// What a log contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub host: Option<String>,
    /// The first day (UTC) of the lines that have a time.
    pub from: Option<String>,
    pub until: Option<String>,
    /// Lines that are not the daemon's.
    pub other_lines: u64,
    pub messages: u64,
    /// Messages by action, with the most frequent first. One that is refused for one of its recipients
    /// counts as refused.
    pub actions: Vec<(String, u64)>,
    /// Refused, held or deleted mail by list, source and action.
    pub refused: Vec<(String, String, String, u64)>,
    /// Whether earlier reports are known; without them, "for the first time" has no meaning.
    pub has_history: bool,
    /// Entries for which mail was refused for the first time.
    pub first_refused: Vec<Refused>,
    /// How many there are, including those not shown.
    pub first_refused_total: u64,
    pub most_refused: Vec<Refused>,
    /// Messages without a look-up because of the client or the recipient, by reason.
    pub exempt: Vec<(String, u64)>,
    /// Mail from senders on a list with `dry_run`, by list and the action that it would have taken.
    pub dry_run: Vec<(String, String, u64)>,
    /// Listed senders that were not refused, by list, action and reason.
    pub let_through: Vec<(String, String, String, u64)>,
    /// Tagged mail by list and reason.
    pub tagged: Vec<(String, String, u64)>,
    /// Messages for which it is unknown whether a sender is listed.
    pub undecided: u64,
    pub hits_known_since: Option<String>,
    pub idle: Vec<Idle>,
    /// Lines of level error.
    pub errors: u64,
    pub warnings: u64,
    /// The last errors and warnings.
    pub problems: Vec<String>,
}

/// Mail refused because of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub entry: String,
    /// A sender that it refused, as written.
    pub address: String,
    pub list: String,
    pub source: String,
    /// The case id of a decision.
    pub case: String,
    pub count: u64,
}

/// A list without a recent hit, or one of its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Idle {
    pub list: String,
    /// `None` for the whole list.
    pub source: Option<String>,
    pub last_hit: Option<String>,
}

/// Counts the decisions in these logs, or in the journal if there are none, and adds them to the history.
///
/// # Errors
/// When one of them cannot be read, or none has a line of the daemon.
pub fn summarize(
    logs: &[PathBuf],
    options: &Options,
    history: &mut History,
) -> Result<Summary, Error> {
    let mut sums = Sums {
        summary: Summary {
            has_history: history.since.is_some(),
            ..Summary::default()
        },
        history,
        options,
        today: journal::day(options.now).unwrap_or_default(),
        days: None,
        groups: HashMap::new(),
        refused: HashMap::new(),
    };
    each_line(logs, 0, |line| {
        let found = parse(line, options.now);
        if let Some(line) = &found {
            sums.add(line);
        } else if !line.trim().is_empty() {
            sums.summary.other_lines += 1;
        }
        found.is_some()
    })?;
    Ok(sums.finish())
}

/// The groups in which messages are counted, each by up to three words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Group {
    Action,
    Refused,
    Exempt,
    DryRun,
    LetThrough,
    Tagged,
}

struct Sums<'a> {
    history: &'a mut History,
    options: &'a Options,
    today: Day,
    days: Option<(Day, Day)>,
    summary: Summary,
    groups: HashMap<(Group, [String; 3]), u64>,
    /// By entry.
    refused: HashMap<String, Refused>,
}

impl Sums<'_> {
    fn add(&mut self, line: &LogLine) {
        let written = line.at.and_then(journal::day);
        // A wrong clock must not make the history begin in the future.
        let day = written.unwrap_or(self.today).min(self.today);
        if let What::Decision(decision) = &line.what {
            self.remember(decision, day);
        }
        if self.options.since.is_some_and(|since| day < since) {
            return;
        }
        if written.is_some() {
            let (from, until) = self.days.get_or_insert((day, day));
            *from = day.min(*from);
            *until = day.max(*until);
        }
        match &line.what {
            What::Decision(decision) if line.level <= Level::INFO => self.count(decision),
            What::Decision(_) => {}
            What::Event(text) => self.event(line.level, text),
        }
    }

    fn event(&mut self, level: Level, text: &str) {
        match level {
            Level::ERROR => self.summary.errors += 1,
            Level::WARN => self.summary.warnings += 1,
            _ => return,
        }
        let problems = &mut self.summary.problems;
        if problems.len() == PROBLEMS_MAX {
            problems.remove(0);
        }
        let end = text.floor_char_boundary(PROBLEM_BYTES);
        problems.push(text.get(..end).unwrap_or_default().to_owned());
    }

    fn remember(&mut self, decision: &Decision, day: Day) {
        let get = |field| decision.get(field);
        let lists = &self.options.lists;
        let is_list = |name: &str| lists.iter().any(|(list, _)| list == name);
        let also = get(Field::Also).split(", ");
        for (list, rest) in also.filter_map(|also| also.split_once(':')) {
            if is_list(list) && !rest.ends_with(ALSO_UNDECIDED) {
                self.history.hit(list, "", day);
            }
        }
        let list = get(Field::List);
        if list.is_empty() || is_undecided(decision) || !get(Field::Failure).is_empty() {
            return;
        }
        // Also a hit if something softened it, such as a dry run, which is then the reason.
        self.history.hit(list, "", day);
        if !get(Field::Source).is_empty() {
            self.history.hit(list, get(Field::Source), day);
        }
        if is_refusal(get(Field::Action)) {
            self.history.refused(get(Field::Entry), day);
        }
    }

    fn count(&mut self, decision: &Decision) {
        let get = |field| decision.get(field);
        // What becomes of further recipients of a message counts with the first one.
        let messages = get(Field::Messages).parse().unwrap_or(1);
        if messages == 0 {
            return;
        }
        let (list, action) = (get(Field::List), get(Field::Action));
        let (source, reason) = (get(Field::Source), get(Field::Reason));
        self.summary.messages = self.summary.messages.saturating_add(messages);
        self.group(Group::Action, [action, "", ""], messages);
        if is_undecided(decision) {
            self.summary.undecided = self.summary.undecided.saturating_add(messages);
        }
        if list.is_empty() {
            if is_exemption(reason) {
                self.group(Group::Exempt, [reason, "", ""], messages);
            }
        } else if is_refusal(action) {
            self.group(Group::Refused, [list, source, action], 1);
            self.refuse(decision);
        } else if reason == Reason::DryRun.name() {
            let wanted = match get(Field::Unsoftened) {
                "" => action,
                unsoftened => unsoftened,
            };
            self.group(Group::DryRun, [list, wanted, ""], 1);
        } else if action == Action::Tag.name() {
            self.group(Group::Tagged, [list, reason, ""], 1);
        } else {
            self.group(Group::LetThrough, [list, action, reason], 1);
        }
    }

    fn group(&mut self, group: Group, words: [&str; 3], messages: u64) {
        let key = (group, words.map(str::to_owned));
        if self.groups.len() < DISTINCT_MAX || self.groups.contains_key(&key) {
            let sum = self.groups.entry(key).or_default();
            *sum = sum.saturating_add(messages);
        }
    }

    fn refuse(&mut self, decision: &Decision) {
        let get = |field| decision.get(field);
        let entry = get(Field::Entry);
        if let Some(refused) = self.refused.get_mut(entry) {
            refused.count += 1;
        } else if self.refused.len() < DISTINCT_MAX {
            let refused = Refused {
                entry: entry.to_owned(),
                address: get(Field::Address).to_owned(),
                list: get(Field::List).to_owned(),
                source: get(Field::Source).to_owned(),
                case: get(Field::Case).to_owned(),
                count: 1,
            };
            self.refused.insert(entry.to_owned(), refused);
        }
    }

    fn finish(self) -> Summary {
        let groups = &self.groups;
        let mut summary = Summary {
            host: self.options.host.clone(),
            from: self.days.map(|(from, _)| from.to_string()),
            until: self.days.map(|(_, until)| until.to_string()),
            actions: rows(groups, Group::Action, |([a, ..], n)| (a, n)),
            refused: rows(groups, Group::Refused, |([a, b, c], n)| (a, b, c, n)),
            exempt: rows(groups, Group::Exempt, |([a, ..], n)| (a, n)),
            dry_run: rows(groups, Group::DryRun, |([a, b, _], n)| (a, b, n)),
            let_through: rows(groups, Group::LetThrough, |([a, b, c], n)| (a, b, c, n)),
            tagged: rows(groups, Group::Tagged, |([a, b, _], n)| (a, b, n)),
            ..self.summary
        };
        let history = self.history;
        let first_day = self.days.map_or(self.today, |(from, _)| from);
        let begins = self.options.since.unwrap_or(first_day);
        // Log lines before the summary begins are a history, too.
        summary.has_history |= history.knows_before(begins);
        let mut refused: Vec<Refused> = self.refused.into_values().collect();
        refused.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.entry.cmp(&b.entry)));
        if summary.has_history {
            let is_new = |one: &&Refused| history.first_refused(&one.entry) >= Some(begins);
            let new = || refused.iter().filter(is_new);
            summary.first_refused_total = new().count() as u64;
            summary.first_refused = new().take(FIRST_MAX).cloned().collect();
        }
        refused.truncate(MOST_MAX);
        summary.most_refused = refused;
        let since = history
            .since
            .map_or(first_day, |since| first_day.min(Day(since)));
        history.since = Some(since.0);
        summary.hits_known_since = Some(since.to_string());
        summary.idle = idle(history, &self.options.lists, self.today, since);
        history.forget(self.today, &self.options.lists);
        summary
    }
}

/// Returns the counts of a group, the largest first, each with its words as a row has them.
fn rows<R>(
    groups: &HashMap<(Group, [String; 3]), u64>,
    group: Group,
    row: impl Fn(([String; 3], u64)) -> R,
) -> Vec<R> {
    let of_group = groups.iter().filter(|((of, _), _)| *of == group);
    let rows = most_first(of_group.map(|((_, words), count)| (words.clone(), *count)));
    rows.into_iter().map(row).collect()
}

/// Returns the lists and sources without a hit for [`IDLE_DAYS`], or since they are known.
fn idle(
    history: &mut History,
    lists: &[(String, Vec<String>)],
    today: Day,
    since: Day,
) -> Vec<Idle> {
    let mut idle = Vec::new();
    for (list, sources) in lists {
        let names = std::iter::once("").chain(sources.iter().map(String::as_str));
        for name in names {
            let known = history.known(list, name, today);
            // A list may be older than the history, but this is unknown.
            let quiet_since = known.hit.unwrap_or_else(|| known.known.max(since.0));
            if today.0.saturating_sub(quiet_since) < IDLE_DAYS {
                continue;
            }
            idle.push(Idle {
                list: list.clone(),
                source: (!name.is_empty()).then(|| name.to_owned()),
                last_hit: known.hit.map(|day| Day(day).to_string()),
            });
            if name.is_empty() {
                // Its sources have no hit either.
                break;
            }
        }
    }
    idle
}

fn is_undecided(decision: &Decision) -> bool {
    decision.get(Field::Reason) == Reason::Undecided.name()
}

/// Returns whether the recipient does not get the mail, or not now.
fn is_refusal(action: &str) -> bool {
    match Action::from_name(action) {
        Some(Action::Reject | Action::Tempfail | Action::Quarantine | Action::Discard) => true,
        Some(Action::Tag | Action::Log) | None => false,
    }
}

fn is_exemption(reason: &str) -> bool {
    use Reason::{Authenticated, ExemptRecipient, Local, Network};
    let exemptions = [ExemptRecipient, Authenticated, Local, Network];
    exemptions.iter().any(|known| known.name() == reason)
}
