//! The senders of a message: every address, in every sender field.
//!
//! ```text
//!   MAIL argument --> envelope ------------------------+
//!                                                      v
//!   header value --> plain? --yes----------------->  Store --> Sender, Sender, ...
//!                      |no                             ^
//!                      +--> scan (ours, lenient) ------+
//!                      |     ^ delivered, if it is long: as servers deliver it
//!                      +--> header (mail-parser) ------+   only addresses that are in the value
//! ```
//!
//! Two promises meet here. A listed sender is never missed, so every occurrence of a header counts,
//! and so does everything that a mail program could take for the mailbox. An innocent sender is
//! never rejected, so names, comments and quoted strings do not count if a mailbox is beside them
//! (RFC 5322 section 3.4: they are for people to read). If a text has two readings, both are kept:
//! an address that nobody lists does no harm.
//!
//! The rules for one header value:
//!
//! | written                                 | counts                                      |
//! |-----------------------------------------|---------------------------------------------|
//! | `Name <a@b>`, `c@d <a@b>`, `(c@d) <a@b>` | `a@b`: an angle address beats all beside it |
//! | `a@b c@d`, `a@b, c@d`, `a@b，c@d`        | both: each word that looks like an address; control characters, no-break and wide blanks, and commas of other scripts also separate words |
//! | `[x]@b`, `=?utf-8?Q?x?=@b`, `john\ smith@b` | the meaning of the tokens, and also the bytes as written |
//! | `a<>@b`, `a<x>@b`                       | `a@b`: brackets without an address are ignored |
//! | `"c@d`, `(c@d`, unclosed                 | nothing up to the next comma, except a `<...>` |
//! | `a@b (c <d@e>`                          | both: the address before the unclosed comment, and the one in it |
//! | `<a@b`, unclosed                        | `a@b`: up to the next comma or `<`          |
//! | `c@d: a@b;`                             | `a@b`: the name of a group is a name        |
//! | `c@d: a@b`, `c@d:25, a@b`, no semicolon | both: it is not a group, and a phrase has no bare `@` |
//! | `c@d:<a@b>`, no semicolon               | `a@b`, and `c@d`, *doubtful*                |
//! | `c@d<a@b`, unclosed, no blank           | `a@b`, and `c@d`, *doubtful*                |
//! | `c<a@b>@d`                              | `a@b`, and `c@d`, *doubtful*                |
//! | `<=?utf-8?Q?a=40b?=>`                   | `a@b`: an encoded word as the address       |
//! | `=?utf-8?Q?c=40d=2C?= <a@b>`            | `a@b`: an encoded name is a name, whatever it decodes to |
//! | `=?utf-8?Q?a=40b?=`, also before a comma | `a@b`: encoded words that are one mailbox count like it |
//! | `x@ a@b`, `Name =a@b`                   | `a@b` too, whatever stands before it        |
//! | `a@b.""c`                               | `a@b.c`, and `a@b.`                         |
//! | `"a@b"`, `(a@b)`, `<x (a@b)>`, `=?utf-8?Q?x_a=40b?=` | `a@b`, *weak*: only because there is no other address |
//! | `a＠b`, `a﹫b`                           | `a@b`, *weak*: what a reader sees           |
//! | `c@d <root>`                            | `c@d`, *weak*: `root` is a mailbox, but people see an address |
//! | `"c@d" <root>`, `x c@d <root>`, `root (c@d)` | nothing: a mailbox without a domain has a name, too |
//! | `=?utf-8?Q?x_=3Ca?=@b`                  | the tokens, and `a@b`: decoded text with what touches it, if no angle address is written |
//! | `<a%b.c>`, `b.c!a`                      | `a@b.c`, as Sendmail delivers it (`delivered`) |
//! | `<c@d> b.c!a`, `<c@d> a%b.c`            | `c@d`, and `a@b.c`, *doubtful*: Postfix makes two of them behind a content filter |
//! | `x"a"@b`                                | `x"a"@b`, and `"a"@b`, *weak*: few take `x` for a name |
//! | `x \" <c@d>, y" <a@b>`, `x \( <c@d>, y) <a@b>` | both: as in Sendmail, the backslash may escape |
//! | `c@d [mailto:e@f] <a@b>`                | `a@b`: a colon between square brackets begins no group |
//! | `&amp;@b`, `;@b`                        | `""@b`: the domain is there                  |
//! | bytes that are not UTF-8                | the bytes, and as Windows-1252               |
//!
//! The rules follow what people see. An address counts if one of the common programs (Gmail,
//! Outlook, Thunderbird, Apple Mail) shows it as the sender's, unless RFC 5322 defines its place as
//! a name and programs show it as a name. If only some show it, and others show the address beside
//! it, it is doubtful and at most tags the message: Thunderbird's parser joins `c<a@b>@d` to c@d,
//! and CERT VU#517845 describes servers and programs that take different ends of `c@d:<a@b>`.
//! Programs that decode words before they split the field would also show `c@d` of an encoded name;
//! none of the four does, and mailing lists write such names for innocent senders.
//!
//! All work is linear in the bytes given. The bytes read and the addresses kept are limited. The
//! bytes of a [`Sender`] are as written, without comments and folding.

mod delivered;
mod encoded;
mod envelope;
mod flat;
mod header;
mod identity;
mod path;
mod plain;
mod scan;
mod store;
mod token;
mod word;

use blocklist_filter::rfc5322::quoted;
use delivered::LaidOut;
pub use identity::{Identity, Sender, Strength};
use path::Paths;
use scan::Scanner;
use store::{Known, Out, Store};
pub use store::{MAX_ADDRESS_BYTES, MAX_ADDRESSES, MAX_TEXT_BYTES};

/// A header value of this length or more may have been cut. Postfix cuts a header for its milters
/// at 60,000 bytes, name included, or at a line end beyond nine tenths of that
/// (`cleanup_message.c`, `cleanup_out.c`). Sendmail rejects headers of more than 32,768 bytes in
/// total.
pub const MAYBE_CUT_BYTES: usize = 53_900;

/// Most bytes of one identity that are scanned in one message: the longest value that a mail server
/// passes on uncut, and some more; none of 8,685 real values was longer than a thousand bytes. A
/// value beyond the limit is not read at all, because in a part of it a name could look like an
/// address; the message counts as truncated.
pub const MAX_SCANNED_BYTES: usize = 64 * 1024;

/// All senders of one message, the first few dozen once per identity. Reuse it for the next.
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
    parsed_bytes: usize,
    unfolded: Vec<u8>,
    scanned_bytes: [usize; Identity::ALL.len()],
}

/// With the weak addresses, or without.
type Scan = fn(&mut Scanner, &[u8], &mut Out<'_>) -> bool;

impl Senders {
    /// Returns an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all senders; keeps the memory that ordinary messages need.
    pub fn clear(&mut self) {
        self.store.clear();
        self.scanner.paths.reset();
        self.parsed_bytes = 0;
        self.scanned_bytes = Default::default();
    }

    /// Adds the envelope sender: the argument of MAIL FROM as the client sent it, with or without
    /// angle brackets and ESMTP parameters. The null sender `<>` adds nothing.
    pub fn add_mail_from(&mut self, argument: &[u8]) {
        self.add_envelope(argument, envelope::scan);
    }

    /// Adds the envelope sender as the mail server understood it (`{mail_addr}`).
    pub fn add_mail_addr(&mut self, address: &[u8]) {
        self.add_envelope(address, envelope::understood);
    }

    /// Adds the envelope sender as local part and domain, unquoted, divided by the last `@`.
    pub fn add_mail_understood(&mut self, mailbox: &[u8]) {
        self.add_mail_addr(&quoted(mailbox));
    }

    fn add_envelope(&mut self, text: &[u8], read: fn(&mut Paths, &[u8], &mut Out<'_>)) {
        if self.may_scan(Identity::MailFrom, text) {
            let mut out = Out::new(&mut self.store, Identity::MailFrom, None);
            read(&mut self.scanner.paths, text, &mut out);
            self.give_back(text);
        }
    }

    /// Says that Sendmail asks about this message, which delivers some fields otherwise.
    pub fn set_sendmail(&mut self) {
        self.scanner.paths.is_sendmail = true;
    }

    /// Adds the senders in one header value, of any bytes and any length. Call it for every
    /// occurrence of the header. Folds may be CRLF or LF and white space.
    pub fn add_header(&mut self, identity: Identity, value: &[u8]) {
        if value.len() >= MAYBE_CUT_BYTES {
            self.store.truncated = true;
        }
        let may_break = value.len() >= self.shortest_changed();
        if let Some(address) = plain::mailbox(value).filter(|_| !may_break) {
            Out::new(&mut self.store, identity, None).push(address);
            return;
        }
        if !self.may_scan(identity, value) {
            return;
        }
        // Weak addresses of its other forms count only if there is nothing else, as in itself.
        let scan = match self.read(identity, value, None, Scanner::value) {
            true => Scanner::strong,
            false => Scanner::value,
        };
        if may_break {
            self.read_as_delivered(identity, value, scan);
        }
        if let Some(form) = delivered::without_stray(value) {
            self.read_again(identity, &form, scan);
        }
        if std::str::from_utf8(value).is_err() {
            // Programs that cannot read it as UTF-8 take it for Windows-1252.
            self.read_again(identity, encoded::in_windows_1252(value).as_bytes(), scan);
        }
        self.give_back(value);
    }

    /// Length from which a value may be delivered otherwise.
    fn shortest_changed(&self) -> usize {
        match self.scanner.paths.is_sendmail {
            true => delivered::LONGEST_TOKEN,
            false => delivered::SHORTEST_BROKEN,
        }
    }

    /// Adds the senders in a long value as servers deliver it.
    fn read_as_delivered(&mut self, identity: Identity, value: &[u8], scan: Scan) {
        let laid_out = LaidOut::of(value);
        let is_sendmail = self.scanner.paths.is_sendmail;
        let colon = identity.name().len() + 1;
        for server in delivered::BREAKS {
            let text = match server.is_laid_out {
                true => &laid_out.text,
                false => value,
            };
            // With a blank behind the colon, and without.
            for before in [colon + 1, colon] {
                if let Some(form) = server.apply(text, before) {
                    self.read_again(identity, &form, scan);
                }
            }
        }
        if is_sendmail && laid_out.is_split {
            self.read_again(identity, &laid_out.text, scan);
        }
        if is_sendmail {
            let known = self.store.known(identity);
            for cut in laid_out.cut() {
                self.read(identity, cut, Some(&known), Scanner::strong);
            }
        }
    }

    /// Adds the senders of a further form of a value, those that are new.
    fn read_again(&mut self, identity: Identity, value: &[u8], scan: Scan) {
        let known = self.store.known(identity);
        self.read(identity, value, Some(&known), scan);
    }

    /// Reads a value. With `known`, it is another form of a value that has been read. Returns whether any address
    /// was not weak.
    fn read(
        &mut self,
        identity: Identity,
        value: &[u8],
        known: Option<&Known>,
        scan: Scan,
    ) -> bool {
        let line = match memchr::memchr(b'\n', value) {
            None => value,
            Some(_) => {
                unfold(value, &mut self.unfolded);
                &self.unfolded
            }
        };
        let mut out = Out::new(&mut self.store, identity, known);
        let strong = scan(&mut self.scanner, line, &mut out);
        if known.is_none() {
            let (paths, parsed_bytes) = (&mut self.scanner.paths, &mut self.parsed_bytes);
            header::add_missed(paths, line, strong, parsed_bytes, &mut out);
        }
        strong
    }

    /// Frees the memory for reading a long value: ten buffers of its length.
    fn give_back(&mut self, value: &[u8]) {
        const KEPT_BYTES: usize = 1024;
        if value.len() > KEPT_BYTES {
            self.scanner.give_back();
            self.unfolded = Vec::new();
        }
    }

    /// Counts a value towards the bytes scanned of its identity; false if it exceeds the limit.
    fn may_scan(&mut self, identity: Identity, value: &[u8]) -> bool {
        let scanned = &mut self.scanned_bytes[identity as usize];
        let fits = value.len() <= MAX_SCANNED_BYTES - *scanned;
        if fits {
            *scanned += value.len();
        } else {
            self.store.truncated = true;
        }
        fits
    }

    /// Iterates over the senders in the order in which they were found.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Sender<'_>> {
        self.store.iter()
    }

    /// Returns the sender with this index, in the order in which they were found.
    pub fn get(&self, number: usize) -> Option<Sender<'_>> {
        self.store.get(number)
    }

    /// Returns the number of senders.
    pub fn len(&self) -> usize {
        self.iter().len()
    }

    /// Returns whether the message has named no sender so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether a limit was reached, here or in the mail server, so that addresses may be
    /// missing.
    pub fn truncated(&self) -> bool {
        self.store.truncated
    }
}

/// Copies `value` to `out` without the line ends before a blank (RFC 5322 section 2.2.3). This
/// comes before all other reading, because a backslash before a fold escapes the blank.
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
