//! Restarts as systemd does them: the process is stopped, and then the next is started. No SMTP
//! session loses its filter, at any command where its client pauses.

use crate::support;

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
use support::site::{SPAM, Socket, door_of};
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
    manager.site.doors = &["policy"];
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

const DOORS: &[&str] = &["policy", "socketmap", "rspamd"];

/// A client of a door.
struct Asker(UnixStream);

impl Asker {
    fn connect(manager: &Manager, door: &str) -> Self {
        let stream = UnixStream::connect(door_of(&manager.path(), door));
        let stream = stream.expect("the daemon listens");
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).expect("a socket");
        Self(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the daemon reads");
    }

    /// The next answer, which is written at once.
    fn answer(&mut self) -> String {
        let mut answer = [0; 4096];
        let length = self.0.read(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    /// Asks about a recipient or the data of a message.
    fn policy(&mut self, attributes: &str) -> String {
        let lines = attributes.replace(' ', "\n");
        self.send(format!("request=smtpd_access_policy\nprotocol_state={lines}\n\n").as_bytes());
        self.answer()
    }
}

/// A daemon with all doors.
fn with_doors(settings: &str) -> Manager {
    let mut manager = Manager::new(true);
    manager.site.doors = DOORS;
    manager.site.configure(&format!("{SPAM}{settings}"));
    manager.restart();
    manager
}

/// A request about the listed sender, with about this many bytes that matter to nobody.
fn request(door: &str, padding: usize) -> Vec<u8> {
    let request = match door {
        "policy" => {
            let block = format!("From: {LISTED}\nX: {}\n", "x".repeat(padding / 4 * 3));
            let block = STANDARD.encode(block);
            format!(
                "request=smtpd_access_policy\nprotocol_state=DATA\nsender=a@good.test\nrecipient=b@our.test\nheaders_base64={block}\n\n"
            )
        }
        "socketmap" => {
            // Longer ones are refused.
            let text = format!("list{} {LISTED}", "x".repeat(padding.min(99_000)));
            format!("{}:{text},", text.len())
        }
        _ => format!(
            "GET /?key={LISTED} HTTP/1.1\r\nX: {}\r\n\r\n",
            "x".repeat(padding)
        ),
    };
    request.into_bytes()
}

/// Through two restarts, in which the rest comes neither before nor between them. A client that was cut at 0 has only connected.
#[test]
fn a_request_of_another_door_is_answered_wherever_a_restart_cuts_it() {
    let mut manager = with_doors("");
    let mut clients = Vec::new();
    for door in DOORS {
        for padding in [0, 8 << 10, 900 << 10] {
            let request = request(door, padding);
            let length = request.len();
            let cuts: Vec<usize> = match padding {
                0 => (0..=length).collect(),
                _ => vec![1, 4_000, length / 2, length - 1, length],
            };
            for cut in cuts {
                let mut client = Asker::connect(&manager, door);
                client.send(&request[..cut]);
                clients.push((door, cut, client, request.clone()));
            }
        }
    }
    restart_at_once(&mut manager);
    restart_at_once(&mut manager);
    for (door, cut, client, all) in &mut clients {
        let place = format!("{door}, {} bytes, cut at {cut}", all.len());
        client.send(&all[*cut..]);
        // The connection goes on, too.
        for _ in 0..2 {
            let answer = client.answer();
            let expected = format!("550 5.7.1 {LISTED} is on the sender blocklist spam");
            assert!(answer.contains(&expected), "{place}: {answer:?}");
            client.send(&request(door, 0));
        }
    }
}

/// The process that begins it knows the recipients of a message, and whether it was counted.
#[test]
fn a_message_is_counted_once_by_all_processes_that_are_asked_about_it() {
    let mut manager = with_doors("action = \"log\"\n");
    let open = |manager: &Manager| Asker::connect(manager, "policy");
    let of = |state: &str, id: &str| {
        format!("{state} instance={id} queue_id={id} sender={LISTED} recipient=b@our.test")
    };
    let lines = |manager: &Manager, id: &str| {
        let log = manager.daemon.as_ref().expect("it runs").log();
        let of_it = log
            .lines()
            .filter(|line| line.contains(&format!("queue_id={id} ")));
        of_it.filter(|line| !line.contains("messages=0")).count()
    };
    let mut all = open(&manager);
    for state in ["RCPT", "RCPT", "DATA", "END-OF-MESSAGE"] {
        assert_eq!(all.policy(&of(state, "ALL1")), "action=DUNNO\n\n");
        restart_at_once(&mut manager);
    }
    assert_eq!(lines(&manager, "ALL1"), 1);
    let (mut closes, mut goes_on) = (open(&manager), open(&manager));
    assert_eq!(closes.policy(&of("RCPT", "END1")), "action=DUNNO\n\n");
    assert_eq!(goes_on.policy(&of("RCPT", "NEXT1")), "action=DUNNO\n\n");
    restart_at_once(&mut manager);
    drop(closes);
    assert_eq!(goes_on.policy(&of("RCPT", "NEXT2")), "action=DUNNO\n\n");
    drop(goes_on);
    for id in ["END1", "NEXT1", "NEXT2"] {
        until_so(id, || lines(&manager, id) == 1);
    }

    manager.site.configure(SPAM);
    restart_at_once(&mut manager);
    let (mut mixed, mut refused) = (open(&manager), open(&manager));
    let good = "RCPT instance=MIX1 sender=a@good.test recipient";
    let exempt = mixed.policy(&format!("{good}=postmaster@our.test"));
    assert_eq!(exempt, "action=DUNNO\n\n");
    for _ in 0..3 {
        let answer = refused.policy(&of("RCPT", "NO1"));
        assert!(answer.starts_with("action=550 5.7.1 "), "{answer}");
        restart_at_once(&mut manager);
    }
    assert_eq!(lines(&manager, "NO1"), 1);
    let apart = mixed.policy(&format!("{good}=b@our.test"));
    assert!(apart.starts_with("action=452 4.5.3 "), "{apart}");
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
