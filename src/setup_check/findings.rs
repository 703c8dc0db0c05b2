//! The findings, and how they are shown.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use blocklist_filter::base::access::{Account, Wish};
use blocklist_filter::base::numbers::counted;

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// As it should be.
    Good,
    /// Works, but could be better; or could not be checked.
    Notice,
    /// Mail is not checked, or is refused or delayed without need.
    Wrong,
}

/// One thing that was checked.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    /// The subject: `config`, `units`, `socket`, `postfix`, `sendmail`, `exim`.
    about: &'static str,
    #[serde(rename = "state")]
    severity: Severity,
    text: String,
    /// The command or setting that fixes it; empty if there is nothing to fix.
    remedy: String,
}

/// All findings.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// What the next ones are about.
    #[serde(skip)]
    about: &'static str,
    /// In the order in which they were made: units, configuration, mail server, sockets.
    findings: Vec<Finding>,
}

impl Findings {
    /// Returns whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        let is_wrong = |finding: &Finding| finding.severity == Severity::Wrong;
        self.findings.iter().any(is_wrong)
    }

    pub(super) fn len(&self) -> usize {
        self.findings.len()
    }

    /// Begins the findings about a subject.
    pub(super) fn about(&mut self, about: &'static str) -> &mut Self {
        self.about = about;
        self
    }

    pub(super) fn good(&mut self, text: impl Into<String>) {
        self.add(Severity::Good, text, "");
    }

    pub(super) fn notice(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Notice, text, remedy);
    }

    pub(super) fn wrong(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Severity::Wrong, text, remedy);
    }

    /// Reports whether a mail server's user, of this name in this setting, can open a socket, and returns it; `who`
    /// begins the texts.
    pub(super) fn may_connect(&mut self, who: &str, name: &str, of: &str, path: &Path) -> bool {
        let Some(account) = Account::named(name) else {
            let text = "is not in /etc/passwd: permissions are not checked";
            self.notice(format!("user {name} ({of}) {text}"), "");
            return true;
        };
        match account.obstacle(path, Wish::CONNECT) {
            Ok(None) => {
                let path = path.display();
                self.good(format!("{who}user {} can open {path}", account.name));
                return true;
            }
            Ok(Some(obstacle)) => {
                self.wrong(format!("{who}{}", obstacle.cause), obstacle.remedy);
            }
            Err(error) => self.notice(format!("{}: {error}", path.display()), ""),
        }
        false
    }

    pub(super) fn add(
        &mut self,
        severity: Severity,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding {
            about: self.about,
            severity,
            text: text.into(),
            remedy: match severity {
                Severity::Good => String::new(),
                Severity::Notice | Severity::Wrong => remedy.into(),
            },
        });
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let severity = match finding.severity {
                Severity::Good => "ok",
                Severity::Notice => "notice",
                Severity::Wrong => "WRONG",
            };
            writeln!(f, "{severity:<7} {:<9} {}", finding.about, finding.text)?;
            for line in finding.remedy.lines() {
                writeln!(f, "{:<17} {line}", "")?;
            }
        }
        let count = |severity| {
            let of_it = |finding: &&Finding| finding.severity == severity;
            self.findings.iter().filter(of_it).count()
        };
        let (good, wrong) = (count(Severity::Good), count(Severity::Wrong));
        let notices = counted(count(Severity::Notice) as u64, "notice", "notices");
        write!(f, "{good} ok, {notices}, {wrong} wrong")
    }
}
