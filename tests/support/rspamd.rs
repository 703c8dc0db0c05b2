//! A private rspamd, run from the unpacked files of Debian 13's packages (`tests/run` unpacks them and
//! names the folder in `RSPAMD_ROOT`) with their own libraries. It has no rules but those of
//! `contrib/rspamd`, and no other modules. No DNS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Scratch, free_port, port_listens, root, show_on_failure, until};

pub(crate) struct Rspamd {
    scratch: Scratch,
    child: Child,
    port: u16,
}

const CONFIGURATION: &str = r#"
options {
  filters = "";
  url_tld = "@DIR@/suffixes";
  disable_hyperscan = true;
  hs_cache_dir = "@DIR@";
  tempdir = "@DIR@";
  pidfile = "@DIR@/pid";
  control_socket = "@DIR@/control mode=0600";
  dns { nameserver = ["127.0.0.1:9"]; }
}
logging { type = "file"; filename = "@DIR@/log"; level = "info"; }
worker "normal" { bind_socket = "127.0.0.1:@PORT@"; count = 1; }
lua = "@DIR@/rspamd.lua";
modules { path = "@ROOT@/usr/share/rspamd/plugins/multimap.lua"; }
actions { reject = 15; }
multimap {
@MAPS@
}
"#;

fn folder() -> PathBuf {
    std::env::var_os("RSPAMD_ROOT").map_or_else(|| root("target/rspamd"), PathBuf::from)
}

impl Rspamd {
    pub(crate) const NAME: &str = "rspamd";

    pub(crate) fn obstacle() -> Option<String> {
        let program = folder().join("usr/bin/rspamd");
        let is_missing = !program.is_file();
        is_missing.then(|| format!("no {}: tests/run unpacks it", program.display()))
    }

    /// Starts it with these maps, and returns when it listens.
    pub(crate) fn start(maps: &str) -> Self {
        let (scratch, port, files) = (Scratch::new(), free_port(), folder());
        scratch.write("suffixes", "example\n");
        scratch.write("rspamd.lua", "require \"global_functions\" ()\n");
        let text = CONFIGURATION
            .replace("@MAPS@", maps)
            .replace("@PORT@", &port.to_string())
            .replace("@ROOT@", &files.display().to_string())
            .replace("@DIR@", &scratch.path().display().to_string());
        scratch.write("rspamd.conf", &text);
        let libraries = [
            files.join("usr/lib/x86_64-linux-gnu"),
            files.join("usr/lib/rspamd"),
        ];
        let shared = files.join("usr/share/rspamd");
        let variables = [
            ("SHAREDIR", shared.clone()),
            ("LUALIBDIR", shared.join("lualib")),
            ("PLUGINSDIR", shared.join("plugins")),
            ("RULESDIR", shared.join("rules")),
            ("DBDIR", scratch.path().to_owned()),
            ("RUNDIR", scratch.path().to_owned()),
            ("CONFDIR", scratch.path().to_owned()),
            ("LOCAL_CONFDIR", scratch.path().to_owned()),
        ];
        // By its own loader, because its C library is newer.
        let mut command = Command::new(files.join("usr/lib64/ld-linux-x86-64.so.2"));
        command
            .arg("--library-path")
            .arg(std::env::join_paths(libraries).expect("plain paths"))
            .arg(files.join("usr/bin/rspamd"))
            .args(["--insecure", "--no-fork", "--config"])
            .arg(scratch.join("rspamd.conf"))
            .args(variables.map(|(name, value)| format!("--var={name}={}", value.display())))
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("it can be started");
        until("rspamd listens", || port_listens(port).then_some(()));
        Self {
            scratch,
            child,
            port,
        }
    }

    /// Returns what it says, in JSON, about a message from this envelope sender.
    pub(crate) fn scan(&self, sender: &str) -> String {
        let message = "From: a@ok.example\r\nTo: b@our.example\r\nSubject: x\r\n\r\nHello\r\n";
        let request = format!(
            "POST /checkv2 HTTP/1.0\r\nFrom: {sender}\r\nRcpt: b@our.example\r\nContent-Length: {}\r\n\r\n{message}",
            message.len()
        );
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }
}

impl Drop for Rspamd {
    fn drop(&mut self) {
        let log = std::fs::read_to_string(self.scratch.join("log"));
        show_on_failure("rspamd", &log.unwrap_or_default());
        // Its workers end with it.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
