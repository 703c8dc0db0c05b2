//! What the files of the whitelist and of the correspondents say.
//!
//! A file may have faulty lines, or may be missing; one that is being written, or was cut off by a full disk, is not
//! even faulty, but only shorter. So new entries count at once, and entries that a file no longer has count until it has
//! been without a fault and without a change for [`REST`], or until somebody asks for a reload.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::error::{Error, FileProblem};
use crate::config::{Config, WhitelistSettings};
use crate::policy::Entries;
use blocklist_compile::list::{Reader, Reading, Row};
use blocklist_compile::unpack;
use blocklist_filter::address::{Kind, escaped};
use blocklist_filter::base::access;
use blocklist_filter::base::numbers::counted;
use blocklist_filter::filter::format::MAGIC;

/// How long a file must not change before what it no longer has is removed.
pub(super) const REST: Duration = Duration::from_secs(10);

/// How much of a file is read to find out whether it is a text.
const HEAD_BYTES: u64 = 64 << 10;

/// How many rejected lines an error shows.
const LINES_SHOWN: usize = 5;

/// Whom a file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    Whitelisted,
    /// Only addresses.
    Correspondents,
}

/// The entries of one file that are in effect.
#[derive(Clone, Debug)]
pub(super) struct Whitelist {
    pub(super) path: PathBuf,
    pub(super) names: Names,
    pub(super) entries: Arc<Entries>,
    /// Whether the file was read without a fault, now or before. If not, anybody may be on it.
    pub(super) is_whole: bool,
}

/// A removal that has to wait, because the file may still be being written.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) what: String,
    /// How long the file must still rest.
    pub(super) rest: Duration,
}

impl Waiting {
    /// `None`: the file has rested.
    pub(super) fn for_rest(what: String, rested: Duration) -> Option<Self> {
        let rest = REST.checked_sub(rested).filter(|rest| !rest.is_zero())?;
        Some(Self { what, rest })
    }
}

/// The files of a configuration.
pub(super) fn files(settings: &WhitelistSettings) -> impl Iterator<Item = (&Path, Names)> {
    let with = |names| move |path| (PathBuf::as_path(path), names);
    let files = settings.files.iter().map(with(Names::Whitelisted));
    let correspondents = settings.correspondents.iter();
    files.chain(correspondents.map(with(Names::Correspondents)))
}

impl Whitelist {
    /// Reads a file. `old` is what was in effect, and `rested` for how long the file has not changed; `None`: removals
    /// need not wait.
    pub(super) fn read(
        path: &Path,
        names: Names,
        old: Option<&Self>,
        rested: Option<Duration>,
    ) -> (Self, Result<(), FileProblem>, Option<Waiting>) {
        let (mut entries, read) = read(path, names);
        let is_whole = read.is_ok() || old.is_some_and(|old| old.is_whole);
        let removed = old.map_or(0, |old| entries.lacks(&old.entries));
        let waiting = rested
            .filter(|_| removed > 0 && read.is_ok())
            .and_then(|rested| {
                let removed = counted(removed as u64, "entry", "entries");
                Waiting::for_rest(format!("{}: {removed}", path.display()), rested)
            });
        if let Some(old) = old.filter(|_| read.is_err() || waiting.is_some()) {
            entries.add_all(&old.entries);
        }
        // If nothing has changed, the set is in memory once.
        let same = old.filter(|old| *old.entries == entries);
        let whitelist = Self {
            path: path.to_owned(),
            names,
            entries: same.map_or_else(|| Arc::new(entries), |old| Arc::clone(&old.entries)),
            is_whole,
        };
        let instead = "the last good whitelist is in use, with its new entries";
        let read = read.map_err(|error| FileProblem {
            error,
            instead: is_whole.then(|| instead.to_owned()),
        });
        (whitelist, read, waiting)
    }
}

/// All entries of the whitelist, and all correspondents. A set is not copied if it is the only one.
pub(super) fn united(config: &Config, files: &[Whitelist]) -> (Arc<Entries>, Arc<Entries>) {
    let united = |names, mut all: Arc<Entries>| {
        for file in files.iter().filter(|file| file.names == names) {
            match all.is_empty() {
                true => all = Arc::clone(&file.entries),
                false => Arc::make_mut(&mut all).add_all(&file.entries),
            }
        }
        all
    };
    let own = Arc::new(config.whitelist.entries.clone());
    let whitelist = united(Names::Whitelisted, own);
    (whitelist, united(Names::Correspondents, Arc::default()))
}

/// The whitelist and the correspondents of a configuration.
///
/// # Errors
/// One of their files cannot be read, or has an invalid line.
pub(crate) fn cleared_senders(config: &Config) -> Result<(Arc<Entries>, Arc<Entries>), Error> {
    let (mut read, mut errors) = (Vec::new(), Vec::new());
    for (path, names) in files(&config.whitelist) {
        let (file, result, _) = Whitelist::read(path, names, None, None);
        read.push(file);
        errors.extend(result.err().map(|fault| fault.error));
    }
    Error::of(errors)?;
    Ok(united(config, &read))
}

/// Reads the valid entries of a file, and returns what is wrong with the others.
fn read(path: &Path, names: Names) -> (Entries, Result<(), Error>) {
    let mut entries = Entries::default();
    let mut rejected = Vec::new();
    let mut more = 0;
    let mut refuse = |line: u64, why: &dyn fmt::Display, text: &[u8]| match rejected.len() {
        0..LINES_SHOWN => rejected.push(format!(
            "{}:{line}: {why}: {}",
            path.display(),
            escaped(text)
        )),
        _ => more += 1,
    };
    let mut sink = |line: u64, row: Row<'_>| match row {
        Row::Entry(raw) => match entries.add_until(raw.text, raw.expires.map(|day| day.0)) {
            Ok(kind) if names == Names::Correspondents && kind != Kind::Mailbox => {
                refuse(line, &"not an address", raw.text);
            }
            Ok(_) => {}
            Err(error) => refuse(line, &error, raw.text),
        },
        Row::Rejected { reason, text } => refuse(line, &reason, text),
        Row::Refused { refusal, text } => refuse(line, &refusal, text),
        Row::Skipped { .. } => {}
    };
    let read = access::open_regular(path)
        .and_then(unpack::text)
        .and_then(only_text)
        .and_then(|text| Reader::new(&Reading::whitelist()).read_all(text, &mut sink));
    if more > 0 {
        rejected.push(format!("and {more} more lines of {}", path.display()));
    }
    let text = match read {
        Err(error) => format!(
            "{}: cannot read the whitelist or correspondents: {}",
            path.display(),
            access::explained(path, error)
        ),
        Ok(_) if rejected.is_empty() => return (entries, Ok(())),
        Ok(_) => rejected.join("\n"),
    };
    let path = path.to_owned();
    (entries, Err(Error::Whitelist { path, text }))
}

/// Refuses a file that is no text, such as a filter: each of its lines would be an error.
fn only_text(mut input: Box<dyn Read + Send>) -> io::Result<impl Read> {
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    if head.starts_with(&MAGIC) {
        return Err(io::Error::other("it is a filter file; name a text file"));
    }
    if !unpack::is_text(&head) {
        return Err(io::Error::other("not a text file"));
    }
    Ok(io::Cursor::new(head).chain(input))
}
