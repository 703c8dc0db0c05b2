//! Adding entries to a text list and removing them, line by line.
//!
//! An administrator wants one sender blocked or unblocked now, and also after the next build. So
//! the text list is edited; the filter follows with the build that notices the edit, or at once with
//! [`update`](super::update()). All other lines keep their bytes. An entry is found by its canonical
//! form, however it is written. The list is replaced like a filter: the new text is written beside the
//! old file, synced, and renamed.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::plan::Plan;
use super::read::{base_name, is_whitelist, may_be_list};
use super::undone::Undone;
use crate::list::{self, Format, ListToml, Reader, Reading, Refusal, RejectReason, Row};
use crate::unpack;
use blocklist_filter::address::{Canonical, Entry, Kinds, Rules, escaped};
use blocklist_filter::base::access::open_regular;
use blocklist_filter::base::day::Day;
use blocklist_filter::base::file_state::FileState;
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::format::MAGIC;
use blocklist_filter::filter::sources::REPORTS;

/// What was done about each entry, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edited {
    pub(crate) list: PathBuf,
    /// The entries, as given, and what was done.
    pub entries: Vec<(String, Done)>,
    /// Entries to remove that stay on some line, each with the first such line.
    pub kept: Vec<(String, u64)>,
    /// Entries that were undone until this day, and are listed again because somebody added them.
    pub(crate) overridden: Vec<(String, Day)>,
    /// Entries that were not found, each with an entry that lists them all the same, and its line.
    pub(crate) covered: Vec<(String, String, u64)>,
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
    /// It was not added: somebody undid it, which lasts until this day.
    Undone(Day),
}

/// Who edits a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Somebody who names the entries, and has the last word.
    Name,
    /// Reports of users, which edit only the lines that reports have made.
    Reports,
}

/// The text that marks the comments of reported entries.
pub const REPORTED: &str = " reported by ";

/// Returns whether a line has the form that reports write: `# expires DATE added DATE reported by ...`. A line with another
/// comment belongs to a person.
fn is_reported(line: &[u8]) -> bool {
    let (_, comment) = list::split_comment(line.trim_ascii());
    let comment = comment.and_then(|comment| str::from_utf8(comment).ok());
    let mut words = comment.unwrap_or_default().splitn(5, ' ').skip(1);
    let mut next = || words.next().unwrap_or_default();
    let is_day = |day: &str| Day::read(day.as_bytes()).is_some();
    let (expires, ends, added, rest) = (next(), next(), next(), next());
    let (began, rest) = rest.split_at_checked(10).unwrap_or_default();
    expires == "expires"
        && is_day(ends)
        && added == "added"
        && is_day(began)
        && rest.starts_with(REPORTED)
}

impl Edited {
    /// Returns whether an entry to remove was not found.
    pub(crate) fn misses_some(&self) -> bool {
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
        if text != list.text {
            // Whoever wrote it meanwhile must not lose what was written.
            if FileState::of(&self.list).ok() != list.state {
                return Err(Error::io(&self.list, "edit")(unpack::changed()));
            }
            list.replacement.commit_text(text)?;
        }
        Ok(self)
    }
}

/// Appends those of `entries` that the list does not have, each on a line of its own with the day of
/// the plan, its day of expiry if it has one, and a note as a comment. Creates a missing list. A report also replaces the
/// lines that earlier ones made, even expired ones, adds nothing that was undone, and marks the list as one of reports.
///
/// # Errors
/// When an entry is invalid or too broad, and when the list is not plain text or cannot be written.
pub fn add(plan: &Plan, list: &Path, entries: &[(&str, &str)], by: By) -> Result<Edited, Error> {
    let wanted = parse(plan, entries.iter().map(|&(entry, _)| entry))?;
    let is_control = |char: char| char.is_control();
    if entries.iter().any(|(_, note)| note.contains(is_control)) {
        return Err(Error::setting("--note", "must be one line of text"));
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
    let is_replaceable =
        |there: &&ListedEntry| by == By::Reports && is_reported(edited.line(there));
    let mut undone = Undone::of(list, plan.rules)?;
    let (mut new, mut new_lines) = (HashSet::new(), String::new());
    let (mut removed, mut done) = (Vec::new(), Edited::of(list));
    for (wanted, (_, note)) in wanted.iter().zip(entries) {
        let Wanted { typed, written, .. } = wanted;
        let entry = wanted.entry.as_bytes();
        if let Some(there) = edited.of(entry).iter().find(lasts) {
            done.push(typed, Done::AlreadyThere(there.line));
            continue;
        }
        let until = undone.until(&wanted.entry, plan.today());
        match (until.filter(|_| !is_whitelist(list)), by) {
            (Some(_), By::Reports) => {
                undone.put(&wanted.entry, written, plan.today());
                done.push(typed, Done::Undone(Undone::end(plan.today())));
                continue;
            }
            (Some(until), By::Name) => {
                undone.remove(&wanted.entry);
                done.overridden.push((typed.clone(), until));
            }
            (None, _) => {}
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
    let head = format!("# Licence: {REPORTS}\n");
    if by == By::Reports && !text.is_empty() && !text.starts_with(head.as_bytes()) {
        text.splice(..0, head.into_bytes());
    }
    undone.write(plan.today())?;
    done.write(edited, &text)
}

/// Removes the lines of the list that name one of `entries`. An entry of a report is undone, so that no other report adds
/// it again. Reports remove only the lines that reports have made; an entry that is also on other lines is in
/// [`kept`](Edited::kept).
pub fn remove(plan: &Plan, list: &Path, entries: &[String], by: By) -> Result<Edited, Error> {
    let wanted = parse(plan, entries.iter().map(String::as_str))?;
    let edited = EditedList::open(list, plan.rules)?;
    let (mut removed, mut done) = (Vec::new(), Edited::of(list));
    let mut undone = Undone::of(list, plan.rules)?;
    for Wanted {
        typed,
        written,
        entry,
    } in &wanted
    {
        let there = edited.of(entry.as_bytes()).iter();
        let (lines, staying): (Vec<&ListedEntry>, Vec<_>) =
            there.partition(|there| by == By::Name || is_reported(edited.line(there)));
        let was_reported = lines.iter().any(|there| is_reported(edited.line(there)));
        if was_reported || by == By::Reports && staying.is_empty() {
            undone.put(entry, written, plan.today());
        }
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
    undone.write(plan.today())?;
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
        let wrong = |why: &dyn fmt::Display| Error::Entry {
            written: escaped(typed.as_bytes()).to_string(),
            why: format!("not an entry: {why}"),
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
        checked.map_err(|danger| Error::Entry {
            written: typed.clone(),
            why: format!("{danger}; nothing was changed (allow in list.toml accepts it)"),
        })
    })
}

/// A larger list is not kept by hand; `update` changes its filter instead.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// A text list that is being edited: claimed and read.
struct EditedList {
    replacement: Replacement,
    /// The state of the file before it was read; `None` if there was no file.
    state: Option<FileState>,
    text: Vec<u8>,
    /// Where the list has each canonical entry, in the order of the lines; a line has at most one.
    entries: HashMap<Vec<u8>, Vec<ListedEntry>>,
}

struct ListedEntry {
    line: u64,
    range: Range<usize>,
    expires: Option<Day>,
}

impl EditedList {
    fn open(path: &Path, rules: Rules) -> Result<Self, Error> {
        let refused = |why: &str| Error::io(path, "edit")(io::Error::other(why));
        let replacement = Replacement::claim(path)?;
        let state = FileState::of(path).ok();
        let text = match fs::metadata(path) {
            Ok(meta) if meta.len() > MAX_LIST_BYTES => {
                let why = "too large to edit; use blocklist-compile update to change its filter";
                return Err(refused(why));
            }
            Ok(_) => fs::read(path).map_err(Error::io(path, "read"))?,
            Err(_) if replacement.is_new() => Vec::new(),
            Err(error) => return Err(Error::io(path, "read")(error)),
        };
        if text.starts_with(&MAGIC) {
            let why = "it is a filter file; name its text list, or use blocklist-compile update";
            return Err(refused(why));
        }
        check_written_as_read(&text).map_err(|why| refused(&why))?;
        let reading = reading(path, &text, refused)?;
        let mut entries: HashMap<_, Vec<_>> = HashMap::new();
        let mut start = 0;
        for (line, written) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            let range = start..start + written.len();
            start = range.end;
            let found = entry_of(written, &reading, rules).map_err(|refusal| {
                let until = "until then no build reads this list";
                refused(&format!("line {line}: {refusal}; {until}"))
            })?;
            if let Some((entry, expires)) = found {
                let there = ListedEntry {
                    line,
                    range,
                    expires,
                };
                entries.entry(entry).or_default().push(there);
            }
        }
        Ok(Self {
            replacement,
            state,
            text,
            entries,
        })
    }

    fn line(&self, there: &ListedEntry) -> &[u8] {
        &self.text[there.range.clone()]
    }

    fn text_without<'a>(&self, removed: impl IntoIterator<Item = &'a ListedEntry>) -> Vec<u8> {
        let mut ranges: Vec<_> = removed.into_iter().map(|there| &there.range).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.dedup();
        let (mut text, mut kept) = (Vec::with_capacity(self.text.len()), 0);
        for range in ranges {
            text.extend_from_slice(&self.text[kept..range.start]);
            kept = range.end;
        }
        text.extend_from_slice(&self.text[kept..]);
        text
    }

    /// Returns where the list has an entry, given in canonical form, in the order of the lines.
    fn of(&self, entry: &[u8]) -> &[ListedEntry] {
        self.entries.get(entry).map_or(&[], Vec::as_slice)
    }
}

/// Returns how a list is read: as a build does, or for a whitelist as the daemon does, to which
/// `friend@good.example OK` is an entry.
fn reading(path: &Path, text: &[u8], refused: impl Fn(&str) -> Error) -> Result<Reading, Error> {
    if is_whitelist(path) {
        return Ok(Reading::whitelist());
    }
    if !may_be_list(path) {
        return Err(refused("no build reads a file with this name as a list"));
    }
    let list_toml = ListToml::of_folder(path.parent().unwrap_or_else(|| Path::new("")))?;
    let list_toml = list_toml.unwrap_or_default();
    if list_toml.feed.is_some() {
        let why = "list.toml beside it has a [feed], which replaces the files here";
        return Err(refused(why));
    }
    let Some(declared) = list_toml.declared(&[&base_name(path)]) else {
        return Err(refused("list.toml beside it says that it is no list"));
    };
    let reading = list::reading(text, true, &declared).map_err(|refusal| match refusal {
        Refusal::Table(_) => refused("a table; only plain lists can be edited"),
        other => refused(&other.to_string()),
    })?;
    if reading.format != Format::Plain {
        let format = reading.format;
        let why = format!("a list of format {format}; only plain lists can be edited");
        return Err(refused(&why));
    }
    // What is edited are lines, each with what is written there.
    Ok(Reading {
        subdomains: false,
        ..reading
    })
}

/// Checks that a build reads a list without unpacking or converting it: a line can be added to it.
fn check_written_as_read(text: &[u8]) -> Result<(), String> {
    let mut read = Vec::new();
    let all = unpack::text(io::Cursor::new(text.to_vec()))
        .and_then(|input| input.take(MAX_LIST_BYTES + 1).read_to_end(&mut read));
    match all {
        Ok(_) if read == text => Ok(()),
        Ok(_) => Err(
            "compressed, in UTF-16 or with lines that end with CR; unpack it or convert it to UTF-8 first".to_owned(),
        ),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the first line of a text list that names this entry, in canonical form, with its
/// number; `None` if no line does, or the list is larger than 64 MiB.
pub fn line_of(list: &Path, rules: Rules, entry: &[u8]) -> Result<Option<(u64, String)>, Error> {
    let mut text = Vec::new();
    // A filter names the path: it may be that of a device, or of a pipe without a writer.
    open_regular(list)
        .and_then(|file| file.take(MAX_LIST_BYTES + 1).read_to_end(&mut text))
        .map_err(Error::io(list, "read"))?;
    if text.len() as u64 > MAX_LIST_BYTES {
        return Ok(None);
    }
    let plain = Reading::given(Format::Plain);
    let named = (1..).zip(list::lines(&text)).find(
        |(_, line)| matches!(entry_of(line, &plain, rules), Ok(Some((found, _))) if found == entry),
    );
    Ok(named.map(|(number, line)| (number, escaped(line).to_string())))
}

type Dated = (Vec<u8>, Option<Day>);

/// Returns the entry of one line; a line may refuse the list.
fn entry_of(line: &[u8], reading: &Reading, rules: Rules) -> Result<Option<Dated>, Refusal> {
    let mut found = Ok(None);
    Reader::new(reading).read(line, true, &mut |_, row| match row {
        Row::Entry(raw) => {
            let entry = Entry::parse(raw.text, rules).ok();
            found = Ok(entry.map(|entry| (entry.as_bytes().to_vec(), raw.expires)));
        }
        Row::Refused { refusal, .. } => found = Err(refusal),
        Row::Skipped { .. } | Row::Rejected { .. } => {}
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn a_device_in_the_place_of_a_text_list_is_not_read() {
        let named = line_of(Path::new("/dev/zero"), Rules::default(), b"a@b.example");
        assert!(named.is_err());
    }

    #[test]
    fn what_somebody_else_writes_meanwhile_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("own.txt");
        for before in [None, Some("a@bad.example\n")] {
            if let Some(text) = before {
                fs::write(&list, text).unwrap();
            }
            let edited = EditedList::open(&list, Rules::default()).unwrap();
            fs::write(&list, "b@bad.example\nc@bad.example\n").unwrap();
            let mut done = Edited::of(&list);
            done.push("d@bad.example", Done::Added);
            let error = done.write(edited, b"d@bad.example\n").unwrap_err();
            assert!(error.to_string().contains("changed while"), "{error}");
            assert!(fs::read_to_string(&list).unwrap().starts_with("b@"));
            fs::remove_file(&list).unwrap();
        }
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
            if add(&plan, &list, &given, By::Name).is_ok() {
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
                let removed = remove(&plan, &list, &[entry], By::Name);
                prop_assert!(!removed.unwrap().misses_some());
            }
        }
    }
}
