//! The messages of the demo, with their expected verdicts.

use super::lists::Compiled;
use super::peer::TestMail;
use crate::policy::Action;

/// A message of the demo, with its expected verdict.
pub(super) struct Scene {
    pub(super) title: &'static str,
    pub(super) mail: TestMail,
    pub(super) verdict: &'static str,
    pub(super) identity: &'static str,
}

/// Returns the messages, each with its expected verdict.
pub(super) fn scenes(lists: &[Compiled]) -> Vec<Scene> {
    let to_bob = |title, mail_from: &str, headers: &[&str], verdict, identity| Scene {
        title,
        mail: TestMail::new(mail_from, &["<bob@our.example>"], headers),
        verdict,
        identity,
    };
    let alice = "From: Alice <alice@friend.example>";
    let mut scenes = vec![
        to_bob(
            "unlisted sender",
            "<alice@friend.example>",
            &[alice],
            "accept",
            "",
        ),
        to_bob(
            "listed envelope sender",
            "<lottery@winner.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "listed in From, clean envelope",
            "<b-77@mailer.example>",
            &["From: Prizes <prizes@winner.example>"],
            "reject",
            "from",
        ),
        to_bob(
            "the same, oddly written",
            "<b-77@mailer.example>",
            &["From: \"P.\" <PRIZES(hi)@Winner.Example.>"],
            "reject",
            "from",
        ),
        to_bob(
            "listed in Reply-To",
            "<b-77@mailer.example>",
            &[alice, "Reply-To: lottery@winner.example"],
            "reject",
            "reply-to",
        ),
        to_bob(
            "two From fields, the second listed",
            "<b-77@mailer.example>",
            &[alice, "From: lottery@winner.example"],
            "reject",
            "from",
        ),
        to_bob(
            "listed domain",
            "<anyone@spam-house.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "subdomain of a listed subtree",
            "<x@node7.rented-hosts.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "Gmail address with dots and a tag",
            "<b-77@mailer.example>",
            &["From: Example.Sender.That.Gmail.Cannot.Register+win@googlemail.com"],
            "reject",
            "from",
        ),
        to_bob(
            "internationalized domain, as A-label",
            "<reklame@xn--bcher-kva.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "listed mailbox at any domain",
            "<crypto-doubling-team@new.example>",
            &[alice],
            "reject",
            "mail-from",
        ),
        to_bob(
            "listed address only in the name",
            "<alice@friend.example>",
            &["From: \"lottery@winner.example\" <alice@friend.example>"],
            "accept",
            "",
        ),
        to_bob(
            "whitelisted at a listed domain",
            "<accounting@spam-house.example>",
            &[alice],
            "accept",
            "mail-from",
        ),
        to_bob(
            "bounce: null sender",
            "<>",
            &["From: MAILER-DAEMON@mx.friend.example"],
            "accept",
            "",
        ),
    ];
    let mut to_postmaster = to_bob(
        "listed, but writes to postmaster",
        "<lottery@winner.example>",
        &[alice],
        "accept",
        "mail-from",
    );
    to_postmaster.mail.recipients = vec![b"<postmaster@our.example>".to_vec()];
    scenes.push(to_postmaster);
    let mut with_login = to_bob(
        "listed, but has logged in here",
        "<lottery@winner.example>",
        &[alice],
        "accept",
        "",
    );
    with_login.mail.macros = vec![("{auth_authen}".to_owned(), "bob".to_owned())];
    scenes.push(with_login);
    let tagging = lists
        .iter()
        .find(|list| list.action == Action::Tag)
        .and_then(|list| list.domain.as_deref());
    if let Some(domain) = tagging {
        let sender = format!("<someone@{domain}>");
        scenes.push(to_bob(
            "throw-away address: tagged",
            &sender,
            &[alice],
            "tag",
            "mail-from",
        ));
    }
    scenes
}
