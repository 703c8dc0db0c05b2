//! A separate machine in which a guide is followed exactly: this system as a copy-on-write overlay,
//! with systemd as its first process, no network except loopback, and none of this system's
//! services.
//!
//! systemd-nspawn boots it from an overlay, so nothing is downloaded, and nothing that happens in
//! it affects this system. It needs root and the package systemd-container.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{Scratch, end_processes_in, find_program, is_root, until, usable};

pub(crate) struct Booted {
    scratch: Scratch,
    /// In a separate mount namespace, so that the overlay is removed with it.
    nspawn: Child,
    init: u32,
}

/// Started in the new mount namespace, with the folder, the name of the machine, and the folders of
/// the project and of Cargo's output. These may be on another file system than `/`, or below
/// `/tmp`, which the machine does not share.
const BOOT: &str = r#"
cd "$1"
mount -t tmpfs -o mode=0755 tmpfs layer
mkdir layer/upper layer/work layer/project
mount -t overlay overlay -o lowerdir=/,upperdir=layer/upper,workdir=layer/work root
rm -rf root/etc/systemd/system/*.wants
: >root/etc/machine-id
exec systemd-nspawn --quiet --directory=root --machine="$2" --private-network --boot \
    --overlay="$3:$1/layer/project:$3" --bind-ro="$4" \
    --register=no --keep-unit --console=pipe systemd.unit=basic.target
"#;

impl Booted {
    /// Boots the machine; `None` if that is not possible, which is then reported.
    pub(crate) fn start() -> Option<Self> {
        let missing = ["systemd-nspawn", "nsenter", "unshare"]
            .into_iter()
            .find(|program| find_program(program).is_none());
        let obstacle = if let Some(program) = missing {
            Some(format!("{program} is not installed"))
        } else if is_root() {
            let mounts = Command::new("unshare").args(["--mount", "true"]).output();
            let may = mounts.is_ok_and(|output| output.status.success());
            (!may).then(|| "mounting is forbidden here".to_owned())
        } else {
            Some("booting takes root".to_owned())
        };
        if !usable("systemd-nspawn", obstacle) {
            return None;
        }
        let scratch = Scratch::new();
        for folder in ["layer", "root"] {
            fs::create_dir(scratch.join(folder)).expect("our own folder");
        }
        let log = fs::File::create(scratch.join("log")).expect("our own folder");
        let name = format!("guide{}", std::process::id());
        let program = Path::new(env!("CARGO_BIN_EXE_blocklist-milter"));
        let target = program.ancestors().nth(2).expect("target/debug/...");
        let mut nspawn = Command::new("unshare")
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-euc",
                BOOT,
                "sh",
            ])
            .arg(scratch.path())
            .arg(name)
            .arg(env!("CARGO_MANIFEST_DIR"))
            .arg(target)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("unshare is there");
        let log = || fs::read_to_string(scratch.join("log")).unwrap_or_default();
        let init = until("the machine's first process", || {
            let ended = nspawn.try_wait().expect("our own child");
            assert!(ended.is_none(), "it does not boot: {}", log());
            init_of(nspawn.id())
        });
        let booted = Self {
            scratch,
            nspawn,
            init,
        };
        until("the machine boots", || {
            let output = booted.output("systemctl is-system-running");
            let state = String::from_utf8_lossy(&output.stdout).into_owned();
            ["running", "degraded"]
                .contains(&state.trim())
                .then_some(())
        });
        Some(booted)
    }

    /// Returns the path outside of the machine of one of its files, while it runs.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.init))
    }

    /// Runs a script in the machine; its two output streams are in one order.
    pub(crate) fn output(&self, script: &str) -> Output {
        Command::new("nsenter")
            .args(["--all", "--target", &self.init.to_string()])
            .args(["env", "-i", "HOME=/root", "LC_ALL=C.UTF-8"])
            .arg("PATH=/run/guide:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["timeout", "120", "sh", "-c"])
            .arg(format!("exec 2>&1\n{script}"))
            .stdin(Stdio::null())
            .output()
            .expect("nsenter is there")
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // The end of its first process ends all others in the machine.
        if let Some(init) = rustix::process::Pid::from_raw(self.init.cast_signed()) {
            let _ = rustix::process::kill_process(init, rustix::process::Signal::KILL);
        }
        let _ = self.nspawn.wait();
        end_processes_in(self.scratch.path());
    }
}

/// Returns the child that has become systemd; other children that prepare for it come and go.
fn init_of(nspawn: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{nspawn}/task/{nspawn}/children")).ok()?;
    let mut children = children.split_whitespace();
    let is_init = |child: &&str| {
        let name = fs::read_to_string(format!("/proc/{child}/comm"));
        name.is_ok_and(|name| name.trim() == "systemd")
    };
    children.find(is_init)?.parse().ok()
}
