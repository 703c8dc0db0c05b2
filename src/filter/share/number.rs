//! The number of a share, the number of shares, and its kind: its keys and its pages.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::super::key::Key;
use super::super::page::first_key;

/// Maximum number of shares of a merge.
pub const MAX_SHARES: u32 = 1 << 16;

/// The content of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareKind {
    /// The number of entries.
    Counts,
    /// Pages and records.
    Pages,
}

impl ShareKind {
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Counts => 1,
            Self::Pages => 2,
        }
    }

    pub(super) fn of_number(number: u32) -> Option<Self> {
        [Self::Counts, Self::Pages]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

impl fmt::Display for ShareKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counts => "counts",
            Self::Pages => "pages",
        })
    }
}

/// The number of a share, from 1, and the number of shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    number: u32,
    of: u32,
}

impl Share {
    /// Returns share `number` (from 1) of `of`; `None` if there is no such share, or more than
    /// [`MAX_SHARES`].
    #[must_use]
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (1..=MAX_SHARES)
            .contains(&of)
            .then_some(Self { number, of })
            .filter(|_| (1..=of).contains(&number))
    }

    /// Returns its number, from 1.
    #[must_use]
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the number of shares.
    #[must_use]
    pub fn of(self) -> u32 {
        self.of
    }

    /// Returns its range of all keys: the first one, and the one after the last, if there is one.
    pub(crate) fn keys(self) -> (Key, Option<Key>) {
        let of = u64::from(self.of);
        let Range { start, end } = self.pages(of);
        (first_key(start, of), (end < of).then(|| first_key(end, of)))
    }

    /// Returns its range of this many pages; empty if there are more shares than pages.
    pub(crate) fn pages(self, pages: u64) -> Range<u64> {
        let of = u64::from(self.of);
        // This cannot overflow: there are at most 2^40 pages and 2^16 shares.
        let before = |number: u32| u64::from(number) * pages / of;
        before(self.number - 1)..before(self.number)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share {} of {}", self.number, self.of)
    }
}

/// Parses `3/8`.
impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = text.split_once('/').and_then(|(number, of)| {
            let number = number.parse().ok()?;
            Self::new(number, of.parse().ok()?)
        });
        share.ok_or_else(|| {
            format!("must be a share such as 3/8, from 1/8 to 8/8; at most {MAX_SHARES} shares")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::sizing::MAX_PAGES;

    #[test]
    fn shares_are_all_pages_and_all_keys_once() {
        for of in [1, 2, 3, 7, MAX_SHARES] {
            for pages in [1, 2, 5, 1000, MAX_PAGES] {
                let (mut next, mut key) = (0, Some(Key(0)));
                for number in 1..=of {
                    let share = Share::new(number, of).unwrap();
                    let here = share.pages(pages);
                    assert_eq!(here.start, next);
                    next = here.end;
                    let (from, end) = share.keys();
                    assert_eq!(Some(from), key);
                    assert!(end.is_none_or(|end| from < end));
                    key = end;
                }
                assert_eq!((next, key), (pages, None));
            }
        }
    }

    #[test]
    fn shares_are_written_as_number_and_count() {
        let share = |text: &str| text.parse::<Share>().ok();
        assert_eq!(share("3/8"), Share::new(3, 8));
        assert_eq!(share("1/1").unwrap().to_string(), "share 1 of 1");
        for wrong in [
            "", "3", "0/8", "9/8", "3/0", "-1/8", "1/65537", "1/2/3", "a/b",
        ] {
            assert_eq!(share(wrong), None, "{wrong}");
        }
    }
}
