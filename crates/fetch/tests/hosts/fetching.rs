//! A host with a correct store, and with different states of its own files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use blocklist_compile::compile::{self, Progress};
use blocklist_fetch::{Error, Fetch, Outcome, fetch, publish};

use crate::check::{Said, has, has_all, words};
use crate::support::{Answer, NOW, Site, updated};
use crate::tools::installed;

#[test]
fn a_host_takes_the_whole_filter_and_then_deltas() {
    let site = Site::new();
    site.release(0..4_000);
    assert_eq!(updated(&site.fetch().unwrap()), (1, 0));
    assert!(site.is_up_to_date());
    assert_eq!(site.fetch().unwrap(), Outcome::Unchanged);
    site.release(2..4_002);
    assert_eq!(updated(&site.fetch().unwrap()), (2, 1));
    assert!(site.is_up_to_date());
    // Three releases were missed.
    for first in [3, 4, 5] {
        assert!(site.release(first..4_003 + first).warnings.is_empty());
    }
    let outcome = site.fetch().unwrap();
    assert_eq!(updated(&outcome), (5, 3));
    let said = outcome.to_string();
    assert!(
        said.starts_with("generation 5, 4003 entries, 3 deltas: "),
        "{said}"
    );
    assert!(site.is_up_to_date());
    // However many they are: their bytes are fewer.
    for first in 6..17 {
        site.release(first..4_000);
    }
    assert_eq!(updated(&site.fetch().unwrap()), (16, 11));
    assert!(site.is_up_to_date());
    // An unrelated list has no delta.
    assert_eq!(site.release(9_000..9_999).warnings.len(), 1);
    let outcome = site.fetch().unwrap();
    assert_eq!(updated(&outcome), (17, 0));
    has_all(
        &outcome.to_string(),
        &["(no deltas: none from the present filter"],
    );
}

#[test]
fn over_http_too_and_only_what_is_new() {
    let site = Site::new();
    let (server, wanted) = site.over_http();
    site.release(0..4_000);
    assert_eq!(updated(&fetch(&wanted).unwrap()), (1, 0));
    site.release(2..4_000);
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 1));
    assert!(site.is_up_to_date());
    server.log.lock().unwrap().clear();
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    assert_eq!(*server.log.lock().unwrap(), ["spammers.json 304"]);
    // A host that has lost the filter gets it again, although the manifest is the same.
    fs::remove_file(&wanted.output).unwrap();
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 0));
    for place in ["http://192.0.2.1/x", "ftp://localhost/x", "file:///tmp"] {
        let from = place.to_owned();
        let error = site.refused(
            &Fetch {
                from,
                ..wanted.clone()
            },
            &[place],
        );
        assert!(matches!(error, Error::Settings(_)), "{error}");
    }
}

#[test]
fn a_store_that_has_nothing_new_for_too_long_brings_an_alarm() {
    let site = Site::new();
    let (_server, mut wanted) = site.over_http();
    site.release(0..1_000);
    fetch(&wanted).unwrap();
    wanted.now = NOW + 48 * 3600 - 1;
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    wanted.now = NOW + 50 * 3600;
    // Both when the server says "not modified" and when it sends the manifest again.
    for state in ["kept", "lost"] {
        let error = site.refused(&wanted, &["expired 2 hours ago", "stays in use"]);
        assert!(matches!(error, Error::Frozen(_)), "{state}");
        if state == "kept" {
            fs::remove_file(site.path(".host.blf.fetch")).unwrap();
        }
    }
    // A manifest that is published again is accepted again.
    let mut again = site.to_publish();
    again.now = wanted.now;
    let number = publish(&again, &site.signer).unwrap().manifest.number;
    assert_eq!(number, again.now);
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
}

#[test]
fn limits_and_older_filters() {
    let site = Site::new();
    site.release(0..1_000);
    let mut wanted = site.to_fetch();
    fetch(&wanted).unwrap();
    fs::copy(site.path("spammers.blf"), site.path("first.blf")).unwrap();
    (wanted.max_shrink, wanted.max_growth) = (Some(20), Some(100));
    site.release(0..700);
    site.refused(&wanted, &["700 entries, 1000 before", "--max-shrink 20%"]);
    site.release(0..2_001);
    site.refused(&wanted, &["--max-growth 100%"]);
    site.release(0..2_000);
    assert_eq!(updated(&fetch(&wanted).unwrap()).0, 4);
    // An older filter is not published, because no host would accept it.
    fs::copy(site.path("first.blf"), site.path("spammers.blf")).unwrap();
    let error = publish(&site.to_publish(), &site.signer)
        .unwrap_err()
        .to_string();
    has(&error, "build generation 5 or later");
    // A recreated store does not distribute it either.
    fs::remove_dir_all(site.path("store")).unwrap();
    fs::create_dir(site.path("store")).unwrap();
    site.publish();
    site.refused(&wanted, &["but this host has seen"]);
    let mut again = site.to_publish();
    again.now += 60;
    publish(&again, &site.signer).unwrap();
    site.refused(
        &wanted,
        &["the store has generation 1, but the present filter has 4"],
    );
    // The manifest of another list, and a filter of another list.
    fs::rename(
        site.path("store/spammers.json"),
        site.path("store/other.json"),
    )
    .unwrap();
    fs::rename(site.path("store/spammers"), site.path("store/other")).unwrap();
    wanted.list = "other".to_owned();
    site.refused(&wanted, &["fetched from the list spammers"]);
    wanted.output = site.path("other.blf");
    site.refused(
        &wanted,
        &["other.json: it is the manifest of the list spammers"],
    );
    let mut other = site.to_publish();
    other.list = "third".to_owned();
    assert!(publish(&other, &site.signer).is_err());
    // A file that is not a filter is not replaced.
    fs::write(site.path("host.blf"), "precious").unwrap();
    site.refused(&site.to_fetch(), &["not a filter"]);
}

/// The limits compare with the filter in place; without it they would allow anything.
#[test]
fn a_filter_that_cannot_be_read_is_not_replaced() {
    let site = Site::new();
    site.release(0..1_000);
    let output = site.path("host.blf");
    symlink("host.blf", &output).unwrap();
    site.refused(&site.to_fetch(), &["host.blf: cannot find the output"]);
    // A damaged one is replaced.
    fs::remove_file(&output).unwrap();
    for length in [0, 4_096, 10_000] {
        let mut bytes = fs::read(site.path("spammers.blf")).unwrap();
        bytes.truncate(length);
        fs::write(&output, bytes).unwrap();
        if length == 0 {
            site.refused(&site.to_fetch(), &["not a filter"]);
        } else {
            assert_eq!(updated(&site.fetch().unwrap()), (1, 0));
        }
    }
}

/// A disk may change what it has stored, on a host and in the store.
#[test]
fn damage_at_rest_is_found_and_repaired() {
    let site = Site::new();
    site.release(0..1_000);
    site.fetch().unwrap();
    let (built, output) = (site.path("spammers.blf"), site.path("host.blf"));
    let good = fs::read(&built).unwrap();
    let damage = |path: &Path| {
        let mut bytes = good.clone();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let on = |day: u64| {
        fetch(&Fetch {
            now: NOW + day * 43_200,
            ..site.to_fetch()
        })
    };
    assert_eq!(on(0).unwrap(), Outcome::Unchanged);
    damage(&output);
    // The whole file is read once a day.
    assert_eq!(on(1).unwrap(), Outcome::Unchanged);
    let repaired = on(2).unwrap();
    assert_eq!(updated(&repaired), (1, 0));
    has(
        &repaired.to_string(),
        "(no deltas: the present filter is damaged)",
    );
    assert!(fs::read(&output).unwrap() == good);

    // In the store it has the right size.
    let in_store = fs::read_dir(site.path("store/spammers")).unwrap();
    let mut in_store = in_store.map(|file| file.unwrap().path());
    let in_store = in_store.find(|path| path.extension().is_some_and(|ending| ending == "blf"));
    let in_store = in_store.unwrap();
    damage(&in_store);
    fs::remove_file(&output).unwrap();
    site.refused(&site.to_fetch(), &["SHA-256"]);
    let mut again = site.to_publish();
    assert_eq!(publish(&again, &site.signer).unwrap().warnings, [""; 0]);
    assert!(fs::read(&in_store).unwrap() != good);
    again.check_store = true;
    let warnings = publish(&again, &site.signer).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    has(
        &warnings[0],
        "was damaged in the store, and is uploaded again",
    );
    assert!(fs::read(&in_store).unwrap() == good);
    assert_eq!(updated(&site.fetch().unwrap()), (1, 0));
}

/// Deltas and the filters of other rings, too; the publisher still has those.
#[test]
fn all_files_of_the_store_are_repaired() {
    let site = Site::new();
    let mut wanted = site.to_publish();
    wanted.rings = vec![("first".to_owned(), vec!["mx2".to_owned()])];
    site.build(0..1_000);
    publish(&wanted, &site.signer).unwrap();
    wanted.only = Some("first".to_owned());
    site.build(0..1_001);
    publish(&wanted, &site.signer).unwrap();
    let files = || {
        let files = fs::read_dir(site.path("store/spammers")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|ending| ending != "minisig"))
    };
    let good: Vec<_> = files()
        .map(|path| (fs::read(&path).unwrap(), path))
        .collect();
    assert_eq!(good.len(), 3);
    for (bytes, path) in &good {
        let mut bytes = bytes.clone();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    }
    wanted.check_store = true;
    assert_eq!(publish(&wanted, &site.signer).unwrap().warnings.len(), 3);
    assert_eq!(publish(&wanted, &site.signer).unwrap().warnings, [""; 0]);
    assert!(
        good.iter()
            .all(|(bytes, path)| fs::read(path).unwrap() == *bytes)
    );
}

/// A repair that fails is an error, and publishes nothing.
#[test]
fn a_repair_that_fails_publishes_nothing() {
    let site = Site::new();
    site.release(0..1_000);
    let store = site.path("store/spammers");
    let files = || -> Vec<_> {
        let files = fs::read_dir(&store).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    };
    let before = files();
    let is_filter = |path: &&std::path::PathBuf| path.extension().is_some_and(|end| end == "blf");
    let filter = before.iter().find(is_filter).unwrap();
    fs::remove_file(filter).unwrap();
    // No file can be put there.
    fs::create_dir(filter).unwrap();
    site.build(0..1_001);
    let mut wanted = site.to_publish();
    wanted.check_store = true;
    let error = publish(&wanted, &site.signer).unwrap_err().to_string();
    let name = filter.file_name().unwrap().to_string_lossy();
    has(&error, &name);
    assert_eq!(files(), before);
}

/// The publisher makes deltas from its own copies, and downloads a filter only if it has none, or a damaged one.
#[test]
fn the_publisher_keeps_what_it_has_published() {
    let site = Site::new();
    let (server, over_http) = site.over_http();
    let copies = || -> Vec<_> {
        let files = fs::read_dir(site.folder.path()).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let is_copy = |path: &std::path::PathBuf| path.to_string_lossy().ends_with(".published");
        files.filter(is_copy).collect()
    };
    site.release(0..1_000);
    let mut wanted = site.to_publish();
    wanted.access = over_http.access;
    for (users, damage) in [(1_001, "none"), (1_002, "missing"), (1_003, "changed")] {
        let copy = copies().pop().expect("a copy");
        assert_eq!(copies().len(), 1);
        site.build(0..users);
        match damage {
            "missing" => fs::remove_file(copy).unwrap(),
            "changed" => {
                fs::remove_file(&copy).unwrap();
                fs::write(copy, "something else").unwrap();
            }
            _ => {
                // Nothing can be downloaded.
                fs::rename(site.path("store/spammers"), site.path("away")).unwrap();
                fs::create_dir(site.path("store/spammers")).unwrap();
                for file in fs::read_dir(site.path("away")).unwrap() {
                    let file = file.unwrap().path();
                    if file.extension().is_some_and(|ending| ending == "minisig") {
                        let name = file.file_name().unwrap();
                        fs::copy(&file, site.path("store/spammers").join(name)).unwrap();
                    }
                }
            }
        }
        let done = publish(&wanted, &site.signer).unwrap();
        assert_eq!(done.warnings, [""; 0], "{damage}");
    }
    drop(server);
}

/// A mirror helps if the first store fails. The status file has a line for people, and metrics.
#[test]
fn mirrors_and_the_status_file() {
    let site = Site::new();
    site.build(0..1_000);
    publish(&site.to_publish_for_years(), &site.signer).unwrap();
    let (server, _) = site.over_http();
    let size = fs::read(site.path("spammers.blf")).unwrap().len();
    server.lie_about("blf", Answer::Other(vec![0; size]));
    let path = site.path("status.prom");
    let run = |from: &str, code: i32, said: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklist-fetch"));
        let rest =
            "--list spammers --key publisher.pub --host mx1 --status status.prom -o host.blf";
        let text = format!("--from {from} {rest}");
        command.args(words(&text)).current_dir(site.folder.path());
        Said::of(&mut command).ends(code, said);
        fs::read_to_string(&path).unwrap()
    };
    let failed = run("missing", 2, &["missing"]);
    has(&failed, "# mx1 spammers: no filter; never fetched; missing");
    has(
        &failed,
        "\nblocklist_milter_fetch_exit_code{list=\"spammers\"} 2\n",
    );
    assert!(!failed.contains("success"), "{failed}");
    let fetched = run("missing store", 0, &["missing", "generation 1"]);
    has(
        &fetched,
        "# mx1 spammers: generation 1, 1000 entries, built 2026-09-21 ",
    );
    has(
        &fetched,
        "\nblocklist_milter_fetch_generation{list=\"spammers\"} 1\n",
    );
    has(&fetched, "exit_code{list=\"spammers\"} 0\n");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o644
    );
    // What cannot be trusted is an alarm, although the mirror has brought the filter.
    fs::remove_file(site.path("host.blf")).unwrap();
    let alarm = run(
        &format!("{} store", server.url),
        1,
        &["SHA-256", "generation 1"],
    );
    has(&alarm, "exit_code{list=\"spammers\"} 1\n");
    assert!(site.is_up_to_date());
    // When the last success was is kept.
    let success = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.contains("_success_timestamp_seconds{"));
        line.map(str::to_owned)
    };
    assert!(success(&alarm).is_some() && success(&alarm) == success(&fetched));
    assert_eq!(success(&run("missing", 2, &[])), success(&fetched));
    site.assert_clean();
}

/// A host that gets another name may be in another ring, although the manifest is the same.
#[test]
fn a_host_with_another_name_asks_again() {
    let site = Site::new();
    let mut wanted = site.to_publish();
    wanted.rings = vec![("first".to_owned(), vec!["mx2".to_owned()])];
    site.build(0..1_000);
    publish(&wanted, &site.signer).unwrap();
    site.build(0..1_001);
    wanted.only = Some("first".to_owned());
    publish(&wanted, &site.signer).unwrap();
    assert_eq!(updated(&site.fetch().unwrap()).0, 1);
    let mut renamed = site.to_fetch();
    renamed.host = "mx2".to_owned();
    assert_eq!(updated(&fetch(&renamed).unwrap()).0, 2);
}

/// The programs, with Debian's minisign to check the signature.
#[test]
fn the_programs_and_minisign_agree() {
    let site = Site::new();
    let run = |line: &str| {
        let (program, arguments) = line.split_once(' ').expect("arguments");
        let mut command = Command::new(match program {
            "publish" => env!("CARGO_BIN_EXE_blocklist-publish"),
            "fetch" => env!("CARGO_BIN_EXE_blocklist-fetch"),
            other => other,
        });
        Said::of(
            command
                .args(words(arguments))
                .current_dir(site.folder.path()),
        )
    };
    site.build(0..1_000);
    let publish = "publish --to store --list spammers --key publisher.key spammers.blf";
    let fetch = "fetch --from store --list spammers --key publisher.pub -o host.blf";
    run(publish).ends(0, &[", generation 1; 0 deltas\n"]);
    let said = run(fetch).ends(0, &[]);
    assert!(said.starts_with("host.blf: generation 1, "), "{said}");
    assert!(site.is_up_to_date());
    assert_eq!(run(fetch).ends(0, &[]), "host.blf: unchanged\n");
    // With -q, but with the reason why all hosts will read the whole file.
    site.build(5_000..6_000);
    let why = "blocklist-publish: no delta from generation 1: ";
    let said = run(&format!("{publish} -q")).ends(0, &[why]);
    assert_eq!(said.lines().count(), 1, "{said}");
    // Filters contain their seed.
    for file in fs::read_dir(site.path("store/spammers")).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0);
    }
    let wrong = run("fetch --from store --list spammers --key RWx -o host.blf").ends(2, &[]);
    assert_eq!(
        wrong,
        "blocklist-fetch: RWx: not a public key of minisign\n"
    );

    if !installed("minisign") {
        return;
    }
    let verified = run("minisign -V -p publisher.pub -m store/spammers.json");
    verified.ends(0, &["list:spammers"]);
    // Also with a key that minisign made.
    run("minisign -G -W -p d.pub -s d.key").ok();
    run("publish --to . --list spammers --key d.key spammers.blf").ok();
    run("minisign -V -p d.pub -m spammers.json").ok();
}

/// A person has replaced the filter.
#[test]
fn a_filter_that_was_put_there_by_hand() {
    let site = Site::new();
    site.release(0..1_000);
    site.fetch().unwrap();
    fs::copy(site.path("host.blf"), site.path("first.blf")).unwrap();
    site.release(0..1_001);
    site.fetch().unwrap();
    // An older one, or another one of the same generation, is replaced by the store's.
    fs::copy(site.path("first.blf"), site.path("host.blf")).unwrap();
    assert_eq!(updated(&site.fetch().unwrap()).0, 2);
    assert!(site.is_up_to_date());
    // A newer one stays until the publisher has reached it.
    let published = site.path("published.blf");
    fs::copy(site.path("spammers.blf"), &published).unwrap();
    for last in [1_002, 1_003] {
        site.build(0..last);
    }
    fs::copy(site.path("spammers.blf"), site.path("host.blf")).unwrap();
    site.refused(
        &site.to_fetch(),
        &["the store has generation 2, but the present filter has 4"],
    );
    site.publish();
    assert_eq!(site.fetch().unwrap(), Outcome::Unchanged);
    // A filter of another list belongs to somebody else.
    let mut other = compile::Plan::new(site.path("other.blf"), vec![site.path("list.txt")]);
    (other.name, other.resources.threads) = ("other".to_owned(), 1);
    compile::build(&other, &Progress::new()).unwrap();
    let mut wanted = site.to_fetch();
    wanted.output = site.path("other.blf");
    site.refused(
        &wanted,
        &[
            "other.blf: a filter of the list other",
            "use another --output",
        ],
    );
}

/// A link is followed, as by the compiler; a dangling one is an error.
#[test]
fn an_output_that_is_a_link() {
    let site = Site::new();
    site.release(0..1_000);
    let real = site.path("real");
    fs::create_dir(&real).unwrap();
    symlink("real/host.blf", site.path("host.blf")).unwrap();
    site.refused(
        &site.to_fetch(),
        &["host.blf: cannot follow this symbolic link"],
    );
    fs::copy(site.path("spammers.blf"), real.join("host.blf")).unwrap();
    assert_eq!(site.fetch().unwrap(), Outcome::Unchanged);
    site.release(1..1_001);
    assert_eq!(updated(&site.fetch().unwrap()), (2, 1));
    assert!(site.path("host.blf").is_symlink() && site.is_up_to_date());
    site.release(5_000..6_000);
    assert_eq!(updated(&site.fetch().unwrap()), (3, 0));
    assert!(site.path("host.blf").is_symlink() && site.is_up_to_date());
    site.assert_clean();
}

/// Anybody who can read a filter can test addresses, and construct colliding ones.
#[test]
fn what_is_written_is_not_for_everybody() {
    let site = Site::new();
    site.release(0..1_000);
    site.fetch().unwrap();
    let mode = |name: &str| fs::metadata(site.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("host.blf"), mode(".host.blf.fetch")), (0o640, 0o640));
    // The mode that an administrator has set stays, after deltas and after the whole file.
    fs::set_permissions(site.path("host.blf"), fs::Permissions::from_mode(0o600)).unwrap();
    for users in [1..1_001, 5_000..6_000] {
        site.release(users);
        site.fetch().unwrap();
        assert_eq!(mode("host.blf"), 0o600);
    }
}

/// A trial run by root must not lock out the service, which runs as the owner of the folder.
#[test]
fn what_root_has_fetched_belongs_to_the_owner_of_the_folder() {
    use std::os::unix::fs::MetadataExt as _;

    if !rustix::process::geteuid().is_root() {
        println!("left out: only root gives files away");
        return;
    }
    let site = Site::new();
    site.release(0..1_000);
    let folder = site.path("lib");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(54_321), Some(54_322)).unwrap();
    let mut wanted = site.to_fetch();
    wanted.output = folder.join("spammers.blf");
    fetch(&wanted).unwrap();
    let mut names = Vec::new();
    for file in fs::read_dir(&folder).unwrap() {
        let file = file.unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!((meta.uid(), meta.gid()), (54_321, 54_322), "{file:?}");
        names.push(file.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, [".spammers.blf.fetch", "spammers.blf"]);
}

/// A folder that is missing or not a folder, and an invalid state file.
#[test]
fn a_host_that_is_set_up_wrongly() {
    let site = Site::new();
    site.release(0..1_000);
    let mut wanted = site.to_fetch();
    wanted.output = site.path("missing/host.blf");
    site.refused(
        &wanted,
        &[
            "missing: cannot create a file in this folder",
            "No such file",
        ],
    );
    wanted.output = site.path("spammers.blf/host.blf");
    site.refused(&wanted, &["Not a directory"]);
    wanted.output = site.folder.path().to_owned();
    site.refused(&wanted, &["not a regular file"]);
    site.fetch().unwrap();
    for (bytes, words) in [
        (b"{".to_vec(), "not a state file of blocklist-fetch"),
        (vec![b' '; 100_000], "not a state file of blocklist-fetch"),
        (vec![0xff; 10], "remove it"),
    ] {
        fs::write(site.path(".host.blf.fetch"), bytes).unwrap();
        site.refused(&site.to_fetch(), &[".host.blf.fetch: ", words]);
    }
    fs::remove_file(site.path(".host.blf.fetch")).unwrap();
    assert_eq!(site.fetch().unwrap(), Outcome::Unchanged);
}

/// A store that is down when the host starts, or is still empty.
#[test]
fn a_store_that_is_not_there() {
    let site = Site::new();
    site.refused(
        &site.to_fetch(),
        &["spammers.json: the store does not have it"],
    );
    let (server, mut wanted) = site.over_http();
    site.refused(&wanted, &["spammers.json: the store does not have it"]);
    wanted.from = "http://127.0.0.1:1".to_owned();
    site.refused(
        &wanted,
        &["http://127.0.0.1:1/spammers.json: ", "Connection refused"],
    );
    drop(server);
    // Each cause is reported in one line.
    site.build(0..1_000);
    fs::write(
        site.path("store/spammers"),
        "a file where a folder should be",
    )
    .unwrap();
    let error = publish(&site.to_publish(), &site.signer)
        .unwrap_err()
        .to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
}
