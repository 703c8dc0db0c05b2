//! The transactions of `setup-check`, which show that the mail server asks this daemon.
//!
//! ```text
//! MAIL FROM:<setup-check-5f3a09c2d41e7b68@[127.0.0.1]>    an address that is used once, and nobody's
//! RCPT TO:<postmaster>
//! 450 4.7.0 blocklist-milter would accept setup-check-5f3a09c2d41e7b68
//! ```
//!
//! The sender is looked up for all lists and without exemptions, like that of a stranger. Every
//! recipient is refused, so nothing can be delivered, and nobody gains by such a sender. Nothing is
//! counted or logged. The domain is one that mail servers accept from their own machine without
//! asking DNS.

use std::io;

use crate::milter::{Mailbox, Reply, ReplyText};
use crate::policy::Verdict;

const NAME: &str = "setup-check-";
const DOMAIN: &str = "@[127.0.0.1]";
const DIGITS: usize = 16;
const WOULD_ACCEPT: &str = "blocklist-milter would accept";
const WOULD_REFUSE: &str = "blocklist-milter would refuse";

/// The local part of the sender of one such transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial(String);

impl Trial {
    /// Returns a sender that was not used before.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> io::Result<Self> {
        Ok(Self::numbered(getrandom::u64().map_err(io::Error::other)?))
    }

    fn numbered(number: u64) -> Self {
        Self(format!("{NAME}{number:016x}"))
    }

    /// Returns the sender, if it is one of these.
    pub(super) fn of(sender: Mailbox<&[u8]>) -> Option<Self> {
        let address = match sender {
            Mailbox::Written(argument) => argument.strip_prefix(b"<")?.strip_suffix(b">")?,
            Mailbox::Understood(address) | Mailbox::Either(address) => address,
        };
        let local_part = address.strip_suffix(DOMAIN.as_bytes())?;
        let digits = local_part.strip_prefix(NAME.as_bytes())?;
        if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        String::from_utf8(local_part.to_vec()).ok().map(Self)
    }

    /// Returns the argument of MAIL.
    pub fn mail_from(&self) -> String {
        format!("<{}{DOMAIN}>", self.0)
    }

    /// Returns the answer for each recipient.
    pub(super) fn reply(&self, verdict: Verdict) -> Reply {
        let text = match verdict.refuses() {
            false => format!("{WOULD_ACCEPT} {}", self.0),
            true => format!("{WOULD_REFUSE} {} ({})", self.0, verdict.reason.name()),
        };
        ReplyText::new(450, "4.7.0", &[&text]).map_or(Reply::Tempfail, Reply::Text)
    }

    /// Returns whether the daemon would accept this sender, if a mail server's answer is from it.
    pub fn outcome(&self, answer: &str) -> Option<bool> {
        let says = |text: &str| answer.contains(&format!("{text} {}", self.0));
        says(WOULD_ACCEPT)
            .then_some(true)
            .or_else(|| says(WOULD_REFUSE).then_some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_senders_are_trials() {
        let written = |text: &str| Trial::of(Mailbox::Written(text.as_bytes()));
        let trial = Trial::numbered(0xff);
        assert_eq!(
            trial.mail_from(),
            "<setup-check-00000000000000ff@[127.0.0.1]>"
        );
        assert_eq!(written(&trial.mail_from()), Some(trial.clone()));
        let address = trial.mail_from();
        let address = address.trim_matches(['<', '>']);
        let understood = Mailbox::Understood(address.as_bytes());
        assert_eq!(Trial::of(understood), Some(trial.clone()));
        for other in [
            "<>",
            "<setup-check-@[127.0.0.1]>",
            "<setup-check-00000000000000fg@[127.0.0.1]>",
            "<setup-check-00000000000000ff0@[127.0.0.1]>",
            "<setup-check-00000000000000ff@[127.0.0.1].example>",
            "<@relay:setup-check-00000000000000ff@[127.0.0.1]>",
            "setup-check-00000000000000ff@[127.0.0.1]",
        ] {
            assert_eq!(written(other), None, "{other}");
        }
        let Reply::Text(reply) = trial.reply(Verdict::UNLISTED) else {
            panic!("a reply with a text");
        };
        assert_eq!(trial.outcome(&format!("{reply:?}")), Some(true));
        assert_eq!(Trial::numbered(1).outcome(&format!("{reply:?}")), None);
    }
}
