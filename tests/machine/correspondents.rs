//! Correspondents: collected from logs of real mail servers and from mailboxes, and used by the
//! daemon.

use crate::support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::mta::{Mta, WhenDown};
use support::postfix::Postfix;
use support::sendmail::Sendmail;
use support::site::Socket;
use support::smtp::{Mail, Smtp};
use support::{find_program, free_port, port_listens, until, usable};

/// Runs the command on a log. Returns its report, and the addresses in the file.
fn keep(folder: &Path, log: &[u8], arguments: &[&str]) -> (Value, String) {
    let file = folder.join("correspondents.txt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
        .args(["correspondents", "--json", "-o"])
        .arg(&file)
        .args(arguments)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(log);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    let addresses = fs::read_to_string(&file).unwrap();
    let addresses = addresses
        .lines()
        .filter_map(|line| line.split_once(" # seen "))
        .map(|(address, _)| address)
        .collect::<Vec<_>>()
        .join(" ");
    (serde_json::from_slice(&done.stdout).unwrap(), addresses)
}

/// smtp-sink(1) of Postfix: the other server, which accepts everything.
struct Sink(Child, u16);

impl Sink {
    fn start() -> Self {
        let port = free_port();
        let sink = find_program("smtp-sink").expect("comes with Postfix");
        let child = Command::new(sink)
            .args(["-u", "nobody", &format!("127.0.0.1:{port}"), "10"])
            .spawn()
            .unwrap();
        until("the sink listens", || port_listens(port).then_some(()));
        Self(child, port)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn message(from: &str, to: &[&str]) -> Mail {
    Mail::innocent("hello").from(from).to(to)
}

#[test]
fn only_what_a_user_of_postfix_has_sent_counts() {
    if !usable(Postfix::NAME, Postfix::obstacle()) {
        return;
    }
    let sink = Sink::start();
    let none = Socket::Inet(free_port());
    let postfix = Postfix::start(&none, WhenDown::Accept);
    postfix.reload(&[
        "smtpd_milters=",
        &format!("relay_transport=smtp:[127.0.0.1]:{}", sink.1),
    ]);
    let send = |login: Option<&str>, mail: &Mail| {
        let (mut session, _) = Smtp::open(postfix.port());
        let login = login.unwrap_or("[UNAVAILABLE]");
        assert_eq!(session.say("EHLO client.test").code, 250);
        let hello = session.say(&format!(
            "XCLIENT ADDR=203.0.113.9 NAME=pc.test LOGIN={login}"
        ));
        assert_eq!(hello.code, 220, "{hello}");
        assert_eq!(session.say("EHLO client.test").code, 250);
        assert!(session.send(mail).accepted());
        session.quit();
    };
    // Counts: authenticated, to another domain. The colleague is in our own domain.
    let both = ["<Bob@Else.test>", "<colleague@our.test>"];
    send(Some("alice"), &message("<alice@our.test>", &both));
    // Do not count: a stranger, the null sender of a notification, an answer within a minute.
    send(
        None,
        &message("<stranger@far.test>", &["<victim@else.test>"]),
    );
    send(Some("alice"), &message("<>", &["<notified@else.test>"]));
    send(None, &message("<spammer@bad.test>", &["<alice@else.test>"]));
    send(
        Some("alice"),
        &message("<alice@our.test>", &["<spammer@bad.test>"]),
    );
    // A quoted local part that looks like the rest of a line.
    let forged = message(
        "<\"x>, sasl_username=y, status=sent (\"@bad.test>",
        &["<z@else.test>"],
    );
    send(None, &forged);
    for to in [
        "bob@else.test",
        "victim@",
        "notified@",
        "spammer@bad",
        "<z@else",
    ] {
        let found = |line: &str| {
            let line = line.to_ascii_lowercase();
            line.contains(&format!("to=<{}", to.trim_start_matches('<')))
                && line.contains("status=sent")
        };
        until(&format!("delivery to {to}"), || {
            postfix.log().lines().any(found).then_some(())
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let (change, addresses) = keep(folder.path(), postfix.log().as_bytes(), &[]);
    assert_eq!(addresses, "bob@else.test", "{}", postfix.log());
    assert_eq!(change["added"], 1);
    assert_eq!(change["automatic"], 1);
    // Again the same; then a client that needs no authentication.
    let (change, _) = keep(folder.path(), postfix.log().as_bytes(), &[]);
    assert_eq!(
        (&change["added"], &change["addresses"]),
        (&0.into(), &1.into())
    );
    let client = ["--client", "203.0.113.0/24", "--own-domain", "bad.test"];
    let (_, addresses) = keep(folder.path(), postfix.log().as_bytes(), &client);
    assert!(addresses.contains("victim@else.test"), "{addresses}");
    assert!(!addresses.contains("notified@"), "{addresses}");
}

#[test]
fn mail_of_a_trusted_client_of_sendmail_counts() {
    if !usable(Sendmail::NAME, Sendmail::obstacle()) {
        return;
    }
    let none = Socket::Inet(free_port());
    let sendmail = Sendmail::start(&none, WhenDown::Accept);
    let mut session = Smtp::connect(sendmail.port());
    for mail in [
        message(
            "<alice@our.test>",
            &["<bob@else.test>", "<colleague@our.test>"],
        ),
        message("<>", &["<notified@else.test>"]),
    ] {
        assert!(session.send(&mail).accepted());
    }
    session.quit();
    sendmail.logged(&["to=<notified@else.test>", "stat=Sent"]);
    sendmail.logged(&["to=<bob@else.test>", "stat=Sent"]);
    let folder = tempfile::tempdir().unwrap();
    let log = sendmail.log();
    let (_, addresses) = keep(folder.path(), log.as_bytes(), &[]);
    assert_eq!(addresses, "", "{log}");
    let (_, addresses) = keep(folder.path(), log.as_bytes(), &["--client", "127.0.0.0/8"]);
    assert_eq!(addresses, "bob@else.test", "{log}");
}

/// The log of a Postfix whose content filter returns a message of alice under another queue id.
#[test]
fn mail_that_a_content_filter_returns_counts_when_it_is_delivered() {
    let log = "\
Nov 21 14:03:18 mx postfix/smtpd[7]: DEF1: client=pc.test[203.0.113.9], sasl_method=PLAIN, sasl_username=alice
Nov 21 14:03:18 mx postfix/qmgr[8]: DEF1: from=<alice@our.test>, size=310, nrcpt=1 (queue active)
Nov 21 14:03:18 mx postfix/smtpd[9]: EC02: client=localhost[127.0.0.1], orig_queue_id=DEF1, orig_client=pc.test[203.0.113.9]
Nov 21 14:03:18 mx postfix/qmgr[8]: EC02: from=<alice@our.test>, size=466, nrcpt=1 (queue active)
Nov 21 14:03:18 mx postfix/scan/smtp[10]: DEF1: to=<bob@else.test>, relay=127.0.0.1[127.0.0.1]:10024, dsn=2.0.0, status=sent (250 2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as EC02)
Nov 21 14:03:18 mx postfix/qmgr[8]: DEF1: removed
Nov 21 14:03:19 mx postfix/smtp[11]: EC02: to=<bob@else.test>, relay=mx.else.test[198.51.100.1]:25, dsn=2.0.0, status=sent (250 ok)
Nov 21 14:03:19 mx postfix/qmgr[8]: EC02: removed
";
    let origin = ", orig_queue_id=DEF1, orig_client=pc.test[203.0.113.9]";
    let both = [origin, ", sasl_method=PLAIN, sasl_username=alice"];
    let elsewhere = "relay=filter.test[198.51.100.7]:10024";
    let here = "relay=127.0.0.1[127.0.0.1]:10024";
    let local = log.replace("smtp[11]", "lmtp[11]");
    for (what, log, counts) in [
        ("delivered", log.to_owned(), 1),
        ("without XFORWARD", log.replace(origin, ""), 1),
        ("by LMTP", log.replace("scan/smtp", "scan/lmtp"), 1),
        ("a filter elsewhere", log.replace(here, elsewhere), 1),
        (
            "bounced",
            log.replace("sent (250 ok)", "bounced (550 no)"),
            0,
        ),
        ("a mailbox here", local, 0),
        (
            "of a stranger",
            both.iter()
                .fold(log.to_owned(), |log, field| log.replace(field, "")),
            0,
        ),
        // Not a filter: a tunnel to another server.
        (
            "a tunnel",
            log.replace(origin, "").replace("as EC02", "as EC03"),
            1,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (change, addresses) = keep(folder.path(), log.as_bytes(), &[]);
        let expected = if counts > 0 { "bob@else.test" } else { "" };
        assert_eq!(
            (addresses.as_str(), &change["messages"]),
            (expected, &counts.into()),
            "{what}"
        );
    }
    // A server elsewhere that names the queue id of a message of its own.
    let forged = log.replace(origin, "").replace(here, elsewhere);
    let forged = forged.replacen("EC02: to=<bob@", "EC02: to=<victim@", 1);
    let (_, addresses) = keep(tempfile::tempdir().unwrap().path(), forged.as_bytes(), &[]);
    assert_eq!(addresses, "bob@else.test");
}

/// Lines in the formats of both servers, for cases that cannot be played here.
#[test]
fn lines_of_both_servers() {
    let postfix = |first: &str, from: &str, to: &str| {
        let service = match first.starts_with("uid=") {
            true => "pickup",
            false => "submission/smtpd",
        };
        format!(
            "Nov 21 14:03:22 mx postfix/{service}[7]: 4Xy: {first}\n\
             Nov 21 14:03:22 mx postfix/qmgr[8]: 4Xy: from=<{from}>, size=500, nrcpt=1 (queue active)\n\
             Nov 21 14:03:23 mx postfix/{to}\nNov 21 14:03:23 mx postfix/qmgr[8]: 4Xy: removed\n"
        )
    };
    let login = "client=pc.test[203.0.113.9], sasl_method=PLAIN, sasl_username=alice";
    let sent = "smtp[9]: 4Xy: to=<bob@else.test>, relay=mx.else.test[198.51.100.1]:25, delay=1, dsn=2.0.0, status=sent (250 ok)";
    let alice = "alice@our.test";
    let sendmail = |from: &str, to: &str| {
        format!(
            "Nov 21 14:03:22 mx sm-mta[7]: 5ALE3MkQ000123: from={from}\n\
             Nov 21 14:03:23 mx sm-mta[8]: 5ALE3MkQ000123: to=<bob@else.test>, {to}\n"
        )
    };
    let of_alice = "<alice@our.test>, size=500, class=0, nrcpts=1, msgid=<1@pc>, proto=ESMTPSA, daemon=MTA, relay=pc.test [203.0.113.9]";
    let sent_by = "delay=00:00:01, xdelay=00:00:01, mailer=esmtp, pri=120500, relay=mx.else.test. [198.51.100.1], dsn=2.0.0, stat=Sent (ok)";
    for (log, arguments, kept) in [
        (postfix(login, alice, sent), &[][..], true),
        (postfix(login, "", sent), &[], false),
        (
            postfix(login, alice, &sent.replace("=sent", "=bounced")),
            &[],
            false,
        ),
        (
            postfix(
                login,
                alice,
                &sent
                    .replace("=sent", "=deferred")
                    .replace("250 ok", "status=sent (x)"),
            ),
            &[],
            false,
        ),
        (
            postfix(login, alice, &sent.replace("smtp[", "lmtp[")),
            &[],
            false,
        ),
        (
            postfix(login, alice, &sent.replace("smtp[9]", "local[9]")),
            &[],
            false,
        ),
        (
            postfix(login, alice, sent).replace("nrcpt=1 ", "nrcpt=500 "),
            &[],
            false,
        ),
        (
            postfix("client=pc.test[203.0.113.9]", alice, sent),
            &[],
            false,
        ),
        (
            postfix("client=x[203.0.113.9]", "a, sasl_username=x@bad.test", sent),
            &[],
            false,
        ),
        // Local submission counts for the users given on the command line.
        (postfix("uid=1000 from=<alice>", alice, sent), &[], false),
        (
            postfix("uid=1000 from=<alice>", alice, sent),
            &["--uid", "1000"],
            true,
        ),
        (
            postfix("uid=33 from=<www-data>", alice, sent),
            &["--uid", "1000"],
            false,
        ),
        // Forwarded by an alias: there is no first line.
        (postfix("x", "spammer@bad.test", sent), &[], false),
        (sendmail(of_alice, sent_by), &[], true),
        (
            sendmail(&of_alice.replace("ESMTPSA", "ESMTPS"), sent_by),
            &[],
            false,
        ),
        (
            sendmail(
                &of_alice.replace(
                    "ESMTPSA, daemon=MTA",
                    "ESMTPS, daemon=MTA, tls_verify=NONE, auth=PLAIN",
                ),
                sent_by,
            ),
            &[],
            true,
        ),
        (
            sendmail(
                &of_alice.replace(
                    "ESMTPSA, daemon=MTA",
                    "ESMTPS, daemon=MTA, tls_verify=NONE, auth=NONE",
                ),
                sent_by,
            ),
            &[],
            false,
        ),
        // A Message-ID chosen by the sender.
        (
            sendmail(
                &of_alice
                    .replace("ESMTPSA", "ESMTPS")
                    .replace("1@pc", "1, proto=ESMTPSA, daemon=MTA"),
                sent_by,
            ),
            &[],
            false,
        ),
        // The answer of a client's ident server.
        (
            sendmail(
                &of_alice
                    .replace("ESMTPSA", "ESMTP")
                    .replace("relay=pc.test", "relay=IDENT:a, auth=PLAIN@pc.test"),
                sent_by,
            ),
            &[],
            false,
        ),
        (
            sendmail(
                &of_alice.replace("ESMTPSA", "ESMTP").replace(
                    "relay=pc.test",
                    "relay=IDENT:a, proto=ESMTPSA, relay=b@pc.test",
                ),
                sent_by,
            ),
            &[],
            false,
        ),
        // A sender whose message expires, in a line of Postfix with the form of Sendmail's.
        (
            format!(
                "Nov 21 14:03:22 mx postfix/qmgr[7]: 4Xy: from=<\"x, nrcpts=1, msgid=<1>, proto=ESMTPSA, relay=x\"@bad.test>, status=expired, returned to sender\n\
                 Nov 21 14:03:22 mx postfix/{sent}\n"
            ),
            &[],
            false,
        ),
        // Other programs that log what senders write.
        (
            postfix("x", "spammer@bad.test", sent).replace(
                "postfix/submission/smtpd[7]: 4Xy: x",
                &format!("opendmarc[7]: 4Xy: {login}"),
            ),
            &[],
            false,
        ),
        (
            postfix("x", "spammer@bad.test", sent).replace(
                "postfix/submission/smtpd[7]: 4Xy: x",
                "policy[7]: 4Xy: uid=1000 from=<alice>",
            ),
            &["--uid", "1000"],
            false,
        ),
        (
            sendmail(of_alice, sent_by).replace("sm-mta", "postfix/policy"),
            &[],
            false,
        ),
        (
            sendmail(of_alice, &sent_by.replace("esmtp", "local")),
            &[],
            false,
        ),
        (
            sendmail(
                of_alice,
                &sent_by.replace("Sent (ok)", "Deferred: stat=Sent (x)"),
            ),
            &[],
            false,
        ),
        (
            sendmail(&of_alice.replace("alice@our.test", ""), sent_by),
            &[],
            false,
        ),
        // The command sendmail; and a .forward, which also has a user.
        (
            sendmail(
                "alice@our.test, size=5, class=0, nrcpts=1, msgid=<1@mx>, relay=alice@localhost",
                &format!("ctladdr=alice (1000/1000), {sent_by}"),
            ),
            &["--uid", "1000"],
            true,
        ),
        (
            sendmail(
                &of_alice.replace("ESMTPSA", "ESMTP"),
                &format!("ctladdr=<alice@our.test> (1000/1000), {sent_by}"),
            ),
            &["--uid", "1000"],
            false,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (_, addresses) = keep(folder.path(), log.as_bytes(), arguments);
        assert_eq!(addresses, if kept { "bob@else.test" } else { "" }, "{log}");
        // The same lines in the journal.
        let journal: String = log
            .lines()
            .map(|line| {
                let (head, text) = line.split_once("]: ").unwrap();
                let program = head.rsplit(' ').next().unwrap().split('[').next().unwrap();
                let entry = serde_json::json!({"MESSAGE": text, "SYSLOG_IDENTIFIER": program,
                    "__REALTIME_TIMESTAMP": "1795269802123456"});
                format!("{entry}\n")
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let (_, addresses) = keep(folder.path(), journal.as_bytes(), arguments);
        assert_eq!(
            addresses,
            if kept { "bob@else.test" } else { "" },
            "{journal}"
        );
    }
}

#[test]
fn sent_mail_of_a_mailbox_counts_and_automatic_mail_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = folder.path().join("Sent");
    for name in ["cur", "new", "tmp"] {
        fs::create_dir_all(mailbox.join(name)).unwrap();
    }
    let date = "Date: Fri, 21 Nov 2026 14:03:22 +0100\nFrom: Alice <alice@our.test>\n";
    for (name, text) in [
        (
            "1",
            "To: \"Bob, B.\" <bob@else.test>,\n carol@else.test\nCc: colleague@our.test\nBcc: dave@else.test\n",
        ),
        ("2", "Auto-Submitted: auto-replied\nTo: spammer@bad.test\n"),
        ("3", "Precedence: bulk\nTo: spammer@bad.test\n"),
        ("4", "List-Id: <x.our.test>\nTo: spammer@bad.test\n"),
        ("5", "To: undisclosed-recipients:;\n"),
        ("6", "To: \"spammer@bad.test\" <erin@else.test>\n"),
    ] {
        fs::write(
            mailbox.join("cur").join(name),
            format!("{date}{text}\nspammer@bad.test\n"),
        )
        .unwrap();
    }
    let sent = ["--sent", mailbox.to_str().unwrap(), "--keep", "3650d"];
    let (change, addresses) = keep(folder.path(), b"", &sent);
    assert_eq!(
        addresses,
        "bob@else.test carol@else.test dave@else.test erin@else.test"
    );
    assert_eq!(
        (&change["messages"], &change["automatic"]),
        (&3.into(), &3.into())
    );
    // After so long a time, nobody is a correspondent any more.
    let other = tempfile::tempdir().unwrap();
    let old = mailbox.join("cur/1");
    let text = fs::read_to_string(&old).unwrap().replace("2026", "2020");
    fs::write(old, text).unwrap();
    let (_, addresses) = keep(
        other.path(),
        b"",
        &["--sent", mailbox.to_str().unwrap(), "--keep", "1d"],
    );
    assert!(!addresses.contains("bob"), "{addresses}");
}

#[test]
fn correspondents_are_not_refused_and_replay_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("spam.txt", "bob@else.test\nspammer@bad.test\n");
    let built = Command::new(env!("CARGO_BIN_EXE_blocklist-compile"))
        .args(["build", "-q", "-o", &path("spam.blf"), &path("spam.txt")])
        .status()
        .unwrap();
    assert!(built.success());
    let list = format!(
        "[[list]]\nname = 'spam'\nfilter = '{}'\n[whitelist]\n",
        path("spam.blf")
    );
    write("milter.toml", &list);
    write("people.txt", "bob@else.test # seen 2026-11-21\n");
    fs::create_dir(folder.path().join("mail")).unwrap();
    write("mail/1", "From: bob@else.test\nTo: alice@our.test\n\n");
    write("mail/2", "From: spammer@bad.test\nTo: alice@our.test\n\n");
    let run = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
            .args(arguments)
            .args(["--json", "--config", &path("milter.toml")])
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    let replay = run(&[
        "replay",
        "--correspondents",
        &path("people.txt"),
        &path("mail"),
    ]);
    assert_eq!(
        replay["changes"],
        serde_json::json!([["reject", "accept", 1]])
    );

    write(
        "milter.toml",
        &format!("{list}correspondents = ['people.txt']\n"),
    );
    let verdict = |message: &str| run(&["explain", &path(message)])["verdict"].clone();
    assert_eq!(verdict("mail/1"), "accept");
    assert_eq!(verdict("mail/2"), "reject");
    // If DKIM results are trusted, a stranger with Bob's address in From is not Bob.
    let trusted =
        format!("{list}correspondents = ['people.txt']\nauthserv_ids = ['mx.our.test']\n");
    write("milter.toml", &trusted);
    assert_eq!(verdict("mail/1"), "reject");
    write(
        "mail/3",
        "Authentication-Results: mx.our.test; dkim=pass header.d=else.test\nFrom: bob@else.test\n\n",
    );
    assert_eq!(verdict("mail/3"), "accept");
    write(
        "milter.toml",
        &format!("{trusted}correspondents_require_dkim = false\n"),
    );
    assert_eq!(verdict("mail/1"), "accept");
    // Domains are never accepted.
    write("people.txt", "else.test # seen 2026-11-21\n");
    let check = Command::new(env!("CARGO_BIN_EXE_blocklist-milter"))
        .args(["check", "--config", &path("milter.toml")])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(
        error.contains("people.txt:1: not an address: else.test"),
        "{error}"
    );
}

#[test]
fn hostile_logs_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Vec::new();
    log.extend(
        [
            b"Nov 21 14:03:22 mx postfix/smtpd[7]: 4Xy: client=".as_slice(),
            &[b'x'; 20_000],
            b"\n",
        ]
        .concat(),
    );
    log.extend(
        b"\xff\xfe: to=<, status=sent\n4Xy: to=\n4Xy: from=<\n: to=<a@b.test>, status=sent\n",
    );
    log.extend(b"Nov 99 99:99:99 mx postfix/smtp[7]: 4Xy: to=<a@b.test>, status=sent\n{\"__REALTIME_TIMESTAMP\"\n");
    log.extend([b'<'; 100_000]);
    let (change, addresses) = keep(
        folder.path(),
        &log,
        &["--uid", "0", "--client", "0.0.0.0/0"],
    );
    assert_eq!((addresses.as_str(), &change["messages"]), ("", &0.into()));
}
