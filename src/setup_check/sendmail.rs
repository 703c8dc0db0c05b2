//! Checks Sendmail: the milters in `sendmail.cf`, which is built from `sendmail.mc`.
//!
//! ```text
//!   O DaemonPortOptions=Name=MTA, Addr=127.0.0.1, Port=smtp
//!   O InputMailFilters=blocklist
//!   Xblocklist, S=unix:/run/blocklist-milter/milter.sock, T=C:5s;S:10s;R:10s;E:1m
//! ```

use std::path::Path;

use super::connection::silence;
use super::findings::About;
use super::main_cf::time;
use super::smtp;
use super::units::{Milter, answers_too_late};
use crate::base::whole_file::{self, FileError};
use crate::endpoint::Endpoint;

/// The usual path of the file.
pub(super) const USUAL_CF: &str = "/etc/mail/sendmail.cf";

/// Largest file that is read.
const CF_MAX_BYTES: u64 = 16 << 20;

/// Returns how to name the daemon, as `contrib/sendmail.mc` does.
fn remedy(milter: &Milter<'_>) -> String {
    let usual = "unix:/run/blocklist-milter/milter.sock".to_owned();
    let socket = milter.sockets.first().map_or(usual, ToString::to_string);
    format!(
        "in sendmail.mc, before the MAILER lines; then make -C /etc/mail, and restart Sendmail:\n\
         INPUT_MAIL_FILTER(`blocklist', `S={socket}, T=C:5s;S:10s;R:10s;E:1m')dnl"
    )
}

pub(super) fn check(cf: &Path, milter: &Milter<'_>, findings: &mut About<'_>) {
    let read = whole_file::read(cf, CF_MAX_BYTES, "a configuration");
    let missing = || FileError::of(cf)("no such file");
    let text = match read.and_then(|text| text.ok_or_else(missing)) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => {
            return findings.notice(error.to_string(), "name sendmail.cf with --sendmail");
        }
    };
    let filters: Vec<Filter<'_>> = text.lines().filter_map(Filter::parse).collect();
    let is_ours = |filter: &&Filter<'_>| {
        let socket: Result<Endpoint, _> = filter.equate("S").parse();
        let mut ours = milter.sockets.iter();
        socket.is_ok_and(|socket| ours.any(|ours| socket.leads_to(ours)))
    };
    check_filters(cf, &text, &filters, is_ours, milter, findings);
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    let exempt = &milter.config.exempt.networks;
    if !exempt.iter().any(|network| network.contains(loopback)) {
        findings.wrong(
            "mail that this machine submits comes from 127.0.0.1, which networks does not exempt: refused, it is \
             bounced to a sender that may be forged",
            "networks = [\"127.0.0.1\", \"::1\"] in [exempt] of blocklist-milter.toml",
        );
    }
    let server = smtp::Server {
        start: "systemctl start sendmail",
        reload: "systemctl restart sendmail",
        has_exceptions: false,
    };
    for door in doors(&text) {
        smtp::check(&door, &server, findings);
    }
}

/// A mail filter: `Xname, S=socket, F=T, T=R:10s`.
struct Filter<'c> {
    name: &'c str,
    equates: &'c str,
}

impl<'c> Filter<'c> {
    fn parse(line: &'c str) -> Option<Self> {
        let (name, equates) = line.strip_prefix('X')?.split_once(',')?;
        let name = name.trim();
        Some(Self { name, equates })
    }

    fn equate(&self, name: &str) -> &'c str {
        equate(self.equates, name).unwrap_or_default()
    }
}

fn equate<'c>(equates: &'c str, name: &str) -> Option<&'c str> {
    let mut equates = equates
        .split(',')
        .filter_map(|one| one.trim().split_once('='));
    equates.find_map(|(key, value)| (key == name).then_some(value))
}

/// Returns where Sendmail accepts mail other than submission, as this machine reaches it.
fn doors(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("O DaemonPortOptions="));
    let door = |line| {
        let option = |name, default| equate(line, name).unwrap_or(default);
        let port = match option("Port", "25") {
            "smtp" => "25",
            "submission" | "587" | "submissions" | "smtps" | "465" => return None,
            port => port,
        };
        match option("Addr", "127.0.0.1") {
            address if address.contains(':') || option("Family", "inet") != "inet" => None,
            "0.0.0.0" => Some(format!("127.0.0.1:{port}")),
            address => Some(format!("{address}:{port}")),
        }
    };
    lines.filter_map(door).collect()
}

/// Checks whether Sendmail asks the daemon, and whether every milter that it asks answers.
fn check_filters(
    cf: &Path,
    text: &str,
    filters: &[Filter<'_>],
    is_ours: impl Fn(&&Filter<'_>) -> bool,
    milter: &Milter<'_>,
    findings: &mut About<'_>,
) {
    let chain = text
        .lines()
        .find_map(|line| line.strip_prefix("O InputMailFilters="));
    let chain: Vec<&str> = chain
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .collect();
    let (ours, others): (Vec<_>, Vec<_>) = filters.iter().partition(is_ours);
    for other in others {
        let socket = other.equate("S");
        if chain.contains(&other.name)
            && let Some(why) = silence(socket.parse())
        {
            let text = format!("{}: {socket} does not answer ({why})", other.name);
            findings.wrong(text, "start it, or remove its INPUT_MAIL_FILTER");
        }
    }
    let Some(ours) = ours.first() else {
        let text = "no mail filter has the milter's socket: no mail is checked";
        return findings.wrong(format!("{}: {text}", cf.display()), remedy(milter));
    };
    if chain.contains(&ours.name) {
        let text = format!("InputMailFilters asks {}", chain.join(", then "));
        findings.good(text);
    } else {
        let text = format!("InputMailFilters does not name {}", ours.name);
        findings.wrong(text + ": no mail is checked", remedy(milter));
    }
    check_own(ours, findings);
}

/// Checks what happens to mail while the daemon is down or is restarted.
fn check_own(ours: &Filter<'_>, findings: &mut About<'_>) {
    match ours.equate("F") {
        "" => findings.good("no F= flag: while the milter is down, mail passes unchecked"),
        flags @ ("T" | "4") => {
            findings.good(format!("F={flags}: while the milter is down, senders wait"));
        }
        flags => findings.wrong(
            format!("F={flags}: while the milter is down, all mail is refused for good"),
            "F=T, or no F=, in INPUT_MAIL_FILTER",
        ),
    }
    // The timeout for reading an answer is 10 seconds by default.
    let mut times = ours.equate("T").split(';');
    let reading = times
        .find_map(|part| part.trim().strip_prefix("R:"))
        .unwrap_or("10s");
    if let Some(why) = time(reading).and_then(answers_too_late) {
        findings.wrong(
            format!("T=R:{reading} {why}"),
            "T=R:10s in INPUT_MAIL_FILTER",
        );
    }
}
