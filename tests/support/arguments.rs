//! Strange arguments of MAIL FROM and RCPT TO, around an address that matters. The results of real
//! servers are compared with those of the daemon.
//!
//! The daily test uses the same arguments each time, a campaign new ones; the seed is printed:
//! `ARGUMENT_SEED=N cargo test --test machine postfix:: -- mail_arguments`. `ARGUMENTS=N` sets their number.

use std::collections::HashSet;
use std::fs;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use blocklist_filter::address::{Canonical, Rules};
use blocklist_milter::sender::Senders;

use super::check::Random;
use super::mta::{Mta, WhenDown};
use super::scene::Scene;
use super::site::{Site, Transport};
use super::smtp::Smtp;
use super::table::byte_words;
use super::until;

/// The listed senders: one of each kind that an odd argument can mean.
const LISTED: [&str; 4] = [
    "spam@bad.example",
    "\"john smith\"@bad.example",
    "spam@[192.0.2.66]",
    "own@mx.test",
];

/// Tokens that are inserted.
static TOKENS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    byte_words(
        r#"
        " "" \ \" \{20} < > <> ( ) (x) () {20} {20}{20} {9} , ; : . .. @ % ! [ ] ' = =? +tag - / x
        x@y @relay.example: @r.example,@s.example: mailto: MAILTO: prvs=0a1b2c3d4e= btv1==ab==
        %mx.test @mx.test mx.test! {20}SIZE=100 {20}AUTH=<> {xE9} é {AD} {200B} {xA0} {1} {7F}
        =?utf-8?Q?spam?=
        "#,
    )
});

/// Returns an argument that some server may read as `address`.
fn argument(random: &mut Random, address: &str) -> Vec<u8> {
    let (local, domain) = address.rsplit_once('@').expect("an address");
    let mut written: Vec<u8> = match random.index(8) {
        0 => format!("{local}%{domain}"),
        1 => format!("{domain}!{local}"),
        2 => format!("\"{}\"@{domain}", local.replace('"', "")),
        3 => local.replace('"', ""),
        _ => address.to_owned(),
    }
    .into_bytes();
    if random.index(8) == 0 {
        written.make_ascii_uppercase();
    }
    for _ in 0..random.index(5) {
        let at = random.index(written.len() + 1);
        match random.index(8) {
            0 if at < written.len() => drop(written.remove(at)),
            1 if at < written.len() => written.insert(at, b'\\'),
            _ => {
                let token = &TOKENS[random.index(TOKENS.len())];
                written.splice(at..at, token.iter().copied());
            }
        }
    }
    let token = |random: &mut Random| match random.index(8) {
        0 => &*TOKENS[random.index(TOKENS.len())],
        _ => b"",
    };
    let open: &[u8] = if random.index(5) == 0 { b"" } else { b"<" };
    let close: &[u8] = if random.index(5) == 0 { b"" } else { b">" };
    let (before, behind) = (token(random), token(random));
    [before, open, &written, close, behind].concat()
}

/// The command with the argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Mail,
    Rcpt,
}

/// Every argument of MAIL that a server accepts, and delivers as from a listed sender, was found by
/// the daemon.
pub(crate) fn mail_arguments<M: Mta>(count: usize) {
    let lists = "[[list]]\nname = \"listed\"\nfilter = \"@DIR@/listed.blf\"\naction = \"tag\"\ncheck = [\"mail-from\"]\n";
    let Some((scene, arguments)) = played::<M>(Command::Mail, count, lists) else {
        return;
    };
    let listed = LISTED.iter().filter_map(|one| canonical(one.as_bytes()));
    let listed: HashSet<Vec<u8>> = listed.collect();
    let is_listed = |address: &[u8]| canonical(address).is_some_and(|one| listed.contains(&one));
    let (mut delivered, mut found, mut missed) = (0, 0, Vec::new());
    for (argument, copy) in &arguments {
        let Some(copy) = copy else { continue };
        delivered += 1;
        let sender = field(copy, b"Return-Path: ");
        // Sendmail writes a local address without its domain.
        let sender = if sender.contains(&b'@') || sender == b"<>" {
            sender.to_vec()
        } else {
            [sender.strip_suffix(b">").unwrap_or(sender), b"@mx.test>"].concat()
        };
        if !is_listed(&sender) {
            continue;
        }
        found += 1;
        let written = format!("{} from {}", argument.escape_ascii(), sender.escape_ascii());
        let tag = b"\nX-Sender-Blocklist: list=listed; identity=mail-from;";
        if !copy.windows(tag.len()).any(|part| part == tag) {
            missed.push(written.clone());
        }
        // If the server's knowledge is not needed, the argument alone gives the sender too.
        let undone = argument.iter().any(|byte| matches!(byte, b'%' | b'!'));
        let mut senders = Senders::new();
        senders.add_mail_from(argument);
        let completed = canonical(&sender).is_some_and(|sender| sender.ends_with(b"@mx.test"));
        let is_found = senders.iter().any(|one| is_listed(one.address));
        if !undone && !completed && !is_found {
            missed.push(format!("by its bytes alone: {written}"));
        }
    }
    let (name, count) = (M::NAME, arguments.len());
    eprintln!("{name}: {count} arguments, {delivered} delivered, {found} as from a listed sender");
    assert!(found > 0, "no argument reached a listed sender");
    assert!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
    drop(scene);
}

/// No argument of RCPT lets a listed sender reach a mailbox that is not exempt.
pub(crate) fn rcpt_arguments<M: Mta>(count: usize) {
    let lists =
        "[[list]]\nname = \"listed\"\nfilter = \"@DIR@/listed.blf\"\ncheck = [\"mail-from\"]\n";
    let Some((scene, arguments)) = played::<M>(Command::Rcpt, count, lists) else {
        return;
    };
    let (mut reached, mut missed) = (0, Vec::new());
    for (argument, copy) in &arguments {
        let Some(copy) = copy else { continue };
        reached += 1;
        let to = field(copy, b"Delivered-To: ");
        let local = to.split(|&byte| byte == b'@').next().unwrap_or_default();
        let local = local.to_ascii_lowercase();
        if local != b"abuse" && local != b"postmaster" && local != b"\"abuse\"" {
            let [argument, to] = [argument, to].map(|bytes| bytes.escape_ascii());
            missed.push(format!("{argument} reached {to}"));
        }
    }
    eprintln!(
        "{}: {} arguments, {reached} delivered",
        M::NAME,
        arguments.len()
    );
    assert!(reached > 0, "no argument reached an exempt recipient");
    assert!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
    drop(scene);
}

/// An argument, and the message if it came.
type Played = (Vec<u8>, Option<Vec<u8>>);

/// Sends `count` messages, each with an argument, and returns each argument with the delivered
/// message.
fn played<M: Mta>(command: Command, count: usize, lists: &str) -> Option<(Scene<M>, Vec<Played>)> {
    const CLIENTS: usize = 4;
    /// From this number on, the arguments are new each time.
    const CAMPAIGN: usize = 2_000;
    /// Messages between two checks of the mailbox, which is then emptied.
    const BATCH: usize = 500;
    let scene = Scene::<M>::on(
        || {
            let mut site = Site::new(Transport::Unix);
            site.list("listed", &LISTED);
            site.configure(&format!("{lists}[log]\naccepted = false\n"));
            site
        },
        |site| M::start(&site.socket, WhenDown::Tempfail),
    )?;
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let count = number("ARGUMENTS").map_or(count, |count| usize::try_from(count).expect("a count"));
    let seed = number("ARGUMENT_SEED").unwrap_or_else(|| {
        if count < CAMPAIGN {
            return 1;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.expect("after 1970").as_secs()
    });
    eprintln!("{}: ARGUMENT_SEED={seed}", M::NAME);
    let mut random = Random(seed);
    let mut done = Vec::new();
    while done.len() < count {
        let batch = (0..BATCH.min(count - done.len())).map(|_| {
            let address = match command {
                Command::Mail => random.one_of(&LISTED),
                Command::Rcpt => "abuse@our.example",
            };
            argument(&mut random, address)
        });
        let batch: Vec<Vec<u8>> = batch.collect();
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (port, batch) = (scene.mta.port(), &batch);
                scope.spawn(move || {
                    let mut session = Smtp::connect(port);
                    for (number, argument) in batch.iter().enumerate().skip(client).step_by(CLIENTS)
                    {
                        offer(&mut session, command, argument, number);
                    }
                    session.quit();
                });
            }
        });
        until("an idle queue", || scene.mta.idle().then_some(()));
        let mut copies = vec![None; batch.len()];
        let delivered = fs::read_dir(scene.mta.mailbox()).expect("the mailbox exists");
        for entry in delivered.flatten() {
            let copy = fs::read(entry.path()).expect("a delivered message");
            fs::remove_file(entry.path()).expect("root may");
            let number = String::from_utf8_lossy(field(&copy, b"Subject: ")).parse::<usize>();
            copies[number.expect("our own subject")] = Some(copy);
        }
        done.extend(batch.into_iter().zip(copies));
    }
    Some((scene, done))
}

/// Sends one message, as far as the server accepts it.
fn offer(session: &mut Smtp, command: Command, argument: &[u8], number: usize) {
    let (mail, rcpt): (&[u8], &[u8]) = match command {
        Command::Mail => (argument, b"<reader@local.test>"),
        Command::Rcpt => (b"<spam@bad.example>", argument),
    };
    let (before, between) = (&b"RSET\r\nMAIL FROM:"[..], b"\r\nRCPT TO:");
    let envelope = [before, mail, between, rcpt, b"\r\nDATA\r\n"].concat();
    let replies = session.say_bytes(&envelope, 4);
    if replies[3].code == 354 {
        let content = format!("From: innocent@elsewhere.test\r\nSubject: {number}\r\n\r\n.\r\n");
        session.say_bytes(content.as_bytes(), 1);
    }
}

fn canonical(address: &[u8]) -> Option<Vec<u8>> {
    let form = Canonical::parse(address, Rules::default()).ok()?;
    Some(form.as_bytes().to_vec())
}

/// Returns the text after a field's name; a message has each of our fields once.
fn field<'m>(message: &'m [u8], name: &[u8]) -> &'m [u8] {
    let lines = message.split(|&byte| byte == b'\n');
    lines
        .into_iter()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_default()
}
