//! Rings: a bad list stops in the first one.

use std::fs;
use std::path::PathBuf;

use blocklist_fetch::manifest::Manifest;
use blocklist_fetch::{Error, Fetch, Outcome, Publish, Published, fetch, promote, publish};

use crate::check::has as has_text;
use crate::support::{NOW, Site, new_key, updated};

const HOSTS: usize = 1_000;

/// A thousand hosts, each with a filter and a state file, fetch good lists and a bad one.
#[test]
fn a_bad_list_stops_in_the_first_ring() {
    // In memory if possible: a disk needs minutes to sync thousands of small files.
    let site = Site::in_folder(&["/dev/shm", "/tmp"]);
    let (server, over_http) = site.over_http();
    let mut wanted = site.to_publish();
    wanted.rings = vec![
        (
            "first".to_owned(),
            vec!["mx1".to_owned(), "test-*".to_owned()],
        ),
        ("second".to_owned(), vec!["*.eu.example".to_owned()]),
    ];
    let hosts: Vec<String> = (0..HOSTS)
        .map(|n| match n % 100 {
            1 => format!("test-{n}"),
            2..20 => format!("mx{n}.eu.example"),
            _ => format!("mx{n}"),
        })
        .collect();
    let output = |host: &str| -> PathBuf { site.path(&format!("hosts/{host}.blf")) };
    fs::create_dir(site.path("hosts")).unwrap();
    // One of ten over HTTP, the others from the folder, which is faster.
    let fetched = || -> Vec<Outcome> {
        let fetch = |(n, host): (usize, &String)| {
            let from = if n % 10 == 1 {
                &over_http
            } else {
                &site.to_fetch()
            };
            fetch(&Fetch {
                host: host.clone(),
                output: output(host),
                ..from.clone()
            })
        };
        hosts
            .iter()
            .enumerate()
            .map(|host| fetch(host).unwrap())
            .collect()
    };
    let have = |built: &str| -> Vec<&str> {
        let built = fs::read(site.path(built)).unwrap();
        let has = |host: &&String| fs::read(output(host)).unwrap() == built;
        hosts.iter().filter(has).map(String::as_str).collect()
    };

    site.build(0..50);
    publish(&wanted, &site.signer).unwrap();
    assert!(fetched().iter().all(|outcome| updated(outcome) == (1, 0)));
    assert_eq!(have("spammers.blf").len(), HOSTS);
    fs::copy(site.path("spammers.blf"), site.path("good.blf")).unwrap();

    // A list with entries that should not be in it.
    site.build(0..55);
    wanted.only = Some("first".to_owned());
    publish(&wanted, &site.signer).unwrap();
    let took = fetched();
    let took = took
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Updated { .. }));
    assert_eq!(took.count(), 10);
    let bad = have("spammers.blf");
    let outside = bad.iter().filter(|host| !host.starts_with("test-")).count();
    println!(
        "{HOSTS} hosts: {} of ring 1 took the bad list, {outside} others",
        bad.len()
    );
    assert_eq!((bad.len(), outside), (10, 0));
    assert_eq!(have("good.blf").len(), HOSTS - 10);
    // The next one is correct, and goes to all by a delta, from either version.
    site.build(0..51);
    wanted.only = None;
    publish(&wanted, &site.signer).unwrap();
    let took = fetched();
    let took = took
        .iter()
        .filter(|outcome| **outcome != Outcome::Unchanged);
    assert!(took.map(updated).all(|by| by.0 == 3));
    assert_eq!(have("spammers.blf").len(), HOSTS);
    drop(server);
}

fn to_promote(site: &Site, only: Option<&str>) -> Publish {
    Publish {
        only: only.map(str::to_owned),
        ..site.to_publish()
    }
}

fn promoted(site: &Site, ring: &str, only: Option<&str>) -> Result<Published, Error> {
    promote(&to_promote(site, only), ring, None, &site.signer)
}

/// Returns the generations of three hosts: in the first ring, in the second, and in none.
fn generations(site: &Site) -> [u64; 3] {
    ["test-1", "a.eu.example", "mx1"].map(|host| {
        let wanted = Fetch {
            host: host.to_owned(),
            output: site.path(&format!("{host}.blf")),
            ..site.to_fetch()
        };
        fetch(&wanted).unwrap();
        let filter = blocklist_filter::filter::Filter::verify(&wanted.output).unwrap();
        filter.spec.generation
    })
}

/// Returns a site whose first ring has the second generation, and all others the first.
fn two_rings() -> (Site, Publish) {
    let site = Site::new();
    let mut wanted = site.to_publish();
    wanted.rings = vec![
        ("first".to_owned(), vec!["test-*".to_owned()]),
        ("second".to_owned(), vec!["*.eu.example".to_owned()]),
    ];
    site.build(0..1_000);
    publish(&wanted, &site.signer).unwrap();
    site.build(0..1_001);
    wanted.only = Some("first".to_owned());
    publish(&wanted, &site.signer).unwrap();
    (site, wanted)
}

/// The next ring gets the filter of the first ring, not one that was built since.
#[test]
fn what_has_proved_good_in_a_ring_goes_to_the_next() {
    let (site, _) = two_rings();
    assert_eq!(generations(&site), [2, 1, 1]);
    let proved = fs::read(site.path("test-1.blf")).unwrap();
    site.build(0..1_002);

    promoted(&site, "first", Some("second")).unwrap();
    assert_eq!(generations(&site), [2, 2, 1]);
    let all = promoted(&site, "second", None).unwrap();
    assert_eq!(generations(&site), [2, 2, 2]);
    assert!(fs::read(site.path("mx1.blf")).unwrap() == proved);
    assert_eq!(
        all.to_string(),
        format!(
            "spammers: manifest {}, generation 2, ring first 2, ring second 2; 1 deltas",
            NOW + 3
        )
    );
    // Repeatedly: what stays is renewed, and no file is lost.
    for later in 1..4 {
        let mut again = to_promote(&site, Some("first"));
        again.now = NOW + later * 1_000;
        let renewed = promote(&again, "first", None, &site.signer)
            .unwrap()
            .manifest;
        assert_eq!(renewed.expires, again.now + again.valid_s);
        assert_eq!(renewed.filters().map(|full| full.generation).max(), Some(2));
    }
    let new_host = Fetch {
        output: site.path("new.blf"),
        ..site.to_fetch()
    };
    assert_eq!(updated(&fetch(&new_host).unwrap()), (2, 0));
}

/// With a soak time, each build goes from ring to ring by itself, and none is overtaken.
#[test]
fn each_ring_tries_a_build_for_some_time() {
    let (site, mut wanted) = two_rings();
    wanted.only = None;
    wanted.promote_after_s = Some(7_200);
    let at = |wanted: &Publish, minutes: u64| {
        let wanted = Publish {
            now: NOW + minutes * 60,
            ..wanted.clone()
        };
        let done = publish(&wanted, &site.signer).unwrap();
        let rings = done.manifest.rings.iter().map(|ring| &ring.filter);
        let has = rings.chain([&done.manifest.filter]);
        (has.map(|full| full.generation).collect::<Vec<_>>(), done)
    };
    // The third build waits for the second.
    site.build(0..1_002);
    let (has, done) = at(&wanted, 119);
    assert_eq!((has, done.waits), (vec![2, 1, 1], Some(3)));
    has_text(&done.to_string(), "; generation 3 waits");
    let names: Vec<_> = done.manifest.files().map(|(name, _)| name).collect();
    assert_eq!(
        names.len(),
        4,
        "three filters and a delta: nothing was uploaded"
    );
    let (has, done) = at(&wanted, 120);
    assert_eq!((has, done.waits), (vec![3, 2, 1], None));
    assert_eq!(generations(&site), [3, 2, 1]);
    // The second ring got the second build at 120 minutes.
    assert_eq!(at(&wanted, 239).0, [3, 2, 1]);
    assert_eq!(at(&wanted, 240).0, [3, 3, 2]);
    assert_eq!(generations(&site), [3, 3, 2]);
    // A ring with a problem passes nothing on, and gets the next build at once. Its time begins anew.
    site.build(0..1_003);
    let mut held = wanted.clone();
    held.only = Some("first".to_owned());
    held.promote_after_s = None;
    assert_eq!(at(&held, 400).0, [4, 3, 2]);
    assert_eq!(at(&wanted, 480).0, [4, 3, 3]);
    // A clock that has gone back passes nothing on.
    assert_eq!(at(&wanted, 0).0, [4, 3, 3]);
    assert_eq!(at(&wanted, 520).0, [4, 4, 3]);
    assert_eq!(at(&wanted, 640).0, [4, 4, 4]);
    assert_eq!(generations(&site), [4, 4, 4]);

    let empty = tempfile::tempdir().unwrap();
    wanted.to = empty.path().display().to_string();
    let error = publish(&wanted, &site.signer).unwrap_err().to_string();
    has_text(&error, "--promote-after: publish to all hosts first");
}

#[test]
fn what_cannot_be_promoted_changes_nothing() {
    let empty = Site::new();
    let said = |site: &Site, ring, only| {
        let error = promoted(site, ring, only).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        said(&empty, "first", None),
        "--promote first: nothing is published yet"
    );
    let (site, mut wanted) = two_rings();
    let before = fs::read(site.path("store/spammers.json")).unwrap();
    assert_eq!(
        said(&site, "frist", None),
        "--promote frist: no such ring; there are first, second"
    );
    assert!(said(&site, "first", Some("secnod")).starts_with("--only secnod: no such ring"));
    // The second ring has an older filter than the first.
    assert!(said(&site, "second", None).contains("hosts refuse older ones"));
    let stranger = new_key(site.folder.path(), "stranger.key");
    let error = promote(&to_promote(&site, None), "first", None, &stranger).unwrap_err();
    assert!(
        error.to_string().contains("not signed with this key"),
        "{error}"
    );
    assert!(fs::read(site.path("store/spammers.json")).unwrap() == before);

    // Publishing without the rings would give their hosts, and all others, a filter that nobody has tried.
    wanted.only = None;
    site.build(0..1_003);
    for left in [1, 0] {
        wanted.rings.truncate(left);
        let error = publish(&wanted, &site.signer).unwrap_err().to_string();
        has_text(
            &error,
            [
                "repeat its --ring first=...",
                "repeat its --ring second=...",
            ][left],
        );
    }
    assert!(fs::read(site.path("store/spammers.json")).unwrap() == before);
    wanted.all = true;
    publish(&wanted, &site.signer).unwrap();
    assert_eq!(
        said(&site, "first", None),
        "--promote first: there is no ring: publish with --ring"
    );
}

/// An attacker who can write to the store has put back an older manifest, in which the ring has
/// another filter.
#[test]
fn an_older_manifest_is_not_promoted_unseen() {
    let (site, wanted) = two_rings();
    let old = fs::read(site.path("store/spammers.json")).unwrap();
    site.build(0..1_005);
    publish(&wanted, &site.signer).unwrap();
    fs::write(site.path("store/spammers.json"), &old).unwrap();
    let now = to_promote(&site, None);
    let error = promote(&now, "first", Some(3), &site.signer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--generation 3: the ring first has generation 2"
    );
    // Later the manifest is not accepted at all, unless a person says so.
    let mut later = to_promote(&site, None);
    later.now = NOW + 49 * 3600;
    let error = promote(&later, "first", None, &site.signer).unwrap_err();
    let error = error.to_string();
    has_text(&error, "spammers.json: expired 1 hours ago");
    assert!(fs::read(site.path("store/spammers.json")).unwrap() == old);
    promote(&later, "first", Some(2), &site.signer).unwrap();
}

/// An announced key stays known to the hosts until it signs.
#[test]
fn promoting_keeps_the_key_that_was_announced() {
    let (site, mut wanted) = two_rings();
    let next = new_key(site.folder.path(), "next.key");
    wanted.next_key = Some(next.public.clone());
    publish(&wanted, &site.signer).unwrap();
    let promoted = promoted(&site, "first", None).unwrap();
    assert_eq!(promoted.manifest.next_key, Some(next.public.clone()));
    assert_eq!(generations(&site), [2, 2, 2]);

    let mut by_next = to_promote(&site, None);
    by_next.previous_key = Some(site.signer.public.clone());
    let promoted = promote(&by_next, "first", None, &next).unwrap();
    assert_eq!(promoted.manifest.next_key, None);
    assert_eq!(generations(&site), [2, 2, 2]);
    let bytes = fs::read(site.path("store/spammers.json")).unwrap();
    assert_eq!(
        Manifest::read(&bytes, "spammers").unwrap(),
        promoted.manifest
    );
}
