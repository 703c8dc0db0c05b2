//! Tables: CSV and JSON, read by a [`Table`], which says what its columns or keys mean.
//!
//! | module | about |
//! |---|---|
//! | `text`, `dates` | how values are compared, how dates are read |
//! | `rules` | which rows count |
//! | `path` | key paths of JSON |
//! | `rows` | a [`Table`], and what a row of it lists |
//! | `csv`, `json` | the readers |

pub(crate) mod csv;
pub(crate) mod dates;
pub(crate) mod json;
pub(crate) mod path;
mod rows;
pub(crate) mod rules;
pub(crate) mod text;

pub use rows::Table;
pub(crate) use rows::{Columns, Source};
