//! Files of settings in TOML, checked completely before they are used: the configuration, and the
//! `list.toml` of a list.
//!
//! `read` reads the text and collects all errors with line and column, `values` reads values, `problem`
//! has the errors. What the settings are called and what they mean
//! is not known here.

mod problem;
mod read;
mod values;

pub use problem::{Error, Problem};
pub(crate) use problem::{Removed, text_of};
pub(crate) use read::{Checker, Section};
pub use values::Percent;
pub(crate) use values::{
    Invalid, Value, boolean, choice, nearest, number, parsed, percent, percent_of_a_whole, text,
    wrong_type,
};
