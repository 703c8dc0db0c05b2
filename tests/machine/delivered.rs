//! What is delivered counts: sender fields are sent through real servers to their last stop, and readers look at what
//! arrives there.
//!
//! ```text
//! From, Sender, Reply-To --> Postfix, Sendmail, Exim --> SMTP, LMTP, a file --> four readers
//!                                   ^
//!                               the daemon, which only tags
//! ```
//!
//! * A listed mailbox that two readers or more show, and more than half of those that show a sender at all, was found:
//!   the message has a tag.
//! * An innocent field, in which the listed address is a name or a comment, has no tag that would be a refusal, unless
//!   a reader shows the listed mailbox in what the server has made of it.
//!
//! * A field of `tests/senders/corpus.txt` has the verdict that stands there.
//!
//! Where readers are divided evenly, the choice is the daemon's: an unquoted address before an angle address, or as
//! the name of a group, is a name (`a@b <c@d>`, `a@b: c@d;`); Python and Email::Address::XS show it, npm and
//! Mail::Address do not. Their number is printed.
//!
//! The fields are generated from a seed: the daily test has the same each time, a campaign new ones. The seed is
//! printed; `DELIVERED_SEED=N` and `DELIVERED=N` set the seed and the number of fields.

use std::collections::HashSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use blocklist_filter::address::{Canonical, Rules};

use crate::support::check::Random;
use crate::support::corpus::{self, Row, Verdict};
use crate::support::exim::Exim;
use crate::support::mta::{Mta, WhenDown};
use crate::support::postfix::Postfix;
use crate::support::readers::{self, READERS};
use crate::support::scene::Scene;
use crate::support::sendmail::Sendmail;
use crate::support::sink::Sink;
use crate::support::site::{Site, Transport};
use crate::support::smtp::Smtp;
use crate::support::{free_port, port_listens, run, until, usable};

const LISTED: [&str; 4] = [
    "spam@bad.example",
    "mal.lory@bad.example",
    "\"john doe\"@bad.example",
    "spam@b\u{f6}se.example",
];

/// Ways to write a listed mailbox, for some reader or server.
const SPELLED: [&str; 22] = [
    "spam@bad.example",
    "<spam@bad.example>",
    "<spam@bad.example>",
    "\"x\" <spam@bad.example>",
    "SPAM@Bad.Example",
    "spam%bad.example",
    "<spam%bad.example>",
    "<bad.example!spam>",
    "bad.example!spam",
    "<@r.example:spam@bad.example>",
    "<@r.example:spam%bad.example>",
    "<\"spam\"@bad.example>",
    "spam @ bad.example",
    "<spam@bad example>",
    "mal lory@bad.example",
    "<mal lory@bad.example>",
    "\"john doe\"@bad.example",
    "<spam@b\u{f6}se.example>",
    "=?utf-8?Q?spam=40bad.example?=",
    "<=?utf-8?Q?spam?=@bad.example>",
    "=?utf-8?Q?x_=3Cspam?=@bad.example",
    "g: spam@bad.example;",
];

/// Fields around it: `S` is the listed mailbox, `K` another.
const TEMPLATES: [&str; 30] = [
    "S",
    "S, K",
    "K, S",
    "\"x\\y S, x\" K",
    "\"x S, x\" K",
    "x S K",
    "S x K",
    "(x) S",
    "(x S) K",
    "(x S, x) K",
    "K (x S, x)",
    "x (y\\z) S",
    "\"x\" S, \"y\" K",
    "\"x (S\" K",
    "(x \"S) K",
    "\"x\", S, K",
    "x@S K",
    "<x>S",
    "S<x>",
    "K;S",
    "K S",
    "g: K, S;",
    "\"x\" x S",
    "x.S",
    "xS",
    "x S, y",
    "[x] S",
    "=?utf-8?Q?x?= S",
    "\"=?utf-8?Q?x?=\" S",
    "x \\ S",
];

/// Fields of innocents: `S` is the listed address in a name or a comment, `~` grows.
const INNOCENT: [&str; 16] = [
    "\"~ S\" <ok@good.example>",
    "\"~ <S>\" <ok@good.example>",
    "\"~ <S>, x\" <ok@good.example>",
    "\"~ \\\"S\\\" x\" <ok@good.example>",
    "~ (S) <ok@good.example>",
    "~ x (<S>, x) <ok@good.example>",
    "ok@good.example (~ S)",
    "ok@good.example (~ <S>, (x) x)",
    "\"~, S\" <ok@good.example>, \"S\" <also@good.example>",
    "=?utf-8?Q?~_spam=40bad.example?= <ok@good.example>",
    "=?utf-8?Q?~_=3Cspam=40bad.example=3E?= <ok@good.example>",
    "\"~ S\": ok@good.example, also@good.example;",
    "\"Cron ~ for S\" <root>",
    "MAILER-DAEMON (~ S undeliverable)",
    "\"~ S\"\r\n <ok@good.example>",
    "~ via list <ok@good.example>, x <also@good.example>",
];

const TOKENS: [&str; 40] = [
    "<",
    ">",
    "\"",
    "(",
    ")",
    ",",
    ";",
    ":",
    "@",
    ".",
    " ",
    "\r\n ",
    "\r\n\t",
    "\t",
    "\\",
    "[",
    "]",
    "=?",
    "?=",
    "'",
    "x",
    "=",
    "_",
    "<>",
    "\"\"",
    "()",
    "\u{e9}",
    "!",
    "%",
    "@r.example:",
    "x@y.example",
    "\\\"",
    "\\ ",
    "  ",
    "\u{a0}",
    "\u{7f}",
    "/",
    "+tag",
    "mailto:",
    "\u{ff20}",
];

/// What makes a line long.
const FILLERS: [&str; 12] = [
    "N", "N", "N", " ", "N ", "\t", ".", "(N)", "\\N", "N,", "\u{e9}", "\"N\" ",
];

/// Where servers break lines, cut them, or keep them in something of a fixed size.
const BOUNDS: [usize; 17] = [
    76, 78, 238, 250, 256, 989, 990, 997, 998, 999, 1_022, 1_978, 1_995, 2_039, 2_048, 2_992, 4_096,
];

const FIELDS: [&str; 3] = ["From", "Sender", "Reply-To"];

struct Case {
    field: &'static str,
    value: Vec<u8>,
    is_innocent: bool,
    /// What the corpus says.
    verdict: Option<Verdict>,
}

impl Case {
    fn new(random: &mut Random, corpus: &[Row]) -> Self {
        let field = random.one_of(&FIELDS);
        let is_innocent = random.index(4) == 0;
        let value = match is_innocent {
            true => innocent(random, field),
            false => hostile(random, field, corpus),
        };
        Self {
            field,
            value,
            is_innocent,
            verdict: None,
        }
    }

    /// Returns a field of the corpus, if it stands alone.
    fn of_row(row: &Row) -> Option<Self> {
        let bytes = row.value.iter().filter(|byte| **byte != b'\r');
        let value: Vec<u8> = bytes
            .flat_map(|byte| match byte {
                b'\n' => &b"\r\n"[..],
                byte => std::slice::from_ref(byte),
            })
            .copied()
            .collect();
        let mut whole = value.clone();
        tidy(&mut whole);
        let field = FIELDS.into_iter().find(|field| *field == row.field);
        Some(Self {
            field: field.filter(|_| whole == value)?,
            value,
            is_innocent: false,
            verdict: Some(row.verdict),
        })
    }
}

/// Returns a text with long runs of one byte or pair shortened.
fn shortened(mut rest: &[u8]) -> String {
    let mut shown = String::new();
    while let Some(&first) = rest.first() {
        let unit = if rest.get(1) != Some(&first) && rest.get(2) == Some(&first) {
            2
        } else {
            1
        };
        let piece = &rest[..unit];
        let count = rest
            .chunks(unit)
            .take_while(|&chunk| chunk == piece)
            .count();
        if count > 8 {
            shown += &format!("{{{count} x {}}}", piece.escape_ascii());
            rest = &rest[count * unit..];
        } else {
            shown += &first.escape_ascii().to_string();
            rest = &rest[1..];
        }
    }
    shown
}

/// Returns the lines of a field in a message.
fn field<'m>(message: &'m [u8], name: &str) -> &'m [u8] {
    let name = format!("\n{name}:");
    let at = message
        .windows(name.len())
        .position(|part| part.eq_ignore_ascii_case(name.as_bytes()));
    let rest = at.map_or(&b""[..], |at| &message[at + 1..]);
    let is_end = |part: &[u8]| part[0] == b'\n' && !b" \t".contains(&part[1]);
    let end = rest.windows(2).position(is_end);
    &rest[..end.unwrap_or(rest.len())]
}

fn innocent(random: &mut Random, field: &str) -> Vec<u8> {
    let template = random.one_of(&INNOCENT).replace('S', "spam@bad.example");
    let at = template.find('~').expect("a place that grows");
    let bound = random.one_of(&BOUNDS) + random.index(7) - 3;
    let behind = random.index(template.len() - at);
    // The byte behind the place that grows comes to the bound, or nothing grows.
    let grown = match random.index(3) {
        0 => 1,
        _ => bound.saturating_sub(field.len() + 2 + at + behind).max(1),
    };
    let unit = match template.contains("=?") {
        true => "N",
        false => random.one_of(&["N", "N", "Nn ", "N.", "\u{e9}"]),
    };
    let filler: Vec<u8> = unit.bytes().cycle().take(grown).collect();
    [
        &template.as_bytes()[..at],
        &filler,
        &template.as_bytes()[at + 1..],
    ]
    .concat()
}

fn hostile(random: &mut Random, field: &str, corpus: &[Row]) -> Vec<u8> {
    let template = random.one_of(&TEMPLATES);
    let spelled = random.one_of(&SPELLED);
    let mut value = match random.index(4) {
        0 => corpus[random.index(corpus.len())].value.clone(),
        _ => template
            .replace('S', spelled)
            .replace('K', "<ok@good.example>")
            .into_bytes(),
    };
    for _ in 0..random.index(4) {
        let at = random.index(value.len() + 1);
        match random.index(6) {
            0 if at < value.len() => drop(value.remove(at)),
            1 if at < value.len() => {
                let other = random.index(value.len());
                value.swap(at, other);
            }
            _ => drop(value.splice(at..at, random.one_of(&TOKENS).bytes())),
        }
    }
    tidy(&mut value);
    if random.index(5) > 0 {
        grow(random, field, &mut value);
    }
    tidy(&mut value);
    value
}

/// Makes a line so long that a byte of it comes to a bound.
fn grow(random: &mut Random, field: &str, value: &mut Vec<u8>) {
    let at = random.index(value.len() + 1);
    let start = value[..at]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |end| end + 1);
    let before = if start == 0 { field.len() + 2 } else { 0 } + at - start;
    let bound = random.one_of(&BOUNDS) + random.index(7) - 3;
    let grown = bound.saturating_sub(before);
    let place = start + random.index(at - start + 1);
    let filler = random.one_of(&FILLERS);
    drop(value.splice(place..place, filler.bytes().cycle().take(grown)));
}

/// Removes line ends that would end the field.
fn tidy(value: &mut Vec<u8>) {
    let mut tidied = Vec::new();
    for (at, &byte) in value.iter().enumerate() {
        let is_fold = |at: usize| {
            value.get(at..at + 2) == Some(b"\r\n")
                && value.get(at + 2).is_some_and(|next| b" \t".contains(next))
        };
        match byte {
            b'\r' if !is_fold(at) => {}
            b'\n' if at == 0 || !is_fold(at - 1) => {}
            byte => tidied.push(byte),
        }
    }
    *value = tidied;
}

/// A server that passes mail on, by the recipient's domain; `file.test` is a folder.
trait Passes: Mta {
    /// The recipients of one message, for each message that is sent.
    const MESSAGES: &[&[&str]];

    fn before(site: &Site, sink: u16) -> Self;
}

impl Passes for Postfix {
    /// `again.test` goes through a filter behind the queue, which brings it back from 127.0.0.1, as amavis does.
    const MESSAGES: &[&[&str]] = &[&["smtp.test", "lmtp.test", "file.test"], &["again.test"]];

    fn before(site: &Site, sink: u16) -> Self {
        let back = free_port();
        let to = |domain: &str, service: &str| format!("{domain}={service}:[127.0.0.1]:{sink}");
        let smtp = ["smtp.test", "again.test"]
            .map(|domain| to(domain, "smtp"))
            .join(", ");
        let maps = format!(
            "transport_maps = inline:{{ {smtp}, {} }}",
            to("lmtp.test", "lmtp:inet")
        );
        let filter = format!(
            "smtpd_recipient_restrictions = check_recipient_access inline:{{ {{ again.test = FILTER smtp:[127.0.0.1]:{back} }} }}"
        );
        // Else Postfix would rewrite as for clients of its own, before the milter.
        let settings = [&*maps, &filter, "local_header_rewrite_clients ="];
        let postfix = Self::start_with(&site.socket, &settings);
        let service = format!("127.0.0.1:{back}/inet");
        let options = "-o smtpd_milters= -o smtpd_recipient_restrictions= -o local_header_rewrite_clients=permit_inet_interfaces";
        run(postfix.command("postconf").arg("-M").arg(format!(
            "{service}=127.0.0.1:{back} inet n - n - - smtpd {options}"
        )));
        postfix.reload(&[]);
        until("Postfix listens for the filter", || {
            port_listens(back).then_some(())
        });
        postfix
    }
}

impl Passes for Sendmail {
    const MESSAGES: &[&[&str]] = &[&["smtp.test", "relay.test", "file.test"]];

    fn before(site: &Site, sink: u16) -> Self {
        Self::start_before(&site.socket, WhenDown::Tempfail, sink)
    }
}

impl Passes for Exim {
    const MESSAGES: &[&[&str]] = &[&["smtp.test", "file.test"]];

    fn before(site: &Site, sink: u16) -> Self {
        Self::start_before(&site.socket, WhenDown::Tempfail, sink)
    }
}

/// Returns what the daemon said.
fn found(message: &[u8]) -> Verdict {
    let tag = b"\nX-Sender-Blocklist: list=";
    let at = message.windows(tag.len()).position(|part| part == tag);
    match at.map(|at| &message[at + tag.len()..]) {
        None => Verdict::No,
        Some(list) if list.starts_with(b"strong;") => Verdict::Found,
        Some(_) => Verdict::Weak,
    }
}

fn canonical(address: &str) -> Option<Vec<u8>> {
    let form = Canonical::parse(address.as_bytes(), Rules::default()).ok()?;
    Some(form.as_bytes().to_vec())
}

/// Plays this many fields, and judges what is delivered.
fn play<M: Passes>(count: usize) {
    /// From this number on, the fields are new each time.
    const CAMPAIGN: usize = 2_000;
    const BATCH: usize = 500;
    if !usable(readers::NAME, readers::obstacle()) {
        return;
    }
    let (sink, corpus) = (Sink::start(), corpus::rows());
    let mut known: Vec<Case> = corpus.iter().filter_map(Case::of_row).collect();
    assert!(known.len() > 200, "{}", known.len());
    let entries = [&corpus::entries(&corpus)[..], &LISTED].concat();
    let lists = ["strong", "any"].map(|name| {
        let weak = if name == "any" { "full" } else { "ignore" };
        format!("[[list]]\nname = '{name}'\nfilter = '@DIR@/{name}.blf'\naction = 'tag'\nweak = '{weak}'\n")
    });
    let site = || {
        let mut site = Site::new(Transport::Unix);
        site.doors = &["policy"];
        site.list("strong", &entries);
        site.list("any", &entries);
        site.configure(&format!("{}[log]\nlevel = 'error'\n", lists.concat()));
        site
    };
    let Some(scene) = Scene::<M>::on(site, |site| M::before(site, sink.port)) else {
        return;
    };
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let count = number("DELIVERED").map_or(count, |count| usize::try_from(count).expect("a count"));
    let seed = number("DELIVERED_SEED").unwrap_or_else(|| match count < CAMPAIGN {
        true => 1,
        false => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("after 1970").as_secs()
        }
    });
    eprintln!("{}: DELIVERED_SEED={seed}", M::NAME);
    let listed: HashSet<Vec<u8>> = LISTED.iter().filter_map(|one| canonical(one)).collect();
    let is_listed = |address: &String| canonical(address).is_some_and(|one| listed.contains(&one));
    let mut random = Random(seed);
    let (mut copies, mut shown, mut weak, mut divided, mut wrong) = (0, 0, 0, 0, Vec::new());
    let mut done = 0;
    while done < count {
        let new = (known.len()..BATCH.min(count - done)).map(|_| Case::new(&mut random, &corpus));
        let new: Vec<Case> = new.collect();
        let cases: Vec<Case> = known.drain(..).chain(new).collect();
        done += cases.len();
        let delivered = deliver(&scene.mta, &sink, &cases);
        let messages = delivered
            .iter()
            .map(|(number, _, message)| (cases[*number].field, &**message));
        let read = readers::read(&messages.collect::<Vec<_>>());
        copies += read.len();
        for ((number, route, message), read) in delivered.iter().zip(read) {
            let case = &cases[*number];
            let by = READERS
                .iter()
                .zip(&read)
                .filter(|(_, shown)| shown.iter().any(is_listed));
            let by: Vec<&str> = by.map(|(reader, _)| *reader).collect();
            let found = found(message);
            let all = read.iter().filter(|shown| !shown.is_empty()).count();
            let is_shown = by.len() > 1 && by.len() * 2 > all;
            divided += usize::from(by.len() > 1 && !is_shown && found == Verdict::No);
            let verdict = match found {
                _ if case.verdict.is_some_and(|verdict| verdict != found) => "not as in the corpus",
                Verdict::No if is_shown => "missed",
                Verdict::Found | Verdict::Weak if case.is_innocent && by.is_empty() => "refused",
                _ => "",
            };
            shown += usize::from(is_shown);
            weak += usize::from(is_shown && found == Verdict::Weak);
            if !verdict.is_empty() {
                let [sent, came] = [&*case.value, field(message, case.field)].map(shortened);
                wrong.push(format!(
                    "{verdict}: {} to {route}, shown by {by:?}\n  sent {}: {sent}\n  came {came}",
                    M::NAME,
                    case.field
                ));
            }
        }
    }
    let name = M::NAME;
    eprintln!(
        "{name}: {count} fields, {copies} delivered, in {shown} a listed mailbox (weak in {weak}), {divided} passed on which readers are divided, {} wrong",
        wrong.len()
    );
    if let Ok(file) = std::env::var("DELIVERED_REPORT") {
        fs::write(file, wrong.join("\n") + "\n").expect("a report");
    }
    assert!(shown * 20 > copies, "too few to say anything");
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sends messages with these fields. Returns what arrives: the number of the field, the recipient, the message.
fn deliver<M: Passes>(mta: &M, sink: &Sink, cases: &[Case]) -> Vec<(usize, String, Vec<u8>)> {
    const CLIENTS: usize = 4;
    let port = mta.port();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let mut session = Smtp::connect(port);
                for (number, case) in cases.iter().enumerate().skip(client).step_by(CLIENTS) {
                    for recipients in M::MESSAGES {
                        offer(&mut session, number, case, recipients);
                    }
                }
                session.quit();
            });
        }
    });
    until("an idle queue", || mta.idle().then_some(()));
    let mut all = sink.take();
    for entry in fs::read_dir(mta.mailbox())
        .expect("the mailbox exists")
        .flatten()
    {
        let copy = fs::read(entry.path()).expect("a delivered message");
        fs::remove_file(entry.path()).expect("root may");
        all.push(("file.test".into(), copy));
    }
    let numbered = all.into_iter().map(|(route, message)| {
        let mark = b"\nX-Number: ";
        let at = message
            .windows(mark.len())
            .position(|part| part == mark)
            .expect("our own field");
        let rest = &message[at + mark.len()..];
        let digits = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .copied()
            .collect();
        let number = String::from_utf8(digits)
            .expect("digits")
            .parse()
            .expect("a number");
        (number, route, message)
    });
    numbered.collect()
}

fn offer(session: &mut Smtp, number: usize, case: &Case, recipients: &[&str]) {
    let mut envelope = b"RSET\r\nMAIL FROM:<> BODY=8BITMIME\r\n".to_vec();
    for domain in recipients {
        envelope.extend_from_slice(format!("RCPT TO:<reader@{domain}>\r\n").as_bytes());
    }
    envelope.extend_from_slice(b"DATA\r\n");
    let replies = session.say_bytes(&envelope, recipients.len() + 3);
    let last = replies.last().expect("a reply");
    assert_eq!(last.code, 354, "{last}");
    let mut content = format!("X-Number: {number}\r\n").into_bytes();
    if case.field != "From" {
        content.extend_from_slice(b"From: ok@good.example\r\n");
    }
    content.extend_from_slice(format!("{}: ", case.field).as_bytes());
    content.extend_from_slice(&case.value);
    content
        .extend_from_slice(b"\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n");
    content.extend_from_slice(b"Content-Transfer-Encoding: 8bit\r\n\r\nH\xc3\xa4llo.\r\n.\r\n");
    session.say_bytes(&content, 1);
}

#[test]
fn by_postfix() {
    play::<Postfix>(600);
}

#[test]
fn by_sendmail() {
    play::<Sendmail>(600);
}

#[test]
fn by_exim() {
    play::<Exim>(600);
}

#[test]
#[ignore = "a campaign: tests/run --long"]
fn many() {
    play::<Postfix>(10_000);
    play::<Sendmail>(10_000);
    play::<Exim>(10_000);
}
