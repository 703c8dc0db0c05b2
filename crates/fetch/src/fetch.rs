//! Updates the filter of a host from the store.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_filter::base::path::{beside, folder_of, if_exists};
use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::{self, Filter, Header, Load, Problem};

use crate::keys::{self, signer_of};
use crate::manifest::{self, Delta, Full, Manifest, file_name};
use crate::state::{Kept, Removed, State, of_digest, remove_others};
use crate::store::{Got, Small, Store};
use crate::{Error, Fetch};

/// The result. Its text is what `blocklist-fetch` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The filter is already the one in the manifest.
    Unchanged,
    /// The filter was replaced.
    Updated {
        /// The new filter.
        by: Full,
        /// The ring of this host.
        ring: Option<String>,
        /// Number of applied deltas; 0: the whole file was read.
        deltas: usize,
        /// Bytes that were read.
        bytes: u64,
        /// Why existing deltas could not be used.
        note: Option<String>,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("unchanged"),
            Self::Updated {
                by,
                ring,
                deltas,
                bytes,
                note,
            } => {
                write!(f, "generation {}, {} entries", by.generation, by.entries)?;
                if let Some(ring) = ring {
                    write!(f, ", ring {ring}")?;
                }
                match deltas {
                    0 => write!(f, ", whole file: {bytes} bytes")?,
                    1 => write!(f, ", 1 delta: {bytes} bytes")?,
                    _ => write!(f, ", {deltas} deltas: {bytes} bytes")?,
                }
                note.as_ref()
                    .map_or(Ok(()), |note| write!(f, " (no deltas: {note})"))
            }
        }
    }
}

/// Updates a filter.
///
/// # Errors
/// [`Error::Refused`] and [`Error::Frozen`] if the store cannot be trusted or a limit is exceeded; others for other
/// failures. In case of an error, the present filter stays.
pub fn fetch(wanted: &Fetch) -> Result<Outcome, Error> {
    manifest::check_list_name(&wanted.list)?;
    let store = Store::open(&wanted.from, &wanted.access)?;
    let mut kept = Kept::open(&wanted.output, &wanted.key)?;
    if !["", &wanted.list].contains(&kept.state.list.as_str()) {
        return Err(other_list(wanted, "was fetched from", &kept.state.list));
    }
    clear(&wanted.output)?;
    let current = current(wanted)?;
    let identity = match &current {
        Some(header) if !is_damaged(wanted, &mut kept)? => Some(header.identity().to_string()),
        Some(_) | None => None,
    };
    let name = manifest::name(&wanted.list);
    let Some((file, key)) = signed(&store, wanted, identity.as_deref(), &kept.state)? else {
        refuse_expired(&name, kept.state.expires, wanted.now)?;
        return Ok(Outcome::Unchanged);
    };
    let manifest = Manifest::read(&file.bytes, &wanted.list)?;
    check_age(&manifest, &kept.state, wanted.now)?;
    let seen = State {
        key,
        next_key: manifest.next_key.clone(),
        number: manifest.number,
        expires: manifest.expires,
        tag: None,
        from: wanted.from.clone(),
        list: wanted.list.clone(),
        host: wanted.host.clone(),
        ..kept.state.clone()
    };
    kept.keep(seen.clone())?;
    refuse_expired(&name, manifest.expires, wanted.now)?;

    let (full, ring) = manifest.of_host(&wanted.host);
    let done = State {
        // With a longer tag, the state file would be too long to be read again.
        tag: file.tag.filter(|tag| tag.len() <= MAX_TAG_BYTES),
        identity: full.identity.clone(),
        ..seen
    };
    if identity.as_ref() == Some(&full.identity) {
        kept.keep(done)?;
        return Ok(Outcome::Unchanged);
    }
    check_successor(wanted, current.as_ref(), full)?;
    let (deltas, bytes, note) = bring(&store, wanted, &manifest, full, identity.as_deref())?;
    kept.keep(done)?;
    Ok(Outcome::Updated {
        by: full.clone(),
        ring: ring.map(str::to_owned),
        deltas,
        bytes,
        note,
    })
}

/// Longest tag (ETag) of a manifest that is stored; web servers and buckets use about forty bytes.
const MAX_TAG_BYTES: usize = 1024;

/// How often the whole present filter is read, in seconds: a disk may lose what it has stored.
const CHECK_EVERY_S: u64 = 86_400;

/// Largest allowed difference between the clocks of host and publisher, in seconds.
const CLOCKS_APART_S: u64 = 86_400;

/// Removes leftovers of a killed run. Also checks, before anything is downloaded, that the filter can be replaced.
fn clear(output: &Path) -> Result<(), Error> {
    drop(Replacement::claim(output)?);
    let folder = scratch(output);
    if_exists(fs::remove_dir_all(&folder)).map_err(Error::io(&folder, "remove"))?;
    Ok(())
}

fn other_list(wanted: &Fetch, what: &str, list: &str) -> Error {
    let output = wanted.output.display();
    Error::Settings(format!(
        "{output}: {what} the list {list}: use another --output for {}",
        wanted.list
    ))
}

/// The header of the present filter, if there is an undamaged one.
fn current(wanted: &Fetch) -> Result<Option<Header>, Error> {
    match Filter::open(&wanted.output, Load::Disk) {
        Ok(filter) if filter.spec().name != wanted.list => {
            Err(other_list(wanted, "a filter of", &filter.spec().name))
        }
        Ok(filter) => Ok(Some(filter.header().clone())),
        // A damaged filter is replaced. A file of another kind is an error: somebody put it there.
        Err(filter::Error::Invalid { problem, .. }) if problem != Problem::NotAFilter => Ok(None),
        Err(error) if error.io_kind() == Some(ErrorKind::NotFound) => Ok(None),
        // A filter that cannot be read now may be good, and the limits refer to it.
        Err(error) => Err(error.into()),
    }
}

/// Whether a page or a record of the present filter was changed; looks once a day. Its header is whole, so that the limits
/// still refer to it.
fn is_damaged(wanted: &Fetch, kept: &mut Kept) -> Result<bool, Error> {
    if wanted.now.abs_diff(kept.state.checked) < CHECK_EVERY_S {
        return Ok(false);
    }
    match Filter::open(&wanted.output, Load::Disk).and_then(|filter| filter.check(false, 1)) {
        Ok(()) => {
            let checked = wanted.now;
            let state = kept.state.clone();
            kept.keep(State { checked, ..state })?;
            Ok(false)
        }
        Err(filter::Error::Invalid { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Downloads the manifest and verifies its signature. Returns the file and the public key that verified it. `None`: the manifest
/// has not changed since the last run, which has brought the present filter.
fn signed(
    store: &Store,
    wanted: &Fetch,
    identity: Option<&str>,
    state: &State,
) -> Result<Option<(Small, String)>, Error> {
    let is_same = identity == Some(state.identity.as_str())
        && (&state.from, &state.host) == (&wanted.from, &wanted.host);
    let known = state.tag.as_deref().filter(|_| is_same);
    let name = manifest::name(&wanted.list);
    let refused = |why: &str| Err(Error::Refused(format!("{name}: {why}")));
    let file = match store.read(&name, manifest::MAX_BYTES, known)? {
        Got::File(file) => file,
        Got::Same if known.is_some() => return Ok(None),
        // If this were accepted, a host without the filter would report success.
        Got::Same => {
            return refused(
                "the store answers that it is unchanged, although it was not asked for changes",
            );
        }
        Got::Missing => return refused("the store does not have it"),
    };
    let keys = std::iter::once(&state.key).chain(&state.next_key);
    match signer_of(store, &wanted.list, &file.bytes, keys)? {
        Some(key) => Ok(Some((file, key.clone()))),
        None => refused(&format!(
            "not signed with the key {}: it was changed, or the publisher has another key",
            state.key
        )),
    }
}

/// Refuses a manifest that is older than one that this host has seen, or that is from the future.
fn check_age(manifest: &Manifest, state: &State, now: u64) -> Result<(), Error> {
    let name = manifest::name(&manifest.list);
    let refused = |why: String| Err(Error::Refused(format!("{name}: {why}")));
    let (number, seen) = (manifest.number, state.number);
    if number < seen {
        return refused(format!(
            "manifest {number}, but this host has seen {seen}: the store has an old manifest"
        ));
    }
    // Its number must not be stored: after the clock is corrected, all manifests would have lower numbers.
    if manifest.made > now.saturating_add(CLOCKS_APART_S) {
        let hours = (manifest.made - now) / 3600;
        return refused(format!(
            "made {hours} hours in the future: check the clocks of this host and of the publisher"
        ));
    }
    manifest.next_key.as_deref().map_or(Ok(()), keys::check)
}

fn refuse_expired(name: &str, expires: u64, now: u64) -> Result<(), Error> {
    if now < expires {
        return Ok(());
    }
    let hours = (now - expires) / 3600;
    Err(Error::Frozen(format!(
        "{name}: expired {hours} hours ago, and there is no newer one: check the publisher and the clock of this \
         host; the present filter stays in use"
    )))
}

/// Checks that this host can use a filter, and that it may replace the present one.
fn check_successor(wanted: &Fetch, current: Option<&Header>, next: &Full) -> Result<(), Error> {
    let refused = |why: String| {
        Err(Error::Refused(format!(
            "{}: {why}; the present filter stays in use",
            wanted.list
        )))
    };
    if !next.is_usable() {
        return refused(format!(
            "generation {} was compiled with address rules {} (options {:#04x}), which this version does not know: \
             update blocklist-milter on this host, or build the filter with its version",
            next.generation, next.rules_version, next.rules
        ));
    }
    let Some(current) = current else {
        return Ok(());
    };
    let now = current.spec.generation;
    if next.generation < now {
        return refused(format!(
            "the store has generation {}, but the present filter has {now}",
            next.generation
        ));
    }
    let (had, has) = (u128::from(current.entries), u128::from(next.entries));
    let (limit, option) = if has < had {
        (wanted.max_shrink, "--max-shrink")
    } else {
        (wanted.max_growth, "--max-growth")
    };
    match limit {
        Some(limit) if had.abs_diff(has) * 100 > had * u128::from(limit) => refused(format!(
            "{has} entries, {had} before: the change is more than {option} {limit}% allows"
        )),
        Some(_) | None => Ok(()),
    }
}

/// Downloads the filter and puts it in place; by deltas, if they are smaller. Returns the number of deltas, the bytes
/// read, and why deltas could not be used.
fn bring(
    store: &Store,
    wanted: &Fetch,
    manifest: &Manifest,
    full: &Full,
    current: Option<&str>,
) -> Result<(usize, u64, Option<String>), Error> {
    let chain = current.and_then(|current| manifest.chain(current, &full.identity));
    let bytes = |chain: &[&Delta]| {
        let bytes = chain.iter().map(|delta| delta.bytes);
        bytes.fold(0, u64::saturating_add)
    };
    check_room(wanted, full)?;
    let note = match chain {
        Some(chain) if bytes(&chain) < full.bytes => match by_deltas(store, wanted, &chain, full) {
            Ok(()) => return Ok((chain.len(), bytes(&chain), None)),
            Err(error) => Some(error.to_string()),
        },
        Some(chain) => Some(format!("they have {} bytes", bytes(&chain))),
        None if current.is_some() => Some(
            "none from the present filter: it is too old for --keep, or another one".to_owned(),
        ),
        None => wanted
            .output
            .exists()
            .then(|| "the present filter is damaged".to_owned()),
    };
    let bytes = whole(store, wanted, full)?;
    Ok((0, bytes, note))
}

/// Checks that the disk has space for the new filter next to the present one. Otherwise a host with a nearly full disk
/// would download gigabytes every hour without success, and leave no space for mail meanwhile.
fn check_room(wanted: &Fetch, full: &Full) -> Result<(), Error> {
    // The target of a link may be on another disk.
    let output = fs::canonicalize(&wanted.output);
    let output = output.as_deref().unwrap_or(&wanted.output);
    let Ok(disk) = rustix::fs::statvfs(folder_of(output)) else {
        return Ok(());
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let begun = fs::metadata(partial(wanted, full)).map_or(0, |part| part.len());
    if free >= full.bytes.saturating_sub(begun) {
        return Ok(());
    }
    Err(Error::Settings(format!(
        "{}: needs {} bytes, but its disk has only {free} free; the present filter stays in use",
        wanted.output.display(),
        full.bytes
    )))
}

/// The temporary folder for deltas.
fn scratch(filter: &Path) -> PathBuf {
    beside(filter, ".fetching")
}

fn by_deltas(store: &Store, wanted: &Fetch, chain: &[&Delta], full: &Full) -> Result<(), Error> {
    let scratch = Removed(scratch(&wanted.output));
    let created = DirBuilder::new().mode(0o700).create(&scratch.0);
    created.map_err(Error::io(&scratch.0, "create"))?;
    let mut paths = Vec::new();
    for (number, delta) in chain.iter().enumerate() {
        let path = scratch.0.join(format!("{number}.delta"));
        let name = file_name(&wanted.list, &delta.sha256, "delta");
        store.download_to(&name, (delta.bytes, &delta.sha256), &path)?;
        paths.push(path);
    }
    let plan = Plan::new(&wanted.output, paths);
    compile::apply(&plan, &wanted.output, Some(&full.sha256), &Progress::new())?;
    Ok(())
}

/// The part of a filter that was downloaded so far: a killed or failed run leaves it for the next.
fn partial(wanted: &Fetch, full: &Full) -> PathBuf {
    of_digest(&wanted.output, &full.sha256, PARTIAL)
}

/// Ending of the name of such a file.
const PARTIAL: &str = ".partial";

/// Downloads the whole filter, or the rest of it. Returns the bytes that were read.
fn whole(store: &Store, wanted: &Fetch, full: &Full) -> Result<u64, Error> {
    let mut replacement = Replacement::claim(&wanted.output)?;
    let name = file_name(&wanted.list, &full.sha256, "blf");
    let part = partial(wanted, full);
    // Nobody will complete the parts of other filters.
    remove_others(&wanted.output, PARTIAL, std::slice::from_ref(&part));
    let bytes = store.download_to(&name, (full.bytes, &full.sha256), &part)?;
    replacement.take(&part)?;
    let header = Filter::verify(replacement.path())?;
    if header.identity().to_string() != full.identity || header.spec.name != wanted.list {
        return Err(Error::Refused(format!(
            "{name}: it is a filter of the list {}, and not the one that the manifest names",
            header.spec.name
        )));
    }
    replacement.commit()?;
    Ok(bytes)
}
