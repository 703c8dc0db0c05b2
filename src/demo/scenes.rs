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

/// Title, MAIL FROM, header fields, verdict, and the field in which a sender is listed.
#[rustfmt::skip]
const SCENES: [(&str, &str, &[&str], &str, &str); 16] = [
    ("unlisted sender", "<alice@friend.example>", &[ALICE], "accept", ""),
    ("listed envelope sender", "<lottery@winner.example>", &[ALICE], "reject", "mail-from"),
    ("listed in From, clean envelope", MAILER, &["From: Prizes <prizes@winner.example>"], "reject", "from"),
    ("the same, oddly written", MAILER, &["From: \"P.\" <PRIZES(hi)@Winner.Example.>"], "reject", "from"),
    ("listed in Reply-To", MAILER, &[ALICE, "Reply-To: lottery@winner.example"], "reject", "reply-to"),
    ("two From fields, the second listed", MAILER, &[ALICE, "From: lottery@winner.example"], "reject", "from"),
    ("listed domain", "<anyone@spam-house.example>", &[ALICE], "reject", "mail-from"),
    ("subdomain of a listed subtree", "<x@node7.rented-hosts.example>", &[ALICE], "reject", "mail-from"),
    ("Gmail address with dots and a tag", MAILER, &[GMAIL], "reject", "from"),
    ("internationalized domain, as A-label", "<reklame@xn--bcher-kva.example>", &[ALICE], "reject", "mail-from"),
    ("listed mailbox at any domain", "<crypto-doubling-team@new.example>", &[ALICE], "reject", "mail-from"),
    ("listed address only in the name", "<alice@friend.example>", &[NAME], "accept", ""),
    ("whitelisted at a listed domain", "<accounting@spam-house.example>", &[ALICE], "accept", "mail-from"),
    ("bounce: null sender", "<>", &["From: MAILER-DAEMON@mx.friend.example"], "accept", ""),
    (TO_POSTMASTER, "<lottery@winner.example>", &[ALICE], "accept", "mail-from"),
    (WITH_LOGIN, "<lottery@winner.example>", &[ALICE], "accept", ""),
];

const ALICE: &str = "From: Alice <alice@friend.example>";
const MAILER: &str = "<b-77@mailer.example>";
const GMAIL: &str = "From: Example.Sender.That.Gmail.Cannot.Register+win@googlemail.com";
const NAME: &str = "From: \"lottery@winner.example\" <alice@friend.example>";
const TO_POSTMASTER: &str = "listed, but writes to postmaster";
const WITH_LOGIN: &str = "listed, but has logged in here";

/// Returns the messages, each with its expected verdict.
pub(super) fn scenes(lists: &[Compiled]) -> Vec<Scene> {
    let tagging = lists.iter().find(|list| list.action == Action::Tag);
    let tagging = tagging.and_then(|list| list.domain.as_deref());
    let sender = tagging.map(|domain| format!("<someone@{domain}>"));
    let tagged = sender.iter().map(|sender| {
        let title = "throw-away address: tagged";
        (title, sender.as_str(), &[ALICE][..], "tag", "mail-from")
    });
    let scene = |(title, mail_from, headers, verdict, identity)| {
        let to = match title {
            TO_POSTMASTER => "<postmaster@our.example>",
            _ => "<bob@our.example>",
        };
        let mut mail = TestMail::new(mail_from, &[to], headers);
        if title == WITH_LOGIN {
            mail.macros = vec![("{auth_authen}".to_owned(), "bob".to_owned())];
        }
        Scene {
            title,
            mail,
            verdict,
            identity,
        }
    };
    SCENES.into_iter().chain(tagged).map(scene).collect()
}
