//! `blocklist-milter status`: asks the running daemon for its state.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::de::DeserializeOwned;

use crate::base::paint::Painted;
use crate::cli::{Done, Output};
use crate::config::Config;
use crate::daemon::fetch;
use crate::endpoint::Endpoint;
use crate::setup_check::stray_lists;
use crate::status::{Health, Report};

/// Where the running daemon answers.
#[derive(Debug, Args)]
pub struct Place {
    /// Ask at this address, such as unix:/run/x.sock or inet:9642@127.0.0.1 [default: `listen` in section `status` of the
    /// configuration].
    #[arg(long, value_name = "ADDRESS")]
    pub socket: Option<Endpoint>,
}

impl Place {
    pub(super) fn endpoint(&self, config: &Path) -> Result<Endpoint, Box<dyn Error>> {
        match &self.socket {
            Some(endpoint) => Ok(endpoint.clone()),
            None => configured(config),
        }
    }
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn status(config: &Path, args: &Status, out: &mut Output) -> Done {
    let mut report: Report = ask(&args.place.endpoint(config)?, "/status.json")?;
    if args.place.socket.is_none() {
        // What no daemon reads, and nobody would miss until a listed sender passes.
        for stray in stray_lists(config) {
            report.warn(stray);
        }
    }
    out.show_as(&report, Painted(&report, out.paint()), args.json)?;
    Ok(ExitCode::from(match report.health {
        Health::Ok => 0,
        Health::Warning => 1,
        Health::Critical => 2,
    }))
}

/// Asks the daemon for the JSON at a path.
pub(super) fn ask<T: DeserializeOwned>(
    endpoint: &Endpoint,
    path: &str,
) -> Result<T, Box<dyn Error>> {
    let (code, body) = fetch(endpoint, path).map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "members of the socket's group may read it, see group in [status]"
            }
            _ => "is it running? (systemctl status blocklist-milter)",
        };
        format!("{endpoint}: no answer from the daemon: {error}; {advice}")
    })?;
    let answer = (code == 200).then(|| serde_json::from_slice(&body).ok());
    Ok(answer.flatten().ok_or_else(|| {
        format!("{endpoint}: answered with HTTP {code}, not as this version does")
    })?)
}

/// Returns the configured endpoint. The configuration may have an error now although the daemon
/// runs.
fn configured(config: &Path) -> Result<Endpoint, Box<dyn Error>> {
    let (settings, fault) = Config::load_what_is_good(config);
    if let Some(fault @ crate::config::Error::Unreadable { .. }) = fault {
        return Err(fault.into());
    }
    let none = || {
        format!(
            "{}: [status] listen is \"\": there is no status socket",
            config.display()
        )
    };
    Ok(settings.status.listen.ok_or_else(none)?)
}
