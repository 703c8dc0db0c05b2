//! An admin's bad day: one faulty file holds up no other, stops no mail, and is named.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::support::site::{Daemon, Site, Transport};
use crate::support::{has, is_root, milter, run, until};

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
    site.folder("state");
    site
}

/// Waits for this verdict, but not as long as a removal would have to wait.
fn soon(site: &Site, sender: &str, expected: &str) {
    let begun = Instant::now();
    site.becomes(sender, expected);
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(8), "{waited:?}");
}

/// Checks what `status` says, and how it ends.
fn status(site: &Site, code: i32) -> String {
    let socket = format!("unix:{}/status.sock", site.path().display());
    site.milter(&["status", "--socket", &socket])
        .ends(code, &[])
}

/// Waits until the copies of the configuration and of both filters are in a folder.
fn copied(folder: &Path) {
    until("three copies", || {
        let names = fs::read_dir(folder).expect("our own folder");
        let names = names.map(|entry| entry.expect("readable").file_name());
        let whole = names.filter(|name| !name.to_string_lossy().starts_with('.'));
        (whole.count() == 3).then_some(())
    });
}

fn serve(site: &Site) -> Daemon {
    fs::create_dir_all(site.at("log")).expect("our own folder");
    Daemon::spawn(site.program_under("env", &[]), &site.socket, site.at(LOG))
}

fn restarted(site: &Site, daemon: Daemon) -> Daemon {
    assert!(daemon.terminate().success());
    fs::write(site.at(LOG), "").expect("our own folder");
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
    type Fault = fn(&mut Site);
    let flipped: Fault = |site| flip(&site.at("tags.blf"), |_| 4096 + 100);
    let record: Fault = |site| flip(&site.at("tags.blf"), |length| length - 1);
    let missing: Fault = |site| fs::remove_file(site.at("tags.blf")).expect("our own folder");
    let typed: Fault = |site| site.configure(&CONFIG.replace("reject", "rejct"));
    let no_toml: Fault = |site| site.configure(&CONFIG.replace("[[list]]", "[list"));
    let removed: Fault = |site| fs::remove_file(site.at("milter.toml")).expect("our own folder");
    let misnamed: Fault = |site| site.configure(&CONFIG.replace("spam.blf", "spm.blf"));
    let line: Fault = |site| {
        let text = fs::read_to_string(site.at("white.txt")).expect("our own file");
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
        let [first, friend] = ["first@listed.test", "friend@listed.test"];
        site.list("spam", &[first, friend, "gone@listed.test"]);
        let daemon = serve(&site);
        site.is("<friend@listed.test>", "reject");
        for fault in faults {
            fault(&mut site);
        }
        daemon.logged(&["ERROR", "last good", words]);
        // What the daemon's log and the guides say: it takes effect at once.
        let reply = format!("{:?}", site.send("<friend@listed.test>"));
        let advice = if words.contains("cannot read") {
            // Without the configuration, `case` does not know the whitelist.
            let white = site.at("white.txt");
            format!(
                "blocklist-compile add {} friend@listed.test\n",
                white.display()
            )
        } else {
            let (_, id) = reply.split_once("(case ").expect("a case");
            let (id, _) = id.split_once(')').expect("a case");
            daemon.logged(&[id]);
            let log = site.at(LOG);
            site.milter(&["case", id, log.to_str().expect("a plain path")])
                .ok()
        };
        let mut lines = advice.lines();
        let adds = lines.find(|line| line.contains("blocklist-compile add"));
        let adds = adds.expect("advice").trim().split(' ').skip(1);
        run(site.program("blocklist-compile").args(adds));
        soon(&site, "<friend@listed.test>", "accept");
        site.list("spam", &[first, friend, "second@listed.test"]);
        soon(&site, "<second@listed.test>", "reject");
        site.is("<gone@listed.test>", "accept");
        site.is("<first@listed.test>", "reject");
        site.is("<a@tagged.test>", "tag");
        site.is("<a@ok.example>", "accept");
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
    let mut daemon = serve(&site);
    copied(&site.at("state"));
    let typed = CONFIG.replace("\"reject\"", "\"rejct\"");
    let misnamed = CONFIG
        .replace("spam.blf", "spm.blf")
        .replace("\"tag\"", "\"log\"");
    let half = "state = \"state\"\nstatus_file = \"status\"\n[[li";
    let in_use = "the last good configuration is in use";
    for (fault, words) in [
        (&*typed, "did you mean \"reject\"?"),
        (&misnamed, "spm.blf"),
        (half, "milter.toml:"),
    ] {
        site.configure(fault);
        let said = site.milter(&["check"]).ends(2, &[]);
        if words != "spm.blf" {
            has(&said, &format!("until then, {in_use}"));
        }
        daemon = restarted(&site, daemon);
        daemon.logged(&["ERROR", in_use, words]);
        site.is("<first@listed.test>", "reject");
        site.is("<a@tagged.test>", "tag");
        site.is("<a@ok.example>", "accept");
        let said = status(&site, 1);
        has(said.lines().next().unwrap_or_default(), "Working. Refused ");
        let said = crate::support::words(&said).join(" ");
        has(&said, &format!("warning: {in_use}: "));
        // The files that it names are still reloaded.
        site.list("spam", &["first@listed.test", "late@listed.test"]);
        soon(&site, "<late@listed.test>", "reject");
        site.list("spam", &["first@listed.test"]);
        soon(&site, "<late@listed.test>", "accept");
        site.configure(&CONFIG.replace("\"reject\"", "\"tempfail\""));
        soon(&site, "<first@listed.test>", "tempfail");
        site.configure(CONFIG);
        soon(&site, "<first@listed.test>", "reject");
        let said = status(&site, 0);
        has(said.lines().next().unwrap_or_default(), "Working. Refused ");
    }
    // A copy of a configuration that was not in effect for more than a week, and none.
    assert!(daemon.terminate().success());
    let copies = fs::read_dir(site.at("state")).expect("our own folder");
    let mut copies = copies.map(|entry| entry.expect("readable").path());
    let is_config = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let copy = fs::File::options()
        .write(true)
        .open(copies.find(is_config).expect("a copy"));
    let eight_days_ago = SystemTime::now() - Duration::from_secs(8 * 86_400);
    let changed = copy.and_then(|copy| copy.set_modified(eight_days_ago));
    changed.expect("our own file");
    site.write(LOG, "");
    site.configure(&typed);
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
    site.is("<a@ok.example>", "tempfail");
    let said = status(site, 2);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("All mail is deferred since "), "{said}");
    assert!(first.contains(" UTC. Refused "), "{said}");
}

/// Without systemd, the last good configuration says where to listen, even if the file is gone. A
/// configuration that comes back takes effect at once.
#[test]
fn a_start_without_the_configuration_listens_where_it_did() {
    let mut site = site();
    // Where a configuration that cannot be read at all is found: in the default folder.
    let default = Path::new("/var/lib/blocklist-milter-daemon");
    if default.exists() || !is_root() {
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
    copied(default);
    fs::remove_file(site.at("milter.toml")).expect("our own folder");
    let daemon = restarted(&site, daemon);
    site.is("<first@listed.test>", "reject");
    site.is("<a@ok.example>", "accept");
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
    copied(&site.at("state"));
    let new = "[[list]]\nname = \"new\"\nfilter = \"new.blf\"\n[whitelist]";
    site.configure(&CONFIG.replace("[whitelist]", new));
    daemon.logged(&[
        "ERROR",
        "the last good configuration is in use: ",
        "new.blf",
    ]);
    let daemon = restarted(&site, daemon);
    for _ in 0..2 {
        site.is("<first@listed.test>", "reject");
        site.is("<a@ok.example>", "accept");
        site.is("<new@listed.test>", "accept");
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
    let must_miss = |address: &str| {
        let safety = format!("[safety]\nmust_miss = [\"{address}\"]\n[status]");
        CONFIG.replace("[status]", &safety)
    };
    let must_hit = "\"log\"\nmust_hit = [\"canary@listed.test\"]";
    for (config, words) in [
        (
            must_miss("boss@tagged.test"),
            "lists or matches boss@tagged.test, which must_miss",
        ),
        (
            must_miss("First@LISTED.test"),
            "lists or matches First@LISTED.test, which must_miss",
        ),
        (
            CONFIG.replace("\"reject\"", must_hit),
            "which must_hit requires",
        ),
    ] {
        site.configure(&config);
        daemon.logged(&["ERROR", "the last good configuration is in use: ", words]);
    }
    site.is("<first@listed.test>", "reject");
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
        site.at("status").exists().then_some(())
    });
    site.is("<first@listed.test>", "accept");
    site.configure(&CONFIG.replace("\"reject\"", "\"rejct\""));
    flip(&site.at("tags.blf"), |_| 5000);
    site.write("white.txt", "");
    let words = [
        "milter.toml:",
        "rejct",
        "tags.blf",
        "not every file is in effect",
    ];
    site.milter(&["reload"]).ends(2, &words);
    site.is("<first@listed.test>", "reject");
    site.is("<a@tagged.test>", "tag");
    assert!(daemon.terminate().success());
    let mut unknown = milter();
    crate::support::Said::of(unknown.args(["reload", "--config", "/nowhere"])).ends(2, &[]);
}
