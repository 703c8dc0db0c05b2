//! Gives the filter of one ring to other hosts. The store already has the files: only the manifest changes.

use crate::keys::{self, Signer};
use crate::manifest::{self, Full, Manifest};
use crate::publish::{self, Published, give, give_ring};
use crate::store::Store;
use crate::{Error, Publish};

/// Gives the filter of a ring to the ring `only` of `wanted`, or to all hosts. Of `wanted`, only the store, the list, the
/// validity, the keys, the time and the access are used besides.
/// `generation` is what the ring is expected to have: an untrusted store may serve an older manifest that has not expired
/// yet, in which the ring has another filter. Without a new `next_key`, the one that was announced last stays.
///
/// # Errors
/// - Nothing is published, or there is no such ring.
/// - The ring has another generation than `generation`; or the manifest has expired, and `generation` is `None`.
/// - Some of the other hosts have a newer filter.
/// - The last manifest is not signed with a known key.
/// - The store fails.
///
/// In case of an error, hosts see the last manifest or the new one.
pub fn promote(
    wanted: &Publish,
    ring: &str,
    generation: Option<u64>,
    signer: &Signer,
) -> Result<Published, Error> {
    manifest::check_list_name(&wanted.list)?;
    let store = Store::open(&wanted.to, &wanted.access)?;
    let _lock = publish::lock_store(&store, &wanted.list)?;
    let previous_key = wanted.previous_key.as_deref();
    let Some((before, file)) = publish::before(&store, &wanted.list, signer, previous_key)? else {
        return Err(Error::Settings(format!(
            "--promote {ring}: nothing is published yet"
        )));
    };
    let proved = filter_of(&before, "--promote", ring)?.clone();
    check_generation(generation, ring, &before, &proved, wanted.now)?;
    let mut next = before.clone();
    match &wanted.only {
        Some(only) => {
            filter_of(&before, "--only", only)?;
            for ring in next.rings.iter_mut().filter(|ring| ring.name == *only) {
                give_ring(ring, &proved, wanted.now)?;
            }
        }
        None => {
            give(&mut next.filter, &proved)?;
            for ring in &mut next.rings {
                give_ring(ring, &proved, wanted.now)?;
            }
        }
    }
    next.number = publish::next_number(Some(&before), wanted.now);
    next.made = wanted.now;
    next.expires = wanted.now.saturating_add(wanted.valid_s);
    // If the manifest did not announce it again, the hosts would forget it.
    next.next_key = match &wanted.next_key {
        Some(key) => Some(keys::public_key(key)?),
        None => next.next_key.filter(|key| *key != signer.public),
    };
    publish::put(&store, signer, &next, Some((&before, &file)))?;
    Ok(Published {
        manifest: next,
        waits: None,
        warnings: publish::clock_warning(Some(&before), wanted.now),
    })
}

fn check_generation(
    wanted: Option<u64>,
    ring: &str,
    before: &Manifest,
    proved: &Full,
    now: u64,
) -> Result<(), Error> {
    match wanted {
        Some(generation) if generation != proved.generation => Err(Error::Refused(format!(
            "--generation {generation}: the ring {ring} has generation {}",
            proved.generation
        ))),
        None if before.expires <= now => Err(Error::Refused(format!(
            "{}.json: expired {} hours ago, and may not be the last manifest; if it is, name the generation to promote with --generation",
            before.list,
            (now - before.expires) / 3600
        ))),
        Some(_) | None => Ok(()),
    }
}

fn filter_of<'a>(manifest: &'a Manifest, option: &str, name: &str) -> Result<&'a Full, Error> {
    let ring = manifest.rings.iter().find(|ring| ring.name == name);
    ring.map(|ring| &ring.filter).ok_or_else(|| {
        let known: Vec<&str> = manifest
            .rings
            .iter()
            .map(|ring| ring.name.as_str())
            .collect();
        Error::Settings(match known.as_slice() {
            [] => format!("{option} {name}: there is no ring: publish with --ring"),
            known => format!(
                "{option} {name}: no such ring; there are {}",
                known.join(", ")
            ),
        })
    })
}

/// Gives the filter of each ring that has had it for `after_s` to the next ring, and that of the last one to all hosts; but
/// not before the next ring has passed on its own, so that each filter comes to all hosts. Returns whether the first
/// ring has passed on its filter.
///
/// # Errors
/// The next hosts have a newer filter.
pub(crate) fn move_on(manifest: &mut Manifest, after_s: u64, now: u64) -> Result<bool, Error> {
    let Manifest {
        filter: of_all,
        rings,
        ..
    } = manifest;
    let mut is_free = true;
    for number in (0..rings.len()).rev() {
        let (tried, later) = rings.split_at_mut(number + 1);
        let Some(ring) = tried.last() else { break };
        let next = later.first().map_or(&*of_all, |next| &next.filter);
        let is_new = ring.filter.identity != next.identity;
        if is_new && is_free && now.saturating_sub(ring.since) >= after_s {
            match later.first_mut() {
                Some(next) => give_ring(next, &ring.filter, now)?,
                None => give(of_all, &ring.filter)?,
            }
        } else {
            is_free = !is_new;
        }
    }
    Ok(is_free)
}
