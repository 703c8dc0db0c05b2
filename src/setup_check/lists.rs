//! Checks whether the service's user can read configuration, filters and whitelists, and whether
//! filters are older than their text lists.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::findings::Findings;
use super::units::{self, Milter};
use crate::config::ListSettings;
use crate::endpoint::RESTART;
use crate::snapshot::BuildProblem;
use crate::status::{self, CheckProblem};
use blocklist_compile::compile::may_be_list;
use blocklist_compile::list::{LIST_TOML, ListToml};
use blocklist_filter::filter::{Filter, Load};

/// The folder of the filters that the units compile.
const FILTERS: &str = "/var/lib/blocklist-milter";

/// Folders that `ProtectHome=yes` hides from the service, whatever their modes.
const HIDDEN: [&str; 3] = ["/home", "/root", "/run/user"];

pub(super) fn check(config_path: &Path, milter: &Milter, findings: &mut Findings) {
    let config = &milter.config;
    let of_build = |list: &ListSettings| {
        let filter = Filter::open(&list.filter, Load::Disk).ok();
        BuildProblem::of(list, filter.as_ref().map(Filter::spec))
    };
    let builds: Vec<BuildProblem> = config.enabled_lists().filter_map(of_build).collect();
    match status::check(config_path, milter.user.as_deref()) {
        Ok(checked) => {
            for line in checked.good() {
                findings.good(line);
            }
            // The running daemon may warn of a build, too.
            let is_other = |warning: &&String| {
                let mut builds = builds.iter();
                !builds.any(|build| warning.contains(&build.text))
            };
            for warning in checked.warnings.iter().filter(is_other) {
                findings.notice(warning, "");
            }
            for note in &checked.beyond_doors {
                findings.notice(note, "");
            }
        }
        Err(problems) => (problems.iter()).for_each(|one| check_problem(one, milter, findings)),
    }
    for door in status::closed_doors(config) {
        findings.wrong(door.problem().unwrap_or_default(), RESTART);
    }
    for file in std::iter::once(config_path).chain(config.files()) {
        if milter.has_units && HIDDEN.iter().any(|folder| file.starts_with(folder)) {
            let hidden = "the service sees no home directories (ProtectHome=yes)";
            let advice = "move it to /etc/blocklist-milter or /var/lib/blocklist-milter";
            findings.wrong(format!("{}: {hidden}", file.display()), advice);
        }
    }
    for rejects in builds.iter().filter(|build| !build.has_failed) {
        findings.notice(&rejects.text, "");
    }
    for stray in stray_lists(config_path) {
        findings.wrong(stray, "");
    }
    if milter.has_junk && config.whitelist.authserv_ids.is_empty() {
        findings.wrong(
            "a unit blocklist-junk@ reads reported messages, but authserv_ids is empty: any sender may be forged, none is listed",
            "authserv_ids = [\"NAME\"] in [whitelist], as in the header Authentication-Results: NAME; ... of delivered mail",
        );
    }
    let lists = config_path.with_file_name("lists");
    for list in config.enabled_lists() {
        let is_its = |build: &&BuildProblem| build.has_failed && build.list == list.terms.name;
        let failed = builds.iter().find(is_its);
        check_list(list, failed, &lists, milter, findings);
    }
}

/// Checks whether a list is kept up to date, and is used as its text lists advise.
fn check_list(
    list: &ListSettings,
    failed: Option<&BuildProblem>,
    lists: &Path,
    milter: &Milter,
    findings: &mut Findings,
) {
    let Some(name) = name_of(&list.filter) else {
        return;
    };
    let texts = lists.join(name);
    if is_of_units(&list.filter, milter) {
        units::check_list(name, &texts, findings.about("units"));
        findings.about("config");
    }
    let compile = format!("systemctl start blocklist-compile@{name}.service");
    if let Some(failed) = failed {
        findings.wrong(&failed.text, compile + ", when it is mended");
    } else if let (Some((newest, text)), Some(filter)) = (newest(&texts), modified(&list.filter))
        && newest > filter
    {
        let filter = list.filter.display();
        let text = format!("list {name}: {text} has changed after {filter} was compiled");
        findings.wrong(text, compile);
    }
    let action = list.terms.action.name();
    match ListToml::of_folder(&texts) {
        Ok(list_toml) => {
            let feed = list_toml.and_then(|list_toml| list_toml.feed);
            if let Some(meant) = feed.and_then(|feed| feed.action)
                && meant != action
            {
                let texts = texts.display();
                let advice = format!("{texts}/{LIST_TOML} advises \"{meant}\"");
                let said = format!("list {name}: action = \"{action}\", but {advice}");
                findings.notice(said, "");
            }
        }
        Err(error) => findings.wrong(error.to_string(), ""),
    }
}

/// Returns what is wrong with the files beside the folders of lists: no unit reads them.
pub fn stray_lists(config_path: &Path) -> Vec<String> {
    let lists = config_path.with_file_name("lists");
    let strays = files(&lists).filter(|file| may_be_list(file));
    let shown = strays.map(|file| {
        let (file, lists) = (file.display(), lists.display());
        format!("{file} is in no list: move it into a folder, {lists}/NAME")
    });
    shown.collect()
}

/// Reports why the configuration, a filter or a whitelist cannot be used.
fn check_problem(problem: &CheckProblem, milter: &Milter, findings: &mut Findings) {
    if let Some(obstacle) = &problem.obstacle {
        return findings.wrong(&obstacle.cause, &obstacle.remedy);
    }
    let missing = problem.lacks_filter.as_deref();
    let missing = missing.filter(|filter| is_of_units(filter, milter));
    let start = |name| format!("systemctl start blocklist-compile@{name}.service");
    let remedy = missing.and_then(name_of).map_or_else(String::new, start);
    // The errors of the configuration file come together, one on each line.
    for line in problem.text.lines() {
        findings.wrong(line, &remedy);
    }
}

/// Returns the name of a list for units, which compile NAME to NAME.blf; the list may have another name.
fn name_of(filter: &Path) -> Option<&str> {
    filter.file_stem()?.to_str()
}

/// Returns whether the units compile a filter.
fn is_of_units(filter: &Path, milter: &Milter) -> bool {
    milter.has_units && filter.parent() == Some(Path::new(FILTERS))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Returns the newest list in a folder; for links, the time of the target counts.
fn newest(folder: &Path) -> Option<(SystemTime, String)> {
    files(folder)
        .filter_map(|path| Some((modified(&path)?, path.display().to_string())))
        .max()
}

/// Returns the files in a folder; none if it cannot be read.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_file())
}
