//! The daemon with a real Postfix: replies to clients, delivered mail, and the queue.

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;

use support::arguments;
use support::mta::Mta;
use support::postfix::Postfix;
use support::scene::{Scene, assert_accepted, site};
use support::site::{Daemon, Socket, Transport};
use support::smtp::{Mail, Reply};
use support::{Said, has_all, installed, until, usable};

crate::scenarios! { Postfix }

const SPAMMER: &str = "<spammer@listed.test>";
const FROM_SPAMMER: &str = "From: spammer@listed.test\r\n";

/// Checks that a reply is our own refusal of the spammer, and not one of the server.
#[track_caller]
fn is_refused(reply: &Reply) {
    assert_eq!(reply.code, 550, "{reply}");
    let words = ["5.7.1", "spammer@listed.test", "blocklist", "spammers"];
    has_all(&reply.text, &words);
}

fn scene_with(settings: &[&str]) -> Option<Scene<Postfix>> {
    Scene::with(Transport::Unix, |site| {
        Postfix::start_with(&site.socket, settings)
    })
}

/// The client gets our own text, unchanged, and it is in Postfix's log too.
#[test]
fn refusal_is_in_our_own_words() {
    let Some(scene) = scene_with(&[]) else { return };
    let sent = scene.send(&Mail::innocent("words").from(SPAMMER));
    let words = "550-5.7.1 spammer@listed.test is on the sender blocklist spammers";
    assert!(sent.last().text.starts_with(words), "{sent:?}");
    scene.mta.logged(&[
        "milter-reject: RCPT",
        "spammer@listed.test is on the sender blocklist spammers",
    ]);
    scene.send(&Mail::innocent("words").header(FROM_SPAMMER));
    let refusal = scene.mta.logged(&["milter-reject: END-OF-MESSAGE"]);
    // The queue id connects the two logs.
    let id = refusal.split(": ").nth(1).unwrap_or_default();
    scene.daemon.logged(&[id, "spammer@listed.test"]);
}

/// RFC 6531: the address comes as UTF-8, in any spelling.
#[test]
fn utf8_sender() {
    let Some(scene) = scene_with(&["smtputf8_enable = yes"]) else {
        return;
    };
    let mut session = scene.session();
    for (local, code) in [("jos\u{e9}", 550), ("JOSE\u{301}", 550), ("j\u{f3}se", 250)] {
        let mail = Mail::innocent("utf8").from(&format!("<{local}@listed.test>"));
        let sent = session.send_with(&mail, "SMTPUTF8");
        assert_eq!(sent.last().code, code, "{sent:?}");
    }
    // Raw UTF-8 in a header can be read without an extension.
    let header = "From: Jos\u{e9} <jos\u{e9}@listed.test>\r\n";
    let sent = session.send(&Mail::innocent("utf8 header").header(header));
    assert_eq!(sent.last().code, 550, "{sent:?}");
}

/// The sender is found, however long its parameters are that Postfix accepts.
#[test]
fn long_parameters_hide_no_sender() {
    let Some(scene) = scene_with(&["line_length_limit = 30000"]) else {
        return;
    };
    let mut session = scene.session();
    let parameter = "x".repeat(20_000);
    let mail = session.say(&format!("MAIL FROM:<spammer@listed.test> AUTH={parameter}"));
    assert_eq!(mail.code, 250, "{mail}");
    is_refused(&session.say("RCPT TO:<reader@local.test>"));
    session.quit();
}

/// A client in an exempt network may use any sender, and the next client may not.
#[test]
fn exempt_network() {
    let Some(scene) = scene_with(&[]) else { return };
    let mail = Mail::innocent("from the exempt network").from(SPAMMER);
    for (client, exempt) in [("203.0.113.9", true), ("198.51.100.9", false)] {
        let mut session = scene.session();
        let banner = session.say(&format!("XCLIENT ADDR={client} NAME=mail.remote.test"));
        assert_eq!(banner.code, 220, "{banner}");
        assert_eq!(session.say("EHLO mail.remote.test").code, 250);
        let sent = session.send(&mail);
        if exempt {
            assert_accepted(&sent);
            // The queue id connects the two logs, and the daemon's names the exempt sender.
            let line = scene.mta.logged(&[": client=", client]);
            let before = line.split(": client=").next().unwrap_or_default();
            let id = before.rsplit(' ').next().expect("a word");
            let id = format!("queue_id={id} ");
            let listed = "address=\"spammer@listed.test\"";
            scene
                .daemon
                .logged(&[&id, client, listed, "reason=network"]);
        } else {
            is_refused(sent.last());
            scene.daemon.logged(&["spammer@listed.test", client]);
        }
        session.quit();
    }
    assert_eq!(scene.mta.delivered("from the exempt network").len(), 1);
}

/// Mail from sendmail(1) is not refused: Postfix would bounce it to a sender that may be forged.
#[test]
fn local_submission_is_exempt() {
    let Some(scene) = scene_with(&["non_smtpd_milters = $smtpd_milters"]) else {
        return;
    };
    let program = support::find_program("sendmail").expect("Postfix has a sendmail(1)");
    let mut command = std::process::Command::new(program);
    let config = scene.mta.command("true");
    command
        .arg("-C")
        .arg(config.get_args().nth(1).expect("-c DIR"));
    command.args(["-f", "spammer@listed.test", "reader@local.test"]);
    let local = b"From: spammer@listed.test\nSubject: local\n\nHello.\n";
    Said::with_input(&mut command, local).ok();
    assert_eq!(scene.mta.delivered("local").len(), 1);
}

/// A message that the administrator releases from quarantine is delivered.
#[test]
fn released_mail_is_delivered() {
    let Some(scene) = scene_with(&[]) else { return };
    assert_accepted(&scene.send(&Mail::innocent("released").header("From: held@listed.test\r\n")));
    until("a held message", || (scene.mta.held() == 1).then_some(()));
    scene.mta.assert_nothing_delivered("released");
    scene.mta.release();
    assert_eq!(scene.mta.delivered("released").len(), 1);
}

/// With `quarantine`, Postfix holds messages that it could not check.
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

/// A reload of Postfix during a session changes no verdict.
#[test]
fn postfix_reload() {
    let Some(scene) = scene_with(&[]) else { return };
    let mut before = scene.session();
    assert_eq!(before.say("MAIL FROM:<spammer@listed.test>").code, 250);
    scene.mta.reload(&["smtpd_banner=reloaded ESMTP"]);
    is_refused(&before.say("RCPT TO:<reader@local.test>"));
    assert_eq!(before.say("RSET").code, 250);
    assert_accepted(&before.send(&Mail::innocent("before the reload")));
    before.quit();
    let sent = scene.send(&Mail::innocent("after").from(SPAMMER));
    is_refused(sent.last());
    scene.deliver(&Mail::innocent("after the reload"));
}

/// An authenticated client may use a listed sender: Postfix has its own checks for that.
#[test]
fn authenticated_client_is_exempt() {
    let settings = [
        "smtpd_sasl_auth_enable = yes",
        "smtpd_sasl_type = dovecot",
        "smtpd_sasl_path = private/auth",
    ];
    let Some(scene) = scene_with(&settings) else {
        return;
    };
    let _server = login_server(&scene.mta);
    let mut session = scene.session();
    let mail = Mail::innocent("after the login").from(SPAMMER);
    is_refused(session.send(&mail).last());
    // NUL, user, NUL, password, in base64.
    let login = session.say("AUTH PLAIN AHVzZXIAc2VjcmV0");
    assert_eq!(login.code, 235, "{login}");
    assert_accepted(&session.send(&mail));
    session.quit();
}

/// Answers Postfix as Dovecot's authentication service does, and accepts every login.
fn login_server(postfix: &Postfix) -> std::thread::JoinHandle<()> {
    let path = postfix.queue().join("private/auth");
    let listener = UnixListener::bind(&path).expect("the folder exists");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("root may");
    std::thread::spawn(move || {
        // Postfix keeps one connection for each smtpd, and closes it at the end.
        for stream in listener.incoming().flatten() {
            let mut answers = stream.try_clone().expect("a socket can be shared");
            std::thread::spawn(move || -> std::io::Result<()> {
                answers.write_all(
                    b"VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t0\nDONE\n",
                )?;
                for line in BufReader::new(stream).lines() {
                    if let Some(request) = line?.strip_prefix("AUTH\t") {
                        let id = request.split('\t').next().unwrap_or_default();
                        answers.write_all(format!("OK\t{id}\tuser=user\n").as_bytes())?;
                    }
                }
                Ok(())
            });
        }
    })
}

/// In Debian, smtpd and cleanup are chrooted and reach no socket outside of the queue directory.
#[test]
fn chrooted_postfix() {
    if !usable(Postfix::NAME, Postfix::obstacle()) {
        return;
    }
    let mut site = site(Transport::Unix, "");
    let mta = Postfix::start_with(&site.socket, &[]);
    let folder = mta.queue().join("blocklist-milter");
    fs::create_dir(&folder).expect("a new folder");
    if let Some((uid, gid)) = site.user {
        chown(&folder, Some(uid), Some(gid)).expect("root may");
    }
    mta.enter_chroot("blocklist-milter/milter.sock");
    site.move_socket(Socket::Unix(folder.join("milter.sock")));
    let scene = Scene {
        daemon: site.serve(),
        mta,
        site,
    };
    let sent = scene.send(&Mail::innocent("chroot").from(SPAMMER));
    is_refused(sent.last());
    let sent = scene.send(&Mail::innocent("chroot").header(FROM_SPAMMER));
    is_refused(sent.last());
    scene.deliver(&Mail::innocent("chroot"));
}

/// A socket created by systemd is used instead of the configured one.
#[test]
fn socket_from_systemd() {
    if !usable(Postfix::NAME, Postfix::obstacle()) || !installed("systemd-socket-activate") {
        return;
    }
    let site = site(Transport::Unix, "");
    let path = site.path().join("from-systemd.sock");
    let socket = Socket::Unix(path.clone());
    let command = site.program_under(
        "systemd-socket-activate",
        &["-l", path.to_str().expect("a plain path")],
    );
    let daemon = Daemon::spawn(command, &socket, site.path().join("daemon.log"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).expect("root may");
    let mta = Postfix::start_with(&socket, &[]);
    let scene = Scene { mta, daemon, site };
    let sent = scene.send(&Mail::innocent("systemd").from(SPAMMER));
    is_refused(sent.last());
    scene.deliver(&Mail::innocent("systemd"));
    assert!(
        !scene.site.socket.listens(),
        "the configured socket was opened too"
    );
}

/// Several clients at once, while the list is compiled repeatedly: each verdict is right.
#[test]
fn verdicts_under_load() {
    const CLIENTS: usize = 4;
    const MESSAGES: usize = 25;
    let Some(scene) = scene_with(&[]) else {
        return;
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let scene = &scene;
                scope.spawn(move || {
                    let mut session = scene.session();
                    for message in 0..MESSAGES {
                        let mail = Mail::innocent(&format!("load {client}"));
                        match message % 3 {
                            0 => assert_accepted(&session.send(&mail)),
                            1 => is_refused(session.send(&mail.from(SPAMMER)).last()),
                            _ => is_refused(session.send(&mail.header(FROM_SPAMMER)).last()),
                        }
                    }
                    session.quit();
                })
            })
            .collect();
        let mut rounds = 0;
        while !clients.iter().all(|client| client.is_finished()) {
            let other = format!("other{rounds}@listed.test");
            let entries = ["spammer@listed.test", &other];
            scene.site.list("spammers", &entries);
            rounds += 1;
        }
    });
    for client in 0..CLIENTS {
        let copies = scene.mta.delivered(&format!("load {client}"));
        assert_eq!(copies.len(), MESSAGES.div_ceil(3), "client {client}");
    }
}

#[test]
fn mail_arguments() {
    arguments::mail_arguments::<Postfix>(500);
}

#[test]
fn rcpt_arguments() {
    arguments::rcpt_arguments::<Postfix>(500);
}

/// The same as a long campaign.
#[test]
#[ignore = "a campaign: tests/run --long"]
fn many_arguments() {
    arguments::mail_arguments::<Postfix>(100_000);
    arguments::rcpt_arguments::<Postfix>(20_000);
}
