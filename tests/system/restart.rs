//! Restarts as systemd does them: the process is stopped, and then the next is started. No SMTP
//! session loses its filter, at any command where its client pauses.

use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use support::check::Random;
use support::exim::policy_of;
use support::manager::{LISTED, Manager};
use support::site::{Daemon, SPAM, Socket};
use support::wire::{OFFER, Wire, packet};
use support::{until, until_so};

/// The commands of an SMTP session with two listed messages and one unlisted message, each with its
/// answer.
const COMMANDS: [(u8, &[u8], &[u8]); 17] = [
    (b'O', b"\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff", b"O"),
    (b'C', b"mail.test\x004\x04\xd2192.0.2.1\0", b""),
    (b'D', b"M{auth_authen}\0\0", b""),
    (b'M', b"<someone@good.test>\0", b""),
    (b'D', b"Ri\0AB12\0", b""),
    (b'R', b"<one@our.test>\0", b"c"),
    (b'R', b"<two@our.test>\0", b"c"),
    (b'L', b"From\0spammer@listed.test\0", b""),
    (b'N', b"", b"y"),
    (b'A', b"", b""),
    (b'M', b"<spammer@listed.test>\0", b""),
    (b'R', b"<one@our.test>\0", b"y"),
    (b'A', b"", b""),
    (b'M', b"<someone@good.test>\0", b""),
    (b'R', b"<one@our.test>\0", b"c"),
    (b'N', b"", b"a"),
    (b'A', b"", b""),
];

/// An SMTP session, as seen by the milter.
struct Session {
    wire: Wire,
    next: usize,
}

impl Session {
    fn connect(path: &Path) -> Self {
        Self {
            wire: Wire::open(path),
            next: 0,
        }
    }

    /// A session after this many commands.
    fn after(commands: usize, path: &Path) -> Self {
        let mut session = Self::connect(path);
        while session.next < commands && session.step() {}
        session
    }

    /// Continues to the next command; `false` at the end.
    fn step(&mut self) -> bool {
        let Some((letter, payload, answer)) = COMMANDS.get(self.next) else {
            return false;
        };
        self.next += 1;
        self.wire.send(&[(*letter, payload)]);
        if !answer.is_empty() {
            let place = format!("{:?}, command {}", char::from(*letter), self.next);
            let got = self.wire.try_answer();
            let got = got.unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!([got], **answer, "{place}");
        }
        true
    }

    fn finish(mut self) {
        while self.step() {}
    }
}

/// Restarts under load: sessions that pause at every command, and others that never pause.
fn restarts(count: usize) {
    let mut manager = Manager::new(true);
    let over = Arc::new(AtomicBool::new(false));
    let quick: Vec<_> = (0..2)
        .map(|_| {
            let (over, path) = (Arc::clone(&over), manager.path());
            thread::spawn(move || {
                let mut sessions = 0;
                while !over.load(SeqCst) {
                    Session::connect(&path).finish();
                    sessions += 1;
                }
                sessions
            })
        })
        .collect();
    // One session at each command, so that each restart finds all of them.
    let mut slow: Vec<Session> = (0..COMMANDS.len())
        .map(|commands| Session::after(commands, &manager.path()))
        .collect();
    for _ in 0..count {
        manager.restart();
        slow.retain_mut(Session::step);
        slow.push(Session::connect(&manager.path()));
    }
    slow.into_iter().for_each(Session::finish);
    over.store(true, SeqCst);
    for quick in quick {
        assert!(quick.join().expect("every answer was right") > 0);
    }
    until("the workers have shown that they live", || {
        (manager.told.alive.load(SeqCst) > 0).then_some(())
    });
}

#[test]
fn no_session_loses_its_filter() {
    restarts(3);
}

#[test]
#[ignore = "a minute: tests/run --long"]
fn no_session_loses_its_filter_over_fifty_restarts() {
    restarts(50);
}

/// Messages in a session.
const MESSAGES: usize = 3;

/// A hundred thousand messages during fifty restarts, each with a new file of the program: most of
/// them in sessions that never pause, the others in sessions whose clients pause for 1 to 20 s
/// between any two commands, so that restarts happen between all of them. Each answer is checked:
/// an unfiltered message would be accepted, or its session closed.
///
/// Fails at the first restart without `handover::give` in `Daemon::stop`.
#[test]
#[ignore = "ten minutes: tests/run --long"]
fn a_hundred_thousand_messages_are_filtered_through_fifty_restarts() {
    const RESTARTS: u32 = 50;
    const TOTAL: usize = 100_000;
    const QUICK: usize = 4;
    const SLOW: u64 = 100;
    /// Time between two restarts: as long as the average pause of a slow session.
    const PACE: Duration = Duration::from_secs(10);
    let mut manager = Manager::new(true);
    let over = Arc::new(AtomicBool::new(false));
    let messages = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    // The number due by now: the messages are spread over the whole time.
    let due = move || {
        let share = began.elapsed().as_secs_f64() / (PACE * RESTARTS).as_secs_f64();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a small positive number"
        )]
        let due = (share * TOTAL as f64) as usize;
        due
    };
    let quick = (0..QUICK).map(|_| {
        let (over, path, messages) = (Arc::clone(&over), manager.path(), Arc::clone(&messages));
        thread::spawn(move || {
            while !over.load(SeqCst) || messages.load(SeqCst) < TOTAL {
                if messages.load(SeqCst) > due() && !over.load(SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Session::connect(&path).finish();
                messages.fetch_add(MESSAGES, SeqCst);
            }
            0
        })
    });
    let slow = (0..SLOW).map(|seed| {
        let (over, path, messages) = (Arc::clone(&over), manager.path(), Arc::clone(&messages));
        thread::spawn(move || {
            let mut random = Random(seed);
            let mut sessions = 0;
            while !over.load(SeqCst) {
                let mut session = Session::connect(&path);
                while session.step() {
                    thread::sleep(Duration::from_millis(1000 + random.below(19_000)));
                }
                sessions += 1;
                messages.fetch_add(MESSAGES, SeqCst);
            }
            sessions
        })
    });
    let clients: Vec<_> = quick.chain(slow).collect();
    for restart in 1..=RESTARTS {
        thread::sleep((PACE * restart).saturating_sub(began.elapsed()));
        manager.restart();
    }
    over.store(true, SeqCst);
    let slow: usize = clients
        .into_iter()
        .map(|client| client.join().expect("every answer was right"))
        .sum();
    let messages = messages.load(SeqCst);
    let seconds = began.elapsed().as_secs();
    println!(
        "{messages} messages, {} of them of {slow} slow sessions, {RESTARTS} restarts, {seconds} s",
        slow * MESSAGES
    );
    assert!(messages >= TOTAL && slow > 100);
}

/// If nobody stores connections, the next process may be started beside the old one, which serves
/// its sessions until they end, and accepts no others.
#[test]
fn without_a_store_sessions_end_in_their_own_time() {
    let mut manager = Manager::new(false);
    let slow = Session::after(5, &manager.path());
    let mut old = manager.daemon.take().expect("it runs");
    old.signal(Signal::TERM);
    old.logged(&["waiting for connections to close"]);
    manager.daemon = Some(manager.start());
    Session::connect(&manager.path()).finish();
    slow.finish();
    // The old process has ended with the last of its sessions.
    assert!(old.ended().success());
}

/// The sockets of `listen` also stay open, and new sessions wait in them.
#[test]
fn own_sockets_are_kept_for_the_next_process() {
    let mut manager = Manager::with(true, false);
    let slow = Session::after(5, &manager.path());
    manager.stop();
    let between = Session::connect(&manager.path());
    manager.daemon = Some(manager.start());
    slow.finish();
    between.finish();

    // Not if the configuration no longer has that socket.
    let path = manager.path();
    let elsewhere = path.with_file_name("elsewhere.sock");
    manager.stop();
    manager.site.move_socket(Socket::Unix(elsewhere.clone()));
    manager.daemon = Some(manager.start());
    Session::connect(&elsewhere).finish();
    // A program that another test has just started may have a copy of it.
    until_so("nobody listens", || UnixStream::connect(&path).is_err());
}

/// Of systemd, there are the milter's and one that cannot be used; that of `listen` is taken.
#[test]
fn a_socket_that_cannot_be_opened_stops_no_other() {
    let mut manager = Manager::new(true);
    let slow = Session::after(5, &manager.path());
    let policy = policy_of(&manager.path());
    let _other = UnixListener::bind(&policy).expect("our own folder");
    manager.site.has_policy = true;
    manager.site.configure(SPAM);
    let datagrams = UnixDatagram::unbound().expect("a socket");
    let unit = ("socketmap".to_owned(), datagrams.into());
    manager.told.store.lock().expect("not poisoned").push(unit);
    manager.restart();
    slow.finish();
    Session::connect(&manager.path()).finish();
    let daemon = manager.daemon.as_ref().expect("it runs");
    daemon.logged(&["milter.policy is not open", "listens"]);
    daemon.logged(&["socketmap is not open", "ListenStream="]);
}

/// For example, if a process ended before it took over the connections.
#[test]
fn connections_of_two_processes_are_taken_over() {
    let mut manager = Manager::new(true);
    let first = Session::after(5, &manager.path());
    manager.stop();
    let kept = std::mem::take(&mut *manager.told.store.lock().expect("not poisoned"));
    assert_eq!(kept.len(), 1);
    manager.daemon = Some(manager.start());
    let second = Session::after(5, &manager.path());
    manager.stop();
    let mut store = manager.told.store.lock().expect("not poisoned");
    store.extend(kept);
    drop(store);
    manager.daemon = Some(manager.start());
    first.finish();
    second.finish();
}

/// Restarts. The process could wait for its sessions, but must not.
fn restart_at_once(manager: &mut Manager) {
    manager.stop();
    let log = std::fs::read_to_string(manager.site.path().join("daemon.log")).expect("its log");
    let waited = "the time for messages in progress is over";
    assert!(!log.contains(waited), "it has waited");
    manager.daemon = Some(manager.start());
}

/// A session until the recipients.
fn mail(manager: &Manager) -> Wire {
    let mut wire = Wire::negotiated(&manager.path());
    wire.send(&[COMMANDS[1], COMMANDS[3]].map(|(letter, payload, _)| (letter, payload)));
    wire
}

const LISTED_FROM: (u8, &[u8]) = (b'L', b"From\0spammer@listed.test\0");

/// Each recipient comes with what a mail server says of it, behind a source route of 900 bytes.
fn routed(wire: &mut Wire, number: usize) -> u8 {
    let address = format!("{number:0>64}@{}our.test", "sub.".repeat(46));
    let route = "@relay.test,".repeat(75);
    let macros = format!("Ri\0ABCDEF012345\0{{rcpt_addr}}\0{address}\0");
    let recipient = format!("<{route}:{address}>\0");
    let packets: [(u8, &[u8]); 2] = [(b'D', macros.as_bytes()), (b'R', recipient.as_bytes())];
    wire.ask(&packets)
}

#[test]
fn a_thousand_recipients_behind_source_routes_are_handed_over() {
    let mut manager = Manager::new(true);
    let mut wires = [mail(&manager), mail(&manager)];
    for wire in &mut wires {
        for number in 0..1000 {
            assert_eq!(routed(wire, number), b'c', "{number}");
        }
    }
    restart_at_once(&mut manager);
    let [listed, innocent] = &mut wires;
    assert_eq!(listed.ask(&[LISTED_FROM, (b'N', b"")]), b'y');
    listed.send(&[(b'A', b""), (b'M', b"<spammer@listed.test>\0")]);
    assert_eq!(listed.ask(&[(b'R', b"<one@our.test>\0")]), b'y');

    // Those that are too many to hand over are put off.
    let most = 10_000;
    let refused = (1000..most).find(|number| routed(innocent, *number) == b'y');
    assert!(refused.is_some());
    restart_at_once(&mut manager);
    assert_eq!(innocent.ask(&[(b'N', b"")]), b'a');
}

/// The end of the headers is answered, and the change comes at the end of the message.
#[test]
fn a_message_is_changed_by_the_next_process() {
    let mut manager = Manager::new(true);
    let list = format!("{SPAM}action = \"tag\"\n");
    manager.site.configure(&list);
    manager.restart();
    let mut wire = mail(&manager);
    assert_eq!(wire.ask(&[(b'R', b"<one@our.test>\0")]), b'c');
    assert_eq!(wire.ask(&[LISTED_FROM, (b'N', b"")]), b'c');
    manager.restart();
    assert_eq!(wire.ask(&[(b'E', b"")]), b'h');
    assert_eq!(wire.answer(), b'a');
}

/// No mail server sends so many long headers that matter.
#[test]
fn a_message_too_large_to_hand_over_is_decided_by_on_error() {
    let mut manager = Manager::new(true);
    let long = [b"Message-ID\0", &[b'x'; 120_000][..], b"\0"].concat();
    // Some of them may still be in the socket, where the next process finds them.
    for (headers, answer) in [(7, b'a'), (12, b'y')] {
        let mut wire = mail(&manager);
        assert_eq!(wire.ask(&[(b'R', b"<one@our.test>\0")]), b'c');
        (0..headers).for_each(|_| wire.send(&[(b'L', &long)]));
        restart_at_once(&mut manager);
        assert_eq!(wire.ask(&[(b'N', b"")]), answer, "{headers} headers");
    }
    let daemon = manager.daemon.as_ref().expect("it runs");
    daemon.logged(&["action=tempfail", "reason=undecided"]);
}

/// As Exim's are, with the header block: a request that is complete only after the daemon was told to stop. This is no packet
/// that the next process could go on with. Another one that never becomes complete keeps the old process for its whole time.
#[test]
fn a_long_request_of_another_door_is_answered_by_the_process_that_ends() {
    let mut manager = Manager::new(true);
    manager.site.has_policy = true;
    manager.site.configure(SPAM);
    manager.restart();
    let policy = policy_of(&manager.path());
    let open = || UnixStream::connect(&policy).expect("the daemon listens");
    for kib in [8, 900] {
        let block = format!("From: {LISTED}\nX: {}\n", "x".repeat(kib * 768));
        let block = STANDARD.encode(block);
        let request = format!(
            "request=smtpd_access_policy\nprotocol_state=DATA\nsender=a@good.test\nrecipient=b@our.test\nheaders_base64={block}\n\n"
        );
        // Up to a byte behind which there is more, and up to the last but one.
        let cuts = [4_000, request.len() / 2, request.len() - 1];
        let mut clients = cuts.map(|cut| {
            let mut client = open();
            client
                .write_all(&request.as_bytes()[..cut])
                .expect("it reads");
            (cut, client)
        });
        let mut never = open();
        never.write_all(b"request=smtpd").expect("it reads");
        let mut old = manager.daemon.take().expect("it runs");
        let stops = |old: &Daemon| old.log().matches("stopping, handing over").count();
        let before = stops(&old);
        old.signal(Signal::TERM);
        until_so("it hands over", || stops(&old) > before);
        for (cut, client) in &mut clients {
            client
                .write_all(&request.as_bytes()[*cut..])
                .expect("it reads");
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("our own socket");
            let is_refused = answer.starts_with("action=550 5.7.1 ");
            assert!(is_refused, "{kib} KiB, cut at {cut}: {answer:?}");
        }
        let before = processor_ticks(&old);
        assert_eq!(never.read(&mut [0]).expect("our own socket"), 0);
        let spent = processor_ticks(&old) - before;
        assert!(spent < 50, "{spent} hundredths of a second while it waits");
        assert!(old.ended().success());
        manager.daemon = Some(manager.start());
    }
}

/// Processor time of a process that was not waited for, in hundredths of a second (proc_pid_stat(5)).
fn processor_ticks(daemon: &Daemon) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.id())).expect("our own child");
    let (_, behind_name) = stat.rsplit_once(") ").expect("its name");
    let fields = behind_name.split(' ').skip(11).take(2);
    fields
        .map(|ticks| ticks.parse::<u64>().expect("a number"))
        .sum()
}

/// After the first header, inside a packet, and without a negotiation.
#[test]
fn sessions_are_handed_over_wherever_they_are() {
    let mut manager = Manager::new(true);
    in_any_state(&mut manager, 90);
}

#[test]
#[ignore = "9,000 descriptors: tests/run --long"]
fn four_thousand_sessions_in_headers_are_handed_over() {
    let limit = getrlimit(Resource::Nofile);
    let lacking = limit.maximum.filter(|most| *most < 10_000);
    let obstacle = lacking.map(|most| format!("no more than {most}"));
    if !support::usable("descriptors", obstacle) {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("below the maximum");
    let mut manager = Manager::new(true);
    in_any_state(&mut manager, 1000);
}

/// Restarts with four times this many sessions.
fn in_any_state(manager: &mut Manager, count: usize) {
    let all = || 0..count;
    let mut listed: Vec<_> = all().map(|_| mail(manager)).collect();
    let mut innocent: Vec<_> = all().map(|_| mail(manager)).collect();
    for wire in listed.iter_mut().chain(&mut innocent) {
        assert_eq!(wire.ask(&[(b'R', b"<one@our.test>\0")]), b'c');
    }
    let mut half: Vec<_> = all().map(|_| Wire::open(&manager.path())).collect();
    let from = packet(b'L', LISTED_FROM.1);
    listed.iter_mut().for_each(|wire| wire.send(&[LISTED_FROM]));
    innocent.iter_mut().for_each(|wire| wire.write(&from[..20]));
    let offer = packet(b'O', OFFER);
    half.iter_mut().for_each(|wire| wire.write(&offer[..7]));
    restart_at_once(manager);
    for wire in &mut listed {
        assert_eq!(wire.ask(&[(b'N', b"")]), b'y');
    }
    for wire in &mut innocent {
        // It becomes another sender.
        wire.write(b"brary.org\0");
        assert_eq!(wire.ask(&[(b'N', b"")]), b'a');
    }
    for wire in &mut half {
        wire.write(&offer[7..]);
        assert_eq!(wire.answer(), b'O');
    }
}
