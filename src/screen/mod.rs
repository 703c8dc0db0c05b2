//! One message from MAIL to verdict: what the mail server tells, gathered, and what it is answered.
//!
//! ```text
//! MAIL     take the snapshot, remember the envelope sender          (no answer needed)
//! RCPT     look the envelope sender up, once; refuse this recipient, or go on
//! header   keep senders and the few headers that matter             (no answer needed)
//! EOH      look the header senders up; refuse, discard, accept - or go on, if something is to be written
//! EOM      write it: tag, quarantine, forged tags removed
//! ```
//!
//! So a message that nobody objects to costs two answers, and its body never travels. All rules
//! are in [`policy`](crate::policy); here is when they are asked, what the answer is on the wire,
//! and the log line. The snapshot taken at MAIL is kept to the end of the message: a reload does
//! not change the rules under it.

mod log;
mod shown;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing::{error, warn};

use crate::address::escaped;
use crate::milter::{Client, Edit, Family, Handler, Macros, Reply, ReplyText, Stage, Wanted};
use crate::policy::{
    Action, Change, Circumstances, Desk, Exemption, Fields, Hit, Outcome, Policy, Reach, Reason,
    Seen, Softening, Verdict,
};
use crate::sender::{Identity, Sender, Senders};
use crate::snapshot::{Counters, Live, Snapshot};
use shown::{day_of, shown_address, source_of, tag};

/// The header that tells later programs of a hit.
pub const TAG_HEADER: &str = "X-Sender-Blocklist";
/// Bytes kept of a Message-ID, for the log.
const MESSAGE_ID_MAX_BYTES: usize = 200;
/// DKIM results kept of a message.
const DKIM_MAX: usize = 100;
/// A reply where no list's reply fits: a filter could not be read.
const UNDECIDED_REPLY: &str = "the sender cannot be checked at the moment, try again later";

/// Watches decisions come about; the daemon needs none, `explain` and `demo` do.
pub trait Observer {
    /// One look-up, or why there was none.
    fn seen(&mut self, _policy: &Policy, _sender: &Sender<'_>, _seen: &Seen<'_>) {}
    /// A recipient or a message has its verdict.
    fn decided(&mut self, _decision: &Decision<'_>) {}
}

impl Observer for () {}

/// A verdict with all that led to it.
#[derive(Debug)]
pub struct Decision<'a> {
    /// The rules.
    pub snapshot: &'a Snapshot,
    /// The recipient, if the verdict is on one recipient only.
    pub recipient: Option<&'a [u8]>,
    /// All senders that lists name, cleared ones too.
    pub hits: &'a [Hit],
    /// What is done, and why.
    pub verdict: Verdict,
    /// Why the client is not refused anything.
    pub exemption: Option<Exemption>,
    /// The answer.
    pub reply: &'a Reply,
    /// Names this decision in reply and log.
    pub case: &'a str,
    /// Time spent on the message so far.
    pub spent: Duration,
}

/// The client of a connection.
#[derive(Default)]
struct Origin {
    address: Option<IpAddr>,
    text: String,
    is_local: bool,
}

/// All that is known of the message under way.
#[derive(Default)]
struct Message {
    snapshot: Option<Arc<Snapshot>>,
    today: u16,
    exemption: Option<Exemption>,
    brake: bool,
    senders: Senders,
    envelope_done: bool,
    hits: Vec<Hit>,
    reach: Option<Reach>,
    refused: u32,
    mailing_list: bool,
    forged_tags: u32,
    dkim: Vec<Vec<u8>>,
    queue_id: Vec<u8>,
    message_id: Vec<u8>,
    case: String,
    verdict: Option<Verdict>,
    spent: Duration,
}

impl Message {
    /// Forgets everything, keeps the memory.
    fn clear(&mut self) {
        self.senders.clear();
        self.hits.clear();
        self.dkim.clear();
        self.queue_id.clear();
        self.message_id.clear();
        self.case.clear();
        *self = Self {
            senders: std::mem::take(&mut self.senders),
            hits: std::mem::take(&mut self.hits),
            dkim: std::mem::take(&mut self.dkim),
            queue_id: std::mem::take(&mut self.queue_id),
            message_id: std::mem::take(&mut self.message_id),
            case: std::mem::take(&mut self.case),
            ..Self::default()
        };
    }
}

/// Decides about the messages of one connection.
pub struct Screen<O = ()> {
    live: Arc<Live>,
    observer: O,
    origin: Origin,
    desk: Desk,
    message: Message,
}

impl Screen {
    /// For a new connection.
    pub fn new(live: Arc<Live>) -> Self {
        Self::with_observer(live, ())
    }
}

impl<O: Observer> Screen<O> {
    /// For a new connection, watched.
    pub fn with_observer(live: Arc<Live>, observer: O) -> Self {
        Self {
            live,
            observer,
            origin: Origin::default(),
            desk: Desk::default(),
            message: Message::default(),
        }
    }

    /// Whoever watches.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The senders of the message under way, as far as it has come.
    pub fn senders(&self) -> &Senders {
        &self.message.senders
    }

    /// Looks senders up: those of the envelope, or those of the headers.
    fn examine(&mut self, snapshot: &Snapshot, envelope: bool) {
        let Self {
            live,
            observer,
            desk,
            message,
            ..
        } = self;
        let policy = &snapshot.policy;
        let dkim = &message.dkim;
        let aligned = |domain: &[u8]| dkim.iter().any(|signer| is_aligned(signer, domain));
        let now = Circumstances {
            today: message.today,
            aligned: &aligned,
        };
        for sender in message.senders.iter() {
            if (sender.identity == Identity::MailFrom) != envelope {
                continue;
            }
            policy.examine(&sender, now, desk, &mut message.hits, |seen| {
                if let Seen::Entry { list, outcome, .. } = &seen {
                    match outcome {
                        Outcome::FalsePositive => Counters::add(&live.counters.false_positives),
                        Outcome::Failed(failure) => {
                            let name = policy.lists().get(*list).map_or("", |list| list.name());
                            live.tell_failure(name, &failure.to_string());
                        }
                        Outcome::Miss
                        | Outcome::Unproved
                        | Outcome::Expired(_)
                        | Outcome::Listed(_) => {}
                    }
                }
                observer.seen(policy, &sender, &seen);
            });
        }
    }

    /// The answer to a refusing verdict.
    fn refusal(&mut self, snapshot: &Snapshot, verdict: Verdict) -> Reply {
        self.ensure_case();
        let hit = verdict.hit.and_then(|index| self.message.hits.get(index));
        let action = verdict.action.unwrap_or(Action::Reject);
        let (Some(hit), false) = (hit, verdict.reason == Reason::Undecided) else {
            let text = ReplyText::new(451, "4.3.0", &[UNDECIDED_REPLY]);
            return text.map_or(Reply::Tempfail, Reply::Text);
        };
        let Some(list) = snapshot.policy.lists().get(hit.list) else {
            return Reply::Tempfail;
        };
        let template = list.terms.reply(action);
        let date = day_of(hit);
        let lines = template.fill(&Fields {
            address: shown_address(hit),
            identity: hit.identity.name(),
            list: list.name(),
            source: source_of(snapshot, hit),
            date: &date,
            case: &self.message.case,
            client: &self.origin.text,
        });
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        match ReplyText::new(template.code(), template.enhanced(), &lines) {
            Ok(text) => Reply::Text(text),
            Err(fault) => {
                error!(list = list.name(), reason = %fault, "the reply cannot be sent as configured");
                if action == Action::Tempfail {
                    Reply::Tempfail
                } else {
                    Reply::Reject
                }
            }
        }
    }

    fn ensure_case(&mut self) {
        if self.message.case.is_empty() {
            write_case(self.live.next_case(), &mut self.message.case);
        }
    }

    /// Remembers the queue id as soon as the mail server tells it.
    fn note_queue_id(&mut self, macros: &Macros) {
        if let Some(id) = macros.get("i")
            && self.message.queue_id.is_empty()
        {
            self.message.queue_id.extend_from_slice(id);
        }
    }

    /// Counts a message once, for the log and the brake.
    fn count(&self, snapshot: &Snapshot, verdict: Verdict) {
        let counters = &self.live.counters;
        Counters::add(&counters.messages);
        match verdict.action {
            Some(Action::Reject | Action::Tempfail) => Counters::add(&counters.refused),
            Some(Action::Tag | Action::Quarantine | Action::Discard) => {
                Counters::add(&counters.marked);
            }
            Some(Action::Log) | None => {}
        }
        let limit = snapshot.config.safety.max_reject_share;
        if limit >= 1.0 {
            return;
        }
        let refuses = verdict.action.is_some_and(Action::refuses)
            && verdict.reason == Reason::Listed
            || verdict.reason == Reason::RejectShare;
        match self.live.brake.count(refuses, self.live.uptime_s(), limit) {
            Some(Change::On(share)) => error!(
                share = format!("{share:.2}"),
                limit,
                "more than max_reject_share of the last five minutes' messages would be refused: refusals become tags until it falls"
            ),
            Some(Change::Off(share)) => warn!(
                share = format!("{share:.2}"),
                limit, "below max_reject_share again: refusals are in force"
            ),
            None => {}
        }
    }

    /// Counts, tells the observer, and writes the log line of a decision.
    fn settle(
        &mut self,
        snapshot: &Snapshot,
        verdict: Verdict,
        recipient: Option<&[u8]>,
        reply: &Reply,
    ) {
        if verdict.hit.is_some() {
            self.ensure_case();
        }
        // A message whose recipients are refused one by one is one message.
        if self.message.refused <= 1 && (recipient.is_some() || self.message.refused == 0) {
            self.count(snapshot, verdict);
        }
        self.observer.decided(&Decision {
            snapshot,
            recipient,
            hits: &self.message.hits,
            verdict,
            exemption: self.message.exemption,
            reply,
            case: &self.message.case,
            spent: self.message.spent,
        });
        self.log(snapshot, verdict, recipient);
    }
}

impl<O: Observer> Handler for Screen<O> {
    fn wanted(&self) -> Wanted {
        Wanted {
            headers: true,
            add_headers: true,
            change_headers: true,
            quarantine: true,
            macros: &[
                (Stage::Connect, &[]),
                (Stage::Helo, &[]),
                (Stage::Mail, &["i", "auth_authen"]),
                (Stage::Rcpt, &["i"]),
                (Stage::Data, &["i"]),
                (Stage::EndOfHeaders, &["i"]),
                (Stage::EndOfMessage, &["i"]),
            ],
        }
    }

    fn connect(&mut self, client: &Client<'_>, _macros: &Macros) {
        self.message.clear();
        let origin = &mut self.origin;
        origin.address = client.address.map(|address| address.to_canonical());
        origin.text.clear();
        match origin.address {
            Some(address) => {
                let _ = write!(origin.text, "{address}");
            }
            None => {
                let _ = write!(origin.text, "{}", escaped(client.host));
            }
        }
        origin.is_local = match client.family {
            Family::Unix => true,
            // Postfix shows mail of its own host that did not come by SMTP as port 0.
            Family::Inet | Family::Inet6 => {
                client.port == 0 && origin.address.is_some_and(|address| address.is_loopback())
            }
            // Sendmail on standard input (-bs) says no more than this name. A client that came over a
            // network cannot: it has an address.
            Family::Unknown => client.host.eq_ignore_ascii_case(b"localhost"),
        };
    }

    fn mail(&mut self, argument: &[u8], macros: &Macros) {
        self.message.clear();
        self.note_queue_id(macros);
        let snapshot = self.live.snapshot();
        let message = &mut self.message;
        message.senders.add_mail_from(argument);
        message.today = today();
        let exempt = &snapshot.config.exempt;
        let in_network = || {
            self.origin.address.is_some_and(|address| {
                exempt
                    .networks
                    .iter()
                    .any(|network| network.contains(address))
            })
        };
        message.exemption = if exempt.authenticated
            && macros
                .get("auth_authen")
                .is_some_and(|login| !login.is_empty())
        {
            Some(Exemption::Authenticated)
        } else if exempt.local && self.origin.is_local {
            Some(Exemption::Local)
        } else if in_network() {
            Some(Exemption::Network)
        } else {
            None
        };
        message.brake = snapshot.config.safety.max_reject_share < 1.0 && self.live.brake.is_on();
        message.snapshot = Some(snapshot);
    }

    fn rcpt(&mut self, argument: &[u8], macros: &Macros) -> Reply {
        let began = Instant::now();
        self.note_queue_id(macros);
        let Some(snapshot) = self.message.snapshot.clone() else {
            return Reply::Continue;
        };
        if self.message.exemption.is_some() {
            let verdict = Verdict {
                action: None,
                hit: None,
                reason: Reason::Unlisted,
                unsoftened: None,
            };
            self.message.spent += began.elapsed();
            self.settle(&snapshot, verdict, None, &Reply::Accept);
            return Reply::Accept;
        }
        if !std::mem::replace(&mut self.message.envelope_done, true) {
            self.examine(&snapshot, true);
        }
        let lists = snapshot.policy.reach(argument, &mut self.desk);
        let softening = Softening {
            mailing_list: false,
            brake: self.message.brake,
        };
        let verdict = snapshot
            .policy
            .decide(&self.message.hits, Reach::of(lists), softening);
        if !verdict.action.is_some_and(Action::refuses) {
            self.message.reach.get_or_insert(Reach::NOBODY).add(lists);
            self.message.spent += began.elapsed();
            return Reply::Continue;
        }
        let reply = self.refusal(&snapshot, verdict);
        self.message.refused += 1;
        self.message.spent += began.elapsed();
        self.settle(&snapshot, verdict, Some(argument), &reply);
        reply
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        let message = &mut self.message;
        let Some(snapshot) = &message.snapshot else {
            return;
        };
        if let Some(identity) = Identity::of_header(name) {
            message.senders.add_header(identity, value);
            return;
        }
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is(TAG_HEADER) {
            message.forged_tags += 1;
        } else if is("List-Id") || is("List-Post") {
            message.mailing_list = true;
        } else if is("Message-ID") {
            let value = value.trim_ascii();
            message.message_id.clear();
            message
                .message_id
                .extend_from_slice(&value[..value.len().min(MESSAGE_ID_MAX_BYTES)]);
        } else if snapshot.policy.whitelist_wants_dkim && is("Authentication-Results") {
            // Bounded, since anyone can write thousands of them.
            let room = DKIM_MAX.saturating_sub(message.dkim.len());
            let trusted = &snapshot.config.whitelist.authserv_ids;
            message.dkim.extend(
                crate::policy::dkim_domains(value, trusted)
                    .into_iter()
                    .take(room),
            );
        }
    }

    fn end_of_headers(&mut self, macros: &Macros) -> Reply {
        let began = Instant::now();
        self.note_queue_id(macros);
        let Some(snapshot) = self.message.snapshot.clone() else {
            return Reply::Accept;
        };
        if !std::mem::replace(&mut self.message.envelope_done, true) {
            self.examine(&snapshot, true);
        }
        self.examine(&snapshot, false);
        // Without a single RCPT (an old mail server that skips it) every list affects the message.
        let reach = self.message.reach.unwrap_or(Reach::EVERYBODY);
        let softening = Softening {
            mailing_list: self.message.mailing_list,
            brake: self.message.brake,
        };
        let verdict = snapshot.policy.decide(&self.message.hits, reach, softening);
        let forged = self.message.forged_tags > 0 && snapshot.policy.uses(Action::Tag);
        let reply = match verdict.action {
            Some(Action::Reject | Action::Tempfail) => self.refusal(&snapshot, verdict),
            Some(Action::Discard) => Reply::Discard,
            Some(Action::Tag | Action::Quarantine) => Reply::Continue,
            Some(Action::Log) | None if forged => Reply::Continue,
            Some(Action::Log) | None => Reply::Accept,
        };
        self.message.spent += began.elapsed();
        self.message.verdict = Some(verdict);
        self.settle(&snapshot, verdict, None, &reply);
        reply
    }

    fn end_of_message(&mut self, _macros: &Macros, edits: &mut Vec<Edit>) -> Reply {
        let message = &self.message;
        let (Some(snapshot), Some(verdict)) = (&message.snapshot, message.verdict) else {
            return Reply::Accept;
        };
        let tagged = verdict.action == Some(Action::Tag);
        if tagged || snapshot.policy.uses(Action::Tag) {
            // From the last to the first, since deleting one renumbers those behind it.
            edits.extend(
                (1..=message.forged_tags)
                    .rev()
                    .map(|index| Edit::ChangeHeader {
                        index,
                        name: TAG_HEADER.to_owned(),
                        value: Vec::new(),
                    }),
            );
        }
        if let Some(hit) = verdict.hit.and_then(|index| message.hits.get(index)) {
            if tagged {
                edits.push(Edit::AddHeader {
                    name: TAG_HEADER.to_owned(),
                    value: tag(snapshot, hit).into_bytes(),
                });
            }
            if verdict.action == Some(Action::Quarantine) {
                edits.push(Edit::Quarantine(format!(
                    "{} (case {})",
                    tag(snapshot, hit),
                    message.case
                )));
            }
        }
        Reply::Accept
    }

    fn abort(&mut self) {
        self.message.clear();
    }
}

/// Days since 1970.
pub fn today() -> u16 {
    const DAY_S: u64 = 86_400;
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    u16::try_from(seconds / DAY_S).unwrap_or(u16::MAX)
}

/// A case id: the second and a running number in base 32, without letters that look alike.
fn write_case(number: u64, out: &mut String) {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    /// 2026-01-01
    const EPOCH_S: u64 = 1_767_225_600;
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let id = (seconds.saturating_sub(EPOCH_S) << 15 | (number & 0x7fff)) & ((1 << 45) - 1);
    out.extend(
        (0..9)
            .rev()
            .map(|digit| char::from(DIGITS[usize::try_from(id >> (digit * 5) & 31).unwrap_or(0)])),
    );
}

/// DKIM vouches for a domain if it signed as that domain, or as one with the same
/// organizational domain (RFC 7489 section 3.1.1, relaxed).
fn is_aligned(signer: &[u8], domain: &[u8]) -> bool {
    let organization =
        |name: &'_ [u8]| psl::domain(name).map(|domain| domain.as_bytes().to_ascii_lowercase());
    let (signer, domain) = (signer.to_ascii_lowercase(), domain.to_ascii_lowercase());
    signer == domain || organization(&signer).is_some_and(|org| Some(org) == organization(&domain))
}
