//! What any mail server must do with the milter, the same for Postfix and Sendmail.
//!
//! Each function is one test; [`scenarios!`](crate::scenarios) makes the tests of one server. All
//! use the site of [`Scene::new`]: five lists, one for each action.

use super::mta::{Mta, WhenDown};
use super::site::{Daemon, Site, Transport};
use super::smtp::{Mail, Reply, Sent, Smtp, send};
use super::{until, usable};

/// Makes a test of each scenario for one mail server.
#[macro_export]
macro_rules! scenarios {
    ($server:ty) => {
        $crate::scenarios! { $server:
            listed_envelope_sender_is_refused,
            listed_header_sender_is_refused,
            innocent_mail_arrives_unchanged,
            whitelisted_sender_is_accepted,
            null_sender_is_nobody,
            messages_of_one_session_are_apart,
            pipelined_session,
            refusal_is_per_recipient,
            refusal_says_whom_to_ask,
            recipients_of_other_lists_come_apart,
            header_hit_with_exempt_recipient_is_tagged,
            tag_is_added_once,
            quarantined_mail_is_held,
            discarded_mail_vanishes,
            tempfail_asks_to_come_again,
            verdicts_over_tcp,
            recompiled_list_is_in_force,
            daemon_down_and_back,
        }
    };
    ($server:ty: $($name:ident,)+) => {
        $(#[test] fn $name() { support::scenarios::$name::<$server>(); })+
    };
}

/// The lists of the site: name, action, entries.
const LISTS: [(&str, &str, &[&str]); 5] = [
    (
        "spammers",
        "reject",
        &[
            "# listed in every way an entry can be written",
            "spammer@listed.test",
            "@listed-domain.test",
            ".listed-tree.test",
            "wholesale@",
            "josé@listed.test",
        ],
    ),
    ("later", "tempfail", &["later@listed.test"]),
    ("held", "quarantine", &["held@listed.test"]),
    ("marked", "tag", &["marked@listed.test"]),
    ("gone", "discard", &["gone@listed.test"]),
];

const EXCEPTIONS: &str = "\
[whitelist]
files = [\"@DIR@/whitelist.txt\"]
[exempt]
networks = [\"203.0.113.0/24\"]
";

/// A mail server, its daemon, and the daemon's site; dropped in this order.
pub(crate) struct Scene<M> {
    pub(crate) mta: M,
    pub(crate) daemon: Daemon,
    pub(crate) site: Site,
}

impl<M: Mta> Scene<M> {
    /// Starts everything; returns `None` if the server is missing and not required.
    pub(crate) fn new(transport: Transport) -> Option<Self> {
        Self::with(transport, |site| M::start(&site.socket, WhenDown::Tempfail))
    }

    /// Like [`Self::new`], with the server started by the caller.
    pub(crate) fn with(transport: Transport, start: impl FnOnce(&Site) -> M) -> Option<Self> {
        Self::on(|| site(transport), start)
    }

    /// Like [`Self::with`], with a site of the caller.
    pub(crate) fn on(site: impl FnOnce() -> Site, start: impl FnOnce(&Site) -> M) -> Option<Self> {
        if !usable(M::NAME, M::obstacle()) {
            return None;
        }
        let site = site();
        let daemon = site.serve();
        let mta = start(&site);
        Some(Self { mta, daemon, site })
    }

    pub(crate) fn send(&self, mail: &Mail) -> Sent {
        send(self.mta.port(), mail)
    }

    pub(crate) fn session(&self) -> Smtp {
        Smtp::connect(self.mta.port())
    }

    /// Sends a message and waits for its delivery.
    pub(crate) fn deliver(&self, mail: &Mail) -> String {
        assert_accepted(&self.send(mail));
        let mut copies = self.mta.delivered(&mail.subject);
        assert_eq!(copies.len(), 1, "{copies:?}");
        copies.remove(0)
    }
}

/// Creates the site's lists and configuration.
pub(crate) fn site(transport: Transport) -> Site {
    site_with(transport, "")
}

/// The same, with settings before all sections.
fn site_with(transport: Transport, settings: &str) -> Site {
    let mut site = Site::new(transport);
    let mut configuration = format!("{settings}\n");
    for (name, action, entries) in LISTS {
        site.list(name, entries);
        configuration.push_str(&format!(
            "[[list]]\nname = \"{name}\"\nfilter = \"@DIR@/{name}.blf\"\naction = \"{action}\"\n"
        ));
    }
    site.write("whitelist.txt", "friend@listed-domain.test\n");
    configuration.push_str(EXCEPTIONS);
    site.configure(&configuration);
    site
}

pub(crate) fn assert_accepted(sent: &Sent) {
    assert!(sent.accepted(), "{sent:?}");
}

/// Checks that a reply is our own refusal, and not one of the server. It names the address as the
/// sender wrote it, perhaps in capitals or with unnecessary quotes.
pub(crate) fn assert_refused(reply: &Reply, address: &str, list: &str) {
    assert_eq!(reply.code, 550, "{reply}");
    let plain = reply.text.to_lowercase().replace('"', "");
    for word in ["5.7.1", address, "blocklist", list] {
        assert!(plain.contains(word), "no {word:?} in {reply}");
    }
}

/// A listed sender is refused in any spelling.
pub(crate) fn listed_envelope_sender_is_refused<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    for (argument, address) in [
        ("<spammer@listed.test>", "spammer@listed.test"),
        ("<SpamMer@LISTED.test>", "spammer@listed.test"),
        ("<\"spammer\"@listed.test>", "spammer@listed.test"),
        ("<@relay.test:spammer@listed.test>", "spammer@listed.test"),
        ("<spammer@listed.test.>", "spammer@listed.test"),
        // Both servers accept this, although RFC 5321 requires the brackets.
        ("spammer@listed.test", "spammer@listed.test"),
        // The server rewrites these, and reports the result.
        ("<spammer%listed.test>", "spammer@listed.test"),
        ("<listed.test!spammer>", "spammer@listed.test"),
        ("<wholesale>", "wholesale@mx.test"),
        ("<anybody@listed-domain.test>", "anybody@listed-domain.test"),
        (
            "<anybody@a.b.listed-tree.test>",
            "anybody@a.b.listed-tree.test",
        ),
        ("<wholesale@elsewhere.test>", "wholesale@elsewhere.test"),
    ] {
        let sent = scene.send(&Mail::innocent("listed sender").from(argument));
        assert_eq!(
            sent.mail.code, 250,
            "{argument}: the answer comes at RCPT: {sent:?}"
        );
        assert_refused(sent.last(), address, "spammers");
    }
    let line = scene
        .daemon
        .logged(&["spammer@listed.test", "spammers", "reject"]);
    assert!(line.contains("127.0.0.1"), "the client is named: {line}");
    scene.mta.assert_nothing_delivered("listed sender");
    // Neighbours of listed addresses are not listed.
    for argument in [
        "<spammers@listed.test>",
        "<a@sub.listed-domain.test>",
        "<a@listed-tree.test>",
    ] {
        assert_accepted(&scene.send(&Mail::innocent("neighbour").from(argument)));
    }
}

/// A listed address in a header field is refused, in any place of the field.
pub(crate) fn listed_header_sender_is_refused<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    for header in [
        "From: spammer@listed.test\r\n",
        "FROM: \"A. Friend\" <Spammer@Listed.Test>\r\n",
        "From:\r\n\t=?utf-8?q?Dear_friend?=\r\n <spammer@listed.test>\r\n",
        "From: innocent@elsewhere.test\r\nFrom: spammer@listed.test\r\n",
        "From: innocent@elsewhere.test, spammer@listed.test\r\n",
        "From: innocent@elsewhere.test\r\nSender: spammer@listed.test\r\n",
        "From: innocent@elsewhere.test\r\nReply-To: Team: a@elsewhere.test, spammer@listed.test;\r\n",
    ] {
        let sent = scene.send(&Mail::innocent("listed in the header").header(header));
        let end = sent
            .end
            .as_ref()
            .unwrap_or_else(|| panic!("refused too early: {sent:?}"));
        assert_refused(end, "spammer@listed.test", "spammers");
    }
    scene.mta.assert_nothing_delivered("listed in the header");
    // A name is not an address.
    let named = "From: \"spammer@listed.test\" <innocent@elsewhere.test>\r\nSubject-Note: spammer@listed.test\r\n";
    scene.deliver(&Mail::innocent("listed in a name").header(named));
}

/// Mail of an unlisted sender arrives unchanged.
pub(crate) fn innocent_mail_arrives_unchanged<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let mut mail = Mail::innocent("as it was sent");
    mail.header
        .push_str("X-Folded: one\r\n two\r\nX-Empty:\r\n");
    mail.body = format!(".\r\n..two\r\n{}\r\nend\r\n", "x".repeat(900));
    let arrived = scene.deliver(&mail);
    for part in [
        "X-Folded: one\n two\n",
        "\nX-Empty:\n",
        "From: Innocent <innocent@elsewhere.test>\n",
    ] {
        assert!(arrived.contains(part), "no {part:?} in {arrived}");
    }
    assert!(
        arrived.contains(&format!("\n\n.\n..two\n{}\nend\n", "x".repeat(900))),
        "{arrived}"
    );
    assert!(!arrived.contains("Blocklist"), "{arrived}");
}

/// A whitelisted address is accepted, but does not clear a second one in the same message.
pub(crate) fn whitelisted_sender_is_accepted<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let friend = Mail::innocent("from a friend")
        .from("<friend@listed-domain.test>")
        .header("From: friend@listed-domain.test\r\n");
    scene.deliver(&friend);
    let sent = scene.send(
        &friend.header("From: friend@listed-domain.test\r\nReply-To: other@listed-domain.test\r\n"),
    );
    assert_refused(sent.last(), "other@listed-domain.test", "spammers");
}

/// The null sender of a bounce is nobody; the addresses in its header are still looked up.
pub(crate) fn null_sender_is_nobody<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let bounce = Mail::innocent("a bounce")
        .from("<>")
        .header("From: MAILER-DAEMON (Mail Delivery System)\r\n");
    scene.deliver(&bounce);
    let sent = scene.send(&bounce.header("From: spammer@listed.test\r\n"));
    assert_refused(sent.last(), "spammer@listed.test", "spammers");
}

/// The client gets both lines of a refusal, at RCPT and at the end of a message. The contact in it
/// can receive mail.
pub(crate) fn refusal_says_whom_to_ask<M: Mta>() {
    for (setting, contact, recipient) in [
        (
            "",
            "postmaster at the recipient's domain",
            "postmaster@local.test",
        ),
        (
            "contact = \"other@local.test\"",
            "other@local.test",
            "other@local.test",
        ),
    ] {
        let start = |site: &Site| M::start(&site.socket, WhenDown::Tempfail);
        let Some(scene) = Scene::<M>::on(|| site_with(Transport::Unix, setting), start) else {
            return;
        };
        let envelope = Mail::innocent("question").from("<spammer@listed.test>");
        let header = Mail::innocent("question").header("From: spammer@listed.test\r\n");
        for sent in [scene.send(&envelope), scene.send(&header)] {
            let reply = sent.last();
            assert_refused(reply, "spammer@listed.test", "spammers");
            let lines: Vec<&str> = reply.text.lines().collect();
            let last = format!("550 5.7.1 If this is wrong, write to {contact}");
            assert!(
                lines.len() == 2 && lines[0].starts_with("550-5.7.1 ") && lines[1] == last,
                "{reply}"
            );
        }
        let mut session = scene.session();
        assert_eq!(session.say("MAIL FROM:<spammer@listed.test>").code, 250);
        let answer = session.say(&format!("RCPT TO:<{recipient}>"));
        assert_eq!(answer.code, 250, "{answer}");
        session.quit();
    }
}

/// Nothing of a message remains for the next one in the session, whatever its result.
pub(crate) fn messages_of_one_session_are_apart<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let mut session = scene.session();
    let innocent = |subject: &str| Mail::innocent(subject);
    let listed = Mail::innocent("listed").from("<spammer@listed.test>");
    let listed_header = Mail::innocent("listed").header("From: spammer@listed.test\r\n");

    assert_refused(
        session.send(&listed).last(),
        "spammer@listed.test",
        "spammers",
    );
    assert_accepted(&session.send(&innocent("first")));
    assert_refused(
        session.send(&listed_header).last(),
        "spammer@listed.test",
        "spammers",
    );
    assert_accepted(&session.send(&innocent("second")));
    // The client does not finish it.
    assert_eq!(session.say("MAIL FROM:<spammer@listed.test>").code, 250);
    assert_eq!(session.say("RSET").code, 250);
    assert_accepted(&session.send(&innocent("third")));
    assert_eq!(session.say("MAIL FROM:<spammer@listed.test>").code, 250);
    assert_eq!(session.say("EHLO again.test").code, 250);
    assert_accepted(&session.send(&innocent("fourth")));
    assert_refused(
        session.send(&listed).last(),
        "spammer@listed.test",
        "spammers",
    );
    session.quit();

    for subject in ["first", "second", "third", "fourth"] {
        assert_eq!(scene.mta.delivered(subject).len(), 1);
    }
    scene.mta.assert_nothing_delivered("listed");
}

/// Pipelined commands get their answers in order.
pub(crate) fn pipelined_session<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let mut session = scene.session();
    let commands = [
        "MAIL FROM:<spammer@listed.test>",
        "RCPT TO:<reader@local.test>",
        "RCPT TO:<other@local.test>",
        "RSET",
        "MAIL FROM:<innocent@elsewhere.test>",
        "RCPT TO:<reader@local.test>",
        "RSET",
        "MAIL FROM:<anybody@listed-domain.test>",
        "RCPT TO:<reader@local.test>",
        "DATA",
    ];
    let replies = session.say_at_once(&commands.map(str::to_owned));
    let codes: Vec<u16> = replies.iter().map(|reply| reply.code).collect();
    assert_eq!(
        codes[..9],
        [250, 550, 550, 250, 250, 250, 250, 250, 550],
        "{replies:?}"
    );
    assert!([503, 554].contains(&codes[9]), "{replies:?}");
    assert_refused(&replies[1], "spammer@listed.test", "spammers");
    assert_refused(&replies[8], "anybody@listed-domain.test", "spammers");
    assert_eq!(session.say("RSET").code, 250);
    assert_accepted(&session.send(&Mail::innocent("after the pipeline")));
    session.quit();
}

/// Everybody can write to the postmaster, and only to the postmaster.
pub(crate) fn refusal_is_per_recipient<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let mail = Mail::innocent("an appeal")
        .from("<spammer@listed.test>")
        .to(&[
            "<reader@local.test>",
            "<PostMaster@local.test>",
            "<other@local.test>",
            // Other mailboxes, for the server.
            "<prvs=0=abuse@local.test>",
            "<mailto:abuse@local.test>",
        ]);
    let sent = scene.send(&mail);
    let codes: Vec<u16> = sent.recipients.iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [550, 250, 550, 550, 550], "{sent:?}");
    assert_accepted(&sent);
    let copies = scene.mta.delivered("an appeal");
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert!(
        copies[0]
            .to_lowercase()
            .contains("delivered-to: postmaster@local.test"),
        "{copies:?}"
    );
}

/// A header hit has one answer for all recipients: a recipient affected by other lists than the
/// first is deferred to a separate transaction, and each recipient gets the right result.
pub(crate) fn recipients_of_other_lists_come_apart<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let (reader, abuse) = ("<reader@local.test>", "<abuse@local.test>");
    let codes =
        |sent: &Sent| -> Vec<u16> { sent.recipients.iter().map(|reply| reply.code).collect() };
    let listed = Mail::innocent("listed, to both").header("From: spammer@listed.test\r\n");
    for (recipients, accepted) in [([reader, abuse], false), ([abuse, reader], true)] {
        let sent = scene.send(&listed.clone().to(&recipients));
        assert_eq!(codes(&sent), [250, 452], "{sent:?}");
        assert!(sent.recipients[1].text.contains("4.5.3"), "{sent:?}");
        assert_eq!(sent.accepted(), accepted, "{sent:?}");
    }
    assert_eq!(scene.mta.delivered("listed, to both").len(), 1);
    scene
        .daemon
        .logged(&["mixed-recipients", "tempfail", "abuse@local.test"]);

    // An innocent message loses no recipient.
    let innocent = Mail::innocent("to both, in turn");
    let sent = scene.send(&innocent.clone().to(&[reader, "<other@local.test>", abuse]));
    assert_eq!(codes(&sent), [250, 250, 452], "{sent:?}");
    assert_accepted(&sent);
    assert_accepted(&scene.send(&innocent.to(&[abuse])));
    let copies = until("three copies", || {
        let copies = scene.mta.delivered("to both, in turn");
        (copies.len() == 3).then_some(copies)
    });
    assert!(
        copies.iter().all(|copy| tags(copy).is_empty()),
        "{copies:?}"
    );
}

/// With `mixed_recipients = "tag"` no recipient is deferred: with an exempt recipient among the
/// others the message is accepted and tagged, because dropping a recipient silently would lose
/// mail.
pub(crate) fn header_hit_with_exempt_recipient_is_tagged<M: Mta>() {
    let site = || site_with(Transport::Unix, "mixed_recipients = \"tag\"");
    let start = |site: &Site| M::start(&site.socket, WhenDown::Tempfail);
    let Some(scene) = Scene::<M>::on(site, start) else {
        return;
    };
    let mail = Mail::innocent("to both").header("From: spammer@listed.test\r\n");
    assert_accepted(
        &scene.send(
            &mail
                .clone()
                .to(&["<reader@local.test>", "<abuse@local.test>"]),
        ),
    );
    let copies = until("both copies", || {
        let copies = scene.mta.delivered("to both");
        (copies.len() == 2).then_some(copies)
    });
    for copy in copies {
        assert_eq!(tags(&copy).len(), 1, "{copy}");
    }
    assert_refused(scene.send(&mail).last(), "spammer@listed.test", "spammers");
}

/// A tagging list adds one header; headers that the sender has forged are removed.
pub(crate) fn tag_is_added_once<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let forged =
        "X-Sender-Blocklist: list=none; identity=from; address=x@y.test; source=forged\r\n";
    let header = format!("{forged}From: marked@listed.test\r\nx-sender-blocklist: forged\r\n");
    let arrived = scene.deliver(&Mail::innocent("marked").header(&header));
    let tags = tags(&arrived);
    assert_eq!(tags.len(), 1, "{arrived}");
    for word in [
        "list=marked",
        "identity=from",
        "address=marked@listed.test",
        "source=",
    ] {
        assert!(tags[0].contains(word), "no {word:?} in {}", tags[0]);
    }
    assert!(!arrived.contains("forged"), "{arrived}");

    let arrived = scene.deliver(
        &Mail::innocent("not marked").header(&format!("{forged}From: innocent@elsewhere.test\r\n")),
    );
    assert!(!arrived.contains("forged"), "{arrived}");

    // In any spelling, and between other headers that stay.
    let mut odd = String::new();
    for form in [
        "X-Sender-Blocklist : forged",
        "X-SENDER-BLOCKLIST\t:forged",
        "x-sender-blocklist:\r\n\tforged and folded",
        "X-Sender-Blocklist:",
        "X-sender-Blocklist:   forged  ",
        "X-Sender-Blocklist: \u{fc} forged",
    ] {
        odd.push_str(&format!("{form}\r\nX-Sender-Blocklist-Note: kept\r\n"));
    }
    for (subject, sender, count) in [
        ("odd and marked", "marked@listed.test", 1),
        ("odd", "innocent@elsewhere.test", 0),
    ] {
        let header = format!("{odd}From: {sender}\r\n{odd}");
        let arrived = scene.deliver(&Mail::innocent(subject).header(&header));
        assert!(!arrived.contains("forged"), "{arrived}");
        assert_eq!(self::tags(&arrived).len(), count, "{arrived}");
        assert_eq!(
            arrived.matches("X-Sender-Blocklist-Note: kept").count(),
            12,
            "{arrived}"
        );
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

/// Quarantine: the sender gets a success, and the message waits for the administrator.
pub(crate) fn quarantined_mail_is_held<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    assert_accepted(&scene.send(&Mail::innocent("held").header("From: held@listed.test\r\n")));
    assert_accepted(&scene.send(&Mail::innocent("held").from("<held@listed.test>")));
    until("two held messages", || {
        (scene.mta.held() == 2).then_some(())
    });
    scene.deliver(&Mail::innocent("not held"));
    scene.mta.assert_nothing_delivered("held");
}

/// Discard: accepted, and deleted.
pub(crate) fn discarded_mail_vanishes<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    assert_accepted(&scene.send(&Mail::innocent("gone").from("<gone@listed.test>")));
    assert_accepted(&scene.send(&Mail::innocent("gone").header("From: gone@listed.test\r\n")));
    scene.deliver(&Mail::innocent("not gone"));
    scene.mta.assert_nothing_delivered("gone");
    assert_eq!(scene.mta.held(), 0);
    scene.daemon.logged(&["gone@listed.test", "discard"]);
}

/// Tempfail: the client is asked to try again.
pub(crate) fn tempfail_asks_to_come_again<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    for mail in [
        Mail::innocent("later").from("<later@listed.test>"),
        Mail::innocent("later").header("From: later@listed.test\r\n"),
    ] {
        let sent = scene.send(&mail);
        assert!((400..500).contains(&sent.last().code), "{sent:?}");
        assert!(sent.last().text.contains("4.7.1"), "{sent:?}");
        assert!(sent.last().text.contains("later"), "{sent:?}");
    }
    scene.mta.assert_nothing_delivered("later");
}

/// On TCP every step is answered; the verdicts are the same.
pub(crate) fn verdicts_over_tcp<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Tcp) else {
        return;
    };
    let mut session = scene.session();
    let sent = session.send(&Mail::innocent("tcp").from("<spammer@listed.test>"));
    assert_refused(sent.last(), "spammer@listed.test", "spammers");
    let sent = session.send(&Mail::innocent("tcp").header("From: spammer@listed.test\r\n"));
    assert_refused(sent.last(), "spammer@listed.test", "spammers");
    assert_accepted(&session.send(&Mail::innocent("tcp innocent")));
    assert_accepted(&session.send(&Mail::innocent("tcp marked").from("<marked@listed.test>")));
    assert_accepted(&session.send(&Mail::innocent("tcp held").from("<held@listed.test>")));
    session.quit();
    assert_eq!(tags(&scene.mta.delivered("tcp marked")[0]).len(), 1);
    assert_eq!(scene.mta.delivered("tcp innocent").len(), 1);
    until("a held message", || (scene.mta.held() == 1).then_some(()));
    scene.mta.assert_nothing_delivered("tcp");
}

/// A recompiled list takes effect without any restart, and an open session continues.
pub(crate) fn recompiled_list_is_in_force<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let mut session = scene.session();
    let mail = Mail::innocent("from a newcomer").from("<newcomer@elsewhere.test>");
    assert_accepted(&session.send(&mail));

    scene.site.list(
        "spammers",
        &["spammer@listed.test", "newcomer@elsewhere.test"],
    );
    let sent = until("the newcomer's refusal", || {
        let sent = session.send(&mail);
        (!sent.accepted()).then_some(sent)
    });
    assert_refused(sent.last(), "newcomer@elsewhere.test", "spammers");
    let sent = session.send(&Mail::innocent("old").from("<spammer@listed.test>"));
    assert_refused(sent.last(), "spammer@listed.test", "spammers");

    scene.site.list("spammers", &["spammer@listed.test"]);
    until("the newcomer's return", || {
        session.send(&mail).accepted().then_some(())
    });
    let sent = session.send(&Mail::innocent("old").from("<spammer@listed.test>"));
    assert_refused(sent.last(), "spammer@listed.test", "spammers");
    session.quit();
}

/// Without the daemon, the server does what it is configured to do; with the daemon back, mail is
/// refused again.
pub(crate) fn daemon_down_and_back<M: Mta>() {
    for when_down in [WhenDown::Accept, WhenDown::Tempfail, WhenDown::Reject] {
        let start = |site: &Site| M::start(&site.socket, when_down);
        let Some(mut scene) = Scene::<M>::with(Transport::Unix, start) else {
            return;
        };
        let listed = Mail::innocent("while it is down").from("<spammer@listed.test>");
        assert_refused(
            scene.send(&listed).last(),
            "spammer@listed.test",
            "spammers",
        );

        let Scene { mta, daemon, site } = scene;
        let ended = daemon.terminate();
        assert!(ended.success(), "an orderly end: {ended}");
        match when_down {
            WhenDown::Accept => {
                assert_accepted(&send(mta.port(), &listed));
                mta.delivered("while it is down");
            }
            WhenDown::Tempfail => {
                let sent = send(mta.port(), &listed);
                assert_eq!(sent.last().code, 451, "{sent:?}");
            }
            WhenDown::Reject => {
                let (mut session, banner) = Smtp::open(mta.port());
                session.say("EHLO client.test");
                let mail = session.say("MAIL FROM:<innocent@elsewhere.test>");
                assert!(banner.code == 554 || mail.code >= 500, "{banner} {mail}");
            }
        }

        scene = Scene {
            daemon: site.serve(),
            mta,
            site,
        };
        assert_refused(
            scene.send(&listed).last(),
            "spammer@listed.test",
            "spammers",
        );
        scene.deliver(&Mail::innocent("it is back"));
    }
}
