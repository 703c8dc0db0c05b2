//! How many connections the limit of descriptors allows.

use std::fs;

use rustix::process::{Resource, getrlimit, setrlimit};

use super::Options;

/// Descriptors that a worker takes for itself: its runtime, its copies of the sockets.
const DESCRIPTORS_A_WORKER: u64 = 8;
/// For what comes and goes beside the connections.
const DESCRIPTORS_SPARE: u64 = 32;

/// As many connections as are wanted, if there are descriptors for them and all else: a
/// daemon whose connections take the last one could not open a new list.
pub(super) fn connections_max(options: &Options) -> usize {
    let Some(limit) = raise_descriptor_limit() else {
        return options.connections_max;
    };
    let open = fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    // Twice, since a reload opens the new lists beside the old.
    let beside = 2 * open + DESCRIPTORS_A_WORKER * options.worker_count() as u64;
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

/// Allows as many descriptors as the system lets us have, and says how many that are;
/// `None`: without limit. What a process starts with, 1,024 as a rule, is kept so low for
/// the sake of `select`, which is not used here.
fn raise_descriptor_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the file descriptor limit");
    }
    getrlimit(Resource::Nofile).current
}
