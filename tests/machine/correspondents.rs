//! Correspondents, collected from logs of real mail servers. `tests/commands/correspondents.toml` has
//! mailboxes, and how the daemon uses them.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::support::mta::{Mta, WhenDown};
use crate::support::postfix::Postfix;
use crate::support::sendmail::Sendmail;
use crate::support::site::Socket;
use crate::support::smtp::{Mail, Smtp};
use crate::support::tools::Killed;
use crate::support::{
    Said, find_program, free_port, has, milter, port_listens, root, rows, until, usable, words,
};

/// Runs the command on a log. Returns its report, and the addresses in the file.
fn keep(folder: &Path, log: &[u8], arguments: &[&str]) -> (Value, String) {
    let file = folder.join("correspondents.txt");
    let mut command = milter();
    command
        .args(["correspondents", "--json", "-o"])
        .arg(&file)
        .args(arguments)
        .arg("-");
    let report = Said::with_input(&mut command, log).json();
    let text = fs::read_to_string(&file).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(" # seen "));
    let addresses: Vec<&str> = lines.map(|(address, _)| address).collect();
    (report, addresses.join(" "))
}

/// The same in a folder of its own.
fn kept(log: &str, arguments: &[&str]) -> (Value, String) {
    keep(
        tempfile::tempdir().unwrap().path(),
        log.as_bytes(),
        arguments,
    )
}

/// Starts smtp-sink(1) of Postfix, the other server, which accepts everything. Returns it, and its port.
fn sink() -> (Killed, u16) {
    let port = free_port();
    let sink = find_program("smtp-sink").expect("comes with Postfix");
    let child = Command::new(sink)
        .args(["-u", "nobody", &format!("127.0.0.1:{port}"), "10"])
        .spawn()
        .unwrap();
    until("the sink listens", || port_listens(port).then_some(()));
    (Killed(child), port)
}

/// Listens like the authentication server of Dovecot: Postfix offers AUTH, so that MAIL may have an AUTH=. Nobody can log in.
fn offer_auth(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    fs::set_permissions(socket, Permissions::from_mode(0o666)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let offer =
                b"VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t0\nDONE\n";
            thread::spawn(move || {
                stream.write_all(offer).unwrap();
                io::copy(&mut stream, &mut io::sink())
            });
        }
    });
}

fn message(from: &str, to: &[&str]) -> Mail {
    Mail::innocent("hello").from(from).to(to)
}

#[test]
fn only_what_a_user_of_postfix_has_sent_counts() {
    if !usable(Postfix::NAME, Postfix::obstacle()) {
        return;
    }
    let (_sink, port) = sink();
    let postfix = Postfix::start(&Socket::Inet(free_port()), WhenDown::Accept);
    let relay = format!("relay_transport=smtp:[127.0.0.1]:{port}");
    offer_auth(&postfix.queue().join("private/auth"));
    postfix.reload(&[
        "smtpd_milters=",
        &relay,
        "allow_untrusted_routing=yes",
        "smtpd_sasl_auth_enable=yes",
        "smtpd_sasl_type=dovecot",
        "smtpd_sasl_path=private/auth",
    ]);
    let send_with = |login: &str, from: &str, to: &[&str], parameters: &str| {
        let (mut session, _) = Smtp::open(postfix.port());
        assert_eq!(session.say("EHLO client.test").code, 250);
        let client = format!("XCLIENT ADDR=203.0.113.9 NAME=pc.test LOGIN={login}");
        let hello = session.say(&client);
        assert_eq!(hello.code, 220, "{hello}");
        assert_eq!(session.say("EHLO client.test").code, 250);
        let sent = session.send_with(&message(from, to), parameters);
        assert!(sent.accepted(), "{}", sent.last());
        session.quit();
    };
    let send = |login: &str, from: &str, to: &[&str]| send_with(login, from, to, "");
    // Counts: authenticated, to another domain. The colleague is in our own domain.
    send(
        "alice",
        "<alice@our.test>",
        &["<Bob@Else.test>", "<colleague@our.test>"],
    );
    // Do not count: a stranger, the null sender of a notification, an answer within a minute.
    send(
        "[UNAVAILABLE]",
        "<stranger@far.test>",
        &["<victim@else.test>"],
    );
    send("alice", "<>", &["<notified@else.test>"]);
    send(
        "[UNAVAILABLE]",
        "<spammer@bad.test>",
        &["<alice@else.test>"],
    );
    send("alice", "<alice@our.test>", &["<spammer@bad.test>"]);
    // A quoted local part that looks like the rest of a line.
    let forged = "<\"x>, sasl_username=y, status=sent (\"@bad.test>";
    send("[UNAVAILABLE]", forged, &["<z@else.test>"]);
    // The client's own AUTH=, which the server logs unverified.
    for (text, to) in [
        ("a, sasl_username=b", "<auth1@else.test>"),
        ("a, sasl_method=PLAIN, sasl_username=b", "<auth2@else.test>"),
        ("a, orig_queue_id=b, orig_client=c", "<auth3@else.test>"),
    ] {
        let auth = format!("AUTH=<{text}>");
        send_with("[UNAVAILABLE]", "<stranger@far.test>", &[to], &auth);
    }
    // Whom a user answers: an address that has others in its quotes.
    let strange = "<\"x>,<y@trap.test>, relay=r[192.0.2.1]:25, status=sent (\"@odd.test>";
    send("alice", "<alice@our.test>", &[strange]);
    for to in [
        "bob@else.test",
        "victim@",
        "notified@",
        "spammer@bad",
        "z@else",
        "auth1@else",
        "auth2@else",
        "auth3@else",
        "\"x>",
    ] {
        let found = |line: &str| {
            let line = line.to_ascii_lowercase();
            line.contains(&format!("to=<{to}")) && line.contains("status=sent")
        };
        let is_delivered = || postfix.log().lines().any(found);
        until(&format!("delivery to {to}"), || {
            is_delivered().then_some(())
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let (change, addresses) = keep(folder.path(), postfix.log().as_bytes(), &[]);
    has(
        &postfix.log(),
        "sasl_sender=<a, sasl_method=PLAIN, sasl_username=b>",
    );
    let strange = strange.trim_matches(['<', '>']);
    let expected = format!("{strange} bob@else.test");
    assert_eq!(addresses, expected, "{}", postfix.log());
    assert_eq!(
        (&change["added"], &change["automatic"]),
        (&json!(2), &json!(1))
    );
    // Again the same; then a client that needs no authentication.
    let (change, _) = keep(folder.path(), postfix.log().as_bytes(), &[]);
    assert_eq!(
        (&change["added"], &change["addresses"]),
        (&json!(0), &json!(2))
    );
    let client = ["--client", "203.0.113.0/24", "--own-domain", "bad.test"];
    let (_, addresses) = keep(folder.path(), postfix.log().as_bytes(), &client);
    has(&addresses, "victim@else.test");
    assert!(!addresses.contains("notified@"), "{addresses}");
}

#[test]
fn mail_of_a_trusted_client_of_sendmail_counts() {
    if !usable(Sendmail::NAME, Sendmail::obstacle()) {
        return;
    }
    let sendmail = Sendmail::start(&Socket::Inet(free_port()), WhenDown::Accept);
    let mut session = Smtp::connect(sendmail.port());
    for (from, to) in [
        (
            "<alice@our.test>",
            &["<bob@else.test>", "<colleague@our.test>"][..],
        ),
        ("<>", &["<notified@else.test>"]),
    ] {
        assert!(session.send(&message(from, to)).accepted());
    }
    // A stranger's texts that look like other fields.
    let forged = "<\"x>, size=1, class=0, nrcpts=1, msgid=<1>, proto=ESMTPSA, relay=r [192.0.2.1]\"@bad.test>";
    let id = "Message-ID: <1, proto=ESMTPSA, daemon=MTA, auth=PLAIN, relay=r [192.0.2.1]>\r\n";
    for mail in [
        message(forged, &["<forged1@else.test>"]),
        message("<stranger@far.test>", &["<forged2@else.test>"]).header(id),
    ] {
        assert!(session.send(&mail).accepted());
    }
    sendmail.logged(&["to=<forged1@else.test>", "stat=Sent"]);
    sendmail.logged(&["to=<forged2@else.test>", "stat=Sent"]);
    session.quit();
    sendmail.logged(&["to=<notified@else.test>", "stat=Sent"]);
    sendmail.logged(&["to=<bob@else.test>", "stat=Sent"]);
    let log = sendmail.log();
    assert_eq!(kept(&log, &[]).1, "", "{log}");
    let (_, addresses) = kept(&log, &["--client", "127.0.0.0/8"]);
    // The end of a Message-ID with fields is uncertain: that line shows no client at all.
    assert_eq!(addresses, "bob@else.test forged1@else.test", "{log}");
}

/// Lines in the formats of both servers, for cases that cannot be played here; and the log of a
/// Postfix whose content filter returns a message of alice under another queue id.
#[test]
fn lines_of_both_servers() {
    for [server, edits, arguments, counts] in rows(include_str!("correspondents.txt")) {
        let log = root("tests/machine/correspondents").join(format!("{server}.log"));
        let mut log = fs::read_to_string(log).unwrap();
        for edit in edits.split(" ; ").filter(|edit| !edit.is_empty()) {
            let (from, to) = edit.split_once(" => ").expect("an edit");
            let to = if to == "nothing" { "" } else { to };
            has(&log, from);
            log = log.replace(from, to);
        }
        let counts = counts == "counts";
        let expected = if counts { "bob@else.test" } else { "" };
        let (change, addresses) = kept(&log, &words(arguments));
        assert_eq!(addresses, expected, "{log}");
        if server == "filter" {
            assert_eq!(change["messages"], u32::from(counts), "{log}");
        }
        // The same lines in the journal.
        let journal = log.lines().map(|line| {
            let (head, text) = line.split_once("]: ").unwrap();
            let program = head.rsplit(' ').next().unwrap().split('[').next().unwrap();
            let entry = json!({"MESSAGE": text, "SYSLOG_IDENTIFIER": program,
                "__REALTIME_TIMESTAMP": "1795269802123456"});
            format!("{entry}\n")
        });
        let journal: String = journal.collect();
        assert_eq!(kept(&journal, &words(arguments)).1, expected, "{journal}");
    }
}

#[test]
fn hostile_logs_do_no_harm() {
    let log = [
        b"Nov 21 14:03:22 mx postfix/smtpd[7]: 4Xy: client=".as_slice(),
        &[b'x'; 20_000],
        b"\n\xff\xfe: to=<, status=sent\n4Xy: to=\n4Xy: from=<\n: to=<a@b.test>, status=sent\n",
        b"Nov 99 99:99:99 mx postfix/smtp[7]: 4Xy: to=<a@b.test>, status=sent\n{\"__REALTIME_TIMESTAMP\"\n",
        &[b'<'; 100_000],
    ]
    .concat();
    let folder = tempfile::tempdir().unwrap();
    let all = ["--uid", "0", "--client", "0.0.0.0/0"];
    let (change, addresses) = keep(folder.path(), &log, &all);
    assert_eq!((addresses.as_str(), &change["messages"]), ("", &json!(0)));
}
