//! `setup-check`: a correct setup has no errors; each error is found, and its remedy, run as
//! written, repairs it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::exim::{Exim, policy_of};
use crate::support::mta::{Mta, WhenDown};
use crate::support::postfix::Postfix;
use crate::support::sendmail::Sendmail;
use crate::support::site::{Daemon, SPAM, Site, Socket};
use crate::support::{
    Said, Scratch, free_port, has, has_all, is_root, milter, run, until, usable, works_in,
};

/// Answers the negotiation of a mail server, and wants nothing.
fn other_milter() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut offer = [0; 17];
                let _ = stream.read_exact(&mut offer);
                let answer = [0, 0, 0, 13, b'O', 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 3, 0x7f];
                let _ = stream.write_all(&answer);
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    format!("inet:127.0.0.1:{port}")
}

const GOOD: &str = "{ default_action=accept, connect_timeout=5s, command_timeout=10s }";

/// Returns whether the command can be run at all.
fn root() -> bool {
    usable("root", (!is_root()).then(|| "only root is told".to_owned()))
}

fn site() -> (Site, Daemon) {
    let site = Site::spam(&["spammer@listed.test"], "");
    let daemon = site.serve();
    (site, daemon)
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

    /// Checks that a finding in this state has these words.
    #[track_caller]
    fn says(&self, state: &str, words: &str) {
        let found = self.by_state.get(state);
        let is_said = found.is_some_and(|found| found.iter().any(|(text, _)| text.contains(words)));
        assert!(is_said, "{state}, {words:?}: {self:#?}");
    }

    /// Checks that nothing is wrong.
    #[track_caller]
    fn is_good(&self) {
        assert_eq!(self.wrong(), [], "{self:#?}");
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
    let mut command = milter();
    command
        .args(["setup-check", "--json", "--config"])
        .arg(site.at("milter.toml"));
    if let Some(folder) = path {
        command.env("PATH", folder);
    }
    let said = Said::of(command.args(arguments));
    let json: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let mut by_state: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for finding in json["findings"].as_array().expect("a list") {
        let text = |name: &str| finding[name].as_str().expect("a text").to_owned();
        let of_state = by_state.entry(text("state")).or_default();
        of_state.push((text("text"), text("remedy")));
    }
    let code = said.code;
    Found { code, by_state }
}

/// A Postfix that uses the milter, and accepts mail on port 25 of an address of its own.
struct Set {
    site: Site,
    daemon: Option<Daemon>,
    postfix: Postfix,
    folder: String,
    /// Its service in `master.cf`, without the type.
    smtp: String,
}

impl Set {
    fn up() -> Option<Self> {
        Self::up_with(SPAM)
    }

    fn up_with(config: &str) -> Option<Self> {
        if !usable(Postfix::NAME, Postfix::obstacle()) {
            return None;
        }
        let mut site = Site::spam(&["spammer@listed.test"], "");
        site.configure(config);
        let daemon = Some(site.serve());
        let postfix = Postfix::start_with(&site.socket, &[]);
        let command = postfix.command("true");
        let folder = command.get_args().nth(1).expect("-c DIR");
        let [high, low] = free_port().to_be_bytes();
        let set = Self {
            site,
            daemon,
            folder: folder.to_string_lossy().into_owned(),
            postfix,
            smtp: format!("127.{high}.{low}.1:25"),
        };
        set.chroot('n');
        set.milters(&set.ours());
        Some(set)
    }

    fn ours(&self) -> String {
        GOOD.replace("{ ", &format!("{{ {}, ", self.site.socket.for_postfix()))
    }

    fn chroot(&self, chroot: char) {
        let smtp = &self.smtp;
        let line = format!("{smtp}/inet={smtp} inet n - {chroot} - - smtpd");
        self.postconf(&["-M", &line]);
    }

    fn milters(&self, value: &str) {
        self.postconf(&["-e", &format!("smtpd_milters = {value}")]);
    }

    /// Changes Postfix's configuration, and waits until it is in effect.
    fn postconf(&self, arguments: &[&str]) {
        run(self.postfix.command("postconf").args(arguments));
        self.postfix.reload(&[]);
        self.settle();
    }

    /// Waits until no smtpd has the settings from before a reload.
    fn settle(&self) {
        let queue = self.postfix.queue();
        until("no old smtpd", || {
            (!works_in(&queue, "smtpd")).then_some(())
        });
    }

    fn of_smtp(&self, setting: &str) -> String {
        format!("{}/inet/{setting}", self.smtp)
    }

    fn check(&self) -> Found {
        check(&self.site, &["--postfix", &self.folder], None)
    }

    /// Checks for an error with these words; its remedy, run unchanged, leaves no error.
    fn is_mended(&self, words: &str) -> String {
        self.is_mended_all(&[words])
    }

    /// Checks for errors with these words. The remedy of the first one leaves no error.
    fn is_mended_all(&self, words: &[&str]) -> String {
        let remedy = self.faults(words);
        run(Command::new("sh").args(["-ec", &remedy]));
        self.settle();
        let after = self.check();
        assert_eq!(after.wrong(), [], "after {remedy}");
        assert_eq!(after.code, Some(0));
        remedy
    }

    /// Checks that there are these errors and no others. Returns the remedy of the first one.
    fn faults(&self, words: &[&str]) -> String {
        let found = self.check();
        let wrong = found.wrong();
        assert_eq!(wrong.len(), words.len(), "{words:?}: {found:#?}");
        for ((text, _), words) in wrong.iter().zip(words) {
            assert!(text.contains(words), "{words:?}: {found:#?}");
        }
        assert_eq!(found.code, Some(1));
        wrong[0].1.clone()
    }
}

#[test]
fn a_good_set_up_has_nothing_wrong() {
    let Some(set) = Set::up() else { return };
    let found = set.check();
    found.is_good();
    assert_eq!(found.code, Some(0));
    let broken = check(&set.site, &NO_POSTFIX, None);
    let why = "postconf cannot read the configuration: postconf -c /nonexistent: ";
    broken.says("notice", why);
    for words in [
        "user postfix can open",
        "default_action=accept",
        "command_timeout=10s",
        "milter_protocol = 6",
        "list spam: reject",
        "a test sender was accepted in",
        ":25/inet: asks the milter",
        ":25: a test transaction over SMTP reached the daemon",
    ] {
        found.says("good", words);
    }
    // The text output has the same.
    let mut command = milter();
    command
        .args(["setup-check", "--postfix", &set.folder])
        .arg("--config");
    has(&run(command.arg(set.site.at("milter.toml"))), ", 0 wrong\n");
}

/// Two filters in a folder that the service may not enter: one finding, with its remedy beside it.
#[test]
fn what_the_service_may_not_read_is_said_once() {
    if !root() {
        return;
    }
    let (mut site, _daemon) = site();
    let closed = site.at("closed");
    fs::create_dir_all(&closed).expect("our own folder");
    for name in ["one.blf", "two.blf"] {
        fs::copy(site.at("spam.blf"), closed.join(name)).expect("our own files");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("our own folder");
    // The owner of the status folder is the service's user.
    let status = site.at("status");
    fs::create_dir_all(&status).expect("our own folder");
    chown(&status, Some(65_534), Some(65_534)).expect("root may");
    let [one, two] = ["one", "two"]
        .map(|name| format!("[[list]]\nname = \"{name}\"\nfilter = \"@DIR@/closed/{name}.blf\"\n"));
    site.configure(&format!(
        "status_file = \"@DIR@/status/status\"\n{one}{two}"
    ));
    let found = check(&site, &[], None);
    let about = |(text, _): &&(String, String)| text.contains("cannot enter the folder");
    let about: Vec<_> = found.wrong().iter().filter(about).collect();
    let [(text, remedy)] = about.as_slice() else {
        panic!("expected one fault: {found:#?}");
    };
    assert!(!text.contains("run: "), "{text}");
    has_all(remedy, &["chgrp ", "/closed"]);
}

/// Nothing is delivered, and neither the counters nor the log know of the test transactions.
#[test]
fn its_own_transactions_leave_no_trace() {
    let status = "[status]\nlisten = \"unix:@DIR@/status.sock\"\n";
    // Nothing exempts it, and no recipient does.
    let exempt = "[exempt]\nnetworks = [\"127.0.0.0/8\"]\n";
    let Some(set) = Set::up_with(&format!("{SPAM}{exempt}{status}")) else {
        return;
    };
    set.check().says("good", "over SMTP reached the daemon");
    let status = || -> Value {
        let mut command = milter();
        command
            .args(["status", "--json", "--config"])
            .arg(set.site.at("milter.toml"));
        serde_json::from_str(&Said::of(&mut command).out).expect("JSON")
    };
    assert_eq!(status()["messages"]["total"], 0, "{}", status());
    until("an idle queue", || set.postfix.idle().then_some(()));
    let delivered = fs::read_dir(set.postfix.mailbox()).expect("a folder");
    assert_eq!(delivered.count(), 0);
    has(
        &set.postfix.log(),
        "450 4.7.0 blocklist-milter would accept setup-check-",
    );

    // A file where a folder is expected is named by both.
    set.site.write("lists/own.txt", "spammer@listed.test\n");
    set.faults(&["lists/own.txt is in no list: move it into a folder, "]);
    let status = status();
    assert_eq!(status["health"], "warning");
    let problem = status["problems"][0]["text"].as_str().expect("a text");
    has(problem, "lists/own.txt is in no list");
}

#[test]
fn each_fault_in_postfix_is_found_and_mended_by_its_remedy() {
    let Some(set) = Set::up() else { return };
    let other = other_milter();
    let smtp = "a test transaction over SMTP did not reach the daemon";
    let smtp = &format!("{}: {smtp}", set.smtp);
    set.milters(&other);
    let remedy = set.is_mended_all(&["does not name the milter", smtp]);
    assert!(remedy.contains(&other), "the others stay: {remedy}");
    let found = set.check();
    found.says("good", &format!("then {other}"));
    found.says("good", &format!("{other} answers"));
    set.milters(&set.ours());

    // Changed, but an smtpd that has served before does not know it.
    set.milters("");
    set.check();
    let milters = format!("smtpd_milters = {}", set.ours());
    run(set.postfix.command("postconf").args(["-e", &milters]));
    set.is_mended(smtp);

    set.postconf(&["-P", &set.of_smtp(&format!("smtpd_milters = {other}"))]);
    set.is_mended_all(&[
        "its own smtpd_milters in master.cf does not name the milter",
        smtp,
    ]);
    set.postconf(&["-PX", &set.of_smtp("smtpd_milters")]);

    let options = "receive_override_options = no_milters,no_address_mappings";
    set.postconf(&["-P", &set.of_smtp(options)]);
    let remedy = set.is_mended_all(&["no_milters", smtp]);
    has(&remedy, "no_address_mappings");
    set.postconf(&["-PX", &set.of_smtp("receive_override_options")]);

    set.postconf(&["-e", "content_filter = smtp:[127.0.0.1]:10024"]);
    set.is_mended("comes back from the content filter");
    set.postconf(&["-e", "content_filter ="]);

    let ours = set.ours();
    set.milters(&format!("{ours}, {ours}"));
    set.check().says("notice", "more than once");
    set.milters(&ours);

    // A table may name another milter, or none.
    let table = "inline:{{127.0.0.1=DISABLE}}";
    set.postconf(&["-e", &format!("smtpd_milter_maps = {table}")]);
    let found = set.check();
    found.says("notice", "smtpd_milter_maps = inline:");
    found.says("good", "/inet: asks the milter");
    set.milters(&other);
    let found = set.check();
    found.is_good();
    found.says("notice", "only where smtpd_milter_maps names it");
    found.says("notice", "perhaps smtpd_milter_maps exempts this machine");
    set.milters(&ours);
    set.postconf(&["-e", "smtpd_milter_maps ="]);

    fs::set_permissions(set.site.unix(), fs::Permissions::from_mode(0o600)).expect("ours");
    let found = set.check();
    let (text, remedy) = &found.wrong()[0];
    assert!(
        text.contains("user postfix cannot connect to"),
        "{found:#?}"
    );
    run(Command::new("sh").args(["-ec", remedy]));
    set.check().is_good();
}

/// What Postfix names is asked, whoever it belongs to; a misspelling is not repeated.
#[test]
fn a_milter_that_is_not_there_is_found() {
    let Some(set) = Set::up() else { return };
    let dead = format!("inet:127.0.0.1:{}", free_port());
    let ours = set.ours();
    set.milters(&format!("{ours}, {{ {dead}, default_action=accept }}"));
    let remedy = set.faults(&[&format!("{dead} does not answer (Connection refused")]);
    assert_eq!(remedy, "start it, or take it out of smtpd_milters");
    set.milters(&format!("{ours}, {dead}"));
    set.faults(&[
        "does not answer",
        "cannot use a milter, and answers MAIL with \"451 4.7.1 ",
    ]);
    set.milters(&format!("{ours}, {{ {dead}, default_action=reject }}"));
    set.faults(&[
        "all mail is refused for good",
        "answers the connection with \"554 ",
    ]);
    set.milters(&format!("{ours}, nonsense"));
    set.check().says("wrong", "nonsense does not answer");

    let misspelt = ours.replace("/milter.sock", "/miltre.sock");
    set.milters(&misspelt);
    let words = [
        "does not name the milter",
        "miltre.sock, where there is none: mail passes unchecked",
        "did not reach the daemon",
    ];
    let remedy = set.is_mended_all(&words);
    assert!(!remedy.contains("miltre.sock"), "{remedy}");
    has(&remedy, "command_timeout=10s");

    // In a chroot, with no socket below the queue directory and no units: the setting is named.
    set.chroot('y');
    let found = set.check();
    let (text, remedy) = &found.wrong()[0];
    assert!(
        text.contains("/inet (in a chroot): looks for the socket at"),
        "{found:#?}"
    );
    let queue = set.postfix.queue();
    let listen = format!(
        "listen = [\"unix:{}/blocklist-milter/milter.sock\"]",
        queue.display()
    );
    has(remedy, &listen);
    has(
        remedy,
        "unix:blocklist-milter/milter.sock, default_action=accept",
    );
    found.says("wrong", "did not reach the daemon");
    set.chroot('n');

    // Postfix is down.
    run(set.postfix.command("postfix").arg("stop"));
    let remedy = set.faults(&[&format!("{}: no mail is accepted here: ", set.smtp)]);
    assert!(remedy.ends_with(" start"), "{remedy}");
}

#[test]
fn settings_that_lose_mail_are_found() {
    let Some(set) = Set::up() else { return };
    for (good, bad, words) in [
        (
            "action=accept",
            "action=reject",
            "default_action=reject: while the milter is down, all mail is refused for good",
        ),
        (
            "action=accept",
            "action=acept",
            "all mail is refused with 451, because Postfix does not know this default_action",
        ),
        (
            "command_timeout=10s",
            "command_timeout=5s",
            "not more than 5 seconds",
        ),
    ] {
        set.milters(&set.ours().replace(good, bad));
        has(&set.is_mended(words), &set.site.socket.for_postfix());
    }
    // Where a service has its own.
    let own = "smtpd_milters={@,default_action=acept,connect_timeout=5s,command_timeout=10s}";
    let own = own.replace('@', &set.site.socket.for_postfix());
    set.postconf(&["-P", &set.of_smtp(&own)]);
    set.is_mended("default_action=acept");
    set.postconf(&["-PX", &set.of_smtp("smtpd_milters")]);

    set.postconf(&["-e", "milter_protocol = 2", "milter_mail_macros = i"]);
    set.is_mended("milter_mail_macros lacks {mail_addr}, {auth_authen}");
    set.postconf(&["-e", "non_smtpd_milters = $smtpd_milters"]);
    let found = set.check();
    found.says("notice", "non_smtpd_milters names the milter");
    found.is_good();
}

/// A daemon that has no good filter would refuse everybody: that a session reaches it is not enough.
#[test]
fn a_daemon_that_refuses_everybody_is_found() {
    let Some(mut set) = Set::up() else { return };
    assert!(set.daemon.take().expect("it runs").terminate().success());
    fs::write(set.site.path().join("spam.blf"), "").expect("our own file");
    let _daemon = set.site.serve();
    let found = set.check();
    found.says(
        "wrong",
        ":25: a test transaction over SMTP reached the daemon, which refuses even unlisted",
    );
    found.says(
        "wrong",
        "milter.sock: the daemon refuses even unlisted senders",
    );
}

/// Not everything can be found out; what cannot is said.
#[test]
fn what_stays_unknown_is_said() {
    let Some(set) = Set::up() else { return };
    // Who is not root sees little.
    let output = milter().arg("setup-check").uid(65_534).gid(65_534).output();
    if let Ok(output) = output {
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_all = said.ends_with("run it as root\n") && output.stdout.is_empty();
        assert!(is_all, "{said}");
    }
    // "postmaster" passes all restrictions but a wrong size of the message, a wrong HELO, TLS.
    let encrypt = "smtpd_tls_security_level = encrypt";
    set.postconf(&["-e", encrypt, "smtpd_tls_cert_file = /etc/none"]);
    let found = set.check();
    found.is_good();
    let why = "it is unknown whether mail is checked: the mail server answered ";
    found.says("notice", why);
    set.postconf(&["-e", "smtpd_tls_security_level = none"]);
    let strict = "smtpd_recipient_restrictions = reject_unknown_sender_domain, reject";
    let delay = "smtpd_delay_reject = no";
    set.postconf(&["-e", strict, delay, "smtpd_relay_restrictions ="]);
    set.check().says("good", "over SMTP reached the daemon");
}

const NO_POSTFIX: [&str; 2] = ["--postfix", "/nonexistent"];

/// Without the configuration the socket is unknown: no remedy must name another one.
#[test]
fn nothing_is_guessed_from_a_faulty_configuration() {
    let Some(set) = Set::up() else { return };
    for text in ["lisen = [\"unix:/x\"]\n", "sandbox = -1\n"] {
        set.site.write("milter.toml", text);
        let found = set.check();
        let [(text, remedy)] = found.wrong() else {
            panic!("expected one fault: {found:#?}");
        };
        has(text, "milter.toml:1:");
        assert_eq!(remedy, "");
        found.says("notice", "sockets and mail server are not checked");
    }
}

#[test]
fn a_milter_that_does_not_serve_is_found() {
    if !root() {
        return;
    }
    let (site, daemon) = site();
    fs::write(site.path().join("spam.blf"), "").expect("our own file");
    let found = check(&site, &NO_POSTFIX, None);
    found.says("wrong", "spam.blf");

    assert!(daemon.terminate().success());
    let found = check(&site, &NO_POSTFIX, None);
    found.says("wrong", "milter.sock");
    found.says("wrong", "the daemon cannot be asked");
}

#[test]
fn a_list_that_was_not_compiled_again_is_found() {
    if !root() {
        return;
    }
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
    check(&site, &NO_POSTFIX, None).is_good();
    age(-3600);
    let remedy = check(&site, &NO_POSTFIX, None).fault("has changed after");
    assert_eq!(remedy, "systemctl start blocklist-compile@spam.service");
    age(3600);
    let feed =
        "[read]\nformat = \"plain\"\n[feed]\nurl = \"https://a.example/\"\naction = \"tag\"\n";
    site.write("lists/spam/list.toml", feed);
    site.write("feeds/spam.conf", "url = https://a.example/\n");
    let found = check(&site, &NO_POSTFIX, None);
    found.says("wrong", "feeds/spam.conf is no longer read");
    found.says("notice", "advises \"tag\"");
}

/// A program with its name replaces systemctl.
#[test]
fn units_that_do_not_work_are_found() {
    if !root() {
        return;
    }
    let (site, _daemon) = site();
    let folder = site.path().join("bin");
    let systemd = |active: &str, enabled: &str, user: &str| {
        let text = format!(
            "#!/bin/sh\necho LoadState=loaded\ncase $2$3 in *.socket) active=active; echo 'Listen={} (Stream)' ;; \
             --plain*) [ {active} != junk ] || echo blocklist-junk@home.path loaded; exit ;; \
             *) active={active}; echo User={user} ;; esac\necho ActiveState=$active\necho UnitFileState={enabled}\n",
            site.unix().display()
        );
        let program = site.write("bin/systemctl", &text);
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("our own file");
        check(&site, &NO_POSTFIX, Some(&folder))
    };
    let good = systemd("active", "enabled", "root");
    good.is_good();
    good.says("good", "blocklist-milter.socket is active and enabled");
    let failed = systemd("failed", "enabled", "root");
    let remedy = failed.fault("blocklist-milter.service is failed");
    assert_eq!(remedy, "systemctl enable --now blocklist-milter.service");
    let junk = systemd("junk", "enabled", "root");
    junk.says("wrong", "authserv_ids is empty");
    systemd("active", "disabled", "root").says("wrong", "will not start at the next boot");

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
    if !usable(Sendmail::NAME, Sendmail::obstacle()) {
        return;
    }
    let mut site = Site::spam(&["spammer@listed.test"], "");
    let exempt = format!("{SPAM}[exempt]\nnetworks = [\"127.0.0.1\"]\n");
    site.configure(&exempt);
    let daemon = site.serve();
    let sendmail = Sendmail::start(&site.socket, WhenDown::Accept);
    let found = |site: &Site, filter: &str, chain: &str, port: u16| {
        let text = format!(
            "O DaemonPortOptions=Name=MTA, Addr=127.0.0.1, Port={port}\nO DaemonPortOptions=Port=587, Name=MSA, M=Ea\n\
             O InputMailFilters={chain}\nXblocklist, S={}{filter}\nXother, S={}\n",
            site.socket.for_sendmail(),
            other_milter(),
        );
        let cf = site.write("sendmail.cf", &text);
        let cf = cf.to_str().expect("a plain path");
        check(site, &[&NO_POSTFIX[..], &["--sendmail", cf]].concat(), None)
    };
    let with = |filter: &str, chain: &str| found(&site, filter, chain, sendmail.port());
    let good = with(", T=C:5s;S:10s;R:10s;E:1m", "other, blocklist");
    good.is_good();
    good.says("good", "InputMailFilters asks other, then blocklist");
    good.says("good", "a test transaction over SMTP reached the daemon");
    with("", "other").fault("InputMailFilters does not name blocklist");
    let misspelt = with("x", "blocklist");
    misspelt.says("wrong", "milter.sockx does not answer");
    let (text, remedy) = &misspelt.wrong()[1];
    has(text, "no mail filter has the milter's socket");
    has(remedy, &format!("`S={}, T=", site.socket.for_sendmail()));
    with(", F=R", "blocklist").fault("refused for good");
    with(", T=R:5s", "blocklist").fault("T=R:5s is not more than 5 seconds");
    let dead = format!("\nXdead, S=inet:{}@127.0.0.1", free_port());
    with(&dead, "dead, blocklist").fault("dead: inet:");
    let remedy = found(&site, "", "blocklist", free_port()).fault("no mail is accepted here");
    assert_eq!(remedy, "systemctl start sendmail");

    // A Sendmail that was started with another configuration does not ask.
    assert!(daemon.terminate().success());
    site.move_socket(Socket::Unix(site.path().join("moved.sock")));
    let daemon = site.serve();
    let remedy = found(&site, "", "blocklist", sendmail.port()).fault("did not reach the daemon");
    assert_eq!(remedy, "systemctl restart sendmail");
    drop(daemon);
    site.configure(SPAM);
    let _daemon = site.serve();
    found(&site, "", "blocklist", free_port()).says("wrong", "which networks does not exempt");
}

#[test]
fn what_exim_asks_is_found() {
    if !root() || !usable(Exim::NAME, Exim::obstacle()) {
        return;
    }
    let mut site = Site::new(crate::support::site::Transport::Unix);
    site.list("spam", &["spammer@listed.test"]);
    site.configure(SPAM);
    let daemon = site.serve();
    let exim = Exim::start(&site.socket, WhenDown::Tempfail);
    let (programs, configuration) = exim.files();
    let good = fs::read_to_string(&configuration).expect("a configuration");
    // Exim reads no configuration of other users.
    let scratch = Scratch::new();
    let found = |site: &Site, from: &str, to: &str| {
        let file = scratch.write("exim.conf", &good.replace(from, to));
        let file = file.to_str().expect("a plain path");
        let arguments = [&NO_POSTFIX[..], &["--exim", file]].concat();
        check(site, &arguments, Some(&programs))
    };
    found(&site, "", "").fault("the daemon answers no policy requests");
    assert!(daemon.terminate().success());
    site.has_policy = true;
    site.configure(SPAM);
    let daemon = site.serve();
    let all = found(&site, "", "");
    all.is_good();
    let policy = policy_of(site.unix()).display().to_string();
    for stage in ["RCPT", "DATA"] {
        all.says("good", &format!("at {stage}, the ACL asks {policy}"));
        all.says(
            "good",
            &format!("at {stage}, while the daemon does not answer: senders wait"),
        );
    }
    all.says("good", &format!("user nobody can open {policy}"));
    let data = "blocklist-milter-data";
    let remedy = found(&site, &format!("{data}\n"), "blocklist-milter-none\n");
    remedy.says("notice", "Exim cannot print its configuration");
    let include = good
        .lines()
        .find(|line| line.ends_with(data))
        .expect("an include");
    let remedy = found(&site, include, "").fault("no ACL asks at DATA: senders in the headers");
    has(&remedy, "contrib/exim");
    let macros = good
        .lines()
        .find(|line| line.ends_with("/macros"))
        .expect("an include");
    let written = macros.trim_start_matches(".include ");
    let other = fs::read_to_string(written)
        .expect("macros")
        .replace(&policy, "/run/other.sock");
    let other = format!(".include {}", scratch.write("other", &other).display());
    let elsewhere = found(&site, macros, &other);
    elsewhere.says(
        "wrong",
        "at RCPT, the ACL asks /run/other.sock, where the daemon does not listen",
    );
    elsewhere.says(
        "wrong",
        "at DATA, the ACL asks /run/other.sock, where the daemon does not listen",
    );
    has(
        &elsewhere.wrong()[0].1,
        &format!("BLOCKLIST_SOCKET = {policy}"),
    );
    assert!(daemon.terminate().success());
    let wrong = found(&site, "", "");
    let is_silent =
        |(text, _): &(String, String)| text.starts_with(&format!("unix:{policy} does not answer"));
    assert!(wrong.wrong().iter().any(is_silent), "{wrong:#?}");
}
