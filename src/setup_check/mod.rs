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
    let mut units = units::check(&mut findings.about("units"));
    lists::check(config_path, &config, &units, &mut findings);
    if problems.is_some() && units.sockets.is_empty() {
        findings.about("socket").notice(
            "sockets and mail server are not checked, because the configuration, which names the socket, has errors",
            "correct the configuration, or name it with --config",
        );
        return findings;
    }
    if units.sockets.is_empty() {
        let listen = config.listen.iter();
        let milters = listen.filter(|one| one.door == Door::Milter);
        units.sockets.extend(milters.map(|one| one.at.clone()));
    }
    let milter = Milter {
        config: &config,
        units: &units,
    };
    let mut servers = 0;
    if let Some(found) = postconf::Postconf::find(postfix) {
        servers += 1;
        let findings = &mut findings.about("postfix");
        match found {
            Ok(postfix) => postfix::check(&postfix, &milter, findings),
            Err(error) => findings.notice(
                format!("not checked, because postconf cannot read the configuration: {error}"),
                "postfix check   # with -c DIR if --postfix names a folder",
            ),
        }
    }
    let cf = sendmail.unwrap_or_else(|| Path::new(sendmail::USUAL_CF));
    if sendmail.is_some() || cf.exists() {
        servers += 1;
        sendmail::check(cf, &milter, &mut findings.about("sendmail"));
    }
    if let Some(exim) = exim::find(exim) {
        servers += 1;
        exim::check(&exim, &milter, &mut findings.about("exim"));
    }
    if servers == 0 {
        findings.about("postfix").notice(
            "neither Postfix (postconf) nor Sendmail (/etc/mail/sendmail.cf) nor Exim is installed here",
            "",
        );
    }
    ask::check_daemon(&units, &mut findings.about("socket"));
    findings
}
