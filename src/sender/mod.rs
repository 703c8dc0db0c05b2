//! The senders of a message: every address, in every sender field.
//!
//! ```text
//!   MAIL argument --> envelope ------------------------+
//!                                                      v
//!   header value --> plain? --yes----------------->  Store --> Sender, Sender, ...
//!                      |no                             ^
//!                      +--> scan (ours, lenient) ------+
//!                      +--> header (mail-parser) ------+   only what it took as it stands
//! ```
//!
//! Two promises meet here. A listed sender is never missed, so every occurrence of a
//! header counts, and whatever a mail program could take for the mailbox counts. An
//! innocent sender is never hit, so names, comments and quoted strings do not count
//! where a mailbox stands beside them (RFC 5322 section 3.4: they are for people to
//! read). Where a text can be read in two ways, both readings are kept: an address
//! that nobody lists does no harm.
//!
//! The rules of one header value:
//!
//! | written                                 | counts                                      |
//! |-----------------------------------------|---------------------------------------------|
//! | `Name <a@b>`, `c@d <a@b>`, `(c@d) <a@b>` | `a@b`: an angle address beats all beside it |
//! | `a@b c@d`, `a@b, c@d`, `a@b，c@d`        | both: each word that looks like an address; controls, no-break and wide blanks, commas of other scripts part them, too |
//! | `[x]@b`, `=?utf-8?Q?x?=@b`, `john\ smith@b` | what the tokens say, and the bytes as they stand |
//! | `a<>@b`, `a<x>@b`                       | `a@b`: brackets without an address are nothing |
//! | `"c@d`, `(c@d`, unclosed                 | nothing up to the next comma but a `<...>`  |
//! | `a@b (c <d@e>`                          | both: before what is unclosed, and in it    |
//! | `<a@b`, unclosed                        | `a@b`: up to the next comma or `<`          |
//! | `c@d: a@b;`                             | `a@b`: the name of a group is a name        |
//! | `c@d: a@b`, `c@d:25, a@b`, no semicolon | both: no group, and a phrase has no bare `@` |
//! | `c@d:<a@b>`, no semicolon               | `a@b`, and `c@d`, *doubtful*                |
//! | `c@d<a@b`, unclosed, no blank           | `a@b`, and `c@d`, *doubtful*                |
//! | `c<a@b>@d`                              | `a@b`, and `c@d`, *doubtful*                |
//! | `<=?utf-8?Q?a=40b?=>`                   | `a@b`: an encoded word as the address       |
//! | `=?utf-8?Q?c=40d=2C?= <a@b>`            | `a@b`: an encoded name is a name, whatever it decodes to |
//! | `"a@b"`, `(a@b)`, `<x (a@b)>`, `=?utf-8?Q?a=40b?=` | `a@b`, *weak*: only as nothing else is there |
//! | `a＠b`, `a﹫b`                           | `a@b`, *weak*: what a reader sees           |
//!
//! What decides is what people are shown. An address that any of the common programs (Gmail,
//! Outlook, Thunderbird, Apple Mail) shows as the sender's counts, unless it stands where
//! RFC 5322 has a name and is shown as one. Where only some show it, and others the address beside
//! it, it is doubtful, and tags at most: Thunderbird's parser joins `c<a@b>@d` to c@d, and CERT
//! VU#517845 describes servers and programs that take different ends of `c@d:<a@b>`. Programs that
//! decode words before they split the field show `c@d` of an encoded name, too; none of the four
//! does, and mailing lists write such names for honest people.
//!
//! All work is linear in the bytes given. What is read and what is kept has bounds
//! ([`MAX_SCANNED_BYTES`]; [`MAX_ADDRESSES`], [`MAX_TEXT_BYTES`], [`MAX_ADDRESS_BYTES`]). The bytes
//! of a [`Sender`] are as written, without comments and folding; their one form is made by
//! [`crate::address`].

mod charset;
mod encoded;
mod envelope;
mod header;
mod identity;
mod path;
mod plain;
mod scan;
mod store;
mod token;
mod word;

pub use identity::{Identity, Sender, Strength, UnknownIdentity};
use scan::Scanner;
pub use store::{MAX_ADDRESS_BYTES, MAX_ADDRESSES, MAX_TEXT_BYTES};
use store::{Out, Store};

/// A header value of this length may have been cut. Postfix cuts a header for its milters at
/// 60,000 bytes, name included, or at a line end beyond nine tenths of that (`cleanup_message.c`,
/// `cleanup_out.c`); Sendmail refuses all headers beyond 32,768.
pub const MAYBE_CUT_BYTES: usize = 53_900;

/// Most bytes of one identity that are scanned in one message: the longest value that a mail server
/// passes on whole ([`MAYBE_CUT_BYTES`]), and some ordinary ones beside it. Of 8,685 real values none had
/// more than a thousand bytes, and the ordinary forms need no scan. A value beyond the bound is not
/// read at all, since in a part of it a name could look like an address: the message counts as truncated.
pub const MAX_SCANNED_BYTES: usize = 64 * 1024;

/// All senders of one message, each once per identity.
///
/// Made to be reused: [`Senders::clear`] keeps the memory that ordinary messages need.
///
/// ```
/// use blocklist_milter::sender::{Identity, Senders};
///
/// let mut senders = Senders::new();
/// senders.add_mail_from(b"<bounce@list.example> SIZE=1000");
/// senders.add_header(Identity::From, b"victim@bank.example <spam@bad.example>");
/// let found: Vec<&[u8]> = senders.iter().map(|sender| sender.address).collect();
/// assert_eq!(found, [&b"bounce@list.example"[..], b"spam@bad.example"]);
/// ```
#[derive(Debug, Default)]
pub struct Senders {
    store: Store,
    scanner: Scanner,
    parser: header::Parser,
    unfolded: Vec<u8>,
    scanned_bytes: [usize; Identity::ALL.len()],
}

impl Senders {
    /// No senders yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all senders and keeps a little memory: call it before each message.
    pub fn clear(&mut self) {
        self.store.clear();
        self.scanner.paths.refill();
        self.parser.refill();
        self.scanned_bytes = Default::default();
    }

    /// Adds the sender of the envelope: the argument of MAIL FROM as the client typed
    /// it, with or without angle brackets, with or without ESMTP parameters after it.
    /// The null sender `<>` adds nothing.
    pub fn add_mail_from(&mut self, argument: &[u8]) {
        if !self.may_scan(Identity::MailFrom, argument) {
            return;
        }
        let mut out = Out::new(&mut self.store, Identity::MailFrom);
        envelope::scan(&mut self.scanner.paths, argument, &mut out);
        self.give_back(argument);
    }

    /// Adds the sender of the envelope as the mail server understood it (`{mail_addr}`): a second reading
    /// beside that of the argument, which it does not replace.
    pub fn add_mail_addr(&mut self, address: &[u8]) {
        if !self.may_scan(Identity::MailFrom, address) {
            return;
        }
        let mut out = Out::new(&mut self.store, Identity::MailFrom);
        envelope::understood(&mut self.scanner.paths, address, &mut out);
        self.give_back(address);
    }

    /// Adds the senders in one header value; call it for every occurrence of the
    /// header. Folds may be CRLF or LF and white space; any bytes of any length do.
    pub fn add_header(&mut self, identity: Identity, written: &[u8]) {
        let value = written;
        if value.len() >= MAYBE_CUT_BYTES {
            self.store.truncate();
        }
        if let Some(address) = plain::mailbox(value) {
            Out::new(&mut self.store, identity).push(address);
            return;
        }
        if !self.may_scan(identity, value) {
            return;
        }
        let value = match memchr::memchr(b'\n', value) {
            None => value,
            Some(_) => {
                unfold(value, &mut self.unfolded);
                &self.unfolded
            }
        };
        let mut out = Out::new(&mut self.store, identity);
        let strong = self.scanner.value(value, &mut out);
        self.parser
            .union(&mut self.scanner.paths, value, strong, &mut out);
        self.give_back(written);
    }

    /// Gives back what reading a long value took: ten buffers as long as the value, which ordinary ones do not need.
    fn give_back(&mut self, value: &[u8]) {
        const KEPT_BYTES: usize = 1024;
        if value.len() > KEPT_BYTES {
            self.scanner.give_back();
            self.parser.give_back();
            self.unfolded = Vec::new();
        }
    }

    /// Takes a value out of what may be scanned of its identity; false if it is beyond.
    fn may_scan(&mut self, identity: Identity, value: &[u8]) -> bool {
        let scanned = &mut self.scanned_bytes[identity as usize];
        let fits = value.len() <= MAX_SCANNED_BYTES - *scanned;
        if fits {
            *scanned += value.len();
        } else {
            self.store.truncate();
        }
        fits
    }

    /// The senders in the order found.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Sender<'_>> {
        self.store.iter()
    }

    /// The sender of this number, in the order found.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Sender<'_>> {
        self.store.get(number)
    }

    /// How many senders there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether the message names no sender at all (so far).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a bound was reached, here or in the mail server, so that addresses may be missing. Unless those that
    /// were seen refuse it, nobody knows what to do with the message; the log should say so.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.store.truncated()
    }
}

/// `value` without the line ends before a blank (RFC 5322 section 2.2.3). They go before anything else is
/// read: a backslash before a fold escapes the blank.
fn unfold(value: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for line in value.split_inclusive(|&byte| byte == b'\n') {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            let end = out.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
            out.truncate(end.map_or(0, |end| end + 1));
        }
        out.extend_from_slice(line);
    }
}
