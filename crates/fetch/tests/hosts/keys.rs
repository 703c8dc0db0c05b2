//! Which signatures a host accepts, from one key to the next.

use std::fs;
use std::process::Command;

use blocklist_fetch::{Outcome, fetch, publish};

use crate::check::has;
use crate::support::{NOW, Site, new_key, updated};

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

    // Somebody with another key can neither publish nor is accepted.
    let error = publish(&site.to_publish(), &stranger)
        .unwrap_err()
        .to_string();
    has(&error, "--previous-key");
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
    // From now on hosts do not accept the old key.
    change.previous_key = Some(next.public.clone());
    publish(&change, &site.signer).unwrap();
    site.refused(&site.to_fetch(), &["not signed with the key", &next.public]);
    // Unless a person removes what the host remembers.
    fs::remove_file(site.path(".host.blf.fetch")).unwrap();
    assert_eq!(site.fetch().unwrap(), Outcome::Unchanged);
}

#[test]
fn the_next_key_of_a_manifest_is_not_a_path() {
    let site = Site::new();
    new_key(site.folder.path(), "next.key");
    let mut manifest = site.release(0..1_000).manifest;
    manifest.next_key = Some(site.path("next.pub").display().to_string());
    site.put(&manifest);
    site.refused(&site.to_fetch(), &["not a public key"]);
}

/// Another `--key` makes a host accept another publisher, but it remembers what it has seen.
#[test]
fn a_host_that_is_given_another_key_still_refuses_what_is_older() {
    let site = Site::new();
    let old = new_key(site.folder.path(), "old.key");
    site.build(0..1_000);
    publish(&site.to_publish(), &old).unwrap();
    let early = fs::read(site.path("store/spammers.json")).unwrap();
    let mut wanted = site.to_fetch();
    wanted.key.clone_from(&old.public);
    fetch(&wanted).unwrap();
    let mut change = site.to_publish();
    change.previous_key = Some(old.public.clone());
    publish(&change, &site.signer).unwrap();
    // The signer is compared, not the file.
    site.refused(&wanted, &["not signed with the key", &old.public]);
    wanted.key.clone_from(&site.signer.public);
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    // Back to the old key, with a manifest that it signed before.
    fs::write(site.path("store/spammers.json"), early).unwrap();
    site.refused(&wanted, &["not signed with the key"]);
    wanted.key.clone_from(&old.public);
    let numbers = format!("manifest {NOW}, but this host has seen {}", NOW + 1);
    site.refused(&wanted, &[&numbers]);
}

/// An unchanged manifest is not accepted without a check with the new key.
#[test]
fn an_unchanged_manifest_is_checked_with_a_new_key() {
    let site = Site::new();
    let stranger = new_key(site.folder.path(), "stranger.key");
    let (_server, mut wanted) = site.over_http();
    site.release(0..1_000);
    fetch(&wanted).unwrap();
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    wanted.key.clone_from(&stranger.public);
    site.refused(&wanted, &["not signed with the key", &stranger.public]);
    wanted.key.clone_from(&site.signer.public);
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
}
