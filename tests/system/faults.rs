//! An admin's bad day: one faulty file holds up no other, stops no mail, and is named.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crate::support::compile::names;
use crate::support::site::{Daemon, Site, Transport};
use crate::support::{Said, has, is_root, milter, run, until_so};

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
    let is_whole = |name: &String| !name.starts_with('.');
    until_so("three copies", || {
        names(folder).into_iter().filter(is_whole).count() == 3
    });
}

/// Checks the verdicts on envelope senders: `a@b.test reject, c@d.test accept`.
#[track_caller]
fn are(site: &Site, verdicts: &str) {
    for verdict in verdicts.split(", ") {
        let (sender, expected) = verdict.split_once(' ').unwrap();
        site.is(&format!("<{sender}>"), expected);
    }
}

fn serve(site: &Site) -> Daemon {
    fs::create_dir_all(site.at("log")).unwrap();
    Daemon::spawn(site.program_under("env", &[]), &site.socket, site.at(LOG))
}

fn restarted(site: &Site, daemon: Daemon) -> Daemon {
    assert!(daemon.terminate().success());
    fs::write(site.at(LOG), "").unwrap();
    serve(site)
}

/// Replaces a file by itself with another byte there, or at its end.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[at.min(last)] ^= 1;
    let aside = path.with_extension("aside");
    fs::write(&aside, bytes).unwrap();
    let old = fs::metadata(path).unwrap();
    chown(&aside, Some(old.uid()), Some(old.gid())).unwrap();
    fs::rename(&aside, path).unwrap();
}

/// Each fault by itself, and then all of them together: other files take effect, and the faulty ones
/// keep what they said before.
#[test]
fn one_fault_holds_up_nothing_else() {
    type Fault = fn(&mut Site);
    let flipped: Fault = |site| flip(&site.at("tags.blf"), 4096 + 100);
    let record: Fault = |site| flip(&site.at("tags.blf"), usize::MAX);
    let missing: Fault = |site| fs::remove_file(site.at("tags.blf")).unwrap();
    let typed: Fault = |site| site.configure(&CONFIG.replace("reject", "rejct"));
    let no_toml: Fault = |site| site.configure(&CONFIG.replace("[[list]]", "[list"));
    let removed: Fault = |site| fs::remove_file(site.at("milter.toml")).unwrap();
    let misnamed: Fault = |site| site.configure(&CONFIG.replace("spam.blf", "spm.blf"));
    let line: Fault = |site| {
        let text = fs::read_to_string(site.at("white.txt")).unwrap();
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
            "blocklist-compile add white.txt friend@listed.test\n".to_owned()
        } else {
            let (_, id) = reply.split_once("(case ").unwrap();
            let (id, _) = id.split_once(')').unwrap();
            daemon.logged(&[id]);
            site.milter(&["case", id, LOG]).ok()
        };
        let mut lines = advice.lines();
        let adds = lines.find(|line| line.contains("blocklist-compile add"));
        let adds = adds.unwrap().trim().split(' ').skip(1);
        run(site.program("blocklist-compile").args(adds));
        soon(&site, "<friend@listed.test>", "accept");
        site.list("spam", &[first, friend, "second@listed.test"]);
        soon(&site, "<second@listed.test>", "reject");
        are(&site, "gone@listed.test accept, first@listed.test reject");
        are(&site, "a@tagged.test tag, a@ok.example accept");
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
        are(&site, "first@listed.test reject, a@tagged.test tag");
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
    let mut copies = names(&site.at("state")).into_iter();
    let copy = copies.find(|name| name.ends_with(".toml")).unwrap();
    let copy = site.at("state").join(copy);
    let copy = fs::File::options().write(true).open(copy).unwrap();
    let eight_days_ago = SystemTime::now() - Duration::from_secs(8 * 86_400);
    copy.set_modified(eight_days_ago).unwrap();
    site.write(LOG, "");
    site.configure(&typed);
    let daemon = serve(&site);
    // All mail is deferred, and the first line says so.
    site.is("<a@ok.example>", "tempfail");
    let said = status(&site, 2);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("All mail is deferred since "), "{said}");
    assert!(first.contains(" UTC. Refused "), "{said}");
    daemon.logged(&["ERROR", "not serving as configured: ", "rejct"]);
    site.configure(CONFIG);
    soon(&site, "<first@listed.test>", "reject");
    soon(&site, "<a@ok.example>", "accept");
    assert!(daemon.terminate().success());
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
    fs::create_dir(default).unwrap();
    let _made = Made(default);
    let (uid, gid) = site.user.unwrap();
    chown(default, Some(uid), Some(gid)).unwrap();
    let rest = CONFIG.replace("\"state\"", &format!("\"{}\"", default.display()));
    site.configure(&rest);
    let daemon = serve(&site);
    copied(default);
    fs::remove_file(site.at("milter.toml")).unwrap();
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
    let in_use = "the last good configuration is in use: ";
    daemon.logged(&["ERROR", in_use, "new.blf"]);
    let daemon = restarted(&site, daemon);
    for _ in 0..2 {
        are(&site, "first@listed.test reject, new@listed.test accept");
        site.is("<a@ok.example>", "accept");
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
    let in_use = "the last good configuration is in use: ";
    for address in ["boss@tagged.test", "First@LISTED.test"] {
        site.configure(&must_miss(address));
        let words = format!("lists or matches {address}, which must_miss");
        daemon.logged(&["ERROR", in_use, &words]);
    }
    site.configure(&CONFIG.replace("\"reject\"", must_hit));
    daemon.logged(&["ERROR", in_use, "which must_hit requires"]);
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
    until_so("its status", || site.at("status").exists());
    site.is("<first@listed.test>", "accept");
    site.configure(&CONFIG.replace("\"reject\"", "\"rejct\""));
    flip(&site.at("tags.blf"), 5000);
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
    Said::of(milter().args(["reload", "--config", "/nowhere"])).ends(2, &[]);
}
