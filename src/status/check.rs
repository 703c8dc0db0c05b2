//! The checks of `blocklist-milter check`, and their result.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Running;
use crate::config::{self, Config, ListSettings, Position};
use crate::daemon::obstacle;
use crate::endpoint::{Door, DoorState};
use crate::policy::Policy;
use crate::snapshot::{FileProblem, Snapshot, examine};
use blocklist_filter::base::access::{Account, Obstacle, Wish};
use blocklist_filter::base::clock::today;
use blocklist_filter::base::numbers::counted;

/// User in `contrib/systemd/sysusers.conf`.
const SERVICE_USER: &str = "blocklist-milter";

/// An error for an administrator.
#[derive(Clone, Debug)]
pub(crate) struct CheckProblem {
    /// The error, which may have several lines; about a filter, with its position in the configuration.
    pub text: String,
    /// The missing permission of the service, if that is the error.
    pub obstacle: Option<Obstacle>,
    /// The filter file that does not exist, if that is the error.
    pub lacks_filter: Option<PathBuf>,
}

impl CheckProblem {
    fn of(fault: &FileProblem, config_path: &Path, lists: &[ListSettings]) -> Self {
        let FileProblem { error, instead } = fault;
        let list = error.list();
        let list = list.and_then(|name| lists.iter().find(|list| list.terms.name == name));
        let place = list.map_or_else(String::new, |list| {
            let Position(line, column) = list.place;
            format!("{}:{line}:{column}: ", config_path.display())
        });
        let instead = instead.as_ref();
        let instead = instead.map_or_else(String::new, |text| format!("; until then, {text}"));
        let lacking = list.filter(|_| error.is_missing_filter());
        Self {
            text: format!("{place}{error}{instead}"),
            obstacle: None,
            lacks_filter: lacking.map(|list| list.filter.clone()),
        }
    }
}

/// Checks configuration, filters and whitelists as at a start, for a report to an administrator. `user` is the user
/// of the service, if known.
pub(crate) fn check(config_path: &Path, user: Option<&str>) -> Result<Checked, Vec<CheckProblem>> {
    let (snapshot, faults) = examine(config_path);
    let lists = snapshot.as_ref().map(|snapshot| &*snapshot.config.lists);
    let problem = |fault| CheckProblem::of(fault, config_path, lists.unwrap_or_default());
    // Wrong settings and missing filters are shown together, so that the user can fix them all at once.
    let mut problems: Vec<_> = faults.iter().map(problem).collect();
    let Some(snapshot) = snapshot else {
        return Err(problems);
    };
    let denied = denied_to_service(config_path, user, &snapshot.config);
    problems.extend(denied.into_iter().map(|obstacle| CheckProblem {
        text: format!("the service reads it as another user: {obstacle}"),
        obstacle: Some(obstacle),
        lacks_filter: None,
    }));
    if !problems.is_empty() {
        return Err(problems);
    }
    let Snapshot { config, policy, .. } = &snapshot;
    let lists = config.lists.iter();
    Ok(Checked {
        config: config_path.to_owned(),
        lists: lists.map(|list| CheckedList::of(list, policy)).collect(),
        whitelist_entries: policy.whitelist.len(),
        whitelist_expired: policy.whitelist.expired(today()),
        correspondents: (!config.whitelist.correspondents.is_empty())
            .then(|| policy.correspondents.len()),
        warnings: warnings(config_path, &snapshot),
        closed_doors: closed_doors(config),
        beyond_doors: beyond_doors(&snapshot),
    })
}

/// Returns what is not wrong, but should be looked at.
fn warnings(config_path: &Path, snapshot: &Snapshot) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(running) = Running::read(&snapshot.config.status_file) {
        let who = format!("the running daemon (process {})", running.process);
        let doors: Vec<_> = running
            .doors
            .iter()
            .filter_map(DoorState::problem)
            .collect();
        let others = running.problems.iter().filter(|one| !doors.contains(one));
        warnings.extend(others.map(|one| format!("{who}: {one}")));
    }
    warnings.extend(snapshot.warnings(Some(config_path)));
    warnings
}

/// Returns the sockets for mail servers that are not open: the running daemon could not open them, or they were added
/// to `listen` after its start.
pub(crate) fn closed_doors(config: &Config) -> Vec<DoorState> {
    let mut closed = Vec::new();
    let Some(running) = Running::read(&config.status_file) else {
        return closed;
    };
    // One of an older version names none.
    for listen in config.listen.iter().filter(|_| !running.doors.is_empty()) {
        let name = listen.to_string();
        if !running.doors.iter().any(|door| door.name == name) {
            let obstacle = obstacle(&listen.at)
                .map(|error| format!(", and now it could not be opened: {error}"));
            let why = "it was added after the start of the daemon".to_owned();
            closed.push(DoorState::closed(
                &name,
                &(why + &obstacle.unwrap_or_default()),
            ));
        }
    }
    let failed = running
        .doors
        .into_iter()
        .filter(|door| door.closed.is_some());
    closed.extend(failed);
    closed
}

/// Returns what lists and exemptions want in vain of the doors in `listen`, and of those that a running daemon has.
fn beyond_doors(snapshot: &Snapshot) -> Vec<String> {
    let running = Running::read(&snapshot.config.status_file);
    let running = running.map_or_else(Vec::new, |running| running.doors);
    let listen = snapshot.config.listen.iter().map(|listen| listen.door);
    let doors: Vec<Door> = listen.chain(running.iter().map(DoorState::door)).collect();
    snapshot.beyond(&doors)
}

/// What is in effect with a good configuration.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    config: PathBuf,
    lists: Vec<CheckedList>,
    whitelist_entries: usize,
    /// `None` without such a file.
    correspondents: Option<usize>,
    whitelist_expired: usize,
    /// Warnings for the administrator.
    pub warnings: Vec<String>,
    /// The sockets for mail servers that are not open, though a daemon runs.
    pub closed_doors: Vec<DoorState>,
    /// What lists and exemptions want of the doors in vain.
    pub beyond_doors: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CheckedList {
    name: String,
    enabled: bool,
    action: &'static str,
    dry_run: bool,
    check: Vec<&'static str>,
    /// Of its filter, if the list is enabled.
    entries: Option<u64>,
    generation: Option<u64>,
}

impl CheckedList {
    fn of(list: &ListSettings, policy: &Policy) -> Self {
        let mut lists = policy.lists().iter();
        let used = lists.find(|used| used.name() == list.terms.name);
        let terms = used.map_or(&list.terms, |used| &used.terms);
        let filter = used.and_then(|list| list.filter());
        Self {
            name: terms.name.clone(),
            enabled: list.enabled,
            action: terms.action.name(),
            dry_run: terms.dry_run,
            check: terms.check.iter().map(|identity| identity.name()).collect(),
            entries: filter.map(|filter| filter.entries()),
            generation: filter.map(|filter| filter.spec().generation),
        }
    }

    fn line(&self) -> String {
        let name = &self.name;
        let (Some(entries), Some(generation)) = (self.entries, self.generation) else {
            return format!("list {name}: not enabled");
        };
        format!(
            "list {name}: {}{}, {}, generation {generation}, checks {}",
            self.action,
            if self.dry_run { " (dry run)" } else { "" },
            counted(entries, "entry", "entries"),
            self.check.join(", ")
        )
    }
}

impl Checked {
    /// What is in order, one line each.
    pub(crate) fn good(&self) -> Vec<String> {
        let mut lines = vec![format!("{}: OK", self.config.display())];
        lines.extend(self.lists.iter().map(CheckedList::line));
        let entries = counted(self.whitelist_entries as u64, "entry", "entries");
        lines.push(match self.whitelist_expired {
            0 => format!("whitelist: {entries}"),
            expired => format!("whitelist: {entries}, {expired} of them expired"),
        });
        if let Some(correspondents) = self.correspondents {
            let addresses = counted(correspondents as u64, "address", "addresses");
            lines.push(format!("correspondents: {addresses}"));
        }
        lines
    }
}

impl Display for Checked {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for line in self.good() {
            writeln!(f, "{line}")?;
        }
        let doors = self.closed_doors.iter().filter_map(DoorState::problem);
        for warning in doors.chain(self.warnings.iter().cloned()) {
            writeln!(f, "warning: {warning}")?;
        }
        for note in &self.beyond_doors {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

/// The files of a configuration that root can read, but the service cannot.
fn denied_to_service(config_path: &Path, user: Option<&str>, config: &Config) -> Vec<Obstacle> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let known = user.and_then(Account::named);
    // The service does not read a draft in another place, but it will read the files that the draft names.
    let is_draft = known.is_none() && config_path != Path::new(config::DEFAULT_PATH);
    let Some(account) = known.or_else(|| service_account(config_path, config)) else {
        return Vec::new();
    };
    let config_path = (!is_draft).then_some(config_path);
    let mut denied: Vec<Obstacle> = Vec::new();
    for file in config_path.into_iter().chain(config.files()) {
        // A closed folder may be in the way of many files; a missing file is reported elsewhere.
        if let Ok(Some(obstacle)) = account.obstacle(file, Wish::READ)
            && !denied.contains(&obstacle)
        {
            denied.push(obstacle);
        }
    }
    denied
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
