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
//! | `connection` | the sockets, and one message played over the first |
//!
//! An administrator's command: unlike the daemon it runs other programs.

mod connection;
mod lists;
mod main_cf;
mod postconf;
mod postfix;
mod sendmail;
mod units;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::numbers::counted;

/// How something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Good,
    /// Works, and could be better; or could not be looked at.
    Notice,
    /// Mail is not checked, or is refused or delayed without need.
    Wrong,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: `config`, `units`, `socket`, `postfix`, `sendmail`, `message`.
    pub about: &'static str,
    /// How it was found.
    pub state: State,
    /// What was found.
    pub text: String,
    /// The command, or the setting, that fixes it; empty if there is nothing to fix.
    pub remedy: String,
}

/// All findings.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// In the order of a message's way: configuration, units, sockets, mail server, a message.
    pub findings: Vec<Finding>,
}

impl Findings {
    /// Whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.state == State::Wrong)
    }

    fn good(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(about, State::Good, text, "");
    }

    fn notice(&mut self, about: &'static str, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(about, State::Notice, text, remedy);
    }

    fn wrong(&mut self, about: &'static str, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(about, State::Wrong, text, remedy);
    }

    fn add(
        &mut self,
        about: &'static str,
        state: State,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding {
            about,
            state,
            text: text.into(),
            remedy: remedy.into(),
        });
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let state = match finding.state {
                State::Good => "ok",
                State::Notice => "notice",
                State::Wrong => "WRONG",
            };
            writeln!(f, "{state:<7} {:<9} {}", finding.about, finding.text)?;
            for line in finding.remedy.lines() {
                writeln!(f, "{:<17} {line}", "")?;
            }
        }
        let count = |state| {
            let of_state = |finding: &&Finding| finding.state == state;
            self.findings.iter().filter(of_state).count()
        };
        write!(
            f,
            "{} ok, {}, {} wrong",
            count(State::Good),
            counted(count(State::Notice) as u64, "notice", "notices"),
            count(State::Wrong)
        )
    }
}

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

/// What a mail server is compared with.
struct Milter<'a> {
    config: &'a Config,
    sockets: &'a [Endpoint],
}

/// What a program prints; `None` if it cannot be run or fails.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program, also in the folders of administrators' programs, which a user's `PATH` may lack.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
