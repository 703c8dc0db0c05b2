//! The milter protocol: the commands of the mail server, and the possible answers.
//!
//! Bytes in, bytes out: nothing here opens a socket, reads a clock, blocks, or knows about
//! blocklists. [`Session`] takes the bytes of one connection as received, calls a [`Handler`], and
//! appends the answers to a buffer.
//!
//! ```text
//!  packet     u32 length N (big-endian), one byte of code, N - 1 bytes of payload
//!
//!  the mail server sends                                  we answer
//!  O  negotiation: version, actions, steps                O, once
//!  D  macros of the command whose code follows            never
//!  C  client: host, family, port, address                 c        (*)
//!  H  HELO, declined                                      c, if it comes after all
//!  M  MAIL: argument, ESMTP parameters                    c        (*)
//!  R  RCPT: argument, ESMTP parameters                    a verdict
//!  T  DATA, declined                                      c, if it comes after all
//!  L  one header: name, value                             c        (*)
//!  N  end of headers                                      a verdict
//!  B  body, declined                                      c or s, if it comes after all
//!  E  end of message                                      edits, then a verdict
//!  U  SMTP command the server does not know, declined     c, if it comes after all
//!  A  abort: drop the message                             never
//!  K  another client follows on this connection           never
//!  Q  quit                                                never; we close
//!
//!  (*) unless we agreed with the server that no answer comes
//! ```
//!
//! Order: `O C H (M R+ T L* N B* E)* Q`. Each of `C H M` starts its phase again, with or without
//! `A` before it; `A` may come at any time. `N` may be missing: the end of the message also ends
//! the headers. A verdict other than "continue" ends a message early; the next one begins with `M`.
//!
//! While a verdict takes time (a record is read from a slow disk), the connection takes no input. So
//! the answer still comes before the effect of anything that the server has sent already, including
//! `A` and `Q`.
//!
//! Round trips cost more than everything else here, so only three steps are answered: RCPT, end of
//! headers and end of message. The negotiation declines steps that are not needed, and answers to
//! those that we only observe, if the server can do that. Over TCP, the reader of the socket must
//! then acknowledge these unanswered packets immediately, or each message stalls for 40 ms
//! (`daemon::connection`).
//!
//! There is no RFC. The references are libmilter's `mfdef.h` (`protocol.rs` has its codes) and the
//! two implementations in mail servers, Sendmail's `milter.c` and Postfix's `milter8.c`.
#![warn(clippy::indexing_slicing)]

mod command;
mod edit;
mod error;
mod handler;
mod history;
mod macros;
mod negotiate;
mod packet;
mod protocol;
mod reply;
mod session;
mod state;

pub use command::{Client, Family};
pub use edit::Edit;
pub use error::{ProtocolError, Unsendable};
pub use handler::{Handler, Mailbox};
pub use macros::{MacroLists, Macros};
pub use packet::HEADER_BYTES_MAX;
pub use protocol::{Command, MacroStage};
pub use reply::{Reply, ReplyText, is_enhanced};
pub use session::{Progress, Session};
pub use state::Status;
