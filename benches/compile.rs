//! `blocklist-compile build` compared with other programs that convert a text list for look-ups:
//! fastbloom's filter (in memory, no file, no records) and tinycdb.
//!
//! ```text
//! cargo bench --bench compile -- --addresses 100000000 [--folder DIR] [--runs 3] [--threads 2]
//! ```
//!
//! The list is generated: addresses of about 30 bytes including the newline, domains drawn by
//! Zipf's law from 50,000, one letter in eight in upper case. It is written once and read from the
//! page cache. CPU time is that of the whole process (user and system, all threads) by the
//! process's CPU clock; for `cdb`, that of the child by the shell's `times`. Results are medians
//! over the runs.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use blocklist_compile::compile::{Plan, Progress, Seed, build};
use blocklist_compile::list;
use rustix::time::{ClockId, clock_gettime};

const DOMAINS: usize = 50_000;
/// Peers need minutes where the compiler needs seconds; tinycdb gets no more than this.
const CDB_ADDRESSES: u64 = 10_000_000;

struct Settings {
    addresses: u64,
    folder: PathBuf,
    runs: usize,
    threads: Option<usize>,
}

fn main() {
    let settings = settings();
    fs::create_dir_all(&settings.folder).expect("the folder can be made");
    let list = settings
        .folder
        .join(format!("addresses-{}.txt", settings.addresses));
    if !list.exists() {
        generate(&list, settings.addresses).expect("the list can be written");
    }
    let bytes = fs::metadata(&list).expect("the list is there").len();
    io::copy(
        &mut File::open(&list).expect("the list opens"),
        &mut io::sink(),
    )
    .expect("the list reads");
    println!(
        "{} addresses, {:.1} bytes a line, {} runs",
        settings.addresses,
        bytes as f64 / settings.addresses as f64,
        settings.runs
    );
    println!(
        "{:<34}{:>14}{:>14}{:>12}",
        "", "CPU ns each", "wall ns each", "wall / CPU"
    );

    for (name, records) in [("build --no-records", false), ("build, with records", true)] {
        measure(name, &settings, settings.addresses, || {
            compile(&list, &settings, records);
        });
    }
    measure(
        "fastbloom, one thread",
        &settings,
        settings.addresses,
        || fastbloom(&list, settings.addresses),
    );
    if Command::new("cdb").arg("-h").output().is_ok() {
        tinycdb(&list, &settings);
    } else {
        println!("tinycdb: no command `cdb` here (Debian: tinycdb)");
    }
}

fn settings() -> Settings {
    let mut settings = Settings {
        addresses: 10_000_000,
        folder: std::env::temp_dir().join("blocklist-bench"),
        runs: 3,
        threads: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("each option has a value");
        match word.as_str() {
            "--addresses" => settings.addresses = value().parse().expect("a number"),
            "--folder" => settings.folder = value().into(),
            "--runs" => settings.runs = value().parse().expect("a number"),
            "--threads" => settings.threads = Some(value().parse().expect("a number")),
            // cargo itself passes this.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    settings
}

fn measure(name: &str, settings: &Settings, addresses: u64, mut run: impl FnMut()) {
    let mut times: Vec<(Duration, Duration)> = (0..settings.runs)
        .map(|_| {
            let (cpu, wall) = (cpu_time(), Instant::now());
            run();
            (cpu_time() - cpu, wall.elapsed())
        })
        .collect();
    times.sort();
    let (cpu, wall) = times[times.len() / 2];
    show(name, addresses, cpu, wall);
}

fn show(name: &str, addresses: u64, cpu: Duration, wall: Duration) {
    let each = |time: Duration| time.as_secs_f64() * 1e9 / addresses as f64;
    println!(
        "{name:<34}{:>14.1}{:>14.1}{:>12.2}",
        each(cpu),
        each(wall),
        wall.as_secs_f64() / cpu.as_secs_f64()
    );
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.cast_unsigned(),
        time.tv_nsec.try_into().expect("below a second"),
    )
}

fn compile(list: &Path, settings: &Settings, records: bool) {
    let output = settings.folder.join("bench.blf");
    let mut plan = Plan::new(&output, vec![list.to_path_buf()]);
    plan.records = records;
    plan.seed = Seed::Fixed(7);
    plan.allow_world = true;
    plan.resources.threads = settings.threads.unwrap_or(plan.resources.threads);
    let report = build(&plan, &Progress::new()).expect("the list compiles");
    assert_eq!(report.rejected, 0, "{report}");
}

/// The least that the peer needs for the same job: read lines, lower case, insert.
fn fastbloom(list: &Path, addresses: u64) {
    let text = fs::read(list).expect("the list reads");
    let items = usize::try_from(addresses).expect("addresses fit into memory");
    let mut filter = fastbloom::BloomFilter::with_false_pos(1e-6).expected_items(items);
    let mut lower = Vec::new();
    for line in list::lines(&text) {
        lower.clear();
        lower.extend(line.iter().map(u8::to_ascii_lowercase));
        filter.insert(lower.as_slice());
    }
    std::hint::black_box(filter);
}

/// `cdb -c -m` makes a constant database from lines of key and value.
fn tinycdb(list: &Path, settings: &Settings) {
    let addresses = settings.addresses.min(CDB_ADDRESSES);
    let (input, output) = (
        settings.folder.join("cdb.txt"),
        settings.folder.join("bench.cdb"),
    );
    let text = fs::read(list).expect("the list reads");
    let mut out = BufWriter::new(File::create(&input).expect("the input can be made"));
    for line in list::lines(&text).take(usize::try_from(addresses).expect("it fits")) {
        out.write_all(&line.to_ascii_lowercase())
            .and_then(|()| out.write_all(b" 1\n"))
            .expect("the input can be written");
    }
    out.flush().expect("the input can be written");
    let started = Instant::now();
    let script = r#"cdb -c -m "$1" "$2" && times"#;
    let done = Command::new("bash")
        .args(["-c", script, "bash"])
        .args([&output, &input])
        .output()
        .expect("cdb runs");
    assert!(done.status.success(), "cdb failed");
    let cpu = String::from_utf8_lossy(&done.stdout)
        .lines()
        .nth(1)
        .map_or(Duration::ZERO, children_time);
    show(
        &format!("cdb -c, {addresses} addresses"),
        addresses,
        cpu,
        started.elapsed(),
    );
}

/// Returns the sum of `0m1.234s 0m0.056s`.
fn children_time(line: &str) -> Duration {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    Duration::from_secs_f64(line.split_whitespace().filter_map(seconds).sum())
}

/// Writes a list of distinct addresses, the same each time.
fn generate(path: &Path, addresses: u64) -> io::Result<()> {
    const NAMES: [&str; 16] = [
        "anna",
        "bernd",
        "carla",
        "dmitri",
        "elena",
        "farid",
        "grace",
        "hiroshi",
        "info",
        "julia",
        "kofi",
        "liu",
        "maria",
        "newsletter",
        "olga",
        "promo",
    ];
    const ENDINGS: [&str; 6] = [
        ".example",
        ".com.example",
        ".test",
        ".net.test",
        ".org.example",
        ".co.test",
    ];
    let mut random = Random(1);
    let domains: Vec<String> = (0..DOMAINS)
        .map(|n| {
            format!(
                "{}{n}{}",
                ["mail", "offers", "host", "cloud"][n % 4],
                ENDINGS[n % 6]
            )
        })
        .collect();
    // Cumulative weights 1/rank, searched by bisection.
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=DOMAINS)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut line = String::new();
    for n in 0..addresses {
        line.clear();
        let word = random.next();
        let draw = (word >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        let domain = &domains[cumulated
            .partition_point(|upto| *upto < draw)
            .min(DOMAINS - 1)];
        let _ = write!(line, "{}.{n}@{domain}", NAMES[(word % 16) as usize]);
        let mut upper = random.next();
        for byte in line.bytes() {
            let byte = if upper & 7 == 0 {
                byte.to_ascii_uppercase()
            } else {
                byte
            };
            upper = upper.rotate_right(3);
            out.write_all(&[byte])?;
        }
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
