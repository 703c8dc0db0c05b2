//! The daemon's reports about itself: their numbers are compared with the messages that were
//! played.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use blocklist_milter::address::Canonical;
use blocklist_milter::base::clock;
use blocklist_milter::daemon::{Service as _, fetch};
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::endpoint::Endpoint;
use blocklist_milter::filter::BuildReport;
use blocklist_milter::policy::{Action, Entries, Exemption, Reason};

use blocklist_milter::sender::Identity;
use blocklist_milter::serve::Blocklists;
use blocklist_milter::snapshot::{Live, Start};
use blocklist_milter::status::{Health, Log, Report};
use blocklist_milter::undo::{self, Undo};

use crate::support::rig::{Rig, letter, verdict};
use crate::support::{self, has, has_all, until, words};

const LISTS: &[(&str, &str)] = &[
    ("spam.list", "@bad.example\nfriend@bad.example\n"),
    ("mild.list", "@mild.example\n"),
];
const CONFIG: &str = "
[[list]]
name = 'spam'
filter = 'spam.blf'
[[list]]
name = 'mild'
filter = 'mild.blf'
action = 'tag'
[whitelist]
entries = ['friend@bad.example']
[exempt]
networks = ['198.51.100.0/24']
";

/// Plays a message of each kind; the tests know the counts.
fn play(rig: &Rig) {
    rig.judges(
        "
        <a@ok.example>       | From: shop@ok.example                              | accept
        <b@ok.example>       | From: shop@ok.example                              | accept
        <a@bad.example>      | From: shop@ok.example                              | reject
        <friend@bad.example> | From: shop@ok.example                              | accept
        <a@bad.example>      | From: shop@ok.example                              | reject
        <a@ok.example>       | From: a@bad.example, b@bad.example                 | reject
        <a@mild.example>     | Reply-To: b@mild.example + From: shop@ok.example   | tag
        ",
    );
    let mut exempt = rig.client("198.51.100.7", 4321);
    let outcome = exempt.deliver(&letter("<a@bad.example>", &["From: shop@ok.example"]));
    assert_eq!(verdict(&outcome.expect("the daemon answers")), "accept");
}

fn report(rig: &Rig) -> Report {
    serde_json::from_str(&rig.page("/status.json").1).expect("JSON")
}

fn metrics(rig: &Rig) -> String {
    rig.page("/metrics").1
}

#[test]
fn every_message_is_counted_once_and_every_hit() {
    let rig = Rig::new(LISTS, CONFIG);
    // One message has two recipients, which are both refused.
    let both = ["<bob@our.example>", "<al@our.example>"];
    assert_eq!(
        verdict(&rig.deliver(&TestMail::new("<a@bad.example>", &both, &[]))),
        "reject"
    );
    play(&rig);
    let counters = &rig.live.counters;
    let did = |action| counters.verdicts.get(action);
    let counted = [None, Some(Action::Reject), Some(Action::Tag)].map(did);
    assert_eq!(counted, [4, 4, 1]);
    assert_eq!(counters.messages(), 9);
    let reasons = counters.reasons.iter().filter(|(_, count)| *count > 0);
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        [
            (Reason::Listed, 5),
            (Reason::Unlisted, 2),
            (Reason::Whitelisted, 1)
        ]
    );
    assert_eq!(counters.exemptions.get(Exemption::Network), 1);
    assert_eq!(counters.exemptions.sum(), 1);
    assert_eq!(counters.durations.buckets().count, 9);

    let snapshot = rig.live.snapshot();
    let [spam, mild] = &snapshot.counts[..] else {
        panic!("two lists");
    };
    assert_eq!(spam.list.hits.get(Identity::MailFrom), 4);
    assert_eq!(spam.list.hits.get(Identity::From), 2);
    assert_eq!(spam.list.whitelisted.get(), 1);
    assert_eq!(spam.list.verdicts.get(Some(Action::Reject)), 4);
    assert_eq!(spam.list.verdicts.get(None), 1);
    assert_eq!(spam.by_source()["spam"], 6);
    assert_eq!(mild.list.hits.get(Identity::ReplyTo), 1);
    assert_eq!(mild.list.hits.sum(), 2);
    assert_eq!(mild.list.verdicts.sum(), 1);
}

/// Also those of a list that is removed for a while.
#[test]
fn the_counts_of_a_list_outlive_reloads() {
    let rig = Rig::new(LISTS, CONFIG);
    play(&rig);
    let reloaded = |count: u64| {
        until("a reload", || {
            (rig.live.counters.reloads.get() >= count).then_some(())
        });
    };
    rig.write("c.toml", "[[list]]\nname = 'mild'\nfilter = 'mild.blf'\n");
    // A removed list waits for a requested reload.
    rig.live.reload();
    reloaded(1);
    assert_eq!(rig.live.snapshot().counts.len(), 1);
    rig.write("c.toml", CONFIG);
    reloaded(2);
    rig.write("spam.list", "@worse.example\n");
    reloaded(3);
    assert_eq!(rig.verdict("<a@worse.example>", &[]), "reject");
    let snapshot = rig.live.snapshot();
    let spam = &snapshot.counts[0];
    assert_eq!(spam.list.hits.get(Identity::MailFrom), 4);
    assert_eq!(spam.by_source()["spam"], 6, "by the name of the source");
}

#[test]
fn connections_are_counted_and_what_breaks_the_protocol() {
    let rig = Rig::new(LISTS, CONFIG);
    let traffic = rig.service.traffic();
    let peer = rig.peer();
    assert_eq!((traffic.opened.get(), traffic.open()), (1, 1));
    let not_agreed = b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff\0\0\0\x01N";
    for (sent, kind) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], "packet-length"),
        (b"\0\0\0\x01M", "negotiation"),
        (not_agreed, "outside-message"),
    ] {
        let mut stream = UnixStream::connect(rig.path("m.sock")).expect("it listens");
        stream.write_all(sent).expect("it reads");
        // The answer to the negotiation may come before the end.
        let _ = stream.read_to_end(&mut Vec::new());
        until(kind, || {
            (traffic.protocol_errors.get(kind) == 1).then_some(())
        });
    }
    assert_eq!(traffic.protocol_errors.sum(), 3);
    assert_eq!(traffic.opened.get(), 4);
    peer.quit().expect("nothing is left over");
    until("all are closed", || (traffic.open() == 0).then_some(()));
}

#[test]
fn metrics_and_json_say_what_was_played() {
    let rig = Rig::new(LISTS, CONFIG);
    play(&rig);
    let (code, metrics) = rig.page("/metrics");
    assert_eq!(code, 200);
    for line in [
        "messages_total{verdict=\"accept\"} 4",
        "messages_total{verdict=\"reject\"} 3",
        "messages_total{verdict=\"tag\"} 1",
        "messages_by_reason_total{reason=\"network\"} 1",
        "messages_by_reason_total{reason=\"whitelisted\"} 1",
        "message_duration_seconds_bucket{le=\"+Inf\"} 8",
        "message_duration_seconds_count 8",
        "connections_total 8",
        "list_entries{list=\"spam\"} 2",
        "list_generation{list=\"mild\"} 1",
        "list_hits_total{list=\"spam\",identity=\"mail-from\"} 3",
        "list_hits_total{list=\"spam\",identity=\"from\"} 2",
        "list_source_hits_total{list=\"spam\",source=\"spam\"} 5",
        "list_messages_total{list=\"mild\",verdict=\"tag\"} 1",
        "list_whitelisted_hits_total{list=\"spam\"} 1",
        "last_reload_successful 1",
        "whitelist_entries 1",
    ] {
        has(&metrics, &format!("\nblocklist_milter_{line}\n"));
    }
    let has_address = metrics.contains('@') || metrics.contains(".example");
    assert!(!has_address, "{metrics}");

    let report = report(&rig);
    assert_eq!(report.health, Health::Ok);
    assert_eq!((report.messages.total, report.whitelist_entries), (8, 1));
    assert_eq!(report.lists[0].hits["from"], 2);
    assert_eq!(report.lists[0].hits_24h, 5);
    let minutes = report
        .minutes
        .iter()
        .flat_map(|minute| minute.verdicts.values());
    assert_eq!(minutes.sum::<u64>(), 8);
    assert!(
        report
            .decisions
            .iter()
            .all(|one| one.decision.who.is_none()),
        "addresses need a setting"
    );
    assert_eq!(rig.page("/nothing").0, 404);
}

/// Returns the decisions that a search finds, as `action reason list sender`, the newest first.
fn found(service: &Blocklists, query: &str) -> Vec<String> {
    let page = service.page(&format!("/log.json?{query}"));
    let log: Log = serde_json::from_str(&page.body).expect("JSON");
    let shown = log.decisions.iter().map(|one| {
        let one = &one.decision;
        let sender = one.who.as_ref().map_or("", |who| &who.sender);
        format!("{} {} {} {sender}", one.action, one.reason, one.list)
    });
    shown.collect()
}

#[test]
fn decisions_are_found_and_outlive_a_restart() {
    let shown = format!("{CONFIG}\n[status]\nshow_addresses = true\n");
    let rig = Rig::new(LISTS, &shown);
    play(&rig);
    let all = found(&rig.service, "");
    let mail_from = "reject listed spam a@bad.example";
    assert!(
        all.len() > 3 && all.iter().any(|one| one == mail_from),
        "{all:?}"
    );
    assert!(
        all.iter()
            .any(|one| one.starts_with("accept whitelisted spam ")),
        "{all:?}"
    );
    assert_eq!(found(&rig.service, "action=tag").len(), 1);
    assert_eq!(
        found(&rig.service, "q=A%40BAD+mail-from&list=spam")[0],
        mail_from
    );
    assert_eq!(found(&rig.service, "q=nobody&list=spam"), [""; 0]);
    let (code, page) = rig.page("/");
    assert_eq!(code, 200);
    has(&page, " Last hit: ");
    has(
        &page,
        " Entries with most of the last decisions: @bad.example 3, friend@bad.example 1.",
    );
    let (code, page) = rig.page("/log?q=bad.example");
    assert_eq!(code, 200);
    has(&page, "a@bad.example");
    has(&page, "blocklist-compile add -- ");
    assert!(!metrics(&rig).contains("bad.example"));
    rig.milter(&["log", "--list", "spam", "bad.example"])
        .ends(0, &["reject", "a@bad.example", "case "]);

    fs::create_dir_all(rig.path("state")).expect("a folder");
    rig.service.save();
    let live = Arc::new(Live::start(Start::read(&rig.path("c.toml"))));
    let next = Blocklists::new(live, Arc::default()).expect("threads");
    next.restore();
    assert_eq!(found(&next, ""), all);
    rig.write("c.toml", CONFIG);
    until("addresses are forgotten", || {
        (found(&rig.service, "q=bad.example").is_empty()
            && found(&rig.service, "").len() == all.len())
        .then_some(())
    });
}

/// The page looks up as the daemon does, and is neither mail nor markup.
#[test]
fn an_address_is_explained_without_a_trace() {
    let rig = Rig::new(LISTS, CONFIG);
    let (code, page) = rig.page("/explain?address=a%40bad.example");
    assert_eq!(code, 403);
    has(&page, "show_addresses");
    let shown = format!("{CONFIG}\n[status]\nshow_addresses = true\n");
    let rig = Rig::new(LISTS, &shown);
    has(&rig.page("/").1, "action=\"/explain\"");
    for (asked, says) in [
        ("address=a%40bad.example", "verdict  reject"),
        ("address=+nobody%40ok.example+", "verdict  accept"),
        ("address=%3Cscript%3E%40bad.example%22", "no sender found"),
        ("address=", "An address"),
        ("", "An address"),
    ] {
        let (code, page) = rig.page(&format!("/explain?{asked}"));
        assert_eq!(code, 200);
        has(&page, says);
        assert!(!page.contains("<script"), "{page}");
    }
    let report = report(&rig);
    assert_eq!((report.messages.total, report.lists[0].hits_24h), (0, 0));
    assert_eq!(found(&rig.service, ""), [""; 0]);
}

/// Each command runs in a shell as it is shown, and does what it says.
#[test]
fn what_undoes_a_decision_can_be_pasted() {
    let folder = support::Scratch::new();
    let white = folder.path().join("white list.txt");
    let list = folder.path().join("own.txt");
    let bin = Path::new(env!("CARGO_BIN_EXE_blocklist-compile"));
    let path = bin.parent().expect("a folder").display();
    for sender in [
        "-x@bad.example",
        "!id@bad.example",
        "#x@bad.example",
        ";x,y@bad.example",
        "\"a b\"@bad.example",
        "o'n@bad.example",
        "$(touch x)@bad.example",
        "`id`&@bad.example",
        "*@bad.example",
        "/^x$/@bad.example",
        "bounce-7=a.example@bad.example",
    ] {
        let lists = |file: &Path| {
            let text = fs::read_to_string(file).expect("a list");
            let mut entries = text.lines().filter_map(|line| line.split(" # ").next());
            let rules = Entries::rules();
            let is = |text: &str| {
                let parsed = Canonical::parse(text.as_bytes(), rules).ok();
                parsed.map(|parsed| parsed.as_bytes().to_vec())
            };
            entries.any(|entry| is(entry).is_some() && is(entry) == is(sender))
        };
        fs::write(&white, "").expect("a list");
        let add = Command::new(bin)
            .arg("add")
            .arg("--")
            .arg(&list)
            .arg(sender)
            .output();
        // As an argument, `*@b` means the whole domain.
        let is_an_entry = add.expect("it runs").status.success() && !sender.starts_with('*');
        let rules = Entries::rules();
        let canonical = Canonical::parse(sender.as_bytes(), rules).expect("an address");
        let canonical = String::from_utf8_lossy(canonical.as_bytes()).into_owned();
        let all = undo::commands(
            sender,
            &canonical,
            &list.display().to_string(),
            Some(&white),
        );
        assert_eq!(all.len(), 3, "{sender}");
        for Undo { what, command } in &all {
            if command.contains(" remove ") && !is_an_entry {
                continue;
            }
            let shell = Command::new("sh")
                .args(["-c", command])
                .env("PATH", format!("{path}:/usr/bin:/bin"))
                .current_dir(folder.path())
                .output();
            let said = shell.expect("it runs");
            assert!(said.status.success(), "{what}: {command}: {said:?}");
        }
        assert!(lists(&white), "{sender}: {:?}", fs::read_to_string(&white));
        assert!(!is_an_entry || !lists(&list), "{sender}");
    }
    let names = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(names, 2, "no address became a command");
}

#[test]
fn ready_means_that_mail_is_checked_as_configured() {
    let config = format!("{CONFIG}\n[[list]]\nname = 'late'\nfilter = 'late.blf'\n");
    let rig = Rig::started(LISTS, &config);
    assert_eq!(rig.page("/healthz"), (200, "ok\n".to_owned()));
    let (code, why) = rig.page("/readyz");
    assert_eq!(code, 503);
    has(&why, "late.blf");
    has(&metrics(&rig), "list_available{list=\"late\"} 0\n");
    // Mail that is not checked as configured is critical.
    rig.milter(&["status"])
        .ends(2, &["critical: not serving as configured"]);
    rig.write("late.list", "@late.example\n");
    until("it is ready", || {
        (rig.page("/readyz").0 == 200).then_some(())
    });

    rig.write("c.toml", "nonsense");
    until("the reload is refused", || {
        let report = report(&rig);
        let reloads = report.reloads;
        (report.health == Health::Warning && reloads.is_old && reloads.refused > 0).then_some(())
    });
    assert_eq!(rig.page("/readyz").0, 200, "the old lists are in effect");
    rig.write("c.toml", &config);
    let well = "blocklist_milter_last_reload_successful 1\n";
    until("all is well", || metrics(&rig).contains(well).then_some(()));
}

/// The circuit breaker is on, and then a reload removes the limit: no report says any more that it
/// is on.
#[test]
fn the_circuit_breaker_is_off_without_a_limit() {
    let limited = format!("{CONFIG}[safety]\nmax_reject_share = '50%'\n");
    let rig = Rig::new(LISTS, &limited);
    let is_shown = || {
        let report = report(&rig);
        let is_problem = report
            .problems
            .iter()
            .any(|one| one.text.contains("circuit breaker"));
        assert_eq!(is_problem, report.messages.circuit_breaker);
        has(
            &metrics(&rig),
            &format!("circuit_breaker {}\n", u8::from(is_problem)),
        );
        is_problem
    };
    assert!(!is_shown());
    for _ in 0..100 {
        rig.is("<a@bad.example>", "reject");
    }
    rig.is("<a@bad.example>", "tag");
    assert!(is_shown());
    rig.write("c.toml", &limited.replace("'50%'", "'100%'"));
    rig.becomes("<a@bad.example>", "reject");
    assert!(!is_shown());
}

/// Twice as many as there are connections and space in the socket's queue, and they come again and
/// again.
#[test]
fn clients_that_ask_for_nothing_keep_no_monitor_waiting() {
    let rig = Rig::new(LISTS, CONFIG);
    let socket = rig.path("s.sock");
    let (is_over, crowds) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (socket, is_over, crowds) = (&socket, &is_over, &crowds);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let crowd = (0..40).filter_map(|_| UnixStream::connect(socket).ok());
                    let crowd: Vec<UnixStream> = crowd.collect();
                    for mut stream in &crowd {
                        // Some send nothing, some an incomplete request.
                        let _ = stream.write_all(&b"GET / HT"[..number * 2]);
                    }
                    crowds.fetch_add(1, Ordering::Relaxed);
                    // Until the daemon closes them.
                    for mut stream in crowd {
                        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                        let _ = stream.read(&mut [0]);
                    }
                }
            });
        }
        until("all have come", || {
            (crowds.load(Ordering::Relaxed) >= 4).then_some(())
        });
        let slowest = (0..10).map(|_| {
            let began = Instant::now();
            // It may be closed without an answer, but at once.
            let _ = fetch(&Endpoint::Unix(socket.clone()), "/healthz");
            began.elapsed()
        });
        let slowest = slowest.max();
        is_over.store(true, Ordering::Relaxed);
        assert!(slowest < Some(Duration::from_secs(4)), "{slowest:?}");
    });
    assert_eq!(rig.page("/healthz").0, 200);
}

/// They use up the connections for a while, but have no other effect.
#[test]
fn hostile_clients_of_the_status_socket_keep_no_mail_waiting() {
    let rig = Rig::new(LISTS, CONFIG);
    let connect = || {
        let stream = UnixStream::connect(rig.path("s.sock")).expect("it listens");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a socket");
        stream
    };
    let silent = (0..100).map(|_| {
        let mut stream = connect();
        stream.write_all(b"GET / HT").expect("the kernel takes it");
        stream
    });
    let silent: Vec<UnixStream> = silent.collect();
    play(&rig);
    drop(silent);
    assert_eq!(rig.page("/healthz").0, 200);
    // More than the header may have, and a body that is never read.
    let long = "x".repeat(100_000);
    for (sent, code) in [
        (
            &*format!("GET / HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
            "431",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n",
            "405",
        ),
        (&"\0\0\0\x0dO".repeat(100), "400"),
    ] {
        let mut stream = connect();
        // It may be closed before everything is sent.
        let _ = stream.write_all(sent.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code} ")),
            "{answer:?}"
        );
    }
    assert_eq!(rig.page("/healthz").0, 200);
}

#[test]
fn a_list_that_is_older_than_it_should_be_is_shown() {
    let limits = "max_age = '30d'\nmax_unchanged = '60d'\naction = 'tag'";
    let config = CONFIG.replace("action = 'tag'", limits);
    let rig = Rig::new(LISTS, &config);
    assert_eq!(rig.live.problems(), []);
    // Other entries, built long ago.
    let build = |days_ago: u64| {
        let list = rig.path("mild.list");
        fs::write(&list, "@mild.example\n@other.example\n").expect("a file");
        support::rig::compile_at(&list, clock::now_s() - days_ago * 86_400);
    };
    let is_stale = |limit: &str| {
        let line = format!("list_stale{{list=\"mild\",limit=\"{limit}\"}} 1\n");
        metrics(&rig).contains(&line)
    };
    build(70);
    until("it is too old", || is_stale("max_age").then_some(()));
    let problems = rig.live.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].severity, Health::Warning);
    has_all(
        &problems[0].text,
        &["list mild: too old: built 20", ", max_age is 30d"],
    );

    // Built again from the same entries: new, but unchanged.
    build(0);
    until("the new build is in effect", || {
        (!is_stale("max_age")).then_some(())
    });
    assert!(is_stale("max_unchanged"));
    let text = rig.live.problems().remove(0).text;
    has_all(
        &text,
        &["the same entries since 20", ", max_unchanged is 60d"],
    );
    rig.write("mild.list", "@mild.example\n@new.example\n");
    until("other entries", || {
        rig.live.problems().is_empty().then_some(())
    });
}

/// What the report beside a filter says is shown, without a reload that somebody asks for.
#[test]
fn a_list_that_was_not_compiled_is_shown_and_one_with_rejects() {
    let rig = Rig::new(LISTS, CONFIG);
    let filter = rig.path("spam.blf");
    let write = |report: &BuildReport| report.write(&filter).expect("our own folder");
    let problem = |report: &BuildReport, text: &str| {
        write(report);
        until(text, || {
            let problems = rig.live.problems();
            problems.first()?.text.contains(text).then_some(())
        });
    };
    let setup_check = || rig.milter(&["setup-check", "--json"]).out;
    let mut failed = BuildReport {
        time_s: clock::now_s(),
        failure: Some("own.txt: a binary file, not a list".to_owned()),
        ..BuildReport::default()
    };
    problem(&failed, "list spam: could not be compiled at 20");
    let said = rig.milter(&["status"]).ends(1, &[]).replace("\n    ", " ");
    has(&said, "own.txt: a binary file");
    let json = setup_check();
    assert_eq!(
        json.matches("could not be compiled at").count(),
        1,
        "{json}"
    );
    has(
        &json,
        "\"state\":\"wrong\",\"text\":\"list spam: could not be compiled at",
    );

    // An older failure is over. What cannot be read says nothing, and stops nothing.
    let none = || {
        until("no problem", || {
            rig.live.problems().is_empty().then_some(())
        });
    };
    failed.time_s = 1;
    write(&failed);
    none();
    let rejects = BuildReport {
        generation: Some(1),
        rejected: 7,
        rejects: vec![blocklist_milter::filter::Reason {
            reason: "two entries".to_owned(),
            count: 7,
            first: vec!["own.txt:3: a@b c@d".to_owned()],
        }],
        ..BuildReport::default()
    };
    problem(
        &rejects,
        "list spam: 7 lines rejected; own.txt:3: a@b c@d: two entries",
    );
    assert_eq!(setup_check().matches("7 lines rejected").count(), 1);
    fs::write(rig.path("spam.blf.report"), "{\"rejected\": \"many\"").expect("our own folder");
    none();
    play(&rig);
}

#[test]
fn the_command_shows_the_same_and_exits_by_health() {
    let rig = Rig::new(LISTS, CONFIG);
    let quiet = rig.milter(&["status"]).ok();
    has(&quiet, "since start  no messages\n");
    assert!(
        !quiet.contains("\nreasons") && !quiet.contains("\ntime"),
        "{quiet}"
    );
    play(&rig);
    let text = rig.milter(&["status"]).ok();
    let parts = [
        "blocklist-milter ",
        ": ok, up ",
        "8: accept 4, reject 3, tag 1",
        "generation 1",
    ];
    has_all(&text, &parts);
    has(&words(&text).join(" "), "3 refused, since the start");
    let fields = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        words(line.unwrap_or_default()).join(" ")
    };
    assert_eq!(fields("spam"), "spam reject 2 5 5");
    assert_eq!(fields("mild"), "mild tag 1 2 2");
    let json = rig.milter(&["status", "--json"]).json();
    assert_eq!(json["messages"]["verdicts"]["reject"], 3);

    // The daemon still has the old configuration; the command uses the address in the new one.
    rig.write("c.toml", &format!("{CONFIG}\nnonsense = 1\n"));
    let status = || rig.milter(&["status"]);
    let warned = until("a warning", || {
        Some(status()).filter(|said| said.code == Some(1))
    });
    let text = warned.all();
    has(&text, "warning: the last good configuration is in use: ");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{text}");

    // On a terminal, with its width, and colours.
    let asked = format!(
        "stty cols 70; {} status --config c.toml",
        env!("CARGO_BIN_EXE_blocklist-milter")
    );
    let mut script = std::process::Command::new("script");
    script
        .args(["-qec", &asked, "/dev/null"])
        .current_dir(rig.path(""));
    let shown = support::Said::of(
        script
            .env("TERM", "xterm")
            .env("TZ", "XYZ-3")
            .env_remove("NO_COLOR"),
    )
    .out;
    has(&shown, "\u{1b}[1mlist");
    has(&shown, "\u{1b}[1mWorking. Refused");
    has(&shown, " XYZ reject (");
    let plain = shown
        .replace("\u{1b}[1;31m", "")
        .replace("\u{1b}[1m", "")
        .replace("\u{1b}[0m", "");
    let fits = |line: &&str| {
        !line.starts_with("list ") && !line.starts_with("spam ") && !line.starts_with("mild ")
    };
    let longest = plain
        .lines()
        .filter(fits)
        .map(|line| line.trim_end().chars().count())
        .max();
    assert!(longest <= Some(70), "{plain}");

    let gone = format!("unix:{}", rig.path("gone.sock").display());
    let said = rig.milter(&["status", "--socket", &gone]);
    said.ends(2, &["no answer from the daemon", "is it running?"]);
}

/// Returns a browser's view of the page in a frame of this width: the width of its content, and its
/// texts.
fn view(chromium: &Path, folder: &Path, page: &str, width: u32) -> serde_json::Value {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let script = "const d = document.querySelector('iframe').contentDocument; \
        const text = id => d.getElementById(id)?.textContent; \
        const cells = id => [...d.querySelectorAll('#' + id + ' tbody tr')].map(r => [...r.cells].map(c => c.textContent)); \
        const rows = k => [...d.querySelectorAll('.row.' + k)].map(r => r.firstChild.textContent + ' ' + r.lastChild.textContent); \
        document.title = JSON.stringify({needs: d.documentElement.scrollWidth, health: text('health'), \
        refused: text('refused'), marked: text('marked'), accepted: text('accepted'), lists: cells('lists'), \
        hits: rows('hits'), source: rows('source'), last: cells('decisions'), \
        bars: d.querySelectorAll('svg rect').length, scripts: d.scripts.length})";
    let outer = format!(
        "<!doctype html><title>-</title><body style=\"margin:0\"><iframe style=\"border:0;width:{width}px;height:3000px\" \
         onload=\"setTimeout(() => {{ {script} }}, 0)\" srcdoc=\"{page}\"></iframe>"
    );
    let file = folder.join(format!("outer-{width}.html"));
    fs::write(&file, outer).expect("a file");
    let mut command = browser(chromium, folder);
    let output = command
        .args(["--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let (_, title) = dom.split_once("<title>").unwrap_or_default();
    let (title, _) = title.split_once("</title>").unwrap_or_default();
    let title = title.replace("&lt;", "<").replace("&gt;", ">");
    let title = title.replace("&amp;", "&");
    serde_json::from_str(&title).unwrap_or_else(|error| panic!("{error}: {title}\n{dom}"))
}

fn browser(chromium: &Path, folder: &Path) -> Command {
    let mut command = Command::new(chromium);
    // Its sandbox does not start as root. Everything it shows is ours.
    let options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars";
    command.args(words(options));
    command.arg(format!(
        "--user-data-dir={}",
        folder.join("profile").display()
    ));
    command
}

/// Saves a screenshot of each width in the folder `STATUS_SCREENSHOTS`, if that is set.
#[test]
fn a_browser_shows_what_was_played_on_a_phone_and_on_a_desk() {
    if !support::installed("chromium") {
        return;
    }
    let chromium = support::find_program("chromium").expect("just asked");
    let port = support::free_port();
    let long = "a-list-with-a-name-that-is-as-long-as-a-name-of-a-list-may-be-64";
    let config = CONFIG.replace("name = 'mild'", &format!("name = '{long}'"));
    let status = format!("[status]\nlisten = 'inet:{port}@127.0.0.1'\nshow_addresses = true\n");
    let rig = Rig::new(LISTS, &format!("{config}{status}"));
    play(&rig);
    let endpoint = Endpoint::Inet {
        host: "127.0.0.1".to_owned(),
        port,
        v6: false,
    };
    let (code, page) = fetch(&endpoint, "/").expect("it is served");
    assert_eq!(code, 200);
    let page = String::from_utf8(page).expect("UTF-8");
    let scratch = support::Scratch::new();
    for width in [390, 1280] {
        let seen = view(&chromium, scratch.path(), &page, width);
        assert_eq!(seen["needs"], width, "nothing stands out at the side");
        assert_eq!(seen["health"], "ok");
        let numbers = ["refused", "marked", "accepted"].map(|id| seen[id].as_str());
        assert_eq!(numbers, [Some("3"), Some("1"), Some("4")]);
        let list = |row: usize| {
            let cell = |cell: usize| seen["lists"][row][cell].as_str().unwrap_or_default();
            [0, 1, 2, 4, 5, 6].map(cell).join(" ")
        };
        assert_eq!(list(0), "spam reject 2 5 5 625.0");
        assert_eq!(list(1), format!("{long} tag 1 2 2 250.0"));
        let hits = serde_json::json!(["mail-from 3", "from 2", "mail-from 1", "reply-to 1"]);
        assert_eq!(seen["hits"], hits);
        assert_eq!(seen["source"], serde_json::json!(["spam 5", "mild 2"]));
        assert_eq!(seen["last"].as_array().map(Vec::len), Some(5));
        assert_eq!(seen["last"][1][1], "reject listed");
        has(&seen["last"][1][2].to_string(), "a@bad.example");
        assert!(seen["bars"].as_u64() >= Some(3), "{seen}");
        assert_eq!(seen["scripts"], 0);
    }
    // As the daemon serves it, with its security policy.
    let url = format!("http://127.0.0.1:{port}/");
    let mut command = browser(&chromium, scratch.path());
    let output = command.arg("--dump-dom").arg(&url).output();
    let dom = String::from_utf8_lossy(&output.expect("the browser runs").stdout).into_owned();
    has(&dom, "id=\"refused\">3</b>");
}

/// What was counted before the start: a week at a small site, which was away for two hours of the last day.
fn earlier_counts(now_s: u64) -> serde_json::Value {
    let counts = |time_s: u64, minutes: u64| {
        let hour = time_s / 3600 % 24;
        let busy = [
            2, 1, 1, 1, 2, 4, 9, 16, 22, 25, 24, 22, 20, 23, 24, 22, 19, 15, 11, 9, 7, 6, 4, 3,
        ];
        let weekday = if (time_s / 86_400 + 4) % 7 < 5 { 3 } else { 1 };
        let accept = busy[usize::try_from(hour).expect("an hour")] * weekday * minutes / 3 + 1;
        let noise = time_s / 60 % 7;
        serde_json::json!({"time_s": time_s, "verdicts":
            {"accept": accept + noise, "reject": accept * (2 + noise % 3) / 9, "tag": accept / 11}})
    };
    let away = now_s - 9 * 3600..now_s - 7 * 3600;
    let steps = |first_s: u64, step_s: u64| -> Vec<serde_json::Value> {
        let first_s = first_s - first_s % step_s;
        let all = (first_s..now_s).step_by(usize::try_from(step_s).expect("a step"));
        let all = all.filter(|time_s| !away.contains(time_s));
        all.map(|time_s| counts(time_s, step_s / 60)).collect()
    };
    let begin_s = now_s - 21 * 86_400;
    serde_json::json!({"history": {
        "minutes": {"steps": steps(now_s - 86_340, 60)},
        "hours": {"steps": steps(begin_s, 3600)},
        "hits": {"steps": [{"time_s": now_s - now_s % 3600 - 3600, "verdicts":
            {"spammers": 4_210, "all spammers": 4_190, "cleared spammers": 12, "all partner": 31, "trial partner": 31}}]},
        "periods": [[begin_s, away.start], [away.end, now_s - 10]],
    }})
}

/// Makes the pictures of `README.md`: `STATUS_SCREENSHOTS=contrib cargo test --test system status::pictures`.
#[test]
fn pictures_of_the_page() {
    let Some(folder) = std::env::var_os("STATUS_SCREENSHOTS") else {
        return;
    };
    let lists = [
        (
            "spammers.list",
            "@winner.example\n.rented-hosts.example\nlottery@prize.example\nnews@shop.example\n",
        ),
        ("partner.list", "@campaign.example\n"),
        ("disposable.list", "@ten-minutes.example\n"),
    ];
    let port = support::free_port();
    let config = format!(
        "[[list]]\nname = 'spammers'\nfilter = 'spammers.blf'\n\
         [[list]]\nname = 'partner'\nfilter = 'partner.blf'\ndry_run = true\n\
         [[list]]\nname = 'disposable'\nfilter = 'disposable.blf'\naction = 'tag'\n\
         [whitelist]\nentries = ['office@winner.example']\n\
         [status]\nlisten = 'inet:{port}@127.0.0.1'\nshow_addresses = true\n"
    );
    let rig = Rig::new(&lists, &config);
    fs::create_dir_all(rig.path("state")).expect("a folder");
    rig.write(
        "state/status.json",
        &earlier_counts(clock::now_s()).to_string(),
    );
    rig.service.restore();
    let mut peer = rig.peer();
    for number in 0..100 {
        let sender = match number % 20 {
            0..=2 => format!("bounce-{number}@winner.example"),
            3 => "lottery@prize.example".to_owned(),
            4 => format!("x{number}@node{}.rented-hosts.example", number % 9),
            5 => format!("visitor{number}@ten-minutes.example"),
            6 if number % 3 == 0 => "hello@campaign.example".to_owned(),
            7 if number < 60 => "office@winner.example".to_owned(),
            8 => "news@shop.example".to_owned(),
            _ => format!("customer{number}@ok.example"),
        };
        let to = format!("<user{}@our.example>", number % 13);
        let mail = TestMail::new(&format!("<{sender}>"), &[&to], &["From: a@ok.example"]);
        peer.deliver(&mail).expect("the daemon answers");
    }
    let chromium = support::find_program("chromium").expect("it makes the pictures");
    let scratch = support::Scratch::new();
    // 0 is dark, 1 is light.
    for (name, scheme) in [("status-page-dark.png", 0), ("status-page.png", 1)] {
        let file = Path::new(&folder).join(name);
        let mut command = browser(&chromium, scratch.path());
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--screenshot={}", file.display()));
        command.arg("--window-size=1180,1560");
        command.arg(format!("http://127.0.0.1:{port}/"));
        assert!(command.status().expect("the browser runs").success());
    }
}
