//! The doors besides milter, in a conversation without a socket: how one process passes it to the next.

use std::task::{Context, Poll, Waker};

use blocklist_milter::door::Conversation;
use blocklist_milter::endpoint::Door;
use blocklist_milter::milter::{Edit, Handler, Macros, Mailbox, Reply, Status};
use proptest::prelude::*;

/// Notes what it is told, and refuses the recipient `no@b`; some answers are late.
#[derive(Default)]
struct Noting {
    calls: Vec<String>,
    is_late: bool,
    refused: u32,
}

impl Noting {
    fn note(&mut self, call: &str, mailbox: Mailbox<&[u8]>) {
        let mailbox = mailbox.written();
        let text = String::from_utf8_lossy(&mailbox);
        self.calls.push(format!("{call} {text}"));
    }

    fn reply(&mut self) -> Reply {
        let is_refused = self.calls.last().is_some_and(|call| call == "rcpt no@b");
        self.refused += u32::from(is_refused);
        match is_refused {
            true => Reply::Reject,
            false => Reply::Continue,
        }
    }
}

impl Handler for &mut Noting {
    fn mail(&mut self, sender: Mailbox<&[u8]>, _: &Macros) {
        self.note("mail", sender);
        self.refused = 0;
    }

    fn rcpt(&mut self, recipient: Mailbox<&[u8]>, _: &Macros) -> Reply {
        self.note("rcpt", recipient);
        match self.is_late {
            true => Reply::Later,
            false => self.reply(),
        }
    }

    fn accepted(&mut self, recipient: Mailbox<&[u8]>) {
        self.note("accepted", recipient);
    }

    fn mark_counted(&mut self) {
        self.calls.push("counted".to_owned());
        self.refused = 1;
    }

    fn is_counted(&self) -> bool {
        self.refused > 0
    }

    fn end_of_headers(&mut self, _: &Macros) -> Reply {
        self.calls.push("end".to_owned());
        match self.is_late {
            true => Reply::Later,
            false => Reply::Accept,
        }
    }

    fn end_of_message(&mut self, _: &Macros, _: &mut Vec<Edit>) -> Reply {
        Reply::Accept
    }

    fn poll_later(&mut self, _: &mut Context<'_>) -> Poll<Reply> {
        Poll::Ready(self.reply())
    }
}

/// Plays input to a conversation that another process continues at each of these places, and once more at its end. Only the
/// last process waits for late answers. Returns the answers, and what the processes were told.
fn play(door: Door, input: &str, cuts: &[usize], is_late: bool) -> (String, Vec<String>) {
    let (mut out, mut calls) = (Vec::new(), Vec::new());
    let (mut history, mut begin) = (None::<Vec<u8>>, 0);
    let ends: Vec<usize> = [cuts, &[input.len(); 2]].concat();
    for (n, end) in ends.iter().copied().enumerate() {
        let mut noting = Noting {
            is_late,
            ..Noting::default()
        };
        let (mut conversation, mut unread) = match &history {
            None => (Conversation::new(door, &mut noting), Vec::new()),
            Some(history) => Conversation::resume(|_| &mut noting, history).expect("its own"),
        };
        unread.extend_from_slice(&input.as_bytes()[begin..end]);
        begin = end;
        let mut received = conversation.receive_up_to(usize::MAX, &unread, &mut out);
        while received.expect("requests").status == Status::Waiting && n + 1 == ends.len() {
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(conversation.poll_answer(cx, &mut out).is_ready());
            received = conversation.receive_up_to(usize::MAX, &[], &mut out);
        }
        history = Some(conversation.history(&[]));
        drop(conversation);
        calls.extend(noting.calls);
    }
    (String::from_utf8(out).expect("ASCII"), calls)
}

fn about(state: &str, instance: &str, recipient: &str) -> String {
    format!(
        "request=smtpd_access_policy\nprotocol_state={state}\ninstance={instance}\nsender=a@b\nrecipient={recipient}\n\n"
    )
}

/// The next version reads it, too.
#[test]
fn the_form_of_what_is_passed_on_stays() {
    let history = |door, input: &[u8]| {
        let mut noting = Noting::default();
        let mut conversation = Conversation::new(door, &mut noting);
        let receive = conversation.receive_up_to(usize::MAX, input, &mut Vec::new());
        receive.expect("a request");
        String::from_utf8(conversation.history(b"@")).expect("ASCII")
    };
    assert_eq!(history(Door::Rspamd, b""), "rspamd 0 \n@");
    assert_eq!(
        history(Door::SocketMap, b"9:list a"),
        "socketmap 0 \n9:list a@"
    );
    let rcpt = about("RCPT", "1.2", "c d@b");
    let open = rcpt.replace(
        "\n\n",
        "\nrecipients_base64=ImMgZCJAYg==,\nhas_refused=0\n\n",
    );
    let expected = format!("policy {} \n{open}sen@", open.len());
    assert_eq!(
        history(Door::Policy, format!("{rcpt}sen").as_bytes()),
        expected
    );
    let ended = about("DATA", "1.2", "c@b");
    assert_eq!(history(Door::Policy, ended.as_bytes()), "policy 0 1.2\n@");

    for foreign in [
        "policy",
        "policy 0",
        "policy 9 \nx",
        "policy x \n",
        "smtp 0 \n",
        "milter 0 \n",
    ] {
        let mut noting = Noting::default();
        assert!(
            Conversation::resume(|_| &mut noting, foreign.as_bytes()).is_none(),
            "{foreign}"
        );
    }
    let milter = Conversation::new(Door::Milter, &mut Noting::default()).history(&[]);
    assert!(milter.is_empty());
}

/// Postfix leaves the transaction open after a refused DATA, which the client may send again.
#[test]
fn a_message_that_was_refused_is_decided_again() {
    let data = about("DATA", "1", "no@b");
    let (answers, _) = play(Door::Policy, &data.repeat(2), &[], false);
    let (first, second) = answers.split_at(answers.len() / 2);
    assert!(!first.contains("DUNNO"), "{first}");
    assert_eq!(first, second);

    let passed = about("DATA", "1", "ok@b");
    let (answers, told) = play(
        Door::Policy,
        &(passed + &about("RCPT", "1", "no@b")),
        &[],
        false,
    );
    assert!(answers.starts_with("action=DUNNO\n\naction=5"), "{answers}");
    assert!(told.contains(&"rcpt no@b".to_owned()), "{told:?}");
}

/// It knows the recipients that were accepted, and whether the message was counted. What has no answer is asked again.
#[test]
fn the_next_process_knows_the_open_message() {
    let rcpt = ["ok@b", "no@b", "too@b"].map(|recipient| about("RCPT", "1", recipient));
    let input = rcpt.concat() + &about("DATA", "1", "") + &about("END-OF-MESSAGE", "1", "");
    let cuts = [rcpt[0].len(), rcpt[..2].concat().len()];
    let (answers, told) = play(Door::Policy, &input, &cuts, false);
    let first = ["mail a@b", "rcpt ok@b"];
    let second = ["mail a@b", "accepted ok@b", "rcpt no@b"];
    let third = ["mail a@b", "counted", "accepted ok@b", "rcpt too@b", "end"];
    assert_eq!(told, [&first[..], &second, &third].concat());

    let (late, told) = play(Door::Policy, &input, &cuts, true);
    assert_eq!(late, answers);
    let last = ["mail a@b", "rcpt ok@b", "rcpt no@b", "rcpt too@b", "end"];
    assert_eq!(told, [&first[..], &first, &first, &last].concat());
}

proptest! {
    /// Late or not, each request is answered once, and as if there were one process.
    #[test]
    fn the_answers_do_not_depend_on_the_process(
        door in 0..3_usize,
        picked in proptest::collection::vec(0..4_usize, 1..6),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        is_late: bool,
    ) {
        let door = [Door::Policy, Door::SocketMap, Door::Rspamd][door];
        let requests = picked.iter().map(|one| match door {
            Door::SocketMap => ["10:list ok@b ,", "8:list a@b,"][one % 2].to_owned(),
            Door::Rspamd => format!("GET /?key={one}@b HTTP/1.1\r\nX: y\r\n\r\n"),
            Door::Policy | Door::Milter => match one {
                0 => about("RCPT", "1", "ok@b"),
                1 => about("RCPT", "1", "no@b"),
                2 => about("DATA", "1", ""),
                _ => about("RCPT", "2", "no@b"),
            },
        });
        let input: String = requests.collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len())).collect();
        cuts.sort_unstable();
        let (answers, _) = play(door, &input, &cuts, is_late);
        let (expected, _) = play(door, &input, &[], is_late);
        prop_assert_eq!(answers, expected);
    }
}
