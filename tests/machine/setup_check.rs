//! `setup-check`: a correct setup has no errors; each error is found, and its remedy, run as
//! written, repairs it. `tests/commands/setup-check.toml` has what it finds without a mail server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::exim::{Exim, policy_of};
use crate::support::mta::{Mta, WhenDown};
use crate::support::postfix::Postfix;
use crate::support::sendmail::Sendmail;
use crate::support::site::{Daemon, SPAM, Site, Socket};
use crate::support::{Said, Scratch, free_port, has, milter, rows, run, until, usable, works_in};

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
        assert_eq!((self.wrong(), self.code), (&[][..], Some(0)), "{self:#?}");
    }

    /// Checks that there are exactly these errors, in this order. Returns the remedy of the first.
    #[track_caller]
    fn faults(&self, words: &[&str]) -> String {
        let wrong = self.wrong();
        assert_eq!(wrong.len(), words.len(), "{words:?}: {self:#?}");
        for ((text, _), words) in wrong.iter().zip(words) {
            assert!(text.contains(words), "{words:?}: {self:#?}");
        }
        assert_eq!(self.code, Some(1));
        wrong[0].1.clone()
    }
}

/// Runs the command as the tests' user, who may connect, with additional arguments.
fn check(site: &Site, arguments: &[&str], path: Option<&Path>) -> Found {
    let mut command = site.command(&["setup-check", "--json"]);
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
    /// What names stand for in a step.
    names: Vec<(&'static str, String)>,
}

impl Set {
    fn up(settings: &str) -> Option<Self> {
        if !usable(Postfix::NAME, Postfix::obstacle()) {
            return None;
        }
        let site = Site::spam(&["spammer@listed.test"], settings);
        let daemon = Some(site.serve());
        let postfix = Postfix::start_with(&site.socket, &[]);
        let command = postfix.command("true");
        let folder = command.get_args().nth(1).expect("-c DIR");
        let folder = folder.to_string_lossy().into_owned();
        let [high, low] = free_port().to_be_bytes();
        let socket = site.socket.for_postfix();
        let good = "default_action=accept, connect_timeout=5s, command_timeout=10s";
        let names = vec![
            ("@ours", format!("{{ {socket}, {good} }}")),
            ("@misspelt", socket.replace("/milter.sock", "/miltre.sock")),
            ("@socket", socket),
            ("@other", other_milter()),
            // No other test can get this port.
            ("@dead", "inet:127.0.0.1:1".to_owned()),
            ("@smtp", format!("127.{high}.{low}.1:25")),
            ("@queue", postfix.queue().display().to_string()),
        ];
        let set = Self {
            site,
            daemon,
            postfix,
            folder,
            names,
        };
        set.step(
            "-M @smtp/inet=@smtp inet n - n - - smtpd ; -e smtpd_milters = @ours",
            "",
            "",
        );
        Some(set)
    }

    /// Plays the steps of a test in `setup_check.txt`.
    fn play(test: &str) -> Option<Self> {
        let set = Self::up("")?;
        let mut tests = include_str!("setup_check.txt").split("\n== ");
        let steps = tests.find_map(|steps| steps.strip_prefix(test));
        for [changes, findings, remedy] in rows(steps.expect("its steps")) {
            set.step(changes, findings, remedy);
        }
        Some(set)
    }

    fn step(&self, changes: &str, findings: &str, remedy: &str) {
        let filled = |cell: &str| {
            let fill = |text: String, (name, value): &(&str, String)| text.replace(name, value);
            self.names.iter().fold(cell.to_owned(), fill)
        };
        let (changes, findings, remedy) = (filled(changes), filled(findings), filled(remedy));
        let mut reloads = changes.starts_with('-');
        for (what, text) in parts(&changes) {
            match what {
                "quietly" => reloads = false,
                "config" => drop(self.site.write("milter.toml", text)),
                "close" => {
                    let mode = fs::Permissions::from_mode(0o600);
                    fs::set_permissions(self.site.unix(), mode).expect("ours");
                }
                "stop" => drop(run(self.postfix.command("postfix").arg("stop"))),
                option => drop(run(self.postfix.command("postconf").args([option, text]))),
            }
        }
        if reloads {
            self.postfix.reload(&[]);
            self.settle();
        }
        let found = self.check();
        let mut wrong = Vec::new();
        for (state, words) in parts(&findings) {
            match state {
                "nothing" => found.is_good(),
                "wrong" => wrong.push(words),
                "first" => assert!(found.wrong()[0].0.contains(words), "{words}: {found:#?}"),
                "some" => found.says("wrong", words),
                state => found.says(state, words),
            }
        }
        if !wrong.is_empty() {
            found.faults(&wrong);
        }
        for (what, text) in parts(&remedy) {
            let remedy = &found.wrong()[0].1;
            match what {
                "runs" => {
                    run(Command::new("sh").args(["-ec", remedy]));
                    if remedy.contains(" reload") {
                        self.settle();
                    }
                    self.check().is_good();
                }
                "has" => has(remedy, text),
                "lacks" => assert!(!remedy.contains(text), "{remedy}"),
                "is" => assert_eq!(remedy, text),
                "ends" => assert!(remedy.ends_with(text), "{remedy}"),
                other => panic!("no remedy {other}"),
            }
        }
    }

    /// Waits until no smtpd has the settings from before a reload.
    fn settle(&self) {
        let queue = self.postfix.queue();
        until("no old smtpd", || {
            (!works_in(&queue, "smtpd")).then_some(())
        });
    }

    fn check(&self) -> Found {
        check(&self.site, &["--postfix", &self.folder], None)
    }
}

/// Returns the parts of a cell, each with its first word apart.
fn parts(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = cell.split(" ; ").filter(|part| !part.is_empty());
    parts.map(|part| part.split_once(' ').unwrap_or((part, "")))
}

#[test]
fn a_good_set_up_has_nothing_wrong() {
    let Some(set) = Set::play("a_good_set_up_has_nothing_wrong") else {
        return;
    };
    let broken = check(&set.site, &NO_POSTFIX, None);
    let why = "postconf cannot read the configuration: postconf -c /nonexistent: ";
    broken.says("notice", why);
    // The text output has the same.
    let arguments = ["setup-check", "--postfix", &set.folder];
    has(&run(&mut set.site.command(&arguments)), ", 0 wrong\n");
}

#[test]
fn each_fault_in_postfix_is_found_and_mended_by_its_remedy() {
    Set::play("each_fault_in_postfix_is_found_and_mended_by_its_remedy");
}

/// What Postfix names is asked, whoever it belongs to.
#[test]
fn a_milter_that_is_not_there_is_found() {
    Set::play("a_milter_that_is_not_there_is_found");
}

#[test]
fn settings_that_lose_mail_are_found() {
    Set::play("settings_that_lose_mail_are_found");
}

#[test]
fn nothing_is_guessed_from_a_faulty_configuration() {
    Set::play("nothing_is_guessed_from_a_faulty_configuration");
}

/// Not everything can be found out; what cannot is said.
#[test]
fn what_stays_unknown_is_said() {
    let Some(_set) = Set::play("what_stays_unknown_is_said") else {
        return;
    };
    // Who is not root sees little.
    let output = milter().arg("setup-check").uid(65_534).gid(65_534).output();
    if let Ok(output) = output {
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_all = said.ends_with("run it as root\n") && output.stdout.is_empty();
        assert!(is_all, "{said}");
    }
}

/// Nothing is delivered, and neither the counters nor the log know of the test transactions.
#[test]
fn its_own_transactions_leave_no_trace() {
    let status = "[status]\nlisten = \"unix:@DIR@/status.sock\"\n";
    // Nothing exempts it, and no recipient does.
    let exempt = "[exempt]\nnetworks = [\"127.0.0.0/8\"]\n";
    let Some(set) = Set::up(&format!("{exempt}{status}")) else {
        return;
    };
    set.check().says("good", "over SMTP reached the daemon");
    let status = || -> Value {
        let said = Said::of(&mut set.site.command(&["status", "--json"]));
        serde_json::from_str(&said.out).expect("JSON")
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
    let why = "lists/own.txt is in no list: move it into a folder, ";
    set.check().faults(&[why]);
    let status = status();
    assert_eq!(status["health"], "warning");
    let problem = status["problems"][0]["text"].as_str().expect("a text");
    has(problem, "lists/own.txt is in no list");
}

/// A daemon that has no good filter would refuse everybody: that a session reaches it is not enough.
#[test]
fn a_daemon_that_refuses_everybody_is_found() {
    let Some(mut set) = Set::up("") else { return };
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

const NO_POSTFIX: [&str; 2] = ["--postfix", "/nonexistent"];

#[test]
fn faults_in_sendmails_configuration_are_found() {
    if !usable(Sendmail::NAME, Sendmail::obstacle()) {
        return;
    }
    let exempt = "[exempt]\nnetworks = [\"127.0.0.1\"]\n";
    let mut site = Site::spam(&["spammer@listed.test"], exempt);
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
    with("", "other").faults(&["InputMailFilters does not name blocklist"]);
    let misspelt = with("x", "blocklist");
    misspelt.says("wrong", "milter.sockx does not answer");
    let (text, remedy) = &misspelt.wrong()[1];
    has(text, "no mail filter has the milter's socket");
    has(remedy, &format!("`S={}, T=", site.socket.for_sendmail()));
    with(", F=R", "blocklist").faults(&["refused for good"]);
    with(", T=R:5s", "blocklist").faults(&["T=R:5s is not more than 5 seconds"]);
    let dead = "\nXdead, S=inet:1@127.0.0.1";
    with(dead, "dead, blocklist").faults(&["dead: inet:"]);
    let remedy = found(&site, "", "blocklist", free_port()).faults(&["no mail is accepted here"]);
    assert_eq!(remedy, "systemctl start sendmail");

    // A Sendmail that was started with another configuration does not ask.
    assert!(daemon.terminate().success());
    site.move_socket(Socket::Unix(site.path().join("moved.sock")));
    let daemon = site.serve();
    let remedy =
        found(&site, "", "blocklist", sendmail.port()).faults(&["did not reach the daemon"]);
    assert_eq!(remedy, "systemctl restart sendmail");
    drop(daemon);
    site.configure(SPAM);
    let _daemon = site.serve();
    found(&site, "", "blocklist", free_port()).says("wrong", "which networks does not exempt");
}

#[test]
fn what_exim_asks_is_found() {
    if !usable(Exim::NAME, Exim::obstacle()) {
        return;
    }
    let mut site = Site::spam(&["spammer@listed.test"], "");
    let daemon = site.serve();
    let exim = Exim::start(&site.socket, WhenDown::Tempfail);
    let (programs, configuration) = exim.files();
    let good = fs::read_to_string(&configuration).expect("a configuration");
    // Exim reads no configuration of other users.
    let scratch = Scratch::new();
    let found = |site: &Site, from: &str, to: &str| {
        let file = scratch.write("exim.conf", good.replace(from, to));
        let file = file.to_str().expect("a plain path");
        let arguments = [&NO_POSTFIX[..], &["--exim", file]].concat();
        check(site, &arguments, Some(&programs))
    };
    found(&site, "", "").faults(&["the daemon answers no policy requests"]);
    assert!(daemon.terminate().success());
    site.doors = &["policy"];
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
    let data = "exim/data";
    let unreadable = found(&site, &format!("{data}\n"), "exim/none\n");
    unreadable.faults(&["Exim cannot read its configuration, and will not start: "]);
    let include = good
        .lines()
        .find(|line| line.ends_with(data))
        .expect("an include");
    let remedy = found(&site, include, "").faults(&["no ACL asks at DATA: senders in the headers"]);
    has(&remedy, "docs/exim.md");
    let macros = good
        .lines()
        .find(|line| line.ends_with("/macros"))
        .expect("an include");
    let twice = format!("{macros}\n{macros}");
    found(&site, macros, &twice).is_good();
    let written = macros.trim_start_matches(".include ");
    let written = fs::read_to_string(written).expect("macros");
    let with = |from: &str, to: &str| {
        let other = scratch.write("other", written.replace(from, to));
        found(&site, macros, &format!(".include {}", other.display()))
    };
    let is = "while the daemon does not answer: ";
    with("action=451 ", "451 ").says("notice", &format!("{is}senders wait, because"));
    with("action=451 ", "action=550 ").says("wrong", &format!("{is}all mail is refused for good"));
    with("action=451 ", "action=DUNNO ").says("good", &format!("{is}mail passes unchecked"));
    let elsewhere = with(&policy, "/run/other.sock");
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
    let default = found(&site, "pid_file_path =", "pid_file_path =\n#");
    default.says("wrong", "spool/exim-daemon.pid says");
    exim.stop();
    let remedy = found(&site, "", "").faults(&["Exim's daemon does not run, as "]);
    assert_eq!(remedy, "systemctl start exim4");
    assert!(daemon.terminate().success());
    let wrong = found(&site, "", "");
    let is_silent =
        |(text, _): &(String, String)| text.starts_with(&format!("unix:{policy} does not answer"));
    assert!(wrong.wrong().iter().any(is_silent), "{wrong:#?}");
}
