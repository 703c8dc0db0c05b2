//! One list to read: a file, a file in an archive, or entries typed on the command line.
//!
//! A record names its list by a number, and the same lists must give the same bytes in whatever
//! order they are typed. So lists are numbered by their sorted paths.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::list::Declared;
use crate::unpack::Member;
use blocklist_filter::address::escaped;
use blocklist_filter::filter::Source;

/// Maximum length in bytes of a path, name or licence kept in the filter, which allows up to 4096.
const MAX_TEXT_BYTES: usize = 1024;

pub(super) const PACKED: [&str; 4] = [".bz2", ".gz", ".xz", ".zst"];

/// One list to read.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    pub(super) content: Content,
    pub(crate) declared: Arc<Declared>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Whole,
    Member(Member),
    /// There is no file: the entries were typed on the command line, one per line.
    Typed(Vec<u8>),
}

const COMMAND_LINE: &str = "command line";

impl Input {
    pub(crate) fn file(path: impl AsRef<Path>, declared: &Arc<Declared>) -> Self {
        Self {
            path: without_dots(path.as_ref()),
            content: Content::Whole,
            declared: Arc::clone(declared),
        }
    }

    pub(crate) fn typed<'a>(entries: impl IntoIterator<Item = &'a OsStr>) -> Self {
        let lines = entries
            .into_iter()
            .map(|entry| [entry.as_bytes(), b"\n"].concat());
        let text = lines.collect::<Vec<_>>().concat();
        Self {
            path: COMMAND_LINE.into(),
            content: Content::Typed(text),
            declared: Arc::default(),
        }
    }

    /// Returns whether this is standard input.
    pub fn is_stdin(&self) -> bool {
        self.content == Content::Whole && self.path.as_os_str() == "-"
    }

    /// Returns whether both are the same text, whatever is declared about it.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.path == other.path && self.content == other.content
    }

    pub(crate) fn is_typed(&self) -> bool {
        matches!(self.content, Content::Typed(_))
    }

    /// Returns its path; for a file in an archive, its path below that of the archive.
    pub(crate) fn label(&self) -> Cow<'_, Path> {
        match &self.content {
            Content::Whole | Content::Typed(_) => Cow::Borrowed(&self.path),
            Content::Member(member) => Cow::Owned(self.path.join(OsStr::from_bytes(&member.name))),
        }
    }

    /// Returns the number of bytes to read; `None` for a pipe, which cannot be read twice.
    pub(crate) fn size_bytes(&self) -> Option<u64> {
        match &self.content {
            Content::Typed(text) => Some(text.len() as u64),
            Content::Member(member) => Some(member.size_bytes),
            Content::Whole if self.is_stdin() => None,
            Content::Whole => {
                let meta = fs::metadata(&self.path).ok();
                meta.filter(Metadata::is_file).map(|meta| meta.len())
            }
        }
    }

    /// Returns its name for messages.
    pub fn shown(&self) -> String {
        match self.is_stdin() {
            true => "standard input".to_owned(),
            false => text(&self.label()),
        }
    }

    /// Returns the source without counts, from the beginning of the list.
    pub(crate) fn source(&self, head: &[u8]) -> Source {
        let name = match self.is_stdin() {
            true => "stdin".to_owned(),
            false => name_of(&self.label()),
        };
        Source {
            name,
            file: text(&self.label()),
            licence: licence(head),
            ..Source::default()
        }
    }
}

/// Writes a path in one way: `./a.txt` and `lists//a.txt` as `a.txt` and `lists/a.txt`. A name that would
/// be read as an option or as standard input keeps what is before it.
fn without_dots(path: &Path) -> PathBuf {
    let parts = path.components();
    let plain: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
    match plain.as_os_str().as_bytes() {
        [] | [b'-', ..] => path.to_path_buf(),
        _ => plain,
    }
}

/// Returns the path that a name of a list or a piece stands for, written as that of an input. An address such
/// as `s3://bucket/a` stays as it is.
pub(crate) fn path_named(name: &str) -> PathBuf {
    match name.contains("://") {
        true => PathBuf::from(name),
        false => without_dots(Path::new(name)),
    }
}

/// Returns the number of bytes of all inputs; 0 if unknown, since one is a pipe.
pub(crate) fn total_bytes(inputs: &[Input]) -> u64 {
    let sizes = inputs.iter().map(Input::size_bytes);
    sizes.sum::<Option<u64>>().unwrap_or(0)
}

/// Returns the name of a list: `/lists/spammers.txt.gz` -> `spammers`.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let shown = text(Path::new(name));
    let mut plain = shown.as_str();
    for packed in PACKED {
        plain = plain.trim_end_matches(packed);
    }
    match plain.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => plain.to_owned(),
    }
}

pub(crate) fn text(path: &Path) -> String {
    let text = escaped(path.as_os_str().as_encoded_bytes());
    cut(text.to_string(), MAX_TEXT_BYTES)
}

pub(crate) fn cut(mut text: String, most_bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(most_bytes));
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
    fn a_path_is_written_in_one_way() {
        for (path, plain) in [
            ("./a.txt", "a.txt"),
            ("././lists//./a.txt", "lists/a.txt"),
            ("/lists/./a.txt", "/lists/a.txt"),
            ("../a.txt", "../a.txt"),
            ("./-", "./-"),
            ("./-a", "./-a"),
            ("-", "-"),
        ] {
            let input = Input::file(path, &Arc::default());
            assert_eq!(input.path.as_os_str(), plain);
            assert_eq!(input.is_stdin(), path == "-");
        }
    }

    #[test]
    fn names_and_licences_are_found() {
        let names = ["/lists/spammers.txt.gz", "a.csv", "plain", ".hidden"]
            .map(|path| name_of(Path::new(path)));
        assert_eq!(names, ["spammers", "a", "plain", ".hidden"]);
        let list = b"# A list\n#  Licence: CC0 1.0 \na@b.example\n";
        assert_eq!(licence(list), "CC0 1.0");
        assert_eq!(licence(b"; SPDX-License-Identifier: MIT\n"), "MIT");
        assert_eq!(licence(b"a@b.example\n# License: MIT\n"), "");
        assert_eq!(licence(b"# no such word"), "");
    }
}
