//! An admin's bad day: one faulty file holds up no other, stops no mail, and is named.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use blocklist_milter::demo::peer::{Delivery, Peer, TestMail};

use crate::support::rig::verdict;
use crate::support::site::{Daemon, Site, Socket, Transport};
use crate::support::{run, until};

/// Not in the folder of the files, where each line would be a hint to look for changes.
const LOG: &str = "log/daemon.log";
/// Paths are relative, as an administrator may write them.
const CONFIG: &str = "state = \"state\"
status_file = \"status\"
[[list]]
name = \"spam\"
filter = \"spam.blf\"
action = \"reject\"
[[list]]
name = \"tags\"
filter = \"tags.blf\"
action = \"tag\"
[whitelist]
files = [\"white.txt\"]
[status]
listen = \"unix:@DIR@/status.sock\"
";

/// A site with two lists and a whitelist, whose daemon keeps copies.
fn site() -> Site {
    let mut site = Site::new(Transport::Unix);
    site.list("spam", &["first@listed.test"]);
    site.list("tags", &["@tagged.test"]);
    site.write("white.txt", "# nobody\n");
    site.configure(CONFIG);
    let state = site.path().join("state");
    fs::create_dir(&state).expect("our own folder");
    if let Some((uid, gid)) = site.user {
        std::os::unix::fs::chown(state, Some(uid), Some(gid)).expect("root may");
    }
    site
}

fn send(site: &Site, sender: &str) -> Delivery {
    let Socket::Unix(path) = &site.socket else {
        unreachable!("asked for a unix socket")
    };
    let mut peer = Peer::unix(path).expect("the daemon listens");
    peer.stranger().expect("the daemon answers");
    let mail = TestMail::new(sender, &["<bob@our.example>"], &["From: a@ok.example"]);
    peer.deliver(&mail).expect("the daemon answers")
}

fn is(site: &Site, sender: &str, expected: &str) {
    assert_eq!(verdict(&send(site, sender)), expected, "{sender}");
}

/// Waits for this verdict, but not as long as a removal would have to wait.
fn soon(site: &Site, sender: &str, expected: &str) {
    let begun = Instant::now();
    until(&format!("{sender} gets {expected}"), || {
        (verdict(&send(site, sender)) == expected).then_some(())
    });
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

/// Runs a command of the daemon with the site's configuration, and returns its exit code and output.
fn command(site: &Site, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = site.program("blocklist-milter");
    command
        .args(arguments)
        .arg("--config")
        .arg(site.path().join("milter.toml"));
    let output = command.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8(said).expect("UTF-8"),
    )
}

/// Waits until the copies of the configuration and of both filters are there.
fn copied(site: &Site) {
    until("three copies", || {
        let names = fs::read_dir(site.path().join("state")).expect("our own folder");
        let names = names.map(|entry| entry.expect("readable").file_name());
        let is_whole = |name: &std::ffi::OsString| !name.to_string_lossy().starts_with('.');
        (names.filter(is_whole).count() == 3).then_some(())
    });
}

fn serve(site: &Site) -> Daemon {
    fs::create_dir_all(site.path().join("log")).expect("our own folder");
    let command = site.program_under("env", &[]);
    Daemon::spawn(command, &site.socket, site.path().join(LOG))
}

fn restarted(site: &Site, daemon: Daemon) -> Daemon {
    assert!(daemon.terminate().success());
    fs::write(site.path().join(LOG), "").expect("our own folder");
    serve(site)
}

/// Replaces a file by itself with another byte.
fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(path).expect("it was compiled");
    let at = at(bytes.len());
    bytes[at] ^= 1;
    let aside = path.with_extension("aside");
    // With the owner of the old file.
    fs::write(&aside, "").expect("our own folder");
    let old = fs::metadata(path).expect("it was compiled");
    std::os::unix::fs::chown(&aside, Some(old.uid()), Some(old.gid())).expect("it is ours");
    fs::write(&aside, bytes)
        .and_then(|()| fs::rename(&aside, path))
        .expect("our own folder");
}

/// Each fault by itself, and then all of them together: other files take effect, and the faulty ones
/// keep what they said before.
#[test]
fn one_fault_holds_up_nothing_else() {
    let flipped: fn(&mut Site) = |site| flip(&site.path().join("tags.blf"), |_| 4096 + 100);
    let record: fn(&mut Site) = |site| flip(&site.path().join("tags.blf"), |length| length - 1);
    let missing: fn(&mut Site) =
        |site| fs::remove_file(site.path().join("tags.blf")).expect("our own folder");
    let typed: fn(&mut Site) = |site| site.configure(&CONFIG.replace("reject", "rejct"));
    let no_toml: fn(&mut Site) = |site| site.configure(&CONFIG.replace("[[list]]", "[list"));
    let removed: fn(&mut Site) =
        |site| fs::remove_file(site.path().join("milter.toml")).expect("our own folder");
    let misnamed: fn(&mut Site) = |site| site.configure(&CONFIG.replace("spam.blf", "spm.blf"));
    let line: fn(&mut Site) = |site| {
        let text = fs::read_to_string(site.path().join("white.txt")).expect("our own file");
        site.write("white.txt", &format!("{text}/^regex.*$/\n"));
    };
    for (faults, words) in [
        (&[flipped][..], "tags.blf"),
        (&[record], "tags.blf"),
        (&[missing], "tags.blf"),
        (&[typed], "did you mean \"reject\"?"),
        (&[no_toml], "milter.toml:"),
        (&[removed], "milter.toml: cannot read the configuration"),
        (&[misnamed], "spm.blf"),
        (&[line], "white.txt:"),
        (&[flipped, typed, line], "tags.blf"),
    ] {
        let mut site = site();
        site.list(
            "spam",
            &[
                "first@listed.test",
                "friend@listed.test",
                "gone@listed.test",
            ],
        );
        let daemon = serve(&site);
        is(&site, "<friend@listed.test>", "reject");
        for fault in faults {
            fault(&mut site);
        }
        daemon.logged(&["ERROR", "last good", words]);
        // What the daemon's log and the guides say: it takes effect at once.
        let white = site.path().join("white.txt");
        let log = site.path().join(LOG);
        let case = send(&site, "<friend@listed.test>");
        let reply = format!("{case:?}");
        let id = reply
            .split("(case ")
            .nth(1)
            .and_then(|rest| rest.split(')').next());
        let (code, advice) = match words.contains("cannot read") {
            // Without the configuration, it does not know the whitelist.
            true => (
                Some(0),
                format!(
                    "  blocklist-compile add {} friend@listed.test\n",
                    white.display()
                ),
            ),
            false => {
                let id = id.expect("a case");
                daemon.logged(&[id]);
                command(&site, &["case", id, log.to_str().expect("a plain path")])
            }
        };
        assert_eq!(code, Some(0), "{advice}");
        let adds = advice
            .lines()
            .find(|line| line.contains("blocklist-compile add"));
        let adds = adds.expect("advice").trim().split(' ').skip(1);
        run(site.program("blocklist-compile").args(adds));
        soon(&site, "<friend@listed.test>", "accept");
        site.list(
            "spam",
            &[
                "first@listed.test",
                "friend@listed.test",
                "second@listed.test",
            ],
        );
        soon(&site, "<second@listed.test>", "reject");
        is(&site, "<gone@listed.test>", "accept");
        is(&site, "<first@listed.test>", "reject");
        is(&site, "<a@tagged.test>", "tag");
        is(&site, "<a@ok.example>", "accept");
        // Mended: everything is in effect.
        site.configure(&CONFIG.replace("\"tag\"", "\"quarantine\""));
        site.list("tags", &["@tagged.test", "@other.test"]);
        site.write("white.txt", "friend@listed.test\n");
        soon(&site, "<a@other.test>", "quarantine");
        daemon.logged(&["the problem is solved"]);
        assert!(daemon.terminate().success());
    }
}

/// A typing error before a restart: the last good configuration is in use, with its files.
#[test]
fn a_start_with_a_faulty_configuration_uses_the_last_good_one() {
    let mut site = site();
    let daemon = serve(&site);
    copied(&site);
    let typed: fn(&mut Site) = |site| site.configure(&CONFIG.replace("\"reject\"", "\"rejct\""));
    let misnamed: fn(&mut Site) = |site| {
        let more = CONFIG.replace("spam.blf", "spm.blf");
        site.configure(&more.replace("\"tag\"", "\"log\""));
    };
    let half: fn(&mut Site) =
        |site| site.configure("state = \"state\"\nstatus_file = \"status\"\n[[li");
    let mut daemon = daemon;
    for (fault, words) in [
        (typed, "did you mean \"reject\"?"),
        (misnamed, "spm.blf"),
        (half, "milter.toml:"),
    ] {
        fault(&mut site);
        let (code, said) = command(&site, &["check"]);
        assert_eq!(code, Some(2), "{said}");
        if words != "spm.blf" {
            assert!(
                said.contains("until then, the last good configuration is in use"),
                "{said}"
            );
        }
        daemon = restarted(&site, daemon);
        daemon.logged(&["ERROR", "the last good configuration is in use: ", words]);
        is(&site, "<first@listed.test>", "reject");
        is(&site, "<a@tagged.test>", "tag");
        is(&site, "<a@ok.example>", "accept");
        let socket = format!("unix:{}/status.sock", site.path().display());
        let (code, said) = command(&site, &["status", "--socket", &socket]);
        assert_eq!(code, Some(1), "{said}");
        assert_eq!(said.lines().next(), Some("mail is checked"), "{said}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("warning: the last good configuration is in use: "),
            "{said}"
        );
        // The files that it names are still reloaded.
        site.list("spam", &["first@listed.test", "late@listed.test"]);
        soon(&site, "<late@listed.test>", "reject");
        site.list("spam", &["first@listed.test"]);
        soon(&site, "<late@listed.test>", "accept");
        site.configure(&CONFIG.replace("\"reject\"", "\"tempfail\""));
        soon(&site, "<first@listed.test>", "tempfail");
        site.configure(CONFIG);
        soon(&site, "<first@listed.test>", "reject");
        let (code, said) = command(&site, &["status", "--socket", &socket]);
        assert_eq!(
            (code, said.lines().next()),
            (Some(0), Some("mail is checked"))
        );
    }
    // A copy of a configuration that was not in effect for more than a week, and none.
    assert!(daemon.terminate().success());
    let copies = || {
        let entries = fs::read_dir(site.path().join("state")).expect("our own folder");
        let paths = entries.map(|entry| entry.expect("readable").path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
    };
    let copy = copies().next().expect("a copy");
    let eight_days_ago = SystemTime::now() - Duration::from_secs(8 * 86_400);
    let opened = fs::File::options()
        .write(true)
        .open(&copy)
        .expect("our own file");
    opened.set_modified(eight_days_ago).expect("our own file");
    site.write(LOG, "");
    typed(&mut site);
    let daemon = serve(&site);
    all_mail_is_deferred(&site);
    daemon.logged(&["ERROR", "not serving as configured: ", "rejct"]);
    site.configure(CONFIG);
    soon(&site, "<first@listed.test>", "reject");
    soon(&site, "<a@ok.example>", "accept");
    assert!(daemon.terminate().success());
}

/// Without a copy, all mail is deferred, and the first line says so.
fn all_mail_is_deferred(site: &Site) {
    is(site, "<a@ok.example>", "tempfail");
    let socket = format!("unix:{}/status.sock", site.path().display());
    let (code, said) = command(site, &["status", "--socket", &socket]);
    assert_eq!(code, Some(2), "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("all mail is deferred since "), "{said}");
    assert!(first.ends_with(" UTC"), "{said}");
}

/// Without systemd, the last good configuration says where to listen, even if the file is gone. A
/// configuration that comes back takes effect at once.
#[test]
fn a_start_without_the_configuration_listens_where_it_did() {
    let mut site = site();
    // Where a configuration that cannot be read at all is found: in the default folder.
    let default = Path::new("/var/lib/blocklist-milter-daemon");
    if default.exists() || !crate::support::is_root() {
        println!("left out: {} is not ours", default.display());
        return;
    }
    struct Made<'a>(&'a Path);
    impl Drop for Made<'_> {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.0);
        }
    }
    fs::create_dir(default).expect("root may");
    let _made = Made(default);
    let (uid, gid) = site.user.expect("root has one");
    std::os::unix::fs::chown(default, Some(uid), Some(gid)).expect("root may");
    let rest = CONFIG.replace("\"state\"", &format!("\"{}\"", default.display()));
    site.configure(&rest);
    let daemon = serve(&site);
    until("copies", || {
        let copies = fs::read_dir(default).expect("our own folder").flatten();
        (copies
            .filter(|copy| !copy.file_name().to_string_lossy().starts_with('.'))
            .count()
            == 3)
            .then_some(())
    });
    fs::remove_file(site.path().join("milter.toml")).expect("our own folder");
    let daemon = restarted(&site, daemon);
    is(&site, "<first@listed.test>", "reject");
    is(&site, "<a@ok.example>", "accept");
    site.configure(&rest.replace("\"reject\"", "\"tempfail\""));
    soon(&site, "<first@listed.test>", "tempfail");
    assert!(daemon.terminate().success());
}

/// A list that is added to the configuration before its filter is compiled: the daemon waits for the
/// filter, and goes on with the other lists.
#[test]
fn a_new_list_without_a_filter_waits_for_it() {
    let mut site = site();
    let daemon = serve(&site);
    copied(&site);
    let new = "[[list]]\nname = \"new\"\nfilter = \"new.blf\"\n[whitelist]";
    site.configure(&CONFIG.replace("[whitelist]", new));
    daemon.logged(&[
        "ERROR",
        "the last good configuration is in use: ",
        "new.blf",
    ]);
    let daemon = restarted(&site, daemon);
    for _ in 0..2 {
        is(&site, "<first@listed.test>", "reject");
        is(&site, "<a@ok.example>", "accept");
        is(&site, "<new@listed.test>", "accept");
    }
    site.list("new", &["new@listed.test"]);
    soon(&site, "<new@listed.test>", "reject");
    assert!(daemon.terminate().success());
}

/// A configuration is faulty if its `must_hit` or `must_miss` contradict the filters in effect; other
/// files are reloaded nevertheless.
#[test]
fn a_configuration_that_contradicts_the_filters_stays_out() {
    let mut site = site();
    let daemon = serve(&site);
    for (settings, words) in [
        (
            "[safety]\nmust_miss = [\"boss@tagged.test\"]\n[status]",
            "which must_miss protects",
        ),
        (
            "[exempt]\nlocal = false\n[safety]\nmust_miss = [\"First@LISTED.test\"]\n[status]",
            "which must_miss",
        ),
    ] {
        site.configure(&CONFIG.replace("[status]", settings));
        daemon.logged(&["ERROR", "the last good configuration is in use: ", words]);
    }
    let must_hit = CONFIG.replace("\"reject\"", "\"log\"\nmust_hit = [\"canary@listed.test\"]");
    site.configure(&must_hit);
    daemon.logged(&[
        "ERROR",
        "the last good configuration is in use: ",
        "which must_hit requires",
    ]);
    is(&site, "<first@listed.test>", "reject");
    // With a filter that fits, both take effect.
    site.list("spam", &["first@listed.test", "canary@listed.test"]);
    soon(&site, "<first@listed.test>", "accept");
    assert!(daemon.terminate().success());
}

/// `reload` reports every fault, and puts everything else into effect at once, removals too.
#[test]
fn a_reload_that_was_asked_for_is_held_up_by_nothing() {
    let mut site = site();
    site.write("white.txt", "first@listed.test\n");
    let daemon = serve(&site);
    until("the daemon writes its status", || {
        site.path().join("status").exists().then_some(())
    });
    is(&site, "<first@listed.test>", "accept");
    site.configure(&CONFIG.replace("\"reject\"", "\"rejct\""));
    flip(&site.path().join("tags.blf"), |_| 5000);
    site.write("white.txt", "");
    let (code, said) = command(&site, &["reload"]);
    assert_eq!(code, Some(2), "{said}");
    for words in [
        "milter.toml:",
        "rejct",
        "tags.blf",
        "not every file is in effect",
    ] {
        assert!(said.contains(words), "{said}");
    }
    is(&site, "<first@listed.test>", "reject");
    is(&site, "<a@tagged.test>", "tag");
    assert!(daemon.terminate().success());
    let mut unknown = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"));
    let output = unknown
        .args(["reload", "--config", "/nowhere"])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}
