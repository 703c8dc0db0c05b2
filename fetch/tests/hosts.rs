//! From a publisher to hosts: by folder and by HTTP; and all that a store can do to a host.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use std::fs;
use std::process::Command;

use blocklist_fetch::{Error, Fetch, Outcome, fetch, publish};
use support::{Answer, NOW, Server, Site, new_key};

fn updated(outcome: &Outcome) -> (u64, usize) {
    match outcome {
        Outcome::Updated { by, deltas, .. } => (by.generation, *deltas),
        Outcome::Unchanged => panic!("unchanged"),
    }
}

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
    // Three were missed.
    for first in [3, 4, 5] {
        assert!(site.release(first..4_003 + first).without_delta.is_empty());
    }
    let outcome = site.fetch().unwrap();
    assert_eq!(updated(&outcome), (5, 3));
    let said = outcome.to_string();
    assert!(
        said.starts_with("generation 5, 4003 entries, 3 deltas: "),
        "{said}"
    );
    assert!(site.is_up_to_date());
    // Eleven are more than a chain has.
    for first in 6..17 {
        site.release(first..4_000);
    }
    assert_eq!(updated(&site.fetch().unwrap()), (16, 0));
    assert!(site.is_up_to_date());
    // An unrelated list has no delta.
    assert_eq!(site.release(9_000..9_999).without_delta.len(), 1);
    assert_eq!(updated(&site.fetch().unwrap()), (17, 0));
}

#[test]
fn over_http_too_and_only_what_is_new() {
    let site = Site::new();
    let server = Server::start(&site.path("store"));
    let wanted = Fetch {
        from: server.url.clone(),
        ..site.to_fetch()
    };
    site.release(0..4_000);
    assert_eq!(updated(&fetch(&wanted).unwrap()), (1, 0));
    site.release(2..4_000);
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 1));
    assert!(site.is_up_to_date());
    server.log.lock().unwrap().clear();
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    assert_eq!(*server.log.lock().unwrap(), ["spammers.json 304"]);
    // Whoever has lost the filter gets it, though the manifest is the same.
    fs::remove_file(&wanted.output).unwrap();
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 0));
    for place in [
        "http://192.0.2.1/x",
        "ftp://localhost/x",
        "file:///tmp",
        "/nonexistent/store",
    ] {
        let error = site.refused(
            &Fetch {
                from: place.to_owned(),
                ..wanted.clone()
            },
            &[place],
        );
        assert!(matches!(error, Error::Settings(_)), "{error}");
    }
}

/// The store is an attacker's.
#[test]
fn whatever_a_store_does_the_filter_in_place_stays() {
    let site = Site::new();
    let server = Server::start(&site.path("store"));
    let wanted = Fetch {
        from: server.url.clone(),
        ..site.to_fetch()
    };
    site.release(0..4_000);
    fetch(&wanted).unwrap();
    let read = |name: &str| fs::read(site.path("store").join(name)).unwrap();
    let (old, old_signature) = (read("spammers.json"), read("spammers.json.minisig"));
    let is_file = |path: &str| path.contains('/') && !path.ends_with(".minisig");
    site.release(2..4_000);

    // Damaged, and the other one's signature.
    let mut changed = read("spammers.json");
    changed[20] ^= 1;
    for (file, bytes) in [
        ("spammers.json", changed),
        (".minisig", old_signature),
        (".minisig", b"untrusted comment: x\nRUQ".to_vec()),
        (".minisig", Vec::new()),
    ] {
        server.lie(move |path| {
            if path.ends_with(file) {
                Answer::Other(bytes.clone())
            } else {
                Answer::Honest
            }
        });
        let error = site.refused(&wanted, &["spammers.json: not signed with the key RW"]);
        assert!(matches!(error, Error::Refused(_)));
    }

    // An endless body, of each kind of file; and a longer one than the manifest says.
    for file in ["spammers.json", ".minisig"] {
        server.lie(move |path| {
            if path.ends_with(file) {
                Answer::Endless
            } else {
                Answer::Honest
            }
        });
        site.refused(&wanted, &[file, "longer than"]);
    }
    server.lie(move |path| {
        if is_file(path) {
            Answer::Endless
        } else {
            Answer::Honest
        }
    });
    site.refused(&wanted, &[".blf: longer than the "]);

    // Truncated, swapped, missing, refused, sent elsewhere.
    server.lie(move |path| {
        if is_file(path) {
            Answer::Truncated(100)
        } else {
            Answer::Honest
        }
    });
    site.refused(&wanted, &[".blf: "]);
    let old_filter = fs::read(&wanted.output).unwrap();
    server.lie(move |path| {
        if is_file(path) {
            Answer::Other(old_filter.clone())
        } else {
            Answer::Honest
        }
    });
    site.refused(&wanted, &[".blf: "]);
    server.lie(|_| Answer::Broken);
    site.refused(&wanted, &["spammers.json: "]);
    let elsewhere = Server::start(&site.path("store"));
    let place = elsewhere.url.clone();
    server.lie(move |path| Answer::Redirect(format!("{place}/{path}")));
    site.refused(&wanted, &["spammers.json: "]);
    assert!(elsewhere.log.lock().unwrap().is_empty(), "it was followed");

    // A delta that is damaged is no reason to go without the filter.
    server.lie(|path| {
        if path.ends_with(".delta") {
            Answer::Truncated(10)
        } else {
            Answer::Honest
        }
    });
    let outcome = fetch(&wanted).unwrap();
    assert_eq!(updated(&outcome), (2, 0));
    assert!(outcome.to_string().contains("no deltas: "), "{outcome}");
    assert!(site.is_up_to_date());

    // Rollback: the old manifest, whose signature the store still has.
    server.lie(move |path| match path {
        "spammers.json" => Answer::Other(old.clone()),
        _ => Answer::Honest,
    });
    let numbers = format!("number {NOW}, but number {} was there before", NOW + 1);
    site.refused(&wanted, &[&numbers]);
    server.be_honest();
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
}

#[test]
fn a_store_that_has_nothing_new_for_too_long_brings_an_alarm() {
    let site = Site::new();
    let server = Server::start(&site.path("store"));
    site.release(0..1_000);
    let mut wanted = Fetch {
        from: server.url,
        ..site.to_fetch()
    };
    fetch(&wanted).unwrap();
    wanted.now = NOW + 48 * 3600 - 1;
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    wanted.now = NOW + 50 * 3600;
    // Both when the server says "the same" and when it sends it again.
    for state in ["kept", "lost"] {
        let error = site.refused(&wanted, &["expired 2 hours ago", "stays in use"]);
        assert!(matches!(error, Error::Frozen(_)), "{state}");
        if state == "kept" {
            fs::remove_file(site.path(".host.blf.fetch")).unwrap();
        }
    }
    // Published again, it is believed again.
    let mut again = site.to_publish();
    again.now = wanted.now;
    let number = publish(&again, &site.signer).unwrap().manifest.number;
    assert_eq!(number, again.now);
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
}

#[test]
fn a_key_that_changes_is_announced_before() {
    let site = Site::new();
    let next = new_key(site.folder.path(), "next.key");
    let stranger = new_key(site.folder.path(), "stranger.key");
    site.build(0..1_000);
    let mut announced = site.to_publish();
    announced.next_key = Some(site.path("next.pub").display().to_string());
    publish(&announced, &site.signer).unwrap();
    site.fetch().unwrap();

    // Neither may a stranger publish, nor is it believed.
    let error = publish(&site.to_publish(), &stranger)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--previous-key"), "{error}");
    let mut change = site.to_publish();
    change.previous_key = Some(site.signer.public.clone());
    site.build(1..1_000);
    let store = site.path("store");
    let kept = site.path("kept");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(copied.unwrap().success());
    };
    copy(&store, &kept);
    publish(&change, &stranger).unwrap();
    site.refused(&site.to_fetch(), &["not signed with the key"]);
    fs::remove_dir_all(&store).unwrap();
    copy(&kept, &store);

    publish(&change, &next).unwrap();
    assert_eq!(updated(&site.fetch().unwrap()), (2, 1));
    // From now on the old key signs nothing that is believed.
    change.previous_key = Some(next.public.clone());
    publish(&change, &site.signer).unwrap();
    site.refused(&site.to_fetch(), &["not signed with the key", &next.public]);
    // Unless a person says so.
    fs::remove_file(site.path(".host.blf.fetch")).unwrap();
    assert_eq!(site.fetch().unwrap(), Outcome::Unchanged);
}

#[test]
fn a_bad_list_stops_in_the_first_ring() {
    let site = Site::new();
    let rings = vec![
        (
            "first".to_owned(),
            vec!["mx1".to_owned(), "test-*".to_owned()],
        ),
        ("second".to_owned(), vec!["*.eu.example".to_owned()]),
    ];
    let mut wanted = site.to_publish();
    wanted.rings.clone_from(&rings);
    site.build(0..1_000);
    publish(&wanted, &site.signer).unwrap();
    let hosts: Vec<String> = [
        "mx1".to_owned(),
        "test-7".to_owned(),
        "a.eu.example".to_owned(),
    ]
    .into_iter()
    .chain((2..1_000).map(|n| format!("mx{n}")))
    .collect();
    // The bad one is for the first ring.
    site.build(0..1_100);
    wanted.only = Some("first".to_owned());
    publish(&wanted, &site.signer).unwrap();
    let generations = |expected: &str| -> Vec<String> {
        let offered = blocklist_fetch::manifest::Manifest::read(
            &fs::read(site.path("store/spammers.json")).unwrap(),
            "spammers",
        )
        .unwrap();
        let has = |host: &&String| offered.of_host(host).0.generation.to_string() == expected;
        hosts.iter().filter(has).cloned().collect()
    };
    assert_eq!(generations("2"), ["mx1", "test-7"]);
    let of = |host: &str| Fetch {
        host: host.to_owned(),
        output: site.path(&format!("{host}.blf")),
        ..site.to_fetch()
    };
    assert_eq!(updated(&fetch(&of("mx1")).unwrap()), (2, 0));
    assert_eq!(updated(&fetch(&of("mx2")).unwrap()), (1, 0));
    // What follows goes to all, by deltas from either.
    site.build(0..1_001);
    wanted.only = None;
    publish(&wanted, &site.signer).unwrap();
    assert_eq!(updated(&fetch(&of("mx1")).unwrap()), (3, 1));
    assert_eq!(updated(&fetch(&of("mx2")).unwrap()), (3, 1));
    assert_eq!(generations("3").len(), hosts.len());
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
    // An older one is not published, since no host would take it.
    fs::copy(site.path("first.blf"), site.path("spammers.blf")).unwrap();
    let error = publish(&site.to_publish(), &site.signer)
        .unwrap_err()
        .to_string();
    assert!(error.contains("build generation 5 or later"), "{error}");
    // A store that was begun again does not bring it either.
    fs::remove_dir_all(site.path("store")).unwrap();
    fs::create_dir(site.path("store")).unwrap();
    site.publish();
    site.refused(&wanted, &["but number"]);
    let mut again = site.to_publish();
    again.now += 60;
    publish(&again, &site.signer).unwrap();
    site.refused(&wanted, &["generation 1 is offered, but 4 is in place"]);
    // The manifest of another list, and a filter of another.
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
    // And what is no filter is not replaced.
    fs::write(site.path("host.blf"), "precious").unwrap();
    site.refused(&site.to_fetch(), &["not a filter"]);
}

#[test]
fn the_store_keeps_what_the_last_two_manifests_name() {
    let site = Site::new();
    for last in 1_000..1_006 {
        let mut wanted = site.to_publish();
        wanted.keep = 2;
        site.build(0..last);
        publish(&wanted, &site.signer).unwrap();
    }
    let files = fs::read_dir(site.path("store/spammers")).unwrap();
    let mut endings: Vec<String> = files
        .map(|file| {
            file.unwrap()
                .path()
                .extension()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    endings.sort();
    assert_eq!(
        endings.join(" "),
        "blf blf delta delta delta minisig minisig"
    );
}

/// Filters and keys to a store cross no network in clear text, and passwords are not shown.
#[test]
fn stores_that_give_secrets_away_are_refused() {
    let site = Site::new();
    for place in [
        "https://user:hidden@lists.your.example/mail",
        "https://hidden@lists.your.example/mail",
        "s3://user:hidden@bucket/mail",
        "https://user:hidden@a b/mail",
        "ftp://user:hidden@lists.your.example/mail",
    ] {
        let mut wanted = site.to_fetch();
        wanted.from = place.to_owned();
        let error = site.refused(&wanted, &["without a user and a password"]);
        assert!(!error.to_string().contains("hidden"), "{error}");
    }
    for (variable, endpoint) in [
        ("AWS_ENDPOINT_URL", "http://192.0.2.1"),
        ("AWS_ENDPOINT_URL_S3", "http://192.0.2.1:9000"),
        ("AWS_ENDPOINT_URL_STS", "http://192.0.2.1"),
        ("AWS_ENDPOINT_URL", "https://user:hidden@192.0.2.1"),
        ("AWS_ENDPOINT_URL", "192.0.2.1:9000"),
    ] {
        let words = ["--from", "s3://bucket/mail", "--list", "spammers", "--key"];
        let done = Command::new(env!("CARGO_BIN_EXE_blocklist-fetch"))
            .args(words)
            .args([&site.signer.public, "-o", "host.blf"])
            .current_dir(site.folder.path())
            .env("AWS_ALLOW_HTTP", "true")
            .env(variable, endpoint)
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            said.contains(&format!("{variable}: must be https")),
            "{said}"
        );
        assert!(!said.contains("hidden"), "{said}");
        assert_eq!(done.status.code(), Some(2));
    }
}

/// The limits count from the filter in place: without it they would let anything pass.
#[test]
fn a_filter_that_cannot_be_read_is_not_replaced() {
    let site = Site::new();
    site.release(0..1_000);
    let output = site.path("host.blf");
    std::os::unix::fs::symlink("host.blf", &output).unwrap();
    site.refused(&site.to_fetch(), &["host.blf: cannot open"]);
    // One that is damaged is.
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

#[test]
fn the_next_key_of_a_manifest_is_no_path() {
    let site = Site::new();
    new_key(site.folder.path(), "next.key");
    let mut manifest = site.release(0..1_000).manifest;
    manifest.next_key = Some(site.path("next.pub").display().to_string());
    site.put(&manifest);
    site.refused(&site.to_fetch(), &["not a public key"]);
}

/// At each point at which a publisher may die, hosts and the next publisher go on.
#[test]
fn a_publisher_that_is_killed_leaves_a_store_of_use() {
    let site = Site::new();
    site.release(0..1_000);
    let names = ["store/spammers.json", "store/spammers.json.minisig"].map(|name| site.path(name));
    for killed_before in [0, 1] {
        let old = names.clone().map(|name| fs::read(name).unwrap());
        site.release(0..1_001);
        for (name, bytes) in names.iter().zip(old).skip(killed_before) {
            fs::write(name, bytes).unwrap();
        }
        site.fetch().unwrap();
        let number = site.publish().manifest.number;
        site.fetch().unwrap();
        assert!(site.is_up_to_date() && number > NOW);
    }
    // One that the store had before is not taken for whole because of its size.
    site.build(0..1_002);
    let sha256 =
        blocklist_milter::filter::Digest::of(&fs::read(site.path("spammers.blf")).unwrap());
    let there = site.path(&format!("store/spammers/{sha256}.blf"));
    let size = fs::metadata(site.path("spammers.blf")).unwrap().len();
    fs::File::create(&there).unwrap().set_len(size).unwrap();
    site.publish();
    assert!(fs::read(there).unwrap() == fs::read(site.path("spammers.blf")).unwrap());
    site.fetch().unwrap();
}

#[test]
fn a_filter_that_changes_while_it_is_published_is_not_stored() {
    let site = Site::new();
    site.build(0..1_000);
    let store = blocklist_fetch::store::Store::open(&site.to_publish().to).unwrap();
    let error = store.upload("x.blf", &site.path("spammers.blf"), &"0".repeat(64));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("was replaced while"), "{error}");
    assert_eq!(fs::read_dir(site.path("store")).unwrap().count(), 0);
    // Nor do two publishers work on one.
    let lock = fs::File::create(site.path(".spammers.blf.publish-lock")).unwrap();
    lock.lock().unwrap();
    let error = publish(&site.to_publish(), &site.signer).unwrap_err();
    assert!(error.to_string().contains("another blocklist-publish"));
    drop(lock);
    site.publish();
}

/// A host that gets another name may be in another ring, though the manifest is the same.
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

/// The programs, and Debian's minisign as the judge of the signature.
#[test]
fn the_programs_and_minisign_agree() {
    let site = Site::new();
    let run = |program: &str, words: &[&str]| {
        let done = Command::new(program)
            .args(words)
            .current_dir(site.folder.path())
            .output()
            .unwrap();
        let said = [done.stdout, done.stderr].map(|said| String::from_utf8(said).unwrap());
        (done.status.code(), said.concat())
    };
    let publish = env!("CARGO_BIN_EXE_blocklist-publish");
    let fetch = env!("CARGO_BIN_EXE_blocklist-fetch");
    site.build(0..1_000);
    let words = [
        "--to",
        "store",
        "--list",
        "spammers",
        "--key",
        "publisher.key",
        "spammers.blf",
    ];
    let (code, said) = run(publish, &words);
    assert!(
        code == Some(0) && said.ends_with(", generation 1; 0 deltas\n"),
        "{said}"
    );
    let words = [
        "--from",
        "store",
        "--list",
        "spammers",
        "--key",
        "publisher.pub",
        "-o",
        "host.blf",
    ];
    let (code, said) = run(fetch, &words);
    assert!(
        code == Some(0) && said.starts_with("host.blf: generation 1, "),
        "{said}"
    );
    assert!(site.is_up_to_date());
    let (code, said) = run(fetch, &words);
    assert_eq!((code, said.as_str()), (Some(0), "host.blf: unchanged\n"));
    // Filters hold their seed.
    use std::os::unix::fs::PermissionsExt;
    for file in fs::read_dir(site.path("store/spammers")).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0);
    }
    let wrong = [
        "--from", "store", "--list", "spammers", "--key", "RWx", "-o", "host.blf",
    ];
    let (code, said) = run(fetch, &wrong);
    assert_eq!(
        (code, said.as_str()),
        (
            Some(2),
            "blocklist-fetch: RWx: not a public key of minisign\n"
        )
    );

    let verify = ["-V", "-p", "publisher.pub", "-m", "store/spammers.json"];
    match Command::new("minisign").arg("-v").output() {
        Ok(_) => {
            let (code, said) = run("minisign", &verify);
            assert!(code == Some(0) && said.contains("list:spammers"), "{said}");
            // And a key that it has made.
            let (code, said) = run("minisign", &["-G", "-W", "-p", "d.pub", "-s", "d.key"]);
            assert_eq!(code, Some(0), "{said}");
            let words = [
                "--to",
                ".",
                "--list",
                "spammers",
                "--key",
                "d.key",
                "spammers.blf",
            ];
            let (code, said) = run(publish, &words);
            assert_eq!(code, Some(0), "{said}");
            let verify = ["-V", "-p", "d.pub", "-m", "spammers.json"];
            assert_eq!(run("minisign", &verify).0, Some(0));
        }
        Err(_) => eprintln!("minisign is not installed: its judgement is not tested"),
    }
}
