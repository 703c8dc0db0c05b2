//! The maps and the policy service with Postfix (`postmap`, and a running server), and the map of rspamd.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::mta::Mta;
use crate::support::postfix::Postfix;
use crate::support::rig::Rig;
use crate::support::rspamd::Rspamd;
use crate::support::site::{Site, Socket, Transport};
use crate::support::smtp::Smtp;
use crate::support::{Scratch, free_port, has, installed, root, until, usable};

const CONFIG: &str = "[[list]]\nname = 'spam'\nfilter = 'spam.blf'\n";

/// Returns what `postmap -q` finds in the map of the daemon, and whether it found something.
fn asked(folder: &Path, map: &str, key: &str) -> (bool, String) {
    let output = Command::new("postmap")
        .arg("-c")
        .arg(folder)
        .args(["-q", key, map])
        .output()
        .expect("postmap runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn postfix_asks_the_socketmap() {
    if !installed("postfix") {
        return;
    }
    let rig = Rig::new(&[("spam.list", "@bad.example\n")], CONFIG);
    let scratch = Scratch::new();
    fs::write(scratch.at("main.cf"), "compatibility_level = 3.6\n").expect("our own folder");
    let map = format!("socketmap:unix:{}:list", rig.path("socketmap").display());
    let (is_found, said) = asked(scratch.path(), &map, "a@bad.example");
    assert!(is_found, "{said}");
    has(
        &said,
        "550 5.7.1 a@bad.example is on the sender blocklist spam (case ",
    );
    let unlisted = asked(scratch.path(), &map, "a@ok.example");
    assert_eq!(unlisted, (false, String::new()));
    let gone = format!("socketmap:unix:{}:list", rig.path("gone").display());
    let (is_found, said) = asked(scratch.path(), &gone, "a@bad.example");
    assert!(
        !is_found && !said.is_empty(),
        "a daemon that is away is an error, not a miss"
    );
}

/// Returns what a server answers to this sender's RCPT, or to its MAIL if it refuses that.
fn answered(port: u16, sender: &str) -> String {
    let (mut smtp, _) = Smtp::open(port);
    smtp.say("EHLO client.test");
    let mut reply = smtp.say(&format!("MAIL FROM:<{sender}>")).to_string();
    if reply.starts_with("250") {
        reply = smtp.say("RCPT TO:<reader@local.test>").to_string();
    }
    smtp.say("QUIT");
    reply
}

/// Senders whose local part looks like more than that, with and without quotes, and whether they are listed.
const ODD_SENDERS: [(&str, bool); 16] = [
    (r#""x"@bad.example"#, true),
    (r#""x(y"@bad.example"#, true),
    (r#""x y"@bad.example"#, true),
    (r#""x,y"@bad.example"#, true),
    (r#""x\"y"@bad.example"#, true),
    (r#""x\\"@bad.example"#, true),
    (r#""ok@good.example"@bad.example"#, true),
    (r#""ok@good.example>"@bad.example"#, true),
    (r#""<ok@good.example"@bad.example"#, true),
    (r#""<ok@good.example>"@bad.example"#, true),
    (r"x\>@bad.example", true),
    (r"x\ y@bad.example", true),
    (r#""a b"@exact.example"#, true),
    (r#""a"@exact.example"#, false),
    (r#""x@bad.example"@good.example"#, false),
    (r#""<x@bad.example>"@good.example"#, false),
];

/// As `smtpd_recipient_restrictions`, without a milter.
#[test]
fn a_running_postfix_asks_the_policy_service_and_the_socketmap() {
    if !usable(Postfix::NAME, Postfix::obstacle()) {
        return;
    }
    let rig = Rig::new(
        &[("spam.list", "@bad.example\n\"a b\"@exact.example\n")],
        CONFIG,
    );
    // For Postfix's user.
    let open = |name: &str, mode| {
        fs::set_permissions(rig.path(name), Permissions::from_mode(mode)).expect("our own");
    };
    open("", 0o755);
    open("policy", 0o666);
    open("socketmap", 0o666);
    let nowhere = Socket::Unix(rig.path("gone"));
    let postfix = Postfix::start_with(&nowhere, &[]);
    let port = postfix.port();
    let check = |restriction: &str, at: &str| {
        let restriction = restriction.replace('@', &rig.path(at).display().to_string());
        let asks = format!("smtpd_recipient_restrictions={restriction}");
        postfix.reload(&["smtpd_milters=", &asks]);
    };
    for (restriction, at) in [
        ("check_policy_service unix:@", "policy"),
        ("check_sender_access socketmap:unix:@:list", "socketmap"),
    ] {
        check(restriction, at);
        // A server of before the change may answer once more.
        let refused = until(restriction, || {
            Some(answered(port, "A@Bad.Example")).filter(|refused| refused.starts_with("550"))
        });
        has(&refused, "is on the sender blocklist spam (case ");
        let accepted = answered(port, "a@ok.example");
        assert!(accepted.starts_with("250"), "{restriction}: {accepted}");
        for (sender, is_listed) in ODD_SENDERS {
            let reply = answered(port, sender);
            let code = if is_listed { "550" } else { "250" };
            assert!(reply.starts_with(code), "{restriction}, {sender}: {reply}");
        }
        // Postfix defers while nobody answers.
        check(restriction, "gone");
        until("Postfix defers", || {
            answered(port, "a@ok.example")
                .starts_with("451")
                .then_some(())
        });
    }
    // With smtpd_delay_reject = no, Postfix asks at MAIL, where it knows no recipient.
    let asks = format!("check_policy_service unix:{}", rig.path("policy").display());
    postfix.reload(&[
        "smtpd_delay_reject=no",
        "smtpd_recipient_restrictions=",
        &format!("smtpd_sender_restrictions={asks}"),
    ]);
    let refused = until("it is refused at MAIL", || {
        Some(answered(port, "a@bad.example")).filter(|refused| refused.starts_with("550"))
    });
    has(&refused, "Sender address rejected: a@bad.example is on the");
    assert!(answered(port, "a@ok.example").starts_with("250"));
    // Else it asks about the same message again for each recipient: it counts once.
    postfix.reload(&["smtpd_delay_reject=yes"]);
    let refusals = || {
        let (_, status) = rig.page("/status.json");
        let status: Value = serde_json::from_str(&status).expect("JSON");
        status["messages"]["verdicts"]["reject"]
            .as_u64()
            .expect("a count")
    };
    let refused = until("it is refused at RCPT", || {
        let before = refusals();
        let (mut smtp, _) = Smtp::open(port);
        smtp.say("EHLO client.test");
        let mail = smtp.say("MAIL FROM:<a@bad.example>").to_string();
        let replies = ["a", "b", "c"].map(|to| smtp.say(&format!("RCPT TO:<{to}@local.test>")));
        smtp.say("QUIT");
        // A server of before the change may answer once more.
        let is_new = mail.starts_with("250");
        is_new.then(|| (replies.map(|reply| reply.to_string()), refusals() - before))
    });
    assert!(
        refused.0.iter().all(|reply| reply.starts_with("550")),
        "{refused:?}"
    );
    assert_eq!(refused.1, 1, "{refused:?}");
}

/// With the file of `contrib/rspamd`. While the daemon is away, a listed sender passes, as that file says.
#[test]
fn rspamd_asks_the_daemon() {
    if !usable(Rspamd::NAME, Rspamd::obstacle()) {
        return;
    }
    let mut site = Site::new(Transport::Unix);
    let listed = [
        "@bad.example",
        "spam+tag@plus.example",
        "spammer@plus.example",
        "50%deal@long.example",
    ];
    site.list("spam", &listed);
    site.list("mild", &["@mild.example"]);
    let lists = ["spam", "mild"].map(|name| {
        let action = if name == "mild" { "tag" } else { "reject" };
        format!("[[list]]\nname = '{name}'\nfilter = '@DIR@/{name}.blf'\naction = '{action}'\n")
    });
    site.configure(&lists.concat());
    let door = free_port();
    let config = fs::read_to_string(site.at("milter.toml")).expect("our own file");
    let doors = format!("listen = [\"rspamd:inet:{door}@127.0.0.1\", ");
    site.write("milter.toml", &config.replace("listen = [", &doors));
    let daemon = site.serve();
    let maps = fs::read_to_string(root("contrib/rspamd/multimap.conf")).expect("a file of ours");
    let rspamd = Rspamd::start(&maps.replace(":8892/", &format!(":{door}/")));
    let listed = |sender: &str| {
        let said = rspamd.scan(sender);
        let score = "\"SENDER_BLOCKLIST\":{\"name\":\"SENDER_BLOCKLIST\",\"score\":15.0,";
        has(&said, score);
        has(&said, "\"action\":\"reject\"");
        has(&said, &format!("\"options\":[\"{sender}\"]"));
    };
    let passes = |sender: &str| {
        let said = rspamd.scan(sender);
        has(&said, "\"symbols\":{");
        assert!(!said.contains("SENDER_BLOCKLIST"), "{said}");
    };
    // It keeps its connection to the daemon.
    for _ in 0..3 {
        listed("a@bad.example");
        // Whatever the action: rspamd decides by its score.
        listed("a@mild.example");
        passes("a@ok.example");
        passes("");
    }
    // It asks without quotes; of some senders it reads something else, or nothing.
    for sender in [r#""x y"@bad.example"#, r#""ok@good.example"@bad.example"#] {
        has(&rspamd.scan(&format!("<{sender}>")), "\"SENDER_BLOCKLIST\"");
    }
    passes(r#"<"x@bad.example"@good.example>"#);
    // As the client wrote it: rspamd itself goes on with other forms, without `+tag` and the dots of Gmail.
    listed("spam+tag@plus.example");
    passes("spam@plus.example");
    passes("spammer+x@plus.example");
    listed("50%deal@long.example");
    passes("50%25deal@long.example");
    assert!(daemon.terminate().success());
    passes("a@bad.example");
    let _daemon = site.serve();
    until("rspamd asks again", || {
        rspamd
            .scan("a@bad.example")
            .contains("SENDER_BLOCKLIST")
            .then_some(())
    });
    listed("a@bad.example");
}
