//! A separate machine in which guides are followed exactly: this system as a copy-on-write overlay,
//! with systemd as its first process, no network except loopback, and none of this system's
//! services. The project is its `/project` and Cargo's output its `/target`, wherever they are here.
//!
//! systemd-nspawn boots it from an overlay, so nothing is downloaded, and nothing that happens in
//! it affects this system. It needs root and the package systemd-container.
//!
//! One machine serves all tests of a process, one after the other. [`Booted::turn`] waits for it,
//! and resets it: services that a test has started are stopped, and the folders that it has changed
//! are mounted again, each as a new overlay on what was there after [`PREPARE`].

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Scratch, find_program, is_root, until, usable};

pub(crate) struct Booted {
    /// Ends the machine when its standard input is closed, at the latest with this process.
    _keeper: Child,
    init: u32,
}

/// The machine, until the next test takes it.
pub(crate) struct Turn(MutexGuard<'static, Option<Booted>>);

impl Deref for Turn {
    type Target = Booted;

    fn deref(&self) -> &Booted {
        self.0.as_ref().expect("a turn begins with a machine")
    }
}

/// Runs in a new mount namespace, whose mounts go with it. The arguments are a folder, the name of
/// the machine, and the folders of the project and of Cargo's output, which may be anywhere.
const KEEP: &str = include_str!("booted/keep.sh");

/// What every test finds: Postfix as Debian's package configures it. The `cargo` in this machine
/// only checks its arguments: the programs are those of this test.
const PREPARE: &str = include_str!("booted/prepare.sh");

/// Brings the machine back to what it was after [`PREPARE`]. Twice, as what is stopped may be
/// started by what is stopped after it.
const RESET: &str = include_str!("booted/reset.sh");

impl Booted {
    /// Waits until no other test uses the machine, boots it if no test has, and resets it. `None`
    /// if it cannot be booted, which is then reported.
    pub(crate) fn turn() -> Option<Turn> {
        static MACHINE: Mutex<Option<Booted>> = Mutex::new(None);
        if !usable("systemd-nspawn", Self::obstacle()) {
            return None;
        }
        let mut machine = MACHINE.lock().unwrap_or_else(|poisoned| {
            MACHINE.clear_poison();
            PoisonError::into_inner(poisoned)
        });
        if machine.is_none() {
            *machine = Some(Self::boot());
        }
        let turn = Turn(machine);
        turn.done(RESET);
        Some(turn)
    }

    fn obstacle() -> Option<String> {
        let missing = ["systemd-nspawn", "nsenter", "unshare"]
            .into_iter()
            .find(|program| find_program(program).is_none());
        if let Some(program) = missing {
            return Some(format!("{program} is not installed"));
        }
        if !is_root() {
            return Some("booting takes root".to_owned());
        }
        let mounts = Command::new("unshare").args(["--mount", "true"]).output();
        let may = mounts.is_ok_and(|output| output.status.success());
        (!may).then(|| "mounting is forbidden here".to_owned())
    }

    fn boot() -> Self {
        // The keeper removes it, as nothing is dropped that lives as long as the process.
        let folder = Scratch::new().keep();
        let log = fs::File::create(folder.join("log")).expect("our own folder");
        let programs = Path::new(env!("CARGO_BIN_EXE_blocklist-milter"));
        let programs = programs.parent().expect("target/debug/");
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private"])
            .args(["sh", "-euc", KEEP, "sh"])
            .arg(&folder)
            .arg(format!("guide{}", std::process::id()))
            .arg(env!("CARGO_MANIFEST_DIR"))
            .arg(programs.parent().expect("target/"))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("unshare is there");
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        let init = until("the machine's first process", || {
            let ended = keeper.try_wait().expect("our own child");
            let nspawn = fs::read_to_string(folder.join("nspawn")).ok()?;
            let is_there = Path::new("/proc").join(nspawn.trim()).exists();
            assert!(ended.is_none() && is_there, "it does not boot: {}", log());
            init_of(nspawn.trim())
        });
        fs::write(folder.join("init"), init.to_string()).expect("our own folder");
        let booted = Self {
            _keeper: keeper,
            init,
        };
        until("the machine boots", || {
            let output = booted.output("systemctl is-system-running");
            let state = String::from_utf8_lossy(&output.stdout).into_owned();
            ["running", "degraded"]
                .contains(&state.trim())
                .then_some(())
        });
        let folder = programs.file_name().expect("debug or release");
        booted.done(&format!("PROGRAMS=/target/{}\n{PREPARE}", folder.display()));
        booted
    }

    /// Runs a script in the machine; its two output streams are in one order.
    pub(crate) fn output(&self, script: &str) -> Output {
        Command::new("nsenter")
            .args(["--all", "--target", &self.init.to_string()])
            .args(["env", "-i", "HOME=/root", "LC_ALL=C.UTF-8"])
            .arg("PATH=/run/guide:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["timeout", "120", "sh", "-c"])
            .arg(format!("exec 2>&1\ncd /project\n{script}"))
            .stdin(Stdio::null())
            .output()
            .expect("nsenter is there")
    }

    /// Runs a script in the machine, and returns what it printed.
    ///
    /// # Panics
    /// If it fails, with what it printed and the end of the journal.
    pub(crate) fn done(&self, script: &str) -> String {
        let output = self.output(script);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let journal = self.output("journalctl --no-pager -n 15");
            panic!(
                "{}\n{script}---- it printed ----\n{said}---- journal ----\n{}",
                output.status,
                String::from_utf8_lossy(&journal.stdout)
            );
        }
        said
    }
}

/// Returns whether `tests/run` has downloaded these packages of Debian, for a booted machine.
pub(crate) fn packages(name: &str) -> bool {
    let target = Path::new(env!("CARGO_BIN_EXE_blocklist-milter")).ancestors();
    let packages = { target }.nth(2).expect("target/debug/").join(name);
    let missing = (!packages.is_dir()).then(|| format!("no {}", packages.display()));
    usable(name, missing)
}

/// Returns the child that has become systemd; other children that prepare for it come and go.
fn init_of(nspawn: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{nspawn}/task/{nspawn}/children")).ok()?;
    let mut children = children.split_whitespace();
    let is_init = |child: &&str| {
        let name = fs::read_to_string(format!("/proc/{child}/comm"));
        name.is_ok_and(|name| name.trim() == "systemd")
    };
    children.find(is_init)?.parse().ok()
}
