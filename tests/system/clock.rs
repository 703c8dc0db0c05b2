//! The clock of the machine jumps while the daemon runs, back and forth, by seconds and by decades.
//! Time limits of connections do not follow it, the expiry of entries does, and nothing stops.

use crate::support;

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use blocklist_milter::demo::peer::TestMail;
use support::compile::WITH_DAYS;
use support::rig::{OK, letter, verdict};
use support::site::{Daemon, Site, Transport};
use support::{run, until, usable};

/// The paths of the library in packages.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

const CONFIG: &str = "[[list]]\nname = \"spam\"\nfilter = \"@DIR@/spam.blf\"\nmax_age = \"none\"\n";

/// Days until the entries expire.
const DAYS: u32 = 10;

fn days_from_now(days: u32) -> String {
    let mut date = std::process::Command::new("date");
    let date = run(date.args(["-u", "-d", &format!("+{days} days"), "+%F"]));
    date.trim().to_owned()
}

/// The daemon, and the clock that it sees.
struct Clocked {
    site: Site,
    daemon: Daemon,
}

impl Clocked {
    /// Starts the daemon with these lines of a list; `None` if the clock cannot be faked.
    fn start(entries: &str, expires: &str, zone: &str) -> Option<Self> {
        let library = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
        let missing = library.is_none().then_some("libfaketime is not installed");
        if !usable("faketime", missing.map(str::to_owned)) {
            return None;
        }
        let library = library.unwrap_or_else(|| Path::new(""));
        let mut site = Site::new(Transport::Unix);
        site.configure(CONFIG);
        build(&site, entries, expires);
        jump(&site, "+0");
        let mut command = site.program_under("env", &[]);
        command
            .env("LD_PRELOAD", library)
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

fn build(site: &Site, entries: &str, expires: &str) {
    let name = if entries.starts_with("email,") {
        "spam.csv"
    } else {
        "spam.txt"
    };
    let list = site.write(name, entries);
    let mut command = site.program("blocklist-compile");
    command.args(["build", "--name", "spam", "--expires", expires]);
    if name == "spam.csv" {
        command.args(WITH_DAYS);
    }
    command.arg("-o");
    run(command.arg(site.at("spam.blf")).arg(list));
}

/// Sets the offset between the daemon's clock and ours, from now on.
fn jump(site: &Site, offset: &str) {
    let aside = site.write("clock.new", offset);
    fs::rename(aside, site.at("clock")).expect("our own folder");
}

fn mail(sender: &str) -> TestMail {
    letter(sender, &[OK])
}

/// Fails without the day of the message in `lookup`, or if deadlines use the time of day.
#[test]
fn the_clock_jumps_and_mail_goes_on() {
    let until_day = days_from_now(DAYS);
    let Some(clocked) = Clocked::start("spammer@listed.test\n", &until_day, "UTC") else {
        return;
    };
    let mut peer = clocked.site.peer();
    let (listed, innocent) = (mail("<spammer@listed.test>"), mail("<a@ok.example>"));
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
        jump(&clocked.site, offset);
        let asked = Instant::now();
        // The same connection, which is sometimes idle for decades.
        until(&format!("{expected} at {offset}"), || {
            let answer = verdict(&peer.deliver(&listed).expect("the connection lives"));
            (answer == expected).then_some(())
        });
        let answer = verdict(&peer.deliver(&innocent).expect("the connection lives"));
        assert_eq!(answer, "accept", "at {offset}");
        assert!(asked.elapsed().as_secs() < 10, "at {offset}");
    }
    // A new list is noticed while the clock is wrong.
    jump(&clocked.site, "-300d");
    build(
        &clocked.site,
        "spammer@listed.test\nother@listed.test\n",
        &until_day,
    );
    let other = mail("<other@listed.test>");
    until("the new list", || {
        let answer = verdict(&peer.deliver(&other).expect("the connection lives"));
        (answer == "reject").then_some(())
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
    let rows = MIDNIGHTS.map(|(day, number)| format!("u{number}@listed.test,2026-01-01,{day}\n"));
    let list = format!("email,added,expires\n{}", rows.concat());
    let Some(clocked) = Clocked::start(&list, "2149-06-05", "Pacific/Auckland") else {
        return;
    };
    let mut peer = clocked.site.peer();
    // The last first, so that the clock also goes back.
    for (day, number) in MIDNIGHTS.into_iter().rev() {
        let midnight = f64::from(number) * 86_400.0;
        let offset = (midnight - now_s() - 2.0).trunc();
        jump(&clocked.site, &format!("{offset:+}"));
        let listed = mail(&format!("<u{number}@listed.test>"));
        let (mut before, mut after) = (0, 0);
        while after < 3 {
            let began = now_s() + offset;
            let answer = verdict(&peer.deliver(&listed).expect("the connection lives"));
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
