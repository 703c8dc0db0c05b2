//! Checks Sendmail: the milter in `sendmail.cf`, which is built from `sendmail.mc`.
//!
//! ```text
//!   O InputMailFilters=blocklist
//!   Xblocklist, S=unix:/run/blocklist-milter/milter.sock, T=C:5s;S:10s;R:10s;E:1m
//! ```

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::findings::Findings;
use super::main_cf::time;
use super::milter::Milter;
use crate::endpoint::Endpoint;

const ABOUT: &str = "sendmail";

/// The usual path of the file.
pub(super) const USUAL_CF: &str = "/etc/mail/sendmail.cf";

/// Largest file that is read.
const CF_MAX_BYTES: u64 = 16 << 20;

/// The line of `contrib/sendmail.mc`.
const REMEDY: &str = "in sendmail.mc, before the MAILER lines; then make -C /etc/mail, and restart Sendmail:\n\
    INPUT_MAIL_FILTER(`blocklist', `S=unix:/run/blocklist-milter/milter.sock, T=C:5s;S:10s;R:10s;E:1m')dnl";

pub(super) fn check(cf: &Path, milter: &Milter<'_>, findings: &mut Findings) {
    let size = fs::metadata(cf).map_or(0, |found| found.len());
    let text = match fs::read(cf) {
        Ok(text) if size <= CF_MAX_BYTES => String::from_utf8_lossy(&text).into_owned(),
        Ok(_) => {
            return findings.notice(
                ABOUT,
                format!("{}: too large for a configuration", cf.display()),
                "",
            );
        }
        Err(error) => {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => "run setup-check as root",
                _ => "name sendmail.cf with --sendmail",
            };
            return findings.notice(ABOUT, format!("{}: {error}", cf.display()), remedy);
        }
    };
    let ours = text.lines().find_map(|line| {
        let (name, rest) = line.strip_prefix('X')?.split_once(',')?;
        let equates: Vec<(&str, &str)> = rest
            .split(',')
            .filter_map(|part| part.trim().split_once('='))
            .collect();
        let value = |wanted: &str| {
            equates
                .iter()
                .find(|(key, _)| *key == wanted)
                .map(|(_, value)| *value)
        };
        let socket: Endpoint = value("S")?.parse().ok()?;
        let found = (
            name.trim(),
            value("F").unwrap_or_default(),
            value("T").unwrap_or_default(),
        );
        let is_ours = milter.sockets.iter().any(|ours| socket.leads_to(ours));
        is_ours.then_some(found)
    });
    let Some((name, flags, times)) = ours else {
        return findings.wrong(
            ABOUT,
            format!(
                "{}: no mail filter has the milter's socket: no mail is checked",
                cf.display()
            ),
            REMEDY,
        );
    };
    let chain = text
        .lines()
        .find_map(|line| line.strip_prefix("O InputMailFilters="));
    let chain: Vec<&str> = chain
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .collect();
    if chain.contains(&name) {
        findings.good(
            ABOUT,
            format!("InputMailFilters asks {}", chain.join(", then ")),
        );
    } else {
        findings.wrong(
            ABOUT,
            format!("InputMailFilters does not name {name}: no mail is checked"),
            REMEDY,
        );
    }
    match flags {
        "" => findings.good(
            ABOUT,
            "no F= flag: while the milter is down, mail passes unchecked",
        ),
        "T" | "4" => findings.good(
            ABOUT,
            format!("F={flags}: while the milter is down, senders wait"),
        ),
        _ => findings.wrong(
            ABOUT,
            format!("F={flags}: while the milter is down, all mail is refused for good"),
            "F=T, or no F=, in INPUT_MAIL_FILTER",
        ),
    }
    // The timeout for reading an answer is 10 seconds by default.
    let reading = times
        .split(';')
        .find_map(|part| part.trim().strip_prefix("R:"));
    let drain = Duration::from_secs(milter.config.limits.drain_s);
    if time(reading.unwrap_or("10s")).is_some_and(|reading| reading <= drain) {
        findings.wrong(
            ABOUT,
            format!(
                "T=R:{} is not more than drain_s = {}: a restart of the milter loses sessions",
                reading.unwrap_or("10s"),
                drain.as_secs()
            ),
            format!("T=R:{}s in INPUT_MAIL_FILTER", drain.as_secs() + 5),
        );
    }
    let loopback = std::net::IpAddr::from([127, 0, 0, 1]);
    if !milter
        .config
        .exempt
        .networks
        .iter()
        .any(|network| network.contains(loopback))
    {
        findings.wrong(
            ABOUT,
            "mail that this machine submits comes from 127.0.0.1, which networks does not exempt: refused, it is \
             bounced to a sender that may be forged",
            "networks = [\"127.0.0.1\", \"::1\"] in [exempt] of blocklist-milter.toml",
        );
    }
}
