//! Recipients of one message that different lists affect: what is done with them.

/// What is done with recipients that are not affected by the same lists as those before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MixedRecipients {
    /// They are asked to come in a transaction of their own.
    #[default]
    Defer,
    /// They are taken, and a header hit is at most tagged.
    Tag,
}

impl MixedRecipients {
    /// All, with the names the configuration uses.
    pub const NAMES: [(&'static str, Self); 2] = [("defer", Self::Defer), ("tag", Self::Tag)];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Defer => "defer",
            Self::Tag => "tag",
        }
    }
}
