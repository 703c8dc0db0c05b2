//! `list.toml`: how the files of a list are read and built, said once by its owner.
//!
//! ```toml
//! [read]                       # for all files
//! [[file]]                     # for those whose name matches; the first that does counts
//! match = "*.csv"
//! entry = "Sender"
//! when = { Action = ["Block"] }
//! [build]                      # the filter
//! protect = ["our.example"]
//! [feed]                       # a list that is downloaded
//! url = "https://lists.example/bad.txt"
//! ```

use std::path::Path;

use super::build::{BuildSettings, FeedSettings};
use super::declared::{Declared, all_rows, separator};
use crate::list::registry::Format;
use crate::list::table::text::Text;
use crate::settings::{
    Error, Invalid, Section, Value, boolean, checked, parsed, text, text_of, wrong_type,
};
use blocklist_filter::base::path::if_exists;

/// The name of the file.
pub const LIST_TOML: &str = "list.toml";

/// The content of a `list.toml`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListToml {
    read: Declared,
    files: Vec<FileSection>,
    /// `[build]`
    pub build: BuildSettings,
    /// `[feed]`
    pub feed: Option<FeedSettings>,
}

/// `[[file]]`
#[derive(Clone, Debug, PartialEq)]
struct FileSection {
    glob: String,
    /// `None` if the file is ignored.
    declared: Option<Declared>,
}

impl ListToml {
    /// Reads the `list.toml` of a folder; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or it has faults: all of them, with their lines.
    pub fn of_folder(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(LIST_TOML);
        // A link to a file that is missing is an error.
        if matches!(if_exists(path.symlink_metadata()), Ok(None)) {
            return Ok(None);
        }
        Self::parse(&text_of(&path)?, &path).map(Some)
    }

    /// Reads the text of a `list.toml`; `path` is for messages.
    ///
    /// # Errors
    /// Its faults: all of them, with their lines.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let (list, error) = checked(text, path, Self::read);
        error.map_or(Ok(list), Err)
    }

    fn read(top: &Section<'_>) -> Self {
        let read = top.table("read", |section| {
            let read = declared(section);
            check(section, &read);
            read
        });
        let list = Self {
            files: top.tables("file", |section| file(section, &read)),
            build: top.table("build", BuildSettings::read),
            feed: top
                .has("feed")
                .then(|| top.table("feed", FeedSettings::read)),
            read,
        };
        if list.feed.is_some() {
            if list.read.format.is_none() {
                top.wrong("feed", "needs format in [read]: a download is not guessed");
            }
            if !list.files.is_empty() {
                top.wrong("file", "a feed has one file, which is read as [read] says");
            }
        }
        list
    }

    /// Returns whether a `[[file]]` is about a file with this name.
    #[must_use]
    pub fn has_file(&self, name: &str) -> bool {
        self.files.iter().any(|file| fits(name, &file.glob))
    }

    /// Returns what is declared for a file that has these names: its own, and that of the archive it
    /// is in. `None` if it is to be ignored.
    #[must_use]
    pub fn declared(&self, names: &[&str]) -> Option<Declared> {
        let matches = |file: &&FileSection| names.iter().any(|name| fits(name, &file.glob));
        match self.files.iter().find(matches) {
            None => Some(self.read.clone()),
            Some(file) => Some(file.declared.clone()?.or(&self.read)),
        }
    }
}

fn file(section: &Section<'_>, read: &Declared) -> FileSection {
    let glob = section.required("match", |value| match text(value)? {
        "" => Err("a name of a file, such as \"*.csv\"; * stands for other characters".into()),
        name if name.contains(['/', '?']) => Err(
            "the name of a file in this folder, without / and ?; * stands for other characters"
                .into(),
        ),
        name => Ok(name.to_owned()),
    });
    let is_ignored = section.get("ignore", false, boolean);
    let own = declared(section);
    if is_ignored && own != Declared::default() {
        let why = "the file is not read, so nothing else can be said about it";
        section.wrong("ignore", why);
    }
    check(section, &own.clone().or(read));
    FileSection {
        glob: glob.unwrap_or_default(),
        declared: (!is_ignored).then_some(own),
    }
}

fn check(section: &Section<'_>, declared: &Declared) {
    if let Err((setting, why)) = declared.check() {
        section.wrong(setting, &why);
    }
}

/// Reads the settings that `[read]` and `[[file]]` have in common.
pub(super) fn declared(section: &Section<'_>) -> Declared {
    section.check_filled("entry", "the column that names the sender");
    let format = section.optional("format", parsed::<Format>);
    let column = |name| section.optional(name, column_of);
    const VALUES: &str = "a column and its values, such as { Action = [\"Block\"] }";
    const NUMBER: &str = "a column and a number, such as { Score = 4 }";
    Declared {
        is_in_file: format.is_some(),
        format,
        separator: section.optional("separator", |value| Ok(separator(text(value)?)?)),
        entry: section.items("entry", column_of),
        when: columns(section, "when", VALUES, values),
        unless: columns(section, "unless", VALUES, values),
        at_least: columns(section, "at_least", NUMBER, float),
        all_rows: section.get("rows", false, |value| Ok(all_rows(text(value)?)?)),
        subdomains: section.optional("subdomains", boolean),
        expires_in: column("expires_in"),
        added_in: column("added_in"),
        date_format: section.optional("date_format", parsed),
        never: section.items("never", |value| Ok(text(value)?.to_owned())),
    }
}

/// Reads what is said about columns. Headings are compared without case.
fn columns<T>(
    section: &Section<'_>,
    name: &'static str,
    wanted: &str,
    read: impl Fn(&Value<'_>) -> Result<T, Invalid>,
) -> Vec<(String, T)> {
    let all = section.map(name, wanted, read);
    let mut rest = all.iter().map(|(column, _)| Text::new(column));
    while let Some(column) = rest.next() {
        if rest.clone().any(|other| other == column) {
            let why = "names a column twice; give all its values in one list";
            section.wrong(name, why);
        }
    }
    all
}

fn column_of(value: &Value<'_>) -> Result<String, Invalid> {
    let written = match (value.as_str(), value.as_integer()) {
        (Some(name), _) => name.to_owned(),
        (None, Some(number)) => number.as_str().to_owned(),
        (None, None) => return Err(wrong_type("a heading in quotes, or a number from 1", value)),
    };
    let is_zero = written == "0" && value.as_integer().is_some();
    if written.trim().is_empty() || written.starts_with('-') || is_zero {
        return Err("a heading in quotes, or a number from 1".into());
    }
    Ok(written)
}

fn values(value: &Value<'_>) -> Result<Vec<String>, Invalid> {
    let one = |value: &Value<'_>| {
        let written = value.as_str().map(str::to_owned);
        let number = || value.as_integer().map(|number| number.as_str().to_owned());
        let truth = || value.as_bool().map(|truth| truth.to_string());
        written.or_else(number).or_else(truth)
    };
    let all: Option<Vec<String>> = match value.as_array() {
        Some(items) => items.iter().map(|item| one(item.get_ref())).collect(),
        None => one(value).map(|one| vec![one]),
    };
    all.filter(|all| !all.is_empty())
        .ok_or_else(|| "needs a list of values, such as [\"Block\"]; a path of JSON needs quotes: \"meta.status\"".into())
}

fn float(value: &Value<'_>) -> Result<f64, Invalid> {
    let written = value.as_integer().map(|number| number.as_str());
    let written = written.or_else(|| value.as_float().map(|number| number.as_str()));
    let number = written.and_then(|written| written.parse().ok());
    number
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| wrong_type("a decimal number", value))
}

/// Returns whether a name matches: `*` stands for any characters.
fn fits(name: &str, glob: &str) -> bool {
    let Some((start, rest)) = glob.split_once('*') else {
        return name == glob;
    };
    let (between, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = name.strip_prefix(start);
    let inner = inner.and_then(|rest| rest.strip_suffix(end));
    let mut parts = between.split('*');
    let left = inner.and_then(|left| {
        parts.try_fold(left, |left, part| {
            left.split_once(part).map(|(_, after)| after)
        })
    });
    left.is_some()
}

#[cfg(test)]
mod tests {
    use super::super::build::{Expires, MaxRejects};
    use super::*;

    fn parse(text: &str) -> Result<ListToml, String> {
        let path = Path::new("list.toml");
        ListToml::parse(text, path).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_file_that_matches_counts_and_read_fills_the_rest() {
        let list = parse(
            r#"
            file = [
                { match = "own*.txt", format = "plain" }, { match = "*.csv", rows = "all", entry = "email" },
                { match = "*.tsv", when = { Action = "Reject" }, unless.Listed = false, subdomains = false },
                { match = "partner.csv", ignore = true }, { match = "old*1.txt", ignore = true },
            ]
            [read]
            format = "csv"
            subdomains = true
            entry = ["Sender", 3]
            when = { Action = ["Block", 5], Listed = true }
            at_least = { Score = 4, Weight = 0.5 }
            added_in = 2
            never = ["Never expire"]
            [build]
            expires = "30d"
            allow = ".bid"
            max_rejects = 0
            "#,
        )
        .unwrap();
        let read = list.declared(&["x.xml"]).unwrap();
        let shown = format!("{:?} {:?} {:?}", read.entry, read.when, read.at_least);
        assert_eq!(
            shown,
            r#"["Sender", "3"] [("Action", ["Block", "5"]), ("Listed", ["true"])] [("Score", 4.0), ("Weight", 0.5)]"#
        );
        assert!(read.is_in_file && read.added_in.as_deref() == Some("2"));
        let own = list.declared(&["own-2.txt"]).unwrap();
        assert!(own.format == Some(Format::Plain) && !own.is_of_table());
        assert_eq!(own.subdomains, Some(true));
        let table = list.declared(&["partner.csv"]).unwrap();
        assert!(table.all_rows && table.when.is_empty() && table.never == ["Never expire"]);
        let both = list.declared(&["a.tsv"]).unwrap();
        let shown = format!("{:?} {:?} {:?}", both.when, both.unless, both.at_least);
        assert_eq!(
            shown,
            r#"[("Action", ["Reject"])] [("Listed", ["false"])] [("Score", 4.0), ("Weight", 0.5)]"#
        );
        assert!(both.subdomains == Some(false) && both.is_in_file && both.entry.len() == 2);
        assert_eq!(both.format, Some(Format::Csv));
        assert_eq!(list.declared(&["old1.txt"]), None);
        assert!(list.declared(&["old.txt"]).is_some());
        assert_eq!(list.build.expires, Some(Expires::After(30)));
        assert_eq!(list.build.allow, [".bid"]);
        assert_eq!(list.build.max_rejects, Some(MaxRejects::Lines(0)));
        // Conditions and "all" exclude each other.
        let all = "file = [{ match = \"x\", unless.Action = \"Allow\" }]\nread = { entry = 1, rows = \"all\" }";
        let strict = parse(all).unwrap().declared(&["x"]).unwrap();
        assert!(!strict.all_rows && strict.unless.len() == 1 && strict.entry == ["1"]);
        let text = "read.format = \"plain\"\nfeed.url = \"https://lists.example/x?y=1\"";
        let feed = parse(text).unwrap().feed.unwrap();
        assert_eq!((feed.max_bytes, feed.keep_days), (64 << 20, 0));
    }

    #[test]
    fn faults_have_line_column_and_the_nearest_name() {
        let faults = include_str!("../../../../../tests/list_toml.txt").split("\n\n");
        for fault in faults.skip(1) {
            let (text, message) = fault.trim_end().split_once("\n-> ").unwrap();
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{text}\n{error}");
        }
        let one = parse("[read\nformat = \"csv\"\n").unwrap_err();
        assert_eq!(one.lines().count(), 1, "{one}");
        let two = parse("[read]\nentri = 1\n[build]\nfpr = 7\n").unwrap_err();
        assert_eq!(two.lines().count(), 2, "{two}");
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        const YES: &str =
            "*.csv:a.csv *.csv:.csv a*c:a\u{fc}c *a*b*:xxaxxbxx *a*b:abab *: **:a [a].csv:[a].csv";
        const NO: &str = "*.csv:a.csv.gz ab*bc:abc *a*b*:xbxa :a A.csv:a.csv";
        for (pairs, is_match) in [(YES, true), (NO, false)] {
            for (glob, name) in pairs.split(' ').filter_map(|pair| pair.split_once(':')) {
                assert_eq!(fits(name, glob), is_match, "{glob} {name}");
            }
        }
    }
}
