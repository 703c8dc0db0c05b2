//! How much more memory this process can use.
//!
//! A process that uses more memory than its control group allows is killed. So the limits are read
//! before gigabytes are allocated: by a reload, and for the default memory limit of a compilation.
//!
//! | limit | read from |
//! |---|---|
//! | RAM | `/proc/meminfo`, `MemAvailable`; if a unit hides it (`ProcSubset=pid`), sysinfo(2) and the file cache |
//! | cgroup v2 | `memory.max` and `memory.high` less `memory.current`, of the process's group and all groups above it |
//! | cgroup v1 | `memory.limit_in_bytes` less `memory.usage_in_bytes`, likewise |
//! | the process | `RLIMIT_AS` and `RLIMIT_DATA` less the sizes in `/proc/self/statm` |
//!
//! File cache counts as free, since the kernel can drop it. A value that cannot be read is no
//! limit.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// Returns whether this much memory can be used in addition, with an eighth to spare.
pub fn has_room_for(bytes: u64) -> bool {
    room_bytes().is_none_or(|room| bytes.saturating_add(bytes / 8) <= room)
}

pub fn room_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = room_in_groups(Path::new("/sys/fs/cgroup"), &groups);
    [ram(), groups, room_of_process()]
        .into_iter()
        .flatten()
        .min()
}

fn ram() -> Option<u64> {
    if let Ok(text) = fs::read_to_string("/proc/meminfo") {
        // `MemAvailable:  24672440 kB`
        let rest = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
        return kib.checked_mul(1024);
    }
    // The root group is the whole machine.
    let cache = cache_bytes(&fs::read_to_string("/sys/fs/cgroup/memory.stat").ok()?, "");
    let info = rustix::system::sysinfo();
    #[allow(
        clippy::useless_conversion,
        reason = "a C `unsigned long`: `u32` on some systems"
    )]
    let free = u64::from(info.freeram).saturating_mul(u64::from(info.mem_unit.max(1)));
    Some(free.saturating_add(cache))
}

/// Returns the least room in any group of the process. `groups` is `/proc/self/cgroup`: `0::/path`
/// for v2, `4:memory:/path` for the memory controller of v1. Inside a container, the path may not
/// exist below the mount; then the root of the mount has the limit, so it is read, too.
fn room_in_groups(root: &Path, groups: &str) -> Option<u64> {
    let own = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?.trim_start_matches('/')))
    });
    let rooms = own.flat_map(|(controllers, path)| {
        let is_of_memory = controllers.split(',').any(|one| one == "memory");
        let (root, limits) = match controllers {
            "" => (root.to_owned(), &V2[..]),
            _ if is_of_memory => (root.join("memory"), &V1[..]),
            _ => (PathBuf::new(), &[][..]),
        };
        let folders = Path::new(path).ancestors().map(move |part| root.join(part));
        folders.flat_map(move |folder| limits.iter().filter_map(move |of| room_in(&folder, of)))
    });
    rooms.min()
}

/// Files with a limit and with what is used, and what precedes the names in `memory.stat`.
type Limit = (&'static str, &'static str, &'static str);

const V1: [Limit; 1] = [("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")];
const V2: [Limit; 2] = [
    ("memory.max", "memory.current", ""),
    ("memory.high", "memory.current", ""),
];

/// Returns the room in one group; `None` for "max", and for the very large number by which v1 says
/// "no limit".
fn room_in(folder: &Path, &(limit, used, prefix): &Limit) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let limit = number(limit).filter(|&limit| limit < i64::MAX as u64 / 2)?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let used = number(used)?.saturating_sub(cache_bytes(&stat, prefix));
    Some(limit.saturating_sub(used))
}

fn cache_bytes(stat: &str, prefix: &str) -> u64 {
    let is_cache = |name: &str| {
        let name = name.strip_prefix(prefix);
        name.is_some_and(|name| name == "inactive_file" || name == "active_file")
    };
    stat.lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| is_cache(name))
        .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok())
        .sum()
}

fn room_of_process() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let page = rustix::param::page_size() as u64;
    let used = |field: usize| {
        let pages: u64 = statm.split_ascii_whitespace().nth(field)?.parse().ok()?;
        Some(pages.saturating_mul(page))
    };
    let room =
        |limit: Resource, field| Some(getrlimit(limit).current?.saturating_sub(used(field)?));
    room(Resource::As, 0)
        .into_iter()
        .chain(room(Resource::Data, 5))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |group: &str, name: &str, text: &str| {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
        };
        let room = |groups: &str| room_in_groups(root.path(), groups);
        assert_eq!(room("0::/a.slice/b.service\n"), None);
        write("a.slice/b.service", "memory.max", "max\n");
        write("a.slice/b.service", "memory.high", "max\n");
        write("a.slice/b.service", "memory.current", "600\n");
        assert_eq!(room("0::/a.slice/b.service\n"), None);
        write("a.slice", "memory.max", "1000\n");
        write("a.slice", "memory.current", "700\n");
        assert_eq!(room("0::/a.slice/b.service\n"), Some(300));
        // The file cache counts as free.
        write(
            "a.slice",
            "memory.stat",
            "anon 600\nactive_file 40\ninactive_file 60\n",
        );
        assert_eq!(room("0::/a.slice/b.service\n"), Some(400));
        write("a.slice/b.service", "memory.high", "650\n");
        assert_eq!(room("0::/a.slice/b.service\n"), Some(50));
        // More is used than allowed, just after the limit was lowered.
        write("a.slice/b.service", "memory.high", "500\n");
        assert_eq!(room("0::/a.slice/b.service\n"), Some(0));

        write("memory/box", "memory.limit_in_bytes", "5000\n");
        write("memory/box", "memory.usage_in_bytes", "4500\n");
        write(
            "memory/box",
            "memory.stat",
            "total_inactive_file 500\ninactive_file 7\n",
        );
        write("memory", "memory.limit_in_bytes", "9223372036854771712\n");
        write("memory", "memory.usage_in_bytes", "1\n");
        assert_eq!(room("9:name=systemd:/\n4:cpu,memory:/box\n"), Some(1000));
    }
}
