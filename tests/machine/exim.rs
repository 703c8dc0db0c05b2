//! The daemon with a real Exim 4, which asks it by policy delegation with the ACLs of
//! `contrib/exim`: the scenarios of all mail servers.

use crate::support::exim::Exim;

crate::scenarios! { Exim:
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
