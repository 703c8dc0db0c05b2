//! Which parts there are, and whether they are the expected ones.
//!
//! The header of a part has the name of its piece and the digest of the text:
//!
//! | two parts with | mean |
//! |---|---|
//! | the same name, digest and records | two attempts at the same piece: one is used |
//! | the same name and digest, other records | they were compiled in different ways: refused |
//! | the same name, another digest | the texts differ, so one of them is out of date: refused |
//! | no name (standard input), the same digest | the same piece |
//! | the same digest, other names and records | a piece that was renamed and compiled again: refused, unless `--expect` names both |

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::alike::check_alike;
use super::staged::MergedFile;
use crate::compile::error::Error;
use crate::compile::progress::Progress;
use crate::compile::read::{path_named, text};
use crate::compile::report::digest_shown;
use blocklist_filter::base::numbers::grouped;
use blocklist_filter::filter::FilterFile;
use blocklist_filter::lookup::keys_of;

const SHOWN: usize = 8;
/// Longest file of names, in bytes: enough for a million names of 64 bytes.
const MAX_NAMES_BYTES: u64 = 64 << 20;

/// The parts that are expected.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// File with exactly the pieces that must be there, one per line: name, digest, or digest and name.
    pub pieces: Option<PathBuf>,
    /// The lists to which the parts must belong, each with at least one part. If empty, any list is allowed.
    pub sources: Vec<String>,
}

impl MergedFile {
    fn of_part(path: &Path) -> Result<Self, Error> {
        let header = FilterFile::open_part(path)?.header;
        keys_of(path, &header.spec)?;
        Ok(Self {
            path: path.to_owned(),
            header,
        })
    }

    fn name(&self) -> &str {
        &self.header.spec.name
    }

    fn digest(&self) -> u128 {
        self.header.part.unwrap_or(0)
    }

    fn refused(&self, why: &str) -> Error {
        Error::unfit(&self.path, why)
    }

    fn check_twin(&self, other: &Self) -> Result<(), Error> {
        let path = other.path.display();
        let piece = match self.name() {
            "" => digest_shown(self.digest()),
            name => name.to_owned(),
        };
        if self.header.part != other.header.part {
            return Err(self.refused(&format!(
                "made from another text than {path}, but both are the piece {piece}; remove the one that is out of date"
            )));
        }
        if !self.header.has_records_of(&other.header) {
            return Err(self.refused(&format!(
                "has other records than {path}, but both were made from the piece {piece}; \
                 build one of them again with the options of all parts, --date too, and remove the other"
            )));
        }
        Ok(())
    }

    fn check_renamed(&self, other: &Self) -> Result<(), Error> {
        let is_renamed = self.name() != other.name() && self.header.part == other.header.part;
        if !is_renamed || self.header.has_equal_records(&other.header) {
            return Ok(());
        }
        Err(self.refused(&format!(
            "made from the same text as {}, under another name and with another date or other options; \
             remove the one that is out of date, or name both pieces in --expect",
            other.path.display()
        )))
    }
}

pub(super) fn open(
    paths: &[PathBuf],
    expected: &Expected,
    progress: &Progress,
) -> Result<Vec<MergedFile>, Error> {
    let mut parts: Vec<MergedFile> = Vec::with_capacity(paths.len());
    let mut places: BTreeMap<(String, Option<u128>), usize> = BTreeMap::new();
    let mut texts: BTreeMap<u128, usize> = BTreeMap::new();
    for path in paths {
        progress.go_on()?;
        let part = MergedFile::of_part(path)?;
        if let Some(first) = parts.first() {
            let other = (path.as_path(), &part.header.spec);
            check_alike((&first.path, &first.header.spec), other)?;
        }
        // A part without a name is identified by its digest.
        let digest = part.header.part.filter(|_| part.name().is_empty());
        if expected.pieces.is_none() {
            let first = texts.entry(part.digest()).or_insert(parts.len());
            if let Some(first) = parts.get(*first) {
                part.check_renamed(first)?;
            }
        }
        match places.entry((part.name().to_owned(), digest)) {
            Entry::Vacant(place) => {
                place.insert(parts.len());
                parts.push(part);
            }
            Entry::Occupied(place) => part.check_twin(&parts[*place.get()])?,
        }
    }
    expected.check_sources(&parts)?;
    expected.check_pieces(&parts)?;
    Ok(parts)
}

impl Expected {
    /// Whether anything is expected.
    pub fn is_some(&self) -> bool {
        self.pieces.is_some() || !self.sources.is_empty()
    }

    fn check_sources(&self, parts: &[MergedFile]) -> Result<(), Error> {
        if self.sources.is_empty() {
            return Ok(());
        }
        let wanted = self.sources.iter().map(|file| text(&path_named(file)));
        let wanted: BTreeSet<_> = wanted.collect();
        let mut found = BTreeSet::new();
        for part in parts {
            for source in &part.header.spec.sources {
                if !wanted.contains(&source.file) {
                    let file = &source.file;
                    let why = format!("a part of {file}, which is not given by --source");
                    return Err(part.refused(&why));
                }
                found.insert(&source.file);
            }
        }
        match wanted.iter().find(|file| !found.contains(file)) {
            Some(file) => Err(Error::Setting {
                option: "--source",
                given: file.to_string(),
                why: "no part of this list was given".to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn check_pieces(&self, parts: &[MergedFile]) -> Result<(), Error> {
        let Some(file) = &self.pieces else {
            return Ok(());
        };
        let wanted = names_in(file).map_err(Error::io(file, "read"))?;
        let mut missing: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
        for part in parts {
            // The ways to name it.
            let (name, digest) = (in_one_way(part.name()), digest_shown(part.digest()));
            let names = [&*name, &digest, &format!("{digest} {name}")];
            if !names.iter().any(|&name| wanted.contains(name)) {
                let (file, name) = (file.display(), names[2].trim_end());
                let why = format!("the part of a piece that is not in {file}: {name}");
                return Err(part.refused(&why));
            }
            for name in names {
                missing.remove(name);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let shown: Vec<_> = missing.iter().take(SHOWN).copied().collect();
        let others = match missing.len() - shown.len() {
            0 => String::new(),
            count => format!(" and {} more", grouped(count as u64)),
        };
        let shown = shown.join(", ");
        let why = format!("parts of these pieces are missing: {shown}{others}");
        Err(Error::unfit(file, why))
    }
}

/// The lines of a file of names. Digest and name are separated by one space.
fn names_in(file: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = String::new();
    let read = File::open(file)?
        .take(MAX_NAMES_BYTES + 1)
        .read_to_string(&mut names)?;
    if read as u64 > MAX_NAMES_BYTES {
        return Err(io::Error::other("longer than 64 MiB"));
    }
    let lines = names.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = |line: &str| match line.split_once(char::is_whitespace) {
        Some((digest, name)) if is_digest(digest) => {
            format!("{digest} {}", in_one_way(name.trim_start()))
        }
        _ => in_one_way(line),
    };
    Ok(lines.map(line).collect())
}

/// Writes the name of a piece as the path of an input.
fn in_one_way(name: &str) -> String {
    path_named(name).display().to_string()
}

fn is_digest(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
