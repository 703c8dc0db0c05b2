//! Verdicts by the daemon: lists with their own policy, exemptions, the whitelist, and what
//! softens. The tables are in `tests/verdicts.toml`, which explains them.

use std::collections::BTreeMap;
use std::fs;

use blocklist_milter::demo::peer::{Answer, Change, Delivery, Peer, TestMail};
use serde::Deserialize;

use crate::support::rig::{Rig, letter, verdict};
use crate::support::{root, rows, words};

const FILES: [(&str, &str); 2] = [
    (
        "spam.list",
        "spam@bad.example\n@bad.test\n.deep.test\nrole@\n",
    ),
    ("white.txt", "good@bad.test\n"),
];
const REJECTING: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";
const APART: &str = "452 4.5.3 send to this recipient in a separate transaction";

fn rejecting(rest: &str) -> Rig {
    Rig::new(&FILES, &format!("{REJECTING}{rest}"))
}

#[derive(Deserialize)]
struct Tables {
    test: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    files: Option<BTreeMap<String, String>>,
    config: Option<String>,
    settings: Option<String>,
    #[serde(default)]
    is_started: bool,
    #[serde(default)]
    any_order: bool,
    #[serde(default)]
    names: BTreeMap<String, String>,
    rows: String,
}

macro_rules! verdicts {
    ($(#[test] fn $name:ident();)+) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[test]
            fn $name() {
                play(stringify!($name));
            }
        )+
    };
}

verdicts! {
    #[test] fn every_identity_and_kind_of_entry();
    #[test] fn envelope_hits_are_refused_at_rcpt_and_header_hits_at_the_end_of_the_headers();
    #[test] fn the_contact_is_named_and_stays_reachable();
    #[test] fn recipients_that_stay_reachable();
    #[test] fn the_sender_as_the_server_understood_it();
    #[test] fn the_recipient_as_the_server_understood_it();
    #[test] fn recipients_as_they_are_written();
    #[test] fn clients_that_are_not_refused();
    #[test] fn the_whitelist_clears_its_own_address_only();
    #[test] fn a_whitelist_entry_ends_on_its_day();
    #[test] fn a_whitelisted_header_may_need_dkim();
    #[test] fn dkim_vouches_for_the_domain_that_was_written();
    #[test] fn each_action();
    #[test] fn discarding_and_holding_never_touch_an_exempt_recipient();
    #[test] fn the_strongest_of_several_lists_wins();
    #[test] fn lists_for_some_recipients();
    #[test] fn mailing_lists_may_be_treated_softer();
    #[test] fn weak_addresses();
    #[test] fn replies_are_filled_in_and_cleaned();
    #[test] fn nothing_of_a_message_reaches_the_next();
    #[test] fn a_crowd_of_hits_hides_none();
    #[test] fn a_sender_behind_more_than_are_looked_at_is_not_missed();
    #[test] fn recipients_share_a_transaction_where_they_can();
    #[test] fn a_list_that_changes_nothing_does_not_harden_another();
    #[test] fn a_missing_filter_holds_up_no_mail_that_a_hit_would_only_tag();
    #[test] fn on_error_decides_what_a_missing_filter_would_say();
    #[test] fn a_start_with_a_list_that_hits_must_miss_defers_its_hits_alone();
    #[test] fn what_every_recipient_would_refuse_is_refused();
}

/// Plays the table of this name.
fn play(name: &str) {
    let text = fs::read_to_string(root("tests/verdicts.toml")).unwrap();
    let tables: Tables = toml::from_str(&text).unwrap();
    let names: Vec<&str> = tables.test.iter().map(|table| &*table.name).collect();
    assert_eq!(names, NAMES, "each table has its function");
    let table = tables.test.iter().find(|table| table.name == name).unwrap();
    let mut text = table.rows.clone();
    for (name, meaning) in &table.names {
        text = text.replace(&format!("${name}"), meaning);
    }
    let rows: Vec<[&str; 4]> = match &table.settings {
        Some(settings) => rows(text.leak())
            .into_iter()
            .map(|[envelope, fields, expected]| [settings, envelope, fields, expected])
            .collect(),
        None => rows(text.leak()),
    };
    assert!(!rows.is_empty(), "{name}: a table without rows");
    for rows in rows.chunk_by(|one, next| one[0] == next[0]) {
        let rig = table.rig(rows[0][0]);
        let mut shared = rig.peer();
        for round in 0..4 {
            for &[settings, envelope, fields, expected] in rows {
                let at = format!("{name}: {settings} | {envelope} | {fields}");
                let (mut mail, client) = mail(envelope, fields);
                for _ in 0..=usize::from(table.any_order) {
                    let own = match client {
                        Some((address, port)) => Some(rig.client(address, port.parse().unwrap())),
                        None => (round == 0).then(|| rig.peer()),
                    };
                    if let Some(mut own) = own {
                        check(&rig, &mut own, &mail, expected, &at);
                        own.quit().unwrap();
                    } else {
                        check(&rig, &mut shared, &mail, expected, &at);
                    }
                    mail.headers.reverse();
                }
            }
        }
        shared.quit().unwrap();
    }
}

impl Table {
    fn rig(&self, settings: &str) -> Rig {
        let mut parts = settings.split('&').map(str::trim);
        let mut config = match &self.config {
            Some(config) => config.clone(),
            None => format!("{REJECTING}@1\n"),
        };
        for place in ["@1", "@2"] {
            let part = parts.next().unwrap_or_default();
            assert!(part.is_empty() || config.contains(place), "{settings}");
            config = config.replace(place, part);
        }
        assert_eq!(parts.next(), None, "{settings}");
        let files: Vec<(&str, &str)> = match &self.files {
            Some(files) => files
                .iter()
                .map(|(name, text)| (&**name, &**text))
                .collect(),
            None => FILES.to_vec(),
        };
        match self.is_started {
            true => Rig::started(&files, &config),
            false => Rig::new(&files, &config),
        }
    }
}

/// Returns the message of a row, and the address and port of its client, if they are named.
fn mail<'r>(envelope: &'r str, fields: &str) -> (TestMail, Option<(&'r str, &'r str)>) {
    let fields = fields.split(" + ").filter(|field| !field.is_empty());
    let fields: Vec<String> = fields.map(written_out).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let mut parts = envelope.split("; ");
    let mut mail = letter(parts.next().unwrap(), &fields);
    let mut client = None;
    for part in parts {
        let (name, value) = part.split_once(' ').unwrap_or((part, ""));
        match name {
            "to" => mail.recipients = words(value).into_iter().map(Into::into).collect(),
            "client" => client = Some(value.split_once(' ').expect("an address and a port")),
            _ => {
                assert!(name.starts_with('{'), "{part}");
                mail.macros.push((name.into(), value.into()));
            }
        }
    }
    (mail, client)
}

/// Writes out `{200 x#@a.example}`.
fn written_out(field: &str) -> String {
    let parts = field
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (crowd, after))) = parts else {
        return field.to_owned();
    };
    let (count, address) = crowd.split_once(' ').unwrap();
    let all = (0..count.parse::<usize>().unwrap()).map(|n| address.replace('#', &n.to_string()));
    format!("{before}{}{after}", all.collect::<Vec<_>>().join(", "))
}

/// Sends a message, and compares its verdict.
fn check(rig: &Rig, peer: &mut Peer, mail: &TestMail, expected: &str, at: &str) {
    let deferred = rig.live.counters.deferred.get();
    let outcome = peer.deliver(mail).unwrap();
    let is_apart = |answer: &&Answer| **answer == Answer::Text(APART.into());
    let apart = outcome.recipients.iter().filter(is_apart).count();
    let counted = rig.live.counters.deferred.get() - deferred;
    assert_eq!(counted, apart as u64, "{at}");
    let (expected, pattern) = match expected.split_once(" = ") {
        Some((expected, pattern)) => (expected, Some(pattern)),
        None => (expected, None),
    };
    let short = verdict(&outcome);
    let long = one_by_one(&outcome);
    assert!(
        expected == short || expected == long,
        "{at}: {expected} expected, found {short}, {long}"
    );
    if let Some(pattern) = pattern {
        let text = text(&outcome);
        assert!(
            fits(&text, pattern),
            "{at}: {pattern} expected, found {text}"
        );
    }
}

/// Returns the word for each recipient, and the one for the message.
fn one_by_one(outcome: &Delivery) -> String {
    let only = |recipients: Vec<Answer>, message: Option<Answer>| {
        verdict(&Delivery {
            recipients,
            message,
            ..outcome.clone()
        })
    };
    let word = |answer: &Answer| match answer {
        Answer::Text(text) if text == APART => "apart".to_owned(),
        answer if answer.refuses() => only(vec![answer.clone()], None),
        _ => "-".to_owned(),
    };
    let mut words: Vec<String> = outcome.recipients.iter().map(word).collect();
    words.push(match &outcome.message {
        Some(_) => only(Vec::new(), outcome.message.clone()),
        None => ".".to_owned(),
    });
    words.join(" ")
}

/// Returns the text of the tag, or of the refusal.
fn text(outcome: &Delivery) -> String {
    let tag = outcome.changes.iter().find_map(|change| match change {
        Change::Added(_, value) => Some(value.clone()),
        Change::Changed(..) | Change::Quarantined(_) => None,
    });
    let mut answers = outcome.message.iter().chain(&outcome.recipients);
    let reply = answers.find_map(|answer| match answer {
        Answer::Text(text) => Some(text.replace("\r\n", "\n")),
        _ => None,
    });
    tag.or(reply).unwrap_or_default()
}

/// Returns whether a pattern, in which `*` stands for anything, is the whole text.
fn fits(text: &str, pattern: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return text == pattern;
    };
    text.strip_prefix(head).is_some_and(|rest| {
        (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| fits(rest, tail)))
    })
}

/// If the daemon tags, nobody else can; and thousands of forged tags need only a little work of the
/// mail server.
#[test]
fn the_tag_stands_once_and_forged_ones_go() {
    let changes = |settings: &str, headers: &[&str]| {
        rejecting(settings)
            .deliver(&letter("<a@ok.example>", headers))
            .changes
    };
    let name = || "X-Sender-Blocklist".to_owned();
    let removed = |index| Change::Changed(index, name(), String::new());
    let tag = "list=spam; identity=from; address=spam@bad.example; source=spam".to_owned();
    let forged = [
        "X-Sender-Blocklist: forged",
        "From: spam@bad.example",
        "x-sender-BLOCKLIST: forged too",
    ];
    assert_eq!(
        changes("action = 'tag'\n", &forged),
        [removed(2), removed(1), Change::Added(name(), tag)]
    );
    // They are also removed from an innocent sender's message.
    for (settings, expected) in [
        ("action = 'tag'", vec![removed(1)]),
        // It tags because of mixed recipients.
        ("", vec![removed(1)]),
        ("action = 'log'", vec![]),
        ("action = 'tag'\ndry_run = true", vec![]),
    ] {
        for one in [forged[0], "x-SENDER-blocklist: list=spam; identity=from"] {
            assert_eq!(changes(settings, &[one]), expected, "{settings}");
        }
    }
    let made = changes("action = 'tag'", &[forged[0]; 5_000]);
    assert_eq!(made.len(), 100, "{:?}", made.first());
    assert_eq!(made.last(), Some(&removed(1)));
}
