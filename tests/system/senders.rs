//! Spelled senders, evasions and innocent ones: `explain` and each door of the daemon judge as
//! `tests/senders/corpus.txt` says.

use blocklist_milter::demo::peer::TestMail;
use blocklist_milter::endpoint::Door;
use blocklist_milter::explain::{Explainer, Headers, Mail};
use blocklist_milter::sender::Identity;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::doors::Client;
use crate::support::corpus::{self, Row, Verdict};
use crate::support::rig::{Rig, verdict};

/// Returns a daemon that checks every sender field, and refuses weak senders too, or ignores them.
fn rig(rows: &[Row], weak: &str) -> Rig {
    let names: Vec<String> = Identity::ALL.iter().map(|i| format!("'{i}'")).collect();
    let names = names.join(", ");
    let config =
        format!("[[list]]\nname = 'bad'\nfilter = 'bad.blf'\ncheck = [{names}]\nweak = '{weak}'\n");
    let list = corpus::entries(rows).join("\n");
    Rig::new(&[("bad.list", &list)], &config)
}

/// Returns whether a message is refused, or `None` at a door that does not see the sender of this row.
type Asks = Box<dyn FnMut(&Row) -> Option<bool>>;

/// Returns how to ask at a door.
fn door(rig: &Rig, door: Door) -> Asks {
    let refuses = |answer: &str| answer.contains("550 5.7.1 ");
    match door {
        Door::Milter => {
            let mut peer = rig.peer();
            Box::new(move |row| {
                let mut mail = TestMail::new("", &["<user@mail.example>"], &[]);
                mail.mail_from.clone_from(&row.mail_from);
                mail.headers = Headers::read(&*row.message()).unwrap().fields;
                Some(verdict(&peer.deliver(&mail).unwrap()) == "reject")
            })
        }
        Door::Policy => {
            let mut client = Client::new(rig, "policy");
            Box::new(move |row| {
                let sender = STANDARD.encode(&row.mail_from);
                let common = format!("recipient=user@mail.example sender_base64={sender}");
                let asked = client.ask(&format!("protocol_state=RCPT {common}"));
                // Without the body of some rows.
                let fields = Headers::read(&*row.message()).unwrap().fields;
                let line =
                    |(name, value): &(Vec<u8>, Vec<u8>)| [name, &b": "[..], value, b"\n"].concat();
                let header = STANDARD.encode(fields.iter().flat_map(line).collect::<Vec<_>>());
                let block = format!("protocol_state=DATA {common} headers_base64={header}");
                Some(refuses(&asked) || refuses(&client.ask(&block)))
            })
        }
        Door::SocketMap => {
            let mut client = Client::new(rig, "socketmap");
            Box::new(move |row| Some(refuses(&client.map(plain(row)?))))
        }
        Door::Rspamd => {
            let mut client = Client::new(rig, "rspamd");
            Box::new(move |row| Some(refuses(&client.get(plain(row)?))))
        }
    }
}

/// Returns an envelope sender as a mail server understands it, if that takes no server.
fn plain(row: &Row) -> Option<&str> {
    let argument = std::str::from_utf8(&row.mail_from).ok()?;
    let address = argument.strip_prefix('<')?.strip_suffix('>')?;
    let is_plain = address
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"@.-=".contains(&byte));
    (row.field.is_empty() && is_plain && !address.starts_with('@')).then_some(address)
}

/// What is in front of the first field, or is no field, is the body.
#[test]
fn a_body_has_no_senders() {
    for text in [
        " indented\nFrom: spam@bad.example\n",
        "no field\nFrom: spam@bad.example\n",
    ] {
        assert_eq!(Headers::read(text.as_bytes()).unwrap().fields, []);
    }
}

#[test]
fn every_row_comes_to_its_verdict() {
    let rows = corpus::rows();
    assert!(rows.len() > 200, "{}", rows.len());
    for weak in ["full", "ignore"] {
        let rig = rig(&rows, weak);
        let mut explainer = Explainer::open(&rig.path("c.toml"), &[]).unwrap();
        let mut doors = Door::ALL.map(|one| (one, door(&rig, one), 0));
        let mut wrong = Vec::new();
        for row in &rows {
            let is_refused = match row.verdict {
                Verdict::Found => true,
                Verdict::Weak => weak == "full",
                Verdict::No => false,
            };
            let mail = Mail {
                mail_from: Some(row.mail_from.clone()),
                recipients: vec![b"<user@mail.example>".to_vec()],
                headers: Headers::read(&*row.message()).unwrap(),
                ..Mail::default()
            };
            let explained = explainer.explain(&mail);
            if (explained.decision.verdict == "reject") != is_refused {
                wrong.push(format!("explain, weak = {weak}: {}", row.text));
            }
            // In the field of the row alone, and by the entry of the row.
            let named = explained.identities.iter();
            for named in named.filter(|named| named.list.is_some()) {
                let field = match row.field {
                    "" => Some(Identity::MailFrom),
                    field => Identity::of_header(field.as_bytes()),
                };
                if field.is_none_or(|field| field.name() != named.identity) {
                    wrong.push(format!("found in {}: {}", named.identity, row.text));
                }
            }
            for (door, ask, asked) in &mut doors {
                let Some(refused) = ask(row) else { continue };
                *asked += 1;
                if refused != is_refused {
                    wrong.push(format!("{}, weak = {weak}: {}", door.name(), row.text));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for (door, _, asked) in doors {
            assert!(asked > 0, "nothing was asked at the door {}", door.name());
        }
    }
}
