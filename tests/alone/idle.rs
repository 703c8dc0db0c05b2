//! The memory of a connection between two messages: mail servers keep thousands of connections
//! open, most of which wait for their client.
//!
//! The allocator counts it, in all threads, so that everything is included that the daemon holds
//! for a connection: its session, its task, its place in tables. (The kernel's memory for a socket
//! is not included.) No other test runs meanwhile, because it counts all threads.

use crate::support;
use crate::{MEMORY, one_at_a_time};

use support::rig::Rig;
use support::until;
use support::wire::Postfix;

/// Most bytes that a connection may hold, before its first message and after it.
const MOST_BYTES: usize = 3 << 10;
/// Number of connections, each with two descriptors of this process.
const CONNECTIONS: usize = 400;

const CONFIG: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

/// Returns the allocated bytes when they no longer change, because the daemon is idle.
fn settled() -> usize {
    let (mut last, mut equal) = (usize::MAX, 0);
    until("the daemon rests", || {
        let now = MEMORY.current_usage();
        equal = if now == last { equal + 1 } else { 0 };
        last = now;
        (equal == 20).then_some(now)
    })
}

/// Without `release` in `src/screen/state.rs` it is 5 KiB.
#[test]
fn an_idle_connection_holds_three_kibibytes_at_most() {
    let _turn = one_at_a_time();
    let rig = Rig::new(&[("spam.list", "first@bad.example\n")], CONFIG);
    let path = rig.path("m.sock");
    // Includes what threads and tables keep for all connections.
    for _ in 0..20 {
        Postfix::connect(&path).message();
    }
    let before = settled();
    let mut sessions = Vec::with_capacity(CONNECTIONS);
    let of_each = |now: usize| (now - before).div_ceil(CONNECTIONS);
    sessions.extend((0..CONNECTIONS).map(|_| Postfix::connect(&path)));
    let connected = of_each(settled());
    sessions.iter_mut().for_each(Postfix::message);
    let after = of_each(settled());
    println!("{connected} bytes before the first message, {after} after it");
    assert!(connected <= MOST_BYTES, "{connected}");
    assert!(after <= MOST_BYTES, "{after}");
}
