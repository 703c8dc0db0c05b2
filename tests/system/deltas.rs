//! Deltas that are damaged: OLD and a delta give NEW to the last byte, or nothing.
//! `tests/commands/deltas.toml` has what they cost, and what is refused; `system_calls.rs` kills
//! the commands.
#![allow(
    clippy::cast_possible_truncation,
    reason = "keys are cut to make up data"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use blocklist_compile::compile::{Applied, Error, Made, Plan, Progress, apply, make_delta};
use blocklist_filter::filter::{Key, Record};
use proptest::prelude::*;
use twox_hash::XxHash3_64;

use crate::support::check::Random;
use crate::support::compile::folder;
use crate::support::filters::{key, record, records, sorted, spec, write};
use crate::support::{Said, Scratch, has};

fn made(dir: &Scratch, delta: &str, old: &str, new: &str) -> Result<Made, Error> {
    let [delta, old, new] = [delta, old, new].map(|name| dir.at(name));
    make_delta(&delta, [&old, &new], &Progress::new())
}

fn applied(dir: &Scratch, out: &str, old: &str, deltas: &[&str]) -> Result<Applied, Error> {
    let deltas = deltas.iter().map(|name| dir.at(name)).collect();
    let mut plan = Plan::new(dir.at(out), deltas);
    plan.resources.threads = 2;
    apply(&plan, &dir.at(old), None, &Progress::new())
}

/// Makes a delta, applies it, and compares the result.
fn there(dir: &Scratch, old: &str, new: &str) {
    let made = made(dir, "there.delta", old, new).unwrap();
    assert_eq!(made.refused, None);
    let delta = fs::metadata(dir.at("there.delta")).unwrap();
    assert_eq!(made.bytes, delta.len());
    // Those who can read the filter can read the delta, and nobody else.
    assert_eq!(delta.permissions().mode() & 0o777, 0o640);
    let sum = Said::of(Command::new("sha256sum").arg(dir.at(new))).ok();
    has(&sum, &made.new_sha256);
    let applied = applied(dir, "made.blf", old, &["there.delta"]).unwrap();
    assert_eq!(applied.sha256, made.new_sha256);
    assert_eq!(applied.identity, made.new_identity);
    assert!(same(dir, "made.blf", new), "{made:?}");
}

fn same(dir: &Scratch, a: &str, b: &str) -> bool {
    dir.read(a) == dir.read(b)
}

/// The day on which filters of [`spec`] are built.
const BUILT: u16 = 20_717;

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
        let dir = folder(&[]);
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
        write(&dir.at("old.blf"), spec(1e-6, true), &old).unwrap();
        let mut after = spec(fpr, true);
        after.name = "afterwards".to_owned();
        after.generation += 1;
        after.sources[0].lines += 1;
        write(&dir.at("new.blf"), after, &new).unwrap();
        let made = made(&dir, "d", "old.blf", "new.blf").unwrap();
        if made.refused.is_none() {
            there(&dir, "old.blf", "new.blf");
        } else {
            // Hardly anything of the old filter is left.
            prop_assert!(made.bytes == 0 && !dir.at("d").exists());
        }
    }
}

/// Returns a delta to damage; writes the filter for which it is.
fn to_damage(dir: &Scratch) -> Vec<u8> {
    let mut list = records(3_000);
    write(&dir.at("old.blf"), spec(1e-6, true), &list).unwrap();
    list.retain(|record| record.key.0 % 101 != 0);
    for record in list.iter_mut().filter(|record| record.key.0 % 97 == 0) {
        record.added -= 1;
        record.source ^= 1;
    }
    list.extend((0..60).map(|i| record(key(7 << 50 | i))));
    let mut after = spec(1e-6, true);
    after.generation += 1;
    write(&dir.at("new.blf"), after, &sorted(list)).unwrap();
    there(dir, "old.blf", "new.blf");
    fs::read(dir.at("there.delta")).unwrap()
}

/// Returns the bytes with a correct checksum.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.len().saturating_sub(8);
    let sum = XxHash3_64::oneshot(&bytes[..end]).to_le_bytes();
    [&bytes[..end], &sum].concat()
}

/// Nothing is written and nothing panics. Returns the error; `None` if the delta still makes NEW.
fn refusal(dir: &Scratch, bytes: &[u8], what: &str) -> Option<String> {
    fs::write(dir.at("damaged.delta"), bytes).unwrap();
    let error = match applied(dir, "out.blf", "old.blf", &["damaged.delta"]) {
        Ok(_) => {
            assert!(same(dir, "out.blf", "new.blf"), "{what}");
            fs::remove_file(dir.at("out.blf")).unwrap();
            return None;
        }
        Err(error) => error.to_string(),
    };
    assert!(error.contains("damaged.delta: "), "{what}: {error}");
    assert!(!dir.at("out.blf").exists(), "{what}");
    assert!(!dir.at(".out.blf.writing").exists(), "{what}");
    Some(error)
}

fn refused(dir: &Scratch, bytes: &[u8], what: &str) -> String {
    refusal(dir, bytes, what).unwrap_or_else(|| panic!("{what}: taken"))
}

#[test]
fn every_truncation_is_refused() {
    let dir = folder(&[]);
    let delta = to_damage(&dir);
    let longer = [&delta[..], &[0; 9]].concat();
    for length in (0..delta.len()).chain([longer.len()]) {
        let bytes = &longer[..length];
        refused(&dir, bytes, &format!("{length} bytes"));
        refused(&dir, &sealed(bytes), &format!("{length} bytes, sealed"));
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let dir = folder(&[]);
    let delta = to_damage(&dir);
    let mut random = Random(0x5EED);
    let mut reasons = std::collections::BTreeMap::<String, u32>::new();
    for round in 0..10_000 {
        let bit = random.index(delta.len() * 8);
        let mut damaged = delta.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        refused(&dir, &damaged, &format!("bit {bit}"));
        // In one of ten, the checksum is made correct again. A bit of padding changes nothing.
        if round % 10 == 0 && bit / 8 < delta.len() - 8 {
            let what = format!("bit {bit}, sealed");
            let error = refusal(&dir, &sealed(&damaged), &what).unwrap_or_default();
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
fn an_interrupt_leaves_nothing() {
    let dir = folder(&[]);
    to_damage(&dir);
    let before = dir.names();
    let progress = Progress::new();
    progress.stop_flag().store(true, Relaxed);
    let [old, new, delta, out] =
        ["old.blf", "new.blf", "there.delta", "out"].map(|name| dir.at(name));
    let error = apply(&Plan::new(&out, vec![delta]), &old, None, &progress).unwrap_err();
    assert!(matches!(error, Error::Interrupted));
    let error = make_delta(&out, [&old, &new], &progress).unwrap_err();
    assert!(matches!(error, Error::Interrupted));
    assert_eq!(dir.names(), before);
}
