//! From a file to lines, words and fields: archives, compression, charsets of whole files.

pub(crate) mod archive;
pub(crate) mod fields;
pub(crate) mod input;
pub(crate) mod lines;
pub(crate) mod packed;
pub(crate) mod words;
