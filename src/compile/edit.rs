//! Adding entries to a text list and removing them, line by line.
//!
//! An administrator wants one sender blocked or unblocked now, and also after the next build. So
//! the text list is edited, which every build reads. The filter follows with the build that notices
//! the edit, or at once with [`update`](super::update()).
//!
//! All other lines keep their bytes. An entry is found by its canonical form, however it is
//! written.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::edited_list::EditedList;
use super::guard::Guard;
use super::read::is_whitelist;
use super::{Error, Plan};
use crate::address::{Canonical, Entry, Kinds, escaped};
use crate::list::{self, RejectReason};

/// What was done about each entry, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    #[must_use]
    pub fn changed(&self) -> bool {
        self.entries
            .iter()
            .any(|(_, done)| matches!(done, Done::Added | Done::Removed { .. }))
    }

    /// Returns whether an entry to remove was not found.
    #[must_use]
    pub fn misses_some(&self) -> bool {
        self.entries.iter().any(|(_, done)| *done == Done::NotFound)
    }
}

impl fmt::Display for Edited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list.display();
        for (number, (entry, done)) in self.entries.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            match done {
                Done::Added => write!(f, "{entry}: added to {list}")?,
                Done::AlreadyThere(line) => write!(f, "{entry}: already in {list}, line {line}")?,
                Done::Removed { line, lines: 1 } => {
                    write!(f, "{entry}: removed from {list}, line {line}")?;
                }
                Done::Removed { line, lines } => {
                    write!(
                        f,
                        "{entry}: removed from {list}, {lines} lines from line {line}"
                    )?;
                }
                Done::NotFound => {
                    write!(f, "{entry}: not in {list}")?;
                    for (_, by, line) in self.covered.iter().filter(|(of, ..)| of == entry) {
                        write!(f, "; line {line}, {by}, lists it all the same")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Appends those of `entries` that the list does not have, each on a line of its own with the day
/// of the plan and the `note` as a comment. Creates the list if it does not exist.
///
/// # Errors
/// When an entry is invalid or overly broad for a blocklist; when the list is not plain text, or
/// cannot be written. Then nothing was changed.
pub fn add_to_list(
    plan: &Plan,
    list: &Path,
    entries: &[String],
    note: &str,
) -> Result<Edited, Error> {
    let entries: Vec<_> = entries.iter().map(|entry| (entry.as_str(), note)).collect();
    add_noted(plan, list, &entries)
}

/// Like [`add_to_list`], with a note for each entry. If the plan has a day of expiry, the line has
/// it too.
///
/// # Errors
/// As for [`add_to_list`].
pub fn add_noted(plan: &Plan, list: &Path, entries: &[(&str, &str)]) -> Result<Edited, Error> {
    add_or_renew(plan, list, entries, |_| false)
}

/// Like [`add_noted`]. An entry also replaces the lines that name it alone, if they end before it
/// and `is_renewed` is true for them.
///
/// # Errors
/// As for [`add_to_list`].
pub fn add_or_renew(
    plan: &Plan,
    list: &Path,
    entries: &[(&str, &str)],
    is_renewed: impl Fn(&[u8]) -> bool,
) -> Result<Edited, Error> {
    let wanted = parse(plan, entries.iter().map(|&(entry, _)| entry))?;
    if entries
        .iter()
        .any(|(_, note)| note.contains(|char: char| char.is_control()))
    {
        return Err(Error::Plan("--note: must be one line of text".to_owned()));
    }
    if !is_whitelist(list) {
        refuse_broad(plan, &wanted)?;
    }
    let expires = plan
        .expires
        .map_or_else(String::new, |day| format!("expires {day} "));
    let edited = EditedList::open(list, plan.rules)?;
    let known = edited.lines_of();
    // A line that ends earlier is not enough: the sender would be missed from then on.
    let mut lasting = edited.lines_until(plan.expires);
    let is_replaceable =
        |line: u64| is_renewed(edited.line(line)) && edited.entries_on(line).count() == 1;
    let mut removed_lines = HashSet::new();
    for (_, _, entry) in &wanted {
        if !lasting.contains_key(entry.as_bytes()) {
            let lines = known.get(entry.as_bytes()).into_iter().flatten();
            removed_lines.extend(lines.copied().filter(|&line| is_replaceable(line)));
        }
    }
    let mut text = edited.text_without(&removed_lines);
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    let mut done = Vec::new();
    for ((_, written, entry), (_, note)) in wanted.iter().zip(entries) {
        let found = lasting
            .get(entry.as_bytes())
            .and_then(|lines| lines.first());
        done.push(match found {
            Some(0) | None => Done::Added,
            Some(&line) => Done::AlreadyThere(line),
        });
        if found.is_none() {
            let day = plan.today();
            let blank = if note.is_empty() { "" } else { " " };
            text.extend_from_slice(
                format!("{written} # {expires}added {day}{blank}{note}\n").as_bytes(),
            );
            // The same entry twice on the command line gives one line; 0 means that it has none
            // yet.
            lasting.insert(entry.as_bytes().to_vec(), vec![0]);
        }
    }
    finish(edited, &text, wanted, done)
}

/// Removes the lines of the list that name one of `entries`.
///
/// # Errors
/// As for [`add_to_list`], and when such a line also names other entries: the user must decide what
/// happens to them.
pub fn remove_from_list(plan: &Plan, list: &Path, entries: &[String]) -> Result<Edited, Error> {
    remove_lines(plan, list, entries, |_| true)
}

/// Like [`remove_from_list`], but removes only the lines for which `may_remove` is true. An entry that
/// is also on other lines is in [`kept`](Edited::kept).
///
/// # Errors
/// As for [`remove_from_list`].
pub fn remove_lines(
    plan: &Plan,
    list: &Path,
    entries: &[String],
    may_remove: impl Fn(&[u8]) -> bool,
) -> Result<Edited, Error> {
    let wanted = parse(plan, entries.iter().map(String::as_str))?;
    let edited = EditedList::open(list, plan.rules)?;
    let known = edited.lines_of();
    let mut removed_lines = HashSet::new();
    let mut done = Vec::new();
    let mut kept = Vec::new();
    let mut covered = Vec::new();
    for (written, _, entry) in &wanted {
        let lines = known.get(entry.as_bytes()).into_iter().flatten();
        let (lines, staying): (Vec<u64>, Vec<u64>) =
            lines.partition(|&&line| may_remove(edited.line(line)));
        kept.extend(staying.first().map(|&line| (written.clone(), line)));
        for &line in &lines {
            let others = edited
                .entries_on(line)
                .any(|other| !wanted.iter().any(|(_, _, entry)| entry.as_bytes() == other));
            if others {
                return Err(Error::Plan(format!(
                    "{}:{line}: this line has other entries too; edit it by hand",
                    list.display()
                )));
            }
        }
        if lines.is_empty()
            && staying.is_empty()
            && let Ok(sender) = Canonical::parse(written.as_bytes(), plan.rules)
        {
            let _ = sender.lookups(Kinds::ALL, |_, by| {
                if let Some(&line) = known.get(by).and_then(|lines| lines.first()) {
                    covered.push((written.clone(), escaped(by).to_string(), line));
                }
                ControlFlow::<()>::Continue(())
            });
        }
        done.push(match lines.as_slice() {
            [] => Done::NotFound,
            [line, ..] => Done::Removed {
                line: *line,
                lines: lines.len() as u64,
            },
        });
        removed_lines.extend(lines);
    }
    let text = edited.text_without(&removed_lines);
    let edited = finish(edited, &text, wanted, done)?;
    Ok(Edited {
        kept,
        covered,
        ..edited
    })
}

/// Replaces the list, if the text changes it.
fn finish(list: EditedList, text: &[u8], wanted: Wanted, done: Vec<Done>) -> Result<Edited, Error> {
    let written = wanted.into_iter().map(|(typed, ..)| typed);
    let edited = Edited {
        list: list.path().to_owned(),
        entries: written.zip(done).collect(),
        kept: Vec::new(),
        covered: Vec::new(),
    };
    if edited.changed() {
        list.replace(text)?;
    }
    Ok(edited)
}

/// Each entry as it was typed, as a list has it, and in the form that is compared.
type Wanted = Vec<(String, String, Entry)>;

fn parse<'a>(plan: &Plan, entries: impl Iterator<Item = &'a str>) -> Result<Wanted, Error> {
    let mut wanted = Vec::new();
    for typed in entries {
        let typed = typed.trim();
        let wrong = |why: &dyn fmt::Display| {
            Error::Plan(format!(
                "{}: not an entry: {why}",
                escaped(typed.as_bytes())
            ))
        };
        let written = list::written(typed).map_err(|reason| match reason {
            RejectReason::Several => wrong(&"one entry per argument, such as spam@bad.example"),
            reason => wrong(&reason),
        })?;
        let entry = Entry::parse(written.as_bytes(), plan.rules).map_err(|error| wrong(&error))?;
        wanted.push((typed.to_owned(), written, entry));
    }
    Ok(wanted)
}

/// Checks whether an entry may be added to a blocklist.
///
/// # Errors
/// When it may not; the error says why.
pub fn may_list(plan: &Plan, entry: &str) -> Result<(), Error> {
    refuse_broad(plan, &parse(plan, std::iter::once(entry))?)
}

fn refuse_broad(plan: &Plan, wanted: &Wanted) -> Result<(), Error> {
    let Some(guard): Option<Guard> = plan.guard()? else {
        return Ok(());
    };
    for (written, _, entry) in wanted {
        guard
            .check(entry.kind(), entry.as_bytes())
            .map_err(|danger| Error::Plan(format!("{written}: {danger}; nothing was changed")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::day::Day;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    fn plan() -> Plan {
        let mut plan = Plan::new("x.blf", Vec::new());
        plan.built = u64::from(Day(20_000).0) * 86_400;
        plan
    }

    fn entries(written: &[&str]) -> Vec<String> {
        written.iter().map(|&entry| entry.to_owned()).collect()
    }

    #[test]
    fn an_entry_is_added_once_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("own.txt");
        let add = |written: &[&str]| add_to_list(&plan(), &list, &entries(written), "");
        let added = add(&["Spam@Bad.example", "@worse.example", "spam@bad.example"]).unwrap();
        assert_eq!(
            added
                .entries
                .iter()
                .map(|(_, done)| *done)
                .collect::<Vec<_>>(),
            [Done::Added, Done::Added, Done::Added]
        );
        let text = fs::read_to_string(&list).unwrap();
        assert_eq!(
            text,
            "Spam@Bad.example # added 2024-10-04\n@worse.example # added 2024-10-04\n"
        );
        let again = add(&["worse.example", "<SPAM@bad.EXAMPLE>"]).unwrap();
        assert_eq!(
            again
                .entries
                .iter()
                .map(|(_, done)| *done)
                .collect::<Vec<_>>(),
            [Done::AlreadyThere(2), Done::AlreadyThere(1)]
        );
        assert_eq!(fs::read_to_string(&list).unwrap(), text);
        let mode = fs::metadata(&list).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    #[test]
    fn other_lines_keep_their_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("own.txt");
        let text =
            b"# mine\r\n\r\nspam@bad.example # why\na@b.example, c@d.example\nlast@e.example";
        fs::write(&list, text).unwrap();
        let removed = remove_from_list(
            &plan(),
            &list,
            &entries(&["SPAM@bad.example", "no@x.example"]),
        )
        .unwrap();
        assert_eq!(
            removed
                .to_string()
                .replace(&list.display().to_string(), "own.txt"),
            "SPAM@bad.example: removed from own.txt, line 3\nno@x.example: not in own.txt"
        );
        assert_eq!(
            fs::read(&list).unwrap(),
            b"# mine\r\n\r\na@b.example, c@d.example\nlast@e.example"
        );
        add_to_list(&plan(), &list, &entries(&["new@f.example"]), "by hand").unwrap();
        assert_eq!(
            fs::read(&list).unwrap(),
            b"# mine\r\n\r\na@b.example, c@d.example\nlast@e.example\nnew@f.example # added 2024-10-04 by hand\n"
        );
    }

    #[test]
    fn a_list_that_a_build_unpacks_or_converts_keeps_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("own.txt");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, b"spam@bad.example\n").unwrap();
        let utf16 = "\u{feff}spam@bad.example\n".encode_utf16();
        for bytes in [
            gzip.finish().unwrap(),
            utf16.clone().flat_map(u16::to_le_bytes).collect(),
            utf16.flat_map(u16::to_be_bytes).collect(),
            b"spam@bad.example\rspam2@bad.example\r".to_vec(),
        ] {
            fs::write(&list, &bytes).unwrap();
            let wanted = entries(&["spam@bad.example"]);
            for refused in [
                add_to_list(&plan(), &list, &wanted, ""),
                remove_from_list(&plan(), &list, &wanted),
            ] {
                let why = refused.unwrap_err().to_string();
                let says_what_to_do = std::error::Error::source(
                    &add_to_list(&plan(), &list, &wanted, "").unwrap_err(),
                )
                .is_some_and(|source| source.to_string().contains("first"));
                assert!(says_what_to_do || why.contains("first"), "{why}");
            }
            assert_eq!(fs::read(&list).unwrap(), bytes);
        }
    }

    #[test]
    fn only_lines_that_may_go_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("own.txt");
        let text = "a@b.example # x\na@b.example # by hand\nA@b.example # x\nc@d.example\n";
        fs::write(&list, text).unwrap();
        let wanted = entries(&["a@b.example", "c@d.example", "e@f.example"]);
        let may_remove = |line: &[u8]| line.ends_with(b"# x\n");
        let edited = remove_lines(&plan(), &list, &wanted, may_remove).unwrap();
        let done: Vec<Done> = edited.entries.iter().map(|&(_, done)| done).collect();
        let removed = Done::Removed { line: 1, lines: 2 };
        assert_eq!(done, [removed, Done::NotFound, Done::NotFound]);
        let kept = [("a@b.example".to_owned(), 2), ("c@d.example".to_owned(), 4)];
        assert_eq!(edited.kept, kept);
        assert_eq!(
            fs::read_to_string(&list).unwrap(),
            "a@b.example # by hand\nc@d.example\n"
        );
    }

    #[test]
    fn what_cannot_be_an_entry_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("own.txt");
        for (written, why) in [
            ("a@b.example, c@d.example", "one entry per argument"),
            ("# comment", "neither an address nor a domain"),
            ("#comment", "neither an address nor a domain"),
            ("-bad.example", "a sign"),
            ("/spam/", "a pattern"),
            ("@gmail.com", "anyone"),
            ("", "not an entry"),
            ("friend@x.example OK", "words beside the entry"),
            ("a@x.example # expires 2020-01-01", "words beside the entry"),
        ] {
            let given = entries(&["good@x.example", written]);
            let error = add_to_list(&plan(), &list, &given, "")
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{written}: {error}");
            assert!(!list.exists());
        }
        // A whitelist may name a whole provider.
        let whitelist = folder.path().join("whitelist.txt");
        add_to_list(&plan(), &whitelist, &entries(&["@gmail.com"]), "").unwrap();
        // An entry of a whitelist is found however the whitelist writes it.
        fs::write(
            &whitelist,
            "# Whitelist\nA <a@b.example> # a friend\nc@d.example OK\n",
        )
        .unwrap();
        let known = entries(&["a@b.example", "c@d.example"]);
        let again = add_to_list(&plan(), &whitelist, &known, "").unwrap();
        assert!(!again.changed(), "{again}");
        let removed = remove_from_list(&plan(), &whitelist, &known).unwrap();
        assert!(!removed.misses_some(), "{removed}");
        assert_eq!(fs::read(&whitelist).unwrap(), b"# Whitelist\n");
        let table = folder.path().join("access.csv");
        fs::write(&table, "email,action\na@b.example,reject\n").unwrap();
        let error = add_to_list(&plan(), &table, &entries(&["c@d.example"]), "").unwrap_err();
        let why = std::error::Error::source(&error).map(ToString::to_string);
        assert!(why.unwrap().contains("a table"), "{error}");
    }

    /// Text that people write beside an entry, or generate.
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

        /// What is added is read back as the same entry, which ends with the plan alone, whatever the
        /// note says; and it can be removed.
        #[test]
        fn what_is_added_is_read_back(entry in typed(), note in note(), ends: bool) {
            let folder = tempfile::tempdir().unwrap();
            let list = folder.path().join("own.txt");
            let mut plan = plan();
            (plan.allow_world, plan.expires) = (true, ends.then_some(Day(30_000)));
            let given = entries(&[&entry]);
            if add_to_list(&plan, &list, &given, &note).is_ok() {
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
                prop_assert!(remove_from_list(&plan, &list, &given).unwrap().changed());
            }
        }
    }
}
