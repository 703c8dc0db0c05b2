//! How many connections the file descriptor limit allows.

use std::fs;

use rustix::process::{Resource, getrlimit, setrlimit};

use super::Options;

/// Descriptors that a worker needs: its runtime, its copies of the sockets.
const DESCRIPTORS_A_WORKER: u64 = 8;
/// Reserve for other descriptors.
const DESCRIPTORS_SPARE: u64 = 32;

/// The configured number of connections, or fewer if there are not enough descriptors. If connections used all descriptors,
/// the daemon could not open a new list.
pub(super) fn connections_max(options: &Options) -> usize {
    let Some(limit) = raise_descriptor_limit() else {
        return options.connections_max;
    };
    let open = fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    // Twice, because a reload opens the new lists while the old ones are open.
    let beside = 2 * open + DESCRIPTORS_A_WORKER * options.workers as u64;
    let left = limit
        .saturating_sub(beside + DESCRIPTORS_SPARE)
        .max(limit / 4);
    let possible = usize::try_from(left).unwrap_or(usize::MAX);
    if possible >= options.connections_max {
        return options.connections_max;
    }
    tracing::warn!(
        descriptors = limit,
        wanted = options.connections_max,
        connections = possible,
        "the file descriptor limit is too low for limits.connections: raise LimitNOFILE"
    );
    possible.max(1)
}

/// Raises the limit as far as the system allows, and returns it; `None`: no limit. The usual limit at the start, 1,024, is
/// low because of `select`, which is not used here.
fn raise_descriptor_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the file descriptor limit");
    }
    getrlimit(Resource::Nofile).current
}
