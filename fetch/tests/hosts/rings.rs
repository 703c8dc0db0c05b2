//! Rings: a bad list stops in the first one.

use std::fs;
use std::path::PathBuf;

use blocklist_fetch::{Fetch, Outcome, fetch, publish};

use crate::support::{Site, updated};

const HOSTS: usize = 1_000;

/// A thousand hosts, each with a filter and a memory of its own, fetch good lists and a bad one.
#[test]
fn a_bad_list_stops_in_the_first_ring() {
    // In memory where there is such a folder: a disk takes minutes to sync thousands of small files.
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
    // One in ten over HTTP, the others from the folder, which is faster.
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

    // A list that names who should not be in it.
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
    // The next one is without the error, and goes to all, from either by a delta.
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
