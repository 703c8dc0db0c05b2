//! The daemon under a real Postfix: what its clients are told, what arrives, what its queue holds.

mod support;

use support::mta::Mta;
use support::postfix::Postfix;
use support::scenarios::{Scene, assert_accepted, assert_refused};
use support::site::Transport;
use support::smtp::Mail;
use support::{run, until};

scenarios! { Postfix:
    listed_envelope_sender_is_refused,
    listed_header_sender_is_refused,
    innocent_mail_arrives_unchanged,
    whitelisted_sender_is_accepted,
    null_sender_is_nobody,
    messages_of_one_session_are_apart,
    pipelined_session,
    refusal_is_per_recipient,
    header_hit_with_exempt_recipient_is_tagged,
    tag_is_added_once,
    quarantined_mail_is_held,
    discarded_mail_vanishes,
    tempfail_asks_to_come_again,
    verdicts_over_tcp,
    recompiled_list_is_in_force,
    daemon_down_and_back,
}

fn scene_with(settings: &[&str]) -> Option<Scene<Postfix>> {
    Scene::with(Transport::Unix, |site| {
        Postfix::start_with(&site.socket, settings)
    })
}

/// The client is told our own words, unchanged, and the log of Postfix has them too.
#[test]
fn refusal_is_in_our_own_words() {
    let Some(scene) = scene_with(&[]) else { return };
    let sent = scene.send(&Mail::innocent("words").from("<spammer@listed.test>"));
    let words = "550 5.7.1 spammer@listed.test is on the sender blocklist spammers";
    assert!(sent.last().text.starts_with(words), "{sent:?}");
    scene.mta.logged(&[
        "milter-reject: RCPT",
        "spammer@listed.test is on the sender blocklist spammers",
    ]);
    scene.send(&Mail::innocent("words").header("From: spammer@listed.test\r\n"));
    let refusal = scene.mta.logged(&["milter-reject: END-OF-MESSAGE"]);
    // The queue id joins the two logs.
    let id = refusal.split(": ").nth(1).unwrap_or_default();
    scene.daemon.logged(&[id, "spammer@listed.test"]);
}

/// RFC 6531: the address comes as UTF-8, however it is written.
#[test]
fn utf8_sender() {
    let Some(scene) = scene_with(&["smtputf8_enable = yes"]) else {
        return;
    };
    let mut session = scene.session();
    let composed = Mail::innocent("utf8").from("<jos\u{e9}@listed.test>");
    let sent = session.send_with(&composed, "SMTPUTF8");
    assert_eq!(sent.last().code, 550, "{sent:?}");
    let decomposed = composed.clone().from("<JOSE\u{301}@listed.test>");
    let sent = session.send_with(&decomposed, "SMTPUTF8");
    assert_eq!(sent.last().code, 550, "{sent:?}");
    let other = composed.from("<j\u{f3}se@listed.test>");
    assert_accepted(&session.send_with(&other, "SMTPUTF8"));
    // Raw UTF-8 in a header needs no extension to be read.
    let header =
        Mail::innocent("utf8 header").header("From: Jos\u{e9} <jos\u{e9}@listed.test>\r\n");
    let sent = session.send(&header);
    assert_eq!(sent.last().code, 550, "{sent:?}");
}

/// A client in an exempt network may send as whoever it likes, and the next client may not.
#[test]
fn exempt_network() {
    let Some(scene) = scene_with(&[]) else { return };
    let mail = Mail::innocent("from the exempt network").from("<spammer@listed.test>");
    for (client, exempt) in [("203.0.113.9", true), ("198.51.100.9", false)] {
        let mut session = scene.session();
        let banner = session.say(&format!("XCLIENT ADDR={client} NAME=mail.remote.test"));
        assert_eq!(banner.code, 220, "{banner}");
        assert_eq!(session.say("EHLO mail.remote.test").code, 250);
        let sent = session.send(&mail);
        if exempt {
            assert_accepted(&sent);
        } else {
            assert_refused(sent.last(), "spammer@listed.test", "spammers");
            scene.daemon.logged(&["spammer@listed.test", client]);
        }
        session.quit();
    }
    assert_eq!(scene.mta.delivered("from the exempt network").len(), 1);
}

/// Mail from sendmail(1) is not refused: Postfix would bounce it to a sender who may be forged.
#[test]
fn local_submission_is_exempt() {
    let Some(scene) = scene_with(&["non_smtpd_milters = $smtpd_milters"]) else {
        return;
    };
    let file = scene.site.write(
        "local",
        "From: spammer@listed.test\nSubject: local\n\nHello.\n",
    );
    let input = std::fs::File::open(file).expect("just written");
    let program = support::find_program("sendmail").expect("Postfix has a sendmail(1)");
    let mut command = std::process::Command::new(program);
    let config = scene
        .mta
        .command("true")
        .get_args()
        .map(Into::into)
        .collect::<Vec<std::ffi::OsString>>();
    run(command
        .arg("-C")
        .arg(&config[1])
        .args(["-f", "spammer@listed.test", "reader@local.test"])
        .stdin(input));
    assert_eq!(scene.mta.delivered("local").len(), 1);
}

/// What the administrator releases from quarantine is delivered.
#[test]
fn released_mail_is_delivered() {
    let Some(scene) = scene_with(&[]) else { return };
    assert_accepted(&scene.send(&Mail::innocent("released").header("From: held@listed.test\r\n")));
    until("a held message", || (scene.mta.held() == 1).then_some(()));
    scene.mta.assert_nothing_delivered("released");
    scene.mta.release();
    assert_eq!(scene.mta.delivered("released").len(), 1);
}

/// With `quarantine`, Postfix holds what it could not ask about.
#[test]
fn daemon_down_quarantine() {
    let Some(scene) = scene_with(&["milter_default_action = quarantine"]) else {
        return;
    };
    let Scene {
        mta,
        daemon,
        site: _site,
    } = scene;
    assert!(daemon.terminate().success());
    assert_accepted(&support::smtp::send(mta.port(), &Mail::innocent("unasked")));
    until("a held message", || (mta.held() == 1).then_some(()));
    mta.assert_nothing_delivered("unasked");
}

/// A reload of Postfix in the middle of a session changes no verdict.
#[test]
fn postfix_reload() {
    let Some(scene) = scene_with(&[]) else { return };
    let mut before = scene.session();
    assert_eq!(before.say("MAIL FROM:<spammer@listed.test>").code, 250);
    scene.mta.reload(&["smtpd_banner=reloaded ESMTP"]);
    assert_refused(
        &before.say("RCPT TO:<reader@local.test>"),
        "spammer@listed.test",
        "spammers",
    );
    assert_eq!(before.say("RSET").code, 250);
    assert_accepted(&before.send(&Mail::innocent("before the reload")));
    before.quit();
    let sent = scene.send(&Mail::innocent("after").from("<spammer@listed.test>"));
    assert_refused(sent.last(), "spammer@listed.test", "spammers");
    scene.deliver(&Mail::innocent("after the reload"));
}
