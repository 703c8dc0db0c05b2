//! Filters, whitelist and configuration change while mail is served; doubtful files do not take
//! effect.

use crate::support;

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Instant;

use blocklist_milter::base::replacement::Replacement;
use blocklist_milter::compile::{self, Plan, Progress, Seed};
use blocklist_milter::daemon::Readers;
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::filter::{BuildReport, EncodedPage, Filter, Load, Spec, Writer, sizing};
use blocklist_milter::lookup::Lookup;
use blocklist_milter::milter::{Client, Handler, Macros, Reply};
use blocklist_milter::screen::Screen;
use blocklist_milter::snapshot::{Live, Reloaded, Snapshot, Start};
use support::rig::{Rig, verdict};
use support::until;

const CONFIG: &str =
    "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n[whitelist]\nfiles = ['white.txt']\n";

fn rig() -> Rig {
    Rig::new(
        &[
            ("spam.list", "first@bad.example\n"),
            ("white.txt", "# nobody\n"),
        ],
        CONFIG,
    )
}

fn letter(mail_from: &str) -> TestMail {
    TestMail::new(mail_from, &["<bob@our.example>"], &["From: a@ok.example"])
}

/// Returns the filter of the first list.
fn filter_of(snapshot: &Snapshot) -> Arc<Filter> {
    let list = &snapshot.policy.lists()[0];
    Arc::clone(list.filter().expect("an open filter"))
}

/// Replaces a file by rename, as everybody should; the file in effect is still open.
fn replace(rig: &Rig, name: &str, bytes: &[u8]) {
    fs::write(rig.path("aside"), bytes).expect("our own folder");
    fs::rename(rig.path("aside"), rig.path(name)).expect("our own folder");
}

fn lines(count: usize) -> String {
    let others = (1..count).map(|n| format!("x{n}@bad.example\n"));
    std::iter::once("first@bad.example\n".to_owned())
        .chain(others)
        .collect()
}

/// Waits until this sender gets this verdict, without a requested reload.
fn becomes(rig: &Rig, sender: &str, expected: &str) {
    until(&format!("{sender} gets {expected}"), || {
        (verdict(&rig.deliver(&letter(sender))) == expected).then_some(())
    });
}

/// Checks that a reload is refused with this reason, and that the first list is still in effect.
fn is_refused(rig: &Rig, why: &str) {
    let refused = rig.live.reload().refused.join("; ");
    assert!(refused.contains(why), "{refused:?} lacks {why}");
    assert_eq!(
        verdict(&rig.deliver(&letter("<first@bad.example>"))),
        "reject"
    );
    assert_eq!(verdict(&rig.deliver(&letter("<a@ok.example>"))), "accept");
}

#[test]
fn a_new_filter_is_in_force_without_a_restart_and_without_a_new_connection() {
    let rig = rig();
    let mut peer = rig.peer();
    let second = letter("<second@bad.example>");
    assert_eq!(verdict(&peer.deliver(&second).unwrap()), "accept");
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    until("the new filter", || {
        (verdict(&peer.deliver(&second).unwrap()) == "reject").then_some(())
    });
    rig.write("spam.list", "second@bad.example\n");
    becomes(&rig, "<first@bad.example>", "accept");
    assert_eq!(verdict(&peer.deliver(&second).unwrap()), "reject");
    peer.quit().unwrap();
}

/// Empties the whitelist with a requested reload, because an emptied file may be half-written
/// (`tests/system/loss.rs`).
fn empty(rig: &Rig) {
    rig.write("white.txt", "");
    rig.live.reload();
    becomes(rig, "<first@bad.example>", "reject");
}

#[test]
fn whitelist_and_configuration_too() {
    let rig = rig();
    rig.write("white.txt", "first@bad.example\n");
    becomes(&rig, "<first@bad.example>", "accept");
    empty(&rig);
    rig.write("white.txt", "first@bad.example OK\n");
    becomes(&rig, "<first@bad.example>", "accept");
    empty(&rig);
    rig.write(
        "c.toml",
        &CONFIG.replace("filter =", "action = 'tempfail'\nfilter ="),
    );
    becomes(&rig, "<first@bad.example>", "tempfail");
}

#[test]
fn a_snapshot_is_kept_as_long_as_somebody_uses_it() {
    let rig = rig();
    let before = rig.live.snapshot();
    rig.write("spam.list", "second@bad.example\n");
    becomes(&rig, "<second@bad.example>", "reject");
    assert_eq!(filter_of(&before).entries(), 1);
    assert!(!Arc::ptr_eq(&before, &rig.live.snapshot()));
}

/// A message during which a reload happens, at any step, is judged by the rules with which it
/// began.
#[test]
fn a_reload_in_the_middle_of_a_message_changes_nothing_for_it() {
    let two = format!("[[list]]\nname = 'other'\nfilter = 'other.blf'\n{CONFIG}");
    for step in 0..4 {
        let rig = Rig::new(
            &[
                ("spam.list", "first@bad.example\n"),
                ("other.list", "else@bad.example\n"),
                ("white.txt", ""),
            ],
            &two,
        );
        let mut screen = Screen::with_observer(Arc::clone(&rig.live), ());
        let macros = Macros::default();
        let overtake = |now| {
            if step == now {
                // One list instead of two: the index of the hit now means another list. In one
                // file, because a second reload would be one more than a message's snapshot
                // survives.
                let cleared = "entries = ['@bad.example']";
                rig.write("c.toml", &CONFIG.replace("files = ['white.txt']", cleared));
                until("the new configuration", || {
                    rig.live.reload();
                    (rig.live.snapshot().policy.lists().len() == 1).then_some(())
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
        assert!(text.to_string().contains("blocklist spam"), "{text}");
        overtake(3);
        // The next message is judged by the new rules.
        screen.mail(b"<first@bad.example>", &macros);
        assert!(!screen.rcpt(b"<bob@our.example>", &macros).is_refusal());
    }
}

#[test]
fn an_unchanged_filter_is_shared_not_read_again() {
    let rig = rig();
    let before = rig.live.snapshot();
    rig.write("white.txt", "x@y.example\n");
    becomes_different(&rig, &before);
    let after = rig.live.snapshot();
    assert!(Arc::ptr_eq(&filter_of(&before), &filter_of(&after)));
    assert!(!rig.live.reload().changed);
}

/// Two lists may share a filter and differ in their policies; it is in memory once for each way of
/// loading.
#[test]
fn a_filter_of_several_lists_is_held_once() {
    let list = |name: &str, load: &str| {
        format!("[[list]]\nname = '{name}'\nfilter = 'spam.blf'\nload = '{load}'\n")
    };
    let config = [
        ("a", "memory"),
        ("b", "memory"),
        ("c", "disk"),
        ("d", "disk"),
    ]
    .map(|(name, load)| list(name, load))
    .concat();
    let rig = Rig::new(&[("spam.list", "first@bad.example\n")], &config);
    let snapshot = rig.live.snapshot();
    let lists = snapshot.policy.lists().iter();
    let filters: Vec<_> = lists.map(|list| list.filter().unwrap()).collect();
    assert!(Arc::ptr_eq(filters[0], filters[1]) && Arc::ptr_eq(filters[2], filters[3]));
    assert!(!Arc::ptr_eq(filters[0], filters[2]));
    assert!(!rig.live.reload().changed);
    rig.write("spam.list", "second@bad.example\n");
    becomes(&rig, "<second@bad.example>", "reject");
    assert!(!rig.live.reload().changed);
}

fn becomes_different(rig: &Rig, before: &Arc<Snapshot>) {
    until("another snapshot", || {
        (!Arc::ptr_eq(before, &rig.live.snapshot())).then_some(())
    });
}

#[test]
fn a_faulty_configuration_stays_out() {
    let rig = rig();
    rig.write("c.toml", "[[list]]\nname = 'spam'\nfiltr = 'spam.blf'\n");
    is_refused(&rig, "did you mean filter?");
    rig.write("c.toml", CONFIG);
    until("the reload", || {
        (rig.live.reload() == Reloaded::default()).then_some(())
    });
}

/// The entries that it had stay, and the good new ones are added, until somebody mends it.
#[test]
fn a_whitelist_with_faulty_lines_clears_nobody_less() {
    let rig = rig();
    let outcome = |sender: &str| verdict(&rig.deliver(&letter(sender)));
    rig.write(
        "spam.list",
        "first@bad.example\nold@bad.example\nnew@bad.example\n",
    );
    rig.write("white.txt", "old@bad.example\n");
    rig.live.reload();
    for (text, why) in [
        ("new@bad.example\n/^regex.*$/\n", "white.txt:2: "),
        (
            "new@bad.example\nfirst@bad.example REJECT\n",
            "words beside the entry",
        ),
    ] {
        rig.write("white.txt", text);
        is_refused(&rig, why);
        assert_eq!(outcome("<old@bad.example>"), "accept", "{text}");
        assert_eq!(outcome("<new@bad.example>"), "accept", "{text}");
    }
    fs::remove_file(rig.path("white.txt")).unwrap();
    is_refused(&rig, "white.txt");
    assert_eq!(outcome("<new@bad.example>"), "accept");
    rig.write("white.txt", "# nobody\n");
    assert_eq!(rig.live.reload().refused, [""; 0]);
    assert_eq!(outcome("<new@bad.example>"), "reject");
}

#[test]
fn damaged_and_cut_filters_stay_out() {
    let rig = rig();
    let path = rig.path("spam.blf");
    let good = fs::read(&path).unwrap();
    let replace = |bytes: &[u8]| replace(&rig, "spam.blf", bytes);
    let mut damaged = good.clone();
    damaged[4096 + 100] ^= 1;
    replace(&damaged);
    is_refused(&rig, "spam.blf");
    replace(&good[..good.len() - 1]);
    is_refused(&rig, "spam.blf");
    replace(b"");
    is_refused(&rig, "spam.blf");
    replace(b"From: me\n\nnot a filter\n");
    is_refused(&rig, "spam.blf");
    fs::remove_file(&path).unwrap();
    is_refused(&rig, "spam.blf");
    assert!(rig.live.counters.reloads_refused.get() >= 5);
    replace(&good);
    until("the good one", || {
        (rig.live.reload().refused.is_empty()).then_some(())
    });
}

#[test]
fn an_older_generation_stays_out() {
    let rig = rig();
    let old = fs::read(rig.path("spam.blf")).unwrap();
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    becomes(&rig, "<second@bad.example>", "reject");
    fs::write(rig.path("aside"), old).unwrap();
    fs::rename(rig.path("aside"), rig.path("spam.blf")).unwrap();
    is_refused(&rig, "older than generation 2 in effect");
    assert_eq!(
        verdict(&rig.deliver(&letter("<second@bad.example>"))),
        "reject"
    );
}

/// The advice in the message about a damaged or missing filter works.
#[test]
fn a_filter_that_is_built_anew_is_taken() {
    let rig = rig();
    for round in 0..5 {
        rig.write(
            "spam.list",
            &format!("first@bad.example\nx{round}@bad.example\n"),
        );
    }
    becomes(&rig, "<x4@bad.example>", "reject");
    let running = filter_of(&rig.live.snapshot()).spec().clone();
    assert!(running.generation > 5);
    fs::remove_file(rig.path("spam.blf")).unwrap();
    is_refused(&rig, "spam.blf");
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    becomes(&rig, "<second@bad.example>", "reject");
    let anew = filter_of(&rig.live.snapshot()).spec().clone();
    assert_eq!(anew.generation, 1);
    assert_ne!(anew.seed, running.seed);
}

/// A record is read only when its sender is listed, which would be too late to keep the intact
/// file.
#[test]
fn a_filter_with_damaged_records_stays_out() {
    let rig = rig();
    let mut damaged = fs::read(rig.path("spam.blf")).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    replace(&rig, "spam.blf", &damaged);
    is_refused(&rig, "records of page 0");
    // Tried again, and again with another error besides it.
    is_refused(&rig, "records of page 0");
    rig.write("white.txt", "/^regex.*$/\n");
    is_refused(&rig, "white.txt:1: ");
    rig.write("white.txt", "");
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
}

#[test]
fn a_filter_of_another_name_stays_out() {
    let rig = rig();
    fs::write(rig.path("other.list"), "innocent@ok.example\n").unwrap();
    let plan = Plan::new(rig.path("other.blf"), vec![rig.path("other.list")]);
    compile::build(&plan, &Progress::new()).unwrap();
    fs::rename(rig.path("other.blf"), rig.path("spam.blf")).unwrap();
    is_refused(
        &rig,
        "this filter is named \"other\", the one in effect \"spam\"",
    );
}

/// Half a download, or the wrong input, is refused by the settings.
#[test]
fn a_list_that_shrinks_or_grows_too_much_stays_out() {
    let rig = Rig::new(
        &[("spam.list", &lines(400)), ("white.txt", "# nobody\n")],
        CONFIG,
    );
    rig.write("spam.list", &lines(2));
    is_refused(
        &rig,
        "the new filter has 2 entries, the one in effect has 400: it shrank by more than max_shrink allows",
    );
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
    is_refused(
        &rig,
        "the new filter has 2 entries, the one in effect has 400",
    );
    approve(filter.spec().generation);
    becomes(&rig, "<x399@bad.example>", "accept");
    becomes(&rig, "<first@bad.example>", "reject");
    fs::remove_file(rig.path("spam.blf.report")).expect("the report");
    rig.write("spam.list", &lines(400));
    becomes(&rig, "<x399@bad.example>", "reject");

    rig.write("spam.list", &lines(4_401));
    is_refused(
        &rig,
        "the new filter has 4401 entries, the one in effect has 400: it grew by more than max_growth allows",
    );
    rig.write(
        "c.toml",
        &format!("{CONFIG}[safety]\nmax_growth = \"1001%\"\n"),
    );
    becomes(&rig, "<x4400@bad.example>", "reject");
    rig.write("spam.list", &lines(2));
    is_refused(
        &rig,
        "the new filter has 2 entries, the one in effect has 4401",
    );
    rig.write(
        "c.toml",
        &format!("{CONFIG}[safety]\nmax_shrink = \"100%\"\n"),
    );
    becomes(&rig, "<x4400@bad.example>", "accept");
}

/// A start continues without a missing filter; its senders are deferred, and the other lists decide
/// at once.
#[test]
fn a_start_without_a_filter_defers_and_takes_it_when_it_comes() {
    let late = "[[list]]\nname = 'late'\nfilter = 'late.blf'\ncheck = ['mail-from']\n";
    let two = format!("{late}{CONFIG}");
    let files = [
        ("spam.list", "first@bad.example\n"),
        ("white.txt", "friend@ok.example\n"),
    ];
    let rig = Rig::started(&files, &two);
    let outcome = |rig: &Rig, from: &str| verdict(&rig.deliver(&letter(from)));
    assert!(
        rig.live.status().contains("late.blf"),
        "{}",
        rig.live.status()
    );
    assert_eq!(outcome(&rig, "<first@bad.example>"), "reject");
    assert_eq!(outcome(&rig, "<a@ok.example>"), "tempfail");
    // A whitelisted sender needs no look-up, and this list does not check From.
    assert_eq!(outcome(&rig, "<friend@ok.example>"), "accept");
    assert_eq!(outcome(&rig, "<>"), "accept");
    // It reports the problem each time, and the rest can change meanwhile.
    assert!(!rig.live.reload().changed);
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    becomes(&rig, "<second@bad.example>", "reject");
    rig.write("late.list", "third@bad.example\n");
    becomes(&rig, "<third@bad.example>", "reject");
    assert_eq!(outcome(&rig, "<a@ok.example>"), "accept");
    assert_eq!(
        rig.live.status(),
        "serving 2 lists, 3 entries, 1 on the whitelist"
    );
    // Now there is a filter to keep.
    fs::remove_file(rig.path("late.blf")).unwrap();
    assert!(!rig.live.reload().refused.is_empty());
    assert_eq!(outcome(&rig, "<third@bad.example>"), "reject");
    assert!(
        rig.live
            .status()
            .starts_with("the last good filter is in use, generation 1")
    );
}

#[test]
fn on_error_decides_what_a_missing_filter_would_say() {
    let config = format!("on_error = 'accept'\n{CONFIG}");
    let rig = Rig::started(&[("white.txt", "")], &config);
    assert_eq!(verdict(&rig.deliver(&letter("<a@ok.example>"))), "accept");
    let trial = CONFIG.replace("filter =", "dry_run = true\nfilter =");
    let rig = Rig::started(&[("white.txt", "")], &trial);
    assert_eq!(verdict(&rig.deliver(&letter("<a@ok.example>"))), "accept");
}

/// An unknown result never leads to more than a known one: if a hit is a tag, nobody is deferred.
#[test]
fn a_missing_filter_holds_up_no_mail_that_a_hit_would_only_tag() {
    for (rest, header, expected) in [
        ("", "From: x@bad.test", "tempfail"),
        ("", "From: \"x@bad.test\"", "tempfail"),
        ("action = 'quarantine'\n", "From: x@bad.test", "tempfail"),
        ("action = 'tag'\n", "From: x@bad.test", "tag"),
        ("action = 'log'\n", "From: x@bad.test", "accept"),
        ("weak = 'tag'\n", "From: \"x@bad.test\"", "tag"),
        ("weak = 'tag'\n", "From: x@bad.test", "tempfail"),
        ("weak = 'ignore'\n", "From: \"x@bad.test\"", "accept"),
        ("mailing_list = 'tag'\n", "From: x@bad.test", "tag"),
        ("mailing_list = 'log'\n", "From: x@bad.test", "accept"),
        ("mailing_list = 'tag'\n", "Sender: x@bad.test", "tempfail"),
        (
            "recipients = ['@else.example']\n",
            "From: x@bad.test",
            "accept",
        ),
    ] {
        let settings = format!("check = ['from', 'sender']\n{rest}filter =");
        let config = CONFIG.replace("filter =", &settings);
        let rig = Rig::started(&[("white.txt", "")], &config);
        let headers = ["List-Id: <l.example>", header];
        let headers = &headers[usize::from(!rest.starts_with("mailing"))..];
        let letter = TestMail::new("<a@ok.example>", &["<bob@our.example>"], headers);
        let outcome = rig.deliver(&letter);
        assert_eq!(verdict(&outcome), expected, "{rest} {header}");
    }
}

/// An unreadable whitelist may clear anybody: listed senders are deferred, all others are accepted.
#[test]
fn a_start_without_the_whitelist_refuses_nobody_for_good() {
    let rig = Rig::started(
        &[("spam.list", "first@bad.example\nother@bad.example\n")],
        CONFIG,
    );
    assert_eq!(
        verdict(&rig.deliver(&letter("<first@bad.example>"))),
        "tempfail"
    );
    assert_eq!(verdict(&rig.deliver(&letter("<a@ok.example>"))), "accept");
    rig.write("white.txt", "first@bad.example\n");
    becomes(&rig, "<other@bad.example>", "reject");
    assert_eq!(
        verdict(&rig.deliver(&letter("<first@bad.example>"))),
        "accept"
    );
}

#[test]
fn a_start_with_a_list_that_hits_must_miss_defers_its_hits_alone() {
    let config = format!("{CONFIG}[safety]\nmust_miss = ['boss@our.example']\n");
    let files = [
        ("spam.list", "first@bad.example\n@our.example\n"),
        ("white.txt", ""),
    ];
    let rig = Rig::started(&files, &config);
    assert_eq!(
        verdict(&rig.deliver(&letter("<boss@our.example>"))),
        "tempfail"
    );
    assert_eq!(
        verdict(&rig.deliver(&letter("<first@bad.example>"))),
        "tempfail"
    );
    assert_eq!(verdict(&rig.deliver(&letter("<a@ok.example>"))), "accept");
}

/// Records that are not read at the start are read while mail is served.
#[test]
fn damaged_records_are_reported_at_the_start() {
    let rig = rig();
    let mut damaged = fs::read(rig.path("spam.blf")).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(rig.path("spam.blf"), &damaged).unwrap();
    let live = Live::start(Start::read(&rig.path("c.toml")));
    assert!(live.status().starts_with("serving 1 list,"));
    until("upkeep is done", || {
        live.upkeep(Instant::now()).then_some(())
    });
    assert!(live.status().contains("damaged"), "{}", live.status());
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
        let mut screen = Screen::with_observer(Arc::clone(&rig.live), ());
        screen.connect(&Client::default(), &macros);
        screen.mail(b"<a@ok.example>", &macros);
        assert!(!screen.rcpt(b"<bob@our.example>", &macros).is_refusal());
        held.push(screen);
        let before = rig.live.snapshot();
        filters.push(Arc::downgrade(&filter_of(&before)));
        rig.write(
            "spam.list",
            &format!("first@bad.example\nx{round}@bad.example\n"),
        );
        becomes_different(&rig, &before);
        drop(before);
        until("old filters are freed", || {
            rig.live.upkeep(Instant::now());
            let alive = filters.iter().filter(|filter| filter.strong_count() > 0);
            (alive.count() <= 1).then_some(())
        });
    }
    // The last one is judged by its own snapshot; all others by the filter in effect, and not
    // permanently.
    for (number, screen) in held.iter_mut().enumerate() {
        screen.header(b"From", b"x4@bad.example");
        let reply = screen.end_of_headers(&macros);
        match (number, &reply) {
            (4, Reply::Accept) => {}
            (0..4, Reply::Text(text)) => assert!(text.to_string().starts_with("451"), "{text}"),
            _ => panic!("{number}: {reply:?}"),
        }
    }
    let mut screen = held.remove(0);
    screen.mail(b"<x4@bad.example>", &macros);
    let Reply::Text(text) = screen.rcpt(b"<bob@our.example>", &macros) else {
        panic!("not refused")
    };
    assert!(text.to_string().starts_with("550"), "{text}");
    drop(held);
    until("all are freed", || {
        rig.live.upkeep(Instant::now()).then_some(())
    });
    assert_eq!(filters.iter().map(Weak::strong_count).sum::<usize>(), 0);
}

/// An innocent message whose snapshot is replaced is not even deferred.
#[test]
fn an_overtaken_message_is_looked_up_again() {
    let rig = rig();
    let macros = Macros::default();
    let mut screen = Screen::with_observer(Arc::clone(&rig.live), ());
    screen.connect(&Client::default(), &macros);
    screen.mail(b"<a@ok.example>", &macros);
    assert!(!screen.rcpt(b"<bob@our.example>", &macros).is_refusal());
    for round in 0..2 {
        let before = rig.live.snapshot();
        rig.write("white.txt", &format!("x{round}@ok.example\n"));
        becomes_different(&rig, &before);
    }
    screen.header(b"From", b"a@ok.example");
    assert!(matches!(screen.end_of_headers(&macros), Reply::Accept));
}

/// A field that was not read, because no list checked it, does not count as innocent.
#[test]
fn an_overtaken_message_is_deferred_where_a_field_was_skipped() {
    let checking = |field: &str| {
        format!("{CONFIG}[[list]]\nname = 'b'\nfilter = 'spam.blf'\ncheck = ['{field}']\n")
    };
    let only_from = CONFIG.replace("[whitelist]", "check = ['from']\n[whitelist]");
    for (header, expected) in [("Resent-From", "451"), ("Resent-Sender", "accept")] {
        let rig = Rig::new(
            &[
                ("spam.list", "first@bad.example\n"),
                ("white.txt", "# nobody\n"),
            ],
            &only_from,
        );
        let macros = Macros::default();
        let readers = Arc::new(Readers::start(1).expect("a thread"));
        let mut screen = Screen::new(Arc::clone(&rig.live), readers);
        screen.connect(&Client::default(), &macros);
        screen.mail(b"<a@ok.example>", &macros);
        assert!(!screen.rcpt(b"<bob@our.example>", &macros).is_refusal());
        screen.header(header.as_bytes(), b"first@bad.example");
        for field in ["from", "resent-from"] {
            let before = rig.live.snapshot();
            rig.write(
                "c.toml",
                &checking(field).replace("[whitelist]", "check = ['from']\n[whitelist]"),
            );
            becomes_different(&rig, &before);
        }
        match screen.end_of_headers(&macros) {
            Reply::Text(text) => assert_eq!(text.code().to_string(), expected, "{header}"),
            Reply::Accept => assert_eq!(expected, "accept", "{header}"),
            other => panic!("{header}: {other:?}"),
        }
    }
}

fn begin(path: &Path, spec: Spec, entries: u64) -> Writer {
    let shape = sizing::shape(entries, spec.fpr);
    Writer::begin(
        Replacement::claim(path).expect("our own folder"),
        spec,
        entries,
        shape,
    )
    .expect("a shape")
}

#[test]
fn a_filter_that_says_yes_to_everybody_stays_out() {
    let rig = rig();
    let spec = Filter::open(&rig.path("spam.blf"), Load::Memory)
        .unwrap()
        .spec()
        .clone();
    let spec = Spec {
        generation: 9,
        records: false,
        ..spec
    };
    // Well formed, with correct checksums, and with every bit set.
    let mut writer = begin(&rig.path("full.blf"), spec, 1);
    let mut page = EncodedPage::new();
    page.set_bits(&[0xff; 4096]);
    writer.append(&[page]).unwrap();
    match writer.finish() {
        Ok(_) => {
            fs::rename(rig.path("full.blf"), rig.path("spam.blf")).unwrap();
            is_refused(&rig, "spam.blf");
        }
        // Equally good: it cannot even be made.
        Err(refused) => assert!(refused.to_string().contains("full.blf"), "{refused}"),
    }
}

#[test]
fn a_filter_of_other_address_rules_stays_out() {
    let rig = rig();
    let spec = Filter::open(&rig.path("spam.blf"), Load::Memory)
        .unwrap()
        .spec()
        .clone();
    let older = Spec {
        generation: 9,
        rules_version: spec.rules_version - 1,
        records: false,
        ..spec
    };
    let mut writer = begin(&rig.path("old.blf"), older, 0);
    writer.append(&[EncodedPage::new()]).unwrap();
    writer.finish().unwrap();
    let asked = Lookup::open(&rig.path("old.blf"), Load::Memory).unwrap_err();
    assert!(
        asked.to_string().ends_with("build the filter again"),
        "{asked}"
    );
    fs::rename(rig.path("old.blf"), rig.path("spam.blf")).unwrap();
    is_refused(&rig, "build the filter again");
}

#[test]
fn a_filter_that_hits_an_address_that_must_not_be_listed_stays_out() {
    let must_miss = format!("{CONFIG}[safety]\nmust_miss = ['boss@our.example']\n");
    let rig = Rig::new(
        &[("spam.list", "first@bad.example\n"), ("white.txt", "")],
        &must_miss,
    );
    rig.write("spam.list", "first@bad.example\n@our.example\n");
    is_refused(
        &rig,
        "lists or matches boss@our.example, which must_miss protects",
    );
    rig.write("spam.list", "first@bad.example\nsecond@bad.example\n");
    becomes(&rig, "<second@bad.example>", "reject");
}

/// Canaries in any spelling, and by any kind of entry. Fails without `check_must_hit`: the wrong
/// list takes effect.
#[test]
fn a_filter_that_misses_an_address_that_must_be_listed_stays_out() {
    let canaries = "must_hit = ['First@BAD.example', 'x@canary.example']\nfilter =";
    let config = CONFIG.replace("filter =", canaries);
    let rig = Rig::new(
        &[
            ("spam.list", "first@bad.example\n@canary.example\n"),
            ("white.txt", ""),
        ],
        &config,
    );
    rig.write("spam.list", "first@bad.example\nother@bad.example\n");
    let why = "does not list x@canary.example, which must_hit requires";
    is_refused(&rig, why);
    assert!(rig.live.status().contains(why), "{}", rig.live.status());
    rig.write(
        "spam.list",
        "first@bad.example\n.canary.example\nx@canary.example\n",
    );
    rig.live.reload();
    assert!(
        rig.live.status().starts_with("serving"),
        "{}",
        rig.live.status()
    );
    // A start defers what the list would decide: an incomplete list does not show that a sender is
    // unlisted.
    rig.write("spam.list", "x@canary.example\nother@bad.example\n");
    let live = Live::start(Start::read(&rig.path("c.toml")));
    assert!(live.snapshot().policy.lists()[0].filter().is_none());
    assert!(
        live.status().contains("does not list First@BAD.example"),
        "{}",
        live.status()
    );
}

#[test]
fn settings_that_take_a_restart_are_named() {
    let rig = rig();
    let before = rig.live.snapshot();
    let mut config = before.config.clone();
    config.workers = 7;
    config.socket_mode = 0o600;
    assert_eq!(
        config.needs_restart(&before.config),
        ["socket_mode", "workers"]
    );
    assert!(before.config.needs_restart(&before.config).is_empty());
}

/// A damaged page on disk gives neither hit nor miss: the sender is deferred.
#[test]
fn a_page_that_cannot_be_read_decides_nothing() {
    let rig = Rig::new(
        &[("spam.list", "first@bad.example\n"), ("white.txt", "")],
        &CONFIG.replace("filter =", "load = 'disk'\nfilter ="),
    );
    assert_eq!(verdict(&rig.deliver(&letter("<a@ok.example>"))), "accept");
    let mut file = OpenOptions::new()
        .write(true)
        .open(rig.path("spam.blf"))
        .unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&[0xff; 64]).unwrap();
    for sender in ["<a@ok.example>", "<first@bad.example>"] {
        assert_eq!(
            verdict(&rig.deliver(&letter(sender))),
            "tempfail",
            "{sender}"
        );
    }
    assert_eq!(
        verdict(&rig.deliver(&letter("<>"))),
        "tempfail",
        "From is looked up as well"
    );
    let outcome = rig.deliver(&TestMail::new("<>", &["<bob@our.example>"], &[]));
    assert_eq!(verdict(&outcome), "accept");
    let failures = &rig.live.snapshot().counts[0].list.failures;
    assert!(failures.get() >= 3);
}

#[test]
fn nobody_misses_a_verdict_while_filters_change() {
    let rig = rig();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut peer = rig.peer();
            for _ in 0..400 {
                assert_eq!(
                    verdict(&peer.deliver(&letter("<first@bad.example>")).unwrap()),
                    "reject"
                );
                assert_eq!(
                    verdict(&peer.deliver(&letter("<a@ok.example>")).unwrap()),
                    "accept"
                );
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
