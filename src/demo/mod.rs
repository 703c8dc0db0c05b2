//! `blocklist-milter demo`: the real thing at work, with nothing installed.
//!
//! ```text
//! blocklists/*.txt --compile--> filters --> daemon on a private socket <--> peer, as Postfix talks
//! ```
//!
//! Everything lies in a folder of its own that goes away at the end. The lists, the whitelist and
//! the messages use reserved names; what is expected of each message is written beside it, and any
//! other verdict makes the demo fail.

pub mod peer;

use std::fmt::{self, Display, Formatter};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use peer::{Answer, Change, Letter, Outcome, Peer};

use crate::compile::{self, Plan, Progress};
use crate::config::Config;
use crate::daemon::{self, Cause, Daemon, Service};
use crate::explain::Paint;
use crate::policy::Action;
use crate::screen::{Decision, Observer, Screen, TAG_HEADER};
use crate::serve;
use crate::snapshot::{self, Live, Snapshot};

/// The lists that the demo's messages are written for, should it run where there is no `blocklists`.
const SENDERS: &str = include_str!("../../blocklists/example-senders.txt");
const WHITELIST: &str = include_str!("../../blocklists/whitelist.txt");

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder or the socket.
    #[error("the demo: {0}")]
    Io(#[from] io::Error),
    /// The lists.
    #[error(transparent)]
    Compile(#[from] compile::Error),
    /// The configuration that the demo writes.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] daemon::Error),
}

/// A message of the demo, and what must become of it.
struct Scene {
    title: &'static str,
    letter: Letter,
    verdict: &'static str,
    identity: &'static str,
}

/// What the daemon says of its last decision, seen from inside.
#[derive(Clone, Debug, Default)]
struct Inside {
    identity: &'static str,
    list: String,
    reason: &'static str,
    spent: Duration,
}

/// The daemon's service, with a window.
struct Watched {
    live: Arc<Live>,
    last: Arc<Mutex<Inside>>,
}

impl Service for Watched {
    type Handler = Screen<Window>;

    fn handler(&self) -> Self::Handler {
        Screen::with_observer(Arc::clone(&self.live), Window(Arc::clone(&self.last)))
    }

    fn watched(&self) -> Vec<PathBuf> {
        self.live.files()
    }

    fn reload(&self, _cause: Cause) -> bool {
        true
    }
}

struct Window(Arc<Mutex<Inside>>);

impl Observer for Window {
    fn decided(&mut self, decision: &Decision<'_>) {
        let hit = decision
            .verdict
            .hit
            .and_then(|index| decision.hits.get(index));
        let list = hit.and_then(|hit| decision.snapshot.policy.lists().get(hit.list));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Inside {
            identity: hit.map_or("", |hit| hit.identity.name()),
            list: list.map_or_else(String::new, |list| list.name().to_owned()),
            reason: decision.exemption.map_or_else(
                || decision.verdict.reason.name(),
                |exemption| exemption.name(),
            ),
            spent: decision.spent,
        };
    }
}

/// A folder that goes away with its content.
struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("blocklist-milter-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about a folder that will not go.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the demo and prints what comes of it; whether all was as it should be.
///
/// # Errors
/// It could not be set up.
pub fn run(out: &mut dyn io::Write) -> Result<bool, Error> {
    let paint = Paint::of_stdout();
    let folder = Folder::create()?;
    let lists = compile_lists(&folder.0, out, paint)?;
    let config = write_config(&folder.0, &lists)?;
    let snapshot = Snapshot::build(config, None)?;
    let options = serve::options(&snapshot.config);
    let live = Arc::new(Live::new(snapshot, None));
    let last = Arc::new(Mutex::new(Inside::default()));
    let daemon = Daemon::start(
        &options,
        &Arc::new(Watched {
            live,
            last: Arc::clone(&last),
        }),
    )?;
    writeln!(
        out,
        "{} on a private socket, spoken to as Postfix does",
        paint.bold("serving")
    )?;
    writeln!(out)?;
    let good = play(&folder.0.join("milter.sock"), &lists, &last, out, paint)?;
    daemon.stop()?;
    Ok(good)
}

/// A compiled list of the demo.
struct Compiled {
    name: &'static str,
    action: Action,
    filter: PathBuf,
    /// A listed domain, for a message.
    domain: Option<String>,
}

fn compile_lists(
    folder: &Path,
    out: &mut dyn io::Write,
    paint: Paint,
) -> Result<Vec<Compiled>, Error> {
    let here = Path::new("blocklists");
    let mut senders = here.join("example-senders.txt");
    if !senders.is_file() {
        writeln!(
            out,
            "there is no blocklists/example-senders.txt here; the demo uses its own copy of that list"
        )?;
        senders = folder.join("example-senders.txt");
        fs::write(&senders, SENDERS)?;
    }
    let mut compiled = vec![compile_list(
        "spammers",
        Action::Reject,
        &senders,
        folder,
        out,
        paint,
    )?];
    let disposable = here.join("disposable-domains.txt");
    if disposable.is_file() {
        compiled.push(compile_list(
            "disposable",
            Action::Tag,
            &disposable,
            folder,
            out,
            paint,
        )?);
    }
    fs::write(folder.join("whitelist.txt"), WHITELIST)?;
    Ok(compiled)
}

fn compile_list(
    name: &'static str,
    action: Action,
    list: &Path,
    folder: &Path,
    out: &mut dyn io::Write,
    paint: Paint,
) -> Result<Compiled, Error> {
    let filter = folder.join(format!("{name}.blf"));
    let began = Instant::now();
    let report = compile::build(&Plan::new(&filter, vec![list.to_owned()]), &Progress::new())?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    writeln!(
        out,
        "{} {}: {} entries in {ms:.0} ms, {} KiB",
        paint.bold("compiled"),
        list.display(),
        report.filter.map_or(0, |filter| filter.entries),
        fs::metadata(&filter)?.len().div_ceil(1024)
    )?;
    let text = fs::read_to_string(list)?;
    let domain = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned);
    Ok(Compiled {
        name,
        action,
        filter,
        domain,
    })
}

fn write_config(folder: &Path, lists: &[Compiled]) -> Result<Config, Error> {
    let mut text = format!(
        "listen = [\"unix:{}\"]\nworkers = 1\n",
        folder.join("milter.sock").display()
    );
    for list in lists {
        text += &format!(
            "[[list]]\nname = \"{}\"\nfilter = \"{}\"\naction = \"{}\"\n",
            list.name,
            list.filter.display(),
            list.action
        );
    }
    text += "[whitelist]\nfiles = [\"whitelist.txt\"]\n";
    Config::parse(&text, &folder.join("demo.toml")).map_err(|error| Error::Snapshot(error.into()))
}

/// Plays all messages over one connection; whether each verdict was as expected.
fn play(
    socket: &Path,
    lists: &[Compiled],
    last: &Mutex<Inside>,
    out: &mut dyn io::Write,
    paint: Paint,
) -> Result<bool, Error> {
    let mut peer = Peer::unix(socket)?;
    peer.stranger()?;
    // The first message of a process touches memory for the first time.
    peer.deliver(&Letter::new(
        "<warm@up.example>",
        &["<bob@our.example>"],
        &["From: warm@up.example"],
    ))?;
    writeln!(
        out,
        "{}",
        paint.bold(&format!(
            "{:<37} {:<9} {:<10} {:<11} {:>6} {:>6}",
            "message", "verdict", "identity", "list", "daemon", "total"
        ))
    )?;
    let scenes = scenes(lists);
    let mut wrong = 0;
    for scene in &scenes {
        let outcome = peer.deliver(&scene.letter)?;
        let inside = std::mem::take(&mut *last.lock().unwrap_or_else(PoisonError::into_inner));
        let row = Row {
            scene,
            outcome: &outcome,
            inside: &inside,
            paint,
        };
        write!(out, "{row}")?;
        wrong += usize::from(!row.is_expected());
    }
    peer.quit()?;
    writeln!(
        out,
        "\n{}",
        paint.dim(
            "microseconds: of the daemon for its verdict; in total, as the mail server waits for it"
        )
    )?;
    if wrong == 0 {
        writeln!(
            out,
            "{} messages, every verdict as it should be",
            scenes.len()
        )?;
    } else {
        writeln!(
            out,
            "{wrong} of {} messages got a verdict they should not get: please report it",
            scenes.len()
        )?;
    }
    Ok(wrong == 0)
}

/// A line of the table, and the reply below it.
struct Row<'a> {
    scene: &'a Scene,
    outcome: &'a Outcome,
    inside: &'a Inside,
    paint: Paint,
}

impl Row<'_> {
    fn verdict(&self) -> &'static str {
        match self.answer() {
            Answer::Text(text) if text.starts_with('4') => "tempfail",
            Answer::Text(_) | Answer::Reject => "reject",
            Answer::Tempfail => "tempfail",
            Answer::Discard => "discard",
            Answer::Continue | Answer::Accept if self.tag().is_some() => "tag",
            Answer::Continue | Answer::Accept => "accept",
        }
    }

    fn answer(&self) -> &Answer {
        let last = self
            .outcome
            .message
            .as_ref()
            .or_else(|| self.outcome.recipients.last());
        last.unwrap_or(&Answer::Continue)
    }

    fn tag(&self) -> Option<&str> {
        self.outcome.changes.iter().find_map(|change| match change {
            Change::Added(name, value) if name == TAG_HEADER => Some(value.as_str()),
            Change::Added(..) | Change::Changed(..) | Change::Quarantined(_) => None,
        })
    }

    fn is_expected(&self) -> bool {
        self.verdict() == self.scene.verdict && self.inside.identity == self.scene.identity
    }
}

impl Display for Row<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            scene,
            outcome,
            inside,
            paint,
        } = *self;
        let dash = |text: &str| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text.to_owned()
            }
        };
        writeln!(
            f,
            "{:<37} {} {:<10} {:<11} {:>6} {:>6}",
            scene.title,
            paint.verdict(self.verdict(), 9),
            dash(inside.identity),
            dash(&inside.list),
            inside.spent.as_micros(),
            outcome.time.as_micros()
        )?;
        let below = match self.answer() {
            Answer::Text(text) => text.clone(),
            _ => match (self.tag(), inside.reason) {
                (Some(tag), _) => format!("{TAG_HEADER}: {tag}"),
                (None, "unlisted") => String::new(),
                (None, reason) => reason.to_owned(),
            },
        };
        for line in below.lines() {
            writeln!(f, "{}", paint.dim(&format!("    {line}")))?;
        }
        if !self.is_expected() {
            writeln!(f, "    expected: {} {}", scene.verdict, scene.identity)?;
        }
        Ok(())
    }
}

/// The messages, each with the verdict it must get.
fn scenes(lists: &[Compiled]) -> Vec<Scene> {
    let to_bob = |title, mail_from: &str, headers: &[&str], verdict, identity| Scene {
        title,
        letter: Letter::new(mail_from, &["<bob@our.example>"], headers),
        verdict,
        identity,
    };
    let alice = "From: Alice <alice@friend.example>";
    let mut scenes = vec![
        to_bob(
            "from nobody in particular",
            "<alice@friend.example>",
            &[alice],
            "accept",
            "",
        ),
        to_bob(
            "listed envelope sender",
            "<lottery@winner.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "listed in From, clean envelope",
            "<b-77@mailer.example>",
            &["From: Prizes <prizes@winner.example>"],
            "reject",
            "from",
        ),
        to_bob(
            "the same, oddly written",
            "<b-77@mailer.example>",
            &["From: \"P.\" <PRIZES(hi)@Winner.Example.>"],
            "reject",
            "from",
        ),
        to_bob(
            "listed in Reply-To",
            "<b-77@mailer.example>",
            &[alice, "Reply-To: lottery@winner.example"],
            "reject",
            "reply-to",
        ),
        to_bob(
            "two From fields, the second listed",
            "<b-77@mailer.example>",
            &[alice, "From: lottery@winner.example"],
            "reject",
            "from",
        ),
        to_bob(
            "listed domain",
            "<anyone@spam-house.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "subdomain of a listed subtree",
            "<x@node7.rented-hosts.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "Gmail address with dots and a tag",
            "<b-77@mailer.example>",
            &["From: Example.Sender.That.Gmail.Cannot.Register+win@googlemail.com"],
            "reject",
            "from",
        ),
        to_bob(
            "internationalized domain, as A-label",
            "<reklame@xn--bcher-kva.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "listed mailbox at any domain",
            "<crypto-doubling-team@new.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "listed address only in the name",
            "<alice@friend.example>",
            &["From: \"lottery@winner.example\" <alice@friend.example>"],
            "accept",
            "",
        ),
        to_bob(
            "whitelisted at a listed domain",
            "<accounting@spam-house.example>",
            &[alice],
            "accept",
            "mail-from",
        ),
        to_bob(
            "bounce: null sender",
            "<>",
            &["From: MAILER-DAEMON@mx.friend.example"],
            "accept",
            "",
        ),
    ];
    let mut to_postmaster = to_bob(
        "listed, but writes to postmaster",
        "<lottery@winner.example>",
        &[alice],
        "accept",
        "mail-from",
    );
    to_postmaster.letter.recipients = vec![b"<postmaster@our.example>".to_vec()];
    scenes.push(to_postmaster);
    let mut with_login = to_bob(
        "listed, but has logged in here",
        "<lottery@winner.example>",
        &[alice],
        "accept",
        "",
    );
    with_login.letter.macros = vec![("{auth_authen}".to_owned(), "bob".to_owned())];
    scenes.push(with_login);
    let tagging = lists
        .iter()
        .find(|list| list.action == Action::Tag)
        .and_then(|list| list.domain.as_deref());
    if let Some(domain) = tagging {
        let sender = format!("<someone@{domain}>");
        scenes.push(to_bob(
            "throw-away address: tagged",
            &sender,
            &[alice],
            "tag",
            "mail-from",
        ));
    }
    scenes
}
