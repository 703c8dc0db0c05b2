//! The time of `blocklist-milter report` for a million lines of the daemon's log, in each format.
//!
//! `cargo bench --bench report`

use std::fmt::Write as _;
use std::path::PathBuf;

use blocklist_milter::logs::{History, Options, summarize};
use divan::Bencher;

fn main() {
    divan::main();
}

const LINES: usize = 1_000_000;
/// 2026-11-21T00:00:00Z
const START_S: usize = 1_795_219_200;

/// Returns a decision of a day at a site: most mail is accepted, every fifth message is refused, by
/// 50,000 entries of which a few refuse most.
fn decision(n: usize) -> String {
    let mut line = format!(
        "queue_id=4c{n:08x} client=198.51.{}.{}",
        n % 256,
        n / 256 % 256
    );
    // Distributed like random numbers, but the same each time.
    let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let entry = if spread.is_multiple_of(2) {
        spread % 50
    } else {
        spread % 50_000
    };
    let hit = |line: &mut String, action: &str| {
        let _ = write!(
            line,
            " recipient=\"<user{}@our.example>\" identity=\"mail-from\" \
             address=\"spam{entry}@listed{}.example\" entry=\"spam{entry}@listed{}.example\" \
             list=spammers source=\"feed{}\" action={action} reason=listed case=0tp{n:06x}",
            n % 300,
            entry % 900,
            entry % 900,
            entry % 5,
        );
    };
    match n % 20 {
        0..=3 => hit(&mut line, "reject"),
        4 => hit(&mut line, "tag"),
        5 | 6 => line.push_str(
            " identity=\"mail-from\" address=\"bob@our.example\" action=accept reason=authenticated",
        ),
        _ => line.push_str(" action=accept reason=unlisted"),
    }
    let _ = write!(line, " us={}", 20 + n % 80);
    line
}

fn log(form: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let mut text = String::new();
    for n in 0..LINES {
        let second = n * 86_400 / LINES;
        let (hour, minute, rest) = (second / 3600, second / 60 % 60, second % 60);
        let line = decision(n);
        let _ = match form {
            "own" => writeln!(
                text,
                "2026-11-21T{hour:02}:{minute:02}:{rest:02}.{:06}Z  INFO message {line}",
                n % 1_000_000
            ),
            "syslog" => writeln!(
                text,
                "Nov 21 {hour:02}:{minute:02}:{rest:02} mx blocklist-milter[711]:  INFO message {line}"
            ),
            _ => writeln!(
                text,
                "{{\"__CURSOR\":\"s=0639;i={n:x};b=a8\",\"__REALTIME_TIMESTAMP\":\"{}\",\
                 \"__MONOTONIC_TIMESTAMP\":\"{n}\",\"_BOOT_ID\":\"0123456789abcdef0123456789abcdef\",\
                 \"_TRANSPORT\":\"stdout\",\"PRIORITY\":\"6\",\"SYSLOG_FACILITY\":\"3\",\
                 \"SYSLOG_IDENTIFIER\":\"blocklist-milter\",\"_UID\":\"998\",\"_GID\":\"998\",\
                 \"_COMM\":\"blocklist-milte\",\"_EXE\":\"/usr/sbin/blocklist-milter\",\
                 \"_CMDLINE\":\"/usr/sbin/blocklist-milter --config /etc/blocklist-milter/blocklist-milter.toml\",\
                 \"_SYSTEMD_UNIT\":\"blocklist-milter.service\",\"_HOSTNAME\":\"mx\",\"_PID\":\"711\",\
                 \"MESSAGE\":\" INFO message {}\"}}",
                (START_S + second) * 1_000_000,
                line.replace('"', "\\\"")
            ),
        };
    }
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

/// The daemon's own format, syslog's, and `journalctl -o json`.
#[divan::bench(args = ["own", "syslog", "journal-json"], sample_count = 5, sample_size = 1)]
fn a_million_lines(bencher: Bencher<'_, '_>, form: &str) {
    let (_folder, path) = log(form);
    let options = Options {
        now: 1_795_310_000, // the day after
        ..Options::default()
    };
    bencher.bench_local(|| {
        let found = summarize(
            std::slice::from_ref(&path),
            &options,
            &mut History::default(),
        )
        .expect("a summary");
        assert_eq!((found.messages, found.other_lines), (LINES as u64, 0));
    });
}
