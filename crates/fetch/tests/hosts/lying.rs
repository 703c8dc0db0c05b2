//! An attacker's store: whatever it sends, the filter in place stays, and one line says why, and
//! soon.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use blocklist_compile::compile::{self, Progress};
use blocklist_fetch::manifest::{Delta, Full, Manifest};
use blocklist_fetch::{Error, Fetch, Outcome, fetch, publish};
use blocklist_filter::filter::{Digest, Filter, Load};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use twox_hash::XxHash3_64;

use crate::check::has_all;
use crate::support::{Answer, NOW, Server, Site, updated};

/// Three times the limit of a request in these tests, and some time for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Returns a host with the first generation, and a store with the second: with a delta, or without
/// one.
fn begun(with_delta: bool) -> (Site, Server, Fetch) {
    let site = Site::new();
    let (server, wanted) = site.over_http();
    site.release(0..4_000);
    fetch(&wanted).unwrap();
    site.build(2..4_000);
    let mut second = site.to_publish();
    second.keep = usize::from(with_delta);
    publish(&second, &site.signer).unwrap();
    (site, server, wanted)
}

fn refused_soon(site: &Site, wanted: &Fetch, words: &[&str]) -> Error {
    let began = Instant::now();
    let error = site.refused(wanted, words);
    assert!(began.elapsed() < SOON, "{:?}: {error}", began.elapsed());
    assert!(!error.to_string().contains(char::is_control), "{error}");
    error
}

/// Each kind of file: manifest, signature, filter.
const FILES: [&str; 3] = ["spammers.json", ".minisig", ".blf"];

#[test]
fn endless_truncated_and_repeated_files() {
    let (site, server, wanted) = begun(false);
    for file in FILES {
        server.lie_about(file, Answer::Endless);
        refused_soon(&site, &wanted, &[file, "longer than"]);
        server.lie_about(file, Answer::Truncated(100));
        refused_soon(&site, &wanted, &[file]);
        // A signature ends before the second copy begins.
        if file != ".minisig" {
            server.lie_about(file, Answer::Twice);
            refused_soon(&site, &wanted, &[file]);
        }
    }
    server.lie_about(".blf", Answer::Twice);
    refused_soon(
        &site,
        &wanted,
        &[".blf: longer than the ", " it should have"],
    );
    server.be_honest();
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 0));
}

#[test]
fn a_store_that_stalls() {
    let (site, server, wanted) = begun(false);
    for file in FILES {
        for stall in [Answer::Silence, Answer::Stalled(0), Answer::Stalled(50)] {
            server.lie_about(file, stall);
            refused_soon(&site, &wanted, &[file]);
        }
    }
}

/// Each byte is in time, but not all of them.
#[test]
fn a_store_that_sends_drop_by_drop() {
    let (site, server, wanted) = begun(false);
    for file in FILES {
        for of_head in [false, true] {
            server.lie_about(file, Answer::Drops { of_head });
            refused_soon(&site, &wanted, &[file]);
        }
    }
    server.lie_about(".json", Answer::Drops { of_head: false });
    refused_soon(
        &site,
        &wanted,
        &["spammers.json: not complete within 4 seconds"],
    );
}

#[test]
fn a_store_that_sends_elsewhere() {
    let (site, server, wanted) = begun(true);
    let elsewhere = Server::start(&site.path("store"));
    for place in [
        elsewhere.url.clone() + "/spammers.json",
        "http://lists.your.example/spammers.json".to_owned(),
        format!("file://{}", site.path("store/spammers.json").display()),
        "//127.0.0.2/spammers.json".to_owned(),
        "spammers.json".to_owned(),
        String::new(),
    ] {
        for file in ["spammers.json", ".minisig"] {
            server.lie_about(file, Answer::Redirect(place.clone()));
            let words = [file, "redirects to ", &place, ", which is not followed"];
            refused_soon(&site, &wanted, &words);
        }
    }
    assert!(elsewhere.log.lock().unwrap().is_empty(), "it was followed");
}

/// With much text, including control sequences for terminals.
#[test]
fn a_store_that_answers_with_errors() {
    let (site, server, wanted) = begun(false);
    for (status, words) in [
        ("401 Who", "asks for a user and a password"),
        ("403 No", "access denied"),
        ("404 Gone", ""),
        ("500 Broken", "500"),
        ("206 Part", ""),
        ("304 Same", ""),
    ] {
        for file in ["spammers.json", ".blf"] {
            for bytes in [0, 1_000, 1_000_000_000] {
                if status == "304 Same" && file == "spammers.json" {
                    continue; // Then there is nothing to do.
                }
                server.lie_about(file, Answer::Broken(status, bytes));
                refused_soon(&site, &wanted, &[file, words]);
            }
        }
    }
    for answer in [Answer::Headers, Answer::Garbage] {
        for file in FILES {
            server.lie_about(file, answer.clone());
            refused_soon(&site, &wanted, &[file]);
        }
    }
    server.lie_about(".json", Answer::Encoded);
    refused_soon(
        &site,
        &wanted,
        &["spammers.json: ", "Content-Encoding gzip"],
    );
}

/// A host whose filter is missing, or that has another name, does not ask whether the manifest has
/// changed.
#[test]
fn a_store_that_says_unasked_that_nothing_has_changed() {
    let (site, server, mut wanted) = begun(false);
    fetch(&wanted).unwrap();
    server.lie_about(".json", Answer::Broken("304 Same", 0));
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    wanted.host = "another".to_owned();
    let said = "spammers.json: the store answers that it is unchanged";
    site.refused(&wanted, &[said]);
    wanted.host = site.to_fetch().host;
    fs::remove_file(&wanted.output).unwrap();
    site.refused(&wanted, &[said]);
    server.be_honest();
    fetch(&wanted).unwrap();
    assert!(site.is_up_to_date());
}

/// A host remembers only a limited size, and the store chooses the tag.
#[test]
fn a_store_with_a_tag_that_is_too_long_to_remember() {
    let (site, server, wanted) = begun(false);
    server.lie_about(".json", Answer::Tagged(100_000));
    fetch(&wanted).unwrap();
    assert!(site.is_up_to_date());
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
    server.be_honest();
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
}

/// Damaged files, with the signature of another file or without one; swapped files.
#[test]
fn files_that_are_mixed() {
    let site = Site::new();
    let (server, wanted) = site.over_http();
    site.release(0..4_000);
    fetch(&wanted).unwrap();
    let read = |name: &str| fs::read(site.path("store").join(name)).unwrap();
    let (old, old_signature) = (read("spammers.json"), read("spammers.json.minisig"));
    let old_filter = fs::read(&wanted.output).unwrap();
    site.release(2..4_000);
    let mut changed = read("spammers.json");
    changed[20] ^= 1;
    for (file, bytes) in [
        ("spammers.json", changed),
        (".minisig", old_signature),
        (".minisig", b"untrusted comment: x\nRUQ".to_vec()),
        (".minisig", Vec::new()),
        ("spammers.json", b"{}".to_vec()),
        ("spammers.json", Vec::new()),
    ] {
        server.lie_about(file, Answer::Other(bytes));
        let error = refused_soon(
            &site,
            &wanted,
            &["spammers.json: not signed with the key RW"],
        );
        assert!(matches!(error, Error::Refused(_)));
    }
    // The filter of one generation under the name of the next, and a delta too.
    server.lie(move |path| match path.rsplit('.').next() {
        Some("blf" | "delta") => Answer::Other(old_filter.clone()),
        _ => Answer::Honest,
    });
    refused_soon(&site, &wanted, &[".blf: "]);

    // Rollback: the old manifest, whose signature the store still has.
    server.be_honest();
    fetch(&wanted).unwrap();
    server.lie_about("spammers.json", Answer::Other(old));
    let numbers = format!("manifest {NOW}, but this host has seen {}", NOW + 1);
    refused_soon(&site, &wanted, &[&numbers]);
    // Also after somebody has removed what the host remembers.
    fs::remove_file(site.path(".host.blf.fetch")).unwrap();
    refused_soon(
        &site,
        &wanted,
        &["the store has generation 1, but the present filter has 2"],
    );
    server.be_honest();
    assert_eq!(fetch(&wanted).unwrap(), Outcome::Unchanged);
}

/// A wrong delta does not prevent the host from getting the filter.
#[test]
fn deltas_that_are_wrong() {
    for answer in [
        Answer::Truncated(10),
        Answer::Endless,
        Answer::Twice,
        Answer::Other(b"a delta".to_vec()),
        Answer::Stalled(10),
        Answer::Broken("500 Broken", 10),
        Answer::Redirect("http://127.0.0.1/".to_owned()),
    ] {
        let (site, server, wanted) = begun(true);
        server.lie_about(".delta", answer);
        let began = Instant::now();
        let outcome = fetch(&wanted).unwrap();
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(updated(&outcome), (2, 0));
        let said = outcome.to_string();
        assert!(
            said.contains("no deltas: ") && said.lines().count() == 1,
            "{said}"
        );
        assert!(site.is_up_to_date());
        site.assert_clean();
    }
}

/// An interrupted download continues where it stopped.
#[test]
fn a_connection_that_breaks() {
    let (site, server, wanted) = begun(false);
    server.lie_about(".blf", Answer::Cut(5_000));
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 0));
    assert!(site.is_up_to_date());
    let log = server.log.lock().unwrap().join("\n");
    has_all(&log, &[".blf 200", ".blf 206"]);
}

/// What runs have read stays for the next, though each is killed by the link: in the end, each byte was read once.
#[test]
fn a_link_that_drops_again_and_again() {
    let (site, server, wanted) = begun(false);
    let whole = fs::metadata(site.path("spammers.blf")).unwrap().len();
    let part = || {
        let files = fs::read_dir(site.path("")).unwrap().flatten();
        let mut parts =
            files.filter(|file| file.file_name().to_string_lossy().ends_with(".partial"));
        parts.next().map(|part| part.metadata().unwrap().len())
    };
    let mut had = 0;
    for run in 1..4 {
        // The server sends so much of the rest, and then no more in this run.
        let begins = AtomicBool::new(true);
        server.lie(move |path| match path.ends_with(".blf") {
            true if begins.swap(false, Relaxed) => Answer::Dying(10_000),
            true => Answer::Broken("403 Gone", 0),
            false => Answer::Honest,
        });
        let error = site.refused(&wanted, &[".blf"]);
        let has = part().expect("a part");
        assert!(
            has > had && has < whole,
            "run {run}: {has} of {whole}: {error}"
        );
        had = has;
    }
    // The part of another filter is of no use.
    fs::write(site.path(".host.blf.0123456789abcdef.partial"), "x").unwrap();
    server.be_honest();
    let Outcome::Updated { bytes, .. } = fetch(&wanted).unwrap() else {
        panic!("an update");
    };
    assert_eq!(bytes, whole - had);
    assert!(site.is_up_to_date() && part().is_none());
    site.assert_clean();
}

/// Signs a wrong manifest: by a publisher with an error, or by an attacker with the key.
fn signed_wrongly(site: &Site, wrong: impl FnOnce(&mut Manifest)) {
    let bytes = fs::read(site.path("store/spammers.json")).unwrap();
    let mut manifest = Manifest::read(&bytes, "spammers").unwrap();
    manifest.number += 1;
    wrong(&mut manifest);
    site.put(&manifest);
}

fn delta(site: &Site, bytes: &[u8], manifest: &Manifest, old: &Full) -> Delta {
    let sha256 = Digest::of(bytes).to_string();
    fs::write(site.path(&format!("store/spammers/{sha256}.delta")), bytes).unwrap();
    Delta {
        old: old.identity.clone(),
        new: manifest.filter.identity.clone(),
        sha256,
        bytes: bytes.len() as u64,
    }
}

/// Returns the bytes with a correct checksum.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 8;
    let sum = XxHash3_64::oneshot(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns a delta with another header.
fn with_head(delta: &[u8], head: &[u8]) -> Vec<u8> {
    const LENGTH_AT: usize = 12;
    let length = u32::from_le_bytes(delta[LENGTH_AT..LENGTH_AT + 4].try_into().unwrap());
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(head).unwrap();
    let packed = packed.finish().unwrap();
    let mut bytes = delta[..LENGTH_AT].to_vec();
    bytes.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
    bytes.extend(packed);
    bytes.extend(&delta[LENGTH_AT + 4 + length as usize..]);
    sealed(bytes)
}

#[test]
fn signed_deltas_for_another_filter_and_such_that_grow() {
    let (site, _server, wanted) = begun(true);
    let old = Full::new(
        Filter::open(&wanted.output, Load::Disk).unwrap().header(),
        String::new(),
    );
    fs::copy(&wanted.output, site.path("kept.blf")).unwrap();
    let bytes = fs::read(site.path("store/spammers.json")).unwrap();
    let published = Manifest::read(&bytes, "spammers").unwrap();
    let name = format!("store/spammers/{}.delta", published.deltas[0].sha256);
    let good = fs::read(site.path(&name)).unwrap();
    // A delta for another base.
    let there = site.path("there.blf");
    fs::copy(site.path("spammers.blf"), &there).unwrap();
    site.build(500..4_000);
    let here = site.path("spammers.blf");
    compile::make_delta(&site.path("foreign"), [&there, &here], &Progress::new()).unwrap();
    let foreign = fs::read(site.path("foreign")).unwrap();
    // One whose header says that it has 10^15 added entries, and one whose header is a
    // decompression bomb.
    let mut head = Vec::new();
    ZlibDecoder::new(&good[16..])
        .read_to_end(&mut head)
        .unwrap();
    let end = head.len() - 8;
    head[end..].copy_from_slice(&10_u64.pow(15).to_le_bytes());
    let grows = with_head(&good, &head);
    let bomb = with_head(&good, &vec![0; 30_000_000]);
    assert!((bomb.len() as u64) < published.filter.bytes);
    for (bytes, words) in [
        (foreign, "this delta is for generation 2"),
        (grows, "truncated"),
        (bomb, "delta"),
        (b"not a delta".to_vec(), "not a delta"),
    ] {
        fs::copy(site.path("kept.blf"), &wanted.output).unwrap();
        signed_wrongly(&site, |manifest| {
            manifest.filter = published.filter.clone();
            manifest.deltas = vec![delta(&site, &bytes, manifest, &old)];
        });
        let began = Instant::now();
        let said = fetch(&wanted).unwrap().to_string();
        has_all(&said, &["no deltas: ", words]);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}

#[test]
fn signed_manifests_that_are_wrong() {
    let (site, _server, wanted) = begun(true);
    // Too long; and with the maximum number of deltas, which lead nowhere.
    let digest = |n: u64| format!("{n:064x}");
    let many = |count: u64| {
        (0..count).map(|n| Delta {
            old: digest(n),
            new: digest(n + 1),
            sha256: digest(n),
            bytes: 1,
        })
    };
    signed_wrongly(&site, |manifest| manifest.deltas = many(20_000).collect());
    refused_soon(
        &site,
        &wanted,
        &["spammers.json: longer than 1048576 bytes"],
    );
    site.release_anew();
    let deltas = many(3_900).collect::<Vec<_>>();
    signed_wrongly(&site, |manifest| manifest.deltas = deltas);
    let began = Instant::now();
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// A manifest with a filter of another list, with one that the daemon could not use, or with a date
/// in the future.
#[test]
fn signed_filters_that_a_host_cannot_use() {
    let (site, server, wanted) = begun(true);
    let fresh = fs::read(site.path("store/spammers.json")).unwrap();
    let restore = || {
        let signature = site.signer.sign(&fresh, "test").unwrap();
        let name = blocklist_fetch::manifest::signature_name("spammers", &fresh);
        fs::write(site.path("store").join(name), signature).unwrap();
        fs::write(site.path("store/spammers.json"), &fresh).unwrap();
        let _ = fs::remove_file(site.path(".host.blf.fetch"));
    };
    server.log.lock().unwrap().clear();
    signed_wrongly(&site, |manifest| manifest.filter.rules_version += 1);
    refused_soon(
        &site,
        &wanted,
        &[
            "generation 2 was compiled with address rules",
            "update blocklist-milter",
        ],
    );
    // Nothing was downloaded in vain.
    let log = server.log.lock().unwrap().join("\n");
    assert!(!log.contains(".blf") && !log.contains(".delta"), "{log}");
    restore();
    signed_wrongly(&site, |manifest| manifest.made = wanted.now + 50 * 3_600);
    refused_soon(&site, &wanted, &["made 50 hours in the future"]);
    // The host does not remember a number from it that would exclude later ones.
    restore();
    signed_wrongly(&site, |manifest| manifest.filter.bytes = u64::MAX);
    refused_soon(
        &site,
        &wanted,
        &["host.blf: needs 18446744073709551615 bytes", " free"],
    );
    restore();

    // A filter of another list under this name.
    let other = site.path("other");
    fs::create_dir(&other).unwrap();
    let mut manifest = Manifest::read(&fresh, "spammers").unwrap();
    let plan_name = other_filter(&site, &other);
    let filter = Filter::open(&plan_name, Load::Disk).unwrap();
    let sha256 = Digest::of(&fs::read(&plan_name).unwrap()).to_string();
    manifest.filter = Full::new(filter.header(), sha256.clone());
    manifest.filter.generation = 9;
    manifest.number += 5;
    manifest.deltas.clear();
    fs::copy(
        &plan_name,
        site.path(&format!("store/spammers/{sha256}.blf")),
    )
    .unwrap();
    site.put(&manifest);
    refused_soon(&site, &wanted, &["it is a filter of the list other"]);
    restore();
    assert_eq!(updated(&fetch(&wanted).unwrap()), (2, 1));
}

fn other_filter(site: &Site, folder: &Path) -> std::path::PathBuf {
    let list = folder.join("list.txt");
    fs::write(&list, "user@bad.example\n").unwrap();
    let mut plan = compile::Plan::new(folder.join("other.blf"), vec![list]);
    plan.name = "other".to_owned();
    plan.resources.threads = 1;
    compile::build(&plan, &Progress::new()).unwrap();
    let _ = site;
    folder.join("other.blf")
}
