//! A text list that is being edited: claimed, read, and replaced.
//!
//! It is replaced like a filter: the new text is written beside the old file, synced, and renamed.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use super::error::Error;
use super::read::{base_name, is_whitelist, may_be_list};
use crate::address::{Entry, Rules, escaped};
use crate::base::access::open_regular;
use crate::base::day::Day;
use crate::base::replacement::Replacement;
use crate::filter::format::MAGIC;
use crate::list::{self, Format, ListToml, Reader, Reading, Refusal, Row};
use crate::unpack;

/// A larger list is not kept by hand; `update` changes its filter instead.
const MAX_LIST_BYTES: u64 = 64 << 20;

pub(super) struct EditedList {
    pub(super) replacement: Replacement,
    text: Vec<u8>,
    /// Where the list has each canonical entry, in the order of the lines; a line has at most one.
    entries: HashMap<Vec<u8>, Vec<ListedEntry>>,
}

pub(super) struct ListedEntry {
    pub(super) line: u64,
    range: Range<usize>,
    pub(super) expires: Option<Day>,
}

impl EditedList {
    pub(super) fn open(path: &Path, rules: Rules) -> Result<Self, Error> {
        let refused = |why: &str| Error::io(path, "edit")(io::Error::other(why));
        let replacement = Replacement::claim(path)?;
        let text = match fs::metadata(path) {
            Ok(meta) if meta.len() > MAX_LIST_BYTES => {
                let why = "too large to edit; use blocklist-compile update to change its filter";
                return Err(refused(why));
            }
            Ok(_) => fs::read(path).map_err(Error::io(path, "read"))?,
            Err(_) if replacement.is_new() => Vec::new(),
            Err(error) => return Err(Error::io(path, "read")(error)),
        };
        if text.starts_with(&MAGIC) {
            let why = "it is a filter file; name its text list, or use blocklist-compile update";
            return Err(refused(why));
        }
        check_written_as_read(&text).map_err(|why| refused(&why))?;
        let reading = reading(path, &text, refused)?;
        let mut entries: HashMap<_, Vec<_>> = HashMap::new();
        let mut start = 0;
        for (line, written) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
            let range = start..start + written.len();
            start = range.end;
            let found = entry_of(written, &reading, rules).map_err(|refusal| {
                let until = "until then no build reads this list";
                refused(&format!("line {line}: {refusal}; {until}"))
            })?;
            if let Some((entry, expires)) = found {
                let there = ListedEntry {
                    line,
                    range,
                    expires,
                };
                entries.entry(entry).or_default().push(there);
            }
        }
        Ok(Self {
            replacement,
            text,
            entries,
        })
    }

    pub(super) fn line(&self, there: &ListedEntry) -> &[u8] {
        &self.text[there.range.clone()]
    }

    pub(super) fn text_without<'a>(
        &self,
        removed: impl IntoIterator<Item = &'a ListedEntry>,
    ) -> Vec<u8> {
        let mut ranges: Vec<_> = removed.into_iter().map(|there| &there.range).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.dedup();
        let (mut text, mut kept) = (Vec::with_capacity(self.text.len()), 0);
        for range in ranges {
            text.extend_from_slice(&self.text[kept..range.start]);
            kept = range.end;
        }
        text.extend_from_slice(&self.text[kept..]);
        text
    }

    /// Returns where the list has an entry, given in canonical form, in the order of the lines.
    pub(super) fn of(&self, entry: &[u8]) -> &[ListedEntry] {
        self.entries.get(entry).map_or(&[], Vec::as_slice)
    }
}

/// Returns how a list is read: as a build does, or for a whitelist as the daemon does, to which
/// `friend@good.example OK` is an entry.
fn reading(path: &Path, text: &[u8], refused: impl Fn(&str) -> Error) -> Result<Reading, Error> {
    if is_whitelist(path) {
        return Ok(Reading::given(Format::Whitelist));
    }
    if !may_be_list(path) {
        return Err(refused("no build reads a file with this name as a list"));
    }
    let list_toml = ListToml::of_folder(path.parent().unwrap_or_else(|| Path::new("")))?;
    let list_toml = list_toml.unwrap_or_default();
    if list_toml.feed.is_some() {
        let why = "list.toml beside it has a [feed], which replaces the files here";
        return Err(refused(why));
    }
    let Some(declared) = list_toml.declared(&[&base_name(path)]) else {
        return Err(refused("list.toml beside it says that it is no list"));
    };
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

/// Checks that a build reads a list without unpacking or converting it: a line can be added to it.
fn check_written_as_read(text: &[u8]) -> Result<(), String> {
    let mut read = Vec::new();
    let all = unpack::text(io::Cursor::new(text.to_vec()))
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
pub fn line_of(list: &Path, rules: Rules, entry: &[u8]) -> Result<Option<(u64, String)>, Error> {
    let mut text = Vec::new();
    // A filter names the path: it may be that of a device, or of a pipe without a writer.
    open_regular(list)
        .and_then(|file| file.take(MAX_LIST_BYTES + 1).read_to_end(&mut text))
        .map_err(Error::io(list, "read"))?;
    if text.len() as u64 > MAX_LIST_BYTES {
        return Ok(None);
    }
    let plain = Reading::given(Format::Plain);
    let named = (1..).zip(list::lines(&text)).find(
        |(_, line)| matches!(entry_of(line, &plain, rules), Ok(Some((found, _))) if found == entry),
    );
    Ok(named.map(|(number, line)| (number, escaped(line).to_string())))
}

type Dated = (Vec<u8>, Option<Day>);

/// Returns the entry of one line; a line may refuse the list.
fn entry_of(line: &[u8], reading: &Reading, rules: Rules) -> Result<Option<Dated>, Refusal> {
    let mut found = Ok(None);
    Reader::new(reading).read(line, true, &mut |_, row| match row {
        Row::Entry(raw) => {
            let entry = Entry::parse(raw.text, rules).ok();
            found = Ok(entry.map(|entry| (entry.as_bytes().to_vec(), raw.expires)));
        }
        Row::Refused { refusal, .. } => found = Err(refusal),
        Row::Skipped { .. } | Row::Rejected { .. } => {}
    });
    found
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
