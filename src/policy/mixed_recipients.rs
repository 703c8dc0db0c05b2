//! The treatment of recipients of one message that are affected by different lists.

/// What happens to recipients that are affected by other lists than the recipients before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MixedRecipients {
    /// They are deferred, so that they get a transaction of their own.
    #[default]
    Defer,
    /// They are accepted, and a hit in a header at most tags the message.
    Tag,
}

impl MixedRecipients {
    /// All values, with their names in the configuration.
    pub const NAMES: [(&'static str, Self); 2] = [("defer", Self::Defer), ("tag", Self::Tag)];
}
