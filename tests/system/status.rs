//! The daemon's reports about itself: their numbers are compared with the messages that were
//! played.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use blocklist_filter::address::Canonical;
use blocklist_milter::daemon::{Asker, Service as _, fetch};
use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::endpoint::Endpoint;
use blocklist_milter::policy::Entries;
use blocklist_milter::sender::Identity;
use blocklist_milter::serve::Blocklists;
use blocklist_milter::snapshot::{Live, Start};
use blocklist_milter::status::{Health, Log, Report};
use blocklist_milter::undo::{self, Undo};

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use crate::support::rig::{Rig, letter, verdict};
use crate::support::tools::is_root;
use crate::support::{self, Said, compiler, has, has_all, until_so, words};

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

/// Also those of a list that is removed for a while.
#[test]
fn the_counts_of_a_list_outlive_reloads() {
    let rig = Rig::new(LISTS, CONFIG);
    play(&rig);
    let reloaded = |count: u64| until_so("a reload", || rig.live.reloads().good >= count);
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
        until_so(kind, || traffic.protocol_errors.get(kind) == 1);
    }
    assert_eq!(traffic.protocol_errors.sum(), 3);
    assert_eq!(traffic.opened.get(), 4);
    peer.quit().expect("nothing is left over");
    until_so("all are closed", || traffic.open() == 0);
}

/// The counts of messages and hits after `play`, and after a message whose two recipients are both
/// refused. All others are 0.
const COUNTED: &str = "
    messages_total{verdict=\"accept\"} 4
    messages_total{verdict=\"reject\"} 4
    messages_total{verdict=\"tag\"} 1
    messages_by_door_total{door=\"milter\"} 9
    messages_by_reason_total{reason=\"listed\"} 5
    messages_by_reason_total{reason=\"unlisted\"} 2
    messages_by_reason_total{reason=\"whitelisted\"} 1
    messages_by_reason_total{reason=\"network\"} 1
    list_messages_total{list=\"spam\",verdict=\"accept\"} 1
    list_messages_total{list=\"spam\",verdict=\"reject\"} 4
    list_messages_total{list=\"mild\",verdict=\"tag\"} 1
    list_hits_total{list=\"spam\",identity=\"mail-from\"} 4
    list_hits_total{list=\"spam\",identity=\"from\"} 2
    list_hits_total{list=\"mild\",identity=\"mail-from\"} 1
    list_hits_total{list=\"mild\",identity=\"reply-to\"} 1
    list_source_hits_total{list=\"spam\",source=\"spam\"} 6
    list_source_hits_total{list=\"mild\",source=\"mild\"} 2
    list_whitelisted_hits_total{list=\"spam\"} 1
";

#[test]
fn metrics_and_json_count_every_message_once_and_every_hit() {
    let rig = Rig::new(LISTS, CONFIG);
    let both = ["<bob@our.example>", "<al@our.example>"];
    let refused = rig.deliver(&TestMail::new("<a@bad.example>", &both, &[]));
    assert_eq!(verdict(&refused), "reject");
    play(&rig);
    assert_eq!(rig.live.counters.messages(), 9);
    let (code, metrics) = rig.page("/metrics");
    assert_eq!(code, 200);
    let kinds = [
        "messages_total{",
        "messages_by_",
        "list_messages_",
        "list_hits_",
    ];
    let is_count = |line: &&str| {
        let kinds = [&kinds[..], &["list_source_", "list_whitelisted_"]].concat();
        !line.ends_with(" 0") && kinds.iter().any(|kind| line.starts_with(kind))
    };
    let all = metrics.lines();
    let all = all.filter_map(|line| line.strip_prefix("blocklist_milter_"));
    let counted: BTreeSet<&str> = all.clone().filter(is_count).collect();
    let expected = COUNTED.trim().lines().map(str::trim).collect();
    assert_eq!(counted, expected);
    for line in [
        "message_duration_seconds_bucket{le=\"+Inf\"} 9",
        "message_duration_seconds_count 9",
        "connections_total 9",
        "list_entries{list=\"spam\"} 2",
        "list_generation{list=\"mild\"} 1",
        "last_reload_successful 1",
        "whitelist_entries 1",
    ] {
        assert!(all.clone().any(|found| found == line), "{line}: {metrics}");
    }
    let has_address = metrics.contains('@') || metrics.contains(".example");
    assert!(!has_address, "{metrics}");

    let json = rig.page("/status.json").1;
    let report: Report = serde_json::from_str(&json).expect("JSON");
    assert_eq!(report.health, Health::Ok);
    assert_eq!((report.messages.total, report.whitelist_entries), (9, 1));
    assert_eq!(report.lists[0].hits["from"], 2);
    assert_eq!(report.lists[0].hits_24h, 6);
    let minutes = report.minutes.iter();
    let minutes = minutes.flat_map(|minute| minute.verdicts.values());
    assert_eq!(minutes.sum::<u64>(), 9);
    assert_eq!(rig.page("/nothing").0, 404);
}

/// Over TCP it is unknown who asks. Only root can ask as another user.
#[test]
fn addresses_are_shown_to_root_and_the_daemons_user_alone() {
    let sees = |fetch: &dyn Fn(&str) -> (u16, String)| {
        let has_one = |path| fetch(path).1.contains("bad.example");
        // What is not shown is not found, either.
        let [(_, found), (code, _)] = [
            "/log.json?q=a%40bad.example",
            "/explain?address=a%40bad.example",
        ]
        .map(fetch);
        let mut all = ["/", "/log", "/log.json", "/status.json"]
            .map(has_one)
            .to_vec();
        all.extend([!found.contains("\"decisions\":[]"), code == 200]);
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{all:?}");
        all[0]
    };
    let rig = Rig::new(LISTS, CONFIG);
    play(&rig);
    assert!(sees(&|path| rig.page(path)));
    let open = |path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    open(rig.path(""), 0o755);
    open(rig.path("s.sock"), 0o666);
    let stranger = |path: &str| {
        let ask = || {
            let nobody = Uid::from_raw(65_534);
            // Of this thread alone.
            set_thread_res_uid(nobody, nobody, nobody).expect("root may");
            rig.page(path)
        };
        std::thread::scope(|scope| scope.spawn(ask).join().expect("no panic"))
    };
    if is_root() {
        assert!(!sees(&stranger));
        // The setting decides what is shown, not what is kept.
        for shown in [true, false] {
            rig.write(
                "c.toml",
                &format!("{CONFIG}[status]\nshow_addresses = {shown}\n"),
            );
            until_so("a reload", || {
                stranger("/log.json").1.contains("bad.example") == shown
            });
            assert_eq!(sees(&stranger), shown);
            assert!(sees(&|path| rig.page(path)));
        }
    }

    let port = support::free_port();
    let rig = Rig::new(
        LISTS,
        &format!("{CONFIG}[status]\nlisten = 'inet:{port}@127.0.0.1'\n"),
    );
    play(&rig);
    let (host, v6) = ("127.0.0.1".to_owned(), false);
    let endpoint = Endpoint::Inet { host, port, v6 };
    assert!(!sees(&|path| {
        let (code, page) = fetch(&endpoint, path).expect("it is served");
        (code, String::from_utf8(page).expect("UTF-8"))
    }));
}

/// Returns the decisions that a search finds, as `action reason list sender`, the newest first.
fn found(service: &Blocklists, query: &str) -> Vec<String> {
    let page = service.page(&format!("/log.json?{query}"), Asker::Administrator);
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
    let rig = Rig::new(LISTS, CONFIG);
    play(&rig);
    let find = |query: &str| found(&rig.service, query);
    let all = find("");
    let mail_from = "reject listed spam a@bad.example";
    let has_one = |begin: &str| all.iter().any(|one| one.starts_with(begin));
    let is_complete = all.len() > 3 && all.iter().any(|one| one == mail_from);
    assert!(
        is_complete && has_one("accept whitelisted spam "),
        "{all:?}"
    );
    assert_eq!(find("action=tag").len(), 1);
    assert_eq!(find("q=A%40BAD+mail-from&list=spam")[0], mail_from);
    assert_eq!(find("q=nobody&list=spam"), [""; 0]);
    let most = " Entries with most of the last decisions: @bad.example 3, friend@bad.example 1.";
    let undo = "blocklist-compile add -- ";
    for (path, parts) in [
        ("/", [" Last hit: ", most]),
        ("/log?q=bad.example", ["a@bad.example", undo]),
    ] {
        let (code, page) = rig.page(path);
        assert_eq!(code, 200);
        has_all(&page, &parts);
    }
    assert!(!rig.page("/metrics").1.contains("bad.example"));
    rig.milter(&["log", "--list", "spam", "bad.example"])
        .ends(0, &["reject", "a@bad.example", "case "]);

    fs::create_dir_all(rig.path("state")).expect("a folder");
    rig.service.status.save();
    let kept = fs::metadata(rig.path("state/status.json")).expect("just saved");
    assert_eq!(kept.permissions().mode() & 0o777, 0o600, "it has addresses");
    let live = Arc::new(Live::start(Start::read(&rig.path("c.toml"))));
    let next = Blocklists::new(live, Arc::default()).expect("threads");
    next.status.restore();
    assert_eq!(found(&next, ""), all);
}

/// Each command runs in a shell as it is shown, and does what it says.
#[test]
fn what_undoes_a_decision_can_be_pasted() {
    let folder = support::Scratch::new();
    let [white, list] = ["white list.txt", "own.txt"].map(|name| folder.at(name));
    let bin = Path::new(env!("CARGO_BIN_EXE_blocklist-compile")).parent();
    let path = format!("{}:/usr/bin:/bin", bin.expect("a folder").display());
    let canonical = |text: &str| {
        let parsed = Canonical::parse(text.as_bytes(), Entries::rules()).ok();
        parsed.map(|parsed| String::from_utf8_lossy(parsed.as_bytes()).into_owned())
    };
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
        "<Spam+x@Bad.example>",
    ] {
        let is = canonical(sender).expect("an address");
        let lists = |file: &Path| {
            let text = fs::read_to_string(file).expect("a list");
            let mut entries = text.lines().filter_map(|line| line.split(" # ").next());
            entries.any(|entry| canonical(entry).as_ref() == Some(&is))
        };
        fs::write(&white, "").expect("a list");
        let mut add = compiler();
        let added = Said::of(add.args(["add", "--"]).arg(&list).arg(sender));
        // As an argument, `*@b` means the whole domain.
        let is_an_entry = added.code == Some(0) && !sender.starts_with('*');
        let all = undo::commands(sender, &is, &list.display().to_string(), Some(&white));
        assert_eq!(all.len(), 3, "{sender}");
        assert!(all[2].command.contains(" remove "), "{all:?}");
        // The domain comes first where the next mail has another address.
        let is_domain = all[0].command.ends_with(" @bad.example");
        assert_eq!(is_domain, sender.starts_with("bounce-"), "{all:?}");
        for Undo { what, command } in &all {
            if command.contains(" remove ") && !is_an_entry {
                continue;
            }
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).current_dir(folder.path());
            let said = Said::of(shell.env("PATH", &path));
            assert_eq!(said.code, Some(0), "{what}: {command}: {said:?}");
        }
        assert!(lists(&white), "{sender}: {:?}", fs::read_to_string(&white));
        assert!(!is_an_entry || !lists(&list), "{sender}");
    }
    let names = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(names, 2, "no address became a command");
}

/// Between an upgrade and the restart of the daemon, the command is of another version.
#[test]
fn a_report_of_another_version_is_read() {
    let text = r#"{"lists": [{"filter": {}}], "decisions": [{"undo": [{}]}], "minutes": [{}],
        "problems": [{}], "messages": {}, "durations": {}, "connections": {}, "reloads": {}, "new": 1}"#;
    let report: Report = serde_json::from_str(text).expect("a report");
    assert_eq!((report.lists.len(), report.decisions.len()), (1, 1));
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
        until_so("all have come", || crowds.load(Ordering::Relaxed) >= 4);
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
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n");
    let body = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n";
    let other = "\0\0\0\x0dO".repeat(100);
    for (sent, code) in [(&*long, "431"), (body, "405"), (&other, "400")] {
        let mut stream = connect();
        // It may be closed before everything is sent.
        let _ = stream.write_all(sent.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let begin = format!("HTTP/1.1 {code} ");
        assert!(answer.starts_with(&begin), "{answer:?}");
    }
    assert_eq!(rig.page("/healthz").0, 200);
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
    let dom = dump(chromium, folder, &format!("file://{}", file.display()));
    let (_, title) = dom.split_once("<title>").unwrap_or_default();
    let (title, _) = title.split_once("</title>").unwrap_or_default();
    let title = title.replace("&lt;", "<").replace("&gt;", ">");
    let title = title.replace("&amp;", "&");
    serde_json::from_str(&title).unwrap_or_else(|error| panic!("{error}: {title}\n{dom}"))
}

/// Returns the document that the browser makes of a page.
fn dump(chromium: &Path, folder: &Path, url: &str) -> String {
    let mut command = browser(chromium, folder);
    command.args(["--virtual-time-budget=3000", "--dump-dom", url]);
    let output = command.output().expect("the browser runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn browser(chromium: &Path, folder: &Path) -> Command {
    let mut command = Command::new(chromium);
    // Its sandbox does not start as root. Everything it shows is ours.
    let options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars";
    let profile = folder.join("profile");
    command.args(words(options));
    command.arg(format!("--user-data-dir={}", profile.display()));
    command
}

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
    let (host, v6) = ("127.0.0.1".to_owned(), false);
    let (code, page) = fetch(&Endpoint::Inet { host, port, v6 }, "/").expect("it is served");
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
    has(
        &dump(&chromium, scratch.path(), &url),
        "id=\"refused\">3</b>",
    );
}
