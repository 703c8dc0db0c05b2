//! Text blocklists, read row by row.
//!
//! Lists come in the formats of a dozen programs. Each format has a file of its own
//! in `formats/` that turns lines into [`Row`]s. `address` decides what the text of a row means
//! (mailbox, domain, subtree, local part). A line that *allows* a sender never gives an
//! entry, and no line is dropped silently: it gives entries, or it is [`Row::Skipped`]
//! and counted, or it is [`Row::Rejected`] with its number and a reason.
//!
//! ```text
//!   open -> bytes -> guess -> Format -> Reader::read -> Row, Row, Row ...
//! ```
//!
//! Each of these imports only from those above it:
//!
//! | module | about |
//! |---|---|
//! | `text/` | from a file to lines, words and fields |
//! | `row/` | what a line gives: an entry, or the reason why not |
//! | `meaning/` | what the words around an entry say about it, in the languages of lists |
//! | `formats/` | the formats |
//! | `guess`, `whole_text`, `format` | which format a list has |
//! | `reader`, `names` | what other modules use: rows of any list; the entries of a whitelist |
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

mod format;
mod formats;
mod guess;
pub(crate) mod meaning;
mod names;
mod reader;
mod row;
mod text;
mod whole_text;

pub use format::{Format, UnknownFormat};
pub use formats::plain::expiry;
pub(crate) use formats::plain::is_read_as_written;
pub use guess::{guess, says_nothing};
pub use reader::Reader;
pub use row::day::Day;
pub use row::reject_reason::RejectReason;
pub use row::{Mend, RawEntry, Row, Skip};
pub use text::archive::{MAX_MEMBERS, Member, members, open_member};
pub use text::input::{check_text, open, unpack};
pub use text::lines::{Lines, MAX_LINE, lines};
