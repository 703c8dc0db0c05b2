//! The state of the running daemon: one [`Report`], shown in several ways.
//!
//! ```text
//!  snapshot, counters, connections, log --> Report --+-- /metrics       prometheus
//!                                                    +-- /status.json
//!  decisions --> Log --> /log, /log.json, a terminal  log
//!                                                    +-- /, a page      page
//!                                                    +-- a terminal     text
//! ```
//!
//! `check` examines the files that a start would read, and asks the running daemon through a `file`, as `reload` does.
//!
//! `/healthz` answers as long as the program runs, `/readyz` only if mail is checked as configured.

mod chart;
mod check;
mod file;
mod history;
mod html;
mod log;
mod page;
mod prometheus;
mod report;
mod source;
mod text;
mod words;

use serde::Serialize;

use crate::daemon::{Asker, Page};
pub use crate::snapshot::Health;
pub(crate) use check::{CheckProblem, Checked, check, closed_doors};
pub(crate) use file::{AskedReload, Running, StatusFile, is_running, monotonic_us};
use html::page_of;
pub use log::Log;
use log::Search;
pub use report::Report;
pub use source::Status;

fn json(report: &impl Serialize) -> Page {
    match serde_json::to_string(report) {
        Ok(body) => page_of("application/json", body),
        Err(error) => Page::text(500, format!("{error}\n")),
    }
}

impl Status {
    /// Returns the page for a path of the status socket.
    pub fn page(&self, asked: &str, asker: Asker) -> Page {
        let (path, query) = asked.split_once('?').unwrap_or((asked, ""));
        let shows = self.shows_addresses(asker);
        match path {
            "/" => page::page(&self.report(shows)),
            "/metrics" => page_of(
                prometheus::MEDIA_TYPE,
                prometheus::render(&self.report(false)),
            ),
            "/status.json" => json(&self.report(shows)),
            "/log" => {
                let search = Search::read(query);
                log::page(&search, &self.log(&search, shows))
            }
            "/log.json" => json(&self.log(&Search::read(query), shows)),
            "/healthz" => Page::text(200, "ok\n"),
            "/readyz" => self.readiness(),
            _ => Page::text(
                404,
                "not found; there are /, /log, /log.json, /explain, /status.json, /metrics, /healthz and /readyz\n",
            ),
        }
    }

    fn readiness(&self) -> Page {
        let mut critical = self.live.problems();
        critical.retain(|problem| problem.severity == Health::Critical);
        let lines = critical.iter().map(|one| format!("{}\n", one.text));
        let lines: String = lines.collect();
        if lines.is_empty() {
            Page::text(200, "ok\n")
        } else {
            Page::text(503, lines)
        }
    }
}
