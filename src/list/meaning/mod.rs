//! What the words around an entry say about it: `OK`, `allowed: yes`, `no longer listed`,
//! `[whitelist]`, in the languages of lists. Nothing here knows the syntax of a format.

pub(crate) mod action;
pub(crate) mod answer;
pub(crate) mod column_name;
pub(crate) mod end;
pub(crate) mod file_heading;
pub(crate) mod flag;
pub(crate) mod heading_words;
pub(crate) mod headings;
pub(crate) mod label;
pub(crate) mod mail_line;
pub(crate) mod phrase;
pub(crate) mod phrase_words;
pub(crate) mod section_heading;
pub(crate) mod statement;
pub(crate) mod status;
pub(crate) mod verdict;
pub(crate) mod vocabulary;
pub(crate) mod whose;
