//! Collects the recipients of sent mail from the logs of Postfix and Sendmail.
//!
//! ```text
//! Postfix    postfix/smtpd: 4Xy: client=host[192.0.2.5], sasl_method=PLAIN, sasl_username=alice
//!            postfix/pickup: 4Xy: uid=1000 from=<alice>
//!            postfix/qmgr: 4Xy: from=<alice@our.example>, size=500, nrcpt=1 (queue active)
//!            postfix/smtp: 4Xy: to=<bob@other.example>, relay=mx.other.example[198.51.100.1]:25, ..., status=sent (250 ok)
//!            postfix/qmgr: 4Xy: removed
//! Sendmail   5AL: from=<alice@our.example>, size=500, class=0, nrcpts=1, msgid=<...>, proto=ESMTPSA, daemon=MTA, auth=PLAIN, relay=host [192.0.2.5]
//!            5AL: to=<bob@other.example>, ctladdr=<alice@our.example> (1000/1000), ..., mailer=esmtp, ..., stat=Sent (ok)
//! ```
//!
//! The queue id connects the lines of a message. The fields are read in the order in which the server
//! writes them, never searched for, because a stranger writes some of them: addresses, Message-ID, the
//! text of a reply, and `sasl_sender=` behind `client=`, which is the AUTH= of the client's MAIL command.
//! Nothing behind such a text is believed, unless its end is certain: an address in brackets ends at
//! the `>` outside quotes, and a field that stands twice is not believed. Only lines of the service that
//! logs a fact count: filters and policy servers also log queue ids and senders, in other formats.
//!
//! A content filter returns a message under another queue id. Then only the delivery of the returned
//! message counts; its first id is in one of two lines:
//!
//! ```text
//! postfix/smtpd: 4Xz: client=localhost[127.0.0.1], orig_queue_id=4Xy, orig_client=host[192.0.2.5]
//! postfix/smtp: 4Xy: to=<bob@other.example>, relay=127.0.0.1[127.0.0.1]:10024, ..., status=sent (250 ... queued as 4Xz)
//! ```
//!
//! Mail forwarded by an alias, `.forward` or a list has neither authentication nor user id in
//! Postfix. If a user "writes" to somebody within a minute after that person's message came in, it
//! counts as an automatic reply of the user's mail program.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use super::{Book, RECIPIENTS_MAX, correspondent, domain_of};
use crate::journal;
use blocklist_filter::base::clock::{now_s, today};
use blocklist_filter::base::day::Day;
use blocklist_filter::base::whole_file::FileError;

/// Most messages in the queue, and most senders of the last minute, that are kept at a time.
const MESSAGES_MAX: usize = 500_000;
/// Nobody reads and answers faster, in seconds.
const AUTOMATIC_S: i64 = 60;
/// Mailers of Sendmail that do not deliver to another server, but to a mailbox, program or file of this one.
const LOCAL_MAILERS: &str = "local prog *file* *include* procmail cyrus cyrusv2 dovecot lmtp";

impl Book {
    /// Adds the recipients of the messages in a log.
    pub(crate) fn add_log(&mut self, path: &Path) -> Result<(), FileError> {
        let mut queue = Queue {
            now: now_s().cast_signed(),
            book: self,
            messages: HashMap::new(),
            incoming: HashMap::new(),
        };
        journal::each_line(path, |line| queue.line(line)).map_err(FileError::of(path))
    }
}

/// The state of a message in a mail server's queue, at the current line of the log.
#[derive(Default)]
struct Message {
    /// Whether a user sent it.
    is_users: bool,
    /// Whether it was submitted on this machine, according to Sendmail.
    is_local: bool,
    /// Whether a program on this machine delivered it over SMTP.
    is_from_loopback: bool,
    /// The first queue id of a message that a content filter has returned.
    origin: Option<String>,
    is_counted: bool,
    /// Empty for the null sender, or if unknown.
    sender: String,
    recipients: u64,
    at: Option<i64>,
}

struct Queue<'a> {
    now: i64,
    book: &'a mut Book,
    messages: HashMap<String, Message>,
    /// When each sender last wrote to us.
    incoming: HashMap<String, i64>,
}

impl Queue<'_> {
    fn line(&mut self, line: &str) {
        let entry = journal::entry(line, self.now);
        let Some((id, text)) = entry.text.split_once(": ") else {
            return;
        };
        if id.is_empty() || id.len() > 32 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return;
        }
        let program = entry.program.as_deref();
        let Some((what, rest)) = text.split_once('=') else {
            if text == "removed" && is_of_postfix(program, &["qmgr"]) {
                self.messages.remove(id);
            }
            return;
        };
        let mut message = Message {
            at: entry.at,
            ..Message::default()
        };
        match what {
            "client" if is_of_postfix(program, &["smtpd", "qmqpd"]) => {
                let mut fields = rest.split(", ").skip(1);
                let first = fields.next().unwrap_or_default();
                let has_login = first.starts_with("sasl_method=")
                    && (fields.next()).is_some_and(|field| field.starts_with("sasl_username="));
                let origin = first.strip_prefix("orig_queue_id=");
                message.is_users = has_login
                    || self.is_trusted(rest)
                    || origin.is_some_and(|id| self.is_users(id));
                message.is_from_loopback = is_loopback(rest);
                message.origin = origin.map(str::to_owned);
                self.begin(id, message);
            }
            "uid" if is_of_postfix(program, &["pickup"]) => {
                let uid = rest.split(' ').next().and_then(|uid| uid.parse().ok());
                message.is_users = uid.is_some_and(|uid| self.book.rules.uids.contains(&uid));
                self.begin(id, message);
            }
            "from" => {
                // Sendmail logs everything in this line; Postfix has logged the client before.
                let Some((sender, mut rest)) = address(rest) else {
                    return;
                };
                let mut number = |name| field(&mut rest, name);
                number("size");
                if let Some(count) = number("nrcpt").filter(|_| is_of_postfix(program, &["qmgr"])) {
                    self.from(id, sender, count, entry.at);
                } else if is_of_sendmail(program) {
                    number("class");
                    number("pri");
                    let Some(count) = number("nrcpts") else {
                        return;
                    };
                    let (relay, has_login) = client_of_sendmail(rest);
                    message.is_users = has_login || self.is_trusted(relay);
                    message.is_local = relay.ends_with("@localhost");
                    self.begin(id, message);
                    self.from(id, sender, count, entry.at);
                }
            }
            "to" => self.to(id, rest, program, entry.at),
            _ => {}
        }
    }

    fn is_users(&self, id: &str) -> bool {
        self.messages
            .get(id)
            .is_some_and(|message| message.is_users)
    }

    /// Returns whether a client needs no authentication.
    fn is_trusted(&self, client: &str) -> bool {
        let mut trusted = self.book.rules.clients.iter();
        host_address(client).is_some_and(|address| trusted.any(|net| net.contains(address)))
    }

    /// Returns whether this delivery of Postfix went to a content filter, which has returned the
    /// message; the delivery of the returned message counts.
    fn is_returned(&mut self, id: &str, rest: &str, program: Option<&str>) -> bool {
        if !is_of_postfix(program, &["smtp", "relay", "lmtp"]) {
            return false;
        }
        let is_users = self.is_users(id);
        let is_filter_here = rest.strip_prefix(", relay=").is_some_and(is_loopback);
        let next = rest.rsplit_once("queued as ").and_then(|(_, next)| {
            let next = self.messages.get_mut(next.trim_end_matches(')'))?;
            // A server elsewhere may reply whatever it likes.
            let is_next =
                next.origin.as_deref() == Some(id) || is_filter_here && next.is_from_loopback;
            is_next.then_some(next)
        });
        next.map(|next| next.is_users |= is_users).is_some()
    }

    fn begin(&mut self, id: &str, message: Message) {
        if self.messages.len() >= MESSAGES_MAX {
            // A log without the ends of messages, or a flood of them: start again instead of
            // growing.
            self.messages.clear();
        }
        self.messages.insert(id.to_owned(), message);
    }

    /// Notes the sender of a message, and how many recipients it has: `1 (queue active)`.
    fn from(&mut self, id: &str, sender: &str, count: &str, at: Option<i64>) {
        let recipients = count.split(' ').next().and_then(|count| count.parse().ok());
        let sender = sender.to_ascii_lowercase();
        if let Some(message) = self.messages.get_mut(id) {
            message.sender.clone_from(&sender);
            message.recipients = recipients.unwrap_or(0);
        }
        if !self.is_users(id)
            && let (Some(at), Some(sender)) = (at, correspondent(&sender))
        {
            if self.incoming.len() >= MESSAGES_MAX {
                self.incoming.retain(|_, last| at - *last <= AUTOMATIC_S);
            }
            if self.incoming.len() < MESSAGES_MAX {
                self.incoming.insert(sender, at);
            }
        }
    }

    fn to(&mut self, id: &str, mut to: &str, program: Option<&str>, at: Option<i64>) {
        // Sendmail logs the recipients of one delivery together.
        let (mut addresses, mut rest) = (Vec::new(), Some(to));
        while let Some(text) = rest {
            let Some((recipient, behind)) = address(text) else {
                return;
            };
            addresses.push(recipient);
            rest = behind
                .strip_prefix(',')
                .filter(|next| !next.starts_with(' '));
            to = behind;
        }
        let mut rest = to;
        let named = [", orig_to=", ", ctladdr="];
        let other = named.iter().find_map(|name| rest.strip_prefix(name));
        if let Some(other) = other {
            let Some((_, behind)) = address(other) else {
                return;
            };
            rest = behind;
        }
        if self.is_returned(id, rest, program) || !is_sent(rest, program) {
            return;
        }
        let Some(message) = self.messages.get_mut(id) else {
            return;
        };
        // Sendmail names the local user in each delivery. For mail from other machines it would be
        // the user whose .forward forwards it.
        if message.is_local
            && let Some(uid) = controlling_uid(rest)
        {
            message.is_users |= self.book.rules.uids.contains(&uid);
        }
        if !message.is_users || message.sender.is_empty() {
            return;
        }
        if !message.is_counted {
            message.is_counted = true;
            self.book.change.messages += 1;
        }
        if message.recipients > RECIPIENTS_MAX {
            self.book.change.crowds += 1;
            return;
        }
        let day = at.and_then(journal::day).unwrap_or_else(|| Day(today()));
        for address in addresses {
            let came_in = correspondent(address).and_then(|known| self.incoming.get(&known));
            let is_automatic = came_in
                .zip(message.at)
                .is_some_and(|(&came_in, at)| (0..=AUTOMATIC_S).contains(&(at - came_in)));
            if is_automatic {
                self.book.change.automatic += 1;
            } else {
                let own = domain_of(&message.sender);
                self.book.add(address, own, day);
            }
        }
    }
}

/// Returns whether a delivery went to another server.
fn is_sent(rest: &str, program: Option<&str>) -> bool {
    let value = |name: &str| {
        let (_, value) = rest.split_once(name)?;
        value.split(", ").next()
    };
    if is_of_sendmail(program)
        && let Some(mailer) = value(", mailer=")
    {
        let stat = value(", stat=").unwrap_or_default();
        let is_local = LOCAL_MAILERS.split(' ').any(|local| local == mailer);
        return !is_local && (stat == "Sent" || stat.starts_with("Sent ("));
    }
    // Postfix: after the status comes the reply of the other server.
    let status = value(", status=").unwrap_or_default();
    let is_remote = match program {
        Some(_) => is_of_postfix(program, &["smtp", "relay"]),
        // Unknown service: require a host with address and port, unlike "local", "virtual" or a
        // socket.
        None => value(", relay=").is_some_and(|relay| relay.contains("]:")),
    };
    // Before 3.5, Postfix wrote addresses without quotes: one may have held these fields.
    is_remote
        && rest.matches(", relay=").count() == 1
        && (status == "sent" || status.starts_with("sent ("))
}

/// Returns whether a line is from one of these services of Postfix, such as
/// `postfix/submission/smtpd`; true if it names no program.
fn is_of_postfix(program: Option<&str>, services: &[&str]) -> bool {
    program.is_none_or(|program| {
        let service = program.rsplit_once('/').map(|(_, service)| service);
        service.is_some_and(|service| services.contains(&service))
    })
}

/// Returns whether a line may be from Sendmail (`sendmail`, `sm-mta`); true if it names no program.
fn is_of_sendmail(program: Option<&str>) -> bool {
    program.is_none_or(|program| !program.contains('/'))
}

/// Returns the client in Sendmail's `from=` line, from the fields behind the number of recipients, and
/// whether it has authenticated: `auth=PLAIN` since 8.16, or the protocol of RFC 3848. Before these
/// fields is the Message-ID, and behind them the answer of the client's ident server (RFC 1413), so a
/// line with one of them twice, or in another order, shows nothing. Nor does the Message-ID of a message
/// from this machine, which has no protocol.
fn client_of_sendmail(fields: &str) -> (&str, bool) {
    let Some((fields, relay)) = fields.split_once(", relay=") else {
        return ("", false);
    };
    if relay.contains(", ") {
        return ("", false);
    }
    let has_login = fields.split_once(", proto=").is_some_and(|(before, rest)| {
        let mut fields = rest.split(", ");
        let protocol = fields.next().unwrap_or_default();
        let auth = fields.find_map(|field| field.strip_prefix("auth="));
        !before.contains(", auth=")
            && !rest.contains(", proto=")
            && auth.map_or(matches!(protocol, "ESMTPA" | "ESMTPSA"), |mechanism| {
                !["NONE", "NO", "FAIL", "SOFT", "TEMP"].contains(&mechanism)
            })
    });
    (relay, has_login && host_address(relay).is_some())
}

/// Cuts the address off with which a text begins: in brackets, where `>` in a quoted local part is part
/// of it, or alone, as Sendmail writes those of local users.
fn address(text: &str) -> Option<(&str, &str)> {
    let Some(text) = text.strip_prefix('<') else {
        let (address, _) = text.split_at(text.find([',', ' ']).unwrap_or(text.len()));
        let is_plain = !address.contains(['"', '<', '>', '(', '\\']);
        return is_plain.then(|| text.split_at(address.len()));
    };
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'>' && !is_quoted && !is_escaped;
        is_quoted ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// Cuts off the next field, `, name=value`, if it has this name, and returns its value.
fn field<'a>(rest: &mut &'a str, name: &str) -> Option<&'a str> {
    let text = rest
        .strip_prefix(", ")?
        .strip_prefix(name)?
        .strip_prefix('=')?;
    let (value, behind) = text.split_at(text.find(", ").unwrap_or(text.len()));
    *rest = behind;
    Some(value)
}

/// Returns the last address in brackets of the first field: `host[192.0.2.5]:25, ...`.
fn host_address(text: &str) -> Option<IpAddr> {
    let host = text.split(", ").next()?;
    let (_, rest) = host.rsplit_once('[')?;
    let (address, _) = rest.split_once(']')?;
    let address = address.strip_prefix("IPv6:").unwrap_or(address);
    address.parse().ok()
}

fn is_loopback(host: &str) -> bool {
    host_address(host).is_some_and(|address| address.is_loopback())
}

/// Reads ` (1000/1000), ...` behind `ctladdr=alice` as 1000.
fn controlling_uid(rest: &str) -> Option<u32> {
    let (uid, _) = rest.strip_prefix(" (")?.split_once('/')?;
    uid.parse().ok()
}
