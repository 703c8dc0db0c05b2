//! The report of `--check`.

use std::fmt::Write as _;
use std::path::Path;

use super::{Error, Snapshot, Tried, status, writable_by_others};
use crate::compile::counted;
use crate::config::Config;
use crate::daemon::group_number;

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
