//! Looks up senders that are known to be good: which of them would be refused?
//!
//! They come from any file at hand: a mail log, an address book, a plain list. Everything
//! in it that looks like an address is looked up; the text around it does not matter.
//!
//! Two results are useful. A known sender that is *listed* is a mistake of a list, or our
//! own. A sender that only *hits the pages* is refused by a filter without records, and
//! costs a read with records. The whitelist avoids both.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::query::{Finding, Query};
use crate::compile::{Error, Progress, inputs, open_input};
use crate::list::written_address;
use blocklist_filter::address::{Canonical, escaped};
use blocklist_filter::base::day::Day;
use blocklist_filter::base::numbers::counted;
use blocklist_filter::base::parallel::{line_parts, on_threads};
use blocklist_filter::filter::Load;
use blocklist_filter::filter::format::MAGIC;

const BLOCK_BYTES: u64 = 4 << 20;
/// Most bytes that the last line of a block may add. A log line is shorter.
const LINE_BYTES: u64 = 64 << 10;
const MIN_PART_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct KnownGood {
    /// Number of distinct addresses that were found and looked up.
    pub(crate) asked: u64,
    /// The listed addresses, and their entries.
    pub(crate) listed: Vec<Finding>,
    /// The addresses that hit the pages without being listed.
    pub(crate) hit: Vec<String>,
}

/// The canonical form of an address, and the finding if it is listed or hits the pages.
type Asked = (Vec<u8>, Option<Finding>);

impl KnownGood {
    /// Returns whether none of them is listed or hits the pages.
    pub(crate) fn is_clean(&self) -> bool {
        self.listed.is_empty() && self.hit.is_empty()
    }
}

/// Looks up every address in `known` in the filter.
pub(crate) fn false_positives(
    filter: &Path,
    known: &[PathBuf],
    today: Day,
) -> Result<KnownGood, Error> {
    let query = Query::open(filter, Load::Memory, today)?;
    let mut found = KnownGood::default();
    let mut seen = HashSet::new();
    for input in inputs(known)? {
        let failed = || Error::io(&input.path, "read");
        let content = open_input(&input, &Progress::new()).map_err(failed())?;
        let mut content = BufReader::new(content);
        let start = content.fill_buf().map_err(failed())?;
        if start.starts_with(&MAGIC) {
            let why = "a filter file, which contains no addresses; use lists or logs";
            return Err(failed()(io::Error::other(why)));
        }
        let mut block = Vec::new();
        while read_lines(&mut content, &mut block).map_err(failed())? {
            let parts = line_parts(&block, MIN_PART_BYTES);
            for part in on_threads(parts, |part| look_up(&mut query.clone(), part, &seen)) {
                for (address, finding) in part? {
                    if seen.contains(&address) {
                        continue;
                    }
                    found.asked += 1;
                    match finding {
                        Some(finding) if finding.matches.iter().any(|it| it.proved) => {
                            found.listed.push(finding);
                        }
                        Some(_) => found.hit.push(escaped(&address).to_string()),
                        None => {}
                    }
                    seen.insert(address);
                }
            }
        }
    }
    Ok(found)
}

/// Reads a block of whole lines, but for a line that is too long. Returns whether there was one.
fn read_lines(content: &mut impl BufRead, block: &mut Vec<u8>) -> io::Result<bool> {
    block.clear();
    content.take(BLOCK_BYTES).read_to_end(block)?;
    content.take(LINE_BYTES).read_until(b'\n', block)?;
    Ok(!block.is_empty())
}

fn look_up(query: &mut Query, lines: &[u8], seen: &HashSet<Vec<u8>>) -> Result<Vec<Asked>, Error> {
    let rules = query.lookup().rules();
    let mut canonical = Canonical::new();
    let mut found = Vec::new();
    // A log names most senders many times.
    let mut asked = HashSet::new();
    for written in addresses(lines) {
        if canonical.read(written, rules).is_err() || seen.contains(canonical.as_bytes()) {
            continue;
        }
        if asked.insert(canonical.as_bytes().to_vec()) {
            let finding = Some(query.ask(written)?).filter(|it| it.listed || it.hits_pages);
            found.push((canonical.as_bytes().to_vec(), finding));
        }
    }
    Ok(found)
}

impl fmt::Display for KnownGood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "# {}: {} listed, {} more match the Bloom pages",
            counted(self.asked, "known sender", "known senders"),
            self.listed.len(),
            self.hit.len()
        )?;
        for finding in &self.listed {
            for line in finding.to_string().lines() {
                write!(f, "\n# {line}")?;
            }
        }
        for address in &self.hit {
            write!(f, "\n{}", written_address(address))?;
        }
        Ok(())
    }
}

fn is_separator(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || b"\0<>()[]{},;:\"'|".contains(byte)
}

/// Returns everything that looks like an address: the text around an `@`, up to a separator.
fn addresses(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut from = 0;
    // Most of a log contains no addresses, so this goes from one `@` to the next.
    let words = std::iter::from_fn(move || {
        let at = from + memchr::memchr(b'@', &lines[from..])?;
        let before = lines[from..at].iter().rposition(is_separator);
        let start = before.map_or(from, |before| from + before + 1);
        let behind = lines[at..].iter().position(is_separator);
        from = behind.map_or(lines.len(), |behind| at + behind);
        Some(&lines[start..from])
    });
    words.filter_map(|word| {
        // `from=a@b` in logs. An `=` may also be inside a local part (VERP, SRS).
        let word = [&b"from="[..], b"to=", b"sender=", b"mailto="]
            .iter()
            .find_map(|key| word.strip_prefix(*key))
            .unwrap_or(word);
        let word = word.strip_suffix(b".").unwrap_or(word);
        let at = memchr::memrchr(b'@', word)?;
        (at > 0 && at + 1 < word.len()).then_some(word)
    })
}
