//! Shows the progress of a long task, and handles the signals that end it.
//!
//! On a terminal there is a line that changes; elsewhere a line from time to time, for logs. A
//! separate thread draws them from the counters of [`Progress`], to which the workers only add.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::base::numbers::{grouped, percent, size};
use crate::compile::{Error, Phase, Progress, State};

/// How often the line on a terminal is drawn.
const DRAW: Duration = Duration::from_millis(100);
/// How often a line is printed where there is no terminal.
const LINE: Duration = Duration::from_secs(10);

/// Draws until it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    progress: Arc<Progress>,
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watcher {
    /// Starts to draw, unless `quiet`. From now on SIGINT, SIGTERM and SIGHUP end the task cleanly,
    /// and a second signal ends the program immediately.
    pub(super) fn start(quiet: bool) -> Result<Self, Error> {
        let progress = Arc::new(Progress::new());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let failed = |source| Error::Io {
                path: "signals".into(),
                doing: "be watched",
                source,
            };
            // The order matters: the second signal must find the flag that the first one set.
            signal_hook::flag::register_conditional_default(signal, progress.stop_flag())
                .map_err(failed)?;
            signal_hook::flag::register(signal, progress.stop_flag()).map_err(failed)?;
        }
        let drawing = (!quiet).then(|| {
            let (stop, stopped) = mpsc::channel();
            let watched = Arc::clone(&progress);
            let started = thread::Builder::new().spawn(move || draw(&watched, &stopped));
            Some((stop, started.ok()?))
        });
        // Without a thread, nothing is drawn.
        let drawing = drawing.flatten();
        Ok(Self { progress, drawing })
    }

    /// Returns the counters for the task.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            // A failure to draw does no harm.
            let _ = thread.join();
        }
    }
}

fn draw(progress: &Progress, stopped: &mpsc::Receiver<()>) {
    let mut stderr = io::stderr();
    let is_terminal = stderr.is_terminal();
    let (started, mut last_line) = (Instant::now(), Instant::now());
    let mut phase = Phase::Waiting;
    // Standard error may be closed.
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(DRAW) {
        let state = progress.state();
        let is_new = state.phase != phase;
        phase = state.phase;
        if is_terminal && phase != Phase::Waiting {
            let _ = write!(stderr, "{CLEAR}{}", line(&state, started));
        } else if last_line.elapsed() >= LINE || is_new && started.elapsed() >= LINE {
            // A short task prints nothing; a long task prints each phase.
            let line = line(&state, started);
            let _ = writeln!(stderr, "blocklist-compile: {line}");
            last_line = Instant::now();
        }
    }
    if is_terminal {
        let _ = write!(stderr, "{CLEAR}");
    }
}

/// Clears the line of a terminal.
const CLEAR: &str = "\r\x1b[K";

/// Describes the state in less than 80 columns: a longer line could not be cleared.
fn line(state: &State, started: Instant) -> String {
    let amount = |number| match state.phase.in_bytes() {
        true => size(number),
        false => grouped(number),
    };
    let mut line = state.phase.name().to_owned();
    if state.done > 0 {
        line += &format!(" {}", amount(state.done));
    }
    if state.done > 0 && state.total > 0 {
        let part = percent(state.done, state.total);
        line += &format!(" of {} ({})", amount(state.total), part.trim_start());
    }
    let seconds = started.elapsed().as_secs();
    if state.phase == Phase::Reading {
        let per_second = state.entries / seconds.max(1);
        line += &format!(", {} entries/s", grouped(per_second));
    }
    format!("{line}, {seconds} s")
}
