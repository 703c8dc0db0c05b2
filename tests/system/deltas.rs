//! Deltas: OLD and a delta give NEW to the last byte, or nothing.
#![allow(
    clippy::cast_possible_truncation,
    reason = "keys are cut to make up data"
)]

use std::fs;
use std::hash::Hasher;
use std::path::PathBuf;

use blocklist_milter::base::day::Day;
use blocklist_milter::compile::{
    self, Applied, Deltas, Error, Expected, Made, Progress, Seed, apply, make_delta, merge,
};
use blocklist_milter::filter::{Filter, Key, Record, Spec};
use proptest::prelude::*;
use twox_hash::XxHash3_64;

use crate::support::compile::{TODAY, addresses, build, command, plan};
use crate::support::filters::{Folder, key, record, records, sorted, spec, write};
use crate::support::kills::{When, at_each_call};
use crate::support::{Said, has, has_all, rows, words};

fn made(folder: &Folder, delta: &str, old: &str, new: &str) -> Result<Made, Error> {
    let [delta, old, new] = [delta, old, new].map(|name| folder.path(name));
    make_delta(&delta, [&old, &new], &Progress::new())
}

fn read(folder: &Folder, name: &str) -> Vec<u8> {
    fs::read(folder.path(name)).unwrap()
}

fn copy(folder: &Folder, from: &str, to: &str) {
    fs::copy(folder.path(from), folder.path(to)).unwrap();
}

/// Runs `blocklist-compile` with these words in the folder.
fn run(folder: &Folder, line: &str) -> Said {
    Said::of(command(&words(line)).current_dir(folder.0.path()))
}

fn applied(folder: &Folder, out: &str, old: &str, deltas: &[&str]) -> Result<Applied, Error> {
    let deltas: Vec<PathBuf> = deltas.iter().map(|name| folder.path(name)).collect();
    let mut deltas = Deltas::new(&folder.path(old), &deltas);
    deltas.threads = 2;
    apply(&folder.path(out), &deltas, &Progress::new())
}

/// Makes a delta, applies it, and compares the result.
fn there(folder: &Folder, old: &str, new: &str) -> Made {
    let made = made(folder, "there.delta", old, new).unwrap();
    assert_eq!(made.refused, None);
    assert_eq!(made.bytes, read(folder, "there.delta").len() as u64);
    let applied = applied(folder, "made.blf", old, &["there.delta"]).unwrap();
    assert_eq!(applied.sha256, made.new_sha256);
    assert_eq!(applied.identity, made.new_identity);
    assert!(same(folder, "made.blf", new), "{made:?}");
    made
}

fn same(folder: &Folder, a: &str, b: &str) -> bool {
    read(folder, a) == read(folder, b)
}

/// Compares OLD and the end of the chain; a refused result is not written.
#[test]
fn a_result_of_too_few_or_too_many_entries_is_not_written() {
    let folder = Folder::new();
    for (number, end) in [(0, 200), (1, 150), (2, 300)] {
        let mut spec = spec(1e-6, true);
        spec.generation = number + 1;
        write(&folder.path(&format!("{number}.blf")), spec, &records(end)).unwrap();
    }
    made(&folder, "0-1", "0.blf", "1.blf").unwrap();
    made(&folder, "1-2", "1.blf", "2.blf").unwrap();
    let apply = |words: &str| run(&folder, &format!("apply -q -o host.blf host.blf {words}"));
    copy(&folder, "0.blf", "host.blf");
    let said = apply("0-1 --max-shrink 24%").ends(1, &[]);
    assert_eq!(
        said,
        "host.blf: not written: host.blf: 150 entries, 200 before; this is more than --max-shrink 24% allows; \
         if it is intended, allow it once with --max-shrink 100%\n"
    );
    let too_many = apply("0-1 1-2 --max-shrink 0% --max-growth 49%");
    too_many.ends(1, &["more than --max-growth 49% allows"]);
    assert!(same(&folder, "host.blf", "0.blf"));
    // Between its ends a chain may go below the limit.
    let allowed = apply("0-1 1-2 --max-shrink 0% --max-growth 50%").ends(0, &[]);
    assert_eq!(allowed, "");
    assert!(same(&folder, "host.blf", "2.blf"));
}

/// The day on which filters of [`spec`] are built.
const BUILT: u16 = 20_717;

/// Returns a filter with some entries of `all`, and some others.
fn generation(number: u64, all: &[Record], own: u64) -> (Spec, Vec<Record>) {
    let some = (0..).zip(all).filter(|(i, _)| i % 50 != number);
    let mut list: Vec<_> = some.map(|(_, record)| *record).collect();
    list.extend((0..own).map(|i| record(key((number << 40) + i))));
    let mut spec = spec(1e-6, true);
    spec.generation = number;
    (spec, sorted(list))
}

/// Writes this many generations, `1.blf` and so on, and the deltas between them: `a`, `b`, `c`.
fn generations(folder: &Folder, count: u64) {
    let all = records(3_000);
    for number in 1..=count {
        let (spec, list) = generation(number, &all, 30);
        write(&folder.path(&format!("{number}.blf")), spec, &list).unwrap();
    }
    for (old, delta) in (1..count).zip(["a", "b", "c"]) {
        let (old, new) = (format!("{old}.blf"), format!("{}.blf", old + 1));
        let made = made(folder, delta, &old, &new).unwrap();
        assert_eq!((made.refused, made.added, made.removed), (None, 90, 90));
    }
}

#[test]
fn a_chain_of_deltas_makes_the_last_filter() {
    let folder = Folder::new();
    generations(&folder, 4);
    // Those who can read the filter can read the delta, and nobody else.
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(folder.path("a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let last = applied(&folder, "made.blf", "1.blf", &["a", "b", "c"]).unwrap();
    assert_eq!((last.generation, last.deltas), (4, 3));
    assert!(same(&folder, "made.blf", "4.blf"));
    // In place.
    copy(&folder, "1.blf", "here.blf");
    applied(&folder, "here.blf", "here.blf", &["a"]).unwrap();
    assert!(same(&folder, "here.blf", "2.blf"));
    applied(&folder, "here.blf", "here.blf", &["b", "c"]).unwrap();
    assert!(same(&folder, "here.blf", "4.blf"));
    // Backwards too.
    there(&folder, "4.blf", "1.blf");
}

#[test]
fn a_delta_for_another_filter_is_refused_by_name() {
    let folder = Folder::new();
    generations(&folder, 4);
    copy(&folder, "1.blf", "made.blf");
    let names = folder.names();
    for [old, deltas, first, second] in rows(
        "
        1.blf | b     | b: this delta is for generation 2 ( | 1.blf is generation 1 (
        1.blf | a c   | c: this delta is for generation 3 ( | a makes generation 2 (
        2.blf | a     | a:                                  | 2.blf already is generation 2 (
        1.blf | a a   | a:                                  | already is generation 2 (
        3.blf | 1.blf | 1.blf:                              | not a delta
        a     | a     | a:                                  | not a filter file
        ",
    ) {
        let error = applied(&folder, "made.blf", old, &words(deltas)).unwrap_err();
        has_all(&error.to_string(), &[first, second]);
        assert!(same(&folder, "made.blf", "1.blf"));
    }
    assert_eq!(folder.names(), names);
}

#[test]
fn what_is_not_worth_a_delta_is_sent_whole() {
    let folder = Folder::new();
    let all = records(3_000);
    write(&folder.path("old.blf"), spec(1e-6, true), &all).unwrap();
    let others = sorted((0..20_000).map(|i| record(key(1 << 50 | i))).collect());
    write(&folder.path("others.blf"), spec(1e-6, true), &others).unwrap();
    let mut seed = spec(1e-6, true);
    seed.seed += 1;
    write(&folder.path("seed.blf"), seed, &all).unwrap();
    for (new, why) in [
        ("others.blf", "only 0 of 20,000 entries in "),
        ("seed.blf", "another hash seed"),
    ] {
        let made = made(&folder, "out.delta", "old.blf", new).unwrap();
        has(made.refused.as_ref().unwrap(), why);
        has(&made.to_string(), "not written");
    }
    write(&folder.path("none.blf"), spec(1e-6, false), &all).unwrap();
    let error = made(&folder, "out.delta", "none.blf", "old.blf").unwrap_err();
    has(&error.to_string(), "no records");
    // A filter that was named by mistake is not replaced either.
    let error = made(&folder, "others.blf", "old.blf", "others.blf").unwrap_err();
    assert!(matches!(error, Error::NotReplaced { .. }));
    assert_eq!(
        folder.names(),
        ["none.blf", "old.blf", "others.blf", "seed.blf"]
    );
}

#[test]
fn entries_that_expire_cost_nothing() {
    let folder = Folder::new();
    let mut all = records(3_000);
    for (i, record) in all.iter_mut().enumerate() {
        record.expires = match i % 10 {
            0 => Some(BUILT),
            1 => Some(BUILT - 3),
            2 => Some(BUILT + 1),
            _ => None,
        };
    }
    let mut before = spec(1e-6, true);
    before.built -= 5 * 86_400;
    write(&folder.path("old.blf"), before, &all).unwrap();
    let lasting = |record: &Record| record.expires.is_none_or(|day| day > BUILT);
    let left: Vec<_> = all.iter().copied().filter(lasting).collect();
    write(&folder.path("new.blf"), spec(1e-6, true), &left).unwrap();
    let made = there(&folder, "old.blf", "new.blf");
    assert_eq!((made.added, made.removed, made.changed), (0, 0, 0));
    assert!(made.bytes < 400, "{}", made.bytes);

    // An entry that is listed again after it expired counts as added.
    let mut again = left;
    let ended = all
        .iter()
        .copied()
        .filter(|record| !lasting(record))
        .take(5);
    again.extend(ended.map(|mut record| {
        record.expires = None;
        record
    }));
    write(&folder.path("again.blf"), spec(1e-6, true), &sorted(again)).unwrap();
    assert_eq!(there(&folder, "old.blf", "again.blf").added, 5);
}

/// Each build gives its date to all entries, and numbers its lists by name.
#[test]
fn a_rebuild_of_tomorrow_costs_nothing_but_its_changes() {
    let folder = Folder::new();
    let dir = folder.0.path();
    fs::create_dir(dir.join("lists")).unwrap();
    let write_list =
        |name: &str, text: &str| fs::write(dir.join("lists").join(name), text).unwrap();
    write_list("b.txt", &addresses(0..4_000));
    write_list("c.txt", &addresses(5_000..6_000));
    let mut today = plan(dir, "today.blf", &["lists"]);
    today.expires = Some(Day(TODAY.0 + 30));
    build(&today);
    write_list("a.txt", &addresses(7_000..7_004));
    write_list("b.txt", &addresses(2..4_000));
    let mut tomorrow = plan(dir, "tomorrow.blf", &["lists"]);
    tomorrow.built += 86_400;
    tomorrow.expires = Some(Day(TODAY.0 + 31));
    tomorrow.seed = Seed::Of(dir.join("today.blf"));
    build(&tomorrow);
    let made = there(&folder, "today.blf", "tomorrow.blf");
    assert_eq!((made.added, made.removed, made.changed), (4, 2, 0));
    assert!(made.bytes < 600, "{}", made.bytes);

    // Also from a filter that was updated and merged.
    let mut both = plan(dir, "both.blf", &["today.blf", "tomorrow.blf"]);
    both.built = tomorrow.built;
    merge(&both, Some(1e-4), &Expected::default(), &Progress::new()).unwrap();
    there(&folder, "tomorrow.blf", "both.blf");
    there(&folder, "both.blf", "today.blf");
}

#[test]
fn one_in_a_thousand_takes_a_thousandth() {
    let folder = Folder::new();
    let count = 200_000;
    let changed = count / 1_000;
    let one = |i| Record {
        key: Key(key(i).0),
        kind: 0,
        source: 1,
        added: 20_000,
        expires: None,
    };
    let mut mailboxes = spec(1e-6, true);
    mailboxes.kinds = 1;
    let list = |range: std::ops::Range<u64>| sorted(range.map(one).collect());
    write(&folder.path("old.blf"), mailboxes.clone(), &list(0..count)).unwrap();
    let moved = list(changed..count + changed);
    write(&folder.path("new.blf"), mailboxes, &moved).unwrap();
    let made = there(&folder, "old.blf", "new.blf");
    assert_eq!((made.added, made.removed), (changed, changed));
    // 64 - log2(200) + 1.5 bits for an added entry, log2(1000) + 1.5 for a removed one; the rest is
    // the header.
    let bits = (64.0 - (changed as f64).log2() + 1.6 + 10.0 + 1.6) * changed as f64;
    assert!(made.bytes as f64 <= bits / 8.0 + 450.0, "{}", made.bytes);
    assert!((made.bytes as f64) < 0.00125 * made.new_bytes as f64);
}

/// Generates keys that no hash gives, and every mix of classes.
fn any_record() -> impl Strategy<Value = Record> {
    let key = prop_oneof![
        8 => any::<u64>(),
        1 => 0_u64..20,
        1 => (0_u64..20).prop_map(|n| u64::MAX - n),
    ];
    let expires = prop::option::of(BUILT - 2..BUILT + 3);
    (key, 0_u8..4, 0_u32..2, 20_000_u16..20_004, expires).prop_map(
        |(key, kind, source, added, expires)| Record {
            key: Key(key),
            kind,
            source,
            added,
            expires,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_made_is_new_to_the_last_byte(
        common in prop::collection::vec((any_record(), 0_u8..8, any_record()), 0..400),
        removed in prop::collection::vec(any_record(), 0..40),
        added in prop::collection::vec(any_record(), 0..40),
        fpr in prop_oneof![Just(1e-6), Just(1e-2)],
    ) {
        let folder = Folder::new();
        let mut old: Vec<_> = common.iter().map(|(record, ..)| *record).collect();
        let mut new: Vec<_> = common
            .iter()
            .map(|(record, dice, class)| match dice {
                0 => Record { key: record.key, ..*class },
                1 => Record { expires: None, ..*record },
                _ => *record,
            })
            .collect();
        old.extend(removed);
        new.extend(added);
        let (old, new) = (sorted(old), sorted(new));
        write(&folder.path("old.blf"), spec(1e-6, true), &old).unwrap();
        let mut after = spec(fpr, true);
        after.name = "afterwards".to_owned();
        after.generation += 1;
        after.sources[0].lines += 1;
        write(&folder.path("new.blf"), after, &new).unwrap();
        let made = made(&folder, "d", "old.blf", "new.blf").unwrap();
        if made.refused.is_none() {
            there(&folder, "old.blf", "new.blf");
        } else {
            // Hardly anything of the old filter is left.
            prop_assert!(made.bytes == 0 && !folder.path("d").exists());
        }
    }
}

/// Returns a delta to damage; writes the filter for which it is.
fn to_damage(folder: &Folder) -> Vec<u8> {
    let all = records(3_000);
    let (old, mut list) = generation(1, &all, 40);
    write(&folder.path("old.blf"), old, &list).unwrap();
    list.retain(|record| record.key.0 % 101 != 0);
    for record in list.iter_mut().filter(|record| record.key.0 % 97 == 0) {
        record.added -= 1;
        record.source ^= 1;
    }
    list.extend((0..60).map(|i| record(key(7 << 50 | i))));
    let (new, _) = generation(2, &all, 0);
    write(&folder.path("new.blf"), new, &sorted(list)).unwrap();
    there(folder, "old.blf", "new.blf");
    fs::read(folder.path("there.delta")).unwrap()
}

/// Returns the bytes with a correct checksum.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(end) = bytes.len().checked_sub(8) {
        let mut sum = XxHash3_64::new();
        sum.write(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.finish().to_le_bytes());
    }
    bytes
}

/// Nothing is written and nothing panics. Returns the error; `None` if the delta still makes NEW.
fn refusal(folder: &Folder, bytes: &[u8], what: &str) -> Option<String> {
    fs::write(folder.path("damaged.delta"), bytes).unwrap();
    let error = match applied(folder, "out.blf", "old.blf", &["damaged.delta"]) {
        Ok(_) => {
            assert!(same(folder, "out.blf", "new.blf"), "{what}");
            fs::remove_file(folder.path("out.blf")).unwrap();
            return None;
        }
        Err(error) => error.to_string(),
    };
    assert!(error.contains("damaged.delta: "), "{what}: {error}");
    assert!(!folder.path("out.blf").exists(), "{what}");
    assert!(!folder.path(".out.blf.writing").exists(), "{what}");
    Some(error)
}

fn refused(folder: &Folder, bytes: &[u8], what: &str) -> String {
    refusal(folder, bytes, what).unwrap_or_else(|| panic!("{what}: taken"))
}

#[test]
fn every_truncation_is_refused() {
    let folder = Folder::new();
    let delta = to_damage(&folder);
    let longer = [&delta[..], &[0; 9]].concat();
    for length in (0..delta.len()).chain([longer.len()]) {
        let bytes = &longer[..length];
        refused(&folder, bytes, &format!("{length} bytes"));
        refused(&folder, &sealed(bytes), &format!("{length} bytes, sealed"));
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let folder = Folder::new();
    let delta = to_damage(&folder);
    let mut random = 0x5eed_u64;
    let mut reasons = std::collections::BTreeMap::<String, u32>::new();
    for round in 0..10_000 {
        random = XxHash3_64::oneshot(&random.to_le_bytes());
        let bit = (random % (delta.len() as u64 * 8)) as usize;
        let mut damaged = delta.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        refused(&folder, &damaged, &format!("bit {bit}"));
        // In one of ten, the checksum is made correct again. A bit of padding changes nothing.
        if round % 10 == 0 && bit / 8 < delta.len() - 8 {
            let what = format!("bit {bit}, sealed");
            let error = refusal(&folder, &sealed(&damaged), &what).unwrap_or_default();
            let reason = error.rsplit("damaged.delta: ").next().unwrap();
            let reason = reason.chars().take(40).collect();
            *reasons.entry(reason).or_default() += 1;
        }
    }
    println!("{reasons:#?}");
    let taken = reasons.remove("").unwrap_or(0);
    assert!(taken < 30, "{taken}");
    // The reasons must differ.
    assert!(reasons.len() > 4, "{reasons:#?}");
}

#[test]
fn the_command_tells_what_it_did() {
    let folder = Folder::new();
    generations(&folder, 2);
    let json = run(&folder, "delta -q --json -o d 1.blf 2.blf").json();
    assert_eq!((&json["added"], &json["removed"]), (&90.into(), &90.into()));
    let sum = Said::of(std::process::Command::new("sha256sum").arg(folder.path("2.blf")));
    has(&sum.ok(), json["new_sha256"].as_str().unwrap());
    run(&folder, "apply -o 2.blf 1.blf d").ends(0, &["2.blf: generation 2, "]);
    Filter::verify(&folder.path("2.blf")).unwrap();
    run(&folder, "apply -o 2.blf 2.blf d").ends(2, &["blocklist-compile: d: "]);
    run(&folder, "apply --overwrite -o d 1.blf d").ends(2, &["d: is also an input"]);
    let quiet = run(&folder, "apply --overwrite -q -o e 1.blf d");
    assert_eq!(quiet.ends(0, &[]), "");
}

#[test]
fn an_interrupt_leaves_nothing() {
    let folder = Folder::new();
    generations(&folder, 2);
    let progress = Progress::new();
    progress
        .stop_flag()
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let deltas = Deltas::new(&folder.path("1.blf"), &[folder.path("a")]);
    let error = apply(&folder.path("out.blf"), &deltas, &progress).unwrap_err();
    assert!(matches!(error, compile::Error::Interrupted));
    let [old, new, out] = ["1.blf", "2.blf", "out"].map(|name| folder.path(name));
    let error = make_delta(&out, [&old, &new], &progress).unwrap_err();
    assert!(matches!(error, compile::Error::Interrupted));
    assert_eq!(folder.names(), ["1.blf", "2.blf", "a"]);
}

/// If `apply` is killed at any system call that changes a file, it leaves the old filter or the new
/// one, complete, and the next run finishes.
#[test]
fn a_kill_at_any_system_call_leaves_a_whole_filter() {
    let folder = Folder::new();
    generations(&folder, 2);
    copy(&folder, "1.blf", "here");
    killed(&folder, "apply -q -o here here a", ["1.blf", "2.blf"]);
}

/// Kills a command that replaces the file `here`, an old one by a new one.
fn killed(folder: &Folder, command: &str, [old, new]: [&str; 2]) {
    copy(folder, old, "here");
    let names = folder.names();
    let kills = at_each_call(
        folder.0.path(),
        &words(command),
        || copy(folder, old, "here"),
        |when| {
            let is_old = same(folder, "here", old);
            assert!(is_old || same(folder, "here", new));
            assert!(when == When::Killed || folder.names() == names);
            is_old
        },
    );
    let enough = kills.is_none_or(|kills| kills.killed > 10 && kills.kept > 5);
    assert!(enough, "{kills:?}");
}

/// `delta` leaves the old delta or the new one.
#[test]
fn a_kill_at_any_system_call_leaves_a_whole_delta() {
    let folder = Folder::new();
    generations(&folder, 3);
    killed(&folder, "delta -q -o here 2.blf 3.blf", ["a", "b"]);
}
