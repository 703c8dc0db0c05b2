//! A private Sendmail 8, run from the unpacked files of Debian's packages (`tests/run` unpacks them
//! and names the folder in `SENDMAIL_ROOT`), so that Postfix can be installed at the same time.
//!
//! A small script delivers every recipient into one maildir. No DNS, no TLS, no aliases. A
//! preloaded library replaces two functions of the C library, see [`SHIM`].

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::mta::{DISCARD, Mta, Place, WhenDown, no_root, not_unpacked, unpacked};
use super::site::Socket;
use super::{find_program, id, port_listens, run, until};

pub(crate) struct Sendmail(Place);

/// Sendmail logs only with syslog(3), which does nothing on a machine without a syslog daemon; this
/// writes it to a file. And Sendmail sleeps for a minute if the machine's name has no dot.
const SHIM: &str = include_str!("servers/shim.c");

/// `TrustStickyBit` allows the milter's socket below `/tmp`. The load limits are very high, because
/// a busy machine would otherwise queue or refuse.
const CONFIGURATION: &str = include_str!("servers/sendmail.mc");

const DELIVER: &str = include_str!("servers/deliver");

fn root() -> PathBuf {
    unpacked("SENDMAIL_ROOT", "sendmail")
}

fn program() -> PathBuf {
    root().join("usr/libexec/sendmail/sendmail")
}

impl Sendmail {
    /// Runs the program once with this instance's configuration, as for `-bp`.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        run(Command::new(program())
            .arg("-C")
            .arg(self.0.scratch.at("etc/sendmail.cf"))
            .args(arguments)
            .env("LD_PRELOAD", self.0.scratch.at("etc/shim.so")))
    }
}

impl Mta for Sendmail {
    const NAME: &str = "sendmail";

    fn obstacle() -> Option<String> {
        let mut tools = ["m4", "cc"].into_iter();
        let missing = tools.find(|tool| find_program(tool).is_none());
        no_root()
            .or_else(|| not_unpacked(&program()))
            .or_else(|| missing.map(|tool| format!("{tool} is not installed")))
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
        Self::start_before(milter, when_down, DISCARD)
    }

    fn place(&self) -> &Place {
        &self.0
    }

    fn held(&self) -> usize {
        self.queued("hf")
    }

    fn idle(&self) -> bool {
        // A control file is qf while a message waits, hf in quarantine; tf and xf belong to it.
        self.queued("qf") == 0 && self.queued("tf") == 0
    }
}

impl Sendmail {
    /// Starts one that passes mail to smtp.test and relay.test on to this port, with the mailer of that name.
    pub(crate) fn start_before(milter: &Socket, when_down: WhenDown, sink: u16) -> Self {
        let flag = match when_down {
            WhenDown::Accept => "",
            WhenDown::Tempfail => ", F=T",
            WhenDown::Reject => ", F=R",
        };
        let milter = format!(
            "S={}{flag}, T=C:30s;S:30s;R:30s;E:1m",
            milter.for_sendmail()
        );
        let user = id(["-u", "mail"]).expect("Debian has a user mail");
        let group = id(["-g", "mail"]).expect("Debian has a group mail");
        let place = Place::new("Sendmail", "queue", Some((user, group)), &[]);
        let mode = |file: PathBuf, mode| {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("root may");
        };
        fs::create_dir(place.scratch.at("queue")).expect("a folder");
        mode(place.scratch.at("queue"), 0o700);
        let switch = "hosts files\naliases files\n";
        place.write("etc/service.switch", switch, &[]);
        mode(place.write("etc/deliver", DELIVER, &[]), 0o755);
        mode(place.write("mail.log", "", &[]), 0o666);

        let source = place.write(
            "etc/sendmail.mc",
            CONFIGURATION,
            &[("MILTER", &milter), ("SINK", &sink.to_string())],
        );
        let macros = root().join("usr/share/sendmail/cf");
        let made = Command::new("m4")
            .arg(format!("-D_CF_DIR_={}/", macros.display()))
            .arg(macros.join("m4/cf.m4"))
            .arg(source)
            .output()
            .expect("m4 runs");
        assert!(
            made.status.success(),
            "m4: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        fs::write(place.scratch.at("etc/sendmail.cf"), made.stdout).expect("our own folder");

        run(Command::new("cc")
            .args(["-O1", "-fno-builtin", "-shared", "-fPIC", "-w", "-o"])
            .arg(place.scratch.at("etc/shim.so"))
            .arg(place.write("etc/shim.c", SHIM, &[])));

        let sendmail = Self(place);
        sendmail.run(&["-bd"]);
        until("Sendmail listens", || {
            port_listens(sendmail.port()).then_some(())
        });
        sendmail
    }

    fn queued(&self, prefix: &str) -> usize {
        fs::read_dir(self.0.scratch.at("queue"))
            .expect("the queue's folder")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .count()
    }
}
