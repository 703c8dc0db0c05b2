//! Most connections are slow: each is inside a header field, and sends a byte from time to time.
//! Others do not wait for them, and a listed sender in a slow one is still found.
//!
//! The normal run checks only the order: all messages of quick connections are answered before any
//! slow one ends. If a worker waited for a slow one (with a blocking `poll_read`, for example), the
//! first quick message would never be answered. The long run has 9,000 slow connections, and
//! measures time.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::rig::Rig;
use crate::support::site::Site;
use crate::support::usable;
use crate::support::wire::{Wire, packet};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

struct Session(Wire);

impl Session {
    fn connect(path: &Path) -> Self {
        let mut wire = Wire::negotiated(path);
        wire.send(&[(b'C', b"mx.example\x004\x19\x88192.0.2.1\0")]);
        Self(wire)
    }

    fn mail(&mut self) {
        let packets: [(u8, &[u8]); 2] =
            [(b'M', b"<a@ok.example>\0"), (b'R', b"<bob@our.example>\0")];
        assert_eq!(self.0.ask(&packets), b'c');
    }

    /// Connects, and sends MAIL, RCPT, and the beginning of a field of which `to_come` bytes are
    /// missing.
    fn slow(path: &Path, to_come: usize) -> Self {
        let mut session = Self::connect(path);
        session.mail();
        let field = packet(b'L', &[b"From\0", &vec![b' '; to_come][..], END].concat());
        session.0.write(&field[..field.len() - to_come - END.len()]);
        session
    }

    fn trickle(&mut self) {
        self.0.write(b" ");
    }

    /// Sends the end of the field, with a listed sender.
    fn end(mut self) {
        self.0.write(END);
        assert_eq!(self.0.ask(&[(b'N', b"")]), b'y', "a listed sender passes");
    }

    /// Sends a message of an innocent sender, or, in every tenth, of a listed one.
    fn message(&mut self, number: usize) {
        self.mail();
        let (from, expected) = match number % 10 {
            0 => (&b"From\0first@bad.example\0"[..], b'y'),
            _ => (&b"From\0b@ok.example\0"[..], b'a'),
        };
        assert_eq!(self.0.ask(&[(b'L', from), (b'N', b"")]), expected);
        self.0.send(&[(b'A', b"")]);
    }
}

const END: &[u8] = b"first@bad.example\0";

/// Sends messages over new connections in each round, while each slow connection sends a byte.
/// Returns the median of the p99 of each round: a pause of the machine makes one round slow, a
/// daemon that makes others wait makes all of them slow.
fn overtake(path: &Path, slow: usize, quick: usize, rounds: usize) -> Duration {
    let connect = |_| Session::slow(path, rounds);
    let mut slow: Vec<_> = (0..slow).map(connect).collect();
    let mut trickle = || {
        for sessions in slow.chunks_mut(90) {
            sessions.iter_mut().for_each(Session::trickle);
            thread::sleep(Duration::from_millis(10));
        }
    };
    let message = |number| {
        let mut session = Session::connect(path);
        let asked = Instant::now();
        session.message(number);
        asked.elapsed()
    };
    let mut p99: Vec<_> = (0..rounds)
        .map(|_| {
            thread::scope(|scope| {
                scope.spawn(&mut trickle);
                let mut times: Vec<_> = (0..quick).map(message).collect();
                times.sort();
                times[quick * 99 / 100]
            })
        })
        .collect();
    slow.into_iter().for_each(Session::end);
    p99.sort();
    p99[rounds / 2]
}

#[test]
fn quick_connections_overtake_slow_ones() {
    let config = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";
    let rig = Rig::new(&[("spam.list", "first@bad.example\n")], config);
    overtake(&rig.path("m.sock"), 200, 20, 10);
}

/// The time limit applies to a release build on an otherwise idle machine.
#[test]
#[ignore = "half a minute, and 11,000 descriptors: tests/run --long"]
fn with_nine_thousand_slow_connections_the_others_are_answered_in_time() {
    const SLOW: usize = 9_000;
    const QUICK: usize = 1_000;
    const P99_MOST: Duration = Duration::from_millis(5);
    let wanted = (SLOW + QUICK) as u64 + 1_000;
    let maximum = getrlimit(Resource::Nofile).maximum;
    let lacking = maximum.filter(|most| *most < wanted);
    let lacking = lacking.map(|most| format!("no more than {most}"));
    if !usable("descriptors", lacking) {
        return;
    }
    let current = Some(wanted);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    // A separate process, which inherits the limit.
    let limits = "[limits]\nconnections = 20000\n[log]\nlevel = \"warn\"\n";
    let site = Site::spam(&["first@bad.example"], limits);
    let daemon = site.serve();
    let quiet = overtake(site.unix(), 0, QUICK, 5);
    let p99 = overtake(site.unix(), SLOW, QUICK, 20);
    assert!(daemon.terminate().success());
    println!("p99 beside {SLOW} slow connections {p99:?}, without them {quiet:?}");
    // If other work makes even a quiet daemon slow, compare with that.
    let most = P99_MOST.max(2 * quiet);
    assert!(cfg!(debug_assertions) || p99 < most);
}
