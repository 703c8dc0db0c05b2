//! Plays the scenarios in `tests/scenarios/`: what a client says, what must come back, and what is
//! delivered. They are the same for all mail servers; [`scenarios!`](crate::scenarios) makes a test
//! of each for one server.
//!
//! ```text
//! # A comment.
//! start [tcp] [when-down accept|tempfail|reject] [setting NAME = VALUE]
//!                               the site, its daemon, and the server; again: others
//! servers NAME... | all         what follows is for these servers alone
//! session ... quit              messages between these use one session, others one each
//! subject TEXT                  of the messages that follow; identifies them when they are delivered
//! from ARGUMENT [to ARGUMENT...] => REPLY / REPLY / REPLY
//!     From: a@b.example         sends a message, with this header and, after an empty line, this body;
//!                               the replies are those to MAIL, to each RCPT, and to the message if a
//!                               recipient was accepted; `last REPLY` is the last one, whichever it is
//! until from ...                the same, repeated until the replies are these
//! MAIL FROM:<a@b.example> => REPLY          a command; left out if the server has no SMTP
//! at once                       the commands below are sent together
//!     RSET => REPLY
//! delivered [N]: SUBJECT        there are N copies (1) of this message, and each has:
//!     line: TEXT                this line, after the line named before
//!     lacks: TEXT               this text nowhere
//!     times N: TEXT             this text so often
//!     tags N: WORD...           so many tags; the first has these words
//!     to: ADDRESS               this recipient
//! nothing delivered: SUBJECT
//! held N                        so many messages are in quarantine
//! log WORD...                   the daemon has logged a line with these words
//! list NAME: ENTRY...           the list is compiled again with these entries
//! daemon stop | start
//! let NAME                      `@NAME` stands for the lines below
//! ```
//!
//! A reply is its code, `x` for any digit, with `|` between alternatives, and words that it has in
//! this order, without regard to case and double quotes; `$` is its end. In blocks, `{x*900}` is 900
//! times `x`, `\t` a tab and `\s` a blank.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::mta::{Mta, Session, WhenDown};
use super::scene;
use super::site::{Daemon, Site, Transport};
use super::smtp::{Mail, Reply};
use super::{until, usable};

/// Makes a test of each scenario for one server; `messages` leaves out those that need SMTP, and
/// `unix` the one that needs TCP, too.
#[macro_export]
macro_rules! scenarios {
    ($server:ty) => {
        $crate::scenarios! { $server, messages }
        $crate::scenarios! { $server: pipelined_session, daemon_down_and_back, }
    };
    ($server:ty, messages) => {
        $crate::scenarios! { $server, unix }
        $crate::scenarios! { $server: verdicts_over_tcp, }
    };
    ($server:ty, unix) => {
        $crate::scenarios! { $server:
            listed_envelope_sender_is_refused,
            listed_header_sender_is_refused,
            innocent_mail_arrives_unchanged,
            whitelisted_sender_is_accepted,
            null_sender_is_nobody,
            messages_of_one_session_are_apart,
            refusal_is_per_recipient,
            refusal_says_whom_to_ask,
            recipients_of_other_lists_come_apart,
            header_hit_with_exempt_recipient_is_tagged,
            tag_is_added_once,
            quarantined_mail_is_held,
            discarded_mail_vanishes,
            tempfail_asks_to_come_again,
            recompiled_list_is_in_force,
        }
    };
    ($server:ty: $($name:ident,)+) => {
        $(#[test] fn $name() { $crate::support::scenario::play::<$server>(stringify!($name)); })+
    };
}

/// Plays `tests/scenarios/NAME.testcase`, unless the server is missing.
///
/// # Panics
/// If something else comes back or is delivered, with the line.
pub(crate) fn play<S: Mta>(name: &str) {
    if !usable(S::NAME, S::obstacle()) {
        return;
    }
    let path = Path::new("tests/scenarios").join(format!("{name}.testcase"));
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join(&path);
    let text =
        fs::read_to_string(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut stage = Stage::<S>::default();
    let mut played = 0;
    for step in steps(&text) {
        let is_ours = stage.servers.is_empty() || stage.servers.iter().any(|name| name == S::NAME);
        if !is_ours && !step.line.starts_with("servers ") {
            continue;
        }
        if let Err(wrong) = stage.play(&step) {
            panic!("{}:{}: {}\n{wrong}", path.display(), step.number, step.line);
        }
        played += 1;
    }
    assert!(played > 3, "{}: nothing for {}", path.display(), S::NAME);
}

/// A line with the block below it, without the indentation.
struct Step<'t> {
    number: usize,
    line: &'t str,
    block: Vec<&'t str>,
}

fn steps(text: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        let in_block = |line: &str| line.starts_with("    ");
        if let Some(line) = line.strip_prefix("    ") {
            steps.last_mut().expect("a line above").block.push(line);
        } else if line.is_empty() && lines.peek().is_some_and(|(_, next)| in_block(next)) {
            steps.last_mut().expect("a line above").block.push("");
        } else if !line.is_empty() && !line.starts_with('#') {
            let block = Vec::new();
            steps.push(Step {
                number,
                line,
                block,
            });
        }
    }
    steps
}

/// What a scenario has set up so far. Dropped in this order.
struct Stage<S: Mta> {
    session: Option<Box<dyn Session>>,
    server: Option<S>,
    daemon: Option<Daemon>,
    site: Option<Site>,
    servers: Vec<String>,
    subject: String,
    /// What `let` has named.
    named: HashMap<String, String>,
}

impl<S: Mta> Default for Stage<S> {
    fn default() -> Self {
        Self {
            session: None,
            server: None,
            daemon: None,
            site: None,
            servers: Vec::new(),
            subject: String::new(),
            named: HashMap::new(),
        }
    }
}

impl<S: Mta> Stage<S> {
    fn server(&self) -> &S {
        self.server.as_ref().expect("after start")
    }

    fn site(&self) -> &Site {
        self.site.as_ref().expect("after start")
    }

    fn play(&mut self, step: &Step<'_>) -> Result<(), String> {
        let (verb, rest) = step.line.split_once(' ').unwrap_or((step.line, ""));
        match (verb, rest) {
            ("start", how) => self.start(how),
            ("servers", names) => {
                let names = names.split(' ').filter(|name| *name != "all");
                self.servers = names.map(str::to_owned).collect();
            }
            ("session", "") => self.session = Some(self.server().session()),
            ("quit", "") => self.session.take().expect("a session").quit(),
            ("subject", text) => text.clone_into(&mut self.subject),
            ("let", name) => {
                self.named.insert(name.to_owned(), self.block(&step.block));
            }
            ("from", _) => {
                let (mail, expected) = self.mail(step.line, &step.block);
                let replies = self.send(&mail);
                return compare(&replies, expected);
            }
            ("until", from) => {
                let (mail, expected) = self.mail(from, &step.block);
                until(step.line, || compare(&self.send(&mail), expected).ok());
            }
            ("at", "once") => return self.say(&step.block),
            ("delivered" | "delivered:", _) => return self.delivered(step),
            ("nothing", subject) => {
                let subject = subject.strip_prefix("delivered: ").expect("a subject");
                until("an idle queue", || self.server().idle().then_some(()));
                let copies = self.server().copies(subject);
                return copies
                    .is_empty()
                    .then_some(())
                    .ok_or_else(|| copies.concat());
            }
            ("held", number) => {
                let number: usize = number.parse().expect("a number");
                until(step.line, || (self.server().held() == number).then_some(()));
            }
            ("log", words) => {
                let words: Vec<&str> = words.split(' ').collect();
                self.daemon.as_ref().expect("it runs").logged(&words);
            }
            ("list", list) => {
                let (name, entries) = list.split_once(": ").expect("a name and entries");
                self.site()
                    .list(name, &entries.split(' ').collect::<Vec<_>>());
            }
            ("daemon", "stop") => {
                let ended = self.daemon.take().expect("it runs").terminate();
                assert!(ended.success(), "an orderly end: {ended}");
            }
            ("daemon", "start") => self.daemon = Some(self.site().serve()),
            (command, _) if command.chars().all(char::is_uppercase) => {
                return self.say(&[step.line]);
            }
            _ => panic!("{}: no such step: {}", step.number, step.line),
        }
        Ok(())
    }

    fn start(&mut self, how: &str) {
        (self.session, self.server, self.daemon) = (None, None, None);
        let (how, setting) = how.split_once("setting ").unwrap_or((how, ""));
        let mut words = how.split_whitespace();
        let (mut transport, mut when_down) = (Transport::Unix, WhenDown::Tempfail);
        while let Some(word) = words.next() {
            match word {
                "tcp" => transport = Transport::Tcp,
                "when-down" => {
                    when_down = match words.next().expect("what the server does") {
                        "accept" => WhenDown::Accept,
                        "tempfail" => WhenDown::Tempfail,
                        "reject" => WhenDown::Reject,
                        other => panic!("when-down {other}"),
                    }
                }
                other => panic!("start {other}"),
            }
        }
        let site = scene::site(transport, setting);
        self.daemon = Some(site.serve());
        self.server = Some(S::start(&site.socket, when_down));
        self.site = Some(site);
    }

    /// Returns the lines of a block, with their ends, after all replacements.
    fn block(&self, lines: &[&str]) -> String {
        let line = |line: &&str| match line.strip_prefix('@') {
            Some(name) => self.named[name].clone(),
            None => plain(line) + "\r\n",
        };
        lines.iter().map(line).collect()
    }

    /// Returns the message of a line, and the replies that must come back.
    fn mail<'l>(&self, line: &'l str, block: &[&str]) -> (Mail, &'l str) {
        let (message, expected) = line.split_once("=>").expect("the replies");
        let mut words = message.split_whitespace().skip(1);
        let mut mail = Mail::innocent(&self.subject).from(words.next().expect("a sender"));
        if words.next() == Some("to") {
            mail = mail.to(&words.collect::<Vec<_>>());
        }
        let mut parts = block.split(|line| line.is_empty());
        if let Some(header) = parts.next().filter(|header| !header.is_empty()) {
            mail.header = self.block(header);
        }
        if let Some(body) = parts.next() {
            mail.body = self.block(body);
        }
        (mail, expected)
    }

    fn send(&mut self, mail: &Mail) -> Vec<Reply> {
        if let Some(session) = &mut self.session {
            return session.send(mail);
        }
        let mut session = self.server().session();
        let replies = session.send(mail);
        session.quit();
        replies
    }

    /// Sends commands at once; each line has the reply.
    fn say(&mut self, lines: &[&str]) -> Result<(), String> {
        let lines = lines
            .iter()
            .map(|line| line.split_once("=>").expect("a reply"));
        let (commands, expected): (Vec<_>, Vec<_>) = lines
            .map(|(command, reply)| (command.trim().to_owned(), reply))
            .unzip();
        let session = self.session.as_mut().expect("a session");
        match session.say(&commands) {
            Some(replies) => compare(&replies, &expected.join("/")),
            None => Ok(()),
        }
    }

    fn delivered(&self, step: &Step<'_>) -> Result<(), String> {
        let (count, subject) = step.line.split_once(": ").expect("a subject");
        let count = count
            .strip_prefix("delivered ")
            .map_or(1, |count| count.parse().expect("a number"));
        let copies = until(&format!("delivery of {subject:?}"), || {
            let idle = self.server().idle();
            let copies = self.server().copies(subject);
            (idle && copies.len() >= count).then_some(copies)
        });
        if copies.len() != count {
            return Err(copies.concat());
        }
        for copy in &copies {
            let mut rest: Vec<&str> = copy.lines().collect();
            for wanted in &step.block {
                if !has(copy, &mut rest, wanted) {
                    return Err(format!("{wanted}\nis not so in\n{copy}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a delivered message is as a line of a block says; `rest` are the lines that
/// follow the last one named.
fn has(copy: &str, rest: &mut Vec<&str>, wanted: &str) -> bool {
    let (what, text) = wanted.split_once(':').expect("what, and a text");
    let text = &plain(text.strip_prefix(' ').unwrap_or(text));
    let (what, number) = what.split_once(' ').unwrap_or((what, "1"));
    let number: usize = number.parse().expect("a number");
    match what {
        "line" => {
            let at = rest.iter().position(|line| line == text);
            at.map(|at| rest.drain(..=at)).is_some()
        }
        "lacks" => !copy.contains(text),
        "times" => copy.matches(text).count() == number,
        "to" => copy
            .to_lowercase()
            .contains(&format!("delivered-to: {text}")),
        "tags" => {
            let tags = tags(copy);
            let first = tags.first().map_or("", String::as_str);
            tags.len() == number && text.split_whitespace().all(|word| first.contains(word))
        }
        other => panic!("a delivered message has no {other}"),
    }
}

/// Returns the tag headers of a delivered message, unfolded.
fn tags(message: &str) -> Vec<String> {
    let header = message.split("\n\n").next().unwrap_or_default();
    let unfolded = header.replace("\n\t", " ").replace("\n ", " ");
    unfolded
        .lines()
        .filter(|line| line.to_ascii_lowercase().starts_with("x-sender-blocklist:"))
        .map(str::to_owned)
        .collect()
}

/// Replaces `{x*900}`, `\t` and `\s`.
fn plain(text: &str) -> String {
    let text = text.replace("\\t", "\t").replace("\\s", " ");
    let repeated = || {
        let (before, rest) = text.split_once('{')?;
        let (inner, after) = rest.split_once('}')?;
        let (what, times) = inner.split_once('*')?;
        Some(format!(
            "{before}{}{after}",
            what.repeat(times.parse().ok()?)
        ))
    };
    repeated().unwrap_or(text)
}

/// Compares replies with what a scenario expects.
fn compare(replies: &[Reply], expected: &str) -> Result<(), String> {
    let expected: Vec<&str> = expected.split('/').map(str::trim).collect();
    let is_right = match expected[..] {
        [one] if one.starts_with("last ") => replies
            .last()
            .is_some_and(|reply| is_like(reply, &one[5..])),
        _ => {
            let mut pairs = replies.iter().zip(&expected);
            replies.len() == expected.len() && pairs.all(|(reply, one)| is_like(reply, one))
        }
    };
    let shown = || replies.iter().map(|reply| format!("{reply}\n")).collect();
    is_right.then_some(()).ok_or_else(shown)
}

fn is_like(reply: &Reply, expected: &str) -> bool {
    let (code, words) = expected.split_once(' ').unwrap_or((expected, ""));
    let is_code = |one: &str| {
        let digits = one.chars().zip(reply.text.chars()).take(3);
        { digits }.all(|(expected, digit)| expected == 'x' || expected == digit)
    };
    let text = reply.text.to_lowercase().replace('"', "");
    let mut rest = text.get(3..).unwrap_or_default();
    code.split('|').any(is_code)
        && words
            .to_lowercase()
            .split(' ')
            .all(|word| match rest.find(word) {
                _ if word == "$" => rest.is_empty(),
                Some(at) => {
                    rest = &rest[at + word.len()..];
                    true
                }
                None => false,
            })
}
