//! The clock of the machine jumps while the daemon runs, back and forth, by seconds and by decades.
//! Time limits of connections do not follow it, the expiry of entries does, and nothing stops.

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::support::rig::{OK, letter, verdict};
use crate::support::site::{Daemon, Site, Transport};
use crate::support::{run, until_so, usable, words};
use blocklist_filter::base::clock;
use blocklist_filter::base::day::Day;
use blocklist_milter::demo::peer::Peer;

/// The paths of the library in packages.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

const CONFIG: &str = "[[list]]\nname = \"spam\"\nfilter = \"@DIR@/spam.blf\"\nmax_age = \"none\"\n";

/// The daemon, and the clock that it sees.
struct Clocked {
    site: Site,
    daemon: Daemon,
}

impl Clocked {
    /// Starts the daemon with these rows of a list; `None` if the clock cannot be faked.
    fn start(rows: &str, zone: &str) -> Option<Self> {
        let library = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
        let missing = library.is_none().then_some("libfaketime is not installed");
        if !usable("faketime", missing.map(str::to_owned)) {
            return None;
        }
        let mut site = Site::new(Transport::Unix);
        site.configure(CONFIG);
        build(&site, rows);
        jump(&site, "+0");
        let mut command = site.program_under("env", &[]);
        command
            .env("LD_PRELOAD", library?)
            .env("TZ", zone)
            .env("FAKETIME_TIMESTAMP_FILE", site.at("clock"))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let daemon = Daemon::spawn(command, &site.socket, site.at("daemon.log"));
        daemon.logged(&["listening"]);
        Some(Self { site, daemon })
    }

    fn end(self) {
        let log = self.daemon.log();
        assert!(!log.contains("internal error"), "{log}");
        assert!(self.daemon.terminate().success());
    }
}

/// Compiles these rows, with the day of expiry behind each address.
fn build(site: &Site, rows: &str) {
    site.write("spam.csv", &format!("email,expires\n{rows}"));
    let mut command = site.program("blocklist-compile");
    let line =
        "build --name spam -o spam.blf --entry email --rows all --expires-in expires spam.csv";
    run(command.args(words(line)));
}

/// Sets the offset between the daemon's clock and ours, from now on.
fn jump(site: &Site, offset: &str) {
    let aside = site.write("clock.new", offset);
    fs::rename(aside, site.at("clock")).expect("our own folder");
}

/// Sends a message on a connection that stays, and returns its verdict.
fn sent(peer: &mut Peer, sender: &str) -> String {
    let mail = letter(&format!("<{sender}>"), &[OK]);
    verdict(&peer.deliver(&mail).expect("the connection lives"))
}

/// Fails without the day of the message in `lookup`, or if deadlines use the time of day.
#[test]
fn the_clock_jumps_and_mail_goes_on() {
    // The list ends in ten days.
    let end = u16::try_from(clock::now_s() / 86_400).unwrap() + 10;
    let row = |sender| format!("{sender}@listed.test,{}\n", Day(end));
    let Some(clocked) = Clocked::start(&row("spammer"), "UTC") else {
        return;
    };
    let mut peer = clocked.site.peer();
    for offset in words("+0 +1 -1 +12d -12d +3650d -3650d +7300d +0") {
        let is_over = ["+12d", "+3650d", "+7300d"].contains(&offset);
        let expected = if is_over { "accept" } else { "reject" };
        jump(&clocked.site, offset);
        let asked = Instant::now();
        // The same connection, which is sometimes idle for decades.
        until_so(&format!("{expected} at {offset}"), || {
            sent(&mut peer, "spammer@listed.test") == expected
        });
        assert_eq!(sent(&mut peer, "a@ok.example"), "accept", "at {offset}");
        assert!(asked.elapsed().as_secs() < 10, "at {offset}");
    }
    // A new list is noticed while the clock is wrong.
    jump(&clocked.site, "-300d");
    build(&clocked.site, &[row("spammer"), row("other")].concat());
    until_so("the new list", || {
        sent(&mut peer, "other@listed.test") == "reject"
    });
    peer.quit().expect("the connection lives");
    clocked.end();
}

/// Returns the seconds since 1970 by our own clock, with fraction.
fn now_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs_f64()
}

/// Midnight UTC at a leap day, after one, in a year without one, and at the end of a year, on one
/// connection and in another time zone. Fails without `clock::today` for each message, or with
/// local days.
#[test]
fn entries_end_at_midnight_utc_while_mail_goes_on() {
    /// The day that begins at midnight, and its number since 1970-01-01.
    const MIDNIGHTS: [(&str, u32); 5] = [
        ("2027-01-01", 20_819),
        ("2028-02-29", 21_243),
        ("2028-03-01", 21_244),
        ("2100-03-01", 47_541),
        ("2149-06-05", 65_534),
    ];
    let rows = MIDNIGHTS.map(|(day, number)| format!("u{number}@listed.test,{day}\n"));
    let Some(clocked) = Clocked::start(&rows.concat(), "Pacific/Auckland") else {
        return;
    };
    let mut peer = clocked.site.peer();
    // The last first, so that the clock also goes back.
    for (day, number) in MIDNIGHTS.into_iter().rev() {
        let midnight = f64::from(number) * 86_400.0;
        let offset = (midnight - now_s() - 2.0).trunc();
        jump(&clocked.site, &format!("{offset:+}"));
        let listed = format!("u{number}@listed.test");
        let (mut before, mut after) = (0, 0);
        while after < 3 {
            let began = now_s() + offset;
            let answer = sent(&mut peer, &listed);
            let ended = now_s() + offset;
            // In between it is unknown which day the daemon saw.
            if ended < midnight {
                assert_eq!(answer, "reject", "{day}, {} s before", midnight - ended);
                before += 1;
            } else if began >= midnight {
                assert_eq!(answer, "accept", "{day}, {} s after", began - midnight);
                after += 1;
            }
        }
        assert!(before > 0, "{day}: nothing was sent before midnight");
    }
    peer.quit().expect("the connection lives");
    clocked.end();
}
