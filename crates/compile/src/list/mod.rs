//! Text blocklists, read row by row.
//!
//! Syntax decides what a line means, and people say what syntax does not: which column of a table
//! names the sender, for example. The rest is refused. No line is dropped silently: it gives
//! entries, or it is [`Row::Skipped`] and counted, or [`Row::Rejected`] with its number and a
//! reason, or it refuses the list ([`Row::Refused`]).
//!
//! ```text
//!   unpack -> text -> reading -> Reading -> Reader::read -> Row, Row, Row ...
//! ```
//!
//! Each of these imports only from those above it:
//!
//! | module | about |
//! |---|---|
//! | `text/` | from a text to lines, words, cells and tokens |
//! | `row/` | what a line gives: an entry, or the reason why not |
//! | `formats/` | the formats that are read line by line |
//! | `registry` | each format's names, mark and reader |
//! | `detect` | which format a list has |
//! | `table/` | how CSV and JSON are read |
//! | `mapping/` | what the owner of a list declares, above all about tables |
//! | `reader` | rows of any list |
//!
//! The work is linear in the input, and memory is bounded: a line (for CSV a record, for
//! JSON an object) of more than [`MAX_LINE`] bytes is rejected without being kept.

mod detect;
mod formats;
mod mapping;
mod reader;
mod registry;
mod row;
mod table;
mod text;

pub use detect::detect;
pub(crate) use formats::hosts;
pub use formats::plain::{split_comment, written, written_address};
pub use mapping::{
    BuildSettings, Declared, Expires, FeedSettings, LIST_TOML, ListToml, MaxRejects, Reading, Why,
    reading,
};
pub(crate) use mapping::{all_rows, format, separator, separator_of};
pub use reader::Reader;
pub use registry::{Cut, Format, Purpose};
pub use row::entry::read as read_entry;
pub use row::{RawEntry, Refusal, RejectReason, Row, Skip};
pub use table::Table;
pub use table::dates::DateFormat;
pub(crate) use table::dates::Dates;
pub(crate) use table::text::decoded;
pub(crate) use text::cells::{Cells, record_length, without_line_end};
pub(crate) use text::json::{MAX_DOCUMENT_BYTES, Value, unescaped};
pub(crate) use text::{BOM, newlines, pieces, whole_lines};
pub use text::{MAX_LINE, lines};
