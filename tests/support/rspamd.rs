//! A private rspamd, run from the unpacked files of Debian 13's packages (`tests/run` unpacks them and
//! names the folder in `RSPAMD_ROOT`) with their own libraries. It has no rules but those of
//! `contrib/rspamd` and its own about headers, and no other modules. No DNS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::mta::{Place, not_unpacked, unpacked};
use super::tools::Killed;
use super::{port_listens, until};

/// Its workers end with its place.
pub(crate) struct Rspamd(Killed, Place);

const CONFIGURATION: &str = include_str!("servers/rspamd.conf");

fn folder() -> PathBuf {
    unpacked("RSPAMD_ROOT", "rspamd")
}

impl Rspamd {
    pub(crate) const NAME: &str = "rspamd";

    pub(crate) fn obstacle() -> Option<String> {
        not_unpacked(&folder().join("usr/bin/rspamd"))
    }

    /// Starts it with these maps, and returns when it listens.
    pub(crate) fn start(maps: &str) -> Self {
        let (place, files) = (Place::new("rspamd", "", None, &[]), folder());
        place.write("suffixes", "example\n", &[]);
        // With its rules that cut `+tag` and dots from addresses.
        let rules = files.join("usr/share/rspamd/rules/misc.lua");
        let rules = format!(
            "require \"global_functions\" ()\ndofile({:?})\n",
            rules.display().to_string()
        );
        place.write("rspamd.lua", &rules, &[]);
        let root = files.display().to_string();
        // The rules since version 4.
        let aliases = files.join("usr/share/rspamd/plugins/aliases.lua");
        let aliases = match aliases.exists() {
            true => format!("path = {:?};", aliases.display().to_string()),
            false => String::new(),
        };
        let values = [("MAPS", maps), ("ROOT", &root), ("ALIASES", &aliases)];
        let config = place.write("rspamd.conf", CONFIGURATION, &values);
        let libraries = [
            files.join("usr/lib/x86_64-linux-gnu"),
            files.join("usr/lib/rspamd"),
        ];
        let shared = [
            ("SHAREDIR", ""),
            ("LUALIBDIR", "lualib"),
            ("PLUGINSDIR", "plugins"),
            ("RULESDIR", "rules"),
        ];
        let shared = shared.map(|(name, below)| (name, files.join("usr/share/rspamd").join(below)));
        let own = ["DBDIR", "RUNDIR", "CONFDIR", "LOCAL_CONFDIR"];
        let own = own.map(|name| (name, place.scratch.path().to_owned()));
        let variables = shared.into_iter().chain(own);
        // By its own loader, because its C library is newer.
        let mut command = Command::new(files.join("usr/lib64/ld-linux-x86-64.so.2"));
        command
            .arg("--library-path")
            .arg(std::env::join_paths(libraries).expect("plain paths"))
            .arg(files.join("usr/bin/rspamd"))
            .args(["--insecure", "--no-fork", "--config"])
            .arg(config)
            .args(variables.map(|(name, value)| format!("--var={name}={}", value.display())))
            .current_dir(place.scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("it can be started");
        until("rspamd listens", || port_listens(place.port).then_some(()));
        Self(Killed(child), place)
    }

    /// Returns what it says, in JSON, about a message from this envelope sender.
    pub(crate) fn scan(&self, sender: &str) -> String {
        let message = "From: a@ok.example\r\nTo: b@our.example\r\nSubject: x\r\n\r\nHello\r\n";
        let request = format!(
            "POST /checkv2 HTTP/1.0\r\nFrom: {sender}\r\nRcpt: b@our.example\r\nContent-Length: {}\r\n\r\n{message}",
            message.len()
        );
        let mut stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.1.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }
}
