//! A text list that is being edited: claimed, read, and replaced.
//!
//! It is replaced like a filter: the new text is written beside the old file, synced, and renamed.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use super::error::Error;
use super::read::{base_name, is_whitelist};
use crate::address::{Entry, Rules, escaped};
use crate::base::access::open_regular;
use crate::base::day::Day;
use crate::base::replacement::Replacement;
use crate::filter::format::MAGIC;
use crate::list::{self, Format, ListToml, Reader, Reading, Refusal, Row};

/// A larger list is not kept by hand; `update` changes its filter instead.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// A list that is being edited. Its lines are counted from 1.
pub(super) struct EditedList {
    pub(super) replacement: Replacement,
    text: Vec<u8>,
    /// The range of each line in the text, with its line end.
    lines: Vec<Range<usize>>,
    /// In the order of their lines.
    entries: Vec<ListedEntry>,
    /// Indexes of the entries in the order of their canonical forms, then of their lines.
    by_form: Vec<usize>,
}

/// An entry on a line.
pub(super) struct ListedEntry {
    pub(super) line: u64,
    pub(super) expires: Option<Day>,
    /// Its canonical form.
    bytes: Vec<u8>,
}

impl EditedList {
    /// Claims and reads a list; a list that does not exist is empty.
    pub(super) fn open(path: &Path, rules: Rules) -> Result<Self, Error> {
        let refused = |why: &str| Error::io(path, "edit")(io::Error::other(why));
        let replacement = Replacement::claim(path)?;
        let text = match fs::metadata(path) {
            Ok(meta) if meta.len() > MAX_LIST_BYTES => {
                return Err(refused(
                    "too large to edit; use blocklist-compile update to change its filter",
                ));
            }
            Ok(_) => fs::read(path).map_err(Error::io(path, "read"))?,
            Err(_) if replacement.is_new() => Vec::new(),
            Err(error) => return Err(Error::io(path, "read")(error)),
        };
        if text.starts_with(&MAGIC) {
            return Err(refused(
                "it is a filter file; name its text list, or use blocklist-compile update",
            ));
        }
        check_written_as_read(&text).map_err(|why| refused(&why))?;
        let reading = reading(path, &text, refused)?;
        let mut lines = Vec::new();
        let mut entries = Vec::new();
        let mut start = 0;
        for (line, number) in text.split_inclusive(|byte| *byte == b'\n').zip(1_u64..) {
            lines.push(start..start + line.len());
            start += line.len();
            read_line(line, &reading, |row| {
                if let Row::Entry(raw) = row
                    && let Ok(entry) = Entry::parse(raw.text, rules)
                {
                    entries.push(ListedEntry {
                        line: number,
                        expires: raw.expires,
                        bytes: entry.as_bytes().to_vec(),
                    });
                }
            });
        }
        let mut by_form: Vec<usize> = (0..entries.len()).collect();
        by_form.sort_by(|&a, &b| entries[a].bytes.cmp(&entries[b].bytes));
        Ok(Self {
            replacement,
            text,
            lines,
            entries,
            by_form,
        })
    }

    /// Returns a line unchanged, with its line end; empty if there is no line with this number.
    pub(super) fn line(&self, number: u64) -> &[u8] {
        let index = usize::try_from(number.wrapping_sub(1)).unwrap_or(usize::MAX);
        let range = self.lines.get(index).cloned().unwrap_or_default();
        &self.text[range]
    }

    /// Returns the text without these lines.
    pub(super) fn text_without(&self, removed_lines: &HashSet<u64>) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.text.len());
        for (line, number) in self.lines.iter().zip(1_u64..) {
            if !removed_lines.contains(&number) {
                text.extend_from_slice(&self.text[line.clone()]);
            }
        }
        text
    }

    /// Returns where the list has an entry, given in canonical form, in the order of the lines.
    pub(super) fn of<'a>(&'a self, entry: &'a [u8]) -> impl Iterator<Item = &'a ListedEntry> {
        let form = |index: &usize| self.entries[*index].bytes.as_slice();
        let from = self.by_form.partition_point(|index| form(index) < entry);
        let all = self.by_form[from..]
            .iter()
            .map(|index| &self.entries[*index]);
        all.take_while(move |there| there.bytes == entry)
    }

    /// Returns the entries of one line.
    pub(super) fn entries_on(&self, line: u64) -> impl Iterator<Item = &[u8]> {
        let from = self.entries.partition_point(|entry| entry.line < line);
        let entries = self.entries.get(from..).unwrap_or_default();
        entries
            .iter()
            .take_while(move |entry| entry.line == line)
            .map(|entry| entry.bytes.as_slice())
    }
}

/// Returns how a list is read: as a build does, or for a whitelist as the daemon does, to which
/// `friend@good.example OK` is an entry.
fn reading(path: &Path, text: &[u8], refused: impl Fn(&str) -> Error) -> Result<Reading, Error> {
    if is_whitelist(path) {
        return Ok(Reading::given(Format::Whitelist));
    }
    let declared = ListToml::beside(path)?.declared(&[&base_name(path)]);
    let declared =
        declared.ok_or_else(|| refused("list.toml beside it says that it is no list"))?;
    let reading = list::reading(text, true, &declared).map_err(|refusal| match refusal {
        Refusal::Table(_) => refused("a table; only plain lists can be edited"),
        other => refused(&other.to_string()),
    })?;
    if !matches!(reading.format, Format::Plain | Format::Whitelist) {
        let format = reading.format;
        let why = format!("a list of format {format}; only plain lists can be edited");
        return Err(refused(&why));
    }
    // What is edited are lines, each with what is written there.
    Ok(Reading {
        subdomains: false,
        ..reading
    })
}

/// Checks that a build reads the bytes of a list unchanged, so that a line can be added to them.
///
/// # Errors
/// When a build would unpack or convert them first; the error says what to do.
fn check_written_as_read(text: &[u8]) -> Result<(), String> {
    let mut read = Vec::new();
    let all = list::unpack(io::Cursor::new(text.to_vec()))
        .and_then(|input| input.take(MAX_LIST_BYTES + 1).read_to_end(&mut read));
    match all {
        Ok(_) if read == text => Ok(()),
        Ok(_) => Err(
            "compressed, in UTF-16 or with lines that end with CR; unpack it or convert it to UTF-8 first".to_owned(),
        ),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the first line of a text list that names this entry, in canonical form, with its
/// number; `None` if no line does, or the list is larger than 64 MiB.
///
/// # Errors
/// When the list cannot be read, or is not a regular file.
pub fn line_of(list: &Path, rules: Rules, entry: &[u8]) -> Result<Option<(u64, String)>, Error> {
    let failed = || Error::io(list, "read");
    let mut text = Vec::new();
    // A filter names the path: it may be that of a device, or of a pipe without a writer.
    open_regular(list)
        .and_then(|file| file.take(MAX_LIST_BYTES + 1).read_to_end(&mut text))
        .map_err(failed())?;
    if text.len() as u64 > MAX_LIST_BYTES {
        return Ok(None);
    }
    let plain = Reading::given(Format::Plain);
    for (line, number) in list::lines(&text).zip(1_u64..) {
        let mut is_named = false;
        read_line(line, &plain, |row| {
            is_named |= matches!(row, Row::Entry(raw)
                if Entry::parse(raw.text, rules).is_ok_and(|found| found.as_bytes() == entry));
        });
        if is_named {
            return Ok(Some((number, escaped(line).to_string())));
        }
    }
    Ok(None)
}

/// Passes on the rows of one line.
pub(super) fn read_line(line: &[u8], reading: &Reading, mut row: impl FnMut(Row<'_>)) {
    Reader::new(reading).read(line, true, &mut |_, found| row(found));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_the_place_of_a_text_list_is_not_read() {
        let named = line_of(Path::new("/dev/zero"), Rules::default(), b"a@b.example");
        assert!(named.is_err());
    }
}
