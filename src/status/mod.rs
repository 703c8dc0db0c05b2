//! What the running daemon says of itself: one [`Report`], shown in several ways.
//!
//! ```text
//!  snapshot, counters, connections, log --> Report --+-- /metrics       prometheus
//!                                                    +-- /status.json
//!                                                    +-- /, a page      page
//!                                                    +-- a terminal     text
//! ```
//!
//! `/healthz` answers as long as the program runs, `/readyz` only while mail is checked as configured.

mod history;
mod page;
mod prometheus;
mod report;
mod text;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::daemon::{Page, Traffic};
use crate::metrics::Counter;
use crate::snapshot::Live;
use history::History;
pub use history::Minute;
use report::verdict_name;
pub use report::{
    Connections, Counts, Durations, Filter, Health, List, Messages, Problem, Refused, Reloads,
    Report,
};

/// Where the report comes from.
pub struct Status {
    live: Arc<Live>,
    traffic: Arc<Traffic>,
    log_lines_lost: Arc<Counter>,
    history: Mutex<History>,
}

impl Status {
    /// Reports on these.
    pub fn new(live: Arc<Live>, traffic: Arc<Traffic>, log_lines_lost: Arc<Counter>) -> Self {
        Self {
            live,
            traffic,
            log_lines_lost,
            history: Mutex::default(),
        }
    }

    /// The page at a path of the status socket.
    pub fn page(&self, path: &str) -> Page {
        match path {
            "/" => Page {
                code: 200,
                media_type: "text/html; charset=utf-8",
                body: page::Html(&self.report()).to_string(),
            },
            "/metrics" => Page {
                code: 200,
                media_type: prometheus::MEDIA_TYPE,
                body: prometheus::render(&self.report()),
            },
            "/status.json" => match serde_json::to_string(&self.report()) {
                Ok(body) => Page {
                    code: 200,
                    media_type: "application/json",
                    body,
                },
                Err(error) => Page::text(500, format!("{error}\n")),
            },
            "/healthz" => Page::text(200, "ok\n"),
            "/readyz" => self.readiness(),
            _ => Page::text(
                404,
                "not found; there are /, /status.json, /metrics, /healthz and /readyz\n",
            ),
        }
    }

    /// Whether mail is checked as configured.
    fn readiness(&self) -> Page {
        let complaints = self.live.complaints();
        let critical = complaints.iter().filter(|complaint| complaint.is_critical);
        let lines: String = critical.map(|one| format!("{}\n", one.text)).collect();
        if lines.is_empty() {
            Page::text(200, "ok\n")
        } else {
            Page::text(503, lines)
        }
    }

    /// Notes what has been counted since the last time.
    pub fn tick(&self) {
        drop(self.sample());
    }

    /// The last day up to now.
    fn sample(&self) -> MutexGuard<'_, History> {
        let counters = &self.live.counters;
        let verdicts = counters.verdicts.iter();
        let verdicts = verdicts.map(|(verdict, count)| (verdict_name(verdict).to_owned(), count));
        let snapshot = self.live.snapshot();
        let lists = snapshot.policy.lists().iter().zip(&snapshot.counts);
        let lists = lists.map(|(list, counts)| (list.name().to_owned(), counts.list.hits.sum()));
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.sample(now_s(), verdicts.collect(), &lists.collect());
        history
    }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_secs())
}
