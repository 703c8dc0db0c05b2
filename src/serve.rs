//! Runs the daemon: derives its options from the settings, screens each connection, reloads.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tracing::{info, warn};

use crate::config::{Config, DRAIN};
use crate::daemon::logging::Logging;
use crate::daemon::{
    self, Asker, Cause, Confined, Needs, Options, Page, Readers, Service, Traffic,
};
use crate::endpoint::{Door, DoorState, Endpoint};
use crate::explain::{Explainer, Mail};
use crate::metrics::Counter;
use crate::paint::{Paint, Painted};
use crate::policy::Action;
use crate::screen::{Screen, log_accepted};
use crate::snapshot::{Live, Start};
use crate::status::{AskedReload, Status, StatusFile, monotonic_us};
use blocklist_filter::base::access::{self, writable_by_others};
use blocklist_filter::base::clock::{now_s, read_time_zone};
use blocklist_filter::base::lock::lock;
use blocklist_filter::base::parallel::processors;

/// Threads that read filters, whatever the number of workers: more do not make a disk faster.
const READERS: usize = 8;

/// The service of the daemon: it applies the snapshot in effect.
pub struct Blocklists {
    live: Arc<Live>,
    readers: Arc<Readers>,
    traffic: Arc<Traffic>,
    /// What its pages are made of, and what outlives it.
    pub status: Status,
    status_file: Mutex<StatusFile>,
    /// The last hour, counted from 1970, that began with a line about accepted messages.
    hour: AtomicU64,
}

impl Blocklists {
    /// Serves the snapshot in effect. The reports include `log_lines_lost`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(live: Arc<Live>, log_lines_lost: Arc<Counter>) -> io::Result<Self> {
        let traffic = Arc::<Traffic>::default();
        Ok(Self {
            status: Status::new(Arc::clone(&live), Arc::clone(&traffic), log_lines_lost),
            traffic,
            live,
            readers: Arc::new(Readers::start(READERS)?),
            status_file: Mutex::default(),
            hour: AtomicU64::new(now_s() / 3600),
        })
    }
}

impl Service for Blocklists {
    type Handler = Screen;

    fn handler(&self, door: Door) -> Screen {
        Screen::new(Arc::clone(&self.live), Arc::clone(&self.readers) as _).at(door)
    }

    fn watched(&self) -> Vec<PathBuf> {
        self.live.files()
    }

    fn is_out_of_date(&self) -> bool {
        self.live.is_out_of_date(Instant::now())
    }

    fn reload(&self, cause: Cause) {
        let began_us = monotonic_us();
        if cause == Cause::Changed {
            self.live.reload_changed(Instant::now());
            return;
        }
        let reloaded = self.live.reload();
        if !reloaded.changed {
            info!("reload requested, nothing has changed");
        }
        let refused = (!reloaded.refused.is_empty()).then(|| reloaded.refused.join("; "));
        lock(&self.status_file).reload = Some(AskedReload { began_us, refused });
    }

    fn upkeep(&self) -> bool {
        let done = self.live.upkeep(Instant::now());
        lock(&self.status_file).update(&self.live);
        self.status.upkeep();
        let hour = now_s() / 3600;
        if self.hour.swap(hour, Relaxed) != hour {
            log_accepted(&self.live.counters);
        }
        done
    }

    fn note_doors(&self, doors: &[DoorState]) {
        self.live.note_doors(doors);
    }

    fn page(&self, path: &str, asker: Asker) -> Page {
        match path.split_once('?').unwrap_or((path, "")) {
            ("/explain", query) => self.status.explanation(query, asker, |address| {
                let mail = Mail::from_address(address);
                let explanation = Explainer::of(Arc::clone(&self.live)).explain(&mail);
                Painted(&(&mail, &explanation), Paint::default()).to_string()
            }),
            _ => self.status.page(path, asker),
        }
    }

    fn tick(&self) {
        self.status.tick();
    }

    fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    fn status(&self) -> String {
        self.live.status()
    }
}

/// The daemon's options for these settings.
pub fn options(config: &Config) -> Options {
    Options {
        listen: config.listen.clone(),
        status: config.status.listen.clone(),
        workers: processors(),
        connections_max: config.connections_max,
        drain: DRAIN,
        limit_calls: config.sandbox,
    }
}

/// The files that the daemon needs with these settings, one of which takes effect.
fn needs(config_path: &Path, configs: &[&Config]) -> Needs {
    let mut needs = Needs {
        read: vec![config_path.to_owned()],
        ..Needs::default()
    };
    for config in configs {
        needs.read.extend(config.files().map(Path::to_owned));
        needs.replaced.push(config.status_file.clone());
        needs.kept.push(config.state.clone());
        let listen = config.listen.iter().map(|listen| &listen.at);
        for endpoint in listen.chain(&config.status.listen) {
            match endpoint {
                Endpoint::Unix(path) => needs.sockets.push(path.clone()),
                Endpoint::Inet { host, .. } => needs.names |= host.parse::<IpAddr>().is_err(),
            }
        }
    }
    needs
}

/// Serves mail until SIGTERM.
pub(crate) fn run(config_path: &Path) -> Result<(), Box<dyn Error>> {
    daemon::outlive_hangup().map_err(daemon::Error::Start)?;
    let config_path = &std::path::absolute(config_path).map_err(daemon::Error::Start)?;
    let start = Start::read(config_path);
    // Without any configuration it is not known where to listen.
    let start = match daemon::inherits_sockets() {
        true => start,
        false => start.unreadable()?,
    };
    daemon::keep_memory_private();
    let config = start.config();
    let good: Vec<&Config> = start.good().collect();
    // Before any other thread starts. A faulty configuration does not say which files it needs.
    read_time_zone();
    let confined = (config.sandbox && !good.is_empty()).then(|| {
        let confined = daemon::limit_files(&needs(config_path, &good));
        if !matches!(confined, Confined::Not(_)) {
            access::note_confined();
        }
        confined
    });
    let logging = Logging::start(config.log.level, config.log.format);
    let logging = logging.map_err(daemon::Error::Start)?;
    // Logged before the filters are read, which may take long.
    info!(version = env!("CARGO_PKG_VERSION"), config = %config_path.display(), "starting");
    warn_if_unconfined(confined, config.sandbox);
    let live = Arc::new(Live::start(start));
    if rustix::process::geteuid().is_root() {
        warn!("running as root, which is not necessary: use a dedicated user");
    }
    for warning in writable_by_others(std::iter::once(&**config_path)) {
        warn!("{warning}");
    }
    let options = options(&live.snapshot().config);
    let service = Blocklists::new(Arc::clone(&live), logging.lost());
    let service = Arc::new(service.map_err(daemon::Error::Start)?);
    service.status.restore();
    let result = daemon::run(&options, &service);
    service.status.save();
    log_end(&live);
    Ok(result?)
}

/// Logs which limits of file access are not in effect; `None`: it was not tried.
fn warn_if_unconfined(confined: Option<Confined>, is_wanted: bool) {
    match confined {
        Some(Confined::Not(why)) => warn!(why, "file access is not limited"),
        Some(Confined::Partly) => {
            warn!("this kernel supports only a part of Landlock: file access is partly limited");
        }
        None if is_wanted => warn!(
            "file access is not limited until the next start, because the configuration is faulty"
        ),
        Some(Confined::Fully) | None => {}
    }
}

/// Logs what was done since the start.
fn log_end(live: &Live) {
    let (counters, reloads) = (&live.counters, live.reloads());
    log_accepted(counters);
    let did = |action: Action| counters.verdicts.get(action.name());
    info!(
        messages = counters.messages(),
        reject = did(Action::Reject),
        tempfail = did(Action::Tempfail),
        discard = did(Action::Discard),
        quarantine = did(Action::Quarantine),
        tag = did(Action::Tag),
        deferred = counters.deferred.get(),
        truncated = counters.truncated.get(),
        reloads = reloads.good,
        reloads_refused = reloads.refused,
        "ended"
    );
}
