//! Closed sets whose members have a name: in settings, in the log, in JSON.

/// Defines an enum whose variants have names; with `ALL`, `NAMES`, `name` and `from_name`.
///
/// ```text
/// named! {
///     /// What happens.
///     #[derive(Clone, Copy, PartialEq)]
///     pub enum Thing {
///         /// The first.
///         One = "one",
///     }
/// }
/// ```
///
/// A variant may have a code: `One(b'1') = "one"`.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($(#[$of_all:meta])* pub enum $set:ident { $($(#[$of_one:meta])* $one:ident $(($code:literal))? = $name:literal,)+ }) => {
        $(#[$of_all])*
        pub enum $set {
            $($(#[$of_one])* $one $(= $code)?,)+
        }

        impl $set {
            /// All of them, in their order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$one),+];

            /// All of them, each with its name.
            pub const NAMES: [(&'static str, Self); Self::ALL.len()] = [$(($name, Self::$one)),+];

            /// Returns the one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$one),)+
                    _ => None,
                }
            }

            /// Returns its name in settings, the log and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$one => $name,)+
                }
            }
        }
    };
}

pub use named;
