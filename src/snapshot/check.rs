//! The report of `--check`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Error, Snapshot, Tried, status, writable_by_others};
use crate::access::{Account, Obstacle, Wish};
use crate::config::{self, Config};
use crate::daemon::group_number;
use crate::numbers::counted;

/// User in `contrib/systemd/sysusers.conf`.
const SERVICE_USER: &str = "blocklist-milter";

/// Checks configuration, filters and whitelists as a start would; a report for an admin.
///
/// # Errors
/// All faults, those of filters with the place where the configuration names them.
pub fn check(config_path: &Path) -> Result<String, Error> {
    let (config, problems) = Config::load_what_is_good(config_path);
    let unreadable = matches!(problems, Some(crate::config::Error::Unreadable { .. }));
    let places: Vec<_> = config
        .enabled_lists()
        .map(|list| (list.terms.name.clone(), list.place))
        .collect();
    if unreadable && let Some(problem) = problems {
        return Err(problem.into());
    }
    let mut snapshot = Snapshot::assemble(config, None, Some(&mut Tried::default()));
    // Wrong settings and missing filters are shown together, so that all are mended in one go.
    snapshot.faults.splice(..0, problems.map(Error::from));
    let denied = denied_to_service(config_path, &snapshot.config);
    snapshot.faults.extend(
        denied
            .into_iter()
            .map(|obstacle| Error::Denied(Box::new(obstacle))),
    );
    let snapshot = snapshot
        .without_faults()
        .map_err(|error| error.placed(config_path, &places))?;
    let mut report = format!("{}: good\n", config_path.display());
    for settings in &snapshot.config.lists {
        let name = &settings.terms.name;
        let Some(list) = snapshot
            .policy
            .lists()
            .iter()
            .find(|list| list.name() == name)
        else {
            let _ = writeln!(report, "list {name}: not enabled");
            continue;
        };
        let Some(filter) = list.filter() else {
            continue;
        };
        let terms = &list.terms;
        let identities: Vec<&str> = terms.check.iter().map(|identity| identity.name()).collect();
        let _ = writeln!(
            report,
            "list {name}: {}{}, {}, generation {}, checks {}",
            terms.action,
            if terms.dry_run { " (dry run)" } else { "" },
            counted(filter.entries(), "entry", "entries"),
            filter.spec().generation,
            identities.join(", ")
        );
    }
    let _ = writeln!(
        report,
        "whitelist: {}",
        counted(snapshot.policy.whitelist.len() as u64, "entry", "entries")
    );
    if !snapshot.config.whitelist.correspondents.is_empty() {
        let correspondents = snapshot.policy.correspondents.len() as u64;
        let _ = writeln!(
            report,
            "correspondents: {}",
            counted(correspondents, "address", "addresses")
        );
    }
    let group = &snapshot.config.socket_group;
    if !group.is_empty()
        && let Err(missing) = group_number(group)
    {
        let _ = writeln!(report, "warning: socket_group: {missing}");
    }
    let running = status::of_running_daemon(&snapshot.config.status_file);
    if let Some((process, complaints)) = running {
        for complaint in complaints {
            let _ = writeln!(
                report,
                "warning: the running daemon (process {process}): {complaint}"
            );
        }
    }
    let config = writable_by_others(std::iter::once(config_path));
    for warning in config.into_iter().chain(snapshot.warnings()) {
        let _ = writeln!(report, "warning: {warning}");
    }
    Ok(report)
}

/// What root can read of a configuration, and the service cannot.
fn denied_to_service(config_path: &Path, config: &Config) -> Vec<Obstacle> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let Some(account) = service_account(config_path, config) else {
        return Vec::new();
    };
    // A draft elsewhere is not read by the service, but what it names will be.
    let is_draft = config_path != Path::new(config::DEFAULT_PATH);
    let config_path = (!is_draft).then_some(config_path);
    // What is not there is a fault of its own.
    let files = config_path.into_iter().chain(config.files());
    files
        .filter_map(|file| account.obstacle(file, Wish::Read).ok()?)
        .collect()
}

/// The user that serves with this configuration: the one whose folder holds the status of the running daemon,
/// or that of the units, which read the configuration in its usual place.
fn service_account(config_path: &Path, config: &Config) -> Option<Account> {
    let status = config.status_file.parent();
    let owner = status.and_then(|folder| fs::metadata(folder).ok());
    match owner {
        Some(folder) => Account::numbered(folder.uid()),
        None if config_path == Path::new(config::DEFAULT_PATH) => Account::named(SERVICE_USER),
        None => None,
    }
}
