//! Look-ups that must read a file, and messages that need very many: other messages do not wait for
//! them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_filter::filter::{Filter, Load};
use blocklist_milter::config::{Config, READ_PATIENCE};
use blocklist_milter::daemon::{Job, Readers};
use blocklist_milter::milter::{Client, Handler, Macros, Mailbox, Reply};
use blocklist_milter::screen::{Reader, Screen};
use blocklist_milter::snapshot::Live;
use tempfile::TempDir;

const LISTED: &str = "spam@bad.example\n@bad.test\n";

/// Filters in effect, and a disk that stands still until the test has it read.
struct Site {
    live: Arc<Live>,
    disk: Arc<Disk>,
    _folder: TempDir,
}

/// Returns a filter with so many records that they stay on disk.
fn filter() -> &'static [u8] {
    static FILTER: OnceLock<Vec<u8>> = OnceLock::new();
    FILTER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let (list, path) = (folder.path().join("x.list"), folder.path().join("x.blf"));
        let others = (0..250_000).map(|n| format!("n{n}@many.example\n"));
        std::fs::write(&list, LISTED.to_owned() + &others.collect::<String>()).expect("a file");
        compile::build(&Plan::new(path.clone(), vec![list]), &Progress::new()).expect("a filter");
        let filter = Filter::open(&path, Load::Disk).expect("a filter");
        assert_eq!(filter.memory_bytes(), filter.header().page_bytes());
        std::fs::read(path).expect("a filter")
    })
}

impl Site {
    fn new(settings: &str) -> Self {
        Self::with(settings, "memory")
    }

    fn with(settings: &str, load: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("x.blf"), filter()).expect("a file");
        let list = format!("[[list]]\nname = 'x'\nfilter = 'x.blf'\nload = '{load}'\n");
        let list = if settings.contains("[[list]]") {
            ""
        } else {
            &list
        };
        let config = Config::parse(&format!("{settings}{list}"), &folder.path().join("c.toml"));
        let live = Live::new(config.expect("settings"), None);
        Self {
            live: Arc::new(live.expect("a good filter")),
            disk: Arc::default(),
            _folder: folder,
        }
    }

    fn screen(&self) -> Screen {
        self.screen_on(Arc::clone(&self.disk) as _)
    }

    fn screen_on(&self, reader: Arc<dyn Reader>) -> Screen {
        let mut screen = Screen::new(Arc::clone(&self.live), reader);
        let stranger = Client {
            address: Some([192, 0, 2, 1].into()),
            port: 25,
            ..Client::default()
        };
        screen.connect(&stranger, &Macros::default());
        screen
    }
}

#[derive(Default)]
struct Disk {
    batches: Mutex<Vec<Arc<dyn Job>>>,
    is_stuck: AtomicBool,
}

impl Reader for Disk {
    fn submit(&self, batch: Arc<dyn Job>) -> bool {
        let accepts = !self.is_stuck.load(Relaxed);
        if accepts {
            self.batches.lock().expect("not poisoned").push(batch);
        }
        accepts
    }

    fn patience(&self) -> Duration {
        READ_PATIENCE / 10
    }
}

impl Disk {
    /// Reads everything that is wanted now.
    fn read(&self) {
        let batches = std::mem::take(&mut *self.batches.lock().expect("not poisoned"));
        batches.iter().for_each(|batch| batch.run());
    }
}

fn rcpt(screen: &mut Screen, mail_from: &str) -> Reply {
    screen.mail(Mailbox::Written(mail_from.as_bytes()), &Macros::default());
    screen.rcpt(Mailbox::Written(b"<bob@our.example>"), &Macros::default())
}

fn headers(screen: &mut Screen, headers: &[(&str, &str)]) -> Reply {
    assert_eq!(rcpt(screen, "<ok@ok.example>"), Reply::Continue);
    for (name, value) in headers {
        screen.header(name.as_bytes(), value.as_bytes());
    }
    screen.end_of_headers(&Macros::default())
}

fn poll(screen: &mut Screen) -> Poll<Reply> {
    screen.poll_later(&mut Context::from_waker(Waker::noop()))
}

/// Returns the answer, and how many turns it took; the disk reads as soon as it is asked.
fn read(site: &Site, screen: &mut Screen) -> (Reply, u32) {
    let mut turns = 1;
    loop {
        site.disk.read();
        turns += 1;
        if let Poll::Ready(reply) = poll(screen) {
            return (reply, turns);
        }
    }
}

/// Returns the answer of a disk that does not read.
fn late(screen: &mut Screen) -> Reply {
    loop {
        if let Poll::Ready(reply) = poll(screen) {
            return reply;
        }
    }
}

fn code(reply: &Reply) -> u16 {
    match reply {
        Reply::Text(text) => text.code(),
        other => panic!("{other:?}"),
    }
}

/// Sendmail delivers `y@bad test` as from y@bad.test, and tells the milter that it asks.
#[test]
fn dots_between_words_count_where_sendmail_asks() {
    let site = Site::new("");
    let named = [("From", "x <y@bad test>")];
    for (version, is_found) in [("8.17.1.9", true), ("Postfix 3.7.11", false), ("", false)] {
        let mut screen = site.screen();
        let macros = Macros::default().with("v", version.as_bytes());
        let stranger = Client {
            address: Some([192, 0, 2, 1].into()),
            port: 25,
            ..Client::default()
        };
        screen.connect(&stranger, &macros);
        let (reply, _) = match headers(&mut screen, &named) {
            Reply::Later => read(&site, &mut screen),
            reply => (reply, 0),
        };
        assert_eq!(reply != Reply::Accept, is_found, "{version}: {reply:?}");
    }
}

#[test]
fn while_a_disk_hangs_innocents_are_answered_and_the_listed_deferred() {
    let site = Site::new("");
    let began = Instant::now();
    let mut envelope = site.screen();
    assert_eq!(rcpt(&mut envelope, "<spam@bad.example>"), Reply::Later);
    let mut header = site.screen();
    let named = [("From", "a@ok.example"), ("Reply-To", "x@bad.test")];
    assert_eq!(headers(&mut header, &named), Reply::Later);
    for _ in 0..100 {
        let mut innocent = site.screen();
        let named = [("From", "a@ok.example"), ("Sender", "b@ok.example")];
        assert_eq!(headers(&mut innocent, &named), Reply::Accept);
    }
    // One disconnects; the others get 451 when the time is over.
    let mut gone = site.screen();
    assert_eq!(rcpt(&mut gone, "<spam@bad.example>"), Reply::Later);
    drop(gone);
    let abandoned = |disk: &Disk| {
        let batches = disk.batches.lock().expect("not poisoned");
        batches.iter().filter(|batch| batch.is_abandoned()).count()
    };
    assert_eq!(abandoned(&site.disk), 1);
    assert_eq!(code(&late(&mut envelope)), 451);
    assert_eq!(code(&late(&mut header)), 451);
    assert!(began.elapsed().as_millis() >= 200);
    assert_eq!(abandoned(&site.disk), 3);
}

/// A step has one time limit for all of its reads, even if they come one after the other.
#[test]
fn the_time_for_reads_is_that_of_the_step() {
    let site = Site::new("");
    let value = crowd(200, |n| format!("x{n}@bad.test"));
    let began = Instant::now();
    let mut screen = site.screen();
    assert_eq!(headers(&mut screen, &[("From", &*value)]), Reply::Later);
    assert_eq!(code(&late(&mut screen)), 451);
    let millis = began.elapsed().as_millis();
    assert!((200..2_000).contains(&millis), "{millis}");
}

#[test]
fn on_error_decides_what_is_not_read_in_time() {
    let site = Site::new("on_error = 'accept'\n");
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
    assert_eq!(late(&mut screen), Reply::Continue);
    // The next message of the connection starts again.
    let next = headers(&mut screen, &[("From", "a@ok.example")]);
    assert_eq!(next, Reply::Accept);
}

/// A hanging disk gets no more reads: a hit on a list is deferred at once.
#[test]
fn nobody_waits_for_readers_that_are_stuck() {
    let site = Site::new("");
    site.disk.is_stuck.store(true, Relaxed);
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
    let Poll::Ready(reply) = poll(&mut screen) else {
        panic!("it waits");
    };
    assert_eq!(code(&reply), 451);
    // The disk works again.
    site.disk.is_stuck.store(false, Relaxed);
    assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
    assert_eq!(code(&read(&site, &mut screen).0), 550);
}

#[test]
fn answers_that_come_later_are_the_same() {
    for load in ["memory", "disk"] {
        let site = Site::with("", load);
        let mut screen = site.screen();
        let first = rcpt(&mut screen, "<spam@bad.example>");
        assert_eq!(first, Reply::Later, "{load}");
        assert!(poll(&mut screen).is_pending());
        assert_eq!(code(&read(&site, &mut screen).0), 550);
        // A second recipient of the same message needs no read.
        let again = screen.rcpt(Mailbox::Written(b"<carol@our.example>"), &Macros::default());
        assert_eq!(code(&again), 550);
    }
}

/// A listed sender after many others: refused or deferred, but not accepted.
#[test]
fn a_listed_sender_behind_thousands_does_not_pass() {
    let site = Site::new("");
    let innocent = |number: usize| crowd(100, |n| format!("a{n}@ok{number}.example"));
    let mut truncated = 0;
    for (count, field, expected) in [
        (1, "Reply-To", 550),
        (30, "Reply-To", 451),
        (30, "From", 550),
    ] {
        let mut screen = site.screen();
        let fields: Vec<String> = (0..count).map(innocent).collect();
        let mut named: Vec<_> = fields.iter().map(|field| ("Reply-To", &**field)).collect();
        named.push((field, "spam@bad.example"));
        assert_eq!(headers(&mut screen, &named), Reply::Later);
        let reply = read(&site, &mut screen).0;
        assert_eq!(code(&reply), expected, "{count} {field}");
        let now = site.live.counters.truncated.get();
        assert_eq!(
            now - truncated,
            u64::from(expected == 451),
            "{count} {field}"
        );
        truncated = now;
    }
}

/// Returns this many addresses for a field.
fn crowd(count: usize, address: impl Fn(usize) -> String) -> String {
    (0..count).map(address).collect::<Vec<_>>().join(", ")
}

/// The budget ends inside a sender for whom some lists had to be read: their results count.
#[test]
fn a_hit_is_not_lost_where_the_budget_ends() {
    let lists = (0..63).map(|n| format!("[[list]]\nname = 'x{n}'\nfilter = 'x.blf'\n"));
    let site = Site::new(&lists.collect::<String>());
    // 2 look-ups per list: 126 for each of 130 senders, including the envelope's, leave 4 of
    // 16,384.
    let many = crowd(129, |n| format!("a{n}@ok.example")) + ", spam@bad.example";
    let mut screen = site.screen();
    assert_eq!(headers(&mut screen, &[("From", &*many)]), Reply::Later);
    assert_eq!(code(&read(&site, &mut screen).0), 550);
    let truncated = site.live.counters.truncated.get();
    assert_eq!(truncated, 1, "the budget has ended");
}

/// A disk that does one read for each permit.
struct Slow {
    readers: Readers,
    permits: Arc<Mutex<Receiver<()>>>,
    submitted: AtomicUsize,
}

/// A read that waits for its permit.
struct Permitted(Arc<dyn Job>, Arc<Mutex<Receiver<()>>>);

impl Job for Permitted {
    fn run(&self) {
        if self.1.lock().expect("not poisoned").recv().is_ok() {
            self.0.run();
        }
    }

    fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }

    fn disk(&self) -> usize {
        self.0.disk()
    }

    fn can_wait(&self) -> bool {
        self.0.can_wait()
    }
}

impl Reader for Slow {
    fn submit(&self, batch: Arc<dyn Job>) -> bool {
        self.submitted.fetch_add(1, Relaxed);
        let job = Permitted(batch, Arc::clone(&self.permits));
        self.readers.submit(Arc::new(job))
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// The reads of messages with thousands of senders come last, whoever asked first. A few of them match by chance early in
/// their message, and are read as those of any other.
#[test]
fn a_flood_of_crowded_messages_does_not_hold_up_hits() {
    const FLOOD: usize = 50;
    const HITS: usize = 10;
    let (permit, permits) = channel();
    let disk = Arc::new(Slow {
        readers: Readers::start(1).expect("a thread"),
        permits: Arc::new(Mutex::new(permits)),
        submitted: AtomicUsize::new(0),
    });
    let site = Site::new("");
    let flood: Vec<Screen> = (0..FLOOD)
        .map(|message| {
            let mut screen = site.screen_on(Arc::clone(&disk) as _);
            let field = |number| crowd(100, |n| format!("a{n}@ok{message}-{number}.example"));
            let fields: Vec<String> = (0..12).map(field).collect();
            let mut named: Vec<_> = fields.iter().map(|field| ("Reply-To", &**field)).collect();
            named.push(("Reply-To", "spam@bad.example"));
            assert_eq!(headers(&mut screen, &named), Reply::Later);
            while disk.submitted.load(Relaxed) <= message {
                assert!(poll(&mut screen).is_pending());
            }
            screen
        })
        .collect();
    let mut hits: Vec<Screen> = (0..HITS)
        .map(|_| {
            let mut screen = site.screen_on(Arc::clone(&disk) as _);
            assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
            assert!(poll(&mut screen).is_pending());
            screen
        })
        .collect();
    for _ in 0..FLOOD / 2 {
        permit.send(()).expect("the disk waits");
    }
    for screen in &mut hits {
        assert_eq!(code(&late(screen)), 550);
    }
    drop(flood);
}

/// Thousands of listed senders cause only a few reads, and only a turn of work at a time.
#[test]
fn look_ups_end_when_the_verdict_is_certain() {
    let site = Site::new("");
    let many = crowd(3_900, |n| format!("x{n}@bad.test"));
    let mut screen = site.screen();
    assert_eq!(headers(&mut screen, &[("From", &*many)]), Reply::Later);
    let (reply, turns) = read(&site, &mut screen);
    assert_eq!(code(&reply), 550);
    assert!(turns < 10, "{turns}");
}

/// A hit that is certain for one recipient may not apply to later ones.
#[test]
fn nothing_is_certain_before_all_recipients_are_known() {
    let site = Site::new(
        "[[list]]\nname = 'ann'\nfilter = 'x.blf'\ncheck = ['mail-from']\nrecipients = ['ann@our.example']\n\
         [[list]]\nname = 'all'\nfilter = 'x.blf'\ncheck = ['from']\n",
    );
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
    assert_eq!(read(&site, &mut screen).0, Reply::Continue);
    let from = crowd(30, |n| format!("a{n}@ok.example")) + ", x@bad.test";
    screen.header(b"From", from.as_bytes());
    assert_eq!(screen.end_of_headers(&Macros::default()), Reply::Later);
    assert_eq!(code(&read(&site, &mut screen).0), 550);
}

/// The budget may end inside a sender; that is not a failure of the disk.
#[test]
fn a_message_that_asks_too_much_is_not_a_fault_of_the_filter() {
    let site = Site::with("", "disk");
    let many = crowd(900, |n| format!("q{n}@{}z{n}.example", "a.".repeat(20)));
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<ok@ok.example>"), Reply::Later);
    assert_eq!(read(&site, &mut screen).0, Reply::Continue);
    for name in ["From", "Reply-To", "Sender"] {
        screen.header(name.as_bytes(), many.as_bytes());
    }
    let reply = screen.end_of_headers(&Macros::default());
    assert_eq!(reply, Reply::Later);
    assert_eq!(code(&read(&site, &mut screen).0), 451);
    let failures = site.live.snapshot().counts[0].list.failures.get();
    assert_eq!(failures, 0);
}
