//! A service manager that restarts the daemon as systemd does: the process is stopped, and then the
//! next is started, from a new file of the program. Sockets and connections stay open in between.

use std::cell::Cell;
use std::fs::{self, File, Permissions};
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::site::{Daemon, Site};
use super::until;

/// The sender on the list.
pub(crate) const LISTED: &str = "spammer@listed.test";

/// One test at a time: the descriptors of the program have consecutive numbers.
static NUMBERS: Mutex<()> = Mutex::new(());
/// Far behind the last open one, because other tests open files meanwhile.
const NUMBERS_BETWEEN: i32 = 300;

/// A service manager with a unit of type notify, its socket and its descriptor store.
pub(crate) struct Manager {
    pub(crate) site: Site,
    /// `None` if the daemon opens its own.
    listener: Option<UnixListener>,
    pub(crate) told: Arc<Told>,
    keeps: bool,
    pub(crate) daemon: Option<Daemon>,
    /// How often it was started, each time from another file.
    starts: Cell<usize>,
    _numbers: MutexGuard<'static, ()>,
}

/// The notifications from the daemon.
#[derive(Default)]
pub(crate) struct Told {
    ready: AtomicUsize,
    pub(crate) alive: AtomicUsize,
    /// The stored descriptors, with their names.
    pub(crate) store: Mutex<Vec<(String, OwnedFd)>>,
    over: AtomicBool,
}

impl Manager {
    /// Starts the daemon. With `keeps`, the next one gets what it stores.
    pub(crate) fn new(keeps: bool) -> Self {
        Self::with(keeps, true)
    }

    /// The same; `has_socket` says whether there is a socket unit.
    pub(crate) fn with(keeps: bool, has_socket: bool) -> Self {
        let numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let site = Site::spam(&[LISTED], "");
        let path = site.unix();
        let listener = has_socket.then(|| {
            let listener = UnixListener::bind(path).expect("our own folder");
            // For the user of a mail server.
            fs::set_permissions(path, Permissions::from_mode(0o666)).expect("our own socket");
            listener
        });
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
            _numbers: numbers,
        };
        manager.daemon = Some(manager.start());
        manager
    }

    pub(crate) fn start(&self) -> Daemon {
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
        // With consecutive numbers, as a program expects them.
        let open = fs::read_dir("/proc/self/fd").expect("Linux");
        let open = open.filter_map(|name| name.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let first = open.max().unwrap_or_default() + NUMBERS_BETWEEN;
        let numbered: Vec<_> = (first..)
            .zip(&handed_over)
            .map(|(number, handed_over)| {
                let copy = fcntl_dupfd_cloexec(handed_over, number).expect("a number is free");
                assert_eq!(copy.as_raw_fd(), number);
                fcntl_setfd(&copy, FdFlags::empty()).expect("a descriptor");
                copy
            })
            .collect();
        let mut command = self.site.as_user(self.program());
        command
            .arg("--config")
            .arg(self.site.path().join("milter.toml"))
            .env("LISTEN_FDS", numbered.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            .env("LISTEN_FDS_FIRST_FD", first.to_string())
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

    /// Returns the program as after an upgrade: a new file instead of the running one.
    fn program(&self) -> PathBuf {
        let starts = self.starts.get();
        self.starts.set(starts + 1);
        let program = self.site.path().join("installed");
        let aside = self.site.path().join("installed.new");
        // The built program may be replaced at any time.
        let built = match starts {
            0 => Path::new(env!("CARGO_BIN_EXE_blocklist-milter")),
            _ => &program,
        };
        fs::copy(built, &aside).expect("our own folder");
        // Other bytes, so that it is not taken for the old file.
        let file = File::options().append(true).open(&aside);
        let added = file.and_then(|mut file| write!(file, "upgrade {starts}"));
        added.expect("our own file");
        fs::rename(&aside, &program).expect("our own folder");
        program
    }

    /// `systemctl restart`
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.daemon = Some(self.start());
    }

    pub(crate) fn stop(&mut self) {
        let daemon = self.daemon.take().expect("it runs");
        assert!(daemon.terminate().success());
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.site.unix().to_owned()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.told.over.store(true, SeqCst);
    }
}

impl Told {
    /// Receives one message, if there is one.
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
        // Here the descriptor of BARRIER=1 is closed.
    }
}
