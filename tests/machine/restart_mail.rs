//! Restarts with a real Postfix and `milter_default_action = accept`, and with a real Exim that accepts
//! while nobody answers: a message that the daemon misses is delivered.
//!
//! The socket and the connections stay open between two processes, each of which is started from a
//! new file of the program. All messages are from a listed sender, in the envelope or in a header,
//! in sessions that never pause and in others that pause at any command. Each must be refused by
//! name: an unfiltered message would be accepted.

use crate::support;

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use support::check::Random;
use support::exim::Exim;
use support::manager::{LISTED, Manager};
use support::mta::{Mta, WhenDown};
use support::postfix::Postfix;
use support::site::SPAM;
use support::smtp::{Mail, Reply, Smtp};
use support::tools::End;
use support::{until, usable};

/// Sessions that never pause, and sessions that do.
const QUICK: u64 = 3;
const SLOW: u64 = 12;
/// Messages in a session.
const MESSAGES: usize = 4;
/// Least number of messages between two restarts.
const BETWEEN: usize = 100;

fn is_refused(reply: &Reply, place: &str) {
    let by_name = reply.code == 550 && reply.text.contains(LISTED);
    assert!(by_name, "{place}: {reply}");
}

/// Returns a message with a listed sender, in a header or in the envelope.
fn listed(in_header: bool) -> Mail {
    let mail = Mail::innocent("a listed sender");
    match in_header {
        true => mail.header(&format!(
            "From: Spam <{LISTED}>\r\nTo: reader@local.test\r\n"
        )),
        false => mail.from(&format!("<{LISTED}>")),
    }
}

/// Runs a session of refused messages, with `pause` before each command.
fn session(port: u16, mut pause: impl FnMut()) {
    let (mut smtp, banner) = Smtp::open(port);
    assert_eq!(banner.code, 220, "{banner}");
    let mut say = |command: &str, code: u16| {
        pause();
        let reply = smtp.say(command);
        assert!(code == 0 || reply.code == code, "{command}: {reply}");
        reply
    };
    say("EHLO client.test", 250);
    for number in 0..MESSAGES {
        let in_header = number % 2 == 0;
        let mail = listed(in_header);
        say(&format!("MAIL FROM:{}", mail.from), 250);
        let rcpt = format!("RCPT TO:{}", mail.recipients[0]);
        if in_header {
            say(&rcpt, 250);
            say("DATA", 354);
            let content = format!(
                "{}Subject: {}\r\n\r\n{}.",
                mail.header, mail.subject, mail.body
            );
            is_refused(&say(&content, 0), "header");
        } else {
            is_refused(&say(&rcpt, 0), "envelope");
            say("RSET", 250);
        }
    }
    say("QUIT", 221);
}

/// Restarts `count` times, with at least `pace` between two restarts, and checks how many messages
/// were refused.
///
/// Fails at the first restart without `handover::give` in `Daemon::stop`.
fn restarts<M: Mta>(count: u32, pace: Duration, pause_ms: u64) {
    if !usable(M::NAME, M::obstacle()) {
        return;
    }
    let mut manager = Manager::new(true);
    // For Exim, which has no milters.
    manager.site.doors = &["policy"];
    manager.site.configure(SPAM);
    manager.restart();
    let mta = M::start(&manager.site.socket, WhenDown::Accept);
    let port = mta.port();
    let over = AtomicBool::new(false);
    let messages = AtomicUsize::new(0);
    let paused = AtomicUsize::new(0);
    let began = Instant::now();
    thread::scope(|scope| {
        // Also if a restart fails.
        let _end = End(&over);
        for seed in 0..QUICK + SLOW {
            let (over, messages, paused) = (&over, &messages, &paused);
            scope.spawn(move || {
                // A client that gets a wrong answer ends the test, not only itself.
                let _end = End(over);
                let mut random = Random(seed);
                while !over.load(SeqCst) {
                    session(port, || {
                        if seed >= QUICK && !over.load(SeqCst) {
                            thread::sleep(Duration::from_millis(random.below(pause_ms)));
                        }
                    });
                    messages.fetch_add(MESSAGES, SeqCst);
                    if seed >= QUICK {
                        paused.fetch_add(MESSAGES, SeqCst);
                    }
                }
            });
        }
        for restart in 1..=count {
            thread::sleep((pace * restart).saturating_sub(began.elapsed()));
            let wanted = messages.load(SeqCst) + BETWEEN;
            until("messages are refused", || {
                let ended = over.load(SeqCst);
                (ended || messages.load(SeqCst) >= wanted).then_some(())
            });
            if over.load(SeqCst) {
                break;
            }
            manager.restart();
        }
    });
    let total = messages.load(SeqCst);
    println!(
        "{total} messages refused, {} of them in sessions with pauses; {count} restarts in {} s",
        paused.load(SeqCst),
        began.elapsed().as_secs()
    );
    assert!(total >= BETWEEN * count as usize);
    until("nothing is queued", || mta.idle().then_some(()));
    let delivered = fs::read_dir(mta.mailbox()).expect("a folder").count();
    assert_eq!(delivered, 0, "messages were delivered");
    let log = mta.log();
    let gaps: Vec<_> = log
        .lines()
        .filter(|line| line.contains("warning: milter") || line.contains("readsocket"))
        .collect();
    assert_eq!(gaps, Vec::<&str>::new());
}

#[test]
fn postfix_delivers_nothing_unfiltered_through_restarts() {
    restarts::<Postfix>(3, Duration::ZERO, 300);
}

#[test]
fn exim_delivers_nothing_unfiltered_through_restarts() {
    restarts::<Exim>(3, Duration::ZERO, 300);
}

#[test]
#[ignore = "ten minutes: tests/run --long"]
fn postfix_delivers_nothing_unfiltered_through_fifty_restarts() {
    restarts::<Postfix>(50, Duration::from_secs(12), 5_000);
}
