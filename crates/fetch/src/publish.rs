//! Publishes a filter to the store.
//!
//! The files and the signature come first; their names contain their hashes, so they replace nothing. The manifest comes
//! last. If a publisher is killed at any point, all files of the present manifest exist.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use blocklist_compile::compile::{self, Progress};
use blocklist_filter::base::path::beside;
use blocklist_filter::filter::{Digest, Filter, Load};
use sha2::Digest as _;

use crate::keys::{self, Signer, signer_of};
use crate::manifest::{self, Delta, FORMAT, Full, Manifest, Ring, file_name};
use crate::promote;
use crate::state::{self, Lock, Removed};
use crate::store::{Got, Small, Store, hashed, replaced};
use crate::{Error, Publish};

/// Two publishers of one store may have clocks that differ by so much.
const CLOCK_BACK_S: u64 = 300;

/// The result. `blocklist-publish` prints its text; the warnings go to standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The manifest.
    pub manifest: Manifest,
    /// Warnings: filters for which no delta to the new one was made, so that hosts fetch the whole file, and a clock that
    /// has gone back.
    pub warnings: Vec<String>,
    /// A new generation that nobody gets yet, because the first ring still tries the one before.
    pub waits: Option<u64>,
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = &self.manifest;
        let generation = of.filter.generation;
        write!(
            f,
            "{}: manifest {}, generation {generation}",
            of.list, of.number
        )?;
        for ring in &of.rings {
            write!(f, ", ring {} {}", ring.name, ring.filter.generation)?;
        }
        write!(f, "; {} deltas", of.deltas.len())?;
        self.waits.map_or(Ok(()), |generation| {
            write!(f, "; generation {generation} waits for the ring before it")
        })
    }
}

/// Publishes a filter.
///
/// # Errors
/// The filter is damaged or belongs to another list; the last manifest is not signed with a known key or has a newer
/// filter; or the store fails. In case of an error, hosts see the last manifest or the new one.
pub fn publish(wanted: &Publish, signer: &Signer) -> Result<Published, Error> {
    manifest::check_list_name(&wanted.list)?;
    let store = Store::open(&wanted.to, &wanted.access)?;
    let _lock = state::lock(&wanted.filter, ".publish-lock", "blocklist-publish")?;
    let _lock_of_store = lock_store(&store, &wanted.list)?;
    let new = described(wanted)?;
    let previous_key = wanted.previous_key.as_deref();
    let (before, file_before) = before(&store, &wanted.list, signer, previous_key)?.unzip();
    let next_key = wanted.next_key.as_deref().map(keys::public_key);
    let mut manifest = Manifest {
        format: FORMAT,
        list: wanted.list.clone(),
        number: next_number(before.as_ref(), wanted.now),
        made: wanted.now,
        expires: wanted.now.saturating_add(wanted.valid_s),
        next_key: next_key.transpose()?,
        filter: before.as_ref().map_or(&new, |last| &last.filter).clone(),
        rings: Vec::new(),
        deltas: before.as_ref().map_or(&[][..], |last| &last.deltas).into(),
    };
    check_rings(wanted, before.as_ref())?;
    assign(&mut manifest, wanted, before.as_ref(), &new)?;
    let is_given = manifest.filters().any(|full| full.identity == new.identity);
    let mut warnings = clock_warning(before.as_ref(), wanted.now);
    if wanted.check_store
        && let Some(before) = &before
    {
        warnings.extend(check_store(&store, wanted, before, &mut manifest)?);
    }
    if is_given {
        let olds: Vec<&Full> = before.iter().flat_map(Manifest::filters).collect();
        warnings.extend(upload(&store, wanted, &olds, &new, &mut manifest.deltas)?);
    }
    let too_many = manifest.deltas.len().saturating_sub(wanted.keep);
    manifest.deltas.drain(..too_many);

    put(
        &store,
        signer,
        &manifest,
        before.as_ref().zip(file_before.as_ref()),
    )?;
    let kept = manifest.filters().map(|full| copy_of(wanted, full));
    let kept: Vec<PathBuf> = kept.collect();
    if is_given {
        // If this is not possible, the next run downloads the filter.
        let _ = fs::hard_link(&wanted.filter, copy_of(wanted, &new));
    }
    state::remove_others(&wanted.filter, COPY, &kept);
    Ok(Published {
        waits: (!is_given).then_some(new.generation),
        manifest,
        warnings,
    })
}

/// Uploads the filter, and the deltas from the last published ones that do not exist yet. Returns why some could not be made.
fn upload(
    store: &Store,
    wanted: &Publish,
    olds: &[&Full],
    new: &Full,
    deltas: &mut Vec<Delta>,
) -> Result<Vec<String>, Error> {
    let name = file_name(&wanted.list, &new.sha256, "blf");
    // Other files in the store are not covered by a signature, and may be incomplete.
    let was_published = olds.iter().any(|old| old.sha256 == new.sha256);
    if !was_published || !store.has(&name, new.bytes)? {
        store.upload(&name, &wanted.filter, &new.sha256)?;
    }
    let mut warnings = Vec::new();
    for old in olds.iter().filter(|old| old.identity != new.identity) {
        let is_it = |delta: &Delta| delta.old == old.identity && delta.new == new.identity;
        if !deltas.iter().any(is_it) {
            match delta(store, wanted, old, new) {
                Ok(delta) => deltas.push(delta),
                Err(error) => warnings.push(format!("no delta {error}")),
            }
        }
    }
    Ok(warnings)
}

/// Signs a manifest, replaces the last one in the store with it, and removes files that neither of them names.
pub(crate) fn put(
    store: &Store,
    signer: &Signer,
    manifest: &Manifest,
    before: Option<(&Manifest, &Small)>,
) -> Result<(), Error> {
    let list = &manifest.list;
    let bytes =
        serde_json::to_vec_pretty(manifest).map_err(|error| Error::Settings(error.to_string()))?;
    if bytes.len() as u64 > manifest::MAX_BYTES {
        return Err(Error::Settings(
            "the manifest would be larger than 1 MiB; keep fewer deltas, or name fewer hosts"
                .to_owned(),
        ));
    }
    let comment = format!("list:{list}\tnumber:{}", manifest.number);
    let signature = signer.sign(&bytes, &comment)?;
    let name = manifest::name(list);
    let signature_name = manifest::signature_name(list, &bytes);
    store.put(&signature_name, signature.as_bytes())?;
    store.replace(&name, before.map(|before| before.1), &bytes)?;
    // Only for `minisign -V`; hosts do not read it.
    store.put(&format!("{name}.minisig"), signature.as_bytes())?;
    let Some((before, file_before)) = before else {
        return Ok(());
    };
    // Hosts may still be reading the files of the last manifest.
    let used: Vec<String> = [manifest, before]
        .into_iter()
        .flat_map(Manifest::files)
        .map(|(sha256, ending)| file_name(list, sha256, ending))
        .chain([
            signature_name,
            manifest::signature_name(list, &file_before.bytes),
        ])
        .collect();
    store.prune(list, file_before.modified, |file| {
        used.iter().any(|used| used == file)
    });
    Ok(())
}

/// Checks the filter to publish, with all checksums, and describes it.
fn described(wanted: &Publish) -> Result<Full, Error> {
    let filter = Filter::open(&wanted.filter, Load::Disk)?;
    filter.check(false, 1)?;
    let header = filter.header();
    if header.spec.name != wanted.list {
        return Err(Error::Settings(format!(
            "{}: a filter of the list {}, not of {}",
            wanted.filter.display(),
            header.spec.name,
            wanted.list
        )));
    }
    let digest = filter.digest(|| true)?;
    let digest = digest.map(|digest| digest.to_string()).unwrap_or_default();
    Ok(Full::new(header, digest))
}

/// If the store is a folder, locks it against other publishers.
pub(crate) fn lock_store(store: &Store, list: &str) -> Result<Option<Lock>, Error> {
    let folder = store.folder.as_ref().map(|folder| folder.join(list));
    let lock = folder.map(|list| state::lock(&list, ".publish-lock", "blocklist-publish"));
    lock.transpose()
}

/// The number of the manifest after `before`. It is never lower than the time, so hosts accept a new store after the old
/// one was lost.
pub(crate) fn next_number(before: Option<&Manifest>, now: u64) -> u64 {
    before.map_or(now, |before| before.number.saturating_add(1).max(now))
}

/// A clock that has gone back makes manifests that hosts take for expired; or it was wrong before and is right now, which
/// nobody can tell from here.
pub(crate) fn clock_warning(before: Option<&Manifest>, now: u64) -> Vec<String> {
    let ahead = before.map_or(0, |before| before.made.saturating_sub(now));
    if ahead <= CLOCK_BACK_S {
        return Vec::new();
    }
    vec![format!(
        "the clock of this machine is {}.{} hours behind the last publication: check it, because hosts believe this one only until its date of expiry",
        ahead / 3600,
        ahead % 3600 / 360
    )]
}

/// The last manifest, and its file.
pub(crate) fn before(
    store: &Store,
    list: &str,
    signer: &Signer,
    previous_key: Option<&str>,
) -> Result<Option<(Manifest, Small)>, Error> {
    let name = manifest::name(list);
    let Got::File(file) = store.read(&name, manifest::MAX_BYTES, None)? else {
        return Ok(None);
    };
    let previous = previous_key.map(keys::public_key).transpose()?;
    let keys = std::iter::once(&signer.public).chain(&previous);
    if signer_of(store, list, &file.bytes, keys)?.is_some() {
        return Ok(Some((Manifest::read(&file.bytes, list)?, file)));
    }
    Err(Error::Refused(format!(
        "{name}: the last publication is not signed with this key; if the key has changed, name the old one with --previous-key"
    )))
}

/// Refuses to forget a ring by mistake: its hosts would get a filter that no ring has tried.
fn check_rings(wanted: &Publish, before: Option<&Manifest>) -> Result<(), Error> {
    let is_named = |ring: &&Ring| wanted.rings.iter().any(|(name, _)| *name == ring.name);
    let rings = before.map_or(&[][..], |before| &before.rings);
    match rings.iter().find(|ring| !is_named(ring)) {
        Some(ring) if !wanted.all => Err(Error::Settings(format!(
            "the last publication has the ring {0}, which this command does not name: repeat its --ring {0}=..., \
             or give --all, so that its hosts get this filter like all others",
            ring.name
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Sets which hosts get which filter.
fn assign(
    manifest: &mut Manifest,
    wanted: &Publish,
    before: Option<&Manifest>,
    new: &Full,
) -> Result<(), Error> {
    let settings = |why: String| Err(Error::Settings(why));
    let option = match (&wanted.only, wanted.promote_after_s) {
        (Some(only), _) => Some(format!("--only {only}")),
        (None, Some(_)) => Some("--promote-after".to_owned()),
        (None, None) => None,
    };
    if let Some(option) = &option
        && before.is_none()
    {
        return settings(format!("{option}: publish to all hosts first, without it"));
    }
    for (name, hosts) in &wanted.rings {
        let had = before.and_then(|before| before.rings.iter().find(|ring| ring.name == *name));
        manifest.rings.push(Ring {
            name: name.clone(),
            hosts: hosts.clone(),
            filter: had.map_or(&manifest.filter, |had| &had.filter).clone(),
            since: had.map_or(wanted.now, |had| had.since),
        });
    }
    if let Some(only) = &wanted.only {
        let Some(ring) = manifest.rings.iter_mut().find(|ring| ring.name == *only) else {
            return settings(format!("--only {only}: no such ring; name it with --ring"));
        };
        return give_ring(ring, new, wanted.now);
    }
    if let Some(after_s) = wanted.promote_after_s {
        let is_free = promote::move_on(manifest, after_s, wanted.now)?;
        return match manifest.rings.first_mut() {
            Some(first) if is_free => give_ring(first, new, wanted.now),
            Some(_) => Ok(()),
            None => settings("--promote-after: name a ring with --ring".to_owned()),
        };
    }
    let last = before.into_iter().flat_map(Manifest::filters);
    let last = last.map(|full| full.generation).max();
    check_order(last.unwrap_or(0), new.generation)?;
    manifest.filter = new.clone();
    let mut rings = manifest.rings.iter_mut();
    rings.try_for_each(|ring| give_ring(ring, new, wanted.now))
}

/// Gives a filter to hosts that have another one.
///
/// # Errors
/// It is older.
pub(crate) fn give(place: &mut Full, filter: &Full) -> Result<(), Error> {
    check_order(place.generation, filter.generation)?;
    place.clone_from(filter);
    Ok(())
}

/// Does the same for a ring.
pub(crate) fn give_ring(ring: &mut Ring, filter: &Full, now: u64) -> Result<(), Error> {
    if ring.filter.identity != filter.identity {
        ring.since = now;
    }
    give(&mut ring.filter, filter)
}

/// Refuses a generation that is older than the last one of the hosts that get it. The hosts refuse it, too, so that nobody
/// can make them use an old list again.
fn check_order(last: u64, new: u64) -> Result<(), Error> {
    if last <= new {
        return Ok(());
    }
    Err(Error::Settings(format!(
        "generation {last} is already published, and hosts refuse older ones: build generation {} or later",
        last.saturating_add(1)
    )))
}

/// Makes a delta from a published filter to the new one, and uploads it.
fn delta(store: &Store, wanted: &Publish, old: &Full, new: &Full) -> Result<Delta, Error> {
    let base = copy(store, wanted, old)?;
    let output = Removed(beside(&wanted.filter, ".delta"));
    let _ = fs::remove_file(&output.0);
    let pair = [base.as_path(), &wanted.filter];
    let made = compile::make_delta(&output.0, pair, &Progress::new())?;
    if let Some(why) = made.refused {
        return Err(Error::Refused(format!(
            "from generation {}: {why}",
            old.generation
        )));
    }
    if made.new_sha256 != new.sha256 {
        return Err(replaced(&wanted.filter));
    }
    let sha256 = sha256(&output.0)?;
    let name = file_name(&wanted.list, &sha256, "delta");
    store.upload(&name, &output.0, &sha256)?;
    Ok(Delta {
        old: old.identity.clone(),
        new: new.identity.clone(),
        sha256,
        bytes: made.bytes,
    })
}

/// Ending of the name of a copy of a published filter beside the new one: usually a link to the file that was published.
const COPY: &str = ".published";

fn copy_of(wanted: &Publish, full: &Full) -> PathBuf {
    state::of_digest(&wanted.filter, &full.sha256, COPY)
}

/// Returns a copy of a published filter, from the store if there is none here.
fn copy(store: &Store, wanted: &Publish, full: &Full) -> Result<PathBuf, Error> {
    let path = copy_of(wanted, full);
    if path.exists() && sha256(&path)? != full.sha256 {
        // It may be a link to a filter that is in use, so nothing is written to it.
        fs::remove_file(&path).map_err(Error::io(&path, "remove"))?;
    }
    let name = file_name(&wanted.list, &full.sha256, "blf");
    store.download_to(&name, (full.bytes, &full.sha256), &path)?;
    Ok(path)
}

/// Reads all files of the last manifest. Uploads damaged filters again, if they are here, and removes damaged deltas from the
/// new manifest, so that they are made again if their filters are published. Returns what was damaged.
fn check_store(
    store: &Store,
    wanted: &Publish,
    before: &Manifest,
    manifest: &mut Manifest,
) -> Result<Vec<String>, Error> {
    let read = Removed(beside(&wanted.filter, ".checked"));
    let is_sound = |name: &str, bytes: u64, sha256: &str| {
        let _ = fs::remove_file(&read.0);
        if !store.has(name, bytes)? {
            return Ok(false);
        }
        match store.download_to(name, (bytes, sha256), &read.0) {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    };
    let mut damaged = Vec::new();
    let mut seen = BTreeSet::new();
    for full in before.filters().filter(|full| seen.insert(&full.sha256)) {
        let name = file_name(&wanted.list, &full.sha256, "blf");
        if is_sound(&name, full.bytes, &full.sha256)? {
            continue;
        }
        let mut is_again = false;
        for copy in [wanted.filter.clone(), copy_of(wanted, full)] {
            match store.upload(&name, &copy, &full.sha256) {
                Ok(()) => is_again = true,
                Err(error @ Error::Store { .. }) => return Err(error),
                // Another filter, or none.
                Err(_) => continue,
            }
            break;
        }
        damaged.push(match is_again {
            true => format!("{name}: was damaged in the store, and is uploaded again"),
            false => format!(
                "{name}: damaged in the store, and not here: publish a new build to its hosts"
            ),
        });
    }
    let mut kept = Vec::new();
    for delta in std::mem::take(&mut manifest.deltas) {
        let name = file_name(&wanted.list, &delta.sha256, "delta");
        match is_sound(&name, delta.bytes, &delta.sha256)? {
            true => kept.push(delta),
            false => damaged.push(format!(
                "{name}: was damaged in the store, and is no longer used"
            )),
        }
    }
    manifest.deltas = kept;
    Ok(damaged)
}

fn sha256(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::io(path, "open"))?;
    let (_, sha) = hashed(&mut file).map_err(Error::io(path, "read"))?;
    Ok(Digest(sha.finalize().into()).to_string())
}
