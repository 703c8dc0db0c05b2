//! Checks Exim: whether its ACLs ask the daemon by the policy protocol, at RCPT and after DATA, as those of
//! `contrib/exim` do.
//!
//! `exim -bP config` prints the configuration as Exim reads it: with its macros and included files, and each
//! statement on one line.
//!
//! ```text
//! set acl_m_blocklist = ${sg{${readsocket{/run/blocklist-milter/policy.sock}{request=smtpd_access_policy\n
//!     protocol_state=RCPT\n ... \n\n}{30s}{ }{action=451 4.3.0 try again later}}}...
//! ```
//!
//! No test transaction is made: Debian's ACL accepts those of this machine before it asks.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::findings::{Findings, Severity};
use super::mend::inet;
use super::program::{PATIENCE, Program, within};
use super::units::{self, Milter};
use crate::demo::peer::connect;
use crate::endpoint::Endpoint;
use crate::screen::Trial;

const GUIDE: &str = "docs/exim.md has the lines; then update-exim4.conf, and restart Exim";

/// Most bytes of an answer: a reply has less.
const ANSWER_MAX_BYTES: u64 = 16 << 10;

/// Checks Exim, if it is installed.
pub(super) fn check(configuration: Option<&Path>, milter: &Milter, findings: &mut Findings) {
    let found = Program::find("exim4").or_else(|| Program::find("exim"));
    let Some(exim) = found.map(|found| found.with("-C", configuration)) else {
        return;
    };
    units::check_policy(milter, findings);
    let policy = milter.policy();
    if policy.is_empty() && !milter.has_units {
        return findings.wrong(
            "Exim has no milters, and the daemon answers no policy requests: no mail is checked",
            "\"policy:unix:/run/blocklist-milter/policy.sock\" in listen of blocklist-milter.toml, and a restart of the daemon",
        );
    }
    let text = match exim.output(&["-bP", "config"]) {
        Ok(text) => text,
        Err(error) => {
            let text = format!("Exim cannot read its configuration, and will not start: {error}");
            return findings.wrong(text, "exim -bV   # as root");
        }
    };
    check_daemon(&exim, findings);
    for (stage, of) in [("RCPT", "the envelope"), ("DATA", "the headers")] {
        check_stage(stage, of, &text, &policy, findings);
    }
    for at in &policy {
        check_socket(at, &exim, milter, findings);
    }
}

/// Checks whether Exim's daemon runs, which writes its number to a file when it starts or is told to reload.
fn check_daemon(exim: &Program, findings: &mut Findings) {
    let setting = |name| {
        let said = exim.output(&["-bP", name]).unwrap_or_default();
        let value = said.trim().rsplit('=').next().unwrap_or_default();
        PathBuf::from(value.trim())
    };
    let (mut file, configuration) = (setting("pid_file_path"), setting("configure_file"));
    if file.as_os_str().is_empty() {
        file = setting("spool_directory").join("exim-daemon.pid");
    }
    // Anybody may read this, but not the link to the program. What has ended may be there as a zombie.
    let is_exim = |process: String| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.trim()));
        stat.is_ok_and(|stat| stat.contains(" (exim") && !stat.contains(") Z "))
    };
    if !fs::read_to_string(&file).is_ok_and(is_exim) {
        let text = format!("Exim's daemon does not run, as {} says", file.display());
        return findings.wrong(text, "systemctl start exim4");
    }
    let changed = |path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if changed(&configuration) > changed(&file) {
        let text = format!("{} is newer than the running Exim", configuration.display());
        findings.notice(text, "systemctl restart exim4");
    }
}

/// Finds in a line the question of an ACL at this stage: the socket, and what counts as the answer while there is none.
fn question<'c>(line: &'c str, stage: &str) -> Option<(&'c str, &'c str)> {
    let between = |before: &str, after: &str| {
        let (_, rest) = line.split_once(before)?;
        rest.split_once(after).map(|(between, _)| between)
    };
    between("{request=smtpd_access_policy", "}")?;
    let is_here = between("protocol_state=", "\\n") == Some(stage);
    let while_down = between("}{ }{", "}").unwrap_or_default();
    Some((between("readsocket{", "}")?, while_down)).filter(|_| is_here)
}

/// Checks whether the ACL of a stage asks the daemon about the senders in `of`.
fn check_stage(
    stage: &str,
    of: &str,
    configuration: &str,
    policy: &[Endpoint],
    findings: &mut Findings,
) {
    let lines = configuration.lines();
    let asked: Vec<_> = lines.filter_map(|line| question(line, stage)).collect();
    let is_ours = |(socket, _): &&(&str, &str)| {
        let at = match socket.starts_with("inet:") {
            true => socket.parse().ok(),
            false => Some(Endpoint::Unix(socket.into())),
        };
        at.is_some_and(|at| policy.iter().any(|ours| at.leads_to(ours)))
    };
    match (asked.iter().find(is_ours), asked.first()) {
        (Some((socket, action)), _) => {
            findings.good(format!("at {stage}, the ACL asks {socket}"));
            let (state, what) = match action.strip_prefix("action=") {
                None => (
                    Severity::Notice,
                    "senders wait, because BLOCKLIST_DOWN does not begin with action=",
                ),
                Some(code) if code.starts_with('4') => (Severity::Good, "senders wait"),
                Some(code) if code.starts_with('5') => {
                    (Severity::Wrong, "all mail is refused for good")
                }
                Some(_) => (Severity::Good, "mail passes unchecked"),
            };
            let text = format!("at {stage}, while the daemon does not answer: {what}");
            findings.add(state, text, GUIDE);
        }
        (None, Some((socket, _))) => {
            let ours = match policy.first() {
                Some(Endpoint::Inet { host, port, v6 }) => inet(host, *port, *v6),
                Some(Endpoint::Unix(path)) => path.display().to_string(),
                // Why there is none is said already.
                None => return,
            };
            findings.wrong(
                format!("at {stage}, the ACL asks {socket}, where the daemon does not listen: senders in {of} are not checked"),
                format!("BLOCKLIST_SOCKET = {ours} in exim4.conf.localmacros"),
            );
        }
        (None, None) => findings.wrong(
            format!("no ACL asks at {stage}: senders in {of} are not checked"),
            GUIDE,
        ),
    }
}

/// Checks whether the daemon answers, and whether Exim's user can open its socket.
fn check_socket(at: &Endpoint, exim: &Program, milter: &Milter, findings: &mut Findings) {
    let asked = at.clone();
    if let Err(why) = within(PATIENCE, move || ask(&asked)) {
        findings.wrong(format!("{at} does not answer: {why}"), milter.start());
    } else if let Endpoint::Unix(path) = at {
        let user = exim.output(&["-bP", "exim_user"]).unwrap_or_default();
        let user = user.trim().trim_start_matches("exim_user = ");
        findings.may_connect("", user, "exim_user", path);
    }
}

/// Asks the daemon about a sender that is used once.
fn ask(at: &Endpoint) -> io::Result<()> {
    let trial = Trial::random()?;
    let sender = trial.mail_from();
    let sender = sender.trim_matches(['<', '>']);
    let request = format!(
        "request=smtpd_access_policy\nprotocol_state=RCPT\nsender={sender}\nrecipient=postmaster\n\n"
    );
    let mut stream = connect(at)?;
    stream.write_all(request.as_bytes())?;
    let mut said = String::new();
    BufReader::new(stream.take(ANSWER_MAX_BYTES)).read_line(&mut said)?;
    match trial.outcome(&said) {
        Some(_) => Ok(()),
        None => Err(io::Error::other("something else listens there")),
    }
}
