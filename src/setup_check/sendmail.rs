//! Checks Sendmail: the milters in `sendmail.cf`, which is built from `sendmail.mc`.
//!
//! ```text
//!   O DaemonPortOptions=Name=MTA, Addr=127.0.0.1, Port=smtp
//!   O InputMailFilters=blocklist
//!   Xblocklist, S=unix:/run/blocklist-milter/milter.sock, T=C:5s;S:10s;R:10s;E:1m
//! ```

use std::path::Path;

use super::ask::{Server, check_server, silence};
use super::findings::Findings;
use super::postconf::time;
use super::units::{Milter, answers_too_late};
use crate::endpoint::Endpoint;
use blocklist_filter::base::whole_file::{self, FileError};

/// The usual path of the file.
const USUAL_CF: &str = "/etc/mail/sendmail.cf";

/// Largest file that is read.
const CF_MAX_BYTES: u64 = 16 << 20;

/// Returns how to name the daemon, as `contrib/sendmail.mc` does.
fn remedy(milter: &Milter) -> String {
    let usual = "unix:/run/blocklist-milter/milter.sock".to_owned();
    let socket = milter.sockets.first().map_or(usual, ToString::to_string);
    format!(
        "in sendmail.mc, before the MAILER lines; then make -C /etc/mail, and restart Sendmail:\n\
         INPUT_MAIL_FILTER(`blocklist', `S={socket}, T=C:5s;S:10s;R:10s;E:1m')dnl"
    )
}

/// Checks Sendmail, if it is installed, or if its configuration is given.
pub(super) fn check(given: Option<&Path>, milter: &Milter, findings: &mut Findings) {
    let cf = given.unwrap_or_else(|| Path::new(USUAL_CF));
    if given.is_none() && !cf.exists() {
        return;
    }
    let read = whole_file::read(cf, CF_MAX_BYTES, "a configuration");
    let missing = || FileError::of(cf)("no such file");
    let text = match read.and_then(|text| text.ok_or_else(missing)) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => {
            return findings.notice(error.to_string(), "name sendmail.cf with --sendmail");
        }
    };
    check_filters(cf, &text, milter, findings);
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    let exempt = &milter.config.exempt.networks;
    if !exempt.iter().any(|network| network.contains(loopback)) {
        findings.wrong(
            "mail that this machine submits comes from 127.0.0.1, which networks does not exempt: refused, it is \
             bounced to a sender that may be forged",
            "networks = [\"127.0.0.1\", \"::1\"] in [exempt] of blocklist-milter.toml",
        );
    }
    let server = Server {
        start: "systemctl start sendmail",
        reload: "systemctl restart sendmail",
        has_exceptions: false,
    };
    for door in doors(&text) {
        check_server(&door, &server, findings);
    }
}

/// Finds `T=R:10s` in `S=socket, F=T, T=R:10s`.
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
fn check_filters(cf: &Path, text: &str, milter: &Milter, findings: &mut Findings) {
    let chain = text
        .lines()
        .find_map(|line| line.strip_prefix("O InputMailFilters="));
    let chain = chain.unwrap_or_default().split(',').map(str::trim);
    let chain: Vec<&str> = chain.collect();
    let is_ours = |socket: &str| {
        let socket: Result<Endpoint, _> = socket.parse();
        let mut ours = milter.sockets.iter();
        socket.is_ok_and(|socket| ours.any(|ours| socket.leads_to(ours)))
    };
    let mut ours = None;
    // Xname, S=socket, F=T, T=R:10s
    for line in text.lines().filter_map(|line| line.strip_prefix('X')) {
        let Some((name, equates)) = line.split_once(',') else {
            continue;
        };
        let (name, socket) = (name.trim(), equate(equates, "S").unwrap_or_default());
        if is_ours(socket) {
            ours.get_or_insert((name, equates));
        } else if chain.contains(&name)
            && let Some(why) = silence(socket.parse())
        {
            let text = format!("{name}: {socket} does not answer ({why})");
            findings.wrong(text, "start it, or remove its INPUT_MAIL_FILTER");
        }
    }
    let Some((name, equates)) = ours else {
        let text = "no mail filter has the milter's socket: no mail is checked";
        return findings.wrong(format!("{}: {text}", cf.display()), remedy(milter));
    };
    if chain.contains(&name) {
        let text = format!("InputMailFilters asks {}", chain.join(", then "));
        findings.good(text);
    } else {
        let text = format!("InputMailFilters does not name {name}");
        findings.wrong(text + ": no mail is checked", remedy(milter));
    }
    check_own(equates, findings);
}

/// Checks what happens to mail while the daemon is down or is restarted.
fn check_own(equates: &str, findings: &mut Findings) {
    match equate(equates, "F").unwrap_or_default() {
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
    let mut times = equate(equates, "T").unwrap_or_default().split(';');
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
