//! From a file to lines, words, cells and tokens: archives, compression, charsets.

pub(crate) mod archive;
pub(crate) mod cells;
pub(crate) mod charset;
pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod packed;
pub(crate) mod words;
