//! The daemon with a real Exim 4, which asks it by policy delegation with the ACLs of
//! `contrib/exim`: the scenarios of all mail servers, with both of Debian's programs.

use crate::support::exim::{Exim, HeavyExim};
use crate::support::scene::Scene;
use crate::support::site::Transport;
use crate::support::smtp::Mail;

macro_rules! exim {
    ($server:ty) => {
        crate::scenarios! { $server:
            listed_envelope_sender_is_refused,
            listed_header_sender_is_refused,
            innocent_mail_arrives_unchanged,
            whitelisted_sender_is_accepted,
            null_sender_is_nobody,
            messages_of_one_session_are_apart,
            refusal_is_per_recipient,
            refusal_says_whom_to_ask,
            recipients_of_other_lists_come_apart,
            header_hit_with_exempt_recipient_is_tagged,
            tag_is_added_once,
            quarantined_mail_is_held,
            discarded_mail_vanishes,
            tempfail_asks_to_come_again,
            recompiled_list_is_in_force,
            pipelined_session,
            daemon_down_and_back,
        }
    };
}

mod light {
    use super::Exim;
    exim!(Exim);
}

mod heavy {
    use super::HeavyExim;
    exim!(HeavyExim);
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
        assert_eq!(
            log.matches(&format!("address=\"{sender}\"")).count(),
            1,
            "{log}"
        );
    }
}
