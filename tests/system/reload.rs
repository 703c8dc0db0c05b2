//! Filters, whitelist and configuration change while mail is served. `tests/commands/stays-out.toml`
//! and others there have the doubtful files that do not take effect.

use std::fs;
use std::sync::{Arc, Weak};
use std::time::Instant;

use blocklist_filter::base::replacement::Replacement;
use blocklist_filter::filter::{EncodedPage, Filter, Load, Spec, Writer, sizing};
use blocklist_filter::lookup::Lookup;
use blocklist_milter::daemon::Readers;
use blocklist_milter::milter::{Client, Handler, Macros, Mailbox, Reply};
use blocklist_milter::screen::Screen;
use blocklist_milter::snapshot::{Live, Snapshot, Start};
use tracing::level_filters::LevelFilter;
use twox_hash::XxHash3_64;

use crate::filter_damage::made;
use crate::support::rig::Rig;
use crate::support::{compiler, has, until_so};

const CONFIG: &str =
    "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[whitelist]\nfiles = ['white.txt']\n";

fn rig() -> Rig {
    configured("first@bad.example\n", CONFIG)
}

/// Returns a rig with this list `spam`, and this configuration.
fn configured(list: &str, config: &str) -> Rig {
    Rig::new(&[("spam.list", list), ("white.txt", "# nobody\n")], config)
}

/// Returns a session inside a message of an innocent sender.
fn inside_message(rig: &Rig) -> Screen {
    let mut screen = Screen::with_observer(Arc::clone(&rig.live), ());
    begin_message(&mut screen);
    screen
}

fn begin_message(screen: &mut Screen) {
    screen.connect(&Client::default(), &Macros::default());
    screen.mail(Mailbox::Written(b"<a@ok.example>"), &Macros::default());
    let reply = screen.rcpt(Mailbox::Written(b"<bob@our.example>"), &Macros::default());
    assert!(!reply.is_refusal());
}

/// Returns the filter of the first list.
fn filter_of(snapshot: &Snapshot) -> Arc<Filter> {
    let list = &snapshot.policy.lists()[0];
    Arc::clone(list.filter().expect("an open filter"))
}

/// Checks that a reload is refused with this reason, and that the first list is still in effect.
#[track_caller]
fn is_refused(rig: &Rig, why: &str) {
    has(&rig.live.reload().refused.join("; "), why);
    rig.is("<first@bad.example>", "reject");
    rig.is("<a@ok.example>", "accept");
}

/// A message during which a reload happens, at any step, is judged by the rules with which it
/// began.
#[test]
fn a_reload_in_the_middle_of_a_message_changes_nothing_for_it() {
    let two = format!("[[list]]\nname = 'other'\nfilter = 'other.blf'\n{CONFIG}");
    let files = [
        ("spam.list", "first@bad.example\n"),
        ("other.list", "else@bad.example\n"),
        ("white.txt", ""),
    ];
    for step in 0..4 {
        let rig = Rig::new(&files, &two);
        let mut screen = Screen::with_observer(Arc::clone(&rig.live), ());
        let macros = Macros::default();
        let overtake = |now| {
            if step == now {
                // One list instead of two: the index of the hit now means another list. In one
                // file, because a second reload would be one more than a message's snapshot
                // survives.
                let cleared = "entries = ['@bad.example']";
                rig.write("c.toml", &CONFIG.replace("files = ['white.txt']", cleared));
                until_so("the new configuration", || {
                    rig.live.reload();
                    rig.live.snapshot().policy.lists().len() == 1
                });
            }
        };
        screen.connect(&Client::default(), &macros);
        screen.mail(Mailbox::Written(b"<a@ok.example>"), &macros);
        overtake(0);
        assert!(
            !screen
                .rcpt(Mailbox::Written(b"<bob@our.example>"), &macros)
                .is_refusal()
        );
        overtake(1);
        screen.header(b"From", b"first@bad.example");
        overtake(2);
        let Reply::Text(text) = screen.end_of_headers(&macros) else {
            panic!("not refused, step {step}")
        };
        has(&text.to_string(), "blocklist spam");
        overtake(3);
        // The next message is judged by the new rules.
        screen.mail(Mailbox::Written(b"<first@bad.example>"), &macros);
        assert!(
            !screen
                .rcpt(Mailbox::Written(b"<bob@our.example>"), &macros)
                .is_refusal()
        );
    }
}

#[test]
fn an_unchanged_filter_is_shared_and_a_snapshot_kept_as_long_as_somebody_uses_it() {
    let rig = rig();
    let before = rig.live.snapshot();
    rig.write("white.txt", "x@y.example\n");
    becomes_different(&rig, &before);
    let after = rig.live.snapshot();
    assert!(Arc::ptr_eq(&filter_of(&before), &filter_of(&after)));
    assert!(!rig.live.reload().changed);
    rig.write("spam.list", "second@bad.example\nthird@bad.example\n");
    rig.becomes("<second@bad.example>", "reject");
    assert_eq!(filter_of(&before).entries(), 1);
    assert!(!Arc::ptr_eq(&after, &rig.live.snapshot()));
}

/// Two lists may share a filter and differ in their policies; it is in memory once for each way of
/// loading.
#[test]
fn a_filter_of_several_lists_is_held_once() {
    let list =
        |(name, load)| format!("[[list]]\nname = '{name}'\nfilter = 'spam.blf'\nload = '{load}'\n");
    let lists = [
        ("a", "memory"),
        ("b", "memory"),
        ("c", "disk"),
        ("d", "disk"),
    ];
    let files = [("spam.list", "first@bad.example\n")];
    let rig = Rig::new(&files, &lists.map(list).concat());
    let snapshot = rig.live.snapshot();
    let lists = snapshot.policy.lists().iter();
    let filters: Vec<_> = lists.map(|list| list.filter().unwrap()).collect();
    assert!(Arc::ptr_eq(filters[0], filters[1]) && Arc::ptr_eq(filters[2], filters[3]));
    assert!(!Arc::ptr_eq(filters[0], filters[2]));
    assert!(!rig.live.reload().changed);
    rig.write("spam.list", "second@bad.example\n");
    rig.becomes("<second@bad.example>", "reject");
    assert!(!rig.live.reload().changed);
}

fn becomes_different(rig: &Rig, before: &Arc<Snapshot>) {
    until_so("another snapshot", || {
        !Arc::ptr_eq(before, &rig.live.snapshot())
    });
}

/// With any number of open messages and reloads, two snapshots are in memory, and no message has to
/// free one.
#[test]
fn held_messages_hold_no_memory() {
    let rig = rig();
    let macros = Macros::default();
    let mut held = Vec::new();
    let mut filters: Vec<Weak<Filter>> = Vec::new();
    for round in 0..5 {
        held.push(inside_message(&rig));
        let before = rig.live.snapshot();
        filters.push(Arc::downgrade(&filter_of(&before)));
        let list = format!("first@bad.example\nx{round}@bad.example\n");
        rig.write("spam.list", &list);
        becomes_different(&rig, &before);
        drop(before);
        until_so("old filters are freed", || {
            rig.live.upkeep(Instant::now());
            let alive = filters.iter().filter(|filter| filter.strong_count() > 0);
            alive.count() <= 1
        });
    }
    // The last one is judged by its own snapshot; all others by the filter in effect, and not
    // permanently.
    for (number, screen) in held.iter_mut().enumerate() {
        screen.header(b"From", b"x4@bad.example");
        let reply = screen.end_of_headers(&macros);
        match (number, &reply) {
            (4, Reply::Accept) => {}
            (0..4, Reply::Text(text)) => assert_eq!(text.code(), 451, "{text}"),
            _ => panic!("{number}: {reply:?}"),
        }
    }
    let mut screen = held.remove(0);
    screen.mail(Mailbox::Written(b"<x4@bad.example>"), &macros);
    let Reply::Text(text) = screen.rcpt(Mailbox::Written(b"<bob@our.example>"), &macros) else {
        panic!("not refused")
    };
    assert_eq!(text.code(), 550, "{text}");
    drop(held);
    until_so("all are freed", || rig.live.upkeep(Instant::now()));
    assert_eq!(filters.iter().map(Weak::strong_count).sum::<usize>(), 0);
}

/// An innocent message whose snapshot is replaced is not even deferred.
#[test]
fn an_overtaken_message_is_looked_up_again() {
    let rig = rig();
    let mut screen = inside_message(&rig);
    for round in 0..2 {
        let before = rig.live.snapshot();
        rig.write("white.txt", &format!("x{round}@ok.example\n"));
        becomes_different(&rig, &before);
    }
    screen.header(b"From", b"a@ok.example");
    let reply = screen.end_of_headers(&Macros::default());
    assert!(matches!(reply, Reply::Accept));
}

/// A field that was not read, because no list checked it, does not count as innocent.
#[test]
fn an_overtaken_message_is_deferred_where_a_field_was_skipped() {
    let only_from = CONFIG.replace("[whitelist]", "check = ['from']\n[whitelist]");
    let checking = |field: &str| {
        format!("{only_from}[[list]]\nname = 'b'\nfilter = 'spam.blf'\ncheck = ['{field}']\n")
    };
    for (header, expected) in [("Resent-From", Some(451)), ("Resent-Sender", None)] {
        let rig = configured("first@bad.example\n", &only_from);
        let readers = Arc::new(Readers::start(1).expect("a thread"));
        let mut screen = Screen::new(Arc::clone(&rig.live), readers);
        begin_message(&mut screen);
        screen.header(header.as_bytes(), b"first@bad.example");
        for field in ["from", "resent-from"] {
            let before = rig.live.snapshot();
            rig.write("c.toml", &checking(field));
            becomes_different(&rig, &before);
        }
        match screen.end_of_headers(&Macros::default()) {
            Reply::Text(text) => assert_eq!(Some(text.code()), expected, "{header}"),
            Reply::Accept => assert_eq!(expected, None, "{header}"),
            other => panic!("{header}: {other:?}"),
        }
    }
}

/// Begins a filter like the one in effect, with these changes.
fn begin(rig: &Rig, name: &str, entries: u64, change: fn(&mut Spec)) -> Writer {
    let mut spec = filter_of(&rig.live.snapshot()).spec().clone();
    (spec.generation, spec.records) = (9, false);
    change(&mut spec);
    let shape = sizing::shape(entries, spec.fpr);
    let replacement = Replacement::claim(&rig.path(name)).expect("our own folder");
    Writer::begin(replacement, spec, entries, shape, None).expect("a shape")
}

/// Nobody reads the pages of a filter on disk at a start; random keys show that it matches all.
#[test]
fn a_filter_that_says_yes_to_everybody_stays_out() {
    let config = CONFIG.replace("filter =", "load = 'disk'\nfilter =");
    let rig = configured("first@bad.example\n", &config);
    let mut bytes = fs::read(rig.path("spam.blf")).unwrap();
    // Every bit of its page is set, and all checksums are correct.
    bytes[4096..8192].fill(0xff);
    let page = XxHash3_64::oneshot(&bytes[4096..8192]);
    made::put(&mut bytes, 8192, page);
    let sums = XxHash3_64::oneshot(&bytes[8192..8200]);
    made::put(&mut bytes, made::SECTIONS + 24 + 16, sums);
    made::seal_header(&mut bytes);
    rig.replace("spam.blf", &bytes);
    is_refused(&rig, "spam.blf");
    let live = Live::start(Start::read(&rig.path("c.toml")));
    assert!(live.snapshot().policy.lists()[0].filter().is_none());
    has(&live.status(), "matches 1.0e0 of random addresses");
}

#[test]
fn a_filter_of_other_address_rules_stays_out() {
    let rig = rig();
    let mut writer = begin(&rig, "old.blf", 0, |spec| spec.rules_version -= 1);
    writer.append(&[EncodedPage::default()]).unwrap();
    writer.finish().unwrap();
    let asked = Lookup::open(&rig.path("old.blf"), Load::Memory).unwrap_err();
    let asked = asked.to_string();
    assert!(asked.ends_with("build the filter again"), "{asked}");
    // Its keys would look like entries that come and go.
    fs::write(rig.path("list.txt"), "a@bad.example\n").unwrap();
    let preview = ["preview", "list.txt", "--against", "old.blf"];
    let compared = compiler().current_dir(rig.path("")).args(preview).output();
    let said = String::from_utf8_lossy(&compared.unwrap().stderr).into_owned();
    assert!(said.contains("build the filter again"), "{said}");
    fs::rename(rig.path("old.blf"), rig.path("spam.blf")).unwrap();
    is_refused(&rig, "build the filter again");
}

#[test]
fn settings_that_take_a_restart_are_named() {
    let before = &rig().live.snapshot().config;
    let mut config = before.clone();
    (config.connections_max, config.log.level) = (7, LevelFilter::DEBUG);
    let changed = ["log.level", "limits.connections"];
    assert_eq!(config.needs_restart(before), changed);
    assert!(before.needs_restart(before).is_empty());
}
