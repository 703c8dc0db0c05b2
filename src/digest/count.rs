//! Counts what a log contains.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use serde::Serialize;

use super::history::History;
use super::line::{Decision, Level, LogLine, What, parse};
use super::{Error, each_line};
use crate::base::day::Day;
use crate::config::Config;
use crate::filter::{Filter, Load};
use crate::journal;
use crate::policy::{Action, Exemption, Reason};
use crate::screen::{ALSO_UNDECIDED, Field};

/// Number of days without a hit after which a list or source may not be worth keeping.
pub(super) const IDLE_DAYS: u16 = 30;
/// Maximum number of entries and groups that are counted separately; a log with more is not the
/// daemon's.
const DISTINCT_MAX: usize = 1_000_000;
/// Maximum number of most refused entries in the report.
const MOST_MAX: usize = 10;
/// Maximum number of entries in the report that were refused for the first time.
const FIRST_MAX: usize = 10_000;
/// Maximum number of errors and warnings in the report; the last ones are kept.
const PROBLEMS_MAX: usize = 10;
const PROBLEM_BYTES: usize = 500;

/// How a log is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The first day of the report; older lines only count as history.
    pub since: Option<Day>,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// The name of this machine.
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

/// A report of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Digest {
    /// The name of the machine that reports.
    pub host: Option<String>,
    /// The first day of the lines that have a time (UTC).
    pub from: Option<String>,
    /// The last day.
    pub until: Option<String>,
    /// Number of lines that are not the daemon's.
    pub other_lines: u64,
    /// Number of messages.
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
    /// Number of these entries, including those not shown.
    pub first_refused_total: u64,
    /// Entries for which most mail was refused.
    pub most_refused: Vec<Refused>,
    /// Messages without a look-up because of the client or the recipient, by reason.
    pub exempt: Vec<(String, u64)>,
    /// Mail from senders on a list with `dry_run`, by list and the action that it would have taken.
    pub dry_run: Vec<(String, String, u64)>,
    /// Listed senders that were not refused, by list, action and reason.
    pub let_through: Vec<(String, String, String, u64)>,
    /// Tagged mail by list and reason.
    pub tagged: Vec<(String, String, u64)>,
    /// Number of messages for which it is unknown whether a sender is listed.
    pub undecided: u64,
    /// The day since which hits of lists are recorded.
    pub hits_known_since: Option<String>,
    /// Lists and sources without a hit.
    pub idle: Vec<Idle>,
    /// Number of lines of level error.
    pub errors: u64,
    /// Number of lines of level warn.
    pub warnings: u64,
    /// The last errors and warnings.
    pub problems: Vec<String>,
}

/// Mail refused because of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The entry.
    pub entry: String,
    /// A sender that it refused, as written.
    pub address: String,
    /// The list.
    pub list: String,
    /// The source of the entry.
    pub source: String,
    /// The case id of a decision.
    pub case: String,
    /// Number of messages.
    pub count: u64,
}

/// A list without a recent hit, or one of its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Idle {
    /// The list.
    pub list: String,
    /// The source; `None` for the whole list.
    pub source: Option<String>,
    /// The last known hit.
    pub last_hit: Option<String>,
}

/// Counts the decisions in these logs, or in the journal if there are none, and adds them to the history.
///
/// # Errors
/// When one of them cannot be read, or none has a line of the daemon.
pub fn digest(logs: &[PathBuf], options: &Options, history: &mut History) -> Result<Digest, Error> {
    let mut sums = Sums {
        since: options.since,
        today: journal::day(options.now).unwrap_or_default(),
        ..Sums::default()
    };
    each_line(logs, 0, |line| {
        let is_ours = parse(line, options.now, |line| sums.add(&line));
        if !is_ours && !line.trim().is_empty() {
            sums.digest.other_lines += 1;
        }
        is_ours
    })?;
    Ok(sums.finish(options, history))
}

#[derive(Default)]
struct Sums {
    since: Option<Day>,
    today: Day,
    days: Option<(Day, Day)>,
    digest: Digest,
    actions: Counts<1>,
    refused: Counts<3>,
    exempt: Counts<1>,
    dry_run: Counts<2>,
    let_through: Counts<3>,
    tagged: Counts<2>,
    /// For the history, too: every hit, and every refusal by an entry.
    hits: Counts<2>,
    /// Lists with a hit in addition to the deciding one.
    also: Counts<1>,
    refused_on: Counts<1>,
    entries: HashMap<String, Refused>,
    problems: VecDeque<String>,
}

impl Sums {
    fn add(&mut self, line: &LogLine<'_>) {
        let written = line.at.and_then(journal::day);
        let day = written.unwrap_or(self.today);
        // A wrong clock must not make the history begin in the future.
        let day = day.min(self.today);
        let counts = self.since.is_none_or(|since| day >= since);
        if counts && written.is_some() {
            let (from, until) = self.days.get_or_insert((day, day));
            *from = day.min(*from);
            *until = day.max(*until);
        }
        match &line.what {
            What::Decision(decision) => self.decision(decision, day, counts, line.level),
            What::Event(text) if counts => self.event(line.level, text),
            What::Event(_) => {}
        }
    }

    fn event(&mut self, level: Level, text: &str) {
        let kind = match level {
            Level::Error => &mut self.digest.errors,
            Level::Warn => &mut self.digest.warnings,
            Level::Info | Level::Detail => return,
        };
        *kind += 1;
        if self.problems.len() == PROBLEMS_MAX {
            self.problems.pop_front();
        }
        let end = text.floor_char_boundary(PROBLEM_BYTES);
        self.problems
            .push_back(text.get(..end).unwrap_or_default().to_owned());
    }

    fn decision(&mut self, decision: &Decision<'_>, day: Day, counts: bool, level: Level) {
        let get = |field| decision.get(field);
        let (list, source) = (get(Field::List), get(Field::Source));
        let (action, reason) = (get(Field::Action), get(Field::Reason));
        let is_undecided = reason == Reason::Undecided.name();
        let is_refused = is_refusal(action);
        let entry = get(Field::Entry);
        // Also a hit if something softened it, such as a dry run, which is then the reason.
        let is_hit = !list.is_empty() && !is_undecided && get(Field::Failure).is_empty();
        for also in get(Field::Also).split(", ") {
            if let Some((list, rest)) = also.split_once(':')
                && !rest.ends_with(ALSO_UNDECIDED)
            {
                self.also.add([list], day);
            }
        }
        if is_hit {
            self.hits.add([list, source], day);
            if is_refused && !entry.is_empty() {
                self.refused_on.add([entry], day);
            }
        }
        // What becomes of further recipients of a message counts with the first one.
        let messages = get(Field::Messages);
        let messages = messages.parse().unwrap_or(1);
        if !counts || level == Level::Detail || messages == 0 {
            return;
        }
        self.digest.messages = self.digest.messages.saturating_add(messages);
        self.actions.add_many([action], day, messages);
        if is_undecided {
            self.digest.undecided = self.digest.undecided.saturating_add(messages);
        }
        if list.is_empty() {
            if is_exemption(reason) {
                self.exempt.add_many([reason], day, messages);
            }
            return;
        }
        if is_refused {
            self.refused.add([list, source, action], day);
            self.refuse(decision);
        } else if reason == Reason::DryRun.name() {
            let unsoftened = get(Field::Unsoftened);
            let wanted = if unsoftened.is_empty() {
                action
            } else {
                unsoftened
            };
            self.dry_run.add([list, wanted], day);
        } else if action == Action::Tag.name() {
            self.tagged.add([list, reason], day);
        } else {
            self.let_through.add([list, action, reason], day);
        }
    }

    fn refuse(&mut self, decision: &Decision<'_>) {
        let get = |field| decision.get(field);
        let entry = get(Field::Entry);
        if let Some(refused) = self.entries.get_mut(entry) {
            refused.count += 1;
        } else if self.entries.len() < DISTINCT_MAX {
            let refused = Refused {
                entry: entry.to_owned(),
                address: get(Field::Address).to_owned(),
                list: get(Field::List).to_owned(),
                source: get(Field::Source).to_owned(),
                case: get(Field::Case).to_owned(),
                count: 1,
            };
            self.entries.insert(entry.to_owned(), refused);
        }
    }

    fn finish(self, options: &Options, history: &mut History) -> Digest {
        let has_history = history.since.is_some();
        let lists = options.lists.iter().map(|(list, _)| list.clone());
        let mut lists: HashSet<String> = lists.collect();
        for ([list, source], sum) in self.hits.sorted() {
            lists.insert(list.clone());
            history.hit(&list, "", sum.first, sum.last);
            if !source.is_empty() {
                history.hit(&list, &source, sum.first, sum.last);
            }
        }
        // Earlier versions allowed a sender to write text there that looks like the name of a list.
        for ([list], sum) in self.also.sorted() {
            if lists.contains(&list) {
                history.hit(&list, "", sum.first, sum.last);
            }
        }
        for ([entry], sum) in self.refused_on.sorted() {
            history.refused(&entry, sum.first, sum.last);
        }
        let first_day = self.days.map_or(self.today, |(from, _)| from);
        let begins = options.since.unwrap_or(first_day);
        // Log lines before the report begins are a history, too.
        let known_before = has_history || history.entries.values().any(|days| days.0 < begins.0);
        let mut refused: Vec<Refused> = self.entries.into_values().collect();
        refused.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.entry.cmp(&b.entry)));
        let mut digest = self.digest;
        digest.host.clone_from(&options.host);
        if known_before {
            let is_new = |refused: &&Refused| {
                let first = history.first_refused(&refused.entry);
                first.is_some_and(|first| first >= begins)
            };
            let mut new: Vec<Refused> = refused.iter().filter(is_new).cloned().collect();
            digest.first_refused_total = new.len() as u64;
            new.truncate(FIRST_MAX);
            digest.first_refused = new;
        }
        refused.truncate(MOST_MAX);
        digest.most_refused = refused;
        digest.has_history = known_before;
        digest.from = self.days.map(|(from, _)| from.to_string());
        digest.until = self.days.map(|(_, until)| until.to_string());
        digest.actions = self.actions.rows(|[action], count| (action, count));
        digest.refused = self.refused.rows(|[a, b, c], count| (a, b, c, count));
        digest.exempt = self.exempt.rows(|[reason], count| (reason, count));
        digest.dry_run = self.dry_run.rows(|[a, b], count| (a, b, count));
        digest.let_through = self.let_through.rows(|[a, b, c], count| (a, b, c, count));
        digest.tagged = self.tagged.rows(|[a, b], count| (a, b, count));
        digest.problems = self.problems.into();
        let known = *history.since.get_or_insert(first_day.0);
        let known = known.min(first_day.0);
        history.since = Some(known);
        digest.hits_known_since = Some(Day(known).to_string());
        digest.idle = idle(history, &options.lists, self.today, Day(known));
        history.forget(self.today, &options.lists);
        digest
    }
}

/// Returns the lists and sources without a hit for [`IDLE_DAYS`], or without any hit since they
/// are known.
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
                // Then its sources have no hit either.
                break;
            }
        }
    }
    idle
}

/// Returns whether the recipient does not get the mail, or not now.
fn is_refusal(action: &str) -> bool {
    match action.parse() {
        Ok(Action::Reject | Action::Tempfail | Action::Quarantine | Action::Discard) => true,
        Ok(Action::Tag | Action::Log) | Err(()) => false,
    }
}

fn is_exemption(reason: &str) -> bool {
    reason == Reason::ExemptRecipient.name()
        || Exemption::ALL.iter().any(|known| known.name() == reason)
}

/// Counts by groups of words, with the first and the last day.
#[derive(Default)]
struct Counts<const N: usize> {
    sums: HashMap<String, Sum>,
    /// Reused, so that a known group costs no allocation.
    key: String,
}

#[derive(Clone, Copy)]
struct Sum {
    count: u64,
    first: Day,
    last: Day,
}

impl<const N: usize> Counts<N> {
    fn add(&mut self, words: [&str; N], day: Day) {
        self.add_many(words, day, 1);
    }

    fn add_many(&mut self, words: [&str; N], day: Day, count: u64) {
        self.key.clear();
        for (number, word) in words.into_iter().enumerate() {
            if number > 0 {
                self.key.push('\n');
            }
            self.key.push_str(word);
        }
        if let Some(sum) = self.sums.get_mut(&self.key) {
            sum.count = sum.count.saturating_add(count);
            sum.first = day.min(sum.first);
            sum.last = day.max(sum.last);
        } else if self.sums.len() < DISTINCT_MAX {
            let sum = Sum {
                count,
                first: day,
                last: day,
            };
            self.sums.insert(self.key.clone(), sum);
        }
    }

    fn rows<R>(self, row: impl Fn([String; N], u64) -> R) -> Vec<R> {
        let sums = self.sorted();
        sums.map(|(words, sum)| row(words, sum.count)).collect()
    }

    /// Returns the groups, the largest first.
    fn sorted(self) -> impl Iterator<Item = ([String; N], Sum)> {
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        sums.sort_unstable_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(&b.0)));
        sums.into_iter().map(|(key, sum)| {
            let mut words = key.splitn(N, '\n').map(str::to_owned);
            let words = std::array::from_fn(|_| words.next().unwrap_or_default());
            (words, sum)
        })
    }
}
