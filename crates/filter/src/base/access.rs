//! Whether a user can read a file or connect to a socket, and what prevents it; and which files other
//! users can write.
//!
//! "Permission denied" names neither the user nor the closed folder, and root, who runs most
//! checks, is denied nothing. So this module reads the modes of all folders of a path, from the
//! root downwards, for any user. It knows owners, groups and modes. It does not know access control
//! lists and security modules (such as SELinux): for them, only the system's own answer counts.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{OFlags, PROC_SUPER_MAGIC, fstatfs};

/// A user, as listed in `/etc/passwd` and `/etc/group`, or the user of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name, or the number if there is no name.
    pub name: String,
    uid: u32,
    /// The id of the primary group, then those of the supplementary groups.
    groups: Vec<u32>,
}

/// The access that a user needs: its permission bit, the letter of that in chmod(1), and what is done.
#[derive(Clone, Copy, Debug)]
pub struct Wish(u32, char, &'static str);

impl Wish {
    pub const READ: Self = Self(0o4, 'r', "read");
    /// Connecting to a unix socket, which needs write permission.
    pub const CONNECT: Self = Self(0o2, 'w', "connect to");
    const ENTER: Self = Self(0o1, 'x', "enter the folder");
}

/// The first file or folder on the path that denies access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The commands that give the permission to the user or to its group, and to nobody else.
    pub remedy: String,
    /// Which access is denied to whom, without the remedy.
    pub cause: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; run: {}", self.cause, self.remedy)
    }
}

impl Account {
    pub(crate) fn of_process() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let mut groups = vec![rustix::process::getegid().as_raw()];
        let others = rustix::process::getgroups().unwrap_or_default();
        groups.extend(others.into_iter().map(|group| group.as_raw()));
        let name = name_of("/etc/passwd", uid);
        Self { name, uid, groups }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::find(|user, _| user == name)
    }

    pub fn numbered(uid: u32) -> Option<Self> {
        Self::find(|_, number| number == uid)
    }

    fn find(is_meant: impl Fn(&str, u32) -> bool) -> Option<Self> {
        let users = database("/etc/passwd");
        let (name, uid, rest) = rows(&users).find(|(name, uid, _)| is_meant(name, *uid))?;
        let mut groups = vec![rest.split(':').next()?.parse().ok()?];
        for (_, gid, members) in rows(&database("/etc/group")) {
            if members.split(',').any(|member| member == name) {
                groups.push(gid);
            }
        }
        Some(Self {
            name: name.to_owned(),
            uid,
            groups,
        })
    }

    /// Returns what denies this user the access; `None` if nothing does.
    pub fn obstacle(&self, path: &Path, wish: Wish) -> io::Result<Option<Obstacle>> {
        let path = std::path::absolute(path)?;
        // From the root downwards: nothing below a folder that is closed to this process can be
        // examined.
        if let Some(closed) = self.closed_folder(&path)? {
            return Ok(Some(closed));
        }
        let real = fs::canonicalize(&path)?;
        if let Some(closed) = self.closed_folder(&real)? {
            return Ok(Some(closed));
        }
        self.denied(&real, wish)
    }

    fn closed_folder(&self, path: &Path) -> io::Result<Option<Obstacle>> {
        let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
        folders.reverse();
        let closed = folders
            .into_iter()
            .map(|folder| self.denied(folder, Wish::ENTER));
        closed.filter_map(Result::transpose).next().transpose()
    }

    fn denied(&self, path: &Path, wish: Wish) -> io::Result<Option<Obstacle>> {
        let Wish(bit, letter, what) = wish;
        let found = fs::metadata(path)?;
        let mode = found.mode() & 0o7777;
        let in_group = self.groups.contains(&found.gid());
        // Only the first class that fits counts, even if another would allow more.
        let (class, shift) = if found.uid() == self.uid {
            ('u', 6)
        } else if in_group {
            ('g', 3)
        } else {
            ('o', 0)
        };
        if self.uid == 0 || mode >> shift & bit != 0 {
            return Ok(None);
        }
        let shown = path.display();
        let primary_group = self.groups.first().copied().unwrap_or(self.uid);
        let remedy = if class == 'o' {
            let group = name_of("/etc/group", primary_group);
            format!("chgrp {group} {shown} && chmod g+{letter} {shown}")
        } else {
            format!("chmod {class}+{letter} {shown}")
        };
        let owner = name_of("/etc/passwd", found.uid());
        let group = name_of("/etc/group", found.gid());
        Ok(Some(Obstacle {
            remedy,
            cause: format!(
                "user {} cannot {what} {shown} (mode {mode:04o}, owner {owner}, group {group})",
                self.name
            ),
        }))
    }
}

/// Opens a file for reading. Refuses a pipe or a device, because reading it may block or never
/// end. Refuses files of procfs, also behind a link: what is read from a list may be shown, and
/// these files contain facts about processes.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Without this flag, opening a pipe would wait for a writer.
    let at_once = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(at_once).open(path)?;
    if file.metadata()?.is_file() && fstatfs(&file)?.f_type != PROC_SUPER_MAGIC {
        Ok(file)
    } else {
        let kind = io::ErrorKind::InvalidInput;
        Err(io::Error::new(kind, "not a regular file"))
    }
}

/// Whether this process has given up the right to read folders that it did not name at its start.
static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Records that this process is confined, for the text of [`explained`].
pub fn note_confined() {
    IS_CONFINED.store(true, Relaxed);
}

/// Returns `error`; if permission was denied, with what denied it to this process.
pub fn explained(path: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let why = match Account::of_process().obstacle(path, Wish::READ) {
        Ok(Some(obstacle)) => obstacle.to_string(),
        Ok(None) | Err(_) if IS_CONFINED.load(Relaxed) => {
            "since its start the daemon can read only the folders that its files were in then \
             (setting sandbox): restart it"
                .to_owned()
        }
        Ok(None) | Err(_) => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {why}"))
}

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Returns a warning for each of these files, and each of their folders, that other users can write: who
/// can write a list decides whose mail is refused. Missing files are ignored.
pub fn writable_by_others<'a>(files: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let mut looked_at = BTreeSet::new();
    for file in files {
        let folder = file.parent();
        looked_at.extend(folder.filter(|folder| !folder.as_os_str().is_empty()));
        looked_at.insert(file);
    }
    looked_at.into_iter().filter_map(warning).collect()
}

fn warning(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    // In a sticky folder, users cannot replace the files of other users.
    let sticky = found.is_dir() && found.mode() & STICKY != 0;
    let own_group = [0, rustix::process::getegid().as_raw()].contains(&found.gid());
    let who = if sticky {
        return None;
    } else if found.mode() & OTHERS_WRITE != 0 {
        "every user".to_owned()
    } else if found.mode() & GROUP_WRITES != 0 && !own_group {
        format!("group {}", found.gid())
    } else {
        return None;
    };
    let path = path.display();
    Some(format!(
        "{who} can write {path}, and so decide which mail is refused: chmod go-w {path}"
    ))
}

fn name_of(file: &str, number: u32) -> String {
    let text = database(file);
    let found = rows(&text).find(|(_, known, _)| *known == number);
    found.map_or_else(|| number.to_string(), |(name, ..)| name.to_owned())
}

/// Other sources, such as a directory server, would need the C library.
fn database(file: &str) -> String {
    let text = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// `name:password:number:rest`
fn rows(text: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    text.lines().filter_map(|line| {
        let mut fields = line.splitn(4, ':');
        let name = fields.next()?;
        let number = fields.nth(1)?.parse().ok()?;
        Some((name, number, fields.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn stranger(groups: &[u32]) -> Account {
        Account {
            name: "stranger".to_owned(),
            uid: 54_321,
            groups: groups.to_vec(),
        }
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own");
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        for path in ["/proc/self/environ", "/dev/null", "/"] {
            let refused = open_regular(Path::new(path)).expect_err(path);
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }

    #[test]
    fn the_first_thing_in_the_way_is_named_with_its_remedy() {
        let outer = tempfile::tempdir().expect("a folder");
        set(outer.path(), 0o755);
        let folder = outer.path().join("filters");
        fs::create_dir(&folder).expect("our own folder");
        let file = folder.join("list.blf");
        fs::write(&file, "").expect("our own folder");
        let own_group = fs::metadata(&file).expect("just written").gid();
        let remedy = |account: &Account, folder_mode, file_mode, wish| {
            set(&folder, folder_mode);
            set(&file, file_mode);
            let found = account.obstacle(&file, wish).expect("it is there");
            found.map(|obstacle| obstacle.remedy)
        };
        let at = |command: &str, path: &Path| Some(format!("{command} {}", path.display()));
        let (alone, member) = (stranger(&[54_321]), stranger(&[54_321, own_group]));
        assert_eq!(remedy(&alone, 0o755, 0o644, Wish::READ), None);
        let given = format!("chgrp 54321 {0} && chmod g+r {0}", file.display());
        assert_eq!(remedy(&alone, 0o755, 0o640, Wish::READ), Some(given));
        assert_eq!(remedy(&member, 0o755, 0o640, Wish::READ), None);
        let closed = remedy(&member, 0o700, 0o640, Wish::READ);
        assert_eq!(closed, at("chmod g+x", &folder));
        // For a member of the group only the group's bits count, even if others may do more.
        let less = remedy(&member, 0o755, 0o604, Wish::READ);
        assert_eq!(less, at("chmod g+r", &file));
        let connect = remedy(&member, 0o755, 0o644, Wish::CONNECT);
        assert_eq!(connect, at("chmod g+w", &file));
        assert_eq!(remedy(&member, 0o755, 0o660, Wish::CONNECT), None);

        set(&file, 0o600);
        let shown = alone.obstacle(&file, Wish::READ).expect("it is there");
        let shown = shown.expect("it is closed").to_string();
        let parts = ["user stranger cannot read ", "/list.blf (mode 0600, owner "];
        assert!(parts.iter().all(|part| shown.contains(part)), "{shown}");

        let link = outer.path().join("link");
        std::os::unix::fs::symlink(&file, &link).expect("our own folder");
        set(&folder, 0o700);
        let behind = alone.obstacle(&link, Wish::READ).expect("it is there");
        let behind = behind.map(|obstacle| obstacle.remedy);
        let given = format!("chgrp 54321 {0} && chmod g+x {0}", folder.display());
        assert_eq!(behind, Some(given));
    }

    #[test]
    fn files_and_folders_that_others_can_write_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("list.blf");
        fs::write(&file, "").expect("our own folder");
        let warned = |folder_mode, file_mode| {
            set(folder.path(), folder_mode);
            set(&file, file_mode);
            let missing = folder.path().join("missing");
            writable_by_others([&*file, &*missing].into_iter()).len()
        };
        assert_eq!(warned(0o750, 0o640), 0);
        assert_eq!(warned(0o750, 0o660), 0, "our own group");
        assert_eq!(warned(0o750, 0o666), 1);
        assert_eq!(warned(0o777, 0o666), 2);
        assert_eq!(warned(0o1777, 0o644), 0, "like /tmp");
    }

    #[test]
    fn users_are_found_with_their_groups() {
        let root = Account::named("root").expect("every system has root");
        assert_eq!((root.uid, root.groups.first()), (0, Some(&0)));
        assert_eq!(Account::numbered(0), Some(root));
        assert_eq!(Account::named("no such user"), None);
    }
}
