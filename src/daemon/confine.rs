//! Permissions that the process gives up, so that a bug in the code that reads mail does not give access to the machine.
//!
//! | given up | by | when |
//! |---|---|---|
//! | reading files outside of the given folders; creating and writing files except sockets, the status file and copies of filters | Landlock | at the start, before any other thread |
//! | TCP connections, signals to other processes | Landlock | likewise |
//! | memory dumps and debuggers, which would show addresses and the seeds of filters | not dumpable, `RLIMIT_CORE` | likewise |
//! | starting programs, new sockets except unix sockets, mounts, changes of owners and modes, ... | seccomp (`calls`) | when all sockets are open |
//!
//! Access is given to folders, for files that are created later: those in which the files are named, and those in which they
//! are. If a link leads to another folder, the folder above its target is included, because links are often changed from one
//! folder to another next to it:
//!
//! ```text
//!   /etc/lists/current -> /srv/lists/41/        may be read: /etc/lists, /srv/lists
//! ```
//!
//! In place of a folder that does not exist yet, the closest one above it is allowed. What an older kernel does not support is
//! left out, with a warning. Watching a path needs no permission.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// The newest version of Landlock with which this was tested.
const NEWEST: ABI = ABI::V6;

/// System files that the daemon reads: about memory, control groups, users and groups.
const OF_SYSTEM: [&str; 5] = [
    "/proc",
    "/sys/fs/cgroup",
    "/etc/passwd",
    "/etc/group",
    "/dev/null",
];
/// What a C library reads to find the address of a host name.
const OF_NAMES: [&str; 12] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/usr/lib",
    "/usr/lib64",
];

/// The files that a process needs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Files to read under these names, now or later.
    pub read: Vec<PathBuf>,
    /// Files to replace, through a temporary file next to them.
    pub replaced: Vec<PathBuf>,
    /// Folders in which files are created, replaced, read and removed.
    pub kept: Vec<PathBuf>,
    /// Sockets to create and remove.
    pub sockets: Vec<PathBuf>,
    /// Whether host names are looked up.
    pub names: bool,
}

/// Which limits are in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confined {
    /// All.
    Fully,
    /// Those that the kernel supports.
    Partly,
    /// None, for this reason.
    Not(String),
}

/// Limits this thread, and all threads that it starts later, to these files. This cannot be undone.
pub fn limit_files(needs: &Needs) -> Confined {
    match restrict(needs) {
        Ok(status) => match status.ruleset {
            RulesetStatus::FullyEnforced => Confined::Fully,
            RulesetStatus::PartiallyEnforced => Confined::Partly,
            RulesetStatus::NotEnforced => Confined::Not(match status.landlock {
                LandlockStatus::NotEnabled => {
                    "Landlock is not enabled: see the kernel parameter lsm=".to_owned()
                }
                LandlockStatus::NotImplemented | LandlockStatus::Available { .. } => {
                    "this kernel has no Landlock".to_owned()
                }
            }),
        },
        Err(error) => Confined::Not(format!("Landlock: {error}")),
    }
}

/// Protects the memory of this process: no dump after a crash, no debugger of the same user. Errors are ignored.
pub fn keep_memory_private() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // Programs that receive dumps through a pipe ignore the limit, but not the other setting.
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

fn restrict(needs: &Needs) -> Result<RestrictionStatus, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::ConnectTcp)?
        // Abstract sockets stay allowed: the service manager may listen on one.
        .scope(Scope::Signal)?
        .create()?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // The folder is opened and locked while a socket is created in it.
    let socket = AccessFs::ReadDir | AccessFs::MakeSock | AccessFs::RemoveFile;
    let replaced = AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile;
    let kept = replaced | AccessFs::ReadDir;
    let names = OF_NAMES.iter().filter(|_| needs.names);
    // A missing path is left out, and a file gets only the rights that files can have.
    rules
        .add_rules(path_beneath_rules(folders_to_read(&needs.read), read))?
        .add_rules(path_beneath_rules(OF_SYSTEM.iter().chain(names), read))?
        .add_rules(path_beneath_rules(folders_of(&needs.sockets), socket))?
        .add_rules(path_beneath_rules(folders_of(&needs.replaced), replaced))?
        .add_rules(path_beneath_rules(&needs.kept, kept))?
        .restrict_self()
}

fn folders_of(files: &[PathBuf]) -> impl Iterator<Item = &Path> {
    files.iter().filter_map(|file| file.parent())
}

/// The folders that must be readable so that these files can be read, now and after later changes.
fn folders_to_read(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    for file in files {
        let Some(named) = file.parent() else {
            continue;
        };
        let named = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        let existing = named.ancestors().find(|folder| folder.is_dir());
        let existing = existing.filter(|folder| depth(folder) > 0);
        folders.extend(existing.map(Path::to_owned));
        let real = file.canonicalize().unwrap_or_default();
        let Some(real) = real.parent().filter(|real| *real != named) else {
            continue;
        };
        folders.insert(real.to_owned());
        // Not `/etc`, because of one file in `/etc/lists`.
        let above = real.parent().filter(|above| depth(above) > 1);
        folders.extend(above.map(Path::to_owned));
    }
    folders
}

fn depth(path: &Path) -> usize {
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    path.components().filter(is_name).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn folders_of_names_and_of_files_and_those_beside_them_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for made in ["etc", "releases/41", "empty"] {
            fs::create_dir_all(at(made)).expect("our own folder");
        }
        fs::write(at("releases/41/list"), "").expect("our own folder");
        symlink(at("releases/41"), at("etc/current")).expect("our own folder");
        fs::write(at("etc/plain"), "").expect("our own folder");
        let read = |name: &str| {
            let folders = folders_to_read(&[at(name)]).into_iter();
            let below = folders.filter_map(|path| {
                let below = path.strip_prefix(folder.path()).ok()?;
                Some(below.to_str()?.to_owned())
            });
            below.collect::<Vec<_>>()
        };
        assert_eq!(read("etc/plain"), ["etc"]);
        assert_eq!(read("etc/later"), ["etc"]);
        let linked = ["etc/current", "releases", "releases/41"];
        assert_eq!(read("etc/current/list"), linked);
        assert_eq!(read("empty/not/yet/list"), ["empty"]);
        assert!(folders_to_read(&["/no such folder/list".into()]).is_empty());
    }
}
