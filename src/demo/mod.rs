//! `blocklist-milter demo`: shows the real daemon without an installation.
//!
//! ```text
//! blocklists/*.txt --compile--> filters --> daemon on a private socket <--> peer, like Postfix
//! ```
//!
//! All files are in a private folder that is removed at the end. The lists, the whitelist and the
//! messages use reserved names. Each message has its expected verdict beside it, and any other
//! verdict makes the demo fail.

mod lists;
pub mod peer;
mod scenes;
mod table;

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lists::{Error, compile_lists, write_config};
use peer::{Peer, TestMail};
use scenes::{Scene, scenes};
use table::Row;

use crate::base::lock::lock;
use crate::base::paint::Paint;
use crate::daemon::{Daemon, Service};
use crate::explain::RecordedDecision;
use crate::screen::{Decision, Observer, Screen};
use crate::serve;
use crate::snapshot::{Live, Snapshot};

/// The last decision of the daemon.
#[derive(Clone, Default)]
struct LastDecision(Arc<Mutex<RecordedDecision>>);

impl Observer for LastDecision {
    fn decided(&mut self, decision: &Decision<'_>) {
        *lock(&self.0) = RecordedDecision::of(decision);
    }
}

/// The daemon's service with an observer.
struct ObservedService {
    live: Arc<Live>,
    last: LastDecision,
}

impl Service for ObservedService {
    type Handler = Screen<LastDecision>;

    fn handler(&self) -> Self::Handler {
        Screen::with_observer(Arc::clone(&self.live), self.last.clone())
    }

    fn watched(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Runs the demo and prints the results. Returns whether all were as expected.
///
/// # Errors
/// The demo could not be set up.
pub fn run(out: &mut dyn io::Write, paint: Paint) -> Result<bool, Error> {
    let private = Permissions::from_mode(0o700);
    let mut folder = tempfile::Builder::new();
    let folder = folder.prefix("blocklist-milter-demo-");
    let folder = folder.permissions(private).tempdir()?;
    let lists = compile_lists(folder.path(), out, paint)?;
    let config = write_config(folder.path(), &lists)?;
    let snapshot = Snapshot::build(config)?;
    let options = serve::options(&snapshot.config);
    let live = Arc::new(Live::new(snapshot, None));
    let last = LastDecision::default();
    let observed = ObservedService {
        live,
        last: last.clone(),
    };
    let daemon = Daemon::start(&options, &Arc::new(observed))?;
    let how = "on a private socket; messages are sent as Postfix sends them";
    writeln!(out, "{} {how}\n", paint.bold("serving"))?;
    let scenes = scenes(&lists);
    let mut stage = Stage {
        scenes: &scenes,
        last: &last,
        out,
        paint,
    };
    let wrong = stage.play(folder.path())?;
    daemon.stop()?;
    let all = scenes.len();
    if wrong == 0 {
        writeln!(out, "{all} messages, all verdicts as expected")?;
    } else {
        let what = "messages got a verdict they should not get: please report it";
        writeln!(out, "{wrong} of {all} {what}")?;
    }
    Ok(wrong == 0)
}

/// The messages, and where they are shown.
struct Stage<'a> {
    scenes: &'a [Scene],
    last: &'a LastDecision,
    out: &'a mut dyn io::Write,
    paint: Paint,
}

impl Stage<'_> {
    /// Plays all messages over one connection. Returns how many got a wrong verdict.
    fn play(&mut self, folder: &Path) -> Result<usize, Error> {
        let mut peer = Peer::unix(&folder.join(lists::MILTER))?;
        peer.stranger()?;
        // The first message of a process is slower, because memory is used for the first time.
        let from = &["From: warm@up.example"];
        let first = TestMail::new("<warm@up.example>", &["<bob@our.example>"], from);
        peer.deliver(&first)?;
        let heading = format!(
            "{:<37} {:<9} {:<10} {:<11} {:>6} {:>6}",
            "message", "verdict", "identity", "list", "daemon", "total"
        );
        writeln!(self.out, "{}", self.paint.bold(&heading))?;
        let mut wrong = 0;
        for scene in self.scenes {
            let outcome = peer.deliver(&scene.mail)?;
            let row = Row {
                scene,
                outcome: &outcome,
                decision: &std::mem::take(&mut *lock(&self.last.0)),
                paint: self.paint,
            };
            write!(self.out, "{row}")?;
            wrong += usize::from(!row.is_expected());
        }
        peer.quit()?;
        let times =
            "times in microseconds: daemon = the decision; total = what the mail server waits";
        writeln!(self.out, "\n{}", self.paint.dim(times))?;
        Ok(wrong)
    }
}
