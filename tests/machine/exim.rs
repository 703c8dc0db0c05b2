//! The daemon with a real Exim 4, which asks it by policy delegation with the ACLs of
//! `contrib/exim`: the scenarios of all mail servers, with both of Debian's programs.

use crate::support::exim::{Exim, HeavyExim};
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
