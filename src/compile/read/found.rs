//! Which files are read: those that are named, and those of folders, as their `list.toml` says.
//!
//! A folder stands for the files in it, except hidden files, filter files, licences and the like.
//! Files in subfolders are not read, nor are files that by their names are whitelists or backups,
//! which must never become blocklists; no other name means anything. The shell may have expanded
//! `lists/*`, so files that are named are chosen in the same way; only those given by `--input` are
//! read whatever their names. Every list that was left out is reported. A `list.toml` counts for its
//! folder alone: a file that is named is read as the options say.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::input::{Input, PACKED, text};
use crate::base::path::folder_of;
use crate::compile::error::Error;
use crate::list::{BuildSettings, Declared, LIST_TOML, ListToml};
use crate::unpack;

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Files and folders, which the shell may have chosen by a pattern.
    pub(crate) paths: &'a [PathBuf],
    /// Files and folders that are read whatever their names.
    pub(crate) meant: &'a [PathBuf],
    /// What options declare about all files.
    pub(crate) declared: &'a Declared,
    /// What a feed has fetched, in place of the files of its folder.
    pub(crate) fetched: Option<&'a Path>,
}

/// Returns the lists that `paths` stand for, each once, in the order of their numbers. They are
/// read whatever their names.
///
/// # Errors
/// When a path does not exist, a folder cannot be read, or its `list.toml` has faults.
pub fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Error> {
    Ok(find_or_typed(paths, &[], &Declared::default())?.lists)
}

/// Returns what the folders among `paths` say about the build, in their `list.toml`.
///
/// # Errors
/// When it has faults, or two folders say different things.
pub fn build_settings<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<BuildSettings, Error> {
    let mut found: Option<(&Path, BuildSettings)> = None;
    for path in paths.into_iter().filter(|path| path.is_dir()) {
        let settings = ListToml::of_folder(path)?.unwrap_or_default().build;
        match &found {
            Some((other, others)) if *others != settings => {
                return Err(Error::Plan(format!(
                    "{} and {}: [build] in their {LIST_TOML} is different, so they cannot become one filter",
                    text(other),
                    text(path)
                )));
            }
            _ => found = Some((path, settings)),
        }
    }
    Ok(found.map(|(_, settings)| settings).unwrap_or_default())
}

/// Returns the lists of a folder, or one file of it, as they are read when the folder is built, with
/// the files that are not read, and what `[[file]]` says nothing about.
///
/// # Errors
/// As [`inputs`].
pub(crate) fn in_its_folder(path: &Path, declared: &Declared) -> Result<Found, Error> {
    let wanted = Wanted {
        paths: &[path.to_owned()],
        meant: &[],
        declared,
        fetched: None,
    };
    if is_folder(path)? {
        return wanted.find();
    }
    let list_toml = ListToml::of_folder(folder_of(path))?.unwrap_or_default();
    let mut found = Found::default();
    found.file(path, true, |names| {
        let lower = list_toml.declared(names)?;
        Some(Arc::new(declared.clone().or(&lower)))
    })?;
    if found.lists.is_empty() {
        found
            .passed_over
            .push(not_read(path, "list.toml says to ignore it"));
    }
    Ok(found)
}

/// Like [`inputs`], with `entries` typed on the command line. A path without a file that is written
/// like an address (it has an `@` and no `/`) is such an entry, too.
pub(crate) fn find_or_typed(
    arguments: &[PathBuf],
    entries: &[String],
    declared: &Declared,
) -> Result<Found, Error> {
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
    let wanted = Wanted {
        paths: &[],
        meant: &paths,
        declared,
        fetched: None,
    };
    let mut found = wanted.find()?;
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

impl Wanted<'_> {
    /// Finds the lists, and what was left out.
    ///
    /// # Errors
    /// As [`inputs`].
    pub(crate) fn find(&self) -> Result<Found, Error> {
        let mut found = Found::default();
        let declared = Arc::new(self.declared.clone());
        let all = self.meant.iter().map(|path| (path, true));
        for (path, is_meant) in all.chain(self.paths.iter().map(|path| (path, false))) {
            if path.as_os_str() == "-" {
                found.lists.push(Input::file(path, &declared));
            } else if is_folder(path)? {
                self.folder(path, &mut found)?;
            } else if path.file_name() == Some(OsStr::new(LIST_TOML)) && !is_meant {
                // What it says would be ignored.
                let path = text(path);
                return Err(Error::Plan(format!(
                    "{path}: no list; name its folder, which it describes"
                )));
            } else {
                found.file(path, is_meant, |_| Some(Arc::clone(&declared)))?;
            }
        }
        found.lists.sort_by_cached_key(|input| text(&input.label()));
        found
            .lists
            .dedup_by(|input, before| input.is_same_file(before));
        found.passed_over.sort();
        found.passed_over.dedup();
        Ok(found)
    }

    /// Adds the files of a folder, or what its feed has fetched.
    fn folder(&self, path: &Path, found: &mut Found) -> Result<(), Error> {
        let list_toml = ListToml::of_folder(path)?.unwrap_or_default();
        let declared = |names: &[&str]| {
            let lower = list_toml.declared(names)?;
            Some(Arc::new(self.declared.clone().or(&lower)))
        };
        let fetched = self.fetched.filter(|_| list_toml.feed.is_some());
        match fetched {
            Some(file) if file.is_file() => found.file(file, true, declared),
            Some(folder) if has_file(folder) => {
                found
                    .passed_over
                    .push(not_read(path, "its feed takes its place"));
                found.folder(folder, declared)
            }
            _ => {
                found.folder(path, declared)?;
                if list_toml.feed.is_some() && found.lists.is_empty() {
                    found.perhaps_meant = Some(not_read(path, "its feed has not been fetched yet"));
                }
                Ok(())
            }
        }
    }
}

/// Returns whether a folder is a feed that has fetched something.
///
/// # Errors
/// When its `list.toml` has faults.
pub fn is_fetched(folder: &Path, fetched: Option<&Path>) -> Result<bool, Error> {
    let is_there = fetched.is_some_and(|path| path.is_file() || has_file(path));
    Ok(is_there && ListToml::of_folder(folder)?.is_some_and(|list| list.feed.is_some()))
}

/// Returns whether a folder has a file that is not hidden.
fn has_file(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().is_file() && !is_hidden(&entry.path()))
}

impl Found {
    /// Adds the files of a folder.
    fn folder(
        &mut self,
        path: &Path,
        declared: impl Fn(&[&str]) -> Option<Arc<Declared>>,
    ) -> Result<(), Error> {
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
                    self.file(&file, false, &declared)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a file, unless its name says that it is not meant; of an archive, its files. `declared`
    /// returns what is declared about a file with these names; nothing, if it is ignored.
    fn file(
        &mut self,
        path: &Path,
        is_meant: bool,
        declared: impl Fn(&[&str]) -> Option<Arc<Declared>>,
    ) -> Result<(), Error> {
        let why_not = |file: &Path| is_no_list(file).or_else(|| is_not_meant(file));
        if let Some(why) = why_not(path).filter(|_| !is_meant) {
            self.pass_over(path, why);
            return Ok(());
        }
        let name = base_name(path);
        let Some(whole) = declared(&[&name]) else {
            return Ok(());
        };
        let Some(members) = unpack::members(path).map_err(Error::io(path, "read"))? else {
            self.lists.push(Input::file(path, &whole));
            return Ok(());
        };
        let before = self.lists.len();
        for member in members {
            let mut input = Input::member(path, member);
            let label = input.label().into_owned();
            match (why_not(&label), declared(&[&base_name(&label), &name])) {
                _ if is_hidden(&label) => {}
                (_, None) => {}
                (Some(why), _) => self.pass_over(&label, why),
                (None, Some(declared)) => {
                    input.declared = declared;
                    self.lists.push(input);
                }
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

fn is_folder(path: &Path) -> Result<bool, Error> {
    let meta = fs::metadata(path).map_err(Error::io(path, "read"))?;
    Ok(meta.is_dir())
}

fn not_read(file: &Path, why: &str) -> String {
    format!("{}: {why}", text(file))
}

/// Returns the name of a file without its folder.
pub(crate) fn base_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Beginnings of the names of files that are not lists, in lower case.
const NOT_LISTS: [&str; 4] = ["copying", "licence", "license", "readme"];
/// Whole stems of the names of whitelists.
const WHITELISTS: [&str; 4] = ["allowlist", "safelist", "welcomelist", "whitelist"];
/// Endings of the names of copies, backups and unfinished files, and of the swap files of editors.
const COPIES: &str = "~ .bak .backup .bk .disabled .dpkg-bak .dpkg-dist .dpkg-new .dpkg-old \
    .dpkg-tmp .off .old .orig .part .rej .rpmnew .rpmorig .rpmsave .save .swn .swo \
    .swp .tmp";

/// Returns the name of a file in lower case, without the ending of a compressor.
fn lower_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    let mut name = name.to_string_lossy().to_ascii_lowercase();
    if let Some(packed) = PACKED.iter().find(|packed| name.ends_with(**packed)) {
        name.truncate(name.len() - packed.len());
    }
    name
}

pub(super) fn is_hidden(file: &Path) -> bool {
    lower_name(file).starts_with('.')
}

/// Returns why a file cannot be a list.
pub(super) fn is_no_list(file: &Path) -> Option<&'static str> {
    let name = lower_name(file);
    if name.ends_with(".blf") {
        Some("a filter file; use blocklist-compile merge to merge filters")
    } else if name.ends_with(".blf.report") {
        Some("the report of a build")
    } else if name == LIST_TOML || NOT_LISTS.iter().any(|start| name.starts_with(start)) {
        Some("the name of a description; use --input if it is a list")
    } else {
        None
    }
}

/// Returns whether a file may be a list, by its name.
pub(crate) fn may_be_list(file: &Path) -> bool {
    !is_hidden(file) && !is_backup(file) && is_no_list(file).is_none()
}

/// Why a backup is not read.
pub(super) const BACKUP: &str =
    "the name of a backup or unfinished file; use --input if it is a list";

/// Returns why a file, by its name, is not meant as a blocklist.
pub(super) fn is_not_meant(file: &Path) -> Option<&'static str> {
    if is_backup(file) {
        Some(BACKUP)
    } else if is_whitelist(file) {
        Some("the name of a whitelist; use --input if it is a blocklist")
    } else {
        None
    }
}

/// Returns whether a name is that of a copy.
pub(super) fn is_backup(file: &Path) -> bool {
    let name = lower_name(file);
    // `list.txt.1`, as wget and logrotate number files.
    let is_numbered = name.rsplit_once('.').is_some_and(|(_, number)| {
        (1..=2).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit())
    });
    let is_autosave = name.len() > 2 && name.starts_with('#') && name.ends_with('#');
    is_numbered || is_autosave || COPIES.split(' ').any(|ending| name.ends_with(ending))
}

/// Returns whether a file's whole stem is the word for a whitelist.
pub(crate) fn is_whitelist(file: &Path) -> bool {
    let name = lower_name(file);
    let stem = name
        .rsplit_once('.')
        .map_or(name.as_str(), |(stem, _)| stem);
    WHITELISTS.contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_lists_from_what_lies_beside_them() {
        let names = "spam.txt list.2026 list.20260101 list.csv.gz bad.example.txt \
            allowed_senders.txt my_whitelist.txt customers.txt whitelist.new.txt";
        for name in names.split(' ') {
            assert_eq!(is_not_meant(Path::new(name)), None, "{name}");
        }
        let names = "list.txt.bak list.txt.1 list.txt.2.gz list.txt.dpkg-old #list.txt# list.txt~ \
            .list.txt.swp list.txt.bak.xz Whitelist.txt allowlist welcomelist.csv.gz safelist.txt";
        for name in names.split(' ') {
            assert!(is_not_meant(Path::new(name)).is_some(), "{name}");
        }
        let names = "README readme.md LICENSE copying.txt spam.blf spam.blf.report list.toml";
        for name in names.split(' ') {
            assert!(is_no_list(Path::new(name)).is_some(), "{name}");
        }
    }
}
