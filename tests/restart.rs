//! Restarts as systemd does them: the process is stopped, and only then the next is started.
//! No SMTP session loses its filter, at whatever command its client pauses.

mod support;

use std::cell::Cell;
use std::fs::{self, File, Permissions};
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;
use support::site::{Daemon, Site, Socket, Transport};
use support::until;

const LIST: &str = "[[list]]\nname = \"spam\"\nfilter = \"@DIR@/spam.blf\"\n";

/// One test at a time: the descriptors of the program have fixed numbers.
static NUMBERS: Mutex<()> = Mutex::new(());
const FIRST_NUMBER: i32 = 700;

/// A service manager with a unit of type notify, its socket and its descriptor store.
struct Manager {
    site: Site,
    /// `None`: the daemon opens its own.
    listener: Option<UnixListener>,
    told: Arc<Told>,
    keeps: bool,
    daemon: Option<Daemon>,
    /// How often it was started; each time from another file.
    starts: Cell<usize>,
}

/// What the daemon has told its manager.
#[derive(Default)]
struct Told {
    ready: AtomicUsize,
    alive: AtomicUsize,
    /// With their names.
    store: Mutex<Vec<(String, OwnedFd)>>,
    over: AtomicBool,
}

impl Manager {
    /// Starts the daemon. `keeps`: what it gives to the store is there for the next.
    fn new(keeps: bool) -> Self {
        Self::with(keeps, true)
    }

    /// `has_socket`: there is a socket unit.
    fn with(keeps: bool, has_socket: bool) -> Self {
        let mut site = Site::new(Transport::Unix);
        site.list("spam", &["spammer@listed.test"]);
        site.configure(LIST);
        let Socket::Unix(path) = &site.socket else {
            unreachable!("asked for a unix socket")
        };
        let listener = has_socket.then(|| UnixListener::bind(path).expect("our own folder"));
        let told = Arc::new(Told::default());
        let notify = site.path().join("notify");
        let socket = UnixDatagram::bind(&notify).expect("our own folder");
        fs::set_permissions(&notify, Permissions::from_mode(0o777)).expect("our own socket");
        let short = Some(Duration::from_millis(20));
        socket.set_read_timeout(short).expect("a socket");
        let hears = Arc::clone(&told);
        thread::spawn(move || {
            while !hears.over.load(SeqCst) {
                hears.hear(&socket);
            }
        });
        let mut manager = Self {
            site,
            listener,
            told,
            keeps,
            daemon: None,
            starts: Cell::new(0),
        };
        manager.daemon = Some(manager.start());
        manager
    }

    fn start(&self) -> Daemon {
        let unit = self.listener.as_ref().map(|listener| {
            let socket = listener.as_fd().try_clone_to_owned();
            ("milter.socket".to_owned(), socket.expect("a socket"))
        });
        let store = self.told.store.lock().expect("not poisoned");
        let kept = store
            .iter()
            .map(|(name, kept)| (name.clone(), kept.try_clone().expect("a socket")));
        let (names, handed_over): (Vec<_>, Vec<_>) = unit.into_iter().chain(kept).unzip();
        drop(store);
        // Where a program expects them, one behind the other.
        let numbered: Vec<_> = (FIRST_NUMBER..)
            .zip(&handed_over)
            .map(|(number, handed_over)| {
                let copy = fcntl_dupfd_cloexec(handed_over, number).expect("a number is free");
                assert_eq!(copy.as_raw_fd(), number);
                fcntl_setfd(&copy, FdFlags::empty()).expect("a descriptor");
                copy
            })
            .collect();
        let mut command = self.site.program_from(&self.program());
        command
            .arg("--config")
            .arg(self.site.path().join("milter.toml"))
            .env("LISTEN_FDS", numbered.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            .env("LISTEN_FDS_FIRST_FD", FIRST_NUMBER.to_string())
            .env("NOTIFY_SOCKET", self.site.path().join("notify"))
            .env("WATCHDOG_USEC", "3000000");
        if self.keeps {
            command.env("FDSTORE", "1");
        }
        let ready = self.told.ready.load(SeqCst);
        let log = self.site.path().join("daemon.log");
        let daemon = Daemon::spawn(command, &self.site.socket, log);
        until("the daemon is ready", || {
            (self.told.ready.load(SeqCst) > ready).then_some(())
        });
        daemon
    }

    /// The program, as an upgrade leaves it: a new file in the place of the one that runs.
    fn program(&self) -> PathBuf {
        let starts = self.starts.get();
        self.starts.set(starts + 1);
        let program = self.site.path().join("installed");
        let aside = self.site.path().join("installed.new");
        // That one may be built anew meanwhile.
        let built = match starts {
            0 => Path::new(env!("CARGO_BIN_EXE_blocklist-milter")),
            _ => &program,
        };
        fs::copy(built, &aside).expect("our own folder");
        // Not the same bytes, so that nothing is taken for the old file.
        let file = File::options().append(true).open(&aside);
        let added = file.and_then(|mut file| write!(file, "upgrade {starts}"));
        added.expect("our own file");
        fs::rename(&aside, &program).expect("our own folder");
        program
    }

    /// `systemctl restart`
    fn restart(&mut self) {
        self.stop();
        self.daemon = Some(self.start());
    }

    fn stop(&mut self) {
        let daemon = self.daemon.take().expect("it runs");
        assert!(daemon.terminate().success());
    }

    fn connect(&self) -> Session {
        Session::connect(&self.path())
    }

    fn path(&self) -> PathBuf {
        let Socket::Unix(path) = &self.site.socket else {
            unreachable!("asked for a unix socket")
        };
        path.clone()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.told.over.store(true, SeqCst);
    }
}

impl Told {
    /// Hears one message, if there is one.
    fn hear(&self, socket: &UnixDatagram) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 4096];
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let Ok(received) = recvmsg(socket, &mut buffers, &mut ancillary, flags) else {
            return;
        };
        let descriptors = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let text = String::from_utf8_lossy(&bytes[..received.bytes]).into_owned();
        let says = |state: &str| text.lines().any(|line| line == state);
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
        let name = name.unwrap_or_default().to_owned();
        let mut store = self.store.lock().expect("not poisoned");
        if says("FDSTORE=1") {
            assert!(says("FDPOLL=0"));
            store.extend(descriptors.map(|kept| (name, kept)));
        } else if says("FDSTOREREMOVE=1") {
            store.retain(|(kept, _)| *kept != name);
        } else if says("READY=1") {
            self.ready.fetch_add(1, SeqCst);
        } else if says("WATCHDOG=1") {
            self.alive.fetch_add(1, SeqCst);
        }
        // The descriptor of BARRIER=1 is closed here.
    }
}

/// The commands of an SMTP session with two listed messages and one that is not, each with what
/// is answered to it.
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

/// An SMTP session, as the milter sees it.
struct Session {
    stream: UnixStream,
    next: usize,
}

impl Session {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the socket is always there");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a socket");
        Self { stream, next: 0 }
    }

    /// Goes on to the next command at which a client can pause; `false` at the end.
    fn step(&mut self) -> bool {
        let Some((letter, payload, answer)) = COMMANDS.get(self.next) else {
            return false;
        };
        self.next += 1;
        let length = u32::try_from(payload.len() + 1).expect("a short packet");
        let packet = [&length.to_be_bytes()[..], &[*letter], payload].concat();
        self.stream.write_all(&packet).expect("the session is open");
        if !answer.is_empty() {
            let mut length = [0; 4];
            let place = format!("{:?}, command {}", char::from(*letter), self.next);
            let read = self.stream.read_exact(&mut length);
            read.unwrap_or_else(|error| panic!("{place}: {error}"));
            let mut packet = vec![0; u32::from_be_bytes(length) as usize];
            self.stream.read_exact(&mut packet).expect("the rest");
            assert_eq!(packet[..1], **answer, "{place}");
        }
        // Headers come in one go.
        match letter {
            b'L' => self.step(),
            _ => true,
        }
    }

    fn finish(mut self) {
        while self.step() {}
    }
}

/// Restarts under load: sessions that pause at every command, and others that never do.
fn restarts(count: usize) {
    let _numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
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
    // One at each command, so that each restart finds all of them.
    let mut slow: Vec<Session> = (0..COMMANDS.len())
        .map(|commands| {
            let mut session = manager.connect();
            while session.next < commands && session.step() {}
            session
        })
        .collect();
    for _ in 0..count {
        manager.restart();
        slow.retain_mut(Session::step);
        slow.push(manager.connect());
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

/// Messages of a session.
const MESSAGES: usize = 3;

/// A hundred thousand messages through fifty restarts, each with a new file of the program: most of them in
/// sessions that never pause, the others in sessions whose clients pause for 1 to 20 s between any two commands, so
/// that restarts fall between all of them. Each answer is checked: a message without its filter
/// would be one that is accepted, or a session that is closed.
///
/// Without `handover::give` in `Daemon::stop` the first restart fails.
#[test]
#[ignore = "ten minutes: tests/run --long"]
fn a_hundred_thousand_messages_are_filtered_through_fifty_restarts() {
    const RESTARTS: u32 = 50;
    const TOTAL: usize = 100_000;
    const QUICK: usize = 4;
    const SLOW: u64 = 100;
    /// Between two restarts: a slow session pauses for as long on average.
    const PACE: Duration = Duration::from_secs(10);
    let _numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut manager = Manager::new(true);
    let over = Arc::new(AtomicBool::new(false));
    let messages = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    // So many by now: they are spread over the whole time.
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
            let mut random = seed;
            let mut sessions = 0;
            while !over.load(SeqCst) {
                let mut session = Session::connect(&path);
                while session.step() {
                    // Numbers of Knuth's generator: any will do.
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    thread::sleep(Duration::from_millis(1000 + (random >> 33) % 19_000));
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

/// Where nobody keeps connections, the next process may be started beside the old one, which
/// serves its sessions to their end and takes no others.
#[test]
fn without_a_store_sessions_end_in_their_own_time() {
    let _numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut manager = Manager::new(false);
    let mut slow = manager.connect();
    while slow.next < 5 && slow.step() {}
    let mut old = manager.daemon.take().expect("it runs");
    old.signal(Signal::TERM);
    old.logged(&["waiting for connections to close"]);
    manager.daemon = Some(manager.start());
    manager.connect().finish();
    slow.finish();
    // With the last of its sessions the old one has ended.
    assert!(old.ended().success());
}

/// The sockets of `listen` stay open, too, and new sessions wait in them.
#[test]
fn own_sockets_are_kept_for_the_next_process() {
    let _numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut manager = Manager::with(true, false);
    let mut slow = manager.connect();
    while slow.next < 5 && slow.step() {}
    manager.stop();
    let between = manager.connect();
    manager.daemon = Some(manager.start());
    slow.finish();
    between.finish();

    // Not where nobody is to be found any more.
    let path = manager.path();
    let elsewhere = path.with_file_name("elsewhere.sock");
    manager.stop();
    manager.site.move_socket(Socket::Unix(elsewhere.clone()));
    manager.daemon = Some(manager.start());
    Session::connect(&elsewhere).finish();
    assert!(UnixStream::connect(&path).is_err());
}

/// A process that ended before it took the connections over, for one.
#[test]
fn connections_of_two_processes_are_taken_over() {
    let _numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut manager = Manager::new(true);
    let mut first = manager.connect();
    while first.next < 5 && first.step() {}
    manager.stop();
    let kept = std::mem::take(&mut *manager.told.store.lock().expect("not poisoned"));
    assert_eq!(kept.len(), 1);
    manager.daemon = Some(manager.start());
    let mut second = manager.connect();
    while second.next < 5 && second.step() {}
    manager.stop();
    let mut store = manager.told.store.lock().expect("not poisoned");
    store.extend(kept);
    drop(store);
    manager.daemon = Some(manager.start());
    first.finish();
    second.finish();
}
