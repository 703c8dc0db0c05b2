//! The daemon with a service of ten lines: sockets, panics, changed files, shutdown.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use blocklist_milter::base::file_state::FileStates;
use blocklist_milter::daemon::{Cause, Cut, Daemon, Error, Options, Service, Traffic};
use blocklist_milter::endpoint::Endpoint;
use blocklist_milter::milter::{Edit, Handler, Macros, Reply};

use crate::support::wire::{OFFER, packet};

/// Long enough for anything on a busy machine; without an error nothing waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Accepts everything, but panics at a certain recipient, and waits in a long header.
struct Fragile {
    gate: Arc<Gate>,
}

/// Reports that somebody waits, and lets them continue.
struct Gate {
    waits: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

/// Longer than any input that a worker handles itself.
const LONG: usize = 5000;

impl Handler for Fragile {
    fn rcpt(&mut self, argument: &[u8], _: &Macros) -> Reply {
        let fault = argument.starts_with(b"<fault@d.test>");
        assert!(!fault, "a fault, for the test");
        Reply::Continue
    }
    fn header(&mut self, _: &[u8], value: &[u8]) -> bool {
        if value.len() >= LONG {
            let waits = self.gate.waits.lock().expect("not poisoned");
            waits.send(()).expect("the test listens");
            let go = self.gate.go.lock().expect("not poisoned");
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
    /// Waits at the gate, and opens it.
    warden: Mutex<Option<(Receiver<()>, Sender<()>)>>,
    traffic: Arc<Traffic>,
}

impl Site {
    fn new(files: Vec<PathBuf>) -> (Arc<Self>, Receiver<Cause>) {
        let (reloads, told) = channel();
        let (waits, waiting) = channel();
        let (open, go) = channel();
        let gate = Gate {
            waits: Mutex::new(waits),
            go: Mutex::new(go),
        };
        let site = Self {
            files: Mutex::new(files),
            states: Mutex::default(),
            reloads: Mutex::new(reloads),
            hold: Mutex::new(()),
            gate: Arc::new(gate),
            warden: Mutex::new(Some((waiting, open))),
            traffic: Arc::default(),
        };
        (Arc::new(site), told)
    }
}

impl Service for Site {
    type Handler = Fragile;

    fn handler(&self) -> Fragile {
        Fragile {
            gate: Arc::clone(&self.gate),
        }
    }

    fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    fn watched(&self) -> Vec<PathBuf> {
        self.files.lock().expect("not poisoned").clone()
    }

    fn is_out_of_date(&self) -> bool {
        let states = self.states.lock().expect("not poisoned");
        states.as_ref().is_none_or(FileStates::have_changed)
    }

    fn reload(&self, cause: Cause) {
        let mut states = FileStates::default();
        for file in self.watched() {
            states.look(&file, Instant::now());
        }
        *self.states.lock().expect("not poisoned") = Some(states);
        // The test may be over.
        let _ = self.reloads.lock().expect("not poisoned").send(cause);
        drop(self.hold.lock().expect("not poisoned"));
        for file in self.watched() {
            let text = fs::read_to_string(file).unwrap_or_default();
            assert_ne!(text, "fault", "a fault, for the test");
        }
    }
}

fn start(site: &Arc<Site>, listen: &[&str]) -> Result<Daemon, Error> {
    let listen = listen.iter().map(|text| text.parse().expect("an endpoint"));
    let options = Options {
        listen: listen.collect(),
        ..Options::default()
    };
    Daemon::start(&options, site)
}

/// A folder with the daemon's socket, and a service that watches files in it.
struct Served {
    folder: tempfile::TempDir,
    site: Arc<Site>,
    told: Receiver<Cause>,
}

impl Served {
    fn new(files: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = files.iter().map(|name| folder.path().join(name));
        let (site, told) = Site::new(files.collect());
        Self { folder, site, told }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the daemon, with its first check of the files.
    fn start(&self) -> Daemon {
        let daemon = start(
            &self.site,
            &[&format!("unix:{}", self.at("m.sock").display())],
        );
        self.is_told();
        daemon.expect("a daemon")
    }

    #[track_caller]
    fn is_told(&self) {
        assert_eq!(self.told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    }

    /// Returns a connection that has negotiated.
    fn connect(&self) -> UnixStream {
        let mut stream = UnixStream::connect(self.at("m.sock")).expect("a connection");
        greet(&mut stream);
        stream
    }
}

/// Negotiates on a new connection.
fn greet(stream: &mut (impl Read + Write)) {
    stream.write_all(&packet(b'O', OFFER)).expect("written");
    stream.read_exact(&mut [0; 17]).expect("an answer");
}

/// Plays one message to this recipient. Returns the answers.
fn message(stream: &mut (impl Read + Write), rcpt: &[u8]) -> std::io::Result<[u8; 10]> {
    let mut packets = packet(b'M', b"<a@b.test>\0");
    packets.extend(packet(b'R', rcpt));
    packets.extend(packet(b'N', b""));
    stream.write_all(&packets)?;
    let mut answers = [0; 10];
    stream.read_exact(&mut answers)?;
    Ok(answers)
}

const TAKEN: [u8; 10] = *b"\0\0\0\x01c\0\0\0\x01a";

#[test]
fn several_sockets_at_once_and_none_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.sock");
    let unix = format!("unix:{}", path.display());
    let (site, _told) = Site::new(Vec::new());
    let listen = [unix.as_str(), "inet:0@127.0.0.1", "inet:127.0.0.1:0"];
    let daemon = start(&site, &listen).expect("a daemon");

    for endpoint in daemon.endpoints() {
        let taken = match endpoint {
            Endpoint::Unix(path) => {
                let mut stream = UnixStream::connect(path).expect("a connection");
                greet(&mut stream);
                message(&mut stream, b"<c@d.test>\0")
            }
            Endpoint::Inet { host, port, .. } => {
                let mut stream = TcpStream::connect((host.as_str(), *port)).expect("connected");
                greet(&mut stream);
                message(&mut stream, b"<c@d.test>\0")
            }
        };
        assert_eq!(taken.expect("answers"), TAKEN, "{endpoint}");
    }
    assert!(matches!(start(&site, &[&unix]), Err(Error::InUse { .. })));
    daemon.stop().expect("an end in order");
    assert!(!path.exists());
    assert!(matches!(start(&site, &[]), Err(Error::NoEndpoint)));
}

#[test]
fn a_fault_ends_its_own_connection_alone() {
    let served = Served::new(&[]);
    let daemon = served.start();
    let mut other = served.connect();
    // Often enough for every worker to get one.
    for _ in 0..20 {
        assert!(message(&mut served.connect(), b"<fault@d.test>\0").is_err());
    }
    // Also in the slow lane, which continues with others.
    let long = |rcpt: &[u8]| [rcpt, &[b' '; LONG], b"\0"].concat();
    assert!(message(&mut served.connect(), &long(b"<fault@d.test>")).is_err());
    let taken = message(&mut served.connect(), &long(b"<c@d.test>"));
    assert_eq!(taken.expect("answers"), TAKEN);
    let taken = message(&mut other, b"<c@d.test>\0");
    assert_eq!(taken.expect("answers"), TAKEN);
    drop(other);
    daemon.stop().expect("an end in order");
    assert_eq!(served.site.traffic.cut.get(Cut::Panic), 21);
}

#[test]
fn a_long_header_keeps_nobody_waiting_but_its_own_connection() {
    let served = Served::new(&[]);
    let options = Options {
        listen: vec![Endpoint::Unix(served.at("m.sock")).into()],
        workers: NonZeroUsize::new(1),
        ..Options::default()
    };
    let daemon = Daemon::start(&options, &served.site).expect("a daemon");
    let warden = served.site.warden.lock().expect("alone").take();
    let (waiting, open) = warden.expect("ours");
    let mut slow = served.connect();
    let header = [b"From\0", &[b'v'; LONG][..], b"\0"].concat();
    for (letter, payload) in [
        (b'M', &b"<a@b.test>\0"[..]),
        (b'R', b"<c@d.test>\0"),
        (b'L', &header),
        (b'N', b""),
    ] {
        slow.write_all(&packet(letter, payload)).expect("written");
    }
    waiting.recv_timeout(PATIENCE).expect("the header has come");
    for mut other in [served.connect(), served.connect()] {
        let taken = message(&mut other, b"<c@d.test>\0");
        assert_eq!(taken.expect("answers"), TAKEN);
    }
    open.send(()).expect("it waits");
    let mut answers = [0; 10];
    slow.read_exact(&mut answers).expect("answers");
    assert_eq!(answers, TAKEN);
    drop(slow);
    daemon.stop().expect("an end in order");
}

/// Writes a new file and renames it over the old one, as a careful program does.
fn replace(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    fs::write(&aside, text).expect("written");
    fs::rename(&aside, path).expect("renamed");
}

#[test]
fn changed_files_are_loaded_again() {
    let served = Served::new(&["list.blf"]);
    let file = served.at("list.blf");
    replace(&file, "one");
    let _daemon = served.start();
    for round in 0..4 {
        replace(&file, &"x".repeat(round + 10));
        served.is_told();
    }
    // A file that did not exist, in a folder that was not watched.
    let other = tempfile::tempdir().expect("a folder");
    let late = other.path().join("whitelist.txt");
    served
        .site
        .files
        .lock()
        .expect("not poisoned")
        .push(late.clone());
    replace(&file, "now it names another");
    served.is_told();
    replace(&late, "there");
    served.is_told();
    fs::remove_file(&late).expect("removed");
    served.is_told();
}

#[test]
fn a_fault_while_loading_is_not_the_last_load() {
    let served = Served::new(&["list.blf"]);
    replace(&served.at("list.blf"), "one");
    let daemon = served.start();
    for text in ["fault", "good again"] {
        replace(&served.at("list.blf"), text);
        served.is_told();
    }
    daemon.stop().expect("an end in order");
}

#[test]
fn a_copy_with_the_times_of_the_old_file_is_noticed() {
    let served = Served::new(&["list.blf"]);
    let file = served.at("list.blf");
    fs::write(&file, "one").expect("written");
    let written = fs::metadata(&file).expect("just written");
    // The clock of the file system has a coarse resolution.
    let probe = served.at("probe");
    let changed = || {
        let probed = fs::write(&probe, "x").and_then(|()| fs::metadata(&probe));
        probed.expect("written").ctime_nsec()
    };
    while changed() == written.ctime_nsec() {}
    let _daemon = served.start();
    // In place, with the same length and time as before.
    fs::write(&file, "two").expect("written");
    let opened = fs::File::options().write(true).open(&file);
    let aged = opened.and_then(|opened| opened.set_modified(written.modified()?));
    aged.expect("our own file");
    served.is_told();
}

#[test]
fn the_end_does_not_wait_for_a_load_under_way() {
    let served = Served::new(&[]);
    let held = served.site.hold.lock().expect("not poisoned");
    let daemon = served.start();
    let (ended, end) = channel();
    std::thread::spawn(move || ended.send(daemon.stop().is_ok()));
    assert_eq!(end.recv_timeout(PATIENCE), Ok(true));
    drop(held);
}

#[test]
fn a_swapped_link_beside_the_files_is_noticed() {
    // As Kubernetes mounts a ConfigMap: list -> ..data/list, ..data -> ..1
    let served = Served::new(&["list"]);
    for (version, text) in [("..1", "one"), ("..2", "two")] {
        fs::create_dir(served.at(version)).expect("a folder");
        fs::write(served.at(version).join("list"), text).expect("written");
    }
    symlink("..1", served.at("..data")).expect("a link");
    symlink("..data/list", served.at("list")).expect("a link");
    let _daemon = served.start();

    symlink("..2", served.at("..data_tmp")).expect("a link");
    fs::rename(served.at("..data_tmp"), served.at("..data")).expect("renamed");
    served.is_told();
}
