//! What the daemon says of itself: figures are compared with the messages that were played.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use blocklist_milter::daemon::Service as _;
use blocklist_milter::demo::peer::Letter;
use blocklist_milter::policy::{Action, Exemption, Reason};
use blocklist_milter::sender::Identity;
use support::rig::{Rig, verdict};
use support::until;

const LISTS: &[(&str, &str)] = &[
    ("spam.list", "@bad.example\nfriend@bad.example\n"),
    ("mild.list", "@mild.example\n"),
];
const CONFIG: &str = "
[[list]]
name = 'spam'
filter = 'spam.blf'
[[list]]
name = 'mild'
filter = 'mild.blf'
action = 'tag'
[whitelist]
entries = ['friend@bad.example']
[exempt]
networks = ['198.51.100.0/24']
";

fn from(mail_from: &str, headers: &[&str]) -> Letter {
    Letter::new(mail_from, &["<bob@our.example>"], headers)
}

/// Plays a message of each kind; what is counted of them is in the tests.
fn play(rig: &Rig) {
    let shop = "From: shop@ok.example";
    for (letter, expected) in [
        (from("<a@ok.example>", &[shop]), "accept"),
        (from("<b@ok.example>", &[shop]), "accept"),
        (from("<a@bad.example>", &[shop]), "reject"),
        (
            Letter::new(
                "<a@bad.example>",
                &["<bob@our.example>", "<al@our.example>"],
                &[],
            ),
            "reject",
        ),
        (from("<friend@bad.example>", &[shop]), "accept"),
        (
            from("<a@ok.example>", &["From: a@bad.example, b@bad.example"]),
            "reject",
        ),
        (
            from("<a@mild.example>", &["Reply-To: b@mild.example", shop]),
            "tag",
        ),
    ] {
        assert_eq!(verdict(&rig.deliver(&letter)), expected);
    }
    let mut exempt = support::rig::unix(rig);
    exempt
        .client([198, 51, 100, 7].into(), 4321)
        .expect("the daemon answers");
    let outcome = exempt.deliver(&from("<a@bad.example>", &[shop]));
    assert_eq!(verdict(&outcome.expect("the daemon answers")), "accept");
}

#[test]
fn every_message_is_counted_once_and_every_hit() {
    let rig = Rig::new(LISTS, CONFIG);
    play(&rig);
    let counters = &rig.live.counters;
    let verdicts: Vec<_> = counters
        .verdicts
        .iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(
        verdicts,
        [(None, 4), (Some(Action::Reject), 3), (Some(Action::Tag), 1)]
    );
    let reasons: Vec<_> = counters
        .reasons
        .iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(
        reasons,
        [
            (Reason::Listed, 4),
            (Reason::Unlisted, 2),
            (Reason::Whitelisted, 1)
        ]
    );
    assert_eq!(counters.exemptions.get(Exemption::Network), 1);
    assert_eq!(counters.exemptions.sum(), 1);
    assert_eq!(counters.durations.buckets().count, 8);

    let snapshot = rig.live.snapshot();
    let [spam, mild] = &snapshot.counts[..] else {
        panic!("two lists");
    };
    assert_eq!(spam.list.hits.get(Identity::MailFrom), 3);
    assert_eq!(spam.list.hits.get(Identity::From), 2);
    assert_eq!(spam.list.whitelisted.get(), 1);
    assert_eq!(spam.list.verdicts.get(Some(Action::Reject)), 3);
    assert_eq!(spam.list.verdicts.get(None), 1);
    assert_eq!(spam.sources[0].get(), 5);
    assert_eq!(mild.list.hits.get(Identity::ReplyTo), 1);
    assert_eq!(mild.list.hits.sum(), 2);
    assert_eq!(mild.list.verdicts.sum(), 1);
}

/// Also of a list that is left out for a while.
#[test]
fn the_counts_of_a_list_outlive_reloads() {
    let rig = Rig::new(LISTS, CONFIG);
    play(&rig);
    let reloaded = |count: u64| {
        until("a reload", || {
            (rig.live.counters.reloads.get() >= count).then_some(())
        });
    };
    rig.write("c.toml", "[[list]]\nname = 'mild'\nfilter = 'mild.blf'\n");
    reloaded(1);
    assert_eq!(rig.live.snapshot().counts.len(), 1);
    rig.write("c.toml", CONFIG);
    reloaded(2);
    rig.write("spam.list", "@worse.example\n");
    reloaded(3);
    let letter = from("<a@worse.example>", &[]);
    assert_eq!(verdict(&rig.deliver(&letter)), "reject");
    let snapshot = rig.live.snapshot();
    let spam = &snapshot.counts[0];
    assert_eq!(spam.list.hits.get(Identity::MailFrom), 4);
    assert_eq!(spam.sources[0].get(), 6, "by the name of the source");
}

#[test]
fn connections_are_counted_and_what_breaks_the_protocol() {
    let rig = Rig::new(LISTS, CONFIG);
    let traffic = rig.service.traffic();
    let peer = rig.peer();
    assert_eq!((traffic.opened.get(), traffic.open()), (1, 1));
    for (sent, kind) in [
        (&b"GET / HTTP/1.0\r\n\r\n"[..], "packet-length"),
        (b"\0\0\0\x01M", "negotiation"),
        (
            b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff\0\0\0\x01N",
            "outside-message",
        ),
    ] {
        let mut stream = UnixStream::connect(rig.path("m.sock")).expect("it listens");
        stream.write_all(sent).expect("it reads");
        // An answer of the negotiation may come before the end.
        let _ = stream.read_to_end(&mut Vec::new());
        until(kind, || {
            (traffic.protocol_errors.get(kind) == 1).then_some(())
        });
    }
    assert_eq!(traffic.protocol_errors.sum(), 3);
    assert_eq!(traffic.opened.get(), 4);
    peer.quit().expect("nothing is left over");
    until("all are closed", || (traffic.open() == 0).then_some(()));
}
