//! The memory of a connection between two messages: mail servers keep thousands of connections
//! open, most of which wait for their client.
//!
//! The allocator counts it, in all threads, so that everything is included that the daemon holds
//! for a connection: its session, its task, its place in tables. (The kernel's memory for a socket
//! is not included.) No other test runs meanwhile, because it counts all threads.

use crate::support;
use crate::{MEMORY, one_at_a_time};

use std::path::Path;

use support::rig::Rig;
use support::until;
use support::wire::Wire;

/// Most bytes that a connection may hold, before its first message and after it.
const MOST_BYTES: usize = 3 << 10;
/// Number of connections, each with two descriptors of this process.
const CONNECTIONS: usize = 400;

const CONFIG: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

/// A connection whose packets are sent as Postfix sends them.
struct Session(Wire);

impl Session {
    fn connect(path: &Path) -> Self {
        let mut wire = Wire::negotiated(path);
        // Not answered.
        wire.send(&[
            (b'D', b"Cv\0Postfix 3.7.11\0"),
            (b'C', b"mail-ed1-f42.shop.example\x004\x1a\x8e192.0.2.142\0"),
        ]);
        Self(wire)
    }

    /// Sends an ordinary message; each of its senders must be read and looked up.
    fn message(&mut self) {
        let answer = self.0.ask(&[
            (b'D', b"M{mail_addr}\0bounce-1234@shop.example\0"),
            (b'M', b"<bounce-1234@shop.example>\0SIZE=23456\0"),
            (
                b'D',
                b"Ri\x004XyZ1k2lQzz9v8\0{rcpt_addr}\0bob@our.example\0",
            ),
            (b'R', b"<bob@our.example>\0"),
        ]);
        assert_eq!(answer, b'c');
        let answer = self.0.ask(&[
            (b'D', b"Li\x004XyZ1k2lQzz9v8\0"),
            (b'L', b"Message-ID\0<20261121050000.1234@shop.example>\0"),
            (b'L', b"From\0Jane Roe <jane.roe@shop.example>\0"),
            (b'L', b"Sender\0newsletter@shop.example\0"),
            (
                b'L',
                b"Reply-To\0\"Customer service\" <service@shop.example>\0",
            ),
            (b'L', b"Subject\0Your order\0"),
            (b'D', b"Ni\x004XyZ1k2lQzz9v8\0"),
            (b'N', b""),
        ]);
        assert_eq!(answer, b'a');
        self.0.send(&[(b'A', b"")]);
    }
}

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

/// Without `release` in `src/screen/message.rs` it is 5 KiB.
#[test]
fn an_idle_connection_holds_three_kibibytes_at_most() {
    let _turn = one_at_a_time();
    let rig = Rig::new(&[("spam.list", "first@bad.example\n")], CONFIG);
    let path = rig.path("m.sock");
    // Includes what threads and tables keep for all connections.
    for _ in 0..20 {
        Session::connect(&path).message();
    }
    let before = settled();
    let mut sessions = Vec::with_capacity(CONNECTIONS);
    let of_each = |now: usize| (now - before).div_ceil(CONNECTIONS);
    sessions.extend((0..CONNECTIONS).map(|_| Session::connect(&path)));
    let connected = of_each(settled());
    sessions.iter_mut().for_each(Session::message);
    let after = of_each(settled());
    println!("{connected} bytes before the first message, {after} after it");
    assert!(connected <= MOST_BYTES, "{connected}");
    assert!(after <= MOST_BYTES, "{after}");
}
