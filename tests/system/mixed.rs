//! Verdicts on messages with many senders, many recipients and several lists, by the daemon.

use std::sync::LazyLock;

use blocklist_compile::compile::{self, Plan, Progress};
use blocklist_filter::address::Rules;
use blocklist_milter::demo::peer::{Answer, Delivery, TestMail};
use proptest::prelude::*;

use crate::support::rig::{Rig, verdict};
use crate::support::rows;

fn list(name: &str, rest: &str) -> String {
    format!("[[list]]\nname = '{name}'\nfilter = '{name}.blf'\n{rest}\n")
}

/// The files and lists of a site that filters for several domains.
fn tenants(mixed: &str) -> Rig {
    let lists = rows(
        "
        shop     | @bad.test              | recipients = ['@shop.example']
        corp     | @bad.test              | recipients = ['@corp.example']
        later    | @bad.test              | recipients = ['@later.example']\\naction = 'tempfail'
        held     | @held.test             | recipients = ['@shop.example']\\naction = 'quarantine'
        hold     | @held.test             | recipients = ['@corp.example']\\naction = 'quarantine'
        mark     | @marked.test           | recipients = ['@mark.example']\\naction = 'tag'
        trial    | @bad.test\\n@held.test | recipients = ['@mark.example']\\ndry_run = true
        envelope | @envelope.test         | recipients = ['@mark.example']\\naction = 'discard'\\ncheck = ['mail-from']
        ",
    );
    let config = lists.iter().map(|[name, _, settings]| list(name, settings));
    let config = format!(
        "mixed_recipients = '{mixed}'\n{}",
        config.collect::<String>()
    );
    let files = lists
        .iter()
        .map(|[name, entries, _]| (format!("{name}.list"), format!("{entries}\n")));
    let files: Vec<_> = files.collect();
    let files: Vec<_> = files
        .iter()
        .map(|(name, entries)| (&**name, &**entries))
        .collect();
    Rig::new(&files, &config)
}

const RECIPIENTS: [&str; 7] = [
    "<a@shop.example>",
    "<b@corp.example>",
    "<c@later.example>",
    "<d@elsewhere.example>",
    "<postmaster@shop.example>",
    "<e@mark.example>",
    "<abuse@corp.example>",
];

/// Returns the result in a word for each accepted recipient, in order.
fn fate(outcome: &Delivery) -> Option<String> {
    let accepted = outcome.recipients.iter().any(|answer| !answer.refuses());
    let message = Delivery {
        recipients: Vec::new(),
        ..outcome.clone()
    };
    accepted.then(|| verdict(&message))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The other recipients of a message do not matter. With `defer`, each recipient gets what it
    /// would get alone. With `tag`, a listed message gets at least its tag, and no recipient gets
    /// more than a tag because of others.
    #[test]
    fn no_recipient_changes_what_another_gets(
        recipients in proptest::sample::subsequence(RECIPIENTS.to_vec(), 1..=7).prop_shuffle(),
        from in proptest::sample::subsequence(vec!["bad", "held", "marked", "ok"], 1..=3),
        envelope in proptest::sample::select(vec!["bad", "envelope", "ok"]),
    ) {
        static DEFER: LazyLock<Rig> = LazyLock::new(|| tenants("defer"));
        static TAG: LazyLock<Rig> = LazyLock::new(|| tenants("tag"));
        let from: Vec<String> = from.iter().map(|name| format!("x@{name}.test")).collect();
        let header = format!("From: {}", from.join(", "));
        let mail_from = format!("<x@{envelope}.test>");
        let letter = |to: &[&str]| TestMail::new(&mail_from, to, &[&header]);
        let alone = |recipient: &str| verdict(&DEFER.deliver(&letter(&[recipient])));

        // As a client does: deferred recipients come again, until there are none.
        let mut waiting = recipients.clone();
        for _ in 0..=RECIPIENTS.len() {
            let outcome = DEFER.deliver(&letter(&waiting));
            let fate = fate(&outcome);
            let mut deferred = Vec::new();
            for (&recipient, answer) in waiting.iter().zip(&outcome.recipients) {
                match answer {
                    Answer::Text(text) if text.starts_with("452 4.5.3") => deferred.push(recipient),
                    Answer::Text(_) => {
                        let alone = alone(recipient);
                        prop_assert!(alone == "reject" || alone == "tempfail", "{recipient}: {alone}");
                    }
                    _ if fate.as_deref() == Some("tag") => {
                        // An unaffected recipient may get a tag because of an affected one.
                        let alone = alone(recipient);
                        prop_assert!(alone == "tag" || alone == "accept", "{recipient}: {alone}");
                    }
                    _ => prop_assert_eq!(fate.clone(), Some(alone(recipient)), "{}", recipient),
                }
            }
            prop_assert!(deferred.len() < waiting.len(), "{waiting:?} make no way");
            waiting = deferred;
            if waiting.is_empty() {
                break;
            }
        }

        let outcome = TAG.deliver(&letter(&recipients));
        let fate = fate(&outcome);
        for (recipient, answer) in recipients.iter().zip(&outcome.recipients) {
            let alone = alone(recipient);
            let got = if answer.refuses() { "refused" } else { fate.as_deref().unwrap_or_default() };
            match alone.as_str() {
                "accept" => prop_assert!(matches!(got, "accept" | "tag"), "{recipient}: {got}"),
                _ => prop_assert!(got != "accept", "{recipient}: {alone}, and here it is taken"),
            }
        }
    }
}

/// The whitelist finds an address by every rule by which a list finds it, and no other address.
#[test]
fn the_whitelist_follows_the_rules_of_the_list() {
    let whitelist = "[whitelist]\nentries = ['good@bad.test', '@friend.example']";
    let rig = Rig::new(&[("spam.list", "@bad.test\n")], &list("spam", whitelist));
    let list = rig.path("options.list");
    std::fs::write(&list, "@bad.test\n@relay.example\nrole@any.example\n").unwrap();
    let mut plan = Plan::new(rig.path("spam.blf"), vec![list]);
    plan.rules = Rules {
        plus: true,
        srs: true,
        ..Rules::default()
    };
    compile::build(&plan, &Progress::new()).unwrap();
    rig.becomes("<x@relay.example>", "reject");
    rig.judges(
        "
        <good@bad.test>                                 | From: a@ok.example | accept
        <good+tag@bad.test>                             | From: a@ok.example | accept
        <goods@bad.test>                                | From: a@ok.example | reject
        <SRS0=HHH=TT=bad.test=good@forwarder.example>   | From: a@ok.example | accept
        <SRS0=HHH=TT=bad.test=evil@forwarder.example>   | From: a@ok.example | reject
        <SRS0=HHH=TT=bad.test=evil@friend.example>      | From: a@ok.example | accept
        // Anybody can write another address into their own.
        <SRS0=HHH=TT=bad.test=good@relay.example>       | From: a@ok.example | reject
        <SRS0=HHH=TT=friend.example=x@relay.example>    | From: a@ok.example | reject
        ",
    );
}
