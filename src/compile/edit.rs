//! Adding entries to a text list and removing them, line by line.
//!
//! An administrator wants one sender blocked or unblocked now, and also after the next build. So
//! the text list is edited; the filter follows with the build that notices the edit, or at once with
//! [`update`](super::update()). All other lines keep their bytes. An entry is found by its canonical
//! form, however it is written.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::edited_list::{EditedList, ListedEntry};
use super::error::Error;
use super::plan::Plan;
use super::read::is_whitelist;
use crate::address::{Canonical, Entry, Kinds, escaped};
use crate::list::{self, RejectReason};

/// What was done about each entry, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edited {
    /// The list.
    pub list: PathBuf,
    /// The entries, as given, and what was done.
    pub entries: Vec<(String, Done)>,
    /// Entries to remove that stay on some line, each with the first such line.
    pub kept: Vec<(String, u64)>,
    /// Entries that were not found, each with an entry that lists them all the same, and its line.
    pub covered: Vec<(String, String, u64)>,
}

/// What was done about one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was added as a new line at the end.
    Added,
    /// It was there, on this line.
    AlreadyThere(u64),
    /// The lines that named it were removed.
    Removed {
        /// Number of the first, from 1.
        line: u64,
        /// How many.
        lines: u64,
    },
    /// No line names it, or no such line may be removed.
    NotFound,
}

impl Edited {
    /// Returns whether the list was written.
    pub fn changed(&self) -> bool {
        let mut done = self.entries.iter().map(|(_, done)| done);
        done.any(|done| matches!(done, Done::Added | Done::Removed { .. }))
    }

    /// Returns whether an entry to remove was not found.
    pub fn misses_some(&self) -> bool {
        self.entries.iter().any(|(_, done)| *done == Done::NotFound)
    }

    fn of(list: &Path) -> Self {
        Self {
            list: list.to_owned(),
            ..Self::default()
        }
    }

    fn push(&mut self, typed: &str, done: Done) {
        self.entries.push((typed.to_owned(), done));
    }

    fn write(self, list: EditedList, text: &[u8]) -> Result<Self, Error> {
        if self.changed() {
            list.replacement.commit_text(text)?;
        }
        Ok(self)
    }
}

/// Appends those of `entries` that the list does not have, each on a line of its own with the day of
/// the plan, its day of expiry if it has one, and a note as a comment. Such an entry also replaces
/// the lines that name it alone, if `is_renewed` is true for them. Creates a missing list.
///
/// # Errors
/// When an entry is invalid or too broad, and when the list is not plain text or cannot be written.
pub fn add_or_renew(
    plan: &Plan,
    list: &Path,
    entries: &[(&str, &str)],
    is_renewed: impl Fn(&[u8]) -> bool,
) -> Result<Edited, Error> {
    let wanted = parse(plan, entries.iter().map(|&(entry, _)| entry))?;
    let is_control = |char: char| char.is_control();
    if entries.iter().any(|(_, note)| note.contains(is_control)) {
        return Err(Error::Plan("--note: must be one line of text".to_owned()));
    }
    if !is_whitelist(list) {
        refuse_broad(plan, &wanted)?;
    }
    let end = plan.expires.map(|day| format!("expires {day} "));
    let expires = end.unwrap_or_default();
    let edited = EditedList::open(list, plan.rules)?;
    // A line that ends earlier is not enough: the sender would be missed from then on.
    let lasts = |there: &&ListedEntry| match (there.expires, plan.expires) {
        (None, _) => true,
        (Some(end), Some(day)) => end >= day,
        (Some(_), None) => false,
    };
    let is_replaceable = |there: &&ListedEntry| is_renewed(edited.line(there));
    let (mut new, mut new_lines) = (HashSet::new(), String::new());
    let (mut removed, mut done) = (Vec::new(), Edited::of(list));
    for (wanted, (_, note)) in wanted.iter().zip(entries) {
        let Wanted { typed, written, .. } = wanted;
        let entry = wanted.entry.as_bytes();
        if let Some(there) = edited.of(entry).iter().find(lasts) {
            done.push(typed, Done::AlreadyThere(there.line));
            continue;
        }
        done.push(typed, Done::Added);
        // The same entry twice on the command line gives one line.
        if new.insert(entry) {
            removed.extend(edited.of(entry).iter().filter(is_replaceable));
            let line = format!("{written} # {expires}added {} {note}", plan.today());
            new_lines += line.trim_end_matches(' ');
            new_lines.push('\n');
        }
    }
    let mut text = edited.text_without(removed);
    if !text.is_empty() && !text.ends_with(b"\n") && !new_lines.is_empty() {
        text.push(b'\n');
    }
    text.extend_from_slice(new_lines.as_bytes());
    done.write(edited, &text)
}

/// Removes the lines of the list that name one of `entries`, if `may_remove` is true for them. An
/// entry that is also on other lines is in [`kept`](Edited::kept).
pub fn remove_lines(
    plan: &Plan,
    list: &Path,
    entries: &[String],
    may_remove: impl Fn(&[u8]) -> bool,
) -> Result<Edited, Error> {
    let wanted = parse(plan, entries.iter().map(String::as_str))?;
    let edited = EditedList::open(list, plan.rules)?;
    let (mut removed, mut done) = (Vec::new(), Edited::of(list));
    for Wanted { typed, entry, .. } in &wanted {
        let there = edited.of(entry.as_bytes()).iter();
        let (lines, staying): (Vec<&ListedEntry>, Vec<_>) =
            there.partition(|there| may_remove(edited.line(there)));
        let what = lines.first().map_or(Done::NotFound, |first| Done::Removed {
            line: first.line,
            lines: lines.len() as u64,
        });
        done.push(typed, what);
        let kept = staying.first().map(|there| (typed.clone(), there.line));
        done.kept.extend(kept);
        if lines.is_empty()
            && staying.is_empty()
            && let Ok(sender) = Canonical::parse(typed.as_bytes(), plan.rules)
        {
            let _ = sender.lookups(Kinds::ALL, |_, by| {
                let there = edited.of(by).first();
                let covered = there.map(|it| (typed.clone(), escaped(by).to_string(), it.line));
                done.covered.extend(covered);
                ControlFlow::<()>::Continue(())
            });
        }
        removed.extend(lines);
    }
    let text = edited.text_without(removed);
    done.write(edited, &text)
}

struct Wanted {
    typed: String,
    /// As a list has it.
    written: String,
    /// In the form that is compared.
    entry: Entry,
}

fn parse<'a>(plan: &Plan, entries: impl Iterator<Item = &'a str>) -> Result<Vec<Wanted>, Error> {
    let wanted = entries.map(|typed| {
        let typed = typed.trim().to_owned();
        let wrong = |why: &dyn fmt::Display| {
            let shown = escaped(typed.as_bytes());
            Error::Plan(format!("{shown}: not an entry: {why}"))
        };
        let written = list::written(&typed).map_err(|reason| match reason {
            RejectReason::Several => wrong(&"one entry per argument, such as spam@bad.example"),
            reason => wrong(&reason),
        })?;
        let entry = Entry::parse(written.as_bytes(), plan.rules).map_err(|error| wrong(&error))?;
        Ok(Wanted {
            typed,
            written,
            entry,
        })
    });
    wanted.collect()
}

/// Checks whether an entry may be added to a blocklist.
pub fn may_list(plan: &Plan, entry: &str) -> Result<(), Error> {
    refuse_broad(plan, &parse(plan, std::iter::once(entry))?)
}

fn refuse_broad(plan: &Plan, wanted: &[Wanted]) -> Result<(), Error> {
    let guard = plan.guard()?;
    wanted.iter().try_for_each(|Wanted { typed, entry, .. }| {
        let checked = guard.check(entry.kind(), entry.as_bytes());
        checked.map_err(|danger| {
            let hint = "nothing was changed (allow in list.toml accepts it)";
            Error::Plan(format!("{typed}: {danger}; {hint}"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::day::Day;
    use std::fs;

    use proptest::prelude::*;

    fn plan() -> Plan {
        let mut plan = Plan::new("x.blf", Vec::new());
        plan.built = u64::from(Day(20_000).0) * 86_400;
        plan
    }

    fn note() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec![
                "unblock request denied",
                "expires 2020-01-01",
                "# expires 2020-01-01",
                "; x",
                "OK",
                "!",
                "not a spammer any more, delist",
                "[whitelist]",
                "\"",
                "a@b.example, c@d.example",
                ":",
            ])
            .prop_map(str::to_owned),
            "[^\\p{Cc}]{0,30}",
        ]
    }

    fn typed() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~.-]{1,9}@[a-z]{1,5}\\.example",
            1 => "\"[^\"\\\\\\p{Cc}]{1,9}\"@[a-z]{1,5}\\.example",
            1 => "(@|\\.|\\*\\.|)[a-z#;-]{1,5}\\.[a-z]{1,5}",
            1 => "[a-z#;!+-]{1,9}@",
            1 => "[A-Z]{1,5} <[a-z#-]{1,5}@bad\\.example>",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// What is added is read back as the same entry, with its end, and can be removed.
        #[test]
        fn what_is_added_is_read_back(entry in typed(), note in note(), ends: bool) {
            let folder = tempfile::tempdir().unwrap();
            let list = folder.path().join("own.txt");
            let mut plan = plan();
            (plan.allow_world, plan.expires) = (true, ends.then_some(Day(30_000)));
            let given = [(entry.as_str(), note.as_str())];
            if add_or_renew(&plan, &list, &given, |_| false).is_ok() {
                let text = fs::read(&list).unwrap();
                let declared = list::Declared::default();
                let reading = list::reading(&text, true, &declared).unwrap();
                prop_assert_eq!(reading.format, list::Format::Plain);
                let mut rows = Vec::new();
                list::Reader::new(&reading).read(&text, true, &mut |_, row| match row {
                    list::Row::Entry(raw) => rows.push((raw.text.to_vec(), raw.expires)),
                    row => panic!("{row:?}"),
                });
                let [(text, expires)] = &rows[..] else { panic!("{rows:?}") };
                let wanted = Entry::parse(entry.as_bytes(), plan.rules).unwrap();
                let found = Entry::parse(text, plan.rules).unwrap();
                prop_assert_eq!(wanted.as_bytes(), found.as_bytes());
                prop_assert_eq!(*expires, plan.expires);
                let removed = remove_lines(&plan, &list, &[entry], |_| true);
                prop_assert!(removed.unwrap().changed());
            }
        }
    }
}
