//! Writing the shares of a merge, and joining their pages to a filter, unchanged.

use super::super::error::Error;
use super::super::writer::{Writer, check_sources, write_at};
use super::head::{Body, Counts, PagesHead};
use super::read::SharedPages;
use crate::base::replacement::Replacement;

impl Counts {
    /// Writes them to the claimed output.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk is full or fails.
    pub(crate) fn write(&self, replacement: Replacement) -> Result<(), Error> {
        write_at(&replacement, &self.encode(), 0)?;
        Ok(replacement.commit()?)
    }
}

impl Writer {
    /// Begins the pages of a share. It takes pages from [`encode_page`](super::super::encode_page),
    /// and ends with [`finish_share`](Self::finish_share).
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] when the spec exceeds a limit.
    pub(crate) fn begin_share(replacement: Replacement, head: &PagesHead) -> Result<Self, Error> {
        let mut header = head.header.clone();
        let path = replacement.target().to_owned();
        check_sources(&header.spec).map_err(|what| Error::Unwritable { path, what })?;
        header.sections = head.sections(head.encode().len() as u64);
        let pages = head.share.pages(header.shape.pages);
        Ok(Self::of(replacement, header, Vec::new(), pages))
    }

    /// Writes the rest of a share, and replaces the old file with it. Joining the pages checks all
    /// sums, and nobody uses the share before that. Returns the head with the counts and sums
    /// filled in.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the disk is full or fails, [`Error::Unwritable`] when pages are missing.
    pub(crate) fn finish_share(mut self, mut head: PagesHead) -> Result<PagesHead, Error> {
        if !self.left.is_empty() {
            return Err(self.unwritable("fewer pages than the share has"));
        }
        self.write_sections()?;
        let sections = self.header.sections;
        head.body = Body {
            entries: self.counted.unwrap_or(0),
            set_bits: self.header.set_bits,
            records_bytes: sections.records.length,
            sums_sum: sections.sums.sum,
            directory_sum: sections.directory.sum,
        };
        // Before the head is written: a file without it is not a share.
        self.replacement.sync()?;
        write_at(&self.replacement, &head.encode(), 0)?;
        self.replacement.commit()?;
        Ok(head)
    }

    /// Appends the pages and records of a share unchanged, and checks them against their sums.
    /// Calls `go_on` regularly with the number of pages appended.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the share is damaged, [`Error::Io`] when it cannot be read or the
    /// disk fails, [`Error::Unwritable`] when its pages are not the next ones, and the errors of
    /// `go_on`.
    pub(crate) fn append_share<E: From<Error>>(
        &mut self,
        share: &SharedPages,
        mut go_on: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let pages = share.pages();
        if pages.start != self.left.start || pages.end > self.left.end {
            return Err(self.unwritable("shares out of order").into());
        }
        let sums = share.sums()?;
        share.each_pages(&sums, |numbers, pages| {
            self.pages.write(&self.replacement, pages.as_flattened())?;
            go_on(numbers.end - numbers.start)
        })?;
        self.sums.extend_from_slice(&sums);
        drop(sums);
        let directory = share.directory()?;
        let before = self.records_bytes();
        share.each_block(&directory, |_, block| {
            self.records.write(&self.replacement, block)?;
            go_on(0)
        })?;
        for slot in directory {
            self.add_slot(before.saturating_add(slot.end), slot.sum);
        }
        self.left.start = pages.end;
        self.header.set_bits += share.head.body.set_bits;
        let entries = share.head.body.entries;
        self.counted = self.counted.and_then(|sum| sum.checked_add(entries));
        Ok(())
    }
}
