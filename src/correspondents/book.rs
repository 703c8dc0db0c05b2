//! The file of correspondents.
//!
//! ```text
//! # People whom our users wrote to, kept by blocklist-milter correspondents.
//! bob@other.example # seen 2026-11-21
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Error, Written, correspondent};
use crate::address::escaped;
use crate::base::day::Day;
use crate::base::numbers::counted;
use crate::base::replacement::{self, Replacement};
use crate::base::whole_file;
use crate::list::written_address;

const HEAD: &str =
    "# People whom our users wrote to, kept by \"blocklist-milter correspondents\".\n";
const SEEN: &str = " # seen ";
/// A larger file is not a file of correspondents.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The addresses, each with the last day on which a user wrote to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Book {
    addresses: BTreeMap<String, Day>,
}

/// The changes that one run made to the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The file.
    pub file: PathBuf,
    /// Number of addresses in the file now.
    pub addresses: u64,
    /// Number of new addresses.
    pub added: u64,
    /// Number of known addresses to which users wrote again.
    pub seen_again: u64,
    /// Number of addresses dropped because nobody wrote to them for too long.
    pub dropped: u64,
    /// Number of messages from users.
    pub messages: u64,
    /// Number of recipients ignored because of automatic replies.
    pub automatic: u64,
    /// Number of recipients ignored because the message had too many.
    pub crowds: u64,
}

impl Book {
    /// Reads the file; a missing one gives no addresses.
    ///
    /// # Errors
    /// It cannot be read, or is not a file of correspondents.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = whole_file::read(path, FILE_BYTES_MAX, "a file of correspondents")?;
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let text = String::from_utf8(text)
            .map_err(|_| Error::of(path)("not a file of correspondents: not text"))?;
        let mut addresses = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line.rsplit_once(SEEN).and_then(|(address, day)| {
                Some((correspondent(address)?, Day::read(day.as_bytes())?))
            });
            let Some((address, day)) = entry else {
                let line = escaped(line.as_bytes());
                let why = format!(
                    "not a file of correspondents: line {number} is not \"ADDRESS # seen DATE\": {line}"
                );
                return Err(Error::of(path)(why));
            };
            addresses.insert(address, day);
        }
        Ok(Self { addresses })
    }

    /// Adds the addresses to which users wrote, and drops those to which nobody wrote for `keep`
    /// days.
    pub fn take(&mut self, written: &Written, today: Day, keep: u16) -> Change {
        let mut change = Change {
            messages: written.messages,
            automatic: written.automatic,
            crowds: written.crowds,
            ..Change::default()
        };
        let oldest = Day(today.0.saturating_sub(keep));
        for (address, &day) in &written.addresses {
            // A wrong clock must not keep an address forever.
            let day = day.min(today);
            if day < oldest {
                continue;
            }
            match self.addresses.get_mut(address) {
                Some(last) if *last < day => {
                    *last = day;
                    change.seen_again += 1;
                }
                Some(_) => {}
                None => {
                    self.addresses.insert(address.clone(), day);
                    change.added += 1;
                }
            }
        }
        let before = self.addresses.len();
        self.addresses.retain(|_, day| *day >= oldest);
        change.dropped = (before - self.addresses.len()) as u64;
        change.addresses = self.addresses.len() as u64;
        change
    }

    /// Replaces the file if its content changes.
    ///
    /// # Errors
    /// It cannot be written; then the old file stays.
    pub fn write(&self, path: &Path) -> Result<(), replacement::Error> {
        let mut text = HEAD.to_owned();
        for (address, day) in &self.addresses {
            text.push_str(&format!("{}{SEEN}{day}\n", written_address(address)));
        }
        if fs::read_to_string(path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        Replacement::claim(path)?.commit_text(text.as_bytes())
    }
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {} new, {} written to again, {} dropped; from {}",
            self.file.display(),
            counted(self.addresses, "address", "addresses"),
            self.added,
            self.seen_again,
            self.dropped,
            counted(self.messages, "message", "messages")
        )?;
        for (count, what) in [
            (self.automatic, "recipients of automatic replies"),
            (self.crowds, "recipients of messages to very many"),
        ] {
            if count > 0 {
                write!(f, "; left out: {count} {what}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correspondents::Rules;
    use crate::list;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn addresses_are_kept_until_nobody_writes_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("correspondents");
        let take = |day: u16, addresses: &[&str]| {
            let mut written = Written::default();
            for address in addresses {
                written.addresses.insert((*address).to_owned(), Day(day));
            }
            let mut book = Book::read(&path).unwrap();
            let change = book.take(&written, Day(day), 120);
            book.write(&path).unwrap();
            (change.added, change.seen_again, change.dropped)
        };
        assert_eq!(take(20_000, &["a@x.example", "b@x.example"]), (2, 0, 0));
        assert_eq!(take(20_100, &["a@x.example"]), (0, 1, 0));
        assert_eq!(take(20_120, &[]), (0, 0, 0));
        assert_eq!(take(20_121, &[]), (0, 0, 1));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{HEAD}a@x.example # seen 2025-01-12\n"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );

        // Whatever the local part looks like.
        let odd =
            "-kei-@x +p@x a?b@x a|b@x 'q@x #h@x x{y@x x$@x ^x@x !b@x a*b@x ;x@x =x@x %x%@x ü²@x";
        let mut written = Written::default();
        for address in odd.split(' ') {
            written.add(address, "our.example", Day(20_000), &Rules::default());
        }
        assert_eq!(written.addresses.len(), odd.split(' ').count());
        let mut book = Book::default();
        book.take(&written, Day(20_000), 120);
        book.write(&path).unwrap();
        assert_eq!(Book::read(&path).unwrap(), book);
        for line in fs::read_to_string(&path).unwrap().lines().skip(1) {
            let (entry, _) = list::split_comment(line.as_bytes(), false);
            let entry = list::read_entry(entry).unwrap();
            let address = correspondent(str::from_utf8(&entry).unwrap());
            assert!(book.addresses.contains_key(&address.unwrap()), "{line}");
        }

        fs::write(&path, "a@x.example\n").unwrap();
        let error = Book::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 1 is not"), "{error}");
    }
}
