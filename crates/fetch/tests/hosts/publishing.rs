//! The store after a publisher ends in any way, and with several publishers.

use std::fs;
use std::process::Command;

use blocklist_fetch::store::{Access, Got, Store};
use blocklist_fetch::{Publish, publish};

use crate::check::has;
use crate::support::{NOW, Site};

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

/// The publisher warns when hosts would soon treat the next manifest as expired.
#[test]
fn a_publisher_whose_clock_has_gone_back_says_so() {
    let site = Site::new();
    site.build(0..1_000);
    let first = site.to_publish();
    publish(&first, &site.signer).unwrap();
    let at = |now: u64| {
        publish(
            &Publish {
                now,
                ..site.to_publish()
            },
            &site.signer,
        )
        .unwrap()
    };
    assert_eq!(at(first.now - 299).warnings, [""; 0]);
    let warnings = at(first.now - 7_499).warnings;
    assert!(
        matches!(&warnings[..], [one] if one.contains("is 2.0 hours behind")),
        "{warnings:?}"
    );
}

/// Filters and keys are never sent over a network in clear text, and passwords are not shown.
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
    const S3: &str = "s3://bucket/mail";
    const GOOGLE: &str = "gs://bucket/mail";
    const AZURE: &str = "az://container/mail";
    for (place, variable, endpoint) in [
        (S3, "AWS_ENDPOINT_URL", "http://192.0.2.1"),
        (S3, "AWS_ENDPOINT_URL_S3", "http://192.0.2.1:9000"),
        (S3, "AWS_ENDPOINT_URL_STS", "http://192.0.2.1"),
        (S3, "AWS_ENDPOINT_URL", "https://user:hidden@192.0.2.1"),
        (S3, "AWS_ENDPOINT_URL", "192.0.2.1:9000"),
        (GOOGLE, "GOOGLE_BASE_URL", "http://192.0.2.1"),
        (AZURE, "AZURE_STORAGE_ENDPOINT", "http://192.0.2.1"),
        (AZURE, "AZURE_STORAGE_AUTHORITY_HOST", "http://192.0.2.1"),
        (AZURE, "AZURITE_BLOB_STORAGE_URL", "http://192.0.2.1:10000"),
    ] {
        let words = ["--from", place, "--list", "spammers", "--key"];
        let done = Command::new(env!("CARGO_BIN_EXE_blocklist-fetch"))
            .args(words)
            .args([&site.signer.public, "-o", "host.blf"])
            .current_dir(site.folder.path())
            .env("AWS_ALLOW_HTTP", "true")
            .env(variable, endpoint)
            .output()
            .unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        has(&said, &format!("{variable}: must be https"));
        assert!(!said.contains("hidden"), "{said}");
        assert_eq!(done.status.code(), Some(2));
    }
    // A key that names another server is detected when it is used.
    let key = r#"{"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": true,
        "gcs_base_url": "http://192.0.2.1"}"#;
    let done = Command::new(env!("CARGO_BIN_EXE_blocklist-fetch"))
        .args(["--from", GOOGLE, "--list", "spammers", "--key"])
        .args([&site.signer.public, "-o", "host.blf"])
        .current_dir(site.folder.path())
        .env("GOOGLE_SERVICE_ACCOUNT_KEY", key)
        .output()
        .unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    has(&said, "not over http: use https");
}

/// After a publisher dies at any point, hosts and the next publisher continue.
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
    // A file that was in the store before is not accepted as complete because of its size.
    site.build(0..1_002);
    let sha256 =
        blocklist_filter::filter::Digest::of(&fs::read(site.path("spammers.blf")).unwrap());
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
    let store = Store::open(&site.to_publish().to, &Access::default()).unwrap();
    let error = store.upload("x.blf", &site.path("spammers.blf"), &"0".repeat(64));
    let error = error.unwrap_err().to_string();
    has(&error, "was replaced during");
    assert_eq!(fs::read_dir(site.path("store")).unwrap().count(), 0);
    // Two publishers do not work on one filter.
    let held = site.path(".spammers.blf.publish-lock");
    let lock = blocklist_filter::base::replacement::Replacement::claim(&held).unwrap();
    let error = publish(&site.to_publish(), &site.signer).unwrap_err();
    assert!(error.to_string().contains("another blocklist-publish"));
    drop(lock);
    site.publish();
}

/// Two machines publish at the same time: the later one does not undo the first one's work.
#[test]
fn of_two_publishers_one_is_told_to_do_it_again() {
    let site = Site::new();
    site.release(0..1_000);
    let store = Store::open(&site.to_publish().to, &Access::default()).unwrap();
    let Got::File(seen) = store.read("spammers.json", 1 << 20, None).unwrap() else {
        panic!("it is there");
    };
    site.release(0..1_001);
    let kept = fs::read(site.path("store/spammers.json")).unwrap();
    for seen in [Some(&seen), None] {
        let error = store.replace("spammers.json", seen, b"{}").unwrap_err();
        assert!(
            error.to_string().contains("another publisher was faster"),
            "{error}"
        );
    }
    assert!(fs::read(site.path("store/spammers.json")).unwrap() == kept);
    // In a folder the second does not even begin.
    let held = site.path("store/.spammers.publish-lock");
    let lock = blocklist_filter::base::replacement::Replacement::claim(&held).unwrap();
    let error = publish(&site.to_publish(), &site.signer)
        .unwrap_err()
        .to_string();
    has(
        &error,
        "store/spammers: another blocklist-publish is running",
    );
    drop(lock);
    site.publish();
}

/// Files that another publisher has just written are kept; those left by a killed one are removed.
#[test]
fn only_old_files_are_removed_from_a_store() {
    let site = Site::new();
    let store = site.path("store");
    let named = |of: &str, ending: &str| {
        let digest = blocklist_filter::filter::Digest::of(of.as_bytes());
        store.join(format!("spammers/{digest}.{ending}"))
    };
    let old = named("old", "blf");
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    fs::write(&old, "old").unwrap();
    // The folder of the list may contain files from which it is built.
    let of_a_person = [
        "spammers/own.txt",
        "spammers/own.blf",
        "spammers/#own.txt#",
        "own#2",
    ];
    for name in of_a_person {
        fs::write(store.join(name), "by hand").unwrap();
    }
    site.release(0..1_000);
    let halves = [
        named("half", "blf#1"),
        named("half", "delta#12"),
        store.join("spammers.json#2"),
        store.join("spammers.json.minisig#3"),
    ];
    let new = named("new", "blf");
    for file in halves.iter().chain([&new]) {
        fs::write(file, "x").unwrap();
    }
    let others = store.join("spammers-2.json#1");
    fs::write(&others, "of another list").unwrap();
    site.release(0..1_001);
    let there = [&old, &new, &others].map(|file| file.exists());
    assert_eq!(there, [false, true, true]);
    assert!(!halves.iter().any(|file| file.exists()));
    site.release(0..1_002);
    assert!(!new.exists());
    assert!(of_a_person.iter().all(|name| store.join(name).exists()));
}
