//! The daemon with a service of ten lines: sockets, panics, changed files, shutdown.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use blocklist_filter::base::file_state::FileStates;
use blocklist_milter::daemon::{Cause, Cut, Daemon, Error, Options, Service, Traffic};
use blocklist_milter::demo::peer::{Peer, TestMail};
use blocklist_milter::endpoint::Door;
use blocklist_milter::milter::{Edit, Handler, Macros, Mailbox, Reply};
use rustix::process::Pid;
use rustix::thread::gettid;

use crate::support::rig::verdict;
use crate::support::wire::Wire;

/// Long enough for anything on a busy machine; without an error nothing waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Accepts everything, but panics at a certain recipient, and waits in a long header.
struct Fragile(Arc<Gate>);

/// Where the header reports that it waits, and is told to go on.
type Gate = Mutex<Option<(Sender<()>, Receiver<()>)>>;

/// Longer than any input that a worker handles itself.
const LONG: usize = 5000;

impl Handler for Fragile {
    fn rcpt(&mut self, recipient: Mailbox<&[u8]>, _: &Macros) -> Reply {
        let fault = recipient.written().starts_with(b"<fault@d.test>");
        assert!(!fault, "a fault, for the test");
        Reply::Continue
    }
    fn header(&mut self, _: &[u8], value: &[u8]) -> bool {
        if value.len() >= LONG {
            let (waits, go) = self.0.lock().unwrap().take().unwrap();
            waits.send(()).unwrap();
            go.recv_timeout(PATIENCE).expect("told to go on");
        }
        false
    }
    fn end_of_headers(&mut self, _: &Macros) -> Reply {
        Reply::Accept
    }
    fn end_of_message(&mut self, _: &Macros, _: &mut Vec<Edit>) -> Reply {
        Reply::Accept
    }
}

/// Watches files and reports each reload; panics if a file contains `fault`.
struct Site {
    files: Mutex<Vec<PathBuf>>,
    /// As they were loaded; `None`: not yet.
    states: Mutex<Option<FileStates>>,
    reloads: Mutex<Sender<Cause>>,
    /// No reload ends while this is locked.
    hold: Mutex<()>,
    gate: Arc<Gate>,
    traffic: Arc<Traffic>,
    /// For each connection, the thread of its worker.
    workers: Mutex<Vec<Pid>>,
}

impl Service for Site {
    type Handler = Fragile;

    fn handler(&self, _: Door) -> Fragile {
        self.workers.lock().unwrap().push(gettid());
        Fragile(Arc::clone(&self.gate))
    }

    fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    fn watched(&self) -> Vec<PathBuf> {
        self.files.lock().unwrap().clone()
    }

    fn is_out_of_date(&self) -> bool {
        let states = self.states.lock().unwrap();
        states.as_ref().is_none_or(FileStates::have_changed)
    }

    fn reload(&self, cause: Cause) {
        let mut states = FileStates::default();
        for file in self.watched() {
            states.look(&file, Instant::now());
        }
        *self.states.lock().unwrap() = Some(states);
        // The test may be over.
        let _ = self.reloads.lock().unwrap().send(cause);
        drop(self.hold.lock().unwrap());
        for file in self.watched() {
            let text = fs::read_to_string(file).unwrap_or_default();
            assert_ne!(text, "fault", "a fault, for the test");
        }
    }
}

/// A folder with the daemon's socket, and a service that watches files in it.
struct Served {
    folder: tempfile::TempDir,
    site: Arc<Site>,
    told: Receiver<Cause>,
}

impl Served {
    fn new(files: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = files.iter().map(|name| folder.path().join(name));
        let (reloads, told) = channel();
        let site = Arc::new(Site {
            files: Mutex::new(files.collect()),
            states: Mutex::default(),
            reloads: Mutex::new(reloads),
            hold: Mutex::new(()),
            gate: Arc::default(),
            traffic: Arc::default(),
            workers: Mutex::default(),
        });
        Self { folder, site, told }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the endpoint of the daemon's unix socket.
    fn unix(&self) -> String {
        format!("unix:{}", self.at("m.sock").display())
    }

    /// Starts the daemon with this many workers.
    fn listen(&self, endpoints: &[&str], workers: usize) -> Result<Daemon, Error> {
        let endpoints = endpoints.iter().map(|text| text.parse().unwrap());
        let options = Options {
            listen: endpoints.collect(),
            status: None,
            workers,
            connections_max: 10_000,
            drain: Duration::from_secs(5),
            limit_calls: false,
        };
        Daemon::start(&options, &self.site)
    }

    /// Starts the daemon, with its first check of the files.
    fn start(&self, workers: usize) -> Daemon {
        let daemon = self.listen(&[&self.unix()], workers);
        self.is_told();
        daemon.unwrap()
    }

    #[track_caller]
    fn is_told(&self) {
        assert_eq!(self.told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    }

    /// Returns a connection that has negotiated.
    fn connect(&self) -> Peer {
        Peer::unix(&self.at("m.sock")).unwrap()
    }
}

/// Plays one message to this recipient. Returns its verdict.
fn message(peer: &mut Peer, rcpt: &str) -> std::io::Result<String> {
    let mail = TestMail::new("<a@b.test>", &[rcpt], &[]);
    peer.deliver(&mail).map(|outcome| verdict(&outcome))
}

/// Checks that a message is accepted.
#[track_caller]
fn takes_mail(mut peer: Peer) {
    assert_eq!(message(&mut peer, "<c@d.test>").unwrap(), "accept");
}

#[test]
fn several_sockets_at_once_and_none_left_behind() {
    let served = Served::new(&[]);
    let unix = served.unix();
    let daemon = served.listen(&[&unix, "inet:0@127.0.0.1", "inet:127.0.0.1:0"], 2);
    let daemon = daemon.unwrap();
    for endpoint in daemon.endpoints() {
        takes_mail(Peer::connect(endpoint).unwrap());
    }
    assert!(matches!(
        served.listen(&[&unix], 2),
        Err(Error::Listen { cause, .. }) if cause.kind() == ErrorKind::AddrInUse
    ));
    daemon.stop().unwrap();
    assert!(!served.at("m.sock").exists());
    assert!(matches!(served.listen(&[], 2), Err(Error::NoEndpoint)));
}

#[test]
fn a_fault_ends_its_own_connection_alone() {
    let served = Served::new(&[]);
    let daemon = served.start(2);
    let other = served.connect();
    // Often enough for every worker to get one.
    for _ in 0..20 {
        assert!(message(&mut served.connect(), "<fault@d.test>").is_err());
    }
    // Also in the slow lane, which continues with others.
    let long = " ".repeat(LONG);
    assert!(message(&mut served.connect(), &format!("<fault@d.test>{long}")).is_err());
    let taken = message(&mut served.connect(), &format!("<c@d.test>{long}"));
    assert_eq!(taken.unwrap(), "accept");
    takes_mail(other);
    daemon.stop().unwrap();
    assert_eq!(served.site.traffic.cut.get(Cut::Panic), 21);
}

#[test]
fn a_long_header_keeps_nobody_waiting_but_its_own_connection() {
    let served = Served::new(&[]);
    let daemon = served.start(1);
    let ((waits, waiting), (open, go)) = (channel(), channel());
    *served.site.gate.lock().unwrap() = Some((waits, go));
    let mut slow = Wire::negotiated(&served.at("m.sock"));
    let header = [b"From\0", &[b'v'; LONG][..], b"\0"].concat();
    let to: (u8, &[u8]) = (b'R', b"<c@d.test>\0");
    slow.send(&[(b'M', b"<a@b.test>\0"), to, (b'L', &header), (b'N', b"")]);
    waiting.recv_timeout(PATIENCE).expect("the header has come");
    // Both are open at once.
    let others = [served.connect(), served.connect()];
    others.into_iter().for_each(takes_mail);
    open.send(()).unwrap();
    assert_eq!([slow.answer(), slow.answer()], *b"ca");
    drop(slow);
    daemon.stop().unwrap();
}

/// Connections that come one after the other, and stay. Without `queue_up` in `src/daemon/accept.rs`, the first worker gets all
/// of them, and is alone with them when all their mail servers send at the same time.
#[test]
fn connections_spread_over_the_workers() {
    let served = Served::new(&[]);
    let daemon = served.start(4);
    let mut open = Vec::new();
    let mut shares = BTreeMap::new();
    while open.len() < 100 {
        open.push(served.connect());
        let worker = served.site.workers.lock().unwrap().pop().unwrap();
        *shares.entry(worker.to_string()).or_insert(0) += 1;
        // Until it waits for events again (proc_pid_stat(5), state S).
        let stat = format!("/proc/self/task/{worker}/stat");
        while !fs::read_to_string(&stat).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
    }
    // Twice as many as it should have: another worker may start late, or not wait just then.
    assert!(shares.values().all(|share| *share <= 50), "{shares:?}");
    drop(open);
    daemon.stop().unwrap();
}

/// Writes a new file and renames it over the old one, as a careful program does.
fn replace(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    fs::write(&aside, text).unwrap();
    fs::rename(&aside, path).unwrap();
}

#[test]
fn changed_files_are_loaded_again() {
    let served = Served::new(&["list.blf"]);
    let file = served.at("list.blf");
    replace(&file, "one");
    let _daemon = served.start(2);
    for round in 0..4 {
        replace(&file, &"x".repeat(round + 10));
        served.is_told();
    }
    // A file that did not exist, in a folder that was not watched.
    let other = tempfile::tempdir().unwrap();
    let late = other.path().join("whitelist.txt");
    served.site.files.lock().unwrap().push(late.clone());
    replace(&file, "now it names another");
    served.is_told();
    replace(&late, "there");
    served.is_told();
    fs::remove_file(&late).unwrap();
    served.is_told();
}

#[test]
fn a_fault_while_loading_is_not_the_last_load() {
    let served = Served::new(&["list.blf"]);
    replace(&served.at("list.blf"), "one");
    let daemon = served.start(2);
    for text in ["fault", "good again"] {
        replace(&served.at("list.blf"), text);
        served.is_told();
    }
    daemon.stop().unwrap();
}

#[test]
fn a_copy_with_the_times_of_the_old_file_is_noticed() {
    let served = Served::new(&["list.blf"]);
    let file = served.at("list.blf");
    fs::write(&file, "one").unwrap();
    let written = fs::metadata(&file).unwrap();
    // The clock of the file system has a coarse resolution.
    let probe = served.at("probe");
    let changed = || {
        let probed = fs::write(&probe, "x").and_then(|()| fs::metadata(&probe));
        probed.unwrap().ctime_nsec()
    };
    while changed() == written.ctime_nsec() {}
    let _daemon = served.start(2);
    // In place, with the same length and time as before.
    fs::write(&file, "two").unwrap();
    let opened = fs::File::options().write(true).open(&file);
    let aged = opened.and_then(|opened| opened.set_modified(written.modified()?));
    aged.unwrap();
    served.is_told();
}

#[test]
fn the_end_does_not_wait_for_a_load_under_way() {
    let served = Served::new(&[]);
    let held = served.site.hold.lock().unwrap();
    let daemon = served.start(2);
    let (ended, end) = channel();
    std::thread::spawn(move || ended.send(daemon.stop().is_ok()));
    assert_eq!(end.recv_timeout(PATIENCE), Ok(true));
    drop(held);
}
