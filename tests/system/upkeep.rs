//! The scripts that keep lists up to date: `compile-list` for a folder of text lists, `update-feed`
//! for a list on the web, which a test server serves in every wrong way.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::support::tools::Killed;
use crate::support::{Said, Scratch, has, installed, root, rows, run, until, usable, words};

const COMPILER: &str = env!("CARGO_BIN_EXE_blocklist-compile");

/// A machine's folders for lists and filters.
struct Machine {
    scratch: Scratch,
    compiler: PathBuf,
    /// An old setting of the unit.
    build_options: &'static str,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            scratch: Scratch::new(),
            compiler: COMPILER.into(),
            build_options: "",
        };
        fs::create_dir_all(machine.at("state")).expect("our own folder");
        machine
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        self.scratch.write(name, text)
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.at(name)).expect("our own file");
    }

    /// Uses a script as the compiler; counts its runs.
    fn with_compiler(body: &str) -> Self {
        let mut machine = Self::new();
        let folder = machine.scratch.path().display();
        let text =
            format!("#!/bin/sh\ncd {folder}; echo run >>runs\n{body}\ntouch state/own.blf\n");
        machine.compiler = machine.write("compiler", &text);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&machine.compiler, executable).expect("our own file");
        machine
    }

    /// Runs a script; its words are split at blanks.
    fn script(&self, line: &str) -> Said {
        let (name, arguments) = line.split_once(' ').expect("arguments");
        let mut command = Command::new(root("contrib/lib").join(name));
        command
            .args(words(arguments))
            .env("BUILD_OPTIONS", self.build_options);
        command.env("CURL_CA_BUNDLE", self.at("certificate.pem"));
        for proxy in ["https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        Said::of(self.with_folders(&mut command))
    }

    fn with_folders<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("BLOCKLIST_MILTER_CONFIG_DIR", self.at("etc"))
            .env("BLOCKLIST_MILTER_STATE_DIR", self.at("state"))
            .env("BLOCKLIST_COMPILE", &self.compiler)
    }

    /// Describes a feed: the rest of its `list.toml`, from `[feed]` on.
    fn feed(&self, list: &str, text: &str) {
        let text = format!("[read]\nformat = \"plain\"\n[feed]\n{text}");
        self.write(&format!("etc/lists/{list}/list.toml"), &text);
    }

    fn compile(&self, list: &str) -> bool {
        self.script(&format!("compile-list {list}")).code == Some(0)
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.at("runs")).map_or(0, |runs| runs.lines().count())
    }

    fn lists(&self, filter: &str, address: &str) -> bool {
        let mut command = Command::new(COMPILER);
        command
            .arg("query")
            .arg(self.at("state").join(filter))
            .arg(address);
        Said::of(&mut command).code == Some(0)
    }
}

/// The service must be able to replace what an administrator has compiled.
#[test]
fn root_compiles_as_the_owner_of_the_folder() {
    let machine = Machine::with_compiler("");
    let as_nobody = |test: &str, path: &Path| {
        let mut command = Command::new("runuser");
        command.args(["-u", "nobody", "--", "test", test]).arg(path);
        command.output().is_ok_and(|output| output.status.success())
    };
    let obstacle = (!as_nobody("-r", &root("contrib/lib/compile-list")))
        .then_some("not root, or nobody cannot read the sources");
    if !usable("root", obstacle.map(str::to_owned)) {
        return;
    }
    machine.write("etc/lists/own/list", "a@b.test");
    run(Command::new("chown")
        .args(["-R", "nobody"])
        .arg(machine.scratch.path()));
    assert!(machine.compile("own"));
    assert!(as_nobody("-O", &machine.at("state/.own.compiled")));
}

/// The units start the script again after a change: `tests/machine/upkeep_booted.rs`.
#[test]
fn a_change_while_a_list_is_compiled_is_not_taken_for_compiled() {
    let machine = Machine::with_compiler(
        "[ -e etc/lists/own/late ] || until touch etc/lists/own/late && [ etc/lists/own/late -nt state/.own.compiling ]; do :; done",
    );
    machine.write("etc/lists/own/early", "a@b.test");
    for runs in [1, 2, 2] {
        assert!(machine.compile("own"));
        assert_eq!(machine.runs(), runs);
    }
}

#[test]
fn only_what_has_changed_is_compiled() {
    let machine = Machine::with_compiler("[ ! -e fault ] || exit 2");
    let list = machine.write("etc/lists/own/list", "a@b.test");
    let compiles = |change: &str, expected: usize| {
        let runs = machine.runs();
        assert!(machine.compile("own"), "{change}");
        assert_eq!(machine.runs() - runs, expected, "{change}");
    };
    compiles("the first time", 1);
    compiles("nothing", 0);

    let target = machine.write("elsewhere", "c@d.test");
    std::os::unix::fs::symlink(target, list.with_file_name("link")).expect("our own folder");
    compiles("a link", 1);
    machine.write("elsewhere", "e@f.test");
    compiles("the target of a link", 1);

    let old = File::options().write(true).open(&list).expect("our own");
    let day = Duration::from_secs(86_400);
    old.set_modified(SystemTime::now() - day)
        .expect("our own file");
    compiles("an older file in its place", 1);
    old.set_modified(SystemTime::now() + day)
        .expect("our own file");
    compiles("a file with a time in the future", 1);
    compiles("nothing since that", 0);
    machine.remove("etc/lists/own/list");
    compiles("a file less", 1);
    machine.remove("state/own.blf");
    compiles("no filter", 1);
    let compiler = fs::read(&machine.compiler).expect("our own file");
    fs::write(&machine.compiler, compiler).expect("our own file");
    compiles("another compiler", 1);

    // A failed compilation is tried again.
    machine.write("elsewhere", "g@h.test");
    machine.write("fault", "");
    assert!(!machine.compile("own"));
    assert!(!machine.compile("own"));
    machine.remove("fault");
    compiles("the fault is mended", 1);
}

#[test]
fn an_own_list_is_compiled_and_may_become_empty() {
    let machine = Machine::new();
    let own = |text: &str| machine.write("etc/lists/own/own.txt", text);
    let lists = |address: &str| machine.lists("own.blf", address);
    fs::create_dir_all(machine.at("etc/lists/own")).expect("our own folder");
    assert!(machine.compile("own") && !lists("a@listed.test"));
    own("a@listed.test\n");
    machine.write("etc/lists/own/own.txt.bak", "old@listed.test\n");
    assert!(machine.compile("own") && lists("a@listed.test"));
    assert!(!lists("old@listed.test"));
    own("# nobody now\n");
    assert!(machine.compile("own") && !lists("a@listed.test"));

    // Many entries at once: the message names the one command that allows it.
    own(&(0..200)
        .map(|n| format!("{n}@listed.test\n"))
        .collect::<String>());
    assert!(machine.compile("own"));
    own("# nobody now\n");
    let command = root("contrib/lib/compile-list").display().to_string();
    let allows = format!("{command} own --max-shrink 100%");
    machine.script("compile-list own").ends(1, &[&allows]);
    assert!(lists("7@listed.test"));
    machine.script("compile-list own --max-shrink 100%").ok();
    assert!(!lists("7@listed.test"));
    let report = fs::read_to_string(machine.at("state/own.blf.report"));
    has(&report.expect("a report"), "\"approved_shrink\": 5");

    let missing = machine.script("compile-list other");
    assert_ne!(missing.code, Some(0));
    has(&missing.err, "etc/lists/other: no such folder");
    assert_ne!(machine.script("compile-list ../own").code, Some(0));
}

/// Neither a feed nor an option such as `--protect` is lost in silence: the scripts print the
/// `list.toml` that takes the place of the old settings, and with it they go on.
#[test]
fn settings_in_their_old_places_stop_the_scripts() {
    let mut machine = Machine::new();
    machine.write("etc/lists/own/list", "a@listed.test\nb@our.test\n");
    let old = "# A note.\nurl = https://127.0.0.1:9/list?a=b\nexpires = 30d\nmax_bytes = 1000\n";
    machine.write("etc/feeds/own.conf", old);
    machine.build_options = "--protect our.test --max-shrink=50% --no-providers";
    let said = ["compile-list own", "update-feed own"].map(|script| {
        let said = machine.script(script);
        assert_ne!(said.code, Some(0), "{said:?}");
        said.err
    });
    for said in said {
        let (_, list_toml) = said.split_once("\n\n").expect("what to write");
        assert_eq!(
            list_toml,
            "[read]\nformat = \"plain\"     # or what blocklist-compile preview says\n\n\
             [build]\nexpires = \"30d\"\nmax_shrink = \"50%\"\nproviders = false\nprotect = [\"our.test\"]\n\n\
             [feed]\nurl = \"https://127.0.0.1:9/list?a=b\"\nmax_bytes = 1000\n"
        );
        machine.write("etc/lists/own/list.toml", list_toml);
    }
    machine.remove("etc/feeds/own.conf");
    assert!(!machine.compile("own"));
    machine.build_options = "";
    assert!(machine.compile("own"));
    assert!(machine.lists("own.blf", "a@listed.test"));
    assert!(!machine.lists("own.blf", "b@our.test"));
}

/// The command of a container without systemd: a list is compiled when it changes, also one that
/// failed.
#[test]
fn without_systemd_a_loop_compiles_what_changes() {
    let machine = Machine::new();
    machine.write("etc/lists/own/list", "a@listed.test\n");
    machine.write("etc/lists/bad/list", "[x]\nb@listed.test\n");
    let mut command = Command::new(root("contrib/container/compile-lists"));
    command
        .arg("0.1")
        .env("COMPILE_LIST", root("contrib/lib/compile-list"));
    let command = machine.with_folders(&mut command).stdout(Stdio::null());
    let _loop = Killed(command.spawn().expect("the script starts"));
    let listed = |filter: &str, address: &str| {
        until("the list", || machine.lists(filter, address).then_some(()));
    };
    listed("own.blf", "a@listed.test");
    machine.write("etc/lists/own/list", "c@listed.test\n");
    listed("own.blf", "c@listed.test");
    assert!(!machine.lists("bad.blf", "b@listed.test"));
    machine.write("etc/lists/bad/list", "b@listed.test\n");
    listed("bad.blf", "b@listed.test");
}

/// Serves lists, at the port that is returned.
fn serve(machine: &Machine) -> Option<(Killed, String)> {
    if !["curl", "openssl", "python3"].into_iter().all(installed) {
        return None;
    }
    let [certificate, public] = ["certificate.pem", "public.pem"].map(|name| machine.at(name));
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=127.0.0.1 \
        -addext subjectAltName=IP:127.0.0.1";
    let mut openssl = Command::new("openssl");
    openssl
        .args(words(request))
        .arg("-keyout")
        .arg(&certificate);
    run(openssl.arg("-out").arg(&public));
    let read = |path| fs::read_to_string(path).expect("just made");
    machine.write("certificate.pem", &(read(&certificate) + &read(&public)));
    let mut command = Command::new("python3");
    command
        .arg(root("tests/support/feed_server.py"))
        .arg(machine.scratch.path());
    let child = command.arg(&certificate).stdin(Stdio::null()).spawn();
    let server = Killed(child.expect("python3 starts"));
    let port = || fs::read_to_string(machine.at("port")).ok();
    Some((server, until("the server's port", port)))
}

#[test]
fn whatever_a_server_sends_the_last_good_list_stays() {
    let machine = Machine::new();
    let Some((_server, port)) = serve(&machine) else {
        return;
    };
    let describe = |case: &str, more: &str| {
        let limits = ["max_bytes = 100000\n", ""][usize::from(more.contains("max_bytes"))];
        let url = format!("url = \"https://127.0.0.1:{port}/{case}\"\n");
        let url = [url.as_str(), ""][usize::from(more.contains("url"))];
        machine.feed("web", &format!("{url}{limits}timeout_s = 2\n{more}\n"));
    };
    let update = || machine.script("update-feed web");
    let refused = |case: &str, words: &[&str]| {
        let said = update().ends(1, words);
        assert_eq!(said.lines().count(), 1, "{case}: {said}");
    };
    let entries = |count: usize| {
        let lines = (0..count).map(|n| format!("user{n}@listed.test\n"));
        machine.write("good", &lines.collect::<String>());
    };
    let compiled = |listed: &str, unlisted: &str| {
        assert!(machine.compile("web"));
        assert!(machine.lists("web.blf", listed));
        assert!(!machine.lists("web.blf", unlisted));
    };

    // Before there is a list, none of these makes one.
    for case in ["404", "empty", "html"] {
        describe(case, "");
        refused(case, &["there is no list yet"]);
    }
    // Until the feed has a list, the files in the folder of that name are the list.
    machine.write("etc/lists/web/own.txt", "own@listed.test\n");
    compiled("own@listed.test", "user299@listed.test");

    describe("good", "");
    entries(300);
    assert_eq!(update().ok(), "web: 300 entries\n");
    compiled("user299@listed.test", "own@listed.test");

    assert_eq!(update().ok(), "web: unchanged\n");
    let asked = fs::read_to_string(machine.at("unchanged")).expect("asked with its ETag");
    assert_eq!(asked, "304\n");

    entries(200);
    for [case, words, more] in rows(
        "
        404       | gone (HTTP 404)                               |
        410       | gone (HTTP 410)                               |
        503       | HTTP 503                                      |
        empty     | empty                                         |
        huge      | more than max_bytes = 100000                  |
        slow      | too slow, not complete within timeout_s = 2   |
        html      | what came: 2 lines rejected                   |
        downgrade | rotocol                                       |
        good      | what came                                     | --max-shrink 20%
        ",
    ) {
        describe(case, "");
        refused(case, &[words, more, "keeping the list of 2"]);
    }
    assert_ne!(machine.script("update-feed web --force").code, Some(0));
    for [more, why] in rows(
        r#"
        max_byte = 5                    | did you mean max_bytes?
        max_bytes = "1M"                | max_bytes: expected a whole number
        url = "http://127.0.0.1/good"   | url: must begin with https://
        "#,
    ) {
        describe("good", more);
        refused(more, &["lists/web/list.toml:", why]);
    }
    describe("good", "");
    compiled("user299@listed.test", "own@listed.test");

    machine.script("update-feed web --accept").ok();
    compiled("user199@listed.test", "user299@listed.test");

    // A feed that nobody maintains any more.
    describe("good", "max_age_days = 30");
    let changed = File::open(machine.at("state/feeds/.web/changed")).expect("it is there");
    let long_ago = SystemTime::now() - Duration::from_secs(40 * 86_400);
    changed.set_modified(long_ago).expect("our own file");
    refused(
        "stale",
        &["longer than max_age_days = 30", "stays in effect"],
    );

    // Without the feed, the files are the list again.
    fs::remove_dir_all(machine.at("state/feeds/web")).expect("our own folder");
    machine.script("compile-list web --max-shrink=100%").ok();
    assert!(machine.lists("web.blf", "own@listed.test"));
}

/// A feed with only the newest domains: each day's file counts for some days.
#[test]
fn a_feed_of_new_domains_is_kept_for_days() {
    let machine = Machine::new();
    let Some((_server, port)) = serve(&machine) else {
        return;
    };
    let url = format!("url = \"https://127.0.0.1:{port}/good\"\n");
    let limits = "keep_days = 30\nmax_shrink = \"90%\"\n[build]\nexpires = \"30d\"\n";
    machine.feed("new", &format!("{url}{limits}"));
    machine.write("good", "today.example\n");
    for (days, domain) in [(40, "expired"), (10, "recent")] {
        let name = format!("state/feeds/new/new-{days}-days-ago.txt");
        let path = machine.write(&name, &format!("{domain}.example\n"));
        let file = File::options().write(true).open(path).expect("our own");
        let then = SystemTime::now() - Duration::from_secs(days * 86_400);
        file.set_modified(then).expect("our own file");
    }
    machine.script("update-feed new").ok();
    assert!(machine.compile("new"));
    assert!(machine.lists("new.blf", "a@today.example"));
    assert!(machine.lists("new.blf", "a@recent.example"));
    assert!(!machine.lists("new.blf", "a@expired.example"));
    let mut query = Command::new(COMPILER);
    query
        .args(["query", "--json"])
        .arg(machine.at("state/new.blf"));
    has(&run(query.arg("a@today.example")), "\"expires\":\"20");
}

/// The unit and a person start it at the same time: one compiles, the other finds nothing to do.
#[test]
fn two_compiles_of_one_list_take_turns() {
    let machine = Machine::with_compiler("until [ -e go ]; do sleep 0.01; done");
    machine.write("etc/lists/own/own.txt", "a@bad.example\n");
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| machine.compile("own")));
        until("the first one to compile", || {
            (machine.runs() > 0).then_some(())
        });
        machine.write("go", "");
        assert!(both.into_iter().all(|one| one.join().expect("no panic")));
    });
    assert_eq!(machine.runs(), 1);
}
