//! The milter protocol: what the mail server says, and what may be answered.
//!
//! Bytes in, bytes out. Nothing here opens a socket, looks at a clock, waits, or knows
//! what a blocklist is. [`Session`] takes the bytes of one connection as they come and
//! calls a [`Handler`]; what is to be sent back is appended to a buffer.
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
//!  A  abort: forget the message                           never
//!  K  another client follows on this connection           never
//!  Q  quit                                                never; we close
//!
//!  (*) unless we agreed with the server that no answer comes
//! ```
//!
//! Order: `O C H (M R+ T L* N B* E)* Q`. Any of `C H M` starts its phase again, with
//! or without `A` before it; `A` may come at any time. `N` may be missing: the end of
//! the message ends the headers too. A verdict other than "continue" ends a message
//! early; the next one begins with `M`.
//!
//! A verdict may take a while (a record is read from a slow disk). The connection then
//! waits for it: no input is taken until the answer is written, so that what the server
//! sent ahead, an `A` or `Q` too, comes after it as always.
//!
//! Round trips cost more than all else here, so only three steps are answered: RCPT,
//! end of headers and end of message. What nobody needs is declined at negotiation, and
//! what is only to be seen (client, MAIL, headers) goes unanswered, if the server can do
//! that. Over TCP the reader of the socket must then acknowledge at once what it does not
//! answer, or each message stalls 40 ms (`daemon::connection`).
//!
//! There is no RFC; the reference is libmilter's `mfdef.h` (`protocol.rs` has its codes) and the two clients,
//! Sendmail's `milter.c` and Postfix's `milter8.c`.
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
pub use edit::{Edit, EditError};
pub use error::ProtocolError;
pub use handler::Handler;
pub use macros::Macros;
pub use negotiate::Wanted;
pub use packet::HEADER_BYTES_MAX;
pub use protocol::{Command, MacroStage};
pub use reply::{REPLY_LINE_BYTES_MAX, REPLY_LINES_MAX, Reply, ReplyText, ReplyTextError};
pub use session::{Progress, Session};
pub use state::Status;
