//! What a file's name says about the file: hidden, a copy, a description, a whitelist. No other name
//! means anything.

use std::path::Path;

use crate::list::LIST_TOML;

/// Beginnings of the names of files that are not lists, in lower case.
const NOT_LISTS: [&str; 4] = ["copying", "licence", "license", "readme"];
/// Whole stems of the names of whitelists.
const WHITELISTS: [&str; 4] = ["allowlist", "safelist", "welcomelist", "whitelist"];
/// Endings of the names of copies, backups and unfinished files, and of the swap files of editors.
const COPIES: &str = "~ .bak .backup .bk .disabled .dpkg-bak .dpkg-dist .dpkg-new .dpkg-old \
    .dpkg-tmp .off .old .orig .part .rej .rpmnew .rpmorig .rpmsave .save .swn .swo \
    .swp .tmp";
/// Endings of compressed files.
pub(super) const PACKED: [&str; 4] = [".bz2", ".gz", ".xz", ".zst"];

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
