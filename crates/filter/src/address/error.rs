//! Why an address or an entry cannot be read.

/// Why bytes contain no address, or no entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Empty, or the null sender `<>`.
    #[error("no address: it is empty, like the null sender <>")]
    Empty,
    /// A bare word, or nothing after the `@`.
    #[error("no domain: an address has a domain after the @")]
    NoDomain,
    /// Nothing before the `@`.
    #[error("no local part: nothing before the @")]
    NoLocalPart,
    /// Longer than the limit.
    #[error("too long: more than {most} bytes")]
    TooLong {
        /// Its length in bytes.
        got: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// An entry that matches every sender, such as `*@*` or `@`.
    #[error("this would match every address")]
    Everything,
    /// Words that are not a domain.
    #[error(
        "neither an address nor a domain; write @name for a domain without a dot, name@ for a local part"
    )]
    NotADomain,
    /// A `*` in a place where an entry cannot have one.
    #[error(
        "a * is allowed only in place of a whole local part, a whole domain or the labels before a domain"
    )]
    Wildcard,
}
