//! The milter protocol, tested with transcripts of what mail servers send, and with properties.
//!
//! A transcript (`tests/transcripts/*.txt`) contains connections, each after a line
//! `== title`:
//!
//! ```text
//! answer rcpt "<b@c.test>" reject        the handler's answer to this recipient
//! answer headers text 550 5.7.1 "no"     ... at the end of the headers
//! answer message accept                  ... at the end of the message
//! edit add "X-A" "value"                 ... with these changes
//! > M "<a@b.test>" "SIZE=10"             the server sends a packet
//! < c                                    we send a packet
//! = mail <a@b.test> i=AB12               the handler is called, and sees these macros
//! < closed                               we close the connection
//! < quit                                 the server has quit
//! ```
//!
//! Everything that happens after a `>` is directly below it, in order: nothing more, nothing less.
//! A payload consists of `"strings"` (with their NUL), `'bytes'` (without), `0x1f` (four bytes) and
//! `port=25` (two bytes).
//!
//! Each connection is played packet by packet, byte by byte and all at once, and with a handler
//! that answers at once or later. The result is always the same.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::task::{Context, Poll, Waker};

use blocklist_milter::milter::{
    Client, Edit, Family, Handler, MacroLists, MacroStage, Macros, Mailbox, ProtocolError, Reply,
    ReplyText, Session, Status,
};
use proptest::prelude::*;

use crate::support::root;
use crate::support::wire::packet as framed;

/// Answers as configured, and records the calls.
#[derive(Clone, Debug, Default)]
struct Scripted {
    rcpt: HashMap<Vec<u8>, Reply>,
    headers: Option<Reply>,
    message: Option<Reply>,
    edits: Vec<Edit>,
    calls: Vec<String>,
    /// How often it is polled without success before it answers; 0 if it answers at once.
    late: u32,
    /// The pending answer, and how often it is still polled without success. No call comes before it.
    held: Option<(Reply, u32)>,
}

impl Scripted {
    /// Answers now or later.
    fn answer(&mut self, reply: Option<Reply>) -> Reply {
        let reply = reply.unwrap_or(Reply::Continue);
        if self.late == 0 {
            return reply;
        }
        self.held = Some((reply, self.late - 1));
        Reply::Later
    }

    fn note(&mut self, call: &str, argument: &[u8], macros: Option<&Macros>) {
        assert_eq!(self.held, None, "{call} before an answer that is late");
        let mut line = call.to_owned();
        if !argument.is_empty() {
            write!(line, " {}", argument.escape_ascii()).expect("a string");
        }
        for name in ["i", "auth_authen"] {
            if let Some(value) = macros.and_then(|macros| macros.get(name)) {
                write!(line, " {name}={}", value.escape_ascii()).expect("a string");
            }
        }
        self.calls.push(line);
    }
}

impl Handler for Scripted {
    fn macros(&self) -> MacroLists {
        MACROS
    }

    fn connect(&mut self, client: &Client<'_>, macros: &Macros) {
        let mut told = client.host.to_vec();
        if let Some(address) = client.address {
            told.extend_from_slice(format!(" {address} port {}", client.port).as_bytes());
        } else if client.family != Family::Unknown {
            told.extend_from_slice(format!(" {:?}", client.family).as_bytes());
        }
        self.note("connect", &told, Some(macros));
    }

    fn mail(&mut self, sender: Mailbox<&[u8]>, macros: &Macros) {
        self.note("mail", &sender.written(), Some(macros));
    }

    fn rcpt(&mut self, recipient: Mailbox<&[u8]>, macros: &Macros) -> Reply {
        self.note("rcpt", &recipient.written(), Some(macros));
        self.answer(self.rcpt.get(&*recipient.written()).cloned())
    }

    fn header(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.note("header", &[name, b": ", value].concat(), None);
        true
    }

    fn mark_incomplete(&mut self) {
        self.note("incomplete", b"", None);
    }

    fn end_of_headers(&mut self, macros: &Macros) -> Reply {
        self.note("headers", b"", Some(macros));
        self.answer(self.headers.clone())
    }

    fn poll_later(&mut self, _: &mut Context<'_>) -> Poll<Reply> {
        match self.held.take().expect("an answer was put off") {
            (reply, 0) => Poll::Ready(reply),
            (reply, times) => {
                self.held = Some((reply, times - 1));
                Poll::Pending
            }
        }
    }

    fn end_of_message(&mut self, macros: &Macros, edits: &mut Vec<Edit>) -> Reply {
        self.note("message", b"", Some(macros));
        edits.extend(self.edits.iter().cloned());
        self.message.clone().unwrap_or(Reply::Continue)
    }

    fn abort(&mut self) {
        self.note("abort", b"", None);
    }
}

// ------------------------------------------------------------------ transcripts

/// A connection in a transcript.
#[derive(Default)]
struct Connection {
    title: String,
    handler: Scripted,
    steps: Vec<Step>,
}

/// A packet of the server, and its effects.
#[derive(Default)]
struct Step {
    line: usize,
    packet: Vec<u8>,
    sent: Vec<u8>,
    calls: Vec<String>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Quit,
}

/// Returns the words of a line: bare ones, and `"quoted"` or `'quoted'` ones with their quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' | '\'' => 1 + rest[1..].find(first).expect("a closing quote") + 1,
            _ => rest.find(' ').unwrap_or(rest.len()),
        };
        words.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    words
}

/// Returns the bytes between quotes; `\n`, `\r`, `\t`, `\0` and `\xff` are escapes.
fn unquoted(word: &str) -> Vec<u8> {
    let mut bytes = word.bytes().skip(1).take(word.len() - 2);
    let mut unquoted = Vec::new();
    while let Some(byte) = bytes.next() {
        unquoted.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'0') => 0,
                Some(b'x') => {
                    let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                    u8::from_str_radix(&digits, 16).expect("two digits")
                }
                other => panic!("unknown escape {other:?} in {word}"),
            },
            byte => byte,
        });
    }
    unquoted
}

fn packet(words: &[String]) -> Vec<u8> {
    let [letter] = words[0].as_bytes() else {
        panic!("a packet begins with a letter: {words:?}");
    };
    let mut payload = Vec::new();
    for word in &words[1..] {
        match word.as_bytes()[0] {
            b'"' => payload.extend([unquoted(word), vec![0]].concat()),
            b'\'' => payload.extend(unquoted(word)),
            _ if word.starts_with("port=") => {
                let port: u16 = word[5..].parse().expect("a port");
                payload.extend(port.to_be_bytes());
            }
            _ => {
                let number = word.strip_prefix("0x").expect("a number in hexadecimal");
                let number = u32::from_str_radix(number, 16).expect("a number");
                payload.extend(number.to_be_bytes());
            }
        }
    }
    framed(*letter, &payload)
}

/// Returns the text between quotes.
fn text(word: &str) -> String {
    String::from_utf8(unquoted(word)).expect("text")
}

fn reply(words: &[String]) -> Reply {
    match words[0].as_str() {
        "continue" => Reply::Continue,
        "accept" => Reply::Accept,
        "reject" => Reply::Reject,
        "tempfail" => Reply::Tempfail,
        "discard" => Reply::Discard,
        "text" => {
            let code = words[1].parse().expect("a code");
            let lines: Vec<_> = words[3..].iter().map(|line| text(line)).collect();
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            Reply::Text(ReplyText::new(code, &words[2], &lines).expect("a good text"))
        }
        other => panic!("unknown answer {other:?}"),
    }
}

fn edit(words: &[String]) -> Edit {
    match words[0].as_str() {
        "add" => added(&text(&words[1]), &unquoted(&words[2])),
        "delete" => Edit::DeleteHeader {
            index: words[2].parse().expect("a number"),
            name: text(&words[1]),
        },
        "quarantine" => Edit::Quarantine(text(&words[1])),
        other => panic!("unknown edit {other:?}"),
    }
}

fn added(name: &str, value: &[u8]) -> Edit {
    Edit::AddHeader {
        name: name.to_owned(),
        value: value.to_vec(),
    }
}

const MACROS: MacroLists = &[
    (MacroStage::Mail, &["i", "auth_authen"]),
    (MacroStage::Rcpt, &["i"]),
];

fn connections(text: &str) -> Vec<Connection> {
    let mut connections: Vec<Connection> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("== ") {
            let mut connection = Connection::default();
            title.clone_into(&mut connection.title);
            connections.push(connection);
            continue;
        }
        let connection = connections.last_mut().expect("a title comes first");
        let words = words(line);
        let rest = &words[1..];
        let handler = &mut connection.handler;
        match words[0].as_str() {
            "answer" => match rest[0].as_str() {
                "rcpt" => drop(handler.rcpt.insert(unquoted(&rest[1]), reply(&rest[2..]))),
                "headers" => handler.headers = Some(reply(&rest[1..])),
                "message" => handler.message = Some(reply(&rest[1..])),
                other => panic!("line {number}: no answer at {other:?}"),
            },
            "edit" => handler.edits.push(edit(rest)),
            ">" => connection.steps.push(Step {
                line: number,
                packet: packet(rest),
                ..Step::default()
            }),
            mark => {
                let step = connection.steps.last_mut().expect("a packet comes first");
                match mark {
                    "<" if rest == ["closed"] => step.end = Some(End::Closed),
                    "<" if rest == ["quit"] => step.end = Some(End::Quit),
                    "<" => step.sent.extend(packet(rest)),
                    "=" => step.calls.push(line[2..].to_owned()),
                    other => panic!("line {number}: unknown mark {other:?}"),
                }
            }
        }
    }
    connections
}

/// Passes bytes to a session. Returns what it sends, and whether it is over.
fn feed(session: &mut Session<Scripted>, mut bytes: &[u8]) -> (Vec<u8>, Option<End>) {
    let mut sent = Vec::new();
    loop {
        let mut out = Vec::new();
        let result = session.receive(bytes, &mut out);
        sent.extend(out);
        match result {
            Err(_) => return (sent, Some(End::Closed)),
            Ok(progress) if progress.status == Status::Quit => return (sent, Some(End::Quit)),
            Ok(progress) => {
                bytes = &bytes[progress.taken..];
                if progress.status == Status::Waiting {
                    sent.extend(answer_waited_for(session, bytes));
                }
            }
        }
        if bytes.is_empty() {
            return (sent, None);
        }
    }
}

/// Returns what is sent when the answer is known; before that no input is taken.
fn answer_waited_for(session: &mut Session<Scripted>, bytes: &[u8]) -> Vec<u8> {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut out = Vec::new();
    while session.poll_answer(cx, &mut out).is_pending() {
        let progress = session.receive(bytes, &mut out).expect("nothing is read");
        assert_eq!((progress.taken, progress.status), (0, Status::Waiting));
        assert!(out.is_empty());
    }
    out
}

/// Plays a connection in pieces of `size` bytes, to a handler that answers after `late` polls.
fn whole(connection: &Connection, size: usize, late: u32) -> (Vec<u8>, Vec<String>, Option<End>) {
    let packets = connection.steps.iter().flat_map(|step| &step.packet);
    let stream: Vec<u8> = packets.copied().collect();
    let handler = connection.handler.clone();
    let mut session = Session::new(Scripted { late, ..handler });
    let (sent, end) = feed_each(&mut session, stream.chunks(size));
    (sent, session.handler().calls.clone(), end)
}

/// Passes pieces to a session until it is over.
fn feed_each<'p>(
    session: &mut Session<Scripted>,
    pieces: impl Iterator<Item = &'p [u8]>,
) -> (Vec<u8>, Option<End>) {
    let mut sent = Vec::new();
    for piece in pieces {
        let (more, end) = feed(session, piece);
        sent.extend(more);
        if end.is_some() {
            return (sent, end);
        }
    }
    (sent, None)
}

#[test]
fn transcripts() {
    let mut played = 0;
    for file in fs::read_dir(root("tests/transcripts")).expect("the transcripts") {
        let path = file.expect("a transcript").path();
        let text = fs::read_to_string(&path).expect("a transcript");
        for connection in connections(&text) {
            let mut session = Session::new(connection.handler.clone());
            let mut seen = 0;
            for step in &connection.steps {
                let place = format!("{}:{} ({})", path.display(), step.line, connection.title);
                let (sent, end) = feed(&mut session, &step.packet);
                let calls = &session.handler().calls;
                assert_eq!(calls[seen..], step.calls, "calls, {place}");
                seen = calls.len();
                let [sent, expected] =
                    [&sent, &step.sent].map(|sent| sent.escape_ascii().to_string());
                assert_eq!(sent, expected, "sent, {place}");
                assert_eq!(end, step.end, "end, {place}");
            }
            let sent = connection.steps.iter().flat_map(|step| step.sent.clone());
            let end = connection.steps.last().and_then(|step| step.end);
            let expected = (sent.collect(), session.handler().calls.clone(), end);
            for size in [1, 3, 4096, usize::MAX] {
                for late in [0, 1, 3] {
                    let found = whole(&connection, size, late);
                    let title = &connection.title;
                    assert!(found == expected, "{title}: pieces of {size}, {late} late");
                }
            }
            played += 1;
        }
    }
    assert!(played >= 20, "{played} connections were found");
}

/// Returns a session that has negotiated.
fn agreed(handler: Scripted) -> Session<Scripted> {
    let mut session = Session::new(handler);
    feed(&mut session, &offer(6, 0x1ff, 0x001f_ffff));
    session
}

/// Returns a handler that answers one recipient, perhaps late.
fn refusing(recipient: &[u8], reply: Reply, late: u32) -> Scripted {
    Scripted {
        rcpt: HashMap::from([(recipient.to_vec(), reply)]),
        late,
        ..Scripted::default()
    }
}

/// Postfix sends a command line as long as `line_length_limit` allows. If we closed the connection
/// because of it, the message would pass unchecked.
#[test]
fn long_command_lines_do_not_end_the_connection() {
    let mut session = Session::new(Scripted::default());
    let long = [&b"<a@b.test>\0AUTH="[..], &[b'x'; 200_000], b"\0"].concat();
    let offer = [&offer(6, 0x1ff, 0x001f_ffff)[5..], &[0; 100]].concat();
    for (letter, payload) in [
        (b'O', &offer),
        (b'C', &vec![b'x'; 10_000]),
        (b'M', &long),
        (b'R', &long),
    ] {
        assert_eq!(feed(&mut session, &framed(letter, payload)).1, None);
    }
    let calls = &session.handler().calls;
    assert_eq!(calls[1..], ["mail <a@b.test>", "rcpt <a@b.test>"]);
}

/// The handler gets the recipients again, and may need time for each; none of the answers is sent.
#[test]
fn a_session_handed_on_waits_for_what_was_answered_before() {
    let mut session = agreed(Scripted::default());
    feed(&mut session, &framed(b'M', b"<a@b.test>\0"));
    for recipient in [b"<c@b.test>\0", b"<d@b.test>\0"] {
        feed(&mut session, &framed(b'R', recipient));
    }
    let history = session.history(&[]);

    let late = Scripted {
        late: 2,
        ..Scripted::default()
    };
    let (mut session, _) = Session::resume(late, &history).expect("its own history");
    assert!(session.is_waiting());
    assert_eq!(session.history(&[]), history, "even before it has heard it");
    let sent = answer_waited_for(&mut session, &framed(b'L', b"From\0a@b.test\0"));
    assert!(sent.is_empty());
    let calls = &session.handler().calls;
    let told = ["mail <a@b.test>", "rcpt <c@b.test>", "rcpt <d@b.test>"];
    assert_eq!(calls[calls.len() - 3..], told);
    assert_eq!(session.history(&[]), history);
    // A new recipient is answered.
    let (sent, _) = feed(&mut session, &framed(b'R', b"<e@b.test>\0"));
    assert_eq!(sent, framed(b'c', b""));
}

/// After a handover at each packet, a session still knows client, sender, recipients and macros.
#[test]
fn a_session_handed_on_knows_its_macros() {
    let mut handler = Scripted::default();
    handler.rcpt.insert(b"<no@b.test>".to_vec(), Reply::Reject);
    let commands: [(u8, &[u8]); 12] = [
        (b'C', b"mail.test\x004\x04\xd2192.0.2.1\0"),
        (b'D', b"M{auth_authen}\0me\0"),
        (b'M', b"<a@b.test>\0SIZE=10\0"),
        (b'D', b"Ri\0AB12\0"),
        (b'R', b"<c@b.test>\0"),
        (b'D', b"Ri\0AB12\0"),
        (b'R', b"<no@b.test>\0"),
        (b'D', b"Ri\0AB12\0"),
        (b'R', b"<d@b.test>\0"),
        (b'A', b""),
        (b'D', b"M{auth_authen}\0you\0"),
        (b'M', b"<e@b.test>\0"),
    ];
    let mut session = agreed(handler.clone());
    let connect = "connect mail.test 192.0.2.1 port 1234";
    for (n, (letter, payload)) in commands.into_iter().enumerate() {
        assert_eq!(feed(&mut session, &framed(letter, payload)).1, None);
        let history = session.history(&[]);
        (session, _) = Session::resume(handler.clone(), &history).expect("its own history");
        let told: &[&str] = match n {
            8 => &[
                "mail <a@b.test> auth_authen=me",
                "rcpt <c@b.test> i=AB12 auth_authen=me",
                "rcpt <d@b.test> i=AB12 auth_authen=me",
            ],
            9 => &[],
            11 => &["mail <e@b.test> auth_authen=you"],
            _ => continue,
        };
        assert_eq!(session.handler().calls, [&[connect], told].concat());
    }
    let offered = &offer(6, 0x1ff, 0x001f_ffff)[5..];
    for broken in [
        &b"short"[..],
        &[0; 16],
        &[offered, &framed(b'Q', b"")].concat(),
        // Half a packet, and input without its length.
        &[offered, &framed(b'M', b"<a@b.test>\0")[..9]].concat(),
        &[offered, &framed(b'O', b"\0\0\0\0")].concat(),
    ] {
        assert!(Session::resume(handler.clone(), broken).is_none());
    }
}

/// The bytes that each version writes and reads.
#[test]
fn the_form_of_a_history_stays() {
    let agreed = b"\0\0\0\x06\0\0\0\x31\0\0\x53\x92";
    let client = b"\0\0\0\x04Ch\x004\0\0\0\x08DMi\0ABC\0";
    let message = b"\0\0\0\x05M<a>\0\0\0\0\x05R<b>\0";
    let first = [&agreed[..], &client[..], message].concat();
    let handler = Scripted::default();
    let resumed = Session::resume(handler.clone(), &first);
    let (mut session, _) = resumed.expect("the first version's");
    let calls = ["connect h Inet", "mail <a> i=ABC", "rcpt <b> i=ABC"];
    assert_eq!(session.handler().calls, calls);
    assert_eq!(session.history(&[]), first);

    feed(&mut session, b"\0\0\0\x05Lf\0v\0");
    let late = [
        &first[..],
        b"\0\0\0\x05Lf\0v\0",
        // A recipient without an answer, and half a packet.
        b"\0\0\0\x06O\0\0\0\0\0\0\0\0\x05R<c>\0\0\0\0\x05R<",
    ];
    let unread = b"\0\0\0\x05R<c>\0\0\0\0\x05R<";
    assert_eq!(session.history(unread), late.concat());
    let (session, found) = Session::resume(handler, &late.concat()).expect("its own");
    assert_eq!(found, unread);
    assert_eq!(session.handler().calls[3..], ["header f: v"]);
}

/// A list may change between two processes: an accepted recipient is then refused.
#[test]
fn a_recipient_refused_after_a_handover_puts_the_message_off() {
    for (reply, answer) in [
        (Reply::Reject, b't'),
        (Reply::Tempfail, b't'),
        (Reply::Accept, b'a'),
    ] {
        let mut session = agreed(Scripted::default());
        for recipient in ["<a@b.test>\0", "<c@b.test>\0"] {
            feed(&mut session, &framed(b'M', b"<x@b.test>\0"));
            feed(&mut session, &framed(b'R', recipient.as_bytes()));
        }
        let history = session.history(&[]);
        for late in [0, 1] {
            let changed = refusing(b"<c@b.test>", reply.clone(), late);
            let (mut session, _) = Session::resume(changed, &history).expect("its history");
            for packet in [framed(b'R', b"<d@b.test>\0"), framed(b'N', b"")] {
                let (sent, end) = feed(&mut session, &packet);
                assert_eq!((sent.last(), end), (Some(&answer), None));
            }
            // For a third process, with the old list, the message has parts that nobody has seen.
            let third = |session: &Session<Scripted>| {
                let third = Session::resume(Scripted::default(), &session.history(&[]));
                third.expect("its history").0.handler().calls.clone()
            };
            assert_eq!(third(&session).last().unwrap(), "incomplete");
            feed(&mut session, &framed(b'A', b""));
            assert!(third(&session).is_empty());
        }
    }
}

// ------------------------------------------------------------------ properties

/// Generates a command with a payload that may or may not fit it.
fn command() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let letter = prop_oneof![
        20 => proptest::sample::select(&b"CDHMRTLNBEUAK"[..]),
        10 => proptest::sample::select(&b"MRLNE"[..]),
        1 => proptest::sample::select(&b"OQ"[..]),
        1 => any::<u8>(),
    ];
    let payload = prop_oneof![
        4 => Just(b"<a@b.test>\0".to_vec()),
        2 => Just(b"From\0 <a@b.test>\n\tx\0".to_vec()),
        2 => Just(b"Mi\0AB12\0{auth_authen}\0me\0".to_vec()),
        1 => Just(Vec::new()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (8000_usize..140_000).prop_map(|len| vec![b'x'; len]),
    ];
    (letter, payload)
}

fn answer() -> impl Strategy<Value = Option<Reply>> {
    let text = ReplyText::new(550, "5.7.1", &["no", "100% no"]).expect("a good text");
    proptest::sample::select(vec![
        None,
        Some(Reply::Continue),
        Some(Reply::Accept),
        Some(Reply::Reject),
        Some(Reply::Tempfail),
        Some(Reply::Discard),
        Some(Reply::Text(text)),
    ])
}

fn handler() -> impl Strategy<Value = Scripted> {
    let drawn = (answer(), answer(), answer());
    drawn.prop_map(|(rcpt, headers, message)| Scripted {
        rcpt: rcpt
            .into_iter()
            .map(|reply| (b"<a@b.test>".to_vec(), reply))
            .collect(),
        headers,
        message,
        edits: vec![
            added("X-A", b"a"),
            added("X-A", b"a\nInjected: yes"),
            Edit::Quarantine("held".to_owned()),
        ],
        ..Scripted::default()
    })
}

fn offer(version: u32, actions: u32, steps: u32) -> Vec<u8> {
    framed(
        b'O',
        &[version, actions, steps].map(u32::to_be_bytes).concat(),
    )
}

/// Returns the letters of the sent packets, in order, and the agreed steps.
fn letters(mut sent: &[u8]) -> (Vec<u8>, u32) {
    let mut letters = Vec::new();
    let mut steps = 0;
    while let Some((length, rest)) = sent.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let (packet, rest) = rest.split_at(length);
        sent = rest;
        letters.push(packet[0]);
        if packet[0] == b'O' {
            steps = u32::from_be_bytes(packet[9..13].try_into().expect("four bytes"));
        }
    }
    assert!(sent.is_empty(), "whole packets are sent");
    (letters, steps)
}

/// Returns whether the server waits for an answer. Written independently of the code, from the
/// table of the protocol.
fn is_awaited(letter: u8, steps: u32) -> bool {
    match letter {
        b'A' | b'D' | b'K' | b'Q' => false,
        b'C' => steps & 0x1000 == 0,
        b'H' => steps & 0x2000 == 0,
        b'M' => steps & 0x4000 == 0,
        b'R' => steps & 0x8000 == 0,
        b'T' => steps & 0x1_0000 == 0,
        b'U' => steps & 0x2_0000 == 0,
        b'N' => steps & 0x4_0000 == 0,
        b'B' => steps & 0x8_0000 == 0,
        b'L' => steps & 0x80 == 0,
        _ => true,
    }
}

proptest! {
    /// For any input in any order: one answer to each command that waits for one, none to any
    /// other, and nothing that was not agreed.
    #[test]
    fn exactly_the_awaited_commands_are_answered(
        handler in handler(),
        offered_steps in any::<u32>().prop_map(|steps| steps & 0x001f_ffff),
        offered_actions in any::<u32>().prop_map(|actions| actions & 0x1ff),
        version in 2_u32..8,
        commands in proptest::collection::vec(command(), 0..40),
    ) {
        let mut session = Session::new(handler);
        let (sent, end) = feed(&mut session, &offer(version, offered_actions, offered_steps));
        prop_assert_eq!(end, None);
        let (first, steps) = letters(&sent);
        prop_assert_eq!(&first[..], b"O");
        // An empty offer means that of the first version.
        let offered_steps = if offered_steps == 0 { 0x3f } else { offered_steps };
        prop_assert_eq!(steps & !offered_steps, 0);

        for (letter, payload) in commands {
            let (sent, end) = feed(&mut session, &framed(letter, &payload));
            if end.is_some() {
                prop_assert!(sent.is_empty(), "an end is no answer");
                break;
            }
            let (sent, _) = letters(&sent);
            let (edits, finals): (Vec<u8>, Vec<u8>) =
                sent.into_iter().partition(|letter| b"himq".contains(letter));
            let expected = usize::from(is_awaited(letter, steps));
            prop_assert_eq!(finals.len(), expected, "{:?} to {:?}", finals, char::from(letter));
            prop_assert!(finals.iter().all(|letter| b"cartyds".contains(letter)));
            prop_assert!(finals != b"s" || (letter == b'B' && steps & 0x400 != 0));
            if letter != b'E' {
                prop_assert!(edits.is_empty());
            }
            for edit in edits {
                let needed = if edit == b'q' { 0x20 } else { 0x1 };
                prop_assert!(offered_actions & needed != 0 || offered_actions == 0);
            }
        }
    }

    /// The calls and answers do not depend on how the stream is split and how late the answers are.
    #[test]
    fn any_split_gives_the_same(
        handler in handler(),
        commands in proptest::collection::vec(command(), 0..20),
        sizes in proptest::collection::vec(1_usize..5000, 1..8),
        late in 0_u32..3,
    ) {
        let mut stream = offer(6, 0x1ff, 0x001f_ffff);
        stream.extend(commands.iter().flat_map(|(letter, payload)| framed(*letter, payload)));

        let mut at_once = Session::new(handler.clone());
        let (expected, expected_end) = feed(&mut at_once, &stream);

        let mut in_pieces = Session::new(Scripted { late, ..handler });
        let mut rest = &stream[..];
        let pieces = sizes.iter().cycle().map_while(|size| {
            rest.split_off(..rest.len().min(*size)).filter(|piece| !piece.is_empty())
        });
        let (sent, end) = feed_each(&mut in_pieces, pieces);
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(end, expected_end);
        prop_assert_eq!(&in_pieces.handler().calls, &at_once.handler().calls);
    }

    /// A connection that is passed from session to session, inside packets and while an answer is
    /// pending too, gets the same answers as from a single session.
    #[test]
    fn a_session_goes_on_where_another_has_left_off(
        handler in handler(),
        commands in proptest::collection::vec(command(), 0..30),
        sizes in proptest::collection::vec(1_usize..5000, 1..8),
        late in 0_u32..3,
    ) {
        let mut stays = Session::new(handler.clone());
        let (mut stream, mut expected, mut expected_end) = (Vec::new(), Vec::new(), None);
        // After a verdict, a mail server sends no more of the message.
        let mut decided = false;
        let offer = (b'O', offer(6, 0x1ff, 0x001f_ffff)[5..].to_vec());
        for (letter, payload) in std::iter::once(offer).chain(commands) {
            decided &= !b"ACHKM".contains(&letter);
            if decided {
                continue;
            }
            let packet = framed(letter, &payload);
            let (sent, end) = feed(&mut stays, &packet);
            stream.extend(packet);
            decided |= b"RLNBE".contains(&letter) && !sent.ends_with(b"\0\0\0\x01c");
            expected.extend(sent);
            expected_end = end;
            if end.is_some() {
                break;
            }
        }

        let fresh = Scripted { late, ..handler };
        let mut moves = Session::new(fresh.clone());
        let (mut sent, mut end, mut unread) = (Vec::new(), None, Vec::new());
        let mut sizes = sizes.into_iter().cycle();
        let mut turns = 0;
        while end.is_none() && (!stream.is_empty() || !unread.is_empty() || moves.is_waiting()) {
            let size = sizes.next().unwrap_or_default().min(stream.len());
            unread.extend(stream.drain(..size));
            // It has all of a command, but not processed it.
            let Ok(progress) = moves.receive_up_to(0, &unread, &mut Vec::new()) else {
                end = Some(End::Closed);
                break;
            };
            unread.drain(..progress.taken);
            let resumed = Session::resume(fresh.clone(), &moves.history(&unread));
            let input;
            (moves, input) = resumed.expect("its own history");
            prop_assert!(input.ends_with(&unread));
            let mut out = Vec::new();
            sent.extend(answer_waited_for(&mut moves, &input));
            // What it does not take is handed on with the rest.
            let taken = match moves.receive(&input, &mut out) {
                Err(_) => {
                    end = Some(End::Closed);
                    input.len()
                }
                Ok(progress) => {
                    end = (progress.status == Status::Quit).then_some(End::Quit);
                    progress.taken
                }
            };
            sent.extend(out);
            unread = input[taken..].to_vec();
            // Every second time, the pending answer is left to the next.
            turns += 1;
            if turns % 2 == 0 {
                sent.extend(answer_waited_for(&mut moves, &unread));
            }
        }
        prop_assert_eq!(&sent, &expected);
        prop_assert_eq!(end, expected_end);
        // The last one knows all of the message.
        if end.is_none() && stays.is_inside_message() {
            let heard = |session: &Session<Scripted>, what: &str| {
                let calls = &session.handler().calls;
                let from = calls.iter().rposition(|call| call.starts_with("mail"));
                let calls = calls[from.unwrap_or_default()..].iter();
                calls.filter(|call| call.starts_with(what)).cloned().collect::<Vec<_>>()
            };
            prop_assert_eq!(heard(&moves, "header "), heard(&stays, "header "));
        }
    }

    /// Meaningless bytes end a connection, and have no other effect.
    #[test]
    fn garbage_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut session = Session::new(Scripted::default());
        let mut out = Vec::new();
        let _: Result<_, ProtocolError> = session.receive(&bytes, &mut out);
    }
}
