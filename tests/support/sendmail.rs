//! A private Sendmail 8, run from the unpacked files of Debian's packages (`tests/run` unpacks them
//! and names the folder in `SENDMAIL_ROOT`), so that Postfix can be installed at the same time.
//!
//! A small script delivers every recipient into one maildir. No DNS, no TLS, no aliases. A
//! preloaded library replaces two functions of the C library, see [`SHIM`].

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mta::{Mta, WhenDown};
use super::site::Socket;
use super::{
    Scratch, end_processes_in, find_program, free_port, id, is_root, port_listens, run,
    show_on_failure, until,
};

pub(crate) struct Sendmail {
    scratch: Scratch,
    port: u16,
    mailbox: PathBuf,
}

/// Sendmail logs only with syslog(3), which does nothing on a machine without a syslog daemon; this
/// writes it to a file. And Sendmail sleeps for a minute if the machine's name has no dot.
const SHIM: &str = r#"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void vsyslog(int priority, const char *format, va_list arguments)
{
    char line[4096];
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    int file = open("@DIR@/mail.log", O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (length < 0 || file < 0)
        return;
    if ((size_t)length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (write(file, line, length) < 0) { /* nothing better can be done */ }
    close(file);
}
void syslog(int priority, const char *format, ...)
{ va_list a; va_start(a, format); vsyslog(priority, format, a); va_end(a); }
void __syslog_chk(int priority, int flag, const char *format, ...)
{ va_list a; va_start(a, format); vsyslog(priority, format, a); va_end(a); }
void __vsyslog_chk(int priority, int flag, const char *format, va_list arguments)
{ vsyslog(priority, format, arguments); }
void openlog(const char *name, int options, int facility) {}
void closelog(void) {}
int gethostname(char *name, size_t size)
{ strncpy(name, "mx.test", size); return 0; }
"#;

/// `TrustStickyBit` allows the milter's socket below `/tmp`. The load limits are very high, because
/// a busy machine would otherwise queue or refuse.
const CONFIGURATION: &str = r"
OSTYPE(`linux')
define(`ALIAS_FILE', `')
define(`HELP_FILE', `')
define(`STATUS_FILE', `')
define(`confCT_FILE', `-o @DIR@/etc/none')
define(`confCW_FILE', `-o @DIR@/etc/none')
define(`confCR_FILE', `-o @DIR@/etc/none')
define(`confDOMAIN_NAME', `mx.test')
define(`confPID_FILE', `@DIR@/sendmail.pid')
define(`QUEUE_DIR', `@DIR@/queue')
define(`confSERVICE_SWITCH_FILE', `@DIR@/etc/service.switch')
define(`confHOSTS_FILE', `/etc/hosts')
define(`confTO_IDENT', `0')
define(`confDEF_USER_ID', `mail:mail')
define(`confDONT_BLAME_SENDMAIL', `TrustStickyBit,GroupWritableDirPathSafe')
define(`confPRIVACY_FLAGS', `')
define(`confBAD_RCPT_THROTTLE', `0')
define(`confQUEUE_LA', `10000')
define(`confREFUSE_LA', `10000')
define(`confDELAY_LA', `0')
FEATURE(`no_default_msa')
FEATURE(`nocanonify')
FEATURE(`accept_unresolvable_domains')
FEATURE(`accept_unqualified_senders')
FEATURE(`promiscuous_relay')
DAEMON_OPTIONS(`Name=MTA, Addr=127.0.0.1, Port=@PORT@')
INPUT_MAIL_FILTER(`blocklist', `@MILTER@')
MAILER(`smtp')
LOCAL_RULE_0
R$*	$#dump $@ local $: $1
MAILER_DEFINITIONS
Mdump, P=@DIR@/etc/deliver, F=lsDFMShun8, S=EnvFromSMTP/HdrFromSMTP, R=EnvToSMTP, T=DNS/RFC822/X-Unix, U=mail:mail, A=deliver $f $u
";

const DELIVER: &str = r#"#!/bin/sh
umask 022
name=$(date +%s.%N).$$
{ printf 'Return-Path: <%s>\nDelivered-To: %s\n' "$1" "$2"; cat; } >@DIR@/maildir/tmp/$name &&
    mv @DIR@/maildir/tmp/$name @DIR@/maildir/new/$name
"#;

fn root() -> PathBuf {
    std::env::var_os("SENDMAIL_ROOT").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/sendmail"),
        PathBuf::from,
    )
}

fn program() -> PathBuf {
    root().join("usr/libexec/sendmail/sendmail")
}

impl Sendmail {
    /// Runs the program once with this instance's configuration, as for `-bp`.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        run(Command::new(program())
            .arg("-C")
            .arg(self.scratch.join("etc/sendmail.cf"))
            .args(arguments)
            .env("LD_PRELOAD", self.scratch.join("etc/shim.so")))
    }
}

impl Mta for Sendmail {
    const NAME: &str = "sendmail";

    fn obstacle() -> Option<String> {
        if !is_root() {
            return Some("starting a mail server takes root".into());
        }
        if !program().is_file() {
            return Some(format!("no {}: tests/run unpacks it", program().display()));
        }
        ["m4", "cc"]
            .into_iter()
            .find(|tool| find_program(tool).is_none())
            .map(|tool| format!("{tool} is not installed"))
    }

    fn start(milter: &Socket, when_down: WhenDown) -> Self {
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
        let scratch = Scratch::new();
        let folder = scratch.path().to_str().expect("a plain path").to_owned();
        let port = free_port();
        let write = |name: &str, text: &str| scratch.write(name, &text.replace("@DIR@", &folder));

        for name in [
            "queue",
            "maildir",
            "maildir/new",
            "maildir/cur",
            "maildir/tmp",
        ] {
            fs::create_dir_all(scratch.join(name)).expect("a folder");
            if name != "queue" {
                chown(scratch.join(name), Some(user), Some(group)).expect("root may");
            }
        }
        fs::set_permissions(scratch.join("queue"), fs::Permissions::from_mode(0o700))
            .expect("root may");
        write("etc/service.switch", "hosts files\naliases files\n");
        let script = write("etc/deliver", DELIVER);
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("root may");
        let log = write("mail.log", "");
        fs::set_permissions(log, fs::Permissions::from_mode(0o666)).expect("root may");

        let source = CONFIGURATION
            .replace("@PORT@", &port.to_string())
            .replace("@MILTER@", &milter);
        let source = write("etc/sendmail.mc", &source);
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
        fs::write(scratch.join("etc/sendmail.cf"), made.stdout).expect("our own folder");

        let shim = write("etc/shim.c", SHIM);
        run(Command::new("cc")
            .args(["-O1", "-fno-builtin", "-shared", "-fPIC", "-w", "-o"])
            .arg(scratch.join("etc/shim.so"))
            .arg(shim));

        let mailbox = scratch.join("maildir/new");
        let sendmail = Self {
            scratch,
            port,
            mailbox,
        };
        sendmail.run(&["-bd"]);
        until("Sendmail listens", || port_listens(port).then_some(()));
        sendmail
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn mailbox(&self) -> &Path {
        &self.mailbox
    }

    fn held(&self) -> usize {
        self.queued("hf")
    }

    fn idle(&self) -> bool {
        // A control file is qf while a message waits, hf in quarantine; tf and xf belong to it.
        self.queued("qf") == 0 && self.queued("tf") == 0
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.join("mail.log")).unwrap_or_default()
    }
}

impl Sendmail {
    fn queued(&self, prefix: &str) -> usize {
        fs::read_dir(self.scratch.join("queue"))
            .expect("the queue's folder")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .count()
    }
}

impl Drop for Sendmail {
    fn drop(&mut self) {
        show_on_failure("Sendmail", &self.log());
        end_processes_in(&self.scratch.join("queue"));
    }
}
