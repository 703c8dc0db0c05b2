//! The daemon under a real Sendmail 8: the scenarios of Postfix, played again.

mod support;

use support::sendmail::Sendmail;

scenarios! { Sendmail:
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
