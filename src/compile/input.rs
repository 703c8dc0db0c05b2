//! Which files are read, and in which order they are numbered.
//!
//! A record names its list by a number, and the same lists must give the same bytes
//! in whatever order they were typed: so they are numbered by their paths, sorted.
//! A folder stands for the files in it: not for those in folders below, nor for
//! hidden files, editors' backups, filter files, and what by its name is no blocklist:
//! a whitelist lying among the lists must never become one of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;
use crate::address::escaped;
use crate::filter::Source;

/// Bytes of a path, name or licence kept in the filter; it takes no more than 4096.
const MAX_TEXT_BYTES: usize = 1024;

/// One list to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The file; `-` is standard input.
    pub path: PathBuf,
}

impl Input {
    /// Whether this is standard input.
    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Whether it can be read a second time from its start.
    pub(crate) fn is_regular(&self) -> bool {
        !self.is_stdin() && fs::metadata(&self.path).is_ok_and(|meta| meta.is_file())
    }

    /// Bytes to read; 0 when nobody can know.
    pub(crate) fn size_bytes(&self) -> u64 {
        if self.is_regular() {
            fs::metadata(&self.path).map_or(0, |meta| meta.len())
        } else {
            0
        }
    }

    /// As messages show it.
    pub fn shown(&self) -> String {
        if self.is_stdin() {
            "standard input".to_owned()
        } else {
            text(&self.path)
        }
    }

    /// The source as the filter names it, still without counts. `head` is the
    /// beginning of the list.
    pub(crate) fn source(&self, head: &[u8]) -> Source {
        let name = if self.is_stdin() {
            "stdin".to_owned()
        } else {
            name_of(&self.path)
        };
        Source {
            name,
            file: text(&self.path),
            licence: licence(head),
            lines: 0,
            entries: 0,
            rejected: 0,
        }
    }
}

/// Bytes of all inputs; 0 when nobody can know, as one is a pipe.
pub(crate) fn total_bytes(inputs: &[Input]) -> u64 {
    if inputs.iter().all(Input::is_regular) {
        inputs.iter().map(Input::size_bytes).sum()
    } else {
        0
    }
}

/// The lists that `paths` stand for, each once, in the order of their numbers.
///
/// # Errors
/// When a path is not there or a folder cannot be read.
pub fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Error> {
    let mut inputs = Vec::new();
    for path in paths {
        let stdin = path.as_os_str() == "-";
        if stdin
            || !fs::metadata(path)
                .map_err(Error::io(path, "read"))?
                .is_dir()
        {
            inputs.push(Input { path: path.clone() });
            continue;
        }
        for entry in fs::read_dir(path).map_err(Error::io(path, "read"))? {
            let file = entry.map_err(Error::io(path, "read"))?.path();
            if fs::metadata(&file).is_ok_and(|meta| meta.is_file()) && !passed_over(&file) {
                inputs.push(Input { path: file });
            }
        }
    }
    inputs.sort_by_cached_key(|input| text(&input.path));
    inputs.dedup();
    Ok(inputs)
}

/// `/lists/spammers.txt.gz` -> `spammers`.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let shown = text(Path::new(name));
    let plain = shown.trim_end_matches(".gz").trim_end_matches(".zst");
    match plain.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => plain.to_owned(),
    }
}

/// Beginnings of the names of files that are no blocklists, in lower case.
const NOT_LISTS: [&[u8]; 7] = [
    b"allowlist",
    b"copying",
    b"licence",
    b"license",
    b"readme",
    b"welcomelist",
    b"whitelist",
];

/// Files of a folder that nobody means.
fn passed_over(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    let name = name.to_ascii_lowercase();
    name.starts_with(b".")
        || name.ends_with(b"~")
        || name.ends_with(b".blf")
        || NOT_LISTS.iter().any(|start| name.starts_with(start))
}

/// A path as text that is safe to print and to keep.
pub(crate) fn text(path: &Path) -> String {
    cut(escaped(path.as_os_str().as_encoded_bytes()).to_string())
}

fn cut(mut text: String) -> String {
    let end = (0..=MAX_TEXT_BYTES.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

/// What the comments at the head of a list say after "Licence:" (or "License:").
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
        (!note.is_empty()).then(|| cut(escaped(note).to_string()))
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
        ] {
            fs::write(dir.path().join(name), "x@y.example\n").unwrap();
        }
        fs::create_dir(dir.path().join("below")).unwrap();
        let whole = inputs(&[dir.path().to_path_buf()]).unwrap();
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
    }
}
