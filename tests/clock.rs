//! The clock of the machine jumps while the daemon runs: to and fro, by seconds and by decades. Time limits of
//! connections do not follow it, the day on which an entry ends does, and nothing stops.

mod support;

use std::fs;
use std::path::Path;
use std::time::Instant;

use blocklist_milter::demo::peer::{Peer, TestMail};
use support::rig::verdict;
use support::site::{Daemon, Site, Socket, Transport};
use support::{run, until, usable};

/// Where packages put it.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

const CONFIG: &str = "[[list]]\nname = \"spam\"\nfilter = \"@DIR@/spam.blf\"\nmax_age = \"none\"\n";

/// Days in which the entries end.
const DAYS: u32 = 10;

fn days_from_now(days: u32) -> String {
    let mut date = std::process::Command::new("date");
    let date = run(date.args(["-u", "-d", &format!("+{days} days"), "+%F"]));
    date.trim().to_owned()
}

/// Without the day of the message in `lookup`, or with deadlines of the clock of the day, this fails.
#[test]
fn the_clock_jumps_and_mail_goes_on() {
    let library = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
    let obstacle = library
        .is_none()
        .then(|| "libfaketime is not installed".to_owned());
    if !usable("faketime", obstacle) {
        return;
    }
    let library = library.unwrap_or_else(|| Path::new(""));
    let mut site = Site::new(Transport::Unix);
    site.configure(CONFIG);
    let folder = site.path().to_owned();
    let until_day = days_from_now(DAYS);
    let build = |entries: &str| {
        let list = site.write("spam.txt", entries);
        run(site
            .program("blocklist-compile")
            .args(["build", "--name", "spam", "--expires", &until_day, "-o"])
            .arg(folder.join("spam.blf"))
            .arg(list));
    };
    let jump = |offset: &str| {
        fs::write(folder.join("clock.new"), offset).expect("our own folder");
        fs::rename(folder.join("clock.new"), folder.join("clock")).expect("our own folder");
    };
    build("spammer@listed.test\n");
    jump("+0");

    let mut command = site.program_under("env", &[]);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", folder.join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let daemon = Daemon::spawn(command, &site.socket, folder.join("daemon.log"));
    daemon.logged(&["listening"]);
    let Socket::Unix(path) = &site.socket else {
        unreachable!("asked for a unix socket")
    };
    let mut peer = Peer::unix(path).expect("the daemon listens");
    peer.stranger().expect("the daemon answers");
    let listed = TestMail::new(
        "<spammer@listed.test>",
        &["<bob@our.example>"],
        &["From: a@ok.example"],
    );
    let innocent = TestMail::new(
        "<a@ok.example>",
        &["<bob@our.example>"],
        &["From: a@ok.example"],
    );
    let jumps = [
        ("+0", "reject"),
        ("+1", "reject"),
        ("-1", "reject"),
        ("+12d", "accept"),
        ("-12d", "reject"),
        ("+3650d", "accept"),
        ("-3650d", "reject"),
        ("+7300d", "accept"),
        ("+0", "reject"),
    ];
    for (offset, expected) in jumps {
        jump(offset);
        let asked = Instant::now();
        // One and the same connection, which is idle for decades at times.
        until(&format!("{expected} at {offset}"), || {
            let answer = verdict(&peer.deliver(&listed).expect("the connection lives"));
            (answer == expected).then_some(())
        });
        let answer = verdict(&peer.deliver(&innocent).expect("the connection lives"));
        assert_eq!(answer, "accept", "at {offset}");
        assert!(asked.elapsed().as_secs() < 10, "at {offset}");
    }
    // A new list is noticed while the clock is wrong.
    jump("-300d");
    build("spammer@listed.test\nother@listed.test\n");
    let other = TestMail::new(
        "<other@listed.test>",
        &["<bob@our.example>"],
        &["From: a@ok.example"],
    );
    until("the new list", || {
        let answer = verdict(&peer.deliver(&other).expect("the connection lives"));
        (answer == "reject").then_some(())
    });
    peer.quit().expect("the connection lives");
    assert!(!daemon.log().contains("internal error"), "{}", daemon.log());
    assert!(daemon.terminate().success());
}
