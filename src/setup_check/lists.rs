//! Configuration, filters and whitelists, as the user of the service reads them, and whether filters are
//! older than the text lists they were compiled from.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::findings::Findings;
use super::units::{self, Units};
use crate::access::{Account, Wish};
use crate::config::Config;
use crate::snapshot;

const ABOUT: &str = "config";

/// Folders that `ProtectHome=yes` hides from the service, whatever their modes.
const HIDDEN: [&str; 3] = ["/home", "/root", "/run/user"];

pub(super) fn look(config_path: &Path, config: &Config, units: &Units, findings: &mut Findings) {
    match snapshot::check(config_path) {
        Ok(report) => {
            for line in report.to_string().lines() {
                match line.strip_prefix("warning: ") {
                    Some(warning) => findings.notice(ABOUT, warning, ""),
                    None => findings.good(ABOUT, line),
                }
            }
        }
        Err(error) => {
            for line in error.to_string().lines() {
                findings.wrong(ABOUT, line, "");
            }
        }
    }
    let account = units.user.as_deref().and_then(Account::named);
    let files: Vec<&Path> = std::iter::once(config_path).chain(config.files()).collect();
    for file in files {
        if HIDDEN.iter().any(|folder| file.starts_with(folder)) && units.known {
            findings.wrong(
                ABOUT,
                format!(
                    "{}: the service sees no home directories (ProtectHome=yes)",
                    file.display()
                ),
                "move it to /etc/blocklist-milter or /var/lib/blocklist-milter",
            );
        } else if let Some(account) = &account
            // What is not there was found above.
            && let Ok(Some(obstacle)) = account.obstacle(file, Wish::Read)
        {
            // The check of the configuration may have found it, too.
            let (text, remedy) = (obstacle.cause(), obstacle.remedy);
            if !findings
                .findings
                .iter()
                .any(|known| known.text.contains(&text))
            {
                findings.wrong(ABOUT, text, remedy);
            }
        }
    }
    let folder = config_path.parent().unwrap_or_else(|| Path::new("."));
    for list in config.enabled_lists() {
        // The units compile NAME into NAME.blf, whatever the list is called.
        let Some(name) = list.filter.file_stem().and_then(|stem| stem.to_str()) else {
            continue;
        };
        let texts = folder.join("lists").join(name);
        let is_of_units = list.filter.parent() == Some(Path::new("/var/lib/blocklist-milter"));
        if units.known && is_of_units {
            units::look_at_list(name, &texts.display().to_string(), findings);
        }
        if let (Some((newest, text)), Some(filter)) = (newest(&texts), modified(&list.filter))
            && newest > filter
        {
            findings.wrong(
                ABOUT,
                format!(
                    "list {name}: {text} has changed after {} was compiled",
                    list.filter.display()
                ),
                format!("systemctl start blocklist-compile@{name}.service"),
            );
        }
        let feed = folder.join("feeds").join(format!("{name}.conf"));
        let action = list.terms.action.name();
        if let Some(meant) = feed_action(&feed)
            && meant != action
        {
            findings.notice(
                ABOUT,
                format!(
                    "list {name}: action = \"{action}\", but {} advises \"{meant}\"",
                    feed.display()
                ),
                "",
            );
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// The newest list of a folder, of links the target.
fn newest(folder: &Path) -> Option<(SystemTime, String)> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file());
    files
        .filter_map(|path| Some((modified(&path)?, path.display().to_string())))
        .max()
}

/// The action that the description of a feed advises.
fn feed_action(feed: &Path) -> Option<String> {
    let text = fs::read_to_string(feed).ok()?;
    let mut settings = text.lines().filter_map(|line| line.split_once('='));
    let (_, action) = settings.find(|(key, _)| key.trim() == "action")?;
    Some(action.trim().to_owned())
}
