//! Filters, whitelist and configuration change while mail is served; doubtful files do not take
//! effect.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use blocklist_milter::base::replacement::Replacement;
use blocklist_milter::compile::{self, Plan, Progress, Seed};
use blocklist_milter::daemon::Readers;
use blocklist_milter::filter::{BuildReport, EncodedPage, Filter, Load, Spec, Writer, sizing};
use blocklist_milter::lookup::Lookup;
use blocklist_milter::milter::{Client, Handler, Macros, Reply};
use blocklist_milter::screen::Screen;
use blocklist_milter::snapshot::{Live, Reloaded, Snapshot, Start};
use tracing::level_filters::LevelFilter;
use twox_hash::XxHash3_64;

use crate::filter_damage::made;
use crate::support::rig::{OK, Rig, letter, verdict};
use crate::support::{has, rows, until_so};

const CONFIG: &str =
    "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[whitelist]\nfiles = ['white.txt']\n";

fn rig() -> Rig {
    spam("first@bad.example\n", "")
}

/// Returns a rig with this list `spam`, and these settings after the others.
fn spam(list: &str, settings: &str) -> Rig {
    configured(list, &format!("{CONFIG}{settings}"))
}

/// Returns a rig with this list `spam`, and this configuration.
fn configured(list: &str, config: &str) -> Rig {
    Rig::new(&[("spam.list", list), ("white.txt", "# nobody\n")], config)
}

/// Returns the configuration with these settings of its list.
fn with(settings: &str) -> String {
    CONFIG.replace("filter =", &format!("{settings}\nfilter ="))
}

/// Returns a session inside a message of an innocent sender.
fn inside_message(rig: &Rig) -> Screen {
    let mut screen = Screen::with_observer(Arc::clone(&rig.live), ());
    begin_message(&mut screen);
    screen
}

fn begin_message(screen: &mut Screen) {
    screen.connect(&Client::default(), &Macros::default());
    screen.mail(b"<a@ok.example>", &Macros::default());
    let reply = screen.rcpt(b"<bob@our.example>", &Macros::default());
    assert!(!reply.is_refusal());
}

/// Returns the filter of the first list.
fn filter_of(snapshot: &Snapshot) -> Arc<Filter> {
    let list = &snapshot.policy.lists()[0];
    Arc::clone(list.filter().expect("an open filter"))
}

fn lines(count: usize) -> String {
    let others = (1..count).map(|n| format!("x{n}@bad.example\n"));
    format!("first@bad.example\n{}", others.collect::<String>())
}

/// Checks that a reload is refused with this reason, and that the first list is still in effect.
#[track_caller]
fn is_refused(rig: &Rig, why: &str) {
    has(&rig.live.reload().refused.join("; "), why);
    rig.is("<first@bad.example>", "reject");
    rig.is("<a@ok.example>", "accept");
}

#[test]
fn a_new_filter_is_in_force_without_a_restart_and_without_a_new_connection() {
    let rig = rig();
    let mut peer = rig.peer();
    let second = letter("<second@bad.example>", &[OK]);
    let mut gets = || verdict(&peer.deliver(&second).unwrap());
    assert_eq!(gets(), "accept");
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    until_so("the new filter", || gets() == "reject");
    rig.write("spam.list", "second@bad.example\n");
    rig.becomes("<first@bad.example>", "accept");
    assert_eq!(gets(), "reject");
    peer.quit().unwrap();
}

/// Empties the whitelist with a requested reload, because an emptied file may be half-written
/// (`tests/system/loss.rs`).
fn empty(rig: &Rig) {
    rig.write("white.txt", "");
    rig.live.reload();
    rig.becomes("<first@bad.example>", "reject");
}

#[test]
fn whitelist_and_configuration_too() {
    let rig = rig();
    for entry in ["first@bad.example\n", "first@bad.example OK\n"] {
        rig.write("white.txt", entry);
        rig.becomes("<first@bad.example>", "accept");
        empty(&rig);
    }
    rig.write("c.toml", &with("action = 'tempfail'"));
    rig.becomes("<first@bad.example>", "tempfail");
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
        screen.mail(b"<a@ok.example>", &macros);
        overtake(0);
        assert!(!screen.rcpt(b"<bob@our.example>", &macros).is_refusal());
        overtake(1);
        screen.header(b"From", b"first@bad.example");
        overtake(2);
        let Reply::Text(text) = screen.end_of_headers(&macros) else {
            panic!("not refused, step {step}")
        };
        has(&text.to_string(), "blocklist spam");
        overtake(3);
        // The next message is judged by the new rules.
        screen.mail(b"<first@bad.example>", &macros);
        assert!(!screen.rcpt(b"<bob@our.example>", &macros).is_refusal());
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

#[test]
fn a_faulty_configuration_stays_out() {
    let rig = rig();
    rig.write("c.toml", "[[list]]\nname = 'spam'\nfiltr = 'spam.blf'\n");
    is_refused(&rig, "did you mean filter?");
    rig.write("c.toml", CONFIG);
    until_so("the reload", || rig.live.reload() == Reloaded::default());
}

/// The entries that it had stay, and the good new ones are added, until somebody mends it.
#[test]
fn a_whitelist_with_faulty_lines_clears_nobody_less() {
    let rig = spam("first@bad.example\nold@bad.example\nnew@bad.example\n", "");
    rig.write("white.txt", "old@bad.example\n");
    rig.live.reload();
    for [text, why] in rows(
        r"
        new@bad.example\n/^regex.*$/              | white.txt:2:
        new@bad.example\nfirst@bad.example REJECT | words beside the entry
        ",
    ) {
        rig.write("white.txt", &format!("{text}\n"));
        is_refused(&rig, why);
        rig.is("<old@bad.example>", "accept");
        rig.is("<new@bad.example>", "accept");
    }
    fs::remove_file(rig.path("white.txt")).unwrap();
    is_refused(&rig, "white.txt");
    rig.is("<new@bad.example>", "accept");
    rig.write("white.txt", "# nobody\n");
    assert_eq!(rig.live.reload().refused, [""; 0]);
    rig.is("<new@bad.example>", "reject");
}

#[test]
fn damaged_and_cut_filters_stay_out() {
    let rig = rig();
    let good = fs::read(rig.path("spam.blf")).unwrap();
    let mut damaged = good.clone();
    damaged[4096 + 100] ^= 1;
    for bytes in [
        &damaged[..],
        &good[..good.len() - 1],
        b"",
        b"From: me\n\nnot a filter\n",
    ] {
        rig.replace("spam.blf", bytes);
        is_refused(&rig, "spam.blf");
    }
    fs::remove_file(rig.path("spam.blf")).unwrap();
    is_refused(&rig, "spam.blf");
    assert!(rig.live.counters.reloads_refused.get() >= 5);
    rig.replace("spam.blf", &good);
    until_so("the good one", || rig.live.reload().refused.is_empty());
}

#[test]
fn an_older_generation_stays_out() {
    let rig = rig();
    let old = fs::read(rig.path("spam.blf")).unwrap();
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    rig.becomes("<second@bad.example>", "reject");
    rig.replace("spam.blf", &old);
    is_refused(&rig, "older than generation 2 in effect");
    rig.is("<second@bad.example>", "reject");
}

/// The advice in the message about a damaged or missing filter works.
#[test]
fn a_filter_that_is_built_anew_is_taken() {
    let rig = rig();
    for round in 0..5 {
        let list = format!("first@bad.example\nx{round}@bad.example\n");
        rig.write("spam.list", &list);
    }
    rig.becomes("<x4@bad.example>", "reject");
    let running = filter_of(&rig.live.snapshot()).spec().clone();
    assert!(running.generation > 5);
    fs::remove_file(rig.path("spam.blf")).unwrap();
    is_refused(&rig, "spam.blf");
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    rig.becomes("<second@bad.example>", "reject");
    let anew = filter_of(&rig.live.snapshot()).spec().clone();
    assert_eq!(anew.generation, 1);
    assert_ne!(anew.seed, running.seed);
}

/// A record is read only when its sender is listed, which would be too late to keep the intact
/// file.
#[test]
fn a_filter_with_damaged_records_stays_out() {
    let rig = rig();
    damage_records(&rig);
    is_refused(&rig, "records of page 0");
    // Tried again, and again with another error besides it.
    is_refused(&rig, "records of page 0");
    rig.write("white.txt", "/^regex.*$/\n");
    is_refused(&rig, "white.txt:1: ");
}

fn damage_records(rig: &Rig) {
    let mut damaged = fs::read(rig.path("spam.blf")).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    rig.replace("spam.blf", &damaged);
}

#[test]
fn a_filter_of_another_name_stays_out() {
    let rig = rig();
    fs::write(rig.path("other.list"), "innocent@ok.example\n").unwrap();
    let plan = Plan::new(rig.path("other.blf"), vec![rig.path("other.list")]);
    compile::build(&plan, &Progress::new()).unwrap();
    fs::rename(rig.path("other.blf"), rig.path("spam.blf")).unwrap();
    let why = "this filter is named \"other\", the one in effect \"spam\"";
    is_refused(&rig, why);
}

/// Half a download, or the wrong input, is refused by the settings.
#[test]
fn a_list_that_shrinks_or_grows_too_much_stays_out() {
    let rig = spam(&lines(400), "");
    let few = "the new filter has 2 entries, the one in effect has 400";
    rig.write("spam.list", &lines(2));
    let why = format!("{few}: it shrank by more than max_shrink allows");
    is_refused(&rig, &why);
    // The report of the build says that an administrator allowed it, but for another generation.
    let filter = Filter::open(&rig.path("spam.blf"), Load::Disk).expect("the new filter");
    let approve = |generation: u64| {
        let report = BuildReport {
            approved_shrink: Some(generation),
            entries: 2,
            ..BuildReport::default()
        };
        report.write(&rig.path("spam.blf")).expect("our own folder");
    };
    approve(filter.spec().generation - 1);
    is_refused(&rig, few);
    approve(filter.spec().generation);
    rig.becomes("<x399@bad.example>", "accept");
    rig.becomes("<first@bad.example>", "reject");
    fs::remove_file(rig.path("spam.blf.report")).expect("the report");
    rig.write("spam.list", &lines(400));
    rig.becomes("<x399@bad.example>", "reject");

    let many = "the new filter has 4401 entries, the one in effect has 400";
    rig.write("spam.list", &lines(4_401));
    is_refused(&rig, &format!("{many}: it grew too much for one reload"));
    rig.write("spam.list", &lines(4_400));
    rig.becomes("<x4399@bad.example>", "reject");
    rig.write("spam.list", &lines(2));
    let few = "the new filter has 2 entries, the one in effect has 4400";
    is_refused(&rig, few);
    let any = format!("{CONFIG}[safety]\nmax_shrink = \"100%\"\n");
    rig.write("c.toml", &any);
    rig.becomes("<x4399@bad.example>", "accept");
}

/// A start continues without a missing filter; its senders are deferred, and the other lists decide
/// at once.
#[test]
fn a_start_without_a_filter_defers_and_takes_it_when_it_comes() {
    let late = "[[list]]\nname = 'late'\nfilter = 'late.blf'\ncheck = ['mail-from']\n";
    let files = [
        ("spam.list", "first@bad.example\n"),
        ("white.txt", "friend@ok.example\n"),
    ];
    let rig = Rig::started(&files, &format!("{late}{CONFIG}"));
    has(&rig.live.status(), "late.blf");
    rig.is("<first@bad.example>", "reject");
    rig.is("<a@ok.example>", "tempfail");
    // A whitelisted sender needs no look-up, and this list does not check From.
    rig.is("<friend@ok.example>", "accept");
    rig.is("<>", "accept");
    // It reports the problem each time, and the rest can change meanwhile.
    assert!(!rig.live.reload().changed);
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    rig.becomes("<second@bad.example>", "reject");
    rig.write("late.list", "third@bad.example\n");
    rig.becomes("<third@bad.example>", "reject");
    rig.is("<a@ok.example>", "accept");
    // A reload waits for the one that is noting its result.
    rig.live.reload();
    let serving = "serving 2 lists, 3 entries, 1 on the whitelist";
    assert_eq!(rig.live.status(), serving);
    // Now there is a filter to keep.
    fs::remove_file(rig.path("late.blf")).unwrap();
    assert!(!rig.live.reload().refused.is_empty());
    rig.is("<third@bad.example>", "reject");
    let last_good = "the last good filter is in use, generation 1";
    has(&rig.live.status(), last_good);
}

/// An unreadable whitelist may clear anybody: listed senders are deferred, all others are accepted.
#[test]
fn a_start_without_the_whitelist_refuses_nobody_for_good() {
    let files = [("spam.list", "first@bad.example\nother@bad.example\n")];
    let rig = Rig::started(&files, CONFIG);
    rig.is("<first@bad.example>", "tempfail");
    rig.is("<a@ok.example>", "accept");
    rig.write("white.txt", "first@bad.example\n");
    rig.becomes("<other@bad.example>", "reject");
    rig.is("<first@bad.example>", "accept");
}

/// Records that are not read at the start are read while mail is served.
#[test]
fn damaged_records_are_reported_at_the_start() {
    let rig = rig();
    damage_records(&rig);
    let live = Live::start(Start::read(&rig.path("c.toml")));
    assert!(live.status().starts_with("serving 1 list,"));
    until_so("upkeep is done", || live.upkeep(Instant::now()));
    has(&live.status(), "damaged");
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
    screen.mail(b"<x4@bad.example>", &macros);
    let Reply::Text(text) = screen.rcpt(b"<bob@our.example>", &macros) else {
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
    let rig = configured("first@bad.example\n", &with("load = 'disk'"));
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
    writer.append(&[EncodedPage::new()]).unwrap();
    writer.finish().unwrap();
    let asked = Lookup::open(&rig.path("old.blf"), Load::Memory).unwrap_err();
    let asked = asked.to_string();
    assert!(asked.ends_with("build the filter again"), "{asked}");
    fs::rename(rig.path("old.blf"), rig.path("spam.blf")).unwrap();
    is_refused(&rig, "build the filter again");
}

#[test]
fn a_filter_that_hits_an_address_that_must_not_be_listed_stays_out() {
    let must_miss = "[safety]\nmust_miss = ['boss@our.example']\n";
    let rig = spam("first@bad.example\n", must_miss);
    rig.write("spam.list", "first@bad.example\n@our.example\n");
    let why = "lists or matches boss@our.example, which must_miss protects";
    is_refused(&rig, why);
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    rig.becomes("<second@bad.example>", "reject");
}

/// Canaries in any spelling, and by any kind of entry. Fails without `check_must_hit`: the wrong
/// list takes effect.
#[test]
fn a_filter_that_misses_an_address_that_must_be_listed_stays_out() {
    let config = with("must_hit = ['First@BAD.example', 'x@canary.example']");
    let rig = configured("first@bad.example\n@canary.example\n", &config);
    rig.write("spam.list", "first@bad.example\nother@bad.example\n");
    let why = "does not list x@canary.example, which must_hit requires";
    is_refused(&rig, why);
    has(&rig.live.status(), why);
    let entries = "first@bad.example\n.canary.example\nx@canary.example\n";
    rig.write("spam.list", entries);
    rig.live.reload();
    has(&rig.live.status(), "serving");
    // A start defers what the list would decide: an incomplete list does not show that a sender is
    // unlisted.
    rig.write("spam.list", "x@canary.example\nother@bad.example\n");
    let live = Live::start(Start::read(&rig.path("c.toml")));
    assert!(live.snapshot().policy.lists()[0].filter().is_none());
    has(&live.status(), "does not list First@BAD.example");
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

fn damage_a_page(rig: &Rig) {
    let file = fs::File::options().write(true).open(rig.path("spam.blf"));
    file.unwrap().write_all_at(&[0xff; 64], 4096).unwrap();
}

/// A damaged page on disk gives neither hit nor miss: the sender is deferred, unless a hit would have
/// been milder.
#[test]
fn a_page_that_cannot_be_read_decides_nothing() {
    let rig = configured("first@bad.example\n", &with("load = 'disk'"));
    rig.is("<a@ok.example>", "accept");
    damage_a_page(&rig);
    // From is looked up as well.
    for sender in ["<a@ok.example>", "<first@bad.example>", "<>"] {
        rig.is(sender, "tempfail");
    }
    assert_eq!(rig.verdict("<>", &[]), "accept");
    let failures = &rig.live.snapshot().counts[0].list.failures;
    assert!(failures.get() >= 3);
    for (settings, expected) in [
        ("action = 'log'", "accept"),
        ("dry_run = true", "accept"),
        ("", "tempfail"),
        // A hit would be a tag, so an undecided message gets a tag that says so.
        ("mailing_list = 'tag'", "tag"),
    ] {
        let config = with(&format!("load = 'disk'\n{settings}"));
        let rig = configured("@bad.test\n", &config);
        damage_a_page(&rig);
        let found = rig.verdict("<>", &[OK, "List-Id: x"]);
        assert_eq!(found, expected, "{settings}");
    }
}

#[test]
fn nobody_misses_a_verdict_while_filters_change() {
    let rig = rig();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut peer = rig.peer();
            let mut gets = |sender| verdict(&peer.deliver(&letter(sender, &[OK])).unwrap());
            for _ in 0..400 {
                assert_eq!(gets("<first@bad.example>"), "reject");
                assert_eq!(gets("<a@ok.example>"), "accept");
            }
            peer.quit().unwrap();
        });
        for round in 0..10 {
            let list = rig.path("spam.list");
            fs::write(&list, format!("first@bad.example\nx{round}@bad.example\n")).unwrap();
            let plan = Plan {
                threads: 1,
                seed: Seed::Keep,
                ..Plan::new(rig.path("spam.blf"), vec![list])
            };
            compile::build(&plan, &Progress::new()).unwrap();
            assert!(rig.live.reload().refused.is_empty());
        }
        served.join().unwrap();
    });
}

/// Fails without `open_regular`: the reload waits for a writer of the pipe forever.
#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_nobody_waits() {
    let rig = rig();
    for name in ["spam.blf", "white.txt", "c.toml"] {
        let kept = rig.path("kept");
        fs::rename(rig.path(name), &kept).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, rig.path(name), pipe, mode, 0).unwrap();
        is_refused(&rig, "not a regular file");
        fs::rename(&kept, rig.path(name)).unwrap();
        assert!(rig.live.reload().refused.is_empty(), "{name}");
    }
}
