//! The other doors: policy delegation, socketmap and rspamd. They judge as the milter does.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::support::rig::Rig;
use crate::support::{has, rows, until_so};

const LISTS: &[(&str, &str)] = &[
    ("spam.list", "@bad.example\nfriend@bad.example\n"),
    ("mild.list", "@mild.example\n"),
    ("hold.list", "@hold.example\n"),
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
[whitelist]
entries = ['friend@bad.example']
[exempt]
networks = ['198.51.100.0/24']
";

const DUNNO: &str = "action=DUNNO\n\n";
/// A request about an innocent sender.
const INNOCENT: &str = "protocol_state=RCPT sender=a@ok.example recipient=b@c.d";

/// A connection to a door.
struct Client(UnixStream);

impl Client {
    fn new(rig: &Rig, door: &str) -> Self {
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

    fn ask(&mut self, lines: &str) -> String {
        self.send(policy(lines).as_bytes());
        self.answer("\n\n")
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0))
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
        RCPT sender=<A@Bad.Example> recipient=b@our.example          | | 550 5.7.1\\s
        RCPT sender=a@ok.example recipient=b@our.example             | | DUNNO
        RCPT sender= recipient=b@our.example                         | | DUNNO
        RCPT sender=friend@bad.example recipient=b@our.example       | | DUNNO
        RCPT sender=a@bad.example recipient=postmaster@our.example   | | DUNNO
        RCPT sender=a@bad.example recipient=b@c.d sasl_username=bob  | | DUNNO
        RCPT sender=a@bad.example recipient=b@c.d client_address=198.51.100.9 | | DUNNO
        MAIL sender=a@bad.example    |                    | DUNNO
        DATA                         | x <a@bad.example>  | 550 5.7.1 a@bad.example is on the sender blocklist spam (case\\s
        DATA                         | x <a@ok.example>   | DUNNO
        DATA                         | x <a@mild.example> | PREPEND X-Sender-Blocklist: list=mild; identity=from; address=a@mild.example
        DATA                         | x <a@hold.example> | HOLD\\s
        DATA sender=a@bad.example    |                    | 550 5.7.1 a@bad.example is on the sender blocklist spam (case\\s
        DATA recipients_base64=cG9zdG1hc3RlckBjLmQ= | a@bad.example | DUNNO
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
        let text = format!("list {sender}");
        client.send(format!("{}:{text},", text.len()).as_bytes());
        let length: usize = client.answer(":").trim_end_matches(':').parse().unwrap();
        let answer = client.read(length + 1);
        let is_right = answer.starts_with(expected) && answer.ends_with(',');
        assert!(is_right, "{answer}");
    }
    let mut client = Client::new(&rig, "rspamd");
    for [sender, code, expected] in rows(
        "
        a%40bad.example | 200 | 1 550 5.7.1 a@bad.example is on the sender blocklist spam
        a@ok.example    | 404 | not listed
        <>              | 404 | not listed
                        | 404 | not listed
        ",
    ) {
        client.send(format!("GET /?key={sender} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        let head = client.answer("\r\n\r\n");
        assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{head}");
        let (_, length) = head.split_once("Content-Length: ").unwrap();
        let length = length.split_whitespace().next().unwrap().parse();
        has(&client.read(length.unwrap()), expected);
    }
    // The null sender is a message at this door alone.
    until_so("messages are counted", || rig.live.counters.messages() == 6);
}

#[test]
fn what_is_no_request_ends_its_own_connection_alone() {
    let rig = Rig::new(LISTS, CONFIG);
    let huge = "x=y\n".repeat(300_000);
    for (door, bytes) in [
        ("policy", "EHLO x\n\n"),
        ("policy", "request=other\n\n"),
        (
            "policy",
            "request=smtpd_access_policy\nheaders_base64=!\n\n",
        ),
        ("policy", &huge),
        ("socketmap", "GET / HTTP/1.1\r\n"),
        ("socketmap", "9999999:"),
        ("socketmap", "3:a b;"),
        ("socketmap", "1:a,"),
        ("rspamd", "POST / HTTP/1.1\r\n\r\n"),
        ("rspamd", "\0\0\0\x0dO"),
    ] {
        let mut client = Client::new(&rig, door);
        // The daemon may close before it has read everything.
        let _ = client.0.write_all(bytes.as_bytes());
        let is_reset = |error: std::io::Error| error.kind() == ErrorKind::ConnectionReset;
        let read = client.0.read(&mut [0]);
        let end = read.map_or_else(is_reset, |read| read == 0);
        assert!(end, "{door}: {bytes:.40?}");
    }
    let mut client = Client::new(&rig, "policy");
    client.send(b"request=smtpd_access_policy\nsender=a@bad");
    assert_eq!(Client::new(&rig, "policy").ask(INNOCENT), DUNNO);
    client.0.shutdown(Shutdown::Write).unwrap();
    assert!(client.is_closed());
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
