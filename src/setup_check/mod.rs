//! Checks whether the milter and the mail server of this machine are configured to work together:
//! `setup-check`.
//!
//! Each part checks one thing and adds findings; nothing is changed. A finding that is wrong has
//! the line that fixes it. If something cannot be checked (no systemd, no Postfix), a finding says
//! so.
//!
//! | file | about |
//! |---|---|
//! | `units` | systemd: sockets, services, the units of each list; what a mail server must know |
//! | `lists` | configuration, filters and whitelists, as the service's user reads them; whether text lists are newer |
//! | `postfix`, `mend` | Postfix: what it asks, the milters that it names, what it should name |
//! | `postconf` | output of `postconf`, notation of milters |
//! | `sendmail` | the settings in `sendmail.cf` |
//! | `exim` | the ACLs, which ask by the policy protocol |
//! | `findings`, `program` | the findings; running programs |
//! | `ask` | asking a milter, and the mail server: whether the daemon is reached |
//!
//! This is an administrator's command: unlike the daemon, it runs other programs.

mod ask;
mod exim;
mod findings;
mod lists;
mod mend;
mod postconf;
mod postfix;
mod program;
mod sendmail;
mod units;

use std::path::Path;

use crate::config::Config;
use crate::endpoint::Door;
pub use findings::Findings;
pub use lists::stray_lists;
use units::Milter;

/// Runs all checks, for this configuration of the milter, the folder of Postfix's `main.cf`, Sendmail's `sendmail.cf`,
/// and Exim's configuration. Those of mail servers are searched in their usual places, if not given.
pub fn run(config_path: &Path, [postfix, sendmail, exim]: [Option<&Path>; 3]) -> Findings {
    let mut findings = Findings::default();
    let (config, problems) = Config::load_what_is_good(config_path);
    let mut milter = Milter {
        config,
        ..Milter::default()
    };
    units::check(&mut milter, findings.about("units"));
    lists::check(config_path, &milter, findings.about("config"));
    if milter.sockets.is_empty() {
        if problems.is_some() {
            findings.about("socket").notice(
                "sockets and mail server are not checked, because the configuration, which names the socket, has errors",
                "correct the configuration, or name it with --config",
            );
            return findings;
        }
        milter.sockets = milter.listen(Door::Milter);
    }
    let before = findings.len();
    postfix::check(postfix, &milter, findings.about("postfix"));
    sendmail::check(sendmail, &milter, findings.about("sendmail"));
    exim::check(exim, &milter, findings.about("exim"));
    // Each of them has findings, if it is installed.
    if findings.len() == before {
        findings.about("postfix").notice(
            "neither Postfix (postconf) nor Sendmail (/etc/mail/sendmail.cf) nor Exim is installed here",
            "",
        );
    }
    ask::check_daemon(&milter, findings.about("socket"));
    findings
}
