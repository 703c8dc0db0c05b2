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

use super::input::{Content, Input, PACKED, text};
use crate::compile::error::Error;
use crate::list::{BuildSettings, Declared, LIST_TOML, ListToml};
use crate::unpack;
use blocklist_filter::base::path::folder_of;

/// Returns the lists that `paths` stand for, each once, in the order of their numbers. They are
/// read whatever their names.
pub fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Error> {
    Ok(find_or_typed(paths, &[], &Declared::default())?.lists)
}

/// Returns what the folders among `paths` say about the build, in their `list.toml`.
///
/// # Errors
/// When it has faults, or two folders say different things.
pub(crate) fn build_settings<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<BuildSettings, Error> {
    let mut found: Option<(&Path, BuildSettings)> = None;
    for path in paths.into_iter().filter(|path| path.is_dir()) {
        let settings = ListToml::of_folder(path)?.unwrap_or_default().build;
        match &found {
            Some((other, others)) if *others != settings => {
                return Err(Error::DifferentBuild {
                    one: text(other),
                    other: text(path),
                });
            }
            _ => found = Some((path, settings)),
        }
    }
    Ok(found.map(|(_, settings)| settings).unwrap_or_default())
}

/// Returns the lists of a folder, or one file of it, as they are read when the folder is built.
pub(crate) fn in_its_folder(path: &Path, declared: &Declared) -> Result<Found, Error> {
    if is_folder(path)? {
        return find([(path, false)], declared, None);
    }
    let list_toml = ListToml::of_folder(folder_of(path))?.unwrap_or_default();
    let mut found = Found::default();
    found.file(path, true, |names| {
        let lower = list_toml.declared(names)?;
        Some(Arc::new(declared.clone().or(&lower)))
    })?;
    if found.lists.is_empty() {
        let line = not_read(path, "list.toml says to ignore it");
        found.passed_over.push(line);
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
    let (typed, paths): (Vec<_>, Vec<_>) = arguments.iter().cloned().partition(|it| is_typed(it));
    // Options name single files; no shell pattern has chosen them.
    let meant = paths.iter().map(|path| (path.as_path(), true));
    let mut found = find(meant, declared, None)?;
    if !typed.is_empty() || !entries.is_empty() {
        let typed = typed.iter().map(|entry| entry.as_os_str());
        found
            .lists
            .push(Input::typed(typed.chain(entries.iter().map(OsStr::new))));
    }
    Ok(found)
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) lists: Vec<Input>,
    /// The files that might be meant as lists, with the reason why they are not read.
    pub(crate) passed_over: Vec<String>,
    /// The first of these, backups aside: its omission may be a mistake if nothing else is read.
    pub(crate) perhaps_meant: Option<String>,
}

/// Returns the lists that files and folders stand for, each once, in the order of their numbers. Each is
/// read whatever its name, or may have been chosen by a pattern of the shell.
pub(crate) fn find<'a>(
    paths: impl IntoIterator<Item = (&'a Path, bool)>,
    declared: &Declared,
    fetched: Option<&Path>,
) -> Result<Found, Error> {
    let mut found = Found::default();
    let shared = Arc::new(declared.clone());
    for (path, is_meant) in paths {
        if path.as_os_str() == "-" {
            found.lists.push(Input::file(path, &shared));
        } else if is_folder(path)? {
            found.described(path, declared, fetched)?;
        } else if path.file_name() == Some(OsStr::new(LIST_TOML)) && !is_meant {
            // What it says would be ignored.
            let why = "no list; name its folder, which it describes";
            return Err(Error::unfit(path, why));
        } else {
            found.file(path, is_meant, |_| Some(Arc::clone(&shared)))?;
        }
    }
    (found.lists).sort_by_cached_key(|input| text(&input.label()));
    (found.lists).dedup_by(|input, before| input.is_same_file(before));
    found.passed_over.sort();
    found.passed_over.dedup();
    Ok(found)
}

/// Returns whether a folder is a feed that has fetched something.
pub(crate) fn is_fetched(folder: &Path, fetched: Option<&Path>) -> Result<bool, Error> {
    let is_there = fetched.is_some_and(|path| path.is_file() || has_file(path));
    Ok(is_there && ListToml::of_folder(folder)?.is_some_and(|list| list.feed.is_some()))
}

fn has_file(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.path().is_file() && !is_hidden(&entry.path()))
}

impl Found {
    /// Adds the files of a folder as its `list.toml` says, below what is `declared`.
    fn described(
        &mut self,
        path: &Path,
        declared: &Declared,
        fetched: Option<&Path>,
    ) -> Result<(), Error> {
        let list_toml = ListToml::of_folder(path)?.unwrap_or_default();
        let declared = |names: &[&str]| {
            let lower = list_toml.declared(names)?;
            Some(Arc::new(declared.clone().or(&lower)))
        };
        match fetched.filter(|_| list_toml.feed.is_some()) {
            Some(file) if file.is_file() => self.file(file, true, declared),
            Some(folder) if has_file(folder) => {
                let line = not_read(path, "its feed takes its place");
                self.passed_over.push(line);
                self.folder(folder, declared)
            }
            _ => {
                self.folder(path, declared)?;
                if list_toml.feed.is_some() && self.lists.is_empty() {
                    self.perhaps_meant = Some(not_read(path, "its feed has not been fetched yet"));
                }
                Ok(())
            }
        }
    }

    fn folder(
        &mut self,
        path: &Path,
        declared: impl Fn(&[&str]) -> Option<Arc<Declared>>,
    ) -> Result<(), Error> {
        for entry in fs::read_dir(path).map_err(Error::io(path, "read"))? {
            let file = entry.map_err(Error::io(path, "read"))?.path();
            let why = why_not(&file);
            if is_hidden(&file) || why.is_some_and(|why| ![BACKUP, WHITELIST].contains(&why)) {
                continue;
            }
            // A file that has vanished, or a broken link, must not be ignored.
            let meta = fs::metadata(&file).map_err(Error::io(&file, "read"))?;
            if meta.is_dir() {
                let why = "a folder in a folder; give it as an input too if you want its lists";
                self.pass_over(&file, why);
            } else if meta.is_file() && why == Some(BACKUP) {
                self.passed_over.push(not_read(&file, BACKUP));
            } else if meta.is_file() {
                self.file(&file, false, &declared)?;
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
            let mut input = Input {
                content: Content::Member(member),
                ..Input::file(path, &whole)
            };
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

pub(crate) fn base_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Beginnings of the names of files that are not lists, in lower case.
const NOT_LISTS: [&str; 4] = ["copying", "licence", "license", "readme"];
const WHITELISTS: [&str; 4] = ["allowlist", "safelist", "welcomelist", "whitelist"];
/// Endings of the names of copies, backups and unfinished files, and of the swap files of editors.
const COPIES: &str = "~ .bak .backup .bk .disabled .dpkg-bak .dpkg-dist .dpkg-new .dpkg-old \
    .dpkg-tmp .off .old .orig .part .rej .rpmnew .rpmorig .rpmsave .save .swn .swo \
    .swp .tmp";

fn lower_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    let mut name = name.to_string_lossy().to_ascii_lowercase();
    if let Some(packed) = PACKED.iter().find(|packed| name.ends_with(**packed)) {
        name.truncate(name.len() - packed.len());
    }
    name
}

fn is_hidden(file: &Path) -> bool {
    lower_name(file).starts_with('.')
}

const BACKUP: &str = "the name of a backup or unfinished file; use --input if it is a list";
const WHITELIST: &str = "the name of a whitelist; use --input if it is a blocklist";

fn why_not(file: &Path) -> Option<&'static str> {
    let name = lower_name(file);
    if name.ends_with(".blf") {
        Some("a filter file; use blocklist-compile merge to merge filters")
    } else if name.ends_with(".blf.report") {
        Some("the report of a build")
    } else if name == LIST_TOML || NOT_LISTS.iter().any(|start| name.starts_with(start)) {
        Some("the name of a description; use --input if it is a list")
    } else if is_backup(&name) {
        Some(BACKUP)
    } else {
        is_whitelist(file).then_some(WHITELIST)
    }
}

/// Returns whether a file in a folder can be a list, by its name.
pub fn may_be_list(file: &Path) -> bool {
    !is_hidden(file) && why_not(file).is_none_or(|why| why == WHITELIST)
}

fn is_backup(name: &str) -> bool {
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
    WHITELISTS.contains(&name.rsplit_once('.').map_or(&*name, |(stem, _)| stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_lists_from_what_lies_beside_them() {
        let names = "spam.txt list.2026 list.20260101 list.csv.gz bad.example.txt \
            allowed_senders.txt my_whitelist.txt customers.txt whitelist.new.txt";
        for name in names.split(' ') {
            assert_eq!(why_not(Path::new(name)), None, "{name}");
        }
        let names = "list.txt.bak list.txt.1 list.txt.2.gz list.txt.dpkg-old #list.txt# list.txt~ \
            .list.txt.swp list.txt.bak.xz Whitelist.txt allowlist welcomelist.csv.gz safelist.txt \
            README readme.md LICENSE copying.txt spam.blf spam.blf.report list.toml";
        for name in names.split(' ') {
            assert!(why_not(Path::new(name)).is_some(), "{name}");
        }
    }
}
