//! Which files are read, and in which order they are numbered.
//!
//! A record names its list by a number, and the same lists must give the same bytes in whatever
//! order they are typed. So lists are numbered by their sorted paths.
//!
//! A folder stands for the files in it, except hidden files, filter files, licences and the like.
//! Files in subfolders are not read, nor are files that by their names are allowlists or backups,
//! which must never become blocklists. The shell may have expanded `lists/*`, so files that are
//! named are chosen in the same way; only those given by `--input` are read whatever their names.
//! Every list that was left out is reported.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::file_name::{BACKUP, is_backup, is_hidden, is_no_list, is_not_meant};
use crate::address::escaped;
use crate::compile::Error;
use crate::filter::Source;
use crate::list::{self, Member};

/// Maximum length in bytes of a path, name or licence kept in the filter, which allows up to 4096.
const MAX_TEXT_BYTES: usize = 1024;

/// One list to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    content: Content,
}

/// The part of the file that is the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// All of it.
    Whole,
    /// A file in an archive.
    Member(Member),
    /// There is no file: the entries were typed on the command line, one per line.
    Typed(Vec<u8>),
}

/// The name used in place of a path for entries typed on the command line.
const COMMAND_LINE: &str = "command line";

impl Input {
    /// Returns the input for a file, or for standard input.
    pub(crate) fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            content: Content::Whole,
        }
    }

    /// Returns the input for entries typed on the command line, one per line.
    pub(crate) fn typed<'a>(entries: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut text = Vec::new();
        for entry in entries {
            text.extend_from_slice(entry);
            text.push(b'\n');
        }
        Self {
            path: COMMAND_LINE.into(),
            content: Content::Typed(text),
        }
    }

    /// Returns whether this is standard input.
    pub fn is_stdin(&self) -> bool {
        self.content == Content::Whole && self.path.as_os_str() == "-"
    }

    /// Returns whether it was typed on the command line.
    pub(crate) fn is_typed(&self) -> bool {
        matches!(self.content, Content::Typed(_))
    }

    /// Returns the part of the file that is the list.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// Returns its path; for a file in an archive, its path below that of the archive.
    pub(crate) fn label(&self) -> Cow<'_, Path> {
        match &self.content {
            Content::Whole | Content::Typed(_) => Cow::Borrowed(&self.path),
            Content::Member(member) => Cow::Owned(self.path.join(OsStr::from_bytes(&member.name))),
        }
    }

    /// Returns whether it can be read a second time from its start.
    pub(crate) fn is_regular(&self) -> bool {
        match self.content {
            Content::Typed(_) | Content::Member(_) => true,
            Content::Whole if self.is_stdin() => false,
            Content::Whole => fs::metadata(&self.path).is_ok_and(|meta| meta.is_file()),
        }
    }

    /// Returns the number of bytes to read; 0 if unknown.
    pub(crate) fn size_bytes(&self) -> u64 {
        match &self.content {
            Content::Typed(text) => text.len() as u64,
            Content::Member(member) => member.size_bytes,
            Content::Whole if self.is_regular() => {
                fs::metadata(&self.path).map_or(0, |meta| meta.len())
            }
            Content::Whole => 0,
        }
    }

    /// Returns its name for messages.
    pub fn shown(&self) -> String {
        if self.is_stdin() {
            "standard input".to_owned()
        } else {
            text(&self.label())
        }
    }

    /// Returns the source as the filter names it, without counts. `head` is the beginning of the
    /// list.
    pub(crate) fn source(&self, head: &[u8]) -> Source {
        let name = if self.is_stdin() {
            "stdin".to_owned()
        } else {
            name_of(&self.label())
        };
        Source {
            name,
            file: text(&self.label()),
            licence: licence(head),
            lines: 0,
            entries: 0,
            rejected: 0,
        }
    }
}

/// Returns the number of bytes of all inputs; 0 if unknown, since one is a pipe.
pub(crate) fn total_bytes(inputs: &[Input]) -> u64 {
    if inputs.iter().all(Input::is_regular) {
        inputs.iter().map(Input::size_bytes).sum()
    } else {
        0
    }
}

/// Returns the lists that `paths` stand for, each once, in the order of their numbers. They are
/// read whatever their names.
///
/// # Errors
/// When a path does not exist, or a folder cannot be read.
pub fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Error> {
    Ok(find_all(&[], paths)?.lists)
}

/// Like [`inputs`], with `entries` typed on the command line. A path without a file that is written
/// like an address (it has an `@` and no `/`) is such an entry, too.
pub(crate) fn find_or_typed(arguments: &[PathBuf], entries: &[String]) -> Result<Found, Error> {
    let is_typed = |argument: &Path| {
        let text = argument.as_os_str().as_encoded_bytes();
        text.contains(&b'@')
            && !text.contains(&b'/')
            && fs::symlink_metadata(argument)
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let (typed, paths): (Vec<_>, Vec<_>) = arguments
        .iter()
        .cloned()
        .partition(|argument| is_typed(argument));
    // Options name single files; no shell pattern has chosen them.
    let mut found = find_all(&[], &paths)?;
    if !typed.is_empty() || !entries.is_empty() {
        let typed = typed
            .iter()
            .map(|entry| entry.as_os_str().as_encoded_bytes());
        let entries = typed.chain(entries.iter().map(String::as_bytes));
        found.lists.push(Input::typed(entries));
    }
    Ok(found)
}

/// The lists that paths stand for.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The lists, each once, in the order of their numbers.
    pub(crate) lists: Vec<Input>,
    /// The files that might be meant as lists, with the reason why they are not read.
    pub(crate) passed_over: Vec<String>,
    /// The first of these whose omission may be a mistake if nothing else is read; a backup left in
    /// a folder is none.
    pub(crate) perhaps_meant: Option<String>,
}

/// Finds the lists for `paths`, which the shell may have chosen by a pattern, and for those in
/// `meant`, which are read whatever their names. Also returns what was left out.
///
/// # Errors
/// As [`inputs`].
pub(crate) fn find_all(paths: &[PathBuf], meant: &[PathBuf]) -> Result<Found, Error> {
    let mut found = Found::default();
    let all = meant.iter().map(|path| (path, true));
    for (path, is_meant) in all.chain(paths.iter().map(|path| (path, false))) {
        let is_stdin = path.as_os_str() == "-";
        let is_folder = || -> Result<bool, Error> {
            let meta = fs::metadata(path).map_err(Error::io(path, "read"))?;
            Ok(meta.is_dir())
        };
        if !is_stdin && is_folder()? {
            found.folder(path)?;
        } else if is_stdin {
            found.lists.push(Input::file(path));
        } else {
            found.file(path, is_meant)?;
        }
    }
    found.lists.sort_by_cached_key(|input| text(&input.label()));
    found.lists.dedup();
    found.passed_over.sort();
    found.passed_over.dedup();
    Ok(found)
}

impl Found {
    /// Adds the files of a folder.
    fn folder(&mut self, path: &Path) -> Result<(), Error> {
        for entry in fs::read_dir(path).map_err(Error::io(path, "read"))? {
            let file = entry.map_err(Error::io(path, "read"))?.path();
            if is_hidden(&file) || is_no_list(&file).is_some() {
                continue;
            }
            // A file that has vanished, or a broken link, must not be ignored.
            let meta = fs::metadata(&file).map_err(Error::io(&file, "read"))?;
            if meta.is_dir() {
                self.pass_over(
                    &file,
                    "a folder in a folder; give it as an input too if you want its lists",
                );
            } else if meta.is_file() {
                if is_backup(&file) {
                    self.passed_over.push(not_read(&file, BACKUP));
                } else {
                    self.file(&file, false)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a file, unless its name says that it is not meant; of an archive, its files.
    fn file(&mut self, path: &Path, is_meant: bool) -> Result<(), Error> {
        let why_not = |file: &Path| is_no_list(file).or_else(|| is_not_meant(file));
        if let Some(why) = why_not(path).filter(|_| !is_meant) {
            self.pass_over(path, why);
            return Ok(());
        }
        let Some(members) = list::members(path).map_err(Error::io(path, "read"))? else {
            self.lists.push(Input::file(path));
            return Ok(());
        };
        let before = self.lists.len();
        for member in members {
            let input = Input {
                path: path.to_owned(),
                content: Content::Member(member),
            };
            let label = input.label();
            match why_not(&label) {
                _ if is_hidden(&label) => {}
                Some(why) => self.pass_over(&label, why),
                None => self.lists.push(input),
            }
        }
        if self.lists.len() == before {
            let why = io::Error::other("no list in this archive");
            return Err(Error::io(path, "read")(why));
        }
        Ok(())
    }

    fn pass_over(&mut self, file: &Path, why: &str) {
        let line = not_read(file, why);
        self.perhaps_meant.get_or_insert_with(|| line.clone());
        self.passed_over.push(line);
    }
}

fn not_read(file: &Path, why: &str) -> String {
    format!("{}: {why}", text(file))
}

/// Returns the name of a list: `/lists/spammers.txt.gz` -> `spammers`.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let shown = text(Path::new(name));
    let mut plain = shown.as_str();
    for packed in [".gz", ".zst", ".bz2", ".xz"] {
        plain = plain.trim_end_matches(packed);
    }
    match plain.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => plain.to_owned(),
    }
}

/// Returns a path as text that is safe to print and to store.
pub(crate) fn text(path: &Path) -> String {
    cut(
        escaped(path.as_os_str().as_encoded_bytes()).to_string(),
        MAX_TEXT_BYTES,
    )
}

/// Cuts a text to at most this many bytes.
pub(crate) fn cut(mut text: String, most_bytes: usize) -> String {
    let end = (0..=most_bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

/// Returns what the comments at the start of a list say after "Licence:" (or "License:").
fn licence(head: &[u8]) -> String {
    let comments = head.split(|byte| *byte == b'\n').take_while(|line| {
        let line = line
            .strip_prefix(b"\xEF\xBB\xBF")
            .unwrap_or(line)
            .trim_ascii_start();
        line.is_empty()
            || line.starts_with(b"//")
            || line.first().is_some_and(|byte| b"#;!".contains(byte))
    });
    let found = comments.filter_map(|line| {
        let at = line.windows(7).position(|word| {
            word.eq_ignore_ascii_case(b"licence") || word.eq_ignore_ascii_case(b"license")
        })?;
        let rest = &line[at + 7..];
        let colon = rest.iter().position(|byte| *byte == b':')?;
        let note = rest[colon + 1..].trim_ascii();
        (!note.is_empty()).then(|| cut(escaped(note).to_string(), MAX_TEXT_BYTES))
    });
    found.take(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_folders_and_endings() {
        let names = ["/lists/spammers.txt.gz", "a.csv", "plain", ".hidden"]
            .map(|path| name_of(Path::new(path)));
        assert_eq!(names, ["spammers", "a", "plain", ".hidden"]);
    }

    #[test]
    fn licences_are_found_in_leading_comments_only() {
        assert_eq!(
            licence(b"# A list\n#  Licence: CC0 1.0 \na@b.example\n"),
            "CC0 1.0"
        );
        assert_eq!(licence(b"; SPDX-License-Identifier: MIT\n"), "MIT");
        assert_eq!(licence(b"a@b.example\n# License: MIT\n"), "");
        assert_eq!(licence(b"# no such word"), "");
    }

    #[test]
    fn what_is_named_by_input_is_read_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whitelist.txt");
        fs::write(&path, "x@y.example\n").unwrap();
        let paths = [path];
        let found = find_all(&paths, &[]).unwrap();
        assert_eq!((found.lists.len(), found.passed_over.len()), (0, 1));
        let found = find_all(&[], &paths).unwrap();
        assert_eq!((found.lists.len(), found.passed_over.len()), (1, 0));
    }

    #[test]
    fn folders_are_opened_and_order_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b.txt",
            "a.txt",
            ".hidden",
            "a.txt~",
            "old.blf",
            "README.md",
            "Whitelist.txt",
            "surbl-white_list.inc",
        ] {
            fs::write(dir.path().join(name), "x@y.example\n").unwrap();
        }
        fs::create_dir(dir.path().join("below")).unwrap();
        let found = find_all(&[dir.path().to_path_buf()], &[]).unwrap();
        let whole = found.lists;
        let passed_over: Vec<_> = found
            .passed_over
            .iter()
            .map(|file| file.rsplit_once('/').unwrap().1)
            .collect();
        assert_eq!(
            passed_over,
            [
                "Whitelist.txt: the name of an allowlist; use --input if it is a blocklist",
                "a.txt~: the name of a backup or unfinished file; use --input if it is a list",
                "below: a folder in a folder; give it as an input too if you want its lists",
                "surbl-white_list.inc: the name of an allowlist; use --input if it is a blocklist",
            ]
        );
        assert_eq!(
            whole
                .iter()
                .map(|input| name_of(&input.path))
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        let typed = inputs(&[
            dir.path().join("b.txt"),
            dir.path().join("a.txt"),
            dir.path().join("b.txt"),
        ])
        .unwrap();
        assert_eq!(whole, typed);
        assert!(inputs(&[dir.path().join("none")]).is_err());
        std::os::unix::fs::symlink("nowhere", dir.path().join("c.txt")).unwrap();
        let error = inputs(&[dir.path().to_path_buf()]).unwrap_err();
        assert!(error.to_string().contains("c.txt: cannot read"), "{error}");
    }
}
