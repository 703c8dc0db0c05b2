//! The daemon with a real Exim 4, which asks it by policy delegation with the ACLs of
//! `contrib/exim`: the scenarios of all mail servers, with both of Debian's programs.

use crate::support::exim::{Debian, Exim, HeavyExim};
use crate::support::mta::Mta;
use crate::support::scene::Scene;
use crate::support::site::Transport;
use crate::support::smtp::Mail;

mod light {
    crate::scenarios! { super::Exim, unix }
    crate::scenarios! { super::Exim: pipelined_session, daemon_down_and_back, }
}

mod heavy {
    crate::scenarios! { super::HeavyExim, unix }
    crate::scenarios! { super::HeavyExim: pipelined_session, daemon_down_and_back, }
}

/// Exim asks about each recipient over a connection of its own.
#[test]
fn a_message_with_several_refused_recipients_is_logged_once() {
    let Some(scene) = Scene::<Exim>::new(Transport::Unix) else {
        return;
    };
    let senders = [("spammer@listed.test", 550), ("later@listed.test", 451)];
    for (sender, code) in senders {
        let mail = Mail::innocent("to many").from(&format!("<{sender}>"));
        let sent = scene.send(&mail.to(&["<a@local.test>", "<b@local.test>", "<c@local.test>"]));
        let codes: Vec<_> = sent.recipients.iter().map(|reply| reply.code).collect();
        assert_eq!(codes, [code; 3], "{sent:?}");
    }
    scene.send(&Mail::innocent("last").from("<last@listed-domain.test>"));
    scene.daemon.logged(&["last@listed-domain.test"]);
    let log = scene.daemon.log();
    for (sender, _) in senders {
        let logged = log.matches(&format!("address=\"{sender}\"")).count();
        assert_eq!(logged, 1, "{log}");
    }
}

/// Header fields of about this many KiB, with CRLF.
fn padding(kib: usize) -> String {
    format!("X-Padding: {}\r\n", "y".repeat(900)).repeat(kib * 1024 / 913)
}

/// Exim gives its ACLs 65,536 bytes of a header block.
fn a_sender_behind_many_other_fields<M: Mta>() {
    let Some(scene) = Scene::<M>::new(Transport::Unix) else {
        return;
    };
    let sends = |kib: usize, fields: &str, code: u16| {
        let header = format!("{}{fields}\r\nTo: reader@local.test\r\n", padding(kib));
        let sent = scene.send(&Mail::innocent("large").header(&header));
        let what = format!("{kib} KiB, {fields:.80}");
        assert_eq!(sent.last().code, code, "{what}: {}", sent.last());
    };
    for kib in [0, 1, 16, 62, 63, 64, 65, 128, 256, 512, 1000] {
        sends(kib, "From: Innocent <innocent@elsewhere.test>", 250);
        sends(kib, "From: Spammer\r\n <spammer@listed.test>", 550);
        sends(kib, "From: a@b.test\r\nReply-To: spammer@listed.test", 550);
        // Fields that Exim's lists cannot tell apart.
        sends(
            kib,
            "From: \"A: b\" <a@b.test>\r\nFrom:\r\nFrom: spammer@listed.test",
            550,
        );
        sends(kib, "From: \"A:\r\n spammer@listed.test\" <a@b.test>", 250);
    }
    // It cannot be asked for a name with a blank; and of a field, it gives 65,536 bytes, too.
    sends(1, "From : spammer@listed.test", 550);
    sends(100, "From : spammer@listed.test", 451);
    let many: String = (0..5000).map(|n| format!(" a{n}@b.test,\r\n")).collect();
    sends(1, &format!("From:{many} spammer@listed.test"), 451);
    sends(1, &format!("Message-ID:{many} x"), 250);
    let colons = ":".repeat(900);
    let colons = format!("From: {}a@b.test\r\n", format!("{colons}\r\n ").repeat(40));
    sends(100, &format!("{colons}From: spammer@listed.test"), 550);
}

#[test]
fn light_finds_a_sender_behind_many_other_fields() {
    a_sender_behind_many_other_fields::<Exim>();
}

#[test]
fn heavy_finds_a_sender_behind_many_other_fields() {
    a_sender_behind_many_other_fields::<HeavyExim>();
}

/// Debian's ACL accepts postmaster before it asks.
fn debians_configuration<const SPLIT: bool>() {
    let Some(scene) = Scene::<Debian<SPLIT>>::new(Transport::Unix) else {
        return;
    };
    let (postmaster, reader) = ("<postmaster@local.test>", "<reader@local.test>");
    let sends = |from: &str, author: &str, to: &[&str], code: u16| {
        let header = format!("From: {author}\r\nTo: reader@local.test\r\n");
        let mail = Mail::innocent("debian").from(from).to(to).header(&header);
        let last = scene.send(&mail);
        let last = last.last();
        assert_eq!(last.code, code, "{from} {author} {to:?}: {last}");
    };
    let (listed, innocent) = ("spammer@listed.test", "innocent@elsewhere.test");
    for to in [
        &[postmaster][..],
        &[reader],
        &[postmaster, reader],
        &[reader, postmaster],
    ] {
        let refused = if to == [postmaster] { 250 } else { 550 };
        sends("<innocent@elsewhere.test>", innocent, to, 250);
        sends("<innocent@elsewhere.test>", listed, to, refused);
    }
    sends("<spammer@listed.test>", innocent, &[postmaster], 250);
    sends("<spammer@listed.test>", innocent, &[reader], 550);
    sends(
        "<spammer@listed.test>",
        innocent,
        &[postmaster, reader],
        250,
    );
    sends("<\"a b\"@listed-domain.test>", innocent, &[reader], 550);
    let behind = format!("{}\r\nFrom: {listed}", padding(100).trim_end());
    sends(
        "<innocent@elsewhere.test>",
        &format!("A <{innocent}>\r\n{behind}"),
        &[reader],
        550,
    );
}

#[test]
fn debians_split_configuration() {
    debians_configuration::<true>();
}

#[test]
fn debians_single_configuration() {
    debians_configuration::<false>();
}
