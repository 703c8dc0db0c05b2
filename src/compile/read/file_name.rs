//! What a file's name says about the file: a list, an allowlist, a backup, a description.

use std::path::Path;

use crate::list::meaning::vocabulary::{self, Place, Sense, sense};

/// Beginnings of the names of files that are not lists, in lower case.
const NOT_LISTS: [&[u8]; 4] = [b"copying", b"licence", b"license", b"readme"];
/// Words in the names of lists of senders that are no longer blocked, or never were.
const NOT_LISTED: [&[u8]; 32] = [
    b"ausnahmen",
    b"cleared",
    b"clients",
    b"colleagues",
    b"contacts",
    b"customers",
    b"deleted",
    b"delisted",
    b"disabled",
    b"entfernt",
    b"entsperrt",
    b"erlaubt",
    b"erlaubte",
    b"expired",
    b"fp",
    b"fps",
    b"freigabe",
    b"freigaben",
    b"freigegeben",
    b"inactive",
    b"kontakte",
    b"kunden",
    b"partners",
    b"positives",
    b"recipients",
    b"released",
    b"removed",
    b"suppliers",
    b"unblock",
    b"unblocked",
    b"unlisted",
    b"victims",
];
/// Endings of the names of copies, backups and unfinished files.
const COPIES: [&[u8]; 20] = [
    b"~",
    b".bak",
    b".backup",
    b".bk",
    b".disabled",
    b".dpkg-bak",
    b".dpkg-dist",
    b".dpkg-new",
    b".dpkg-old",
    b".dpkg-tmp",
    b".off",
    b".old",
    b".orig",
    b".part",
    b".rej",
    b".rpmnew",
    b".rpmorig",
    b".rpmsave",
    b".save",
    b".tmp",
];
/// Endings of the swap files of editors.
const SWAPS: [&[u8]; 3] = [b".swp", b".swo", b".swn"];

fn name_in_lower_case(file: &Path) -> Vec<u8> {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    name.to_ascii_lowercase()
}

pub(super) fn is_hidden(file: &Path) -> bool {
    name_in_lower_case(file).starts_with(b".")
}

/// Returns why a file cannot be a list.
pub(super) fn is_no_list(file: &Path) -> Option<&'static str> {
    let name = name_in_lower_case(file);
    if name.ends_with(b".blf") {
        Some("a filter file; use blocklist-compile merge to join filters")
    } else if NOT_LISTS.iter().any(|start| name.starts_with(start)) {
        Some("the name of a description; use --input if it is a list")
    } else {
        None
    }
}

/// Why a backup is not read.
pub(super) const BACKUP: &str =
    "the name of a backup or unfinished file; use --input if it is a list";

/// Returns why a file, by its name, is not meant as a blocklist.
pub(super) fn is_not_meant(file: &Path) -> Option<&'static str> {
    if is_backup(file) {
        return Some(BACKUP);
    }
    if is_allowlist(file) {
        return Some("the name of an allowlist; use --input if it is a blocklist");
    }
    let name = name_in_lower_case(file);
    let mut words = words_of(&name);
    let is_blocklist = words.clone().any(is_blocked);
    (!is_blocklist && words.any(|word| NOT_LISTED.contains(&word))).then_some(
        "the name of a list of senders that are not blocked; use --input if it is a blocklist",
    )
}

fn words_of(name: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    name.split(|byte| !byte.is_ascii_alphanumeric() && *byte < 0x80)
}

fn is_blocked(word: &[u8]) -> bool {
    sense(word, Place::FileName) == Some(Sense::Block)
}

pub(super) fn is_backup(file: &Path) -> bool {
    let name = name_in_lower_case(file);
    let packed = [b".gz".as_slice(), b".zst", b".bz2", b".xz"].into_iter();
    let plain = packed
        .filter_map(|ending| name.strip_suffix(ending))
        .next()
        .unwrap_or(&name);
    let ends_with = |endings: &[&[u8]]| endings.iter().any(|ending| plain.ends_with(ending));
    // `list.txt.1`, as wget and logrotate number files.
    let is_numbered = plain
        .iter()
        .rposition(|byte| *byte == b'.')
        .is_some_and(|dot| {
            let number = &plain[dot + 1..];
            (1..=2).contains(&number.len()) && number.iter().all(u8::is_ascii_digit)
        });
    let is_autosave = plain.len() > 2 && plain.starts_with(b"#") && plain.ends_with(b"#");
    is_numbered || is_autosave || ends_with(&COPIES) || ends_with(&SWAPS)
}

/// Returns whether a file's name says that it is an allowlist.
pub(crate) fn is_allowlist(file: &Path) -> bool {
    let name = name_in_lower_case(file);
    let mut words = words_of(&name);
    if words.clone().any(is_blocked) {
        return false;
    }
    let mut letters = name.clone();
    letters.retain(u8::is_ascii_alphanumeric);
    vocabulary::words(Sense::Allow, Place::InFileName)
        .any(|word| memchr::memmem::find(&letters, word.as_bytes()).is_some())
        || words.any(|word| sense(word, Place::FileName) == Some(Sense::Allow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_lists_from_what_lies_beside_them() {
        for name in [
            "spam.txt",
            "list.2026",
            "list.20260101",
            "not-whitelisted-spam.txt",
            "anti-allow.block",
            "hallowed.txt",
            "list.csv.gz",
            "bad.example.txt",
            "blocked-customers.txt",
            "spam-examples.txt",
        ] {
            assert_eq!(is_not_meant(Path::new(name)), None, "{name}");
        }
        for name in [
            "list.txt.bak",
            "list.txt.1",
            "list.txt.2.gz",
            "list.txt.dpkg-old",
            "#list.txt#",
            "list.txt~",
            ".list.txt.swp",
            "allowed_senders.txt",
            "senders.allow",
            "White-List.csv",
            "my whitelist.txt",
            "exceptions",
            "list.txt.bak.xz",
            "safe_senders.txt",
            "approved.txt",
            "ham.txt",
            "delisted.txt",
            "false_positives.csv",
            "False-Positives.txt",
            "ausnahmen.txt",
            "freigaben.txt",
            "expired-list.txt",
            "contacts.txt",
            "our_customers.csv",
            "removed.txt.gz",
        ] {
            assert!(is_not_meant(Path::new(name)).is_some(), "{name}");
        }
    }
}
