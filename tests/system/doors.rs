//! The other doors: policy delegation, socketmap and rspamd. They judge as the milter does.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blocklist_milter::daemon::Service as _;
use serde_json::{Value, json};

use crate::support::rig::{OK, Rig, letter, verdict};
use crate::support::{has, rows, until_so};

const LISTS: &[(&str, &str)] = &[
    ("spam.list", "@bad.example\nfriend@bad.example\n"),
    ("mild.list", "@mild.example\n"),
    ("hold.list", "@hold.example\n"),
    ("long.list", "50%deal@long.example\n"),
];
const CONFIG: &str = "
[[list]]
name = 'spam'
filter = 'spam.blf'
[[list]]
name = 'mild'
filter = 'mild.blf'
action = 'tag'
[[list]]
name = 'hold'
filter = 'hold.blf'
action = 'quarantine'
[[list]]
name = 'long'
filter = 'long.blf'
[whitelist]
entries = ['friend@bad.example']
[exempt]
networks = ['198.51.100.0/24']
";

const DUNNO: &str = "action=DUNNO\n\n";
/// A request about an innocent sender.
const INNOCENT: &str = "protocol_state=RCPT sender=a@ok.example recipient=b@c.d";

/// A connection to a door.
pub(crate) struct Client(UnixStream);

impl Client {
    pub(crate) fn new(rig: &Rig, door: &str) -> Self {
        let stream = UnixStream::connect(rig.path(door)).expect("the daemon listens");
        let timeout = Some(Duration::from_secs(20));
        stream.set_read_timeout(timeout).expect("a socket");
        Self(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the daemon reads");
    }

    /// Reads up to the end of one answer.
    fn answer(&mut self, end: &str) -> String {
        let mut text = String::new();
        let mut byte = [0];
        while !text.ends_with(end) {
            match self.0.read(&mut byte).expect("an answer") {
                0 => panic!("closed after {text:?}"),
                _ => text.push(char::from(byte[0])),
            }
        }
        text
    }

    /// Reads an answer of this length.
    fn read(&mut self, length: usize) -> String {
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).expect("an answer");
        String::from_utf8(answer).expect("ASCII")
    }

    /// Reads the head of an answer by HTTP. Returns it, and the length of the text.
    fn http_head(&mut self) -> (String, usize) {
        let head = self.answer("\r\n\r\n");
        let (_, length) = head.split_once("Content-Length: ").expect("it has one");
        let length = length.split_whitespace().next().map(str::parse);
        let length = length.expect("a value").expect("a number");
        (head, length)
    }

    pub(crate) fn ask(&mut self, lines: &str) -> String {
        self.send(policy(lines).as_bytes());
        self.answer("\n\n")
    }

    /// Asks the socketmap for a key.
    pub(crate) fn map(&mut self, key: &str) -> String {
        let text = format!("list {key}");
        self.send(format!("{}:{text},", text.len()).as_bytes());
        let length: usize = self.answer(":").trim_end_matches(':').parse().unwrap();
        self.read(length + 1)
    }

    /// Asks the map of rspamd for a key; returns the head of the answer and its text.
    pub(crate) fn get(&mut self, key: &str) -> String {
        self.send(format!("GET /?key={key} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        let (head, length) = self.http_head();
        head + &self.read(length)
    }

    fn is_closed(&mut self) -> bool {
        // It may have been closed before everything was read.
        let is_reset = |error: std::io::Error| error.kind() == ErrorKind::ConnectionReset;
        let read = self.0.read(&mut [0]);
        read.map_or_else(is_reset, |read| read == 0)
    }
}

/// Writes a request: `sender=a@b recipient=c@d`.
fn policy(attributes: &str) -> String {
    let lines = attributes.split_whitespace().map(|one| format!("{one}\n"));
    let lines: String = lines.collect();
    format!("request=smtpd_access_policy\n{lines}\n")
}

#[test]
fn a_policy_request_gets_the_verdict_of_the_milter() {
    let rig = Rig::new(LISTS, CONFIG);
    let mut client = Client::new(&rig, "policy");
    // Attributes, the author in the header, and the answer.
    for [attributes, author, expected] in rows(
        "
        RCPT sender=a@bad.example recipient=b@our.example            | | 550 5.7.1 a@bad.example is on the sender blocklist spam (case\\s
        RCPT sender=A@Bad.Example recipient=b@our.example            | | 550 5.7.1\\s
        RCPT sender_base64=PEFAQmFkLkV4YW1wbGU+ recipient=b@c.d      | | 550 5.7.1\\s
        RCPT sender=a@ok.example recipient=b@our.example             | | DUNNO
        RCPT sender= recipient=b@our.example                         | | DUNNO
        RCPT sender=friend@bad.example recipient=b@our.example       | | DUNNO
        RCPT sender=a@bad.example recipient=postmaster@our.example   | | DUNNO
        RCPT sender=a@bad.example recipient=b@c.d sasl_username=bob  | | DUNNO
        RCPT sender=a@bad.example recipient=b@c.d client_address=198.51.100.9 | | DUNNO
        RCPT sender=a@bad.example recipient=b@c.d client_name=localhost | | 550 5.7.1\\s
        RCPT sender=a@bad.example recipient=b@c.d client_name=localhost client_address=unknown | | 550 5.7.1\\s
        RCPT sender=a@bad.example recipient=<postmaster@our.example> | | 550 5.7.1\\s
        MAIL sender=a@bad.example    |                    | 550 5.7.1\\s
        DATA sender=                 | x <a@bad.example>  | 550 5.7.1 a@bad.example is on the sender blocklist spam (case\\s
        DATA sender=                 | x <a@ok.example>   | DUNNO
        DATA sender=                 | x <a@mild.example> | PREPEND X-Sender-Blocklist: list=mild; identity=from; address=a@mild.example
        DATA sender=                 | x <a@hold.example> | HOLD\\s
        DATA sender=a@bad.example    |                    | 550 5.7.1 a@bad.example is on the sender blocklist spam (case\\s
        DATA sender= recipients_base64=cG9zdG1hc3RlckBjLmQ= | a@bad.example | DUNNO
        DATA sender= recipients_base64=cG9zdG1hc3RlckBjLmQsIGJAYy5k | a@bad.example | 550 5.7.1\\s
        DATA sender= recipients_base64=YkBjLmQsIHBvc3RtYXN0ZXJAYy5k | a@bad.example | 550 5.7.1\\s
        DATA sender= recipients_base64=ImEscG9zdG1hc3RlckBjLmQsYiJAYy5k | a@bad.example | 550 5.7.1\\s
        ",
    ) {
        let mut request = format!("protocol_state={attributes}");
        if !author.is_empty() {
            let block = format!("Received: by us\n\tat home\nFrom:\n {author}\nX: y\n");
            request += &format!(" headers_base64={}", STANDARD.encode(block));
        }
        let expected = format!("action={expected}");
        let answer = client.ask(&request);
        assert!(answer.starts_with(&expected), "{request}: {answer}");
        // In single bytes, and several at once.
        for byte in policy(&request).bytes() {
            client.send(&[byte]);
        }
        assert!(client.answer("\n\n").starts_with(&expected), "{request}");
        client.send(policy(&request).repeat(3).as_bytes());
        for _ in 0..3 {
            assert!(client.answer("\n\n").starts_with(&expected), "{request}");
        }
    }
}

/// Recipients and headers of one message are judged together, whether the mail server says so by
/// `instance` (Postfix) or by the recipients before (Exim).
#[test]
fn the_requests_of_a_message_belong_together() {
    let rig = Rig::new(LISTS, CONFIG);
    let mut client = Client::new(&rig, "policy");
    let rcpt = |instance: &str, recipient: &str| {
        format!("protocol_state=RCPT instance={instance} sender=a@ok.example recipient={recipient}")
    };
    let postmaster = client.ask(&rcpt("1", "postmaster@our.example"));
    assert_eq!(postmaster, DUNNO);
    let apart = client.ask(&rcpt("1", "b@our.example"));
    assert!(apart.starts_with("action=452 4.5.3 "), "{apart}");
    assert_eq!(client.ask(&rcpt("2", "b@our.example")), DUNNO);
    let tagged = "protocol_state=DATA instance=3 sender=a@mild.example recipient=b@our.example";
    let rcpt_of_it = tagged.replace("DATA", "RCPT");
    assert_eq!(client.ask(&rcpt_of_it), DUNNO);
    has(
        &client.ask(tagged),
        "action=PREPEND X-Sender-Blocklist: list=mild; identity=mail-from",
    );
    let again = client.ask(&tagged.replace("DATA", "END-OF-MESSAGE"));
    assert_eq!(again, DUNNO, "it was already judged");

    let before = STANDARD.encode("postmaster@our.example");
    let exim = format!(
        "protocol_state=RCPT sender=a@ok.example recipients_base64={before} recipient=b@our.example"
    );
    has(&client.ask(&exim), "action=452 4.5.3 ");
    for mark in ["", "1", "1"] {
        let refused = format!(
            "protocol_state=RCPT has_refused={mark} sender=a@bad.example recipient=b@our.example"
        );
        has(&client.ask(&refused), "action=550 5.7.1 ");
    }
    drop(client);
    // 1 and 2 are counted when the next begins, 3 with its answer, the last with its first recipient.
    let total = || rig.live.counters.messages();
    until_so("each message is counted once", || total() == 4);
}

#[test]
fn a_map_is_asked_for_an_envelope_sender() {
    let rig = Rig::new(LISTS, CONFIG);
    let mut client = Client::new(&rig, "socketmap");
    for [sender, expected] in rows(
        "
        a@bad.example  | OK 550 5.7.1 a@bad.example is on the sender blocklist spam
        a@ok.example   | NOTFOUND\\s
        <>             | NOTFOUND\\s
        a@mild.example | OK PREPEND X-Sender-Blocklist: list=mild;
        ",
    ) {
        let answer = client.map(sender);
        let is_right = answer.starts_with(expected) && answer.ends_with(',');
        assert!(is_right, "{answer}");
    }
    let mut client = Client::new(&rig, "rspamd");
    for [request, code, expected] in rows(
        "
        GET /?key=a%40bad.example  | 200 | 1 550 5.7.1 a@bad.example is on the sender blocklist spam
        GET /?key=a@ok.example     | 404 | not listed
        GET /?key=<>               | 404 | not listed
        GET /?key=                 | 404 | not listed
        GET /?x=&key=a+b%40bad.example | 200 | 1 550 5.7.1
        // As rspamd sends 50%deal@long.example: it does not escape the percent sign.
        GET /?key=50%deal%40long.example | 200 | 1 550 5.7.1
        GET /?key=50%25deal%40long.example | 200 | 1 550 5.7.1
        GET / key:50%deal@long.example | 200 | 1 550 5.7.1
        GET / key:50%25deal@long.example | 404 | not listed
        GET / Key:a@ok.example     | 404 | not listed
        GET / key:                 | 404 | not listed
        HEAD /?key=a@bad.example   | 200 |
        HEAD /?key=a@ok.example    | 404 |
        ",
    ) {
        let mut words = request.split(' ');
        let [method, path] = [(); 2].map(|()| words.next().unwrap_or_default());
        let field = words.next().unwrap_or("Host:x");
        client.send(format!("{method} {path} HTTP/1.1\r\n{field}\r\n\r\n").as_bytes());
        let (head, length) = client.http_head();
        assert!(
            head.starts_with(&format!("HTTP/1.1 {code} ")),
            "{request}: {head}"
        );
        assert!(length > 0 && !head.contains("Connection"), "{head}");
        if method == "GET" {
            has(&client.read(length), expected);
        }
    }
    for [version, field, goes_on] in rows(
        "
        1.1 | Connection: close      | no
        1.1 | Connection: keep-alive | yes
        1.0 | Host: x                | no
        1.0 | Connection: Keep-Alive | yes
        ",
    ) {
        let mut client = Client::new(&rig, "rspamd");
        let request = format!("GET /?key=a@bad.example HTTP/{version}\r\n{field}\r\n\r\n");
        client.send(request.repeat(2).as_bytes());
        let (head, length) = client.http_head();
        client.read(length);
        let is_last = head.contains("Connection: close\r\n");
        assert_eq!(is_last, goes_on == "no", "{request}");
        match is_last {
            true => assert!(client.is_closed(), "{request}"),
            false => assert_eq!(client.http_head().1, length, "{request}"),
        }
    }
    // The null sender is a message at this door alone.
    until_so("messages are counted", || {
        rig.live.counters.messages() == 20
    });
}

/// Returns local parts with each printable character at five places, and some that look like more than that.
fn local_parts() -> Vec<String> {
    let places = |c: char| {
        [
            format!("{c}"),
            format!("{c}x"),
            format!("x{c}y"),
            format!("x{c}"),
            format!("x{c}{c}"),
        ]
    };
    let odd = [
        "ok@good.example",
        "<ok@good.example>",
        "<ok@good.example",
        "ok@good.example>",
        "spam@bad.example",
        "<spam@bad.example>",
        "x(y)",
        "x,<spam@bad.example>",
        "a b  c",
        "\\\"",
    ];
    let printable = (' '..='~').flat_map(places);
    printable.chain(odd.map(str::to_owned)).collect()
}

/// A mailbox as it is written, and as a mail server understands it.
fn forms(local: &str, domain: &str) -> [String; 2] {
    let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
    [
        format!("\"{quoted}\"@{domain}"),
        format!("{local}@{domain}"),
    ]
}

#[test]
fn every_door_reads_an_envelope_sender_as_the_milter_does() {
    let exact = local_parts().into_iter().step_by(2);
    let exact: String = exact
        .map(|local| forms(&local, "exact.example")[0].clone() + "\n")
        .collect();
    let rig = Rig::new(
        &[("spam.list", "@bad.example\n"), ("exact.list", &exact)],
        "
        [[list]]
        name = 'spam'
        filter = 'spam.blf'
        [[list]]
        name = 'exact'
        filter = 'exact.blf'
        ",
    );
    let [mut policy, mut socketmap, mut rspamd] =
        ["policy", "socketmap", "rspamd"].map(|door| Client::new(&rig, door));
    let mut peer = rig.peer();
    let mut refused = 0;
    for (local, domain) in local_parts().iter().flat_map(|local| {
        ["bad.example", "exact.example", "good.example"].map(|domain| (local, domain))
    }) {
        let [written, understood] = forms(local, domain);
        let outcome = peer
            .deliver(&letter(&format!("<{written}>"), &[OK]))
            .expect("an answer");
        let is_refused = verdict(&outcome) == "reject";
        assert!(is_refused || domain != "bad.example", "{written}");
        assert!(!is_refused || domain != "good.example", "{written}");
        refused += usize::from(is_refused);
        let [as_written, in_brackets] =
            [written.clone(), format!("<{written}>")].map(|text| STANDARD.encode(text));
        for sender in [
            format!("sender={understood}"),
            format!("sender_base64={as_written}"),
            format!("sender_base64={in_brackets}"),
        ] {
            policy.send(format!("request=smtpd_access_policy\nprotocol_state=RCPT\n{sender}\nrecipient=b@c.d\n\n").as_bytes());
            let answer = policy.answer("\n\n");
            assert_eq!(
                answer.starts_with("action=550 "),
                is_refused,
                "{sender}: {answer}"
            );
        }
        for key in [&understood, &written] {
            // A key with quotes may mean two mailboxes; then both count.
            let has_quotes = key == &understood && key.contains(['"', '\\']);
            let is_as_expected = |hit: bool| hit == is_refused || hit && has_quotes;
            socketmap.send(format!("{}:list {key},", key.len() + 5).as_bytes());
            let length: usize = socketmap
                .answer(":")
                .trim_end_matches(':')
                .parse()
                .expect("a length");
            let answer = socketmap.read(length + 1);
            assert!(
                is_as_expected(answer.starts_with("OK 550 ")),
                "{key}: {answer}"
            );
            let key: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
            rspamd.send(format!("GET /?key={key} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            let head = rspamd.answer("\r\n\r\n");
            let (_, length) = head.split_once("Content-Length: ").expect("a length");
            rspamd.read(length.trim().parse().expect("a length"));
            assert!(
                is_as_expected(head.starts_with("HTTP/1.1 200 ")),
                "{key}: {head}"
            );
        }
    }
    let all = local_parts().len();
    assert!(refused > all + all / 2 - 10, "{refused} of {all}");
}

#[test]
fn a_recipient_is_read_in_the_form_in_which_it_comes() {
    let config = "
        [[list]]
        name = 'spam'
        filter = 'spam.blf'
        recipients = ['\"a b\"@our.example', 'c@our.example']
        ";
    let rig = Rig::new(&[("spam.list", "@bad.example\n")], config);
    let mut client = Client::new(&rig, "policy");
    let written = |text: &str| format!("recipient_base64={}", STANDARD.encode(text));
    for (recipient, is_refused) in [
        ("recipient=a b@our.example".to_owned(), true),
        ("recipient=c@our.example".to_owned(), true),
        ("recipient=\"a b\"@our.example".to_owned(), false),
        ("recipient=<c@our.example>@other.example".to_owned(), false),
        (written("\"a b\"@our.example"), true),
        (written("<\"a b\"@our.example>"), true),
        (written("<C@our.example>"), true),
        (written("a@our.example"), false),
    ] {
        let sender = "sender=a@bad.example";
        client.send(
            format!("request=smtpd_access_policy\nprotocol_state=RCPT\n{sender}\n{recipient}\n\n")
                .as_bytes(),
        );
        let answer = client.answer("\n\n");
        assert_eq!(
            answer.starts_with("action=550 "),
            is_refused,
            "{recipient}: {answer}"
        );
    }
}

/// Of a large header block, Exim sends the fields of each name (`add_values` in `src/door/policy.rs`).
#[test]
fn fields_that_come_by_name_count_as_those_of_a_block() {
    let rig = Rig::new(LISTS, CONFIG);
    let mut client = Client::new(&rig, "policy");
    let long = "x".repeat(1 << 16);
    for (name, raw, list, more, expected) in [
        (
            "from",
            " a@bad.example\n",
            " a@bad.example",
            "",
            "550 5.7.1 ",
        ),
        ("from", " a@ok.example\n", " a@ok.example", "", "DUNNO"),
        (
            "from",
            " x <a@ok.example>\n\n a@bad.example\n",
            " x <a@ok.example>:: a@bad.example",
            "",
            "550 5.7.1 ",
        ),
        (
            "from",
            " x <a@ok.example>,\n a@bad.example\n",
            " x <a@ok.example>,\n a@bad.example",
            "",
            "550 5.7.1 ",
        ),
        (
            "from",
            " \"a@bad.example\n b\" <a@ok.example>\n",
            " \"a@bad.example\n b\" <a@ok.example>",
            "",
            "DUNNO",
        ),
        (
            "reply-to",
            " a@bad.example\n",
            " a@bad.example",
            "",
            "550 5.7.1 ",
        ),
        (
            "from",
            " a@ok.example\n",
            " a@ok.example",
            " hides_fields=1",
            "451 4.3.0 ",
        ),
        (
            "from",
            " a@bad.example\n",
            " a@bad.example",
            " hides_fields=1",
            "550 5.7.1 ",
        ),
        ("from", &long, &long, "", "451 4.3.0 "),
        ("message-id", &long, &long, "", "DUNNO"),
    ] {
        let [encoded_raw, encoded_list] = [raw, list].map(|text| STANDARD.encode(text));
        client.send(format!("request=smtpd_access_policy\nprotocol_state=DATA\nsender=\nfields={name} {encoded_raw} {encoded_list},sender  \n{}\n", more.trim().to_owned() + if more.is_empty() { "" } else { "\n" }).as_bytes());
        let answer = client.answer("\n\n");
        assert!(
            answer.starts_with(&format!("action={expected}")),
            "{name}: {raw:.40?}: {answer}"
        );
    }
}

/// What a door is asked in another way than usual: it understands, or says so. Nothing gets a "no" by that.
#[test]
fn an_odd_request_is_understood_or_is_a_fault() {
    let rig = Rig::new(LISTS, CONFIG);
    let faults = || rig.service.traffic().protocol_errors.get("request");
    let long = format!("a@{}.bad.example", "x".repeat(100_000));
    let is_asked = |door, request: &str, expected: &str| {
        let (before, is_fault) = (faults(), expected.starts_with('!'));
        let expected = match expected.trim_start_matches(['!', ' ']) {
            "451" => "action=451 4.3.0 cannot check the sender now, try again later\n\n",
            "400" => "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            "DUNNO" => DUNNO,
            other => other,
        };
        let mut client = Client::new(&rig, door);
        // The daemon may close before it has read everything.
        let _ = client.0.write_all(request.as_bytes());
        let what = format!("{door}: {:?}", &request[..request.len().min(99)]);
        assert_eq!(client.read(expected.len()), expected, "{what}");
        if is_fault {
            until_so("it is counted", || faults() > before);
            assert!(client.is_closed(), "{what}");
        }
        assert_eq!(faults() - before, u64::from(is_fault), "{what}");
    };
    // `!`: a fault, which is counted and ends the connection.
    for [attributes, expected] in rows(
        "
        sender=a@bad.example recipient=b@c.d          | action=550
        sender=a@ok.example recipient=b@c.d           | DUNNO
        sender=a@bad.example recipient=postmaster@c.d | DUNNO
        sender=                                       | DUNNO
        protocol_state=MAIL sender=a@bad.example      | action=550
        protocol_state=MAIL sender=a@hold.example     | action=HOLD
        protocol_state=MAIL sender=a@ok.example       | DUNNO
        protocol_state=MAIL sender=                   | DUNNO
        protocol_state=CONNECT sender=                | DUNNO
        protocol_state=RCPT sender=a@bad.example      | action=550
        protocol_state=NEW sender=a@bad.example       | action=550
        protocol_state=RCPT sender=LONG recipient=b@c.d | 451
        protocol_state=RCPT recipient=b@c.d           | ! 451
        protocol_state=DATA headers_base64=YQ==       | ! 451
        protocol_state=DATA sender= headers_base64=!  | ! 451
        ",
    ) {
        let request = policy(attributes).replace("LONG", &long);
        is_asked("policy", &request, expected);
        is_asked("policy", &request.replace('\n', "\r\n"), expected);
    }
    is_asked("policy", "request=other\nsender=a@bad.example\n\n", "! 451");
    is_asked("policy", "EHLO x\n\n", "! 451");
    is_asked("policy", &"x=y\n".repeat(300_000), "! 451");
    is_asked("socketmap", "16:a@b a@ok.example,", "9:NOTFOUND ,");
    for request in ["GET / HTTP/1.1\r\n", "9999999:", "3:a b;", "1:a,"] {
        is_asked("socketmap", request, "!");
    }
    for [head, expected] in rows(
        "
        GET / HTTP/1.1+key: a@bad.example                   | HTTP/1.1 200
        GET / HTTP/1.1+Host: x                              | ! 400
        HEAD / HTTP/1.1+Host: x                             | ! 400
        GET /?key=a@ok.example HTTP/1.1+Content-Length: 1   | ! 400
        POST / HTTP/1.1+Content-Length: 12                  | ! 400
        POST /?key=a@ok.example HTTP/1.1+Content-Length: 12 | ! 400
        ",
    ) {
        let request = head.replace('+', "\r\n") + "\r\n\r\n";
        is_asked("rspamd", &request, expected);
    }
    is_asked("rspamd", "\0\0\0\x0dO", "! 400");
    let (_, status) = rig.page("/status.json");
    has(&status, &format!("\"request\":{}", faults()));
    let mut client = Client::new(&rig, "policy");
    client.send(b"request=smtpd_access_policy\nsender=a@bad");
    assert_eq!(Client::new(&rig, "policy").ask(INNOCENT), DUNNO);
    client.0.shutdown(Shutdown::Write).unwrap();
    assert!(client.is_closed());

    let accepts = Rig::new(LISTS, &format!("on_error = 'accept'\n{CONFIG}"));
    let mut client = Client::new(&accepts, "policy");
    assert_eq!(client.ask("protocol_state=RCPT recipient=b@c.d"), DUNNO);
}

/// The door is named, and what could not be told to the mail server is not called done.
#[test]
fn what_a_door_cannot_do_counts_as_nothing_done() {
    let later = "[[list]]\nname = 'later'\nfilter = 'mild.blf'\naction = 'tempfail'\n";
    let rig = Rig::new(
        LISTS,
        &CONFIG.replacen("[whitelist]", &format!("{later}[whitelist]"), 1),
    );
    let json = || -> Value { serde_json::from_str(&rig.page("/status.json").1).unwrap() };
    let is_counted = |door: &str, action: &str, list: &str| {
        until_so(&format!("{door} {action}"), || {
            let last = &json()["decisions"][0];
            (&last["door"], &last["action"], &last["list"])
                == (&door.into(), &action.into(), &list.into())
        });
    };
    // As Postfix asks: about each recipient, and no more.
    let mut client = Client::new(&rig, "policy");
    for recipient in ["b@c.d", "c@c.d"] {
        let asked =
            format!("protocol_state=RCPT instance=1 sender=a@hold.example recipient={recipient}");
        assert_eq!(client.ask(&asked), DUNNO);
    }
    drop(client);
    is_counted("policy", "none", "hold");
    let mut client = Client::new(&rig, "policy");
    for recipient in ["b@c.d", "c@c.d"] {
        let asked =
            format!("protocol_state=RCPT instance=2 sender=a@bad.example recipient={recipient}");
        assert!(client.ask(&asked).starts_with("action=550 "));
    }
    drop(client);
    is_counted("policy", "reject", "spam");
    let mut client = Client::new(&rig, "policy");
    has(
        &client.ask("protocol_state=DATA sender=a@hold.example"),
        "action=HOLD ",
    );
    is_counted("policy", "quarantine", "hold");
    has(
        &Client::new(&rig, "socketmap").map("a@hold.example"),
        "OK HOLD ",
    );
    is_counted("socketmap", "quarantine", "hold");
    has(&Client::new(&rig, "rspamd").get("a@hold.example"), "200 OK");
    is_counted("rspamd", "none", "hold");
    has(&Client::new(&rig, "rspamd").get("a@mild.example"), "503 ");
    is_counted("rspamd", "none", "later");
    has(&Client::new(&rig, "rspamd").get("a@bad.example"), "200 OK");
    is_counted("rspamd", "reject", "spam");
    rig.is("<a@hold.example>", "quarantine");
    is_counted("milter", "quarantine", "hold");
    let counted = &json()["messages"];
    let expected = json!({"accept": 0, "none": 3, "log": 0, "tag": 0, "quarantine": 3, "discard": 0, "tempfail": 0, "reject": 2});
    assert_eq!(counted["verdicts"], expected);
    let expected = json!({"milter": 1, "policy": 3, "socketmap": 1, "rspamd": 3});
    assert_eq!(counted["doors"], expected);
    has(
        &rig.page("/metrics").1,
        "messages_by_door_total{door=\"policy\"} 3\n",
    );
}

/// Plays this many clients that stop inside a request, and one that asks without reading. Others are
/// answered meanwhile, and all of these when they go on.
fn crowd(slow: usize) {
    let rig = Rig::new(LISTS, CONFIG);
    for door in ["policy", "socketmap", "rspamd"] {
        let socket = std::fs::metadata(rig.path(door)).unwrap();
        assert_eq!(socket.permissions().mode() & 0o777, 0o660, "{door}");
    }
    let mut halves: Vec<_> = (0..slow).map(|_| Client::new(&rig, "policy")).collect();
    for half in &mut halves {
        half.send(b"request=smtpd_access_policy\nsender=a@bad");
    }
    let mut deaf = Client::new(&rig, "policy");
    deaf.0.set_nonblocking(true).expect("a socket");
    let request = policy(INNOCENT);
    let mut unread = 0;
    let rest = loop {
        match deaf.0.write(request.as_bytes()) {
            Ok(written) if written == request.len() => unread += 1,
            Ok(written) => break &request[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => break &request[..],
            Err(error) => panic!("{error}"),
        }
    };
    let mut other = Client::new(&rig, "policy");
    for _ in 0..100 {
        assert_eq!(other.ask(INNOCENT), DUNNO);
    }
    for half in &mut halves {
        half.send(b".example\nprotocol_state=RCPT\nrecipient=b@c.d\n\n");
        has(&half.answer("\n\n"), "action=550 ");
    }
    deaf.0.set_nonblocking(false).expect("a socket");
    for _ in 0..unread {
        assert_eq!(deaf.answer("\n\n"), DUNNO);
    }
    deaf.send(rest.as_bytes());
    assert_eq!(deaf.answer("\n\n"), DUNNO);
}

#[test]
fn slow_clients_keep_nobody_waiting() {
    crowd(200);
}

#[test]
#[ignore = "needs 18,100 descriptors: tests/run --long"]
fn nine_thousand_slow_clients_keep_nobody_waiting() {
    crowd(9_000);
}
