//! Whether the milter and the mail server of this machine are set up to work together: `setup-check`.
//!
//! Each part looks at one thing and adds findings; nothing is changed. A finding that is wrong comes with the line
//! that fixes it. Where something cannot be asked (no systemd, no Postfix) a finding says so.
//!
//! | file | about |
//! |---|---|
//! | `units` | systemd: sockets, services, the units of each list |
//! | `lists` | configuration, filters and whitelists, as the service's user reads them; text lists that are newer |
//! | `postfix`, `postconf`, `main_cf` | Postfix: findings, what `postconf` says, how milters are written |
//! | `sendmail` | what `sendmail.cf` says |
//! | `findings`, `milter`, `program` | what was found; what a mail server must know; running programs |
//! | `connection` | the sockets, and one message played over the first |
//!
//! An administrator's command: unlike the daemon it runs other programs.

mod connection;
mod findings;
mod lists;
mod main_cf;
mod milter;
mod postconf;
mod postfix;
mod program;
mod sendmail;
mod units;

use std::path::{Path, PathBuf};

use crate::config::Config;
pub use findings::{Finding, Findings, State};
use milter::Milter;

/// Where to look; what is not said is looked for in its usual place.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The milter's configuration.
    pub config: PathBuf,
    /// Folder of Postfix's `main.cf`.
    pub postfix: Option<PathBuf>,
    /// Sendmail's `sendmail.cf`.
    pub sendmail: Option<PathBuf>,
}

/// Looks at everything.
pub fn run(places: &Places) -> Findings {
    let mut findings = Findings::default();
    let (config, _) = Config::load_what_is_good(&places.config);
    let units = units::look(&mut findings);
    lists::look(&places.config, &config, &units, &mut findings);
    let sockets = if units.sockets.is_empty() {
        config.listen.clone()
    } else {
        units.sockets.clone()
    };
    connection::look(&sockets, &mut findings);
    let milter = Milter {
        config: &config,
        sockets: &sockets,
    };
    let mut servers = 0;
    if let Some(postfix) = postconf::Postconf::find(places.postfix.as_deref()) {
        servers += 1;
        postfix::look(&postfix, &milter, &mut findings);
    }
    let cf = places.sendmail.as_deref();
    let cf = cf.unwrap_or_else(|| Path::new(sendmail::USUAL_CF));
    if places.sendmail.is_some() || cf.exists() {
        servers += 1;
        sendmail::look(cf, &milter, &mut findings);
    }
    if servers == 0 {
        findings.notice(
            "postfix",
            "neither Postfix (postconf) nor Sendmail (/etc/mail/sendmail.cf) is installed here",
            "",
        );
    }
    connection::play(&sockets, &mut findings);
    findings
}
