//! `blocklist-milter demo`: shows the real daemon without an installation.
//!
//! ```text
//! blocklists/*.txt --compile--> filters --> daemon on a private socket <--> peer, like Postfix
//! ```
//!
//! All files are in a private folder that is removed at the end. The lists, the whitelist and the
//! messages use reserved names. Each message has its expected verdict beside it, and any other
//! verdict makes the demo fail.

pub mod peer;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use peer::{Answer, Change, Delivery, Peer, TestMail};

use crate::config::Config;
use crate::daemon::{Daemon, Service};
use crate::endpoint::Door;
use crate::explain::RecordedDecision;
use crate::paint::Paint;
use crate::screen::{Decision, Observer, Screen, TAG_HEADER};
use crate::serve;
use crate::snapshot::Live;
use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_filter::base::lock::lock;

/// Why the demo cannot run, for the person who wanted to see it.
type Error = Box<dyn std::error::Error>;

/// The lists for which the demo's messages are written, in case there is no folder `blocklists`.
const SENDERS: &str = include_str!("../../blocklists/example-senders.txt");
const WHITELIST: &str = include_str!("../../blocklists/whitelist.txt");

const SETTINGS: &str = "[whitelist]
files = [\"whitelist.txt\"]
[status]
listen = \"\"
[[list]]
name = \"spammers\"
filter = \"spammers.blf\"
action = \"reject\"
";
const DISPOSABLE: &str = "[[list]]
name = \"disposable\"
filter = \"disposable.blf\"
action = \"tag\"
";

/// A message of the demo, with what is expected: title, MAIL FROM, header fields, verdict, and the field in which a
/// sender is listed.
type Scene<'a> = (&'a str, &'a str, &'a [&'a str], &'a str, &'a str);

#[rustfmt::skip]
const SCENES: [Scene<'_>; 16] = [
    ("unlisted sender", "<alice@friend.example>", &[ALICE], "accept", ""),
    ("listed envelope sender", "<lottery@winner.example>", &[ALICE], "reject", "mail-from"),
    ("listed in From, clean envelope", MAILER, &["From: Prizes <prizes@winner.example>"], "reject", "from"),
    ("the same, oddly written", MAILER, &["From: \"P.\" <PRIZES(hi)@Winner.Example.>"], "reject", "from"),
    ("listed in Reply-To", MAILER, &[ALICE, "Reply-To: lottery@winner.example"], "reject", "reply-to"),
    ("two From fields, the second listed", MAILER, &[ALICE, "From: lottery@winner.example"], "reject", "from"),
    ("listed domain", "<anyone@spam-house.example>", &[ALICE], "reject", "mail-from"),
    ("subdomain of a listed subtree", "<x@node7.rented-hosts.example>", &[ALICE], "reject", "mail-from"),
    ("Gmail address with dots and a tag", MAILER, &[GMAIL], "reject", "from"),
    ("internationalized domain, as A-label", "<reklame@xn--bcher-kva.example>", &[ALICE], "reject", "mail-from"),
    ("listed mailbox at any domain", "<crypto-doubling-team@new.example>", &[ALICE], "reject", "mail-from"),
    ("listed address only in the name", "<alice@friend.example>", &[NAME], "accept", ""),
    ("whitelisted at a listed domain", "<accounting@spam-house.example>", &[ALICE], "accept", "mail-from"),
    ("bounce: null sender", "<>", &["From: MAILER-DAEMON@mx.friend.example"], "accept", ""),
    (TO_POSTMASTER, "<lottery@winner.example>", &[ALICE], "accept", "mail-from"),
    (WITH_LOGIN, "<lottery@winner.example>", &[ALICE], "accept", ""),
];

const ALICE: &str = "From: Alice <alice@friend.example>";
const MAILER: &str = "<b-77@mailer.example>";
const GMAIL: &str = "From: Example.Sender.That.Gmail.Cannot.Register+win@googlemail.com";
const NAME: &str = "From: \"lottery@winner.example\" <alice@friend.example>";
const TO_POSTMASTER: &str = "listed, but writes to postmaster";
const WITH_LOGIN: &str = "listed, but has logged in here";

/// The daemon's service, with its last decision.
#[derive(Clone)]
struct Observed {
    live: Arc<Live>,
    last: Arc<Mutex<RecordedDecision>>,
}

impl Observer for Observed {
    fn decided(&mut self, decision: &Decision<'_>) {
        *lock(&self.last) = RecordedDecision::of(decision);
    }
}

impl Service for Observed {
    type Handler = Screen<Self>;

    fn handler(&self, _: Door) -> Screen<Self> {
        Screen::with_observer(Arc::clone(&self.live), self.clone())
    }
}

/// Runs the demo and prints the results. Returns whether all were as expected.
///
/// # Errors
/// The demo could not be set up.
pub fn run(out: &mut dyn io::Write, paint: Paint) -> Result<bool, Error> {
    let private = Permissions::from_mode(0o700);
    let mut folder = tempfile::Builder::new();
    let folder = folder.prefix("blocklist-milter-demo-");
    let folder = folder.permissions(private).tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let mut senders = PathBuf::from("blocklists/example-senders.txt");
    if !senders.is_file() {
        let copy = "the demo uses its built-in copy";
        writeln!(out, "no {} in this folder; {copy}", senders.display())?;
        senders = at("example-senders.txt");
        fs::write(&senders, SENDERS)?;
    }
    fs::write(at("whitelist.txt"), WHITELIST)?;
    compile_list(&senders, &at("spammers.blf"), out, paint)?;
    let socket = at("milter.sock");
    let mut settings = format!("listen = [\"unix:{}\"]\n{SETTINGS}", socket.display());
    let disposable = Path::new("blocklists/disposable-domains.txt");
    let mut tagged = None;
    if disposable.is_file() {
        compile_list(disposable, &at("disposable.blf"), out, paint)?;
        settings += DISPOSABLE;
        let text = fs::read_to_string(disposable)?;
        let mut lines = text.lines().map(str::trim);
        let domain = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        tagged = domain.map(|domain| format!("<someone@{domain}>"));
    }
    let tagged = tagged.as_deref().map(|sender| {
        let title = "throw-away address: tagged";
        (title, sender, &[ALICE][..], "tag", "mail-from")
    });
    let scenes: Vec<Scene<'_>> = SCENES.into_iter().chain(tagged).collect();
    let config = Config::parse(&settings, &at("demo.toml"))?;
    let options = serve::options(&config);
    let observed = Arc::new(Observed {
        live: Arc::new(Live::new(config, None)?),
        last: Arc::default(),
    });
    let daemon = Daemon::start(&options, &observed)?;
    let how = "on a private socket; messages are sent as Postfix sends them";
    writeln!(out, "{} {how}\n", paint.bold("serving"))?;
    let wrong = play(&scenes, &socket, &observed.last, out, paint)?;
    daemon.stop()?;
    let all = scenes.len();
    if wrong == 0 {
        writeln!(out, "{all} messages, all verdicts as expected")?;
    } else {
        let what = "messages got a verdict they should not get: please report it";
        writeln!(out, "{wrong} of {all} {what}")?;
    }
    Ok(wrong == 0)
}

fn compile_list(
    list: &Path,
    filter: &Path,
    out: &mut dyn io::Write,
    paint: Paint,
) -> Result<(), Error> {
    let began = Instant::now();
    let report = compile::build(&Plan::new(filter, vec![list.to_owned()]), &Progress::new())?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    writeln!(
        out,
        "{} {}: {} entries in {ms:.0} ms, {} KiB",
        paint.bold("compiled"),
        list.display(),
        report.filter.map_or(0, |filter| filter.entries),
        fs::metadata(filter)?.len().div_ceil(1024)
    )?;
    Ok(())
}

/// Plays all messages over one connection. Returns how many got a wrong verdict.
fn play(
    scenes: &[Scene<'_>],
    socket: &Path,
    last: &Mutex<RecordedDecision>,
    out: &mut dyn io::Write,
    paint: Paint,
) -> Result<usize, Error> {
    let mut peer = Peer::unix(socket)?;
    peer.stranger()?;
    // The first message of a process is slower, because memory is used for the first time.
    let from = &["From: warm@up.example"];
    let first = TestMail::new("<warm@up.example>", &["<bob@our.example>"], from);
    peer.deliver(&first)?;
    let heading = format!(
        "{:<37} {:<9} {:<10} {:<11} {:>6} {:>6}",
        "message", "verdict", "identity", "list", "daemon", "total"
    );
    writeln!(out, "{}", paint.bold(&heading))?;
    let mut wrong = 0;
    for &scene in scenes {
        let (title, mail_from, headers, ..) = scene;
        let to = match title {
            TO_POSTMASTER => "<postmaster@our.example>",
            _ => "<bob@our.example>",
        };
        let mut mail = TestMail::new(mail_from, &[to], headers);
        if title == WITH_LOGIN {
            mail.macros = vec![("{auth_authen}".to_owned(), "bob".to_owned())];
        }
        let outcome = peer.deliver(&mail)?;
        let decision = std::mem::take(&mut *lock(last));
        let is_expected = show(scene, &outcome, &decision, out, paint)?;
        wrong += usize::from(!is_expected);
    }
    peer.quit()?;
    let times = "times in microseconds: daemon = the decision; total = what the mail server waits";
    writeln!(out, "\n{}", paint.dim(times))?;
    Ok(wrong)
}

/// Shows a line of the table, and the answer below it. Returns whether the verdict is the expected one.
fn show(
    (title, _, _, expected, field): Scene<'_>,
    outcome: &Delivery,
    decision: &RecordedDecision,
    out: &mut dyn io::Write,
    paint: Paint,
) -> io::Result<bool> {
    let answer = outcome.message.as_ref();
    let answer = answer.or_else(|| outcome.recipients.last());
    let tag = outcome.changes.iter().find_map(|change| match change {
        Change::Added(name, value) if name == TAG_HEADER => Some(format!("{name}: {value}")),
        Change::Added(..) | Change::Changed(..) | Change::Quarantined(_) => None,
    });
    let reason = match decision.reason {
        "unlisted" => String::new(),
        reason => reason.to_owned(),
    };
    let (verdict, below) = match (answer, tag) {
        (Some(Answer::Text(text)), _) if text.starts_with('5') => ("reject", text.clone()),
        (Some(Answer::Continue | Answer::Accept), Some(tag)) => ("tag", tag),
        (Some(Answer::Continue | Answer::Accept), None) => ("accept", reason),
        // No message of the demo should end like this.
        (other, _) => ("tempfail", format!("{other:?}")),
    };
    writeln!(
        out,
        "{title:<37} {} {:<10} {:<11} {:>6} {:>6}",
        paint.verdict(verdict, 9),
        decision.listed.identity.unwrap_or("-"),
        decision.list.as_deref().unwrap_or("-"),
        decision.spent.as_micros(),
        outcome.time.as_micros()
    )?;
    for line in below.lines() {
        writeln!(out, "{}", paint.dim(&format!("    {line}")))?;
    }
    let is_expected = verdict == expected && decision.listed.identity.unwrap_or_default() == field;
    if !is_expected {
        writeln!(out, "    expected: {expected} {field}")?;
    }
    Ok(is_expected)
}
