//! From a text to lines, words, cells and tokens.

pub(crate) mod cells;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod words;

pub(crate) use lines::{BOM, MAX_LINE, lines, newlines};
pub(crate) use words::{Nesting, Pieces, Words, begins_with_one_of, blank_words, is_one_of};
