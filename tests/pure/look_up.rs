//! Look-ups that must read a file, and messages that need very many: other messages do not wait for
//! them.

use std::future::poll_fn;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use blocklist_milter::compile::{self, Plan, Progress};
use blocklist_milter::config::Config;
use blocklist_milter::daemon::{Deadline, Readers, Waiting};
use blocklist_milter::filter::{Filter, Load};
use blocklist_milter::milter::{Client, Handler, Macros, Reply};
use blocklist_milter::screen::Screen;
use blocklist_milter::snapshot::{Live, Snapshot};
use tempfile::TempDir;

const LISTED: &str = "spam@bad.example\n@bad.test\n";

/// Filters in effect, and one thread that reads them.
struct Site {
    live: Arc<Live>,
    readers: Arc<Readers>,
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
        assert_eq!(filter.memory_bytes(), filter.page_bytes());
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
        let snapshot = Snapshot::build(config.expect("settings")).expect("a snapshot");
        Self {
            live: Arc::new(Live::new(snapshot, None)),
            readers: Arc::new(Readers::start(1).expect("a thread")),
            _folder: folder,
        }
    }

    fn screen(&self) -> Screen {
        let mut screen = Screen::new(Arc::clone(&self.live), Arc::clone(&self.readers));
        let stranger = Client {
            address: Some([192, 0, 2, 1].into()),
            port: 25,
            ..Client::default()
        };
        screen.connect(&stranger, &Macros::default());
        screen
    }

    /// Stops the disk until it is told to continue; the only reader hangs in it.
    fn stop_disk(&self) -> Disk {
        let (begun, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel();
        let item = (begun, Mutex::new(may_go));
        let waiting =
            self.readers
                .submit(0, Arc::new([item]), hang, Deadline::after(Duration::MAX));
        has_begun.recv().expect("the reader is at it");
        Disk { go, waiting }
    }
}

struct Disk {
    go: Sender<()>,
    waiting: Waiting<()>,
}

fn hang((begun, go): &(Sender<()>, Mutex<Receiver<()>>)) {
    begun.send(()).expect("the test listens");
    // Also at the end of the test.
    let _ = go.lock().expect("not poisoned").recv();
}

fn rcpt(screen: &mut Screen, mail_from: &str) -> Reply {
    screen.mail(mail_from.as_bytes(), &Macros::default());
    screen.rcpt(b"<bob@our.example>", &Macros::default())
}

fn headers(screen: &mut Screen, headers: &[(&str, &str)]) -> Reply {
    assert_eq!(rcpt(screen, "<ok@ok.example>"), Reply::Continue);
    for (name, value) in headers {
        screen.header(name.as_bytes(), value.as_bytes());
    }
    screen.end_of_headers(&Macros::default())
}

fn is_pending(screen: &mut Screen) -> bool {
    let cx = &mut Context::from_waker(Waker::noop());
    screen.poll_later(cx).is_pending()
}

/// Returns the answer; waits for the reader without advancing the time.
async fn later(screen: &mut Screen) -> Reply {
    poll_fn(|cx| screen.poll_later(cx)).await
}

fn code(reply: &Reply) -> u16 {
    match reply {
        Reply::Text(text) => text.code(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_disk_hangs_innocents_are_answered_and_the_listed_deferred() {
    let site = Site::new("");
    let disk = site.stop_disk();
    let began = tokio::time::Instant::now();
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
    assert!(is_pending(&mut envelope) && is_pending(&mut header));
    assert_eq!(began.elapsed(), Duration::ZERO);

    // One disconnects; the others get 451 when the time is over.
    let mut gone = site.screen();
    assert_eq!(rcpt(&mut gone, "<spam@bad.example>"), Reply::Later);
    drop(gone);
    assert_eq!(code(&later(&mut envelope).await), 451);
    assert_eq!(code(&later(&mut header).await), 451);
    assert_eq!(began.elapsed().as_millis(), 2000);
    drop(disk.go);
}

/// A step has one time limit for all of its reads, even if they come one after the other.
#[tokio::test(start_paused = true)]
async fn the_time_for_reads_is_that_of_the_step() {
    let site = Site::new("");
    let value = crowd(200, |n| format!("x{n}@bad.test"));
    let _disk = site.stop_disk();
    let began = tokio::time::Instant::now();
    let mut screen = site.screen();
    assert_eq!(headers(&mut screen, &[("From", &*value)]), Reply::Later);
    assert_eq!(code(&later(&mut screen).await), 451);
    let millis = began.elapsed().as_millis();
    assert!((2000..2100).contains(&millis), "{millis}");
}

#[tokio::test(start_paused = true)]
async fn on_error_decides_what_is_not_read_in_time() {
    let site = Site::new("on_error = 'accept'\n[limits]\nread_ms = 700\n");
    let _disk = site.stop_disk();
    let began = tokio::time::Instant::now();
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
    assert_eq!(later(&mut screen).await, Reply::Continue);
    assert_eq!(began.elapsed().as_millis(), 700);
    // The next message of the connection starts again.
    let next = headers(&mut screen, &[("From", "a@ok.example")]);
    assert_eq!(next, Reply::Accept);
}

/// A hanging disk gets no more reads: a hit on a list is deferred at once.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_readers_that_are_stuck() {
    let site = Site::new("");
    let disk = site.stop_disk();
    drop(disk.waiting);
    let began = tokio::time::Instant::now();
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
    assert_eq!(code(&later(&mut screen).await), 451);
    assert_eq!(began.elapsed(), Duration::ZERO);
    // The disk works again.
    disk.go.send(()).expect("the reader waits");
    loop {
        assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
        if code(&later(&mut screen).await) == 550 {
            break;
        }
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn answers_that_come_later_are_the_same() {
    for load in ["memory", "disk"] {
        let site = Site::with("", load);
        let disk = site.stop_disk();
        let mut screen = site.screen();
        let first = rcpt(&mut screen, "<spam@bad.example>");
        assert_eq!(first, Reply::Later, "{load}");
        assert!(is_pending(&mut screen));
        disk.go.send(()).expect("the reader waits");
        assert_eq!(code(&later(&mut screen).await), 550);
        // A second recipient of the same message needs no read.
        let again = screen.rcpt(b"<carol@our.example>", &Macros::default());
        assert_eq!(code(&again), 550);
    }
}

/// A listed sender after many others: refused or deferred, but not accepted.
#[tokio::test]
async fn a_listed_sender_behind_thousands_does_not_pass() {
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
        let reply = later(&mut screen).await;
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
#[tokio::test]
async fn a_hit_is_not_lost_where_the_budget_ends() {
    let lists = (0..63).map(|n| format!("[[list]]\nname = 'x{n}'\nfilter = 'x.blf'\n"));
    let site = Site::new(&lists.collect::<String>());
    // 2 look-ups per list: 126 for each of 130 senders, including the envelope's, leave 4 of
    // 16,384.
    let many = crowd(129, |n| format!("a{n}@ok.example")) + ", spam@bad.example";
    let mut screen = site.screen();
    assert_eq!(headers(&mut screen, &[("From", &*many)]), Reply::Later);
    assert_eq!(code(&later(&mut screen).await), 550);
    let truncated = site.live.counters.truncated.get();
    assert_eq!(truncated, 1, "the budget has ended");
}

/// Thousands of listed senders cause only a few reads, and only a turn of work at a time.
#[tokio::test]
async fn look_ups_end_when_the_verdict_is_certain() {
    let site = Site::new("");
    let many = crowd(3_900, |n| format!("x{n}@bad.test"));
    let mut screen = site.screen();
    assert_eq!(headers(&mut screen, &[("From", &*many)]), Reply::Later);
    let mut turns = 1;
    let reply = poll_fn(|cx| {
        turns += 1;
        screen.poll_later(cx)
    });
    assert_eq!(code(&reply.await), 550);
    assert!(turns < 10, "{turns}");
}

/// A hit that is certain for one recipient may not apply to later ones.
#[tokio::test]
async fn nothing_is_certain_before_all_recipients_are_known() {
    let site = Site::new(
        "[[list]]\nname = 'ann'\nfilter = 'x.blf'\ncheck = ['mail-from']\nrecipients = ['ann@our.example']\n\
         [[list]]\nname = 'all'\nfilter = 'x.blf'\ncheck = ['from']\n",
    );
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<spam@bad.example>"), Reply::Later);
    assert_eq!(later(&mut screen).await, Reply::Continue);
    let from = crowd(30, |n| format!("a{n}@ok.example")) + ", x@bad.test";
    screen.header(b"From", from.as_bytes());
    assert_eq!(screen.end_of_headers(&Macros::default()), Reply::Later);
    assert_eq!(code(&later(&mut screen).await), 550);
}

/// The budget may end inside a sender; that is not a failure of the disk.
#[tokio::test]
async fn a_message_that_asks_too_much_is_not_a_fault_of_the_filter() {
    let site = Site::with("", "disk");
    let many = crowd(900, |n| format!("q{n}@{}z{n}.example", "a.".repeat(20)));
    let mut screen = site.screen();
    assert_eq!(rcpt(&mut screen, "<ok@ok.example>"), Reply::Later);
    assert_eq!(later(&mut screen).await, Reply::Continue);
    for name in ["From", "Reply-To", "Sender"] {
        screen.header(name.as_bytes(), many.as_bytes());
    }
    let reply = screen.end_of_headers(&Macros::default());
    assert_eq!(reply, Reply::Later);
    assert_eq!(code(&later(&mut screen).await), 451);
    let failures = site.live.snapshot().counts[0].list.failures.get();
    assert_eq!(failures, 0);
}
