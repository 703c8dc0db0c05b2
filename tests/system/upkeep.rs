//! The scripts that keep lists up to date: `compile-list` for a folder of text lists, `update-feed`
//! for a list on the web, which a test server serves in every wrong way.

use crate::support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use support::{Scratch, installed, run, until, usable};

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
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.join("state")).expect("our own folder");
        Self {
            scratch,
            compiler: COMPILER.into(),
            build_options: "",
        }
    }

    /// Uses a script as the compiler; counts its runs.
    fn with_compiler(body: &str) -> Self {
        let mut machine = Self::new();
        let folder = machine.scratch.path().display();
        let text =
            format!("#!/bin/sh\ncd {folder}; echo run >>runs\n{body}\ntouch state/own.blf\n");
        machine.compiler = machine.scratch.write("compiler", &text);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&machine.compiler, executable).expect("our own file");
        machine
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Output {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("contrib/lib");
        let mut command = Command::new(path.join(name));
        command
            .args(arguments)
            .env("BLOCKLIST_MILTER_CONFIG_DIR", self.scratch.join("etc"))
            .env("BLOCKLIST_MILTER_STATE_DIR", self.scratch.join("state"))
            .env("BLOCKLIST_COMPILE", &self.compiler)
            .env("BUILD_OPTIONS", self.build_options)
            .env("CURL_CA_BUNDLE", self.scratch.join("certificate.pem"))
            .env_remove("https_proxy")
            .env_remove("HTTPS_PROXY")
            .env_remove("ALL_PROXY");
        command.output().expect("the script starts")
    }

    /// Describes a feed: the rest of its `list.toml`, from `[feed]` on.
    fn feed(&self, list: &str, text: &str) {
        let text = format!("[read]\nformat = \"plain\"\n[feed]\n{text}");
        let path = format!("etc/lists/{list}/list.toml");
        self.scratch.write(&path, &text);
    }

    fn compile(&self, list: &str) -> bool {
        self.script("compile-list", &[list]).status.success()
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.scratch.join("runs")).map_or(0, |runs| runs.lines().count())
    }

    fn lists(&self, filter: &str, address: &str) -> bool {
        let filter = self.scratch.join("state").join(filter);
        let mut command = Command::new(COMPILER);
        let status = command.arg("query").arg(filter).arg(address);
        status.output().expect("it starts").status.success()
    }
}

/// The service must be able to replace what an administrator has compiled.
#[test]
fn root_compiles_as_the_owner_of_the_folder() {
    let machine = Machine::with_compiler("");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/lib/compile-list");
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("runuser");
        command.args(["-u", "nobody", "--"]).args(arguments);
        command.output().is_ok_and(|output| output.status.success())
    };
    let obstacle = (!as_nobody(&["test", "-r", script]))
        .then_some("not root, or nobody cannot read the sources");
    if !usable("root", obstacle.map(str::to_owned)) {
        return;
    }
    machine.scratch.write("etc/lists/own/list", "a@b.test");
    let folder = machine.scratch.path();
    run(Command::new("chown").args(["-R", "nobody"]).arg(folder));
    assert!(machine.compile("own"));
    assert!(as_nobody(&[
        "test",
        "-O",
        &format!("{}/state/.own.compiled", folder.display())
    ]));
}

/// The units start the script again after a change: `tests/machine/upkeep_booted.rs`.
#[test]
fn a_change_while_a_list_is_compiled_is_not_taken_for_compiled() {
    let machine = Machine::with_compiler(
        "[ -e etc/lists/own/late ] || until touch etc/lists/own/late && [ etc/lists/own/late -nt state/.own.compiling ]; do :; done",
    );
    machine.scratch.write("etc/lists/own/early", "a@b.test");
    for runs in [1, 2, 2] {
        assert!(machine.compile("own"));
        assert_eq!(machine.runs(), runs);
    }
}

#[test]
fn only_what_has_changed_is_compiled() {
    let machine = Machine::with_compiler("[ ! -e fault ] || exit 2");
    let list = machine.scratch.write("etc/lists/own/list", "a@b.test");
    let mut runs = 0;
    let mut compiles = |change: &str, expected: bool| {
        assert!(machine.compile("own"), "{change}");
        assert_eq!(machine.runs() - runs, usize::from(expected), "{change}");
        runs = machine.runs();
    };
    compiles("the first time", true);
    compiles("nothing", false);

    let target = machine.scratch.write("elsewhere", "c@d.test");
    std::os::unix::fs::symlink(&target, list.with_file_name("link")).expect("our own folder");
    compiles("a link", true);
    fs::write(&target, "e@f.test").expect("our own file");
    compiles("the target of a link", true);

    let old = File::options().write(true).open(&list).expect("our own");
    let long_ago = SystemTime::now() - Duration::from_secs(86_400);
    old.set_modified(long_ago).expect("our own file");
    compiles("an older file in its place", true);
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    old.set_modified(tomorrow).expect("our own file");
    compiles("a file with a time in the future", true);
    compiles("nothing since that", false);
    fs::remove_file(&list).expect("our own file");
    compiles("a file less", true);
    fs::remove_file(machine.scratch.join("state/own.blf")).expect("our own file");
    compiles("no filter", true);
    let compiler = fs::read(&machine.compiler).expect("our own file");
    fs::write(&machine.compiler, compiler).expect("our own file");
    compiles("another compiler", true);

    // A failed compilation is tried again.
    fs::write(&target, "g@h.test").expect("our own file");
    machine.scratch.write("fault", "");
    assert!(!machine.compile("own"));
    assert!(!machine.compile("own"));
    fs::remove_file(machine.scratch.join("fault")).expect("our own file");
    runs += 2;
    let compiles = |change: &str| {
        assert!(machine.compile("own"), "{change}");
        assert_eq!(machine.runs() - runs, 1, "{change}");
    };
    compiles("the fault is mended");
}

#[test]
fn an_own_list_is_compiled_and_may_become_empty() {
    let machine = Machine::new();
    fs::create_dir_all(machine.scratch.join("etc/lists/own")).expect("our own folder");
    assert!(machine.compile("own"));
    assert!(!machine.lists("own.blf", "a@listed.test"));
    let list = machine
        .scratch
        .write("etc/lists/own/own.txt", "a@listed.test\n");
    machine
        .scratch
        .write("etc/lists/own/own.txt.bak", "old@listed.test\n");
    assert!(machine.compile("own"));
    assert!(machine.lists("own.blf", "a@listed.test"));
    assert!(!machine.lists("own.blf", "old@listed.test"));
    fs::write(list, "# nobody now\n").expect("our own file");
    assert!(machine.compile("own"));
    assert!(!machine.lists("own.blf", "a@listed.test"));

    // Many entries at once: the message names the one command that allows it.
    let many: String = (0..200).map(|n| format!("{n}@listed.test\n")).collect();
    let list = machine.scratch.write("etc/lists/own/own.txt", &many);
    assert!(machine.compile("own"));
    fs::write(list, "# nobody now\n").expect("our own file");
    let refused = machine.script("compile-list", &["own"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let command = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/contrib/lib/compile-list own --max-shrink 100%"
    );
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(command), "{said}");
    assert!(machine.lists("own.blf", "7@listed.test"));
    let allowed = machine.script("compile-list", &["own", "--max-shrink", "100%"]);
    assert!(allowed.status.success(), "{allowed:?}");
    assert!(!machine.lists("own.blf", "7@listed.test"));
    let report = fs::read_to_string(machine.scratch.join("state/own.blf.report"));
    let approved = "\"approved_shrink\": 5";
    assert!(report.is_ok_and(|report| report.contains(approved)));

    let missing = machine.script("compile-list", &["other"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(
        !missing.status.success() && said.contains("etc/lists/other: no such folder"),
        "{said}"
    );
    assert!(!machine.script("compile-list", &["../own"]).status.success());
}

/// Neither a feed nor an option such as `--protect` is lost in silence: the scripts print the
/// `list.toml` that takes the place of the old settings, and with it they go on.
#[test]
fn settings_in_their_old_places_stop_the_scripts() {
    let mut machine = Machine::new();
    let list = "a@listed.test\nb@our.test\n";
    machine.scratch.write("etc/lists/own/list", list);
    let old = "# A note.\nurl = https://127.0.0.1:9/list?a=b\nexpires = 30d\nmax_bytes = 1000\n";
    let old = machine.scratch.write("etc/feeds/own.conf", old);
    machine.build_options = "--protect our.test --max-shrink=50% --no-providers";
    let said = ["compile-list", "update-feed"].map(|script| {
        let output = machine.script(script, &["own"]);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    });
    for said in said {
        let (_, list_toml) = said.split_once("\n\n").expect("what to write");
        assert_eq!(
            list_toml,
            "[read]\nformat = \"plain\"     # or what blocklist-compile preview says\n\n\
             [build]\nexpires = \"30d\"\nmax_shrink = \"50%\"\nproviders = false\nprotect = [\"our.test\"]\n\n\
             [feed]\nurl = \"https://127.0.0.1:9/list?a=b\"\nmax_bytes = 1000\n"
        );
        machine.scratch.write("etc/lists/own/list.toml", list_toml);
    }
    fs::remove_file(old).expect("our own file");
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
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("contrib");
    let own = machine
        .scratch
        .write("etc/lists/own/list", "a@listed.test\n");
    let bad = machine
        .scratch
        .write("etc/lists/bad/list", "[x]\nb@listed.test\n");
    let mut command = Command::new(folder.join("container/compile-lists"));
    let command = command
        .arg("0.1")
        .env("BLOCKLIST_MILTER_CONFIG_DIR", machine.scratch.join("etc"))
        .env("BLOCKLIST_MILTER_STATE_DIR", machine.scratch.join("state"))
        .env("BLOCKLIST_COMPILE", &machine.compiler)
        .env("COMPILE_LIST", folder.join("lib/compile-list"))
        .stdout(Stdio::null());
    let _loop = Server {
        child: command.spawn().expect("the script starts"),
        port: String::new(),
    };
    let listed = |filter: &str, address: &str| {
        until("the list", || machine.lists(filter, address).then_some(()));
    };
    listed("own.blf", "a@listed.test");
    fs::write(own, "c@listed.test\n").expect("our own file");
    listed("own.blf", "c@listed.test");
    assert!(!machine.lists("bad.blf", "b@listed.test"));
    fs::write(bad, "b@listed.test\n").expect("our own file");
    listed("bad.blf", "b@listed.test");
}

/// A program that runs on, ended with the test: a server of lists, or a loop.
struct Server {
    child: Child,
    port: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(machine: &Machine) -> Option<Server> {
    for program in ["curl", "openssl", "python3"] {
        if !installed(program) {
            return None;
        }
    }
    let certificate = machine.scratch.join("certificate.pem");
    run(Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .arg("-keyout")
        .arg(&certificate)
        .arg("-out")
        .arg(machine.scratch.join("public.pem")));
    let public = fs::read_to_string(machine.scratch.join("public.pem")).expect("just made");
    let key = fs::read_to_string(&certificate).expect("just made");
    fs::write(&certificate, key + &public).expect("our own file");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/feed_server.py");
    let child = Command::new("python3")
        .arg(script)
        .arg(machine.scratch.path())
        .arg(&certificate)
        .stdin(Stdio::null())
        .spawn();
    let mut server = Server {
        child: child.expect("python3 starts"),
        port: String::new(),
    };
    server.port = until("the server's port", || {
        fs::read_to_string(machine.scratch.join("port")).ok()
    });
    Some(server)
}

#[test]
fn whatever_a_server_sends_the_last_good_list_stays() {
    let machine = Machine::new();
    let Some(server) = serve(&machine) else {
        return;
    };
    let describe = |case: &str, more: &str| {
        let limits = ["max_bytes = 100000\n", ""][usize::from(more.contains("max_bytes"))];
        let url = format!("url = \"https://127.0.0.1:{}/{case}\"\n", server.port);
        let url = [url.as_str(), ""][usize::from(more.contains("url"))];
        machine.feed("web", &format!("{url}{limits}timeout_s = 2\n{more}"));
    };
    let update = || machine.script("update-feed", &["web"]);
    let refused = |case: &str, words: &[&str]| {
        let output = update();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{case}: {said}");
        assert_eq!(said.lines().count(), 1, "{case}: {said}");
        assert!(
            words.iter().all(|word| said.contains(word)),
            "{case}: {said}"
        );
    };
    let entries = |count: usize| {
        let lines: String = (0..count)
            .map(|n| format!("user{n}@listed.test\n"))
            .collect();
        machine.scratch.write("good", &lines);
    };

    // Before there is a list, none of these makes one.
    for case in ["404", "empty", "html"] {
        describe(case, "");
        refused(case, &["there is no list yet"]);
    }
    // Until the feed has a list, the files in the folder of that name are the list.
    machine
        .scratch
        .write("etc/lists/web/own.txt", "own@listed.test\n");
    assert!(machine.compile("web"));
    assert!(machine.lists("web.blf", "own@listed.test"));

    describe("good", "");
    entries(300);
    let output = update();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "web: 300 entries\n"
    );
    assert!(machine.compile("web"));
    assert!(machine.lists("web.blf", "user299@listed.test"));
    assert!(!machine.lists("web.blf", "own@listed.test"));

    let output = update();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "web: unchanged\n");
    let asked = fs::read_to_string(machine.scratch.join("unchanged")).expect("asked with its ETag");
    assert_eq!(asked, "304\n");

    let kept = "keeping the list of 2";
    let cases: [(&str, &[&str]); 9] = [
        ("404", &["gone (HTTP 404)", kept]),
        ("410", &["gone (HTTP 410)", kept]),
        ("503", &["HTTP 503", kept]),
        ("empty", &["empty", kept]),
        ("huge", &["more than max_bytes = 100000", kept]),
        (
            "slow",
            &["too slow, not complete within timeout_s = 2", kept],
        ),
        ("html", &["what came: 2 lines rejected", kept]),
        ("downgrade", &["rotocol", kept]),
        ("good", &["what came", "--max-shrink 20%", kept]),
    ];
    entries(200);
    for (case, words) in cases {
        describe(case, "");
        refused(case, words);
    }
    assert!(
        !machine
            .script("update-feed", &["web", "--force"])
            .status
            .success()
    );
    for (more, why) in [
        ("max_byte = 5\n", "did you mean max_bytes?"),
        ("max_bytes = \"1M\"\n", "max_bytes: expected a whole number"),
        (
            "url = \"http://127.0.0.1/good\"\n",
            "url: must begin with https://",
        ),
    ] {
        describe("good", more);
        refused(more, &["lists/web/list.toml:", why]);
    }
    describe("good", "");
    assert!(machine.compile("web"));
    assert!(machine.lists("web.blf", "user299@listed.test"));

    describe("good", "");
    let output = machine.script("update-feed", &["web", "--accept"]);
    assert!(output.status.success(), "{output:?}");
    assert!(machine.compile("web"));
    assert!(machine.lists("web.blf", "user199@listed.test"));
    assert!(!machine.lists("web.blf", "user299@listed.test"));

    // A feed that nobody maintains any more.
    describe("good", "max_age_days = 30\n");
    let changed =
        File::open(machine.scratch.join("state/feeds/.web/changed")).expect("it is there");
    let long_ago = SystemTime::now() - Duration::from_secs(40 * 86_400);
    changed.set_modified(long_ago).expect("our own file");
    refused(
        "stale",
        &["longer than max_age_days = 30", "stays in effect"],
    );

    // Without the feed, the files are the list again.
    fs::remove_dir_all(machine.scratch.join("state/feeds/web")).expect("our own folder");
    let output = machine.script("compile-list", &["web", "--max-shrink=100%"]);
    assert!(output.status.success(), "{output:?}");
    assert!(machine.lists("web.blf", "own@listed.test"));
}

/// A feed with only the newest domains: each day's file counts for some days.
#[test]
fn a_feed_of_new_domains_is_kept_for_days() {
    let machine = Machine::new();
    let Some(server) = serve(&machine) else {
        return;
    };
    let text = format!(
        "url = \"https://127.0.0.1:{}/good\"\nkeep_days = 30\nmax_shrink = \"90%\"\n[build]\nexpires = \"30d\"\n",
        server.port
    );
    machine.feed("new", &text);
    machine.scratch.write("good", "today.example\n");
    for (days, domain) in [(40, "expired"), (10, "recent")] {
        let name = format!("state/feeds/new/new-{days}-days-ago.txt");
        let path = machine.scratch.write(&name, &format!("{domain}.example\n"));
        let file = File::options().write(true).open(path).expect("our own");
        let then = SystemTime::now() - Duration::from_secs(days * 86_400);
        file.set_modified(then).expect("our own file");
    }
    let output = machine.script("update-feed", &["new"]);
    assert!(output.status.success(), "{output:?}");
    assert!(machine.compile("new"));
    assert!(machine.lists("new.blf", "a@today.example"));
    assert!(machine.lists("new.blf", "a@recent.example"));
    assert!(!machine.lists("new.blf", "a@expired.example"));
    let query = run(Command::new(COMPILER)
        .args(["query", "--json"])
        .arg(machine.scratch.join("state/new.blf"))
        .arg("a@today.example"));
    assert!(query.contains("\"expires\":\"20"), "{query}");
}

/// The unit and a person start it at the same time: one compiles, the other finds nothing to do.
#[test]
fn two_compiles_of_one_list_take_turns() {
    let machine = Machine::with_compiler("until [ -e go ]; do sleep 0.01; done");
    machine
        .scratch
        .write("etc/lists/own/own.txt", "a@bad.example\n");
    std::thread::scope(|scope| {
        let both: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| machine.compile("own")))
            .collect();
        until("the first one to compile", || {
            (machine.runs() > 0).then_some(())
        });
        machine.scratch.write("go", "");
        assert!(both.into_iter().all(|one| one.join().expect("no panic")));
    });
    assert_eq!(machine.runs(), 1);
}
