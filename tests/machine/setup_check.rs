//! `setup-check`: a correct setup has no errors; each error is found, and its remedy, run as
//! written, repairs it.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use support::mta::Mta;
use support::postfix::Postfix;
use support::site::{Daemon, Site, Socket, Transport};
use support::{is_root, run, usable};

const LIST: &str = "[[list]]\nname = \"spam\"\nfilter = \"@DIR@/spam.blf\"\n";
const GOOD: &str = "{ default_action=accept, connect_timeout=5s, command_timeout=10s }";

fn site() -> (Site, Daemon) {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["spammer@listed.test"]);
    site.configure(LIST);
    let daemon = site.serve();
    (site, daemon)
}

fn socket(site: &Site) -> &Path {
    match &site.socket {
        Socket::Unix(path) => path,
        Socket::Inet(_) => unreachable!("asked for a unix socket"),
    }
}

/// The findings: text and remedy by state.
#[derive(Debug)]
struct Found {
    code: Option<i32>,
    by_state: BTreeMap<String, Vec<(String, String)>>,
}

impl Found {
    fn wrong(&self) -> &[(String, String)] {
        self.by_state.get("wrong").map_or(&[], Vec::as_slice)
    }

    fn has(&self, state: &str, words: &str) -> bool {
        let found = self.by_state.get(state);
        found.is_some_and(|found| found.iter().any(|(text, _)| text.contains(words)))
    }

    /// Checks that there is exactly one error, with these words. Returns its remedy.
    fn fault(&self, words: &str) -> String {
        let [(text, remedy)] = self.wrong() else {
            panic!("expected one fault, {words:?}: {self:#?}");
        };
        assert!(text.contains(words), "{words:?}: {self:#?}");
        assert_eq!(self.code, Some(1));
        remedy.clone()
    }
}

/// Runs the command as the tests' user, who may connect, with additional arguments.
fn check(site: &Site, arguments: &[&str], path: Option<&Path>) -> Found {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
    command
        .args(["setup-check", "--json", "--config"])
        .arg(site.path().join("milter.toml"))
        .args(arguments);
    if let Some(folder) = path {
        command.env("PATH", folder);
    }
    let output = command.output().expect("the program starts");
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let mut by_state: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for finding in json["findings"].as_array().expect("a list") {
        let text = |name: &str| finding[name].as_str().expect("a text").to_owned();
        by_state
            .entry(text("state"))
            .or_default()
            .push((text("text"), text("remedy")));
    }
    Found {
        code: output.status.code(),
        by_state,
    }
}

/// A Postfix that uses the milter, and the folder of its `main.cf`.
struct Set {
    site: Site,
    _daemon: Daemon,
    postfix: Postfix,
    folder: String,
}

impl Set {
    fn up() -> Option<Self> {
        if !usable(Postfix::NAME, Postfix::obstacle()) {
            return None;
        }
        let (site, daemon) = site();
        let postfix = Postfix::start_with(&site.socket, &[]);
        let folder = postfix.command("true");
        let folder = folder
            .get_args()
            .nth(1)
            .expect("-c DIR")
            .to_string_lossy()
            .into_owned();
        let set = Self {
            site,
            _daemon: daemon,
            postfix,
            folder,
        };
        set.milters(&set.ours());
        // Never started, because only postconf reads it.
        set.postconf(&["-M", "smtp/inet=smtp inet n - n - - smtpd"]);
        Some(set)
    }

    fn ours(&self) -> String {
        GOOD.replace("{ ", &format!("{{ {}, ", self.site.socket.for_postfix()))
    }

    fn milters(&self, value: &str) {
        self.postconf(&["-e", &format!("smtpd_milters = {value}")]);
    }

    fn postconf(&self, arguments: &[&str]) {
        run(self.postfix.command("postconf").args(arguments));
    }

    fn check(&self) -> Found {
        check(&self.site, &["--postfix", &self.folder], None)
    }

    /// Checks for an error with these words; its remedy, run unchanged, leaves no error.
    fn is_mended(&self, words: &str) -> String {
        let remedy = self.check().fault(words);
        run(Command::new("sh").args(["-ec", &remedy]));
        let after = self.check();
        assert_eq!(after.wrong(), [], "after {remedy}");
        assert_eq!(after.code, Some(0));
        remedy
    }
}

#[test]
fn a_good_set_up_has_nothing_wrong() {
    let Some(set) = Set::up() else { return };
    let found = set.check();
    assert_eq!(found.wrong(), [], "{found:#?}");
    assert_eq!(found.code, Some(0));
    let broken = check(&set.site, &NO_POSTFIX, None);
    assert!(broken.has(
        "notice",
        "postconf cannot read the configuration: postconf -c /nonexistent: "
    ));
    let good = [
        "smtp/inet: asks the milter",
        "user postfix can open",
        "default_action=accept",
        "command_timeout=10s",
        "milter_protocol = 6",
        "list spam: reject",
        "a test message was accepted in",
    ];
    for words in good {
        assert!(found.has("good", words), "{words}: {found:#?}");
    }
    // The text output has the same.
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
    let text = run(command
        .arg("--config")
        .arg(set.site.path().join("milter.toml"))
        .args(["setup-check", "--postfix", &set.folder]));
    assert!(text.contains(", 0 wrong\n"), "{text}");
}

/// Two filters in a folder that the service may not enter: one finding, with its remedy beside it.
#[test]
fn what_the_service_may_not_read_is_said_once() {
    if !usable("root", (!is_root()).then(|| "only root is told".to_owned())) {
        return;
    }
    let (mut site, _daemon) = site();
    let closed = site.path().join("closed");
    fs::create_dir_all(&closed).expect("our own folder");
    for name in ["one.blf", "two.blf"] {
        fs::copy(site.path().join("spam.blf"), closed.join(name)).expect("our own files");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("our own folder");
    // The owner of the status folder is the service's user.
    let status = site.path().join("status");
    fs::create_dir_all(&status).expect("our own folder");
    chown(&status, Some(65_534), Some(65_534)).expect("root may");
    let list =
        |name| format!("[[list]]\nname = \"{name}\"\nfilter = \"@DIR@/closed/{name}.blf\"\n");
    site.configure(&format!(
        "status_file = \"@DIR@/status/status\"\n{}{}",
        list("one"),
        list("two")
    ));
    let found = check(&site, &[], None);
    let about: Vec<_> = found
        .wrong()
        .iter()
        .filter(|(text, _)| text.contains("cannot enter the folder"))
        .collect();
    let [(text, remedy)] = about.as_slice() else {
        panic!("expected one fault: {found:#?}");
    };
    assert!(!text.contains("run: "), "{text}");
    assert!(
        remedy.starts_with("chgrp ") && remedy.contains("/closed"),
        "{remedy}"
    );
}

#[test]
fn each_fault_in_postfix_is_found_and_mended_by_its_remedy() {
    let Some(set) = Set::up() else { return };
    set.milters("inet:127.0.0.1:1");
    let remedy = set.is_mended("does not name the milter");
    assert!(
        remedy.contains("inet:127.0.0.1:1"),
        "the others stay: {remedy}"
    );
    assert!(set.check().has("good", "then inet:127.0.0.1:1"));
    set.milters(&set.ours());

    set.postconf(&["-P", "smtp/inet/smtpd_milters = inet:127.0.0.1:1"]);
    set.is_mended("its own smtpd_milters in master.cf does not name the milter");
    set.postconf(&["-PX", "smtp/inet/smtpd_milters"]);

    set.postconf(&[
        "-P",
        "smtp/inet/receive_override_options = no_milters,no_address_mappings",
    ]);
    let remedy = set.is_mended("no_milters");
    assert!(remedy.contains("no_address_mappings"), "{remedy}");
    set.postconf(&["-PX", "smtp/inet/receive_override_options"]);

    set.postconf(&["-e", "content_filter = smtp:[127.0.0.1]:10024"]);
    set.is_mended("comes back from the content filter");
    set.postconf(&["-e", "content_filter ="]);

    let ours = set.ours();
    set.milters(&format!("{ours}, {ours}"));
    assert!(set.check().has("notice", "more than once"));
    set.milters(&ours);

    // A table may name another milter, or none.
    set.postconf(&["-e", "smtpd_milter_maps = cidr:/etc/maps"]);
    let found = set.check();
    assert!(found.has("notice", "smtpd_milter_maps = cidr:/etc/maps"));
    assert!(found.has("good", "smtp/inet: asks the milter"));
    set.milters("inet:127.0.0.1:1");
    let found = set.check();
    assert_eq!(found.wrong(), [], "{found:#?}");
    assert!(found.has("notice", "only where smtpd_milter_maps names it"));
    set.milters(&ours);
    set.postconf(&["-e", "smtpd_milter_maps ="]);

    fs::set_permissions(socket(&set.site), fs::Permissions::from_mode(0o600)).expect("ours");
    set.is_mended("user postfix cannot connect to");
}

#[test]
fn settings_that_lose_mail_are_found() {
    let Some(set) = Set::up() else { return };
    let address = set.site.socket.for_postfix();
    let fault = |good: &str, bad: &str, words: &str| {
        set.milters(&set.ours().replace(good, bad));
        let remedy = set.check().fault(words);
        assert!(remedy.contains(&address), "{remedy}");
    };
    fault(
        "action=accept",
        "action=reject",
        "all mail is refused for good",
    );
    fault(
        "command_timeout=10s",
        "command_timeout=5s",
        "not more than drain_s = 5",
    );
    set.milters(&set.ours());

    set.postconf(&["-M", "smtp/inet=smtp inet n - y - - smtpd"]);
    set.check()
        .fault("smtp/inet (in a chroot): looks for the socket at");
    set.postconf(&["-M", "smtp/inet=smtp inet n - n - - smtpd"]);

    set.postconf(&["-e", "milter_protocol = 2", "milter_mail_macros = i"]);
    set.check()
        .fault("milter_mail_macros lacks {mail_addr}, {auth_authen}");
    set.postconf(&[
        "-e",
        "milter_protocol = 6",
        "non_smtpd_milters = $smtpd_milters",
    ]);
    assert!(
        set.check()
            .has("notice", "non_smtpd_milters names the milter")
    );
}

const NO_POSTFIX: [&str; 2] = ["--postfix", "/nonexistent"];

/// Without the configuration the socket is unknown: no remedy must name another one.
#[test]
fn nothing_is_guessed_from_a_faulty_configuration() {
    let Some(set) = Set::up() else { return };
    for text in ["lisen = [\"unix:/x\"]\n", "workers = -1\n"] {
        set.site.write("milter.toml", text);
        let found = set.check();
        let [(text, remedy)] = found.wrong() else {
            panic!("expected one fault: {found:#?}");
        };
        assert!(text.contains("milter.toml:1:"), "{text}");
        assert_eq!(remedy, "");
        assert!(found.has("notice", "sockets and mail server are not checked"));
    }
}

#[test]
fn a_milter_that_does_not_serve_is_found() {
    let (site, daemon) = site();
    fs::write(site.path().join("spam.blf"), "").expect("our own file");
    let found = check(&site, &NO_POSTFIX, None);
    assert!(found.has("wrong", "spam.blf"), "{found:#?}");

    assert!(daemon.terminate().success());
    let found = check(&site, &NO_POSTFIX, None);
    assert!(found.has("wrong", "milter.sock"), "{found:#?}");
    assert!(
        found.has("wrong", "no test message can be sent"),
        "{found:#?}"
    );
}

#[test]
fn a_list_that_was_not_compiled_again_is_found() {
    let (site, _daemon) = site();
    let list = site.write("lists/spam/own.txt", "other@listed.test\n");
    let age = |seconds: i64| {
        let now = SystemTime::now();
        let by = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 { now + by } else { now - by };
        let file = fs::File::options()
            .write(true)
            .open(&list)
            .expect("our own");
        file.set_modified(time).expect("our own file");
    };
    age(3600);
    assert_eq!(check(&site, &NO_POSTFIX, None).wrong(), []);
    age(-3600);
    let remedy = check(&site, &NO_POSTFIX, None).fault("has changed after");
    assert_eq!(remedy, "systemctl start blocklist-compile@spam.service");
    age(3600);
    site.write(
        "feeds/spam.conf",
        "url = https://a.example/\naction = tag\n",
    );
    assert!(check(&site, &NO_POSTFIX, None).has("notice", "advises \"tag\""));
}

/// A program with its name replaces systemctl.
#[test]
fn units_that_do_not_work_are_found() {
    let (site, _daemon) = site();
    let folder = site.path().join("bin");
    let systemd = |active: &str, enabled: &str, user: &str| {
        let text = format!(
            "#!/bin/sh\necho LoadState=loaded\ncase $3 in *.socket) active=active; echo 'Listen={} (Stream)' ;; \
             *) active={active}; echo User={user} ;; esac\necho ActiveState=$active\necho UnitFileState={enabled}\n",
            socket(&site).display()
        );
        let program = site.write("bin/systemctl", &text);
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("our own file");
        check(&site, &NO_POSTFIX, Some(&folder))
    };
    let good = systemd("active", "enabled", "root");
    assert_eq!(good.wrong(), [], "{good:#?}");
    assert!(good.has("good", "blocklist-milter.socket is active and enabled"));
    let failed = systemd("failed", "enabled", "root");
    let remedy = failed.fault("blocklist-milter.service is failed");
    assert_eq!(remedy, "systemctl enable --now blocklist-milter.service");
    assert!(systemd("active", "disabled", "root").has("wrong", "will not start at the next boot"));

    if let Some((uid, _)) = site.user {
        // The filter belongs to nobody in Postfix's group; the service has another user.
        assert_ne!(uid, 1);
        fs::set_permissions(
            site.path().join("spam.blf"),
            fs::Permissions::from_mode(0o640),
        )
        .expect("ours");
        let denied = systemd("active", "enabled", "daemon");
        let remedy = denied.fault("user daemon cannot read");
        assert!(remedy.starts_with("chgrp daemon "), "{remedy}");
    }
}

#[test]
fn faults_in_sendmails_configuration_are_found() {
    let (mut site, daemon) = site();
    assert!(daemon.terminate().success());
    site.configure(&format!("{LIST}[exempt]\nnetworks = [\"127.0.0.1\"]\n"));
    let _daemon = site.serve();
    let found = |filter: &str, chain: &str| {
        let text = format!(
            "O InputMailFilters={chain}\nXblocklist, S={}{filter}\n",
            site.socket.for_sendmail()
        );
        let cf = site.write("sendmail.cf", &text);
        let cf = cf.to_str().expect("a plain path");
        check(
            &site,
            &[&NO_POSTFIX[..], &["--sendmail", cf]].concat(),
            None,
        )
    };
    let good = found(", T=C:5s;S:10s;R:10s;E:1m", "other, blocklist");
    assert_eq!(good.wrong(), [], "{good:#?}");
    assert!(good.has("good", "InputMailFilters asks other, then blocklist"));
    found("", "other").fault("InputMailFilters does not name blocklist");
    found("x", "blocklist").fault("no mail filter has the milter's socket");
    found(", F=R", "blocklist").fault("refused for good");
    found(", T=R:5s", "blocklist").fault("T=R:5s is not more than drain_s = 5");
    site.configure(LIST);
    let found = {
        let cf = site.path().join("sendmail.cf");
        site.write(
            "sendmail.cf",
            &format!(
                "O InputMailFilters=blocklist\nXblocklist, S={}\n",
                site.socket.for_sendmail()
            ),
        );
        let cf = cf.to_str().expect("a plain path").to_owned();
        check(
            &site,
            &[&NO_POSTFIX[..], &["--sendmail", &cf]].concat(),
            None,
        )
    };
    found.fault("which networks does not exempt");
}
