//! Text blocklists, read row by row.
//!
//! Lists come in the formats of a dozen programs. Each format has a file of its own
//! here that turns lines into [`Row`]s. `address` decides what the text of a row means
//! (mailbox, domain, subtree, local part). A line that *allows* a sender never gives an
//! entry, and no line is dropped silently: it gives entries, or it is [`Row::Skipped`]
//! and counted, or it is [`Row::Rejected`] with its number and a reason.
//!
//! ```text
//!   open -> bytes -> guess -> Format -> Reader::read -> Row, Row, Row ...
//! ```
//!
//! | format | listed | skipped |
//! |---|---|---|
//! | plain | `a@b` `a@` `@b` `b` `.b` `*.b` `*@b`, several between commas | `a@b OK`, `!a@b` |
//! | sections | the same under headings | entries under `[whitelist]`, `allow:` |
//! | hosts | names with a null or loopback address | hosts with a real one |
//! | csv | the column by its heading or number, dates too | rows whose action is not to refuse |
//! | postfix-access, sendmail-access | REJECT, DISCARD, 5xx; a domain with its subdomains | OK, DUNNO, 4xx, `To:`, `Connect:` |
//! | spamassassin | `blocklist_from` | `unblocklist_from`, `welcomelist_*` |
//! | rspamd, amavis | a positive score or none | a negative score |
//! | exim | keys of `lsearch` files | data `accept`, `!` keys |
//! | json, jsonl | strings in arrays, known keys of objects | `"action": "allow"`, `"allowed": [...]` |
//! | rpz | `CNAME .`, `*.`, `rpz-drop.` | `rpz-passthru.`, other records |
//! | rbldnsd, dnsmasq (also unbound), adblock | domains, with their subdomains if the format says so | `!`, `@@`, real addresses |
//! | patterns | nothing: regular expressions cannot be looked up | OK, DUNNO |
//! | html, mail, diff | nothing: an error page, a mail or the output of `diff`, in place of a list | |
//!
//! The work is linear in the input, and memory is bounded: a line (for CSV a record, for
//! JSON an object) of more than [`MAX_LINE`] bytes is rejected without being kept.

mod access;
mod action;
mod adblock;
mod answer;
mod archive;
mod bare_table;
mod charset;
mod column_name;
mod conflict;
mod csv;
mod day;
mod dnsmasq;
mod end;
mod entry;
mod exim;
mod fields;
mod file_heading;
mod flag;
mod format;
mod guess;
mod heading_words;
mod headings;
mod held;
mod hosts;
mod include;
mod input;
mod json;
mod label;
mod lines;
mod names;
mod out;
mod packed;
mod patterns;
mod phrase;
mod phrase_words;
mod plain;
mod prefix;
mod rbldnsd;
mod reader;
mod record;
mod reject_reason;
mod row;
mod rpz;
mod score;
mod section_heading;
mod sections;
mod spamassassin;
mod statement;
mod status;
mod table;
mod verdict;
pub(crate) mod vocabulary;
mod whole_text;
mod whose;
mod words;

pub use archive::{MAX_MEMBERS, Member, members, open_member};
pub use day::Day;
pub use format::{Format, UnknownFormat};
pub use guess::{guess, says_nothing};
pub use input::{check_text, open, unpack};
pub use lines::{Lines, MAX_LINE, lines};
pub use plain::expiry;
pub(crate) use plain::is_read_as_written;
pub use reader::Reader;
pub use reject_reason::RejectReason;
pub use row::{Mend, RawEntry, Row, Skip};
