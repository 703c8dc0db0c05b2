//! The fields of one record of a table, unquoted.

/// Maximum number of fields of a record that are read.
pub(crate) const MAX_FIELDS: usize = 4096;

/// The fields of one record.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'f> {
    pub(crate) text: &'f [u8],
    /// Where each field ends in `text`.
    pub(crate) ends: &'f [usize],
    /// Whether the record has no more than [`MAX_FIELDS`].
    pub(crate) is_whole: bool,
}

impl<'f> Fields<'f> {
    pub(crate) fn get(self, column: usize) -> Option<&'f [u8]> {
        let end = *self.ends.get(column)?;
        let start = match column.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.get(start..end).map(<[u8]>::trim_ascii)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'f [u8]> + Clone {
        (0..self.ends.len()).filter_map(move |column| self.get(column))
    }
}
