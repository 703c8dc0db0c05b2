//! Compares our senders with those of three other parsers: mail-parser alone, and two in Python's
//! `email` package.
//!
//! * An address that all three find as it is written is among ours, in any value whose brackets match
//!   and that has no encoded words.
//! * If all three find the same addresses in a well-formed value, these are ours, and no others.
//!
//! The values are generated from a seed: a few thousand in the ordinary run, 100,000 in the ignored
//! campaign (`DIFFERENTIAL_SEED` selects others). Addresses are compared in canonical form.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::Command;

use blocklist_filter::address::{Canonical, Rules};
use blocklist_milter::sender::{Identity, Senders, Strength};
use mail_parser::HeaderValue;
use mail_parser::parsers::MessageStream;

use crate::support::{self, check::Random};

const TEMPLATES: [&str; 22] = [
    "a@b.example",
    "<a@b.example>",
    "Name <a@b.example>",
    "\"Na, me\" <a@b.example>",
    "a@b.example (Name)",
    "v@w.example <a@b.example>",
    "\"v@w.example\" <a@b.example>",
    "Name (v@w.example) <a@b.example>",
    "=?utf-8?Q?N=C3=A4me?= <a@b.example>",
    "=?utf-8?Q?v=40w.example?= <a@b.example>",
    "a@b.example, Name <c@d.example>",
    "Name <a@b.example>, \"Name\" <c@d.example>",
    "Name <a@b.example> <c@d.example>",
    "a@b.example c@d.example",
    "group: a@b.example, Name <c@d.example>;",
    "undisclosed:;",
    "\"a b\"@c.example",
    "Name <\"a\"@b.example>",
    "Name <@r.example:a@b.example>",
    "a(x)@(y)b.example",
    "Name <a@[192.0.2.1]>",
    ENCODED,
];

/// An encoded word that is a mailbox: one for us, but not for the others.
const ENCODED: &str = "=?utf-8?Q?a=40b.example?=";

const SPECIALS: [&str; 26] = [
    "<", ">", "\"", "(", ")", ",", ";", ":", "@", ".", " ", "\r\n ", "\\", "[", "]", "=?", "?=",
    "'", "x", "=", "_", "<>", "\"\"", "()", "é", "!",
];

/// Returns up to three mailboxes.
fn well_formed(random: &mut Random) -> String {
    let count = 1 + random.index(3);
    let all = (0..count).map(|_| random.one_of(&TEMPLATES));
    let all: Vec<&str> = all.filter(|template| *template != ENCODED).collect();
    all.join(", ")
}

/// Returns a template with up to three mutations.
fn mutated(random: &mut Random) -> String {
    let mut value: Vec<char> = random.one_of(&TEMPLATES).chars().collect();
    for _ in 0..random.index(4) {
        let at = random.index(value.len() + 1);
        match random.index(5) {
            0 if at < value.len() => drop(value.remove(at)),
            1 if at < value.len() => {
                let other = random.index(value.len());
                value.swap(at, other);
            }
            2 => drop(value.splice(at..at, random.one_of(&TEMPLATES).chars())),
            _ => drop(value.splice(at..at, random.one_of(&SPECIALS).chars())),
        }
    }
    // No field has a continuation line that does not begin with a blank.
    let value: String = value.into_iter().filter(|c| *c != '\r').collect();
    value
        .replace("\n ", "\r\n ")
        .replace("\n\r", "\r")
        .split_inclusive("\r\n ")
        .map(|line| {
            line.strip_suffix("\r\n ").map_or_else(
                || line.replace('\n', ""),
                |line| line.replace('\n', "") + "\r\n ",
            )
        })
        .collect()
}

fn canonical(address: &str) -> Option<String> {
    let canonical = Canonical::parse(address.as_bytes(), Rules::default()).ok()?;
    let named = canonical.domain().iter().any(u8::is_ascii_alphanumeric);
    if canonical.local().is_empty() || !named {
        return None;
    }
    Some(String::from_utf8_lossy(canonical.as_bytes()).into_owned())
}

type Addresses = BTreeSet<String>;

/// Returns our addresses: the strong ones, and the weak ones.
fn ours(value: &str) -> (Addresses, Addresses) {
    let mut senders = Senders::new();
    senders.add_header(Identity::From, value.as_bytes());
    let (mut strong, mut weak) = (Addresses::new(), Addresses::new());
    for sender in senders.iter() {
        let set = match sender.strength {
            Strength::Strong => &mut strong,
            Strength::Weak | Strength::Doubtful => &mut weak,
        };
        set.extend(canonical(&String::from_utf8_lossy(sender.address)));
    }
    (strong, weak)
}

fn by_mail_parser(value: &str) -> Addresses {
    let line = format!("{value}\n");
    match MessageStream::new(line.as_bytes()).parse_address() {
        HeaderValue::Address(addresses) => addresses
            .iter()
            .filter_map(|address| canonical(address.address()?))
            .collect(),
        _ => Addresses::new(),
    }
}

/// Two parsers in Python's library: `email.utils`, and that of the default policy.
const PYTHON: &str = r#"
import sys, json
from email.headerregistry import HeaderRegistry
from email.utils import getaddresses
registry = HeaderRegistry()
for line in sys.stdin:
    value = json.loads(line).replace("\r\n", "")
    old = [address for _, address in getaddresses([value])]
    try:
        new = [address.addr_spec for address in registry("From", value).addresses]
    except Exception:
        new = []
    whole = lambda found: [a.encode("utf-8", "replace").decode() for a in found]
    print(json.dumps([whole(old), whole(new)]))
"#;

/// Returns what the two parsers find in each value.
fn by_python(values: &[String]) -> Vec<[Addresses; 2]> {
    let scratch = support::Scratch::new();
    let input: String = (values.iter())
        .map(|value| serde_json::to_string(value).unwrap() + "\n")
        .collect();
    let file = scratch.at("values");
    fs::write(&file, input).unwrap();
    let mut python = Command::new("python3");
    let python = python
        .args(["-c", PYTHON])
        .stdin(File::open(&file).unwrap());
    let output = python.output().unwrap();
    assert!(output.status.success(), "python3 failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let canonical = |found: Vec<String>| found.iter().filter_map(|a| canonical(a)).collect();
    let of_line = |line| {
        serde_json::from_str::<[Vec<String>; 2]>(line)
            .unwrap()
            .map(canonical)
    };
    let found: Vec<_> = text.lines().map(of_line).collect();
    assert_eq!(found.len(), values.len());
    found
}

#[test]
fn what_others_agree_on_is_found() {
    compare(4_000, 1);
}

#[test]
#[ignore = "a campaign: 100,000 values"]
fn what_others_agree_on_is_found_in_many() {
    let seed = std::env::var("DIFFERENTIAL_SEED").map_or(2, |text| text.parse().unwrap());
    compare(100_000, seed);
}

fn compare(count: usize, seed: u64) {
    if !support::installed("python3") {
        return;
    }
    let mut random = Random(seed);
    let values: Vec<String> = (0..count)
        .map(|number| match number % 4 {
            0 => well_formed(&mut random),
            _ => mutated(&mut random),
        })
        .collect();
    let (mut wrong, mut agreed) = (Vec::new(), 0);
    for (number, (value, python)) in values.iter().zip(by_python(&values)).enumerate() {
        let (strong, weak) = ours(value);
        let [first, second] = python;
        let third = by_mail_parser(value);
        let written = value.to_lowercase();
        let all = first
            .intersection(&second)
            .filter(|one| third.contains(*one));
        let brackets = value.replace(|c| !"<>".contains(c), "");
        let has_pairs = brackets == "<>".repeat(brackets.len() / 2);
        let is_clear = has_pairs && !value.contains("=?");
        let mut missed = all.filter(|one| is_clear && written.contains(one.as_str()));
        let is_missed = missed.any(|one| !strong.contains(one) && !weak.contains(one));
        let is_agreed = number % 4 == 0 && first == second && second == third;
        agreed += usize::from(is_agreed);
        let is_other = is_agreed && !first.is_empty() && first != strong;
        if is_missed || is_other {
            wrong.push(format!(
                "{value:?}: {first:?} {second:?} {third:?}, ours {strong:?} {weak:?}"
            ));
        }
    }
    let shown = wrong
        .iter()
        .take(20)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        wrong.is_empty(),
        "{} differences, among them:\n{shown}",
        wrong.len()
    );
    assert!(agreed > count / 8, "too few to say anything: {agreed}");
}
