//! Reads stored messages: their header fields, as a mail server would pass them, and mailboxes.
//!
//! Reads only the header block. Line ends may be CRLF or LF. As in the milter protocol, a value
//! keeps its folds as LF and white space, and loses one blank after the colon.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::milter::HEADER_BYTES_MAX;
use crate::sender::{Identity, Senders};
use blocklist_compile::unpack;
use blocklist_filter::base::access;
use blocklist_filter::base::path::folder_of;

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

/// Returns whether a line of an mbox begins a message: `From a@b.example Fri Nov 21 14:03:22 2026`, perhaps with a zone
/// beside the year (RFC 4155, and what mail programs write). A line of a text may begin with "From ", too.
fn begins_message(line: &[u8]) -> bool {
    const WORDS_MAX: usize = 64;
    let text = String::from_utf8_lossy(mbox_from(line).unwrap_or_default());
    let words: Vec<&str> = text.split_ascii_whitespace().take(WORDS_MAX).collect();
    let is_one_of = |word: &str, all: &str| all.split(' ').any(|known| known == word);
    words.windows(5).any(|words| {
        matches!(words, [day, month, number, time, _] if is_one_of(day, "Mon Tue Wed Thu Fri Sat Sun")
            && is_one_of(month, "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
            && number.parse::<u8>().is_ok()
            && time.contains(':')
            && time.split(':').all(|part| part.parse::<u8>().is_ok()))
    })
}

/// A message of a mailbox.
pub(crate) struct Stored {
    /// Its file, with its number in an mbox.
    pub(crate) name: String,
    pub(crate) headers: Headers,
    /// When its file was changed, if it has one of its own.
    pub(crate) changed: Option<SystemTime>,
}

/// The callback of [`each_message`].
type EachMessage<'a> = &'a mut dyn FnMut(Stored);

/// Calls `each` for every message in `path`: the files of a folder (a maildir's `cur` and `new`, or
/// any other), which may be compressed with gzip or zstd, or one such file. Returns the number of
/// other files, such as the indexes that a mail server keeps in its maildirs. `-` is one message
/// from standard input.
///
/// A file is one message, whatever is in it: a stranger wrote the text, which must not begin another message. Only if
/// `takes_mbox`, and if `path` is the file, the messages of an mbox are taken apart.
pub(crate) fn each_message(
    path: &Path,
    takes_mbox: bool,
    each: EachMessage<'_>,
) -> io::Result<u64> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return one_message(name, None, open(path)?, each);
    }
    if path.is_dir() {
        return each_in_folder(path, each);
    }
    let file = match path.file_name() {
        // Its user names an mbox himself.
        Some(name) if !takes_mbox => open_file(open_folder(CWD, folder_of(path))?, name)?,
        _ => access::open_regular(path)?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let changed = meta.modified().ok();
    let mut input = unpacked(file)?;
    let mut line = Vec::new();
    read_line(&mut input, &mut line)?;
    if mbox_from(&line).is_none() {
        return one_message(name, changed, line.as_slice().chain(input), each);
    }
    if takes_mbox {
        return each_of_mbox(&name, line, input, each);
    }
    Err(io::Error::other(
        "an mbox, whose messages a text in one of them can forge; give a maildir or a folder with one file for each message, \
         or - and one message on standard input",
    ))
}

/// How deep the folders of a mailbox may be.
const DEPTH_MAX: usize = 64;

/// Reads the regular files below a folder. Another user may change it at any time, so that nothing is opened by its
/// path, no link is followed, and opening does not wait.
fn each_in_folder(path: &Path, each: EachMessage<'_>) -> io::Result<u64> {
    let root = open_folder(CWD, path)?;
    let mut others = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let Some(folder) = still_there(open_folder(&root, &below))? else {
            continue;
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            names.push(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned());
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        for name in names {
            let below = below.join(&name);
            let status = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW);
            let Some(status) = still_there(status.map_err(io::Error::from))? else {
                continue;
            };
            match FileType::from_raw_mode(status.st_mode) {
                FileType::Directory if below.components().count() <= DEPTH_MAX => {
                    folders.push(below);
                }
                FileType::RegularFile => {
                    let Some(file) = still_there(open_file(&folder, &name))? else {
                        continue;
                    };
                    let meta = file.metadata()?;
                    if meta.is_file() {
                        let name = path.join(below).display().to_string();
                        others += one_message(name, meta.modified().ok(), unpacked(file)?, each)?;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(others)
}

/// Returns `None` for a file that has gone since its folder was read: mail programs move messages at any time.
fn still_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Opens a folder without following any link in the path, as openat2(2) does, but on all kernels.
fn open_folder(from: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let is_step =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let start = if path.is_absolute() { "/" } else { "." };
    let mut folder = open_at(from, start.as_ref(), OFlags::DIRECTORY | OFlags::PATH)?;
    for part in path.components().filter(is_step) {
        folder = open_at(folder, part.as_os_str(), OFlags::DIRECTORY | OFlags::PATH)?;
    }
    open_at(folder, ".".as_ref(), OFlags::DIRECTORY)
}

/// Opens a file, which may be none at all: without waiting.
fn open_file(folder: impl AsFd, name: &OsStr) -> io::Result<File> {
    open_at(folder, name, OFlags::NONBLOCK).map(File::from)
}

fn open_at(folder: impl AsFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => io::Error::other(format!(
            "{} is a link, and no link is followed to users' mail; give the real path (realpath)",
            name.display()
        )),
        error => error.into(),
    })
}

/// Opens a file, and decompresses it if necessary; `-` is standard input.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    unpacked(File::open(path)?)
}

/// Decompresses a file if necessary. A list would be decoded, too, but what is no message, such as an index, must not be
/// an error.
fn unpacked(file: File) -> io::Result<Box<dyn BufRead>> {
    let mut head = Vec::new();
    (&file).take(4).read_to_end(&mut head)?;
    let is_packed = head.starts_with(b"\x1f\x8b") || head.starts_with(b"\x28\xb5\x2f\xfd");
    let whole = io::Cursor::new(head).chain(file);
    Ok(match is_packed {
        true => Box::new(BufReader::new(unpack::text(whole)?)),
        false => Box::new(BufReader::new(whole)),
    })
}

/// Calls `each` for a file with one message; returns 1 for another file.
fn one_message(
    name: String,
    changed: Option<SystemTime>,
    input: impl BufRead,
    each: EachMessage<'_>,
) -> io::Result<u64> {
    let headers = Headers::read(input)?;
    if !headers.are_of_a_message() {
        return Ok(1);
    }
    each(Stored {
        name,
        headers,
        changed,
    });
    Ok(0)
}

/// Calls `each` for all messages of an mbox with this first line.
fn each_of_mbox(
    name: &str,
    mut line: Vec<u8>,
    mut input: impl BufRead,
    each: EachMessage<'_>,
) -> io::Result<u64> {
    let mut number = 0_u64;
    while !line.is_empty() {
        let block = line.as_slice().chain(&mut input);
        let (headers, mut after_empty, is_cut) = Headers::read_block(block)?;
        if is_cut {
            input.skip_until(b'\n')?;
        }
        number += 1;
        let name = format!("{name}:{number}");
        each(Stored {
            name,
            headers,
            changed: None,
        });
        // In an mbox a message begins with "From " after an empty line.
        loop {
            read_line(&mut input, &mut line)?;
            if line.is_empty() || after_empty && begins_message(&line) {
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
        let mut text = b"From a Fri Nov 21 14:03:22 2026\nX: ".to_vec();
        text.resize(HEADERS_MAX_BYTES, b'x');
        text.extend_from_slice(
            b"\nFrom b Fri Nov 21 14:03:22 2026\n\nFrom c Fri Nov 21 14:03:22 2026\n",
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mbox");
        std::fs::write(&path, text).unwrap();
        let mut senders = Vec::new();
        let each = &mut |stored: Stored| senders.extend(stored.headers.mbox_sender);
        each_message(&path, true, each).unwrap();
        assert_eq!(senders, [b"a", b"c"]);
    }

    /// Mail programs move messages from `new` to `cur`, and remove them, at any time.
    #[test]
    fn a_message_that_goes_while_its_folder_is_read_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["1", "2", "3"] {
            std::fs::write(folder.path().join(name), "From: a@b.example\n\n").unwrap();
        }
        let mut read = Vec::new();
        let each = &mut |stored: Stored| {
            read.push(stored.name);
            let _ = std::fs::remove_file(folder.path().join("2"));
        };
        assert_eq!(each_message(folder.path(), false, each).unwrap(), 0);
        assert!(read.len() == 2 && read[1].ends_with("/3"), "{read:?}");
    }
}
