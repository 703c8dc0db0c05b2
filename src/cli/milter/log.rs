//! `blocklist-milter log`: the last decisions, from the running daemon.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;

use super::status::{Place, ask};
use crate::base::paint::Painted;
use crate::cli::{Done, Output, say};
use crate::status::Log as Decisions;

/// How often a daemon is asked for new decisions.
const PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `log`.
#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    place: Place,
    /// Wait for new decisions, and show each, until interrupted.
    #[arg(long, short, conflicts_with = "json")]
    follow: bool,
    /// Only decisions of this list.
    #[arg(long, value_name = "NAME")]
    list: Option<String>,
    /// Only decisions with this action, such as reject or tag; accept for whitelisted and exempt senders.
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Print one JSON object instead of text, with the commands that undo each decision.
    #[arg(long)]
    json: bool,
    /// Only decisions with each of these words in a sender, recipient, client, case, source or reason.
    #[arg(value_name = "WORD")]
    words: Vec<String>,
}

impl Log {
    fn path(&self, after: u64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("q", &self.words.join(" "));
        query.append_pair("list", self.list.as_deref().unwrap_or_default());
        query.append_pair("action", self.action.as_deref().unwrap_or_default());
        query.append_pair("after", &after.to_string());
        format!("/log.json?{}", query.finish())
    }
}

pub(super) fn log(config: &Path, args: &Log, out: &mut Output) -> Done {
    let endpoint = args.place.endpoint(config)?;
    let mut log: Decisions = ask(&endpoint, &args.path(0))?;
    out.show_as(&log, Painted(&log, out.paint()), args.json)?;
    if !log.shows_addresses && !args.json {
        say(format_args!(
            "blocklist-milter: addresses are not shown: show_addresses in [status] is off"
        ));
    }
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        out.flush()?;
        thread::sleep(PAUSE);
        // A daemon that restarts answers again in a moment.
        let Ok(new) = ask::<Decisions>(&endpoint, &args.path(log.last)) else {
            continue;
        };
        // Without its state folder, it counts from the beginning again.
        let new = match new.last < log.last {
            true => ask(&endpoint, &args.path(0))?,
            false => new,
        };
        // A terminal may have another width by now.
        let paint = out.paint();
        write!(out, "{}", Painted(&new, paint))?;
        log = new;
    }
}
