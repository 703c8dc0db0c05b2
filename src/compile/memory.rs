//! How much memory a compile may take: what the machine has and what the control
//! group allows, whichever is less.
//!
//! The kernel is asked, so that nothing is guessed. `/proc/meminfo` would say the same of the
//! RAM, but `ProcSubset=pid` in a systemd unit hides it.
//!
//! | what | where |
//! |---|---|
//! | RAM | sysinfo(2) |
//! | cgroup v2 | `/sys/fs/cgroup/<own path and each parent>/memory.max` |
//! | cgroup v1 | `/sys/fs/cgroup/memory/<own path and each parent>/memory.limit_in_bytes` |
//!
//! A limit anywhere on the way to the root holds for us, so each parent is asked.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory that this process can have, in bytes.
pub fn available_bytes() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups)
        .into_iter()
        .filter_map(|file| limit_in(&file));
    limits.fold(ram_bytes(), u64::min)
}

/// What a compile takes when nobody says: a quarter of what it can have.
pub fn default_bytes() -> u64 {
    available_bytes() / 4
}

/// What the machine has.
fn ram_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // A C `unsigned long`, which is `u32` on some systems.
    #[allow(clippy::useless_conversion, reason = "not useless where it is `u32`")]
    let units = u64::from(info.totalram);
    units.saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// Every file that may hold a limit on us. `groups` is `/proc/self/cgroup`:
/// `0::/path` for v2, `4:memory:/path` for the memory controller of v1. Inside a
/// container the path may not exist below the mount; the root there then holds the
/// limit, and it is always asked.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, name) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers
            .split(',')
            .any(|controller| controller == "memory")
        {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let own = Path::new(path.trim_start_matches('/'));
        files.extend(
            own.ancestors()
                .map(|part| Path::new(root).join(part).join(name)),
        );
    }
    files
}

/// The number in such a file; none for "max", for what cannot be read, and for the
/// very large number by which v1 says "no limit".
fn limit_in(file: &Path) -> Option<u64> {
    let limit: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (limit < i64::MAX as u64 / 2).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ram_is_what_the_system_says() {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
        let kib: u64 = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"))
            .and_then(|number| number.parse().ok())
            .unwrap();
        assert_eq!(ram_bytes() / 1024, kib);
    }

    #[test]
    fn own_group_and_all_parents_are_asked() {
        let v2 = limit_files("0::/system.slice/compile.service\n");
        let shown: Vec<_> = v2.iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            shown,
            [
                "/sys/fs/cgroup/system.slice/compile.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        let v1 = limit_files("9:name=systemd:/\n4:cpu,memory:/box\n");
        assert_eq!(
            v1[0],
            Path::new("/sys/fs/cgroup/memory/box/memory.limit_in_bytes")
        );
        assert_eq!(v1.len(), 2);
    }

    #[test]
    fn there_is_memory() {
        assert!(default_bytes() > 1 << 20);
    }
}
