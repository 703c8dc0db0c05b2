//! Where the formats put what they find on a line.

use crate::list::row::{RawEntry, Refusal, RejectReason, Row, Skip, entry};

/// The rows of one line on their way to the reader's caller.
pub(crate) struct Out<'s> {
    pub(crate) line: u64,
    /// The text of the line, which is shown for a skipped row.
    pub(crate) text: &'s [u8],
    pub(crate) sink: &'s mut dyn FnMut(u64, Row<'_>),
}

impl<'s> Out<'s> {
    pub(crate) fn new(line: u64, text: &'s [u8], sink: &'s mut dyn FnMut(u64, Row<'_>)) -> Self {
        Self { line, text, sink }
    }

    /// Reports that nobody is listed here.
    pub(crate) fn skip(&mut self, skip: Skip) {
        self.skip_by(skip, self.text);
    }

    /// Reports the same, counted by a word.
    pub(crate) fn skip_by(&mut self, skip: Skip, text: &[u8]) {
        let text = beginning(text);
        (self.sink)(self.line, Row::Skipped { skip, text });
    }

    /// Reports that this is about something else.
    pub(crate) fn other(&mut self, word: &[u8]) {
        self.skip_by(Skip::Other, word);
    }

    /// Reports a line without a text to read: a blank line, or a comment.
    pub(crate) fn nothing(&mut self) {
        self.skip(match self.text.trim_ascii() {
            b"" => Skip::Blank,
            _ => Skip::Comment,
        });
    }

    /// Reports a text that cannot be an entry.
    pub(crate) fn reject(&mut self, reason: RejectReason, text: &[u8]) {
        let text = beginning(text);
        (self.sink)(self.line, Row::Rejected { reason, text });
    }

    /// Reports a text for which nothing of the list can be used.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        let text = beginning(self.text);
        (self.sink)(self.line, Row::Refused { refusal, text });
    }

    /// Lists an entry; on an error, nothing is reported.
    pub(crate) fn list(&mut self, raw: RawEntry<'_>) -> Result<(), RejectReason> {
        let text = &entry::read(raw.text)?;
        (self.sink)(self.line, Row::Entry(RawEntry { text, ..raw }));
        Ok(())
    }

    /// Lists an entry without dates, unless its text cannot be one.
    pub(crate) fn entry(&mut self, text: &[u8]) {
        if let Err(reason) = self.list(RawEntry::new(text)) {
            self.reject(reason, text);
        }
    }

    /// Lists a domain, in a format that knows nothing else; returns whether it is one.
    pub(crate) fn domain(&mut self, name: &[u8]) -> bool {
        let name = name.strip_suffix(b".").unwrap_or(name);
        let is_other = matches!(name, [b'@' | b'.' | b'/', ..]) || name.contains(&b'@');
        let listed = match is_other || name.len() > MAX_NAME_BYTES {
            true => Err(RejectReason::NotADomain),
            false => match self.list(RawEntry::new(name)) {
                // A name of one label is a name here, not a word.
                Err(RejectReason::NotAnEntry) if !name.contains(&b'.') => {
                    self.list(RawEntry::new(&[b"@", name].concat()))
                }
                listed => listed,
            },
        };
        if let Err(reason) = listed {
            self.reject(reason, name);
        }
        listed.is_ok()
    }

    /// Lists a domain and its subdomains: two entries, or one rejection.
    pub(crate) fn tree(&mut self, name: &[u8]) {
        let name = name.strip_suffix(b".").unwrap_or(name);
        if self.domain(name) {
            let below = [b".", name].concat();
            (self.sink)(self.line, Row::Entry(RawEntry::new(&below)));
        }
    }
}

/// Maximum number of bytes of a name, in any script.
const MAX_NAME_BYTES: usize = 512;

/// Maximum number of bytes of a line that are passed on for a message.
const SHOWN: usize = 120;

fn beginning(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.get(..SHOWN).unwrap_or(text)
}
