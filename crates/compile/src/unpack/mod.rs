//! From a file or standard input to the text in it, unpacked (`packed`, and for the files in ZIP and tar
//! archives, `archive`) and decoded: of lists, logs and mailboxes.
//!
//! A text in UTF-16, as Windows writes exports, is recognized by its byte order mark, and is read as
//! UTF-8.

mod archive;
mod packed;

use std::char::decode_utf16;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

pub use archive::{MAX_MEMBERS, Member, members, open_member};
use packed::{first_bytes, invalid, is_packed, is_tar, unpacked};

/// Opens a file for reading; `-` is standard input.
///
/// # Errors
/// An error of opening the file, and those of [`text`].
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" {
        text(io::stdin())
    } else {
        text(File::open(path)?)
    }
}

/// Reads `input`, and unpacks it if its first bytes say that it is compressed.
///
/// # Errors
/// An error of reading the first bytes, and an archive that is not supported. A damaged or
/// truncated file is an error during reading, never a shorter list.
pub fn text(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    decoded(unpacked(input)?)
}

/// The error for an input that changed while it was read: a part of it is old, and the rest is new.
pub(crate) fn changed() -> io::Error {
    io::Error::other("it changed while it was read; try again when it is complete")
}

/// Reads a text unchanged, or decoded from UTF-16.
fn decoded(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let head = first_bytes(&mut input, TEXT_HEAD_BYTES)?;
    if is_packed(&head) || is_tar(&head) {
        return Err(invalid(
            "compressed twice, or an archive in another file or on standard input; unpack it once first",
        ));
    }
    let unit = match head.as_slice() {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes as fn([u8; 2]) -> u16),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes as fn([u8; 2]) -> u16),
        _ => None,
    };
    // A CR at the very end of the first bytes may have its LF after it.
    let before_end = head.split_last().map_or(&[][..], |(_, before)| before);
    if unit.is_none() && is_text(&head) && before_end.contains(&b'\r') && !head.contains(&b'\n') {
        return Err(invalid(
            "its lines end with CR alone; convert it, for example with tr '\\r' '\\n'",
        ));
    }
    let whole = Cursor::new(head).chain(input);
    Ok(match unit {
        Some(unit) => {
            let mut bytes = Vec::new();
            whole.take(MAX_UTF16_BYTES + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > MAX_UTF16_BYTES {
                return Err(invalid(
                    "a text in UTF-16 of more than 256 MiB; convert it to UTF-8",
                ));
            }
            let (pairs, _odd_byte_at_the_end) = bytes.as_chunks::<2>();
            // Half a pair is not text. A NUL has the line rejected; U+FFFD would make one entry of
            // two different ones.
            let chars = decode_utf16(pairs.iter().map(|pair| unit(*pair)));
            let text: String = chars.map(|char| char.unwrap_or('\0')).collect();
            Box::new(Cursor::new(text.into_bytes()))
        }
        None => Box::new(whole),
    })
}

/// Returns whether the first bytes of a list, unpacked, can be text. Many control characters mean
/// that they cannot. A few can have any cause, and only the lines that hold them are rejected.
#[must_use]
pub fn is_text(head: &[u8]) -> bool {
    let is_control = |byte: &&u8| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127);
    let controls = head.iter().filter(is_control).count();
    // Programs, pictures and archives have one among their very first bytes.
    !head.iter().take(4).any(|byte| is_control(&byte))
        && (controls < MIN_CONTROLS || controls <= head.len() / 20)
}

/// A list with fewer control characters is never a binary file. Of random bytes, 27 in 256 are.
const MIN_CONTROLS: usize = 32;

/// Number of bytes that tell how a text is written; the first line of a list is hardly longer.
const TEXT_HEAD_BYTES: u64 = 4 << 10;

/// The largest text in UTF-16, which is kept in memory: a hundred times what Windows exports.
const MAX_UTF16_BYTES: u64 = 256 << 20;

#[cfg(test)]
mod tests;
