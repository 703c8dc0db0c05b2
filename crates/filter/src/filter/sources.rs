//! The lists that a filter was made from, and the section of the file that names them.
//!
//! ```text
//!   each source:  name, file, licence   u16 length and UTF-8 without control characters
//!                 lines, entries, rejected   u64 each
//! ```

use serde::Serialize;

use super::error::Problem;
use super::fields::{Fields, is_plain, put_text};

/// Maximum number of sources of a filter; a list of lists has a few thousand.
pub const MAX_SOURCES: usize = 1 << 20;

/// Maximum size of the sources section in bytes; it is read into memory as a whole.
pub const MAX_SOURCES_BYTES: u64 = 64 << 20;

/// Maximum length of a text of a source in bytes.
pub const MAX_TEXT: usize = 4096;

/// An input list that a filter was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Short name, shown in logs.
    pub name: String,
    /// The file that it was read from.
    pub file: String,
    /// Licence note.
    pub licence: String,
    /// Number of lines read.
    pub lines: u64,
    /// Number of entries found, duplicates included.
    pub entries: u64,
    /// Number of lines rejected.
    pub rejected: u64,
}

/// What the first line of a text list says after "Licence:" if `junk` writes it. A list can only lose by it.
pub const REPORTS: &str = "reports of users, kept by blocklist-milter junk";

impl Source {
    /// Returns whether users' reports are in it: whether its licence is the note of `blocklist-milter junk`.
    #[doc(hidden)]
    pub fn has_reports(&self) -> bool {
        self.licence == REPORTS
    }
}

pub(super) fn check(sources: &[Source]) -> Result<(), &'static str> {
    if sources.len() > MAX_SOURCES {
        return Err("more than 1,048,576 sources");
    }
    let fits = |text: &String| text.len() <= MAX_TEXT && is_plain(text);
    let texts = |source: &Source| fits(&source.name) && fits(&source.file) && fits(&source.licence);
    if !sources.iter().all(texts) {
        return Err(
            "a source's name, file or licence is longer than 4096 bytes or holds control characters",
        );
    }
    Ok(())
}

pub(super) fn encode(sources: &[Source]) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources {
        for text in [&source.name, &source.file, &source.licence] {
            put_text(&mut out, text);
        }
        for value in [source.lines, source.entries, source.rejected] {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
    out
}

pub(super) fn decode(bytes: &[u8], count: u32) -> Result<Vec<Source>, Problem> {
    let mut fields = Fields::new(bytes, Problem::damaged("malformed sources"));
    let mut sources = Vec::new();
    for _ in 0..count {
        sources.push(Source {
            name: fields.text(MAX_TEXT)?,
            file: fields.text(MAX_TEXT)?,
            licence: fields.text(MAX_TEXT)?,
            lines: fields.u64()?,
            entries: fields.u64()?,
            rejected: fields.u64()?,
        });
    }
    fields.end()?;
    Ok(sources)
}
