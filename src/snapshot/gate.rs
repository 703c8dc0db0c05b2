//! Reasons not to load a valid new file in place of the one in effect.
//!
//! | gate | refuses | because |
//! |---|---|---|
//! | older | a filter that was built before the one in effect | it may be a restored backup, a slow copy, or the work of a build that was blocked for long |
//! | renamed | a filter with the name of another list | it may have been copied to the wrong path |
//! | shrunk, grown | a filter with far fewer or far more entries | the download may be incomplete, or the input wrong |
//!
//! A list may shrink as far as an administrator said when it was built: the report beside the filter says so.
//!
//! At a start there is no filter in effect to compare with. So a restart is the way to use such a filter nevertheless.
//!
//! **Older.** A list keeps its seed from build to build, and its generation rises. If the seeds are equal, the
//! generation decides, unless the new file was built later: then it was built from scratch with the old seed. A list
//! that is built from scratch after its file was lost has another seed and generation 1; then the build time decides.
//! A build time in the future is ignored, because a clock was wrong.

use crate::config::Percent;
use blocklist_filter::base::clock::minute;
use blocklist_filter::filter::Filter;

/// Lists with fewer entries than this may shrink and grow without limit.
const COMPARED_FROM: u64 = 100;
/// By how much a list may grow in a reload.
const MAX_GROWTH: Percent = Percent(1000);

/// The header fields of a filter that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) generation: u64,
    pub(super) built: u64,
    pub(super) entries: u64,
}

impl Facts {
    pub(super) fn of(filter: &Filter) -> Self {
        let spec = filter.spec();
        Self {
            name: spec.name.clone(),
            seed: spec.seed,
            generation: spec.generation,
            built: spec.built,
            entries: filter.entries(),
        }
    }
}

/// Compares a new filter with the one that was last in effect; `now` is in seconds since 1970.
///
/// # Errors
/// Why it must not replace that one without a restart.
pub(super) fn compare(
    found: &Facts,
    running: &Facts,
    max_shrink: Percent,
    now: u64,
    may_shrink: impl FnOnce() -> bool,
) -> Result<(), String> {
    if found.name != running.name {
        return Err(format!(
            "this filter is named {:?}, the one in effect {:?}; build it with --name {}, or restart the daemon to use it",
            found.name, running.name, running.name
        ));
    }
    if is_older(found, running, now) {
        return Err(format!(
            "it is generation {} (built {}), older than generation {} in effect (built {}); build it again, or restart the daemon to go back",
            found.generation,
            minute(found.built),
            running.generation,
            minute(running.built)
        ));
    }
    let (found, running) = (found.entries, running.entries);
    let has_shrunk = found < running;
    let changed = u128::from(found.abs_diff(running)) * 100;
    let (why, most) = match has_shrunk {
        true => (
            "it shrank by more than max_shrink allows; if that is right, restart the daemon",
            max_shrink,
        ),
        false => (
            "it grew too much for one reload; if that is right, restart the daemon",
            MAX_GROWTH,
        ),
    };
    let is_over = changed > u128::from(running) * u128::from(most.0);
    if running >= COMPARED_FROM && is_over && !(has_shrunk && may_shrink()) {
        return Err(format!(
            "the new filter has {found} entries, the one in effect has {running}: {why}"
        ));
    }
    Ok(())
}

fn is_older(found: &Facts, running: &Facts, now: u64) -> bool {
    let clock_was_wrong = running.built > now;
    if found.seed == running.seed {
        found.generation < running.generation && (clock_was_wrong || found.built <= running.built)
    } else {
        !clock_was_wrong && found.built < running.built
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn facts(seed: u64, generation: u64, built: u64) -> Facts {
        Facts {
            name: "spam".to_owned(),
            seed,
            generation,
            built,
            entries: 10,
        }
    }

    /// Generation, seed and build time of the new file, against seed 1, generation 5, built an hour ago.
    #[test]
    fn what_was_built_before_is_older() {
        let running = facts(1, 5, NOW - 3600);
        for (what, seed, generation, built, older) in [
            ("the next one", 1, 6, NOW, false),
            ("the next one, clock went back", 1, 6, NOW - 7200, false),
            ("the one before", 1, 4, NOW - 7200, true),
            ("before, in the same second", 1, 4, NOW - 3600, true),
            ("begun anew with the same seed", 1, 1, NOW, false),
            ("begun anew", 2, 1, NOW, false),
            ("of a life before", 2, 9, NOW - 7200, true),
            ("begun anew, clock ahead", 2, 1, NOW + 7200, false),
        ] {
            let found = facts(seed, generation, built);
            assert_eq!(is_older(&found, &running, NOW), older, "{what}");
        }
        let ahead = facts(1, 5, NOW + 9_000_000);
        for (seed, generation, older) in [(2, 1, false), (1, 6, false), (1, 4, true)] {
            let found = facts(seed, generation, NOW);
            assert_eq!(is_older(&found, &ahead, NOW), older, "a clock was wrong");
        }
    }
}
