//! Warns about files that other users can write: who can write a list decides whose mail is refused.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// A warning for each of these files, and each of their folders, that other users can write. Missing files are ignored.
pub(crate) fn writable_by_others<'a>(files: impl Iterator<Item = &'a Path>) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_and_folders_that_others_can_write_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("list.blf");
        fs::write(&file, "").expect("our own folder");
        let warned = |folder_mode, file_mode| {
            for (path, mode) in [(folder.path(), folder_mode), (&*file, file_mode)] {
                fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own");
            }
            let missing = folder.path().join("missing");
            writable_by_others([&*file, &*missing].into_iter()).len()
        };
        assert_eq!(warned(0o750, 0o640), 0);
        assert_eq!(warned(0o750, 0o660), 0, "our own group");
        assert_eq!(warned(0o750, 0o666), 1);
        assert_eq!(warned(0o777, 0o666), 2);
        assert_eq!(warned(0o1777, 0o644), 0, "like /tmp");
    }
}
