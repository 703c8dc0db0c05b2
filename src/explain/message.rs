//! Reads stored messages: their header fields, as a mail server would pass them, and mailboxes.
//!
//! Reads only the header block. Line ends may be CRLF or LF. As in the milter protocol, a value
//! keeps its folds as LF and white space, and loses one blank after the colon.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::milter::HEADER_BYTES_MAX;
use crate::sender::{Identity, Senders};
use crate::unpack;

/// Most bytes of a header block that are read; Postfix passes on 102,400.
const HEADERS_MAX_BYTES: usize = 16 << 20;

/// The name of a header field, as written, and its value, still folded.
type Field = (Vec<u8>, Vec<u8>);

/// The header block of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The fields, in the order of the message.
    pub fields: Vec<Field>,
    /// The sender in the `From ` line of an mbox, if there was one.
    pub mbox_sender: Option<Vec<u8>>,
}

impl Headers {
    /// Reads a header block up to the empty line, or to the first line that is not part of a
    /// header.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn read(input: impl BufRead) -> io::Result<Self> {
        Ok(Self::read_block(input)?.0)
    }

    /// Returns also whether an empty line ended it, and whether more of its last line follows.
    fn read_block(input: impl BufRead) -> io::Result<(Self, bool, bool)> {
        let mut input = input.take(HEADERS_MAX_BYTES as u64);
        let mut headers = Self::default();
        let mut line = Vec::new();
        let (mut first, mut is_cut) = (true, false);
        let is_ended = loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line)?;
            if read > 0 {
                is_cut = !line.ends_with(b"\n");
            }
            let text = trim_line_end(&line);
            if text.is_empty() {
                break read > 0;
            }
            if first && let Some(rest) = mbox_from(text) {
                let sender = rest.split(|&byte| byte == b' ').next().unwrap_or_default();
                headers.mbox_sender = Some(sender.to_vec());
            } else if !headers.line(text) {
                break false;
            }
            first = false;
        };
        for (name, value) in &mut headers.fields {
            value.truncate(HEADER_BYTES_MAX.saturating_sub(name.len()));
        }
        Ok((headers, is_ended, is_cut))
    }

    /// Adds one line; returns `false` if it is not a header line, so that the body begins here.
    fn line(&mut self, text: &[u8]) -> bool {
        if matches!(text.first(), Some(b' ' | b'\t')) {
            // An indented first line continues no header: mail servers take it for the body.
            let Some((_, value)) = self.fields.last_mut() else {
                return false;
            };
            value.push(b'\n');
            value.extend_from_slice(text);
            return true;
        }
        let Some(colon) = text.iter().position(|&byte| byte == b':') else {
            return false;
        };
        let (name, value) = text.split_at(colon);
        let name = name.trim_ascii_end();
        if name.is_empty() || name.iter().any(|byte| !byte.is_ascii_graphic()) {
            return false;
        }
        let value = &value[1..];
        let value = value.strip_prefix(b" ").unwrap_or(value);
        self.fields.push((name.to_vec(), value.to_vec()));
        true
    }

    /// Returns whether there is a usual field of messages, so that this is not just any text with a
    /// colon.
    fn are_of_a_message(&self) -> bool {
        let usual = "From Date Received Return-Path Message-ID Sender To Subject";
        usual.split(' ').any(|name| self.get(name).is_some())
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn len_bytes(&self) -> usize {
        let len = |(name, value): &Field| name.len() + value.len() + size_of::<Field>();
        self.fields.iter().map(len).sum()
    }

    /// Returns the values of the fields with this name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.fields.iter();
        let fields = fields.filter(move |(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        fields.map(|(_, value)| &**value)
    }

    /// Returns the value of the first field with this name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Returns the addresses in the fields with these names, as the daemon reads those of From.
    pub fn addresses(&self, names: &[&str]) -> Senders {
        let mut found = Senders::default();
        for (name, value) in &self.fields {
            let mut names = names.iter();
            if names.any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
                found.add_header(Identity::From, value);
            }
        }
        found
    }

    /// Returns the envelope sender as the delivering mail server recorded it: in `Return-Path`, or
    /// in the `From ` line.
    pub fn envelope_sender(&self) -> Option<&[u8]> {
        self.get("Return-Path")
            .map(<[u8]>::trim_ascii)
            .or(self.mbox_sender.as_deref())
    }
}

/// Returns the rest of a line that begins a message in an mbox. `From :` is a header.
fn mbox_from(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"From ")?;
    (!rest.trim_ascii_start().starts_with(b":")).then_some(rest)
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The callback of [`each_message`]: gets the name of a message's file, and its headers.
type EachMessage<'a> = &'a mut dyn FnMut(String, Headers);

/// Calls `each` for every message in `path`: the files of a folder (a maildir's `cur` and `new`, or
/// any other), or the messages of an mbox file, which may be compressed with gzip or zstd. Returns the number of
/// other files, such as the indexes that a mail server keeps in its maildirs. `-` is one message
/// from standard input, not an mbox: it may be a stranger's, and its body must not begin another message.
pub(crate) fn each_message(path: &Path, each: EachMessage<'_>) -> io::Result<u64> {
    if path == Path::new("-") {
        each("-".to_owned(), Headers::read(open(path)?)?);
        return Ok(0);
    }
    if !path.is_dir() {
        return each_of_file(path, each);
    }
    let mut others = 0;
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(&folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        entries.sort();
        for entry in entries {
            let kind = fs::symlink_metadata(&entry)?.file_type();
            if kind.is_dir() {
                folders.push(entry);
            } else if kind.is_file() {
                others += each_of_file(&entry, each)?;
            }
        }
    }
    Ok(others)
}

/// Opens a file, and decompresses it if necessary; `-` is standard input. A list would be decoded, too, but what is no
/// message, such as an index, must not be an error.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path)?;
    let mut head = Vec::new();
    (&file).take(4).read_to_end(&mut head)?;
    if head.starts_with(b"\x1f\x8b") || head.starts_with(b"\x28\xb5\x2f\xfd") {
        return Ok(Box::new(BufReader::new(unpack::open(path)?)));
    }
    Ok(Box::new(BufReader::new(io::Cursor::new(head).chain(file))))
}

/// Calls `each` for a file with one message, or for all messages of an mbox; returns 1 for another file.
fn each_of_file(path: &Path, each: EachMessage<'_>) -> io::Result<u64> {
    let name = path.display().to_string();
    let mut input = open(path)?;
    let mut line = Vec::new();
    read_line(&mut input, &mut line)?;
    if mbox_from(&line).is_none() {
        let headers = Headers::read(line.as_slice().chain(input))?;
        if !headers.are_of_a_message() {
            return Ok(1);
        }
        each(name, headers);
        return Ok(0);
    }
    let mut number = 0_u64;
    while !line.is_empty() {
        let block = line.as_slice().chain(&mut input);
        let (headers, mut after_empty, is_cut) = Headers::read_block(block)?;
        if is_cut {
            input.skip_until(b'\n')?;
        }
        number += 1;
        each(format!("{name}:{number}"), headers);
        // In an mbox a message begins with "From " after an empty line.
        loop {
            read_line(&mut input, &mut line)?;
            if line.is_empty() || after_empty && mbox_from(&line).is_some() {
                break;
            }
            after_empty = trim_line_end(&line).is_empty();
        }
    }
    Ok(0)
}

/// Reads the next line, or a part of a very long one; it is empty at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    let mut limited = input.take(HEADERS_MAX_BYTES as u64);
    limited.read_until(b'\n', line).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_line_that_was_cut_is_no_empty_line() {
        let mut text = b"From a\nX: ".to_vec();
        text.resize(HEADERS_MAX_BYTES, b'x');
        text.extend_from_slice(b"\nFrom b\n\nFrom c\n");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mbox");
        fs::write(&path, text).unwrap();
        let mut senders = Vec::new();
        let each = &mut |_, headers: Headers| senders.extend(headers.mbox_sender);
        each_message(&path, each).unwrap();
        assert_eq!(senders, [b"a", b"c"]);
    }
}
