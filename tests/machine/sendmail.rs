//! The daemon with a real Sendmail 8: the scenarios of all mail servers, and its own.

use crate::support;

use support::arguments;
use support::mta::Mta;
use support::scene::Scene;
use support::sendmail::Sendmail;
use support::site::Transport;
use support::smtp::Mail;
use support::until;

use crate::support::has_all;

crate::scenarios! { Sendmail }

/// Sendmail without SMTPUTF8 passes on UTF-8 unchanged.
#[test]
fn raw_utf8_sender() {
    let Some(scene) = Scene::<Sendmail>::new(Transport::Unix) else {
        return;
    };
    let listed = Mail::innocent("raw").from("<jos\u{e9}@listed.test>");
    let sent = scene.send(&listed);
    assert_eq!(sent.last().code, 550, "{sent:?}");
    assert!(sent.last().text.contains("spammers"), "{sent:?}");
}

/// The administrator sees in Sendmail's queue list which list has held the message.
#[test]
fn queue_list_tells_the_reason() {
    let Some(scene) = Scene::<Sendmail>::new(Transport::Unix) else {
        return;
    };
    scene.send(&Mail::innocent("why").from("<held@listed.test>"));
    until("a held message", || (scene.mta.held() == 1).then_some(()));
    let list = scene.mta.run(&["-bp", "-qQ"]);
    has_all(&list, &["QUARANTINE: ", "held"]);
    // Our refusals are in Sendmail's log, with our own text.
    scene.send(&Mail::innocent("why").from("<spammer@listed.test>"));
    scene
        .mta
        .logged(&["reject=550-5.7.1", "is on the sender blocklist spammers"]);
}

#[test]
fn mail_arguments() {
    arguments::mail_arguments::<Sendmail>(500);
}

#[test]
fn rcpt_arguments() {
    arguments::rcpt_arguments::<Sendmail>(500);
}

/// The same as a long campaign.
#[test]
#[ignore = "a campaign: tests/run --long"]
fn many_arguments() {
    arguments::mail_arguments::<Sendmail>(100_000);
    arguments::rcpt_arguments::<Sendmail>(20_000);
}
