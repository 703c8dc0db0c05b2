//! The daemon in the test's own process, with lists compiled by the library, and a mail server's
//! side.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_compile::list::{Format, MaxRejects};
use blocklist_milter::config::Config;
use blocklist_milter::daemon::{Daemon, fetch};
use blocklist_milter::demo::peer::{Answer, Change, Delivery, Peer, TestMail};
use blocklist_milter::endpoint::Endpoint;
use blocklist_milter::serve::{self, Blocklists};
use blocklist_milter::snapshot::{Live, Start};
use tempfile::TempDir;

use super::{Said, milter, rows, until_so};

/// A field of an innocent author.
pub(crate) const OK: &str = "From: a@ok.example";

/// Returns a message to `bob@our.example`.
pub(crate) fn letter(mail_from: &str, headers: &[&str]) -> TestMail {
    TestMail::new(mail_from, &["<bob@our.example>"], headers)
}

pub(crate) struct Rig {
    pub(crate) live: Arc<Live>,
    pub(crate) service: Arc<Blocklists>,
    _daemon: Daemon,
    folder: TempDir,
}

impl Rig {
    /// Serves with these files and this configuration; compiles `*.list` files to `*.blf`. The
    /// configuration needs no `listen`.
    pub(crate) fn new(files: &[(&str, &str)], config: &str) -> Self {
        Self::serving(files, config, |path| {
            let config = Config::load(path).unwrap_or_else(|error| panic!("{error}"));
            let live = Live::new(config, Some(path.to_owned()));
            live.unwrap_or_else(|error| panic!("{error}"))
        })
    }

    /// The same for files some of which may be missing or faulty.
    pub(crate) fn started(files: &[(&str, &str)], config: &str) -> Self {
        Self::serving(files, config, |path| Live::start(Start::read(path)))
    }

    fn serving(files: &[(&str, &str)], config: &str, begin: fn(&Path) -> Live) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            write(folder.path(), name, text);
        }
        write(folder.path(), "c.toml", &with_socket(folder.path(), config));
        let path = folder.path().join("c.toml");
        let live = Arc::new(begin(&path));
        let options = serve::options(&live.snapshot().config);
        let service =
            Arc::new(Blocklists::new(Arc::clone(&live), Arc::default()).expect("threads"));
        let daemon = Daemon::start(&options, &service);
        let daemon = daemon.unwrap_or_else(|error| panic!("{error}"));
        Self {
            live,
            service,
            _daemon: daemon,
            folder,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file as `new` does; the daemon notices it by itself.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let text = if name == "c.toml" {
            with_socket(self.folder.path(), text)
        } else {
            text.to_owned()
        };
        write(self.folder.path(), name, &text);
    }

    /// Returns a connection, with a client somewhere on the internet.
    pub(crate) fn peer(&self) -> Peer {
        let mut peer = Peer::unix(&self.path("m.sock")).expect("the daemon listens");
        peer.stranger().expect("the daemon answers");
        peer
    }

    /// Returns a page of the status socket: its code and its text.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        let endpoint = Endpoint::Unix(self.path("s.sock"));
        let (code, body) = fetch(&endpoint, path).unwrap_or_else(|error| panic!("{path}: {error}"));
        (code, String::from_utf8(body).expect("pages are UTF-8"))
    }

    /// Returns a connection with this client.
    pub(crate) fn client(&self, address: &str, port: u16) -> Peer {
        let mut peer = Peer::unix(&self.path("m.sock")).expect("the daemon listens");
        let address = address.parse().expect("an address");
        peer.client(address, port).expect("the daemon answers");
        peer
    }

    /// Returns the verdict on a message with this envelope sender and these fields.
    pub(crate) fn verdict(&self, mail_from: &str, headers: &[&str]) -> String {
        verdict(&self.deliver(&letter(mail_from, headers)))
    }

    /// Returns the verdict on this envelope sender, with an innocent header.
    pub(crate) fn gets(&self, mail_from: &str) -> String {
        self.verdict(mail_from, &[OK])
    }

    /// Checks the verdict on this envelope sender.
    #[track_caller]
    pub(crate) fn is(&self, mail_from: &str, expected: &str) {
        assert_eq!(self.gets(mail_from), expected, "{mail_from}");
    }

    /// Waits until this envelope sender gets this verdict.
    #[track_caller]
    pub(crate) fn becomes(&self, mail_from: &str, expected: &str) {
        until_so(&format!("{mail_from} gets {expected}"), || {
            self.gets(mail_from) == expected
        });
    }

    /// Checks the verdicts in a table: envelope sender, fields with ` + ` between them, verdict.
    #[track_caller]
    pub(crate) fn judges(&self, table: &'static str) {
        for [mail_from, fields, expected] in rows(table) {
            let fields: Vec<&str> = fields.split(" + ").filter(|one| !one.is_empty()).collect();
            assert_eq!(
                self.verdict(mail_from, &fields),
                expected,
                "{mail_from} {fields:?}"
            );
        }
    }

    /// Replaces a file by rename, as everybody should; the file in effect is still open.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path("aside"), bytes).expect("our own folder");
        fs::rename(self.path("aside"), self.path(name)).expect("our own folder");
    }

    /// Runs a command of the daemon's program in the folder, with the configuration.
    pub(crate) fn milter(&self, arguments: &[&str]) -> Said {
        let mut command = milter();
        command
            .args(arguments)
            .args(["--config", "c.toml"])
            .current_dir(self.path(""));
        Said::of(&mut command)
    }

    /// Delivers one message over a separate connection. Returns the result.
    pub(crate) fn deliver(&self, letter: &TestMail) -> Delivery {
        let mut peer = self.peer();
        let outcome = peer.deliver(letter).expect("the daemon answers");
        peer.quit().expect("nothing is left over");
        outcome
    }
}

/// Returns the configuration with sockets in this folder, and with copies of filters there too, not
/// in the folder of an installed daemon.
fn with_socket(folder: &Path, config: &str) -> String {
    let in_folder = |name: &str| folder.join(name).display().to_string();
    let state = match config.contains("state = ") {
        true => String::new(),
        false => format!("state = \"{}\"\n", in_folder("state")),
    };
    let pages = format!("[status]\nlisten = \"unix:{}\"", in_folder("s.sock"));
    let config = match config.contains("[status]") {
        _ if config.contains("[status]\nlisten") => config.to_owned(),
        true => config.replace("[status]", &pages),
        false => format!("{config}\n{pages}"),
    };
    let doors = ["policy", "socketmap", "rspamd"]
        .map(|door| format!(", \"{door}:unix:{}\"", in_folder(door)))
        .concat();
    format!(
        "listen = [\"unix:{}\"{doors}]\n{state}{config}",
        in_folder("m.sock")
    )
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    let aside = folder.join(format!("{name}.new"));
    fs::write(&aside, text).expect("the folder can be written");
    fs::rename(&aside, &path).expect("the folder can be written");
    if path
        .extension()
        .is_some_and(|extension| extension == "list")
    {
        compile(&path);
    }
}

/// Compiles `x.list` to `x.blf`.
fn compile(list: &Path) {
    let mut plan = Plan::new(list.with_extension("blf"), vec![list.to_owned()]);
    plan.resources.threads = 1;
    plan.reads.declared.format = Some(Format::Plain);
    plan.limits.allow_empty = true;
    plan.limits.max_rejects = MaxRejects::Percent(100.0);
    let report = compile::build(&plan, &Progress::new()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.refused, None);
}

/// Returns a result in words: `accept`, `reject`, `tempfail`, `discard`, `tag`, `quarantine`; one
/// for each recipient if they differ.
pub(crate) fn verdict(outcome: &Delivery) -> String {
    let word = |answer: &Answer| match answer {
        Answer::Text(text) if text.starts_with('4') => "tempfail",
        Answer::Text(_) | Answer::Reject => "reject",
        Answer::Tempfail => "tempfail",
        Answer::Discard => "discard",
        Answer::Continue | Answer::Accept => "accept",
    };
    let mut words: Vec<&str> = outcome
        .recipients
        .iter()
        .filter(|answer| answer.refuses())
        .map(word)
        .collect();
    if let Some(message) = &outcome.message {
        let changed = outcome.changes.iter().find_map(|change| match change {
            Change::Added(..) => Some("tag"),
            Change::Quarantined(_) => Some("quarantine"),
            Change::Changed(..) => None,
        });
        words.push(changed.unwrap_or_else(|| word(message)));
    }
    words.dedup();
    words.join(" ")
}
