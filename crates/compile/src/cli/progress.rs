//! Shows the progress of a long task, and handles the signals that end it.
//!
//! On a terminal there is a bar; elsewhere a line from time to time, for logs. A separate thread
//! draws them from the counters of [`Progress`], to which the workers only add.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::compile::{Error, Phase, Progress, State};

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);
/// How often a line is printed where there is no terminal.
const LINE: Duration = Duration::from_secs(10);

/// Runs a task and shows its progress, unless `quiet`. From now on SIGINT, SIGTERM and SIGHUP end the task
/// cleanly, and a second signal ends the program immediately.
pub(super) fn watched<T>(
    quiet: bool,
    task: impl FnOnce(&Progress) -> Result<T, Error>,
) -> Result<T, Error> {
    let progress = Progress::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let failed = Error::io(Path::new("signals"), "be watched");
        // The order matters: the second signal must find the flag that the first one set.
        signal_hook::flag::register_conditional_default(signal, progress.stop_flag())
            .and_then(|_| signal_hook::flag::register(signal, progress.stop_flag()))
            .map_err(failed)?;
    }
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        // It ends the drawing, also if the task panics.
        let _stop: Sender<()> = stop;
        if !quiet {
            // Without a thread, nothing is drawn.
            let progress = &progress;
            let drawing = move || draw(progress, &stopped);
            let _ = thread::Builder::new().spawn_scoped(scope, drawing);
        }
        task(&progress)
    })
}

fn draw(progress: &Progress, stopped: &Receiver<()>) {
    let bar = io::stderr()
        .is_terminal()
        .then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
    let started = Instant::now();
    let mut phase = Phase::Waiting;
    let mut last_line = Instant::now();
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(DRAW) {
        let state = progress.state();
        match &bar {
            Some(bar) if state.phase != Phase::Waiting => {
                if state.phase != phase {
                    bar.reset();
                    bar.set_style(style(&state));
                    bar.set_prefix(state.phase.name());
                }
                if state.total > 0 {
                    bar.set_length(state.total);
                }
                bar.set_position(state.done);
                bar.set_message(rate(&state, started));
                bar.tick();
            }
            // A short task prints nothing; a long task prints each phase.
            None if last_line.elapsed() >= LINE
                || state.phase != phase && started.elapsed() >= LINE =>
            {
                // Standard error may be closed.
                let _ = writeln!(io::stderr(), "blocklist-compile: {}", line(&state, started));
                last_line = Instant::now();
            }
            _ => {}
        }
        phase = state.phase;
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn style(state: &State) -> ProgressStyle {
    // One line of 80 columns: a line that wraps cannot be redrawn.
    let counts = match (state.phase.in_bytes(), state.total > 0) {
        (true, true) => "{wide_bar} {bytes}/{total_bytes} {msg} {eta} left",
        (true, false) => "{spinner} {bytes} {msg}",
        (false, true) => "{wide_bar} {human_pos}/{human_len} entries, {eta} left",
        (false, false) => "{spinner} {elapsed}",
    };
    ProgressStyle::with_template(&format!("{{prefix:>8}} {counts}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Returns the entries per second, while they are read.
fn rate(state: &State, started: Instant) -> String {
    if state.phase != Phase::Reading {
        return String::new();
    }
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let per_second = state.entries.saturating_mul(1_000) / ms.max(1);
    format!("{} entries/s", HumanCount(per_second))
}

fn line(state: &State, started: Instant) -> String {
    let amount = |number| match state.phase.in_bytes() {
        true => HumanBytes(number).to_string(),
        false => HumanCount(number).to_string(),
    };
    let mut line = state.phase.name().to_owned();
    if state.done > 0 {
        line += &format!(" {}", amount(state.done));
        if state.total > 0 {
            line += &format!(" of {}", amount(state.total));
        }
    }
    if state.phase == Phase::Reading {
        line += &format!(", {}", rate(state, started));
    }
    format!("{line}, {} s", started.elapsed().as_secs())
}
