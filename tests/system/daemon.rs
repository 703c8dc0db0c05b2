//! The daemon with a service of ten lines: sockets, panics, changed files, shutdown.

use crate::support;

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
use blocklist_milter::milter::{Edit, Handler, Macros, Reply, Wanted};
use support::wire::{OFFER, packet};

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
    fn wanted(&self) -> Wanted {
        Wanted {
            headers: true,
            ..Wanted::default()
        }
    }
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
        let site = Self {
            files: Mutex::new(files),
            states: Mutex::default(),
            reloads: Mutex::new(reloads),
            hold: Mutex::new(()),
            gate: Arc::new(Gate {
                waits: Mutex::new(waits),
                go: Mutex::new(go),
            }),
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
    let listen = listen
        .iter()
        .map(|text| text.parse().expect("an endpoint"))
        .collect();
    Daemon::start(
        &Options {
            listen,
            ..Options::default()
        },
        site,
    )
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
    let (site, _told) = Site::new(Vec::new());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.sock");
    let daemon = start(&site, &[&format!("unix:{}", path.display())]).expect("a daemon");
    let mut other = UnixStream::connect(&path).expect("a connection");
    greet(&mut other);
    // Often enough for every worker to get one.
    for _ in 0..20 {
        let mut faulty = UnixStream::connect(&path).expect("a connection");
        greet(&mut faulty);
        assert!(message(&mut faulty, b"<fault@d.test>\0").is_err());
    }
    // Also in the slow lane, which continues with others.
    let long = |rcpt: &[u8]| [rcpt, &[b' '; LONG], b"\0"].concat();
    let mut faulty = UnixStream::connect(&path).expect("a connection");
    greet(&mut faulty);
    assert!(message(&mut faulty, &long(b"<fault@d.test>")).is_err());
    let mut patient = UnixStream::connect(&path).expect("a connection");
    greet(&mut patient);
    let taken = message(&mut patient, &long(b"<c@d.test>"));
    assert_eq!(taken.expect("answers"), TAKEN);
    assert_eq!(
        message(&mut other, b"<c@d.test>\0").expect("answers"),
        TAKEN
    );
    drop((other, patient));
    daemon.stop().expect("an end in order");
    assert_eq!(site.traffic.cut.get(Cut::Panic), 21);
}

#[test]
fn a_long_header_keeps_nobody_waiting_but_its_own_connection() {
    let (site, _told) = Site::new(Vec::new());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.sock");
    let options = Options {
        listen: vec![Endpoint::Unix(path.clone())],
        workers: NonZeroUsize::new(1),
        ..Options::default()
    };
    let daemon = Daemon::start(&options, &site).expect("a daemon");
    let (waiting, open) = site.warden.lock().expect("alone").take().expect("ours");
    let connect = || {
        let mut stream = UnixStream::connect(&path).expect("a connection");
        greet(&mut stream);
        stream
    };
    let mut slow = connect();
    let header = packet(b'L', &[b"From\0", &[b'v'; LONG][..], b"\0"].concat());
    slow.write_all(&packet(b'M', b"<a@b.test>\0"))
        .expect("written");
    slow.write_all(&packet(b'R', b"<c@d.test>\0"))
        .expect("written");
    slow.write_all(&header).expect("written");
    slow.write_all(&packet(b'N', b"")).expect("written");
    waiting.recv_timeout(PATIENCE).expect("the header has come");
    for mut other in [connect(), connect()] {
        assert_eq!(
            message(&mut other, b"<c@d.test>\0").expect("answers"),
            TAKEN
        );
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
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("list.blf");
    replace(&file, "one");
    let socket = folder.path().join("m.sock");
    let (site, told) = Site::new(vec![file.clone()]);
    let _daemon = start(&site, &[&format!("unix:{}", socket.display())]).expect("a daemon");
    // The first check, at the start.
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    for round in 0..4 {
        replace(&file, &"x".repeat(round + 10));
        assert_eq!(
            told.recv_timeout(PATIENCE),
            Ok(Cause::Changed),
            "round {round}"
        );
    }
    // A file that did not exist, in a folder that was not watched.
    let other = tempfile::tempdir().expect("a folder");
    let late = other.path().join("whitelist.txt");
    site.files.lock().expect("not poisoned").push(late.clone());
    replace(&file, "now it names another");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    replace(&late, "there");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    fs::remove_file(&late).expect("removed");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
}

#[test]
fn a_fault_while_loading_is_not_the_last_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("list.blf");
    replace(&file, "one");
    let (site, told) = Site::new(vec![file.clone()]);
    let socket = folder.path().join("m.sock");
    let daemon = start(&site, &[&format!("unix:{}", socket.display())]).expect("a daemon");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    for text in ["fault", "good again"] {
        replace(&file, text);
        assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed), "{text}");
    }
    daemon.stop().expect("an end in order");
}

#[test]
fn a_copy_with_the_times_of_the_old_file_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("list.blf");
    fs::write(&file, "one").expect("written");
    let written = fs::metadata(&file).expect("just written");
    // The clock of the file system has a coarse resolution.
    let probe = folder.path().join("probe");
    while fs::write(&probe, "x")
        .and_then(|()| fs::metadata(&probe))
        .expect("written")
        .ctime_nsec()
        == written.ctime_nsec()
    {}
    let (site, told) = Site::new(vec![file.clone()]);
    let socket = folder.path().join("m.sock");
    let _daemon = start(&site, &[&format!("unix:{}", socket.display())]).expect("a daemon");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    // In place, with the same length and time as before.
    fs::write(&file, "two").expect("written");
    fs::File::options()
        .write(true)
        .open(&file)
        .and_then(|opened| opened.set_modified(written.modified()?))
        .expect("our own file");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
}

#[test]
fn the_end_does_not_wait_for_a_load_under_way() {
    let (site, told) = Site::new(Vec::new());
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("m.sock");
    let held = site.hold.lock().expect("not poisoned");
    let daemon = start(&site, &[&format!("unix:{}", socket.display())]).expect("a daemon");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
    let (ended, end) = channel();
    std::thread::spawn(move || ended.send(daemon.stop().is_ok()));
    assert_eq!(end.recv_timeout(PATIENCE), Ok(true));
    drop(held);
}

#[test]
fn a_swapped_link_beside_the_files_is_noticed() {
    // As Kubernetes mounts a ConfigMap: list -> ..data/list, ..data -> ..1
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for (version, text) in [("..1", "one"), ("..2", "two")] {
        fs::create_dir(at(version)).expect("a folder");
        fs::write(at(version).join("list"), text).expect("written");
    }
    symlink("..1", at("..data")).expect("a link");
    symlink("..data/list", at("list")).expect("a link");
    let (site, told) = Site::new(vec![at("list")]);
    let _daemon = start(&site, &[&format!("unix:{}", at("m").display())]).expect("a daemon");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));

    symlink("..2", at("..data_tmp")).expect("a link");
    fs::rename(at("..data_tmp"), at("..data")).expect("renamed");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Cause::Changed));
}
