//! What a message and a connection cost the daemon in instructions, allocations and system calls, so that no change
//! costs more unseen. Of the debug build, which the tests have anyway; `benches/ratios` measures the release.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::one_at_a_time;
use crate::support::check::Said;
use crate::support::installed;
use crate::support::site::{Daemon, SPAM, Site};
use crate::support::until;
use crate::support::wire::Postfix;

/// Connections, and messages of each, in the smaller measurement.
const FEW: u64 = 4;
/// So many more of one of them in a greater one.
const MORE: u64 = 40;

/// Serves so many connections, with so many messages each, under another program, and reads what that wrote. Once a
/// minute the daemon writes its history down: where that fell into a measurement, it is made again.
fn served<T>(tool: (&str, &[&str]), played: (u64, u64), read: impl Fn(&str) -> Option<T>) -> T {
    let minute = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
            / 60
    };
    loop {
        let began = minute();
        let measured = served_once(tool, played, &read);
        if minute() == began {
            return measured;
        }
    }
}

fn served_once<T>(
    (program, arguments): (&str, &[&str]),
    (connections, messages): (u64, u64),
    read: impl Fn(&str) -> Option<T>,
) -> T {
    // Without a folder for its state, the daemon would look for one each second.
    let mut site = Site::spam(&["spammer@bad.example"], "");
    fs::create_dir(site.at("state")).unwrap();
    site.configure(&format!("state = \"@DIR@/state\"\n{SPAM}"));
    let command = site.program_under(program, arguments);
    let daemon = Daemon::spawn(command, &site.socket, site.at("daemon.log"));
    for _ in 0..connections {
        let mut postfix = Postfix::connect(site.unix());
        (0..messages).for_each(|_| postfix.message());
    }
    assert!(daemon.terminate().success());
    until("the program has measured", || {
        read(&fs::read_to_string(site.at("measured")).ok()?)
    })
}

/// Returns what each further message costs, then each further connection of [`FEW`] messages.
fn costs<const N: usize>(
    tool: (&str, &[&str]),
    read: impl Fn(&str) -> Option<[u64; N]>,
) -> [[u64; N]; 2] {
    let [base, messages, connections] = [(FEW, FEW), (FEW, FEW + MORE), (FEW + MORE, FEW)]
        .map(|played| served(tool, played, &read));
    let each = |many: [u64; N], times: u64| {
        std::array::from_fn(|at| many[at].saturating_sub(base[at]) / times)
    };
    [each(messages, FEW * MORE), each(connections, MORE)]
}

/// Reads the instructions and the allocations from what callgrind writes.
fn instructions_and_allocations(text: &str) -> Option<[u64; 2]> {
    let (mut names, mut called, mut allocations) = (HashMap::new(), "", 0);
    for line in text.lines() {
        if let Some(calls) = line.strip_prefix("calls=") {
            if ["malloc", "calloc", "realloc", "posix_memalign"].contains(&called) {
                allocations += calls.split(' ').next()?.parse::<u64>().ok()?;
            }
        } else if let Some(function) = line
            .strip_prefix("cfn=")
            .or_else(|| line.strip_prefix("fn="))
        {
            // The name comes with the first mention of the number.
            let (number, name) = function.split_once(' ').unwrap_or((function, ""));
            called = names.entry(number).or_insert(name);
        }
    }
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("summary: "))?;
    Some([total.parse().ok()?, allocations])
}

/// Returns the margin in per cent: the figures are those of one compiler and one kind of processor.
fn margin() -> u64 {
    let compiler = Said::of(Command::new("rustc").arg("--version")).ok();
    let same = compiler.starts_with("rustc 1.95.0 ")
        && fs::read_to_string("/proc/cpuinfo")
            .unwrap()
            .contains(" avx2 ");
    if same { 105 } else { 1000 }
}

/// If a change that is worth it costs more, write the new figures here.
#[test]
fn a_message_costs_what_it_did() {
    if !installed("valgrind") {
        return;
    }
    let _turn = one_at_a_time();
    let callgrind = ["--tool=callgrind", "--callgrind-out-file=measured"];
    let costs = costs(("valgrind", &callgrind), instructions_and_allocations);
    println!("instructions and allocations of a message, and of a connection: {costs:?}");
    let [message, connection] = costs;
    for ([instructions, allocations], measured, most) in
        [(message, 367_500, 0), (connection, 1_530_000, 2)]
    {
        assert!(instructions * 100 <= measured * margin(), "{costs:?}");
        assert!(allocations <= most, "{costs:?}");
    }
}

/// One message at a time: the daemon rests before each command that it answers. Servers with more to do share calls.
#[test]
fn a_message_takes_few_system_calls() {
    if !installed("strace") {
        return;
    }
    let _turn = one_at_a_time();
    // Detached, so that the daemon gets the signals.
    let strace = ["-D", "-f", "-c", "-o", "measured"];
    let costs = costs(("strace", &strace), |text| {
        let total = text.lines().find(|line| line.ends_with(" total"))?;
        Some([total.split_whitespace().nth(3)?.parse().ok()?])
    });
    println!("system calls of a message, and of a connection: {costs:?}");
    let [[message], [connection]] = costs;
    assert!(message <= 7 && connection <= 45, "{costs:?}");
}
